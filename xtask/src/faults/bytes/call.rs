//! A call of gRPC with a stream of messages, over HTTP/2 by hand: of what the server says, its windows and
//! its end count.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{bail, ensure};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW: u8 = 8;

// Flags of frames.
const END_OF_CALL: u8 = 1;
const ANSWERED: u8 = 1;
const END_OF_HEAD: u8 = 4;

/// The only call of the connection.
const CALL: u32 = 1;

/// Bytes that wait before they are written.
const BLOCK_BYTES: usize = 64 << 10;

pub(super) struct Call {
    stream: BufReader<TcpStream>,
    /// What is not written yet.
    out: Vec<u8>,
    frame_max: usize,
    /// What a new call may send, by the settings.
    initial: i64,
    /// What the connection and the call may still send.
    windows: [i64; 2],
    has_ended: bool,
}

impl Call {
    /// `path`: service and method.
    pub fn open(stream: BufReader<TcpStream>, path: &str) -> anyhow::Result<Call> {
        const INITIAL: i64 = 65_535;
        let mut call = Call {
            stream,
            out: PREFACE.to_vec(),
            frame_max: 16_384,
            initial: INITIAL,
            windows: [INITIAL; 2],
            has_ended: false,
        };
        call.frame(SETTINGS, 0, 0, b"");
        // POST and http of the static table, then names of that table, each with its text and length.
        let mut head = vec![0x83, 0x86];
        for (name, value) in [
            (0x44, path),
            (0x41, "localhost"),
            (0x5f, "application/grpc"),
        ] {
            head.push(name);
            head.push(u8::try_from(value.len())?);
            head.extend_from_slice(value.as_bytes());
        }
        call.frame(HEADERS, END_OF_HEAD, CALL, &head);
        while call.read_frame()? != SETTINGS {}
        Ok(call)
    }

    pub fn send(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let mut prefix = vec![0];
        prefix.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
        for mut bytes in [prefix.as_slice(), message] {
            while !bytes.is_empty() {
                let window = self.windows.into_iter().min().unwrap_or(0).max(0);
                let count = bytes.len().min(self.frame_max).min(window as usize);
                if count == 0 {
                    self.read_frame()?;
                    ensure!(!self.has_ended, "the call has ended");
                    continue;
                }
                let (part, rest) = bytes.split_at(count);
                self.frame(DATA, 0, CALL, part);
                self.windows = self.windows.map(|window| window - count as i64);
                bytes = rest;
                if self.out.len() >= BLOCK_BYTES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    /// All messages are sent: waits until the server has ended the call.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.frame(DATA, END_OF_CALL, CALL, b"");
        while !self.has_ended {
            self.read_frame()?;
        }
        Ok(())
    }

    fn frame(&mut self, ty: u8, flags: u8, stream: u32, payload: &[u8]) {
        // A frame is never longer than 2^24 - 1.
        self.out
            .extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        self.out.extend_from_slice(&[ty, flags]);
        self.out.extend_from_slice(&stream.to_be_bytes());
        self.out.extend_from_slice(payload);
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.stream.get_mut().write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// The next frame of the server, which says what it wants; its type.
    fn read_frame(&mut self) -> anyhow::Result<u8> {
        self.flush()?;
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let [a, b, c, ty, flags, d, e, f, g] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload)?;
        let number = |bytes: &[u8]| {
            let bytes = bytes.first_chunk::<4>().copied().unwrap_or_default();
            u32::from_be_bytes(bytes)
        };
        match ty {
            SETTINGS if flags & ANSWERED == 0 => {
                for setting in payload.chunks_exact(6) {
                    let value = number(&setting[2..]);
                    match setting[1] {
                        4 => {
                            self.windows[1] += i64::from(value) - self.initial;
                            self.initial = i64::from(value);
                        }
                        5 => self.frame_max = value as usize,
                        _ => {}
                    }
                }
                self.frame(SETTINGS, ANSWERED, 0, b"");
            }
            PING if flags & ANSWERED == 0 => self.frame(PING, ANSWERED, 0, &payload),
            WINDOW => {
                let is_of_call = u32::from_be_bytes([d, e, f, g]) == CALL;
                self.windows[usize::from(is_of_call)] += i64::from(number(&payload));
            }
            HEADERS => self.has_ended |= flags & END_OF_CALL > 0,
            RESET => bail!("the call was reset: {}", number(&payload)),
            GO_AWAY => bail!("the server goes: {:?}", String::from_utf8_lossy(&payload)),
            _ => {}
        }
        Ok(ty)
    }
}
