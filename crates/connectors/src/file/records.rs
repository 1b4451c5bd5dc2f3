//! Records between two patterns (mode `regex`), found in a file that is read piece by piece.
//!
//! A record runs from a match of the begin pattern to the next match of the end pattern, both
//! included. With a begin pattern alone it runs to where the next record begins, the last one to the
//! end of the file; with an end pattern alone it begins where the one before it ended. Text outside
//! is dropped. A match that touches the end of what has been read is looked at again with more text,
//! so pieces are never observable.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use regex::bytes::Regex;

/// Bytes that a record may have; a longer one is reported and passed over.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Text before a match of the begin pattern that is kept, in case a match begins in it.
const MATCH_BYTES_MAX: usize = 64 << 10;

const READ_BYTES: usize = 256 << 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// See [`RecordReader::record`].
    Record {
        range: Range<usize>,
        offset: u64,
        is_last: bool,
    },
    /// A record that would be longer than [`RECORD_BYTES_MAX`] begins at this byte.
    TooLong { offset: u64 },
    /// Nothing more for now.
    End,
}

pub struct RecordReader {
    file: File,
    begin: Option<Regex>,
    end: Option<Regex>,
    buffer: Vec<u8>,
    start: usize,
    /// Byte in the file at `start`.
    offset: u64,
    at_end: bool,
    follow: bool,
    /// A record that waits to be known as the last one or not.
    held: Option<Range<usize>>,
    read_bytes: usize,
    record_max: usize,
}

impl RecordReader {
    /// Reads on at `offset`. A followed file gives each record at once, and its last one without an
    /// end only when the next begins.
    pub fn new(
        mut file: File,
        offset: u64,
        begin: Option<Regex>,
        end: Option<Regex>,
        follow: bool,
    ) -> io::Result<RecordReader> {
        file.seek(SeekFrom::Start(offset))?;
        Ok(RecordReader {
            file,
            begin,
            end,
            buffer: Vec::new(),
            start: 0,
            offset,
            at_end: false,
            follow,
            held: None,
            read_bytes: READ_BYTES,
            record_max: RECORD_BYTES_MAX,
        })
    }

    /// Byte in the file behind the record last given.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// A followed file is complete: its last record runs to the end.
    pub fn finish(&mut self) {
        self.follow = false;
    }

    /// The bytes of a record; valid until the next call of [`RecordReader::read_step`].
    pub fn record(&self, range: &Range<usize>) -> &[u8] {
        &self.buffer[range.clone()]
    }

    pub fn read_step(&mut self) -> io::Result<Step> {
        loop {
            let from = self.held.as_ref().map_or(self.start, |held| held.end);
            if let Some(found) = self.find(from) {
                if self.follow {
                    return Ok(self.give(found, false));
                }
                if let Some(held) = self.held.replace(found) {
                    let after = self.held.take();
                    let step = self.give(held, false);
                    self.held = after;
                    return Ok(step);
                }
                continue;
            }
            if self.at_end && !self.follow {
                return Ok(match self.held.take() {
                    Some(held) => self.give(held, true),
                    None => Step::End,
                });
            }
            if let Some(step) = self.make_room(from) {
                return Ok(step);
            }
            self.fill()?;
            if self.at_end && self.follow {
                self.at_end = false;
                let from = self.start;
                if self.find(from).is_none() {
                    return Ok(Step::End);
                }
            }
        }
    }

    fn give(&mut self, range: Range<usize>, is_last: bool) -> Step {
        let offset = self.offset + (range.start - self.start) as u64;
        self.offset += (range.end - self.start) as u64;
        self.start = range.end;
        Step::Record {
            range,
            offset,
            is_last,
        }
    }

    /// The next record at or behind `from`, if it cannot change with more text.
    fn find(&self, from: usize) -> Option<Range<usize>> {
        let is_whole = self.at_end && !self.follow;
        let text = &self.buffer;
        let certain = |found: regex::bytes::Match<'_>| {
            (is_whole || found.end() < text.len()).then(|| found.range())
        };
        let begin = match &self.begin {
            Some(begin) => certain(begin.find_at(text, from)?)?,
            None => from..from,
        };
        match &self.end {
            Some(end) => {
                let end = certain(end.find_at(text, begin.end)?)?;
                (end.end > begin.start).then_some(begin.start..end.end)
            }
            None => {
                let next = self.begin.as_ref().and_then(|next| {
                    next.find_at(text, begin.end.max(begin.start + 1).min(text.len()))
                });
                match next.map(certain) {
                    Some(Some(next)) => Some(begin.start..next.start),
                    Some(None) => None,
                    None if is_whole && begin.start < text.len() => Some(begin.start..text.len()),
                    None => None,
                }
            }
        }
    }

    /// Drops text that no record can begin in; a record that grows too long is given up.
    fn make_room(&mut self, from: usize) -> Option<Step> {
        let filled = self.buffer.len();
        let start = match &self.begin {
            Some(begin) => match begin.find_at(&self.buffer, from) {
                Some(found) => found.start(),
                None => filled.saturating_sub(MATCH_BYTES_MAX).max(from),
            },
            None => from,
        };
        if self.held.is_none() {
            self.skip_to(start);
        }
        if filled - start <= self.record_max {
            return None;
        }
        if let Some(held) = self.held.take() {
            return Some(self.give(held, false));
        }
        let offset = self.offset;
        // The next record may begin anywhere behind the begin of this one.
        self.skip_to(if self.begin.is_some() {
            start + 1
        } else {
            filled
        });
        Some(Step::TooLong { offset })
    }

    fn skip_to(&mut self, at: usize) {
        self.offset += (at - self.start) as u64;
        self.start = at;
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            if let Some(held) = &mut self.held {
                *held = held.start - self.start..held.end - self.start;
            }
            self.start = 0;
        }
        let filled = self.buffer.len();
        // A record of many pieces is searched again with each: pieces grow with it.
        self.buffer.resize(filled + self.read_bytes.max(filled), 0);
        let count = loop {
            match self.file.read(&mut self.buffer[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.buffer.truncate(filled + count);
        self.at_end = count == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn records(
        content: &str,
        begin: Option<&str>,
        end: Option<&str>,
        read_bytes: usize,
    ) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let regex = |text: Option<&str>| text.map(|text| Regex::new(text).unwrap());
        let mut reader = RecordReader::new(file, 0, regex(begin), regex(end), false).unwrap();
        (reader.read_bytes, reader.record_max) = (read_bytes, 40);
        let mut all = Vec::new();
        loop {
            match reader.read_step().unwrap() {
                Step::Record {
                    range,
                    offset,
                    is_last,
                } => {
                    let text = String::from_utf8(reader.record(&range).to_vec()).unwrap();
                    assert_eq!(content[offset as usize..][..text.len()], text);
                    assert_eq!(reader.offset(), offset + text.len() as u64);
                    all.push(text + if is_last { "!" } else { "" });
                }
                Step::TooLong { offset } => all.push(format!("<{offset}")),
                Step::End => return all,
            }
        }
    }

    fn check(content: &str, begin: Option<&str>, end: Option<&str>, expect: &[&str]) {
        for read_bytes in [1, 2, 3, 7, 1024] {
            let found = records(content, begin, end, read_bytes);
            assert_eq!(found, expect, "{content:?} read by {read_bytes}");
        }
    }

    #[test]
    fn records_between_two_patterns() {
        check(
            "x<a>1</a>\n<a>2\n3</a> y",
            Some("<a>"),
            Some("</a>"),
            &["<a>1</a>", "<a>2\n3</a>!"],
        );
        check("nothing here", Some("<a>"), Some("</a>"), &[]);
        check("<a>open", Some("<a>"), Some("</a>"), &[]);
    }

    #[test]
    fn records_from_begin_to_begin() {
        check(
            "x#1 a\nb#22 c#3",
            Some("#[0-9]+"),
            None,
            &["#1 a\nb", "#22 c", "#3!"],
        );
        check("", Some("#"), None, &[]);
    }

    #[test]
    fn records_from_end_to_end() {
        check("a;b\n;c", None, Some(";"), &["a;", "b\n;!"]);
    }

    #[test]
    fn a_greedy_end_is_not_cut_by_a_piece() {
        check("<1234><5>", Some("<"), Some("[0-9]+"), &["<1234", "<5!"]);
    }

    #[test]
    fn a_record_that_is_too_long_is_passed_over() {
        let content = format!("<a>{}<a>2</a>", "x".repeat(80));
        let found = records(&content, Some("<a>"), Some("</a>"), 8);
        assert_eq!(found.first().map(String::as_str), Some("<0"));
        assert_eq!(found.last().map(String::as_str), Some("<a>2</a>!"));
    }
}
