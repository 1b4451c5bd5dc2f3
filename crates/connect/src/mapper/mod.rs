//! Mappers: between the bytes of a transport and the rows of a stream.
//!
//! One file a format; a format is a constant in [`MAPPERS`] and makes mappers for both directions.
//! Names, paths and templates are resolved when the mapper is made; per message only values move.
//!
//! Promises: a message that cannot be read is rejected with its place, cause and remedy, and the
//! messages around it are processed; size, depth and time are bounded for any input. Never: clocks,
//! threads, or I/O, but for the schema registry that `avro` asks.

#[cfg(feature = "avro")]
pub mod avro;
pub mod binary;
pub mod csv;
#[cfg(test)]
mod growth_tests;
pub mod json;
pub mod keyvalue;
pub mod pass_through;
#[cfg(feature = "protobuf")]
pub mod protobuf;
pub mod scan;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod wso2event;
pub mod xml;

use std::fmt::Write;

use event::column::View;
use event::{Batch, Chunks, Column, Schema, Times, Type};
use plan::Mapping;
use plan::spec::ConnectorKind;

use crate::component::Mapper;
use crate::error::Error;
use crate::rows::PROPERTY_PREFIX;
use crate::scalar;
use crate::template::names;

/// All mappers that run.
pub const MAPPERS: &[&dyn Mapper] = &[
    #[cfg(feature = "avro")]
    &avro::Avro,
    &binary::Binary,
    &csv::Csv,
    &json::Json,
    &keyvalue::KeyValue,
    &pass_through::PassThrough,
    #[cfg(feature = "protobuf")]
    &protobuf::Protobuf,
    &text::Text,
    &wso2event::Wso2Event,
    &xml::Xml,
];

/// The mapper of a name, as in `@map(type='…')`.
pub fn find(name: &str) -> Option<&'static dyn Mapper> {
    MAPPERS
        .iter()
        .copied()
        .find(|mapper| mapper.specs().iter().any(|spec| spec.name == name))
}

/// An attribute that the payload fills.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Index of the attribute.
    pub column: usize,
    pub name: String,
    pub ty: Type,
    /// What it is read from; its own name in default mapping.
    pub from: String,
}

/// The attributes that a source mapper fills.
pub struct Fields {
    pub list: Vec<Field>,
    /// No `@attributes`, or all of them are transport properties.
    pub is_default: bool,
}

impl Fields {
    pub fn of(mapping: &Mapping, schema: &Schema) -> Fields {
        let is_property = |from: &str| from.trim().starts_with(PROPERTY_PREFIX);
        let is_default = mapping.attributes.iter().all(|from| is_property(from));
        let list = schema
            .attributes
            .iter()
            .enumerate()
            .filter(|(i, _)| is_default || !is_property(&mapping.attributes[*i]))
            .map(|(column, attribute)| Field {
                column,
                name: attribute.name.clone(),
                ty: attribute.ty,
                from: if is_default {
                    attribute.name.clone()
                } else {
                    mapping.attributes[column].trim().to_owned()
                },
            })
            .collect();
        Fields { list, is_default }
    }
}

/// Options of a mapper, with the name of the component for messages; defaults come from its spec.
pub struct Options<'a> {
    mapping: &'a Mapping,
    kind: ConnectorKind,
    pub component: String,
}

impl<'a> Options<'a> {
    pub fn of_source(mapping: &'a Mapping) -> Options<'a> {
        Options {
            mapping,
            kind: ConnectorKind::SourceMapper,
            component: format!("source mapper '{}'", mapping.ty),
        }
    }

    pub fn of_sink(mapping: &'a Mapping) -> Options<'a> {
        Options {
            mapping,
            kind: ConnectorKind::SinkMapper,
            component: format!("sink mapper '{}'", mapping.ty),
        }
    }

    pub fn mapping(&self) -> &'a Mapping {
        self.mapping
    }

    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.mapping.option(name)
    }

    /// What is written, else the default; empty where there is none.
    ///
    /// # Panics
    /// The spec of the mapper does not have the option: a test goes over all calls.
    pub fn text_or_default(&self, name: &str) -> &'a str {
        let default = || {
            let mapper = find(&self.mapping.ty);
            let mut specs = mapper.map_or(&[] as &[_], |mapper| mapper.specs()).iter();
            let spec = specs.find(|spec| spec.is_called(self.kind, &self.mapping.ty));
            let known = spec.and_then(|spec| spec.option(name));
            let known = known
                .unwrap_or_else(|| panic!("the spec of {} has no option '{name}'", self.component));
            known.default
        };
        self.text(name).unwrap_or_else(default)
    }

    /// `Boolean.parseBoolean` of what is written, else the default.
    pub fn bool(&self, name: &str) -> bool {
        scalar::parse_bool(self.text_or_default(name))
    }

    pub fn refused(&self, message: impl Into<String>) -> Error {
        Error::refused(self.component.clone(), message)
    }

    /// The one template of `@payload`, where there is one. The name of an attribute alone would send
    /// an object, which text formats refuse (as Siddhi does when the app is made).
    pub fn payload(&self, schema: &Schema) -> Result<Option<&'a str>, Error> {
        match self.mapping.payload.as_slice() {
            [] => Ok(None),
            [(_, text)] if schema.index_of(text.trim()).is_some() => Err(self.refused(format!(
                "@payload('{text}') is an attribute alone; write '{{{{{}}}}}'",
                text.trim()
            ))),
            [(_, text)] => Ok(Some(text)),
            more => Err(self.refused(format!(
                "@payload has {} entries; write one template",
                more.len()
            ))),
        }
    }

    pub fn no_attribute(&self, name: &str, schema: &Schema) -> Error {
        self.refused(format!(
            "stream '{}' has no attribute '{name}'; use one of {}",
            schema.name,
            names(schema)
        ))
    }
}

/// Some rows of a batch as one chunk.
pub fn pick(batch: &Batch, rows: &[u32]) -> Batch {
    let first = rows.first().map_or(0, |&row| row as usize);
    let is_run = rows
        .iter()
        .enumerate()
        .all(|(i, &row)| row as usize == first + i);
    let columns = if is_run {
        batch
            .columns
            .iter()
            .map(|column| column.slice(first, rows.len()))
            .collect()
    } else {
        batch
            .columns
            .iter()
            .map(|column| column.gather(rows))
            .collect()
    };
    let times = match &batch.times {
        Times::Same(time) => Times::Same(*time),
        times => Times::per_row(rows.iter().map(|&row| times.at(row as usize)).collect()),
    };
    let clock = rows.first().map_or(0, |&row| times.at(row as usize));
    Batch::new(columns, rows.len(), times, Chunks::One, clock)
}

/// Appends Java's text form of a value that is not null.
pub fn write_value(out: &mut String, column: &Column, row: usize) {
    match column.view() {
        View::Bool(v) => out.push_str(if v[row] { "true" } else { "false" }),
        View::Int(v) => write_long(out, i64::from(v[row])),
        View::Long(v) => write_long(out, v[row]),
        View::Float(v) => event::text::write_float(out, v[row]),
        View::Double(v) => event::text::write_double(out, v[row]),
        View::Str(v) => out.push_str(v.get(row)),
        View::Any(v) => event::text::write_value(out, &v[row]),
    }
}

fn write_long(out: &mut String, value: i64) {
    write!(out, "{value}").expect("writing to a string cannot fail");
}
