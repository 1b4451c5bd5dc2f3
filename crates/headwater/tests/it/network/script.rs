//! Peers in Python, with the libraries that others speak a protocol with.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::Said;

/// That of the system, for which its packages bring modules.
const PYTHON: &str = "/usr/bin/python3";

/// A Python program that runs: lines go in, lines come out. Gone when dropped.
pub struct Script {
    child: Child,
    input: ChildStdin,
    out: Said,
}

impl Script {
    /// `None`, which is said, where Python has no such module; unless `HEADWATER_SERVERS=required` asks
    /// for all that tests can use.
    pub fn start_or_skip(module: &str, program: &str, args: &[&str]) -> Option<Script> {
        let found = Command::new(PYTHON)
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .status();
        if !found.is_ok_and(|status| status.success()) {
            let is_required =
                std::env::var_os("HEADWATER_SERVERS").is_some_and(|v| v == "required");
            assert!(!is_required, "Python has no module '{module}'");
            eprintln!("skipped: Python has no module '{module}'");
            return None;
        }
        let mut child = Command::new(PYTHON)
            .args(["-u", "-c", program])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python is there");
        let out = Said::default();
        out.follow(child.stdout.take().expect("piped"));
        Some(Script {
            input: child.stdin.take().expect("piped"),
            child,
            out,
        })
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
    }

    #[track_caller]
    pub fn has(&self, text: &str, times: usize) {
        self.out
            .wait_for(text, |said| said.matches(text).count() >= times);
    }

    /// What follows `prefix` on the lines that begin with it.
    pub fn lines(&self, prefix: &str) -> Vec<String> {
        let text = self.out.get();
        let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        lines.map(str::to_owned).collect()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    }

    /// It stays there and does nothing, until [`Script::thaw`].
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
