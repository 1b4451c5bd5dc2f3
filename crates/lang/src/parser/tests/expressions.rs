//! Literals, times, operators, references and calls.

use super::errors;
use crate::ast::*;
use crate::parser::parse_expression;

/// An expression as the parser understood it, every operation in brackets.
#[track_caller]
fn expr(text: &str, expect: &str) {
    let (found, diagnostics) = parse_expression(text);
    assert!(diagnostics.is_empty(), "{text}\n{:?}", errors(&diagnostics));
    assert_eq!(found.map(|e| show(&e)).as_deref(), Some(expect), "{text}");
}

#[track_caller]
pub(super) fn expr_refused(text: &str) {
    assert!(!parse_expression(text).1.is_empty(), "accepted: {text}");
}

fn show(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Literal(literal) => match literal {
            Literal::Int(v) => format!("{v}"),
            Literal::Long(v) => format!("{v}L"),
            Literal::Float(v) => format!("{v:?}f"),
            Literal::Double(v) => format!("{v:?}d"),
            Literal::Bool(v) => format!("{v}"),
            Literal::String(v) => format!("'{v}'"),
        },
        ExprKind::Time(time) => format!("{}ms", time.millis),
        ExprKind::Attribute(a) => show_attribute(a),
        ExprKind::Call(call) => show_call(call),
        ExprKind::Not(inner) => format!("(not {})", show(inner)),
        ExprKind::Binary(op, a, b) => format!("({} {op:?} {})", show(a), show(b)),
        ExprKind::IsNull(NullTarget::Reference(r)) => format!("({} is null)", show_stream(r)),
        ExprKind::IsNull(NullTarget::Attribute(a)) => format!("({} is null)", show_attribute(a)),
        ExprKind::IsNull(NullTarget::Call(c)) => format!("({} is null)", show_call(c)),
        ExprKind::In(inner, table) => format!("({} in {})", show(inner), table.name.text),
        ExprKind::Error => "error".into(),
    }
}

fn show_stream(stream: &StreamRef) -> String {
    let sign = match stream.stream.kind {
        StreamKind::Plain => "",
        StreamKind::Inner => "#",
        StreamKind::Fault => "!",
    };
    let index = match stream.index {
        None => String::new(),
        Some(Index::At(n)) => format!("[{n}]"),
        Some(Index::Last(n)) => format!("[last-{n}]"),
    };
    format!("{sign}{}{index}", stream.stream.name.text)
}

fn show_attribute(attribute: &AttributeRef) -> String {
    let mut text = attribute
        .stream
        .as_ref()
        .map(show_stream)
        .unwrap_or_default();
    if let Some(inner) = &attribute.inner {
        text += &show_stream(inner);
    }
    if !text.is_empty() {
        text += ".";
    }
    text + &attribute.name.text
}

fn show_call(call: &Call) -> String {
    let namespace = call
        .namespace
        .as_ref()
        .map(|n| format!("{}:", n.text))
        .unwrap_or_default();
    let args = match &call.args {
        Args::All(_) => "*".to_owned(),
        Args::List(list) => list.iter().map(show).collect::<Vec<_>>().join(", "),
    };
    format!("{namespace}{}({args})", call.name.text)
}

#[test]
fn literals() {
    expr("5", "5");
    expr("007", "7");
    expr("-5", "-5");
    expr("+5", "5");
    expr("- 5", "-5");
    expr("2147483647", "2147483647");
    expr("-2147483648", "-2147483648");
    expr("5L", "5L");
    expr("5l", "5L");
    expr("-9223372036854775808L", "-9223372036854775808L");
    expr("10f", "10.0f");
    expr("2.5F", "2.5f");
    expr(".5f", "0.5f");
    expr("1e3f", "1000.0f");
    expr("2.5", "2.5d");
    expr(".5", "0.5d");
    expr("1e3", "1000.0d");
    expr("1E-3", "0.001d");
    expr("1.5e+2", "150.0d");
    expr("5d", "5.0d");
    expr("5.d", "5.0d");
    expr("5.5D", "5.5d");
    expr("-1.5", "-1.5d");
    expr("true", "true");
    expr("FALSE", "false");
    expr("'a'", "'a'");
    expr("\"a\"", "'a'");
    expr("\"it's\"", "'it's'");
    expr("'say \"x\"'", "'say \"x\"'");
    expr("'a\\n'", "'a\\n'");
    expr("\"\"\"a\n\"b\" 'c'\"\"\"", "'a\n\"b\" 'c''");
    expr("''", "''");
    expr("\"\"", "''");
    for text in [
        "5.",
        "2147483648",
        "9223372036854775808L",
        "99999999999999999999",
        "5x",
        "0x1f",
    ] {
        expr_refused(text);
    }
    for text in ["'a", "\"a", "\"\"\"a\"\"", "'a\tb'", "'a\nb'", "'a''b'"] {
        expr_refused(text);
    }
}

#[test]
fn times() {
    expr("5 sec", "5000ms");
    expr("1 millisec", "1ms");
    expr("1 millisecond", "1ms");
    expr("2 milliseconds", "2ms");
    expr("2min", "120000ms");
    expr("1 minute", "60000ms");
    expr("1 minutes 1 second", "61000ms");
    expr("1 hour 30 min", "5400000ms");
    expr("2 HOURS", "7200000ms");
    expr("1 day", "86400000ms");
    expr("1 week", "604800000ms");
    expr("1 month", "2592000000ms");
    expr("1 year", "31536000000ms");
    expr(
        "1 year 1 month 1 week 1 day 1 hour 1 min 1 sec 1 millisec",
        "34822861001ms",
    );
    expr("5000000000 milliseconds", "5000000000ms");
    expr("1 sec + 2", "(1000ms Add 2)");
    for text in [
        "1 sec 1 hour",
        "1 sec 2 sec",
        "-5 sec",
        "5 secs",
        "5L sec",
        "99999999999 years",
    ] {
        expr_refused(text);
    }
}

#[test]
fn precedence() {
    expr("a + b * c", "(a Add (b Multiply c))");
    expr("a * b + c", "((a Multiply b) Add c)");
    expr("a - b - c", "((a Subtract b) Subtract c)");
    expr("a / b % c", "((a Divide b) Modulo c)");
    expr("(a + b) * c", "((a Add b) Multiply c)");
    expr("a + b < c * d", "((a Add b) Less (c Multiply d))");
    expr("a < b == c >= d", "((a Less b) Equal (c GreaterEqual d))");
    expr("a or b and c", "(a Or (b And c))");
    expr("a and b or c", "((a And b) Or c)");
    expr("not a == b", "((not a) Equal b)");
    expr("not a and b", "((not a) And b)");
    expr("not a * b", "((not a) Multiply b)");
    expr("not not a", "(not (not a))");
    expr("a * not b + c", "((a Multiply (not b)) Add c)");
    expr("not (a == b)", "(not (a Equal b))");
    expr("a == T.b in T", "((a Equal T.b) in T)");
    expr("a == T.b in T and c", "(((a Equal T.b) in T) And c)");
    expr("a in T == b", "((a in T) Equal b)");
    expr("a and b in T", "(a And (b in T))");
    expr("a -1", "(a Subtract 1)");
    expr("a - -1", "(a Subtract -1)");
    expr("-1 - 1", "(-1 Subtract 1)");
    expr("a != b", "(a NotEqual b)");
    expr("a <= b", "(a LessEqual b)");
    expr("a > b", "(a Greater b)");
    expr("NOT a AND b OR c", "(((not a) And b) Or c)");
}

#[test]
fn references_and_calls() {
    expr("a", "a");
    expr("S.a", "S.a");
    expr("#S.a", "#S.a");
    expr("!S.a", "!S.a");
    expr("e[0].a", "e[0].a");
    expr("e[last].a", "e[last-0].a");
    expr("e[last - 2].a", "e[last-2].a");
    expr("S#I.a", "S#I.a");
    expr("S[1]#I[2].a", "S[1]#I[2].a");
    expr("S#window.a", "S#window.a");
    expr("not in.a", "(not in.a)");
    expr("not of (a)", "(not of(a))");
    expr("not and b", "(not And b)");
    expr("f()", "f()");
    expr("f(*)", "f(*)");
    expr("f(a, 5 sec, 'x')", "f(a, 5000ms, 'x')");
    expr("n:f(g(a))", "n:f(g(a))");
    expr("a is null", "(a is null)");
    expr("S.a is null", "(S.a is null)");
    expr("e[1] is null", "(e[1] is null)");
    expr("#S is null", "(#S is null)");
    expr("f(a) is null", "(f(a) is null)");
    expr("not a is null", "(not (a is null))");
    expr("a is null == b is null", "((a is null) Equal (b is null))");
    expr("true is null", "(true is null)");
    for text in [
        "",
        "a +",
        "+ a",
        "-a",
        "-(1)",
        "a b",
        "(a",
        "a)",
        "()",
        "a is",
        "a is not null",
        "(a) is null",
        "5 is null",
        "'x' is null",
        "e[0]",
        "e[x].a",
        "e[last + 1].a",
        "e[].a",
        "S.",
        "S.a.b",
        "#S",
        "f(",
        "f(a",
        "f(a,)",
        "f(,a)",
        "f(*, a)",
        "f(a b)",
        "n:f",
        "n:m:f()",
        "a in",
        "a in #T",
        "a = b",
        "a && b",
        "a || b",
        "!a",
        "a =< b",
        "a <> b",
        "a ? b",
        "a ** b",
        "a not in T",
        "*",
    ] {
        expr_refused(text);
    }
}
