//! Lines of separated values, in both directions.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Mapping, OptionStatus, Payload, Status, TEXT_OR_BYTES, bool, text,
};

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: TEXT_OR_BYTES,
    status: Status::Runs,
    options: &[
        text(
            "delimiter",
            "One or more characters between values; `\\t` is a tab.",
        )
        .test("connect::mapper::csv::tests::header_and_delimiters")
        .default(","),
        bool("header", "false", "Leaves out the first message.")
            .test("connect::mapper::csv::tests::header_and_delimiters")
            .alias(&["header.present"]),
        bool(
            "fail.on.unknown.attribute",
            "true",
            "Drops an event with a bad value; false: the value is null.",
        )
        .test("connect::mapper::csv::tests::bad_values_are_null_when_unknown_is_allowed"),
        bool(
            "event.grouping.enabled",
            "false",
            "Without effect: the lines of one message are always one chunk.",
        )
        .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
        .status(OptionStatus::Ignored),
    ],
    mapping: Mapping::Columns,
    example: "@source(type='inMemory', topic='in',
    @map(type='csv', delimiter='|', @attributes(symbol='0', price='2')))
define stream Trades (symbol string, price double);
from Trades select symbol insert into Out;",
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "csv",
        "map-csv",
        "Reads events from separated values.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Text],
    status: Status::Runs,
    options: &[
        text("delimiter", "One or more characters between values.")
            .test("connect::mapper::csv::tests::records_are_written_with_the_quotes_they_need")
            .default(","),
        bool(
            "header",
            "false",
            "Writes the names of the attributes first.",
        )
        .test("connect::mapper::csv::tests::records_are_written_with_the_quotes_they_need")
        .alias(&["header.present"]),
        bool(
            "event.grouping.enabled",
            "false",
            "One message for a chunk; false: one each.",
        )
        .test("connect::mapper::csv::tests::records_are_written_with_the_quotes_they_need"),
    ],
    mapping: Mapping::ColumnEntries,
    example: "@sink(type='log', @map(type='csv', header='true'))
define stream Trades (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "csv",
        "map-csv",
        "Writes events as separated values.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
