//! RabbitMQ exchanges and queues.

use plan::spec::{
    ConnectorKind, ConnectorSpec, OptionSpec, OptionStatus, Status, TEXT_OR_BYTES, bool, choice,
    int, list, text,
};

const ORDER: &str = "headwater::kit::rabbitmq::order";
const RESTART: &str = "headwater::kit::rabbitmq::restart";
const PROPERTIES: &str = "headwater::rabbitmq::properties_and_headers_go_out_and_come_in";
const MADE: &str =
    "headwater::rabbitmq::exchanges_follow_from_the_event_and_are_made_where_they_are_not";
const QUEUES: &str = "headwater::rabbitmq::queues_are_made_as_they_are_asked_for";
const TLS_TEST: &str = "headwater::kit::rabbitmq::tls";

const URI: OptionSpec = text("uri", "The broker, `amqp://user:password@host:port/vhost`.")
    .test("headwater::kit::rabbitmq::login")
    .required();
const HEARTBEAT: OptionSpec = int(
    "heartbeat",
    "60",
    "Seconds between signs of life, at most 4 so that a silent broker is noticed; 0 for what the broker \
     proposes.",
).range(0, 65_535).unit("seconds")
.test("headwater::kit::rabbitmq::silent");
const EXCHANGE: OptionSpec = text(
    "exchange.name",
    "The exchange; created if it does not exist. Empty for the default exchange.",
)
.test(ORDER)
.required();
const EXCHANGE_TYPE: OptionSpec = choice(
    "exchange.type",
    &["direct", "fanout", "topic", "headers"],
    "direct",
    "Type of an exchange that has to be made.",
)
.test(MADE);
const EXCHANGE_DURABLE: OptionSpec = bool(
    "exchange.durable.enabled",
    "false",
    "The exchange outlives the broker.",
)
.test(RESTART);
const EXCHANGE_AUTODELETE: OptionSpec = bool(
    "exchange.autodelete.enabled",
    "false",
    "Delete the exchange when it is no longer used.",
)
.test(QUEUES);
const ROUTING_KEY: OptionSpec = text("routing.key", "Routing key.").test(MADE);
const TLS: &[OptionSpec] = &[
    bool("tls.enabled", "false", "Uses TLS.").test(TLS_TEST),
    text(
        "tls.truststore.path",
        "Key store of the certificates to trust; that of the deployment file by default, else what the \
         system trusts.",
    )
    .test(TLS_TEST),
    text("tls.truststore.password", "Password of the trust store.")
        .test(TLS_TEST)
        .default("wso2carbon"),
    text(
        "tls.truststore.type",
        "Type of the trust store; the form is known by the first bytes of the file.",
    )
    .status(OptionStatus::Ignored)
    .default("JKS"),
    text("tls.version", "TLS protocol; SSL and TLS for all that are safe.")
        .test(TLS_TEST)
        .default("SSL"),
];

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='rabbitmq', uri='amqp://guest:guest@localhost:5672', exchange.name='orders', queue.name='orders', auto.ack='false', @map(type='json'))
define stream Orders (id long, total double);",
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(
        &[
            URI,
            HEARTBEAT,
            EXCHANGE,
            EXCHANGE_TYPE,
            EXCHANGE_DURABLE,
            EXCHANGE_AUTODELETE,
            ROUTING_KEY,
            list(
                "headers",
                "What messages of a `headers` exchange must have, as `'k:v','k:v'`.",
            )
            .test(PROPERTIES),
            text(
                "queue.name",
                "The queue; created if it does not exist. Without a name the broker creates one \
                 for this connection.",
            )
            .test(QUEUES),
            bool(
                "queue.durable.enabled",
                "false",
                "The queue outlives the broker."
            )
            .test(RESTART),
            bool(
                "queue.exclusive.enabled",
                "false",
                "Only this connection uses the queue."
            )
            .test(QUEUES),
            bool(
                "queue.autodelete.enabled",
                "false",
                "Delete the queue when it is no longer used."
            )
            .test(QUEUES),
            bool(
                "auto.ack",
                "true",
                "The broker forgets a message when it has sent it; `false`: when the app has it safe.",
            )
            .test(RESTART),
            int(
                "consumer.threadpool.size",
                "1",
                "Messages handled at once; one connection keeps their order.",
            )
            .status(OptionStatus::Ignored),
        ],
        TLS,
    ),
    properties: &["*"],
    addresses: &[("uri", 5672)],
    message_key: &["routingKey", "deliveryTag", "exchange.name", "routing.key"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "rabbitmq",
        "io-rabbitmq",
        "Receives the messages of a queue that is bound to an exchange.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='rabbitmq', uri='amqp://guest:guest@localhost:5672', exchange.name='alarms', exchange.type='topic', routing.key='{{sensor}}', @map(type='json'))
define stream Alarms (sensor string, value double);",
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(
        &[
            URI,
            HEARTBEAT,
            EXCHANGE.dynamic(),
            EXCHANGE_TYPE.dynamic(),
            EXCHANGE_DURABLE.dynamic(),
            EXCHANGE_AUTODELETE.dynamic(),
            ROUTING_KEY.dynamic(),
            list("headers", "Headers, as `'k:v','k:v'`.")
                .test(PROPERTIES)
                .dynamic(),
            int(
                "delivery.mode",
                "1",
                "2: the broker keeps messages on disk."
            )
            .test(RESTART),
            text("content.type", "Type of the content.").test(PROPERTIES),
            text("content.encoding", "Encoding of the content.").test(PROPERTIES),
            text("reply.to", "Where an answer should go.").test(PROPERTIES),
            text("expiration", "Milliseconds after which a message goes.").test(PROPERTIES),
            text(
                "timestamp",
                "Day of the message, dd/MM/yyyy; the time when it is sent by default.",
            )
            .test(PROPERTIES),
            text(
                "type",
                "Type of the message: that of the annotation, which has the same name.",
            )
            .test(PROPERTIES),
            text("user.id", "User who sends; the broker checks it.").test(PROPERTIES),
            text("app.id", "App that sends.").test(PROPERTIES),
            int("priority", "0", "Priority of the message.")
                .test(PROPERTIES)
                .dynamic(),
            text("correlation.id", "Id of the request that this answers.")
                .test(PROPERTIES)
                .dynamic(),
            text("message.id", "Id of the message.")
                .test(PROPERTIES)
                .dynamic(),
        ],
        TLS,
    ),
    addresses: &[("uri", 5672)],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "rabbitmq",
        "io-rabbitmq",
        "Publishes payloads to an exchange.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
