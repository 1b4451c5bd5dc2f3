//! HTTP as a server: the `http` source, services with their responses, and the WebSub hub.

use super::http::{CLIENT, HEADERS, LISTENER, TEXT_BYTES_OR_MAP};
use plan::spec::{
    ConnectorKind, ConnectorSpec, OptionSpec, Payload, Status, bool, list, millis, text,
};

const SOURCE_ID: OptionSpec = text(
    "source.id",
    "Joins the requests of a source with the sink of their responses.",
)
.test("headwater::http::a_service_answers_each_request_with_its_own_response")
.required();
const HUB_ID: OptionSpec = text(
    "hub.id",
    "Names the hub: a column of each subscription, so that hubs may share a table.",
)
.test("headwater::websub::what_is_published_reaches_who_has_subscribed_and_nobody_else")
.required();
const HUB_TABLE: OptionSpec = text(
    "table.name",
    "Table of the subscriptions; made where the app defines none of the name, in the `@store` of the stream if it has one.",
)
.test("headwater::websub::what_is_published_reaches_who_has_subscribed_and_nobody_else")
.required();
const CALLBACK_NETWORKS: OptionSpec = list(
    "callback.networks",
    "Networks, as `10.0.0.0/8` or `127.0.0.1`, to which callbacks may point besides public \
     addresses (an extension). Subscribers choose the callback, so loopback, private, link-local \
     and multicast addresses are not called without this option. A sink has those of its hub's \
     source in the app.",
)
.test("headwater::websub::callbacks_in_networks_of_our_own_are_not_called_unless_they_may_be");

const ANSWER_REJECTED: OptionSpec = bool(
    "answer.rejected",
    "false",
    "Answers 400 with the cause to a request of which something does not fit, although what fits is taken \
     (an extension); by default it is answered 200, as by Siddhi, and only the log and the error store have \
     the cause.",
)
.test("headwater::operate::a_client_may_hear_what_is_wrong_with_its_event");

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='http', receiver.url='http://0.0.0.0:8280/trades', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Text],
    options: plan::spec::options!(LISTENER, &[ANSWER_REJECTED]),
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
    options: plan::spec::options!(
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
            "Status of the answer (an extension).",
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
    status: Status::Runs,
    example: "@source(type='websubhub', hub.id='prices', table.name='Subscriptions', topic.list='metal,energy', receiver.url='http://0.0.0.0:8280/hub', @map(type='keyvalue', implicit.cast.enable='true'))
define stream Requests (callback string, topic string, mode string, lease_seconds long, secret string);
@sink(type='websubhub', hub.id='prices', table.name='Subscriptions', @map(type='json'))
define stream Prices (topic string, name string, price double);",
    payloads: &[Payload::Map],
    options: plan::spec::options!(
        LISTENER,
        &[
            HUB_ID,
            HUB_TABLE,
            list("topic.list", "Topics that may be subscribed to.")
                .test("headwater::websub::a_request_that_cannot_be_is_refused_and_one_that_is_not_meant_is_dropped")
                .required(),
            CALLBACK_NETWORKS,
        ],
    ),
    properties: &["*"],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "websubhub",
        "io-http",
        "Receives subscriptions to the topics of a WebSub hub, asks each subscriber whether it is \
         meant, and keeps them in a table.",
    )
};

pub const WEBSUB_SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='websubhub', hub.id='prices', table.name='Subscriptions', @map(type='json'))
define stream Prices (topic string, name string, price double);
@source(type='websubhub', hub.id='prices', table.name='Subscriptions', topic.list='metal,energy', receiver.url='http://0.0.0.0:8280/hub', @map(type='keyvalue', implicit.cast.enable='true'))
define stream Requests (callback string, topic string, mode string, lease_seconds long, secret string);",
    payloads: TEXT_BYTES_OR_MAP,
    options: plan::spec::options!(
        &[
            HUB_ID,
            HUB_TABLE,
            text(
                "topic",
                "Topic of the payload (an extension; Siddhi uses the key `topic` of the `keyvalue` \
                 mapper).",
            )
            .test("headwater::websub::what_is_published_reaches_who_has_subscribed_and_nobody_else")
            .default("{{topic}}")
            .dynamic(),
            text(
                "hub.url",
                "Address of the hub, for the header `Link` (an extension); by default that of its \
                 source in the app.",
            )
            .test("headwater::websub::what_is_published_reaches_who_has_subscribed_and_nobody_else"),
            CALLBACK_NETWORKS,
        ],
        CLIENT
    ),
    reads_table: Some("table.name"),
    identity: &["hub.id", "topic"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "websubhub",
        "io-http",
        "Posts each payload to every subscriber of its topic, signed where the subscriber gave a secret.",
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
