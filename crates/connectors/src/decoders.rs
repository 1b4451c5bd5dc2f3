//! Our own decoders of bytes from outside, each as a function of arbitrary bytes: for the fuzz
//! targets, and for a test here with real input that is cut and altered.
//!
//! Promises: whatever the bytes are, a function returns; if bytes come in pieces, the result does
//! not depend on where they were cut, and if we also write the format, a round trip gives the same
//! value. A broken promise is a panic. Never: used by a server that runs. What libraries decode
//! (HTTP, WebSocket, MQTT, AMQP, the frames of gRPC, rows of the binary log) is tested by those
//! libraries.

use futures_util::FutureExt as _;
use mysql::binlog::BinlogVersion;
use mysql::binlog::events::FormatDescriptionEvent;

use crate::cdc::{MysqlColumn, PostgresColumn, compressed, pgoutput};
use crate::email::Mail;
use crate::http::{check_requests, events, read_form};
use crate::nats::protocol;
use crate::prometheus::scrape;
use crate::prometheus::scrape::Wanted;
use crate::rabbitmq::Nesting;
use crate::tcp::frame;
use connect::arrivals::Arrivals;
use connect::mapper::protobuf::compile;
use connect::net::http_client::check_answer;
use connect::net::{Crowd, KeyStore, Pace};
use connect::object;
use connect::url::{decode, encode};
use databridge::definition::Definition;
use databridge::stream::Layout;
use databridge::thrift::{Message, Scan, Scanner};
use databridge::{binary, bundle, reading, rows};
use event::Type;

/// Name and function of each.
pub const DECODERS: &[(&str, fn(&[u8]))] = &[
    ("cdc_mysql", cdc_mysql),
    ("cdc_postgres", cdc_postgres),
    ("http_answers", http_answers),
    ("http_form", http_form),
    ("http_requests", http_requests),
    ("kafka", kafka),
    ("keystore", keystore),
    ("mail", mail),
    ("nats", nats),
    ("object", stored_object),
    ("prometheus", prometheus),
    ("proto_file", proto_file),
    ("rabbitmq", rabbitmq),
    ("sse", sse),
    ("tcp", tcp),
    ("wso2event", wso2event),
];

/// What really comes, for each of [`DECODERS`].
pub const SEEDS: &[(&str, &[&[u8]])] = &[
    (
        "kafka",
        &[
            // A batch of the record "abc" with the header h: v, for a client that reads batches alone.
            b"\x0b\0\0\0\0\0\0\0\0\0\0\0\x3f\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\x01\x8b\0\0\0\0\0\0\
              \x01\x8b\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x01\x1a\0\0\0\x01\
              \x06abc\x02\x02h\x02v",
            // A response to Fetch 4 with one partition, an aborted transaction and no records.
            b"\x04\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x09\0\0\0\
              \x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0",
            // A response to Metadata 1: a broker, a topic, a partition.
            b"\x01\0\0\0\x01\0\0\0\x01\0\x01h\0\0\x23\x84\xff\xff\0\0\0\x01\0\0\0\x01\0\0\0\x01t\0\0\0\0\x01\
              \0\0\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01",
            // What a broker says of a written batch, one record of which it refuses; and of a producer's number.
            b"\x08\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0W\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x02\0\x02no\0\x07refused\0\0\0\x05",
            b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\x12g\0\0",
        ],
    ),
    (
        "cdc_mysql",
        &[
            // A compressed statement of MariaDB: header, numbers, `a`, "abc" by zlib.
            b"\0\0\0\0\xa5\x01\0\0\0\x31\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0a\0\
              \x81\x03\x78\x01\x01\x03\0\xfc\xffabc\x02\x4d\x01\x27",
            b"2024-02-29 12:13:14.123456",
            b"enum('it''s','b')",
            b"-12.50",
        ],
    ),
    (
        "cdc_postgres",
        &[
            b"w\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0I\0\0\0\x01N\0\x03nut\0\0\0\x0212",
            b"infinity",
            b"2024-02-29 12:13:14.123456+05:30",
            b"1 year 2 mons 3 days 04:05:06.789",
            b"-$1,234.50",
            b"16/B374D848",
            b"\\x00ff",
        ],
    ),
    (
        "http_answers",
        &[
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\n\
              Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nt: u\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\nto the end",
        ],
    ),
    (
        "http_form",
        &[
            b"a=%C3%A9&b=%zz+c%",
            b"hub.callback=http%3A%2F%2Fh%2Fc%3Fx&hub.mode=subscribe&hub.topic=a&hub.lease_seconds=60&hub.secret=s",
        ],
    ),
    (
        "http_requests",
        &[
            b"POST /a/b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}\
              POST /c HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n[]",
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ],
    ),
    (
        "keystore",
        &[
            include_bytes!("../../connect/src/net/testdata/server.jks"),
            include_bytes!("../../connect/src/net/testdata/server.pem"),
            b"\xfe\xed\xfe\xed0123456789abcdef",
        ],
    ),
    (
        "mail",
        &[b"Subject: x\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nbody\r\n--x--\r\n"],
    ),
    (
        "nats",
        &[b"\x03INFO {}\r\nMSG a 1 2\r\nhi\r\nHMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPING\r\n"],
    ),
    ("object", &[b"[1,{\"a\":null}]", b"\0\xff"]),
    (
        "prometheus",
        &[b"# HELP m help\n# TYPE m counter\nm{a=\"b\",c=\"\\\"\\n\"} 1.5e3 170\nm_sum NaN\n"],
    ),
    (
        "proto_file",
        &[include_bytes!("../../connect/src/mapper/protobuf/tests.proto")],
    ),
    (
        "rabbitmq",
        &[b"\x02\x02\0\x01\0\0\0\x16\0\x3c\0\0\0\0\0\0\0\0\0\x01\x20\0\0\0\0\x07\x01aA\0\0\0\0\xce"],
    ),
    (
        "sse",
        &[b"\x02\xef\xbb\xbfid: 1\r\nevent: x\rdata: a\ndata\n\n: nothing\n\ndata:b\n\n"],
    ),
    (
        "tcp",
        &[b"\x02\0\0\0\x14\0\0\0\x01s\0\0\0\x03a/b\0\0\0\x04data"],
    ),
    (
        "wso2event",
        &[
            // A call of `publish`: two events of stream `a:1`, the second with a null and a map.
            b"\x03\x80\x01\0\x01\0\0\0\x07publish\0\0\0\x07\x0c\0\x01\x0b\0\x01\0\0\0\x01s\x08\0\x02\0\0\0\x02\
              \x0f\0\x03\x08\0\0\0\x01\0\0\0\x09\x0f\0\x04\x0a\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\
              \x0f\0\x07\x0b\0\0\0\x05\0\0\0\x03a:1\0\0\0\x01x\0\0\0\x03a:1\0\0\0\x05_null\0\0\0\x01y\
              \x0d\0\x08\x08\x0d\0\0\0\x01\0\0\0\x01\x0b\x0b\0\0\0\x01\0\0\0\x01k\0\0\0\x01v\0\0",
            b"\x09{'name':'a','payloadData':[{'name':'p','type':'INT'}]}",
            // An event by the binary protocol, with two nulls.
            b"\x09\x02\0\0\0\x33\0\0\0\x01s\0\0\0\x01\0\0\0\x26\0\0\0\0\0\0\0\x01\0\0\0\x03a:1\
              \0\0\0\0\x3f\xf8\0\0\0\0\0\0\0\0\0\0\0\0\0\x03xyz",
        ],
    ),
];

/// The first byte says how long the pieces are.
fn pieces(bytes: &[u8]) -> (usize, &[u8]) {
    match bytes.split_first() {
        Some((piece, rest)) => (usize::from(*piece).max(1), rest),
        None => (1, bytes),
    }
}

/// Compressed events of a binary log, and values of its columns.
pub fn cdc_mysql(bytes: &[u8]) {
    const TYPES: [(&str, &str); 12] = [
        ("bigint", "bigint(20) unsigned"),
        ("bit", "bit(1)"),
        ("bit", "bit(12)"),
        ("date", "date"),
        ("datetime", "datetime(3)"),
        ("decimal", "decimal(10,2)"),
        ("enum", "enum('a','b')"),
        ("set", "set('a','b')"),
        ("text", "text"),
        ("time", "time(6)"),
        ("timestamp", "timestamp"),
        ("year", "year(4)"),
    ];
    let value = mysql::Value::Bytes(bytes.to_vec());
    for (ty, whole) in TYPES {
        for charset in ["utf8mb4", "latin1"] {
            MysqlColumn::new("c", ty, whole, charset).value(&value);
        }
    }
    // What a server says of its tables is from outside as well.
    MysqlColumn::new("c", "enum", &String::from_utf8_lossy(bytes), "utf8mb4");
    let description = FormatDescriptionEvent::new(BinlogVersion::Version4);
    let mut rest = bytes;
    while let Ok(Some(event)) = compressed::next(&mut rest, &description) {
        if let Some(Ok(plain)) = compressed::inflated(&event) {
            let length = plain.data().len() as u64;
            assert!(length <= compressed::EVENT_MAX as u64);
            assert!(compressed::inflated(&plain).is_none(), "it is plain");
        }
    }
}

/// Messages of logical replication, and values of the columns.
pub fn cdc_postgres(bytes: &[u8]) {
    use pgoutput::{Field, Message, Sent, Tuple};
    const TYPES: [u32; 17] = [
        16, 17, 20, 21, 25, 26, 700, 701, 790, 1082, 1083, 1114, 1184, 1186, 1266, 1560, 1700,
    ];
    let values = |field: Field<'_>| {
        for ty in TYPES {
            for modifier in [-1, 1, 3] {
                PostgresColumn::new("c", ty, modifier).value(field);
            }
        }
    };
    let all = |tuple: &Tuple<'_>| tuple.fields.iter().copied().for_each(values);
    match Sent::read(bytes) {
        Some(Sent::Log(Message::Insert { new, .. })) => all(&new),
        Some(Sent::Log(Message::Update { old, new, .. })) => {
            old.iter().for_each(all);
            all(&new);
        }
        Some(Sent::Log(Message::Delete { old, .. })) => all(&old),
        _ => {}
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        values(Field::Text(text));
        if let Some(lsn) = pgoutput::Lsn::parse(text) {
            assert_eq!(pgoutput::Lsn::parse(&lsn.to_string()), Some(lsn));
        }
    }
}

/// Answers to our requests.
pub fn http_answers(bytes: &[u8]) {
    check_answer(bytes);
}

/// Percent-encoding.
pub fn http_form(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    decode(&text);
    read_form(&text);
    let mut encoded = String::new();
    encode(&mut encoded, &text);
    assert_eq!(decode(&encoded), text);
}

/// Requests that are answered without the HTTP library.
pub fn http_requests(bytes: &[u8]) {
    check_requests(bytes);
}

/// Key stores of Java, and PEM.
pub fn keystore(bytes: &[u8]) {
    for key_password in [None, Some("password")] {
        drop(KeyStore::parse(bytes, "password", key_password));
    }
}

/// A mail.
pub fn mail(bytes: &[u8]) {
    if let Some(mail) = Mail::parse(bytes) {
        for ty in ["text/plain", "text/html", "application/pdf"] {
            mail.part(ty);
        }
        mail.properties();
    }
}

/// What a server of NATS says.
pub fn nats(bytes: &[u8]) {
    let (piece, bytes) = pieces(bytes);
    let found = |piece: usize| {
        let (mut incoming, mut all) = (protocol::Incoming::default(), Vec::new());
        for part in bytes.chunks(piece) {
            incoming.bytes.extend_from_slice(part);
            loop {
                match incoming.take() {
                    Ok(Some(said)) => {
                        if let protocol::Said::Message(message) = &said {
                            message.status();
                        }
                        all.push(said);
                    }
                    Ok(None) => break,
                    Err(cause) => return (all, Some(cause)),
                }
            }
        }
        (all, None)
    };
    assert_eq!(found(piece), found(bytes.len().max(1)));
}

/// A value that a database holds in a BLOB column.
pub fn stored_object(bytes: &[u8]) {
    object::read(bytes);
}

/// What a target of Prometheus answers.
pub fn prometheus(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for kind in ["counter", "gauge", "histogram", "summary"] {
        let wanted = Wanted {
            name: "m".to_owned(),
            kind: kind.to_owned(),
            labels: vec![("a".to_owned(), "b".to_owned())],
        };
        drop(scrape::find(&text, &wanted));
    }
}

/// A description of messages.
pub fn proto_file(bytes: &[u8]) {
    drop(compile("fuzz.proto".as_ref(), bytes.to_vec(), &[]));
}

/// Frames of AMQP as they pass by.
pub fn rabbitmq(bytes: &[u8]) {
    let (piece, bytes) = pieces(bytes);
    let found = |piece: usize| {
        let mut nesting = Nesting::default();
        bytes.chunks(piece).try_for_each(|part| nesting.feed(part))
    };
    assert_eq!(found(piece), found(bytes.len().max(1)));
}

/// Server-sent events.
pub fn sse(bytes: &[u8]) {
    let (piece, bytes) = pieces(bytes);
    let found = |bytes: &[u8], piece: usize| {
        let (mut parser, mut all) = (events::Parser::default(), Vec::new());
        let fed = bytes.chunks(piece);
        let end = fed
            .into_iter()
            .try_for_each(|part| parser.feed(part, &mut all));
        (all, end)
    };
    let whole = found(bytes, bytes.len().max(1));
    assert_eq!(found(bytes, piece), whole);
    for event in &whole.0 {
        let again = found(events::event_of(&event.data).as_bytes(), piece);
        let data: Vec<_> = again.0.iter().map(|event| &event.data).collect();
        assert_eq!(data, [&event.data]);
    }
}

/// Frames of siddhi-io-tcp.
pub fn tcp(bytes: &[u8]) {
    let mut rest = bytes;
    let (pace, crowd) = (Pace::default(), Crowd::new(2));
    let mut account = std::sync::Arc::<Arrivals>::default().open();
    while let Some(Ok(Some(found))) =
        frame::read(&mut rest, pace, &crowd, &mut account).now_or_never()
    {
        let mut written = Vec::new();
        frame::write(&mut written, "session", &found.channel, &found.data);
        let again = frame::read(&mut written.as_slice(), pace, &crowd, &mut account).now_or_never();
        let again = again.expect("all is there").expect("it is a frame");
        assert_eq!(again, Some(found));
    }
}

/// Messages of Thrift as they come, the events of bundles, and definitions of streams.
pub fn wso2event(bytes: &[u8]) {
    let (piece, bytes) = pieces(bytes);
    let found = |piece: usize| {
        let (mut scanner, mut at) = (Scanner::default(), 0);
        loop {
            at = (at + piece).min(bytes.len());
            match scanner.scan(&bytes[..at]) {
                Ok(Scan::More(_)) if at < bytes.len() => {}
                end => return end,
            }
        }
    };
    let end = found(bytes.len().max(1));
    assert_eq!(found(piece), end);
    drop(Definition::parse(&String::from_utf8_lossy(bytes)));
    binary_message(bytes);
    let Ok(Scan::Whole(end)) = end else { return };
    let Ok(message) = Message::read(&bytes[..end]) else {
        return;
    };
    let argument = message.fields.get(1).map_or(&[][..], |field| field.value);
    let Some((_, fields)) = bundle::split_session(argument) else {
        return;
    };
    let Ok(bundle) = bundle::Bundle::read(&fields) else {
        return;
    };
    let layout = |id, attributes: &[(&'static str, Type)]| {
        let attributes = attributes.iter().map(|(key, ty)| (Some(*key), *ty));
        Layout::new(id, attributes).expect("it is one")
    };
    let layouts = [
        layout("a:1", &[("p", Type::Int), ("q", Type::String)]),
        layout(
            "b:1",
            &[("l", Type::Long), ("d", Type::Double), ("o", Type::Bool)],
        ),
    ];
    let find = |id: &[u8]| {
        let mut all = layouts.iter().enumerate();
        all.find(|(_, layout)| layout.id.as_bytes() == id)
    };
    let strings: Vec<&[u8]> = bundle.strings().collect();
    let Ok(events) = reading::read(&bundle, &strings, find) else {
        return;
    };
    let entries = bundle.entries().unwrap_or_default();
    let mut entries = entries.as_slice();
    for (number, event) in events.iter().enumerate() {
        let own = bundle::take_entries(&mut entries, number);
        let (mut written, layout) = (Vec::new(), &layouts[event.layout]);
        rows::write(&mut written, &bundle, &strings, event, layout, own);
        let mut again = rows::Events::new(&written, layout);
        let mut values = 0;
        again
            .next(|_, _| values += 1, |_, _| ())
            .expect("it was written");
        assert!(again.is_done() && values == layout.attributes.len());
    }
}

/// Responses of a broker of Kafka, and record batches.
pub fn kafka(bytes: &[u8]) {
    crate::kafka::check_wire(bytes);
}

/// A message of the binary protocol of databridge.
fn binary_message(bytes: &[u8]) {
    let Ok(Scan::Whole(end)) = binary::scan(bytes) else {
        return;
    };
    let Ok(binary::Request::Publish { events, .. }) = binary::Request::read(&bytes[..end]) else {
        return;
    };
    let types = [Type::Long, Type::Double, Type::Bool, Type::String];
    let keys = ["l", "d", "o", "s"].map(Some);
    let layout = Layout::new("a:1", keys.into_iter().zip(types)).expect("it is one");
    for event in binary::events(events).unwrap_or_default() {
        binary::stream_of(event);
        if let Ok((_, values, _)) = binary::read(event, &layout) {
            assert_eq!(values.len(), types.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use connect::growth::{EXPONENT_MAX, LENGTHS, exponent, repeated};

    use super::*;

    /// Cut at every place, and with every byte bent in a few ways.
    #[test]
    fn every_decoder_takes_any_bytes() {
        for (name, decode) in DECODERS {
            let seeds = SEEDS.iter().find(|(of, _)| of == name);
            let (_, seeds) = seeds.unwrap_or_else(|| panic!("no seed for {name}"));
            for seed in *seeds {
                decode(seed);
                // Long ones at some places, which the fuzz targets fill in.
                let step = seed.len() / 200 + 1;
                for at in (0..seed.len()).step_by(step) {
                    decode(&seed[..at]);
                    let mut bent = seed.to_vec();
                    for byte in [0, 0x7f, 0x80, 0xff, seed[at] ^ 1, b'\n'] {
                        bent[at] = byte;
                        decode(&bent);
                    }
                }
            }
        }
    }

    /// What comes again and again costs no more than its share of time.
    #[test]
    fn the_work_of_every_decoder_is_linear_in_its_input() {
        for (name, decode) in DECODERS {
            let seeds = SEEDS.iter().find(|(of, _)| of == name);
            let (_, seeds) = seeds.unwrap_or_else(|| panic!("no seed for {name}"));
            for seed in seeds.iter().filter(|seed| !seed.is_empty()) {
                // The first byte says how the others are cut.
                let (first, rest) = seed.split_at(1);
                for part in [rest, &rest[..rest.len() / 2], b"\n", b"\0", b"a"] {
                    if part.is_empty() {
                        continue;
                    }
                    let inputs = LENGTHS.map(|bytes| repeated(first, part, b"", bytes / 4));
                    let grown = exponent([&inputs[0], &inputs[1]], &mut |input| decode(input));
                    let part = String::from_utf8_lossy(part);
                    assert!(
                        grown < EXPONENT_MAX,
                        "{name}, {part:?} again and again: {grown:.2}"
                    );
                }
            }
        }
    }
}
