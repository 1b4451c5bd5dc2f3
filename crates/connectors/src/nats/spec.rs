//! NATS subjects, and the streams of JetStream that keep them.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, OptionSpec, OptionStatus, Rule, Status, TEXT_OR_BYTES,
    bool, choice, list, long, text,
};

const ORDER: &str = "headwater::kit::nats::order";
const STREAM: &str = "headwater::kit::nats::restart";
const SHARED: &str = "headwater::nats::a_group_shares_the_messages";
const PLACE: &str =
    "headwater::nats::a_source_begins_where_it_is_told_and_counts_as_the_stream_does";
const LET_IN: &str = "headwater::kit::nats::login";
const TLS: &str = "headwater::kit::nats::tls";
const SILENT: &str = "headwater::nats::a_server_that_does_not_answer_is_given_up";

const COMMON: &[OptionSpec] = &[
    list("server.urls", "Servers; the first that lets us in is used.")
        .test(ORDER)
        .default("nats://localhost:4222")
        .alias(&["bootstrap.servers"]),
    text(
        "streaming.cluster.id",
        "Cluster of NATS Streaming, which is discontinued: JetStream keeps the messages, in a \
         stream that is created if none covers the subject.",
    )
    .test(STREAM)
    .alias(&["cluster.id"]),
    text(
        "client.id",
        "Name of this client; random by default. A durable name is that of its client.",
    )
    .test(STREAM),
    long(
        "ack.wait",
        "30",
        "Seconds to wait for an acknowledgement; 0: the default. A stream gives the message again, a \
         sink connects again.",
    ).at_least(0).unit("seconds")
    .test(PLACE),
    list(
        "optional.configuration",
        "Properties of the Java client, `key:value,key:value`: `io.nats.client.timeout`, \
         `io.nats.client.pinginterval` and `io.nats.client.name` are followed, others are warned of.",
    )
    .test(SILENT),
    choice(
        "auth.type",
        &["user", "token", "tls"],
        "",
        "How this client proves who it is.",
    )
    .test(LET_IN),
    text("username", "User, for auth.type 'user'.").test(LET_IN),
    text("password", "Password, for auth.type 'user'.").test(LET_IN),
    text("token", "Token, for auth.type 'token'.").test(LET_IN),
    text(
        "truststore.file",
        "Key store of the certificates to trust; that of the deployment file by default, else what \
         the system trusts.",
    )
    .test(TLS),
    text("truststore.password", "Password of the trust store.")
        .test(TLS)
        .default("wso2carbon"),
    text("truststore.algorithm", "Algorithm of the trust store.")
        .status(OptionStatus::Ignored)
        .default("SunX509"),
    text(
        "tls.store.type",
        "Type of the key stores; the form is known by the first bytes of the file.",
    )
    .status(OptionStatus::Ignored)
    .default("JKS"),
    bool(
        "client.verify",
        "false",
        "Shows the client certificate of keystore.file.",
    )
    .test(TLS),
    text("keystore.file", "Key store with the client certificate.").test(TLS),
    text("keystore.password", "Password of the key store.")
        .test(TLS)
        .default("wso2carbon"),
    text("keystore.algorithm", "Algorithm of the key store.")
        .status(OptionStatus::Ignored)
        .default("SunX509"),
];

const RULES: &[Rule] = &[
    Rule::Never {
        when: Fact::All(&[
            Fact::Is("auth.type", &["user"]),
            Fact::Any(&[Fact::Absent("username"), Fact::Absent("password")]),
        ]),
        at: &["auth.type"],
        message: "auth.type 'user' needs options 'username' and 'password'",
        help: "add both",
    },
    Rule::Never {
        when: Fact::All(&[Fact::Is("auth.type", &["token"]), Fact::Absent("token")]),
        at: &["auth.type"],
        message: "auth.type 'token' needs option 'token'",
        help: "add it",
    },
    Rule::Never {
        when: Fact::All(&[
            Fact::Is("client.verify", &["true"]),
            Fact::Absent("keystore.file"),
        ]),
        at: &["client.verify"],
        message: "option 'client.verify' needs option 'keystore.file'",
        help: "name the key store with the client certificate",
    },
];

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='nats', server.urls='nats://localhost:4222', destination='orders', @map(type='json'))
define stream Orders (id long, total double);",
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(
        &[
            text("destination", "Subject to subscribe to.")
                .test(ORDER)
                .required(),
            text(
                "queue.group.name",
                "Group that shares the messages of the subject.",
            )
            .test(SHARED),
            text(
                "durable.name",
                "Keeps the place of the subscription in the stream under this name, for one reader at \
                 a time.",
            )
            .test(STREAM),
            long(
                "subscription.sequence",
                "",
                "Number of the message of the stream to start from, the first by default; a place that \
                 was kept goes before it.",
            ).at_least(0)
            .test(PLACE),
        ],
        COMMON,
    ),
    rules: RULES,
    properties: &["sequenceNumber"],
    addresses: &[("bootstrap.servers", 4222), ("destination", 4222)],
    message_key: &["subject", "sequenceNumber"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "nats",
        "io-nats",
        "Receives the messages of a NATS subject, or of the stream that keeps it.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='nats', server.urls='nats://localhost:4222', destination='alarms.{{sensor}}', @map(type='json'))
define stream Alarms (sensor string, value double);",
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(
        &[text("destination", "Subject to publish to.")
            .test("headwater::nats::subjects_follow_from_the_event_and_each_gets_its_stream")
            .required()
            .dynamic()],
        COMMON,
    ),
    rules: RULES,
    addresses: &[("bootstrap.servers", 4222), ("destination", 4222)],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "nats",
        "io-nats",
        "Publishes payloads to a NATS subject.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
