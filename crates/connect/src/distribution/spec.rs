//! Strategies that share the events of a sink out to several destinations.

use plan::spec::{ConnectorKind, ConnectorSpec, OptionSpec, Status, choice, text};

const STRATEGY: OptionSpec = choice(
    "strategy",
    &["roundRobin", "broadcast", "partitioned"],
    "",
    "How events are shared out.",
)
.required()
.test(SHOWN_BY);

const SHOWN_BY: &str = "connect::distribution::tests::each_destination_gets_its_share";

pub const ROUND_ROBIN: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    options: &[STRATEGY],
    example: "@sink(type='inMemory', @map(type='passThrough'),
    @distribution(strategy='roundRobin', @destination(topic='one'), @destination(topic='two')))
define stream Out (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::Distribution,
        "roundRobin",
        "core",
        "Each payload goes to the next destination.",
    )
};

pub const BROADCAST: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    options: &[STRATEGY],
    example: "@sink(type='inMemory', @map(type='passThrough'),
    @distribution(strategy='broadcast', @destination(topic='one'), @destination(topic='two')))
define stream Out (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::Distribution,
        "broadcast",
        "core",
        "Each payload goes to every destination.",
    )
};

pub const PARTITIONED: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    options: &[
        STRATEGY,
        text(
            "partitionKey",
            "Attribute whose value chooses the destination.",
        )
        .required()
        .test(SHOWN_BY),
    ],
    example: "@sink(type='inMemory', @map(type='passThrough'),
    @distribution(strategy='partitioned', partitionKey='symbol', @destination(topic='one'), @destination(topic='two')))
define stream Out (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::Distribution,
        "partitioned",
        "core",
        "Payloads of one key always go to the same destination.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[ROUND_ROBIN, BROADCAST, PARTITIONED];
