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
use crate::component::{Connector, Environment, Store, StoreSetup};
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

/// The JDBC URL of a table: that of its data source, where it names one.
fn jdbc_url(setup: &StoreSetup<'_>, annotation: &lang::plan::Store) -> Result<String, Error> {
    let table = &setup.table.schema.name;
    let Some(datasource) = annotation.option("datasource") else {
        return annotation.option("jdbc.url").map(str::to_owned).ok_or_else(|| {
            Error::refused(
                format!("table '{table}'"),
                "store 'rdbms' has no option 'jdbc.url': add one, for instance 'jdbc:sqlite:data.db'",
            )
        });
    };
    datasource_url(setup.environment, datasource).ok_or_else(|| {
        Error::refused(
            format!("table '{table}'"),
            format!(
                "data source '{datasource}' is not in the server's configuration: add it there, or \
                 use option 'jdbc.url'"
            ),
        )
    })
}

/// Data sources of the deployment file are settings of namespace `datasource`, by name.
fn datasource_url(environment: &Environment, name: &str) -> Option<String> {
    let is_url = |key: &str| key.eq_ignore_ascii_case("jdbcUrl") || key == "jdbc.url";
    environment
        .settings
        .iter()
        .find(|s| s.namespace == "datasource" && s.name == name && is_url(&s.key))
        .map(|setting| setting.value.clone())
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
        let target = url::parse(&url, table)
            .map_err(|error| Error::refused(format!("table '{table}'"), error.to_string()))?;
        Ok(Box::new(table::TableStore::new(
            setup,
            annotation,
            url.trim().to_owned(),
            target,
        )?))
    }
}
