//! Where the events of a pair go, and what an independent reader finds there.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::super::follower::{self, Follower};
use super::super::stub::Stub;
use super::play::Site;
use super::sql::Client;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    EventStore,
    Sqlite,
    MariaDb,
    MySql,
    Postgres,
    /// In transactions.
    Kafka,
    File,
    /// A server that refuses some requests.
    Http,
}

impl Sink {
    pub const ALL: &[Sink] = &[
        Sink::EventStore,
        Sink::Sqlite,
        Sink::MariaDb,
        Sink::MySql,
        Sink::Postgres,
        Sink::Kafka,
        Sink::File,
        Sink::Http,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Sink::EventStore => "event store",
            Sink::Sqlite => "SQLite",
            Sink::MariaDb => "MariaDB",
            Sink::MySql => "MySQL",
            Sink::Postgres => "PostgreSQL",
            Sink::Kafka => "Kafka",
            Sink::File => "file",
            Sink::Http => "HTTP",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Sink::EventStore => "a table in the event store",
            Sink::Sqlite => "a table in SQLite",
            Sink::MariaDb => "a table in MariaDB",
            Sink::MySql => "a table in MySQL",
            Sink::Postgres => "a table in PostgreSQL",
            Sink::Kafka => "`kafka` with `transactional.id`, for readers of committed records",
            Sink::File => "`file` with `on.error='WAIT'`",
            Sink::Http => "`http` with `on.error='WAIT'`, 7 % of answers 500, 3 % 429, 2 % none",
        }
    }

    /// The server that it needs.
    pub fn server(self) -> Option<&'static str> {
        match self {
            Sink::EventStore | Sink::Sqlite | Sink::File | Sink::Http => None,
            Sink::MariaDb => Some("mariadb"),
            Sink::MySql => Some("mysql"),
            Sink::Postgres => Some("postgres"),
            Sink::Kafka => Some("kafka"),
        }
    }

    /// Events that are given to the source at once: each request of an HTTP sink has one, and those that
    /// are refused are sent again after a pause.
    pub fn events_at_once(self) -> u64 {
        match self {
            Sink::Http => 5,
            _ => 50,
        }
    }

    /// The definition of the app's output, up to its name.
    pub fn text(self, site: &Site, stub: Option<&Stub>) -> String {
        let dir = site.dir.display();
        match self {
            // Rows become files, and files become larger ones, all the time.
            Sink::EventStore => {
                "@store(type='eventstore', commit.interval='100 millisec') define table seen"
                    .to_owned()
            }
            Sink::Sqlite => format!(
                "@store(type='rdbms', jdbc.url='jdbc:sqlite:{dir}/out.db') define table seen"
            ),
            Sink::MariaDb | Sink::MySql | Sink::Postgres => format!(
                "@store(type='rdbms', jdbc.url='{}') define table seen",
                site.endpoint(self.server().unwrap_or_default())
            ),
            Sink::File => format!(
                "@sink(type='file', file.uri='file:{dir}/out.csv', on.error='WAIT', @map(type='csv')) define stream seen"
            ),
            Sink::Kafka => format!(
                "@sink(type='kafka', bootstrap.servers='{}', topic='out', partition.no='0', optional.configuration='transactional.id:ledger', @map(type='csv')) define stream seen",
                site.endpoint("kafka")
            ),
            Sink::Http => format!(
                "@sink(type='http', publisher.url='http://127.0.0.1:{}/out', on.error='WAIT', max.pool.active.connections='1', @map(type='csv')) define stream seen",
                stub.map_or(0, |stub| stub.port)
            ),
        }
    }

    /// Before the first run; databases have a column that tells the order of rows.
    pub fn prepare(self, site: &Site) -> anyhow::Result<()> {
        let columns = "n bigint, k bigint, s bigint";
        let id = match self {
            Sink::MariaDb | Sink::MySql => "bigint auto_increment primary key",
            Sink::Postgres => "bigserial primary key",
            Sink::Kafka => {
                follower::make_topic(&site.endpoint("kafka"), "out", &site.dir)?;
                return Ok(());
            }
            Sink::EventStore | Sink::Sqlite | Sink::File | Sink::Http => return Ok(()),
        };
        let name = self.server().unwrap_or_default();
        let table = format!("create table seen (id {id}, {columns})");
        testservers::sql(name, site.server(name)?.port(), &table)?;
        Ok(())
    }

    pub fn reader(self, site: &Site, stub: Option<Stub>) -> anyhow::Result<Reader> {
        Ok(match self {
            Sink::EventStore => Reader::EventStore,
            Sink::Sqlite => Reader::Sqlite,
            Sink::MariaDb | Sink::MySql | Sink::Postgres => {
                let name = self.server().unwrap_or_default();
                let port = site.server(name)?.port();
                Reader::Database(name, port, Client::connect(name, port)?)
            }
            Sink::Kafka => {
                let mut client = Command::new("kcat");
                client.args(["-q", "-u", "-b", &site.endpoint("kafka"), "-C", "-t", "out"]);
                client.args(["-p", "0", "-o", "beginning", "-X", "fetch.wait.max.ms=10"]);
                client.args(["-X", "isolation.level=read_committed"]);
                Reader::Kafka(Follower::start(&mut client)?)
            }
            Sink::File => Reader::File,
            Sink::Http => Reader::Http(stub.context("it has a server to write to")?),
        })
    }
}

/// Reads what a sink has by a client that is not ours; the event store as one that has its folder alone.
pub enum Reader {
    EventStore,
    Sqlite,
    Database(&'static str, u16, Client),
    Kafka(Follower),
    File,
    Http(Stub),
}

impl Reader {
    /// What is in the sink, as a number that grows with it.
    pub fn size(&mut self, site: &Site) -> anyhow::Result<u64> {
        Ok(match self {
            Reader::EventStore => rows_of(site).map_or(0, |rows| rows.len as u64),
            Reader::Sqlite => rusqlite::Connection::open(site.dir.join("out.db"))
                .and_then(|db| {
                    db.query_row("select max(rowid) from seen", [], |row| {
                        row.get::<_, i64>(0)
                    })
                })
                .map_or(0, i64::unsigned_abs),
            Reader::Database(_, _, client) => client
                .ask("select coalesce(max(id), 0) from seen")?
                .parse()?,
            Reader::Kafka(follower) => follower.count(),
            Reader::File => fs::metadata(site.dir.join("out.csv")).map_or(0, |file| file.len()),
            Reader::Http(stub) => stub.count(),
        })
    }

    /// Lines of number, key and sum, in the order in which the sink has them.
    pub fn lines(&self, site: &Site) -> anyhow::Result<String> {
        let query = |order: &str| format!("select n, k, s from seen order by {order}");
        Ok(match self {
            Reader::EventStore => {
                let rows = rows_of(site)?;
                let lines = (0..rows.len).map(|row| {
                    let values = rows.row(row);
                    let numbers: Vec<String> = values.iter().map(event::text::to_text).collect();
                    numbers.join(",") + "\n"
                });
                lines.collect()
            }
            Reader::Sqlite => testservers::run(
                Command::new("sqlite3")
                    .arg(site.dir.join("out.db"))
                    .arg(query("rowid")),
            )?,
            Reader::Database(name, port, _) => testservers::sql(name, *port, &query("id"))?,
            Reader::Kafka(_) => testservers::run(
                Command::new("kcat")
                    .args(["-q", "-b", &site.endpoint("kafka"), "-C", "-t", "out", "-p"])
                    .args(["0", "-o", "beginning", "-e"])
                    .args(["-X", "isolation.level=read_committed"]),
            )?,
            Reader::File => fs::read_to_string(site.dir.join("out.csv"))?,
            Reader::Http(stub) => stub.lines(),
        })
    }
}

/// Where the event store of a pair is.
pub fn store_dir(site: &Site) -> PathBuf {
    site.dir.join("data")
}

/// What is committed, whether a process writes to the store or not.
fn rows_of(site: &Site) -> anyhow::Result<event::Batch> {
    Ok(store::reader::Reader::open(&store_dir(site))?.rows("seen")?)
}
