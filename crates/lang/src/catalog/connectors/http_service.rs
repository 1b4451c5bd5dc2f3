//! HTTP as a server: the `http` source, services with their responses, and the WebSub hub.

use super::http::{CLIENT, HEADERS, LISTENER, TEXT_BYTES_OR_MAP};
use super::{list, millis, text};
use crate::spec::{ConnectorKind, ConnectorSpec, OptionSpec, Payload, Status};

const SOURCE_ID: OptionSpec = text(
    "source.id",
    "Joins the requests of a source with the sink of their responses.",
)
.test("headwater::http::a_service_answers_each_request_with_its_own_response")
.required();
const HUB_ID: OptionSpec = text("hub.id", "Joins the source and the sink of one hub.").required();
const HUB_TABLE: OptionSpec = text("table.name", "Table of the subscriptions.").required();

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='http', receiver.url='http://0.0.0.0:8280/trades', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Text],
    options: LISTENER,
    properties: &["*"],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "http",
        "io-http",
        "Receives the body of each POST request and answers 200 when it has been processed.",
    )
};

pub const SERVICE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='http-service', source.id='quotes', receiver.url='http://0.0.0.0:8280/quotes', @map(type='json', @attributes(id = 'trp:messageId', symbol = '$.symbol')))
define stream Questions (id string, symbol string);
@sink(type='http-service-response', source.id='quotes', message.id='{{id}}', @map(type='json'))
define stream Answers (id string, price double);",
    payloads: &[Payload::Text],
    options: super::options!(
        LISTENER,
        &[
            SOURCE_ID,
            millis(
                "connection.timeout",
                "120000",
                "Answers 504 when no response came by then."
            ).test("headwater::http::a_service_answers_each_request_with_its_own_response"),
        ],
    ),
    properties: &["*"],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "http-service",
        "io-http",
        "Receives requests and holds each until the response sink of the same id answers it.",
    )
};

/// The old name of [`SERVICE`].
pub const REQUEST_SOURCE: ConnectorSpec = ConnectorSpec {
    name: "http-request",
    example: "@source(type='http-request', source.id='quotes', receiver.url='http://0.0.0.0:8280/quotes', @map(type='json', @attributes(id = 'trp:messageId', symbol = '$.symbol')))
define stream Questions (id string, symbol string);
@sink(type='http-response', source.id='quotes', message.id='{{id}}', @map(type='json'))
define stream Answers (id string, price double);",
    ..SERVICE
};

pub const SERVICE_RESPONSE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='http-service', source.id='quotes', receiver.url='http://0.0.0.0:8280/quotes', @map(type='json', @attributes(id = 'trp:messageId', symbol = '$.symbol')))
define stream Questions (id string, symbol string);
@sink(type='http-service-response', source.id='quotes', message.id='{{id}}', @map(type='json'))
define stream Answers (id string, price double);",
    payloads: TEXT_BYTES_OR_MAP,
    options: &[
        SOURCE_ID,
        text(
            "message.id",
            "Id of the request to answer, from `trp:messageId`.",
        ).test("headwater::http::a_service_answers_each_request_with_its_own_response")
        .required()
        .dynamic(),
        HEADERS,
        text(
            "status.code",
            "Status of the answer (an extension of ours).",
        ).test("headwater::http::a_service_answers_each_request_with_its_own_response")
        .default("200")
        .dynamic(),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "http-service-response",
        "io-http",
        "Answers a request that the service source of the same id received.",
    )
};

/// The old name of [`SERVICE_RESPONSE`].
pub const RESPONSE_SINK: ConnectorSpec = ConnectorSpec {
    name: "http-response",
    example: "@source(type='http-request', source.id='quotes', receiver.url='http://0.0.0.0:8280/quotes', @map(type='json', @attributes(id = 'trp:messageId', symbol = '$.symbol')))
define stream Questions (id string, symbol string);
@sink(type='http-response', source.id='quotes', message.id='{{id}}', @map(type='json'))
define stream Answers (id string, price double);",
    ..SERVICE_RESPONSE
};

pub const WEBSUB_SOURCE: ConnectorSpec = ConnectorSpec {
    options: super::options!(
        LISTENER,
        &[
            HUB_ID,
            HUB_TABLE,
            list("topic.list", "Topics that may be subscribed to.").required()
        ],
    ),
    properties: &["*"],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "websubhub",
        "io-http",
        "Receives subscriptions to the topics of a WebSub hub.",
    )
};

pub const WEBSUB_SINK: ConnectorSpec = ConnectorSpec {
    options: super::options!(&[HUB_ID, HUB_TABLE], CLIENT),
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "websubhub",
        "io-http",
        "Posts each payload to every subscriber of its topic.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[
    SOURCE,
    SERVICE,
    REQUEST_SOURCE,
    SERVICE_RESPONSE,
    RESPONSE_SINK,
    WEBSUB_SOURCE,
    WEBSUB_SINK,
];
