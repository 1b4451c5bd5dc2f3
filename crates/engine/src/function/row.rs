//! Functions that look at one row at a time: a spec and a plain Rust function.
//!
//! Most scalar functions are of this kind. What a call site compiles once (regular expressions, date
//! formats, JSON paths) it keeps in its [`Memo`], keyed by the text it was made from; a constant
//! argument is thus compiled once, an attribute as often as it changes.

use event::{Column, ColumnBuilder, Type, Value};
use plan::spec::{FunctionSpec, Returns};

use super::memo::Memo;
use crate::component::{Argument, EvalContext, Evaluate, Function, Refused};

/// The value for one row; an error fails the row.
pub type Call = fn(&[Value], &mut Row<'_, '_>) -> Result<Value, String>;

/// Looks at the arguments when the plan is made.
pub type Check = fn(&[Argument]) -> Result<(), Refused>;

pub struct RowFunction {
    spec: &'static FunctionSpec,
    call: Call,
    check: Option<Check>,
    is_fallible: bool,
}

impl RowFunction {
    pub const fn new(spec: &'static FunctionSpec, call: Call) -> RowFunction {
        RowFunction {
            spec,
            call,
            check: None,
            is_fallible: true,
        }
    }

    /// No row of it ever fails, so it may be evaluated where its value is not needed.
    pub const fn infallible(mut self) -> RowFunction {
        self.is_fallible = false;
        self
    }

    pub const fn checked(mut self, check: Check) -> RowFunction {
        self.check = Some(check);
        self
    }
}

/// A line of a slice: the spec, what runs, an example, which is the part of an app after `select`.
macro_rules! row {
    ($spec:expr, $call:expr, $example:expr) => {{
        static SPEC: $crate::spec::FunctionSpec = $crate::spec::runs($spec, $example);
        $crate::function::row::RowFunction::new(&SPEC, $call)
    }};
}
pub(crate) use row;

/// The row and its surroundings.
pub struct Row<'a, 'b> {
    /// The declared types of the arguments: they, not the classes of the values, choose between
    /// the forms of a function.
    pub types: &'a [Type],
    /// The declared type of the result.
    pub returns: Type,
    pub context: &'a mut EvalContext<'b>,
    pub memo: &'a mut Memo,
}

impl Function for RowFunction {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, args: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        if let Some(check) = self.check {
            check(args)?;
        }
        Ok(Box::new(CallSite {
            name: self.spec.full_name(),
            call: self.call,
            types: args.iter().map(|a| a.ty).collect(),
            constants: args.iter().map(|a| a.constant.is_some()).collect(),
            returns: result_type(self.spec, args),
            is_fallible: self.is_fallible,
            memo: Memo::default(),
            values: Vec::new(),
        }))
    }
}

/// The type of a call's result.
pub fn result_type(spec: &FunctionSpec, args: &[Argument]) -> Type {
    let argument = |index: usize| args.get(index).map_or(Type::Object, |a| a.ty);
    match spec.returns {
        Returns::Nothing => Type::Object,
        Returns::Type(ty) => ty,
        Returns::Argument(index) => argument(index),
        Returns::Named(index) => args
            .get(index)
            .and_then(|a| a.constant.as_ref())
            .and_then(Value::as_str)
            .and_then(Type::from_name)
            .unwrap_or(Type::Object),
        Returns::Widened(index) => match argument(index) {
            Type::Int | Type::Long => Type::Long,
            _ => Type::Double,
        },
        Returns::Rounded(index) => match argument(index) {
            Type::Float => Type::Int,
            _ => Type::Long,
        },
    }
}

struct CallSite {
    name: String,
    call: Call,
    types: Vec<Type>,
    /// Which arguments are the same in all rows: a text of them is copied once.
    constants: Vec<bool>,
    returns: Type,
    is_fallible: bool,
    memo: Memo,
    values: Vec<Value>,
}

impl Evaluate for CallSite {
    fn evaluate(&mut self, args: &[Column], rows: usize, context: &mut EvalContext<'_>) -> Column {
        let mut out = ColumnBuilder::with_capacity(self.returns, rows);
        self.values.clear();
        for number in 0..rows {
            if number == 0 {
                self.values.extend(args.iter().map(|a| a.value(0)));
            } else {
                let values = self.values.iter_mut().zip(args).zip(&self.constants);
                for ((value, arg), is_constant) in values {
                    if !is_constant {
                        *value = arg.value(number);
                    }
                }
            }
            let mut row = Row {
                types: &self.types,
                returns: self.returns,
                context,
                memo: &mut self.memo,
            };
            match (self.call)(&self.values, &mut row) {
                Ok(value) => out.push(&value),
                Err(reason) => {
                    context.fail(number, format!("function '{}': {reason}", self.name));
                    out.push_null();
                }
            }
        }
        // A text may be large, and the next call hours away.
        self.values.clear();
        out.finish()
    }

    fn is_fallible(&self) -> bool {
        self.is_fallible
    }
}

// ---- arguments ----

/// A text argument; null or another class fails, as it does in Java.
pub fn text(args: &[Value], index: usize) -> Result<&str, String> {
    match args.get(index) {
        Some(Value::Str(text)) => Ok(text),
        other => Err(wrong(index, "a string", other)),
    }
}

pub fn int(args: &[Value], index: usize) -> Result<i32, String> {
    match args.get(index) {
        Some(Value::Int(value)) => Ok(*value),
        other => Err(wrong(index, "an int", other)),
    }
}

pub fn long(args: &[Value], index: usize) -> Result<i64, String> {
    match args.get(index) {
        Some(Value::Long(value)) => Ok(*value),
        other => Err(wrong(index, "a long", other)),
    }
}

pub fn bool(args: &[Value], index: usize) -> Result<bool, String> {
    match args.get(index) {
        Some(Value::Bool(value)) => Ok(*value),
        other => Err(wrong(index, "a bool", other)),
    }
}

pub fn wrong(index: usize, wanted: &str, found: Option<&Value>) -> String {
    let place = index + 1;
    match found {
        None | Some(Value::Null) => format!("argument {place} is null, {wanted} is needed"),
        Some(value) => {
            let ty = value.ty().map_or("null", Type::name);
            format!("argument {place} is of type {ty}, {wanted} is needed")
        }
    }
}

/// A result that is null where an argument is.
pub fn null_in_null_out(args: &[Value]) -> bool {
    args.iter().any(Value::is_null)
}
