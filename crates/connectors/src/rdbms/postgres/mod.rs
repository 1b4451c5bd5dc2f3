//! A connection to PostgreSQL.
//!
//! Rows are appended by COPY. Other writes are sent as one prepared statement that is run many times
//! without waiting for each answer. Values travel as text, which the server reads for whatever type a
//! column has.

pub mod wire;

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use bytes::{BufMut, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{DataRowBody, Message};
use postgres_protocol::message::frontend;

use self::wire::{Wire, fields};
use super::dialect::{Dialect, POSTGRES};
use super::link::{Append, Bound, Fault, Found, Link};

use super::rows::{Binder, Cell, Raw, read_value, too_few};
use super::server::Server;
use super::text::{escaped, hex};
use connect::component::Written;

/// Rows of a statement that are sent before their answers are read.
const PIPELINED_MAX: usize = 256;

/// Statements kept prepared.
const PREPARED_MAX: usize = 256;

/// Bytes of one message of a COPY.
const COPY_BYTES: usize = 256 << 10;

pub struct Postgres {
    server: Server,
    wire: Option<Wire>,
    /// Names of prepared statements by their text and the types of their parameters.
    prepared: HashMap<(String, Vec<u32>), String>,
    text: String,
}

impl Postgres {
    pub fn open(server: &Server) -> Result<Postgres, Fault> {
        let mut opened = Postgres {
            server: server.clone(),
            wire: None,
            prepared: HashMap::new(),
            text: String::new(),
        };
        opened.reconnect()?;
        Ok(opened)
    }

    /// Runs work on the connection; one that is gone is not used again.
    fn with<T>(&mut self, work: impl FnOnce(&mut Wire) -> Result<T, Fault>) -> Result<T, Fault> {
        let Some(wire) = &mut self.wire else {
            return Err(Fault::Lost("there is no connection".into()));
        };
        let result = work(wire);
        if matches!(result, Err(Fault::Lost(_))) {
            self.wire = None;
        }
        result
    }

    /// The name of the statement on the server, prepared where it is new.
    fn prepare(&mut self, text: &str, binders: &[Binder<'_>]) -> Result<String, Fault> {
        let has_untyped = self.server.property("stringtype") == Some("unspecified");
        let types: Vec<u32> = binders
            .iter()
            .map(|b| type_number(b.ty(), has_untyped))
            .collect();
        let key = (text.to_owned(), types);
        if let Some(name) = self.prepared.get(&key) {
            return Ok(name.clone());
        }
        if self.prepared.len() >= PREPARED_MAX {
            self.prepared.clear();
            self.run("DEALLOCATE ALL")?;
        }
        let name = format!("s{}", self.prepared.len());
        self.with(|wire| {
            frontend::parse(&name, text, key.1.iter().copied(), &mut wire.output)
                .map_err(Fault::refused)?;
            frontend::sync(&mut wire.output);
            wire.flush()?;
            wire.finish(|_| Ok(()))
        })?;
        self.prepared.insert(key, name.clone());
        Ok(name)
    }

    /// Runs a statement for each row in order; `each` gets the messages of the answers.
    fn send(
        &mut self,
        bound: Bound<'_, '_>,
        rows: Range<usize>,
        each: &mut dyn FnMut(&Message) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Bound { statement, binders } = bound;
        let name = self.prepare(&statement.text, binders)?;
        let mut begin = rows.start;
        while begin < rows.end {
            let end = rows.end.min(begin + PIPELINED_MAX);
            let mut done = 0;
            let sent = self.with(|wire| {
                for row in begin..end {
                    bind(&name, binders, row, &mut wire.output)?;
                    frontend::execute("", 0, &mut wire.output).map_err(Fault::refused)?;
                }
                frontend::sync(&mut wire.output);
                wire.flush()?;
                wire.finish(|message| {
                    if matches!(message, Message::CommandComplete(_)) {
                        done += 1;
                    }
                    each(&message)
                })
            });
            sent.map_err(|fault| fault.at(begin + done))?;
            begin = end;
        }
        Ok(())
    }
}

impl Link for Postgres {
    fn dialect(&self) -> &'static dyn Dialect {
        POSTGRES
    }

    fn reconnect(&mut self) -> Result<(), Fault> {
        self.wire = None;
        self.prepared.clear();
        self.wire = Some(Wire::connect(&self.server, &[])?);
        Ok(())
    }

    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        self.with(|wire| wire.query(sql, |_| Ok(())))
    }

    fn list(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
        self.with(|wire| wire.rows(sql))
    }

    fn append(&mut self, to: &Append, binders: &[Binder<'_>], rows: usize) -> Result<(), Fault> {
        let mut text = std::mem::take(&mut self.text);
        let sql = format!("COPY {} ({}) FROM STDIN", to.table, to.columns.join(", "));
        let copied = self.with(|wire| {
            // Sent without waiting: a server that refuses the statement ignores the rows behind it.
            frontend::query(&sql, &mut wire.output).map_err(Fault::refused)?;
            let mut row = 0;
            while row < rows {
                text.clear();
                while row < rows && text.len() < COPY_BYTES {
                    for (index, binder) in binders.iter().enumerate() {
                        if index > 0 {
                            text.push('\t');
                        }
                        copy_field(&binder.cell(row), &mut text);
                    }
                    text.push('\n');
                    row += 1;
                }
                let data = frontend::CopyData::new(text.as_bytes()).map_err(Fault::refused)?;
                data.write(&mut wire.output);
                wire.flush()?;
            }
            frontend::copy_done(&mut wire.output);
            wire.flush()?;
            wire.finish(|_| Ok(()))
        });
        self.text = text;
        copied
    }

    fn write(&mut self, bound: Bound<'_, '_>, rows: Range<usize>) -> Result<u64, Fault> {
        let mut count = 0;
        self.send(bound, rows, &mut |message| {
            if let Message::CommandComplete(body) = message {
                count += changed(body.tag().map_err(wire::lost)?);
            }
            Ok(())
        })?;
        Ok(count)
    }

    fn upsert(&mut self, bound: Bound<'_, '_>, rows: usize) -> Result<Written, Fault> {
        let mut written = Written::default();
        self.send(bound, 0..rows, &mut |message| {
            if let Message::DataRow(row) = message {
                match fields(row)?.first() {
                    Some(Some("t")) => written.inserted += 1,
                    _ => written.updated += 1,
                }
            }
            Ok(())
        })?;
        Ok(written)
    }

    fn find(
        &mut self,
        bound: Bound<'_, '_>,
        row: usize,
        found: &mut Found<'_>,
    ) -> Result<(), Fault> {
        self.send(bound, row..row + 1, &mut |message| {
            if let Message::DataRow(row) = message {
                read_row(row, found)?;
            }
            Ok(())
        })
    }

    fn contains(&mut self, bound: Bound<'_, '_>, row: usize) -> Result<bool, Fault> {
        let mut is_found = false;
        self.send(bound, row..row + 1, &mut |message| {
            is_found |= matches!(message, Message::DataRow(_));
            Ok(())
        })?;
        Ok(is_found)
    }
}

/// Number of the type that a parameter has.
fn type_number(ty: event::Type, has_untyped: bool) -> u32 {
    match ty {
        event::Type::Bool => 16,
        event::Type::Int => 23,
        event::Type::Long => 20,
        event::Type::Float => 700,
        event::Type::Double => 701,
        // Left to the server where the URL says so: then texts go into columns of any type.
        event::Type::String => match has_untyped {
            true => 0,
            false => 25,
        },
        event::Type::Object => 17,
    }
}

fn bind(name: &str, binders: &[Binder<'_>], row: usize, out: &mut BytesMut) -> Result<(), Fault> {
    let mut text = String::new();
    let bound = frontend::bind(
        "",
        name,
        [],
        binders,
        |binder, out: &mut BytesMut| {
            let cell = binder.cell(row);
            if let Cell::Text(value) = cell {
                out.put_slice(value.as_bytes());
                return Ok(IsNull::No);
            }
            if cell == Cell::Null {
                return Ok(IsNull::Yes);
            }
            text.clear();
            value_text(&cell, &mut text);
            out.put_slice(text.as_bytes());
            Ok(IsNull::No)
        },
        [],
        out,
    );
    bound.map_err(|error| match error {
        frontend::BindError::Conversion(cause) => Fault::Refused(cause),
        frontend::BindError::Serialization(error) => Fault::Refused(error.into()),
    })
}

/// A value as the server reads it, but for null and texts.
fn value_text(cell: &Cell<'_>, out: &mut String) {
    const INFALLIBLE: &str = "writing to a string cannot fail";
    match cell {
        Cell::Null | Cell::Text(_) => {}
        Cell::Bool(value) => out.push(if *value { 't' } else { 'f' }),
        Cell::Int(value) => write!(out, "{value}").expect(INFALLIBLE),
        Cell::Long(value) => write!(out, "{value}").expect(INFALLIBLE),
        Cell::Float(value) if value.is_infinite() => out.push_str(infinity(f64::from(*value))),
        Cell::Float(value) => write!(out, "{value:e}").expect(INFALLIBLE),
        Cell::Double(value) if value.is_infinite() => out.push_str(infinity(*value)),
        Cell::Double(value) => write!(out, "{value:e}").expect(INFALLIBLE),
        Cell::Bytes(bytes) => {
            out.push_str("\\x");
            hex(bytes, out);
        }
    }
}

const fn infinity(value: f64) -> &'static str {
    if value > 0.0 { "Infinity" } else { "-Infinity" }
}

/// A field of a COPY in text.
fn copy_field(cell: &Cell<'_>, out: &mut String) {
    match cell {
        Cell::Null => out.push_str("\\N"),
        Cell::Text(text) => escaped(text, out, |byte| match byte {
            b'\\' => Some("\\\\"),
            b'\t' => Some("\\t"),
            b'\n' => Some("\\n"),
            b'\r' => Some("\\r"),
            _ => None,
        }),
        Cell::Bytes(_) => {
            out.push('\\');
            value_text(cell, out);
        }
        cell => value_text(cell, out),
    }
}

/// `UPDATE 3`, `INSERT 0 1`.
fn changed(tag: &str) -> u64 {
    let count = tag.rsplit(' ').next();
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn read_row(row: &DataRowBody, found: &mut Found<'_>) -> Result<(), Fault> {
    let fields = fields(row)?;
    if fields.len() < found.attributes.len() {
        return Err(Fault::refused(too_few(
            fields.len(),
            found.attributes.len(),
        )));
    }
    let attributes = found.attributes.iter();
    for ((attribute, builder), field) in attributes.zip(&mut found.builders).zip(fields) {
        let bytes;
        let value = match field {
            None => Raw::Null,
            Some(text) => match (attribute.ty, text.strip_prefix("\\x")) {
                (event::Type::Object, Some(digits)) => {
                    bytes = super::text::unhex(digits).unwrap_or_default();
                    Raw::Bytes(&bytes)
                }
                _ => Raw::Text(text),
            },
        };
        read_value(value, attribute, found.allows_null, builder).map_err(Fault::refused)?;
    }
    found.count += 1;
    Ok(())
}
