//! A record batch that grows (message format v2), with what is needed to give its records back.
//!
//! Records are appended where they will lie on the wire; the header is filled in when the batch is sent.
//! Nothing is allocated per record: buffers grow, and go from batch to batch. A batch that has to be
//! divided or given back is read by the decoder that reads fetched ones.

use std::time::{Duration, Instant};

use bytes::Bytes;
use event::Batch as Events;

use super::super::batch::{self, HEADER, LENGTH_END, SUMMED};
use super::super::codec::Packer;
use super::message::Identity;
use connect::component::Payload;
use connect::message::{Message, Sent};

/// What a record takes beside key and value, at most: its varints, its attributes and its headers.
pub(super) const RECORD_OVERHEAD: usize = 32;

/// What is remembered of each record.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// A record on its way in. Its value lies in two pieces, because a sequence header stands before it.
pub(in crate::kafka) struct Outgoing<'a> {
    pub key: Option<&'a [u8]>,
    pub value: [&'a [u8]; 2],
    /// In the order in which records are published.
    pub number: u64,
    /// Milliseconds since 1970.
    pub time: i64,
    pub message: &'a Message<'a>,
}

impl Outgoing<'_> {
    /// Of key and value.
    pub fn bytes(&self) -> usize {
        let [head, body] = self.value;
        head.len() + body.len() + self.key.map_or(0, <[u8]>::len)
    }
}

/// A record of a batch, as it was published.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    /// Where its rows end among those of the batch.
    rows_end: u32,
    is_text: bool,
}

/// What is needed of records beside their bytes. Of many in a row the events are the same, and the options
/// mostly.
#[derive(Default, Debug)]
struct Kept {
    entries: Vec<Entry>,
    rows: Vec<u32>,
    /// From which record on.
    events: Vec<(u32, Option<Events>)>,
    options: Vec<(u32, Box<[String]>)>,
}

impl Kept {
    fn clear(&mut self) {
        self.entries.clear();
        self.rows.clear();
        self.events.clear();
        self.options.clear();
    }

    fn push(&mut self, record: &Outgoing<'_>) {
        let (message, index) = (record.message, self.entries.len() as u32);
        let is_same = match (self.events.last(), message.events) {
            (Some((_, Some(last))), Some(events)) => last.has_same_rows(events),
            (Some((_, None)), None) => true,
            _ => false,
        };
        if !is_same {
            self.events.push((index, message.events.cloned()));
        }
        let options = message.options();
        let is_same = self
            .options
            .last()
            .map_or(options.is_empty(), |(_, last)| **last == *options);
        if !is_same {
            self.options.push((index, options.into()));
        }
        self.rows.extend_from_slice(message.rows);
        self.entries.push(Entry {
            number: record.number,
            rows_end: self.rows.len() as u32,
            is_text: matches!(message.payload, Payload::Text(_)),
        });
    }

    /// A record's number, and all but its payload.
    fn get(&self, index: usize) -> (u64, Sent) {
        let entry = self.entries[index];
        let rows_start = match index {
            0 => 0,
            _ => self.entries[index - 1].rows_end,
        };
        let events = of_run(&self.events, index).and_then(Option::as_ref);
        let sent = Sent {
            payload: Bytes::new(),
            is_text: entry.is_text,
            rows: self.rows[rows_start as usize..entry.rows_end as usize].into(),
            events: events.cloned(),
            options: of_run(&self.options, index).cloned().unwrap_or_default(),
        };
        (entry.number, sent)
    }

    fn bytes(&self) -> usize {
        self.entries.len() * ENTRY_BYTES + self.rows.len() * size_of::<u32>()
    }
}

/// What holds for a record in a list of what holds from which record on.
fn of_run<T>(runs: &[(u32, T)], index: usize) -> Option<&T> {
    let behind = runs.partition_point(|(from, _)| *from as usize <= index);
    Some(&runs[behind.checked_sub(1)?].1)
}

/// What becomes of a record of a batch that is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Share {
    /// It goes with the record before it.
    Same,
    /// It begins another batch.
    Next,
    /// It goes with the others that do.
    Apart,
}

#[derive(Debug)]
pub(in crate::kafka::wire) struct RecordBatch {
    /// Header and records, not packed.
    bytes: Vec<u8>,
    /// The same as it is sent, where it is packed.
    packed: Vec<u8>,
    kept: Kept,
    base_time: i64,
    max_time: i64,
    /// When its first record was published.
    pub since: Instant,
    /// Times that it was sent.
    pub attempts: u32,
    /// Its place among those of its producer, once it was to be sent.
    pub sequence: Option<(Identity, i32)>,
}

impl RecordBatch {
    /// An empty one, in the buffers of another.
    pub fn new(mut former: RecordBatch, since: Instant) -> RecordBatch {
        former.bytes.clear();
        former.bytes.resize(HEADER, 0);
        former.packed.clear();
        former.kept.clear();
        RecordBatch {
            since,
            attempts: 0,
            sequence: None,
            ..former
        }
    }

    /// One without buffers.
    pub fn bare() -> RecordBatch {
        RecordBatch {
            bytes: Vec::new(),
            packed: Vec::new(),
            kept: Kept::default(),
            base_time: 0,
            max_time: 0,
            since: Instant::now(),
            attempts: 0,
            sequence: None,
        }
    }

    /// Lets go of what events it has, keeps its buffers.
    pub fn empty(&mut self) {
        self.kept.clear();
        self.bytes.clear();
        self.packed.clear();
    }

    /// Of its buffers, used or not.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.packed.capacity()
    }

    pub fn count(&self) -> usize {
        self.kept.entries.len()
    }

    /// Bytes of header and records, not packed.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What it takes in memory.
    pub fn weight(&self) -> usize {
        self.bytes.len() + self.kept.bytes()
    }

    /// The number of its first record.
    pub fn first(&self) -> u64 {
        self.kept.entries.first().map_or(0, |entry| entry.number)
    }

    pub fn is_late(&self, timeout: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= timeout
    }

    /// Appends a record; what it takes in memory.
    #[inline]
    pub fn append(&mut self, record: &Outgoing<'_>) -> usize {
        let before = self.weight();
        let index = self.count();
        if index == 0 {
            (self.base_time, self.max_time) = (record.time, record.time);
        }
        self.max_time = self.max_time.max(record.time);
        let [head, body] = record.value;
        let mut front = Front::default();
        front.put(0); // attributes
        front.varint(record.time.wrapping_sub(self.base_time));
        front.varint(index as i64);
        let key = record.key;
        front.varint(key.map_or(-1, |key| key.len() as i64));
        let mut middle = Front::default();
        middle.varint((head.len() + body.len()) as i64);
        // Behind the value: that there are no headers.
        let length = front.len + middle.len + record.bytes() + 1;
        let mut first = Front::default();
        first.varint(length as i64);
        let out = &mut self.bytes;
        out.reserve(first.len + length);
        out.extend_from_slice(first.bytes());
        out.extend_from_slice(front.bytes());
        out.extend_from_slice(key.unwrap_or_default());
        out.extend_from_slice(middle.bytes());
        out.extend_from_slice(head);
        out.extend_from_slice(body);
        out.push(0);
        self.kept.push(record);
        self.weight() - before
    }

    /// Packs it and fills in its header.
    ///
    /// # Errors
    /// It cannot be packed.
    pub fn finish(&mut self, packer: Packer) -> Result<(), String> {
        if packer.is_none() {
            self.head(0);
            return Ok(());
        }
        if self.packed.is_empty() {
            let mut packed = std::mem::take(&mut self.packed);
            packed.resize(HEADER, 0);
            let done = packer.pack(&self.bytes[HEADER..], &mut packed);
            if let Err(cause) = done {
                packed.clear();
                self.packed = packed;
                return Err(cause);
            }
            self.packed = packed;
        }
        self.head(packer.attributes());
        Ok(())
    }

    /// The batch as it is sent, once it is finished.
    pub fn wire(&self) -> &[u8] {
        match self.packed.is_empty() {
            true => &self.bytes,
            false => &self.packed,
        }
    }

    fn head(&mut self, attributes: i16) {
        let count = self.count() as i32;
        let (identity, sequence) = self
            .sequence
            .unwrap_or((Identity { id: -1, epoch: -1 }, -1));
        let (base_time, max_time) = (self.base_time, self.max_time);
        let out = match self.packed.is_empty() {
            true => &mut self.bytes,
            false => &mut self.packed,
        };
        let length = (out.len() - LENGTH_END) as u32;
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&0i64.to_be_bytes()); // base_offset: the broker's
        put(&length.to_be_bytes());
        put(&(-1i32).to_be_bytes()); // partition_leader_epoch: the broker's
        put(&[2]);
        put(&[0; 4]); // the sum, which follows
        put(&attributes.to_be_bytes());
        put(&(count - 1).to_be_bytes());
        put(&base_time.to_be_bytes());
        put(&max_time.to_be_bytes());
        put(&identity.id.to_be_bytes());
        put(&identity.epoch.to_be_bytes());
        put(&sequence.to_be_bytes());
        put(&count.to_be_bytes());
        debug_assert_eq!(at, HEADER);
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &out[SUMMED..]) as u32;
        out[SUMMED - 4..SUMMED].copy_from_slice(&sum.to_be_bytes());
    }

    /// Calls with each record: its place, key, value, and time.
    fn each(&self, mut call: impl FnMut(usize, Option<&[u8]>, &[u8], i64)) {
        let mut at = HEADER;
        for index in 0..self.count() {
            // What was appended here can be read.
            let Some(spans) = batch::spans(&self.bytes, &mut at) else {
                return;
            };
            let of = |range: Option<std::ops::Range<usize>>| range.map(|range| &self.bytes[range]);
            let (key, value) = (of(spans.key), of(spans.value));
            let time = self.base_time.wrapping_add(spans.time);
            call(index, key, value.unwrap_or_default(), time);
        }
    }

    /// Calls with each record as it was published.
    pub fn each_outgoing(&self, mut call: impl FnMut(usize, &Outgoing<'_>)) {
        self.each(|index, key, value, time| {
            let (number, sent) = self.kept.get(index);
            call(
                index,
                &Outgoing {
                    key,
                    value: [&[], value],
                    number,
                    time,
                    message: &sent.message(),
                },
            );
        });
    }

    /// Calls with number, message and size of each record.
    pub fn each_sent(&self, mut call: impl FnMut(u64, Sent, usize)) {
        self.each(|index, key, value, _| {
            let (number, mut sent) = self.kept.get(index);
            sent.payload = Bytes::copy_from_slice(value);
            call(number, sent, value.len() + key.map_or(0, <[u8]>::len));
        });
    }

    /// Parts it: those in order, and what is kept apart of it. `share` gets the place of a record and the
    /// bytes of the batch that it would go to.
    pub(super) fn divide(
        &self,
        mut share: impl FnMut(usize, usize) -> Share,
    ) -> (Vec<RecordBatch>, Option<RecordBatch>) {
        let (mut parts, mut apart): (Vec<RecordBatch>, Option<RecordBatch>) = (Vec::new(), None);
        let begin = || RecordBatch::new(RecordBatch::bare(), self.since);
        self.each_outgoing(|index, record| {
            let length = parts.last().map_or(0, RecordBatch::len);
            let target = match share(index, length + record.bytes() + RECORD_OVERHEAD) {
                Share::Apart => apart.get_or_insert_with(begin),
                share => {
                    if parts.is_empty() || share == Share::Next {
                        parts.push(begin());
                    }
                    let last = parts.len() - 1;
                    &mut parts[last]
                }
            };
            target.append(record);
        });
        for part in parts.iter_mut().chain(&mut apart) {
            part.attempts = self.attempts;
        }
        (parts, apart)
    }
}

/// A few numbers in front of bytes.
#[derive(Default)]
struct Front {
    bytes: [u8; RECORD_OVERHEAD],
    len: usize,
}

impl Front {
    #[inline]
    fn put(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// A number in the protocol's variable length, by zigzag.
    #[inline]
    fn varint(&mut self, number: i64) {
        let mut rest = ((number << 1) ^ (number >> 63)) as u64;
        while rest >= 0x80 {
            self.put(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.put(rest as u8);
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::super::batch::{Reader, Rules, Step, whole};
    use super::super::super::codec::Codec;
    use super::*;

    pub fn outgoing<'a>(
        number: u64,
        key: Option<&'a [u8]>,
        value: &'a [u8],
        message: &'a Message<'a>,
    ) -> Outgoing<'a> {
        Outgoing {
            key,
            value: [b"", value],
            number,
            time: 1_000 + number as i64 * 7,
            message,
        }
    }

    fn read(wire: &[u8]) -> Vec<(i64, i64, Option<Vec<u8>>, Vec<u8>)> {
        let found = whole(wire).expect("it is a batch");
        assert_eq!(found.bytes, wire.len());
        let mut reader = Reader::new(Rules {
            is_committed: false,
            checks_sums: true,
            bytes_max: 1 << 24,
        });
        reader.load(Bytes::copy_from_slice(wire), 0, Vec::new());
        let mut all = Vec::new();
        loop {
            match reader.advance() {
                Step::End => return all,
                Step::Spoilt(spoilt) => panic!("{spoilt:?}"),
                Step::Record => {
                    let record = reader.record();
                    let (key, value) = (record.key.map(<[u8]>::to_vec), record.value);
                    let value = value.unwrap_or_default().to_vec();
                    all.push((record.offset, record.time, key, value));
                }
            }
        }
    }

    const CODECS: [Codec; 5] = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];

    #[test]
    fn what_is_written_is_what_the_reader_reads_in_every_codec() {
        // A fixed generator: any sizes, keys and times, some going back.
        let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |below: usize| {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            chance as usize % below
        };
        for round in 0..60 {
            let codec = CODECS[round % CODECS.len()];
            let mut batch = RecordBatch::new(RecordBatch::bare(), Instant::now());
            let mut expect = Vec::new();
            for number in 0..1 + next(40) as u64 {
                let value: Vec<u8> = (0..next(400)).map(|_| next(256) as u8).collect();
                let cut = next(value.len() + 1);
                let key = (next(2) == 0).then(|| vec![b'k'; next(200)]);
                let time = 1_700_000_000_000 + next(100_000) as i64 - 50_000;
                let message = Message::of(Payload::Bytes(&value));
                let mut record = outgoing(number, key.as_deref(), &value, &message);
                record.value = [&value[..cut], &value[cut..]];
                record.time = time;
                let before = batch.weight();
                let grown = batch.append(&record);
                assert_eq!(batch.weight(), before + grown);
                expect.push((number as i64, time, key.clone(), value));
            }
            batch.sequence = Some((Identity { id: 5, epoch: 2 }, 77));
            batch
                .finish(Packer::new(codec, None))
                .expect("it can be packed");
            assert_eq!(read(batch.wire()), expect, "{codec:?}");
            // Sent again under another number it is as sound.
            batch.sequence = Some((Identity { id: 6, epoch: 0 }, 0));
            batch
                .finish(Packer::new(codec, None))
                .expect("it can be packed");
            assert_eq!(read(batch.wire()), expect, "{codec:?}");
            assert_eq!(batch.wire()[43..51], 6i64.to_be_bytes());
        }
    }

    #[test]
    fn records_are_given_back_as_they_were_published() {
        let mut batch = RecordBatch::new(RecordBatch::bare(), Instant::now());
        let options = [vec!["a".to_owned()], vec!["b".to_owned()]];
        for number in 0..6u64 {
            let text = format!("text {number}");
            let message =
                Message::with_options(Payload::Text(&text), &options[(number / 3) as usize]);
            batch.append(&outgoing(
                10 + number,
                Some(b"k"),
                text.as_bytes(),
                &message,
            ));
        }
        assert_eq!((batch.count(), batch.first()), (6, 10));
        assert_eq!(batch.kept.options.len(), 2);
        let mut found = Vec::new();
        batch.each_sent(|number, sent, bytes| {
            assert!(sent.is_text);
            let text = String::from_utf8_lossy(&sent.payload).into_owned();
            found.push((number, text, sent.options[0].clone(), bytes));
        });
        let expect = (0..6u64).map(|n| {
            let option = if n < 3 { "a" } else { "b" };
            (10 + n, format!("text {n}"), option.to_owned(), 7)
        });
        assert_eq!(found, expect.collect::<Vec<_>>());
        // In buffers that were used before.
        let again = RecordBatch::new(batch, Instant::now());
        assert!(again.count() == 0 && again.kept.options.is_empty());
    }

    #[test]
    fn a_batch_is_divided_in_order_and_what_is_refused_is_apart() {
        let mut batch = RecordBatch::new(RecordBatch::bare(), Instant::now());
        let value = [b'x'; 100];
        let message = Message::of(Payload::Bytes(&value));
        for number in 0..10 {
            batch.append(&outgoing(number, None, &value, &message));
        }
        let (parts, apart) = batch.divide(|index, bytes| match index {
            4 | 7 => Share::Apart,
            _ if bytes > 500 => Share::Next,
            _ => Share::Same,
        });
        let numbers = |batch: &RecordBatch| {
            let mut all = Vec::new();
            batch.each_sent(|number, _, _| all.push(number));
            all
        };
        let parts: Vec<Vec<u64>> = parts.iter().map(numbers).collect();
        assert_eq!(parts.concat(), [0, 1, 2, 3, 5, 6, 8, 9]);
        assert!(parts.len() > 1, "{parts:?}");
        assert_eq!(apart.as_ref().map(numbers), Some(vec![4, 7]));
    }
}
