//! The files that a log of rejected events consists of.
//!
//! A log is one row of bytes, cut into files: `rejected` has its first bytes, and
//! `rejected-00000000000067108864` those from there on. Places in a log never change, also after
//! its oldest files have been removed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use event::record::{Damage, End, Found, Older, Records};

use super::record::MARK_BEFORE;
use super::{REMOVED, gap_records};

/// A file of a log.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub path: PathBuf,
    /// Place of its first byte in the log.
    pub start: u64,
    pub len: u64,
    /// Bytes that it takes on the disk.
    pub disk: u64,
    /// Number of its first record, where it has one that is whole.
    pub first: Option<u32>,
}

impl Segment {
    pub fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// Path of the file of a log that begins at a place.
pub(super) fn segment_path(log: &Path, start: u64) -> PathBuf {
    match start {
        0 => log.to_owned(),
        _ => {
            let name = log.file_name().unwrap_or_default().to_string_lossy();
            log.with_file_name(format!("{name}-{start:020}"))
        }
    }
}

/// Bytes of a file without its holes.
pub(super) fn disk_bytes(metadata: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.len().min(metadata.blocks() * 512)
}

/// The files of a log, oldest first.
pub(super) fn segments(log: &Path) -> io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    let dir = log.parent().unwrap_or(Path::new("."));
    let wanted = log.file_name().unwrap_or_default().to_string_lossy();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let start = match name.strip_prefix(&*wanted) {
            Some("") => Some(0),
            Some(rest) => rest
                .strip_prefix('-')
                .filter(|digits| digits.len() == 20)
                .and_then(|digits| digits.parse().ok()),
            None => None,
        };
        let Some(start) = start else { continue };
        // It may be dropped while it is looked at.
        if let Ok(metadata) = entry.metadata() {
            found.push(Segment {
                path: entry.path(),
                start,
                len: metadata.len(),
                disk: disk_bytes(&metadata),
                first: None,
            });
        }
    }
    found.sort_by_key(|segment| segment.start);
    Ok(found)
}

/// How records stood in the file before they had numbers.
static OLDER: Older = Older {
    head: 8,
    length: |head| {
        const RECORD_MAX: u32 = 1 << 20;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        (1..=RECORD_MAX)
            .contains(&length)
            .then_some(length as usize)
    },
    fits: |head, record| head[4..8] == crc32fast::hash(record).to_le_bytes(),
    begins: |first| first == MARK_BEFORE,
};

/// What a log has, piece by piece.
#[derive(Debug)]
pub(super) enum Piece {
    /// A whole record; its bytes are in [`LogReader::record`].
    Record(Placed),
    /// Bytes that were found damaged at an earlier start, which have been set aside.
    Gap {
        bytes: u64,
        records: Option<u32>,
    },
    Damage(Damage),
}

/// Where a record lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    /// Place of its head in the log.
    pub at: u64,
    /// Bytes with its head.
    pub bytes: u64,
    /// Its number, where it is known.
    pub number: Option<u32>,
    /// Place of the first byte of its file.
    pub segment: u64,
    /// It has the frame of versions before, which cannot be written over.
    pub is_fixed: bool,
}

/// Reads a log from front to back.
#[derive(Debug)]
pub(super) struct LogReader {
    pub segments: Vec<Segment>,
    index: usize,
    reader: Option<Records<io::Take<File>>>,
    /// Up to where it is known to have been durable.
    durable: u64,
    /// Nothing is read from there on.
    stop: u64,
    /// Place up to which it has been read.
    at: u64,
    /// Number of the next record, where it is known.
    pub next: Option<u32>,
    pub record: Vec<u8>,
}

impl LogReader {
    /// `durable` is 0 where it is not known.
    pub fn open(log: &Path, durable: u64, stop: u64) -> io::Result<LogReader> {
        let mut segments = segments(log)?;
        let oldest = segments.first().map_or(0, |segment| segment.start);
        segments.retain(|segment| segment.start < stop || segment.start == 0);
        // All of it may have been dropped since.
        let at = oldest.min(stop);
        Ok(LogReader {
            segments,
            index: 0,
            reader: None,
            durable,
            stop,
            at,
            next: (at == 0).then_some(0),
            record: Vec::new(),
        })
    }

    /// Goes on at the place of a record of this number.
    pub fn start_at(&mut self, place: u64, number: u32) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        let at = self.segments.iter().rposition(|s| s.start <= place);
        let Some(index) = at else { return Ok(()) };
        self.index = index;
        self.next = Some(number);
        self.at = place;
        let segment = &self.segments[index];
        let mut file = File::open(&segment.path)?;
        file.seek(SeekFrom::Start(place - segment.start))?;
        let limit = self.end().map_or(u64::MAX, |end| end - place.min(end));
        let older = (segment.start == 0).then_some(&OLDER);
        self.reader = Some(Records::new(file.take(limit), place, older));
        Ok(())
    }

    /// Number of the first record of a file, by its place in the row.
    pub fn first_number(&self, index: usize) -> io::Result<Option<u32>> {
        let Some(segment) = self.segments.get(index) else {
            return Ok(None);
        };
        let older = (segment.start == 0).then_some(&OLDER);
        let mut records = Records::new(File::open(&segment.path)?, segment.start, older);
        Ok(match records.next()? {
            Some(Found::Record { number, .. }) if segment.start > 0 => number,
            Some(Found::Record { number, .. }) => Some(number.unwrap_or(0)),
            _ => None,
        })
    }

    /// Goes to the file that has the record of a number, where that is known.
    pub fn seek_number(&mut self, number: u32) -> io::Result<()> {
        for index in (0..self.segments.len()).rev() {
            if let Some(first) = self.first_number(index)?
                && first <= number
            {
                let start = self.segments[index].start;
                return self.start_at(start, first);
            }
        }
        Ok(())
    }

    /// Where the file that is being read must end, if that is known.
    fn end(&self) -> Option<u64> {
        let next = self.segments.get(self.index + 1);
        match next {
            Some(next) => Some(next.start),
            None if self.stop < u64::MAX => Some(self.stop),
            None => None,
        }
    }

    pub fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            if self.reader.is_none() && !self.open_segment()? {
                // No file holds it any more.
                let end = if self.stop < u64::MAX {
                    self.stop
                } else {
                    self.durable
                };
                let missing = end.saturating_sub(self.at);
                let damage = self.missing(missing);
                return Ok((missing > 0).then_some(Piece::Damage(damage)));
            }
            let end = self.end();
            let Some(reader) = &mut self.reader else {
                continue;
            };
            reader.expect(self.next);
            let found = match reader.next()? {
                None => None,
                Some(Found::Damage(damage)) => Some(Err(damage)),
                Some(Found::Record { at, number, record }) => {
                    self.record.clear();
                    self.record.extend_from_slice(record);
                    Some(Ok((at, number)))
                }
            };
            let next = reader.next_number();
            self.at = reader.position();
            match found {
                Some(Ok((at, number))) => {
                    self.next = next;
                    let segment = &mut self.segments[self.index];
                    segment.first = segment.first.or(number).or(next.map(|n| n.wrapping_sub(1)));
                    if let Some(records) = gap_records(&self.record) {
                        let count = number.zip(records);
                        self.next = count.map(|(number, count)| number.wrapping_add(count));
                        if self.record[0] == REMOVED {
                            continue;
                        }
                        let bytes = (event::record::HEAD_LEN + self.record.len()) as u64;
                        return Ok(Some(Piece::Gap { bytes, records }));
                    }
                    return Ok(Some(Piece::Record(Placed {
                        at,
                        bytes: self.at - at,
                        number: next.map(|next| next.wrapping_sub(1)),
                        segment: segment.start,
                        is_fixed: number.is_none(),
                    })));
                }
                Some(Err(damage)) if damage.end.is_none() => {
                    self.next = None;
                    return Ok(Some(Piece::Damage(damage)));
                }
                rest => {
                    let rest = rest.and_then(Result::err);
                    self.reader = None;
                    if let Some(piece) = self.end_of_file(rest, end) {
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }

    /// `false` behind the last file.
    fn open_segment(&mut self) -> io::Result<bool> {
        let Some(segment) = self.segments.get(self.index) else {
            return Ok(false);
        };
        let file = match File::open(&segment.path) {
            // A server that is running has dropped its oldest file meanwhile.
            Err(e)
                if e.kind() == io::ErrorKind::NotFound
                    && self.index == 0
                    && self.segments.len() > 1 =>
            {
                self.segments.remove(0);
                self.next = None;
                return self.open_segment();
            }
            file => file?,
        };
        let limit = self
            .end()
            .map_or(u64::MAX, |end| end - segment.start.min(end));
        let older = (segment.start == 0).then_some(&OLDER);
        self.at = segment.start;
        self.reader = Some(Records::new(file.take(limit), segment.start, older));
        Ok(true)
    }

    /// A file has been read. Is there something amiss with its end?
    fn end_of_file(&mut self, rest: Option<Damage>, end: Option<u64>) -> Option<Piece> {
        self.index += 1;
        let at = rest.map_or(self.at, |rest| rest.at);
        let is_torn = rest.is_none_or(|rest| rest.end == Some(End::Torn));
        let end = match end {
            Some(end) => end,
            // Nobody knows of what comes behind what was durable.
            None if is_torn && at >= self.durable => {
                return rest.map(Piece::Damage);
            }
            None => self.at.max(self.durable),
        };
        self.at = self.at.max(end);
        let bytes = end.saturating_sub(at);
        let records = rest.and_then(|rest| rest.records);
        (bytes > 0).then(|| {
            self.next = None;
            Piece::Damage(Damage {
                at,
                bytes,
                records,
                end: Some(End::Changed),
            })
        })
    }

    fn missing(&mut self, bytes: u64) -> Damage {
        let at = self.at;
        self.at += bytes;
        Damage {
            at,
            bytes,
            records: None,
            end: Some(End::Changed),
        }
    }
}

impl LogReader {
    /// Place in the log up to which it has been read.
    pub fn at(&self) -> u64 {
        self.at
    }
}
