//! Texts in another shape: case, order, hexadecimal, joined.

use std::fmt::Write;

use event::text::write_value;
use event::{Column, ColumnBuilder, Type, Value};

use super::params::*;
use crate::component::{Argument, EvalContext, Evaluate, Function, Refused};
use crate::function::core::FirstOf;
use crate::function::row::{Row, int, result_type, text};
use crate::spec::*;

/// Longest text that `repeat` makes, in bytes.
const REPEATED_MAX: usize = 64 << 20;

pub fn lower(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::str(&text(args, 0)?.to_lowercase()))
}

pub fn upper(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::str(&text(args, 0)?.to_uppercase()))
}

/// Characters up to the blank are taken off, as `String.trim` does.
pub fn trim(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::str(text(args, 0)?.trim_matches(|c| c <= ' ')))
}

pub fn reverse(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let reversed: String = text(args, 0)?.chars().rev().collect();
    Ok(Value::str(&reversed))
}

pub fn repeat(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let (s, times) = (text(args, 0)?, int(args, 1)?);
    let times = usize::try_from(times).unwrap_or(0);
    if s.len().saturating_mul(times) > REPEATED_MAX {
        return Err(format!(
            "the result would be longer than {REPEATED_MAX} bytes"
        ));
    }
    Ok(Value::str(&s.repeat(times)))
}

/// Each unit in hexadecimal, without padding.
pub fn hex(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let mut out = String::new();
    for unit in text(args, 0)?.encode_utf16() {
        write!(out, "{unit:x}").expect("writing to a string cannot fail");
    }
    Ok(Value::str(&out))
}

/// Two digits for each character.
pub fn unhex(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let digits = text(args, 0)?;
    let bad = || format!("'{digits}' is not made of pairs of hexadecimal digits");
    if !digits.is_ascii() || digits.len() % 2 != 0 {
        return Err(bad());
    }
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok().map(char::from)
    });
    let out: Option<String> = pairs.collect();
    out.map(|s| Value::str(&s)).ok_or_else(bad)
}

/// The texts of all arguments that are not null.
pub struct Concat;

impl Function for Concat {
    fn spec(&self) -> &'static FunctionSpec {
        static SPEC: FunctionSpec = runs(
            scalar(
                "concat",
                "The texts one after the other; nulls are left out.",
                // Its metadata allow one argument, its `init` wants two (Siddhi's
                // `ConcatFunctionExtension`).
                &[Overload::repeating(
                    &[
                        param("arg1", Types::BASIC, "The first value."),
                        param("arg2", Types::BASIC, "The second value, and so on."),
                    ],
                    1,
                )],
                STRING,
            ),
            "str:concat(symbol, '-', price) as s",
        );
        &SPEC
    }

    fn bind(&self, _: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        Ok(Box::new(Joined::default()))
    }
}

#[derive(Default)]
struct Joined {
    buffer: String,
}

impl Evaluate for Joined {
    fn evaluate(&mut self, args: &[Column], rows: usize, _: &mut EvalContext<'_>) -> Column {
        let mut out = ColumnBuilder::with_capacity(Type::String, rows);
        for row in 0..rows {
            self.buffer.clear();
            for column in args {
                if column.is_null(row) {
                    continue;
                }
                match column.view() {
                    event::column::View::Str(texts) => self.buffer.push_str(texts.get(row)),
                    _ => write_value(&mut self.buffer, &column.value(row)),
                }
            }
            out.push_str(&self.buffer);
        }
        out.finish()
    }

    fn is_fallible(&self) -> bool {
        false
    }
}

/// As the core's `coalesce`, for types other than OBJECT.
pub struct Coalesce;

impl Function for Coalesce {
    fn spec(&self) -> &'static FunctionSpec {
        static SPEC: FunctionSpec = runs(
            scalar(
                "coalesce",
                "The first argument that is not null.",
                &[Overload::repeating(&[VALUE], 1).same_type()],
                Returns::Argument(0),
            ),
            "str:coalesce(symbol, 'none') as s",
        );
        &SPEC
    }

    fn bind(&self, args: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        Ok(Box::new(FirstOf {
            returns: result_type(self.spec(), args),
        }))
    }
}
