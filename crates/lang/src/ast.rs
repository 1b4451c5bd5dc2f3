//! The syntax tree of SiddhiQL 5.1, as written: names are not resolved and types not checked.
//!
//! Every node carries its [`Span`]. The parser never fails: where text could not be understood the
//! tree has a hole (`ExprKind::Error`, an element left out) and a diagnostic says why.

use event::Type;

use crate::span::Span;

/// A name as written, without back-quotes.
#[derive(Clone, PartialEq, Debug)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// A string literal: its text without the quotes, its span with them.
#[derive(Clone, PartialEq, Debug)]
pub struct Text {
    pub text: String,
    pub span: Span,
}

/// One SiddhiQL application.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct App {
    /// `@app:…` annotations; `name` holds the part after `app:`.
    pub annotations: Vec<Annotation>,
    /// Definitions, queries and partitions in the order of the text.
    pub elements: Vec<Element>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Element {
    Stream(StreamDef),
    Table(TableDef),
    Window(WindowDef),
    Trigger(TriggerDef),
    Function(FunctionDef),
    Aggregation(AggregationDef),
    Query(Query),
    Partition(Partition),
}

// ---- annotations ----

/// `@name(key = 'value', 'value', @nested(…))`.
#[derive(Clone, PartialEq, Debug)]
pub struct Annotation {
    pub name: Name,
    pub elements: Vec<AnnotationElement>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct AnnotationElement {
    /// `None` for a positional value. Dots, dashes and colons are part of the key.
    pub key: Option<Name>,
    pub value: Text,
}

impl Annotation {
    /// Names of annotations match in any case.
    pub fn is(&self, name: &str) -> bool {
        self.name.text.eq_ignore_ascii_case(name)
    }

    /// The value of the element with this exact key.
    pub fn value(&self, key: &str) -> Option<&Text> {
        self.elements
            .iter()
            .find(|e| e.key.as_ref().is_some_and(|k| k.text == key))
            .map(|e| &e.value)
    }

    /// `@name`, without what stands in parentheses.
    pub fn head(&self) -> Span {
        Span {
            start: self.span.start,
            end: self.name.span.end,
        }
    }

    pub fn nested(&self, name: &str) -> Option<&Annotation> {
        self.annotations.iter().find(|a| a.is(name))
    }
}

// ---- definitions ----

#[derive(Clone, PartialEq, Debug)]
pub struct Attribute {
    pub name: Name,
    pub ty: Type,
    pub ty_span: Span,
}

/// `#Inner`, `!Fault` or a plain name.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamName {
    pub name: Name,
    pub kind: StreamKind,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamKind {
    Plain,
    /// `#Name`, visible only inside its partition.
    Inner,
    /// `!Name`, the fault stream of `Name`.
    Fault,
}

#[derive(Clone, PartialEq, Debug)]
pub struct StreamDef {
    pub annotations: Vec<Annotation>,
    pub name: StreamName,
    pub attributes: Vec<Attribute>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TableDef {
    pub annotations: Vec<Annotation>,
    pub name: StreamName,
    pub attributes: Vec<Attribute>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct WindowDef {
    pub annotations: Vec<Annotation>,
    pub name: StreamName,
    pub attributes: Vec<Attribute>,
    pub window: Call,
    /// `output … events`; all events when absent.
    pub output: Option<EventType>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TriggerDef {
    pub annotations: Vec<Annotation>,
    pub name: Name,
    pub at: TriggerAt,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum TriggerAt {
    /// `at every 5 sec`, in milliseconds.
    Every(TimeSpan),
    /// `at 'start'` or a Quartz expression.
    Text(Text),
}

/// `define function name[language] return type { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionDef {
    pub annotations: Vec<Annotation>,
    pub name: Name,
    pub language: Name,
    pub returns: Type,
    /// The text between the outer braces, whole (Siddhi cuts its last character).
    pub body: Text,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct AggregationDef {
    pub annotations: Vec<Annotation>,
    pub name: Name,
    pub input: SingleInput,
    pub selector: Selector,
    /// `aggregate by ts`.
    pub by: Option<AttributeRef>,
    pub durations: Durations,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Durations {
    /// `sec ... year`.
    Range(Spanned<Duration>, Spanned<Duration>),
    /// `sec, min, day`.
    List(Vec<Spanned<Duration>>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Duration {
    Seconds,
    Minutes,
    Hours,
    Days,
    Weeks,
    Months,
    Years,
}

impl Duration {
    /// The next longer one that an aggregation may have.
    pub fn longer(self) -> Option<Duration> {
        match self {
            Duration::Seconds => Some(Duration::Minutes),
            Duration::Minutes => Some(Duration::Hours),
            Duration::Hours => Some(Duration::Days),
            Duration::Days | Duration::Weeks => Some(Duration::Months),
            Duration::Months => Some(Duration::Years),
            Duration::Years => None,
        }
    }
}

// ---- queries ----

#[derive(Clone, PartialEq, Debug)]
pub struct Partition {
    pub annotations: Vec<Annotation>,
    pub keys: Vec<PartitionKey>,
    pub queries: Vec<Query>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PartitionKey {
    pub stream: StreamName,
    pub by: PartitionBy,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum PartitionBy {
    Value(Expr),
    /// `v < 10 as 'low' or v >= 10 as 'high'`.
    Ranges(Vec<(Expr, Text)>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    pub annotations: Vec<Annotation>,
    pub input: Input,
    pub selector: Selector,
    pub rate: Option<OutputRate>,
    pub output: Output,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    Single(SingleInput),
    Join(Box<JoinInput>),
    Pattern(PatternInput),
    /// `from (from S … return)`.
    Anonymous(Box<Query>),
}

/// One stream with its handlers and, at most, one window.
#[derive(Clone, PartialEq, Debug)]
pub struct SingleInput {
    pub stream: StreamName,
    /// Filters, stream functions and the window in the order of the text.
    pub handlers: Vec<Handler>,
    /// `as alias`, in joins.
    pub alias: Option<Name>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Handler {
    Filter(Expr),
    /// `#ns:name(args)`.
    Function(Call),
    /// `#window.ns:name(args)`.
    Window(Call),
}

#[derive(Clone, PartialEq, Debug)]
pub struct JoinInput {
    pub left: SingleInput,
    pub right: SingleInput,
    pub kind: JoinKind,
    /// Where `unidirectional` stands.
    pub trigger: JoinTrigger,
    pub on: Option<Expr>,
    pub within: Option<Within>,
    pub per: Option<Expr>,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JoinKind {
    Inner,
    LeftOuter,
    RightOuter,
    FullOuter,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JoinTrigger {
    Both,
    Left,
    Right,
}

/// `within a [, b]` of an aggregation join or on-demand query.
#[derive(Clone, PartialEq, Debug)]
pub struct Within {
    pub start: Expr,
    pub end: Option<Expr>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PatternInput {
    pub kind: PatternKind,
    pub root: PatternElement,
    pub within: Option<TimeSpan>,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PatternKind {
    /// `->`
    Pattern,
    /// `,`
    Sequence,
}

#[derive(Clone, PartialEq, Debug)]
pub enum PatternElement {
    Every(Box<PatternElement>, Span),
    /// `a -> b -> c` or `a, b, c`; at least two.
    Chain(Vec<PatternElement>, Span),
    Stream(PatternStream),
    /// `e = S<2:5>`, `S*`, `S+`, `S?`; `max` absent means unbounded.
    Count {
        stream: PatternStream,
        min: u32,
        max: Option<u32>,
        span: Span,
    },
    Logical {
        left: Box<PatternElement>,
        op: LogicalOp,
        right: Box<PatternElement>,
        span: Span,
    },
    /// `not S[f] for t`; without `for` only as a side of `and`.
    Absent {
        stream: SingleInput,
        wait: Option<TimeSpan>,
        span: Span,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub struct PatternStream {
    /// `e1 =`.
    pub reference: Option<Name>,
    pub stream: SingleInput,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LogicalOp {
    And,
    Or,
}

#[derive(Clone, PartialEq, Default, Debug)]
pub struct Selector {
    /// `select *`, or no `select` at all.
    pub all: bool,
    pub items: Vec<SelectItem>,
    pub group_by: Vec<AttributeRef>,
    pub having: Option<Expr>,
    pub order_by: Vec<OrderItem>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// Empty where the query has no `select`.
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct SelectItem {
    pub expr: Expr,
    /// `as name`; only an attribute may stand without.
    pub alias: Option<Name>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct OrderItem {
    pub attribute: AttributeRef,
    pub descending: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct OutputRate {
    pub kind: RateKind,
    pub every: RateEvery,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RateKind {
    All,
    First,
    Last,
    Snapshot,
}

#[derive(Clone, PartialEq, Debug)]
pub enum RateEvery {
    Events(u64),
    Time(TimeSpan),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventType {
    Current,
    Expired,
    All,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Stream, table or window: which one is found by name.
    Insert {
        target: StreamName,
        events: Option<EventType>,
        span: Span,
    },
    Delete {
        table: StreamName,
        events: Option<EventType>,
        on: Option<Expr>,
        span: Span,
    },
    Update {
        table: StreamName,
        events: Option<EventType>,
        set: Vec<SetItem>,
        on: Expr,
        span: Span,
    },
    UpdateOrInsert {
        table: StreamName,
        events: Option<EventType>,
        set: Vec<SetItem>,
        on: Expr,
        span: Span,
    },
    Return {
        events: Option<EventType>,
        span: Span,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub struct SetItem {
    pub target: AttributeRef,
    pub value: Expr,
}

/// One on-demand (store) query.
#[derive(Clone, PartialEq, Debug)]
pub struct OnDemandQuery {
    pub from: Option<OnDemandSource>,
    pub selector: Selector,
    /// `None` for a find.
    pub output: Option<Output>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct OnDemandSource {
    pub name: StreamName,
    pub alias: Option<Name>,
    pub on: Option<Expr>,
    pub within: Option<Within>,
    pub per: Option<Expr>,
}

// ---- expressions ----

#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    Literal(Literal),
    /// `5 sec`: a LONG in milliseconds.
    Time(TimeSpan),
    Attribute(AttributeRef),
    Call(Call),
    Not(Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `x is null`; whether `x` is an attribute or an event reference is found by name.
    IsNull(NullTarget),
    /// `condition in Table`.
    In(Box<Expr>, StreamName),
    /// What could not be parsed; a diagnostic was given.
    Error,
}

#[derive(Clone, PartialEq, Debug)]
pub enum NullTarget {
    /// A plain name or `name[index]`: an attribute or an event reference.
    Reference(StreamRef),
    Attribute(AttributeRef),
    Call(Call),
}

#[derive(Clone, PartialEq, Debug)]
pub struct StreamRef {
    pub stream: StreamName,
    pub index: Option<Index>,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bool(bool),
    String(String),
}

/// A time constant in milliseconds (month 30 days, year 365 days).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeSpan {
    pub millis: i64,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
}

/// `[#|!]Stream[index][#Inner[index]].name`, or a bare `name`.
#[derive(Clone, PartialEq, Debug)]
pub struct AttributeRef {
    pub stream: Option<StreamRef>,
    /// The rare `Stream#Inner.name` form.
    pub inner: Option<StreamRef>,
    pub name: Name,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Index {
    At(u32),
    /// `last` is 0, `last - 1` is 1.
    Last(u32),
}

/// `ns:name(args)`; also a window or a stream function.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    pub namespace: Option<Name>,
    pub name: Name,
    pub args: Args,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Args {
    /// `f(*)`: all input attributes.
    All(Span),
    List(Vec<Expr>),
}
