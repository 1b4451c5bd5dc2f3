//! Values of a primary key as bytes whose order is that of the keys.
//!
//! Each value has a mark in front (null is the smallest) and an end of its own, so that ("ab", "c") and
//! ("a", "bc") are two keys.

use std::sync::Arc;

use event::{Type, Value};

/// An encoded key; cheap to copy with the layer that has it.
pub(crate) type Key = Arc<[u8]>;

const NULL: u8 = 0;
const SOME: u8 = 1;

/// Appends a value that has the type of its column.
pub(crate) fn push(value: &Value, out: &mut Vec<u8>) {
    out.push(if value.is_null() { NULL } else { SOME });
    match value {
        Value::Null | Value::Object(_) => {}
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Int(v) => out.extend((*v as u32 ^ 1 << 31).to_be_bytes()),
        Value::Long(v) => out.extend((*v as u64 ^ 1 << 63).to_be_bytes()),
        Value::Float(v) => push_double(f64::from(*v), out),
        Value::Double(v) => push_double(*v, out),
        Value::Str(v) => {
            for byte in v.bytes() {
                out.push(byte);
                if byte == 0 {
                    out.push(0xFF);
                }
            }
            out.extend([0, 0]);
        }
    }
}

/// -0.0 is 0.0, and all NaN are one, behind infinity.
fn push_double(v: f64, out: &mut Vec<u8>) {
    let v = if v == 0.0 { 0.0 } else { v };
    let bits = if v.is_nan() {
        f64::NAN.to_bits() & !(1 << 63)
    } else {
        v.to_bits()
    };
    let ordered = if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    };
    out.extend(ordered.to_be_bytes());
}

/// The key of a row.
pub(crate) fn of(key: &[usize], value: impl Fn(usize) -> Value) -> Key {
    let mut out = Vec::with_capacity(16);
    for column in key {
        push(&value(*column), &mut out);
    }
    out.into()
}

/// The value as one of another type, where it is the same value there.
pub(crate) fn in_type(ty: Type, value: &Value) -> Option<Value> {
    let whole = || -> Option<i64> {
        match value {
            Value::Int(_) | Value::Long(_) => value.to_long(),
            _ => None,
        }
    };
    Some(match (ty, value) {
        (_, Value::Null) => Value::Null,
        (Type::Int, _) => Value::Int(i32::try_from(whole()?).ok()?),
        (Type::Long, _) => Value::Long(whole()?),
        (Type::Float, Value::Float(v)) => Value::Float(*v),
        (Type::Double, Value::Double(v)) => Value::Double(*v),
        (Type::Double, Value::Float(v)) => Value::Double(f64::from(*v)),
        (Type::Double, Value::Int(v)) => Value::Double(f64::from(*v)),
        (Type::String, Value::Str(v)) => Value::Str(v.clone()),
        (Type::Bool, Value::Bool(v)) => Value::Bool(*v),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(values: &[Value]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|value| push(value, &mut out));
        out
    }

    #[test]
    fn keys_are_ordered_as_their_values_are() {
        let ascending: [&[Value]; 5] = [
            &[
                Value::Null,
                Value::Int(i32::MIN),
                Value::Int(-1),
                Value::Int(0),
                Value::Int(7),
            ],
            &[
                Value::Long(i64::MIN),
                Value::Long(-1),
                Value::Long(0),
                Value::Long(i64::MAX),
            ],
            &[
                Value::Double(f64::NEG_INFINITY),
                Value::Double(-1.5),
                Value::Double(0.0),
                Value::Double(1e-300),
                Value::Double(f64::INFINITY),
                Value::Double(f64::NAN),
            ],
            &[
                Value::str(""),
                Value::str("\0"),
                Value::str("\0a"),
                Value::str("a"),
                Value::str("a\0"),
                Value::str("ab"),
                Value::str("é"),
            ],
            &[Value::Bool(false), Value::Bool(true)],
        ];
        for values in ascending {
            for pair in values.windows(2) {
                let (a, b) = (key(&pair[..1]), key(&pair[1..]));
                assert!(a < b, "{pair:?}");
                // What follows does not count where the first values differ.
                let (a, b) = (
                    [a, key(&[Value::Int(9)])].concat(),
                    [b, key(&[Value::Int(1)])].concat(),
                );
                assert!(a < b, "{pair:?}");
            }
        }
    }

    #[test]
    fn keys_of_several_values_do_not_collide() {
        let (a, b) = (Value::str("ab"), Value::str("c"));
        let (c, d) = (Value::str("a"), Value::str("bc"));
        assert_ne!(key(&[a, b]), key(&[c, d]));
        assert_eq!(key(&[Value::Double(-0.0)]), key(&[Value::Double(0.0)]));
    }

    #[test]
    fn a_value_is_taken_in_another_type_where_it_is_the_same() {
        let check = |ty, value: Value, want: Option<Value>| assert_eq!(in_type(ty, &value), want);
        check(Type::Long, Value::Int(5), Some(Value::Long(5)));
        check(Type::Int, Value::Long(5), Some(Value::Int(5)));
        check(Type::Int, Value::Long(i64::MAX), None);
        check(Type::Double, Value::Float(0.5), Some(Value::Double(0.5)));
        check(Type::Float, Value::Double(0.1), None);
        check(Type::String, Value::Int(5), None);
        check(Type::String, Value::Null, Some(Value::Null));
    }
}
