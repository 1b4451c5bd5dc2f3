//! Apache Avro, in both directions.

use super::{bool, text};
use crate::spec::{ConnectorKind, ConnectorSpec, Mapping, OptionSpec, Payload};

const SCHEMA: OptionSpec = text(
    "schema.def",
    "Avro schema as JSON; it wins over a registry.",
);
const REGISTRY: OptionSpec = text("schema.registry", "URL of the schema registry.");
const SCHEMA_ID: OptionSpec = text("schema.id", "Id of the schema in the registry.");

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Bytes],
    options: &[
        SCHEMA,
        REGISTRY,
        SCHEMA_ID,
        bool(
            "fail.on.missing.attribute",
            "true",
            "Drops an event that lacks an attribute.",
        ),
        bool(
            "use.avro.deserializer",
            "false",
            "The Kafka client reads the bytes.",
        ),
        text("basic.auth.username", "User at the registry."),
        text("basic.auth.password", "Password at the registry."),
        text("ssl.keystore.path", "Key store for the registry."),
        text("ssl.keystore.password", "Password of the key store."),
        text("ssl.truststore.path", "Trust store for the registry."),
        text("ssl.truststore.password", "Password of the trust store."),
    ],
    mapping: Mapping::Paths,
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "avro",
        "map-avro",
        "Reads events from Avro records.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Bytes],
    options: &[
        SCHEMA,
        REGISTRY,
        SCHEMA_ID,
        bool(
            "use.avro.serializer",
            "false",
            "The Kafka client writes the bytes.",
        ),
    ],
    mapping: Mapping::Template,
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "avro",
        "map-avro",
        "Writes events as Avro records.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
