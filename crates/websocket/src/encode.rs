//! Messages become bytes for the other side.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::close::Close;
use crate::deflate::{Agreed, Deflater, deflate_alone};
use crate::frame::{COMPRESSED, FIN, HEAD_BYTES_MAX, Kind, Opcode, Role, write_head};
use crate::mask::{self, Masks};

/// A payload up to this is copied behind its head, and is one piece with it.
const COPIED_BYTES_MAX: usize = 1 << 10;

/// A shorter message is not compressed: there is nothing to gain.
const COMPRESSED_BYTES_MIN: usize = 64;

/// Writes what one side sends.
pub struct Encoder {
    /// Of a client.
    masks: Option<Box<Masks>>,
    deflater: Option<Deflater>,
}

impl Encoder {
    /// `agreed`: messages may be compressed.
    pub fn new(role: Role, agreed: Option<Agreed>) -> Encoder {
        let own = agreed.and_then(|agreed| match role {
            Role::Client => Deflater::new(agreed.client_bits, !agreed.client_alone),
            Role::Server => Deflater::new(agreed.server_bits, !agreed.server_alone),
        });
        Encoder {
            masks: (role == Role::Client).then(|| Box::new(Masks::new())),
            deflater: own,
        }
    }

    /// A message as one frame, in one piece or two.
    pub fn message(&mut self, kind: Kind, payload: &Bytes) -> [Bytes; 2] {
        let first = FIN | kind.opcode() as u8;
        let Some(deflater) = self
            .deflater
            .as_mut()
            .filter(|_| payload.len() >= COMPRESSED_BYTES_MIN)
        else {
            return self.frame(first, payload);
        };
        let deflated = Bytes::from(deflater.deflate(payload));
        self.frame(first | COMPRESSED, &deflated)
    }

    /// A message that many connections of a server get.
    pub fn shared(&mut self, message: &Shared) -> [Bytes; 2] {
        match &self.deflater {
            None if self.masks.is_none() => message.plain(),
            Some(deflater) if deflater.is_shared() && self.masks.is_none() => message.deflated(),
            _ => self.message(message.kind, &message.payload),
        }
    }

    /// What does not fit into a control frame is left away.
    pub fn ping(&mut self, payload: &[u8]) -> Bytes {
        self.control(Opcode::Ping, payload)
    }

    pub fn pong(&mut self, payload: &[u8]) -> Bytes {
        self.control(Opcode::Pong, payload)
    }

    /// The last frame of a connection.
    pub fn close(&mut self, close: Option<&Close>) -> Bytes {
        let payload = close.map(Close::payload).unwrap_or_default();
        self.control(Opcode::Close, &payload)
    }

    fn control(&mut self, opcode: Opcode, payload: &[u8]) -> Bytes {
        let payload = &payload[..payload.len().min(125)];
        self.whole(FIN | opcode as u8, payload)
    }

    fn frame(&mut self, first: u8, payload: &Bytes) -> [Bytes; 2] {
        match self.masks.is_some() {
            true => [self.whole(first, payload), Bytes::new()],
            false => unmasked(first, payload),
        }
    }

    /// Head and payload, masked where that is due.
    fn whole(&mut self, first: u8, payload: &[u8]) -> Bytes {
        let mask = self.masks.as_mut().map(|masks| masks.next());
        whole(first, payload, mask)
    }
}

/// Head and payload in one piece, or in two where the payload is not worth a copy.
fn unmasked(first: u8, payload: &Bytes) -> [Bytes; 2] {
    if payload.len() <= COPIED_BYTES_MAX {
        return [whole(first, payload, None), Bytes::new()];
    }
    let mut head = Vec::with_capacity(HEAD_BYTES_MAX);
    write_head(first, payload.len(), None, &mut head);
    [head.into(), payload.clone()]
}

fn whole(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Bytes {
    let mut out = Vec::with_capacity(HEAD_BYTES_MAX + payload.len());
    write_head(first, payload.len(), mask, &mut out);
    let begin = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        mask::apply(&mut out[begin..], mask, 0);
    }
    out.into()
}

/// A message of a server, encoded once for all who get it: by the first of them, each way at its first use.
#[derive(Debug)]
pub struct Shared {
    kind: Kind,
    payload: Bytes,
    plain: OnceLock<[Bytes; 2]>,
    deflated: OnceLock<[Bytes; 2]>,
}

impl Shared {
    pub fn new(kind: Kind, payload: Bytes) -> Shared {
        Shared {
            kind,
            payload,
            plain: OnceLock::new(),
            deflated: OnceLock::new(),
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Bytes that it holds once it was encoded; compressed as well, it holds less than another payload more.
    pub fn held_max(&self) -> usize {
        match self.payload.len() {
            short @ ..=COPIED_BYTES_MAX => 2 * short + HEAD_BYTES_MAX,
            long => long + HEAD_BYTES_MAX,
        }
    }

    fn plain(&self) -> [Bytes; 2] {
        let first = FIN | self.kind.opcode() as u8;
        self.plain
            .get_or_init(|| unmasked(first, &self.payload))
            .clone()
    }

    fn deflated(&self) -> [Bytes; 2] {
        let deflate = || {
            if self.payload.len() < COMPRESSED_BYTES_MIN {
                return self.plain();
            }
            let deflated = deflate_alone(&self.payload);
            // What stands for itself need not be compressed.
            match deflated.len() < self.payload.len() {
                true => unmasked(
                    FIN | COMPRESSED | self.kind.opcode() as u8,
                    &deflated.into(),
                ),
                false => self.plain(),
            }
        };
        self.deflated.get_or_init(deflate).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, Event, answer_to, offer};

    fn joined(pieces: [Bytes; 2]) -> Vec<u8> {
        pieces.concat()
    }

    // rules: S1
    #[test]
    fn frames_of_the_rfc_are_written() {
        let mut server = Encoder::new(Role::Server, None);
        let hello = Bytes::from_static(b"Hello");
        assert_eq!(joined(server.message(Kind::Text, &hello)), b"\x81\x05Hello");
        assert_eq!(server.ping(b"Hello"), &b"\x89\x05Hello"[..]);
        let len_of = |len: usize| {
            let mut server = Encoder::new(Role::Server, None);
            server.message(Kind::Binary, &vec![0; len].into())
        };
        assert_eq!(joined(len_of(125))[..2], [0x82, 125]);
        assert_eq!(joined(len_of(126))[..4], [0x82, 0x7e, 0, 126]);
        assert_eq!(joined(len_of(256))[..4], [0x82, 0x7e, 1, 0]);
        assert_eq!(
            joined(len_of(65536))[..10],
            [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]
        );
        let close = Close::new(crate::Code::AWAY, "restart");
        assert_eq!(server.close(Some(&close)), &b"\x88\x09\x03\xe9restart"[..]);
        assert_eq!(server.close(None), &b"\x88\x00"[..]);
    }

    // rules: S2
    #[test]
    fn a_client_masks_all_that_it_sends() {
        let mut client = Encoder::new(Role::Client, None);
        let hello = Bytes::from_static(b"Hello");
        let one = joined(client.message(Kind::Text, &hello));
        let two = joined(client.message(Kind::Text, &hello));
        assert_eq!((&one[..2], one.len()), (&b"\x81\x85"[..], 11));
        assert_ne!(one[2..6], two[2..6], "a mask of its own for each");
        let mut decoder = Decoder::new(Role::Client, 99, None);
        let message = Event::Message {
            kind: Kind::Text,
            payload: hello,
        };
        assert_eq!(decoder.decode(&one), Ok((11, Some(message.clone()))));
        assert_eq!(decoder.decode(&two), Ok((11, Some(message))));
    }

    // rules: S1
    #[test]
    fn what_many_get_is_encoded_and_compressed_once() {
        let text = "all of this and all of that ".repeat(9);
        let shared = Shared::new(Kind::Text, text.clone().into());
        assert_eq!(shared.payload(), text.as_bytes());
        let (agreed, _) = answer_to([offer(false)], false).expect("it is met");
        let own = |agreed| Encoder::new(Role::Server, agreed);
        let plain = own(None).shared(&shared);
        let again = own(None).shared(&shared);
        assert_eq!(plain[0].as_ptr(), again[0].as_ptr());
        let deflated = own(Some(agreed)).shared(&shared);
        assert!(deflated[0].len() < text.len() / 2);
        let again = own(Some(agreed)).shared(&shared);
        assert_eq!(deflated[0].as_ptr(), again[0].as_ptr());
        // One with a smaller window gets its own.
        let (small, _) =
            answer_to(["permessage-deflate; server_max_window_bits=9"], false).expect("it is met");
        let own_one = own(Some(small)).shared(&shared);
        for (pieces, agreed) in [
            (plain, None),
            (deflated, Some(agreed)),
            (own_one, Some(small)),
        ] {
            let mut decoder = Decoder::new(Role::Server, 999, agreed);
            let payload = text.clone().into();
            let message = Event::Message {
                kind: Kind::Text,
                payload,
            };
            let bytes = joined(pieces);
            assert_eq!(decoder.decode(&bytes), Ok((bytes.len(), Some(message))));
        }
    }
}
