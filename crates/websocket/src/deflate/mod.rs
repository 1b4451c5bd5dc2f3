//! permessage-deflate (RFC 7692): what both sides agree on, and the two directions.

mod negotiate;

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::Fault;

pub use negotiate::{Agreed, answer_to, confirmed, offer};

/// The largest window, as a power of two, and the smallest of zlib. One of 8 can be agreed on; we send nothing
/// compressed then.
pub(crate) const WINDOW_MAX: u8 = 15;
pub(crate) const WINDOW_MIN: u8 = 9;

/// What an empty block ends with, which messages are sent without (RFC 7692, 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Messages are sent once and read once: effort beyond the fast levels costs more than it saves.
const LEVEL: Compression = Compression::fast();

/// Room that is made at once for what is inflated or deflated.
const STEP_BYTES: usize = 4 << 10;

thread_local! {
    /// For messages that need nothing of the ones before: one of a thread instead of one of each connection, which
    /// would take 300 kB.
    static COMPRESS: RefCell<Option<Compress>> = const { RefCell::new(None) };
    static DECOMPRESS: RefCell<Option<Decompress>> = const { RefCell::new(None) };
}

/// Compresses a message that stands for itself, for the largest window.
pub(crate) fn deflate_alone(payload: &[u8]) -> Vec<u8> {
    let mut compress = COMPRESS
        .take()
        .unwrap_or_else(|| Compress::new(LEVEL, false));
    let deflated = deflate(&mut compress, payload);
    compress.reset();
    COMPRESS.set(Some(compress));
    deflated
}

fn deflate(compress: &mut Compress, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() / 2 + 64);
    let begin = compress.total_in();
    loop {
        let done = (compress.total_in() - begin) as usize;
        compress
            .compress_vec(&payload[done..], &mut out, FlushCompress::Sync)
            .expect("a sound state takes any bytes");
        let is_through = (compress.total_in() - begin) as usize == payload.len();
        if is_through && out.len() < out.capacity() {
            break;
        }
        out.reserve(STEP_BYTES);
    }
    if out.ends_with(&TAIL) {
        out.truncate(out.len() - TAIL.len());
    }
    if out.is_empty() {
        // A message of no bytes is an empty block, whose first byte is this.
        out.push(0);
    }
    out
}

/// Compresses what one side sends.
pub(crate) struct Deflater {
    /// `None`: messages stand for themselves.
    kept: Option<Compress>,
    bits: u8,
}

impl Deflater {
    /// `None`: a window of these bits cannot be had.
    pub fn new(bits: u8, keeps_context: bool) -> Option<Deflater> {
        (WINDOW_MIN..=WINDOW_MAX).contains(&bits).then(|| Deflater {
            kept: keeps_context.then(|| Compress::new_with_window_bits(LEVEL, false, bits)),
            bits,
        })
    }

    pub fn deflate(&mut self, payload: &[u8]) -> Vec<u8> {
        match &mut self.kept {
            Some(compress) => deflate(compress, payload),
            None if self.bits == WINDOW_MAX => deflate_alone(payload),
            None => {
                let mut compress = Compress::new_with_window_bits(LEVEL, false, self.bits);
                deflate(&mut compress, payload)
            }
        }
    }

    /// Can it send what [`deflate_alone`] made?
    pub fn is_shared(&self) -> bool {
        self.kept.is_none() && self.bits == WINDOW_MAX
    }
}

/// Inflates what the other side sends.
pub(crate) struct Inflater {
    keeps_context: bool,
    /// Of the message that is read, or of all messages.
    state: Option<Decompress>,
}

impl Inflater {
    pub fn new(keeps_context: bool) -> Inflater {
        Inflater {
            keeps_context,
            state: None,
        }
    }

    /// Appends what a part of a message becomes.
    ///
    /// # Errors
    /// It cannot be inflated, or the message has more than `max` bytes.
    pub fn inflate(&mut self, part: &[u8], message: &mut Vec<u8>, max: usize) -> Result<(), Fault> {
        // Any window of the other side is a part of the largest one.
        let fresh = || DECOMPRESS.take().unwrap_or_else(|| Decompress::new(false));
        let state = self.state.get_or_insert_with(fresh);
        let mut rest = part;
        loop {
            if message.len() == message.capacity() {
                let room = (max + 1).saturating_sub(message.len());
                message.reserve(room.min(message.len().max(STEP_BYTES)));
            }
            let (before, len) = (state.total_in(), message.len());
            let status = state.decompress_vec(rest, message, FlushDecompress::Sync);
            let status = status.map_err(|_| Fault::Deflate)?;
            rest = &rest[(state.total_in() - before) as usize..];
            if message.len() > max {
                return Err(Fault::TooLong { max });
            }
            let has_moved = state.total_in() > before || message.len() > len;
            match status {
                // A last block of the stream: another stream may follow it (RFC 7692, 7.2.3.5). What it refers
                // to behind its beginning is lost with the state; no library known to us sends that.
                Status::StreamEnd => state.reset(false),
                _ if rest.is_empty() && message.len() < message.capacity() => return Ok(()),
                _ if !has_moved && message.len() < message.capacity() => {
                    return Err(Fault::Deflate);
                }
                _ => {}
            }
            if rest.is_empty() && status == Status::StreamEnd {
                return Ok(());
            }
        }
    }

    /// The message ends here.
    pub fn end(&mut self, message: &mut Vec<u8>, max: usize) -> Result<(), Fault> {
        self.inflate(&TAIL, message, max)?;
        if !self.keeps_context
            && let Some(mut state) = self.state.take()
        {
            state.reset(false);
            DECOMPRESS.set(Some(state));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflate(inflater: &mut Inflater, parts: &[&[u8]], max: usize) -> Result<Vec<u8>, Fault> {
        let mut message = Vec::new();
        for part in parts {
            inflater.inflate(part, &mut message, max)?;
        }
        inflater.end(&mut message, max)?;
        Ok(message)
    }

    // rules: S1
    #[test]
    fn the_messages_of_the_rfc_are_inflated() {
        // 7.2.3.1, 7.2.3.2 (with the window of the first), 7.2.3.3, 7.2.3.4 and 7.2.3.5.
        let first = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        let mut keeping = Inflater::new(true);
        assert_eq!(
            inflate(&mut keeping, &[&first], 9).as_deref(),
            Ok(&b"Hello"[..])
        );
        let again = [0xf2, 0x00, 0x11, 0x00, 0x00];
        assert_eq!(
            inflate(&mut keeping, &[&again], 9).as_deref(),
            Ok(&b"Hello"[..])
        );
        let stored = [
            0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00,
        ];
        let last = [0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00];
        let two = [
            0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00,
        ];
        for message in [&first[..], &stored, &last, &two, &first[..]] {
            let mut alone = Inflater::new(false);
            let parts: Vec<&[u8]> = message.chunks(1).collect();
            assert_eq!(
                inflate(&mut alone, &[message], 5).as_deref(),
                Ok(&b"Hello"[..])
            );
            assert_eq!(inflate(&mut alone, &parts, 5).as_deref(), Ok(&b"Hello"[..]));
        }
    }

    // rules: S1
    #[test]
    fn what_one_side_deflates_the_other_inflates() {
        let texts: [&[u8]; 4] = [
            b"",
            b"a",
            &[7; 100_000],
            b"{\"symbol\":\"ACME\",\"price\":1.5}",
        ];
        for bits in WINDOW_MIN..=WINDOW_MAX {
            for keeps_context in [false, true] {
                let mut deflater = Deflater::new(bits, keeps_context).expect("zlib has it");
                let mut inflater = Inflater::new(keeps_context);
                for text in texts.iter().chain(&texts) {
                    let deflated = deflater.deflate(text);
                    assert!(!deflated.ends_with(&TAIL));
                    let inflated = inflate(&mut inflater, &[&deflated], text.len());
                    assert_eq!(inflated.as_deref(), Ok(*text), "{bits} {keeps_context}");
                }
            }
        }
        assert!(Deflater::new(8, true).is_none());
        let noise: Vec<u8> = (0..50_000_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        let deflated = deflate_alone(&noise);
        assert_eq!(
            inflate(&mut Inflater::new(false), &[&deflated], noise.len()),
            Ok(noise)
        );
    }

    // rules: S1
    #[test]
    fn a_bomb_ends_at_the_limit() {
        let bomb = deflate_alone(&vec![0; 32 << 20]);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        let mut message = Vec::new();
        let mut inflater = Inflater::new(false);
        let outcome = inflater.inflate(&bomb, &mut message, 10_000);
        assert_eq!(outcome, Err(Fault::TooLong { max: 10_000 }));
        assert!(message.capacity() < 40_000, "{}", message.capacity());
        assert_eq!(
            inflate(&mut Inflater::new(false), &[b"\xff\xff\xff"], 9),
            Err(Fault::Deflate)
        );
    }

    // rules: S1
    #[test]
    fn what_a_broken_message_leaves_reaches_no_other_one() {
        let text = b"Hello, Hello, Hello";
        let mut deflater = Deflater::new(15, false).expect("zlib has it");
        for _ in 0..3 {
            let mut broken = Inflater::new(false);
            assert!(inflate(&mut broken, &[b"\xf2\x48\x05\xff\xff"], 99).is_err());
            let deflated = deflater.deflate(text);
            let inflated = inflate(&mut Inflater::new(false), &[&deflated], 99);
            assert_eq!(inflated.as_deref(), Ok(&text[..]));
        }
    }
}
