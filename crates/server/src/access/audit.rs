//! Who changed what over HTTP, or with `headwater users`: one JSON object per line, and the log.
//!
//! Promises: no text of a request can make a line of its own (JSON escapes what would); the files together
//! hold [`KEPT`] + 1 times [`BYTES_MAX`] at most; they are their owner's alone. A line survives a killed
//! process, but is not synced to the disk one by one. Never: a password or token; a body, but for the
//! text of a query that writes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use connect::retry::Burst;
use serde_json::json;

use crate::{clock, state};

/// Name of the newest file in a state directory. Older ones have `.1` (newest) to `.4` behind it.
pub const FILE: &str = "audit.jsonl";

/// Bytes of a file.
const BYTES_MAX: u64 = 8 << 20;

/// Older files that are kept.
const KEPT: u32 = 4;

/// Characters of a text in a line.
const TEXT_MAX: usize = 2000;

/// One line.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// `None`: nobody was logged in.
    pub user: Option<&'a str>,
    /// The address of the client; `command line` for commands on the server.
    pub from: &'a str,
    /// What was asked for.
    pub what: &'a str,
    /// More of it.
    pub detail: Option<&'a str>,
    /// `done`, `refused` or `failed`.
    pub outcome: &'static str,
    /// Of the answer.
    pub status: Option<u16>,
}

/// Writes entries.
#[derive(Default)]
pub struct Audit {
    /// `None`: to the log alone.
    path: Option<PathBuf>,
    file: Mutex<Option<(File, u64)>>,
    failures: Burst,
}

impl Audit {
    /// In a state directory, or in the log alone.
    pub fn new(dir: Option<&Path>) -> Audit {
        Audit {
            path: dir.map(|dir| dir.join(FILE)),
            ..Audit::default()
        }
    }

    /// A line that cannot be written is told in the log; what it says is there anyway.
    pub fn note(&self, entry: &Entry<'_>) {
        tracing::info!(
            user = entry.user.unwrap_or("-"),
            from = entry.from,
            what = bounded(entry.what),
            detail = entry.detail.map(bounded),
            outcome = entry.outcome,
            status = entry.status,
            "audit"
        );
        let Some(path) = &self.path else { return };
        let line = json!({
            "time": clock::timestamp(clock::wall_millis()),
            "user": entry.user,
            "from": entry.from,
            "what": bounded(entry.what),
            "detail": entry.detail.map(bounded),
            "outcome": entry.outcome,
            "status": entry.status,
        });
        if let Err(cause) = self.write(path, &format!("{line}\n"))
            && let Some(times) = self.failures.note()
        {
            let file = path.display().to_string();
            tracing::error!(file, %cause, times, "cannot write the audit log; its lines are in this log");
        }
    }

    fn write(&self, path: &Path, line: &str) -> io::Result<()> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut file, len) = match held.take() {
            Some((file, len)) if len + line.len() as u64 <= BYTES_MAX => (file, len),
            Some(_) => {
                rotate(path)?;
                open(path)?
            }
            None => match open(path)? {
                (_, len) if len + line.len() as u64 > BYTES_MAX => {
                    rotate(path)?;
                    open(path)?
                }
                opened => opened,
            },
        };
        file.write_all(line.as_bytes())?;
        *held = Some((file, len + line.len() as u64));
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = state::private(File::options().create(true).append(true)).open(path)?;
    let len = file.metadata()?.len();
    Ok((file, len))
}

fn rotate(path: &Path) -> io::Result<()> {
    let older = |n: u32| match n {
        0 => path.to_owned(),
        n => path.with_file_name(format!("{FILE}.{n}")),
    };
    for n in (0..KEPT).rev() {
        match fs::rename(older(n), older(n + 1)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
    }
    Ok(())
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(what: &'a str, detail: &'a str) -> Entry<'a> {
        Entry {
            user: Some("anna"),
            from: "127.0.0.1",
            what,
            detail: Some(detail),
            outcome: "done",
            status: Some(200),
        }
    }

    #[test]
    fn no_text_makes_a_line_of_its_own() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let audit = Audit::new(Some(dir.path()));
        let forged = "x\n{\"user\":\"bob\"}\r\u{2028}\u{1b}[2K\"";
        audit.note(&entry("PUT /a", forged));
        audit.note(&entry(forged, &"y".repeat(9000)));
        let text = fs::read_to_string(dir.path().join(FILE)).expect("it was written");
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is an object"))
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["detail"], forged);
        assert!(lines.iter().all(|line| line["user"] == "anna"));
        let long = lines[1]["detail"].as_str().expect("a text");
        assert_eq!(long.chars().count(), TEXT_MAX + 1);
    }

    #[test]
    fn files_are_bounded_in_size_and_number_and_private() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(FILE);
        for round in 0..KEPT + 3 {
            fs::write(&path, vec![b'\n'; BYTES_MAX as usize - 10]).expect("it can be written");
            // Opened anew, as by a server that is started again.
            let audit = Audit::new(Some(dir.path()));
            audit.note(&entry("PUT /a", &round.to_string()));
            audit.note(&entry("PUT /b", &round.to_string()));
        }
        let text = fs::read_to_string(&path).expect("it was written");
        assert_eq!(text.lines().count(), 2);
        let files = fs::read_dir(dir.path()).expect("it can be read").count();
        assert_eq!(files, KEPT as usize + 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
