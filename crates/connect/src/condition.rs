//! Conditions and values of store operations, worked out on one row at a time: what a cache needs
//! to know which of its rows an operation means, and the arithmetic that databases are taught.

use event::Type;
use event::Value;
use plan::store::{Term, TermKind};
use plan::{ArithmeticOp, CompareOp, Constant};

/// Nesting of a term.
const DEPTH_MAX: usize = 200;

/// Whether [`value`] can work the term out: it calls no function and does not nest too deep.
pub fn is_plain(term: &Term) -> bool {
    fn plain(term: &Term, depth: usize) -> bool {
        depth < DEPTH_MAX
            && match &term.kind {
                TermKind::Column(_) | TermKind::Parameter(_) | TermKind::Constant(_) => true,
                TermKind::Call { .. } => false,
                TermKind::Not(inner) | TermKind::IsNull(inner) => plain(inner, depth + 1),
                TermKind::Arithmetic(_, left, right)
                | TermKind::Compare(_, left, right)
                | TermKind::And(left, right)
                | TermKind::Or(left, right) => plain(left, depth + 1) && plain(right, depth + 1),
            }
    }
    plain(term, 0)
}

/// Whether the row satisfies the condition; null counts as false.
pub fn holds(term: &Term, row: &[Value], parameters: &[Value]) -> bool {
    value(term, row, parameters) == Value::Bool(true)
}

/// The value of a term that [`is_plain`]; a call of a function is null.
pub fn value(term: &Term, row: &[Value], parameters: &[Value]) -> Value {
    let of = |term: &Term| value(term, row, parameters);
    let is_true = |term: &Term| holds(term, row, parameters);
    match &term.kind {
        TermKind::Column(index) => row.get(*index).cloned().unwrap_or_default(),
        TermKind::Parameter(index) => parameters.get(*index).cloned().unwrap_or_default(),
        TermKind::Constant(constant) => of_constant(constant),
        TermKind::Arithmetic(op, left, right) => arithmetic(*op, term.ty, &of(left), &of(right)),
        TermKind::Compare(op, left, right) => Value::Bool(compare(*op, &of(left), &of(right))),
        TermKind::And(left, right) => Value::Bool(is_true(left) && is_true(right)),
        TermKind::Or(left, right) => Value::Bool(is_true(left) || is_true(right)),
        TermKind::Not(inner) => Value::Bool(!is_true(inner)),
        TermKind::IsNull(inner) => Value::Bool(of(inner) == Value::Null),
        TermKind::Call { .. } => Value::Null,
    }
}

fn of_constant(constant: &Constant) -> Value {
    match constant {
        Constant::Int(v) => Value::Int(*v),
        Constant::Long(v) => Value::Long(*v),
        Constant::Float(v) => Value::Float(*v),
        Constant::Double(v) => Value::Double(*v),
        Constant::Bool(v) => Value::Bool(*v),
        Constant::String(v) => Value::str(v),
    }
}

fn arithmetic(op: ArithmeticOp, ty: Type, left: &Value, right: &Value) -> Value {
    let longs = || left.to_long().zip(right.to_long());
    let doubles = || left.to_double().zip(right.to_double());
    let result = match ty {
        Type::Int => longs()
            .and_then(|(a, b)| int(op, a as i32, b as i32))
            .map(Value::Int),
        Type::Long => longs().and_then(|(a, b)| long(op, a, b)).map(Value::Long),
        Type::Float => doubles()
            .and_then(|(a, b)| float(op, a as f32, b as f32))
            .map(Value::Float),
        _ => doubles()
            .and_then(|(a, b)| double(op, a, b))
            .map(Value::Double),
    };
    result.unwrap_or_default()
}

/// Comparisons with null are false, `!=` is true; numbers are compared as numbers.
fn compare(op: CompareOp, left: &Value, right: &Value) -> bool {
    if *left == Value::Null || *right == Value::Null {
        return op == CompareOp::NotEqual;
    }
    let is_real = |v: &Value| matches!(v, Value::Float(_) | Value::Double(_));
    let order = match (
        left.to_double().zip(right.to_double()),
        is_real(left) || is_real(right),
    ) {
        (Some((a, b)), true) => a.partial_cmp(&b),
        (Some(_), false) => left.to_long().partial_cmp(&right.to_long()),
        (None, _) if left == right => Some(std::cmp::Ordering::Equal),
        (None, _) => None,
    };
    match op {
        CompareOp::Less => order.is_some_and(|o| o.is_lt()),
        CompareOp::LessEqual => order.is_some_and(|o| o.is_le()),
        CompareOp::Greater => order.is_some_and(|o| o.is_gt()),
        CompareOp::GreaterEqual => order.is_some_and(|o| o.is_ge()),
        CompareOp::Equal => order.is_some_and(|o| o.is_eq()),
        CompareOp::NotEqual => order.is_none_or(|o| o.is_ne()),
    }
}

// Integers wrap, division by zero is null, and `%` takes the sign of its left side.

pub fn int(op: ArithmeticOp, a: i32, b: i32) -> Option<i32> {
    Some(match op {
        ArithmeticOp::Add => a.wrapping_add(b),
        ArithmeticOp::Subtract => a.wrapping_sub(b),
        ArithmeticOp::Multiply => a.wrapping_mul(b),
        ArithmeticOp::Divide | ArithmeticOp::Modulo if b == 0 => return None,
        ArithmeticOp::Divide => a.wrapping_div(b),
        ArithmeticOp::Modulo => a.wrapping_rem(b),
    })
}

pub fn long(op: ArithmeticOp, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        ArithmeticOp::Add => a.wrapping_add(b),
        ArithmeticOp::Subtract => a.wrapping_sub(b),
        ArithmeticOp::Multiply => a.wrapping_mul(b),
        ArithmeticOp::Divide | ArithmeticOp::Modulo if b == 0 => return None,
        ArithmeticOp::Divide => a.wrapping_div(b),
        ArithmeticOp::Modulo => a.wrapping_rem(b),
    })
}

pub fn float(op: ArithmeticOp, a: f32, b: f32) -> Option<f32> {
    Some(match op {
        ArithmeticOp::Add => a + b,
        ArithmeticOp::Subtract => a - b,
        ArithmeticOp::Multiply => a * b,
        ArithmeticOp::Divide | ArithmeticOp::Modulo if b == 0.0 => return None,
        ArithmeticOp::Divide => a / b,
        ArithmeticOp::Modulo => a % b,
    })
}

pub fn double(op: ArithmeticOp, a: f64, b: f64) -> Option<f64> {
    Some(match op {
        ArithmeticOp::Add => a + b,
        ArithmeticOp::Subtract => a - b,
        ArithmeticOp::Multiply => a * b,
        ArithmeticOp::Divide | ArithmeticOp::Modulo if b == 0.0 => return None,
        ArithmeticOp::Divide => a / b,
        ArithmeticOp::Modulo => a % b,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(ty: Type, kind: TermKind) -> Term {
        Term { ty, kind }
    }

    #[test]
    fn conditions_are_as_in_memory() {
        let check = |op: CompareOp, a: Value, b: Value, want: bool| {
            assert_eq!(compare(op, &a, &b), want, "{a:?} {} {b:?}", op.sign());
        };
        check(CompareOp::Equal, Value::Int(5), Value::Long(5), true);
        check(CompareOp::Equal, Value::Int(5), Value::Double(5.0), true);
        check(CompareOp::Equal, Value::Null, Value::Null, false);
        check(CompareOp::NotEqual, Value::Null, Value::Null, true);
        check(CompareOp::Less, Value::Null, Value::Int(1), false);
        check(CompareOp::Equal, Value::str("a"), Value::str("a"), true);
        check(
            CompareOp::Equal,
            Value::Double(0.0),
            Value::Double(-0.0),
            true,
        );
        check(
            CompareOp::NotEqual,
            Value::Double(f64::NAN),
            Value::Double(f64::NAN),
            true,
        );
        check(
            CompareOp::Greater,
            Value::Long(i64::MAX),
            Value::Long(i64::MAX - 1),
            true,
        );
    }

    #[test]
    fn terms_see_row_and_parameters() {
        let column = Box::new(term(Type::Int, TermKind::Column(0)));
        let parameter = Box::new(term(Type::Int, TermKind::Parameter(0)));
        let sum = term(
            Type::Int,
            TermKind::Arithmetic(ArithmeticOp::Add, column.clone(), parameter.clone()),
        );
        assert_eq!(
            value(&sum, &[Value::Int(i32::MAX)], &[Value::Int(1)]),
            Value::Int(i32::MIN)
        );
        assert_eq!(value(&sum, &[Value::Null], &[Value::Int(1)]), Value::Null);
        let equal = term(
            Type::Bool,
            TermKind::Compare(CompareOp::Equal, column, parameter),
        );
        let not = term(Type::Bool, TermKind::Not(Box::new(equal.clone())));
        assert!(holds(&equal, &[Value::Int(1)], &[Value::Int(1)]));
        assert!(holds(&not, &[Value::Null], &[Value::Int(1)]));
        let call = term(
            Type::Int,
            TermKind::Call {
                name: "f".into(),
                args: Vec::new(),
            },
        );
        assert!(is_plain(&not) && !is_plain(&call));
    }
}
