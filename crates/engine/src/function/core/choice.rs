//! `coalesce`, `default` and `ifThenElse`.

use event::{Column, ColumnBuilder, Type, Value};

use super::params::*;
use crate::component::{Argument, EvalContext, Evaluate, Function, Refused};
use crate::function::row::{Row, result_type};
use crate::spec::*;

/// The first argument that is not null, column by column: where the first has no nulls it is the
/// result, without a look at any row.
pub struct FirstValue {
    spec: &'static FunctionSpec,
}

pub static COALESCE: FirstValue = FirstValue {
    spec: {
        static SPEC: FunctionSpec = runs(
            scalar(
                "coalesce",
                "The first argument that is not null.",
                SAME_ANY,
                Returns::Argument(0),
            ),
            "coalesce(symbol, 'none') as s",
        );
        &SPEC
    },
};

pub static DEFAULT: FirstValue = FirstValue {
    spec: {
        static SPEC: FunctionSpec = runs(
            scalar(
                "default",
                "The value, or another if it is null.",
                &[Overload::new(&[
                    ANY,
                    param("default", Types::ANY, "The value instead of null."),
                ])
                .same_type()],
                Returns::Argument(0),
            ),
            "default(price, 0.0) as p",
        );
        &SPEC
    },
};

impl Function for FirstValue {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, args: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        Ok(Box::new(FirstOf {
            returns: result_type(self.spec, args),
        }))
    }
}

/// See [`FirstValue`]; also what `str:coalesce` runs.
pub struct FirstOf {
    pub returns: Type,
}

impl Evaluate for FirstOf {
    fn evaluate(&mut self, args: &[Column], rows: usize, _: &mut EvalContext<'_>) -> Column {
        if let Some(first) = args.first()
            && (0..rows).all(|row| !first.is_null(row))
        {
            return first.clone();
        }
        let mut out = ColumnBuilder::with_capacity(self.returns, rows);
        for row in 0..rows {
            match args.iter().find(|a| !a.is_null(row)) {
                Some(column) => out.extend(column, row..row + 1),
                None => out.push_null(),
            }
        }
        out.finish()
    }

    fn is_fallible(&self) -> bool {
        false
    }
}

/// The compiler of expressions evaluates only the branch that is chosen; this is for the places
/// where both are already there. A null condition chooses the second.
pub fn if_then_else(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let is_true = args.first().and_then(Value::as_bool).unwrap_or(false);
    Ok(args
        .get(if is_true { 1 } else { 2 })
        .cloned()
        .unwrap_or_default())
}
