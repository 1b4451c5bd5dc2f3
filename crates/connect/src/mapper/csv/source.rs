//! Separated values to rows.

use event::Type;

use super::parse::Records;
use super::{delimiter, header};
use crate::component::{Payload, SourceMapper, SourceMapperSetup};
use crate::error::Error;
use crate::mapper::scan::all_marks;
use crate::mapper::{Fields, Options};
use crate::rows::{Lines, Properties, Rows};
use crate::scalar;

/// A field of the record, and where it goes.
#[derive(Clone, Debug)]
struct Wanted {
    index: usize,
    column: usize,
    ty: Type,
    name: String,
}

pub(super) struct Source {
    delimiter: String,
    /// The delimiter, where the short way applies: one byte, and no trimming.
    short: Option<u8>,
    /// In the order of the attributes.
    wanted: Vec<Wanted>,
    /// Fields that a record must have.
    width: usize,
    /// Bad values become null.
    is_lenient: bool,
    skips_header: bool,
    header_seen: bool,
    /// Ends of the fields of a line; reused.
    ends: Vec<u32>,
}

impl Source {
    pub fn new(setup: &SourceMapperSetup<'_>) -> Result<Source, Error> {
        let options = Options::of_source(setup.mapping);
        let delimiter = delimiter(&options)?;
        let fields = Fields::of(setup.mapping, setup.schema);
        let wanted = fields
            .list
            .into_iter()
            .map(|field| {
                let index = if fields.is_default {
                    field.column
                } else {
                    scalar::parse_int(&field.from)
                        .and_then(|index| usize::try_from(index).ok())
                        .ok_or_else(|| {
                            options.refused(format!(
                                "attribute '{}' is mapped to '{}', which is not a column number; \
                                 count columns from 0",
                                field.name, field.from
                            ))
                        })?
                };
                Ok(Wanted {
                    index,
                    column: field.column,
                    ty: field.ty,
                    name: field.name,
                })
            })
            .collect::<Result<Vec<Wanted>, Error>>()?;
        Ok(Source {
            short: match delimiter.as_bytes() {
                &[byte] if !matches!(byte, 0 | b'\t') => Some(byte),
                _ => None,
            },
            delimiter,
            width: wanted.iter().map(|w| w.index + 1).max().unwrap_or(0),
            wanted,
            is_lenient: !options.bool("fail.on.unknown.attribute"),
            skips_header: header(&options),
            header_seen: false,
            ends: Vec::new(),
        })
    }

    /// A message of any form, by the whole grammar.
    fn map_text(&self, text: &str, rows: &mut Rows) {
        let mut records = Records::new(text, &self.delimiter);
        loop {
            match records.next_record() {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => {
                    return rows.reject_message(
                        Payload::Text(text),
                        fault.to_string(),
                        "close the quote, and write a quote inside quotes twice",
                    );
                }
            }
            if records.len() < self.width {
                let cause = format!(
                    "a record has {} columns, the mapping reads {}",
                    records.len(),
                    self.width
                );
                return rows.reject_message(
                    Payload::Text(text),
                    cause,
                    "check the delimiter and the column numbers of @attributes",
                );
            }
            self.push_record(text, &records, rows);
        }
    }

    fn push_record(&self, text: &str, records: &Records<'_>, rows: &mut Rows) {
        for wanted in &self.wanted {
            let value = records.get(wanted.index).unwrap_or("");
            let column = &mut rows.columns()[wanted.column];
            if scalar::push_text(column, wanted.ty, value) {
                continue;
            }
            if self.is_lenient {
                column.push_null();
                continue;
            }
            let cause = format!(
                "attribute '{}': '{}' is no {}",
                wanted.name,
                excerpt(value),
                wanted.ty
            );
            return rows.reject_row(
                text,
                cause,
                "put the value right, or let it be null by fail.on.unknown.attribute='false'",
            );
        }
        rows.commit_row();
    }

    /// The short way: a line without quotes whose fields end at `ends`. False: not taken, nothing is
    /// left behind.
    #[inline]
    fn push_line(&self, line: &str, ends: &[u32], rows: &mut Rows) -> bool {
        if ends.len() < self.width {
            return false;
        }
        let columns = rows.columns();
        for wanted in &self.wanted {
            let start = match wanted.index {
                0 => 0,
                index => ends[index - 1] as usize + 1,
            };
            let value = &line[start..ends[wanted.index] as usize];
            if !scalar::push_text(&mut columns[wanted.column], wanted.ty, value) {
                rows.abort_row();
                return false;
            }
        }
        rows.commit_row();
        true
    }

    /// Finds the fields of a text; false where the whole grammar is needed.
    #[inline]
    fn split(text: &str, delimiter: u8, ends: &mut Vec<u32>) -> bool {
        ends.clear();
        let is_plain = all_marks(text.as_bytes(), delimiter, [b'"', b'\n', b'\r'], ends);
        ends.push(text.len() as u32);
        is_plain
    }

    fn is_header(&mut self) -> bool {
        let is_header = self.skips_header && !self.header_seen;
        self.header_seen = true;
        is_header
    }

    #[inline]
    fn map_line(&mut self, line: &str, rows: &mut Rows) {
        let mut ends = std::mem::take(&mut self.ends);
        let is_done = match self.short {
            Some(delimiter) if !line.is_empty() => {
                Source::split(line, delimiter, &mut ends) && self.push_line(line, &ends, rows)
            }
            _ => false,
        };
        self.ends = ends;
        if !is_done {
            self.map_text(line, rows);
        }
    }
}

/// A value in a message, cut.
fn excerpt(value: &str) -> &str {
    value
        .char_indices()
        .nth(100)
        .map_or(value, |(end, _)| &value[..end])
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _properties: &Properties, rows: &mut Rows) {
        let Some(text) = payload.text() else {
            return rows.reject_message(payload, "the message is not text", "send text in UTF-8");
        };
        if !self.is_header() {
            self.map_line(text, rows);
        }
    }

    fn map_lines(&mut self, lines: &mut Lines<'_>, _properties: &Properties, rows: &mut Rows) {
        while !rows.is_full() {
            let Some(line) = lines.next_line() else { break };
            if self.is_header() {
                continue;
            }
            rows.begin_message(line.len());
            rows.set_place(lines.line(), lines.start());
            self.map_line(line, rows);
            rows.end_message();
        }
    }

    fn go_on(&mut self) {
        self.header_seen = true;
    }

    fn save(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.header_seen));
    }

    fn restore(&mut self, held: &[u8]) {
        self.header_seen = held.first() == Some(&1);
    }
}
