//! Payloads that somebody has edited, kept beside the log until their events are replayed or purged.
//!
//! Each is a file of one record ([`event::record`]), named by the number of the event. It holds the time
//! of the event as well, so that it fits no other one that gets the same number after a crash.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use event::codec::{Reader, Writer};
use event::record::{Found, Records, put};

use super::removal::Runs;
use crate::error::Error;
use crate::state::write_whole;

/// Events of a log that may have edited payloads at a time.
pub(super) const EDITS_MAX: usize = 10_000;

/// What is known of an edited payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Edited {
    Payload(Vec<u8>),
    /// The file has changed since it was written.
    Damaged,
}

fn edit_path(log: &Path, number: u32) -> PathBuf {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    log.with_file_name(format!("{name}.edited-{number}"))
}

/// The numbers of the events of a log that have edited payloads.
pub(super) fn numbers(log: &Path) -> Vec<u32> {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    let begin = format!("{name}.edited-");
    let entries = log.parent().and_then(|dir| fs::read_dir(dir).ok());
    let names = entries.into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let numbers = names.filter_map(|name| name.strip_prefix(&begin)?.parse().ok());
    numbers.collect()
}

/// All edited payloads of a log, with the times of their events.
pub(super) fn all(log: &Path) -> HashMap<u32, (i64, Edited)> {
    let numbers = numbers(log).into_iter();
    numbers.map(|number| (number, read(log, number))).collect()
}

fn read(log: &Path, number: u32) -> (i64, Edited) {
    let found = || {
        let bytes = fs::read(edit_path(log, number)).ok()?;
        let mut records = Records::new(bytes.as_slice(), 0, None);
        let Ok(Some(Found::Record {
            number: n, record, ..
        })) = records.next()
        else {
            return None;
        };
        let mut reader = Reader::new(record);
        let time = reader.i64().ok()?;
        let payload = reader.blob().ok()?.to_vec();
        (n == Some(number)).then_some((time, Edited::Payload(payload)))
    };
    found().unwrap_or((0, Edited::Damaged))
}

/// Keeps a payload for the event of a number and time.
pub(super) fn keep(log: &Path, number: u32, time: i64, payload: &[u8]) -> Result<(), Error> {
    let mut writer = Writer::default();
    writer.i64(time);
    writer.blob(payload);
    let mut bytes = Vec::new();
    put(0, number, &writer.bytes, &mut bytes);
    write_whole(&edit_path(log, number), &[&bytes])
}

/// The event has the payload with which it came again. True: it had another.
pub(super) fn discard(log: &Path, number: u32) -> Result<bool, Error> {
    let path = edit_path(log, number);
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(Error::file("remove", path)(cause)),
    }
}

/// Those of events that are gone. One that stays behind fits no other event.
pub(super) fn remove(log: &Path, runs: &Runs) {
    for number in numbers(log) {
        if runs.has_number(number) {
            fs::remove_file(edit_path(log, number)).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_payload_proves_itself() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let log = root.path().join("rejected");
        keep(&log, 7, 5, b"{\"a\":1}").expect("writes");
        let whole = (5, Edited::Payload(b"{\"a\":1}".to_vec()));
        assert_eq!(all(&log), HashMap::from([(7, whole)]));
        let path = edit_path(&log, 7);
        let bytes = fs::read(&path).expect("reads");
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, flipped).expect("writes");
            assert_eq!(all(&log)[&7].1, Edited::Damaged, "{at}");
        }
        assert_eq!(discard(&log, 7).ok(), Some(true));
        assert_eq!(discard(&log, 7).ok(), Some(false));
        assert!(all(&log).is_empty());
    }
}
