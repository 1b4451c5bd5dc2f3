//! For the fuzz target: responses of any bytes, and batches of records of any bytes.

use std::time::Instant;

use bytes::Bytes;

use super::super::batch::{Reader, Rules, Step, whole};
use super::super::codec::{Codec, Packer};
use super::batch::{Outgoing, RecordBatch};
use super::message;
use connect::component::Payload;
use connect::message::Message;

/// Longest key and value of a record.
const PIECE: usize = 50;

/// Most bytes that are written: packing them in each codec is what takes the time.
const BYTES_MAX: usize = 4 << 10;

/// Decodes the bytes as what a broker answers; writes them as records, and reads those.
pub(in super::super) fn check(bytes: &[u8], version: i16) {
    message::produced(bytes, version).ok();
    message::identity(bytes).ok();
    let bytes = &bytes[..bytes.len().min(BYTES_MAX)];
    let Some(codec) = Codec::of_attributes(version % 5) else {
        return;
    };
    let mut batch = RecordBatch::new(RecordBatch::bare(), Instant::now());
    let message = Message::of(Payload::Bytes(bytes));
    let pieces = || bytes.chunks(PIECE);
    for (number, piece) in pieces().enumerate() {
        let (first, rest) = piece.split_at(piece.len() / 3);
        batch.append(&Outgoing {
            key: number.is_multiple_of(2).then_some(first),
            value: [first, rest],
            number: number as u64,
            time: i64::from(piece[0]) << 30,
            message: &message,
        });
    }
    if batch.count() == 0 {
        return;
    }
    let finished = batch.finish(Packer::new(codec, None));
    finished.expect("what is in memory can be packed");
    let wire = batch.wire();
    assert_eq!(whole(wire).map(|whole| whole.bytes), Ok(wire.len()));
    let mut reader = Reader::new(Rules {
        is_committed: true,
        checks_sums: true,
        bytes_max: 1 << 20,
    });
    reader.load(Bytes::copy_from_slice(wire), 0, Vec::new());
    for (number, piece) in pieces().enumerate() {
        assert_eq!(reader.advance(), Step::Record);
        let record = reader.record();
        let key = number.is_multiple_of(2).then(|| &piece[..piece.len() / 3]);
        assert_eq!((record.key, record.value), (key, Some(piece)));
        assert_eq!(record.time, i64::from(piece[0]) << 30);
    }
    assert_eq!(reader.advance(), Step::End);
}
