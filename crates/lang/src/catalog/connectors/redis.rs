//! Redis as a store of tables.

use super::{bool, list, long, text};
use crate::spec::{ConnectorKind, ConnectorSpec};

pub const STORE: ConnectorSpec = ConnectorSpec {
    options: &[
        list("nodes", "Servers, `host:port@password`.").default("localhost:6379@root"),
        bool("cluster.mode", "false", "The servers are a cluster."),
        text(
            "table.name",
            "Prefix of the keys; the name of the table by default.",
        ),
        long(
            "ttl.seconds",
            "-1",
            "Seconds after which a record goes; -1: never.",
        ),
        bool(
            "ttl.on.update",
            "false",
            "An update renews the time of a record.",
        ),
        bool(
            "ttl.on.read",
            "false",
            "A read renews the time of a record.",
        ),
        text("host", "Host of the one server; older form of nodes."),
        text("port", "Port of the one server; older form of nodes."),
        text(
            "password",
            "Password of the one server; older form of nodes.",
        ),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Store,
        "redis",
        "store-redis",
        "Keeps a table in Redis: one hash for each record.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[STORE];
