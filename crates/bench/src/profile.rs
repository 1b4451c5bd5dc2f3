//! Where a run spends its CPU, by Linux's `perf`: who has it, and what of it is whose.
//!
//! A run that is watched is slower: its rate is no figure. Promises: each sample counts once, by its innermost
//! frame; what is in the kernel counts for the system call that it serves. Never: a profile of anything but the
//! process that is measured.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// Samples a second of each CPU, a number that no timer divides.
const HERTZ: &str = "999";

/// The system calls that are counted by themselves.
const CALLS: &[&str] = &[
    "sendto",
    "recvfrom",
    "write",
    "read",
    "writev",
    "epoll_wait",
    "epoll_ctl",
    "poll",
    "futex",
    "sched_yield",
    "connect",
    "close",
];

/// Where a frame belongs by the beginning of its name, behind `<` and `&`; the first that fits.
const PARTS: &[(&str, &str)] = &[
    ("headwater_connect::net::http_client", "HTTP: our client"),
    ("headwater_connectors::http", "HTTP: source and sink"),
    ("headwater_connect::net", "queues between threads"),
    ("headwater_server", "queues between threads"),
    ("headwater_connectors::kafka", "Kafka: our client"),
    ("headwater_connect::mapper", "mapper"),
    ("headwater_connect", "mapper"),
    ("headwater_engine", "engine"),
    ("headwater_event", "columns and values"),
    ("headwater_javatext", "engine"),
    ("httparse", "HTTP: libraries"),
    ("http::", "HTTP: libraries"),
    ("hyper", "HTTP: libraries"),
    ("tokio", "tokio"),
    ("mio", "tokio"),
    ("rd_", "librdkafka"),
    ("crc", "checksums and codecs"),
    ("mi_", "allocator"),
    ("_mi_", "allocator"),
    ("__mi_", "allocator"),
    ("__mem", "copying and comparing memory"),
    ("memchr", "copying and comparing memory"),
    ("alloc::", "Rust's own library"),
    ("core::", "Rust's own library"),
    ("std::", "Rust's own library"),
];

/// First address of the kernel.
const KERNEL: u64 = 0xffff_0000_0000_0000;

/// Rows of each part of a profile.
const SHOWN_MAX: usize = 16;

/// A process that is watched.
pub struct Watch {
    record: Child,
    stat: Child,
    data: PathBuf,
    counts: PathBuf,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Samples of each thread, by its name.
    threads: HashMap<String, u64>,
    parts: HashMap<String, u64>,
    /// Of the kernel.
    calls: HashMap<String, u64>,
    functions: HashMap<String, u64>,
    samples: u64,
    /// Counted by the kernel, over the whole time: system calls, context switches and others.
    counted: Vec<(String, f64)>,
}

impl Watch {
    /// Watches a process that runs. The files go below `dir`.
    ///
    /// # Errors
    /// There is no `perf`, or it may not watch.
    pub fn begin(process: u32, dir: &Path) -> anyhow::Result<Watch> {
        let (data, counts) = (dir.join("profile.data"), dir.join("profile.counts"));
        let process = process.to_string();
        let mut events = String::from("context-switches,cpu-migrations,raw_syscalls:sys_enter");
        for call in CALLS {
            events.push_str(&format!(",syscalls:sys_enter_{call}"));
        }
        let spawn = |args: &[&str], file: &Path| {
            let mut command = Command::new("perf");
            command
                .args(args)
                .arg("-o")
                .arg(file)
                .args(["-p", &process]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let child = command.spawn();
            child.context("cannot start 'perf'; it is in Debian's package linux-perf")
        };
        let stat = spawn(&["stat", "-x", ",", "-e", &events], &counts)?;
        settle(&process);
        Ok(Watch {
            record: spawn(&["record", "-q", "-g", "-F", HERTZ], &data)?,
            stat,
            data,
            counts,
        })
    }

    /// Stops watching.
    ///
    /// # Errors
    /// `perf` has not worked.
    pub fn end(mut self) -> anyhow::Result<Profile> {
        for child in [&mut self.record, &mut self.stat] {
            let id = child.id().to_string();
            // One that has ended with the process needs no signal.
            Command::new("kill")
                .args(["-INT", &id])
                .stderr(Stdio::null())
                .status()?;
            child.wait()?;
        }
        let mut script = Command::new("perf")
            .args(["script", "-F", "comm,ip,sym", "-i"])
            .arg(&self.data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start 'perf script'")?;
        let samples = script.stdout.take().context("it has no standard output")?;
        let mut profile = Profile::default();
        profile.add_samples(BufReader::new(samples))?;
        script.wait()?;
        let counts =
            std::fs::read_to_string(&self.counts).context("'perf stat' has counted nothing")?;
        profile.add_counts(&counts);
        ensure!(
            profile.samples > 0,
            "'perf' has taken no samples; see /proc/sys/kernel/perf_event_paranoid"
        );
        Ok(profile)
    }
}

/// Waits until a process starts no more threads: `perf record` watches those that it finds.
fn settle(process: &str) {
    const STEP: Duration = Duration::from_millis(20);
    const STEPS_MAX: usize = 100;
    const STEPS_ALIKE: usize = 5;
    let tasks = format!("/proc/{process}/task");
    let (mut threads, mut alike) = (0, 0);
    for _ in 0..STEPS_MAX {
        let now = std::fs::read_dir(&tasks).map_or(0, Iterator::count);
        alike = if now == threads { alike + 1 } else { 0 };
        threads = now;
        if alike >= STEPS_ALIKE && threads > 1 {
            return;
        }
        std::thread::park_timeout(STEP);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Of a run that has failed.
        for child in [&mut self.record, &mut self.stat] {
            if matches!(child.try_wait(), Ok(None)) {
                child.kill().ok();
                child.wait().ok();
            }
        }
    }
}

impl Profile {
    /// Reads what `perf script` prints: the name of a thread, its frames from the innermost on, an empty line.
    fn add_samples(&mut self, script: impl BufRead) -> anyhow::Result<()> {
        let (mut thread, mut frames) = (String::new(), Vec::new());
        for line in script.lines() {
            let line = line?;
            if line.is_empty() {
                self.add(&thread, &frames);
                frames.clear();
            } else if line.starts_with(char::is_whitespace) {
                let (address, name) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
                let address = u64::from_str_radix(address, 16).unwrap_or_default();
                frames.push((address >= KERNEL, name.to_owned()));
            } else {
                line.trim().clone_into(&mut thread);
            }
        }
        self.add(&thread, &frames);
        Ok(())
    }

    fn add(&mut self, thread: &str, frames: &[(bool, String)]) {
        let Some((is_kernel, innermost)) = frames.first() else {
            return;
        };
        let count = |of: &mut HashMap<String, u64>, name: &str| {
            *of.entry(name.to_owned()).or_default() += 1;
        };
        self.samples += 1;
        // Those of one kind differ by a number.
        let kind = thread.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ');
        count(&mut self.threads, kind);
        count(&mut self.functions, innermost);
        if !is_kernel {
            return count(&mut self.parts, part_of(innermost));
        }
        count(&mut self.parts, "kernel");
        let call = frames
            .iter()
            .find_map(|(_, name)| name.strip_prefix("__x64_sys_"));
        count(
            &mut self.calls,
            call.unwrap_or("interrupts, faults and the way in and out"),
        );
    }

    /// Reads what `perf stat -x ,` writes: a number, its unit, its name.
    fn add_counts(&mut self, stat: &str) {
        for line in stat.lines() {
            let mut fields = line.split(',');
            let number = fields.next().and_then(|number| number.parse::<f64>().ok());
            if let (Some(number), Some(name)) = (number, fields.nth(1)) {
                let name = name.rsplit("sys_enter_").next().unwrap_or(name);
                let name = match name {
                    "raw_syscalls:sys_enter" => "system calls",
                    "context-switches" => "context switches",
                    "cpu-migrations" => "moves to another core",
                    name => name,
                };
                self.counted.push((name.to_owned(), number));
            }
        }
    }

    /// As tables of a page, for so many events.
    pub fn in_words(&self, events: u64) -> String {
        let mut out = String::new();
        let mut table = |title: &str, of: &HashMap<String, u64>| {
            let mut rows: Vec<_> = of.iter().collect();
            rows.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
            out.push_str(&format!("\n| {title} | CPU % |\n|---|---|\n"));
            for (name, count) in rows.into_iter().take(SHOWN_MAX) {
                let share = 100.0 * *count as f64 / self.samples.max(1) as f64;
                out.push_str(&format!("| {} | {share:.1} |\n", name.replace('|', "\\|")));
            }
        };
        table("Thread", &self.threads);
        table("Part", &self.parts);
        table("Kernel, by system call", &self.calls);
        table("Function", &self.functions);
        out.push_str("\n| Counted by the kernel | per event |\n|---|---|\n");
        for (name, number) in self.counted.iter().filter(|(_, number)| *number > 0.0) {
            let each = number / events.max(1) as f64;
            if each >= 0.005 {
                out.push_str(&format!("| {name} | {each:.2} |\n"));
            }
        }
        out
    }
}

fn part_of(function: &str) -> &'static str {
    let name = function.trim_start_matches(['<', '&', '*']);
    let name = name.strip_prefix("mut ").unwrap_or(name);
    let found = PARTS.iter().find(|(start, _)| name.starts_with(start));
    match found {
        // A function of the library that was made for something of ours.
        Some((_, part @ "Rust's own library")) => {
            let inner = PARTS
                .iter()
                .find(|(start, _)| start.starts_with("headwater") && function.contains(start));
            inner.map_or(part, |(_, inner)| inner)
        }
        Some((_, part)) => part,
        None => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "network 1 \n\tffffffff81234567 tcp_ack\n\tffffffff81000000 __x64_sys_sendto\n\t    55d0 __send\n\n\
        network 2 \n\t    55d1 <headwater_connect::net::http_client::client::Client as x>::y\n\n\
        lane App\n\t    55d2 core::ptr::drop_in_place<headwater_event::value::Value>\n\n\
        lane App\n\tffffffff81234568 clear_page\n\n\
        lane App\n\t    55d3 mi_free\n";

    #[test]
    fn each_sample_counts_once_for_its_thread_and_its_part() {
        let mut profile = Profile::default();
        profile.add_samples(SCRIPT.as_bytes()).unwrap();
        profile.add_counts(
            "12,,context-switches,99,100.00,,\n30,,raw_syscalls:sys_enter,99,100.00,,\n\
             6,,syscalls:sys_enter_sendto,99,100.00,,\n<not counted>,,syscalls:sys_enter_poll,0,0.00,,\n",
        );
        let count = |of: &HashMap<String, u64>, name: &str| of.get(name).copied();
        assert_eq!(profile.samples, 5);
        assert_eq!(count(&profile.threads, "network"), Some(2));
        assert_eq!(count(&profile.threads, "lane App"), Some(3));
        for (part, samples) in [
            ("kernel", 2),
            ("HTTP: our client", 1),
            ("columns and values", 1),
            ("allocator", 1),
        ] {
            assert_eq!(count(&profile.parts, part), Some(samples), "{part}");
        }
        assert_eq!(count(&profile.calls, "sendto"), Some(1));
        let words = profile.in_words(6);
        for line in [
            "| kernel | 40.0 |",
            "| context switches | 2.00 |",
            "| system calls | 5.00 |",
            "| sendto | 1.00 |",
        ] {
            assert!(words.contains(line), "{line}: {words}");
        }
    }
}
