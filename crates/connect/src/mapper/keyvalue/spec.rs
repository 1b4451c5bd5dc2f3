//! Maps of keys and values, in both directions.

use plan::spec::{ConnectorKind, ConnectorSpec, Mapping, Payload, Status, bool};

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Map],
    status: Status::Runs,
    options: &[
        bool(
            "fail.on.missing.attribute",
            "true",
            "Drops an event that lacks a value; false: the attribute is null.",
        )
        .test("connect::mapper::keyvalue::tests::values_must_have_the_type_of_the_attribute"),
        bool(
            "implicit.cast.enable",
            "false",
            "Reads values of another type through their text.",
        )
        .test("connect::mapper::keyvalue::tests::values_must_have_the_type_of_the_attribute"),
    ],
    mapping: Mapping::Paths,
    example: "@source(type='inMemory', topic='in',
    @map(type='keyvalue', fail.on.missing.attribute='false'))
define stream Trades (symbol string, price double);
from Trades select symbol insert into Out;",
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "keyvalue",
        "map-keyvalue",
        "Reads one event from each map.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Map],
    status: Status::Runs,
    mapping: Mapping::Entries,
    example: "@sink(type='inMemory', topic='out', @map(type='keyvalue'))
define stream Trades (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "keyvalue",
        "map-keyvalue",
        "Writes each event as a map.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
