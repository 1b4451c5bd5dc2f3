//! The binary log of MySQL and MariaDB, read as a replica does.
//!
//! A position is the end of the last whole transaction, and how many changes of the next one have
//! been handed on: a restart reads that transaction again from its beginning and skips them. If the
//! server uses GTIDs, reading resumes by these, otherwise by file and offset.

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
use super::gtid::{Gtid, Gtids};
use super::position::Position;
use super::{Change, Keys, Options};
use crate::rdbms::link::Fault;
use crate::rdbms::mysql::{connect_for_log, fault, late};
use crate::rdbms::server::SILENCE_MAX;
use crate::rdbms::url::Target;
use connect::component::{Connection, Difference, Finished, Room, Source, SourceLink};
use connect::error::{Cause, Error};

/// A sign of life from a server that has nothing to say; what was read is handed on with it.
const HEARTBEAT: Duration = Duration::from_millis(20);

/// Replica numbers that are taken where none is given, as Siddhi's.
const REPLICAS: std::ops::Range<u32> = 5400..6400;

/// Bytes of the checksum behind an event.
const CHECKSUM: usize = 4;

/// The server does not give the log from where it is asked for.
const LOG_REFUSED: u16 = 1236;

/// What MariaDB is told of its reader: that it knows the names of transactions.
const KNOWS_GTIDS: u8 = 4;

/// Longest time for which a position stays unsaved while only other tables change.
const UNSAVED_MAX_MS: i64 = 1_000;

/// How a server names transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Naming {
    /// It does not.
    None,
    MariaDb,
    MySql,
}

impl Naming {
    /// Are these names of this kind of server?
    fn fits(self, gtids: &Gtids) -> bool {
        match gtids {
            Gtids::MariaDb(_) => self == Naming::MariaDb,
            Gtids::MySql(_) => self == Naming::MySql,
        }
    }
}

pub(super) struct Binlog {
    options: Options,
    delivery: Delivery,
    replica: u32,
    position: Option<Position>,
    /// A transaction has ended since the position was posted.
    is_unsaved: bool,
    /// The log that is read, as this server calls it; empty until it is said.
    file: String,
    /// Between the beginning of a transaction and its end.
    is_within: bool,
    /// A log has been read to its end, and nothing of the next one.
    is_between: bool,
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
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| options.refused("option 'database.server.id' is not a replica id"))?,
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
            is_unsaved: false,
            file: String::new(),
            is_within: false,
            is_between: false,
            tables: HashMap::new(),
            known: Vec::new(),
        })
    }

    fn log_error(&self, error: mysql::Error) -> Error {
        match &error {
            mysql::Error::MySqlError(said) if said.code == LOG_REFUSED => {
                self.refusal(&said.message)
            }
            _ => self.options.error(fault(late(error, Some(SILENCE_MAX)))),
        }
    }

    /// Why a server does not give the log from where it is asked for.
    fn refusal(&self, said: &str) -> Error {
        let position = self.position.clone().unwrap_or_default();
        let place = match &position.done {
            Some(done) => format!("'{}' (GTID '{done}')", position.file),
            None => format!("'{}'", position.file),
        };
        let anew = "start once without the saved state of this app to continue from the end of the \
                    log, and read the missing rows from the table";
        // Both are of MariaDB.
        let is_unknown = said.contains("which is not in the master's binlog");
        if is_unknown && !said.contains("higher sequence numbers") {
            let peer = self.options.target.display_name();
            return Error::unavailable(
                format!("database '{peer}'"),
                format!(
                    "it does not have the last transaction that was read, GTID '{}', yet ({said}): \
                     retrying until it does; if it is a replica, it must write what it replicates \
                     to its own log (log_slave_updates); if it will never have it, {anew}",
                    position
                        .done
                        .map_or_else(String::new, |done| done.to_string())
                ),
            );
        }
        let has_diverged = is_unknown || said.contains("has more GTIDs than");
        self.options.failed(match has_diverged {
            true => format!(
                "the server does not have the transactions that were read up to {place}, but \
                 different ones in their place ({said}): connect to a server that has them, or \
                 {anew}"
            ),
            false => format!(
                "the server no longer has the log {place} at which the last run stopped ({said}): \
                 the changes in between are lost; {anew}, and let the server keep its logs for \
                 longer (expire_logs_days, or binlog_expire_logs_seconds)"
            ),
        })
    }

    /// Connects, finds out where to begin, and asks for the log from there.
    fn open(&mut self, link: &mut dyn SourceLink) -> Result<(Conn, BinlogStream), Error> {
        let server = self.options.server()?.clone();
        let mut side = connect_for_log(&server, None).map_err(|f| self.options.error(f))?;
        let naming = self.check_settings(&mut side)?;
        let (database, table) = self.place();
        self.known = self.read_columns(&database, &table, &mut side)?;
        let known = self.position.clone();
        if self.position.is_none() {
            let position =
                end_of_log(naming, &mut side).map_err(|e| self.options.error(fault(e)))?;
            let position = position.ok_or_else(|| {
                self.options
                    .failed("the server writes no binary log: start it with log-bin")
            })?;
            self.position = Some(position);
        }
        let by_name = self.begins_by_name(naming, &mut side)?;
        if let Some(position) = self
            .position
            .as_ref()
            .filter(|p| known.as_ref() != Some(*p))
        {
            link.post(&position.save())?;
        }
        let mut connection =
            connect_for_log(&server, Some(SILENCE_MAX)).map_err(|f| self.options.error(f))?;
        for sql in self.preparations(naming, by_name) {
            connection
                .query_drop(sql)
                .map_err(|e| self.options.error(fault(e)))?;
        }
        let stream = connection
            .get_binlog_stream(self.request(naming, by_name))
            .map_err(|e| self.log_error(e))?;
        self.tables.clear();
        self.file.clear();
        (self.is_within, self.is_between) = (false, false);
        self.delivery.begin();
        Ok((side, stream))
    }

    /// Is the server asked by the names of transactions, rather than by file and offset? Where only
    /// these are known, as in the state of an older version, the names are learnt for the next time.
    fn begins_by_name(&mut self, naming: Naming, side: &mut Conn) -> Result<bool, Error> {
        let Some(position) = &mut self.position else {
            return Ok(false);
        };
        match &position.done {
            Some(done) if naming.fits(done) => Ok(true),
            // One that has named them and does not any more may be the same server.
            Some(_) if naming == Naming::None => Ok(false),
            Some(done) => {
                let cause = format!(
                    "the saved position '{done}' is one of another kind of server (MySQL and \
                     MariaDB name transactions in different ways): start once without the saved \
                     state of this app to continue from the end of the log"
                );
                Err(self.options.failed(cause))
            }
            None if naming == Naming::MariaDb => {
                let place = (position.file.as_str(), position.offset);
                let done: Result<Option<Option<String>>, _> =
                    side.exec_first("SELECT BINLOG_GTID_POS(?, ?)", place);
                match done {
                    Ok(done) => {
                        position.done = done.flatten().and_then(|d| Gtids::parse_mariadb(&d));
                        Ok(false)
                    }
                    // Without the right to ask, names stay unknown.
                    Err(mysql::Error::MySqlError(_)) => Ok(false),
                    Err(error) => Err(self.options.error(fault(error))),
                }
            }
            None => Ok(false),
        }
    }

    /// What the connection says of its reader before it becomes a log.
    fn preparations(&self, naming: Naming, by_name: bool) -> Vec<String> {
        let period = HEARTBEAT.as_nanos();
        let mut all = vec![format!(
            "SET @master_heartbeat_period = {period}, @source_heartbeat_period = {period}"
        )];
        if naming == Naming::MariaDb {
            all.push(format!(
                "SET @mariadb_slave_capability = {KNOWS_GTIDS}, @slave_gtid_strict_mode = 1"
            ));
            let done = self.position.as_ref().and_then(|p| p.done.as_ref());
            if let Some(done) = done.filter(|_| by_name) {
                all.push(format!("SET @slave_connect_state = '{done}'"));
            }
        }
        all
    }

    fn request(&self, naming: Naming, by_name: bool) -> BinlogRequest<'static> {
        let position = self.position.clone().unwrap_or_default();
        let request = BinlogRequest::new(self.replica);
        match position.done {
            // MariaDB takes the names from what was said before.
            Some(_) if by_name && naming == Naming::MariaDb => request,
            Some(done) if by_name => request.with_use_gtid(true).with_sids(done.sids()),
            _ => request
                .with_filename(position.file.into_bytes())
                .with_pos(position.offset.max(4)),
        }
    }

    /// A log without whole rows is of no use. Tells how the server names transactions.
    fn check_settings(&self, side: &mut Conn) -> Result<Naming, Error> {
        let rows: Vec<(String, String)> = side
            .query(
                "SHOW GLOBAL VARIABLES WHERE variable_name IN \
                 ('binlog_format', 'binlog_row_image', 'binlog_row_value_options', \
                 'gtid_mode', 'gtid_binlog_pos')",
            )
            .map_err(|e| self.options.error(fault(e)))?;
        let mut naming = Naming::None;
        for (name, value) in rows {
            let wanted = match name.as_str() {
                "gtid_binlog_pos" => {
                    naming = Naming::MariaDb;
                    continue;
                }
                "gtid_mode" => {
                    if value.eq_ignore_ascii_case("ON") {
                        naming = Naming::MySql;
                    }
                    continue;
                }
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
        Ok(naming)
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
                         changes logged in between cannot be read; start once without the saved \
                         state of this app to continue from the end of the log",
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
        if let Some((gtid, is_alone)) = Gtid::of_mariadb(event) {
            self.begins(gtid);
            self.is_within = !is_alone;
            return Ok(());
        }
        let data = event.read_data().map_err(|e| self.options.failed(e))?;
        match data {
            Some(EventData::RotateEvent(rotate)) => {
                let file = file_name(event, rotate.name_raw());
                // The first one says where we are, not that anything ended.
                if !self.file.is_empty() && file != self.file {
                    let position = self.position.get_or_insert_default();
                    position.is_at(&file, rotate.position());
                    self.is_between = true;
                }
                self.file = file;
            }
            Some(EventData::PreviousGtidsEvent(previous)) if self.is_between => {
                let position = self.position.get_or_insert_default();
                if position.done.is_none() {
                    position.done = Gtids::of_previous(&previous);
                }
            }
            Some(EventData::GtidEvent(named)) => self.begins(Gtid::of_mysql(&named)),
            Some(EventData::AnonymousGtidEvent(_)) => {
                self.is_between = false;
                self.position.get_or_insert_default().begin_unnamed();
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
            Some(EventData::XidEvent(_) | EventData::XaPrepareLogEvent(_)) => {
                self.transaction_ended(end, link)?;
            }
            Some(EventData::QueryEvent(query)) => match Statement::of(query.query_raw()) {
                Statement::Begin => self.is_within = true,
                // Such as a savepoint.
                Statement::Other if self.is_within => {}
                Statement::End | Statement::Other => self.transaction_ended(end, link)?,
            },
            _ => {}
        }
        Ok(())
    }

    /// A transaction that has a name begins.
    fn begins(&mut self, gtid: Gtid) {
        self.is_between = false;
        self.position.get_or_insert_default().begin(gtid);
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
            let covered = self.position.as_ref().map_or(0, Position::changes);
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
                position.set_changes(number);
            }
            if room == Room::Full {
                self.post(link)?;
            }
        }
        Ok(())
    }

    fn transaction_ended(&mut self, end: u64, link: &mut dyn SourceLink) -> Result<(), Error> {
        self.delivery.begin();
        self.is_within = false;
        if let Some(position) = &mut self.position {
            position.end(&self.file, end);
            self.is_unsaved = true;
        }
        // A table that never changes must not keep a log for ever.
        if self.delivery.is_due(link) || self.delivery.is_older(UNSAVED_MAX_MS, link) {
            self.post(link)?;
        }
        Ok(())
    }

    fn post(&mut self, link: &mut dyn SourceLink) -> Result<(), Error> {
        self.is_unsaved = false;
        if let Some(position) = &self.position {
            self.delivery.post(&position.save(), link)?;
        }
        Ok(())
    }
}

/// What a statement in the log says of the transaction around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Statement {
    Begin,
    End,
    Other,
}

impl Statement {
    fn of(sql: &[u8]) -> Statement {
        let begins = |start: &str| {
            let head = sql.get(..start.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
        };
        let is = |whole: &str| sql.eq_ignore_ascii_case(whole.as_bytes());
        if is("BEGIN") || begins("XA START") {
            Statement::Begin
        } else if is("COMMIT") || is("ROLLBACK") || begins("XA COMMIT") || begins("XA ROLLBACK") {
            Statement::End
        } else {
            Statement::Other
        }
    }
}

/// The name of a log. In the first event that has it, a checksum follows that nobody has announced.
fn file_name(event: &Event, name: &[u8]) -> String {
    let bytes = event.data();
    let plain = bytes.len().checked_sub(CHECKSUM).filter(|len| {
        let header = event.header();
        let mut sum = flate2::Crc::new();
        sum.update(&header.timestamp().to_le_bytes());
        sum.update(&[header.event_type_raw()]);
        sum.update(&header.server_id().to_le_bytes());
        sum.update(&header.event_size().to_le_bytes());
        sum.update(&header.log_pos().to_le_bytes());
        sum.update(&header.flags_raw().to_le_bytes());
        sum.update(&bytes[..*len]);
        bytes[*len..] == sum.sum().to_le_bytes()
    });
    let name = match plain {
        Some(_) => &name[..name.len().saturating_sub(CHECKSUM)],
        None => name,
    };
    String::from_utf8_lossy(name).into_owned()
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
fn end_of_log(naming: Naming, side: &mut Conn) -> mysql::Result<Option<Position>> {
    // The statement was renamed in MySQL 8.4.
    let row: Option<mysql::Row> = match side.query_first("SHOW MASTER STATUS") {
        Ok(row) => row,
        Err(_) => side.query_first("SHOW BINARY LOG STATUS")?,
    };
    Ok(row.and_then(|row| {
        let done = match naming {
            Naming::MySql => Gtids::parse_mysql(&row.get::<String, _>("Executed_Gtid_Set")?),
            // MariaDB is asked for them by the place.
            _ => None,
        };
        Some(Position::new(row.get(0)?, row.get(1)?, done))
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
            let has_unposted = self.delivery.has_unposted() || self.is_unsaved;
            if has_unposted && is_quiet || self.delivery.is_due(link) {
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
    fn statements_around_transactions() {
        for (sql, expect) in [
            ("BEGIN", Statement::Begin),
            ("XA START X'61',X'',1", Statement::Begin),
            ("commit", Statement::End),
            ("ROLLBACK", Statement::End),
            ("XA COMMIT X'61',X'',1", Statement::End),
            ("ROLLBACK TO `a`", Statement::Other),
            ("SAVEPOINT a", Statement::Other),
            ("XA END X'61',X'',1", Statement::Other),
            ("", Statement::Other),
        ] {
            assert_eq!(Statement::of(sql.as_bytes()), expect, "{sql}");
        }
    }
}
