//! The sequence header `id:number~` of `sequence.id`, by which `seq.enabled` drops repeated records.
//!
//! In text it stands before the payload; in bytes its length, as four bytes, stands before it
//! (`KafkaSink.getSequencedBinaryPayloadToSend`, `KafkaConsumerThread`).

use std::collections::HashMap;
use std::io::Write as _;

use connect::component::Payload;

/// Numbers seen last, by id and partition.
#[derive(Default, Debug)]
pub(super) struct Seen {
    last: HashMap<(String, i32), i64>,
}

/// What a record with a sequence header is.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Judged<T> {
    New(T),
    Repeated,
    /// Not of a sink with `sequence.id`.
    Bare,
}

/// A payload and what its header says.
pub(super) struct Headed<'a> {
    pub id: &'a str,
    pub number: i64,
    pub body: Payload<'a>,
}

/// Header and body; `None` without a header.
pub(super) fn parted(payload: Payload<'_>) -> Option<Headed<'_>> {
    let (header, body) = match payload {
        Payload::Text(text) => {
            let (header, body) = text.split_once('~')?;
            (header, Payload::Text(body))
        }
        Payload::Bytes(bytes) => of_bytes(bytes)?,
        _ => return None,
    };
    let (id, number) = header.split_once(':')?;
    let number = number.split(':').next()?.parse().ok()?;
    Some(Headed { id, number, body })
}

/// The number of a record that was written in text or in bytes.
pub(super) fn number_of(record: &[u8]) -> Option<i64> {
    let of_text = || {
        let end = record.iter().position(|byte| *byte == b'~')?;
        parted(Payload::Text(std::str::from_utf8(&record[..=end]).ok()?))
    };
    let headed = parted(Payload::Bytes(record)).or_else(of_text)?;
    Some(headed.number)
}

impl Seen {
    pub fn judge<'a>(&mut self, payload: Payload<'a>, partition: i32) -> Judged<Payload<'a>> {
        let Some(Headed { id, number, body }) = parted(payload) else {
            return Judged::Bare;
        };
        match self.last.get_mut(&(id.to_owned(), partition)) {
            Some(last) if number <= *last => return Judged::Repeated,
            Some(last) => *last = number,
            None => {
                self.last.insert((id.to_owned(), partition), number);
            }
        }
        Judged::New(body)
    }

    pub fn entries(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        self.last
            .iter()
            .map(|((id, partition), last)| (id.as_str(), *partition, *last))
    }

    pub fn set(&mut self, id: &str, partition: i32, last: i64) {
        self.last.insert((id.to_owned(), partition), last);
    }
}

fn of_bytes(bytes: &[u8]) -> Option<(&str, Payload<'_>)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    let (header, body) = rest.split_at_checked(length)?;
    let header = std::str::from_utf8(header).ok()?.strip_suffix('~')?;
    Some((header, Payload::Bytes(body)))
}

/// Writes header and payload.
pub(super) fn write(id: &str, number: i64, payload: &[u8], is_binary: bool, out: &mut Vec<u8>) {
    out.clear();
    write_header(id, number, is_binary, out);
    out.extend_from_slice(payload);
}

/// Writes what stands before a payload.
pub(super) fn write_header(id: &str, number: i64, is_binary: bool, out: &mut Vec<u8>) {
    let start = out.len();
    if is_binary {
        out.extend_from_slice(&[0; 4]);
    }
    // Writing to memory cannot fail.
    write!(out, "{id}:{number}~").ok();
    if is_binary {
        // A header is as long as an option of the app.
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_records_are_known_by_id_and_partition() {
        let mut seen = Seen::default();
        let mut check = |text: &str, partition: i32, expect: Judged<&str>| {
            let judged = match seen.judge(Payload::Text(text), partition) {
                Judged::New(Payload::Text(body)) => Judged::New(body),
                Judged::New(_) => unreachable!("text stays text"),
                Judged::Repeated => Judged::Repeated,
                Judged::Bare => Judged::Bare,
            };
            assert_eq!(judged, expect, "{text}");
        };
        check("a:0~x~y", 0, Judged::New("x~y"));
        check("a:0~x", 0, Judged::Repeated);
        check("a:0~x", 1, Judged::New("x"));
        check("b:0~x", 0, Judged::New("x"));
        check("a:5~x", 0, Judged::New("x"));
        check("a:4~x", 0, Judged::Repeated);
        for bare in ["x", "a~x", "a:b~x", "~x", ""] {
            check(bare, 0, Judged::Bare);
        }
    }

    #[test]
    fn what_is_written_in_bytes_is_read_again() {
        let mut out = Vec::new();
        write("id", 7, &[0, 255, b'~'], true, &mut out);
        assert_eq!(&out[..9], b"\0\0\0\x05id:7~");
        let mut seen = Seen::default();
        let judged = seen.judge(Payload::Bytes(&out), 0);
        assert!(matches!(
            judged,
            Judged::New(Payload::Bytes([0, 255, b'~']))
        ));
        for cut in 0..9 {
            let judged = seen.judge(Payload::Bytes(&out[..cut]), 0);
            assert!(matches!(judged, Judged::Bare), "{cut}");
        }
        assert_eq!(number_of(&out), Some(7));
        write("id", 8, b"text", false, &mut out);
        assert_eq!(out, b"id:8~text");
        assert_eq!(number_of(&out), Some(8));
        assert_eq!(number_of(b"text"), None);
    }
}
