//! Short files of text with a checksum in their last line: `id`, `apps`, `current`.

use std::fs;
use std::io;
use std::path::Path;

use super::file::write_whole;
use crate::error::Error;

/// In front of the checksum.
const MARK: &str = "# crc32 ";

/// What such a file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Text {
    Proven(String),
    /// There is no checksum: it was written before there were any, or has changed since.
    Unproven(String),
    /// It is not what was written.
    Damaged,
}

/// `None` where there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<Text>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(judge(bytes))),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::file("read", path)(cause)),
    }
}

fn judge(bytes: Vec<u8>) -> Text {
    let Ok(text) = String::from_utf8(bytes) else {
        return Text::Damaged;
    };
    let line = MARK.len() + 9;
    let at = text.len().saturating_sub(line);
    if text.is_char_boundary(at) && text[at..].starts_with(MARK) {
        let body = &text[..at];
        return match text[at..] == last_line(body) {
            true => Text::Proven(body.to_owned()),
            false => Text::Damaged,
        };
    }
    Text::Unproven(text)
}

fn last_line(body: &str) -> String {
    format!("{MARK}{:08x}\n", crc32fast::hash(body.as_bytes()))
}

/// The bytes of such a file. `body` ends with a line feed.
pub(crate) fn sealed(body: &str) -> Vec<u8> {
    [body, &last_line(body)].concat().into_bytes()
}

/// Puts it in place with its checksum. `body` ends with a line feed.
pub(crate) fn write(path: &Path, body: &str) -> Result<(), Error> {
    write_whole(path, &[body.as_bytes(), last_line(body).as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flip_and_no_cut_gives_another_proven_text() {
        let body = "one\ntwo\n";
        let bytes = [body, &last_line(body)].concat().into_bytes();
        assert_eq!(judge(bytes.clone()), Text::Proven(body.to_owned()));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let found = judge(flipped);
                assert!(!matches!(found, Text::Proven(_)), "{at}.{bit}: {found:?}");
            }
            let cut = judge(bytes[..at].to_vec());
            assert!(!matches!(cut, Text::Proven(_)), "{at}: {cut:?}");
        }
    }
}
