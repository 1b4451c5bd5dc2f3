//! XML documents, in both directions.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, Mapping, Payload, Rule, Status, TEXT_OR_BYTES, bool, pairs,
    text,
};

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: TEXT_OR_BYTES,
    status: Status::Runs,
    options: &[
        pairs("namespaces", "Prefixes of the paths, `p=uri,q=uri`.")
            .test("connect::mapper::xml::tests::paths_find_elements_and_attributes"),
        text(
            "enclosing.element",
            "XPath of the elements whose children are the events.",
        )
        .test("connect::mapper::xml::tests::paths_find_elements_and_attributes"),
        bool(
            "enclosing.element.as.event",
            "false",
            "The elements found are the events themselves; always so when streaming.",
        )
        .test("connect::mapper::xml::tests::paths_find_elements_and_attributes")
        .alias(&["enclosingElementAsEvent"]),
        bool(
            "fail.on.missing.attribute",
            "true",
            "Drops an event that lacks an attribute; false: the attribute is null.",
        )
        .test("connect::mapper::xml::tests::paths_find_elements_and_attributes"),
        bool(
            "enable.streaming.xml.content",
            "false",
            "A message is a piece of a document; reading continues with the next one.",
        )
        .test("connect::mapper::xml::tests::a_stream_of_lines_gives_an_event_for_each_element"),
        bool(
            "extract.leaf.node.data",
            "false",
            "One event for each leaf, with the values of all that encloses it.",
        )
        .test("connect::mapper::xml::tests::leaves_have_the_values_of_all_that_encloses_them"),
    ],
    rules: &[Rule::Never {
        when: Fact::All(&[
            Fact::Is("enable.streaming.xml.content", &["true"]),
            Fact::Absent("enclosing.element"),
        ]),
        at: &["enable.streaming.xml.content"],
        message: "streaming of XML needs option 'enclosing.element'",
        help: "name the elements that are the events, for instance enclosing.element='/osm/node'",
    }],
    mapping: Mapping::Paths,
    example: "@source(type='inMemory', topic='in', @map(type='xml',
    enclosing.element='/trades', @attributes(symbol='symbol', price='@price')))
define stream Trades (symbol string, price double);
from Trades select symbol insert into Out;",
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "xml",
        "map-xml",
        "Reads events from XML text, whole documents or a stream of pieces.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Text],
    status: Status::Runs,
    options: &[
        bool(
            "validate.xml",
            "false",
            "Parses a payload of your own and drops it when it is bad.",
        )
        .test("connect::mapper::xml::tests::events_are_written"),
        text(
            "enclosing.element",
            "Opening tag put around the events instead of `<events>`.",
        )
        .test("connect::mapper::xml::tests::events_are_written"),
    ],
    mapping: Mapping::Template,
    example: "@sink(type='log', @map(type='xml'))
define stream Trades (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "xml",
        "map-xml",
        "Writes events as XML text.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
