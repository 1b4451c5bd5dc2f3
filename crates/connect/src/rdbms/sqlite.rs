//! One connection to a SQLite database: how it is opened, its transactions, and waiting for locks.
//!
//! The database is in WAL mode: readers of other processes are never in the way, and a killed
//! process leaves it whole. `synchronous` is NORMAL while every call commits by itself (a power cut
//! may take the last commits, a crash of the process none) and FULL as soon as calls are gathered
//! into epochs, of which each is one commit.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::functions;
use super::url::Target;
use crate::error::Error;

/// How long a call waits for a lock before it gives up; its caller tries again.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long SQLite waits by itself before we say so.
const LOCK_STEP: Duration = Duration::from_millis(500);

/// Pages kept in memory, in KiB.
const CACHE_KIB: u32 = 32 << 10;

/// Pages in the write-ahead log at which they are copied into the database.
const WAL_PAGES: u32 = 4000;

/// Statements kept compiled.
const STATEMENTS_MAX: usize = 256;

/// The table that notes epochs.
const EPOCHS: &str = "headwater_epochs";

pub struct Database {
    connection: Connection,
    name: String,
    /// Apps that keep tables here; each epoch is noted for all of them.
    apps: BTreeSet<String>,
    /// A transaction covers all calls until `commit`.
    in_epoch: bool,
    /// That transaction has been opened, by the first write.
    is_open: bool,
    /// SQLite has rolled the epoch back by itself.
    is_lost: bool,
    /// The epoch committed last by this process.
    committed: Option<u64>,
}

impl Database {
    pub fn open(target: &Target) -> Result<Database, Error> {
        let (connection, name) = match target {
            Target::Memory(name) => (Connection::open_in_memory(), format!("memory:{name}")),
            Target::File(path) => (open_file(path), path.display().to_string()),
        };
        let unavailable = |error| Error::unavailable(format!("database '{name}'"), error);
        let connection = connection.map_err(unavailable)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        functions::register(&connection).map_err(unavailable)?;
        let mut database = Database {
            connection,
            name,
            apps: BTreeSet::new(),
            in_epoch: false,
            is_open: false,
            is_lost: false,
            committed: None,
        };
        database.set_up()?;
        Ok(database)
    }

    fn set_up(&mut self) -> Result<(), Error> {
        self.patiently("opening", |connection| {
            connection.busy_timeout(LOCK_STEP)?;
            // A new database gets bigger pages: fewer of them while rows are appended.
            connection.pragma_update(None, "page_size", 8192)?;
            let mode: String =
                connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
            if mode != "wal" && mode != "memory" {
                tracing::warn!(
                    mode,
                    "the database cannot use a write-ahead log; it will be slower"
                );
            }
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.pragma_update(None, "cache_size", -i64::from(CACHE_KIB))?;
            connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES)?;
            connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
            connection.pragma_update(None, "temp_store", "MEMORY")
        })
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Names the database in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does work that may find the database locked, again and again, saying so, for
    /// [`LOCK_WAIT_MAX`]. SQLite does the waiting.
    fn patiently<T>(
        &mut self,
        action: &str,
        mut work: impl FnMut(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let begin = Instant::now();
        let mut said = Duration::ZERO;
        loop {
            let error = match work(&mut self.connection) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let waited = begin.elapsed();
            if !is_locked(&error) || waited >= LOCK_WAIT_MAX {
                return Err(self.error(action, error));
            }
            if waited >= said * 2 {
                said = waited;
                tracing::warn!(
                    database = self.name,
                    waited_ms = waited.as_millis() as u64,
                    "{action}: the database is locked by another process; waiting for it"
                );
            }
        }
    }

    /// An error of SQLite as one of ours: worth another try, or not.
    pub fn error(&self, action: &str, error: rusqlite::Error) -> Error {
        let is_passing = error.sqlite_error_code().is_some_and(|code| {
            matches!(
                code,
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::OutOfMemory
                    | ErrorCode::PermissionDenied
            )
        });
        if is_passing {
            Error::unavailable(format!("database '{}'", self.name), error)
        } else {
            Error::failed(format!("{action} in database '{}'", self.name), error)
        }
    }

    // ---- transactions ----

    /// Runs work as a transaction of its own, or as a part of the epoch that can be undone alone.
    /// `rows` of parameters: one needs no mark to go back to, since a statement that fails undoes
    /// itself.
    pub fn write<T>(
        &mut self,
        action: &str,
        rows: usize,
        work: impl FnOnce(&Connection) -> Result<T, WriteError>,
    ) -> Result<T, Error> {
        self.check_lost()?;
        let (begin, keep, undo) = match (self.in_epoch, rows) {
            (true, 0 | 1) => (None, None, None),
            (true, _) => (
                Some("SAVEPOINT part"),
                Some("RELEASE part"),
                Some("ROLLBACK TO part; RELEASE part"),
            ),
            (false, _) => (Some("BEGIN IMMEDIATE"), Some("COMMIT"), Some("ROLLBACK")),
        };
        if self.in_epoch {
            self.begin_if_needed()?;
        }
        if let Some(begin) = begin {
            self.patiently(action, |connection| connection.execute_batch(begin))?;
        }
        let result = match work(&self.connection) {
            Ok(done) => keep.map_or(Ok(()), |keep| self.run(keep)).map(|()| done),
            Err(WriteError::Sql(error)) => Err(self.error(action, error)),
            Err(WriteError::Refused(cause)) => Err(Error::failed(
                format!("{action} in database '{}'", self.name),
                cause,
            )),
        };
        if let Some(undo) = undo
            && result.is_err()
            && !self.connection.is_autocommit()
        {
            self.run(undo)?;
        }
        if self.in_epoch && self.connection.is_autocommit() {
            self.is_lost = true;
        }
        result
    }

    fn run(&self, sql: &str) -> Result<(), Error> {
        self.connection
            .execute_batch(sql)
            .map_err(|error| self.error(sql, error))
    }

    /// The writes since `begin` have been undone by SQLite itself.
    pub fn has_lost(&self) -> bool {
        self.is_lost || self.is_open && self.connection.is_autocommit()
    }

    fn check_lost(&self) -> Result<(), Error> {
        if !self.is_lost {
            return Ok(());
        }
        Err(Error::failed(
            format!("writing to database '{}'", self.name),
            "the database has undone all writes since the last checkpoint (its disk may be full): \
             free space, then start the app again, it goes on from that checkpoint",
        ))
    }

    fn begin_if_needed(&mut self) -> Result<(), Error> {
        if !self.is_open {
            self.patiently("beginning an epoch", |c| c.execute_batch("BEGIN IMMEDIATE"))?;
            self.is_open = true;
        }
        Ok(())
    }

    /// All writes from now on belong together. The lock is taken by the first of them. Every table
    /// of an app in this database says so; the first counts.
    pub fn begin(&mut self) -> Result<(), Error> {
        if !self.in_epoch {
            self.run("PRAGMA synchronous=FULL")?;
        }
        self.in_epoch = true;
        Ok(())
    }

    /// An app that keeps tables here.
    pub fn enlist(&mut self, app: &str) {
        self.apps.insert(app.to_owned());
    }

    /// Makes the writes durable with the number of the epoch, for all apps that keep tables here. A
    /// second call for the same epoch (for another table) does nothing. Epoch 0 is not noted: the
    /// writes are only gathered.
    pub fn commit(&mut self, epoch: u64, positions: &[u8]) -> Result<(), Error> {
        self.check_lost()?;
        let is_done = if epoch == 0 {
            !self.is_open
        } else {
            self.committed == Some(epoch)
        };
        if is_done {
            return Ok(());
        }
        self.begin_if_needed()?;
        if self.connection.is_autocommit() {
            self.is_lost = true;
            return self.check_lost();
        }
        let apps: Vec<String> = self.apps.iter().cloned().collect();
        self.patiently("committing", |connection| {
            if epoch > 0 {
                for app in &apps {
                    note_epoch(connection, app, epoch, positions)?;
                }
            }
            connection.execute_batch("COMMIT")
        })?;
        self.is_open = false;
        self.committed = Some(epoch);
        Ok(())
    }

    pub fn abort(&mut self) -> Result<(), Error> {
        if self.is_open && !self.connection.is_autocommit() {
            self.run("ROLLBACK")?;
        }
        (self.is_open, self.is_lost, self.in_epoch) = (false, false, false);
        Ok(())
    }

    pub fn last_epoch(&mut self, app: &str) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let found = self.patiently("reading the last epoch", |connection| {
            if !has_table(connection, EPOCHS)? {
                return Ok(None);
            }
            let mut statement = connection.prepare(&format!(
                "SELECT epoch, positions FROM {EPOCHS} WHERE app = ?1"
            ))?;
            let mut rows = statement.query([app])?;
            match rows.next()? {
                Some(row) => Ok(Some((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))),
                None => Ok(None),
            }
        })?;
        Ok(found.map(|(epoch, positions)| (epoch as u64, positions)))
    }
}

/// Why a write did not happen.
pub enum WriteError {
    Sql(rusqlite::Error),
    /// A value that the table cannot take.
    Refused(String),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> WriteError {
        WriteError::Sql(error)
    }
}

fn open_file(path: &Path) -> rusqlite::Result<Connection> {
    if let Some(parent) = path.parent() {
        // Where this fails, opening fails with the reason.
        std::fs::create_dir_all(parent).ok();
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn note_epoch(
    connection: &Connection,
    app: &str,
    epoch: u64,
    positions: &[u8],
) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS {EPOCHS} (app TEXT PRIMARY KEY, epoch INTEGER NOT NULL, \
         positions BLOB NOT NULL)"
    ))?;
    connection
        .prepare_cached(&format!(
            "REPLACE INTO {EPOCHS} (app, epoch, positions) VALUES (?1, ?2, ?3)"
        ))?
        .execute((app, epoch as i64, positions))?;
    Ok(())
}

pub fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE",
        )?
        .exists([name])
}
