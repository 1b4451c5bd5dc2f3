//! The file and its tables.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;

use super::{FILE, RegistryError};
use crate::token::{Revocation, Subject};

/// What the tables are like; a later version adds a step to [`STEPS`] and one here.
const VERSION: usize = STEPS.len();

/// What makes each version of the one before it. They are never changed.
const STEPS: [&str; 2] = ["
CREATE TABLE applications (
    name TEXT PRIMARY KEY, owner TEXT, client TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, scopes TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE plans (name TEXT PRIMARY KEY, limits TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE subscriptions (
    application TEXT NOT NULL REFERENCES applications ON DELETE CASCADE, api TEXT NOT NULL COLLATE NOCASE,
    plan TEXT NOT NULL, created INTEGER NOT NULL, PRIMARY KEY (application, api)
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    id TEXT PRIMARY KEY, application TEXT NOT NULL REFERENCES applications ON DELETE CASCADE, digest BLOB NOT NULL,
    scopes TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER, addresses TEXT NOT NULL, referrers TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE revocations (
    kind TEXT NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER, PRIMARY KEY (kind, value)
) STRICT, WITHOUT ROWID;
CREATE TABLE quotas (
    counter TEXT PRIMARY KEY, window INTEGER NOT NULL, reserved INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
", "
CREATE TABLE hub_subscriptions (
    id TEXT PRIMARY KEY, api TEXT NOT NULL, topic TEXT NOT NULL, named TEXT NOT NULL, callback TEXT NOT NULL, secret BLOB,
    digest TEXT NOT NULL, application TEXT, hub TEXT NOT NULL, ends INTEGER NOT NULL, next INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE hub_topics (
    api TEXT NOT NULL, topic TEXT NOT NULL, epoch TEXT NOT NULL, next INTEGER NOT NULL, PRIMARY KEY (api, topic)
) STRICT, WITHOUT ROWID;
CREATE TABLE hub_events (
    api TEXT NOT NULL, topic TEXT NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (api, topic, number)
) STRICT;
CREATE INDEX hub_events_at ON hub_events (at);
CREATE TABLE hub_deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, subscription TEXT NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL,
    attempt INTEGER NOT NULL, outcome TEXT NOT NULL, status INTEGER, cause TEXT
) STRICT;
CREATE INDEX hub_deliveries_of ON hub_deliveries (subscription, id);
"];

/// Opens or makes the database, for its owner alone.
pub(super) fn open(dir: Option<&Path>) -> Result<Connection, RegistryError> {
    let mut connection = match dir {
        None => Connection::open_in_memory()?,
        Some(dir) => {
            let path = dir.join(FILE);
            let failed = |cause| RegistryError::File {
                action: "open",
                path: path.display().to_string(),
                cause,
            };
            connect::folder::create(dir).map_err(failed)?;
            let mut options = File::options();
            options.create(true).truncate(false).write(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(&path).map_err(failed)?;
            Connection::open(&path)?
        }
    };
    // Files beside it get the mode of the database.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version as usize > VERSION {
        return Err(RegistryError::Refused(format!(
            "the gateway's database has version {version}, which a later Headwater has made; this one reads up to \
             {VERSION}"
        )));
    }
    let transaction = connection.transaction()?;
    for step in &STEPS[version as usize..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", VERSION as u32)?;
    transaction.commit()?;
    Ok(connection)
}

fn parts(subject: &Subject) -> (&'static str, &str) {
    match subject {
        Subject::Token(value) => ("token", value),
        Subject::ApiKey(value) => ("key", value),
        Subject::User(value) => ("user", value),
        Subject::Client(value) => ("client", value),
    }
}

pub(super) fn add_revocation(database: &Connection, one: &Revocation) -> Result<(), RegistryError> {
    let (kind, value) = parts(&one.subject);
    database.execute(
        "INSERT INTO revocations (kind, value, at, until) VALUES (?, ?, ?, ?) \
         ON CONFLICT (kind, value) DO UPDATE SET at = MAX(at, excluded.at), until = excluded.until",
        rusqlite::params![kind, value, one.at, one.until],
    )?;
    Ok(())
}

pub(super) fn revocations(database: &Connection) -> Result<Vec<Revocation>, RegistryError> {
    let mut select = database.prepare("SELECT kind, value, at, until FROM revocations")?;
    let rows = select.query_map([], |row| {
        let (kind, value): (String, String) = (row.get(0)?, row.get(1)?);
        let subject = match kind.as_str() {
            "token" => Subject::Token(value),
            "key" => Subject::ApiKey(value),
            "user" => Subject::User(value),
            _ => Subject::Client(value),
        };
        Ok(Revocation {
            subject,
            at: row.get(2)?,
            until: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
