//! Heads of frames (RFC 6455, 5.2).

use crate::Fault;

/// Bytes that a control frame carries at most.
pub(crate) const CONTROL_BYTES_MAX: u64 = 125;

/// Two bytes, eight of a length, four of a mask.
pub(crate) const HEAD_BYTES_MAX: usize = 14;

/// Which side we are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Client,
    Server,
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// UTF-8.
    Text,
    Binary,
}

impl Kind {
    pub fn of(is_text: bool) -> Kind {
        match is_text {
            true => Kind::Text,
            false => Kind::Binary,
        }
    }

    pub fn is_text(self) -> bool {
        self == Kind::Text
    }

    pub(crate) fn opcode(self) -> Opcode {
        match self {
            Kind::Text => Opcode::Text,
            Kind::Binary => Opcode::Binary,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn read(first: u8) -> Result<Opcode, Fault> {
        Ok(match first & 0x0f {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return Err(Fault::Protocol("a frame has a reserved opcode")),
        })
    }

    pub fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

pub(crate) const FIN: u8 = 0x80;
pub(crate) const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x30;
pub(crate) const MASKED: u8 = 0x80;

/// What the first two bytes of a frame say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub opcode: Opcode,
    pub is_final: bool,
    pub is_compressed: bool,
    /// Seven bits: 126 and 127 stand for lengths that follow.
    len: u8,
    is_masked: bool,
}

impl Start {
    /// `from`: who sent it.
    pub fn read(bytes: [u8; 2], from: Role) -> Result<Start, Fault> {
        let fault = |why| Err(Fault::Protocol(why));
        let opcode = Opcode::read(bytes[0])?;
        let start = Start {
            opcode,
            is_final: bytes[0] & FIN != 0,
            is_compressed: bytes[0] & COMPRESSED != 0,
            len: bytes[1] & 0x7f,
            is_masked: bytes[1] & MASKED != 0,
        };
        if bytes[0] & RESERVED != 0 {
            return fault("a frame has a reserved bit set");
        }
        if opcode.is_control() {
            if !start.is_final {
                return fault("a control frame is fragmented");
            }
            if u64::from(start.len) > CONTROL_BYTES_MAX {
                return fault("a control frame has more than 125 bytes");
            }
        }
        match (from, start.is_masked) {
            (Role::Client, false) => fault("a frame of a client is not masked"),
            (Role::Server, true) => fault("a frame of a server is masked"),
            _ => Ok(start),
        }
    }

    /// Bytes of the whole head.
    pub fn head_len(self) -> usize {
        let extended = match self.len {
            127 => 8,
            126 => 2,
            _ => 0,
        };
        2 + extended + if self.is_masked { 4 } else { 0 }
    }

    /// Length of the payload, and the mask (zero: none), out of the whole head.
    pub fn finish(self, head: &[u8]) -> Result<(u64, [u8; 4]), Fault> {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let (len, least, rest) = match self.len {
            127 => (number(&head[2..10]), 1 << 16, &head[10..]),
            126 => (number(&head[2..4]), 126, &head[4..]),
            len => (u64::from(len), 0, &head[2..]),
        };
        if len < least {
            return Err(Fault::Protocol("a length has more bytes than it needs"));
        }
        if len >> 63 != 0 {
            return Err(Fault::Protocol("a length has its highest bit set"));
        }
        let mask = rest.first_chunk::<4>().copied().unwrap_or_default();
        Ok((len, mask))
    }
}

/// Writes a head; `first` has opcode and flags.
pub(crate) fn write_head(first: u8, len: usize, mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let masked = if mask.is_some() { MASKED } else { 0 };
    out.push(first);
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(short @ ..=125), _) => out.push(masked | short),
        (_, Ok(medium)) => {
            out.push(masked | 126);
            out.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    if let Some(mask) = mask {
        out.extend_from_slice(&mask);
    }
}
