//! Siddhi's own frames over TCP.

use super::{bool, int, text};
use crate::spec::{ConnectorKind, ConnectorSpec, Status, TEXT_OR_BYTES};

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    payloads: TEXT_OR_BYTES,
    options: &[text(
        "context",
        "Name that senders use; `<app>/<stream>` by default.",
    )],
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
    payloads: TEXT_OR_BYTES,
    options: &[
        text("url", "`tcp://host:port/context` of the source.").required(),
        text("sync", "Waits until a payload has been written.")
            .default("false")
            .dynamic(),
        bool("tcp.no.delay", "true", "Sends small frames at once."),
        bool("keep.alive", "true", "Keeps idle connections."),
        int("worker.threads", "10", "Threads that write."),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "tcp",
        "io-tcp",
        "Sends payloads as TCP frames.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
