//! The binary form of events that Siddhi sends over TCP.

use plan::spec::{ConnectorKind, ConnectorSpec, Payload, Status};

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='tcp', context='trades', @map(type='binary'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Bytes],
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "binary",
        "map-binary",
        "Reads events with their timestamps from Siddhi's binary form.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='tcp', url='tcp://localhost:9892/trades', @map(type='binary'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Bytes],
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "binary",
        "map-binary",
        "Writes events with their timestamps in Siddhi's binary form.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
