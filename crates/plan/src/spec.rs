//! What a component is called, takes and promises.
//!
//! A spec is constant data beside the code of its component; validation, completion and the
//! reference docs are made from it. Components that are known but do not run yet have a spec too
//! (`status: Known`), so that `check` can judge every app.

use event::Type;

use lang::ast::Literal;

use crate::Transport;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    Runs,
    /// Its options are known, its code is not there: a warning in `check`, refused by `run`.
    Known,
}

// ---- functions, aggregators, windows, stream functions ----

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FunctionKind {
    Scalar,
    Aggregator,
    Window,
    /// Adds attributes to each event, or drops, multiplies and schedules events.
    StreamProcessor,
}

impl FunctionKind {
    /// As a reader calls it.
    pub const fn name(self) -> &'static str {
        match self {
            FunctionKind::Scalar => "function",
            FunctionKind::Aggregator => "aggregator",
            FunctionKind::Window => "window",
            FunctionKind::StreamProcessor => "stream function",
        }
    }
}

/// A set of types as bits in the order of [`Type::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Types(pub u8);

impl Types {
    pub const ANY: Types = Types(0x7f);
    pub const NUMBER: Types = Types::of(&[Type::Int, Type::Long, Type::Float, Type::Double]);
    /// Everything but OBJECT.
    pub const BASIC: Types = Types(0x3f);
    pub const STRING: Types = Types::of(&[Type::String]);
    pub const INT: Types = Types::of(&[Type::Int]);
    pub const LONG: Types = Types::of(&[Type::Long]);
    pub const INT_LONG: Types = Types::of(&[Type::Int, Type::Long]);
    pub const FLOAT: Types = Types::of(&[Type::Float]);
    pub const DOUBLE: Types = Types::of(&[Type::Double]);
    pub const REAL: Types = Types::of(&[Type::Float, Type::Double]);
    pub const BOOL: Types = Types::of(&[Type::Bool]);
    pub const OBJECT: Types = Types::of(&[Type::Object]);
    pub const STRING_OBJECT: Types = Types::of(&[Type::String, Type::Object]);

    pub const fn of(types: &[Type]) -> Types {
        let mut bits = 0;
        let mut i = 0;
        while i < types.len() {
            bits |= 1 << types[i] as u8;
            i += 1;
        }
        Types(bits)
    }

    pub const fn contains(self, ty: Type) -> bool {
        self.0 & (1 << ty as u8) != 0
    }
}

/// One parameter of an overload.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub name: &'static str,
    pub types: Types,
    /// Must be a literal.
    pub constant: bool,
    /// Must be a plain attribute of the input.
    pub attribute: bool,
    pub doc: &'static str,
}

impl Param {
    pub const fn new(name: &'static str, types: Types, doc: &'static str) -> Param {
        Param {
            name,
            types,
            constant: false,
            attribute: false,
            doc,
        }
    }

    pub const fn constant(mut self) -> Param {
        self.constant = true;
        self
    }

    pub const fn attribute(mut self) -> Param {
        self.attribute = true;
        self
    }
}

/// One accepted list of arguments.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    pub params: &'static [Param],
    /// How many of the last parameters may be given again and again (0: none): `coalesce(x…)` is 1,
    /// `map:create(k, v, …)` is 2.
    pub repeats: usize,
    /// All arguments must have one type (`coalesce`, `maximum`).
    pub same_type: bool,
    /// Attributes that a stream processor adds in this form, behind those of the spec.
    pub adds: &'static [(&'static str, Type)],
}

impl Overload {
    pub const fn new(params: &'static [Param]) -> Overload {
        Overload {
            params,
            repeats: 0,
            same_type: false,
            adds: &[],
        }
    }

    pub const fn repeating(params: &'static [Param], repeats: usize) -> Overload {
        Overload {
            params,
            repeats,
            same_type: false,
            adds: &[],
        }
    }

    pub const fn adding(mut self, adds: &'static [(&'static str, Type)]) -> Overload {
        self.adds = adds;
        self
    }

    pub const fn same_type(mut self) -> Overload {
        self.same_type = true;
        self
    }
}

/// The type of a result.
#[derive(Clone, Copy, Debug)]
pub enum Returns {
    /// Windows and stream processors.
    Nothing,
    Type(Type),
    /// The type of the argument at this index.
    Argument(usize),
    /// The type named by the string constant at this index (`cast`, `convert`, `js:eval`); STRING
    /// where that argument is left out.
    Named(usize),
    /// LONG for INT and LONG, DOUBLE for FLOAT and DOUBLE (`sum`).
    Widened(usize),
    /// INT for FLOAT, LONG for DOUBLE (`math:round`).
    Rounded(usize),
}

/// One argument of a call, as far as the choice of an overload depends on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    pub ty: Type,
    /// The value of a literal; a time constant is a LONG.
    pub literal: Option<Literal>,
    /// A plain attribute of the input.
    pub attribute: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct FunctionSpec {
    pub kind: FunctionKind,
    /// Empty for core.
    pub namespace: &'static str,
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    pub overloads: &'static [Overload],
    pub returns: Returns,
    /// Attributes that a stream processor adds behind the input's.
    pub adds: &'static [(&'static str, Type)],
    /// Added attributes that follow from the arguments (`#rdbms:query`, `#extrema:topK`).
    pub adds_with: Option<fn(&[Argument]) -> Vec<(String, Type)>>,
    /// Reaches outside (files, databases): done by the host, never inside an expression.
    pub effect: bool,
    /// Windows: can be searched by joins and on-demand queries.
    pub findable: bool,
    /// `core` or the extension it comes from (`execution-string`).
    pub origin: &'static str,
    pub status: Status,
    /// A runnable app in the text-test format, or the part of one after `select`.
    pub example: &'static str,
}

impl FunctionSpec {
    /// The start of every spec; fields are then set by struct update:
    /// `FunctionSpec { overloads: …, ..FunctionSpec::new(FunctionKind::Scalar, "str", "upper", "…") }`.
    pub const fn new(
        kind: FunctionKind,
        namespace: &'static str,
        name: &'static str,
        summary: &'static str,
    ) -> FunctionSpec {
        FunctionSpec {
            kind,
            namespace,
            name,
            summary,
            overloads: &[],
            returns: Returns::Nothing,
            adds: &[],
            adds_with: None,
            effect: false,
            findable: true,
            origin: "core",
            status: Status::Runs,
            example: "",
        }
    }

    /// `str:upper`, or `sum` for core.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}:{}", self.namespace, self.name)
        }
    }
}

// ---- connectors ----

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConnectorKind {
    Source,
    Sink,
    SourceMapper,
    SinkMapper,
    Store,
    StreamFunction,
    Function,
    Distribution,
    /// Options of an annotation that is no component (`@cache`); its name begins with `@`.
    Annotation,
}

impl ConnectorKind {
    pub const fn name(self) -> &'static str {
        match self {
            ConnectorKind::Source => "source",
            ConnectorKind::Sink => "sink",
            ConnectorKind::SourceMapper => "source-mapper",
            ConnectorKind::SinkMapper => "sink-mapper",
            ConnectorKind::Store => "store",
            ConnectorKind::StreamFunction => "stream-function",
            ConnectorKind::Function => "function",
            ConnectorKind::Distribution => "distribution",
            ConnectorKind::Annotation => "annotation",
        }
    }

    /// As a reader calls it.
    pub const fn noun(self) -> &'static str {
        match self {
            ConnectorKind::Source => "source",
            ConnectorKind::Sink => "sink",
            ConnectorKind::SourceMapper | ConnectorKind::SinkMapper => "mapper",
            ConnectorKind::Store => "store",
            ConnectorKind::StreamFunction => "stream function",
            ConnectorKind::Function => "function",
            ConnectorKind::Distribution => "distribution strategy",
            ConnectorKind::Annotation => "annotation",
        }
    }
}

/// What the text of an option is read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionType {
    Text,
    Bool,
    Int,
    Long,
    Double,
    /// Milliseconds.
    Millis,
    Bytes,
    /// A Java regular expression.
    Regex,
    /// A Quartz cron expression.
    Cron,
    /// One of these, in any case.
    OneOf(&'static [&'static str]),
    /// `k:v,k:v`.
    Pairs,
    /// Comma list.
    List,
}

impl OptionType {
    pub const fn name(self) -> &'static str {
        match self {
            OptionType::Text => "text",
            OptionType::Bool => "bool",
            OptionType::Int => "int",
            OptionType::Long => "long",
            OptionType::Double => "double",
            OptionType::Millis => "ms",
            OptionType::Bytes => "bytes",
            OptionType::Regex => "regex",
            OptionType::Cron => "cron",
            OptionType::OneOf(_) => "one of",
            OptionType::Pairs => "pairs",
            OptionType::List => "list",
        }
    }
}

/// The numbers that an option may be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Range {
    /// Any number of its type.
    Any,
    /// From the first to the last; `i64::MAX` is no limit.
    Whole(i64, i64),
    /// From the first to less than the second.
    Below(f64, f64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionStatus {
    /// Works as documented; `test` names the test that shows it.
    Honoured,
    /// Accepted without effect, with a warning at its place.
    Ignored,
    /// An error at its place.
    Refused,
}

/// The test that asks of every ignored option whether the author of an app is told.
const WITHOUT_EFFECT: &str = "catalog::examples::options_without_effect_are_named_in_a_warning";

#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// `*` at the end stands for any rest (`regex.*`).
    pub name: &'static str,
    /// Other names of the same option, older or as misspelt in published apps.
    pub aliases: &'static [&'static str],
    pub ty: OptionType,
    pub required: bool,
    /// As text; empty for none.
    pub default: &'static str,
    pub range: Range,
    /// A number outside the range that has a meaning of its own (-1 for no limit).
    pub special: Option<i64>,
    /// What a number counts (`seconds`); empty where it has no unit.
    pub unit: &'static str,
    /// May hold `{{attribute}}`.
    pub dynamic: bool,
    pub doc: &'static str,
    pub status: OptionStatus,
    /// Beginnings of values, in any case, that are known but do not run (`jdbc:mysql:`).
    pub not_yet: &'static [&'static str],
    /// Beginnings of values, in any case, of which one is needed (`http://`); where it ends with `//`,
    /// a host follows and, if at all, a port from 0 to 65535. Empty: any value.
    pub beginnings: &'static [&'static str],
    /// Name of the test that shows the status; empty where none does yet.
    pub test: &'static str,
}

impl OptionSpec {
    pub const fn new(name: &'static str, ty: OptionType, doc: &'static str) -> OptionSpec {
        OptionSpec {
            name,
            aliases: &[],
            ty,
            required: false,
            default: "",
            range: Range::Any,
            special: None,
            unit: match ty {
                OptionType::Millis => "ms",
                OptionType::Bytes => "bytes",
                _ => "",
            },
            dynamic: false,
            doc,
            status: OptionStatus::Honoured,
            not_yet: &[],
            beginnings: &[],
            test: "",
        }
    }

    /// True for its name, an alias, and any name that a `*` at the end covers.
    pub fn matches(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.len() > start.len() && name.starts_with(start),
            None => self.name == name || self.aliases.contains(&name),
        }
    }

    pub const fn alias(mut self, aliases: &'static [&'static str]) -> OptionSpec {
        self.aliases = aliases;
        self
    }

    pub const fn required(mut self) -> OptionSpec {
        self.required = true;
        self
    }

    pub const fn default(mut self, text: &'static str) -> OptionSpec {
        self.default = text;
        self
    }

    /// A whole number from `min` to `max`, both included.
    pub const fn range(mut self, min: i64, max: i64) -> OptionSpec {
        assert!(min <= max, "a range has numbers");
        self.range = Range::Whole(min, max);
        self
    }

    /// A whole number from `min`.
    pub const fn at_least(self, min: i64) -> OptionSpec {
        self.range(min, i64::MAX)
    }

    /// A number from `min` to less than `end`.
    pub const fn below(mut self, min: f64, end: f64) -> OptionSpec {
        assert!(min < end, "a range has numbers");
        self.range = Range::Below(min, end);
        self
    }

    /// A number outside the range that has a meaning of its own.
    pub const fn or(mut self, special: i64) -> OptionSpec {
        self.special = Some(special);
        self
    }

    /// What the number counts, in the plural: `seconds`, `messages`.
    pub const fn unit(mut self, unit: &'static str) -> OptionSpec {
        self.unit = unit;
        self
    }

    /// Is the number of a text in the range? What is no number is none of its business.
    pub fn has_in_range(&self, text: &str) -> bool {
        let text = text.trim();
        match self.range {
            Range::Any => true,
            Range::Whole(min, max) => text.parse::<i128>().map_or(true, |number| {
                (i128::from(min)..=i128::from(max)).contains(&number)
                    || self.special.is_some_and(|n| i128::from(n) == number)
            }),
            // NaN is a number of no range.
            Range::Below(min, end) => text
                .parse::<f64>()
                .map_or(true, |number| (min..end).contains(&number)),
        }
    }

    /// `a number from 0 to 20 seconds, or -1`; without the range where every number will do.
    pub fn wanted(&self) -> String {
        let kind = match self.ty {
            OptionType::Double => "a number",
            _ => "a whole number",
        };
        match (self.range, self.range_text()) {
            (Range::Any, _) if self.unit.is_empty() => kind.to_owned(),
            (Range::Any, _) => format!("{kind} of {}", self.unit),
            (Range::Whole(_, i64::MAX), range) => format!("a number of {range}"),
            (Range::Whole(..) | Range::Below(..), range) => format!("a number from {range}"),
        }
    }

    /// `0 to 20 seconds, or -1`; empty where every number will do.
    pub fn range_text(&self) -> String {
        let mut text = match self.range {
            Range::Any => return String::new(),
            Range::Whole(min, i64::MAX) => format!("at least {min}"),
            Range::Whole(min, max) => format!("{min} to {max}"),
            Range::Below(min, end) => format!("{min} to less than {end}"),
        };
        if !self.unit.is_empty() {
            text.push(' ');
            text.push_str(self.unit);
        }
        if let Some(special) = self.special {
            text.push_str(&format!(", or {special}"));
        }
        text
    }

    pub const fn dynamic(mut self) -> OptionSpec {
        self.dynamic = true;
        self
    }

    pub const fn status(mut self, status: OptionStatus) -> OptionSpec {
        self.status = status;
        if matches!(status, OptionStatus::Ignored) && self.test.is_empty() {
            self.test = WITHOUT_EFFECT;
        }
        self
    }

    /// The value is a URL that begins with one of these.
    pub const fn url(mut self, beginnings: &'static [&'static str]) -> OptionSpec {
        self.beginnings = beginnings;
        self
    }

    pub const fn not_yet(mut self, starts: &'static [&'static str]) -> OptionSpec {
        self.not_yet = starts;
        self
    }

    pub const fn test(mut self, test: &'static str) -> OptionSpec {
        self.test = test;
        self
    }
}

/// A fact about the options written in one annotation.
#[derive(Clone, Copy, Debug)]
pub enum Fact {
    /// The option is written.
    Given(&'static str),
    /// The option is not written.
    Absent(&'static str),
    /// The option, or its default where it is not written, is one of these, in any case.
    Is(&'static str, &'static [&'static str]),
    All(&'static [Fact]),
    Any(&'static [Fact]),
}

/// What must hold between the options of one annotation.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    ExactlyOne(&'static [&'static str]),
    /// At least one.
    AnyOf(&'static [&'static str]),
    /// All or none.
    Together(&'static [&'static str]),
    /// A combination that is refused.
    Never {
        when: Fact,
        /// The option to blame: the first of these that is written, else the annotation.
        at: &'static [&'static str],
        message: &'static str,
        help: &'static str,
    },
}

/// What a mapper reads in `@attributes`, or accepts in `@payload`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// Takes no such annotation, or the component is not a mapper.
    Nothing,
    /// `@attributes`: names, paths or keys in the words of the format.
    Paths,
    /// `@attributes`: column numbers from 0.
    Columns,
    /// `@attributes`: `ID` or `ID[group]` of the patterns `regex.ID`.
    Groups,
    /// `@payload`: one template of text; the name of an attribute alone is refused.
    Template,
    /// `@payload`: entries `key='template'`.
    Entries,
    /// `@payload`: entries `attribute='column'`, columns from 0.
    ColumnEntries,
}

/// Payloads of transports that carry bytes or text.
pub const TEXT_OR_BYTES: &[Payload] = &[Payload::Text, Payload::Bytes];

/// What passes between a transport and its mapper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    Text,
    Bytes,
    /// Keys and values.
    Map,
    /// Events as they are.
    Events,
}

impl Payload {
    pub const fn name(self) -> &'static str {
        match self {
            Payload::Text => "text",
            Payload::Bytes => "bytes",
            Payload::Map => "maps",
            Payload::Events => "events",
        }
    }
}

/// What a file that an option names is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileUse {
    ReadFile,
    ReadDirectory,
    /// It is made, with the directories above it, where it is missing.
    WriteFile,
}

#[derive(Clone, Copy, Debug)]
pub struct ConnectorSpec {
    pub kind: ConnectorKind,
    /// As in `type='…'`; stream functions and functions with their namespace (`file:move`).
    pub name: &'static str,
    /// `core`, `io-kafka`, `map-json`, `store-rdbms`.
    pub origin: &'static str,
    pub status: Status,
    pub summary: &'static str,
    /// Its own options; see [`ConnectorSpec::all_options`] for those that every such component has.
    /// An own option takes the place of a common one of its name.
    pub options: &'static [OptionSpec],
    pub rules: &'static [Rule],
    /// What it reads in `@attributes` or `@payload`.
    pub mapping: Mapping,
    /// What a source gives, a sink or source mapper takes, a sink mapper gives; empty: anything.
    pub payloads: &'static [Payload],
    /// Transport properties of a source by name; `*` for any.
    pub properties: &'static [&'static str],
    /// Stream functions and functions: their parameters.
    pub function: Option<&'static FunctionSpec>,
    /// Accepts `dep:…` deployment properties (it exposes a service).
    pub exposes_service: bool,
    /// A store whose `@Index` names an order of each attribute, and options in braces.
    pub details_indexes: bool,
    /// A store that carries out `select` itself in Siddhi, which gives the rows of a join no time.
    pub selects: bool,
    /// A sink that works from a table of the app: the option that names it.
    pub reads_table: Option<&'static str>,
    /// The options that hold where it connects to, and the port where none is written: looked at by
    /// `check --connect`.
    pub addresses: &'static [(&'static str, u16)],
    /// `check --connect` makes the source and lets it look at what it reads, unless one of
    /// `probe_unless` is written.
    pub probes: bool,
    /// Options that name what a run only knows, such as a data source of the configuration.
    pub probe_unless: &'static [&'static str],
    /// The options that name a local file or directory, and what it is needed for: looked at by
    /// `check --connect`.
    pub files: &'static [(&'static str, FileUse)],
    /// A sink that neither waits nor fails: it is called on the executor's thread, without a queue.
    pub is_inline: bool,
    /// Sinks and stores: the options that tell one destination from another. What names the same
    /// destination shares a thread and its order.
    pub identity: &'static [&'static str],
    /// A store that has all its tables in one place, whatever their options: those of an app are one
    /// transaction, and apps share it by the names of tables alone.
    pub is_one_place: bool,
    /// Sources: transport properties by which a message is found again where it came from.
    pub message_key: &'static [&'static str],
    /// Other names of the same thing (`http-request` sink for `http-call`).
    pub aliases: &'static [&'static str],
    /// What `explain` says of it beside its options: what these come to.
    pub explains: Option<fn(&Transport) -> Option<String>>,
    /// A complete app that uses it.
    pub example: &'static str,
}

impl ConnectorSpec {
    /// The start of every spec; fields are then set by struct update.
    pub const fn new(
        kind: ConnectorKind,
        name: &'static str,
        origin: &'static str,
        summary: &'static str,
    ) -> ConnectorSpec {
        ConnectorSpec {
            kind,
            name,
            origin,
            status: Status::Known,
            summary,
            options: &[],
            rules: &[],
            mapping: Mapping::Nothing,
            payloads: &[],
            properties: &[],
            function: None,
            exposes_service: false,
            details_indexes: false,
            selects: false,
            reads_table: None,
            addresses: &[],
            probes: false,
            probe_unless: &[],
            files: &[],
            is_inline: false,
            identity: &[],
            is_one_place: false,
            message_key: &[],
            aliases: &[],
            explains: None,
            example: "",
        }
    }

    /// Is it what `type='name'` means for this kind?
    pub fn is_called(&self, kind: ConnectorKind, name: &str) -> bool {
        self.kind == kind && (self.name == name || self.aliases.contains(&name))
    }

    /// The spec of a stream function or function, made from its parameters.
    pub const fn of_function(
        kind: ConnectorKind,
        name: &'static str,
        origin: &'static str,
        function: &'static FunctionSpec,
    ) -> ConnectorSpec {
        ConnectorSpec {
            status: function.status,
            function: Some(function),
            example: function.example,
            ..ConnectorSpec::new(kind, name, origin, function.summary)
        }
    }

    /// The options of this component, then those that every component of its kind has.
    pub fn all_options(&self) -> impl Iterator<Item = &'static OptionSpec> {
        let common: &'static [OptionSpec] = match self.kind {
            ConnectorKind::Sink => SINK_OPTIONS,
            ConnectorKind::Store => STORE_OPTIONS,
            _ => &[],
        };
        let own = self.options;
        let is_common = move |o: &&OptionSpec| own.iter().all(|mine| mine.name != o.name);
        own.iter().chain(common.iter().filter(is_common))
    }

    /// The spec of an option by its name, an alias of it, or a `*` name that covers it.
    pub fn option(&self, name: &str) -> Option<&'static OptionSpec> {
        self.all_options().find(|o| o.matches(name))
    }
}

/// Options that every sink has beside its own.
pub const SINK_OPTIONS: &[OptionSpec] = &[OptionSpec::new(
    "on.error",
    OptionType::OneOf(&["LOG", "WAIT", "STREAM", "STORE"]),
    "What happens to an event while the destination is unreachable: log and drop it, wait for the \
     connection, send it to the fault stream, or keep it in the error store.",
)
.default("LOG")
.test("headwater::run::what_a_sink_cannot_deliver_goes_where_it_is_told")];

/// Options that every store has beside its own.
pub const STORE_OPTIONS: &[OptionSpec] = &[OptionSpec::new(
    "on.error",
    OptionType::OneOf(&["RETRY", "LOG", "STORE"]),
    "What happens to a write while the store is unreachable: retry until it is reachable, log and \
     drop it, or keep it in the error store.",
)
.default("RETRY")
.test("xtask::faults::locked_database")];

// ---- words to write options with: `int("batch.size", "10", "How many messages at once.")` ----

pub const fn text(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Text, doc)
}

pub const fn bool(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Bool, doc).default(default)
}

pub const fn int(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Int, doc).default(default)
}

pub const fn long(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Long, doc).default(default)
}

pub const fn millis(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Millis, doc).default(default)
}

pub const fn pairs(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Pairs, doc)
}

pub const fn list(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::List, doc)
}

pub const fn choice(
    name: &'static str,
    values: &'static [&'static str],
    default: &'static str,
    doc: &'static str,
) -> OptionSpec {
    OptionSpec::new(name, OptionType::OneOf(values), doc).default(default)
}

/// How many options the parts have together.
pub const fn total(parts: &[&[OptionSpec]]) -> usize {
    let mut sum = 0;
    let mut i = 0;
    while i < parts.len() {
        sum += parts[i].len();
        i += 1;
    }
    sum
}

/// The parts one after the other; `N` is their [`total`].
pub const fn join<const N: usize>(parts: &[&[OptionSpec]]) -> [OptionSpec; N] {
    let mut all = [OptionSpec::new("", OptionType::Text, ""); N];
    let (mut i, mut at) = (0, 0);
    while i < parts.len() {
        let mut j = 0;
        while j < parts[i].len() {
            all[at] = parts[i][j];
            at += 1;
            j += 1;
        }
        i += 1;
    }
    all
}

/// One constant list of options from several (`http-service` has those of `http`, and more).
#[macro_export]
macro_rules! options {
    ($($part:expr),+ $(,)?) => {{
        const PARTS: &[&[$crate::spec::OptionSpec]] = &[$($part),+];
        const ALL: [$crate::spec::OptionSpec; $crate::spec::total(PARTS)] =
            $crate::spec::join(PARTS);
        &ALL
    }};
}
pub use options;
