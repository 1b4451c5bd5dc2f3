//! Texts and regular expressions.

use event::column::View;
use event::{Column, ColumnBuilder, Type, Value};

use super::params::*;
use crate::component::{Argument, EvalContext, Evaluate, Function, Refused};
use crate::function::memo::Memo;
use crate::function::row::{Row, int, text};
use crate::spec::*;

/// Does the whole text match?
pub fn regexp(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let (s, pattern) = (text(args, 0)?, text(args, 1)?);
    Ok(Value::Bool(row.memo.whole_regex(pattern)?.is_match(s)?))
}

pub fn replace_all(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let (s, pattern, replacement) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    let replaced = row.memo.regex(pattern)?.replace(s, replacement, true)?;
    Ok(Value::str(&replaced))
}

pub fn split(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let (s, pattern, index) = (text(args, 0)?, text(args, 1)?, int(args, 2)?);
    let parts = row.memo.regex(pattern)?.split(s)?;
    let part = usize::try_from(index).ok().and_then(|i| parts.get(i));
    part.map(|p| Value::str(p)).ok_or_else(|| {
        format!(
            "there is no part {index}, the text has {} parts",
            parts.len()
        )
    })
}

/// Replaces the first match. Rows that repeat the one before (a file's name on each of its lines)
/// repeat its result.
pub struct ReplaceFirst;

impl Function for ReplaceFirst {
    fn spec(&self) -> &'static FunctionSpec {
        static SPEC: FunctionSpec = runs(
            scalar(
                "replaceFirst",
                "Replaces the first match.",
                &[Overload::new(&[S, REGEX, REPLACEMENT])],
                STRING,
            ),
            "str:replaceFirst(symbol, '[0-9]', '') as s",
        );
        &SPEC
    }

    fn bind(&self, _: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        Ok(Box::new(FirstReplaced::default()))
    }
}

#[derive(Default)]
struct FirstReplaced {
    memo: Memo,
}

impl FirstReplaced {
    fn replaced(&mut self, args: &[Column], row: usize) -> Result<String, String> {
        let values = [args[0].value(row), args[1].value(row), args[2].value(row)];
        let (s, pattern, replacement) = (text(&values, 0)?, text(&values, 1)?, text(&values, 2)?);
        Ok(self.memo.regex(pattern)?.replace(s, replacement, false)?)
    }
}

/// Are the arguments of a row those of the row before?
fn repeats(args: &[Column], row: usize) -> bool {
    args.iter().all(|column| match column.view() {
        View::Str(texts) => {
            texts.rows_equal(row - 1, &texts, row)
                && !column.is_null(row)
                && !column.is_null(row - 1)
        }
        _ => false,
    })
}

impl Evaluate for FirstReplaced {
    fn evaluate(&mut self, args: &[Column], rows: usize, context: &mut EvalContext<'_>) -> Column {
        let mut out = ColumnBuilder::with_capacity(Type::String, rows);
        let mut last: Option<String> = None;
        for row in 0..rows {
            if row == 0 || last.is_none() || !repeats(args, row) {
                match self.replaced(args, row) {
                    Ok(replaced) => last = Some(replaced),
                    Err(reason) => {
                        last = None;
                        context.fail(row, format!("function 'str:replaceFirst': {reason}"));
                    }
                }
            }
            match &last {
                Some(text) => out.push_str(text),
                None => out.push_null(),
            }
        }
        out.finish()
    }
}
