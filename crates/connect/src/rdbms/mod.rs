//! Tables in a relational database: the embedded SQLite behind `@store(type='rdbms')`.
//!
//! Promises: a chunk is written whole or not at all; with epochs, all writes between two checkpoints
//! and the note of the second are one commit; a locked database is waited for, and said to be.
//! Conditions mean what they mean in memory. Never: a database server; their URLs are refused with
//! the way out.

mod dialect;
mod functions;
mod object;
mod rows;
pub mod sql;
pub mod sqlite;
mod table;
#[cfg(test)]
mod tests;
pub mod url;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lang::catalog::connectors::rdbms::STORE;
use lang::spec::ConnectorSpec;

use self::sqlite::Database;
use self::url::Target;
use crate::component::{Connector, Store, StoreSetup};
use crate::error::Error;

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
        let database = Arc::new(Mutex::new(Database::open(target)?));
        open.retain(|_, database| database.strong_count() > 0);
        open.insert(key, Arc::downgrade(&database));
        Ok(database)
    }
}

/// The JDBC URL of a table. Names of data sources have been replaced by what the server's
/// configuration says about them; one that is left is not there.
fn jdbc_url<'a>(
    setup: &StoreSetup<'_>,
    annotation: &'a lang::plan::Store,
) -> Result<&'a str, Error> {
    let refused =
        |message: String| Error::refused(format!("table '{}'", setup.table.schema.name), message);
    if let Some(name) = annotation.option("datasource") {
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

impl Connector for RdbmsConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        std::slice::from_ref(&STORE)
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
        let target = url::parse(url, table)
            .map_err(|error| Error::refused(format!("table '{table}'"), error.to_string()))?;
        Ok(Box::new(table::TableStore::new(
            setup,
            annotation,
            url.trim().to_owned(),
            target,
        )?))
    }
}
