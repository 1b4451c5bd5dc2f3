//! Text frames of WebSocket (RFC 6455, 5.2), as far as the load needs them.

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const TEXT: u8 = 0x81;
const MASKED: u8 = 0x80;

/// What clients mask with: any four bytes will do.
pub(super) const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The answer to the `Sec-WebSocket-Key` of a request's head, if it has one.
pub(super) fn key(head: &str) -> Option<String> {
    let (_, value) = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"))?;
    let text = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", value.trim());
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    Some(STANDARD.encode(digest))
}

/// Appends a text frame.
pub(super) fn write(out: &mut Vec<u8>, text: &[u8], mask: Option<[u8; 4]>) {
    let masked = if mask.is_some() { MASKED } else { 0 };
    out.push(TEXT);
    match u16::try_from(text.len()) {
        Ok(len @ 0..=125) => out.push(len as u8 | masked),
        Ok(len) => {
            out.push(126 | masked);
            out.extend_from_slice(&len.to_be_bytes());
        }
        Err(_) => {
            out.push(127 | masked);
            out.extend_from_slice(&(text.len() as u64).to_be_bytes());
        }
    }
    let begin = out.len() + mask.map_or(0, |mask| mask.len());
    out.extend_from_slice(mask.as_ref().map_or(&[][..], |mask| mask));
    out.extend_from_slice(text);
    if let Some(mask) = mask {
        for (byte, mask) in out[begin..].iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
    }
}

/// The text of the frame at the start, and where it ends, if all of it is there.
///
/// # Errors
/// It is no text frame below 64 kB.
pub(super) fn read(bytes: &[u8]) -> anyhow::Result<Option<(Vec<u8>, usize)>> {
    let Some(&[first, second]) = bytes.first_chunk() else {
        return Ok(None);
    };
    ensure!(first == TEXT, "a frame that begins with {first:#04x}");
    let (len, mut at) = match second & !MASKED {
        127 => anyhow::bail!("a frame of 64 kB or more"),
        126 => match bytes.get(2..4) {
            None => return Ok(None),
            Some(len) => (usize::from(len[0]) << 8 | usize::from(len[1]), 4),
        },
        len => (usize::from(len), 2),
    };
    let mask = match second & MASKED {
        0 => [0; 4],
        _ => match bytes.get(at..at + 4) {
            None => return Ok(None),
            Some(mask) => {
                at += 4;
                [mask[0], mask[1], mask[2], mask[3]]
            }
        },
    };
    let Some(text) = bytes.get(at..at + len) else {
        return Ok(None);
    };
    let text = text
        .iter()
        .zip(mask.iter().cycle())
        .map(|(byte, mask)| byte ^ mask);
    Ok(Some((text.collect(), at + len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (len, mask) in [
            (0, None),
            (125, Some(MASK)),
            (126, None),
            (60_000, Some(MASK)),
        ] {
            let text = vec![b'a'; len];
            let mut out = Vec::new();
            write(&mut out, &text, mask);
            let end = out.len();
            for cut in [0, 1, 3, end - 1] {
                assert_eq!(read(&out[..cut.min(end - 1)]).expect("a frame"), None);
            }
            out.push(TEXT);
            assert_eq!(read(&out).expect("a frame"), Some((text, end)));
        }
    }

    /// Of the RFC's section 1.3.
    #[test]
    fn a_key_has_its_answer() {
        let head = "GET / HTTP/1.1\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert_eq!(key(head).as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }
}
