//! An independent client that prints what a server has as soon as it has it. One that reads to the end may
//! never get there while events go on.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

/// Makes a topic, without which a reader ends, by a record in a partition that nobody reads.
pub fn make_topic(broker: &str, topic: &str, dir: &Path) -> anyhow::Result<()> {
    let record = dir.join("record");
    fs::write(&record, "x")?;
    let mut write = Command::new("kcat");
    write.args(["-q", "-b", broker, "-P", "-t", topic, "-p", "1"]);
    testservers::run(write.arg(&record))?;
    Ok(())
}

pub struct Follower {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Follower {
    pub fn start(client: &mut Command) -> anyhow::Result<Follower> {
        let name = client.get_program().to_string_lossy().into_owned();
        let mut child = client
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("the command '{name}' is needed (package of that name)"))?;
        let output = child.stdout.take().context("the client has no output")?;
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let own = Arc::clone(&lines);
        // It ends with the client.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                own.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
            }
        });
        Ok(Follower { child, lines })
    }

    /// What it has printed so far.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock();
        lines.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn count(&self) -> u64 {
        let lines = self.lines.lock();
        lines.unwrap_or_else(PoisonError::into_inner).len() as u64
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // One that has ended is gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
