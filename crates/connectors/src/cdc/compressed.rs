//! What a binary log holds in compressed form: whole transactions of MySQL
//! (`binlog_transaction_compression`), single events of MariaDB (`log_bin_compress`).

use std::io::{self, BufRead, Read};

use flate2::read::ZlibDecoder;
use mysql::binlog::BinlogChecksumAlg;
use mysql::binlog::events::{BinlogEventFooter, Event, FormatDescriptionEvent};

/// The largest `max_allowed_packet`, and so the largest event of either server.
pub(crate) const EVENT_MAX: usize = 1 << 30;

/// Before every event: its type lies at 4, its length at 9.
const HEADER: usize = 19;

/// Kinds of MariaDB's compressed events, and those that they are in plain.
const QUERY: (u8, u8) = (165, 2);
const ROWS: [(u8, u8); 6] = [
    (166, 23),
    (167, 24),
    (168, 25),
    (169, 30),
    (170, 31),
    (171, 32),
];

/// Updates have the columns of two rows.
const UPDATES: [u8; 2] = [24, 31];

/// Before the text of a statement: numbers, at 8 the length of the database's name, at 11 that of the
/// status.
const QUERY_NUMBERS: usize = 13;

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// How events look that have no checksum of their own.
fn plain(description: &FormatDescriptionEvent<'static>) -> FormatDescriptionEvent<'static> {
    let footer = BinlogEventFooter::new(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_OFF);
    description.clone().with_footer(footer)
}

/// The next event of an unpacked transaction; `None` at its end.
///
/// # Errors
/// It ends in the middle of an event, or has one of an impossible length.
pub(crate) fn next(
    transaction: &mut impl BufRead,
    description: &FormatDescriptionEvent<'static>,
) -> io::Result<Option<Event>> {
    if transaction.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut bytes = vec![0; HEADER];
    transaction.read_exact(&mut bytes)?;
    let len = u32::from_le_bytes([bytes[9], bytes[10], bytes[11], bytes[12]]) as usize;
    if !(HEADER..=EVENT_MAX).contains(&len) {
        return Err(broken("an event of a transaction has an impossible length"));
    }
    transaction
        .take((len - HEADER) as u64)
        .read_to_end(&mut bytes)?;
    read(bytes, len, description).map(Some)
}

/// An event from all of its bytes.
fn read(
    bytes: Vec<u8>,
    len: usize,
    description: &FormatDescriptionEvent<'static>,
) -> io::Result<Event> {
    if bytes.len() != len {
        return Err(broken("an event ends before its end"));
    }
    Event::read(&plain(description), &bytes[..])
}

/// A compressed event of MariaDB as it is in plain; `None` of any other.
pub(crate) fn inflated(event: &Event) -> Option<io::Result<Event>> {
    let kind = event.header().event_type_raw();
    let mut known = ROWS.iter().chain([&QUERY]);
    let (_, to) = known.find(|(compressed, _)| *compressed == kind)?;
    Some(inflate(event, *to))
}

fn inflate(event: &Event, kind: u8) -> io::Result<Event> {
    let data = event.data();
    let head = match kind == QUERY.1 {
        true => head_of_query(data),
        false => head_of_rows(data, kind),
    };
    let head = head
        .filter(|head| *head < data.len())
        .ok_or_else(|| broken("a compressed event has no content"))?;
    let body = unpack(&data[head..])?;
    let len = HEADER + head + body.len();
    let header = event.header();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(header.timestamp().to_le_bytes());
    bytes.push(kind);
    bytes.extend(header.server_id().to_le_bytes());
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend(header.log_pos().to_le_bytes());
    bytes.extend(header.flags_raw().to_le_bytes());
    bytes.extend(&data[..head]);
    bytes.extend(body);
    read(bytes, len, event.fde())
}

/// How much comes before the compressed text of a statement.
fn head_of_query(data: &[u8]) -> Option<usize> {
    let database = usize::from(*data.get(8)?);
    let status = usize::from(u16::from_le_bytes([*data.get(11)?, *data.get(12)?]));
    Some(QUERY_NUMBERS + status + database + 1)
}

/// How much comes before compressed rows: a table, flags, and which columns there are.
fn head_of_rows(data: &[u8], kind: u8) -> Option<usize> {
    let mut head = 8;
    // The second form of rows has further data, whose length counts itself.
    if kind >= ROWS[3].1 {
        let more = [*data.get(8)?, *data.get(9)?];
        head += usize::from(u16::from_le_bytes(more));
    }
    let first = *data.get(head)?;
    // A length as the protocol writes it.
    let (columns, taken) = match first {
        0..=250 => (usize::from(first), 1),
        252 => {
            let two = [*data.get(head + 1)?, *data.get(head + 2)?];
            (usize::from(u16::from_le_bytes(two)), 3)
        }
        _ => return None,
    };
    let images = 1 + usize::from(UPDATES.contains(&kind));
    Some(head + taken + images * columns.div_ceil(8))
}

/// `1aaa0nnn`, with the algorithm and the number of bytes of the length that follows, then the content.
fn unpack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    const ZLIB: u8 = 0;
    let first = bytes[0];
    let width = usize::from(first & 0x07);
    if first & 0x80 == 0 || first >> 4 & 0x07 != ZLIB || bytes.len() <= width || width > 4 {
        return Err(broken("an event is compressed in an unknown way"));
    }
    let len = bytes[1..=width]
        .iter()
        .fold(0_usize, |len, byte| len << 8 | usize::from(*byte));
    if len > EVENT_MAX {
        return Err(broken("a compressed event is too long"));
    }
    let mut body = Vec::new();
    ZlibDecoder::new(&bytes[1 + width..])
        .take(len as u64 + 1)
        .read_to_end(&mut body)?;
    match body.len() == len {
        true => Ok(body),
        false => Err(broken(
            "a compressed event does not have its declared length",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_content_is_an_error_and_no_panic() {
        for bytes in [
            &[0x00, 1][..],
            &[0x81],
            &[0x81, 5, 1, 2, 3],
            &[0x84, 0xff, 0xff, 0xff, 0xff, 0x78],
            &[0x87, 1, 1, 1, 1, 1, 1, 1, 1],
        ] {
            assert!(unpack(bytes).is_err(), "{bytes:?}");
        }
        // "abc" by zlib.
        let stored = [
            0x81, 3, 0x78, 0x01, 1, 3, 0, 0xfc, 0xff, b'a', b'b', b'c', 0x02, 0x4d, 0x01, 0x27,
        ];
        assert_eq!(unpack(&stored).expect("it is whole"), b"abc");
        assert_eq!(head_of_rows(&[0; 8], 23), None);
        assert_eq!(head_of_rows(&[0, 0, 0, 0, 0, 0, 0, 0, 9], 24), Some(13));
    }
}
