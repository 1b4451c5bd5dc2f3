//! What a source, sink, mapper and store is to the server.
//!
//! A component is a constant in a slice ([`crate::mapper::MAPPERS`], the registry of the binary); it
//! names its specs of [`crate::spec`] and makes, for one place in an app, a value that
//! does the work. Everything here blocks: threads belong to `server`.
//!
//! Never: a sleep (a source waits through its link), a queue without bound, knowledge of queries.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use event::{Attribute, Batch, Column, Schema, Value};
use plan::spec::ConnectorSpec;
use plan::store::{Operation, OperationId};
use plan::{Mapping, Table, Transport};

use crate::answer::AnswerCounts;
use crate::arrivals::Account;
use crate::error::Error;
use crate::message::{Message, Messages, Undelivered};
use crate::rows::{Lines, Properties, Rejected, Rows};
use crate::shared::Shared;

// ---- payloads ----

/// What a transport hands to a mapper, and a sink mapper to a transport.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Events as they are. Each chunk of the batch is one message.
    Events(&'a Batch),
    /// Keys (text, or null) and values in order.
    Map(&'a [(Value, Value)]),
    /// Any other object.
    Object(&'a Value),
}

impl<'a> Payload<'a> {
    /// Text, also where a transport knows of bytes alone and they are UTF-8.
    pub fn text(&self) -> Option<&'a str> {
        match self {
            Payload::Text(text) => Some(text),
            Payload::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

/// A class of payload; a transport and a mapper must have one in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PayloadKind {
    Text,
    Bytes,
    Events,
    Map,
    /// Takes or gives anything.
    Any,
}

impl PayloadKind {
    /// Can what gives `gives` feed what takes `takes`?
    pub fn overlap(gives: &[PayloadKind], takes: &[PayloadKind]) -> bool {
        let any = |kinds: &[PayloadKind]| kinds.contains(&PayloadKind::Any);
        any(gives) || any(takes) || gives.iter().any(|kind| takes.contains(kind))
    }
}

// ---- surroundings ----

/// What is the same for all components of an app.
#[derive(Clone)]
pub struct Environment {
    pub app: String,
    /// Where state lasts; `None`: nowhere.
    pub state: Option<PathBuf>,
    /// What the state directory knows this group of apps by, for good: `ID/GROUP`.
    pub state_id: Option<String>,
    /// `@app:compat('siddhi-5.1')`: defects that Headwater fixes are reproduced.
    pub is_compat: bool,
    /// System settings of extensions from the deployment file, as `namespace`, `name`, `key`, `value`.
    pub settings: Arc<[Setting]>,
    /// Where lines of log sinks go.
    pub lines: Arc<dyn Fn(&str) + Send + Sync>,
    /// What connectors share: listeners, connections, pending requests, open databases.
    pub shared: Arc<Shared>,
}

impl Environment {
    /// Surroundings without state, settings or a place for lines.
    pub fn new(app: &str) -> Environment {
        Environment {
            app: app.to_owned(),
            state: None,
            state_id: None,
            is_compat: false,
            settings: Arc::from([]),
            lines: Arc::new(|_| {}),
            shared: Arc::new(Shared::default()),
        }
    }

    /// What the deployment file says for an extension (`connectors.md` 1.1).
    pub fn setting(&self, namespace: &str, name: &str, key: &str) -> Option<&str> {
        self.settings
            .iter()
            .find(|s| s.namespace == namespace && s.name == name && s.key == key)
            .map(|s| s.value.as_str())
    }
}

/// Namespace of [`Setting`] in which data sources of the configuration are, by name and by JNDI name,
/// with the options of a store as keys.
pub const DATA_SOURCES: &str = "datasource";

/// Key of the [`Setting`] of store `eventstore` that names its directory.
pub const SETTING_DIR: &str = "directory";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// `source`, `sink`, `sourceMapper`, `sinkMapper`, `store`, or that of a function.
    pub namespace: String,
    pub name: String,
    pub key: String,
    pub value: String,
}

// ---- mappers ----

/// A format, by name in [`crate::mapper::MAPPERS`]: makes mappers for both directions.
pub trait Mapper: Sync {
    /// Its specs, one a direction.
    fn specs(&self) -> &'static [ConnectorSpec];

    /// What its source mapper takes.
    fn takes(&self) -> &'static [PayloadKind];

    /// What its sink mapper gives.
    fn gives(&self) -> &'static [PayloadKind];

    fn source(&self, setup: &SourceMapperSetup<'_>) -> Result<Box<dyn SourceMapper>, Error>;

    fn sink(&self, setup: &SinkMapperSetup<'_>) -> Result<Box<dyn SinkMapper>, Error>;
}

pub struct SourceMapperSetup<'a> {
    pub mapping: &'a Mapping,
    pub schema: &'a Schema,
    /// The options of the source around it.
    pub around: &'a [(String, String)],
}

pub struct SinkMapperSetup<'a> {
    pub mapping: &'a Mapping,
    pub schema: &'a Schema,
    /// The options of the sink around it.
    pub around: &'a [(String, String)],
}

/// Turns messages into rows. Attributes that come from transport properties are filled by
/// [`Rows`], not by the mapper.
pub trait SourceMapper: Send {
    /// One message in, zero or more rows out; what cannot be read is rejected in `rows`, its
    /// neighbours go on. Rows added are one chunk, unless the mapper called [`Rows::split`].
    fn map(&mut self, payload: Payload<'_>, properties: &Properties, rows: &mut Rows);

    /// Has it all that it needs from elsewhere (a schema from its registry) to map this message, or to
    /// begin with? After [`Error::Unavailable`] it is asked again until it has, and the message waits.
    fn ready(&mut self, _message: Option<Payload<'_>>) -> Result<(), Error> {
        Ok(())
    }

    /// Many lines, each a message of its own; returns when `rows` is full or no line is left.
    fn map_lines(&mut self, lines: &mut Lines<'_>, properties: &Properties, rows: &mut Rows) {
        while !rows.is_full() {
            let Some(line) = lines.next_line() else { break };
            rows.begin_message(line.len());
            rows.set_place(lines.line(), lines.start());
            self.map(Payload::Text(line), properties, rows);
            rows.end_message();
        }
    }

    /// Nothing follows what was mapped so far (the end of a file): what waits for more is reported.
    fn end_of_input(&mut self, _rows: &mut Rows) {}

    /// What comes is not the beginning of an input: a line of names at its head has been seen.
    fn go_on(&mut self) {}

    /// May an attribute be null when its transport property is missing
    /// (`fail.on.missing.attribute='false'`)?
    fn allows_null(&self) -> bool {
        false
    }

    /// Appends what is held between messages; part of the source's position.
    fn save(&self, _out: &mut Vec<u8>) {}

    /// `held` is what [`SourceMapper::save`] gave; what cannot be read leaves nothing held.
    fn restore(&mut self, _held: &[u8]) {}
}

/// Turns rows into messages.
pub trait SinkMapper: Send {
    /// Appends the messages of one chunk, or of those of its rows that go to one destination.
    /// One row takes the single-event form, more take the array form. `rows` is not empty.
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages);

    /// Has it all that it needs from elsewhere (a schema from its registry)? Asked before the sink is
    /// connected; after [`Error::Unavailable`] again, as the sink is.
    fn ready(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// All chunks of a batch, where no option of the transport depends on the event.
    fn encode_all(&mut self, batch: &Batch, out: &mut Messages) {
        let mut rows = Vec::new();
        for chunk in 0..batch.chunk_count() {
            rows.clear();
            rows.extend(batch.chunk(chunk).map(|row| row as u32));
            if !rows.is_empty() {
                self.encode(batch, &rows, out);
            }
        }
    }
}

// ---- sources ----

/// A technology, by name in the registry of the binary: makes its sources, sinks and stores.
pub trait Connector: Sync {
    /// Specs of all it makes.
    fn specs(&self) -> &'static [ConnectorSpec];

    /// What its source hands to the mapper.
    fn gives(&self) -> &'static [PayloadKind] {
        &[]
    }

    /// What its sink takes from the mapper.
    fn takes(&self) -> &'static [PayloadKind] {
        &[]
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        Err(Error::refused(
            format!("source '{}'", setup.transport.ty),
            "there is no source of this type",
        ))
    }

    /// Where a source will listen whose options do not say where; `None` where they do, or where it does not
    /// listen.
    fn default_address(&self, _setup: &SourceSetup<'_>) -> Option<String> {
        None
    }

    /// A saved position of its source as a person reads it; `None` where its sources keep none, or where these
    /// bytes are none of theirs.
    fn position_text(&self, _position: &[u8]) -> Option<PositionText> {
        None
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        Err(Error::refused(
            format!("sink '{}'", setup.transport.ty),
            "there is no sink of this type",
        ))
    }

    fn store(&self, setup: &StoreSetup<'_>) -> Result<Box<dyn Store>, Error> {
        Err(Error::refused(
            format!("table '{}'", setup.table.schema.name),
            "there is no store of this type",
        ))
    }

    /// The columns of a table; `None` where it knows no JDBC URLs.
    fn read_table(&self, _read: &TableRead<'_>) -> Option<Result<Vec<Column>, Error>> {
        None
    }
}

/// A position in words: names (`file`, `byte`) and values.
pub type PositionText = Vec<(String, String)>;

/// Something outside that is other than the app needs it: `check --connect`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub message: String,
    /// What to do next.
    pub help: String,
}

/// A table outside that is read once and belongs to no app: for feeds.
pub struct TableRead<'a> {
    pub jdbc_url: &'a str,
    pub username: Option<&'a str>,
    pub password: Option<&'a str>,
    pub table: &'a str,
    /// The columns, with the types that their values are read as.
    pub columns: &'a [Attribute],
    /// The number of a column of numbers in whose order the rows come, and the least and the greatest number.
    pub order: Option<(usize, i64, i64)>,
    /// No more rows are read.
    pub rows_max: usize,
}

pub struct SourceSetup<'a> {
    pub transport: &'a Transport,
    pub schema: &'a Schema,
    pub environment: &'a Environment,
}

pub struct SinkSetup<'a> {
    pub transport: &'a Transport,
    pub schema: &'a Schema,
    /// Names of the options that depend on the event, in the order of [`Message::option`].
    pub dynamic: &'a [String],
    /// The table that the sink works from, where its spec says that it does.
    pub table: Option<&'a Table>,
    pub environment: &'a Environment,
    /// Counts what it is answered, for sinks that are.
    pub answers: &'a Arc<AnswerCounts>,
}

pub struct StoreSetup<'a> {
    pub table: &'a Table,
    pub environment: &'a Environment,
}

/// Takes messages from outside, on a thread of its own.
pub trait Source: Send {
    /// Connects, then reads until there is no more, [`Signal::Stop`] or an error. It is called again
    /// after [`Error::Unavailable`], with the back-off of the server in between.
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error>;

    /// Looks whether what it reads can be reached and is as the app needs it; changes nothing.
    fn probe(&mut self) -> Result<Vec<Difference>, Error> {
        Ok(Vec::new())
    }

    /// Goes on behind `position`, the last that was posted and covered. Called before `run`.
    fn restore(&mut self, position: &[u8]) -> Result<(), Error>;

    /// Is what it brings an answer to what the app itself has sent? Answers are let in however full
    /// the app is: else app and answer could wait for each other. They are no more than the requests.
    fn is_reply(&self) -> bool {
        false
    }

    /// Does its input end by itself (a file that is not followed)? Decides `--until-done`.
    fn ends(&self) -> bool {
        false
    }
}

/// Why a source returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finished {
    /// All there is has been read, and its after-actions are done. A directory says so after
    /// [`Signal::End`].
    Ended,
    Stopped,
}

/// Number of a batch of one source, from 1.
pub type Sequence = u64;

/// What a source can ask of the server.
pub trait SourceLink {
    /// Maps a message; its rows wait for the next [`SourceLink::post`].
    fn map(&mut self, payload: Payload<'_>, properties: &Properties) -> Room;

    /// Maps many lines, each a message of its own, until [`Room::Full`] or no line is left.
    fn map_lines(&mut self, lines: &mut Lines<'_>, properties: &Properties) -> Room;

    /// Nothing follows what was mapped so far.
    fn end_of_input(&mut self);

    /// Hands over what was mapped since the last batch, and the position behind it (also when no row
    /// came of it); blocks while the app is full. The position is what [`Source::restore`] gets; what
    /// the mapper holds is saved with it.
    fn post(&mut self, position: &[u8]) -> Result<Sequence, Error>;

    /// What was mapped last holds bytes of the server's budget, until the executor has taken the next
    /// batch. Given back at once where nothing waits between source and executor.
    fn hold(&mut self, _bytes: Account) {}

    /// The only way to wait.
    fn wait(&mut self, timeout: Duration) -> Signal;

    /// A handle by which other threads of the source (its connections) end a [`SourceLink::listen`].
    fn waker(&self) -> Arc<dyn Waker>;

    /// Waits for a signal, until it is woken, or for `timeout` ([`Signal::Timeout`] in both cases).
    /// Somebody who waits for his input to be done (`asks`) has it acknowledged soon; without, the
    /// acknowledgement comes when the app sees fit.
    fn listen(&mut self, timeout: Duration, asks: bool) -> Signal;

    /// A whole look at the input found nothing new, and nothing is waited for but new input. Waits
    /// like [`SourceLink::wait`], at most `pause`, and less where the run ends with its input: then
    /// [`Signal::End`] says that two looks in a row found nothing while no other source, step or
    /// timer could bring more. What a source does between two calls (batches, after-actions) counts
    /// as activity. A wake-up ends this wait as well.
    fn idle(&mut self, pause: Duration) -> Signal {
        self.wait(pause)
    }

    /// Would a batch of what is mapped find room within `timeout`? A source that must do something
    /// meanwhile (a member of a group answers its broker) asks first; [`SourceLink::post`] just waits.
    fn has_room(&mut self, _timeout: Duration) -> bool {
        true
    }

    /// Where the messages that follow come from, for what is rejected of them: an input as a reader
    /// knows it (`topic 'T' partition 0`), and the number of the record in it.
    fn set_input(&mut self, _input: &Arc<str>, _record: i64) {}

    /// How far the source is in each of its inputs, for the metrics.
    fn set_progress(&mut self, _progress: Vec<Progress>) {}

    fn report(&mut self, state: Connection);

    /// Where it is listened for input, as a client is told it: named when it is said that the source
    /// is ready.
    fn set_address(&mut self, _url: &str) {}

    /// Why something of the message that was mapped last was rejected, in words for whoever sent it.
    fn take_refusal(&mut self) -> Option<String> {
        None
    }

    /// Something that was not a message: a file that cannot be read, a record that is too long.
    fn reject(&mut self, rejected: Rejected);

    /// Wall clock, milliseconds.
    fn now(&self) -> i64;
}

/// How far a source is in one of its inputs, as numbers of records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// `topic/partition`.
    pub input: String,
    /// The record that is read next.
    pub position: i64,
    /// Records that wait there, where that is known.
    pub lag: Option<i64>,
}

/// Ends the wait of a source from any thread. A wake-up between two waits is not lost.
pub trait Waker: Send + Sync {
    fn wake(&self);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    More,
    /// A whole batch waits: post before mapping more.
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    Stop,
    /// All batches up to this one are done: their effects are where the app's delivery label says.
    Acked(Sequence),
    Timeout,
    /// Read no more until [`Signal::Resume`].
    Pause,
    Resume,
    /// The input is at its end: the source returns [`Finished::Ended`]. Comes from
    /// [`SourceLink::idle`] only.
    End,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Connection {
    Connected,
    Retrying { cause: String },
    Lost { cause: String },
}

// ---- epochs ----

/// What takes part in the epochs of a group: all that was written between two checkpoints counts at once,
/// together with the number of the epoch, or not at all. Every store does, and sinks whose
/// destination has transactions ([`Sink::epochs`]).
///
/// A checkpoint precommits, waits until the snapshot is durable, and commits; after a crash the number tells
/// which snapshot belongs to what is there. The key says whose number it is: that of another state
/// directory is none.
pub trait Epochs {
    /// Begins a transaction that all calls belong to until `commit` or `abort`.
    fn begin(&mut self) -> Result<(), Error>;

    /// Does all of the commit that can be done before it: what was written, and the number, are on
    /// the other side.
    fn precommit(&mut self, _epoch: u64, _key: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    /// Makes the transaction durable, and in the same act notes the epoch with its key. Called again
    /// where the outcome is not known.
    fn commit(&mut self, epoch: u64, key: &[u8]) -> Result<(), Error>;

    fn abort(&mut self) -> Result<(), Error>;

    /// Bytes that are kept in memory until the commit, with all tables that share a store's
    /// transaction. Where they are many the caller commits early.
    fn held(&self) -> usize {
        0
    }

    /// Is what was written since `begin` gone (the disk of a store is full)? Then nothing works
    /// before `abort`, and all writes must be done again. A sink does that by itself, when it is
    /// connected again; one that says so cannot.
    fn has_lost(&self) -> bool {
        false
    }

    /// The last epoch committed by this app, with its key.
    fn last_epoch(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error>;

    /// Commits will come about this often, or sooner.
    ///
    /// # Errors
    /// No transaction may last that long.
    fn fit(&mut self, _interval: Duration) -> Result<(), Error> {
        Ok(())
    }
}

/// Bytes of writes that are kept to be done again; beyond it a restart goes on from the last snapshot.
pub const KEPT_BYTES_MAX: usize = 64 << 20;

// ---- sinks ----

/// Takes messages out. Calls come from one thread, in order.
pub trait Sink: Send {
    /// Called before the first message, and again after [`Error::Unavailable`].
    fn connect(&mut self) -> Result<(), Error>;

    /// Sends one message, or buffers it until [`Sink::flush`]. After [`Error::Unavailable`] the same
    /// message comes again or goes to `on.error`; after any other error it is dropped.
    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error>;

    /// All messages so far have left this process, and will be found there after a crash of it.
    fn flush(&mut self) -> Result<(), Error>;

    /// All rows of the table that the sink works from: before the first message, and before the next
    /// one after they have changed.
    fn update_table(&mut self, _rows: &Batch) {}

    /// Nothing is to be sent now: a look at the connection, for sinks that notice a lost peer only when
    /// they look. Gives the time to the next look; `None`: no more are wanted.
    fn look(&mut self) -> Option<Duration> {
        None
    }

    /// Is its destination known to be away, although `connect` did not fail: by a client that connects
    /// by itself?
    fn is_away(&self) -> bool {
        false
    }

    /// As [`Sink::flush`], but waits no longer than `patience`; false: it has to be asked again. For
    /// sinks that wait long for a destination to come back.
    fn flush_within(&mut self, _patience: Duration) -> Result<bool, Error> {
        self.flush().map(|()| true)
    }

    /// Flushes and disconnects. Nothing follows but `connect`.
    fn close(&mut self) -> Result<(), Error>;

    /// Messages that `publish` took and that turned out later not to have arrived: `flush`, and mostly
    /// the next `publish`, say so by [`Error::Unavailable`]. The next `connect` sends them first, unless
    /// they are asked for before, to go to `on.error`.
    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        Vec::new()
    }

    /// Messages that `publish` took and that the other side said no to, while their neighbours went on:
    /// they are not sent again, whatever `on.error` says. Asked for after `publish` and `flush`.
    fn take_refused(&mut self) -> Vec<Undelivered> {
        Vec::new()
    }

    /// The part that it takes in the epochs of its group, where it does. Then what is published between
    /// two checkpoints is one transaction, and `flush` is not called.
    fn epochs(&mut self) -> Option<&mut dyn Epochs> {
        None
    }
}

// ---- stores ----

/// A table that is kept outside. Calls come from one thread; each call is atomic by itself, or part
/// of the epoch where one was begun.
pub trait Store: Epochs + Send {
    /// Looks whether its place can be reached and a table that is there has the columns of the
    /// definition; changes nothing.
    fn probe(&mut self) -> Result<Vec<Difference>, Error> {
        Ok(Vec::new())
    }

    /// Connects, and creates the table and its indexes where they are missing.
    fn connect(&mut self) -> Result<(), Error>;

    /// Compiles an operation of the app once; `Refused` where it cannot be done (a function that the
    /// store does not know).
    fn prepare(&mut self, id: OperationId, operation: &Operation) -> Result<(), Error>;

    /// Appends rows; a batch of several chunks is one transaction, redone chunk by chunk by the
    /// caller when it fails.
    fn insert(&mut self, batch: &Batch) -> Result<(), Error>;

    /// Runs a prepared operation for each row of parameters in order: an event sees the writes of
    /// those before it.
    fn execute(&mut self, id: OperationId, parameters: &Batch) -> Result<Answer, Error>;

    /// The rows as they are now, those of the open transaction among them, for a question that another thread
    /// answers; taken without a look at them. `None`: questions are answered by [`Store::execute`].
    fn view(&mut self) -> Option<Box<dyn StoreView>> {
        None
    }

    /// The rows of the last `insert` or `execute` that were refused one by one while the others were
    /// written: for stores that have no transaction to undo those.
    fn take_refused(&mut self) -> Vec<Refused> {
        Vec::new()
    }

    fn close(&mut self) -> Result<(), Error>;
}

/// The rows of a table as they were at one moment, whatever is written meanwhile.
pub trait StoreView: Send {
    /// Answers an operation that finds rows, as [`Store::execute`] does. `is_wanted` is asked now and then:
    /// an answer that nobody waits for is given up.
    fn find(
        &self,
        operation: &Operation,
        parameters: &Batch,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Answer, Error>;
}

/// A row of a batch that a store has not written.
#[derive(Debug)]
pub struct Refused {
    pub row: usize,
    pub cause: Error,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Written {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
}

/// What an operation gives back.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Rows changed.
    Written(Written),
    /// One row of parameters, one answer.
    Contains(Vec<bool>),
    /// The rows found, all attributes of the table, and for each row of parameters where its rows
    /// end.
    Rows { batch: Batch, ends: Vec<u32> },
}

impl Answer {
    /// The columns of the rows found, and for each row of parameters where its rows end.
    ///
    /// # Errors
    /// Like the others: what the store gave is no answer to the question, in words.
    pub fn into_rows(self) -> Result<(Vec<Column>, Vec<u32>), &'static str> {
        match self {
            Answer::Rows { batch, ends } => Ok((batch.into_parts().columns, ends)),
            _ => Err("the store gave no rows"),
        }
    }

    pub fn into_contains(self) -> Result<Vec<bool>, &'static str> {
        match self {
            Answer::Contains(found) => Ok(found),
            _ => Err("the store did not report what it contains"),
        }
    }

    pub fn into_written(self) -> Result<Written, &'static str> {
        match self {
            Answer::Written(written) => Ok(written),
            _ => Err("the store gave no count"),
        }
    }
}
