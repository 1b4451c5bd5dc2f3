//! UTF-8 that comes in pieces, judged as it comes.

use crate::Fault;

/// The beginning of a character whose end has not come.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Utf8 {
    begun: [u8; 4],
    len: usize,
}

impl Utf8 {
    /// # Errors
    /// The bytes so far are the beginning of no text.
    pub fn check(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while self.len > 0 {
            let Some((byte, rest)) = bytes.split_first() else {
                return Ok(());
            };
            bytes = rest;
            self.begun[self.len] = *byte;
            self.len += 1;
            match std::str::from_utf8(&self.begun[..self.len]) {
                Ok(_) => self.len = 0,
                // Four bytes are complete or wrong.
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(Fault::Text),
            }
        }
        let Err(error) = simdutf8::compat::from_utf8(bytes) else {
            return Ok(());
        };
        if error.error_len().is_some() {
            return Err(Fault::Text);
        }
        let rest = &bytes[error.valid_up_to()..];
        self.begun[..rest.len()].copy_from_slice(rest);
        self.len = rest.len();
        Ok(())
    }

    /// The text ends here.
    pub fn end(&mut self) -> Result<(), Fault> {
        match std::mem::take(self).len {
            0 => Ok(()),
            _ => Err(Fault::Text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(pieces: &[&[u8]]) -> bool {
        let mut utf8 = Utf8::default();
        pieces.iter().all(|piece| utf8.check(piece).is_ok()) && utf8.end().is_ok()
    }

    // rules: S1
    #[test]
    fn any_split_is_judged_as_the_whole() {
        let texts: [&[u8]; 9] = [
            "Hello-µ@ßöäüàá-UTF-8!!".as_bytes(),
            "κόσμε, 日本語, \u{10ffff}\u{0}".as_bytes(),
            b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80edited",
            b"\xed\xa0\x80",
            b"\xc0\xaf",
            b"\xf8\x88\x80\x80\x80",
            b"\xe2\x82",
            b"\x80",
            b"abc\xff",
        ];
        for text in texts {
            let whole = std::str::from_utf8(text).is_ok();
            for split in 0..=text.len() {
                let (left, right) = text.split_at(split);
                assert_eq!(judge(&[left, right]), whole, "{text:?} at {split}");
            }
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            assert_eq!(judge(&bytes), whole, "{text:?}");
        }
    }

    // rules: S1
    #[test]
    fn the_first_wrong_byte_is_enough() {
        let mut utf8 = Utf8::default();
        assert!(
            utf8.check(b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4")
                .is_ok()
        );
        assert_eq!(utf8.check(b"\x90"), Err(Fault::Text));
    }
}
