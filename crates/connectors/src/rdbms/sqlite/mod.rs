//! One connection to the embedded SQLite: how it is opened, and waiting for locks.
//!
//! The database is in WAL mode: readers of other processes are never in the way, and a killed
//! process leaves it whole. `synchronous` is NORMAL while every call commits by itself (a power cut
//! may take the last commits, a crash of the process none) and FULL as soon as calls are gathered
//! into epochs, of which each is one commit.

pub mod functions;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::{Null, ToSqlOutput, Value as Owned, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, Statement as Compiled};

use super::dialect::{Dialect, SQLITE};
use super::link::{Append, Bound, Fault, Found, Link};
use super::rows::{Binder, Cell, Raw, read_value};
use super::url::Target;
use connect::component::Written;
use connect::error::{Cause, Error};

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

/// Rows of one INSERT statement while many are written: fewer steps of the virtual machine.
const INSERT_ROWS: usize = 32;

/// Parameters of one statement, a limit of SQLite.
const PARAMETERS_MAX: usize = 32_766;

pub struct Sqlite {
    connection: Connection,
    name: String,
}

impl Sqlite {
    pub fn open(target: &Target, name: &str) -> Result<Sqlite, Error> {
        let connection = match target {
            Target::File(path) => open_file(path),
            _ => Connection::open_in_memory(),
        };
        let unavailable = |cause: Cause| Error::unavailable(format!("database '{name}'"), cause);
        let connection = connection.map_err(|error| unavailable(error.into()))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        functions::register(&connection).map_err(|error| unavailable(error.into()))?;
        let mut sqlite = Sqlite {
            connection,
            name: name.to_owned(),
        };
        match sqlite.set_up() {
            Ok(()) => Ok(sqlite),
            Err(Fault::Refused(cause)) => Err(Error::failed(format!("opening '{name}'"), cause)),
            Err(Fault::Passing(cause) | Fault::Lost(cause) | Fault::Undone(cause)) => {
                Err(unavailable(cause))
            }
        }
    }

    /// A database that is there, only to be looked at.
    pub fn look(path: &Path, name: &str) -> Result<Sqlite, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
        connection.busy_timeout(LOCK_WAIT_MAX).map_err(fault)?;
        Ok(Sqlite {
            connection,
            name: name.to_owned(),
        })
    }

    fn set_up(&mut self) -> Result<(), Fault> {
        self.patiently("opening", |connection| {
            connection.busy_timeout(LOCK_STEP)?;
            // A new database gets bigger pages: fewer of them while rows are appended.
            connection.pragma_update(None, "page_size", 8192)?;
            let mode: String =
                connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
            if mode != "wal" && mode != "memory" {
                tracing::warn!(
                    mode,
                    "cannot enable write-ahead logging; writes will be slower"
                );
            }
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.pragma_update(None, "cache_size", -i64::from(CACHE_KIB))?;
            connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES)?;
            connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
            connection.pragma_update(None, "temp_store", "MEMORY")
        })
    }

    /// Does work that may find the database locked, again and again, saying so, for
    /// [`LOCK_WAIT_MAX`]. SQLite does the waiting.
    fn patiently<T>(
        &mut self,
        action: &str,
        mut work: impl FnMut(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Fault> {
        let begin = Instant::now();
        let mut said = Duration::ZERO;
        loop {
            let error = match work(&mut self.connection) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let waited = begin.elapsed();
            if !is_locked(&error) || waited >= LOCK_WAIT_MAX {
                return Err(fault(error));
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
}

impl Link for Sqlite {
    fn dialect(&self) -> &'static dyn Dialect {
        SQLITE
    }

    /// A file does not go away.
    fn reconnect(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        self.patiently(sql, |connection| connection.execute_batch(sql))
    }

    fn list(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
        self.patiently("reading", |connection| {
            let mut statement = connection.prepare(sql)?;
            let width = statement.column_count();
            let mut rows = statement.query([])?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                let values = (0..width).map(|index| Ok(text(row.get_ref(index)?)));
                all.push(values.collect::<rusqlite::Result<_>>()?);
            }
            Ok(all)
        })
    }

    fn append(&mut self, to: &Append, binders: &[Binder<'_>], rows: usize) -> Result<(), Fault> {
        let width = binders.len();
        let many_rows = INSERT_ROWS.min(PARAMETERS_MAX / width.max(1)).max(1);
        let mut row = 0;
        let mut step = |count: usize, end: usize| -> Result<(), Fault> {
            let mut statement = self
                .connection
                .prepare_cached(&values(to, width, count))
                .map_err(fault)?;
            while row + count <= end {
                for slot in 0..count {
                    bind_row(&mut statement, binders, slot * width, row + slot).map_err(fault)?;
                }
                let done = statement.raw_execute().map_err(fault);
                done.map_err(|fault| if count == 1 { fault.at(row) } else { fault })?;
                row += count;
            }
            Ok(())
        };
        if rows >= many_rows {
            step(many_rows, rows)?;
        }
        step(1, rows)
    }

    fn write(&mut self, bound: Bound<'_, '_>, rows: Range<usize>) -> Result<u64, Fault> {
        let (mut compiled, binders) = compiled(&self.connection, bound)?;
        let mut count = 0;
        for row in rows {
            bind_row(&mut compiled, binders, 0, row).map_err(fault)?;
            count += compiled.raw_execute().map_err(|e| fault(e).at(row))? as u64;
        }
        Ok(count)
    }

    fn upsert(&mut self, bound: Bound<'_, '_>, rows: usize) -> Result<Written, Fault> {
        let connection = &self.connection;
        let (mut compiled, binders) = compiled(&self.connection, bound)?;
        let mut written = Written::default();
        let mut last = connection.last_insert_rowid();
        for row in 0..rows {
            bind_row(&mut compiled, binders, 0, row).map_err(fault)?;
            compiled.raw_execute().map_err(|e| fault(e).at(row))?;
            // Only an insert moves it.
            let now = connection.last_insert_rowid();
            if now == last {
                written.updated += 1;
            } else {
                written.inserted += 1;
            }
            last = now;
        }
        Ok(written)
    }

    fn find(
        &mut self,
        bound: Bound<'_, '_>,
        row: usize,
        found: &mut Found<'_>,
    ) -> Result<(), Fault> {
        let (mut compiled, binders) = compiled(&self.connection, bound)?;
        bind_row(&mut compiled, binders, 0, row).map_err(fault)?;
        let mut rows = compiled.raw_query();
        while let Some(row) = rows.next().map_err(fault)? {
            for (index, builder) in found.builders.iter_mut().enumerate() {
                let value = raw(row.get_ref(index).map_err(fault)?);
                let attribute = &found.attributes[index];
                read_value(value, attribute, found.allows_null, builder).map_err(Fault::refused)?;
            }
            found.count += 1;
        }
        Ok(())
    }

    fn contains(&mut self, bound: Bound<'_, '_>, row: usize) -> Result<bool, Fault> {
        let (mut compiled, binders) = compiled(&self.connection, bound)?;
        bind_row(&mut compiled, binders, 0, row).map_err(fault)?;
        let found = compiled.raw_query().next().map_err(fault)?.is_some();
        Ok(found)
    }

    /// SQLite undoes a transaction by itself where its disk is full.
    fn has_undone(&self) -> bool {
        self.connection.is_autocommit()
    }

    fn be_durable(&mut self) -> Result<(), Fault> {
        self.run("PRAGMA synchronous=FULL")
    }
}

/// `INSERT … VALUES` with marks for so many rows.
fn values(to: &Append, width: usize, rows: usize) -> String {
    let row = format!("({})", vec!["?"; width].join(", "));
    to.head() + &vec![row; rows].join(", ")
}

/// The statement compiled, and those parameters that it mentions.
fn compiled<'c, 'b, 'a>(
    connection: &'c Connection,
    bound: Bound<'b, 'a>,
) -> Result<(CachedStatement<'c>, &'b [Binder<'a>]), Fault> {
    let text = &bound.statement.text;
    let compiled = connection.prepare_cached(text).map_err(fault)?;
    let count = compiled.parameter_count().min(bound.binders.len());
    Ok((compiled, &bound.binders[..count]))
}

/// Binds a row to the parameters behind `offset`.
#[inline]
fn bind_row(
    statement: &mut Compiled<'_>,
    binders: &[Binder<'_>],
    offset: usize,
    row: usize,
) -> rusqlite::Result<()> {
    for (index, binder) in binders.iter().enumerate() {
        let at = offset + index + 1;
        match binder.cell(row) {
            Cell::Null => statement.raw_bind_parameter(at, Null)?,
            Cell::Bool(value) => statement.raw_bind_parameter(at, value)?,
            Cell::Int(value) => statement.raw_bind_parameter(at, value)?,
            Cell::Long(value) => statement.raw_bind_parameter(at, value)?,
            Cell::Float(value) => statement.raw_bind_parameter(at, f64::from(value))?,
            Cell::Double(value) => statement.raw_bind_parameter(at, value)?,
            Cell::Text(value) => statement.raw_bind_parameter(at, value)?,
            Cell::Bytes(value) => {
                let value = ToSqlOutput::Owned(Owned::Blob(value.into_owned()));
                statement.raw_bind_parameter(at, value)?;
            }
        }
    }
    Ok(())
}

fn raw(value: ValueRef<'_>) -> Raw<'_> {
    match value {
        ValueRef::Null => Raw::Null,
        ValueRef::Integer(value) => Raw::Integer(value),
        ValueRef::Real(value) => Raw::Double(value),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).map_or(Raw::Bytes(bytes), Raw::Text),
        ValueRef::Blob(bytes) => Raw::Bytes(bytes),
    }
}

fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(value) => Some(value.to_string()),
        ValueRef::Real(value) => Some(value.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
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

/// An error of SQLite as one of ours: worth another try, or not.
fn fault(error: rusqlite::Error) -> Fault {
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
    match is_passing {
        true => Fault::Passing(error.into()),
        false => Fault::Refused(error.into()),
    }
}
