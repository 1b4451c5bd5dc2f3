//! WebSocket, as client and as server.

use super::{bool, int, list, text};
use crate::spec::{ConnectorKind, ConnectorSpec, OptionSpec};

const PROTOCOLS: OptionSpec = list("sub.protocol", "Sub-protocols to offer.");
const IDLE: OptionSpec = int(
    "idle.timeout",
    "-1",
    "Closes a connection idle for so long; -1: never.",
);

const CLIENT: &[OptionSpec] = &[
    text("url", "The server, `ws://…` or `wss://…`.").required(),
    PROTOCOLS,
    list("headers", "Headers of the handshake, as `'k:v','k:v'`."),
    IDLE,
    text("truststore.path", "Key store of the certificates to trust."),
    text("truststore.password", "Password of the trust store."),
];

const SERVER: &[OptionSpec] = &[
    text("host", "Address to listen on.").required(),
    text("port", "Port to listen on.").required(),
    PROTOCOLS,
    IDLE,
    bool("tls.enabled", "false", "Uses TLS."),
    text(
        "keystore.path",
        "Key store with the certificate of the server.",
    ),
    text("keystore.password", "Password of the key store."),
];

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    options: CLIENT,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "websocket",
        "io-websocket",
        "Receives the frames that a server sends.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    options: CLIENT,
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "websocket",
        "io-websocket",
        "Sends each payload as a frame to a server.",
    )
};

pub const SERVER_SOURCE: ConnectorSpec = ConnectorSpec {
    options: SERVER,
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "websocket-server",
        "io-websocket",
        "Receives the frames that clients send.",
    )
};

pub const SERVER_SINK: ConnectorSpec = ConnectorSpec {
    options: SERVER,
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "websocket-server",
        "io-websocket",
        "Sends each payload to all clients that are connected.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK, SERVER_SOURCE, SERVER_SINK];
