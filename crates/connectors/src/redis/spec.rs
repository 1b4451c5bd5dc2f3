//! Redis as a store of tables.

use plan::spec::{ConnectorKind, ConnectorSpec, Status, bool, int, list, long, text};

const RECORDS: &str = "headwater::redis::records_lie_as_siddhi_has_them_and_every_condition_works";
const TTL: &str = "headwater::redis::records_go_when_their_time_is_over";
const LOGIN: &str = "headwater::redis::only_who_has_the_password_is_let_in";

pub const STORE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@store(type='redis', nodes='localhost:6379@secret')
@PrimaryKey('symbol') @Index('price')
define table Stocks (symbol string, price int);",
    options: &[
        list("nodes", "The server, `host:port@password`.")
            .test(RECORDS)
            .default("localhost:6379@root"),
        bool(
            "cluster.mode",
            "false",
            "The servers are a cluster: refused.",
        )
        .test(LOGIN),
        text(
            "table.name",
            "Prefix of the keys; the name of the table by default.",
        )
        .test(RECORDS),
        long(
            "ttl.seconds",
            "-1",
            "Seconds after which a record goes; -1: never.",
        )
        .at_least(1)
        .or(-1)
        .unit("seconds")
        .test(TTL),
        bool(
            "ttl.on.update",
            "false",
            "An update renews the time of a record.",
        )
        .test(TTL),
        bool(
            "ttl.on.read",
            "false",
            "A read renews the time of a record.",
        )
        .test(TTL),
        text("host", "Host of the server; goes before that of nodes.").test(LOGIN),
        int("port", "", "Port of the server; goes before that of nodes.")
            .range(0, 65_535)
            .test(LOGIN),
        text(
            "password",
            "Password at the server; goes before that of nodes.",
        )
        .test(LOGIN),
    ],
    identity: &["nodes"],
    ..ConnectorSpec::new(
        ConnectorKind::Store,
        "redis",
        "store-redis",
        "Keeps a table in Redis: one hash for each record.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[STORE];
