//! Events of WSO2's products, by databridge.

use plan::spec::{ConnectorKind, ConnectorSpec, Payload, Status, bool, choice, long, text};

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='wso2event', wso2.stream.id='org.acme.trades:1.0.0', @map(type='wso2event'))
define stream Trades (meta_host string, symbol string, price double);",
    payloads: &[Payload::Bytes],
    options: &[
        text(
            "wso2.stream.id",
            "Name and version of the stream that clients publish to; the name of the stream and `1.0.0` by default.",
        )
        .test("headwater::wso2event::every_type_comes_from_the_java_agent_over_a_restart"),
        choice(
            "ack",
            &["durable", "received"],
            "durable",
            "When a bundle is answered: once the app has it safe (without --state: once it has read it), or once it \
             has read it.",
        )
        .test("headwater::wso2event::what_clients_are_answered"),
    ],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "wso2event",
        "io-wso2event",
        "Receives events that WSO2's products and their agents publish, by Thrift on port 7611 and, with TLS, where \
         they log in, on 7711, by the binary protocol on 9611 and 9711. `databridge.config` of the file given by \
         --config has `keyStoreLocation`, `keyStorePassword`, `users` and the ports.",
    )
};

const SENT: &str = "headwater::wso2event::what_a_sink_sends_comes_to_our_source";
const SPREAD: &str = "headwater::wso2event::groups_fail_over_and_balance";

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='wso2event', url='{tcp://one:7611|tcp://two:7611}', username='anna',
    password='${secret:analytics}', wso2.stream.id='org.acme.trades:1.0.0', @map(type='wso2event'))
define stream Trades (meta_host string, symbol string, price double);",
    payloads: &[Payload::Bytes],
    options: &[
        text(
            "url",
            "Where receivers take events: `tcp://host:port`, or `ssl://host:port`. `{a|b}` is a group that sends to b \
             while a is away, `{a,b}` one that sends to both in turn, in no order; of several groups with commas between \
             them each gets every event. Without braces there is one group.",
        )
        .required()
        .test(SENT)
        .test(SPREAD),
        text(
            "auth.url",
            "Where the sink logs in, with TLS, in the form of `url`: `ssl://host:port`. By default the same host and the \
             port 100 above; for `ssl://` the same port.",
        )
        .test(SENT),
        text("username", "User that logs in.").required().test(SENT),
        text("password", "Its password.").required().test(SENT),
        choice("protocol", &["thrift", "binary"], "thrift", "Protocol of the receivers.").test(SENT),
        choice(
            "mode",
            &["non-blocking", "blocking"],
            "non-blocking",
            "`blocking` waits for the answer to each message before it takes the next. In either mode the app waits \
             where receivers are slow, and no event is dropped.",
        )
        .test(SENT),
        long(
            "timeout",
            "30000",
            "Milliseconds that a receiver may take to answer; then the connection is lost and events are sent again. \
             0: the default.",
        )
        .at_least(0)
        .unit("milliseconds")
        .test(SPREAD),
        text(
            "wso2.stream.id",
            "Name and version of the stream at the receivers; the name of the stream and `1.0.0` by default. Where a \
             receiver of Thrift does not know it, the sink defines it.",
        )
        .test(SENT),
        text(
            "truststore.file",
            "Key store (JKS, PKCS12 or PEM) of the certificates to trust; by default `trustStorePath` of \
             `data.agent.config` in the deployment file, else what the system trusts.",
        )
        .test(SENT),
        text("truststore.password", "Password of `truststore.file`.").test(SENT),
        bool(
            "hostname.verification.enabled",
            "true",
            "`false` accepts a trusted certificate that names another host, as the Java agent does.",
        )
        .test(SENT),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "wso2event",
        "io-wso2event",
        "Publishes events to receivers of WSO2's products, or of Headwater, by Thrift or the binary protocol. It logs in \
         over TLS, sends bundles of up to 200 events (`batchSize` of `data.agent.config`) and waits for the answer to \
         each; a bundle that was not answered is sent again. What a receiver refuses is rejected, its neighbours go on.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
