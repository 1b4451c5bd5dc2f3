//! Tables in a relational database, `@store(type='rdbms')`: the embedded SQLite, MySQL, MariaDB,
//! PostgreSQL, SQL Server and Oracle.
//!
//! Promises: a chunk is written whole or not at all; with epochs, all writes between two checkpoints
//! and the note of the second are one commit; a database that is locked or gone is waited for, and said
//! to be. Conditions mean what they mean in memory. Never: a value that is stored as something else;
//! what a database cannot hold is refused by the column's name.
//!
//! A [`table`] has its [`statements`] made in the [`dialect`] of its database and has them run by a
//! [`link`], the connection; the [`database`] around the link knows transactions and epochs.

mod compare;
pub mod database;
pub mod dialect;
pub mod functions;
pub mod link;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "oracle")]
pub mod oracle;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod rows;
pub mod server;
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "sqlserver")]
pub mod sqlserver;
mod statements;
mod table;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;
pub mod text;
pub mod url;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use event::{Column, ColumnBuilder};

use crate::spec::rdbms::STORE;
use plan::spec::ConnectorSpec;

use self::database::Database;
use self::link::{Bound, Fault, Found, Link, Statement};
#[cfg(feature = "mysql")]
use self::mysql::MySql;
#[cfg(feature = "oracle")]
use self::oracle::Oracle;
#[cfg(feature = "postgres")]
use self::postgres::Postgres;
use self::server::{Login, ServerKind};
use self::sql::Sql;
#[cfg(feature = "sqlite")]
use self::sqlite::Sqlite;
#[cfg(feature = "sqlserver")]
use self::sqlserver::SqlServer;
use self::url::Target;
use connect::component::{Connector, Store, StoreSetup, TableRead};
use connect::error::Error;

/// `#rdbms:query` and `#rdbms:cud`.
pub const FUNCTIONS: functions::RdbmsFunctions = functions::RdbmsFunctions;

/// `@store(type='rdbms')`.
pub const RDBMS: RdbmsConnector = RdbmsConnector;

pub struct RdbmsConnector;

/// The databases that a server has open. Tables whose annotations call their database by the same
/// text share a connection, and so a transaction: such apps are saved together. A database in memory
/// is shared by all that name it.
#[derive(Default)]
pub struct Databases {
    open: Mutex<HashMap<(String, Target), Weak<Mutex<Database>>>>,
}

impl Databases {
    fn open(&self, address: &str, target: &Target) -> Result<Arc<Mutex<Database>>, Error> {
        let address = if matches!(target, Target::Memory(_)) {
            ""
        } else {
            address
        };
        let key = (address.to_owned(), target.clone());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = open.get(&key).and_then(Weak::upgrade) {
            return Ok(database);
        }
        let name = target.display_name();
        let mut database = Database::new(link(target)?, name);
        if let Target::Server(server) = target {
            database.watch(server)?;
        }
        let database = Arc::new(Mutex::new(database));
        open.retain(|_, database| database.strong_count() > 0);
        open.insert(key, Arc::downgrade(&database));
        Ok(database)
    }
}

/// A connection that is only to look; `None` where there is no database yet, which is made when it is
/// needed.
pub(crate) fn look(target: &Target) -> Result<Option<Box<dyn Link>>, Error> {
    match target {
        Target::Memory(_) => Ok(None),
        Target::File(path) if !path.exists() => Ok(None),
        #[cfg(feature = "sqlite")]
        Target::File(path) => {
            let name = target.display_name();
            let opened = Sqlite::look(path, &name).map_err(|fault| opening(&name, fault))?;
            Ok(Some(Box::new(opened)))
        }
        Target::Server(server) => {
            // A look is short, and nobody waits for a server that takes connections and says nothing.
            let mut server = server.clone();
            server.silence = Some(server.connect_timeout);
            link(&Target::Server(server)).map(Some)
        }
        #[allow(unreachable_patterns, reason = "a build may have all databases")]
        _ => link(target).map(Some),
    }
}

fn opening(name: &str, fault: Fault) -> Error {
    match fault {
        Fault::Refused(cause) => Error::failed(format!("connecting to database '{name}'"), cause),
        Fault::Lost(cause) | Fault::Passing(cause) | Fault::Undone(cause) => {
            Error::unavailable(format!("database '{name}'"), cause)
        }
    }
}

/// A new connection.
pub fn link(target: &Target) -> Result<Box<dyn Link>, Error> {
    let name = target.display_name();
    match target {
        #[cfg(feature = "sqlite")]
        Target::File(_) | Target::Memory(_) => Ok(Box::new(Sqlite::open(target, &name)?)),
        Target::Server(server) => match server.kind {
            #[cfg(feature = "mysql")]
            ServerKind::MySql => opened(MySql::open(server), &name),
            #[cfg(feature = "postgres")]
            ServerKind::Postgres => opened(Postgres::open(server), &name),
            #[cfg(feature = "oracle")]
            ServerKind::Oracle => opened(Oracle::open(server), &name),
            #[cfg(feature = "sqlserver")]
            ServerKind::SqlServer => opened(SqlServer::open(server), &name),
            #[allow(unreachable_patterns, reason = "a build may have all databases")]
            _ => Err(not_built(target)),
        },
        #[allow(unreachable_patterns, reason = "a build may have all databases")]
        _ => Err(not_built(target)),
    }
}

#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    feature = "oracle",
    feature = "sqlserver"
))]
fn opened<L: Link + 'static>(link: Result<L, Fault>, name: &str) -> Result<Box<dyn Link>, Error> {
    match link {
        Ok(link) => Ok(Box::new(link)),
        Err(fault) => Err(opening(name, fault)),
    }
}

/// Each kind of database is a feature of the build.
fn feature(target: &Target) -> (&'static str, bool) {
    match target {
        Target::File(_) | Target::Memory(_) => ("sqlite", cfg!(feature = "sqlite")),
        Target::Server(server) => match server.kind {
            ServerKind::MySql => ("mysql", cfg!(feature = "mysql")),
            ServerKind::Postgres => ("postgres", cfg!(feature = "postgres")),
            ServerKind::Oracle => ("oracle", cfg!(feature = "oracle")),
            ServerKind::SqlServer => ("sqlserver", cfg!(feature = "sqlserver")),
        },
    }
}

fn not_built(target: &Target) -> Error {
    let (feature, _) = feature(target);
    Error::refused(
        format!("database '{}'", target.display_name()),
        format!(
            "this build of headwater has no client of '{feature}': build with `--features {feature}` \
             or install the full binary"
        ),
    )
}

/// The JDBC URL of a table. Names of data sources have been replaced by what the server's
/// configuration says about them; one that is left is not there.
fn jdbc_url<'a>(setup: &StoreSetup<'_>, annotation: &'a plan::Store) -> Result<&'a str, Error> {
    let refused =
        |message: String| Error::refused(format!("table '{}'", setup.table.schema.name), message);
    let named = annotation.option("datasource");
    if let Some(name) = named.or_else(|| annotation.option("jndi.resource")) {
        return Err(refused(format!(
            "data source '{name}' is not in the server's configuration: add it there, or use \
             option 'jdbc.url'"
        )));
    }
    annotation.option("jdbc.url").ok_or_else(|| {
        refused(
            "store 'rdbms' has no option 'jdbc.url': add one, for instance 'jdbc:sqlite:data.db'"
                .into(),
        )
    })
}

/// Reads on a connection of its own, which makes and changes nothing.
fn read_table(read: &TableRead<'_>) -> Result<Vec<Column>, Error> {
    let refused = |message: String| Error::refused(format!("table '{}'", read.table), message);
    let login = Login {
        user: read.username,
        password: read.password,
        pool: None,
    };
    let target =
        url::parse(read.jdbc_url, read.table, &login).map_err(|e| refused(e.to_string()))?;
    if !feature(&target).1 {
        return Err(not_built(&target));
    }
    let name = target.display_name();
    let mut link =
        look(&target)?.ok_or_else(|| refused(format!("there is no database '{name}'")))?;
    let dialect = link.dialect();
    let columns: Vec<String> = read
        .columns
        .iter()
        .map(|c| dialect.column(&c.name))
        .collect();
    let mut text = format!(
        "SELECT {} FROM {}",
        columns.join(", "),
        dialect.table(read.table)
    );
    text += &match read.order {
        Some((at, least, greatest)) => {
            let column = &columns[at];
            format!(" WHERE {column} >= {least} AND {column} <= {greatest} ORDER BY {column}")
        }
        None => dialect.any_order().to_owned(),
    };
    text += &dialect.limit(read.rows_max);
    let statement = Statement::new(Sql::text(&text), dialect);
    let mut found = Found::new(read.columns, true);
    link.find(Bound::new(&statement, &[]), 0, &mut found)
        .map_err(|fault| match fault {
            Fault::Refused(cause) => {
                Error::failed(format!("reading table '{}'", read.table), cause)
            }
            other => opening(&name, other),
        })?;
    Ok(found
        .builders
        .into_iter()
        .map(ColumnBuilder::finish)
        .collect())
}

impl Connector for RdbmsConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        std::slice::from_ref(&STORE)
    }

    fn read_table(&self, read: &TableRead<'_>) -> Option<Result<Vec<Column>, Error>> {
        Some(self::read_table(read))
    }

    fn store(&self, setup: &StoreSetup<'_>) -> Result<Box<dyn Store>, Error> {
        let table = &setup.table.schema.name;
        let Some(annotation) = &setup.table.store else {
            return Err(Error::refused(
                format!("table '{table}'"),
                "it is kept in memory",
            ));
        };
        let url = jdbc_url(setup, annotation)?;
        let login = Login {
            user: annotation.option("username"),
            password: annotation.option("password"),
            pool: annotation.option("pool.properties"),
        };
        let target = url::parse(url, table, &login)
            .map_err(|error| Error::refused(format!("table '{table}'"), error.to_string()))?;
        if !feature(&target).1 {
            return Err(not_built(&target));
        }
        Ok(Box::new(table::TableStore::new(
            setup,
            annotation,
            url.trim().to_owned(),
            target,
        )?))
    }
}
