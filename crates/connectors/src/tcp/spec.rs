//! Siddhi's own frames over TCP.

use plan::spec::{
    ConnectorKind, ConnectorSpec, OptionStatus, Status, TEXT_OR_BYTES, bool, int, text,
};

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='tcp', context='trades', @map(type='binary'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: &[text(
        "context",
        "Name that senders use; `<app>/<stream>` by default.",
    )
    .test("headwater::tcp::what_is_no_frame_or_for_nobody_is_told_and_hurts_no_one_else")],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "tcp",
        "io-tcp",
        "Receives frames on the TCP port of the server.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example:
        "@sink(type='tcp', url='tcp://localhost:9892/trades', on.error='WAIT', @map(type='binary'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: &[
        text("url", "`tcp://host:port/context` of the source.")
            .url(&["tcp://"])
            .test("headwater::tcp::every_row_arrives_once_and_in_order")
            .required(),
        text("sync", "Waits until a payload has been written.")
            .test("headwater::tcp::every_row_arrives_once_and_in_order")
            .default("false")
            .dynamic(),
        bool("tcp.no.delay", "true", "Sends small frames at once.")
            .test("connectors::tcp::sink::tests::sockets_are_as_the_options_say"),
        bool("keep.alive", "true", "Keeps idle connections.")
            .test("connectors::tcp::sink::tests::sockets_are_as_the_options_say"),
        int(
            "worker.threads",
            "10",
            "Threads that write; one connection is written by one, in order.",
        )
        .unit("threads")
        .status(OptionStatus::Ignored),
    ],
    addresses: &[("url", 9892)],
    identity: &["url"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "tcp",
        "io-tcp",
        "Sends payloads as TCP frames.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
