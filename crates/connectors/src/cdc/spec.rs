//! Change data capture: rows of a database table as they change.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, OptionSpec, OptionStatus, OptionType, Payload, Rule,
    Status, bool, choice, int, list, pairs, text,
};

const POLLING: Fact = Fact::Is("mode", &["polling"]);
const LISTENING: Fact = Fact::Is("mode", &["listening"]);

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    probes: true,
    probe_unless: &["datasource.name", "jndi.resource"],
    payloads: &[Payload::Map],
    options: &[
        text(
            "url",
            "JDBC URL of the database: MySQL, MariaDB and PostgreSQL in listening mode. If MySQL \
             (`gtid_mode=ON`) or MariaDB uses GTIDs, reading resumes by GTID, also after a \
             failover to a replica; otherwise by file and offset of the log.",
        )
            .test("connectors::cdc::changes_of_mariadb_arrive_in_order_and_once"),
        choice(
            "mode",
            &["listening", "polling"],
            "listening",
            "Reads the log of the database, or asks the table again and again.",
        )
        .test("connectors::cdc::rows_beyond_the_last_are_polled_from_every_database"),
        text("username", "User of the database.").test("connectors::cdc::changes_of_mariadb_arrive_in_order_and_once"),
        text("password", "Password of the user.").test("connectors::cdc::changes_of_mariadb_arrive_in_order_and_once"),
        text("table.name", "The table; `schema.table` for PostgreSQL.")
            .required()
            .test("connectors::cdc::changes_of_mariadb_arrive_in_order_and_once"),
        list(
            "operation",
            "Changes to report: insert, update, delete, or several of them.",
        )
        .test("connectors::cdc::changes_of_mariadb_arrive_in_order_and_once"),
        text("jdbc.driver.name", "Driver class, for polling; the database follows from the URL.")
            .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
            .status(OptionStatus::Ignored),
        pairs(
            "pool.properties",
            "Settings of the connection pool, for polling: `connectionTimeout` counts.",
        )
        .test("connectors::rdbms::server::tests::the_login_may_stand_in_the_url"),
        text(
            "datasource.name",
            "Data source of the server configuration.",
        )
        .test("connectors::cdc::a_data_source_stands_for_the_login"),
        text("jndi.resource", "Data source of the server configuration by its JNDI name.")
            .test("connectors::cdc::a_data_source_stands_for_the_login"),
        text("polling.column", "Column that only grows, for polling.").test("connectors::cdc::rows_beyond_the_last_are_polled_from_every_database"),
        int("polling.interval", "1", "Seconds between two questions.").at_least(0).unit("seconds").test("connectors::cdc::rows_beyond_the_last_are_polled_from_every_database"),
        OptionSpec::new(
            "cron.expression",
            OptionType::Cron,
            "Asks at these times instead of an interval.",
        )
        .test("connectors::cdc::a_table_is_asked_at_the_times_of_an_expression"),
        bool(
            "wait.on.missed.record",
            "false",
            "Waits until gaps in the column are filled.",
        )
        .test("connectors::cdc::a_gap_is_waited_for"),
        int(
            "missed.record.waiting.timeout",
            "-1",
            "Seconds to wait for a missing number; -1: for ever.",
        ).unit("seconds")
        .test("connectors::cdc::a_gap_is_waited_for"),
        int(
            "polling.history.size",
            "10",
            "Questions kept for the metrics.",
        ).unit("questions")
        .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
        .status(OptionStatus::Ignored),
        text(
            "connector.properties",
            "Properties of Debezium, `key=value` with commas between. For PostgreSQL `slot.name` \
             (`debezium`), `slot.drop.on.stop`, `publication.name` (`dbz_publication`) and \
             `publication.autocreate.mode` are used; the others are ignored.",
        )
        .test("connectors::cdc::publications_of_postgres_are_made_as_debezium_makes_them"),
        text(
            "database.server.id",
            "Replica id for MySQL; by default one from 5400 to 6400.",
        )
        .test("connectors::cdc::a_log_that_is_gone_is_said_with_its_remedy"),
        text("topic.prefix", "Logical name.")
            .default("{host}_{port}")
            .alias(&["database.server.name"])
            .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
            .status(OptionStatus::Ignored),
        choice(
            "plugin.name",
            &["decoderbufs", "pgoutput", "wal2json"],
            "decoderbufs",
            "Decoder of the PostgreSQL log: always `pgoutput`, which every server has.",
        )
        .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
        .status(OptionStatus::Ignored),
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
    example: "@source(type='cdc', url='jdbc:mysql://localhost:3306/shop', username='reader', password='x',
    table.name='sales', operation='insert', @map(type='keyvalue'))
define stream Sales (id int, amount double);
from Sales select id, amount insert into Out;",
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "cdc",
        "io-cdc",
        "Delivers the inserts, updates and deletes of a database table.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE];
