//! A mapper and the rows it fills: the way in after a source.

use event::{Batch, Schema};
use plan::Transport;

use crate::component::{Payload, PayloadKind, Room, SourceMapper, SourceMapperSetup};
use crate::error::Error;
use crate::mapper;
use crate::rows::{Lines, Properties, Rejected, Rows, check_mapping};

/// The mapping of one source. The server calls it from its `SourceLink`.
pub struct RowDecoder {
    mapper: Box<dyn SourceMapper>,
    rows: Rows,
    /// Bytes of a message at which it is rejected unread.
    message_bytes_max: usize,
}

const MISSING_PROPERTY: &str = "map the attribute to a property that this source sets, or allow null \
                                by fail.on.missing.attribute='false'";

/// Longest message that is mapped, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

impl RowDecoder {
    /// `gives`: what the source hands over.
    pub fn new(
        transport: &Transport,
        schema: &Schema,
        gives: &[PayloadKind],
    ) -> Result<RowDecoder, Error> {
        let mapping = &transport.map;
        let component = || format!("source mapper '{}'", mapping.ty);
        let format = mapper::find(&mapping.ty)
            .ok_or_else(|| Error::refused(component(), "there is no mapper of this type"))?;
        if !PayloadKind::overlap(gives, format.takes()) {
            return Err(Error::refused(
                component(),
                format!(
                    "it cannot read what source '{}' hands over; use another mapper",
                    transport.ty
                ),
            ));
        }
        check_mapping(schema, mapping)?;
        let mapper = format.source(&SourceMapperSetup {
            mapping,
            schema,
            around: &transport.options,
        })?;
        let rows = Rows::new(schema, mapping, mapper.allows_null());
        Ok(RowDecoder {
            mapper,
            rows,
            message_bytes_max: MESSAGE_BYTES_MAX,
        })
    }

    /// Has the mapper all that it needs for this message, or to begin with?
    ///
    /// # Errors
    /// [`Error::Unavailable`]: not now.
    #[inline]
    pub fn ready(&mut self, message: Option<Payload<'_>>) -> Result<(), Error> {
        self.mapper.ready(message)
    }

    /// What is mapped is not the beginning of an input.
    pub fn go_on(&mut self) {
        self.mapper.go_on();
    }

    /// Maps one message.
    pub fn map(&mut self, payload: Payload<'_>, properties: &Properties) -> Room {
        let rows = &mut self.rows;
        rows.set_properties(properties);
        let bytes = match payload {
            Payload::Text(text) => text.len(),
            Payload::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        rows.begin_message(bytes);
        if bytes > self.message_bytes_max {
            let cause = format!(
                "the message has {bytes} bytes, more than {}",
                self.message_bytes_max
            );
            rows.reject_message(payload, cause, "send smaller messages");
        } else if let Some(cause) = rows.missing_property().map(str::to_owned) {
            rows.reject_message(payload, cause, MISSING_PROPERTY);
        } else {
            self.mapper.map(payload, properties, rows);
        }
        rows.end_message();
        self.room()
    }

    /// Maps lines, each a message of its own, until the rows are full or no line is left.
    pub fn map_lines(&mut self, lines: &mut Lines<'_>, properties: &Properties) -> Room {
        let rows = &mut self.rows;
        rows.set_properties(properties);
        let Some(cause) = rows.missing_property().map(str::to_owned) else {
            self.mapper.map_lines(lines, properties, rows);
            return self.room();
        };
        while !rows.is_full() {
            let Some(line) = lines.next_line() else { break };
            rows.begin_message(line.len());
            rows.set_place(lines.line(), lines.start());
            rows.reject_message(Payload::Text(line), cause.as_str(), MISSING_PROPERTY);
            rows.end_message();
        }
        self.room()
    }

    pub fn end_of_input(&mut self) {
        self.rows.begin_message(0);
        self.mapper.end_of_input(&mut self.rows);
        self.rows.end_message();
    }

    fn room(&self) -> Room {
        if self.rows.is_full() {
            Room::Full
        } else {
            Room::More
        }
    }

    /// What was mapped since the last call.
    pub fn take(&mut self) -> Option<Batch> {
        self.rows.take()
    }

    /// Rows that wait to be taken.
    pub fn rows_waiting(&self) -> usize {
        self.rows.len()
    }

    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        self.rows.take_rejected()
    }

    /// Bytes of all messages so far.
    pub fn bytes_total(&self) -> u64 {
        self.rows.bytes_total()
    }

    /// What the mapper holds between messages, as part of the source's position.
    pub fn save(&self, out: &mut Vec<u8>) {
        self.mapper.save(out);
    }

    pub fn restore(&mut self, held: &[u8]) {
        self.mapper.restore(held);
    }
}
