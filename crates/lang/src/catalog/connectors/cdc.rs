//! Change data capture: rows of a database table as they change.

use super::{bool, choice, int, list, pairs, text};
use crate::spec::{ConnectorKind, ConnectorSpec, Fact, OptionSpec, OptionType, Payload, Rule};

const POLLING: Fact = Fact::Is("mode", &["polling"]);
const LISTENING: Fact = Fact::Is("mode", &["listening"]);

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Map],
    options: &[
        text("url", "JDBC URL of the database."),
        choice(
            "mode",
            &["listening", "polling"],
            "listening",
            "Reads the log of the database, or asks the table again and again.",
        ),
        text("username", "User of the database."),
        text("password", "Password of the user."),
        text("table.name", "The table; `schema.table` for PostgreSQL.").required(),
        list(
            "operation",
            "Changes to report: insert, update, delete, or several of them.",
        ),
        text("jdbc.driver.name", "Driver class, for polling."),
        pairs(
            "pool.properties",
            "Settings of the connection pool, for polling.",
        ),
        text(
            "datasource.name",
            "Data source of the server configuration, for polling.",
        ),
        text("jndi.resource", "Named data source, for polling."),
        text("polling.column", "Column that only grows, for polling."),
        int("polling.interval", "1", "Seconds between two questions."),
        OptionSpec::new(
            "cron.expression",
            OptionType::Cron,
            "Asks at these times instead of an interval.",
        ),
        bool(
            "wait.on.missed.record",
            "false",
            "Waits until gaps in the column are filled.",
        ),
        int(
            "missed.record.waiting.timeout",
            "-1",
            "Seconds to wait for a missing number; -1: for ever.",
        ),
        int(
            "polling.history.size",
            "10",
            "Questions kept for the metrics.",
        ),
        text(
            "connector.properties",
            "Properties of the capture, `k=v,k=v`; they win.",
        ),
        text(
            "database.server.id",
            "Replica id for MySQL; random from 5400 to 6400.",
        ),
        text("topic.prefix", "Logical name.")
            .default("{host}_{port}")
            .alias(&["database.server.name"]),
        choice(
            "plugin.name",
            &["decoderbufs", "pgoutput", "wal2json"],
            "decoderbufs",
            "Decoder of the PostgreSQL log.",
        ),
    ],
    rules: &[
        Rule::AnyOf(&["url", "datasource.name", "jndi.resource"]),
        Rule::Never {
            when: Fact::All(&[LISTENING, Fact::Absent("operation")]),
            at: &["mode"],
            message: "source 'cdc' needs option 'operation' in listening mode",
            help: "add operation='insert', 'update', 'delete' or a list of them",
        },
        Rule::Never {
            when: Fact::All(&[POLLING, Fact::Absent("polling.column")]),
            at: &["mode"],
            message: "source 'cdc' needs option 'polling.column' in polling mode",
            help: "name a column whose value only grows",
        },
        Rule::Never {
            when: Fact::All(&[
                POLLING,
                Fact::Absent("jdbc.driver.name"),
                Fact::Absent("datasource.name"),
                Fact::Absent("jndi.resource"),
            ]),
            at: &["mode"],
            message: "source 'cdc' needs option 'jdbc.driver.name' in polling mode",
            help: "add the driver class, or name a data source with datasource.name",
        },
        Rule::Never {
            when: Fact::All(&[
                Fact::Given("cron.expression"),
                Fact::Is("wait.on.missed.record", &["true"]),
            ]),
            at: &["cron.expression"],
            message: "options 'cron.expression' and 'wait.on.missed.record' exclude each other",
            help: "keep one of them",
        },
    ],
    properties: &["*"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "cdc",
        "io-cdc",
        "Delivers the inserts, updates and deletes of a database table.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE];
