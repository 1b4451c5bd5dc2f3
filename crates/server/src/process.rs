//! What the operating system knows of this process: age, memory, processor time.
//!
//! Read from `/proc`; without it the numbers are those that this code can measure itself.

use std::fs;
use std::time::{Duration, Instant};

/// When this process began.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Age of the process when `since` was taken.
    age: Duration,
    since: Instant,
}

/// Clock ticks per second in `/proc`: fixed by the Linux interface at 100.
const TICKS: u64 = 100;

impl Process {
    /// To be called first thing in `main`. The age so far is known to 10 ms.
    pub fn begin() -> Process {
        Process {
            age: age().unwrap_or_default(),
            since: Instant::now(),
        }
    }

    /// Milliseconds since the process was started.
    pub fn millis(&self) -> u64 {
        u64::try_from((self.age + self.since.elapsed()).as_millis()).unwrap_or(u64::MAX)
    }

    pub fn seconds(&self) -> f64 {
        (self.age + self.since.elapsed()).as_secs_f64()
    }
}

fn age() -> Option<Duration> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let started = stat_field(22)? as f64 / TICKS as f64;
    Duration::try_from_secs_f64((uptime - started).max(0.0)).ok()
}

/// A field of `/proc/self/stat` by its number in proc(5). The name in field 2 may hold anything,
/// so counting starts behind its last parenthesis.
fn stat_field(number: usize) -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let behind_name = &stat[stat.rfind(')')? + 1..];
    behind_name.split_whitespace().nth(number - 3)?.parse().ok()
}

/// Processor time of all threads, user and system, in seconds; known to 10 ms.
pub fn cpu_seconds() -> f64 {
    let ticks = stat_field(14).unwrap_or(0) + stat_field(15).unwrap_or(0);
    ticks as f64 / TICKS as f64
}

/// Most memory that was resident at any time.
pub fn peak_rss_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// Memory that is resident now.
pub fn rss_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// A number of `/proc/self/status` that is given in kB there.
fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rest = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = rest.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}

/// When the process began, in seconds since 1970.
pub fn start_seconds() -> f64 {
    let age = age().unwrap_or_default().as_secs_f64();
    crate::clock::wall_millis() as f64 / 1000.0 - age
}

/// File descriptors that are open.
pub fn open_fds() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64)
}

/// The soft limit of [`open_fds`]; 0 where there is none that is known.
pub fn max_fds() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    soft.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_age_and_memory() {
        let process = Process::begin();
        let first = process.millis();
        assert!(process.millis() >= first);
        assert!(peak_rss_bytes() > 1 << 20);
        assert!(cpu_seconds() >= 0.0);
        assert!(rss_bytes() > 1 << 20 && rss_bytes() <= peak_rss_bytes());
        assert!((3..=max_fds()).contains(&open_fds()), "{}", open_fds());
        let age = crate::clock::wall_millis() as f64 / 1000.0 - start_seconds();
        assert!((0.0..3600.0).contains(&age), "{age}");
    }
}
