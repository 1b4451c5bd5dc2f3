//! HTTP as a client: the `http` sink, calls with their responses, server-sent events; and the
//! options that listeners and clients share.

use super::{bool, int, list, millis, text};
use crate::spec::{
    ConnectorKind, ConnectorSpec, Fact, OptionSpec, OptionType, Payload, Rule, Status,
};

// ---- options shared with the listeners ----

pub(super) const WORKERS: OptionSpec = int(
    "worker.count",
    "1",
    "Requests handled at once; order is kept only with 1.",
);
pub(super) const HEADERS: OptionSpec =
    list("headers", "Headers, as `'name:value','name:value'`.").dynamic();
const TRUSTSTORE: OptionSpec = text(
    "https.truststore.file",
    "Key store of the certificates to trust.",
);
const TRUSTSTORE_PASSWORD: OptionSpec =
    text("https.truststore.password", "Password of the trust store.").default("wso2carbon");
const BASIC_USER: OptionSpec = text("basic.auth.username", "User for basic authentication.");
const BASIC_PASSWORD: OptionSpec =
    text("basic.auth.password", "Password for basic authentication.");
const CLIENT_BOOTSTRAP: OptionSpec = list(
    "client.bootstrap.configurations",
    "Socket settings, as `'client.bootstrap.connect.timeout:ms',…`.",
);

/// Options of everything that listens for requests.
pub(super) const LISTENER: &[OptionSpec] = &[
    text(
        "receiver.url",
        "URL to listen on; `https` turns TLS on. By default `/<app>/<stream>`.",
    ),
    text(
        "basic.auth.enabled",
        "`true` checks the credentials of each request.",
    )
    .default("false"),
    WORKERS,
    int(
        "socket.idle.timeout",
        "120000",
        "Closes a connection idle for so many ms.",
    ),
    text(
        "ssl.verify.client",
        "`require` or `optional`: asks for a client certificate.",
    ),
    text("ssl.protocol", "TLS protocol.").default("TLS"),
    text("tls.store.type", "Type of the key store.").default("JKS"),
    list(
        "ssl.configurations",
        "Further TLS settings, as `'key:value',…`.",
    )
    .alias(&["parameters"]),
    list(
        "request.size.validation.configurations",
        "Limits for the size of a request.",
    ),
    list(
        "header.validation.configurations",
        "Limits for request line and headers.",
    ),
    list(
        "server.bootstrap.configurations",
        "Socket settings of the listener.",
    ),
    bool("trace.log.enabled", "false", "Logs the traffic."),
];

/// Options of everything that sends requests, but for the target.
pub(super) const CLIENT: &[OptionSpec] = &[
    HEADERS,
    text("method", "HTTP method; GET sends no body.")
        .default("POST")
        .dynamic(),
    BASIC_USER,
    BASIC_PASSWORD,
    TRUSTSTORE,
    TRUSTSTORE_PASSWORD,
    text(
        "https.keystore.file",
        "Key store with the client certificate.",
    ),
    text("https.keystore.password", "Password of the key store.").default("wso2carbon"),
    text("https.keystore.key.password", "Password of the key.").default("wso2carbon"),
    text("oauth.username", "User for the OAuth password grant."),
    text("oauth.password", "Password for the OAuth password grant."),
    text("consumer.key", "OAuth client id, sent as a basic header."),
    text(
        "consumer.secret",
        "OAuth client secret, sent as a basic header.",
    ),
    text("body.consumer.key", "OAuth client id, sent in the body."),
    text(
        "body.consumer.secret",
        "OAuth client secret, sent in the body.",
    ),
    text("token.url", "Where OAuth tokens are obtained."),
    text("refresh.token", "Token for the OAuth refresh grant.").dynamic(),
    text("oauth.scope", "OAuth scope.").default("default"),
    int(
        "socket.idle.timeout",
        "6000",
        "Gives a connection up after so many ms without traffic.",
    ),
    bool(
        "chunk.disabled",
        "false",
        "Sends `Content-Length` instead of chunks.",
    ),
    text("ssl.protocol", "TLS protocol.").default("TLS"),
    text("tls.store.type", "Type of the key stores.").default("JKS"),
    list(
        "ssl.configurations",
        "Further TLS settings, as `'key:value',…`.",
    )
    .alias(&["parameters"]),
    bool(
        "ssl.verification.disabled",
        "false",
        "Accepts any certificate.",
    ),
    bool(
        "hostname.verification.enabled",
        "true",
        "Compares the certificate with the host name.",
    ),
    text("proxy.host", "Host of a proxy."),
    text("proxy.port", "Port of the proxy."),
    text("proxy.username", "User at the proxy."),
    text("proxy.password", "Password at the proxy."),
    CLIENT_BOOTSTRAP,
    int(
        "max.pool.active.connections",
        "-1",
        "Most connections in use at once; -1: no limit.",
    ),
    int(
        "min.pool.idle.connections",
        "0",
        "Idle connections kept at least.",
    ),
    int(
        "max.pool.idle.connections",
        "100",
        "Idle connections kept at most.",
    ),
    int(
        "executor.service.threads",
        "20",
        "Threads that handle answers.",
    ),
    millis(
        "min.evictable.idle.time",
        "300000",
        "Idle time after which a connection may go.",
    ),
    millis(
        "time.between.eviction.runs",
        "30000",
        "How often idle connections are looked at.",
    ),
    millis(
        "max.wait.time",
        "60000",
        "Longest wait for a connection of the pool.",
    ),
    bool(
        "test.on.borrow",
        "true",
        "Tests a connection when it is taken.",
    ),
    bool("test.while.idle", "true", "Tests idle connections."),
    int(
        "exhausted.action",
        "1",
        "When the pool is empty: 0 fail, 1 block, 2 grow.",
    ),
];

pub(super) const TEXT_BYTES_OR_MAP: &[Payload] = &[Payload::Text, Payload::Bytes, Payload::Map];

const TARGET: OptionSpec = text(
    "publisher.url",
    "Where requests go; the path is kept as written.",
)
.required()
.dynamic();
const SINK_ID: OptionSpec = text(
    "sink.id",
    "Joins the requests of a sink with the sources of their responses.",
)
.required();

const BASIC_AUTH: Rule = Rule::Together(&["basic.auth.username", "basic.auth.password"]);

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    payloads: TEXT_BYTES_OR_MAP,
    options: super::options!(&[TARGET], CLIENT),
    rules: &[BASIC_AUTH],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "http",
        "io-http",
        "Sends each payload as an HTTP request and does not wait for the answer.",
    )
};

pub const CALL: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    payloads: TEXT_BYTES_OR_MAP,
    options: super::options!(
        &[
            TARGET,
            SINK_ID,
            bool(
                "downloading.enabled",
                "false",
                "Writes the body of the response to a file."
            ),
            text("download.path", "The file to write.").dynamic(),
            bool(
                "blocking.io",
                "false",
                "Waits up to 30 s for the response before going on."
            ),
        ],
        CLIENT,
    ),
    rules: &[
        BASIC_AUTH,
        Rule::Never {
            when: Fact::All(&[
                Fact::Is("downloading.enabled", &["true"]),
                Fact::Absent("download.path"),
            ]),
            at: &["downloading.enabled"],
            message: "option 'downloading.enabled' needs option 'download.path'",
            help: "say where the response is to be written",
        },
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "http-call",
        "io-http",
        "Sends each payload as an HTTP request; its response reaches the sources of the same id.",
    )
};

/// The old name of [`CALL`].
pub const REQUEST_SINK: ConnectorSpec = ConnectorSpec {
    name: "http-request",
    ..CALL
};

pub const CALL_RESPONSE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    payloads: &[Payload::Text],
    options: &[
        SINK_ID,
        OptionSpec::new(
            "http.status.code",
            OptionType::Regex,
            "Regular expression for the whole status code of the responses to take.",
        )
        .default("200"),
        WORKERS,
        bool(
            "allow.streaming.responses",
            "false",
            "Every chunk of a response is a message.",
        ),
    ],
    properties: &["*"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "http-call-response",
        "io-http",
        "Receives the responses to the requests of the sink of the same id.",
    )
};

/// The old name of [`CALL_RESPONSE`].
pub const RESPONSE_SOURCE: ConnectorSpec = ConnectorSpec {
    name: "http-response",
    ..CALL_RESPONSE
};

pub const SSE_SOURCE: ConnectorSpec = ConnectorSpec {
    options: &[
        text("receiver.url", "The stream of events to read.").required(),
        BASIC_USER,
        BASIC_PASSWORD,
        WORKERS,
        list(
            "headers",
            "Headers of the request, as `'name:value','name:value'`.",
        ),
        TRUSTSTORE,
        TRUSTSTORE_PASSWORD,
        CLIENT_BOOTSTRAP,
    ],
    rules: &[BASIC_AUTH],
    properties: &["*"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "sse",
        "io-http",
        "Reads a stream of server-sent events.",
    )
};

pub const SSE_SERVER: ConnectorSpec = ConnectorSpec {
    options: &[
        text("server.url", "URL on which clients connect.").required(),
        WORKERS,
        HEADERS,
        TRUSTSTORE,
        TRUSTSTORE_PASSWORD,
        CLIENT_BOOTSTRAP,
    ],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "sse-server",
        "io-http",
        "Sends every payload to all clients that hold its URL open.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[
    SINK,
    CALL,
    REQUEST_SINK,
    CALL_RESPONSE,
    RESPONSE_SOURCE,
    SSE_SOURCE,
    SSE_SERVER,
];
