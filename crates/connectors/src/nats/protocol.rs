//! The lines of the protocol, in and out.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

/// The longest line that is read: the greeting of a large cluster.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The longest message that is read; servers allow 64 MB at most.
const MESSAGE_BYTES_MAX: usize = 128 << 20;

/// What a server says.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Said {
    Message(Message),
    Ping,
    Pong,
    /// It refuses something, or ends the connection.
    Error(String),
    /// The greeting, and later news of the cluster.
    Info(Bytes),
    Ok,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub subject: String,
    pub reply: String,
    /// Empty where there are none.
    pub headers: Bytes,
    pub payload: Bytes,
}

impl Message {
    /// The code and words of a message that carries nothing but a state, as `NATS/1.0 404 No Messages`.
    pub fn status(&self) -> Option<(u16, String)> {
        let headers = std::str::from_utf8(&self.headers).ok()?;
        let line = headers.lines().next()?.strip_prefix("NATS/1.0")?.trim();
        let (code, words) = line.split_once(' ').unwrap_or((line, ""));
        Some((code.parse().ok()?, words.to_owned()))
    }
}

/// Bytes that have come and were not taken yet. However small the pieces are in which they come, none is looked at
/// again and again.
#[derive(Default)]
pub(crate) struct Incoming {
    pub bytes: BytesMut,
    /// The first line has no end among so many bytes.
    looked: usize,
    /// What is first is not whole before there are so many.
    wanted: usize,
}

impl Incoming {
    /// Takes what is first; `None` where it is not whole yet.
    ///
    /// # Errors
    /// It is not NATS.
    pub fn take(&mut self) -> Result<Option<Said>, String> {
        if self.bytes.len() < self.wanted {
            return Ok(None);
        }
        let Some(end) = memchr(b'\n', &self.bytes[self.looked..]) else {
            self.looked = self.bytes.len();
            return match self.looked > LINE_BYTES_MAX {
                true => Err("the other side does not speak NATS: a line has no end".to_owned()),
                false => Ok(None),
            };
        };
        self.looked += end;
        let taken = self.take_line(self.looked)?;
        if taken.is_some() {
            (self.looked, self.wanted) = (0, 0);
        }
        Ok(taken)
    }

    fn take_line(&mut self, end: usize) -> Result<Option<Said>, String> {
        let line = std::str::from_utf8(&self.bytes[..end]);
        let line = line.map_err(|_| wrong("a line is not text"))?;
        let line = line.trim_end_matches('\r');
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let said = match word.to_ascii_uppercase().as_str() {
            "MSG" => return self.take_message(end + 1, false),
            "HMSG" => return self.take_message(end + 1, true),
            "PING" => Said::Ping,
            "PONG" => Said::Pong,
            "+OK" => Said::Ok,
            "-ERR" => Said::Error(rest.trim().trim_matches('\'').to_owned()),
            "INFO" => Said::Info(Bytes::copy_from_slice(rest.as_bytes())),
            _ => return Err(wrong("a line begins with none of its words")),
        };
        self.bytes.advance(end + 1);
        Ok(Some(said))
    }

    /// `MSG subject sid [reply] bytes`, `HMSG subject sid [reply] header-bytes bytes`, then the bytes.
    fn take_message(&mut self, start: usize, has_headers: bool) -> Result<Option<Said>, String> {
        // It was text when the word was read.
        let line = String::from_utf8_lossy(&self.bytes[..start]).into_owned();
        let parts: Vec<&str> = line.split_ascii_whitespace().skip(1).collect();
        let sizes = if has_headers { 2 } else { 1 };
        let reply = match parts.len().checked_sub(2 + sizes) {
            Some(0) => "",
            Some(1) => parts[2],
            _ => return Err(wrong("a message has other parts")),
        };
        let size = |at: usize| -> Result<usize, String> {
            let size = parts[parts.len() - 1 - at].parse().ok();
            size.filter(|size| *size <= MESSAGE_BYTES_MAX)
                .ok_or_else(|| wrong("a message has no length, or is too long"))
        };
        let total = size(0)?;
        let head = if has_headers { size(1)? } else { 0 };
        if head > total {
            return Err(wrong("headers are longer than their message"));
        }
        let end = start + total;
        self.wanted = end + 2;
        if self.bytes.len() < self.wanted {
            return Ok(None);
        }
        if &self.bytes[end..end + 2] != b"\r\n" {
            return Err(wrong("a message is longer than declared"));
        }
        let mut whole = self.bytes.split_to(end + 2).freeze();
        let mut body = whole.split_off(start);
        let headers = body.split_to(head);
        body.truncate(total - head);
        Ok(Some(Said::Message(Message {
            subject: parts[0].to_owned(),
            reply: reply.to_owned(),
            headers,
            payload: body,
        })))
    }
}

fn wrong(what: &str) -> String {
    format!("the other side does not speak NATS: {what}")
}

/// Appends `PUB`, or `HPUB` where there are headers (whole, with the line that ends them).
pub(crate) fn publish(
    into: &mut Vec<u8>,
    subject: &str,
    reply: Option<&str>,
    headers: &str,
    payload: &[u8],
) {
    into.reserve(subject.len() + headers.len() + payload.len() + 64);
    let word: &str = if headers.is_empty() { "PUB " } else { "HPUB " };
    into.extend_from_slice(word.as_bytes());
    into.extend_from_slice(subject.as_bytes());
    into.push(b' ');
    if let Some(reply) = reply {
        into.extend_from_slice(reply.as_bytes());
        into.push(b' ');
    }
    if !headers.is_empty() {
        number(into, headers.len());
        into.push(b' ');
    }
    number(into, headers.len() + payload.len());
    into.extend_from_slice(b"\r\n");
    into.extend_from_slice(headers.as_bytes());
    into.extend_from_slice(payload);
    into.extend_from_slice(b"\r\n");
}

fn number(into: &mut Vec<u8>, number: usize) {
    into.extend_from_slice(number.to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Result<Vec<Said>, String> {
        let mut incoming = Incoming::default();
        incoming.bytes.extend_from_slice(text);
        let mut found = Vec::new();
        while let Some(said) = incoming.take()? {
            found.push(said);
        }
        Ok(found)
    }

    fn said(subject: &str, reply: &str, headers: &str, payload: &str) -> Said {
        Said::Message(Message {
            subject: subject.into(),
            reply: reply.into(),
            headers: Bytes::copy_from_slice(headers.as_bytes()),
            payload: Bytes::copy_from_slice(payload.as_bytes()),
        })
    }

    #[test]
    fn what_servers_say_however_it_is_cut() {
        let text = b"INFO {\"a\":1} \r\n+OK\r\nping\r\nPONG\r\n-ERR 'No, thanks'\r\n\
            MSG a.b 1 5\r\nh\r\nlo\r\nMSG a 1 r.1 0\r\n\r\n\
            HMSG a 1 r.1 12 15\r\nNATS/1.0\r\n\r\nabc\r\nHMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n";
        let whole = all(text).expect("it is NATS");
        assert_eq!(
            whole,
            [
                Said::Info(Bytes::from_static(b"{\"a\":1} ")),
                Said::Ok,
                Said::Ping,
                Said::Pong,
                Said::Error("No, thanks".into()),
                said("a.b", "", "", "h\r\nlo"),
                said("a", "r.1", "", ""),
                said("a", "r.1", "NATS/1.0\r\n\r\n", "abc"),
                said("a", "", "NATS/1.0 503\r\n\r\n", ""),
            ]
        );
        for cut in 0..text.len() {
            let mut incoming = Incoming::default();
            let mut found = Vec::new();
            for rest in [&text[..cut], &text[cut..]] {
                incoming.bytes.extend_from_slice(rest);
                while let Some(said) = incoming.take().expect("it is NATS") {
                    found.push(said);
                }
            }
            assert_eq!(found, whole, "{cut}");
        }
    }

    #[test]
    fn what_is_no_nats_is_told() {
        for text in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"MSG a 1\r\n",
            b"MSG a 1 x\r\n",
            b"MSG a 1 999999999999\r\n",
            b"MSG a 1 1\r\nabc",
            b"HMSG a 1 9 3\r\nabc\r\n",
            b"\xff\xff\n",
        ] {
            let error = all(text).expect_err("no NATS");
            assert!(error.contains("does not speak NATS"), "{error}");
        }
        assert!(all(&vec![b'x'; LINE_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn states_are_read_and_messages_written() {
        let status = |headers: &str| match said("a", "", headers, "") {
            Said::Message(message) => message.status(),
            _ => None,
        };
        assert_eq!(
            status("NATS/1.0 404 No Messages\r\n\r\n"),
            Some((404, "No Messages".into()))
        );
        assert_eq!(status("NATS/1.0 503\r\n\r\n"), Some((503, String::new())));
        assert_eq!(status("NATS/1.0\r\nA: b\r\n\r\n"), None);
        assert_eq!(status(""), None);
        let mut out = Vec::new();
        publish(&mut out, "a", None, "", b"xy");
        publish(&mut out, "a", Some("r"), "NATS/1.0\r\n\r\n", b"xy");
        assert_eq!(
            out,
            b"PUB a 2\r\nxy\r\nHPUB a r 12 14\r\nNATS/1.0\r\n\r\nxy\r\n"
        );
    }
}
