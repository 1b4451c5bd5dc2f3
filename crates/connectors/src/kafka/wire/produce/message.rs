//! The requests of a writer, and the responses to them: Produce 3 to 8 and InitProducerId 0 and 1, which
//! have no tagged fields.

use std::io::IoSlice;

use super::super::message::{Input, Malformed, code, put_count, put_text};

/// Longest text of a broker about a record that is kept.
const TEXT_MAX: usize = 1000;

/// A batch of a request, and where it goes.
pub(super) struct Piece<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub bytes: &'a [u8],
}

/// What stands around the batches of a request: pieces of one buffer, each in front of a batch, so that no
/// batch is copied.
#[derive(Default)]
pub(super) struct Frame {
    head: Vec<u8>,
    /// Where the piece in front of each batch ends.
    ends: Vec<usize>,
}

impl Frame {
    /// Writes all but the batches behind a header ([`super::super::message::begin`]). `pieces`: those of a
    /// topic follow each other.
    pub fn write(&mut self, header: Vec<u8>, acks: i16, timeout_millis: i32, pieces: &[Piece<'_>]) {
        let out = &mut self.head;
        *out = header;
        self.ends.clear();
        out.extend_from_slice(&(-1i16).to_be_bytes()); // transactional_id
        out.extend_from_slice(&acks.to_be_bytes());
        out.extend_from_slice(&timeout_millis.to_be_bytes());
        let groups = || pieces.chunk_by(|a, b| a.topic == b.topic);
        put_count(out, groups().count());
        for group in groups() {
            put_text(out, group[0].topic);
            put_count(out, group.len());
            for piece in group {
                out.extend_from_slice(&piece.partition.to_be_bytes());
                put_count(out, piece.bytes.len());
                self.ends.push(out.len());
            }
        }
        let batches: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        let length = (out.len() - 4 + batches) as u32;
        out[..4].copy_from_slice(&length.to_be_bytes());
    }

    /// The request in the pieces that it lies in.
    pub fn slices<'a>(&'a self, pieces: &[Piece<'a>]) -> Vec<IoSlice<'a>> {
        let mut slices = Vec::with_capacity(2 * pieces.len());
        let mut at = 0;
        for (end, piece) in self.ends.iter().zip(pieces) {
            slices.push(IoSlice::new(&self.head[at..*end]));
            slices.push(IoSlice::new(piece.bytes));
            at = *end;
        }
        slices
    }
}

/// What became of a batch.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Produced {
    pub topic: String,
    pub partition: i32,
    pub error: i16,
    /// Records that the broker says no to, by their place in the batch.
    pub refused: Vec<i32>,
    /// What it says of them.
    pub message: Option<String>,
}

/// The answer to a Produce, and for how long the broker wants to be left alone, in milliseconds.
pub(super) fn produced(body: &[u8], version: i16) -> Result<(Vec<Produced>, i32), Malformed> {
    let mut input = Input(body);
    let mut all = Vec::new();
    for _ in 0..input.count(6)? {
        let topic = input.text()?;
        for _ in 0..input.count(22)? {
            let (partition, error) = (input.i32()?, input.i16()?);
            input.take(16)?; // base_offset, log_append_time_ms
            if version >= 5 {
                input.take(8)?; // log_start_offset
            }
            let (mut refused, mut message) = (Vec::new(), None);
            if version >= 8 {
                for _ in 0..input.optional_count(6)? {
                    refused.push(input.i32()?);
                    let said = input.optional_text()?;
                    message = message.or_else(|| said.map(cut));
                }
                let said = input.optional_text()?;
                message = message.or_else(|| said.map(cut));
            }
            all.push(Produced {
                topic: topic.to_owned(),
                partition,
                error,
                refused,
                message,
            });
        }
    }
    Ok((all, input.i32()?.max(0)))
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// The number that a broker knows a producer by, with its epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kafka::wire) struct Identity {
    pub id: i64,
    pub epoch: i16,
}

/// Asks for a number, of a producer without transactions.
pub(super) fn init_producer_id(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i16).to_be_bytes()); // transactional_id
    out.extend_from_slice(&(-1i32).to_be_bytes()); // transaction_timeout_ms: of transactions
}

/// The number, or the error that the broker answers with.
pub(super) fn identity(body: &[u8]) -> Result<Result<Identity, i16>, Malformed> {
    let mut input = Input(body);
    input.i32()?; // throttle_time_ms
    let error = input.i16()?;
    let (id, epoch) = (input.i64()?, input.i16()?);
    Ok(match error {
        code::NONE if id >= 0 && epoch >= 0 => Ok(Identity { id, epoch }),
        code::NONE => return Err(Malformed("a producer's number is negative")),
        error => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::message::{Api, begin};
    use super::*;

    #[test]
    fn a_request_is_its_pieces_in_order() {
        let pieces = [("a", 0, &b"one"[..]), ("a", 2, b"two"), ("b", 1, b"three")];
        let pieces = pieces.map(|(topic, partition, bytes)| Piece {
            topic,
            partition,
            bytes,
        });
        let mut frame = Frame::default();
        frame.write(begin(Api::Produce, 8, 7, "me"), -1, 500, &pieces);
        let whole: Vec<u8> = frame
            .slices(&pieces)
            .iter()
            .flat_map(|s| s.to_vec())
            .collect();
        let mut input = Input(&whole);
        assert_eq!(input.i32().expect("a length") as usize, whole.len() - 4);
        assert_eq!(
            (input.i16(), input.i16(), input.i32()),
            (Ok(0), Ok(8), Ok(7))
        );
        assert_eq!(input.text(), Ok("me"));
        assert_eq!(
            (input.i16(), input.i16(), input.i32()),
            (Ok(-1), Ok(-1), Ok(500))
        );
        let mut found = Vec::new();
        for _ in 0..input.i32().expect("topics") {
            let topic = input.text().expect("a topic");
            for _ in 0..input.i32().expect("partitions") {
                let partition = input.i32().expect("a partition");
                let length = input.i32().expect("a length") as usize;
                let bytes = input.take(length).expect("a batch");
                found.push((topic, partition, bytes));
            }
        }
        assert_eq!(
            found,
            [("a", 0, &b"one"[..]), ("a", 2, b"two"), ("b", 1, b"three")]
        );
        assert!(input.0.is_empty());
    }

    /// A response as a broker writes it.
    fn response(version: i16, all: &[Produced], throttle: i32) -> Vec<u8> {
        let mut out = Vec::new();
        put_count(&mut out, all.len());
        for one in all {
            put_text(&mut out, &one.topic);
            put_count(&mut out, 1);
            out.extend_from_slice(&one.partition.to_be_bytes());
            out.extend_from_slice(&one.error.to_be_bytes());
            out.extend_from_slice(&[0; 16]);
            if version >= 5 {
                out.extend_from_slice(&[0; 8]);
            }
            if version >= 8 {
                put_count(&mut out, one.refused.len());
                for index in &one.refused {
                    out.extend_from_slice(&index.to_be_bytes());
                    out.extend_from_slice(&(-1i16).to_be_bytes());
                }
                match &one.message {
                    Some(text) => put_text(&mut out, text),
                    None => out.extend_from_slice(&(-1i16).to_be_bytes()),
                }
            }
        }
        out.extend_from_slice(&throttle.to_be_bytes());
        out
    }

    proptest! {
        #[test]
        fn a_response_is_read_as_it_was_written_and_no_cut_one_is(
            version in 3i16..=8,
            throttle in 0..i32::MAX,
            parts in prop::collection::vec(
                ("[a-z]{1,9}", any::<i32>(), any::<i16>(), prop::collection::vec(any::<i32>(), 0..3), "[a-z]{0,9}"),
                0..5,
            ),
        ) {
            let all: Vec<Produced> = parts
                .into_iter()
                .map(|(topic, partition, error, refused, text)| Produced {
                    topic,
                    partition,
                    error,
                    refused: if version >= 8 { refused } else { Vec::new() },
                    message: Some(text).filter(|text| version >= 8 && !text.is_empty()),
                })
                .collect();
            let body = response(version, &all, throttle);
            for cut in 0..body.len() {
                prop_assert!(produced(&body[..cut], version).is_err(), "{cut}");
            }
            prop_assert_eq!(produced(&body, version), Ok((all, throttle)));
        }

        #[test]
        fn no_bytes_are_too_much_for_the_decoders(bytes in prop::collection::vec(any::<u8>(), 0..200), version in 3i16..=8) {
            produced(&bytes, version).ok();
            identity(&bytes).ok();
        }
    }

    #[test]
    fn a_number_is_read_and_a_refusal_told() {
        let body = |error: i16, id: i64, epoch: i16| {
            let mut out = vec![0; 4];
            out.extend_from_slice(&error.to_be_bytes());
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&epoch.to_be_bytes());
            out
        };
        assert_eq!(
            identity(&body(0, 5, 1)),
            Ok(Ok(Identity { id: 5, epoch: 1 }))
        );
        assert_eq!(identity(&body(31, -1, -1)), Ok(Err(31)));
        assert!(identity(&body(0, -1, 0)).is_err());
    }
}
