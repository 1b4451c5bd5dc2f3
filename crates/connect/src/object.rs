//! OBJECT values in a BLOB column: bytes as they are, everything else as JSON.
//!
//! Java serialises objects; that form is of no use here, nor can it be read. Lists, maps and bytes
//! come back as they were; sets come back as lists, keys of maps as text.

use event::value::Shared;
use event::{Object, Value};
use serde_json::{Map, Number, Value as Json};

/// Nesting that is written and read.
const DEPTH_MAX: usize = 64;

pub fn to_json(object: &Object) -> Vec<u8> {
    object_json(object, 0).to_string().into_bytes()
}

fn json(value: &Value, depth: usize) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(v) => Json::Bool(*v),
        Value::Int(v) => Json::from(*v),
        Value::Long(v) => Json::from(*v),
        Value::Float(v) => Number::from_f64(f64::from(*v)).map_or(Json::Null, Json::Number),
        Value::Double(v) => Number::from_f64(*v).map_or(Json::Null, Json::Number),
        Value::Str(v) => Json::from(&**v),
        Value::Object(v) => object_json(v, depth + 1),
    }
}

fn object_json(object: &Object, depth: usize) -> Json {
    if depth > DEPTH_MAX {
        return Json::Null;
    }
    let list = |values: &[Value]| values.iter().map(|value| json(value, depth)).collect();
    match object {
        Object::List(values) | Object::Set(values) => Json::Array(list(&values.lock())),
        Object::Array(values) => Json::Array(list(values)),
        Object::Map(entries) => {
            let entries = entries.lock();
            let pairs = entries
                .iter()
                .map(|(k, v)| (event::text::to_text(k), json(v, depth)));
            Json::Object(pairs.collect::<Map<String, Json>>())
        }
        Object::Bytes(bytes) => Json::from(String::from_utf8_lossy(bytes).into_owned()),
        Object::Error(message) => Json::from(&**message),
    }
}

/// A list or a map where the bytes are the JSON of one, else the bytes.
pub fn read(bytes: &[u8]) -> Value {
    let json = match bytes {
        [b'[', .., b']'] | [b'{', .., b'}'] => serde_json::from_slice(bytes).ok(),
        _ => None,
    };
    match json {
        Some(json) => value(&json),
        None => Value::Object(Object::Bytes(bytes.into())),
    }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(v) => Value::Bool(*v),
        Json::Number(v) => match v.as_i64() {
            Some(long) => i32::try_from(long).map_or(Value::Long(long), Value::Int),
            None => Value::Double(v.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(v) => Value::str(v),
        Json::Array(values) => Value::Object(Object::List(Shared::new(
            values.iter().map(value).collect(),
        ))),
        Json::Object(entries) => Value::Object(Object::Map(Shared::new(
            entries
                .iter()
                .map(|(k, v)| (Value::str(k), value(v)))
                .collect(),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_maps_come_back() {
        let list = Object::List(Shared::new(vec![
            Value::Int(1),
            Value::Double(1.5),
            Value::Null,
        ]));
        let map = Object::Map(Shared::new(vec![(Value::str("k"), Value::Object(list))]));
        assert_eq!(read(&to_json(&map)), Value::Object(map));
        for bytes in [&b"\x00\x01"[..], b"12", b"[x", b"", b"[1,]"] {
            let read = read(bytes);
            let Value::Object(Object::Bytes(found)) = &read else {
                panic!("{read:?}");
            };
            assert_eq!(&found[..], bytes);
        }
    }
}
