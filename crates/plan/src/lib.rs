//! A checked app: names resolved to numbers, types known, defaults filled in.
//!
//! This is what the engine, the connectors and `explain` work from. The checker makes one only for
//! an app without errors. Everything is listed in the order of the text, because order is visible
//! behaviour (receivers of a stream, timers set at start, query numbers).
//!
//! What components say about themselves is here as well ([`spec`]), what the engine asks of a table
//! that is kept outside ([`store`]), and what an app keeps, as text ([`state`]).
//!
//! Never: a check, or the data of a component.

pub mod spec;
pub mod state;
pub mod store;
pub mod text;

use std::fmt;
use std::sync::Arc;

use event::{Attribute, Schema, Type};

use lang::ast::{
    Duration, EventType, Index, JoinKind, JoinTrigger, LogicalOp, PatternKind, RateKind,
};
use lang::span::Span;

pub type StreamId = usize;
pub type TableId = usize;
pub type WindowId = usize;
pub type AggregationId = usize;
pub type QueryId = usize;
pub type PartitionId = usize;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// `@app:name`, or `SiddhiApp` where the app has none (Siddhi draws a UUID).
    pub name: String,
    pub options: AppOptions,
    pub streams: Vec<Stream>,
    pub tables: Vec<Table>,
    pub windows: Vec<NamedWindow>,
    pub aggregations: Vec<Aggregation>,
    pub triggers: Vec<Trigger>,
    pub functions: Vec<ScriptFunction>,
    pub queries: Vec<Query>,
    pub partitions: Vec<Partition>,
    /// Queries outside partitions, and partitions, in the order of the text.
    pub elements: Vec<Element>,
    /// Components that are known but do not run yet, each with its place; `run` refuses the app
    /// while this is not empty.
    pub not_runnable: Vec<(String, Span)>,
    /// Calls of functions that reach outside (`file:move`), each with its place. A build may lack the
    /// technology that they belong to.
    pub effects: Vec<(String, Span)>,
    pub conditions: ContentConditions,
}

/// Reads a condition over the content of a window: the checked expression, or what is wrong.
type ReadCondition = dyn Fn(&Schema, &str) -> Result<Expr, String> + Send + Sync;

/// Reads the conditions of `expression` windows, whose text may arrive with the events; the checker
/// gives it to the plan, for the engine knows no names. All are equal: they are no part of an app.
#[derive(Clone, Default)]
pub struct ContentConditions(Option<Arc<ReadCondition>>);

impl ContentConditions {
    pub fn new(
        read: impl Fn(&Schema, &str) -> Result<Expr, String> + Send + Sync + 'static,
    ) -> ContentConditions {
        ContentConditions(Some(Arc::new(read)))
    }

    /// The condition on a row, where the event that is looked at is input 0, the oldest in the
    /// window 1 and the newest 2. The error says what is wrong with the text.
    pub fn read(&self, row: &Schema, text: &str) -> Result<Expr, String> {
        match &self.0 {
            Some(read) => read(row, text),
            None => Err("the plan was made without a checker".to_owned()),
        }
    }
}

impl PartialEq for ContentConditions {
    fn eq(&self, _: &ContentConditions) -> bool {
        true
    }
}

impl fmt::Debug for ContentConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentConditions")
    }
}

/// What a named window emits travels like a stream. The numbers of these junctions follow those of
/// the streams.
impl Plan {
    pub fn junction_of(&self, window: WindowId) -> StreamId {
        self.streams.len() + window
    }

    /// The stream or junction that rows of an input come through; `None` for tables and aggregations.
    pub fn junction_read(&self, from: From) -> Option<StreamId> {
        match from {
            From::Stream(stream) => Some(stream),
            From::Window(window) => Some(self.junction_of(window)),
            From::Table(_) | From::Aggregation(_) => None,
        }
    }

    /// The attributes of what a query can read.
    pub fn schema_of(&self, from: From) -> &Schema {
        match from {
            From::Stream(stream) => &self.streams[stream].schema,
            From::Window(window) => &self.windows[window].schema,
            From::Table(table) => &self.tables[table].schema,
            From::Aggregation(id) => &self.aggregations[id].schema,
        }
    }

    /// The rows of a stream or junction.
    pub fn junction_schema(&self, junction: StreamId) -> &Schema {
        match junction.checked_sub(self.streams.len()) {
            None => &self.streams[junction].schema,
            Some(window) => &self.windows[window].schema,
        }
    }

    /// The name of a stream or junction as written in the app.
    pub fn junction_name(&self, junction: StreamId) -> String {
        match self.streams.get(junction) {
            Some(stream) => stream.display_name(),
            None => self.junction_schema(junction).name.clone(),
        }
    }

    /// The stream or named window of a name.
    pub fn junction_named(&self, name: &str) -> Option<StreamId> {
        let all = self.streams.len() + self.windows.len();
        (0..all).find(|&junction| self.junction_name(junction) == name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    Query(QueryId),
    Partition(PartitionId),
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct AppOptions {
    /// `@app:playback`.
    pub playback: Option<Playback>,
    /// `@app:compat('siddhi-5.1')`: defects that Headwater fixes are reproduced.
    pub compat: bool,
    /// `@app:memory(limit=…)`: bytes that the app may hold.
    pub memory_max: Option<u64>,
    /// `@app:statistics`, where it is on.
    pub statistics: Option<Statistics>,
    /// All `@app:…` annotations as key and value (`name`, `description`, `statistics`, …).
    pub annotations: Vec<(String, String)>,
}

/// What `@app:statistics` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Reports go to the console.
    pub is_console: bool,
    pub interval_seconds: u64,
    /// Names of metrics, with `*` for anything; empty: all.
    pub include: Vec<String>,
    /// What is measured when the app begins.
    pub level: StatisticsLevel,
}

/// How much is measured of a running app; each level has all of the one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum StatisticsLevel {
    #[default]
    Off,
    /// Throughput of streams, sources, sinks and tables; throughput and latency of queries.
    Basic,
    /// What the parts of the app hold in memory, what waits in buffers, and the latency of mappers.
    Detail,
}

impl StatisticsLevel {
    pub const ALL: [StatisticsLevel; 3] = [
        StatisticsLevel::Off,
        StatisticsLevel::Basic,
        StatisticsLevel::Detail,
    ];

    /// The names of all, as they are asked for.
    pub const NAMES: &str = "OFF, BASIC or DETAIL";

    pub fn name(self) -> &'static str {
        match self {
            StatisticsLevel::Off => "OFF",
            StatisticsLevel::Basic => "BASIC",
            StatisticsLevel::Detail => "DETAIL",
        }
    }

    /// The level of this name, in any case.
    pub fn from_name(name: &str) -> Option<StatisticsLevel> {
        let mut all = StatisticsLevel::ALL.into_iter();
        all.find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

/// Idle time and increment in milliseconds; both or neither.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Playback {
    pub idle: Option<(i64, i64)>,
}

// ---- definitions ----

#[derive(Clone, PartialEq, Debug)]
pub struct Stream {
    /// `schema.name` is without `#` or `!`.
    pub schema: Schema,
    pub kind: StreamKind,
    /// What happens to a chunk on which a query that reads this stream fails.
    pub on_error: OnError,
    pub deferred: Option<Async>,
    pub sources: Vec<Transport>,
    pub sinks: Vec<Transport>,
    /// Written `define stream`, not made by an insert, a trigger or `@OnError`.
    pub is_defined: bool,
    pub span: Span,
}

impl Stream {
    /// `S`, `#S` or `!S`.
    pub fn display_name(&self) -> String {
        match self.kind {
            StreamKind::Inner(_) => format!("#{}", self.schema.name),
            StreamKind::Fault(_) => format!("!{}", self.schema.name),
            StreamKind::Plain | StreamKind::Trigger => self.schema.name.clone(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    Plain,
    /// Lives inside this partition.
    Inner(PartitionId),
    /// The fault stream of this stream: its attributes and `_error object`.
    Fault(StreamId),
    Trigger,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnError {
    #[default]
    Log,
    /// To the fault stream.
    Stream(StreamId),
    Store,
}

/// `@async`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Async {
    pub buffer_size: u32,
    pub workers: u32,
    /// Rows at which a chunk is cut.
    pub batch_size_max: Option<u32>,
}

/// One `@source` or `@sink`, as written (after `ref` and `--set`).
#[derive(Clone, PartialEq, Debug)]
pub struct Transport {
    /// `kafka`, `file`.
    pub ty: String,
    /// Options with their text, without `type`, in the order of the text.
    pub options: Vec<(String, String)>,
    pub map: Mapping,
    pub distribution: Option<Distribution>,
    pub span: Span,
}

impl Transport {
    /// One sink for each destination of `@distribution`, with the options of both; itself where
    /// there is no distribution.
    pub fn spread(self) -> Vec<Transport> {
        let Some(distribution) = &self.distribution else {
            return vec![self];
        };
        let one = |(index, own): (usize, &Vec<(String, String)>)| {
            let shared = self
                .options
                .iter()
                .filter(|(k, _)| own.iter().all(|(name, _)| name != k));
            Transport {
                options: own.iter().chain(shared).cloned().collect(),
                distribution: Some(Distribution {
                    index,
                    ..distribution.clone()
                }),
                ..self.clone()
            }
        };
        distribution
            .destinations
            .iter()
            .enumerate()
            .map(one)
            .collect()
    }

    pub fn option(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    }
}

/// `@map(type='json', …, @attributes(…), @payload(…))`; `passThrough` where there is none.
#[derive(Clone, PartialEq, Debug)]
pub struct Mapping {
    pub ty: String,
    pub options: Vec<(String, String)>,
    /// Source: for each attribute of the stream, in its order, what it is read from; empty: the
    /// mapper's default mapping.
    pub attributes: Vec<String>,
    /// Sink: payload templates; the key is empty for a positional one.
    pub payload: Vec<(String, String)>,
    pub span: Span,
}

impl Mapping {
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// `roundRobin`, `broadcast`, `partitioned`.
    pub strategy: String,
    /// Index of the stream's attribute.
    pub partition_key: Option<usize>,
    pub options: Vec<(String, String)>,
    pub destinations: Vec<Vec<(String, String)>>,
    /// Which of the destinations this sink is: the plan holds one sink for each.
    pub index: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    pub schema: Schema,
    /// Attribute indexes of `@PrimaryKey`, in the order of the annotation.
    pub primary_key: Vec<usize>,
    /// One attribute index per `@Index`.
    pub indexes: Vec<Vec<usize>>,
    /// What each `@Index` says besides, for stores whose indexes have an order and options.
    pub index_details: Vec<IndexDetail>,
    /// `@Store`; `None`: in memory.
    pub store: Option<Store>,
    pub span: Span,
}

/// `@Index('a:1', 'b:-1', '{"unique": true}')`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct IndexDetail {
    /// One for each attribute of the index.
    pub descending: Vec<bool>,
    /// An object of JSON in the words of the store.
    pub options: Option<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Store {
    pub ty: String,
    pub options: Vec<(String, String)>,
    /// Options of `@Cache`.
    pub cache: Option<Vec<(String, String)>>,
    /// As [`ConnectorSpec::selects`](spec::ConnectorSpec::selects).
    pub selects: bool,
    pub span: Span,
}

impl Store {
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct NamedWindow {
    pub schema: Schema,
    pub window: WindowCall,
    pub output: EventType,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Trigger {
    pub name: String,
    pub stream: StreamId,
    pub at: TriggerAt,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum TriggerAt {
    Start,
    EveryMillis(i64),
    Cron(String),
}

#[derive(Clone, PartialEq, Debug)]
pub struct ScriptFunction {
    pub name: String,
    pub language: String,
    pub returns: Type,
    pub body: String,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Aggregation {
    pub name: String,
    pub input: Single,
    pub selector: Selector,
    /// Attribute of the input that holds the time; `None`: the application clock at arrival.
    pub by: Option<Expr>,
    /// Ascending, without gaps for a range.
    pub durations: Vec<Duration>,
    /// For each duration the table of its closed buckets (`A_SECONDS`), in memory or in the store.
    pub tables: Vec<TableId>,
    /// Attributes of those tables.
    pub columns: Vec<AggregationColumn>,
    /// For each attribute of `schema` how it is made of `columns`.
    pub reads: Vec<AggregationRead>,
    /// `@PartitionById`: the id of this shard.
    pub shard: Option<String>,
    /// Name of the zone of hours, days, months and years; empty for GMT.
    pub zone: String,
    /// `None`: nothing is purged.
    pub purge: Option<AggregationPurge>,
    /// `AGG_TIMESTAMP` and the selected attributes.
    pub schema: Schema,
    pub store: Option<Store>,
    /// `@purge`, `@PartitionById`, `@persistedAggregation`, … as written.
    pub annotations: Vec<lang::ast::Annotation>,
    pub span: Span,
}

/// One attribute of the tables of an aggregation.
#[derive(Clone, PartialEq, Debug)]
pub struct AggregationColumn {
    pub attribute: Attribute,
    pub kind: ColumnKind,
}

/// Expressions see the row behind the handlers as input 0.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnKind {
    /// Start of the bucket, by the application clock at arrival.
    Time,
    Shard,
    /// With `aggregate by`: start of the bucket by the event's own time.
    EventTime,
    Key(Expr),
    /// The newest value.
    Last(Expr),
    /// With `aggregate by`: the event's own time of the last values.
    LastEventTime,
    Sum(Expr),
    Count,
    Min(Expr),
    Max(Expr),
    /// All values there were.
    Set(Expr),
}

/// How an attribute of an aggregation is read, by indexes of its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregationRead {
    Column(usize),
    Average { sum: usize, count: usize },
    SizeOfSet(usize),
}

/// When closed buckets are deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AggregationPurge {
    /// Milliseconds between two looks.
    pub interval: i64,
    /// For each duration how long its buckets are kept, in milliseconds; `None`: for ever.
    pub keep: Vec<Option<i64>>,
}

// ---- queries ----

#[derive(Clone, PartialEq, Debug)]
pub struct Partition {
    /// `partition_<n>` without `@info`.
    pub name: String,
    pub keys: Vec<PartitionKey>,
    pub queries: Vec<QueryId>,
    /// `@purge`: idle period and interval in milliseconds.
    pub purge: Option<(i64, i64)>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PartitionKey {
    /// A stream or a named window.
    pub from: From,
    pub by: PartitionBy,
}

/// Expressions over one row of what is partitioned (input 0).
#[derive(Clone, PartialEq, Debug)]
pub enum PartitionBy {
    Value(Expr),
    Ranges(Vec<(Expr, String)>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    /// `@info(name=…)`, or `query_<n>`, n counting all queries of the app from 1.
    pub name: String,
    pub partition: Option<PartitionId>,
    pub input: Input,
    pub selector: Selector,
    pub rate: Option<Rate>,
    pub output: Output,
    /// Kinds of events that pass the selector.
    pub events: EventType,
    pub span: Span,
}

impl Query {
    /// Do rows of its input expire? Siddhi's `QueryParser`: a join has a window, whatever its sides are.
    pub fn has_window(&self) -> bool {
        match &self.input {
            Input::Single(single) => {
                let mut handlers = single.handlers.iter();
                handlers.any(|h| matches!(h, Handler::Window(_)))
            }
            Input::Join(_) => true,
            Input::Pattern(_) => false,
        }
    }

    /// The places of the items that are aggregators and nothing else.
    pub fn aggregates(&self) -> Vec<usize> {
        let items = self.selector.items.iter().enumerate();
        items
            .filter(|(_, (item, _))| matches!(item.kind, ExprKind::Aggregate { .. }))
            .map(|(at, _)| at)
            .collect()
    }

    /// The [`aggregates`](Query::aggregates) that Siddhi's `output snapshot` leaves out where it
    /// compares an EXPIRED row with those of its picture: having passed one it takes the next from its
    /// list by the place of the item that it is at (`AggregationWindowedPerSnapshotOutputRateLimiter`,
    /// ruling 83). `None` where the list has no such place, which is an error of Java's.
    pub fn aggregates_left_out(&self) -> Option<Vec<usize>> {
        let all = self.aggregates();
        let mut left_out = Vec::new();
        let mut next = all.first().copied();
        for at in 0..self.selector.items.len() {
            if next == Some(at) {
                left_out.push(at);
                next = match left_out.len() == all.len() {
                    true => None,
                    false => Some(*all.get(at)?),
                };
            }
        }
        Some(left_out)
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    Single(Single),
    Join(Box<Join>),
    Pattern(Box<Pattern>),
}

/// What a query reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum From {
    Stream(StreamId),
    Window(WindowId),
    /// Only as a side of a join, or on demand.
    Table(TableId),
    Aggregation(AggregationId),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Single {
    pub from: From,
    pub handlers: Vec<Handler>,
    /// The row behind the last handler: the attributes of `from`, then those that stream functions
    /// added, in order.
    pub schema: Schema,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Handler {
    /// Over the row as it is at this point (input 0).
    Filter(Expr),
    Window(WindowCall),
    Function(StreamFunctionCall),
}

#[derive(Clone, PartialEq, Debug)]
pub struct WindowCall {
    /// `length`, `unique:ever`.
    pub name: String,
    pub args: Vec<Expr>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct StreamFunctionCall {
    /// `log`, `file:move`.
    pub name: String,
    pub args: Vec<Expr>,
    /// Attributes added behind those of the row.
    pub adds: Vec<Attribute>,
    /// Reaches outside: done by the host.
    pub is_effect: bool,
    /// Arguments that are secrets, by index: they are not for reading.
    pub secrets: Vec<usize>,
    pub span: Span,
}

/// Expressions see the left side as input 0, the right as input 1.
#[derive(Clone, PartialEq, Debug)]
pub struct Join {
    pub left: Single,
    pub right: Single,
    pub kind: JoinKind,
    pub trigger: JoinTrigger,
    pub on: Option<Expr>,
    pub within: Option<(Expr, Option<Expr>)>,
    pub per: Option<Expr>,
}

/// Expressions see each stream reference as an input, numbered from 0 in the order of the text.
#[derive(Clone, PartialEq, Debug)]
pub struct Pattern {
    pub kind: PatternKind,
    pub references: Vec<PatternReference>,
    pub root: PatternElement,
    /// Milliseconds.
    pub within: Option<i64>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PatternReference {
    /// `e1`, or the stream's name.
    pub name: String,
    /// A stream, or a named window.
    pub from: From,
    /// Filters and stream functions; expressions in them see all references, the own one included.
    pub handlers: Vec<Handler>,
    pub schema: Schema,
    /// Collects several events, so that `e.attr` without an index is a list.
    pub is_counted: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum PatternElement {
    Every(Box<PatternElement>),
    Chain(Vec<PatternElement>),
    /// Index into `references`.
    Stream(usize),
    Count {
        reference: usize,
        min: u32,
        max: Option<u32>,
    },
    Logical {
        left: Box<PatternElement>,
        op: LogicalOp,
        right: Box<PatternElement>,
    },
    /// Milliseconds of quiet; `None` only as a side of `and`.
    Absent {
        reference: usize,
        wait: Option<i64>,
    },
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selector {
    /// Expression and output name of each attribute; `select *` is written out.
    pub items: Vec<(Expr, String)>,
    /// Attributes of the input.
    pub group_by: Vec<Expr>,
    /// Sees the output row as [`OUTPUT`], and in joins and patterns also the inputs.
    pub having: Option<Expr>,
    /// Expression (as in `having`) and whether descending.
    pub order_by: Vec<(Expr, bool)>,
    pub limit: Option<u64>,
    pub offset: Option<u64>,
    /// An aggregator occurs in `items`.
    pub has_aggregator: bool,
    /// The output row. Its name is empty.
    pub schema: Schema,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    pub kind: RateKind,
    pub every: RateEvery,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateEvery {
    Events(u64),
    Millis(i64),
}

/// Where a query's rows go. Conditions and set values see the query's output row as input 0 and the
/// table's row as input 1.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    Stream(StreamId),
    Table(TableId),
    Window(WindowId),
    Delete {
        table: TableId,
        on: Expr,
    },
    Update {
        table: TableId,
        set: Vec<(usize, Expr)>,
        on: Expr,
    },
    UpdateOrInsert {
        table: TableId,
        set: Vec<(usize, Expr)>,
        on: Expr,
    },
    /// Only to callbacks.
    Return,
}

/// An on-demand (store) query, checked against the plan of its app.
#[derive(Clone, PartialEq, Debug)]
pub enum OnDemand {
    Find(Box<Find>),
    Write(Box<Write>),
}

/// `select … insert into T`, `delete T on …`, `update T …`.
#[derive(Clone, PartialEq, Debug)]
pub struct Write {
    /// Makes one row out of constants; without a select clause a row without attributes.
    pub selector: Selector,
    /// Takes the row as that of a query.
    pub output: Output,
}

/// `from T on … within … per … select …`: conditions and the selector see the searched row as
/// input 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Find {
    /// A table, named window or aggregation.
    pub from: From,
    pub on: Option<Expr>,
    pub within: Option<(Expr, Option<Expr>)>,
    pub per: Option<Expr>,
    pub selector: Selector,
}

// ---- expressions ----

/// Number of an input of an expression; its meaning is said where the expression stands.
pub type InputId = u16;

/// The output row of the selector, in `having` and `order by`.
pub const OUTPUT: InputId = InputId::MAX;

#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    pub ty: Type,
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    Constant(Constant),
    Attribute {
        input: InputId,
        index: Option<Index>,
        attribute: usize,
    },
    /// `+ - * / %`; `ty` says in which type (Siddhi's promotion).
    Arithmetic(ArithmeticOp, Box<Expr>, Box<Expr>),
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    /// Is there no event at this input (outer join, pattern)?
    IsNoEvent {
        input: InputId,
        index: Option<Index>,
    },
    /// Does a row of the table satisfy the condition? It sees the table's row as input `row`.
    In {
        condition: Box<Expr>,
        table: TableId,
        row: InputId,
    },
    /// A scalar function by full name (`str:upper`). `event` is the input whose event
    /// `eventTimestamp(e)` looks at; `None` for all other functions, and for `eventTimestamp()`,
    /// which is that of the row the expression is evaluated for.
    Call {
        name: String,
        args: Vec<Expr>,
        event: Option<(InputId, Option<Index>)>,
        /// Reaches outside: done by the host, before the expression is evaluated.
        is_effect: bool,
    },
    /// A function of the app's own, by index into [`Plan::functions`].
    Script {
        function: usize,
        args: Vec<Expr>,
    },
    /// An aggregator by full name; each occurrence has a state of its own.
    Aggregate {
        name: String,
        args: Vec<Expr>,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub enum Constant {
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bool(bool),
    String(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompareOp {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}

impl ArithmeticOp {
    /// As written between two values.
    pub const fn sign(self) -> &'static str {
        match self {
            ArithmeticOp::Add => "+",
            ArithmeticOp::Subtract => "-",
            ArithmeticOp::Multiply => "*",
            ArithmeticOp::Divide => "/",
            ArithmeticOp::Modulo => "%",
        }
    }
}

impl CompareOp {
    /// The comparison that says the same with its sides changed.
    pub const fn turned(self) -> CompareOp {
        match self {
            CompareOp::Less => CompareOp::Greater,
            CompareOp::LessEqual => CompareOp::GreaterEqual,
            CompareOp::Greater => CompareOp::Less,
            CompareOp::GreaterEqual => CompareOp::LessEqual,
            CompareOp::Equal | CompareOp::NotEqual => self,
        }
    }

    /// As written between two values.
    pub const fn sign(self) -> &'static str {
        match self {
            CompareOp::Less => "<",
            CompareOp::LessEqual => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterEqual => ">=",
            CompareOp::Equal => "==",
            CompareOp::NotEqual => "!=",
        }
    }
}
