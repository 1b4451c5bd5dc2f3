//! A connection to Oracle Database, by Oracle's own client library.
//!
//! That library may not be shipped with other programs, so it is looked for when a table connects;
//! a machine without it is told what to install. Rows travel in arrays, many to a call. It has not
//! been tried on a server: what is sent is in golden files, and tests here cover what works without
//! one.

use std::ops::Range;

use event::Type;
use oracle::sql_type::{OracleType, ToSql};
use oracle::{Connection, Connector, DbError, Error as Said, Row, SqlValue};

use super::dialect::{Dialect, ORACLE};
use super::link::{Append, Bound, Fault, Found, Link};
use super::rows::{Binder, Cell, Raw, read_value, too_few};
use super::server::Server;
use connect::component::Written;

/// Rows of one call at most.
const ROWS_MAX: usize = 10_000;

/// Bytes that the values of one call may take: the driver gives each row the room of the longest.
const ROOM_MAX: usize = 16 << 20;

/// Statements that stay parsed, of all tables that share the connection.
const STATEMENTS_MAX: u32 = 100;

/// A decimal point whatever the country of the database.
const SET_UP: &str = "ALTER SESSION SET NLS_NUMERIC_CHARACTERS = '.,'";

pub struct Oracle {
    server: Server,
    connection: Option<Connection>,
}

impl Oracle {
    pub fn open(server: &Server) -> Result<Oracle, Fault> {
        Ok(Oracle {
            server: server.clone(),
            connection: Some(connect(server)?),
        })
    }

    /// Runs work on the connection; one that is gone is not used again.
    fn with<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let Some(connection) = &self.connection else {
            return Err(Fault::Lost("there is no connection".into()));
        };
        let result = work(connection);
        let is_gone = match &result {
            Err(Fault::Lost(_)) => true,
            // A deadlock undoes one statement there; the others would be done twice.
            Err(Fault::Undone(_)) => connection.rollback().is_err(),
            _ => false,
        };
        if is_gone {
            self.connection = None;
        }
        result
    }

    /// Runs a statement for each of the rows, in order; how many rows it has changed.
    fn run_for_rows(
        &mut self,
        text: &str,
        places: &[&Binder<'_>],
        rows: Range<usize>,
    ) -> Result<u64, Fault> {
        let types: Vec<OracleType> = places.iter().map(|b| parameter(b, rows.clone())).collect();
        let at_once = rows_at_once(&types);
        self.with(|connection| {
            let mut changed = 0;
            for begin in rows.clone().step_by(at_once) {
                let end = rows.end.min(begin + at_once);
                let mut batch = connection.batch(text, end - begin);
                let mut batch = batch.with_batch_errors().with_row_counts().build()?;
                for (place, ty) in types.iter().enumerate() {
                    batch.set_type(place + 1, ty)?;
                }
                for row in begin..end {
                    for (place, (binder, ty)) in places.iter().zip(&types).enumerate() {
                        let value = Parameter(binder.cell(row), ty);
                        batch
                            .set(place + 1, &value)
                            .map_err(|e| Fault::from(e).at(row))?;
                    }
                    batch.append_row(&[])?;
                }
                batch.execute().map_err(|error| batch_fault(error, begin))?;
                changed += batch.row_counts()?.iter().sum::<u64>();
            }
            Ok(changed)
        })
    }

    /// Has `each` look at what the statement finds for one row of parameters, while it says so.
    fn query(
        &mut self,
        Bound { statement, binders }: Bound<'_, '_>,
        row: usize,
        mut each: impl FnMut(&Row) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        self.with(|connection| {
            let mut asked = connection.statement(&statement.text).build()?;
            for (place, index) in statement.sql.order().enumerate() {
                let ty = parameter(&binders[index], row..row + 1);
                asked.bind(place + 1, &Parameter(binders[index].cell(row), &ty))?;
            }
            for found in asked.query(&[])? {
                if !each(&found?)? {
                    break;
                }
            }
            Ok(())
        })
    }
}

impl Link for Oracle {
    fn dialect(&self) -> &'static dyn Dialect {
        ORACLE
    }

    fn reconnect(&mut self) -> Result<(), Fault> {
        self.connection = None;
        self.connection = Some(connect(&self.server)?);
        Ok(())
    }

    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        self.with(|connection| Ok(connection.execute(sql, &[]).map(drop)?))
    }

    /// A definition commits whatever is open, so it takes a connection of its own.
    fn define(&mut self, sql: &str) -> Result<(), Fault> {
        Ok(connect(&self.server)?.execute(sql, &[]).map(drop)?)
    }

    fn list(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
        self.with(|connection| {
            let texts = |row: Row| row.sql_values().iter().map(SqlValue::get).collect();
            let rows = connection.query(sql, &[])?;
            Ok(rows
                .map(|row| texts(row?))
                .collect::<Result<Vec<_>, Said>>()?)
        })
    }

    fn append(&mut self, to: &Append, binders: &[Binder<'_>], rows: usize) -> Result<(), Fault> {
        let places: Vec<&Binder<'_>> = binders.iter().collect();
        self.run_for_rows(&insert(to, binders.len()), &places, 0..rows)?;
        Ok(())
    }

    fn write(&mut self, bound: Bound<'_, '_>, rows: Range<usize>) -> Result<u64, Fault> {
        self.run_for_rows(&bound.statement.text, &in_places(bound), rows)
    }

    /// A MERGE does not say whether it has inserted: its rows count as updated.
    fn upsert(&mut self, bound: Bound<'_, '_>, rows: usize) -> Result<Written, Fault> {
        Ok(Written {
            updated: self.write(bound, 0..rows)?,
            ..Written::default()
        })
    }

    fn find(
        &mut self,
        bound: Bound<'_, '_>,
        row: usize,
        found: &mut Found<'_>,
    ) -> Result<(), Fault> {
        self.query(bound, row, |row| read_row(row, found).map(|()| true))
    }

    fn contains(&mut self, bound: Bound<'_, '_>, row: usize) -> Result<bool, Fault> {
        let mut is_found = false;
        self.query(bound, row, |_| {
            is_found = true;
            Ok(false)
        })?;
        Ok(is_found)
    }
}

fn connect(server: &Server) -> Result<Connection, Fault> {
    let connection = Connector::new(&server.user, &server.password, server.oracle_descriptor())
        .driver_name("headwater")
        .stmt_cache_size(STATEMENTS_MAX)
        .connect()?;
    connection.set_call_timeout(server.silence)?;
    connection.execute(SET_UP, &[])?;
    Ok(connection)
}

/// `INSERT INTO t (a, b) VALUES (:1, :2)`.
fn insert(to: &Append, columns: usize) -> String {
    let places: Vec<String> = (1..=columns).map(|place| format!(":{place}")).collect();
    format!("{}({})", to.head(), places.join(", "))
}

/// The binder of each place of the statement: a parameter may stand in several, and they are bound by
/// where they stand.
fn in_places<'b, 'a>(Bound { statement, binders }: Bound<'b, 'a>) -> Vec<&'b Binder<'a>> {
    let order = statement.sql.order();
    order.map(|index| &binders[index]).collect()
}

/// The type of a parameter, with room for the longest of the rows.
fn parameter(binder: &Binder<'_>, rows: Range<usize>) -> OracleType {
    let longest = || {
        let lengths = rows.map(|row| match binder.cell(row) {
            Cell::Text(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        u32::try_from(lengths.max().unwrap_or(0).max(1)).unwrap_or(u32::MAX)
    };
    match binder.ty() {
        Type::Bool | Type::Int | Type::Long => OracleType::Int64,
        Type::Float | Type::Double => OracleType::BinaryDouble,
        Type::String => OracleType::Varchar2(longest()),
        Type::Object => OracleType::Raw(longest()),
    }
}

fn rows_at_once(types: &[OracleType]) -> usize {
    let room = types.iter().map(|ty| match ty {
        OracleType::Varchar2(size) | OracleType::Raw(size) => *size as usize,
        _ => size_of::<u64>(),
    });
    (ROOM_MAX / room.sum::<usize>().max(1)).clamp(1, ROWS_MAX)
}

/// A value on its way into a statement.
struct Parameter<'a>(Cell<'a>, &'a OracleType);

impl ToSql for Parameter<'_> {
    fn oratype(&self, _: &Connection) -> oracle::Result<OracleType> {
        Ok(self.1.clone())
    }

    fn to_sql(&self, value: &mut SqlValue<'_>) -> oracle::Result<()> {
        match &self.0 {
            Cell::Null => value.set_null(),
            Cell::Bool(v) => i64::from(*v).to_sql(value),
            Cell::Int(v) => v.to_sql(value),
            Cell::Long(v) => v.to_sql(value),
            Cell::Float(v) => as_decimal(*v).to_sql(value),
            Cell::Double(v) => v.to_sql(value),
            Cell::Text(v) => v.to_sql(value),
            Cell::Bytes(v) => v.as_ref().to_sql(value),
        }
    }
}

/// The double that is written like this float: columns are decimals there, 0.1 and not
/// 0.10000000149.
fn as_decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

fn read_row(row: &Row, found: &mut Found<'_>) -> Result<(), Fault> {
    let values = row.sql_values();
    if values.len() < found.attributes.len() {
        let message = too_few(values.len(), found.attributes.len());
        return Err(Fault::refused(message));
    }
    let attributes = found.attributes.iter();
    for ((attribute, builder), value) in attributes.zip(&mut found.builders).zip(values) {
        let (text, bytes): (Option<String>, Option<Vec<u8>>);
        let raw = match value.oracle_type()? {
            OracleType::BLOB | OracleType::Raw(_) | OracleType::LongRaw => {
                bytes = value.get()?;
                bytes.as_deref().map(Raw::Bytes)
            }
            OracleType::BinaryFloat => value.get::<Option<f32>>()?.map(Raw::Float),
            OracleType::BinaryDouble => value.get::<Option<f64>>()?.map(Raw::Double),
            // Numbers as well: they may have more digits than a double.
            _ => {
                text = value.get()?;
                text.as_deref().map(Raw::Text)
            }
        };
        let raw = raw.unwrap_or(Raw::Null);
        read_value(raw, attribute, found.allows_null, builder).map_err(Fault::refused)?;
    }
    found.count += 1;
    Ok(())
}

/// The fault of the first row that was refused; the statement was run for the others, too.
fn batch_fault(error: Said, begin: usize) -> Fault {
    let rows = error.batch_errors().into_iter().flatten();
    match rows.min_by_key(|said| said.offset()) {
        Some(first) => {
            let row = begin + first.offset() as usize;
            fault(first.code(), first.to_string()).at(row)
        }
        None => error.into(),
    }
}

impl From<Said> for Fault {
    fn from(error: Said) -> Fault {
        match (error.dpi_code(), error.db_error().map(DbError::code)) {
            // ODPI-C finds no client library.
            (Some(1047), _) => Fault::refused(
                "Oracle's client library is not on this machine: install Oracle Instant Client \
                 (Basic or Basic Light) from Oracle, and name its folder in the environment variable \
                 LD_LIBRARY_PATH",
            ),
            // Not connected; a call took too long; the connection was closed.
            (Some(1010 | 1067 | 1080), _) => Fault::Lost(error.into()),
            (None, Some(code)) => fault(code, error.to_string()),
            _ => Fault::Refused(error.into()),
        }
    }
}

/// What an ORA error means for the connection and the transaction.
fn fault(code: i32, message: String) -> Fault {
    match code {
        // Killed, not logged on, starting or stopping, end of the channel, idle for too long.
        28 | 1012 | 1033 | 1034 | 1089 | 1090 | 1092 | 2396 | 2399 | 3113 | 3114 | 3135 | 3136
        // The network and the listener, which may not know the service yet.
        | 12_152 | 12_153 | 12_170 | 12_224 | 12_500 | 12_505 | 12_514 | 12_516 | 12_518..=12_520
        | 12_526..=12_528 | 12_537 | 12_541 | 12_543 | 12_545 | 12_547 | 12_560 | 12_571 => {
            Fault::Lost(message.into())
        }
        // A deadlock; a transaction that cannot be put in a row with others.
        60 | 8177 => Fault::Undone(message.into()),
        // Locked by another, too many sessions, a full disk, table space or quota, no memory, an archiver
        // that is stuck, a database that is read only.
        18 | 20 | 54 | 257 | 1536 | 1650..=1655 | 1691..=1693 | 4031 | 16_000 | 30_006 | 30_036 => {
            Fault::Passing(message.into())
        }
        _ => Fault::Refused(message.into()),
    }
}

#[cfg(test)]
mod tests;
