//! Pairs of source and sink that are killed with -9 again and again under load, and what their promise
//! comes to. A pair is a line of [`PAIRS`]; the promises of the documentation are made from it.

mod moment;
mod play;
mod promise;
mod sink;
mod source;
mod sql;

pub use play::play;
pub use promise::{matrix, table};

use sink::Sink;
use source::Source;

pub struct Pair {
    pub name: &'static str,
    source: Source,
    sink: Sink,
}

impl Pair {
    /// A destination that takes part in checkpoints has each event once.
    fn is_exactly_once(&self) -> bool {
        !matches!(self.sink, Sink::File | Sink::Http)
    }
}

const fn pair(name: &'static str, source: Source, sink: Sink) -> Pair {
    Pair { name, source, sink }
}

pub const PAIRS: &[Pair] = &[
    pair("file -> event store", Source::File, Sink::EventStore),
    pair("file -> SQLite", Source::File, Sink::Sqlite),
    pair("file -> MariaDB", Source::File, Sink::MariaDb),
    pair("file -> PostgreSQL", Source::File, Sink::Postgres),
    pair("file -> Kafka", Source::File, Sink::Kafka),
    pair("file -> file", Source::File, Sink::File),
    pair("file -> HTTP", Source::File, Sink::Http),
    pair("folder -> event store", Source::Folder, Sink::EventStore),
    pair("folder -> SQLite", Source::Folder, Sink::Sqlite),
    pair("folder -> MariaDB", Source::Folder, Sink::MariaDb),
    pair("folder -> PostgreSQL", Source::Folder, Sink::Postgres),
    pair("Kafka -> event store", Source::Kafka, Sink::EventStore),
    pair("Kafka -> SQLite", Source::Kafka, Sink::Sqlite),
    pair("Kafka -> MariaDB", Source::Kafka, Sink::MariaDb),
    pair("Kafka -> MySQL", Source::Kafka, Sink::MySql),
    pair("Kafka -> PostgreSQL", Source::Kafka, Sink::Postgres),
    pair("Kafka -> Kafka", Source::Kafka, Sink::Kafka),
    pair("Kafka -> file", Source::Kafka, Sink::File),
    pair("Kafka -> HTTP", Source::Kafka, Sink::Http),
    pair("Kafka group -> SQLite", Source::Group, Sink::Sqlite),
    pair("Kafka group -> MariaDB", Source::Group, Sink::MariaDb),
    pair("Kafka group -> Kafka", Source::Group, Sink::Kafka),
    pair("http -> event store", Source::Http, Sink::EventStore),
    pair("http -> SQLite", Source::Http, Sink::Sqlite),
    pair("http -> MariaDB", Source::Http, Sink::MariaDb),
    pair("http -> Kafka", Source::Http, Sink::Kafka),
    pair("CDC of MariaDB -> SQLite", Source::CdcMariaDb, Sink::Sqlite),
    pair("CDC of MariaDB -> Kafka", Source::CdcMariaDb, Sink::Kafka),
    pair(
        "CDC of PostgreSQL -> SQLite",
        Source::CdcPostgres,
        Sink::Sqlite,
    ),
    pair(
        "CDC of PostgreSQL -> MariaDB",
        Source::CdcPostgres,
        Sink::MariaDb,
    ),
];
