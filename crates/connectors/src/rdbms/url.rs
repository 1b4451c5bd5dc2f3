//! JDBC URLs: which database an app means, and what replaces it here.
//!
//! `jdbc:sqlite:…` and the local forms of `jdbc:h2:…` run on the embedded SQLite; `jdbc:mysql:…`,
//! `jdbc:mariadb:…`, `jdbc:postgresql:…`, `jdbc:sqlserver:…` and `jdbc:jtds:…` on their servers. Every other known database gives an
//! error that says how to redirect the table; no URL is ever echoed whole, since it may hold a
//! password.

use std::path::PathBuf;

use super::dialect::{Dialect, MYSQL, ORACLE, POSTGRES, SQLITE, SQLSERVER};
use super::server::{Login, Server, ServerKind};
use connect::file_uri;

/// What a JDBC URL means.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// A SQLite file.
    File(PathBuf),
    /// A database in memory, shared by the tables of a server that name it; gone when it stops.
    Memory(String),
    Server(Box<Server>),
}

impl Target {
    pub fn dialect(&self) -> &'static dyn Dialect {
        match self {
            Target::File(_) | Target::Memory(_) => SQLITE,
            Target::Server(server) => match server.kind {
                ServerKind::MySql => MYSQL,
                ServerKind::Postgres => POSTGRES,
                ServerKind::Oracle => ORACLE,
                ServerKind::SqlServer => SQLSERVER,
            },
        }
    }

    /// How the database is called in messages: never with a password.
    pub fn display_name(&self) -> String {
        match self {
            Target::File(path) => path.display().to_string(),
            Target::Memory(name) => format!("memory:{name}"),
            Target::Server(server) => server.to_string(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UrlError {
    #[error(
        "database '{database}' does not run yet: use the embedded one, \
         --set {table}.store.jdbc.url=jdbc:sqlite:FILE"
    )]
    Known {
        database: &'static str,
        table: String,
    },
    #[error(
        "option 'jdbc.url' of table '{table}' is of an unknown kind '{kind}': it begins with \
         jdbc:mysql:, jdbc:mariadb:, jdbc:postgresql:, jdbc:sqlserver:, jdbc:jtds:, jdbc:oracle:, jdbc:h2: or \
         jdbc:sqlite:"
    )]
    Unknown { kind: String, table: String },
    #[error(
        "option 'jdbc.url' of table '{table}' does not begin with 'jdbc:': write jdbc:KIND:…, such as \
         jdbc:postgresql://HOST/DATABASE or jdbc:sqlite:FILE"
    )]
    NotJdbc { table: String },
    #[error("option 'jdbc.url' of table '{table}': {source}")]
    Path {
        table: String,
        source: file_uri::UriError,
    },
    #[error("option 'jdbc.url' of table '{table}': {cause}")]
    Server { table: String, cause: String },
}

/// First part of the URL behind `jdbc:`, and the name people know.
const KNOWN: &[(&str, &str)] = &[("db2", "DB2"), ("derby", "Derby"), ("teradata", "Teradata")];

/// Suffix of the file that stands for an H2 database, so that it never touches H2's own `.mv.db`.
const H2_SUFFIX: &str = ".sqlite";

/// `table` is named in errors only; the login is of no use to the embedded database.
pub fn parse(url: &str, table: &str, login: &Login<'_>) -> Result<Target, UrlError> {
    let url = url.trim();
    let not_jdbc = || UrlError::NotJdbc {
        table: table.to_owned(),
    };
    let (jdbc, rest) = url.split_once(':').ok_or_else(not_jdbc)?;
    if !jdbc.eq_ignore_ascii_case("jdbc") {
        return Err(not_jdbc());
    }
    let (kind, place) = rest.split_once(':').unwrap_or((rest, ""));
    match kind.to_ascii_lowercase().as_str() {
        "sqlite" => sqlite(place, table),
        "h2" => h2(place, table),
        kind @ ("mysql" | "mariadb" | "postgresql" | "sqlserver" | "jtds" | "oracle") => {
            Server::parse(kind, place, login)
                .map(|server| Target::Server(Box::new(server)))
                .map_err(|cause| UrlError::Server {
                    table: table.to_owned(),
                    cause,
                })
        }
        other => Err(match KNOWN.iter().find(|(name, _)| *name == other) {
            Some((_, database)) => UrlError::Known {
                database,
                table: table.to_owned(),
            },
            None => UrlError::Unknown {
                kind: safe_kind(other),
                table: table.to_owned(),
            },
        }),
    }
}

/// What a user may have written instead of a kind, cut so that nothing secret is shown.
fn safe_kind(kind: &str) -> String {
    kind.chars()
        .take_while(char::is_ascii_alphanumeric)
        .take(20)
        .collect()
}

/// `FILE`, `file:FILE?…`, `:memory:` and nothing (in memory), as sqlite-jdbc reads them.
fn sqlite(place: &str, table: &str) -> Result<Target, UrlError> {
    let place = place.split_once('?').map_or(place, |(path, _)| path);
    if place.is_empty() || place == ":memory:" || place == "file::memory:" {
        return Ok(Target::Memory(String::new()));
    }
    file(place, "", table)
}

/// `file:PATH`, `mem:NAME` and a bare path; settings behind `;` are H2's own.
fn h2(place: &str, table: &str) -> Result<Target, UrlError> {
    let place = place.split_once(';').map_or(place, |(path, _)| path);
    let (mode, rest) = place.split_once(':').unwrap_or(("", place));
    match mode.to_ascii_lowercase().as_str() {
        "mem" => Ok(Target::Memory(rest.to_owned())),
        "tcp" | "ssl" | "zip" => Err(UrlError::Known {
            database: "H2 server",
            table: table.to_owned(),
        }),
        "file" | "nio" | "nioMapped" | "split" | "async" => file(rest, H2_SUFFIX, table),
        _ => file(place, H2_SUFFIX, table),
    }
}

fn file(place: &str, suffix: &str, table: &str) -> Result<Target, UrlError> {
    let home = place.strip_prefix("~/").and_then(|rest| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(rest))
    });
    let mut path = match home {
        Some(path) => path,
        None => file_uri::local_path(place).map_err(|source| UrlError::Path {
            table: table.to_owned(),
            source,
        })?,
    };
    path.as_mut_os_string().push(suffix);
    Ok(Target::File(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expect: &str) {
        let target = match parse(url, "T", &Login::default()) {
            Ok(Target::File(path)) => path.display().to_string(),
            Ok(Target::Memory(name)) => format!("memory {name}"),
            Ok(Target::Server(server)) => server.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(target, expect, "{url}");
    }

    #[test]
    fn urls_of_the_embedded_database() {
        check("jdbc:sqlite:/data/x.db", "/data/x.db");
        check("JDBC:SQLITE:/data/x.db?cache=shared", "/data/x.db");
        check("jdbc:sqlite:file:/data/x.db", "/data/x.db");
        check("jdbc:sqlite::memory:", "memory ");
        check("jdbc:sqlite:", "memory ");
        check("jdbc:h2:file:/data/x;MODE=MySQL", "/data/x.sqlite");
        check("jdbc:h2:/data/x", "/data/x.sqlite");
        check("jdbc:h2:mem:test;DB_CLOSE_DELAY=-1", "memory test");
        let here = std::env::current_dir().unwrap().display().to_string();
        check("jdbc:h2:./x", &format!("{here}/x.sqlite"));
        check("jdbc:sqlite:x.db", &format!("{here}/x.db"));
    }

    #[test]
    fn other_databases_say_how_to_redirect_and_show_no_secret() {
        check(
            "jdbc:db2://h/x",
            "database 'DB2' does not run yet: use the embedded one, \
             --set T.store.jdbc.url=jdbc:sqlite:FILE",
        );
        let unknown = parse("jdbc:postgrsql://h/x", "T", &Login::default()).unwrap_err();
        let unknown = unknown.to_string();
        assert!(unknown.contains("jdbc:postgresql:"), "{unknown}");
        for url in ["jdbc:h2:tcp://h/x", "jdbc:nosuch:secret", "sqlite:x"] {
            let error = parse(url, "T", &Login::default()).unwrap_err().to_string();
            assert!(error.contains("jdbc:sqlite:"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
