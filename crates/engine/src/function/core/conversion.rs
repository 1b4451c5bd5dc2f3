//! `cast` and `convert`.

use event::text::to_text;
use event::{Type, Value};

use crate::component::{Argument, Refused};
use crate::function::number::{parse_integer, parse_real};
use crate::function::row::{Row, text};

/// Relabels: a value of another class passes unnoticed and fails where it is used. Only an INT
/// becomes a LONG.
pub fn cast(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(match (&args[0], target(args)) {
        (Value::Int(v), Some(Type::Long)) => Value::Long(i64::from(*v)),
        (value, _) => value.clone(),
    })
}

fn target(args: &[Value]) -> Option<Type> {
    text(args, 1).ok().and_then(Type::from_name)
}

pub fn check_convert(args: &[Argument]) -> Result<(), Refused> {
    let target = args
        .get(1)
        .and_then(|a| a.constant.as_ref())
        .and_then(Value::as_str);
    let is_text = target.is_some_and(|t| t.eq_ignore_ascii_case("string"));
    if args.first().is_some_and(|a| a.ty == Type::Object) && !is_text {
        return Err(Refused(
            "an object can only be converted to a string".into(),
        ));
    }
    Ok(())
}

/// A real conversion; null where a text is no such number (`ConvertFunctionExecutor`).
pub fn convert(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let value = &args[0];
    if value.is_null() {
        // Null is no true boolean; to every other type it stays null.
        return Ok(match target(args) {
            Some(Type::Bool) => Value::Bool(false),
            _ => Value::Null,
        });
    }
    Ok(match target(args) {
        Some(Type::String) => Value::str(&to_text(value)),
        Some(Type::Bool) => to_bool(value),
        Some(ty) => to_number(value, ty),
        None => Value::Null,
    })
}

fn to_bool(value: &Value) -> Value {
    Value::Bool(match value {
        Value::Bool(v) => *v,
        Value::Int(v) => *v == 1,
        Value::Long(v) => *v == 1,
        Value::Float(v) => *v == 1.0,
        Value::Double(v) => *v == 1.0,
        Value::Str(v) => v.eq_ignore_ascii_case("true"),
        _ => return Value::Null,
    })
}

/// Between numbers Java's narrowing: LONG to INT wraps, reals saturate and NaN is zero.
fn to_number(value: &Value, ty: Type) -> Value {
    let parsed = match (value, ty) {
        (Value::Bool(v), _) => return to_number(&Value::Int(i32::from(*v)), ty),
        (Value::Str(v), Type::Int) => parse_integer(v).map(Value::Int),
        (Value::Str(v), Type::Long) => parse_integer(v).map(Value::Long),
        (Value::Str(v), Type::Float) => parse_real(v).map(Value::Float),
        (Value::Str(v), Type::Double) => parse_real(v).map(Value::Double),
        (Value::Long(v), Type::Int) => Some(Value::Int(*v as i32)),
        (Value::Float(v), Type::Int) => Some(Value::Int(*v as i32)),
        (Value::Double(v), Type::Int) => Some(Value::Int(*v as i32)),
        (Value::Int(v), Type::Int) => Some(Value::Int(*v)),
        (v, Type::Long) => v.to_long().map(Value::Long),
        (Value::Long(v), Type::Float) => Some(Value::Float(*v as f32)),
        (v, Type::Float) => v.to_double().map(|v| Value::Float(v as f32)),
        (v, Type::Double) => v.to_double().map(Value::Double),
        _ => None,
    };
    parsed.unwrap_or_default()
}
