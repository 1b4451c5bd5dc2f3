//! HTTP as a client: the `http` sink, calls with their responses, server-sent events; and the
//! options that listeners and clients share.

use crate::api_spec;
use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, OptionSpec, OptionStatus, OptionType, Payload, Rule,
    Status, TEXT_OR_BYTES, bool, int, list, millis, text,
};

// ---- options shared with the listeners ----

pub(super) const WORKERS: OptionSpec = int(
    "worker.count",
    "1",
    "Requests handled at once; order is kept only with 1.",
)
.unit("requests")
.test("headwater::http::two_sources_share_a_port_keep_order_and_a_stop_frees_it");
pub(super) const HEADERS: OptionSpec = list("headers", "Headers, as `'name:value','name:value'`.")
    .test("headwater::http::method_headers_and_url_follow_from_the_event")
    .dynamic();
const TRUSTSTORE: OptionSpec = text(
    "https.truststore.file",
    "Key store of the certificates to trust.",
)
.test("headwater::http::tls_with_java_key_stores_as_they_are");
const TRUSTSTORE_PASSWORD: OptionSpec =
    text("https.truststore.password", "Password of the trust store.")
        .test("headwater::http::tls_with_java_key_stores_as_they_are")
        .default("wso2carbon");
const BASIC_USER: OptionSpec = text("basic.auth.username", "User for basic authentication.")
    .test("headwater::http::method_headers_and_url_follow_from_the_event");
const BASIC_PASSWORD: OptionSpec =
    text("basic.auth.password", "Password for basic authentication.")
        .test("headwater::http::method_headers_and_url_follow_from_the_event");
const CLIENT_BOOTSTRAP: OptionSpec = list(
    "client.bootstrap.configurations",
    "Socket settings, as `'client.bootstrap.connect.timeout:ms',…`.",
)
.test("headwater::http_options::a_server_that_is_silent_is_given_up_after_its_time");

/// Beginnings of an address.
const HTTP_URL: &[&str] = &["http://", "https://"];

/// Options of everything that listens for requests.
pub(super) const LISTENER: &[OptionSpec] = &[
    text(
        "receiver.url",
        "URL to listen on; `https` turns TLS on. By default `http://0.0.0.0:8280/<app>/<stream>`.",
    )
    .url(HTTP_URL)
    .test("headwater::http::two_sources_share_a_port_keep_order_and_a_stop_frees_it"),
    text(
        "basic.auth.enabled",
        "`true` checks the credentials of each request.",
    )
    .test("connectors::http::request::tests::credentials_are_compared_as_a_whole")
    .default("false"),
    WORKERS,
    int(
        "socket.idle.timeout",
        "120000",
        "Closes a connection idle for so many ms.",
    )
    .unit("ms")
    .test("headwater::http_options::a_connection_without_requests_is_closed_after_its_time"),
    int(
        "body.idle.timeout",
        "10000",
        "Answers 408 when nothing of a body came for so many ms; 0: never (an extension). While half \
         of the port's 8192 connections are taken, 1000 at most.",
    )
    .at_least(0)
    .unit("ms")
    .test("headwater::bounds::a_body_that_does_not_come_is_answered_408"),
    int(
        "body.timeout",
        "120000",
        "Answers 408 when a body is not complete after so many ms; 0: never (an extension). While \
         half of the port's 8192 connections are taken, 10000 at most.",
    )
    .at_least(0)
    .unit("ms")
    .test("headwater::bounds::a_body_that_does_not_come_is_answered_408"),
    list(
        "allowed.origins",
        "Origins of web pages to which a preflight is answered with leave, as \
         `https://a.example,https://b.example`; `*`: any (an extension). By default pages of the \
         server's own host; with `@app:compat` any, as in Siddhi.",
    )
    .test("headwater::bounds::pages_of_other_origins_are_refused"),
    text(
        "ssl.verify.client",
        "`require` or `optional`: asks for a client certificate.",
    )
    .test(
        "headwater::http_options::a_client_shows_its_certificate_where_the_listener_asks_for_one",
    ),
    text("ssl.protocol", "TLS protocol.")
        .test("headwater::http_options::both_sides_speak_the_protocol_that_they_are_told")
        .default("TLS"),
    text(
        "tls.store.type",
        "Type of the key store; the form is known by the first bytes of the file.",
    )
    .status(OptionStatus::Ignored)
    .default("JKS"),
    list(
        "ssl.configurations",
        "Further TLS settings, as `'key:value',…`.",
    )
    .test("headwater::http::tls_with_java_key_stores_as_they_are")
    .alias(&["parameters"]),
    list(
        "request.size.validation.configurations",
        "Limits for the size of a request.",
    )
    .test("connectors::http::source::tests::limits_hold_where_their_check_is_on"),
    list(
        "header.validation.configurations",
        "Limits for request line and headers.",
    )
    .test("headwater::http_options::request_lines_and_headers_that_are_too_long_are_refused"),
    list(
        "server.bootstrap.configurations",
        "Socket settings of the listener.",
    )
    .test("headwater::http_options::a_connection_without_requests_is_closed_after_its_time"),
    bool("trace.log.enabled", "false", "Logs the traffic.")
        .test("headwater::http_options::traffic_is_logged_where_it_is_asked_for"),
];

/// Options of everything that sends requests, but for the target.
pub(super) const CLIENT: &[OptionSpec] = &[
    HEADERS,
    text("method", "HTTP method; GET sends no body.")
        .test("headwater::http::method_headers_and_url_follow_from_the_event")
        .default("POST")
        .dynamic(),
    BASIC_USER,
    BASIC_PASSWORD,
    TRUSTSTORE,
    TRUSTSTORE_PASSWORD,
    text(
        "https.keystore.file",
        "Key store with the client certificate.",
    )
    .test("headwater::http_options::a_client_shows_its_certificate_where_the_listener_asks_for_one"),
    text("https.keystore.password", "Password of the key store.")
    .test("headwater::http_options::a_client_shows_its_certificate_where_the_listener_asks_for_one").default("wso2carbon"),
    text("https.keystore.key.password", "Password of the key.")
    .test("headwater::http_options::a_client_shows_its_certificate_where_the_listener_asks_for_one").default("wso2carbon"),
    text("oauth.username", "User for the OAuth password grant.")
        .test("connectors::http::oauth::tests::the_grant_follows_from_what_is_known"),
    text("oauth.password", "Password for the OAuth password grant.")
        .test("connectors::http::oauth::tests::the_grant_follows_from_what_is_known"),
    text("consumer.key", "OAuth client id, sent as a basic header.")
        .test("headwater::http::a_token_is_obtained_kept_and_renewed"),
    text(
        "consumer.secret",
        "OAuth client secret, sent as a basic header.",
    )
    .test("headwater::http::a_token_is_obtained_kept_and_renewed"),
    text("body.consumer.key", "OAuth client id, sent in the body.")
        .test("connectors::http::oauth::tests::the_grant_follows_from_what_is_known"),
    text(
        "body.consumer.secret",
        "OAuth client secret, sent in the body.",
    )
    .test("connectors::http::oauth::tests::the_grant_follows_from_what_is_known"),
    text("token.url", "Where OAuth tokens are obtained.")
        .test("headwater::http::a_token_is_obtained_kept_and_renewed"),
    text("refresh.token", "Token for the OAuth refresh grant.")
        .test("connectors::http::oauth::tests::the_grant_follows_from_what_is_known")
        .dynamic(),
    text("oauth.scope", "OAuth scope.")
        .test("connectors::http::oauth::tests::the_grant_follows_from_what_is_known")
        .default("default"),
    int(
        "socket.idle.timeout",
        "6000",
        "Gives a connection up after so many ms without traffic.",
    ).unit("ms")
    .test("headwater::http_options::a_server_that_is_silent_is_given_up_after_its_time"),
    bool(
        "chunk.disabled",
        "false",
        "Sends `Content-Length` instead of chunks.",
    )
    .test("headwater::http::method_headers_and_url_follow_from_the_event"),
    text("ssl.protocol", "TLS protocol.")
    .test("headwater::http_options::both_sides_speak_the_protocol_that_they_are_told").default("TLS"),
    text(
        "tls.store.type",
        "Type of the key store; the form is known by the first bytes of the file.",
    )
    .status(OptionStatus::Ignored)
    .default("JKS"),
    list(
        "ssl.configurations",
        "Further TLS settings, as `'key:value',…`.",
    )
    .test("headwater::http::tls_with_java_key_stores_as_they_are")
    .alias(&["parameters"]),
    bool(
        "ssl.verification.disabled",
        "false",
        "Accepts any certificate.",
    )
    .test("headwater::http::tls_with_java_key_stores_as_they_are"),
    bool(
        "hostname.verification.enabled",
        "true",
        "Compares the certificate with the host name.",
    )
    .test("headwater::http_options::the_name_in_a_certificate_is_compared_unless_it_is_not_to_be"),
    text("proxy.host", "Host of a proxy.")
        .test("headwater::http::a_proxy_is_asked_with_the_whole_url"),
    int("proxy.port", "8080", "Port of the proxy.")
        .range(0, 65_535)
        .test("headwater::http::a_proxy_is_asked_with_the_whole_url"),
    text("proxy.username", "User at the proxy.")
        .test("headwater::http::a_proxy_is_asked_with_the_whole_url"),
    text("proxy.password", "Password at the proxy.")
        .test("headwater::http::a_proxy_is_asked_with_the_whole_url"),
    CLIENT_BOOTSTRAP,
    int(
        "max.pool.active.connections",
        "-1",
        "Most connections in use at once; -1: no limit.",
    ).unit("connections")
    .test("headwater::http::method_headers_and_url_follow_from_the_event"),
    int(
        "max.pipelined.requests",
        "1",
        "Requests that leave a connection together, before the first of them is answered (HTTP pipelining, \
         an extension). Only for servers that answer requests of a connection quickly and in order: a lost \
         connection takes all of them along. Those behind an answer with `Connection: close` are sent again. \
         Not with OAuth, `blocking.io` and downloads; a streamed response is one message.",
    )
    .at_least(1)
    .unit("requests")
    .test("headwater::http_options::requests_leave_together_where_the_server_takes_them_so"),
    int(
        "min.pool.idle.connections",
        "0",
        "Idle connections kept at least; connections are opened when they are needed.",
    ).unit("connections")
    .status(OptionStatus::Ignored),
    int(
        "max.pool.idle.connections",
        "100",
        "Idle connections kept at most, but for a second.",
    ).unit("connections")
    .test("headwater::http_options::a_pool_keeps_idle_connections_as_it_is_told"),
    int(
        "executor.service.threads",
        "20",
        "Threads that handle answers; a thread for each core serves all.",
    ).unit("threads")
    .status(OptionStatus::Ignored),
    millis(
        "min.evictable.idle.time",
        "300000",
        "Idle time after which a connection may go.",
    )
    .test("headwater::http_options::a_pool_keeps_idle_connections_as_it_is_told"),
    millis(
        "time.between.eviction.runs",
        "30000",
        "How often idle connections are looked at; they are whenever one is taken or comes back.",
    )
    .status(OptionStatus::Ignored),
    millis(
        "max.wait.time",
        "60000",
        "Longest wait for a connection of the pool.",
    )
    .test("headwater::http_options::a_pool_that_is_full_fails_waits_or_grows"),
    bool(
        "test.on.borrow",
        "true",
        "Tests a connection when it is taken; that is always done.",
    )
    .status(OptionStatus::Ignored),
    bool(
        "test.while.idle",
        "true",
        "Tests idle connections; one that the other side closes is dropped at once.",
    )
    .status(OptionStatus::Ignored),
    int(
        "exhausted.action",
        "1",
        "When the pool is empty: 0 fail, 1 block, 2 grow.",
    )
    .test("headwater::http_options::a_pool_that_is_full_fails_waits_or_grows"),
];

pub(super) const TEXT_BYTES_OR_MAP: &[Payload] = &[Payload::Text, Payload::Bytes, Payload::Map];

const TARGET: OptionSpec = text(
    "publisher.url",
    "Where requests go; the path is kept as written.",
)
.url(HTTP_URL)
.test("headwater::http::method_headers_and_url_follow_from_the_event")
.required()
.dynamic();
const SINK_ID: OptionSpec = text(
    "sink.id",
    "Joins the requests of a sink with the sources of their responses.",
)
.test("headwater::http::the_published_pair_gets_every_response_back")
.required();

const BASIC_AUTH: Rule = Rule::Together(&["basic.auth.username", "basic.auth.password"]);

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='http', publisher.url='http://localhost:8080/trades', headers=\"'X-Symbol:{{symbol}}'\", on.error='WAIT', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_BYTES_OR_MAP,
    options: plan::spec::options!(&[TARGET], CLIENT),
    rules: &[BASIC_AUTH],
    addresses: &[("publisher.url", 80)],
    identity: &["publisher.url"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "http",
        "io-http",
        "Sends each payload as an HTTP request and does not wait for the answer.",
    )
};

pub const CALL: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='http-call', sink.id='prices', publisher.url='http://localhost:8080/price', @map(type='json'))
define stream Questions (symbol string);
@source(type='http-call-response', sink.id='prices', @map(type='json', @attributes(symbol = 'trp:symbol', price = '$.price')))
define stream Prices (symbol string, price double);",
    payloads: TEXT_BYTES_OR_MAP,
    options: plan::spec::options!(
        &[
            TARGET,
            SINK_ID,
            bool(
                "downloading.enabled",
                "false",
                "Writes the body of the response to a file."
            )
    .test("headwater::http_options::a_response_goes_to_a_file_where_it_is_told_to"),
            text("download.path", "The file to write.")
    .test("headwater::http_options::a_response_goes_to_a_file_where_it_is_told_to").dynamic(),
            bool(
                "blocking.io",
                "false",
                "Waits up to 30 s for the response before continuing."
            )
    .test("headwater::http_options::a_call_that_blocks_waits_for_its_response"),
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
    addresses: &[("publisher.url", 80)],
    identity: &["publisher.url"],
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
    example: "@sink(type='http-request', sink.id='prices', publisher.url='http://localhost:8080/price', @map(type='json'))
define stream Questions (symbol string);
@source(type='http-response', sink.id='prices', @map(type='json', @attributes(symbol = 'trp:symbol', price = '$.price')))
define stream Prices (symbol string, price double);",
    ..CALL
};

pub const CALL_RESPONSE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='http-call', sink.id='prices', publisher.url='http://localhost:8080/price', @map(type='json'))
define stream Questions (symbol string);
@source(type='http-call-response', sink.id='prices', @map(type='json', @attributes(symbol = 'trp:symbol', price = '$.price')))
define stream Prices (symbol string, price double);",
    payloads: &[Payload::Text],
    options: &[
        SINK_ID,
        OptionSpec::new(
            "http.status.code",
            OptionType::Regex,
            "Regular expression for the whole status code of the responses to take.",
        ).test("connect::net::request_reply::tests::a_response_goes_to_the_sources_whose_status_it_has")
        .default("200"),
        WORKERS,
        bool(
            "allow.streaming.responses",
            "false",
            "Every chunk of a response is a message.",
        )
    .test("headwater::http_options::every_piece_of_a_response_is_a_message_where_it_is_streamed"),
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
    example: "@sink(type='http-request', sink.id='prices', publisher.url='http://localhost:8080/price', @map(type='json'))
define stream Questions (symbol string);
@source(type='http-response', sink.id='prices', @map(type='json', @attributes(symbol = 'trp:symbol', price = '$.price')))
define stream Prices (symbol string, price double);",
    ..CALL_RESPONSE
};

const SSE_READ: &str = "headwater::sse::events_are_read_as_they_are_and_asked_for_behind_the_last";
const SSE_HEARD: &str = "headwater::sse::all_who_hold_the_url_open_hear_every_payload";
const SSE_TLS: &str = "headwater::sse::tls_and_login_of_both_sides";

pub const SSE_SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='sse', receiver.url='http://localhost:8010/trades', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Text],
    options: &[
        text(
            "receiver.url",
            "The stream of events to read; the data of each is a message.",
        )
        .url(HTTP_URL)
        .test(SSE_READ)
        .required(),
        BASIC_USER.test(SSE_TLS),
        BASIC_PASSWORD.test(SSE_TLS),
        WORKERS.status(OptionStatus::Ignored),
        list(
            "headers",
            "Headers of the request, as `'name:value','name:value'`.",
        )
        .test(SSE_READ),
        TRUSTSTORE.test(SSE_TLS),
        TRUSTSTORE_PASSWORD.test(SSE_TLS),
        CLIENT_BOOTSTRAP.test("connectors::http::sse::source::tests::what_cannot_be_is_refused"),
    ],
    rules: &[BASIC_AUTH],
    properties: &["*"],
    addresses: &[("receiver.url", 80)],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "sse",
        "io-http",
        "Reads a stream of server-sent events; `trp:id` and `trp:event` are those of the event, other \
         names headers of the answer.",
    )
};

pub const SSE_SERVER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='sse-server', server.url='http://0.0.0.0:8010/trades', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: &[
        text(
            "server.url",
            "URL on which clients connect; `https` turns TLS on.",
        )
        .url(HTTP_URL)
        .test(SSE_HEARD),
        WORKERS.status(OptionStatus::Ignored),
        list(
            "headers",
            "Headers of the answer, as `'name:value','name:value'`.",
        )
        .test(SSE_HEARD),
        TRUSTSTORE.status(OptionStatus::Ignored),
        TRUSTSTORE_PASSWORD.status(OptionStatus::Ignored),
        CLIENT_BOOTSTRAP.status(OptionStatus::Ignored),
        api_spec::API,
        api_spec::VERSION,
        api_spec::TOPIC,
        api_spec::PARAMETER,
        api_spec::SCOPES,
        api_spec::PLANS,
        api_spec::HISTORY,
        api_spec::SLOW,
    ],
    rules: &[Rule::ExactlyOne(&["server.url", "api"]), api_spec::TOGETHER],
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
