//! What the tests of all mappers share: mappers made from short texts, rows shown as text.

use event::{Attribute, Batch, Chunks, Schema, Type, Value};
use lang::span::Span;
use plan::{Mapping, Transport};

use crate::component::{Payload, PayloadKind};
use crate::mapper;
use crate::message::Messages;
use crate::row_decoder::RowDecoder;
use crate::rows::Properties;

/// `symbol string, price float`.
pub fn schema(text: &str) -> Schema {
    Schema {
        name: "S".into(),
        attributes: text
            .split(',')
            .map(|part| {
                let (name, ty) = part.trim().split_once(' ').expect("name and type");
                Attribute {
                    name: name.into(),
                    ty: Type::from_name(ty.trim()).expect("a type"),
                }
            })
            .collect(),
    }
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

pub fn mapping(ty: &str, options: &[(&str, &str)]) -> Mapping {
    Mapping {
        ty: ty.into(),
        options: pairs(options),
        attributes: Vec::new(),
        payload: Vec::new(),
        span: Span::default(),
    }
}

pub fn with_attributes(mut mapping: Mapping, attributes: &[&str]) -> Mapping {
    mapping.attributes = attributes.iter().map(|a| (*a).to_owned()).collect();
    mapping
}

pub fn with_payload(mut mapping: Mapping, payload: &[(&str, &str)]) -> Mapping {
    mapping.payload = pairs(payload);
    mapping
}

pub fn decoder(map: Mapping, schema: &Schema) -> Result<RowDecoder, crate::Error> {
    let transport = Transport {
        ty: "inMemory".into(),
        options: Vec::new(),
        map,
        distribution: None,
        span: Span::default(),
    };
    RowDecoder::new(&transport, schema, &[PayloadKind::Any])
}

/// Rows as text, chunks on lines of their own: `WSO2 55.6; IBM 75.6`.
pub fn show(batch: Option<Batch>) -> String {
    let Some(batch) = batch else {
        return String::new();
    };
    let chunks: Vec<String> = (0..batch.chunk_count())
        .map(|chunk| {
            let rows: Vec<String> = batch
                .chunk(chunk)
                .map(|row| {
                    let values: Vec<String> =
                        batch.row(row).iter().map(event::text::to_text).collect();
                    values.join(" ")
                })
                .collect();
            rows.join("; ")
        })
        .collect();
    chunks.join("\n")
}

/// Feeds texts, one message each; gives the rows and the causes of what was rejected.
pub fn read(map: Mapping, attributes: &str, texts: &[&str]) -> (String, Vec<String>) {
    let schema = schema(attributes);
    let mut decoder = decoder(map, &schema).expect("the mapper can be made");
    for text in texts {
        decoder.map(Payload::Text(text), &Properties::none());
    }
    decoder.end_of_input();
    let rows = show(decoder.take());
    let causes = decoder
        .take_rejected()
        .into_iter()
        .map(|r| r.cause)
        .collect();
    (rows, causes)
}

/// Rows come out as expected, and so many messages or events are rejected.
pub fn check(map: Mapping, attributes: &str, texts: &[&str], rows: &str, rejected: usize) {
    let (found, causes) = read(map, attributes, texts);
    assert_eq!(found, rows, "rejected: {causes:?}");
    assert_eq!(causes.len(), rejected, "{causes:?}");
}

/// A batch of one chunk.
pub fn batch(attributes: &str, rows: &[&[Value]]) -> Batch {
    let rows: Vec<(i64, Vec<Value>)> = rows.iter().map(|row| (0, row.to_vec())).collect();
    Batch::from_rows(&schema(attributes), &rows, Chunks::One, 0)
}

/// The messages of a batch: texts, or values in Java's form.
pub fn write(map: &Mapping, attributes: &str, batch: &Batch) -> Vec<String> {
    let schema = schema(attributes);
    let format = mapper::find(&map.ty).expect("a mapper");
    let setup = crate::component::SinkMapperSetup {
        mapping: map,
        schema: &schema,
        around: &[],
    };
    let mut sink = format.sink(&setup).expect("the mapper can be made");
    let mut out = Messages::default();
    sink.encode_all(batch, &mut out);
    out.iter()
        .map(|message| match message.payload {
            Payload::Text(text) => text.to_owned(),
            Payload::Map(entries) => {
                let list = entries.to_vec();
                let map = event::Object::Map(event::value::Shared::new(list));
                event::text::to_text(&Value::Object(map))
            }
            Payload::Events(batch) => show(Some(batch.clone())),
            _ => unreachable!("mappers give texts, maps and events"),
        })
        .collect()
}

/// Why a sink mapper cannot be made.
pub fn refusal(map: &Mapping, attributes: &str) -> String {
    let schema = schema(attributes);
    let setup = crate::component::SinkMapperSetup {
        mapping: map,
        schema: &schema,
        around: &[],
    };
    let format = mapper::find(&map.ty).expect("a mapper");
    match format.sink(&setup) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}
