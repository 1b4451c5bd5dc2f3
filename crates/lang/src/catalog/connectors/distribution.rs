//! Strategies that share the events of a sink out to several destinations.

use super::{choice, text};
use crate::spec::{ConnectorKind, ConnectorSpec, OptionSpec, Status};

const STRATEGY: OptionSpec = choice(
    "strategy",
    &["roundRobin", "broadcast", "partitioned"],
    "",
    "How events are shared out.",
)
.required();

pub const ROUND_ROBIN: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    options: &[STRATEGY],
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
        .required(),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Distribution,
        "partitioned",
        "core",
        "Payloads of one key always go to the same destination.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[ROUND_ROBIN, BROADCAST, PARTITIONED];
