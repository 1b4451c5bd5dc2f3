//! Rows as documents.

use event::{Schema, Type, Value};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document};

use connect::object::{read as object_from_bytes, to_json as object_to_json};

/// A value in the type of MongoDB that Siddhi's store gives it; objects are the bytes of their JSON.
pub(super) fn to_bson(value: &Value) -> Bson {
    match value {
        Value::Null => Bson::Null,
        Value::Bool(v) => Bson::Boolean(*v),
        Value::Int(v) => Bson::Int32(*v),
        Value::Long(v) => Bson::Int64(*v),
        Value::Float(v) => Bson::Double(f64::from(*v)),
        Value::Double(v) => Bson::Double(*v),
        Value::Str(v) => Bson::String(v.to_string()),
        Value::Object(event::Object::Bytes(bytes)) => binary(bytes.to_vec()),
        Value::Object(object) => binary(object_to_json(object)),
    }
}

pub(super) fn binary(bytes: Vec<u8>) -> Bson {
    Bson::Binary(Binary {
        subtype: BinarySubtype::Generic,
        bytes,
    })
}

/// What another program wrote may have another type: numbers are taken where they fit, the rest is null.
fn from_bson(ty: Type, bson: Option<&Bson>) -> Value {
    let Some(bson) = bson else {
        return Value::Null;
    };
    let long = match bson {
        Bson::Int32(v) => Some(i64::from(*v)),
        Bson::Int64(v) => Some(*v),
        // The range of a long, whose upper end no double has.
        Bson::Double(v) if v.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(v) => {
            Some(*v as i64)
        }
        _ => None,
    };
    let double = match bson {
        Bson::Int32(v) => Some(f64::from(*v)),
        Bson::Int64(v) => Some(*v as f64),
        Bson::Double(v) => Some(*v),
        _ => None,
    };
    let value = match ty {
        Type::Int => long.and_then(|v| i32::try_from(v).ok()).map(Value::Int),
        Type::Long => long.map(Value::Long),
        Type::Float => double.map(|v| Value::Float(v as f32)),
        Type::Double => double.map(Value::Double),
        Type::Bool => bson.as_bool().map(Value::Bool),
        Type::String => match bson {
            Bson::String(text) | Bson::Symbol(text) => Some(Value::str(text)),
            Bson::ObjectId(id) => Some(Value::str(&id.to_hex())),
            _ => None,
        },
        Type::Object => match bson {
            Bson::Binary(binary) => Some(object_from_bytes(&binary.bytes)),
            _ => None,
        },
    };
    value.unwrap_or_default()
}

pub(super) fn to_document(schema: &Schema, row: &[Value]) -> Document {
    let attributes = schema.attributes.iter().zip(row);
    attributes
        .map(|(attribute, value)| (attribute.name.clone(), to_bson(value)))
        .collect()
}

pub(super) fn from_document(schema: &Schema, document: &Document) -> Vec<Value> {
    let attributes = schema.attributes.iter();
    attributes
        .map(|attribute| from_bson(attribute.ty, document.get(&attribute.name)))
        .collect()
}

/// Bytes that a row takes on its way, nearly.
pub(super) fn weight(row: &[Value]) -> usize {
    let of = |value: &Value| match value {
        Value::Str(text) => text.len(),
        Value::Object(event::Object::Bytes(bytes)) => bytes.len(),
        _ => 0,
    };
    row.iter().map(|value| 32 + of(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ty: Type, value: Value, bson: Bson) {
        assert_eq!(to_bson(&value), bson);
        assert_eq!(from_bson(ty, Some(&bson)), value);
    }

    #[test]
    fn values_have_one_type_each_and_come_back() {
        check(Type::Int, Value::Int(i32::MIN), Bson::Int32(i32::MIN));
        check(Type::Long, Value::Long(i64::MAX), Bson::Int64(i64::MAX));
        check(
            Type::Float,
            Value::Float(0.1),
            Bson::Double(f64::from(0.1_f32)),
        );
        check(Type::Double, Value::Double(-0.0), Bson::Double(-0.0));
        check(Type::Bool, Value::Bool(true), Bson::Boolean(true));
        check(
            Type::String,
            Value::str("é\u{1}"),
            Bson::String("é\u{1}".into()),
        );
        check(Type::String, Value::Null, Bson::Null);
        let bytes = Value::Object(event::Object::Bytes([0, 255][..].into()));
        assert_eq!(to_bson(&bytes), binary(vec![0, 255]));
    }

    #[test]
    fn what_others_wrote_is_taken_where_it_fits() {
        for (ty, bson, value) in [
            (Type::Int, Bson::Int64(7), Value::Int(7)),
            (Type::Int, Bson::Int64(1 << 40), Value::Null),
            (Type::Int, Bson::Double(7.0), Value::Int(7)),
            (Type::Int, Bson::Double(7.5), Value::Null),
            (Type::Long, Bson::Double(2f64.powi(63)), Value::Null),
            (Type::Long, Bson::Double(f64::NAN), Value::Null),
            (Type::Double, Bson::Int32(7), Value::Double(7.0)),
            (Type::String, Bson::Int32(7), Value::Null),
            (Type::Bool, Bson::String("true".into()), Value::Null),
        ] {
            assert_eq!(from_bson(ty, Some(&bson)), value, "{ty:?} {bson}");
        }
        assert_eq!(from_bson(Type::Int, None), Value::Null);
    }
}
