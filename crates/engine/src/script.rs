//! Script functions, as the engine sees them: something that is compiled once for each place that
//! calls it and then gives one value per row.
//!
//! A script language is not part of the engine: whoever makes an app hands one in
//! ([`crate::AppEnvironment::scripts`]). What a script computes may depend on its arguments, the clock and the
//! seed it is given, and on nothing else.

use event::{Column, ColumnBuilder, Type, Value};
use plan::ScriptFunction;

use crate::component::{EvalContext, Evaluate};

/// A script language.
pub trait ScriptEngine: Sync + std::fmt::Debug {
    /// The function for one place; the error says in words what is wrong with its body.
    fn compile(&self, function: &ScriptFunction) -> Result<Box<dyn Script>, String>;
}

/// A function at one place.
pub trait Script: Send {
    /// The value for one row; an error fails the row. `now` is the app's clock in milliseconds, `seed`
    /// the state behind its random numbers.
    fn call(&mut self, args: &[Value], now: i64, seed: &mut u64) -> Result<Value, String>;
}

/// A place that calls a script.
pub(crate) struct ScriptSite {
    pub name: String,
    pub returns: Type,
    pub script: Box<dyn Script>,
}

impl Evaluate for ScriptSite {
    fn evaluate(&mut self, args: &[Column], rows: usize, context: &mut EvalContext<'_>) -> Column {
        let mut out = ColumnBuilder::with_capacity(self.returns, rows);
        let mut values = Vec::with_capacity(args.len());
        for row in 0..rows {
            values.clear();
            values.extend(args.iter().map(|column| column.value(row)));
            match self.script.call(&values, context.now, context.seed) {
                Ok(value) => out.push(&value),
                Err(message) => {
                    context.fail(row, format!("script function '{}': {message}", self.name));
                    out.push_null();
                }
            }
        }
        out.finish()
    }
}
