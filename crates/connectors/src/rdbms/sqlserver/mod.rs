//! A connection to Microsoft SQL Server.
//!
//! Every value is a parameter; rows are appended by INSERT statements of many rows. It has not been
//! tried on a server: what is sent is in golden files, and the driver's own part is tested as far
//! as possible without one (a login that is answered, a refusal, silence).

use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use tiberius::error::Error as Said;
use tiberius::{AuthMethod, Client, ColumnData, Config, EncryptionLevel, Query, Row};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};

use super::dialect::{Dialect, SQLSERVER};
use super::link::{Append, Bound, Fault, Found, Link};
use super::rows::{Binder, Cell, Raw, read_value, too_few};
use super::server::{Server, Tls};
use connect::component::Written;
use connect::error::unanswered;

/// Rows of one INSERT, which the server limits.
const ROWS_MAX: usize = 1000;

/// Parameters of one statement: the server takes 2,100, and the driver needs some.
const PARAMETERS_MAX: usize = 2000;

type Wire = Client<Compat<TcpStream>>;

pub struct SqlServer {
    server: Server,
    runtime: Runtime,
    wire: Option<Wire>,
    /// A transaction was begun, and the server has ended it by itself.
    in_transaction: bool,
    has_undone: bool,
}

impl SqlServer {
    pub fn open(server: &Server) -> Result<SqlServer, Fault> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let mut opened = SqlServer {
            server: server.clone(),
            runtime: runtime.map_err(|error| Fault::Lost(error.into()))?,
            wire: None,
            in_transaction: false,
            has_undone: false,
        };
        opened.reconnect()?;
        Ok(opened)
    }

    /// Runs work on the connection; one that is gone is not used again.
    fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Wire) -> tiberius::Result<T>,
    ) -> Result<T, Fault> {
        let Some(wire) = &mut self.wire else {
            return Err(Fault::Lost("there is no connection".into()));
        };
        let silence = self.server.silence;
        let result = self.runtime.block_on(within(silence, work(wire)));
        match &result {
            Err(Fault::Lost(_)) => self.wire = None,
            // Some errors (a conversion) take the transaction with them, others do not.
            Err(_) if self.in_transaction => self.look_for_transaction()?,
            _ => {}
        }
        result
    }

    fn look_for_transaction(&mut self) -> Result<(), Fault> {
        let Some(wire) = &mut self.wire else {
            return Ok(());
        };
        let asking = async {
            let asked = wire.simple_query("SELECT @@TRANCOUNT").await?;
            asked.into_row().await
        };
        let row = self.runtime.block_on(within(self.server.silence, asking))?;
        let open = row.and_then(|row| row.into_iter().next());
        self.has_undone = matches!(open, Some(ColumnData::I32(Some(0))));
        self.in_transaction = !self.has_undone;
        Ok(())
    }
}

/// Waits no longer than `limit`, where there is one.
async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = tiberius::Result<T>>,
) -> Result<T, Fault> {
    let Some(limit) = limit else {
        return work.await.map_err(fault);
    };
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done.map_err(fault),
        Err(_) => Err(Fault::Lost(unanswered(limit).into())),
    }
}

impl Link for SqlServer {
    fn dialect(&self) -> &'static dyn Dialect {
        SQLSERVER
    }

    fn reconnect(&mut self) -> Result<(), Fault> {
        self.wire = None;
        (self.in_transaction, self.has_undone) = (false, false);
        let mut last = Fault::Lost("no host is named".into());
        for (host, port) in &self.server.hosts {
            let config = config(&self.server, host, *port);
            let limit = Some(self.server.connect_timeout);
            let connecting = async {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Client::connect(config, stream.compat_write()).await
            };
            match self.runtime.block_on(within(limit, connecting)) {
                Ok(wire) => {
                    self.wire = Some(wire);
                    return Ok(());
                }
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        self.with(async |wire| wire.simple_query(sql).await?.into_results().await)?;
        if sql == SQLSERVER.begin() {
            (self.in_transaction, self.has_undone) = (true, false);
        } else if ["COMMIT", "ROLLBACK"].contains(&sql) {
            (self.in_transaction, self.has_undone) = (false, false);
        }
        Ok(())
    }

    fn has_undone(&self) -> bool {
        self.has_undone
    }

    fn list(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
        let rows =
            self.with(async |wire| wire.simple_query(sql).await?.into_first_result().await)?;
        let texts = |row: Row| row.into_iter().map(|value| text(&value)).collect();
        Ok(rows.into_iter().map(texts).collect())
    }

    fn append(&mut self, to: &Append, binders: &[Binder<'_>], rows: usize) -> Result<(), Fault> {
        let at_once = (PARAMETERS_MAX / binders.len().max(1)).clamp(1, ROWS_MAX);
        let mut begin = 0;
        while begin < rows {
            let end = rows.min(begin + at_once);
            let mut query = Query::new(insert(to, binders.len(), end - begin));
            for row in begin..end {
                for binder in binders {
                    bind(&mut query, binder, row);
                }
            }
            self.with(async |wire| query.execute(wire).await)?;
            begin = end;
        }
        Ok(())
    }

    fn write(&mut self, bound: Bound<'_, '_>, rows: Range<usize>) -> Result<u64, Fault> {
        let mut count = 0;
        for row in rows {
            let query = bound_query(bound, row);
            let done = self.with(async |wire| query.execute(wire).await);
            count += done.map_err(|fault| fault.at(row))?.total();
        }
        Ok(count)
    }

    /// A MERGE says of its row what was done.
    fn upsert(&mut self, bound: Bound<'_, '_>, rows: usize) -> Result<Written, Fault> {
        let mut written = Written::default();
        for row in 0..rows {
            let query = bound_query(bound, row);
            let said = self.with(async |wire| query.query(wire).await?.into_first_result().await);
            for row in said.map_err(|fault| fault.at(row))? {
                match row
                    .into_iter()
                    .next()
                    .and_then(|value| text(&value))
                    .as_deref()
                {
                    Some("INSERT") => written.inserted += 1,
                    _ => written.updated += 1,
                }
            }
        }
        Ok(written)
    }

    fn find(
        &mut self,
        bound: Bound<'_, '_>,
        row: usize,
        found: &mut Found<'_>,
    ) -> Result<(), Fault> {
        let query = bound_query(bound, row);
        let rows = self.with(async |wire| query.query(wire).await?.into_first_result().await)?;
        for row in rows {
            read_row(row, found).map_err(Fault::refused)?;
        }
        Ok(())
    }

    fn contains(&mut self, bound: Bound<'_, '_>, row: usize) -> Result<bool, Fault> {
        let query = bound_query(bound, row);
        let rows = self.with(async |wire| query.query(wire).await?.into_first_result().await)?;
        Ok(!rows.is_empty())
    }
}

fn config(server: &Server, host: &str, port: u16) -> Config {
    let mut config = Config::new();
    config.host(host);
    config.port(port);
    if !server.database.is_empty() {
        config.database(&server.database);
    }
    config.application_name("headwater");
    config.authentication(AuthMethod::sql_server(&server.user, &server.password));
    config.encryption(match server.tls {
        // The login is encrypted even then, as the other drivers do.
        Tls::Off => EncryptionLevel::Off,
        Tls::Prefer => EncryptionLevel::On,
        _ => EncryptionLevel::Required,
    });
    match (&server.root_certificates, server.tls) {
        (Some(path), _) => config.trust_cert_ca(path.display()),
        (None, Tls::VerifyCa | Tls::VerifyFull) => {}
        (None, _) => config.trust_cert(),
    }
    config
}

/// `INSERT INTO t (a, b) VALUES (@P1, @P2), (@P3, @P4)`.
fn insert(to: &Append, columns: usize, rows: usize) -> String {
    let mut sql = to.head();
    for row in 0..rows {
        let comma = if row > 0 { ", " } else { "" };
        let places = Query::placeholders(row * columns + 1, columns);
        sql.push_str(&format!("{comma}({places})"));
    }
    sql
}

fn bound_query<'a>(Bound { statement, binders }: Bound<'_, 'a>, row: usize) -> Query<'a> {
    let mut query = Query::new(statement.text.clone());
    // Places are numbered as the parameters are, which may stand more than once.
    for binder in binders {
        bind(&mut query, binder, row);
    }
    query
}

fn bind<'a>(query: &mut Query<'a>, binder: &Binder<'a>, row: usize) {
    use event::Type;

    match binder.cell(row) {
        Cell::Bool(value) => query.bind(value),
        Cell::Int(value) => query.bind(value),
        Cell::Long(value) => query.bind(value),
        Cell::Float(value) => query.bind(value),
        Cell::Double(value) => query.bind(value),
        Cell::Text(value) => query.bind(value),
        Cell::Bytes(value) => query.bind(value.into_owned()),
        // A null has a type there, which must be that of its column.
        Cell::Null => match binder.ty() {
            Type::Bool => query.bind(None::<bool>),
            Type::Int => query.bind(None::<i32>),
            Type::Long => query.bind(None::<i64>),
            Type::Float => query.bind(None::<f32>),
            Type::Double => query.bind(None::<f64>),
            Type::String => query.bind(None::<String>),
            Type::Object => query.bind(None::<Vec<u8>>),
        },
    }
}

/// A value as text; `None` for null.
fn text(value: &ColumnData<'_>) -> Option<String> {
    Some(match value {
        ColumnData::U8(v) => (*v)?.to_string(),
        ColumnData::I16(v) => (*v)?.to_string(),
        ColumnData::I32(v) => (*v)?.to_string(),
        ColumnData::I64(v) => (*v)?.to_string(),
        ColumnData::F32(v) => (*v)?.to_string(),
        ColumnData::F64(v) => (*v)?.to_string(),
        ColumnData::Bit(v) => u8::from((*v)?).to_string(),
        ColumnData::String(v) => v.as_ref()?.to_string(),
        ColumnData::Guid(v) => (*v)?.to_string(),
        ColumnData::Numeric(v) => (*v)?.to_string(),
        ColumnData::Xml(v) => v.as_ref()?.to_string(),
        ColumnData::Date(v) => date(i64::from((*v)?.days()))?,
        ColumnData::DateTime2(v) => {
            let v = (*v)?;
            let day = date(i64::from(v.date().days()))?;
            let unit = 10f64.powi(-i32::from(v.time().scale()));
            format!("{day} {}", clock(v.time().increments() as f64 * unit))
        }
        // Days since 1900, and 300ths of seconds.
        ColumnData::DateTime(v) => {
            let v = (*v)?;
            let day = date(i64::from(v.days()) + DAYS_TO_1900)?;
            format!("{day} {}", clock(f64::from(v.seconds_fragments()) / 300.0))
        }
        ColumnData::Time(v) => {
            let v = (*v)?;
            clock(v.increments() as f64 * 10f64.powi(-i32::from(v.scale())))
        }
        other => format!("{other:?}"),
    })
}

/// From the first day of year 1.
const DAYS_TO_1900: i64 = 693_595;

fn date(days: i64) -> Option<String> {
    let first = jiff::civil::date(1, 1, 1);
    let day = first.checked_add(jiff::Span::new().try_days(days).ok()?);
    day.ok().map(|day| day.to_string())
}

fn clock(seconds: f64) -> String {
    let millis = (seconds * 1000.0).round() as u64;
    let (seconds, millis) = (millis / 1000, millis % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
}

fn read_row(row: Row, found: &mut Found<'_>) -> Result<(), String> {
    if row.len() < found.attributes.len() {
        return Err(too_few(row.len(), found.attributes.len()));
    }
    let attributes = found.attributes.iter();
    for ((attribute, builder), value) in attributes.zip(&mut found.builders).zip(row) {
        let shown;
        let value = match &value {
            ColumnData::U8(Some(v)) => Raw::Integer(i64::from(*v)),
            ColumnData::I16(Some(v)) => Raw::Integer(i64::from(*v)),
            ColumnData::I32(Some(v)) => Raw::Integer(i64::from(*v)),
            ColumnData::I64(Some(v)) => Raw::Integer(*v),
            ColumnData::Bit(Some(v)) => Raw::Integer(i64::from(*v)),
            ColumnData::F32(Some(v)) => Raw::Float(*v),
            ColumnData::F64(Some(v)) => Raw::Double(*v),
            ColumnData::String(Some(v)) => Raw::Text(v),
            ColumnData::Binary(Some(v)) => Raw::Bytes(v),
            ColumnData::Binary(None) => Raw::Null,
            other => match text(other) {
                Some(text) => {
                    shown = text;
                    Raw::Text(&shown)
                }
                None => Raw::Null,
            },
        };
        read_value(value, attribute, found.allows_null, builder)?;
    }
    found.count += 1;
    Ok(())
}

/// An error of the driver or the server as one of ours.
fn fault(error: Said) -> Fault {
    let Said::Server(said) = &error else {
        return Fault::Lost(error.into());
    };
    match said.code() {
        // Deadlock.
        1205 => Fault::Undone(error.into()),
        // Lock wait, full log or disk, out of memory, read only, shutting down.
        1222 | 1105 | 9002 | 701 | 802 | 3906 | 3960 => Fault::Passing(error.into()),
        // The connection was ended: shut down, killed, no more of them.
        596 | 6005 | 10_053 | 10_054 | 17_142 | 17_809 | 40_197 | 40_501 | 40_613 => {
            Fault::Lost(error.into())
        }
        _ if said.class() >= 20 => Fault::Lost(error.into()),
        _ => Fault::Refused(error.into()),
    }
}

#[cfg(test)]
mod tests;
