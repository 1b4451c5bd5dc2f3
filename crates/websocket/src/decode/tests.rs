use super::*;
use crate::fuzzing::events;
use crate::{Code, Encoder, answer_to, offer};

fn server_says(bytes: &[u8]) -> (Vec<Event>, Option<Fault>) {
    events(
        &mut Decoder::new(Role::Server, 1000, None),
        bytes,
        bytes.len(),
    )
}

fn client_says(bytes: &[u8]) -> (Vec<Event>, Option<Fault>) {
    events(
        &mut Decoder::new(Role::Client, 1000, None),
        bytes,
        bytes.len(),
    )
}

fn text(text: &'static str) -> Event {
    Event::Message {
        kind: Kind::Text,
        payload: Bytes::from_static(text.as_bytes()),
    }
}

// rules: S1, S2
#[test]
fn the_frames_of_the_rfc_are_read() {
    // RFC 6455, 5.7.
    let hello = Bytes::from_static(b"Hello");
    assert_eq!(server_says(b"\x81\x05Hello"), (vec![text("Hello")], None));
    let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_eq!(client_says(masked), (vec![text("Hello")], None));
    assert_eq!(
        server_says(b"\x01\x03Hel\x80\x02lo"),
        (vec![text("Hello")], None)
    );
    assert_eq!(
        server_says(b"\x89\x05Hello"),
        (vec![Event::Ping(hello.clone())], None)
    );
    let pong = b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_eq!(client_says(pong), (vec![Event::Pong(hello)], None));
    for (head, len) in [
        (&b"\x82\x7e\x01\x00"[..], 256),
        (b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 65536),
    ] {
        let bytes = [head, &vec![9; len]].concat();
        let mut decoder = Decoder::new(Role::Server, 65536, None);
        let payload = Bytes::from(vec![9; len]);
        let message = Event::Message {
            kind: Kind::Binary,
            payload,
        };
        assert_eq!(decoder.decode(&bytes), Ok((bytes.len(), Some(message))));
    }
}

// rules: S1
#[test]
fn control_frames_stand_between_the_parts_of_a_message() {
    let bytes = b"\x01\x02He\x89\x01!\x00\x00\x00\x02ll\x8a\x00\x80\x01o\x82\x00";
    let (events, fault) = server_says(bytes);
    let empty = Event::Message {
        kind: Kind::Binary,
        payload: Bytes::new(),
    };
    let expected = [
        Event::Ping("!".into()),
        Event::Pong(Bytes::new()),
        text("Hello"),
        empty,
    ];
    assert_eq!((&events[..], fault), (&expected[..], None));
}

// rules: S1
#[test]
fn what_breaks_the_protocol_is_refused_at_its_first_byte() {
    for (bytes, why) in [
        (&b"\x83\x00"[..], "opcode"),
        (b"\x87\x00", "opcode"),
        (b"\x8b\x00", "opcode"),
        (b"\x8f\x00", "opcode"),
        (b"\xc1\x00", "without an agreement"),
        (b"\xa1\x00", "reserved bit"),
        (b"\x91\x00", "reserved bit"),
        (b"\xc9\x00", "marked as compressed"),
        (b"\x09\x00", "fragmented"),
        (b"\x08\x00", "fragmented"),
        (b"\x89\x7e", "125"),
        (b"\x88\x7f", "125"),
        (b"\x80\x00", "without a beginning"),
        (b"\x00\x00", "without a beginning"),
        (b"\x01\x00\x81\x00", "within another"),
        (b"\x01\x00\x02\x00", "within another"),
        (b"\x81\x80", "masked"),
        (b"\x82\x7e\x00\x7d", "more bytes than it needs"),
        (
            b"\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff",
            "more bytes than it needs",
        ),
        (b"\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", "highest bit"),
        (b"\x88\x01\x03", "half a code"),
        (b"\x88\x02\x03\xec", "code"),
    ] {
        let (_, fault) = server_says(bytes);
        let fault = fault.unwrap_or_else(|| panic!("{bytes:x?} was let in"));
        assert_eq!(fault.code(), Code::PROTOCOL, "{bytes:x?}");
        assert!(fault.to_string().contains(why), "{bytes:x?}: {fault}");
    }
    let (_, fault) = client_says(b"\x81\x05");
    assert!(fault.is_some_and(|fault| fault.to_string().contains("not masked")));
}

// rules: S1
#[test]
fn a_text_that_is_none_ends_before_its_end_has_come() {
    for (bytes, is_text) in [
        // The frame has 9 bytes, of which 5 have come.
        (&b"\x81\x09ab\xf4\x90c"[..], false),
        (b"\x01\x01\xe2\x80\x02\x82\xac", true),
        (b"\x01\x01\xe2\x89\x00\x00\x01\x28", false),
        (b"\x81\x02\xe2\x82", false),
        (b"\x01\x01\xe2\x80\x00", false),
        (b"\x82\x02\xff\xff", true),
        (b"\x88\x03\x03\xe8\xff", false),
    ] {
        let (_, fault) = server_says(bytes);
        assert_eq!(fault, (!is_text).then_some(Fault::Text), "{bytes:x?}");
    }
}

// rules: S1, S5
#[test]
fn a_message_has_its_limit_whatever_its_frames_say() {
    let too_long = Some(Fault::TooLong { max: 1000 });
    assert_eq!(
        server_says(&[&b"\x82\x7e\x03\xe8"[..], &[0; 1000]].concat()).1,
        None
    );
    assert_eq!(server_says(b"\x82\x7e\x03\xe9").1, too_long);
    assert_eq!(
        server_says(b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff").1,
        too_long
    );
    let parts = [
        &b"\x02\x7e\x03\xe7"[..],
        &[0; 999],
        b"\x00\x00\x00\x01a\x80\x01",
    ]
    .concat();
    assert_eq!(server_says(&parts).1, too_long);
    // Nothing is made ready for what was only announced.
    let mut decoder = Decoder::new(Role::Server, 64 << 20, None);
    assert_eq!(
        decoder.decode(b"\x82\x7f\x00\x00\x00\x00\x04\x00\x00\x00"),
        Ok((10, None))
    );
    assert!(decoder.message.capacity() <= 64 << 10);
}

// rules: S1
#[test]
fn nothing_follows_a_close() {
    let (events, fault) = server_says(b"\x88\x02\x03\xe8\x81\x01a\xff\xff");
    let close = Close::new(Code::NORMAL, "");
    assert_eq!((events, fault), (vec![Event::Close(Some(close))], None));
    assert_eq!(server_says(b"\x88\x00").0, [Event::Close(None)]);
}

// rules: S1
#[test]
fn a_compressed_message_comes_in_fragments() {
    let (agreed, _) = answer_to([offer(true)], true).expect("it is met");
    let mut decoder = Decoder::new(Role::Server, 1000, Some(agreed));
    // RFC 7692, 7.2.3.1 and 7.2.3.2: the second message refers to the first; a plain one stands between them.
    let bytes = b"\x41\x03\xf2\x48\xcd\x89\x00\x80\x04\xc9\xc9\x07\x00\x81\x01a\xc1\x05\xf2\x00\x11\x00\x00";
    let (found, fault) = events(&mut decoder, bytes, 1);
    let expected = [
        Event::Ping(Bytes::new()),
        text("Hello"),
        text("a"),
        text("Hello"),
    ];
    assert_eq!((&found[..], fault), (&expected[..], None));
    // Only the first frame says that a message is compressed.
    let (_, fault) = events(
        &mut decoder,
        b"\x41\x03\xf2\x48\xcd\xc0\x04\xc9\xc9\x07\x00",
        99,
    );
    assert_eq!(fault.map(Fault::code), Some(Code::PROTOCOL));
}

// rules: S1
#[test]
fn a_compressed_message_is_judged_as_it_is_inflated() {
    let (agreed, _) = answer_to([offer(false)], false).expect("it is met");
    let says = |payload: Vec<u8>, kind: Kind| {
        let mut client = Encoder::new(Role::Client, Some(agreed));
        let bytes = client.message(kind, &payload.into()).concat();
        assert_eq!(bytes[0] & 0x40, 0x40);
        events(
            &mut Decoder::new(Role::Client, 10_000, Some(agreed)),
            &bytes,
            7,
        )
        .1
    };
    assert_eq!(says(vec![b'a'; 10_000], Kind::Text), None);
    assert_eq!(
        says(vec![b'a'; 10_001], Kind::Text),
        Some(Fault::TooLong { max: 10_000 })
    );
    assert_eq!(
        says(vec![0; 20 << 20], Kind::Binary),
        Some(Fault::TooLong { max: 10_000 })
    );
    let mut broken = vec![b'a'; 200];
    broken.extend_from_slice(b"\xf4\x90\x80\x80");
    assert_eq!(says(broken.clone(), Kind::Text), Some(Fault::Text));
    assert_eq!(says(broken, Kind::Binary), None);
    let cut = "é".repeat(100).into_bytes()[..199].to_vec();
    assert_eq!(says(cut, Kind::Text), Some(Fault::Text));
}

#[test]
fn an_idle_connection_holds_nothing() {
    let mut decoder = Decoder::new(Role::Server, 1000, None);
    assert!(
        decoder
            .decode(b"\x81\x05Hello")
            .is_ok_and(|(_, event)| event.is_some())
    );
    assert_eq!(
        (decoder.message.capacity(), decoder.control.capacity()),
        (0, 0)
    );
    assert!(size_of::<Decoder>() <= 304, "{}", size_of::<Decoder>());
}
