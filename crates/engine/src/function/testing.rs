//! One harness for all functions: values in, a value or a failure out.

use super::functions;
use crate::component::*;
use event::value::Shared;
use event::{Column, Object, Times, Type, Value};

/// 2020-02-03 04:05:06.789 UTC, the wall clock of the tests; the application clock is a day later.
pub const WALL: i64 = 1_580_702_706_789;

/// One call with constant arguments. `Err` is the message of a failing row or of a refusal.
pub fn call(name: &str, args: &[Value]) -> Result<Value, String> {
    let found = functions().find(|f| f.spec().full_name() == name);
    let arguments: Vec<Argument> = args
        .iter()
        .map(|value| Argument {
            ty: value.ty().unwrap_or(Type::String),
            constant: Some(value.clone()),
            attribute: None,
        })
        .collect();
    let bound = found
        .unwrap_or_else(|| panic!("'{name}' is in a slice"))
        .bind(&arguments);
    let mut site = bound.map_err(|refused| refused.0)?;
    let (times, environment) = (Times::Same(7), AppEnvironment::default());
    let (mut seed, mut failures) = (1, Vec::new());
    let now = WALL + 86_400_000;
    let mut context = EvalContext::new(now, WALL, &times, &environment, &mut seed, &mut failures);
    // Two equal rows: what a call site remembers must not change the second.
    let columns: Vec<Column> = arguments
        .iter()
        .map(|a| Column::constant(a.ty, &a.constant.clone().unwrap_or_default(), 2))
        .collect();
    let out = site.evaluate(&columns, 2, &mut context);
    assert_eq!(out.len(), 2, "a value per row");
    match failures.as_slice() {
        [] => Ok(out.value(1)),
        [first, ..] => Err(first.message.clone()),
    }
}

/// The result as text, with its type where it is not the plain form: `1L`, `1.5F`, `'text'`.
pub fn shown(value: &Value) -> String {
    let text = event::text::to_text(value);
    match value {
        Value::Long(_) => text + "L",
        Value::Float(_) => text + "F",
        Value::Str(_) => format!("'{text}'"),
        _ => text,
    }
}

/// `check("str:upper", &["a".into()], "'A'")`; an expectation that begins with `!` is a part of the
/// message of a failure.
pub fn check(name: &str, args: &[Value], expect: &str) {
    match (call(name, args), expect.strip_prefix('!')) {
        (Ok(value), None) => assert_eq!(shown(&value), expect, "{name}{args:?}"),
        (Err(message), Some(part)) => assert!(message.contains(part), "{name}{args:?}: {message}"),
        (result, _) => panic!("{name}{args:?} gave {result:?}, expected {expect}"),
    }
}

pub fn i(v: i32) -> Value {
    Value::Int(v)
}

pub fn l(v: i64) -> Value {
    Value::Long(v)
}

pub fn f(v: f32) -> Value {
    Value::Float(v)
}

pub fn d(v: f64) -> Value {
    Value::Double(v)
}

pub fn b(v: bool) -> Value {
    Value::Bool(v)
}

pub fn s(v: &str) -> Value {
    Value::str(v)
}

pub const NULL: Value = Value::Null;

pub fn map(entries: &[(&str, Value)]) -> Value {
    let entries = entries.iter().map(|(k, v)| (s(k), v.clone())).collect();
    Value::Object(Object::Map(Shared::new(entries)))
}

pub fn list(values: &[Value]) -> Value {
    Value::Object(Object::List(Shared::new(values.to_vec())))
}

#[test]
fn names_are_unique_and_each_spec_has_a_summary_and_an_example() {
    let mut names: Vec<_> = functions().map(|f| f.spec().full_name()).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "a name occurs twice");
    for function in functions() {
        let spec = function.spec();
        let name = spec.full_name();
        assert!(
            !spec.summary.is_empty() && !spec.overloads.is_empty(),
            "{name}"
        );
        assert!(
            spec.example.contains(&format!("{name}(")),
            "{name}: {}",
            spec.example
        );
    }
}
