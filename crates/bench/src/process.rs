//! A process that is measured from outside: what the kernel counts of it and of those that it has started.

use std::fs;
use std::process::{Child, Command};

use anyhow::{Context as _, ensure};

/// Clock ticks per second in `/proc`: fixed by the Linux interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// Ended by force where it was not stopped before.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> anyhow::Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Process { child, name })
    }

    /// It and those that it has started, the latter one level deep.
    fn ids(&self) -> Vec<String> {
        let own = self.child.id().to_string();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let children = children.unwrap_or_default();
        let mut ids: Vec<String> = children.split_whitespace().map(str::to_owned).collect();
        ids.insert(0, own);
        ids
    }

    fn of_proc(&self, file: &str) -> anyhow::Result<Vec<String>> {
        let read = |id: &String| fs::read_to_string(format!("/proc/{id}/{file}"));
        let texts: Result<Vec<String>, _> = self.ids().iter().map(read).collect();
        texts.with_context(|| format!("{} has gone", self.name))
    }

    /// User and system time.
    ///
    /// # Errors
    /// It has gone.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let mut all = 0.0;
        for stat in self.of_proc("stat")? {
            // Behind the name, which may hold blanks: state is field 3, utime and stime are 14 and 15.
            let (_, fields) = stat.rsplit_once(')').context("a name in parentheses")?;
            let fields: Vec<&str> = fields.split_whitespace().collect();
            for at in [11, 12] {
                let ticks = fields.get(at).context("times of the process")?;
                all += ticks.parse::<f64>()? / TICKS_PER_SECOND;
            }
        }
        Ok(all)
    }

    /// The most that it had resident, bytes.
    ///
    /// # Errors
    /// It has gone.
    pub fn peak_rss(&self) -> anyhow::Result<u64> {
        self.kilobytes("status", "VmHWM:")
    }

    /// What it holds of memory, bytes; pages that several share count in parts.
    ///
    /// # Errors
    /// It has gone.
    pub fn pss(&self) -> anyhow::Result<u64> {
        self.kilobytes("smaps_rollup", "Pss:")
    }

    fn kilobytes(&self, file: &str, field: &str) -> anyhow::Result<u64> {
        let mut all = 0;
        for text in self.of_proc(file)? {
            let line = text.lines().find_map(|line| line.strip_prefix(field));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            all += number.with_context(|| format!("the kernel says no {field}"))? * 1024;
        }
        Ok(all)
    }

    /// Ends it as a crash does.
    ///
    /// # Errors
    /// The system does not let us.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// It did not end well.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().to_string();
        let stopped = Command::new("kill").arg(id).status()?;
        ensure!(stopped.success(), "{} cannot be stopped", self.name);
        let status = self.child.wait()?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Of a run that failed; one that was stopped is gone already. Workers end with their master.
        let id = self.child.id().to_string();
        if matches!(self.child.try_wait(), Ok(None)) {
            Command::new("kill").arg(id).status().ok();
            self.child.wait().ok();
        }
    }
}
