//! A `curl` that holds a URL open and writes what comes into a file.

use std::process::{Child, Command, Stdio};

use super::eventually;

/// Gone when dropped.
pub struct Reader {
    child: Child,
    path: String,
}

impl Reader {
    /// Starts one that writes into the file at `path`, which must not be there yet.
    pub fn start(path: String, args: &[&str]) -> Reader {
        let child = Command::new("curl")
            .args(["-sN", "-o", &path, "--max-time", "300"])
            .args(args)
            .stdin(Stdio::null())
            .spawn()
            .expect("curl is installed");
        Reader { child, path }
    }

    /// Starts one, and waits for the first line, by which a stream says that it is there.
    pub fn open(path: String, args: &[&str]) -> Reader {
        let reader = Reader::start(path, args);
        eventually("the stream", || !reader.got().is_empty());
        reader
    }

    /// What has come so far, without carriage returns.
    pub fn got(&self) -> String {
        std::fs::read_to_string(&self.path)
            .unwrap_or_default()
            .replace('\r', "")
    }

    /// The values of a field of server-sent events, `field` with its colon and space.
    pub fn of(&self, field: &str) -> Vec<String> {
        let text = self.got();
        let lines = text.lines().filter_map(|line| line.strip_prefix(field));
        lines.map(str::to_owned).collect()
    }

    pub fn data(&self) -> Vec<String> {
        self.of("data: ")
    }

    /// How often a whole line has come.
    pub fn count(&self, line: &str) -> usize {
        self.got().lines().filter(|own| *own == line).count()
    }

    /// Waits for the end of the stream; was it one in order?
    pub fn ends(&mut self) -> bool {
        self.child.wait().expect("it can be waited for").success()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
