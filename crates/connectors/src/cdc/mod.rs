//! `@source(type='cdc')`: the changes of one table of a database, as maps for the mapper `keyvalue`.
//!
//! Listening reads the binary log of MySQL and MariaDB and the logical replication of PostgreSQL;
//! polling asks any database that a table can be kept in for rows beyond the last. Promises:
//! changes come in the order of the log, and a restart with state continues after the last one in
//! the state; if the server no longer has the log, that is reported with its remedy. Never: the
//! rows that a table had before the first start (Debezium reads them and Siddhi drops them).

mod binlog;
mod columns;
pub(crate) mod compressed;
mod delivery;
mod gtid;
mod polling;
mod position;
mod postgres;

#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use columns::Column as MysqlColumn;
#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use postgres::{PostgresColumn, pgoutput};

use std::sync::Arc;

use crate::spec::cdc::CONNECTORS;
use event::Value;
use plan::Transport;
use plan::spec::ConnectorSpec;

use crate::rdbms;
use crate::rdbms::link::Fault;
use crate::rdbms::server::{Login, Server, ServerKind};
use crate::rdbms::url;
use crate::rdbms::url::Target;
use connect::component::{Connector, Difference, PayloadKind, PositionText, Source, SourceSetup};
use connect::error::Error;
use connect::option::Settings;

/// `@source(type='cdc')`.
pub const CDC: CdcConnector = CdcConnector;

pub struct CdcConnector;

/// What both modes need to know.
pub(crate) struct Options {
    /// Names the source in errors.
    name: String,
    target: Target,
    /// As the app writes it, perhaps with the name of its database.
    table: String,
    transport: Transport,
}

impl Options {
    fn new(setup: &SourceSetup<'_>) -> Result<Options, Error> {
        let name = format!("source 'cdc' of stream '{}'", setup.schema.name);
        let refused = |message: String| Error::refused(name.clone(), message);
        let own = setup.transport;
        let source = own
            .option("datasource.name")
            .or_else(|| own.option("jndi.resource"));
        let option = |key: &str| match source {
            Some(source) => {
                let namespace = connect::component::DATA_SOURCES;
                setup.environment.setting(namespace, source, key)
            }
            None => own.option(if key == "jdbc.url" { "url" } else { key }),
        };
        let address = option("jdbc.url").ok_or_else(|| match source {
            Some(source) => refused(format!(
                "data source '{source}' is not in the server's configuration: pass the \
                 deployment.yaml that defines it with --config"
            )),
            None => refused("option 'url' is missing".into()),
        })?;
        let login = Login {
            user: option("username"),
            password: option("password"),
            pool: option("pool.properties"),
        };
        let target = url::parse(address, &setup.schema.name, &login)
            .map_err(|error| refused(error.to_string()))?;
        let table = own
            .option("table.name")
            .unwrap_or_default()
            .trim()
            .to_owned();
        Ok(Options {
            name,
            target,
            table,
            transport: own.clone(),
        })
    }

    fn refused(&self, message: impl Into<String>) -> Error {
        Error::refused(self.name.clone(), message)
    }

    fn failed(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::failed(format!("reading changes for {}", self.name), cause)
    }

    /// The server whose log is read.
    fn server(&self) -> Result<&Server, Error> {
        match &self.target {
            Target::Server(server) => Ok(server),
            _ => Err(self.refused("the database is not a server")),
        }
    }

    /// What the driver says went wrong.
    fn error(&self, fault: Fault) -> Error {
        match fault {
            Fault::Refused(cause) => self.failed(cause),
            Fault::Lost(cause) | Fault::Passing(cause) | Fault::Undone(cause) => {
                let name = self.target.display_name();
                Error::unavailable(format!("database '{name}'"), cause)
            }
        }
    }

    /// Can the database be reached, and is the table there?
    fn probe(&self) -> Result<Vec<Difference>, Error> {
        let Some(mut link) = rdbms::look(&self.target)? else {
            return Err(Error::unavailable(
                format!("database '{}'", self.target.display_name()),
                "it does not exist",
            ));
        };
        let query = link.dialect().columns_query(&self.table);
        let columns = link.list(&query).map_err(|fault| self.error(fault))?;
        Ok(match columns.is_empty() {
            false => Vec::new(),
            true => vec![Difference {
                message: format!("there is no table '{}' in the database", self.table),
                help: "create it, or correct option 'table.name'".into(),
            }],
        })
    }

    /// A property of Debezium's in `connector.properties`.
    fn property(&self, name: &str) -> Option<&str> {
        let all = self.transport.option("connector.properties")?;
        let mut pairs = all.split(',').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Insert,
    Update,
    Delete,
}

impl Change {
    const ALL: [Change; 3] = [Change::Insert, Change::Update, Change::Delete];

    const fn name(self) -> &'static str {
        match self {
            Change::Insert => "insert",
            Change::Update => "update",
            Change::Delete => "delete",
        }
    }

    /// `insert`, `update`, `delete`, or a list of them.
    fn list(text: &str) -> Result<Vec<Change>, String> {
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| {
                let known = Change::ALL
                    .into_iter()
                    .find(|c| c.name().eq_ignore_ascii_case(part));
                known.ok_or_else(|| {
                    format!("option 'operation' holds '{part}': write insert, update or delete")
                })
            })
            .collect()
    }
}

/// Keys of the maps for the columns of a table.
pub(crate) struct Keys {
    columns: Vec<(Value, Value)>,
    /// Several operations are reported: then every map has every key.
    is_complete: bool,
    map: Vec<(Value, Value)>,
}

impl Keys {
    fn new(names: &[Arc<str>], is_complete: bool) -> Keys {
        let key = |name: &str| (Value::str(name), Value::str(&format!("before_{name}")));
        Keys {
            columns: names.iter().map(|name| key(name)).collect(),
            is_complete,
            map: Vec::new(),
        }
    }

    /// The map of a change, as `siddhi-io-cdc` makes it: new values by the name of the column, old ones
    /// behind `before_`; with several operations what is missing has the default of its type.
    fn map(
        &mut self,
        before: Option<&[Value]>,
        after: Option<&[Value]>,
        defaults: &[Value],
    ) -> &[(Value, Value)] {
        self.map.clear();
        let all = if self.is_complete {
            Some(defaults)
        } else {
            None
        };
        for (index, (name, before_name)) in self.columns.iter().enumerate() {
            if let Some(values) = after.or(all) {
                self.map.push((name.clone(), values[index].clone()));
            }
            if let Some(values) = before.or(all) {
                self.map.push((before_name.clone(), values[index].clone()));
            }
        }
        &self.map
    }
}

const NO_LOG: &str = "only the logs of MySQL, MariaDB and PostgreSQL are listened to: use \
                      mode='polling' for other databases";

impl Connector for CdcConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        CONNECTORS
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Map]
    }

    fn position_text(&self, saved: &[u8]) -> Option<PositionText> {
        let binlog = || Some(position::Position::read(saved)?.text());
        let polled = || {
            let last = std::str::from_utf8(saved).ok()?.strip_prefix("poll 1\n")?;
            Some(vec![("last value".to_owned(), last.to_owned())])
        };
        binlog()
            .or_else(|| postgres::position_text(saved))
            .or_else(polled)
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        let options = Options::new(setup)?;
        let mode = Settings::of_source(setup.transport, CONNECTORS).text_or_default("mode");
        if mode.trim().eq_ignore_ascii_case("polling") {
            return Ok(Box::new(polling::Polling::new(options, setup.schema)?));
        }
        match &options.target {
            Target::Server(server) => match server.kind {
                ServerKind::MySql => Ok(Box::new(binlog::Binlog::new(options)?)),
                ServerKind::Postgres => Ok(Box::new(postgres::Replication::new(options)?)),
                ServerKind::SqlServer | ServerKind::Oracle => Err(options.refused(NO_LOG)),
            },
            _ => Err(options.refused(NO_LOG)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_changes() {
        let names = [Arc::from("id"), Arc::from("n")];
        let row = |id: i32, n: i32| [Value::Int(id), Value::Int(n)];
        let defaults = [Value::Int(0), Value::Int(0)];
        let check = |is_complete, before: Option<[Value; 2]>, after: Option<[Value; 2]>, expect| {
            let mut keys = Keys::new(&names, is_complete);
            let before = before.as_ref().map(<[Value; 2]>::as_slice);
            let after = after.as_ref().map(<[Value; 2]>::as_slice);
            let map = keys.map(before, after, &defaults);
            let pairs: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{}={}", event::text::to_text(k), event::text::to_text(v)))
                .collect();
            assert_eq!(pairs.join(" "), expect);
        };
        check(false, None, Some(row(1, 2)), "id=1 n=2");
        check(
            false,
            Some(row(1, 2)),
            Some(row(1, 3)),
            "id=1 before_id=1 n=3 before_n=2",
        );
        check(false, Some(row(1, 2)), None, "before_id=1 before_n=2");
        check(
            true,
            None,
            Some(row(1, 2)),
            "id=1 before_id=0 n=2 before_n=0",
        );
        check(
            true,
            Some(row(1, 2)),
            None,
            "id=0 before_id=1 n=0 before_n=2",
        );
    }

    #[test]
    fn lists_of_operations() {
        assert_eq!(
            Change::list("insert, DELETE"),
            Ok(vec![Change::Insert, Change::Delete])
        );
        assert!(Change::list("truncate").is_err());
    }
}
