//! Record batches (message format v2), decoded where they lie.
//!
//! A batch is opened when its first record is wanted: its CRC-32C is checked, and it is unpacked into a
//! buffer that all batches share. No record is allocated. With `read_committed`, records of aborted
//! transactions are passed over, and marks of transactions always are. Promises: any bytes give records,
//! or a cause with the offsets that it takes away; a bad batch does not hold up those behind it.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use bytes::Bytes;

use super::codec::Codec;

/// Bytes before the length of a batch ends, and of its whole header.
pub(super) const LENGTH_END: usize = 12;
pub(super) const HEADER: usize = 61;

/// Where the sum begins to count.
pub(super) const SUMMED: usize = 21;

const APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// A buffer that once was larger is not kept.
const KEPT_BYTES: usize = 16 << 20;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(array(bytes, at)?))
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(array(bytes, at)?))
}

/// The whole batches at the beginning of what was fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Whole {
    /// Bytes that they have.
    pub bytes: usize,
    /// The offset behind them, where there are any.
    pub next: Option<i64>,
    /// The format of a message that is older than batches.
    pub old: Option<u8>,
}

/// Finds the whole batches; what is cut off at the end is fetched again.
///
/// # Errors
/// Why the beginning of a batch cannot be one.
pub(super) fn whole(records: &[u8]) -> Result<Whole, &'static str> {
    let mut whole = Whole {
        bytes: 0,
        next: None,
        old: None,
    };
    loop {
        let rest = &records[whole.bytes..];
        let (Some(base), Some(length)) = (i64_at(rest, 0), i32_at(rest, 8)) else {
            break;
        };
        let length = usize::try_from(length).map_err(|_| "a batch has a negative length")?;
        let length = length + LENGTH_END;
        let Some(batch) = rest.get(..length) else {
            break;
        };
        match batch.get(16) {
            Some(2) => {}
            Some(magic @ (0 | 1)) => {
                whole.old = Some(*magic);
                break;
            }
            _ => return Err("a batch has a format that is not known"),
        }
        let delta = i32_at(batch, 23).filter(|delta| *delta >= 0 && length >= HEADER);
        let delta = delta.ok_or("a batch is shorter than its header")?;
        let next = base.checked_add(i64::from(delta) + 1).filter(|_| base >= 0);
        let next = next.ok_or("a batch has an offset that cannot be")?;
        if whole.next.is_some_and(|known| next <= known) {
            return Err("the offsets of batches do not grow");
        }
        whole.next = Some(next);
        whole.bytes += length;
    }
    Ok(whole)
}

/// One record, in the memory of its batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::kafka) struct Record<'a> {
    pub offset: i64,
    /// Milliseconds since 1970.
    pub time: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    headers: &'a [u8],
}

impl<'a> Record<'a> {
    /// The value of the last header of a name.
    pub fn last_header(&self, name: &str) -> Option<&'a [u8]> {
        let mut at = 0;
        let count = varint(self.headers, &mut at)?;
        let mut found = None;
        for _ in 0..count {
            let key = counted(self.headers, &mut at)??;
            let value = counted(self.headers, &mut at)?;
            if &self.headers[key] == name.as_bytes() {
                found = value.map(|value| &self.headers[value]);
            }
        }
        found
    }
}

/// Records that cannot be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kafka) struct Spoilt {
    pub first: i64,
    pub last: i64,
    pub cause: String,
}

/// What [`Reader::advance`] came to.
#[derive(PartialEq, Eq, Debug)]
pub(in crate::kafka) enum Step {
    /// [`Reader::record`] has it.
    Record,
    Spoilt(Spoilt),
    End,
}

/// How batches are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub is_committed: bool,
    pub checks_sums: bool,
    /// Longest that a batch may unpack to.
    pub bytes_max: usize,
}

/// Reads what was fetched of a partition, one record after the other.
pub(in crate::kafka) struct Reader {
    rules: Rules,
    /// Batches that are still to be opened.
    batches: Bytes,
    /// Records before it were read before.
    from: i64,
    aborted: VecDeque<(i64, i64)>,
    /// Producers in whose aborted transactions we are.
    open_aborted: HashSet<i64>,
    open: Option<Open>,
    /// Records of a packed batch.
    unpacked: Vec<u8>,
    current: Spans,
}

/// A batch whose records are being read.
struct Open {
    /// Its records, where they are not in the buffer.
    plain: Option<Bytes>,
    at: usize,
    left: u32,
    base: i64,
    last: i64,
    base_time: i64,
    /// The time of all its records.
    append_time: Option<i64>,
}

/// Where the parts of a record lie.
#[derive(Default)]
pub(super) struct Spans {
    offset: i64,
    pub time: i64,
    pub key: Option<Range<usize>>,
    pub value: Option<Range<usize>>,
    headers: Range<usize>,
}

impl Reader {
    pub(super) fn new(rules: Rules) -> Reader {
        Reader {
            rules,
            batches: Bytes::new(),
            from: 0,
            aborted: VecDeque::new(),
            open_aborted: HashSet::new(),
            open: None,
            unpacked: Vec::new(),
            current: Spans::default(),
        }
    }

    /// Goes on with other batches, from an offset on.
    pub(super) fn load(&mut self, batches: Bytes, from: i64, mut aborted: Vec<(i64, i64)>) {
        aborted.sort_unstable_by_key(|(_, first)| *first);
        self.aborted = aborted.into();
        self.open_aborted.clear();
        self.batches = batches;
        self.from = from;
        self.open = None;
    }

    /// Goes to the next record that is to be read.
    pub fn advance(&mut self) -> Step {
        loop {
            let Some(open) = &mut self.open else {
                if self.batches.is_empty() {
                    self.leave();
                    return Step::End;
                }
                if let Err(spoilt) = self.open_next() {
                    return Step::Spoilt(spoilt);
                }
                continue;
            };
            if open.left == 0 {
                self.open = None;
                continue;
            }
            open.left -= 1;
            let bytes = open.plain.as_deref().unwrap_or(&self.unpacked);
            let Some(spans) = spans(bytes, &mut open.at) else {
                let spoilt = Spoilt {
                    first: self.from.max(open.base),
                    last: open.last,
                    cause: "a record of the batch is malformed".to_owned(),
                };
                self.open = None;
                return Step::Spoilt(spoilt);
            };
            let offset = open.base.saturating_add(spans.offset);
            // In a batch that was read in part, and where a batch lies about its offsets.
            if offset < self.from || offset > open.last {
                continue;
            }
            self.from = offset + 1;
            let time = open.base_time.saturating_add(spans.time);
            self.current = Spans {
                offset,
                time: open.append_time.unwrap_or(time),
                ..spans
            };
            return Step::Record;
        }
    }

    /// The record that [`Reader::advance`] came to.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        let plain = self.open.as_ref().and_then(|open| open.plain.as_deref());
        let bytes = plain.unwrap_or(&self.unpacked);
        let Spans {
            offset,
            time,
            key,
            value,
            headers,
        } = &self.current;
        let of = |range: &Option<Range<usize>>| range.clone().map(|range| &bytes[range]);
        Record {
            offset: *offset,
            time: *time,
            key: of(key),
            value: of(value),
            headers: &bytes[headers.clone()],
        }
    }

    /// Nothing of what was read is kept.
    fn leave(&mut self) {
        if self.unpacked.capacity() > KEPT_BYTES {
            self.unpacked = Vec::new();
        }
    }

    /// Opens the next batch, or passes over it where nothing of it is to be read.
    fn open_next(&mut self) -> Result<(), Spoilt> {
        let length = i32_at(&self.batches, 8).and_then(|length| usize::try_from(length).ok());
        let length = length.map_or(usize::MAX, |length| length + LENGTH_END);
        if length > self.batches.len() || length < HEADER {
            // [`whole`] has let no such batch pass.
            self.batches.clear();
            return Ok(());
        }
        let batch = self.batches.split_to(length);
        let header = |at| i64_at(&batch, at).unwrap_or(0);
        let (base, base_time, max_time, producer) = (header(0), header(27), header(35), header(43));
        let last = base.saturating_add(i64::from(i32_at(&batch, 23).unwrap_or(0)));
        if last < self.from {
            return Ok(());
        }
        let first = self.from.max(base);
        let spoilt = |cause: String| Spoilt { first, last, cause };
        if self.rules.checks_sums {
            let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &batch[SUMMED..]);
            if array(&batch, 17).map(u32::from_be_bytes) != Some(sum as u32) {
                self.from = last + 1;
                return Err(spoilt("the check sum of the batch is wrong".to_owned()));
            }
        }
        let attributes = array(&batch, 21).map_or(0, i16::from_be_bytes);
        while let Some((producer, _)) = self.aborted.pop_front_if(|(_, begin)| *begin <= last) {
            self.open_aborted.insert(producer);
        }
        if attributes & CONTROL != 0 {
            // Of an abort or a commit: either ends what the producer had open.
            self.open_aborted.remove(&producer);
            return Ok(());
        }
        let is_aborted = attributes & TRANSACTIONAL != 0 && self.open_aborted.contains(&producer);
        if self.rules.is_committed && is_aborted {
            return Ok(());
        }
        let records = batch.slice(HEADER..);
        let unpacked = match Codec::of_attributes(attributes) {
            Some(Codec::None) => Ok(Some(records)),
            Some(codec) => {
                let unpacked = codec.unpack(&records, self.rules.bytes_max, &mut self.unpacked);
                unpacked
                    .map(|()| None)
                    .map_err(|cause| format!("the batch cannot be unpacked ({codec:?}): {cause}"))
            }
            None => Err("the batch is packed by a codec that is not known".to_owned()),
        };
        let plain = unpacked.map_err(|cause| {
            self.from = last + 1;
            spoilt(cause)
        })?;
        self.open = Some(Open {
            plain,
            at: 0,
            left: i32_at(&batch, 57)
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(0),
            base,
            last,
            base_time,
            append_time: (attributes & APPEND_TIME != 0).then_some(max_time),
        });
        Ok(())
    }
}

/// A number in the protocol's variable length, by zigzag; `None` where it does not end in time.
#[inline]
fn varint(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((number >> 1) as i64 ^ -((number & 1) as i64));
        }
    }
    None
}

/// Bytes behind their length; inside `None` where the length says that there are none.
#[inline]
fn counted(bytes: &[u8], at: &mut usize) -> Option<Option<Range<usize>>> {
    let length = varint(bytes, at)?;
    if length == -1 {
        return Some(None);
    }
    let end = at.checked_add(usize::try_from(length).ok()?)?;
    if end > bytes.len() {
        return None;
    }
    let range = *at..end;
    *at = end;
    Some(Some(range))
}

/// The parts of the record at a place, behind which that goes.
#[inline]
pub(super) fn spans(bytes: &[u8], at: &mut usize) -> Option<Spans> {
    let length = usize::try_from(varint(bytes, at)?).ok()?;
    let end = at.checked_add(length).filter(|end| *end <= bytes.len())?;
    let bytes = &bytes[..end];
    *at += 1; // attributes
    let time = varint(bytes, at)?;
    let offset = varint(bytes, at)?;
    let key = counted(bytes, at)?;
    let value = counted(bytes, at)?;
    let headers = (*at).min(end)..end;
    *at = end;
    Some(Spans {
        offset,
        time,
        key,
        value,
        headers,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const RULES: Rules = Rules {
        is_committed: true,
        checks_sums: true,
        bytes_max: 1 << 20,
    };

    fn put_varint(out: &mut Vec<u8>, number: i64) {
        let mut rest = ((number << 1) ^ (number >> 63)) as u64;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn put_counted(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
        put_varint(out, bytes.map_or(-1, |bytes| bytes.len() as i64));
        out.extend_from_slice(bytes.unwrap_or_default());
    }

    /// A batch of these values.
    pub fn batch(base: i64, attributes: i16, producer: i64, values: &[Option<&str>]) -> Vec<u8> {
        let mut records = Vec::new();
        for (delta, value) in values.iter().enumerate() {
            let mut record = vec![0];
            put_varint(&mut record, 10 * delta as i64);
            put_varint(&mut record, delta as i64);
            put_counted(&mut record, Some(b"k"));
            put_counted(&mut record, value.map(str::as_bytes));
            put_varint(&mut record, 1);
            put_counted(&mut record, Some(b"h"));
            put_counted(&mut record, Some(b"v"));
            put_varint(&mut records, record.len() as i64);
            records.extend_from_slice(&record);
        }
        let mut out = base.to_be_bytes().to_vec();
        out.extend_from_slice(&((records.len() + HEADER - LENGTH_END) as u32).to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 0, 2, 0, 0, 0, 0]);
        out.extend_from_slice(&attributes.to_be_bytes());
        out.extend_from_slice(&(values.len() as i32 - 1).to_be_bytes());
        for number in [1000, 2000, producer] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&(values.len() as u32).to_be_bytes());
        out.extend_from_slice(&records);
        sum(&mut out);
        out
    }

    fn sum(batch: &mut [u8]) {
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &batch[SUMMED..]) as u32;
        batch[17..21].copy_from_slice(&sum.to_be_bytes());
    }

    fn read(batches: Vec<u8>, from: i64, aborted: &[(i64, i64)]) -> (Vec<String>, Vec<Spoilt>) {
        let mut reader = Reader::new(RULES);
        reader.load(Bytes::from(batches), from, aborted.to_vec());
        let (mut records, mut spoilt) = (Vec::new(), Vec::new());
        loop {
            match reader.advance() {
                Step::End => return (records, spoilt),
                Step::Spoilt(one) => spoilt.push(one),
                Step::Record => {
                    let record = reader.record();
                    assert_eq!(
                        (record.key, record.last_header("h")),
                        (Some(&b"k"[..]), Some(&b"v"[..]))
                    );
                    assert_eq!(record.last_header("x"), None);
                    let value = record
                        .value
                        .map(|value| String::from_utf8_lossy(value).into_owned());
                    let value = value.unwrap_or_else(|| "-".to_owned());
                    records.push(format!("{}@{}={value}", record.offset, record.time));
                }
            }
        }
    }

    #[test]
    fn records_come_with_their_offsets_and_times_from_where_they_are_wanted() {
        let mut batches = batch(5, 0, -1, &[Some("a"), None, Some("c")]);
        batches.extend(batch(9, APPEND_TIME, -1, &[Some("d")]));
        assert_eq!(
            whole(&batches),
            Ok(Whole {
                bytes: batches.len(),
                next: Some(10),
                old: None
            })
        );
        let expect = ["6@1010=-", "7@1020=c", "9@2000=d"];
        assert_eq!(
            read(batches, 6, &[]),
            (expect.map(str::to_owned).to_vec(), Vec::new())
        );
    }

    #[test]
    fn a_batch_that_is_cut_off_is_left_for_the_next_fetch() {
        let first = batch(0, 0, -1, &[Some("a")]);
        let mut batches = first.clone();
        batches.extend(batch(1, 0, -1, &[Some("b")]));
        for cut in first.len()..batches.len() {
            let expect = Whole {
                bytes: first.len(),
                next: Some(1),
                old: None,
            };
            assert_eq!(whole(&batches[..cut]), Ok(expect), "{cut}");
        }
        let mut old = first.clone();
        old[16] = 1;
        assert_eq!(whole(&old).map(|whole| whole.old), Ok(Some(1)));
        old[16] = 7;
        assert!(whole(&old).is_err());
        old[8..12].copy_from_slice(&(-1i32).to_be_bytes());
        assert!(whole(&old).is_err());
        let twice = [&first[..], &first].concat();
        assert!(whole(&twice).is_err());
    }

    #[test]
    fn aborted_transactions_and_marks_are_passed_over() {
        let mut batches = batch(0, TRANSACTIONAL, 7, &[Some("aborted")]);
        batches.extend(batch(1, TRANSACTIONAL, 8, &[Some("other")]));
        batches.extend(batch(2, TRANSACTIONAL | CONTROL, 7, &[Some("mark")]));
        batches.extend(batch(3, TRANSACTIONAL, 7, &[Some("committed")]));
        batches.extend(batch(4, TRANSACTIONAL, 7, &[Some("aborted too")]));
        let (records, spoilt) = read(batches, 0, &[(7, 4), (7, 0)]);
        assert_eq!(records, ["1@1000=other", "3@1000=committed"]);
        assert!(spoilt.is_empty());
    }

    #[test]
    fn a_spoilt_batch_is_named_and_its_neighbours_are_read() {
        let spoil = |spoil: &dyn Fn(&mut Vec<u8>)| {
            let mut middle = batch(1, 0, -1, &[Some("b"), Some("c")]);
            spoil(&mut middle);
            let batches = [
                batch(0, 0, -1, &[Some("a")]),
                middle,
                batch(3, 0, -1, &[Some("d")]),
            ];
            read(batches.concat(), 0, &[])
        };
        let check = |(records, spoilt): (Vec<String>, Vec<Spoilt>), cause: &str| {
            assert_eq!(records, ["0@1000=a", "3@1000=d"]);
            assert_eq!(spoilt.len(), 1);
            assert_eq!((spoilt[0].first, spoilt[0].last), (1, 2));
            assert!(spoilt[0].cause.contains(cause), "{spoilt:?}");
        };
        check(spoil(&|bytes| bytes[HEADER + 3] ^= 1), "check sum");
        let lying = |bytes: &mut Vec<u8>| {
            bytes[HEADER] = 0xfe;
            sum(bytes);
        };
        check(spoil(&lying), "malformed");
        for (codec, cause) in [
            (1, "Gzip"),
            (2, "Snappy"),
            (3, "Lz4"),
            (4, "Zstd"),
            (6, "not known"),
        ] {
            let packed = |bytes: &mut Vec<u8>| {
                bytes[22] = codec;
                sum(bytes);
            };
            check(spoil(&packed), cause);
        }
        // More records than there are.
        let more = |bytes: &mut Vec<u8>| {
            bytes[60] = 9;
            sum(bytes);
        };
        let (records, spoilt) = spoil(&more);
        assert_eq!((records.len(), spoilt.len()), (4, 1));
    }
}
