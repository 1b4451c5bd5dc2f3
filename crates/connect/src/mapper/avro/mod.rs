//! `avro`: Apache Avro records, in both directions.
//!
//! Schemas are read by the `apache-avro` library, and compiled for the stream: its own trees of values
//! have no bound on hostile bytes, and cost an allocation a value. Without a registry a message is the
//! bytes of one value; with one it begins with the number of its schema ([`registry`]).
//!
//! Promises: a flat record becomes columns without a tree between; bytes that do not match the
//! schema are rejected, and the messages around them are processed; an unreachable registry is
//! logged by name and asked again before anything is lost. Never: files of Avro, which have their
//! schema with them.

mod decimal;
mod decode;
mod encode;
mod plan;
#[cfg(feature = "registry")]
mod registry;
#[cfg(not(feature = "registry"))]
#[path = "no_registry.rs"]
mod registry;
mod shape;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use crate::spec::avro::CONNECTORS as SPECS;
use ::plan::spec::ConnectorSpec;

use self::registry::{Registry, SchemaId};
use self::shape::Shapes;
use super::Options;
use crate::component::{
    Mapper, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;
use crate::scalar;

pub struct Avro;

/// Before the number of a schema.
const MAGIC: u8 = 0;

/// The magic byte and the number.
const FRAME_LEN: usize = 5;

impl Mapper for Avro {
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
        Ok(Box::new(source::Source::new(setup)?))
    }

    fn sink(&self, setup: &SinkMapperSetup<'_>) -> Result<Box<dyn SinkMapper>, Error> {
        Ok(Box::new(sink::Sink::new(setup)?))
    }
}

/// Where the schema of a mapper comes from.
struct Origin {
    registry: Option<Registry>,
    /// The schema that the app names in the registry.
    id: Option<SchemaId>,
    /// The text of the schema, where the app has it or it follows from the stream.
    text: Option<String>,
}

impl Origin {
    /// `around`: options of the source or sink; with `asks_kafka` they may name the registry as Kafka's
    /// Java client is told of it.
    fn new(
        options: &Options<'_>,
        schema: &event::Schema,
        around: &[(String, String)],
        asks_kafka: bool,
    ) -> Result<(Origin, Option<Shapes>), Error> {
        let client = |name: &str| kafka_property(around, name).filter(|_| asks_kafka);
        let url = options
            .text("schema.registry")
            .or(client("schema.registry.url"));
        let user = options.text("basic.auth.username");
        let login = user.map(|user| {
            let password = options.text("basic.auth.password").unwrap_or_default();
            format!("{user}:{password}")
        });
        let login = login.or_else(|| client("basic.auth.user.info").map(str::to_owned));
        let registry = match url {
            Some(url) => Some(Registry::new(options, url, login)?),
            None => None,
        };
        let id = match options.text("schema.id").map(str::trim) {
            None => None,
            Some(text) => Some(text.parse::<SchemaId>().map_err(|_| {
                options.refused(format!(
                    "option 'schema.id' is '{text}': write a whole number"
                ))
            })?),
        };
        if id.is_some() && registry.is_none() && options.text("schema.def").is_none() {
            return Err(options.refused(
                "option 'schema.id' needs a registry: give its URL by 'schema.registry'",
            ));
        }
        let text = match (options.text("schema.def"), &registry) {
            (Some(text), _) => Some(text.to_owned()),
            (None, Some(_)) => None,
            (None, None) => {
                tracing::warn!(
                    stream = schema.name,
                    "no 'schema.def' or 'schema.registry': deriving the schema from the stream's \
                     attributes"
                );
                Some(shape::of_stream(schema).map_err(|attribute| {
                    options.refused(format!(
                        "attribute '{attribute}' is an OBJECT, which has no schema type: write the \
                         schema by 'schema.def'"
                    ))
                })?)
            }
        };
        let shapes = match &text {
            None => None,
            Some(text) => Some(Shapes::parse(text, &[]).map_err(|cause| {
                options.refused(format!("the Avro schema cannot be read: {cause}"))
            })?),
        };
        let origin = Origin { registry, id, text };
        Ok((origin, shapes))
    }
}

/// A property of Kafka's client among the options of a source or sink.
fn kafka_property<'a>(around: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let (_, list) = around.iter().find(|(k, _)| k == "optional.configuration")?;
    let mut entries = list.split(',').filter_map(|entry| entry.split_once(':'));
    let found = entries.find(|(key, _)| key.trim() == name);
    found.map(|(_, value)| value.trim())
}

/// `Boolean.parseBoolean` of a property of Kafka's client.
fn kafka_flag(around: &[(String, String)], name: &str, default: bool) -> bool {
    kafka_property(around, name).map_or(default, scalar::parse_bool)
}
