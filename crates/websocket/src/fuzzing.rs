//! What fuzzing and property tests ask of the codec.

use crate::{Decoder, Encoder, Event, Fault, Role, Shared, answer_to, confirmed, offer};

/// First inputs: the frames of RFC 6455 (5.7) and RFC 7692 (7.2.3), behind the byte that chooses the side, whether
/// messages may be compressed, and the length of pieces.
pub const SEEDS: &[&[u8]] = &[
    b"\x04\x81\x05Hello",
    b"\x05\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
    b"\x08\x01\x03Hel\x80\x02lo",
    b"\x0d\x89\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
    b"\x04\x82\x7e\x01\x00aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    b"\x04\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00bbbbbbbbbbbbbbbbbbb",
    b"\x06\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00\xc1\x05\xf2\x00\x11\x00\x00",
    b"\x0a\x41\x03\xf2\x48\xcd\x80\x04\xc9\xc9\x07\x00\xc1\x08\xf3\x48\xcd\xc9\xc9\x07\x00\x00",
    b"\x04\x88\x09\x03\xe9restart",
    b"permessage-deflate; client_max_window_bits; server_max_window_bits=10, permessage-deflate",
];

/// Longest message that is let in.
const MESSAGE_BYTES_MAX: usize = 10_000;

/// All events of some bytes that come in pieces, and how they end.
pub fn events(decoder: &mut Decoder, bytes: &[u8], piece: usize) -> (Vec<Event>, Option<Fault>) {
    let mut events = Vec::new();
    for mut rest in bytes.chunks(piece.max(1)) {
        while !rest.is_empty() {
            match decoder.decode(rest) {
                Ok((count, event)) => {
                    rest = &rest[count..];
                    events.extend(event);
                }
                Err(fault) => return (events, Some(fault)),
            }
        }
    }
    (events, None)
}

/// Any bytes: the same events for every split, each within its limit, and what is written of them is read as they are.
///
/// # Panics
/// A promise of the codec is broken.
pub fn read_untrusted(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let keeps = text.len() % 2 == 0;
        if let Some((agreed, answer)) = answer_to([text], keeps) {
            assert!(agreed.server_bits >= 8 && !answer.is_empty());
        }
        confirmed([text], true, keeps).ok();
    }
    let Some((chooser, bytes)) = bytes.split_first() else {
        return;
    };
    let from = if chooser & 1 == 0 {
        Role::Server
    } else {
        Role::Client
    };
    let agreed = (chooser & 2 != 0)
        .then(|| answer_to([offer(true)], true))
        .flatten();
    let agreed = agreed.map(|(agreed, _)| agreed);
    let fresh = || Decoder::new(from, MESSAGE_BYTES_MAX, agreed);
    let whole = events(&mut fresh(), bytes, bytes.len());
    let pieces = events(&mut fresh(), bytes, usize::from(chooser >> 2));
    assert_eq!(whole, pieces);
    let mut encoder = Encoder::new(from, agreed);
    let mut again = fresh();
    for event in whole.0 {
        let written = match &event {
            Event::Message { kind, payload } => {
                assert!(payload.len() <= MESSAGE_BYTES_MAX);
                assert!(!kind.is_text() || std::str::from_utf8(payload).is_ok());
                let shared = Shared::new(*kind, payload.clone());
                if from == Role::Server {
                    let pieces = Encoder::new(from, None).shared(&shared).concat();
                    let (read, fault) =
                        events(&mut Decoder::new(from, MESSAGE_BYTES_MAX, None), &pieces, 5);
                    assert_eq!(
                        (read.as_slice(), fault),
                        (std::slice::from_ref(&event), None)
                    );
                }
                encoder.message(*kind, payload).concat()
            }
            Event::Ping(payload) => encoder.ping(payload).to_vec(),
            Event::Pong(payload) => encoder.pong(payload).to_vec(),
            Event::Close(close) => encoder.close(close.as_ref()).to_vec(),
        };
        let (read, fault) = events(&mut again, &written, 3);
        assert_eq!((read, fault), (vec![event], None));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn first_inputs_are_read() {
        SEEDS.iter().for_each(|seed| read_untrusted(seed));
    }

    proptest! {
        // rules: S1
        #[test]
        fn any_split_of_any_bytes_gives_the_same_events(
            chooser in any::<u8>(),
            frames in prop::collection::vec((any::<u8>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..200)), 0..12),
        ) {
            let mut bytes = vec![chooser];
            for (first, second, payload) in frames {
                // Most of them are frames.
                bytes.push(first & 0xcf);
                let masked = if chooser & 1 == 1 { 0x80 } else { 0 };
                bytes.push(masked | (second % 3 * 60).min(payload.len().min(125) as u8));
                bytes.extend_from_slice(&payload);
            }
            read_untrusted(&bytes);
        }
    }
}
