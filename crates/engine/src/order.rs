//! The order of values, as Java's `compareTo` has it: for `order by` and for tables that are sorted.

use std::cmp::Ordering;

use event::Value;

/// Java's `compareTo` of values of one class; texts by UTF-16 units. Values of several classes, which
/// Java does not compare, stand by class and nulls last: a sort needs an order of all.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => text_order(a, b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Long(a), Value::Long(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => double_order(f64::from(*a), f64::from(*b)),
        (Value::Double(a), Value::Double(b)) => double_order(*a, *b),
        _ => class(a).cmp(&class(b)),
    }
}

fn class(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => 0,
        Value::Int(_) => 1,
        Value::Long(_) => 2,
        Value::Float(_) => 3,
        Value::Double(_) => 4,
        Value::Str(_) => 5,
        Value::Object(_) => 6,
        Value::Null => 7,
    }
}

pub(crate) fn text_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

/// Java's `Double.compare`: -0.0 before 0.0, NaN last.
pub(crate) fn double_order(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.total_cmp(&b),
    }
}
