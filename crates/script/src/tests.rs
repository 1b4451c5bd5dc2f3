//! One call each: the body, its arguments, what comes back.

use engine::ScriptEngine as _;
use event::value::Shared;
use event::{Object, Type, Value};
use lang::span::Span;
use plan::ScriptFunction;

use super::{JavaScript, fault};

fn call(body: &str, returns: Type, args: &[Value]) -> Result<Value, String> {
    let function = ScriptFunction {
        name: "f".into(),
        language: "javascript".into(),
        returns,
        body: body.into(),
        span: Span::default(),
    };
    let mut seed = 7;
    JavaScript
        .compile(&function)?
        .call(args, 86_400_000, &mut seed)
}

fn check(body: &str, returns: Type, args: &[Value], want: Value) {
    assert_eq!(call(body, returns, args), Ok(want), "{body}");
}

#[test]
fn values_go_in_and_come_back() {
    let pass = "var x = data[0]; return x;";
    for value in [
        Value::Null,
        Value::Bool(true),
        Value::Int(-3),
        Value::Double(1.5),
        Value::str("a'b\"é"),
        Value::Long(9_007_199_254_740_993),
        Value::Long(i64::MIN),
    ] {
        let ty = value.ty().unwrap_or(Type::Object);
        check(pass, ty, std::slice::from_ref(&value), value.clone());
    }
    check(pass, Type::Long, &[Value::Long(5)], Value::Long(5));
    check(pass, Type::Float, &[Value::Float(0.1)], Value::Float(0.1));
    check("return 5;", Type::Double, &[], Value::Double(5.0));
    check("return 5.0;", Type::Int, &[], Value::Int(5));
    // What does not fit travels as it is.
    check("return 1.5;", Type::Int, &[], Value::Double(1.5));
    check(
        "return data[0] + data[1]",
        Type::String,
        &[Value::str("a"), Value::Int(1)],
        Value::str("a1"),
    );
    check("", Type::Int, &[], Value::Null);
    check("return data.length", Type::Int, &[], Value::Int(1));
}

#[test]
fn lists_and_maps_go_in_and_come_back() {
    let list = |values: Vec<Value>| Value::Object(Object::List(Shared::new(values)));
    let map = |key: &str, value: Value| {
        Value::Object(Object::Map(Shared::new(vec![(Value::str(key), value)])))
    };
    let nested = map("k", list(vec![Value::Int(1), Value::Null]));
    check(
        "return data[0];",
        Type::Object,
        std::slice::from_ref(&nested),
        nested.clone(),
    );
    check(
        "data[0].k.push(2); return data[0].k.length;",
        Type::Int,
        &[map("k", list(vec![]))],
        Value::Int(1),
    );
    let error = call("var a = []; a.push(a); return a;", Type::Object, &[]);
    assert!(error.is_err_and(|m| m.contains("nests deeper")));
}

#[test]
fn bytes_come_back_from_a_typed_array() {
    for (body, expect) in [
        ("return Uint8Array.of(0, 128, 255);", &[0, 128, 255][..]),
        ("return new Uint8Array();", &[]),
    ] {
        let found = call(body, Type::Object, &[]);
        let Ok(Value::Object(Object::Bytes(bytes))) = &found else {
            panic!("{body}: {found:?}");
        };
        assert_eq!(&bytes[..], expect, "{body}");
    }
}

#[test]
fn clock_and_random_numbers_are_those_of_the_app() {
    check(
        "return new Date().getTime();",
        Type::Long,
        &[],
        Value::Long(86_400_000),
    );
    check(
        "return Date.now() + new Date(5).getTime();",
        Type::Long,
        &[],
        Value::Long(86_400_005),
    );
    let random = "return Math.random();";
    assert_eq!(
        call(random, Type::Double, &[]),
        call(random, Type::Double, &[])
    );
}

#[test]
fn limits_fail_the_call_with_words() {
    let refused = |body: &str, words: &str| {
        let message = call(body, Type::Int, &[]).expect_err("a failure");
        assert!(message.contains(words), "{body}: {message}");
    };
    refused("while (true) {}", "longer than 1 s");
    refused(
        "var a = []; while (true) a.push('x'.repeat(100000) + a.length);",
        "",
    );
    refused("function f() { return f() + 1; } return f();", "stack");
    refused("return x.y;", "x is not defined");
    refused("throw new Error('no such key');", "no such key");
    refused("throw 'plain';", "plain");
}

#[test]
fn a_call_after_a_failed_one_works() {
    let function = ScriptFunction {
        name: "f".into(),
        language: "javascript".into(),
        returns: Type::Int,
        body: "if (data[0] > 1) { while (true) {} } return data[0];".into(),
        span: Span::default(),
    };
    let mut script = JavaScript.compile(&function).expect("it compiles");
    let mut seed = 1;
    assert!(script.call(&[Value::Int(2)], 0, &mut seed).is_err());
    assert_eq!(
        script.call(&[Value::Int(1)], 0, &mut seed),
        Ok(Value::Int(1))
    );
}

#[test]
fn a_fault_of_the_body_is_found_with_its_line() {
    assert_eq!(fault("var a = 1;\nreturn a;"), None);
    let found = fault("var a = 1;\nvar b = ;\nreturn a;").expect("a fault");
    assert_eq!(found.line, 1, "{}", found.message);
}
