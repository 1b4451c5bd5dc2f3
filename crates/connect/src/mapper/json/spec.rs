//! JSON documents, in both directions.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Mapping, Payload, Status, TEXT_OR_BYTES, bool, text,
};

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: TEXT_OR_BYTES,
    status: Status::Runs,
    options: &[
        text(
            "enclosing.element",
            "JSONPath of the part to map; only used with `@attributes`.",
        )
        .test("connect::mapper::json::tests::paths_find_values_of_any_token")
        .default("$"),
        bool(
            "fail.on.missing.attribute",
            "true",
            "Drops an event that lacks an attribute; false: the attribute is null.",
        )
        .test("connect::mapper::json::tests::the_missing_test_counts_names"),
        bool(
            "event.grouping.enabled",
            "true",
            "All events of a document are one chunk; false: each is its own.",
        )
        .test("connect::mapper::json::tests::elements_of_a_list_are_typed_by_their_text"),
    ],
    mapping: Mapping::Paths,
    example: "@source(type='inMemory', topic='in',
    @map(type='json', @attributes(symbol='$.trade.symbol', price='$.trade.price')))
define stream Trades (symbol string, price double);
from Trades select symbol insert into Out;",
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "json",
        "map-json",
        "Reads events from JSON text.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Text],
    status: Status::Runs,
    options: &[
        bool(
            "validate.json",
            "false",
            "Parses the result and drops it when it is not JSON.",
        ).test("connect::mapper::json::tests::templates_are_filled_without_quoting_and_checked_on_demand"),
        text(
            "enclosing.element",
            "Dotted path that is put around the result.",
        ).test("connect::mapper::json::tests::events_are_written"),
        bool(
            "event.grouping.enabled",
            "true",
            "A chunk of several events is one array; false: one document each.",
        ).test("connect::mapper::json::tests::events_are_written"),
        bool(
            "enable.null.attribute.value",
            "false",
            "Null is written as `null`; false: as the text \"undefined\".",
        ).test("connect::mapper::json::tests::events_are_written"),
    ],
    mapping: Mapping::Template,
    example: "@sink(type='log', @map(type='json', @payload('{\"s\":\"{{symbol}}\"}')))
define stream Trades (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "json",
        "map-json",
        "Writes events as JSON text.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
