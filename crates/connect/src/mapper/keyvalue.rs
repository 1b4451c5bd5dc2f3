//! `keyvalue`: maps of keys and values, in both directions.

mod java;

use crate::spec::keyvalue::CONNECTORS as SPECS;
use event::{Batch, Column, ColumnBuilder, Object, Schema, Type, Value};
use plan::spec::ConnectorSpec;

use super::{Field, Fields, Options};
use crate::component::{
    Mapper, Payload, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;
use crate::message::Messages;
use crate::rows::{Properties, Rows};
use crate::scalar;
use crate::template::Template;

pub struct KeyValue;

impl Mapper for KeyValue {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Map]
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Map]
    }

    fn source(&self, setup: &SourceMapperSetup<'_>) -> Result<Box<dyn SourceMapper>, Error> {
        let options = Options::of_source(setup.mapping);
        Ok(Box::new(Source {
            fields: Fields::of(setup.mapping, setup.schema).list,
            allows_null: !options.bool("fail.on.missing.attribute"),
            casts: options.bool("implicit.cast.enable"),
        }))
    }

    fn sink(&self, setup: &SinkMapperSetup<'_>) -> Result<Box<dyn SinkMapper>, Error> {
        Ok(Box::new(Sink {
            entries: entries(setup)?,
            text: String::new(),
        }))
    }
}

// ---- source ----

struct Source {
    fields: Vec<Field>,
    allows_null: bool,
    casts: bool,
}

impl Source {
    fn push_serialized(&self, bytes: &[u8], rows: &mut Rows) {
        match java::read_map(bytes) {
            Some(entries) => self.push(Payload::Map(&entries), &entries, rows),
            None => rows.reject_message(
                Payload::Bytes(bytes),
                "the bytes are no serialized map of text to plain values",
                "use the mapper of the message's format",
            ),
        }
    }

    fn push(&self, payload: Payload<'_>, entries: &[(Value, Value)], rows: &mut Rows) {
        for field in &self.fields {
            let value = entries
                .iter()
                .rev()
                .find(|(key, _)| key.as_str() == Some(&field.from))
                .map_or(&Value::Null, |(_, value)| value);
            let column = &mut rows.columns()[field.column];
            if value.is_null() {
                if self.allows_null {
                    column.push_null();
                    continue;
                }
                let cause = format!("the map has no value for key '{}'", field.from);
                return rows.reject_message(
                    payload,
                    cause,
                    "send a value, or allow null by fail.on.missing.attribute='false'",
                );
            }
            if !push_value(column, field.ty, value, self.casts) {
                let kind = value.ty().map_or("null", Type::name);
                let cause = format!(
                    "key '{}' holds a value of type {kind}, attribute '{}' is of type {}",
                    field.from, field.name, field.ty
                );
                return rows.reject_message(
                    payload,
                    cause,
                    "declare the attribute with the type of the value, or convert by \
                     implicit.cast.enable='true'",
                );
            }
        }
        rows.commit_row();
    }
}

/// The table of `connectors-map.md` 6.1: Siddhi's `KeyValueSourceMapper` wants the exact class.
fn push_value(column: &mut ColumnBuilder, ty: Type, value: &Value, casts: bool) -> bool {
    match (ty, value) {
        (Type::Bool, Value::Bool(v)) => column.push_bool(*v),
        (Type::Int, Value::Int(v)) => column.push_int(*v),
        (Type::Long, Value::Long(v)) => column.push_long(*v),
        (Type::Float, Value::Float(v)) => column.push_float(*v),
        (Type::Double, Value::Double(v)) => column.push_double(*v),
        (Type::String, Value::Str(v)) => column.push_str(v),
        (Type::String | Type::Object, _) => return false,
        (_, value) if casts => {
            return scalar::push_text(column, ty, &event::text::to_text(value));
        }
        _ => return false,
    }
    true
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _properties: &Properties, rows: &mut Rows) {
        match payload {
            Payload::Map(entries) => self.push(payload, entries, rows),
            Payload::Object(Value::Object(Object::Map(map))) => {
                let entries = map.lock().clone();
                self.push(payload, &entries, rows);
            }
            Payload::Object(Value::Object(Object::Bytes(bytes))) => {
                self.push_serialized(bytes, rows)
            }
            Payload::Bytes(bytes) => self.push_serialized(bytes, rows),
            _ => rows.reject_message(
                payload,
                "the message is not a map",
                "use the mapper of the message's format",
            ),
        }
    }

    fn allows_null(&self) -> bool {
        self.allows_null
    }
}

// ---- sink ----

struct Sink {
    entries: Vec<(Value, Entry)>,
    text: String,
}

enum Entry {
    /// The value itself.
    Attribute(usize),
    Template(Template),
}

fn entries(setup: &SinkMapperSetup<'_>) -> Result<Vec<(Value, Entry)>, Error> {
    let schema: &Schema = setup.schema;
    if setup.mapping.payload.is_empty() {
        return Ok(schema
            .attributes
            .iter()
            .enumerate()
            .map(|(i, attribute)| (Value::str(&attribute.name), Entry::Attribute(i)))
            .collect());
    }
    let component = Options::of_sink(setup.mapping).component;
    setup
        .mapping
        .payload
        .iter()
        .map(|(key, text)| {
            // A positional payload stands under the key null.
            let key = if key.is_empty() {
                Value::Null
            } else {
                Value::str(key)
            };
            let entry = match schema.index_of(text.trim()) {
                Some(attribute) => Entry::Attribute(attribute),
                None => Entry::Template(Template::new(text, schema, &component)?),
            };
            Ok((key, entry))
        })
        .collect()
}

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        for row in rows {
            let map = self
                .entries
                .iter()
                .map(|(key, entry)| {
                    let value = match entry {
                        Entry::Attribute(index) => {
                            Column::value(&batch.columns[*index], *row as usize)
                        }
                        Entry::Template(template) => {
                            self.text.clear();
                            template.write(&mut self.text, batch, *row as usize, "null");
                            Value::str(&self.text)
                        }
                    };
                    (key.clone(), value)
                })
                .collect();
            out.push_map(map, std::slice::from_ref(row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::component::Payload;
    use crate::rows::Properties;
    use event::Value;

    const STOCK: &str = "symbol string, price float, volume long";

    fn check(options: &[(&str, &str)], maps: &[&[(&str, Value)]], rows: &str, rejected: usize) {
        let map = mapping("keyvalue", options);
        let mut decoder = decoder(map, &schema(STOCK)).expect("it can be made");
        for entries in maps {
            let entries: Vec<(Value, Value)> = entries
                .iter()
                .map(|(k, v)| (Value::str(k), v.clone()))
                .collect();
            decoder.map(Payload::Map(&entries), &Properties::none());
        }
        assert_eq!(show(decoder.take()), rows);
        assert_eq!(decoder.take_rejected().len(), rejected);
    }

    #[test]
    fn values_must_have_the_type_of_the_attribute() {
        let good = [
            ("volume", Value::Long(1)),
            ("symbol", "W".into()),
            ("price", Value::Float(1.5)),
        ];
        let int = [
            ("volume", Value::Int(1)),
            ("symbol", "W".into()),
            ("price", Value::Float(1.5)),
        ];
        let number = [
            ("volume", Value::Long(1)),
            ("symbol", Value::Int(7)),
            ("price", Value::Float(1.5)),
        ];
        let short = [("volume", Value::Long(1)), ("price", Value::Null)];
        let all: &[&[(&str, Value)]] = &[&good, &int, &number, &short];
        check(&[], all, "W 1.5 1", 3);
        check(
            &[("implicit.cast.enable", "true")],
            all,
            "W 1.5 1\nW 1.5 1",
            2,
        );
        check(
            &[("fail.on.missing.attribute", "false")],
            all,
            "W 1.5 1\nnull null 1",
            2,
        );
    }

    #[test]
    fn entries_are_attributes_or_templates() {
        let rows: &[&[Value]] = &[&["W".into(), Value::Float(55.6), Value::Null]];
        let all = batch(STOCK, rows);
        let plain = mapping("keyvalue", &[]);
        assert_eq!(
            write(&plain, STOCK, &all),
            ["{symbol=W, price=55.6, volume=null}"]
        );
        let own = with_payload(plain.clone(), &[("a", "{{symbol}}!"), ("b", "price")]);
        assert_eq!(write(&own, STOCK, &all), ["{a=W!, b=55.6}"]);
        let positional = with_payload(plain, &[("", "{{symbol}} is here")]);
        assert_eq!(write(&positional, STOCK, &all), ["{null=W is here}"]);
    }

    #[test]
    fn what_is_written_comes_back() {
        let rows: &[&[Value]] = &[
            &["W".into(), Value::Float(55.6), Value::Long(1)],
            &[Value::Null, Value::Null, Value::Long(2)],
        ];
        let all = batch(STOCK, rows);
        let map = mapping("keyvalue", &[("fail.on.missing.attribute", "false")]);
        let schema = schema(STOCK);
        let setup = crate::component::SinkMapperSetup {
            mapping: &map,
            schema: &schema,
            around: &[],
        };
        let format = crate::mapper::find("keyvalue").expect("it is registered");
        let mut sink = format.sink(&setup).expect("it can be made");
        let mut messages = crate::message::Messages::default();
        sink.encode_all(&all, &mut messages);
        let mut decoder = decoder(map, &schema).expect("it can be made");
        for message in messages.iter() {
            decoder.map(message.payload, &Properties::none());
        }
        assert_eq!(show(decoder.take()), show(Some(all)).replace("; ", "\n"));
    }
}
