//! Plain text: patterns on the way in, templates on the way out.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Mapping, OptionSpec, OptionType, Payload, Status, TEXT_OR_BYTES,
    bool, text,
};

const GROUPING: OptionSpec = bool(
    "event.grouping.enabled",
    "false",
    "Several events in one message, with delimiters.",
)
.test("connect::mapper::text::tests::lines_of_names_and_values");
const DELIMITER: OptionSpec = text("delimiter", "Line between two events of a message.")
    .test("connect::mapper::text::tests::lines_templates_and_groups_are_written")
    .default("~~~~~~~~~~");
const NEW_LINE: OptionSpec = text("new.line.character", "What ends a line.")
    .test("connect::mapper::text::tests::the_line_break_can_be_chosen")
    .default("\\n");

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: TEXT_OR_BYTES,
    status: Status::Runs,
    options: &[
        OptionSpec::new(
            "regex.*",
            OptionType::Regex,
            "A pattern by its id: `regex.A` is used by `@attributes(x='A[1]')`.",
        )
        .test("connect::mapper::text::tests::patterns_pick_their_groups"),
        bool(
            "fail.on.missing.attribute",
            "true",
            "Drops an event that lacks an attribute; false: the attribute is null.",
        )
        .test("connect::mapper::text::tests::patterns_pick_their_groups"),
        GROUPING,
        DELIMITER,
        NEW_LINE,
    ],
    mapping: Mapping::Groups,
    example: "@source(type='inMemory', topic='in',
    @map(type='text', regex.A='([a-z]+) ([0-9.]+)', @attributes(symbol='A[1]', price='A[2]')))
define stream Trades (symbol string, price double);
from Trades select symbol insert into Out;",
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "text",
        "map-text",
        "Reads events from text by patterns, or from lines `name:value`.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Text],
    status: Status::Runs,
    options: &[
        GROUPING,
        DELIMITER,
        NEW_LINE,
        bool(
            "mustache.enabled",
            "false",
            "The payload is a Mustache template.",
        )
        .test("connect::mapper::text::tests::lines_templates_and_groups_are_written"),
    ],
    mapping: Mapping::Template,
    example: "@sink(type='log', @map(type='text', @payload('{{symbol}} costs {{price}}')))
define stream Trades (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "text",
        "map-text",
        "Writes events as lines `name:value`, or through a template.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
