//! Values for `$1`, `$2` and so on. They become literals in the tree of a statement, never in its text.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, LimitClause, Query, Statement, TimezoneInfo, Value,
    Visit, VisitMut, Visitor, VisitorMut,
};
use lang::span::Span;

use super::Parameter;
use crate::error::{Error, wrong};

/// Parameters of a statement.
const COUNT_MAX: usize = 1000;

/// How many parameters a statement has: the highest number.
///
/// # Errors
/// One has no number, or too high a one.
pub(super) fn count(sql: &str, statement: &ParsedStatement) -> Result<usize, Error> {
    struct Highest(Result<usize, String>);

    impl Visitor for Highest {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let (Some(name), Ok(highest)) = (placeholder(expr), &self.0) else {
                return ControlFlow::Continue(());
            };
            match number(name) {
                Some(at) => {
                    self.0 = Ok((*highest).max(at));
                    ControlFlow::Continue(())
                }
                None => {
                    self.0 = Err(name.to_owned());
                    ControlFlow::Break(())
                }
            }
        }
    }

    let mut highest = Highest(Ok(0));
    if let Some(ast) = inner(statement) {
        let walked = Visit::visit(ast, &mut highest);
        debug_assert_eq!(walked.is_break(), highest.0.is_err());
    }
    highest.0.map_err(|name| {
        let at = sql.find(&*name).unwrap_or(0);
        let span = Span::new(at as u32, (at + name.len()) as u32);
        let help = format!("parameters are $1 to ${COUNT_MAX}");
        wrong(format!("'{name}' is no parameter"), span, Some(help))
    })
}

/// What a statement itself says of the types of its parameters: by casts, and where rows are counted.
pub(super) fn hints(statement: &ParsedStatement) -> HashMap<usize, u32> {
    struct Hints(HashMap<usize, u32>);

    impl Visitor for Hints {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
                let offset = offset.iter().map(|offset| &offset.value);
                let counts = limit.iter().chain(offset);
                for at in counts.filter_map(placeholder).filter_map(number) {
                    self.0.insert(at, 20);
                }
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Cast {
                expr, data_type, ..
            } = expr
                && let Some(at) = placeholder(expr).and_then(number)
                && let Some(oid) = oid_of(data_type)
            {
                self.0.insert(at, oid);
            }
            ControlFlow::Continue(())
        }
    }

    let mut hints = Hints(HashMap::new());
    if let Some(ast) = inner(statement) {
        let walked = Visit::visit(ast, &mut hints);
        debug_assert!(walked.is_continue(), "nothing in it breaks off");
    }
    hints.0
}

/// The number of a type that is written in a cast.
fn oid_of(ty: &DataType) -> Option<u32> {
    Some(match ty {
        DataType::Boolean | DataType::Bool => 16,
        DataType::Bytea => 17,
        DataType::BigInt(_) | DataType::Int8(_) => 20,
        DataType::SmallInt(_) | DataType::Int2(_) => 21,
        DataType::Integer(_) | DataType::Int(_) | DataType::Int4(_) => 23,
        DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_) => 25,
        DataType::Real | DataType::Float4 => 700,
        DataType::DoublePrecision | DataType::Double(_) | DataType::Float8 => 701,
        DataType::Date => 1082,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => 1114,
        DataType::Timestamp(..) => 1184,
        DataType::Numeric(_) | DataType::Decimal(_) => 1700,
        _ => return None,
    })
}

fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

fn number(name: &str) -> Option<usize> {
    let at: usize = name.strip_prefix('$')?.parse().ok()?;
    (1..=COUNT_MAX).contains(&at).then_some(at)
}

fn inner(statement: &ParsedStatement) -> Option<&Statement> {
    let mut statement = statement;
    while let ParsedStatement::Explain(explain) = statement {
        statement = &explain.statement;
    }
    match statement {
        ParsedStatement::Statement(ast) => Some(ast),
        _ => None,
    }
}

struct Put(HashMap<usize, Expr>);

impl VisitorMut for Put {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let value = placeholder(expr).and_then(number);
        if let Some(value) = value.and_then(|at| self.0.get(&at)) {
            *expr = value.clone();
        }
        ControlFlow::Continue(())
    }
}

fn replace(statement: &mut ParsedStatement, values: HashMap<usize, Expr>) {
    let mut statement = statement;
    while let ParsedStatement::Explain(explain) = statement {
        statement = &mut explain.statement;
    }
    if let ParsedStatement::Statement(ast) = statement {
        let walked = VisitMut::visit(ast, &mut Put(values));
        debug_assert!(walked.is_continue(), "nothing in it breaks off");
    }
}

/// Puts nulls of the types that are known in the place of their parameters.
pub(super) fn declare(statement: &mut ParsedStatement, types: &[u32]) {
    let known = types.iter().enumerate().filter(|(_, ty)| **ty != 0);
    let values = known.map(|(at, ty)| (at + 1, literal(Value::Null, *ty, None)));
    replace(statement, values.collect());
}

/// Puts values in the place of parameters.
///
/// # Errors
/// A value is none of its type.
pub(super) fn put(statement: &mut ParsedStatement, given: &[Parameter]) -> Result<(), Error> {
    let mut values = HashMap::new();
    for (at, parameter) in given.iter().enumerate() {
        let value = expression(parameter)
            .map_err(|cause| Error::Values(format!("the value of ${} {cause}", at + 1)))?;
        values.insert(at + 1, value);
    }
    replace(statement, values);
    Ok(())
}

fn literal(value: Value, oid: u32, scale: Option<i64>) -> Expr {
    let numeric = ExactNumberInfo::PrecisionAndScale(38, scale.unwrap_or(10));
    let data_type = match oid {
        16 => DataType::Boolean,
        17 => DataType::Bytea,
        20 | 26 => DataType::BigInt(None),
        21 => DataType::SmallInt(None),
        23 => DataType::Integer(None),
        700 => DataType::Real,
        701 => DataType::DoublePrecision,
        1082 => DataType::Date,
        1083 => DataType::Time(None, TimezoneInfo::None),
        1114 => DataType::Timestamp(None, TimezoneInfo::None),
        1184 => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        1700 => DataType::Numeric(numeric),
        _ => DataType::Varchar(None),
    };
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(value)),
        data_type,
        array: false,
        format: None,
    }
}

/// A value as a literal of its type.
fn expression(parameter: &Parameter) -> Result<Expr, String> {
    let Some(bytes) = &parameter.bytes else {
        return Ok(literal(Value::Null, parameter.oid, None));
    };
    let oid = parameter.oid;
    if oid == 17 {
        let hex: String = match parameter.is_binary {
            true => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            false => {
                let text = utf8(bytes)?;
                let hex = text
                    .strip_prefix("\\x")
                    .ok_or("is no bytea: write \\x and hexadecimal digits")?;
                match hex.len() % 2 == 0 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    true => hex.to_owned(),
                    false => {
                        return Err("is no bytea: it has other than hexadecimal digits".to_owned());
                    }
                }
            }
        };
        return Ok(Expr::value(Value::HexStringLiteral(hex)));
    }
    let text = match parameter.is_binary {
        true => of_binary(bytes, oid)?,
        false => utf8(bytes)?.to_owned(),
    };
    let text = match oid {
        16 => match &*text.trim().to_ascii_lowercase() {
            "t" | "true" | "y" | "yes" | "on" | "1" => "true".to_owned(),
            "f" | "false" | "n" | "no" | "off" | "0" => "false".to_owned(),
            _ => return Err(format!("is no boolean: '{text}'")),
        },
        20 | 21 | 23 | 26 => {
            let number: i64 = text
                .trim()
                .parse()
                .map_err(|_| format!("is no whole number: '{text}'"))?;
            let fits = match oid {
                21 => i16::try_from(number).is_ok(),
                23 => i32::try_from(number).is_ok(),
                _ => true,
            };
            match fits {
                true => number.to_string(),
                false => return Err(format!("does not fit its type: {number}")),
            }
        }
        700 | 701 => {
            let number: f64 = text
                .trim()
                .parse()
                .map_err(|_| format!("is no number: '{text}'"))?;
            number.to_string()
        }
        1700 => {
            let plain = text.trim();
            let digits = plain.strip_prefix(['-', '+']).unwrap_or(plain);
            let is_number = digits.bytes().any(|byte| byte.is_ascii_digit())
                && digits
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'.')
                && digits.matches('.').count() < 2;
            if !is_number || digits.len() > 39 {
                return Err(format!("is no number of at most 38 digits: '{text}'"));
            }
            let scale = digits
                .split_once('.')
                .map_or(0, |(_, fraction)| fraction.len());
            let value = Value::SingleQuotedString(plain.to_owned());
            return Ok(literal(value, oid, Some(scale as i64)));
        }
        _ => text,
    };
    Ok(literal(Value::SingleQuotedString(text), oid, None))
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

fn of_binary(bytes: &[u8], oid: u32) -> Result<String, String> {
    macro_rules! number {
        ($ty:ty) => {{
            let bytes = bytes
                .try_into()
                .map_err(|_| format!("has {} bytes, which its type has not", bytes.len()))?;
            <$ty>::from_be_bytes(bytes)
        }};
    }
    let beyond = |_| "is a time outside of the years that can be written".to_owned();
    let of_2000 = jiff::civil::date(2000, 1, 1);
    Ok(match oid {
        16 => number!(u8).to_string(),
        20 => number!(i64).to_string(),
        21 => number!(i16).to_string(),
        23 => number!(i32).to_string(),
        26 => number!(u32).to_string(),
        700 => number!(f32).to_string(),
        701 => number!(f64).to_string(),
        1082 => {
            let days = jiff::SignedDuration::from_hours(i64::from(number!(i32)) * 24);
            of_2000.checked_add(days).map_err(beyond)?.to_string()
        }
        1083 => {
            let since = jiff::SignedDuration::from_micros(number!(i64));
            jiff::civil::Time::midnight()
                .checked_add(since)
                .map_err(beyond)?
                .to_string()
        }
        1114 | 1184 => {
            let since = jiff::SignedDuration::from_micros(number!(i64));
            let at = of_2000.at(0, 0, 0, 0).checked_add(since).map_err(beyond)?;
            match oid {
                1184 => format!("{at}Z"),
                _ => at.to_string(),
            }
        }
        1700 => of_numeric(bytes)?,
        0 | 18 | 19 | 25 | 114 | 705 | 1042 | 1043 => utf8(bytes)?.to_owned(),
        2950 => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            match hex.len() {
                32 => format!(
                    "{}-{}-{}-{}-{}",
                    &hex[..8],
                    &hex[8..12],
                    &hex[12..16],
                    &hex[16..20],
                    &hex[20..]
                ),
                _ => return Err("has not the 16 bytes of a uuid".to_owned()),
            }
        }
        other => {
            return Err(format!(
                "is binary, which type {other} is not taken as: send it as text"
            ));
        }
    })
}

fn of_numeric(bytes: &[u8]) -> Result<String, String> {
    let wrong = || "is no numeric".to_owned();
    let words: Vec<u16> = bytes
        .chunks(2)
        .map(|pair| pair.try_into().map(u16::from_be_bytes).map_err(|_| wrong()))
        .collect::<Result<_, _>>()?;
    let [count, weight, sign, scale, digits @ ..] = &words[..] else {
        return Err(wrong());
    };
    let weight = i32::from(*weight as i16);
    let is_plain = usize::from(*count) == digits.len() && matches!(sign, 0 | 0x4000);
    // What has more digits than 38 is refused later; these bounds keep the text short.
    if !is_plain
        || digits.iter().any(|digit| *digit > 9999)
        || !(-12..12).contains(&weight)
        || *scale > 40
    {
        return Err("is no number of at most 38 digits".to_owned());
    }
    let digit = |at: i32| {
        let at = usize::try_from(weight - at).ok();
        at.and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let mut whole: String = (0..=weight.max(0))
        .rev()
        .map(|at| format!("{:04}", digit(at)))
        .collect();
    let keep = whole.trim_start_matches('0').len().max(1);
    whole = whole[whole.len() - keep..].to_owned();
    let groups = i32::from(scale.div_ceil(4));
    let fraction: String = (1..=groups)
        .map(|at| format!("{:04}", digit(-at)))
        .collect();
    let minus = if *sign == 0 { "" } else { "-" };
    Ok(match scale {
        0 => format!("{minus}{whole}"),
        scale => format!("{minus}{whole}.{}", &fraction[..usize::from(*scale)]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(oid: u32, is_binary: bool, bytes: &[u8]) -> Result<String, String> {
        let parameter = Parameter {
            oid,
            is_binary,
            bytes: Some(bytes.to_vec()),
        };
        expression(&parameter).map(|expression| expression.to_string())
    }

    #[test]
    fn values_become_literals_of_their_types() {
        for (oid, is_binary, bytes, want) in [
            (23, false, &b"7"[..], "CAST('7' AS INTEGER)"),
            (23, true, &[0, 0, 1, 0], "CAST('256' AS INTEGER)"),
            (20, true, &[0xff; 8], "CAST('-1' AS BIGINT)"),
            (16, true, &[1], "CAST('true' AS BOOLEAN)"),
            (25, false, b"it's", "CAST('it''s' AS VARCHAR)"),
            (17, false, b"\\xAb01", "X'Ab01'"),
            (17, true, &[0xab], "X'ab'"),
            (1082, true, &[0, 0, 0, 1], "CAST('2000-01-02' AS DATE)"),
            (
                1114,
                true,
                &[0; 8],
                "CAST('2000-01-01T00:00:00' AS TIMESTAMP)",
            ),
            (1700, false, b"-1.50", "CAST('-1.50' AS NUMERIC(38,2))"),
            (
                1700,
                true,
                &[0, 2, 0, 0, 0x40, 0, 0, 2, 0, 1, 0x13, 0x88],
                "CAST('-1.50' AS NUMERIC(38,2))",
            ),
        ] {
            assert_eq!(of(oid, is_binary, bytes).as_deref(), Ok(want));
        }
        for (oid, is_binary, bytes, says) in [
            (23, false, &b"x"[..], "whole number"),
            (23, false, b"3000000000", "does not fit"),
            (23, true, b"xyz", "has 3 bytes"),
            (25, false, b"\xff", "not UTF-8"),
            (16, false, b"maybe", "boolean"),
            (1700, true, b"xyz", "numeric"),
            (1700, false, b"1e5", "no number"),
            (17, false, b"\\x0", "hexadecimal"),
            (3802, true, b"{}", "send it as text"),
        ] {
            let refused = of(oid, is_binary, bytes).expect_err("refused");
            assert!(refused.contains(says), "{refused}");
        }
    }
}
