//! Relational databases: tables, and SQL inside queries.

use event::Type;

use lang::ast::Literal;
use plan::spec::{
    Argument, ConnectorKind, ConnectorSpec, FunctionKind, FunctionSpec, OptionSpec, OptionStatus,
    Overload, Param, Rule, Status, Types, bool, pairs, text,
};

/// Databases that a table may be in.
const DATABASES: &[&str] = &[
    "jdbc:mysql:",
    "jdbc:mariadb:",
    "jdbc:postgresql:",
    "jdbc:sqlserver:",
    "jdbc:jtds:",
    "jdbc:oracle:",
    "jdbc:sqlite:",
    "jdbc:h2:",
];

/// Databases that no driver is here for.
const OTHERS: &[&str] = &["jdbc:db2:", "jdbc:derby:", "jdbc:teradata:"];

pub const STORE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    selects: true,
    options: &[
        text(
            "jdbc.url",
            "The database: MySQL, MariaDB, PostgreSQL, SQL Server and Oracle (with its client library) by their servers; `jdbc:sqlite:FILE` and the \
             URLs of H2 run inside Headwater.",
        )
        .test("connectors::rdbms::url::tests::urls_of_the_embedded_database")
        .url(DATABASES)
        .not_yet(OTHERS),
        text(
            "username",
            "User of the database; the embedded one has none.",
        )
        .test("connectors::rdbms::server::tests::the_login_may_stand_in_the_url"),
        text(
            "password",
            "Password of the user; the embedded one has none.",
        )
        .test("connectors::rdbms::server::tests::the_login_may_stand_in_the_url"),
        text(
            "jdbc.driver.name",
            "Driver class; the database follows from the URL.",
        )
        .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
        .status(OptionStatus::Ignored),
        pairs(
            "pool.properties",
            "Settings of the connection pool: `connectionTimeout` counts. The tables of a database \
             share one connection, so its size has no effect.",
        )
        .test("connectors::rdbms::server::tests::the_login_may_stand_in_the_url"),
        text(
            "jndi.resource",
            "Data source of the server configuration by its JNDI name; it wins over jdbc.url.",
        )
        .test("headwater::run::a_deployment_file_gives_refs_data_sources_and_persistence"),
        text(
            "datasource",
            "Data source of the server configuration; it wins over jdbc.url.",
        )
        .test("connectors::rdbms::tests::options_of_a_table"),
        text(
            "table.name",
            "Name of the table in the database; that of the table by default.",
        )
        .test("connectors::rdbms::tests::an_existing_table_is_used_as_it_is"),
        pairs("field.length", "Lengths of text columns, `column:length`.")
            .test("connectors::rdbms::tests::options_of_a_table"),
        text(
            "table.check.query",
            "Statement that shows whether the table exists: any error means that it does not.",
        )
        .test("connectors::rdbms::options_of_tables_on_servers"),
        bool(
            "use.collation",
            "false",
            "Adds a collation to text columns (MySQL and MariaDB: `latin1_bin`).",
        )
        .test("connectors::rdbms::options_of_tables_on_servers"),
        bool(
            "allow.null.values",
            "false",
            "Writes and reads null in columns that are not text.",
        )
        .test("connectors::rdbms::tests::null_in_conditions_is_as_in_memory"),
        OptionSpec::new(
            "isAutoCommit",
            plan::spec::OptionType::Bool,
            "No option of a store: it belongs to a data source. Each chunk is one transaction.",
        )
        .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
        .status(OptionStatus::Ignored),
    ],
    rules: &[Rule::AnyOf(&["jdbc.url", "datasource", "jndi.resource"])],
    example: "@store(type='rdbms', jdbc.url='jdbc:sqlite:trades.db')
@PrimaryKey('symbol')
define table Latest (symbol string, price double);
define stream Trades (symbol string, price double);
from Trades update or insert into Latest on Latest.symbol == symbol;",
    identity: &["jdbc.url", "datasource", "jndi.resource"],
    ..ConnectorSpec::new(
        ConnectorKind::Store,
        "rdbms",
        "store-rdbms",
        "Keeps a table in a relational database.",
    )
};

const DATASOURCE: Param = Param::new(
    "datasource.name",
    Types::STRING,
    "Data source of the server configuration.",
)
.constant();
const DEFINITION: Param = Param::new(
    "attribute.definition.list",
    Types::STRING,
    "Names and types of the result, `name type, name type`.",
)
.constant();
const QUERY: Param = Param::new(
    "query",
    Types::STRING,
    "The statement, with `?` for parameters.",
);
const PARAMETER: Param = Param::new("parameter", Types::BASIC, "Value of a `?`.");

/// `name type, name type` as attributes; what cannot be read is left out.
fn definitions(arguments: &[Argument]) -> Vec<(String, Type)> {
    let Some(Literal::String(text)) = arguments.get(1).and_then(|a| a.literal.as_ref()) else {
        return Vec::new();
    };
    text.split(',')
        .filter_map(|part| {
            let (name, ty) = part.trim().rsplit_once(char::is_whitespace)?;
            Some((name.trim().to_owned(), Type::from_name(ty)?))
        })
        .collect()
}

const fn sql(name: &'static str, summary: &'static str) -> FunctionSpec {
    FunctionSpec {
        effect: true,
        origin: "store-rdbms",
        ..FunctionSpec::new(FunctionKind::StreamProcessor, "rdbms", name, summary)
    }
}

pub const QUERY_FUNCTION: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[DATASOURCE, DEFINITION, QUERY]),
        Overload::repeating(&[DATASOURCE, DEFINITION, QUERY, PARAMETER], 1),
    ],
    adds_with: Some(definitions),
    example: "define stream Sales (id string, amount double);
from Sales#rdbms:query('SHOP', 'name string, credit double', 'SELECT name, credit FROM customers WHERE id = ?', id)
select id, name, amount, credit
insert into Checked;",
    ..sql(
        "query",
        "Runs a SELECT for each event: one event for each row found.",
    )
};

pub const CUD: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[DATASOURCE, QUERY]),
        Overload::repeating(&[DATASOURCE, QUERY, PARAMETER], 1),
    ],
    adds: &[("numRecords", Type::Int)],
    example: "define stream Sales (id string, amount double);
from Sales#rdbms:cud('SHOP', 'UPDATE customers SET credit = credit - ? WHERE id = ?', amount, id)
select id, numRecords
insert into Booked;",
    ..sql("cud", "Runs an INSERT, UPDATE or DELETE for each event.")
};

pub const PROCEDURE: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[DATASOURCE, DEFINITION, QUERY]),
        Overload::repeating(&[DATASOURCE, DEFINITION, QUERY, PARAMETER], 1),
    ],
    adds_with: Some(definitions),
    status: Status::Known,
    ..sql(
        "procedure",
        "Calls a stored procedure of Oracle for each event.",
    )
};

pub const FUNCTIONS: &[FunctionSpec] = &[QUERY_FUNCTION, CUD, PROCEDURE];

const fn row(name: &'static str, function: &'static FunctionSpec) -> ConnectorSpec {
    ConnectorSpec::of_function(ConnectorKind::StreamFunction, name, "store-rdbms", function)
}

pub const CONNECTORS: &[ConnectorSpec] = &[
    STORE,
    row("rdbms:query", &QUERY_FUNCTION),
    row("rdbms:cud", &CUD),
    row("rdbms:procedure", &PROCEDURE),
];
