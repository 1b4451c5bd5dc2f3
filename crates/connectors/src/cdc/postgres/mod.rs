//! The log of PostgreSQL, read as a subscriber of logical replication does, by the plugin `pgoutput`
//! that every server has. Slot and publication are called as Debezium's properties call them.
//!
//! A position is the end of the last whole transaction, and how many changes of the next one have
//! been handed on: a restart reads that transaction again from its beginning and skips them. The
//! slot, which makes the server keep its log, follows what the app has acknowledged. Promises:
//! every change is read by the definition that its table had when it was made; a slot that is gone,
//! or that another client has read from, is reported with its remedy.

mod columns;
pub(crate) mod pgoutput;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::Value;
use postgres_protocol::message::backend::Message as Answer;

use self::columns::Column;
#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use self::columns::Column as PostgresColumn;
use self::pgoutput::{Field, Lsn, Message, Relation, Sent, Tuple};
use super::delivery::Delivery;
use super::{Change, Keys, Options};
use crate::rdbms::dialect::POSTGRES;
use crate::rdbms::link::Fault;
use crate::rdbms::postgres::wire::{ServerError, Wire, unexpected};
use crate::rdbms::server::SILENCE_MAX;
use crate::rdbms::url::Target;
use connect::component::{
    Connection, Difference, Finished, PositionText, Room, Sequence, Signal, Source, SourceLink,
};
use connect::error::{Cause, Error};

/// Longest wait for a message; what was read is handed on then.
const QUIET: Duration = Duration::from_millis(20);

/// Time between two keep-alives to the server, which it answers.
const ALIVE: Duration = Duration::from_secs(1);

/// Time between two positions that only say how far the log of other tables was passed.
const PASSED_MS: i64 = 10_000;

/// Numbers of types below are those of the server itself; domains and enumerations lie above.
const OWN_TYPES: u32 = 16_384;

/// Domains over domains.
const DOMAINS_MAX: usize = 8;

/// Values are written the same way whatever the server's settings are.
const SESSION: [(&str, &str); 4] = [
    ("replication", "database"),
    ("TimeZone", "UTC"),
    ("IntervalStyle", "postgres"),
    ("lc_monetary", "C"),
];

/// How much a position says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Position {
    /// End of the last whole transaction.
    end: Lsn,
    /// Changes of the table behind it that were handed on.
    changes: u64,
}

impl Position {
    fn save(self) -> Vec<u8> {
        format!("pgoutput 1\n{}\n{}\n", self.end, self.changes).into_bytes()
    }

    fn read(bytes: &[u8]) -> Option<Position> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        (lines.next()? == "pgoutput 1").then_some(())?;
        Some(Position {
            end: Lsn::parse(lines.next()?)?,
            changes: lines.next()?.parse().ok()?,
        })
    }
}

/// A saved position for a person.
pub(super) fn position_text(bytes: &[u8]) -> Option<PositionText> {
    let position = Position::read(bytes)?;
    Some(vec![
        ("lsn".to_owned(), position.end.to_string()),
        ("changes behind it".to_owned(), position.changes.to_string()),
    ])
}

/// `publication.autocreate.mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Autocreate {
    AllTables,
    Filtered,
    Disabled,
}

pub(in crate::cdc) struct Replication {
    options: Options,
    delivery: Delivery,
    slot: String,
    publication: String,
    autocreate: Autocreate,
    drops_slot: bool,
    position: Option<Position>,
    /// What is known of the tables under their numbers in the log; `None`: another table.
    tables: HashMap<u32, Option<Table>>,
    /// When the open transaction was committed; `None` between two.
    transaction: Option<i64>,
    /// Everything before has been sent, by the server's own word.
    reached: Lsn,
    posted_at: i64,
    /// Positions that the app has not acknowledged yet.
    posted: VecDeque<(Sequence, Lsn)>,
    /// What the slot may forget.
    safe: Lsn,
}

struct Table {
    columns: Vec<Column>,
    defaults: Vec<Value>,
    keys: Keys,
}

impl Replication {
    pub fn new(options: Options) -> Result<Replication, Error> {
        let name = |property: &str, default: &str| {
            let name = options.property(property).filter(|name| !name.is_empty());
            name.unwrap_or(default).to_owned()
        };
        let (slot, publication) = (
            name("slot.name", "debezium"),
            name("publication.name", "dbz_publication"),
        );
        let is_slot_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !slot.chars().all(is_slot_name) || slot.len() > 63 {
            return Err(options.refused(format!(
                "property 'slot.name' is '{slot}': a slot's name has lower case letters, digits and \
                 underscores"
            )));
        }
        let autocreate = match options.property("publication.autocreate.mode") {
            None | Some("all_tables") => Autocreate::AllTables,
            Some("filtered") => Autocreate::Filtered,
            Some("disabled") => Autocreate::Disabled,
            Some(mode) => {
                return Err(options.refused(format!(
                    "property 'publication.autocreate.mode' is '{mode}': write all_tables, filtered \
                     or disabled"
                )));
            }
        };
        Ok(Replication {
            delivery: Delivery::new(&options)?,
            drops_slot: options.property("slot.drop.on.stop") == Some("true"),
            options,
            slot,
            publication,
            autocreate,
            position: None,
            tables: HashMap::new(),
            transaction: None,
            reached: Lsn::default(),
            posted_at: 0,
            posted: VecDeque::new(),
            safe: Lsn::default(),
        })
    }

    /// Schema and name of the table.
    fn place(&self) -> (&str, &str) {
        let table = self.options.table.as_str();
        table.split_once('.').unwrap_or_else(|| {
            let path = match &self.options.target {
                Target::Server(server) => server.property("currentSchema"),
                _ => None,
            };
            let own = path.and_then(|path| path.split(',').next());
            (own.map_or("public", str::trim), table)
        })
    }

    // ---- before the log ----

    /// Connects, sees to publication and slot, and asks for the log from the position.
    fn open(&mut self, link: &mut dyn SourceLink) -> Result<(Wire, Wire), Error> {
        let server = self.options.server()?.clone();
        let mut side = Wire::connect(&server, &[]).map_err(|f| self.options.error(f))?;
        self.publish(&mut side)?;
        let position = self.find_slot(&mut side)?;
        if self.position.is_none() {
            link.post(&position.save())?;
        }
        self.position = Some(position);
        self.safe = position.end;
        self.reached = position.end;
        self.posted.clear();
        self.tables.clear();
        self.transaction = None;
        let mut wire = Wire::connect(&server, &SESSION).map_err(|f| self.options.error(f))?;
        let publication = literal(&quoted(&self.publication));
        let sql = format!(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {publication})",
            quoted(&self.slot),
            position.end,
        );
        wire.set_read_timeout(Some(SILENCE_MAX))
            .and_then(|()| wire.copy_both(&sql))
            .and_then(|()| wire.set_read_timeout(Some(QUIET)))
            .map_err(|fault| self.log_error(fault))?;
        Ok((side, wire))
    }

    fn rows(&self, side: &mut Wire, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        side.rows(sql).map_err(|fault| self.options.error(fault))
    }

    /// Sees to it that the publication is there and has the table.
    fn publish(&self, side: &mut Wire) -> Result<(), Error> {
        let (schema, table) = self.place();
        let (publication, name) = (&self.publication, quoted(&self.publication));
        let whole = format!("{}.{}", POSTGRES.column(schema), POSTGRES.column(table));
        let found = format!(
            "SELECT bool_or(lower(schemaname) = lower({}) AND lower(tablename) = lower({})) FROM \
             pg_publication p LEFT JOIN pg_publication_tables USING (pubname) WHERE p.pubname = {} \
             GROUP BY p.pubname",
            literal(schema),
            literal(table),
            literal(publication),
        );
        let found = self.rows(side, &found)?;
        let has_table = found.first().map(|row| row[0].as_deref() == Some("t"));
        let sql = match (has_table, self.autocreate) {
            (Some(true), _) => return Ok(()),
            (None, Autocreate::AllTables) => format!("CREATE PUBLICATION {name} FOR ALL TABLES"),
            (None, Autocreate::Filtered) => {
                format!("CREATE PUBLICATION {name} FOR TABLE {whole}")
            }
            (Some(false), Autocreate::Filtered) => {
                format!("ALTER PUBLICATION {name} ADD TABLE {whole}")
            }
            (None, Autocreate::Disabled) => {
                return Err(self.options.failed(format!(
                    "there is no publication '{publication}': create it with CREATE PUBLICATION \
                     {name} FOR TABLE {whole}"
                )));
            }
            (Some(false), _) => {
                return Err(self.options.failed(format!(
                    "publication '{publication}' does not have table '{schema}.{table}', or the \
                     table does not exist: add it with ALTER PUBLICATION {name} ADD TABLE {whole}"
                )));
            }
        };
        match side.query(&sql, |_| Ok(())) {
            Ok(()) => Ok(()),
            Err(Fault::Refused(cause)) => Err(self.options.failed(format!(
                "cannot create publication '{publication}': {cause}; have its owner run {sql}, or \
                 use an existing one with connector.properties='publication.name=…' (with \
                 publication.autocreate.mode=filtered it contains only this table, which needs no \
                 superuser)"
            ))),
            Err(fault) => Err(self.options.error(fault)),
        }
    }

    /// Where to go on: from the saved position, or from where the slot stands.
    fn find_slot(&self, side: &mut Wire) -> Result<Position, Error> {
        let slot = &self.slot;
        let found = self.rows(
            side,
            &format!(
                "SELECT plugin, database, confirmed_flush_lsn, to_jsonb(s)->>'wal_status', \
                 current_database() FROM pg_replication_slots s WHERE slot_name = {}",
                literal(slot)
            ),
        )?;
        let Some([plugin, database, confirmed, status, own]) = found.first().map(Vec::as_slice)
        else {
            return match self.position {
                None => self.make_slot(side),
                Some(position) => Err(self.options.failed(format!(
                    "the server no longer has the replication slot '{slot}': the changes since \
                     {} are lost; {REMEDY}",
                    position.end
                ))),
            };
        };
        if database != own || plugin.as_deref() != Some("pgoutput") {
            return Err(self.options.failed(format!(
                "the replication slot '{slot}' already exists with plugin {} for database {}: \
                 choose another with connector.properties='slot.name=…'",
                plugin.as_deref().unwrap_or("none"),
                database.as_deref().unwrap_or("none"),
            )));
        }
        let confirmed = confirmed
            .as_deref()
            .and_then(Lsn::parse)
            .unwrap_or_default();
        if status.as_deref() == Some("lost") {
            return Err(self.options.failed(format!(
                "the server has removed the log that the replication slot '{slot}' still needed \
                 (max_slot_wal_keep_size): the changes since {confirmed} are lost; drop the slot \
                 with SELECT pg_drop_replication_slot('{slot}'); {REMEDY}"
            )));
        }
        match self.position {
            None => Ok(Position {
                end: confirmed,
                changes: 0,
            }),
            Some(position) if position.end < confirmed => Err(self.options.failed(format!(
                "the replication slot '{slot}' is at {confirmed}, past {} where this app stopped: \
                 another client has read from it, and the changes in between are lost to this app; \
                 give each source its own slot with connector.properties='slot.name=…'; {REMEDY}",
                position.end
            ))),
            Some(position) => Ok(position),
        }
    }

    fn make_slot(&self, side: &mut Wire) -> Result<Position, Error> {
        let sql = format!(
            "SELECT lsn FROM pg_create_logical_replication_slot({}, 'pgoutput')",
            literal(&self.slot)
        );
        let made = match side.rows(&sql) {
            Ok(made) => made,
            Err(Fault::Refused(cause)) => {
                return Err(self.options.failed(format!(
                    "the replication slot '{}' cannot be made: {cause}; the server needs \
                     wal_level=logical and a free slot (max_replication_slots), the user the \
                     attribute REPLICATION",
                    self.slot
                )));
            }
            Err(fault) => return Err(self.options.error(fault)),
        };
        let end = made.first().and_then(|row| Lsn::parse(row[0].as_deref()?));
        let end = end.ok_or_else(|| self.options.error(unexpected()))?;
        Ok(Position { end, changes: 0 })
    }

    /// What the server says when it does not give the log, or no more of it.
    fn log_error(&self, fault: Fault) -> Error {
        let (Fault::Refused(cause) | Fault::Passing(cause)) = &fault else {
            return self.options.error(fault);
        };
        let code = cause.downcast_ref::<ServerError>().map(|e| e.code.as_str());
        match code {
            // In use: by a connection of ours that the server has not given up yet, or by somebody else.
            Some("55006") => {
                let cause: Cause = format!(
                    "{cause}; two sources need two slots (connector.properties='slot.name=…')"
                )
                .into();
                self.options.error(Fault::Passing(cause))
            }
            Some("55000" | "58P01" | "42704") => self.options.failed(format!(
                "the server cannot provide the log from the position of the last run ({cause}): \
                 the changes in between are lost; drop the slot with SELECT \
                 pg_drop_replication_slot('{}'); {REMEDY}",
                self.slot
            )),
            _ => self.options.error(fault),
        }
    }

    // ---- the log ----

    /// One message of the copy; whether the server asks for a sign of life.
    fn sent(
        &mut self,
        bytes: &[u8],
        side: &mut Wire,
        link: &mut dyn SourceLink,
    ) -> Result<bool, Error> {
        let sent = Sent::read(bytes).ok_or_else(|| {
            self.options
                .failed("the log has a message of an unknown form")
        })?;
        let message = match sent {
            Sent::Alive { end, asks } => {
                self.reached = self.reached.max(end);
                return Ok(asks);
            }
            Sent::Log(message) => message,
        };
        match message {
            Message::Begin { at } => {
                self.transaction = Some(at);
                self.delivery.begin();
            }
            Message::Commit { end } => {
                self.transaction = None;
                self.position = Some(Position { end, changes: 0 });
                if self.delivery.is_due(link) {
                    self.post(link)?;
                }
            }
            Message::Relation(relation) => self.learn(&relation, side)?,
            Message::Insert { relation, new } => {
                self.change(Change::Insert, relation, None, Some(&new), link)?;
            }
            Message::Update { relation, old, new } => {
                self.change(Change::Update, relation, old.as_ref(), Some(&new), link)?;
            }
            Message::Delete { relation, old } => {
                self.change(Change::Delete, relation, Some(&old), None, link)?;
            }
            Message::Other => {}
        }
        Ok(false)
    }

    /// A definition stands in the log in front of the first row that was written under it.
    fn learn(&mut self, relation: &Relation, side: &mut Wire) -> Result<(), Error> {
        let (schema, table) = self.place();
        let is_ours = relation.table.eq_ignore_ascii_case(table)
            && relation.schema.eq_ignore_ascii_case(schema);
        let mut learnt = None;
        if is_ours {
            let mut columns = Vec::with_capacity(relation.columns.len());
            for column in &relation.columns {
                let (ty, modifier) = self.base_type(side, column.ty, column.modifier)?;
                columns.push(Column::new(&column.name, ty, modifier));
            }
            let names: Vec<Arc<str>> = columns.iter().map(|c| Arc::clone(&c.name)).collect();
            learnt = Some(Table {
                defaults: columns.iter().map(Column::default).collect(),
                keys: Keys::new(&names, self.delivery.is_complete()),
                columns,
            });
            if !relation.is_full && self.delivery.wants_old() {
                tracing::warn!(
                    table = relation.table,
                    "the log holds only the key of old rows; their other columns are null (to log \
                     them: ALTER TABLE {} REPLICA IDENTITY FULL)",
                    relation.table
                );
            }
        }
        self.tables.insert(relation.number, learnt);
        Ok(())
    }

    /// What a domain is a domain of.
    fn base_type(&self, side: &mut Wire, ty: u32, modifier: i32) -> Result<(u32, i32), Error> {
        let (mut ty, mut modifier) = (ty, modifier);
        for _ in 0..DOMAINS_MAX {
            if ty < OWN_TYPES {
                break;
            }
            let sql = format!(
                "SELECT typbasetype, typtypmod FROM pg_type WHERE oid = {ty} AND typtype = 'd'"
            );
            let found = self.rows(side, &sql)?;
            let number = |column: usize| found.first().and_then(|row| row[column].as_deref());
            let (Some(base), Some(own)) = (number(0), number(1)) else {
                break;
            };
            (ty, modifier) = (base.parse().unwrap_or(0), own.parse().unwrap_or(-1));
        }
        Ok((ty, modifier))
    }

    fn change(
        &mut self,
        change: Change,
        relation: u32,
        old: Option<&Tuple<'_>>,
        new: Option<&Tuple<'_>>,
        link: &mut dyn SourceLink,
    ) -> Result<(), Error> {
        let Some(known) = self.tables.get_mut(&relation) else {
            return Err(self.options.failed("the log has rows without their table"));
        };
        let Some(table) = known else { return Ok(()) };
        let covered = self.position.map_or(0, |p| p.changes);
        let Some(number) = self.delivery.count(change, covered) else {
            return Ok(());
        };
        let read = |tuple: &Tuple<'_>, old: Option<&Tuple<'_>>| table.read(tuple, old);
        let values = new.map(|new| read(new, old)).transpose().and_then(|after| {
            let before = match (old, change) {
                (Some(old), _) => Some(read(old, None)?),
                // The key has not changed, and the log has nothing else of the row before.
                (None, Change::Update) => Some(vec![Value::Null; table.columns.len()]),
                (None, _) => None,
            };
            Ok((before, after))
        });
        let (before, after) = values.map_err(|cause| self.options.failed(cause))?;
        let map = table
            .keys
            .map(before.as_deref(), after.as_deref(), &table.defaults);
        let at = self.transaction.unwrap_or_default();
        let room = self.delivery.hand_on(change, at, map, link);
        if let Some(position) = &mut self.position {
            position.changes = number;
        }
        if room == Room::Full || self.delivery.is_due(link) {
            self.post(link)?;
        }
        Ok(())
    }

    fn post(&mut self, link: &mut dyn SourceLink) -> Result<(), Error> {
        let position = self.position.unwrap_or_default();
        let sequence = self.delivery.post(&position.save(), link)?;
        self.posted_at = link.now();
        match self.posted.back_mut() {
            Some(last) if last.1 == position.end => last.0 = sequence,
            _ => self.posted.push_back((sequence, position.end)),
        }
        Ok(())
    }

    /// The log of other tables has been passed: the slot need not keep it.
    fn pass(&mut self, link: &mut dyn SourceLink) -> Result<(), Error> {
        let Some(position) = &mut self.position else {
            return Ok(());
        };
        let is_between = self.transaction.is_none() && !self.delivery.has_unposted();
        if is_between && self.reached > position.end && link.now() - self.posted_at >= PASSED_MS {
            position.end = self.reached;
            self.post(link)?;
        }
        Ok(())
    }

    /// All posts up to this one are where the app's delivery label says.
    fn acknowledged(&mut self, sequence: Sequence) {
        while let Some((_, end)) = self.posted.pop_front_if(|(posted, _)| *posted <= sequence) {
            self.safe = self.safe.max(end);
        }
    }

    fn tell(&self, wire: &mut Wire, asks: bool, now: i64) -> Result<(), Error> {
        pgoutput::status(self.safe, now, asks, &mut wire.output);
        wire.flush().map_err(|fault| self.options.error(fault))
    }

    /// What the app says meanwhile; whether it is to end.
    fn signalled(
        &mut self,
        signal: Signal,
        wire: &mut Wire,
        link: &mut dyn SourceLink,
    ) -> Result<Option<Finished>, Error> {
        let mut signal = signal;
        let mut is_paused = false;
        loop {
            match signal {
                Signal::Stop => return Ok(Some(Finished::Stopped)),
                Signal::End => return Ok(Some(Finished::Ended)),
                Signal::Acked(sequence) => self.acknowledged(sequence),
                Signal::Pause => is_paused = true,
                Signal::Resume => is_paused = false,
                Signal::Timeout if is_paused => self.tell(wire, false, link.now())?,
                Signal::Timeout => return Ok(None),
            }
            signal = link.wait(match is_paused {
                true => ALIVE,
                false => Duration::ZERO,
            });
        }
    }

    /// Reads until the app ends it.
    fn follow(
        &mut self,
        side: &mut Wire,
        wire: &mut Wire,
        link: &mut dyn SourceLink,
    ) -> Result<Finished, Error> {
        let (mut silence, mut told) = (Duration::ZERO, Instant::now());
        loop {
            let listening = Instant::now();
            let is_quiet = !wire.has_message().map_err(|f| self.log_error(f))?;
            let mut is_asked = false;
            if !is_quiet {
                silence = Duration::ZERO;
                match wire.read().map_err(|fault| self.log_error(fault))? {
                    Answer::CopyData(body) => is_asked = self.sent(body.data(), side, link)?,
                    _ => return Err(self.options.error(unexpected())),
                }
            } else {
                // Only one who listens can tell that the server is silent: after a wait for the app, or a
                // suspension, what came meanwhile has not been read.
                silence += listening.elapsed().min(ALIVE);
            }
            if silence > SILENCE_MAX {
                let cause = format!(
                    "the server has sent nothing for {} s",
                    SILENCE_MAX.as_secs()
                );
                return Err(self.options.error(Fault::Lost(cause.into())));
            }
            if is_asked || told.elapsed() > ALIVE {
                self.tell(wire, is_quiet, link.now())?;
                told = Instant::now();
            } else if !is_quiet {
                continue;
            }
            if self.delivery.has_unposted() {
                self.post(link)?;
            } else if is_quiet {
                self.pass(link)?;
            }
            let signal = match is_quiet && self.transaction.is_none() {
                true => link.idle(Duration::ZERO),
                false => link.wait(Duration::ZERO),
            };
            if let Some(finished) = self.signalled(signal, wire, link)? {
                self.tell(wire, false, link.now())?;
                return Ok(finished);
            }
        }
    }
}

/// What to do where changes were lost.
const REMEDY: &str = "start once without the saved state of this app to continue from now, and \
                      read the missing rows from the table";

impl Table {
    /// `old` is where long values stand that an update did not touch.
    fn read(&self, tuple: &Tuple<'_>, old: Option<&Tuple<'_>>) -> Result<Vec<Value>, String> {
        if tuple.fields.len() != self.columns.len() {
            return Err("the log has another number of columns than the table".into());
        }
        let old = old.filter(|old| !old.is_key).map(|old| &old.fields);
        let fields = self.columns.iter().zip(&tuple.fields).enumerate();
        let values = fields.map(|(index, (column, field))| {
            let field = match (field, old.and_then(|old| old.get(index))) {
                (Field::Unchanged, Some(old)) => old,
                (field, _) => field,
            };
            column.value(*field).ok_or_else(|| {
                format!(
                    "column '{}' has a value in the log that does not fit its type: {field:?}",
                    column.name
                )
            })
        });
        values.collect()
    }
}

/// A name in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in quotes; the connection's strings are standard ones.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Source for Replication {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let (mut side, mut wire) = self.open(link)?;
        link.report(Connection::Connected);
        let finished = self.follow(&mut side, &mut wire, link)?;
        // The slot is free from here on, and not only when the server notices that we are gone.
        wire.set_read_timeout(Some(SILENCE_MAX))
            .and_then(|()| wire.end_copy())
            .map_err(|fault| self.options.error(fault))?;
        if self.drops_slot {
            let sql = format!("DROP_REPLICATION_SLOT {}", quoted(&self.slot));
            wire.query(&sql, |_| Ok(()))
                .map_err(|fault| self.options.error(fault))?;
        }
        Ok(finished)
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
                .failed("the saved state has no position of a replication slot for it")
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
            end: Lsn(0x16_b374_d848),
            changes: 3,
        };
        assert_eq!(Position::read(&position.save()), Some(position));
        assert_eq!(Position::read(b"binlog 1\nb.1\n4\n0\n"), None);
    }
}
