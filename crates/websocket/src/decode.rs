//! Bytes of the other side become messages.

use bytes::Bytes;

use crate::deflate::{Agreed, Inflater};
use crate::frame::{HEAD_BYTES_MAX, Opcode, Start};
use crate::utf8::Utf8;
use crate::{Close, Fault, Kind, Role, mask};

/// Room that is made for a message before its bytes have come.
const AHEAD_BYTES_MAX: u64 = 64 << 10;

/// Bytes that are unmasked at once on the way to the inflater.
const BLOCK_BYTES: usize = 2 << 10;

/// What the other side says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A whole message; a text is UTF-8.
    Message {
        kind: Kind,
        payload: Bytes,
    },
    /// To be answered by a pong with the same payload.
    Ping(Bytes),
    Pong(Bytes),
    /// Nothing follows it.
    Close(Option<Close>),
}

/// Reads what one side sends. A new one holds no heap memory, and one between two messages none either.
pub struct Decoder {
    from: Role,
    message_max: usize,
    inflater: Option<Inflater>,
    head: [u8; HEAD_BYTES_MAX],
    head_len: u8,
    start: Option<Start>,
    /// The frame whose payload is read.
    frame: Option<Frame>,
    /// Of a message that has begun.
    kind: Option<Kind>,
    is_compressed: bool,
    message: Vec<u8>,
    /// Bytes of the message as they came.
    wire_bytes: u64,
    utf8: Utf8,
    control: Vec<u8>,
    is_closed: bool,
}

#[derive(Clone, Copy)]
struct Frame {
    start: Start,
    mask: [u8; 4],
    len: u64,
    done: u64,
}

impl Decoder {
    /// For what `from` sends: messages of so many bytes, inflated. `agreed`: they may be compressed.
    pub fn new(from: Role, message_max: usize, agreed: Option<Agreed>) -> Decoder {
        let alone = agreed.map(|agreed| match from {
            Role::Client => agreed.client_alone,
            Role::Server => agreed.server_alone,
        });
        Decoder {
            from,
            message_max,
            inflater: alone.map(|alone| Inflater::new(!alone)),
            head: [0; HEAD_BYTES_MAX],
            head_len: 0,
            start: None,
            frame: None,
            kind: None,
            is_compressed: false,
            message: Vec::new(),
            wire_bytes: 0,
            utf8: Utf8::default(),
            control: Vec::new(),
            is_closed: false,
        }
    }

    /// Reads up to the end of the next event, and says how many bytes that took: all of them where there is none.
    /// What follows a close is passed over.
    ///
    /// # Errors
    /// The other side broke the protocol or a limit; nothing more can be read.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(usize, Option<Event>), Fault> {
        let mut rest = bytes;
        while !self.is_closed {
            if self.frame.is_none() && !self.head(&mut rest)? {
                break;
            }
            if let Some(event) = self.payload(&mut rest)? {
                self.is_closed = matches!(event, Event::Close(_));
                return Ok((bytes.len() - rest.len(), Some(event)));
            }
            if rest.is_empty() {
                break;
            }
        }
        Ok((bytes.len(), None))
    }

    /// Reads the head of a frame; is it complete?
    fn head(&mut self, rest: &mut &[u8]) -> Result<bool, Fault> {
        loop {
            let wanted = self.start.map_or(2, Start::head_len);
            let len = usize::from(self.head_len);
            let count = (wanted - len).min(rest.len());
            self.head[len..len + count].copy_from_slice(&rest[..count]);
            *rest = &rest[count..];
            self.head_len += count as u8;
            if len + count < wanted {
                return Ok(false);
            }
            let Some(start) = self.start else {
                let start = Start::read([self.head[0], self.head[1]], self.from)?;
                self.begin(start)?;
                self.start = Some(start);
                continue;
            };
            let (len, mask) = start.finish(&self.head[..wanted])?;
            (self.start, self.head_len) = (None, 0);
            self.room(start, len)?;
            self.frame = Some(Frame {
                start,
                mask,
                len,
                done: 0,
            });
            return Ok(true);
        }
    }

    /// Judges a frame by its first bytes.
    fn begin(&mut self, start: Start) -> Result<(), Fault> {
        let fault = |why| Err(Fault::Protocol(why));
        let kind = match start.opcode {
            Opcode::Text => Kind::Text,
            Opcode::Binary => Kind::Binary,
            _ if start.is_compressed => {
                return fault("a frame is marked as compressed that cannot be");
            }
            Opcode::Continuation if self.kind.is_none() => {
                return fault("a continuation comes without a beginning");
            }
            _ => return Ok(()),
        };
        if self.kind.is_some() {
            return fault("a message begins within another");
        }
        if start.is_compressed && self.inflater.is_none() {
            return fault("a frame is compressed without an agreement");
        }
        (self.kind, self.is_compressed) = (Some(kind), start.is_compressed);
        Ok(())
    }

    /// Makes room for the payload of a frame, within the limit.
    fn room(&mut self, start: Start, len: u64) -> Result<(), Fault> {
        let ahead = len.min(AHEAD_BYTES_MAX) as usize;
        if start.opcode.is_control() {
            self.control.clear();
            self.control.reserve_exact(ahead);
            return Ok(());
        }
        self.wire_bytes = self.wire_bytes.saturating_add(len);
        let max = self.message_max as u64;
        // What cannot be compressed grows by it, up to an eighth with fixed codes.
        let slack = if self.is_compressed { max / 8 + 64 } else { 0 };
        if self.wire_bytes > max.saturating_add(slack) {
            return Err(Fault::TooLong {
                max: self.message_max,
            });
        }
        if !self.is_compressed {
            match self.message.is_empty() {
                true => self.message.reserve_exact(ahead),
                false => self.message.reserve(ahead),
            }
        }
        Ok(())
    }

    /// Reads payload; the event that is complete with it.
    fn payload(&mut self, rest: &mut &[u8]) -> Result<Option<Event>, Fault> {
        let Some(mut frame) = self.frame.take() else {
            return Ok(None);
        };
        let count = rest
            .len()
            .min(usize::try_from(frame.len - frame.done).unwrap_or(usize::MAX));
        let (part, behind) = rest.split_at(count);
        *rest = behind;
        let begin = (frame.done % 4) as usize;
        match frame.start.opcode.is_control() {
            true => {
                self.control.extend_from_slice(part);
                let from = self.control.len() - count;
                mask::apply(&mut self.control[from..], frame.mask, begin);
            }
            false => self.data(part, frame.mask, begin)?,
        }
        frame.done += count as u64;
        if frame.done < frame.len {
            self.frame = Some(frame);
            return Ok(None);
        }
        self.end(frame.start)
    }

    fn data(&mut self, part: &[u8], key: [u8; 4], begin: usize) -> Result<(), Fault> {
        let from = self.message.len();
        match &mut self.inflater {
            Some(inflater) if self.is_compressed => {
                let mut block = [0; BLOCK_BYTES];
                // A multiple of the mask's length: each block begins as the first one.
                for piece in part.chunks(BLOCK_BYTES) {
                    let block = &mut block[..piece.len()];
                    block.copy_from_slice(piece);
                    mask::apply(block, key, begin);
                    inflater.inflate(block, &mut self.message, self.message_max)?;
                }
            }
            _ => {
                self.message.extend_from_slice(part);
                mask::apply(&mut self.message[from..], key, begin);
            }
        }
        match self.kind {
            Some(Kind::Text) => self.utf8.check(&self.message[from..]),
            _ => Ok(()),
        }
    }

    /// The payload of a frame is complete.
    fn end(&mut self, start: Start) -> Result<Option<Event>, Fault> {
        let control = |control: &mut Vec<u8>| Bytes::from(std::mem::take(control));
        Ok(match start.opcode {
            Opcode::Ping => Some(Event::Ping(control(&mut self.control))),
            Opcode::Pong => Some(Event::Pong(control(&mut self.control))),
            Opcode::Close => Some(Event::Close(Close::read(&control(&mut self.control))?)),
            _ if !start.is_final => None,
            _ => {
                let from = self.message.len();
                if self.is_compressed
                    && let Some(inflater) = &mut self.inflater
                {
                    inflater.end(&mut self.message, self.message_max)?;
                }
                let kind = self.kind.take().unwrap_or(Kind::Binary);
                if kind.is_text() {
                    self.utf8.check(&self.message[from..])?;
                    self.utf8.end()?;
                }
                (self.wire_bytes, self.is_compressed) = (0, false);
                let payload = Bytes::from(std::mem::take(&mut self.message));
                Some(Event::Message { kind, payload })
            }
        })
    }
}

#[cfg(test)]
mod tests;
