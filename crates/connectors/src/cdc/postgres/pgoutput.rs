//! Messages of PostgreSQL's logical replication: the stream around them, and the plugin `pgoutput`
//! (protocol version 1).

use bytes::{BufMut, BytesMut};

/// A place in the log. As text `16/B374D848`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Lsn(pub u64);

impl Lsn {
    pub fn parse(text: &str) -> Option<Lsn> {
        let (high, low) = text.trim().split_once('/')?;
        let half = |digits| u32::from_str_radix(digits, 16).ok().map(u64::from);
        Some(Lsn(half(high)? << 32 | half(low)?))
    }
}

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

/// Microseconds between 1970 and the year 2000, in which the protocol's time begins.
const YEAR_2000: i64 = 946_684_800_000_000;

/// What the server sends in one message of the copy.
#[derive(PartialEq, Debug)]
pub enum Sent<'a> {
    Log(Message<'a>),
    /// A sign of life: everything before `end` has been sent.
    Alive {
        end: Lsn,
        asks: bool,
    },
}

#[derive(PartialEq, Debug)]
pub enum Message<'a> {
    /// When the transaction was committed, in milliseconds since 1970.
    Begin {
        at: i64,
    },
    Commit {
        end: Lsn,
    },
    Relation(Relation),
    Insert {
        relation: u32,
        new: Tuple<'a>,
    },
    Update {
        relation: u32,
        old: Option<Tuple<'a>>,
        new: Tuple<'a>,
    },
    Delete {
        relation: u32,
        old: Tuple<'a>,
    },
    /// Of no use here: origins, types, truncations.
    Other,
}

/// A table as it was when the rows behind this message were written.
#[derive(Clone, PartialEq, Debug)]
pub struct Relation {
    pub number: u32,
    pub schema: String,
    pub table: String,
    /// Old rows have all their columns.
    pub is_full: bool,
    pub columns: Vec<RelationColumn>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RelationColumn {
    pub name: String,
    pub ty: u32,
    /// -1 for none.
    pub modifier: i32,
}

/// The columns of a row, those of the key alone where the server logs no more.
#[derive(PartialEq, Debug)]
pub struct Tuple<'a> {
    pub is_key: bool,
    pub fields: Vec<Field<'a>>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Field<'a> {
    Null,
    /// A long value that the update did not touch, and that the log does not repeat.
    Unchanged,
    Text(&'a str),
}

impl<'a> Sent<'a> {
    /// `None` for what is no such message.
    pub fn read(bytes: &'a [u8]) -> Option<Sent<'a>> {
        let mut reader = Reader(bytes);
        match reader.u8()? {
            b'w' => {
                // Where it begins, where the log ends, and the server's clock.
                reader.take(24)?;
                Some(Sent::Log(Message::read(&mut reader)?))
            }
            b'k' => {
                let end = Lsn(reader.u64()?);
                reader.u64()?;
                let asks = reader.u8()? == 1;
                Some(Sent::Alive { end, asks })
            }
            _ => None,
        }
    }
}

impl<'a> Message<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Message<'a>> {
        Some(match reader.u8()? {
            b'B' => {
                reader.u64()?;
                let at = reader.u64()? as i64;
                Message::Begin {
                    at: (at + YEAR_2000).div_euclid(1000),
                }
            }
            b'C' => {
                reader.take(9)?;
                Message::Commit {
                    end: Lsn(reader.u64()?),
                }
            }
            b'R' => Message::Relation(Relation::read(reader)?),
            b'I' => {
                let relation = reader.u32()?;
                let new = Tuple::read(reader)?;
                Message::Insert { relation, new }
            }
            b'U' => {
                let relation = reader.u32()?;
                let first = Tuple::read_marked(reader)?;
                match first {
                    (b'N', new) => Message::Update {
                        relation,
                        old: None,
                        new,
                    },
                    (_, old) => Message::Update {
                        relation,
                        old: Some(old),
                        new: Tuple::read(reader)?,
                    },
                }
            }
            b'D' => {
                let relation = reader.u32()?;
                let old = Tuple::read(reader)?;
                Message::Delete { relation, old }
            }
            _ => Message::Other,
        })
    }
}

impl Relation {
    fn read(reader: &mut Reader<'_>) -> Option<Relation> {
        let number = reader.u32()?;
        let schema = reader.text()?.to_owned();
        let table = reader.text()?.to_owned();
        let is_full = reader.u8()? == b'f';
        let count = reader.u16()?;
        let columns = (0..count).map(|_| {
            reader.u8()?;
            Some(RelationColumn {
                name: reader.text()?.to_owned(),
                ty: reader.u32()?,
                modifier: reader.u32()? as i32,
            })
        });
        let columns = columns.collect::<Option<_>>()?;
        Some(Relation {
            number,
            schema: if schema.is_empty() {
                "pg_catalog".into()
            } else {
                schema
            },
            table,
            is_full,
            columns,
        })
    }
}

impl<'a> Tuple<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Tuple<'a>> {
        Tuple::read_marked(reader).map(|(_, tuple)| tuple)
    }

    /// With the letter that says which tuple it is: `N` new, `O` old, `K` key.
    fn read_marked(reader: &mut Reader<'a>) -> Option<(u8, Tuple<'a>)> {
        let mark = reader.u8()?;
        let count = reader.u16()?;
        let fields = (0..count).map(|_| {
            Some(match reader.u8()? {
                b'n' => Field::Null,
                b'u' => Field::Unchanged,
                b't' => {
                    let len = reader.u32()? as usize;
                    Field::Text(std::str::from_utf8(reader.take(len)?).ok()?)
                }
                _ => return None,
            })
        });
        let tuple = Tuple {
            is_key: mark == b'K',
            fields: fields.collect::<Option<_>>()?,
        };
        Some((mark, tuple))
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Up to a zero.
    fn text(&mut self) -> Option<&'a str> {
        let len = memchr::memchr(0, self.0)?;
        let text = std::str::from_utf8(self.take(len)?).ok()?;
        self.take(1)?;
        Some(text)
    }
}

/// Says how far everything is safe here, as a message of the copy; `asks` for a sign of life.
pub fn status(safe: Lsn, now_ms: i64, asks: bool, out: &mut BytesMut) {
    out.put_u8(b'd');
    out.put_u32(4 + 34);
    out.put_u8(b'r');
    // Written, flushed and applied.
    for _ in 0..3 {
        out.put_u64(safe.0);
    }
    out.put_i64(now_ms * 1000 - YEAR_2000);
    out.put_u8(u8::from(asks));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_log() {
        let lsn = Lsn::parse("16/B374D848").unwrap();
        assert_eq!(lsn, Lsn(0x16_b374_d848));
        assert_eq!(lsn.to_string(), "16/B374D848");
        assert_eq!(Lsn::parse("16"), None);
    }

    fn log(message: &[u8]) -> Vec<u8> {
        let mut bytes = vec![b'w'];
        bytes.extend([0; 24]);
        bytes.extend(message);
        bytes
    }

    #[test]
    fn messages_of_the_log() {
        let read = |message: &[u8], expect: Message<'_>| {
            let bytes = log(message);
            assert_eq!(Sent::read(&bytes), Some(Sent::Log(expect)));
            // Cut anywhere, it is not a message, and nothing breaks.
            for len in 0..bytes.len() {
                Sent::read(&bytes[..len]);
            }
        };
        let mut begin = b"B".to_vec();
        begin.extend([0; 8]);
        begin.extend(2_000_i64.to_be_bytes());
        begin.extend([0; 4]);
        read(
            &begin,
            Message::Begin {
                at: 946_684_800_002,
            },
        );
        let relation = b"R\0\0\0\x07public\0t\0f\0\x01\x01id\0\0\0\0\x17\xff\xff\xff\xff";
        let expect = Relation {
            number: 7,
            schema: "public".into(),
            table: "t".into(),
            is_full: true,
            columns: vec![RelationColumn {
                name: "id".into(),
                ty: 23,
                modifier: -1,
            }],
        };
        read(relation, Message::Relation(expect));
        let tuple = |is_key, fields: &[Field<'static>]| Tuple {
            is_key,
            fields: fields.to_vec(),
        };
        read(
            b"U\0\0\0\x07K\0\x01t\0\0\0\x011N\0\x02nu",
            Message::Update {
                relation: 7,
                old: Some(tuple(true, &[Field::Text("1")])),
                new: tuple(false, &[Field::Null, Field::Unchanged]),
            },
        );
        read(b"Y\0", Message::Other);
    }

    #[test]
    fn the_status_is_a_message_of_the_copy() {
        let mut out = BytesMut::new();
        status(Lsn(5), 0, true, &mut out);
        assert_eq!(out.len(), 1 + 4 + 34);
        assert_eq!(out[5], b'r');
        assert_eq!(out.last(), Some(&1));
    }
}
