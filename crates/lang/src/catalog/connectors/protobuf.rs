//! Protocol Buffers, in both directions.

use super::text;
use crate::spec::{ConnectorKind, ConnectorSpec, Mapping, OptionSpec};

const CLASS: OptionSpec = text(
    "class",
    "Message class; with gRPC it follows from service and method.",
);

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    options: &[CLASS],
    mapping: Mapping::Paths,
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "protobuf",
        "map-protobuf",
        "Reads events from messages by the names of their fields.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    options: &[CLASS],
    mapping: Mapping::Entries,
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "protobuf",
        "map-protobuf",
        "Writes events as messages.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
