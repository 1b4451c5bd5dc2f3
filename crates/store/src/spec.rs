//! `@store(type='eventstore')`, whatever this build can run.

use plan::spec::{ConnectorKind, ConnectorSpec, OptionSpec, OptionType, Status, text};

/// How old rows get before they are in files.
pub const COMMIT_INTERVAL: &str = "commit.interval";

/// How old rows get before they go.
pub const RETENTION: &str = "retention";

/// The order of the rows inside files.
pub const CLUSTER_BY: &str = "cluster.by";

/// What is done with columns when the table is searched.
pub const SCHEMA: &str = "schema";

/// The search index has the rows, too.
pub const STORE_ROWS: &str = "store.rows";

pub const CONNECTORS: &[ConnectorSpec] = &[ConnectorSpec {
    status: Status::Runs,
    is_one_place: true,
    options: &[
        text(
            "table.name",
            "Name of the table in the event store, without case; that of the table by default. Dots become \
             underscores.",
        )
        .test("headwater::eventstore::a_table_keeps_its_rows_over_a_restart"),
        OptionSpec::new(
            COMMIT_INTERVAL,
            OptionType::Text,
            "How old rows get before they are written to files that other programs read, such as `2 sec`. \
             Queries of the app see them at once.",
        )
        .default("10 sec")
        .test("headwater::eventstore::a_table_keeps_its_rows_over_a_restart"),
        text(
            RETENTION,
            "How long rows are kept, such as `30 days`, by `_timestamp`; for ever by default. Files whose rows are \
             all older go as a whole; one that has newer rows, too, is written anew when its oldest row is a tenth \
             of this time older (a second at least, a day at most). Applies while the app runs.",
        )
        .test("headwater::upkeep::rows_older_than_their_retention_go"),
        text(
            CLUSTER_BY,
            "Attributes in whose order rows lie inside files, such as `city, house`: questions that compare \
             these read few of the rows. By default the order of insertion. For tables without a primary key, \
             whose order is that of the key. Queries give rows in the order of insertion all the same.",
        )
        .test("headwater::eventstore::rows_in_another_order_and_an_index_change_no_answer"),
        text(
            SCHEMA,
            "Columns that are searched, with flags as in WSO2 DAS: `title -i, region -i -f, price -sp`. `-i`: \
             queries may name it; `-f`: its text is a path of categories with commas between them; `-sp`: score \
             functions may name it. What was said before stays. The server has `/analytics/search`, and SQL has \
             `search('table', 'query')`.",
        )
        .test("headwater::analytics::rows_of_an_app_are_searched_before_they_are_in_files"),
        OptionSpec::new(
            STORE_ROWS,
            OptionType::Bool,
            "Keeps the rows in the search index, too, for tables whose searches ask for few rows at a time: they \
             are then not read from files. The index grows by the size of the rows.",
        )
        .default("false")
        .test("headwater::analytics::an_index_follows_the_files_of_a_table"),
    ],
    example: "@store(type='eventstore')
@PrimaryKey('symbol')
define table Latest (symbol string, price double);
define stream Trades (symbol string, price double);
from Trades update or insert into Latest on Latest.symbol == symbol;",
    ..ConnectorSpec::new(
        ConnectorKind::Store,
        "eventstore",
        "store-eventstore",
        "Keeps a table in the event store of the server, in open files: `headwater run APP --store DIR`.",
    )
}];
