//! NATS subjects.

use super::{bool, choice, list, long, text};
use crate::spec::{ConnectorKind, ConnectorSpec, Fact, OptionSpec, Rule};

const COMMON: &[OptionSpec] = &[
    list("server.urls", "Servers.")
        .default("nats://localhost:4222")
        .alias(&["bootstrap.servers"]),
    text(
        "streaming.cluster.id",
        "Cluster of NATS Streaming; mapped to JetStream.",
    )
    .alias(&["cluster.id"]),
    text("client.id", "Name of this client; random by default."),
    long("ack.wait", "", "Seconds to wait for an acknowledgement."),
    list("optional.configuration", "Further client properties."),
    choice(
        "auth.type",
        &["user", "token", "tls"],
        "",
        "How this client proves who it is.",
    ),
    text("username", "User, for auth.type 'user'."),
    text("password", "Password, for auth.type 'user'."),
    text("token", "Token, for auth.type 'token'."),
    text("truststore.file", "Key store of the certificates to trust."),
    text("truststore.password", "Password of the trust store.").default("wso2carbon"),
    text("truststore.algorithm", "Algorithm of the trust store.").default("SunX509"),
    text("tls.store.type", "Type of the key stores.").default("JKS"),
    bool("client.verify", "false", "Shows a client certificate."),
    text("keystore.file", "Key store with the client certificate."),
    text("keystore.password", "Password of the key store.").default("wso2carbon"),
    text("keystore.algorithm", "Algorithm of the key store.").default("SunX509"),
];

const AUTH: &[Rule] = &[
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
];

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    options: super::options!(
        &[
            text("destination", "Subject to subscribe to.").required(),
            text(
                "queue.group.name",
                "Group that shares the messages of the subject."
            ),
            text(
                "durable.name",
                "Keeps the place of the subscription under this name."
            ),
            text(
                "subscription.sequence",
                "Number of the message to start from."
            ),
        ],
        COMMON,
    ),
    rules: AUTH,
    properties: &["sequenceNumber"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "nats",
        "io-nats",
        "Receives the messages of a NATS subject.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    options: super::options!(
        &[text("destination", "Subject to publish to.")
            .required()
            .dynamic()],
        COMMON,
    ),
    rules: AUTH,
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "nats",
        "io-nats",
        "Publishes payloads to a NATS subject.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
