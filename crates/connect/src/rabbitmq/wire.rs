//! Frames, methods and tables of AMQP 0-9-1, with RabbitMQ's extensions.

use bytes::{Buf as _, Bytes, BytesMut};

/// Opens a connection.
pub(super) const GREETING: &[u8; 8] = b"AMQP\0\0\x09\x01";

/// The longest frame that is read, whatever was agreed upon.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// A source has one channel, a sink two.
const CHANNELS_MAX: u16 = 2;

/// Tables within tables.
const DEPTH_MAX: u32 = 16;

/// The last byte of every frame.
const END: u8 = 0xce;

#[derive(PartialEq, Eq, Debug)]
pub(super) enum Frame {
    Method { channel: u16, method: Method },
    Header { size: u64, properties: Bytes },
    Body(Bytes),
    Heartbeat,
}

/// What a broker says, as far as it concerns us.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Method {
    Start {
        mechanisms: String,
    },
    Tune {
        frame_max: u32,
        heartbeat: u16,
    },
    OpenOk,
    /// Of the connection or a channel: code and words.
    Close {
        code: u16,
        text: String,
    },
    CloseOk,
    Blocked {
        reason: String,
    },
    Unblocked,
    ChannelOpenOk,
    Flow {
        is_active: bool,
    },
    ExchangeDeclareOk,
    QueueDeclareOk {
        queue: String,
    },
    BindOk,
    QosOk,
    ConsumeOk,
    /// The broker has ended a consumer.
    Cancel,
    CancelOk,
    Return {
        code: u16,
        text: String,
    },
    Deliver(Deliver),
    Ack {
        tag: u64,
        is_multiple: bool,
    },
    Nack {
        tag: u64,
        is_multiple: bool,
    },
    SelectOk,
    Other(u16, u16),
}

#[derive(PartialEq, Eq, Debug)]
pub(super) struct Deliver {
    pub tag: u64,
    pub is_redelivered: bool,
    pub exchange: String,
    pub routing_key: String,
}

/// Takes the frame that is first in the buffer; `None` where it is not whole yet.
pub(super) fn parse(buffer: &mut BytesMut) -> Result<Option<Frame>, String> {
    if buffer.starts_with(b"AMQP") {
        return Err("the broker speaks another version of AMQP".to_owned());
    }
    let Some(head) = buffer.first_chunk::<7>() else {
        return Ok(None);
    };
    let [kind, channel_high, channel_low, size @ ..] = *head;
    let channel = u16::from_be_bytes([channel_high, channel_low]);
    let size = u32::from_be_bytes(size) as usize;
    if !matches!(kind, 1 | 2 | 3 | 8) || size > FRAME_BYTES_MAX {
        return Err(wrong("a frame of no known kind or length"));
    }
    if buffer.len() < size + 8 {
        return Ok(None);
    }
    buffer.advance(7);
    let payload = buffer.split_to(size).freeze();
    if buffer.get_u8() != END {
        return Err(wrong("a frame without its end"));
    }
    Ok(Some(match kind {
        1 => Frame::Method {
            channel,
            method: method(payload)?,
        },
        2 => {
            let mut from = Reading(payload);
            from.u16()?;
            from.u16()?;
            Frame::Header {
                size: from.u64()?,
                properties: from.0,
            }
        }
        3 => Frame::Body(payload),
        _ => Frame::Heartbeat,
    }))
}

fn wrong(what: &str) -> String {
    format!("the other side does not speak AMQP 0-9-1: {what}")
}

fn method(payload: Bytes) -> Result<Method, String> {
    let mut from = Reading(payload);
    let (class, method) = (from.u16()?, from.u16()?);
    Ok(match (class, method) {
        (10, 10) => {
            from.u16()?;
            from.long_text()?;
            Method::Start {
                mechanisms: String::from_utf8_lossy(&from.long_text()?).into_owned(),
            }
        }
        (10, 30) => {
            from.u16()?;
            Method::Tune {
                frame_max: from.u32()?,
                heartbeat: from.u16()?,
            }
        }
        (10, 41) => Method::OpenOk,
        (10, 50) | (20, 40) => Method::Close {
            code: from.u16()?,
            text: from.short_text()?,
        },
        (10, 51) | (20, 41) => Method::CloseOk,
        (10, 60) => Method::Blocked {
            reason: from.short_text()?,
        },
        (10, 61) => Method::Unblocked,
        (20, 11) => Method::ChannelOpenOk,
        (20, 20) => Method::Flow {
            is_active: from.u8()? & 1 == 1,
        },
        (40, 11) => Method::ExchangeDeclareOk,
        (50, 11) => Method::QueueDeclareOk {
            queue: from.short_text()?,
        },
        (50, 21) => Method::BindOk,
        (60, 11) => Method::QosOk,
        (60, 21) => Method::ConsumeOk,
        (60, 30) => Method::Cancel,
        (60, 31) => Method::CancelOk,
        (60, 50) => Method::Return {
            code: from.u16()?,
            text: from.short_text()?,
        },
        (60, 60) => {
            from.short_text()?;
            Method::Deliver(Deliver {
                tag: from.u64()?,
                is_redelivered: from.u8()? & 1 == 1,
                exchange: from.short_text()?,
                routing_key: from.short_text()?,
            })
        }
        (60, 80) => Method::Ack {
            tag: from.u64()?,
            is_multiple: from.u8()? & 1 == 1,
        },
        (60, 120) => Method::Nack {
            tag: from.u64()?,
            is_multiple: from.u8()? & 1 == 1,
        },
        (85, 11) => Method::SelectOk,
        _ => Method::Other(class, method),
    })
}

/// Bytes that are read from the front.
pub(super) struct Reading(pub Bytes);

impl Reading {
    fn take(&mut self, count: usize) -> Result<Bytes, String> {
        match self.0.len() >= count {
            true => Ok(self.0.split_to(count)),
            false => Err(wrong("a frame that is shorter than what it holds")),
        }
    }

    fn u8(&mut self) -> Result<u8, String> {
        self.take(1).map(|mut b| b.get_u8())
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.take(2).map(|mut b| b.get_u16())
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take(4).map(|mut b| b.get_u32())
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take(8).map(|mut b| b.get_u64())
    }

    fn long_text(&mut self) -> Result<Bytes, String> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    fn short_text(&mut self) -> Result<String, String> {
        let len = usize::from(self.u8()?);
        let text = self.take(len)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Names and values, each as text.
    fn table(&mut self, depth: u32) -> Result<Vec<(String, String)>, String> {
        let mut entries = Reading(self.long_text()?);
        let mut found = Vec::new();
        while !entries.0.is_empty() {
            let name = entries.short_text()?;
            found.push((name, entries.value(depth)?));
        }
        Ok(found)
    }

    /// One value of a table as text; tables and lists as JSON would have them.
    fn value(&mut self, depth: u32) -> Result<String, String> {
        if depth == DEPTH_MAX {
            return Err(wrong("tables are nested too deep"));
        }
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        Ok(match self.u8()? {
            b't' => (self.u8()? != 0).to_string(),
            b'b' => (self.u8()?.cast_signed()).to_string(),
            b'B' => self.u8()?.to_string(),
            b's' => (self.u16()?.cast_signed()).to_string(),
            b'u' => self.u16()?.to_string(),
            b'I' => (self.u32()?.cast_signed()).to_string(),
            b'i' => self.u32()?.to_string(),
            b'l' | b'L' => (self.u64()?.cast_signed()).to_string(),
            b'T' => self.u64()?.to_string(),
            b'f' => f32::from_bits(self.u32()?).to_string(),
            b'd' => f64::from_bits(self.u64()?).to_string(),
            b'D' => {
                let scale = self.u8()?;
                let digits = f64::from(self.u32()?.cast_signed());
                (digits / 10_f64.powi(i32::from(scale))).to_string()
            }
            b'S' | b'x' => String::from_utf8_lossy(&self.long_text()?).into_owned(),
            b'V' => "null".to_owned(),
            b'F' => {
                let entries = self.table(depth + 1)?;
                let entries = entries
                    .iter()
                    .map(|(k, v)| format!("{}:{}", quoted(k), quoted(v)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
            }
            b'A' => {
                let mut items = Reading(self.long_text()?);
                let mut found = Vec::new();
                while !items.0.is_empty() {
                    found.push(quoted(&items.value(depth + 1)?));
                }
                format!("[{}]", found.join(","))
            }
            _ => return Err(wrong("a table has a value of no known type")),
        })
    }
}

// ---- properties of messages ----

/// How the properties of a message are called in options and as transport properties, in the order of
/// their flags, with the form of each: text, a table, a byte, or a time of seconds.
pub(super) const PROPERTIES: [(&str, char); 14] = [
    ("content.type", 's'),
    ("content.encoding", 's'),
    ("headers", 'F'),
    ("delivery.mode", 'B'),
    ("priority", 'B'),
    ("correlation.id", 's'),
    ("reply.to", 's'),
    ("expiration", 's'),
    ("message.id", 's'),
    ("timestamp", 'T'),
    ("type", 's'),
    ("user.id", 's'),
    ("app.id", 's'),
    ("cluster.id", 's'),
];

/// The properties that a message has, and its headers behind them, by name.
pub(super) fn read_properties(bytes: Bytes) -> Result<Vec<(String, String)>, String> {
    let mut from = Reading(bytes);
    let flags = from.u16()?;
    let (mut found, mut headers) = (Vec::new(), Vec::new());
    for (at, (name, form)) in PROPERTIES.iter().enumerate() {
        if flags & 0x8000 >> at == 0 {
            continue;
        }
        let value = match form {
            's' => from.short_text()?,
            'B' => from.u8()?.to_string(),
            'T' => from.u64()?.to_string(),
            _ => {
                headers = from.table(0)?;
                continue;
            }
        };
        found.push(((*name).to_owned(), value));
    }
    found.append(&mut headers);
    Ok(found)
}

/// Appends a content header frame and the frames of the body.
pub(super) fn write_content(
    into: &mut Vec<u8>,
    channel: u16,
    properties: &[(&str, &str)],
    headers: &[(String, String)],
    body: &[u8],
    frame_max: usize,
) {
    let header = frame(into, 2, channel, |into| {
        into.extend_from_slice(&60_u16.to_be_bytes());
        into.extend_from_slice(&0_u16.to_be_bytes());
        into.extend_from_slice(&(body.len() as u64).to_be_bytes());
        let flags_at = into.len();
        into.extend_from_slice(&[0, 0]);
        let mut flags = 0_u16;
        for (at, (name, form)) in PROPERTIES.iter().enumerate() {
            let value = properties.iter().find(|(k, _)| k == name).map(|(_, v)| *v);
            let is_there = match (form, value) {
                ('F', _) if !headers.is_empty() => {
                    write_table(into, headers);
                    true
                }
                ('s', Some(text)) => {
                    short_text(into, text);
                    true
                }
                ('B', Some(text)) => {
                    into.push(text.parse().unwrap_or_default());
                    true
                }
                ('T', Some(text)) => {
                    let seconds: u64 = text.parse().unwrap_or_default();
                    into.extend_from_slice(&seconds.to_be_bytes());
                    true
                }
                _ => false,
            };
            if is_there {
                flags |= 0x8000 >> at;
            }
        }
        into[flags_at..flags_at + 2].copy_from_slice(&flags.to_be_bytes());
    });
    debug_assert!(header > 0);
    for part in body.chunks(frame_max.saturating_sub(8).max(1)) {
        frame(into, 3, channel, |into| into.extend_from_slice(part));
    }
}

/// Appends a frame around what `write` appends; how long that is.
fn frame(into: &mut Vec<u8>, kind: u8, channel: u16, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    into.push(kind);
    into.extend_from_slice(&channel.to_be_bytes());
    into.extend_from_slice(&[0; 4]);
    let start = into.len();
    write(into);
    let len = into.len() - start;
    into[start - 4..start].copy_from_slice(&(len as u32).to_be_bytes());
    into.push(END);
    len
}

/// The longest text of names, keys and most properties, in bytes.
pub(super) const SHORT_BYTES_MAX: usize = 255;

/// What is longer was refused before.
fn short_text(into: &mut Vec<u8>, text: &str) {
    let mut len = text.len().min(SHORT_BYTES_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    into.push(len as u8);
    into.extend_from_slice(&text.as_bytes()[..len]);
}

fn long_text(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    into.extend_from_slice(bytes);
}

fn write_table(into: &mut Vec<u8>, entries: &[(String, String)]) {
    table(into, |into| {
        for (name, value) in entries {
            short_text(into, name);
            into.push(b'S');
            long_text(into, value.as_bytes());
        }
    });
}

fn table(into: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    into.extend_from_slice(&[0; 4]);
    let start = into.len();
    write(into);
    let len = into.len() - start;
    into[start - 4..start].copy_from_slice(&(len as u32).to_be_bytes());
}

// ---- what we say ----

/// Appends a method frame.
fn say(
    into: &mut Vec<u8>,
    channel: u16,
    (class, method): (u16, u16),
    write: impl FnOnce(&mut Vec<u8>),
) {
    frame(into, 1, channel, |into| {
        into.extend_from_slice(&class.to_be_bytes());
        into.extend_from_slice(&method.to_be_bytes());
        write(into);
    });
}

pub(super) fn heartbeat(into: &mut Vec<u8>) {
    frame(into, 8, 0, |_| {});
}

pub(super) fn start_ok(into: &mut Vec<u8>, name: &str, user: &str, password: &str) {
    say(into, 0, (10, 11), |into| {
        table(into, |into| {
            let texts = [
                ("product", "Headwater"),
                ("version", env!("CARGO_PKG_VERSION")),
                ("connection_name", name),
            ];
            for (key, value) in texts {
                short_text(into, key);
                into.push(b'S');
                long_text(into, value.as_bytes());
            }
            short_text(into, "capabilities");
            into.push(b'F');
            table(into, |into| {
                for key in [
                    "publisher_confirms",
                    "consumer_cancel_notify",
                    "connection.blocked",
                    "basic.nack",
                    "authentication_failure_close",
                ] {
                    short_text(into, key);
                    into.extend_from_slice(b"t\x01");
                }
            });
        });
        short_text(into, "PLAIN");
        long_text(into, format!("\0{user}\0{password}").as_bytes());
        short_text(into, "en_US");
    });
}

pub(super) fn tune_ok(into: &mut Vec<u8>, frame_max: u32, heartbeat: u16) {
    say(into, 0, (10, 31), |into| {
        into.extend_from_slice(&CHANNELS_MAX.to_be_bytes());
        into.extend_from_slice(&frame_max.to_be_bytes());
        into.extend_from_slice(&heartbeat.to_be_bytes());
    });
}

pub(super) fn open(into: &mut Vec<u8>, vhost: &str) {
    say(into, 0, (10, 40), |into| {
        short_text(into, vhost);
        into.extend_from_slice(&[0, 0]);
    });
}

/// Ends the connection in order.
pub(super) fn close(into: &mut Vec<u8>) {
    say(into, 0, (10, 50), |into| {
        into.extend_from_slice(&200_u16.to_be_bytes());
        short_text(into, "good-bye");
        into.extend_from_slice(&[0; 4]);
    });
}

/// Answers the end of the connection (channel 0) or of a channel.
pub(super) fn close_ok(into: &mut Vec<u8>, channel: u16) {
    let class = if channel == 0 { (10, 51) } else { (20, 41) };
    say(into, channel, class, |_| {});
}

pub(super) fn channel_open(into: &mut Vec<u8>, channel: u16) {
    say(into, channel, (20, 10), |into| into.push(0));
}

pub(super) fn flow_ok(into: &mut Vec<u8>, channel: u16, is_active: bool) {
    say(into, channel, (20, 21), |into| into.push(is_active.into()));
}

/// An exchange or queue as it is asked for, or made.
#[derive(Clone, Copy)]
pub(super) struct Traits {
    /// Only asks whether it is there.
    pub is_passive: bool,
    pub is_durable: bool,
    pub is_exclusive: bool,
    pub is_auto_delete: bool,
}

pub(super) fn exchange_declare(
    into: &mut Vec<u8>,
    channel: u16,
    name: &str,
    kind: &str,
    traits: Traits,
) {
    say(into, channel, (40, 10), |into| {
        into.extend_from_slice(&[0, 0]);
        short_text(into, name);
        short_text(into, kind);
        into.push(
            u8::from(traits.is_passive)
                | u8::from(traits.is_durable) << 1
                | u8::from(traits.is_auto_delete) << 2,
        );
        write_table(into, &[]);
    });
}

pub(super) fn queue_declare(into: &mut Vec<u8>, channel: u16, name: &str, traits: Traits) {
    say(into, channel, (50, 10), |into| {
        into.extend_from_slice(&[0, 0]);
        short_text(into, name);
        into.push(
            u8::from(traits.is_passive)
                | u8::from(traits.is_durable) << 1
                | u8::from(traits.is_exclusive) << 2
                | u8::from(traits.is_auto_delete) << 3,
        );
        write_table(into, &[]);
    });
}

pub(super) fn queue_bind(
    into: &mut Vec<u8>,
    channel: u16,
    queue: &str,
    exchange: &str,
    routing_key: &str,
    arguments: &[(String, String)],
) {
    say(into, channel, (50, 20), |into| {
        into.extend_from_slice(&[0, 0]);
        short_text(into, queue);
        short_text(into, exchange);
        short_text(into, routing_key);
        into.push(0);
        write_table(into, arguments);
    });
}

pub(super) fn qos(into: &mut Vec<u8>, channel: u16, count: u16) {
    say(into, channel, (60, 10), |into| {
        into.extend_from_slice(&[0; 4]);
        into.extend_from_slice(&count.to_be_bytes());
        into.push(0);
    });
}

pub(super) fn consume(into: &mut Vec<u8>, channel: u16, queue: &str, tag: &str, acks_itself: bool) {
    say(into, channel, (60, 20), |into| {
        into.extend_from_slice(&[0, 0]);
        short_text(into, queue);
        short_text(into, tag);
        into.push(u8::from(acks_itself) << 1);
        write_table(into, &[]);
    });
}

pub(super) fn cancel(into: &mut Vec<u8>, channel: u16, tag: &str) {
    say(into, channel, (60, 30), |into| {
        short_text(into, tag);
        into.push(0);
    });
}

pub(super) fn publish(into: &mut Vec<u8>, channel: u16, exchange: &str, routing_key: &str) {
    say(into, channel, (60, 40), |into| {
        into.extend_from_slice(&[0, 0]);
        short_text(into, exchange);
        short_text(into, routing_key);
        into.push(0);
    });
}

pub(super) fn ack(into: &mut Vec<u8>, channel: u16, tag: u64) {
    say(into, channel, (60, 80), |into| {
        into.extend_from_slice(&tag.to_be_bytes());
        into.push(0);
    });
}

pub(super) fn confirm_select(into: &mut Vec<u8>, channel: u16) {
    say(into, channel, (85, 10), |into| into.push(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Frame>, String> {
        let mut buffer = BytesMut::from(bytes);
        let mut found = Vec::new();
        while let Some(frame) = parse(&mut buffer)? {
            found.push(frame);
        }
        Ok(found)
    }

    #[test]
    fn contents_come_back_however_they_are_cut() {
        let mut bytes = Vec::new();
        heartbeat(&mut bytes);
        say(&mut bytes, 1, (60, 60), |into| {
            short_text(into, "tag");
            into.extend_from_slice(&7_u64.to_be_bytes());
            into.push(1);
            short_text(into, "e");
            short_text(into, "k");
        });
        let headers = [("h".to_owned(), "é".to_owned())];
        let properties = [
            ("content.type", "text/plain"),
            ("priority", "9"),
            ("timestamp", "17"),
            ("app.id", "us"),
        ];
        write_content(&mut bytes, 1, &properties, &headers, b"abcdef", 12);
        let whole = all(&bytes).expect("frames");
        assert_eq!(whole.len(), 5);
        assert_eq!(whole[0], Frame::Heartbeat);
        let deliver = Deliver {
            tag: 7,
            is_redelivered: true,
            exchange: "e".into(),
            routing_key: "k".into(),
        };
        let method = Method::Deliver(deliver);
        assert_eq!(whole[1], Frame::Method { channel: 1, method });
        assert_eq!(whole[3], Frame::Body(Bytes::from_static(b"abcd")));
        assert_eq!(whole[4], Frame::Body(Bytes::from_static(b"ef")));
        let Frame::Header { size, properties } = &whole[2] else {
            panic!("no header: {whole:?}");
        };
        assert_eq!(*size, 6);
        let found = read_properties(properties.clone()).expect("properties");
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("content.type", "text/plain"),
                ("priority", "9"),
                ("timestamp", "17"),
                ("app.id", "us"),
                ("h", "é"),
            ]
        );
        for cut in 0..bytes.len() {
            let mut buffer = BytesMut::from(&bytes[..cut]);
            let mut found = Vec::new();
            for rest in [&b""[..], &bytes[cut..]] {
                buffer.extend_from_slice(rest);
                while let Some(frame) = parse(&mut buffer).expect("frames") {
                    found.push(frame);
                }
            }
            assert_eq!(found, whole, "{cut}");
        }
    }

    #[test]
    fn values_of_headers_become_text() {
        fn check(bytes: &[u8], expect: Result<&str, ()>) {
            let found = Reading(Bytes::copy_from_slice(bytes)).value(0);
            assert_eq!(found.as_deref().map_err(|_| ()), expect, "{bytes:?}");
        }
        check(b"t\x01", Ok("true"));
        check(b"b\xff", Ok("-1"));
        check(b"I\xff\xff\xff\xfe", Ok("-2"));
        check(b"l\0\0\0\0\0\0\0\x05", Ok("5"));
        check(b"d\x3f\xf8\0\0\0\0\0\0", Ok("1.5"));
        check(b"D\x02\0\0\0\xfa", Ok("2.5"));
        check(b"S\0\0\0\x02hi", Ok("hi"));
        check(b"V", Ok("null"));
        check(b"A\0\0\0\x04t\x01t\0", Ok(r#"["true","false"]"#));
        check(b"F\0\0\0\x04\x01at\x01", Ok(r#"{"a":"true"}"#));
        check(b"S\0\0\0\x03hi", Err(()));
        check(b"?", Err(()));
        let mut deep = Vec::new();
        for level in (0..40_u32).rev() {
            deep.extend_from_slice(b"A");
            deep.extend_from_slice(&(level * 5).to_be_bytes());
        }
        check(&deep, Err(()));
    }

    #[test]
    fn what_is_no_amqp_is_told() {
        for bytes in [
            &b"HTTP/1.1 400\r\n"[..],
            b"AMQP\0\0\x09\x01",
            b"\x01\0\0\xff\xff\xff\xff",
            b"\x08\0\0\0\0\0\0\x00",
            b"\x01\0\0\0\0\0\x02\0\x0a\xce",
        ] {
            assert!(all(bytes).is_err(), "{bytes:?}");
        }
    }
}
