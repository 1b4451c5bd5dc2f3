//! Records in a file that only grows: each proves itself, and what is missing between them is told.
//!
//! A record has a head of [`HEAD_LEN`] bytes in front of it:
//!
//! ```text
//! 4  mark
//! 4  length of the record
//! 4  number of the record in its log
//! 4  CRC-32 of the record
//! 4  CRC-32 of the record's place in the log (8 bytes) and of the 16 bytes before
//! ```
//!
//! All numbers are little-endian. The place makes a record good for nothing elsewhere: neither a
//! block that was put at a wrong place nor a record inside of another one's text is taken for one.
//! The number tells how many records are gone where bytes are damaged.
//!
//! [`Records`] reads such a file from front to back. It steps over damage to the next whole record,
//! and it tells an end that was never whole ([`End::Torn`]) from one that has changed since.
//!
//! Never: a decision about what to do with damage. Whoever knows how much was durable decides.

use std::io::{self, Read};

/// Bytes in front of each record.
pub const HEAD_LEN: usize = 20;

/// Bytes of the longest record.
pub const RECORD_MAX: usize = 80 << 20;

/// Its last byte makes it no length of a record of the format before, which began with that.
const MARK: [u8; 4] = *b"HWR\x02";

/// Bytes read at once.
const BLOCK: usize = 256 << 10;

/// So many zeros at the end are room that was made for a record and not written to.
const ZEROS_MIN: u64 = 16;

/// How records were framed before: a length, some checksum, the record.
#[derive(Debug)]
pub struct Older {
    /// Bytes of the head.
    pub head: usize,
    /// The length that a head says, where one can have it.
    pub length: fn(&[u8]) -> Option<usize>,
    /// Is it the head of this record?
    pub fits: fn(&[u8], &[u8]) -> bool,
    /// Can a record begin with this byte?
    pub begins: fn(u8) -> bool,
}

/// What a file has at a place.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    Record {
        /// Place of its head in the log.
        at: u64,
        /// Records of the format before have none.
        number: Option<u32>,
        record: &'a [u8],
    },
    Damage(Damage),
}

/// Bytes that are no whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Place in the log.
    pub at: u64,
    pub bytes: u64,
    /// How many records they held, where that is known.
    pub records: Option<u32>,
    /// No whole record follows.
    pub end: Option<End>,
}

/// How a file ends that does not end with a whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In the first part of a record: a crash leaves that of a write that was on its way.
    Torn,
    /// No crash leaves that: bytes have changed since they were written.
    Changed,
}

/// Puts a record behind `into`.
///
/// `at` is the place of its head in the log. The record may have [`RECORD_MAX`] bytes at most.
pub fn put(at: u64, number: u32, record: &[u8], into: &mut Vec<u8>) {
    debug_assert!(record.len() <= RECORD_MAX, "a record of {}", record.len());
    let mut head = [0; HEAD_LEN];
    head[..4].copy_from_slice(&MARK);
    head[4..8].copy_from_slice(&(record.len() as u32).to_le_bytes());
    head[8..12].copy_from_slice(&number.to_le_bytes());
    head[12..16].copy_from_slice(&crc32fast::hash(record).to_le_bytes());
    let crc = head_crc(at, &head);
    head[16..].copy_from_slice(&crc.to_le_bytes());
    into.extend_from_slice(&head);
    into.extend_from_slice(record);
}

fn head_crc(at: u64, head: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&at.to_le_bytes());
    crc.update(&head[..16]);
    crc.finalize()
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]))
}

/// What there is at the front of what is still to be read.
enum Front {
    Whole {
        head: usize,
        len: usize,
        number: Option<u32>,
    },
    /// A record of so many bytes with its head, which are not all there or have changed.
    Broken(usize),
    Nothing,
}

/// Reads the records of a file.
#[derive(Debug)]
pub struct Records<R> {
    from: R,
    older: Option<&'static Older>,
    window: Vec<u8>,
    /// Where what is still to be read begins in the window.
    start: usize,
    /// Its place in the log.
    at: u64,
    is_at_end: bool,
    /// Number of the next record, where it is known.
    next: Option<u32>,
}

impl<R: Read> Records<R> {
    /// `at` is the place in the log of what is read first.
    pub fn new(from: R, at: u64, older: Option<&'static Older>) -> Records<R> {
        Records {
            from,
            older,
            window: Vec::new(),
            start: 0,
            at,
            is_at_end: false,
            next: None,
        }
    }

    /// Number of the record that comes next, where it is known.
    pub fn next_number(&self) -> Option<u32> {
        self.next
    }

    /// The next record is to have this number.
    pub fn expect(&mut self, next: Option<u32>) {
        self.next = next;
    }

    /// Place in the log up to which it has been read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next record, or what there is in its place. `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    #[allow(clippy::should_implement_trait)] // What it gives lies in the reader.
    pub fn next(&mut self) -> io::Result<Option<Found<'_>>> {
        if self.ahead(1)? == 0 {
            return Ok(None);
        }
        let Front::Whole { head, len, number } = self.front(0)? else {
            return self.step_over().map(|damage| Some(Found::Damage(damage)));
        };
        let at = self.at;
        let begin = self.start + head;
        self.take(head + len);
        self.next = number.or(self.next).map(|n| n.wrapping_add(1));
        if number.is_some() {
            // What was written before this format came lies before it.
            self.older = None;
        }
        Ok(Some(Found::Record {
            at,
            number,
            record: &self.window[begin..begin + len],
        }))
    }

    /// Bytes that can be read, as many as are asked for or all that are left.
    fn ahead(&mut self, count: usize) -> io::Result<usize> {
        while !self.is_at_end && self.window.len() - self.start < count {
            if self.start >= BLOCK {
                self.window.drain(..self.start);
                self.start = 0;
            }
            let missing = count - (self.window.len() - self.start);
            let wanted = missing.max(BLOCK) as u64;
            let read = (&mut self.from)
                .take(wanted)
                .read_to_end(&mut self.window)?;
            self.is_at_end = (read as u64) < wanted;
        }
        Ok((self.window.len() - self.start).min(count))
    }

    fn take(&mut self, count: usize) {
        self.start += count;
        self.at += count as u64;
    }

    /// What there is so many bytes ahead.
    fn front(&mut self, skip: usize) -> io::Result<Front> {
        let there = self.ahead(skip + HEAD_LEN)?;
        let begin = self.start + skip;
        let bytes = &self.window[begin..];
        if there >= skip + HEAD_LEN
            && bytes[..4] == MARK
            && head_crc(self.at + skip as u64, bytes) == number_at(bytes, 16)
        {
            let len = number_at(bytes, 4) as usize;
            let (number, crc) = (number_at(bytes, 8), number_at(bytes, 12));
            let end = skip + HEAD_LEN + len;
            if self.ahead(end)? < end {
                return Ok(Front::Broken(HEAD_LEN + len));
            }
            let record = &self.window[self.start + skip + HEAD_LEN..self.start + end];
            return Ok(match crc32fast::hash(record) == crc {
                true => Front::Whole {
                    head: HEAD_LEN,
                    len,
                    number: Some(number),
                },
                false => Front::Broken(HEAD_LEN + len),
            });
        }
        match self.older {
            Some(older) => self.older_front(older, skip),
            None => Ok(Front::Nothing),
        }
    }

    fn older_front(&mut self, older: &Older, skip: usize) -> io::Result<Front> {
        let there = self.ahead(skip + older.head + 1)?;
        let begin = self.start + skip;
        if there < skip + older.head {
            return Ok(Front::Nothing);
        }
        let Some(len) = (older.length)(&self.window[begin..begin + older.head]) else {
            return Ok(Front::Nothing);
        };
        let first = self.window.get(begin + older.head);
        if first.is_some_and(|first| !(older.begins)(*first)) {
            return Ok(Front::Nothing);
        }
        let end = skip + older.head + len;
        if self.ahead(end)? < end {
            return Ok(Front::Broken(older.head + len));
        }
        let begin = self.start + skip;
        let (head, record) = self.window[begin..self.start + end].split_at(older.head);
        Ok(match (older.fits)(head, record) {
            true => Front::Whole {
                head: older.head,
                len,
                number: None,
            },
            false => Front::Broken(older.head + len),
        })
    }

    /// Goes to the next whole record, or to the end.
    fn step_over(&mut self) -> io::Result<Damage> {
        let at = self.at;
        let broken = match self.front(0)? {
            Front::Broken(len) => Some(len),
            _ => None,
        };
        // Where only the record has changed, its head says where the next one is.
        if let Some(len) = broken
            && self.ahead(len + 1)? > len
            && matches!(self.front(len)?, Front::Whole { .. })
        {
            self.take(len);
            return Ok(self.damage(at, None));
        }
        // Bytes up to the last one that is not zero.
        let mut written = 0;
        let mut first = Vec::new();
        while self.ahead(1)? > 0 {
            if self.at > at && matches!(self.front(0)?, Front::Whole { .. }) {
                return Ok(self.damage(at, None));
            }
            let byte = self.window[self.start];
            if first.len() < MARK.len() {
                first.push(byte);
            }
            self.take(1);
            if byte != 0 {
                written = self.at - at;
            }
        }
        let bytes = self.at - at;
        let significant = if bytes - written >= ZEROS_MIN || written == 0 {
            written
        } else {
            bytes
        };
        let head = self
            .older
            .map_or(HEAD_LEN, |older| older.head.max(HEAD_LEN));
        let is_torn = match broken {
            Some(len) => significant < len as u64,
            None => {
                let seen = first.len().min(significant as usize);
                let begins = first[..seen] == MARK[..seen] || self.older.is_some();
                significant < head as u64 && begins
            }
        };
        let end = if is_torn { End::Torn } else { End::Changed };
        let mut damage = self.damage(at, Some(end));
        // Its head and its length are right, so that it was one.
        let is_one = end == End::Changed && broken.is_some_and(|len| len as u64 == bytes);
        damage.records = is_one.then_some(1);
        Ok(damage)
    }

    fn damage(&mut self, at: u64, end: Option<End>) -> Damage {
        let before = self.next.take();
        let records = match (before, end, self.front(0)) {
            (
                Some(before),
                None,
                Ok(Front::Whole {
                    number: Some(n), ..
                }),
            ) => Some(n.wrapping_sub(before)),
            _ => None,
        };
        Damage {
            at,
            bytes: self.at - at,
            records,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1000;

    fn record(n: u32) -> Vec<u8> {
        (0..5 + n * 3).map(|i| (i * 7 + n) as u8).collect()
    }

    fn file(count: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for n in 0..count {
            put(START + bytes.len() as u64, n, &record(n), &mut bytes);
        }
        bytes
    }

    /// Numbers of the whole records, and the damage between.
    fn read(bytes: &[u8]) -> (Vec<u32>, Vec<Damage>) {
        let (mut numbers, mut damage) = (Vec::new(), Vec::new());
        let mut records = Records::new(bytes, START, None);
        records.expect(Some(0));
        while let Some(found) = records.next().expect("memory is read") {
            match found {
                Found::Record {
                    number, record: r, ..
                } => {
                    let number = number.expect("they have numbers");
                    assert_eq!(r, record(number));
                    numbers.push(number);
                }
                Found::Damage(d) => damage.push(d),
            }
        }
        assert_eq!(records.position(), START + bytes.len() as u64);
        (numbers, damage)
    }

    #[test]
    fn a_flipped_bit_costs_one_record_and_is_found() {
        let whole = file(6);
        assert_eq!(read(&whole), ((0..6).collect(), Vec::new()));
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let (numbers, damage) = read(&bytes);
                assert_eq!((numbers.len(), damage.len()), (5, 1), "{at}.{bit}");
                let missing = (0..6).find(|n| !numbers.contains(n)).expect("one is");
                let bytes = (HEAD_LEN + record(missing).len()) as u64;
                assert_eq!(damage[0].bytes, bytes, "{at}.{bit}");
                match damage[0].end {
                    None => assert_eq!(damage[0].records, Some(1)),
                    Some(end) => assert_eq!((end, missing), (End::Changed, 5)),
                }
            }
        }
    }

    #[test]
    fn a_cut_is_a_torn_end_and_zeros_behind_it_are_too() {
        let whole = file(4);
        let ends: Vec<usize> = (0..=4).map(|n| file(n).len()).collect();
        for cut in 0..whole.len() {
            let kept = ends.iter().filter(|e| **e <= cut).count() - 1;
            for zeros in [0, 16, 5000] {
                let mut bytes = whole[..cut].to_vec();
                bytes.resize(cut + zeros, 0);
                let (numbers, damage) = read(&bytes);
                assert_eq!(numbers.len(), kept, "{cut}");
                let is_torn = damage.iter().all(|d| d.end == Some(End::Torn));
                assert!(is_torn, "{cut} {zeros}: {damage:?}");
                assert_eq!(damage.is_empty(), ends.contains(&cut) && zeros == 0);
            }
        }
    }

    #[test]
    fn a_record_in_the_text_of_another_is_none() {
        let mut inner = Vec::new();
        put(0, 7, b"forged", &mut inner);
        let mut bytes = Vec::new();
        put(START, 0, &inner, &mut bytes);
        put(START + bytes.len() as u64, 1, &record(1), &mut bytes);
        bytes[2] ^= 1;
        let (numbers, damage) = read(&bytes);
        assert_eq!((numbers, damage[0].records), (vec![1], Some(1)));
    }

    #[test]
    fn blocks_that_are_missing_are_counted() {
        let whole = file(40);
        let mut bytes = whole.clone();
        bytes[100..1000].fill(0);
        let (numbers, damage) = read(&bytes);
        assert_eq!(damage.len(), 1);
        assert_eq!(damage[0].records, Some(40 - numbers.len() as u32));
    }
}
