//! Protocol Buffers, in both directions.

use plan::spec::{ConnectorKind, ConnectorSpec, Mapping, OptionSpec, Payload, Status, text};

/// Shared with gRPC, whose sources and sinks may describe their service.
pub const DESCRIPTOR_IMPORTS: OptionSpec = text(
    "descriptor.imports",
    "Folders to search for imports of a `.proto` file, separated by commas, before the folder of \
     the file itself (an extension).",
)
.test("connect::mapper::protobuf::tests::a_proto_file_does_as_well_as_it_is");

const OPTIONS: &[OptionSpec] = &[
    text(
        "class",
        "The message: its full name, or that of the Java class, of which the last parts count. With \
         gRPC it follows from service and method.",
    )
    .test("connect::mapper::protobuf::tests::the_class_may_be_that_of_java"),
    text(
        "descriptor.file",
        "Description of the message: a `.proto` file as it is, or a descriptor set, as `protoc \
         --include_imports --descriptor_set_out` makes it; with gRPC that of the source or sink by \
         default (an extension: Siddhi has a Java class on its class path).",
    )
    .test("connect::mapper::protobuf::tests::a_proto_file_does_as_well_as_it_is"),
    DESCRIPTOR_IMPORTS,
];

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='tcp', context='trades', @map(type='protobuf', descriptor.file='trades.proto', class='sample.Trade'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Bytes],
    options: OPTIONS,
    mapping: Mapping::Paths,
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "protobuf",
        "map-protobuf",
        "Reads events from messages by the names of their fields.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='tcp', url='tcp://localhost:9892/trades', @map(type='protobuf', descriptor.file='trades.proto', class='sample.Trade'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Bytes],
    options: OPTIONS,
    mapping: Mapping::Entries,
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "protobuf",
        "map-protobuf",
        "Writes each event as a message.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
