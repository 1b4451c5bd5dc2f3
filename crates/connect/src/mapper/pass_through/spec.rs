//! `passThrough`: events as they are, the mapper where no `@map` is written.

use plan::spec::{ConnectorKind, ConnectorSpec, Payload, Status};

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    example: "@source(type='inMemory', topic='trades', @map(type='passThrough'))
define stream Trades (symbol string, price double);
from Trades select symbol insert into Out;",
    payloads: &[Payload::Events],
    status: Status::Runs,
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "passThrough",
        "core",
        "Takes events as they come; values are matched to attributes by position.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    example: "@sink(type='inMemory', topic='trades', @map(type='passThrough'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Events],
    status: Status::Runs,
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "passThrough",
        "core",
        "Hands events over as they are.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
