//! What a component is called, takes and promises.
//!
//! A spec is constant data beside the code of its component; validation, completion and the
//! reference docs are made from it. Components that are known but do not run yet have a spec too
//! (`status: Known`), so that `check` can judge every app.

use event::Type;

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
}

impl Overload {
    pub const fn new(params: &'static [Param]) -> Overload {
        Overload {
            params,
            repeats: 0,
            same_type: false,
        }
    }

    pub const fn repeating(params: &'static [Param], repeats: usize) -> Overload {
        Overload {
            params,
            repeats,
            same_type: false,
        }
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
    /// The type named by the string constant at this index (`cast`, `convert`, `js:eval`).
    Named(usize),
    /// LONG for INT and LONG, DOUBLE for FLOAT and DOUBLE (`sum`).
    Widened(usize),
    /// INT for FLOAT, LONG for DOUBLE (`math:round`).
    Rounded(usize),
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionStatus {
    /// Works as documented; `test` names the test that shows it.
    Honoured,
    /// Accepted without effect, with a warning at its place.
    Ignored,
    /// An error at its place.
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// `*` at the end stands for any rest (`regex.*`).
    pub name: &'static str,
    pub ty: OptionType,
    pub required: bool,
    /// As text; empty for none.
    pub default: &'static str,
    /// May hold `{{attribute}}`.
    pub dynamic: bool,
    pub doc: &'static str,
    pub status: OptionStatus,
    /// Name of the test that shows the status; empty where none does yet.
    pub test: &'static str,
}

impl OptionSpec {
    pub const fn new(name: &'static str, ty: OptionType, doc: &'static str) -> OptionSpec {
        OptionSpec {
            name,
            ty,
            required: false,
            default: "",
            dynamic: false,
            doc,
            status: OptionStatus::Honoured,
            test: "",
        }
    }

    pub const fn required(mut self) -> OptionSpec {
        self.required = true;
        self
    }

    pub const fn default(mut self, text: &'static str) -> OptionSpec {
        self.default = text;
        self
    }

    pub const fn dynamic(mut self) -> OptionSpec {
        self.dynamic = true;
        self
    }

    pub const fn status(mut self, status: OptionStatus) -> OptionSpec {
        self.status = status;
        self
    }

    pub const fn test(mut self, test: &'static str) -> OptionSpec {
        self.test = test;
        self
    }
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
    pub options: &'static [OptionSpec],
    /// Accepts `dep:…` deployment properties (it exposes a service).
    pub exposes_service: bool,
    /// Other names of the same thing (`http-request` sink for `http-call`).
    pub aliases: &'static [&'static str],
    /// A complete app that uses it.
    pub example: &'static str,
}
