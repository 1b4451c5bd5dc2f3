//! The text of a stream of server-sent events (WHATWG HTML, 9.2), both ways.

use std::sync::Arc;
use std::time::Duration;

/// Longest event that is read.
pub const EVENT_BYTES_MAX: usize = 64 << 20;

#[derive(PartialEq, Eq, Debug)]
pub struct Event {
    pub data: String,
    /// `message` where it says nothing.
    pub kind: String,
    /// Also that of an event before it.
    pub id: Option<Arc<str>>,
}

/// Reads a stream as it comes, in any pieces.
#[derive(Default)]
pub struct Parser {
    /// A line without its end.
    line: Vec<u8>,
    /// The last line ended with a carriage return; a line feed behind it belongs to it.
    is_behind_return: bool,
    is_behind_first: bool,
    data: String,
    kind: String,
    id: Option<Arc<str>>,
    retry: Option<Duration>,
}

impl Parser {
    /// One that goes on behind an event.
    pub fn behind(id: Option<Arc<str>>) -> Parser {
        Parser {
            id,
            ..Parser::default()
        }
    }

    /// Appends the events that end in a piece.
    ///
    /// # Errors
    /// An event is longer than [`EVENT_BYTES_MAX`].
    pub fn feed(&mut self, mut piece: &[u8], into: &mut Vec<Event>) -> Result<(), String> {
        if std::mem::take(&mut self.is_behind_return)
            && let Some(rest) = piece.strip_prefix(b"\n")
        {
            piece = rest;
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
            self.extend(&piece[..end])?;
            let is_return = piece[end] == b'\r';
            piece = &piece[end + 1..];
            if is_return {
                match piece.strip_prefix(b"\n") {
                    Some(rest) => piece = rest,
                    None => self.is_behind_return = piece.is_empty(),
                }
            }
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, into);
            // Its room serves the next.
            self.line = line;
            self.line.clear();
        }
        self.extend(piece)
    }

    /// How long the server wants a client to wait before it comes again, where it has said so.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn extend(&mut self, part: &[u8]) -> Result<(), String> {
        if self.line.len() + part.len() + self.data.len() > EVENT_BYTES_MAX {
            return Err(format!("an event is longer than {EVENT_BYTES_MAX} bytes"));
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], into: &mut Vec<Event>) {
        let is_first = !std::mem::replace(&mut self.is_behind_first, true);
        let line = match line.strip_prefix("\u{feff}".as_bytes()) {
            Some(rest) if is_first => rest,
            _ => line,
        };
        if line.is_empty() {
            return self.end_event(into);
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let value = String::from_utf8_lossy(value);
        match &line[..colon] {
            b"data" => {
                self.data.push_str(&value);
                self.data.push('\n');
            }
            b"event" => self.kind = value.into_owned(),
            b"id" if !value.contains('\0') => {
                self.id = Some(value)
                    .filter(|id| !id.is_empty())
                    .map(|id| id.as_ref().into());
            }
            b"retry" if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                self.retry = value.parse().ok().map(Duration::from_millis);
            }
            // A line that begins with a colon says nothing.
            _ => {}
        }
    }

    fn end_event(&mut self, into: &mut Vec<Event>) {
        let mut data = std::mem::take(&mut self.data);
        let mut kind = std::mem::take(&mut self.kind);
        if data.pop().is_none() {
            return;
        }
        if kind.is_empty() {
            "message".clone_into(&mut kind);
        }
        into.push(Event {
            data,
            kind,
            id: self.id.clone(),
        });
    }
}

/// A payload as an event: each of its lines as data.
pub fn event_of(payload: &str) -> String {
    let mut text = String::with_capacity(payload.len() + 16);
    write_data(&mut text, payload);
    text.push('\n');
    text
}

/// Appends each line of a payload as a line of data. What ends the event is the caller's to write.
pub fn write_data(text: &mut String, payload: &str) {
    let mut rest = payload;
    loop {
        let end = memchr::memchr2(b'\n', b'\r', rest.as_bytes());
        text.push_str("data: ");
        text.push_str(&rest[..end.unwrap_or(rest.len())]);
        text.push('\n');
        let Some(end) = end else { break };
        let is_pair = rest[end..].starts_with("\r\n");
        rest = &rest[end + 1 + usize::from(is_pair)..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, piece: usize) -> Vec<(String, String, String)> {
        let mut parser = Parser::behind(Some("0".into()));
        let mut events = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            parser.feed(piece, &mut events).expect("it is short");
        }
        let shown = |e: Event| (e.data, e.kind, e.id.as_deref().unwrap_or("-").to_owned());
        events.into_iter().map(shown).collect()
    }

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str, &str)]) {
        let expect: Vec<_> = expect
            .iter()
            .map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned()))
            .collect();
        for piece in [1, 2, 3, 1000] {
            assert_eq!(read(text, piece), expect, "{text:?} by {piece}");
        }
    }

    // rules: E1, E2, E3, E4, E5, E6, E8, E9
    #[test]
    fn events_of_a_stream() {
        check("data: a\n\n", &[("a", "message", "0")]);
        check("data:a\ndata:  b\n\n", &[("a\n b", "message", "0")]);
        check(
            "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
            &[
                ("a", "message", "0"),
                ("b", "message", "0"),
                ("c", "message", "0"),
            ],
        );
        check(
            "\u{feff}event: add\nid: 7\ndata: é\n\ndata: x\n\n",
            &[("é", "add", "7"), ("x", "message", "7")],
        );
        // The second of two is part of the name of a field.
        check(
            "\u{feff}\u{feff}data: a\ndata: b\n\n",
            &[("b", "message", "0")],
        );
        check("id\ndata: a\n\n", &[("a", "message", "-")]);
        check("id: a\0b\ndata: a\n\n", &[("a", "message", "0")]);
        // An event without data is none, one with an empty line is.
        check("event: add\n\n: a comment\nretry: 10\nnope\n\n", &[]);
        check("data\n\n", &[("", "message", "0")]);
        check("event: add\n\ndata: a\n\n", &[("a", "message", "0")]);
        // What is not ended has not come.
        check("data: a\n\ndata: b\n", &[("a", "message", "0")]);
    }

    // rules: E12
    #[test]
    fn a_payload_comes_back_as_it_went() {
        for payload in ["", "a", "a\nb", "a\n", "\n", " a: b", "{\"a\":1}\r\nx\ry"] {
            let expect = payload.replace("\r\n", "\n").replace('\r', "\n");
            check(&event_of(payload), &[(expect.as_str(), "message", "0")]);
        }
    }

    // rules: E7
    #[test]
    fn a_pause_is_digits_only() {
        for (text, expect) in [
            ("retry: 1500\n", Some(1500)),
            ("retry:0\n", Some(0)),
            ("retry: 1000x\n", None),
            ("retry: -1\n", None),
            ("retry: +5\n", None),
            ("retry\n", None),
            ("retry: 99999999999999999999\n", None),
        ] {
            let mut parser = Parser::default();
            parser
                .feed(text.as_bytes(), &mut Vec::new())
                .expect("it is short");
            assert_eq!(
                parser.retry(),
                expect.map(Duration::from_millis),
                "{text:?}"
            );
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; 1 << 20];
        let mut events = Vec::new();
        let fed = (0..65).try_for_each(|_| parser.feed(&piece, &mut events));
        assert!(fed.is_err() && events.is_empty());
    }

    proptest::proptest! {
        /// Whatever comes, and however it is cut.
        // rules: E2
        #[test]
        fn pieces_make_no_difference(text in "[a:d\n\r \u{feff}]{0,40}|(data|id|event|: )[:\n\r x]{0,9}", piece in 1usize..9) {
            proptest::prop_assert_eq!(read(&text, piece), read(&text, usize::MAX));
        }
    }
}
