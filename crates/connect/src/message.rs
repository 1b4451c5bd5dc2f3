//! Messages on their way out: what a sink mapper made of some rows, and for which destination.

use std::ops::Range;

use bytes::Bytes;
use event::{Batch, Value};

use crate::component::Payload;
use crate::error::Error;
use crate::rows::Rejected;

/// Messages in order, texts and bytes in one buffer each. Reused between batches.
#[derive(Default)]
pub struct Messages {
    pub text: String,
    pub bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Rows that the messages were made of, one range per entry.
    rows: Vec<u32>,
    /// Values of the options that depend on the event, for each group, in the order of the options.
    options: Vec<Vec<String>>,
    rejected: Vec<Rejected>,
}

struct Entry {
    body: Body,
    rows: Range<usize>,
    options: Option<usize>,
}

enum Body {
    Text(Range<usize>),
    Bytes(Range<usize>),
    Events(Batch),
    Map(Vec<(Value, Value)>),
    Object(Value),
}

/// One message for the transport.
pub struct Message<'a> {
    pub payload: Payload<'a>,
    /// Rows of the batch that it was made of, for the fault stream and the error store.
    pub rows: &'a [u32],
    /// The batch that the rows are in, where the server knows it.
    pub events: Option<&'a Batch>,
    options: &'a [String],
}

/// A message that a sink sends while others follow, kept until it is known to have arrived.
#[derive(Clone, Debug)]
pub struct Sent {
    pub payload: Bytes,
    pub is_text: bool,
    pub rows: Box<[u32]>,
    pub events: Option<Batch>,
    pub options: Box<[String]>,
}

/// A message that did not arrive, and why.
#[derive(Debug)]
pub struct Undelivered {
    pub message: Sent,
    pub error: Error,
}

impl Sent {
    /// Keeps what a message carries. Payloads that are neither text nor bytes carry none.
    pub fn new(message: &Message<'_>) -> Sent {
        let (payload, is_text) = match message.payload {
            Payload::Text(text) => (Bytes::copy_from_slice(text.as_bytes()), true),
            Payload::Bytes(bytes) => (Bytes::copy_from_slice(bytes), false),
            _ => (Bytes::new(), false),
        };
        Sent {
            is_text,
            ..Sent::as_bytes(message, payload)
        }
    }

    /// Keeps what a message carries, of which these bytes were made.
    pub fn as_bytes(message: &Message<'_>, payload: Bytes) -> Sent {
        Sent {
            payload,
            is_text: false,
            rows: message.rows.into(),
            events: message.events.cloned(),
            options: message.options.into(),
        }
    }

    /// The message as it was.
    pub fn message(&self) -> Message<'_> {
        let payload = match std::str::from_utf8(&self.payload) {
            Ok(text) if self.is_text => Payload::Text(text),
            _ => Payload::Bytes(&self.payload),
        };
        Message {
            payload,
            rows: &self.rows,
            events: self.events.as_ref(),
            options: &self.options,
        }
    }
}

impl<'a> Message<'a> {
    /// A message without options or rows, for tests and for what is published by the server itself.
    pub fn of(payload: Payload<'a>) -> Message<'a> {
        Message {
            payload,
            rows: &[],
            events: None,
            options: &[],
        }
    }

    /// As [`Message::of`], with the values of the options that depend on the event.
    pub fn with_options(payload: Payload<'a>, options: &'a [String]) -> Message<'a> {
        Message {
            payload,
            rows: &[],
            events: None,
            options,
        }
    }

    /// The message with the batch that its rows are in.
    pub fn with_events(self, batch: &'a Batch) -> Message<'a> {
        Message {
            events: Some(batch),
            ..self
        }
    }

    /// Values of all options that depend on the event.
    pub fn options(&self) -> &'a [String] {
        self.options
    }

    /// Value of an option that depends on the event, by its place in the sink's list.
    pub fn option(&self, index: usize) -> &'a str {
        &self.options[index]
    }
}

impl Messages {
    pub fn clear(&mut self) {
        self.text.clear();
        self.bytes.clear();
        self.entries.clear();
        self.rows.clear();
        self.options.clear();
        self.rejected.clear();
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, index: usize) -> Message<'_> {
        let entry = &self.entries[index];
        Message {
            payload: match &entry.body {
                Body::Text(range) => Payload::Text(&self.text[range.clone()]),
                Body::Bytes(range) => Payload::Bytes(&self.bytes[range.clone()]),
                Body::Events(batch) => Payload::Events(batch),
                Body::Map(entries) => Payload::Map(entries),
                Body::Object(value) => Payload::Object(value),
            },
            rows: &self.rows[entry.rows.clone()],
            events: None,
            options: entry
                .options
                .map_or(&[], |group| self.options[group].as_slice()),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// What could not be encoded, taken out.
    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        std::mem::take(&mut self.rejected)
    }

    // ---- for mappers ----

    /// Where the next text begins; write to the string, then call [`Messages::end_text`].
    pub fn text(&mut self) -> &mut String {
        &mut self.text
    }

    /// Begin of a text to be written.
    pub fn text_start(&self) -> usize {
        self.text.len()
    }

    /// Closes the text begun at `start`, made of `rows`.
    pub fn end_text(&mut self, start: usize, rows: &[u32]) {
        self.entry(Body::Text(start..self.text.len()), rows);
    }

    /// Drops the text begun at `start`: it cannot be sent.
    pub fn reject_text(&mut self, start: usize, rejected: Rejected, rows: &[u32]) {
        self.text.truncate(start);
        self.reject(rejected, rows);
    }

    pub fn push_text(&mut self, text: &str, rows: &[u32]) {
        let start = self.text.len();
        self.text.push_str(text);
        self.end_text(start, rows);
    }

    pub fn push_bytes(&mut self, bytes: &[u8], rows: &[u32]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.entry(Body::Bytes(start..self.bytes.len()), rows);
    }

    /// The bytes so far; append to them, then call [`Messages::end_bytes`].
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Closes the bytes begun at `start`, made of `rows`.
    pub fn end_bytes(&mut self, start: usize, rows: &[u32]) {
        self.entry(Body::Bytes(start..self.bytes.len()), rows);
    }

    /// Each chunk of the batch is a message.
    pub fn push_events(&mut self, batch: Batch, rows: &[u32]) {
        self.entry(Body::Events(batch), rows);
    }

    pub fn push_map(&mut self, entries: Vec<(Value, Value)>, rows: &[u32]) {
        self.entry(Body::Map(entries), rows);
    }

    pub fn push_object(&mut self, value: Value, rows: &[u32]) {
        self.entry(Body::Object(value), rows);
    }

    /// These rows could not be written.
    pub fn reject(&mut self, rejected: Rejected, rows: &[u32]) {
        self.rejected.push(rejected.of_rows(rows));
    }

    fn entry(&mut self, body: Body, rows: &[u32]) {
        let start = self.rows.len();
        self.rows.extend_from_slice(rows);
        self.entries.push(Entry {
            body,
            rows: start..self.rows.len(),
            options: self.options.len().checked_sub(1),
        });
    }

    /// Messages from here on carry these values of the options that depend on the event.
    pub fn begin_group(&mut self, options: Vec<String>) {
        self.options.push(options);
    }
}
