//! The binary log of MySQL and MariaDB, read as a replica does.
//!
//! A position is the end of the last whole transaction, and how many changes of the next one have been
//! handed on: a restart reads that transaction again from its beginning and skips them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use event::Value;
use mysql::binlog::events::{
    Event, EventData, RowsEventData, TableMapEvent, TransactionPayloadEvent,
};
use mysql::binlog::row::BinlogRow;
use mysql::binlog::value::BinlogValue;
use mysql::prelude::Queryable;
use mysql::{BinlogRequest, BinlogStream, Conn};

use super::columns::Column;
use super::compressed;
use super::delivery::{Delivery, heeded};
use super::{Change, Keys, Options};
use crate::component::{Connection, Difference, Finished, Room, Source, SourceLink};
use crate::error::{Cause, Error};
use crate::rdbms::link::Fault;
use crate::rdbms::mysql::{connect_for_log, fault};
use crate::rdbms::server::SILENCE_MAX;
use crate::rdbms::url::Target;

/// A sign of life from a server that has nothing to say; what was read is handed on with it.
const HEARTBEAT: Duration = Duration::from_millis(20);

/// Replica numbers that are taken where none is given, as Siddhi's.
const REPLICAS: std::ops::Range<u32> = 5400..6400;

/// The server no longer has the log that is asked for.
const LOG_IS_GONE: u16 = 1236;

/// How much a position says.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Position {
    file: String,
    /// End of the last whole transaction.
    offset: u64,
    /// Changes of the table behind it that were handed on.
    changes: u64,
}

impl Position {
    fn save(&self) -> Vec<u8> {
        format!(
            "binlog 1\n{}\n{}\n{}\n",
            self.file, self.offset, self.changes
        )
        .into_bytes()
    }

    fn read(bytes: &[u8]) -> Option<Position> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        (lines.next()? == "binlog 1").then_some(())?;
        Some(Position {
            file: lines.next()?.to_owned(),
            offset: lines.next()?.parse().ok()?,
            changes: lines.next()?.parse().ok()?,
        })
    }
}

pub(super) struct Binlog {
    options: Options,
    delivery: Delivery,
    replica: u32,
    position: Option<Position>,
    /// What is known of the table under its numbers in the log; `None`: another table.
    tables: HashMap<u64, Option<Table>>,
    /// The columns as they were read last: those of a change that is older than the definition of now.
    known: Vec<Column>,
}

struct Table {
    columns: Vec<Column>,
    defaults: Vec<Value>,
    keys: Keys,
}

impl Binlog {
    pub fn new(options: Options) -> Result<Binlog, Error> {
        let replica = match options.transport.option("database.server.id") {
            Some(text) => text.trim().parse().map_err(|_| {
                options.refused("option 'database.server.id' is no number of a replica")
            })?,
            None => {
                // Different for each source of a machine, the same at each start.
                let hash = options.name.bytes().chain(options.table.bytes());
                let hash = hash.fold(u32_of_process(), |h, b| {
                    h.wrapping_mul(31).wrapping_add(b.into())
                });
                REPLICAS.start + hash % (REPLICAS.end - REPLICAS.start)
            }
        };
        Ok(Binlog {
            delivery: Delivery::new(&options)?,
            options,
            replica,
            position: None,
            tables: HashMap::new(),
            known: Vec::new(),
        })
    }

    fn log_error(&self, error: mysql::Error) -> Error {
        let file = self.position.as_ref().map_or("", |p| p.file.as_str());
        match &error {
            mysql::Error::MySqlError(said) if said.code == LOG_IS_GONE => {
                self.options.failed(format!(
                    "the server no longer has the log '{file}' where the last run stopped ({}): \
                     the changes in between are lost; start once without the saved state of this \
                     app to go on from the end of the log, read the table itself for what is \
                     missing, and let the server keep its logs for longer \
                     (expire_logs_days, or binlog_expire_logs_seconds)",
                    said.message
                ))
            }
            _ => self.options.error(fault(error)),
        }
    }

    /// Connects, finds out where to begin, and asks for the log from there.
    fn open(&mut self, link: &mut dyn SourceLink) -> Result<(Conn, BinlogStream), Error> {
        let server = self.options.server()?.clone();
        let mut side = connect_for_log(&server, None).map_err(|f| self.options.error(f))?;
        self.check_settings(&mut side)?;
        let (database, table) = self.place();
        self.known = self.read_columns(&database, &table, &mut side)?;
        if self.position.is_none() {
            let position = end_of_log(&mut side).map_err(|e| self.options.error(fault(e)))?;
            let position = position.ok_or_else(|| {
                self.options
                    .failed("the server writes no binary log: start it with log-bin")
            })?;
            link.post(&position.save())?;
            self.position = Some(position);
        }
        let mut connection =
            connect_for_log(&server, Some(SILENCE_MAX)).map_err(|f| self.options.error(f))?;
        let period = HEARTBEAT.as_nanos();
        connection
            .query_drop(format!(
                "SET @master_heartbeat_period = {period}, @source_heartbeat_period = {period}"
            ))
            .map_err(|e| self.options.error(fault(e)))?;
        let position = self.position.clone().unwrap_or_default();
        let request = BinlogRequest::new(self.replica)
            .with_filename(position.file.into_bytes())
            .with_pos(position.offset.max(4));
        let stream = connection
            .get_binlog_stream(request)
            .map_err(|e| self.log_error(e))?;
        self.tables.clear();
        self.delivery.begin();
        Ok((side, stream))
    }

    /// A log without whole rows is of no use.
    fn check_settings(&self, side: &mut Conn) -> Result<(), Error> {
        let rows: Vec<(String, String)> = side
            .query(
                "SHOW GLOBAL VARIABLES WHERE variable_name IN \
                 ('binlog_format', 'binlog_row_image', 'binlog_row_value_options')",
            )
            .map_err(|e| self.options.error(fault(e)))?;
        for (name, value) in rows {
            let wanted = match name.as_str() {
                "binlog_format" => "ROW",
                "binlog_row_image" => "FULL",
                // Or only what changed inside of JSON is logged.
                _ => "",
            };
            if !value.eq_ignore_ascii_case(wanted) {
                return Err(self.options.failed(format!(
                    "the server has {name}='{value}': changes can be read with {name}='{wanted}' only"
                )));
            }
        }
        Ok(())
    }

    fn is_ours(&self, database: &str, table: &str) -> bool {
        let (wanted_database, wanted) = self.place();
        table.eq_ignore_ascii_case(&wanted) && database.eq_ignore_ascii_case(&wanted_database)
    }

    fn read_columns(
        &self,
        database: &str,
        table: &str,
        side: &mut Conn,
    ) -> Result<Vec<Column>, Error> {
        let rows: Vec<(String, String, String, Option<String>)> = side
            .exec(
                "SELECT column_name, data_type, column_type, character_set_name FROM \
                 information_schema.columns WHERE table_schema = ? AND table_name = ? \
                 ORDER BY ordinal_position",
                (database, table),
            )
            .map_err(|e| self.options.error(fault(e)))?;
        let columns = rows.iter().map(|(name, ty, whole, charset)| {
            Column::new(name, ty, whole, charset.as_deref().unwrap_or_default())
        });
        Ok(columns.collect())
    }

    /// Database and name of the table.
    fn place(&self) -> (String, String) {
        let own = match &self.options.target {
            Target::Server(server) => server.database.as_str(),
            _ => "",
        };
        let table = self.options.table.as_str();
        let (database, table) = table.split_once('.').unwrap_or((own, table));
        (database.to_owned(), table.to_owned())
    }

    /// Reads the definition of a table when its number is new, which it is after every change of it.
    fn learn(&mut self, map: &TableMapEvent<'_>, side: &mut Conn) -> Result<(), Error> {
        if self.tables.contains_key(&map.table_id()) {
            return Ok(());
        }
        let (database, table) = (map.database_name(), map.table_name());
        let learnt = match self.is_ours(&database, &table) {
            false => None,
            true => {
                let wanted = map.columns_count();
                let found = self.read_columns(&database, &table, side)?;
                if found.len() as u64 == wanted {
                    self.known = found;
                } else if self.known.len() as u64 != wanted {
                    return Err(self.options.failed(format!(
                        "table '{table}' had {wanted} columns when it was changed and has {} now: \
                         what was logged in between cannot be read; start once without the saved \
                         state of this app to go on from the end of the log",
                        found.len()
                    )));
                }
                let columns = self.known.clone();
                let names: Vec<Arc<str>> = columns.iter().map(|c| Arc::clone(&c.name)).collect();
                Some(Table {
                    defaults: columns.iter().map(Column::default).collect(),
                    keys: Keys::new(&names, self.delivery.is_complete()),
                    columns,
                })
            }
        };
        self.tables.insert(map.table_id(), learnt);
        Ok(())
    }

    /// `end` is where the event ends in the log.
    fn event(
        &mut self,
        event: &Event,
        end: u64,
        layouts: &mut Layouts<'_>,
        side: &mut Conn,
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        let inflated = compressed::inflated(event).transpose();
        let inflated = inflated.map_err(|e| self.options.failed(e))?;
        let event = inflated.as_ref().unwrap_or(event);
        let data = event.read_data().map_err(|e| self.options.failed(e))?;
        match data {
            Some(EventData::RotateEvent(rotate)) => {
                let position = self.position.get_or_insert_default();
                let (file, offset) = (rotate.name().into_owned(), rotate.position());
                // The first one only repeats where we are, with a checksum behind the name, because
                // whether there are any is said by the event after it.
                if !file.starts_with(&position.file) {
                    (position.file, position.offset) = (file, offset);
                    position.changes = 0;
                    self.delivery.begin();
                }
            }
            Some(EventData::TableMapEvent(map)) => {
                self.learn(&map, side)?;
                layouts.keep(map);
            }
            Some(EventData::RowsEvent(rows)) => {
                let at = i64::from(event.header().timestamp()) * 1000;
                self.rows(&rows, layouts.of(rows.table_id()), at, link)?;
            }
            Some(EventData::TransactionPayloadEvent(packed)) => {
                self.packed(&packed, event, end, side, link)?;
            }
            Some(EventData::XidEvent(_)) => self.transaction_ended(end, link)?,
            Some(EventData::QueryEvent(query)) => {
                let text = query.query();
                if !text.eq_ignore_ascii_case("BEGIN") {
                    self.transaction_ended(end, link)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A transaction that is one compressed event.
    fn packed(
        &mut self,
        packed: &TransactionPayloadEvent<'_>,
        event: &Event,
        end: u64,
        side: &mut Conn,
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        let mut transaction = packed.decompressed().map_err(|e| self.options.failed(e))?;
        let mut layouts = Layouts::OfTransaction(HashMap::new());
        loop {
            let next = compressed::next(&mut transaction, event.fde());
            let Some(inner) = next.map_err(|e| self.options.failed(e))? else {
                return Ok(());
            };
            if inner.header().event_type_raw() == event.header().event_type_raw() {
                let cause = "the log has a compressed transaction inside of another";
                return Err(self.options.failed(cause));
            }
            self.event(&inner, end, &mut layouts, side, link)?;
        }
    }

    fn rows(
        &mut self,
        event: &RowsEventData<'_>,
        layout: Option<&TableMapEvent<'static>>,
        at: i64,
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        let Some(Some(_)) = self.tables.get(&event.table_id()) else {
            return Ok(());
        };
        let Some(layout) = layout else {
            return Err(self.options.failed("the log has rows without their table"));
        };
        for row in event.rows(layout) {
            let (before, after) = row.map_err(|e| self.options.failed(e))?;
            let change = match (&before, &after) {
                (None, _) => Change::Insert,
                (Some(_), Some(_)) => Change::Update,
                (Some(_), None) => Change::Delete,
            };
            let covered = self.position.as_ref().map_or(0, |p| p.changes);
            let Some(number) = self.delivery.count(change, covered) else {
                continue;
            };
            let Some(Some(table)) = self.tables.get_mut(&event.table_id()) else {
                return Ok(());
            };
            let read = |row: Option<BinlogRow>, columns: &[Column]| {
                row.map(|row| values(row, columns)).transpose()
            };
            let before = read(before, &table.columns);
            let after = read(after, &table.columns);
            let (before, after) = match (before, after) {
                (Ok(before), Ok(after)) => (before, after),
                (Err(cause), _) | (_, Err(cause)) => return Err(self.options.failed(cause)),
            };
            let map = table
                .keys
                .map(before.as_deref(), after.as_deref(), &table.defaults);
            let room = self.delivery.hand_on(change, at, map, link);
            if let Some(position) = &mut self.position {
                position.changes = number;
            }
            if room == Room::Full {
                self.post(link)?;
            }
        }
        Ok(())
    }

    fn transaction_ended(&mut self, end: u64, link: &mut dyn SourceLink) -> Result<(), Error> {
        self.delivery.begin();
        let Some(position) = &mut self.position else {
            return Ok(());
        };
        (position.offset, position.changes) = (end, 0);
        if self.delivery.is_due(link) {
            self.post(link)?;
        }
        Ok(())
    }

    fn post(&mut self, link: &mut dyn SourceLink) -> Result<(), Error> {
        if let Some(position) = &self.position {
            self.delivery.post(&position.save(), link)?;
        }
        Ok(())
    }
}

/// How the rows of tables are laid out in the log.
enum Layouts<'a> {
    /// The stream has seen them.
    OfStream(&'a BinlogStream),
    /// Those of a compressed transaction, which the stream does not look into.
    OfTransaction(HashMap<u64, TableMapEvent<'static>>),
}

impl Layouts<'_> {
    fn keep(&mut self, layout: TableMapEvent<'_>) {
        if let Layouts::OfTransaction(all) = self {
            all.insert(layout.table_id(), layout.into_owned());
        }
    }

    fn of(&self, table: u64) -> Option<&TableMapEvent<'static>> {
        match self {
            Layouts::OfStream(stream) => stream.get_tme(table),
            Layouts::OfTransaction(all) => all.get(&table),
        }
    }
}

/// A number that tells this process from others of the machine.
fn u32_of_process() -> u32 {
    std::process::id()
}

fn values(mut row: BinlogRow, columns: &[Column]) -> Result<Vec<Value>, Cause> {
    if row.len() != columns.len() {
        return Err("the log has another number of columns than the table".into());
    }
    let mut values = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        let found = match row.take(index) {
            // A session may have its own binlog_row_image.
            None => {
                return Err(format!(
                    "a change was logged without column '{}': let every session write whole rows \
                     (binlog_row_image=FULL)",
                    column.name
                )
                .into());
            }
            Some(BinlogValue::Value(value)) => value,
            Some(other) => mysql::Value::try_from(other)?,
        };
        let value = column.value(&found).ok_or_else(|| {
            format!(
                "column '{}' has a value in the log that does not fit its definition: {found:?}",
                column.name
            )
        })?;
        values.push(value);
    }
    Ok(values)
}

/// Where the log ends now.
fn end_of_log(side: &mut Conn) -> mysql::Result<Option<Position>> {
    // The statement was renamed in MySQL 8.4.
    let row: Option<mysql::Row> = match side.query_first("SHOW MASTER STATUS") {
        Ok(row) => row,
        Err(_) => side.query_first("SHOW BINARY LOG STATUS")?,
    };
    Ok(row.and_then(|row| {
        Some(Position {
            file: row.get(0)?,
            offset: row.get(1)?,
            changes: 0,
        })
    }))
}

impl Source for Binlog {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let (mut side, mut stream) = self.open(link)?;
        link.report(Connection::Connected);
        loop {
            let event = match stream.next() {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    self.post(link)?;
                    return Err(self.log_error(error));
                }
                None => {
                    self.post(link)?;
                    return Err(self
                        .options
                        .error(Fault::Lost("the server has ended the log".into())));
                }
            };
            let is_quiet = matches!(
                event.header().event_type(),
                Ok(mysql::binlog::EventType::HEARTBEAT_EVENT)
            );
            if !is_quiet {
                let end = u64::from(event.header().log_pos());
                let mut layouts = Layouts::OfStream(&stream);
                self.event(&event, end, &mut layouts, &mut side, link)?;
            }
            if self.delivery.has_unposted() && is_quiet || self.delivery.is_due(link) {
                self.post(link)?;
            } else if !is_quiet {
                continue;
            }
            let signal = match self.delivery.has_unposted() {
                true => link.wait(Duration::ZERO),
                false if is_quiet => link.idle(Duration::ZERO),
                false => link.wait(Duration::ZERO),
            };
            if let Some(finished) = heeded(signal, link) {
                return Ok(finished);
            }
        }
    }

    /// Until all that the log had is read.
    fn ends(&self) -> bool {
        true
    }

    fn probe(&mut self) -> Result<Vec<Difference>, Error> {
        self.options.probe()
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        let read = Position::read(position);
        self.position = Some(read.ok_or_else(|| {
            self.options
                .failed("the saved state has no position of a binary log for it")
        })?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_kept() {
        let position = Position {
            file: "binlog.000007".into(),
            offset: 4711,
            changes: 3,
        };
        assert_eq!(Position::read(&position.save()), Some(position));
        assert_eq!(Position::read(b"poll 1\n"), None);
    }
}
