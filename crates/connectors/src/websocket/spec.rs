//! WebSocket, as client and as server.

use crate::api_spec;
use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, OptionSpec, Rule, Status, TEXT_OR_BYTES, bool, int, list,
    text,
};

const ORDER: &str = "headwater::websocket::a_server_gets_and_gives_every_row_in_order";
const READ: &str =
    "headwater::websocket::clients_on_any_path_are_read_and_a_bad_payload_hurts_no_neighbour";
const ALL: &str = "headwater::websocket::a_server_sink_sends_to_all_who_are_connected";
const IDLE: &str =
    "headwater::websocket::an_idle_connection_is_closed_and_opened_where_it_is_needed";
const TLS: &str = "headwater::websocket::tls_both_ways_with_java_key_stores";
const LOGIN: &str = "headwater::websocket::only_who_proves_who_he_is_is_let_in";

const IDLE_TIMEOUT: OptionSpec = int(
    "idle.timeout",
    "-1",
    "Closes a connection on which no message passed for so many milliseconds; -1: never.",
)
.at_least(1)
.or(-1)
.unit("ms")
.test(IDLE);

const COMPRESSION: OptionSpec = bool(
    "compression",
    "false",
    "Compresses messages (permessage-deflate, an extension) where the other side agrees; each stands for itself.",
)
.test("headwater::websocket::messages_are_compressed_where_both_sides_want_it");

const CLIENT: &[OptionSpec] = &[
    text(
        "url",
        "The server, `ws://…` or `wss://…`; `user:password@` before the host logs in.",
    )
    .url(&["ws://", "wss://"])
    .test(LOGIN)
    .required(),
    list(
        "sub.protocol",
        "Sub-protocols to offer, the preferred first.",
    )
    .test(ORDER),
    list("headers", "Headers of the handshake, as `'k:v','k:v'`.").test(ORDER),
    COMPRESSION,
    IDLE_TIMEOUT,
    text(
        "truststore.path",
        "Key store of the certificates to trust; that of the deployment file by default, else what \
         the system trusts.",
    )
    .test(TLS),
    text("truststore.password", "Password of the trust store.").test(TLS),
];

const RULES: &[Rule] = &[
    Rule::AnyOf(&["host", "api"]),
    Rule::AnyOf(&["port", "api"]),
    api_spec::TOGETHER,
    api_spec::no_port(&["host"], &[Fact::Given("api"), Fact::Given("host")]),
    api_spec::no_port(&["port"], &[Fact::Given("api"), Fact::Given("port")]),
];

const fn server(test: &'static str) -> [OptionSpec; 17] {
    [
        api_spec::API,
        api_spec::VERSION,
        api_spec::TOPIC,
        api_spec::PARAMETER,
        api_spec::SCOPES,
        api_spec::PLANS,
        api_spec::HISTORY,
        api_spec::SLOW,
        text("host", "Address to listen on.").test(test),
        int("port", "", "Port to listen on.")
            .range(0, 65_535)
            .test(test),
        list(
            "sub.protocol",
            "Sub-protocols that are spoken; the first that the client speaks as well is chosen.",
        )
        .test(test),
        COMPRESSION,
        IDLE_TIMEOUT,
        list(
            "allowed.origins",
            "Origins of web pages that may connect, as `https://a.example,https://b.example`; `*`: \
             any (an extension). By default pages of the server's own host; with \
             `@app:compat` any, as in Siddhi. A client that sends no `Origin` is no page.",
        )
        .test("headwater::bounds::pages_of_other_origins_are_refused"),
        bool("tls.enabled", "false", "Uses TLS.").test(TLS),
        text(
            "keystore.path",
            "Key store with the certificate of the server; that of the deployment file by default.",
        )
        .test(TLS),
        text("keystore.password", "Password of the key store.").test(TLS),
    ]
}

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='websocket', url='ws://localhost:8025/trades', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: CLIENT,
    addresses: &[("url", 80)],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "websocket",
        "io-websocket",
        "Receives the messages that a server sends.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='websocket', url='ws://localhost:8025/trades', on.error='WAIT', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: CLIENT,
    addresses: &[("url", 80)],
    identity: &["url"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "websocket",
        "io-websocket",
        "Sends each payload as a message to a server, which confirms what it has read.",
    )
};

pub const SERVER_SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='websocket-server', host='0.0.0.0', port='8025', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: &server(READ),
    rules: RULES,
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "websocket-server",
        "io-websocket",
        "Receives the messages that clients send, on any path.",
    )
};

pub const SERVER_SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='websocket-server', host='0.0.0.0', port='8025', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: &server(ALL),
    rules: RULES,
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "websocket-server",
        "io-websocket",
        "Sends each payload to all clients that are connected; who comes late gets what comes then.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK, SERVER_SOURCE, SERVER_SINK];
