//! `binary`: the form in which Siddhi sends events over TCP, timestamps included.
//!
//! Big-endian: the number of events (32 bits), then for each its timestamp (64 bits) and the
//! attributes in the order of the stream, without a schema (`SiddhiEventConverter` and
//! `BinaryEventConverter` of siddhi-map-binary). A text of no bytes is read as null; null itself cannot
//! be written. Messages of any length are read; what they announce beyond their end is rejected.

use std::sync::Arc;

use crate::spec::binary::CONNECTORS as SPECS;
use event::column::View;
use event::{Batch, Column, Schema, Type};
use plan::spec::ConnectorSpec;

use crate::component::{
    Mapper, Payload, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;
use crate::event_text::row_text;
use crate::message::Messages;
use crate::rows::{Properties, Rejected, Rows};

pub struct Binary;

const REMEDY: &str = "send events of exactly the attributes of this stream, in their order";

impl Mapper for Binary {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Bytes]
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Bytes]
    }

    fn source(&self, setup: &SourceMapperSetup<'_>) -> Result<Box<dyn SourceMapper>, Error> {
        let types = types(setup.schema, "source mapper 'binary'")?;
        Ok(Box::new(Source { types }))
    }

    fn sink(&self, setup: &SinkMapperSetup<'_>) -> Result<Box<dyn SinkMapper>, Error> {
        let types = types(setup.schema, "sink mapper 'binary'")?;
        let names = setup.schema.attributes.iter().map(|a| a.name.clone());
        Ok(Box::new(Sink {
            types,
            names: names.collect(),
            kept: Vec::new(),
        }))
    }
}

/// Siddhi writes an OBJECT and cannot read it again: both ends would be out of step.
fn types(schema: &Schema, component: &str) -> Result<Arc<[Type]>, Error> {
    match schema.attributes.iter().find(|a| a.ty == Type::Object) {
        None => Ok(schema.attributes.iter().map(|a| a.ty).collect()),
        Some(object) => Err(Error::refused(
            component,
            format!(
                "attribute '{}' is an OBJECT, which has no binary encoding: send it as text",
                object.name
            ),
        )),
    }
}

struct Source {
    types: Arc<[Type]>,
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _: &Properties, rows: &mut Rows) {
        let Payload::Bytes(bytes) = payload else {
            return rows.reject_message(payload, "the message is not binary data", REMEDY);
        };
        if let Err(cause) = read(bytes, &self.types, rows) {
            rows.reject_message(payload, cause, REMEDY);
        }
    }
}

/// Takes values off the front of a message.
struct Front<'a>(&'a [u8]);

impl<'a> Front<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*value)
    }

    fn text(&mut self) -> Option<Result<&'a str, std::str::Utf8Error>> {
        let len = usize::try_from(i32::from_be_bytes(self.take()?)).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(std::str::from_utf8(text))
    }
}

fn read(bytes: &[u8], types: &[Type], rows: &mut Rows) -> Result<(), String> {
    let mut front = Front(bytes);
    let short = |front: &Front<'_>| {
        let at = bytes.len() - front.0.len();
        format!("the message ends inside an event, after byte {at}")
    };
    let count = front.take().map(i32::from_be_bytes);
    let count = count.ok_or_else(|| short(&front))?;
    let count =
        u32::try_from(count).map_err(|_| format!("the message announces {count} events"))?;
    for _ in 0..count {
        let time = front.take().map(i64::from_be_bytes);
        rows.set_time(time.ok_or_else(|| short(&front))?);
        for (column, ty) in types.iter().enumerate() {
            let column = &mut rows.columns()[column];
            let taken = match ty {
                Type::String | Type::Object => match front.text() {
                    Some(Ok(text)) => {
                        match text {
                            "" => column.push_null(),
                            _ => column.push_str(text),
                        }
                        Some(())
                    }
                    Some(Err(error)) => return Err(format!("a text is not UTF-8: {error}")),
                    None => None,
                },
                Type::Int => front.take().map(|v| column.push_int(i32::from_be_bytes(v))),
                Type::Long => front
                    .take()
                    .map(|v| column.push_long(i64::from_be_bytes(v))),
                Type::Float => front
                    .take()
                    .map(|v| column.push_float(f32::from_be_bytes(v))),
                Type::Double => front
                    .take()
                    .map(|v| column.push_double(f64::from_be_bytes(v))),
                Type::Bool => front.take().map(|[v]| column.push_bool(v == 1)),
            };
            taken.ok_or_else(|| short(&front))?;
        }
        rows.commit_row();
    }
    match front.0.len() {
        0 => Ok(()),
        left => Err(format!("{left} bytes follow the last event")),
    }
}

struct Sink {
    types: Arc<[Type]>,
    names: Vec<String>,
    /// Rows without null; reused.
    kept: Vec<u32>,
}

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        self.kept.clear();
        for &row in rows {
            match null_in(batch, row as usize) {
                None => self.kept.push(row),
                Some(column) => {
                    let rejected = Rejected::new(
                        &row_text(batch, row as usize),
                        format!("attribute '{}' is null", self.names[column]),
                        "the binary format has no null: give the attribute a value before sending it",
                    );
                    out.reject(rejected, &[row]);
                }
            }
        }
        if self.kept.is_empty() {
            return;
        }
        let bytes = out.bytes();
        let start = bytes.len();
        bytes.extend_from_slice(&(self.kept.len() as u32).to_be_bytes());
        for &row in &self.kept {
            let row = row as usize;
            bytes.extend_from_slice(&batch.times.at(row).to_be_bytes());
            for (column, _) in batch.columns.iter().zip(self.types.iter()) {
                write(bytes, column, row);
            }
        }
        out.end_bytes(start, &self.kept);
    }
}

fn null_in(batch: &Batch, row: usize) -> Option<usize> {
    batch.columns.iter().position(|column| column.is_null(row))
}

fn write(bytes: &mut Vec<u8>, column: &Column, row: usize) {
    match column.view() {
        View::Bool(v) => bytes.push(u8::from(v[row])),
        View::Int(v) => bytes.extend_from_slice(&v[row].to_be_bytes()),
        View::Long(v) => bytes.extend_from_slice(&v[row].to_be_bytes()),
        View::Float(v) => bytes.extend_from_slice(&v[row].to_be_bytes()),
        View::Double(v) => bytes.extend_from_slice(&v[row].to_be_bytes()),
        View::Str(v) => write_text(bytes, v.get(row)),
        View::Any(v) => write_text(bytes, &event::text::to_text(&v[row])),
    }
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use event::Value;

    use super::*;
    use crate::mapper::testing::{batch, decoder, mapping, schema, show};

    const ALL: &str = "s string, i int, l long, f float, d double, b bool";

    fn encode(attributes: &str, rows: &[&[Value]]) -> (Vec<Vec<u8>>, usize) {
        let schema = schema(attributes);
        let mapping = mapping("binary", &[]);
        let setup = SinkMapperSetup {
            mapping: &mapping,
            schema: &schema,
            around: &[],
        };
        let mut sink = Binary.sink(&setup).expect("it can be made");
        let mut out = Messages::default();
        sink.encode_all(&batch(attributes, rows), &mut out);
        let messages = out.iter().map(|message| match message.payload {
            Payload::Bytes(bytes) => bytes.to_vec(),
            _ => unreachable!("the mapper gives bytes"),
        });
        (messages.collect(), out.take_rejected().len())
    }

    fn decode(attributes: &str, bytes: &[u8]) -> (String, Vec<String>) {
        let mut decoder =
            decoder(mapping("binary", &[]), &schema(attributes)).expect("it can be made");
        decoder.map(Payload::Bytes(bytes), &Properties::none());
        let rows = show(decoder.take());
        let rejected = decoder.take_rejected();
        (rows, rejected.into_iter().map(|r| r.cause).collect())
    }

    #[test]
    fn the_bytes_are_those_of_siddhi() {
        let row: &[Value] = &[Value::str("WSO2"), Value::Int(1)];
        let (messages, _) = encode("s string, i int", &[row]);
        let expect = b"\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x04WSO2\0\0\0\x01";
        assert_eq!(messages, [expect.to_vec()]);
    }

    #[test]
    fn every_type_comes_back() {
        let rows: [&[Value]; 2] = [
            &[
                Value::str("é\n"),
                Value::Int(-1),
                Value::Long(i64::MIN),
                Value::Float(1.5),
                Value::Double(f64::INFINITY),
                Value::Bool(true),
            ],
            &[
                Value::str("b"),
                Value::Int(i32::MAX),
                Value::Long(0),
                Value::Float(-0.0),
                Value::Double(1e-300),
                Value::Bool(false),
            ],
        ];
        let (messages, rejected) = encode(ALL, &rows);
        assert_eq!((messages.len(), rejected), (1, 0));
        assert_eq!(
            decode(ALL, &messages[0]),
            (
                "é\n -1 -9223372036854775808 1.5 Infinity true; b 2147483647 0 -0.0 1.0E-300 false"
                    .to_owned(),
                Vec::new()
            )
        );
    }

    #[test]
    fn null_is_rejected_and_its_neighbours_go_on() {
        let rows: [&[Value]; 3] = [
            &[Value::str("a"), Value::Int(1)],
            &[Value::Null, Value::Int(2)],
            &[Value::str(""), Value::Int(3)],
        ];
        let (messages, rejected) = encode("s string, i int", &rows);
        assert_eq!(rejected, 1);
        let (rows, _) = decode("s string, i int", &messages[0]);
        assert_eq!(rows, "a 1; null 3");
    }

    #[test]
    fn what_is_cut_or_too_long_is_rejected_as_a_whole() {
        let row: &[Value] = &[Value::str("WSO2"), Value::Int(1)];
        let (messages, _) = encode("s string, i int", &[row, row]);
        let whole = &messages[0];
        for len in 0..whole.len() {
            let (rows, causes) = decode("s string, i int", &whole[..len]);
            assert_eq!((rows.as_str(), causes.len()), ("", 1), "{len}");
        }
        let longer = [whole.as_slice(), b"x"].concat();
        assert_eq!(decode("s string, i int", &longer).1.len(), 1);
        let negative = (-1i32).to_be_bytes();
        assert_eq!(decode("s string, i int", &negative).1.len(), 1);
    }

    #[test]
    fn objects_have_no_binary_form() {
        let schema = schema("o object");
        let mapping = mapping("binary", &[]);
        let setup = SourceMapperSetup {
            mapping: &mapping,
            schema: &schema,
            around: &[],
        };
        assert!(Binary.source(&setup).is_err());
    }
}
