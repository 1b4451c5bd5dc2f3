//! Events of WSO2's products, by databridge.

use plan::spec::{ConnectorKind, ConnectorSpec, Payload, Status, choice, text};

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

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE];
