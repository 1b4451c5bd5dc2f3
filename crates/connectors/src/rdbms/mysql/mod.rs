//! A connection to MySQL or MariaDB.
//!
//! Rows are appended by `LOAD DATA` from memory where the server allows it and the rows are many, else
//! by INSERT statements of many rows. `LOAD DATA` only warns of what it cannot store: a warning undoes
//! it, and the INSERT that follows says what is wrong. Other writes are sent many statements at a time,
//! with their values written out; only queries are prepared, since the binary protocol alone gives
//! FLOAT columns without loss.

use std::error::Error as _;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql::consts::{CapabilityFlags, ColumnFlags};
use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, OptsBuilder, Params, SslOpts, Value};

use super::dialect::mysql_literal as literal;
use super::dialect::{Dialect, MYSQL};
use super::link::{Append, Bound, Fault, Found, Link};
use super::rows::{Binder, Cell, Raw, read_value, too_few};
use super::server::{SILENCE_MAX, Server, Tls};
use connect::component::Written;
use connect::error::{Cause, unanswered};

/// Rows from which on `LOAD DATA` is worth its two round trips.
const LOAD_ROWS: usize = 16;

/// Bytes of one statement, or of many that are sent at once.
const STATEMENT_BYTES: usize = 512 << 10;

/// Statements sent at once.
const STATEMENTS_MAX: usize = 500;

/// Statements kept prepared.
const PREPARED_MAX: usize = 256;

/// What a connection must know before anything else: values are stored as they are or refused, and
/// the backslash escapes.
const SET_UP: [&str; 3] = [
    "SET NAMES utf8mb4",
    // Each statement sees what others have committed, as if each had a transaction of its own.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1",
];

pub struct MySql {
    server: Server,
    connection: Option<Conn>,
    /// The server takes `LOAD DATA LOCAL`, as far as is known.
    may_load: bool,
    /// What `LOAD DATA` is given next.
    load: Arc<Mutex<String>>,
    text: String,
}

impl MySql {
    pub fn open(server: &Server) -> Result<MySql, Fault> {
        let mut opened = MySql {
            server: server.clone(),
            connection: None,
            may_load: true,
            load: Arc::default(),
            text: String::new(),
        };
        opened.reconnect()?;
        Ok(opened)
    }

    /// Runs work on the connection; one that is gone is not used again.
    fn with<T>(&mut self, work: impl FnOnce(&mut Conn) -> mysql::Result<T>) -> Result<T, Fault> {
        let Some(connection) = &mut self.connection else {
            return Err(Fault::Lost("there is no connection".into()));
        };
        let result = work(connection).map_err(fault);
        if matches!(result, Err(Fault::Lost(_))) {
            self.connection = None;
        }
        result
    }

    /// `LOAD DATA` from memory; false where it stored something else than it was given, which has been
    /// undone.
    fn load(&mut self, to: &Append, binders: &[Binder<'_>], rows: usize) -> Result<bool, Fault> {
        {
            let mut text = self.load.lock().unwrap_or_else(PoisonError::into_inner);
            text.clear();
            for row in 0..rows {
                for (index, binder) in binders.iter().enumerate() {
                    if index > 0 {
                        text.push('\t');
                    }
                    literal::field(&binder.cell(row), &mut text);
                }
                text.push('\n');
            }
        }
        let sql = load_statement(to, binders);
        self.run("SAVEPOINT load_data")?;
        let loaded = self.with(|connection| {
            connection.query_drop(&sql)?;
            Ok((connection.affected_rows(), connection.warnings()))
        });
        match loaded {
            Ok((count, 0)) if count == rows as u64 => return Ok(true),
            Ok(_) => {}
            Err(Fault::Refused(cause)) => {
                // Neither the reason nor the text of it is the same everywhere; INSERT will tell.
                tracing::debug!(cause, "server refused LOAD DATA; using INSERT instead");
                self.may_load = !is_load_forbidden(&cause);
            }
            Err(other) => return Err(other),
        }
        self.run("ROLLBACK TO SAVEPOINT load_data")?;
        Ok(false)
    }

    /// INSERT statements of many rows, as long as a packet may be.
    fn insert(&mut self, to: &Append, binders: &[Binder<'_>], rows: usize) -> Result<(), Fault> {
        let head = to.head();
        let mut text = std::mem::take(&mut self.text);
        let mut row = 0;
        let mut result = Ok(());
        while row < rows && result.is_ok() {
            let begin = row;
            text.clear();
            text.push_str(&head);
            while row < rows && (row == begin || text.len() < STATEMENT_BYTES) {
                text.push_str(if row == begin { "(" } else { ", (" });
                values(binders, row, &mut text);
                text.push(')');
                row += 1;
            }
            result = self.with(|connection| connection.query_drop(&text));
            if row - begin == 1 {
                result = result.map_err(|fault| fault.at(begin));
            }
        }
        self.text = text;
        result
    }

    /// Sends the statement for each row, many at a time; `each` gets the rows changed by each.
    fn send(
        &mut self,
        bound: Bound<'_, '_>,
        rows: Range<usize>,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Fault> {
        let mut text = std::mem::take(&mut self.text);
        let mut row = rows.start;
        let mut result = Ok(());
        while row < rows.end && result.is_ok() {
            let begin = row;
            text.clear();
            while row < rows.end
                && (row == begin || text.len() < STATEMENT_BYTES && row - begin < STATEMENTS_MAX)
            {
                if row > begin {
                    text.push_str(";\n");
                }
                written_out(bound, row, &mut text);
                row += 1;
            }
            let mut done = 0;
            result = self
                .with(|connection| {
                    let mut results = connection.query_iter(&text)?;
                    while let Some(set) = results.iter() {
                        let changed = set.affected_rows();
                        for answer in set {
                            answer?;
                        }
                        each(changed);
                        done += 1;
                    }
                    Ok(())
                })
                .map_err(|fault| fault.at(begin + done));
        }
        self.text = text;
        result
    }

    /// Upserts that take all they set from the row: many rows in one statement. The server says how
    /// many of them were there already.
    fn upsert_many(&mut self, bound: Bound<'_, '_>, rows: usize) -> Result<Written, Fault> {
        let Bound { statement, binders } = bound;
        let parts: Vec<&str> = statement.sql.parts().collect();
        let (head, tail) = (parts[0], parts[parts.len() - 1]);
        let mut text = std::mem::take(&mut self.text);
        let mut written = Written::default();
        let mut row = 0;
        let mut result = Ok(());
        while row < rows && result.is_ok() {
            let begin = row;
            text.clear();
            text.push_str(head);
            while row < rows && (row == begin || text.len() < STATEMENT_BYTES) {
                if row > begin {
                    text.push_str("), (");
                }
                let width = parts.len() - 1;
                values(&binders[..width], row, &mut text);
                row += 1;
            }
            text.push_str(tail);
            result = self
                .with(|connection| {
                    connection.query_drop(&text)?;
                    let count = (row - begin) as u64;
                    let updated = match duplicates(&connection.info_str()) {
                        Some(duplicates) => duplicates.min(count),
                        // One row: 1 is one that is new (or was the same already), 2 is a changed one.
                        None => u64::from(connection.affected_rows() != 1),
                    };
                    written.updated += updated;
                    written.inserted += count - updated;
                    Ok(())
                })
                .map_err(|fault| {
                    if row - begin == 1 {
                        fault.at(begin)
                    } else {
                        fault
                    }
                });
        }
        self.text = text;
        result.map(|()| written)
    }
}

impl Link for MySql {
    fn dialect(&self) -> &'static dyn Dialect {
        MYSQL
    }

    fn reconnect(&mut self) -> Result<(), Fault> {
        self.connection = None;
        let mut connection = connect(&self.server)?;
        let load = Arc::clone(&self.load);
        connection.set_local_infile_handler(Some(LocalInfileHandler::new(move |_, writer| {
            let text = load.lock().unwrap_or_else(PoisonError::into_inner);
            writer.write_all(text.as_bytes())
        })));
        self.connection = Some(connection);
        Ok(())
    }

    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        self.with(|connection| connection.query_drop(sql))
    }

    /// A definition commits whatever is open, so it takes a connection of its own.
    fn define(&mut self, sql: &str) -> Result<(), Fault> {
        connect(&self.server)?.query_drop(sql).map_err(fault)
    }

    fn list(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
        self.with(|connection| {
            let rows: Vec<mysql::Row> = connection.query(sql)?;
            let text = |value: Value| match value {
                Value::NULL => None,
                Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
                other => Some(other.as_sql(true)),
            };
            Ok(rows
                .into_iter()
                .map(|row| row.unwrap().into_iter().map(text).collect())
                .collect())
        })
    }

    fn append(&mut self, to: &Append, binders: &[Binder<'_>], rows: usize) -> Result<(), Fault> {
        if self.may_load && rows >= LOAD_ROWS && self.load(to, binders, rows)? {
            return Ok(());
        }
        self.insert(to, binders, rows)
    }

    fn write(&mut self, bound: Bound<'_, '_>, rows: Range<usize>) -> Result<u64, Fault> {
        let mut count = 0;
        self.send(bound, rows, &mut |changed| count += changed)?;
        Ok(count)
    }

    fn upsert(&mut self, bound: Bound<'_, '_>, rows: usize) -> Result<Written, Fault> {
        let sql = &bound.statement.sql;
        let is_taken = sql.order().enumerate().all(|(at, p)| at == p)
            && sql.parts().last().is_some_and(|tail| tail.starts_with(')'));
        if is_taken {
            return self.upsert_many(bound, rows);
        }
        let mut written = Written::default();
        self.send(bound, 0..rows, &mut |changed| match changed {
            1 => written.inserted += 1,
            _ => written.updated += 1,
        })?;
        Ok(written)
    }

    fn find(
        &mut self,
        bound: Bound<'_, '_>,
        row: usize,
        found: &mut Found<'_>,
    ) -> Result<(), Fault> {
        let parameters = parameters(bound, row);
        let mut unreadable = None;
        self.with(|connection| {
            let rows = connection.exec_iter(&bound.statement.text, parameters)?;
            for row in rows {
                let row = row?;
                if unreadable.is_none() {
                    unreadable = read_row(&row, found).err();
                }
            }
            Ok(())
        })?;
        unreadable.map_or(Ok(()), |cause| Err(Fault::refused(cause)))
    }

    fn contains(&mut self, bound: Bound<'_, '_>, row: usize) -> Result<bool, Fault> {
        let parameters = parameters(bound, row);
        self.with(|connection| {
            let first: Option<mysql::Row> =
                connection.exec_first(&bound.statement.text, parameters)?;
            Ok(first.is_some())
        })
    }
}

fn load_statement(to: &Append, binders: &[Binder<'_>]) -> String {
    let mut fields = Vec::with_capacity(binders.len());
    let mut set = Vec::new();
    for (index, (column, binder)) in to.columns.iter().zip(binders).enumerate() {
        if binder.ty() == event::Type::Object {
            fields.push(format!("@bytes{index}"));
            set.push(format!("{column} = UNHEX(@bytes{index})"));
        } else {
            fields.push(column.clone());
        }
    }
    let set = match set.is_empty() {
        true => String::new(),
        false => format!(" SET {}", set.join(", ")),
    };
    format!(
        "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {} CHARACTER SET utf8mb4 \
         FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' ({}){set}",
        to.table,
        fields.join(", ")
    )
}

/// Not allowed by the server, its proxy or the rights of the user.
fn is_load_forbidden(cause: &connect::error::Cause) -> bool {
    matches!(
        cause.downcast_ref::<mysql::Error>(),
        Some(mysql::Error::MySqlError(error)) if matches!(error.code, 1148 | 3948 | 4166 | 1227 | 1047)
    )
}

/// `Records: 3  Duplicates: 1  Warnings: 0`.
fn duplicates(info: &str) -> Option<u64> {
    let (_, rest) = info.split_once("Duplicates:")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The values of a row with commas in between.
fn values(binders: &[Binder<'_>], row: usize, out: &mut String) {
    for (index, binder) in binders.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        literal::value(&binder.cell(row), out);
    }
}

/// The statement with the values of a row in the places of its parameters.
fn written_out(Bound { statement, binders }: Bound<'_, '_>, row: usize, out: &mut String) {
    let mut order = statement.sql.order();
    for part in statement.sql.parts() {
        out.push_str(part);
        if let Some(index) = order.next() {
            literal::value(&binders[index].cell(row), out);
        }
    }
}

fn parameters(Bound { statement, binders }: Bound<'_, '_>, row: usize) -> Params {
    let values: Vec<Value> = statement
        .sql
        .order()
        .map(|index| match binders[index].cell(row) {
            Cell::Null => Value::NULL,
            Cell::Bool(value) => Value::Int(value.into()),
            Cell::Int(value) => Value::Int(value.into()),
            Cell::Long(value) => Value::Int(value),
            Cell::Float(value) => Value::Double(value.into()),
            Cell::Double(value) => Value::Double(value),
            Cell::Text(value) => Value::Bytes(value.as_bytes().to_vec()),
            Cell::Bytes(value) => Value::Bytes(value.into_owned()),
        })
        .collect();
    match values.is_empty() {
        true => Params::Empty,
        false => Params::Positional(values),
    }
}

fn read_row(row: &mysql::Row, found: &mut Found<'_>) -> Result<(), String> {
    let columns = row.columns_ref();
    for (index, builder) in found.builders.iter_mut().enumerate() {
        let is_unsigned = columns
            .get(index)
            .is_some_and(|c| c.flags().contains(ColumnFlags::UNSIGNED_FLAG));
        let date;
        let value = match row.as_ref(index) {
            None => return Err(too_few(columns.len(), found.attributes.len())),
            Some(Value::NULL) => Raw::Null,
            Some(Value::Int(value)) if is_unsigned && *value < 0 => Raw::Unsigned(*value as u64),
            Some(Value::Int(value)) => Raw::Integer(*value),
            Some(Value::UInt(value)) => {
                i64::try_from(*value).map_or(Raw::Unsigned(*value), Raw::Integer)
            }
            Some(Value::Float(value)) => Raw::Float(*value),
            Some(Value::Double(value)) => Raw::Double(*value),
            Some(Value::Bytes(bytes)) => {
                std::str::from_utf8(bytes).map_or(Raw::Bytes(bytes), Raw::Text)
            }
            Some(time @ (Value::Date(..) | Value::Time(..))) => {
                let text = time.as_sql(true);
                date = text.trim_matches('\'').to_owned();
                Raw::Text(&date)
            }
        };
        read_value(value, &found.attributes[index], found.allows_null, builder)?;
    }
    found.count += 1;
    Ok(())
}

// ---- connecting ----

/// The first of the server's hosts that answers.
pub fn connect(server: &Server) -> Result<Conn, Fault> {
    let mut last = Fault::Lost("no host is named".into());
    for (host, port) in &server.hosts {
        match connect_to(server, host, *port) {
            Ok(connection) => return Ok(connection),
            Err(fault) => last = fault,
        }
    }
    Err(last)
}

/// A connection for reading the log, or for questions about it: `silence` of the server ends it.
pub fn connect_for_log(
    server: &Server,
    silence: Option<std::time::Duration>,
) -> Result<Conn, Fault> {
    let mut quiet = server.clone();
    quiet.silence = silence;
    connect(&quiet)
}

fn connect_to(server: &Server, host: &str, port: u16) -> Result<Conn, Fault> {
    let options = options(server, host, port);
    let connected = match server.tls {
        Tls::Off => Conn::new(options),
        Tls::Prefer => match Conn::new(options.clone().ssl_opts(tls(server))) {
            Err(mysql::Error::DriverError(mysql::DriverError::TlsNotSupported)) => {
                Conn::new(options)
            }
            other => other,
        },
        _ => Conn::new(options.ssl_opts(tls(server))),
    };
    connected.map_err(|error| fault(late(error, server.silence)))
}

/// The error of a connection whose reads end after this silence, where they do: what the system says of that
/// is not understood by anybody.
pub fn late(error: mysql::Error, silence: Option<Duration>) -> mysql::Error {
    let of_system = match &error {
        mysql::Error::IoError(error) => Some(error),
        mysql::Error::CodecError(error) => error.source().and_then(|cause| cause.downcast_ref()),
        _ => None,
    };
    match (of_system.map(std::io::Error::kind), silence) {
        (Some(ErrorKind::WouldBlock), Some(limit)) => mysql::Error::IoError(unanswered(limit)),
        _ => error,
    }
}

fn options(server: &Server, host: &str, port: u16) -> OptsBuilder {
    let mut set_up: Vec<String> = SET_UP.iter().map(|sql| (*sql).to_owned()).collect();
    if let Some(variables) = server.property("sessionVariables") {
        set_up.push(format!("SET SESSION {variables}"));
    }
    let silence = SILENCE_MAX.as_secs() as u32;
    OptsBuilder::new()
        .ip_or_hostname(Some(host))
        .tcp_port(port)
        .user(Some(&server.user))
        .pass(Some(&server.password))
        .db_name((!server.database.is_empty()).then_some(&server.database))
        .prefer_socket(false)
        .tcp_connect_timeout(Some(server.connect_timeout))
        .read_timeout(server.silence)
        .tcp_keepalive_time_ms(Some(1000))
        .tcp_keepalive_probe_interval_secs(Some(1))
        .tcp_keepalive_probe_count(Some(silence - 1))
        .tcp_user_timeout_ms(Some(silence * 1000))
        // An update that changes nothing has still found its row.
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS)
        .stmt_cache_size(PREPARED_MAX)
        .init(set_up)
}

fn tls(server: &Server) -> SslOpts {
    SslOpts::default()
        .with_root_cert_path(server.root_certificates.clone())
        .with_danger_accept_invalid_certs(matches!(server.tls, Tls::Prefer | Tls::Require))
        .with_danger_skip_domain_validation(server.tls != Tls::VerifyFull)
}

/// The error itself, without the name of the driver's type around it.
fn bare(error: mysql::Error) -> Cause {
    match error {
        mysql::Error::IoError(error) => error.into(),
        mysql::Error::MySqlError(error) => error.into(),
        mysql::Error::DriverError(error) => error.into(),
        mysql::Error::TlsError(error) => error.into(),
        other => other.into(),
    }
}

/// An error of the driver or the server as one of ours: what became of the connection and of the
/// transaction.
pub fn fault(error: mysql::Error) -> Fault {
    // A row longer than the server's max_allowed_packet; the connection is as it was.
    let is_too_long = matches!(
        &error,
        mysql::Error::CodecError(codec) if codec.to_string().contains("max_allowed_packet")
    );
    let code = match &error {
        mysql::Error::MySqlError(error) => error.code,
        _ if is_too_long => 0,
        mysql::Error::IoError(_)
        | mysql::Error::DriverError(_)
        | mysql::Error::CodecError(_)
        | mysql::Error::TlsError(_) => return Fault::Lost(bare(error)),
        _ => 0,
    };
    let error = bare(error);
    match code {
        // Shut down, killed, too many connections, idle for too long.
        1053
        | 1040
        | 1077
        | 1079
        | 1152..=1161
        | 1184
        | 1203
        | 1226
        | 1927
        | 2006
        | 2013
        | 4031 => Fault::Lost(error),
        // Deadlock; the commit itself failed.
        1213 | 1180 | 1614 => Fault::Undone(error),
        // Lock wait, full disk or table, out of memory, read only, interrupted.
        1205 | 3 | 1021 | 1037 | 1038 | 1041 | 1114 | 1290 | 1317 | 1836 => Fault::Passing(error),
        _ => Fault::Refused(error),
    }
}
