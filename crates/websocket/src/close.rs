//! Close frames: codes and reasons.

use crate::Fault;

/// Bytes of a reason: a control frame carries 125, of which the code has two.
pub(crate) const REASON_BYTES_MAX: usize = 123;

/// Why a connection is closed (RFC 6455, 7.4, and IANA's registry).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code(pub u16);

impl Code {
    pub const NORMAL: Code = Code(1000);
    pub const AWAY: Code = Code(1001);
    pub const PROTOCOL: Code = Code(1002);
    pub const INVALID: Code = Code(1007);
    pub const POLICY: Code = Code(1008);
    pub const TOO_LONG: Code = Code(1009);
    pub const INTERNAL: Code = Code(1011);
    pub const AGAIN: Code = Code(1013);

    /// May it stand in a frame? 1004 to 1006 and 1015 are for use within a program.
    pub fn is_sendable(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

/// What a close frame says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Close {
    pub code: Code,
    pub reason: String,
}

impl Close {
    /// A reason that is longer than a frame can carry is cut.
    pub fn new(code: Code, reason: impl Into<String>) -> Close {
        let mut reason = reason.into();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Close { code, reason }
    }

    /// Reads the payload of a close frame, which may be empty.
    pub(crate) fn read(payload: &[u8]) -> Result<Option<Close>, Fault> {
        let (code, reason) = match payload {
            [] => return Ok(None),
            [_] => return Err(Fault::Protocol("a close frame has half a code")),
            [high, low, reason @ ..] => (Code(u16::from_be_bytes([*high, *low])), reason),
        };
        if !code.is_sendable() {
            return Err(Fault::Protocol(
                "a close frame has a code that none may have",
            ));
        }
        let reason = std::str::from_utf8(reason).map_err(|_| Fault::Text)?;
        Ok(Some(Close {
            code,
            reason: reason.to_owned(),
        }))
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(2 + self.reason.len());
        payload.extend_from_slice(&self.code.0.to_be_bytes());
        let reason = &self.reason[..self.reason.floor_char_boundary(REASON_BYTES_MAX)];
        payload.extend_from_slice(reason.as_bytes());
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rules: S1
    #[test]
    fn codes_are_judged() {
        let read = |code: u16| Close::read(&code.to_be_bytes());
        for code in [
            1000, 1001, 1002, 1003, 1007, 1011, 1012, 1014, 3000, 3999, 4000, 4999,
        ] {
            let close = Close::new(Code(code), "");
            assert_eq!(read(code), Ok(Some(close)));
        }
        for code in [
            0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535,
        ] {
            assert_eq!(
                read(code).map_err(Fault::code),
                Err(Code::PROTOCOL),
                "{code}"
            );
        }
    }

    // rules: S1
    #[test]
    fn reasons_are_text_and_fit() {
        assert_eq!(Close::read(b""), Ok(None));
        assert_eq!(
            Close::read(b"\x03").map_err(Fault::code),
            Err(Code::PROTOCOL)
        );
        assert_eq!(Close::read(b"\x03\xe8\xff"), Err(Fault::Text));
        let long = Close::new(Code::NORMAL, "é".repeat(100));
        assert_eq!(long.reason.len(), 122);
        assert_eq!(Close::read(&long.payload()), Ok(Some(long)));
    }
}
