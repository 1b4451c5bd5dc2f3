//! JSON as tokens and key sets have it: an object in which no member occurs twice, at any depth.
//!
//! Two parsers may take different ones of two members of the same name (RFC 8725, 2.4); so neither counts.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Objects and lists of a token within each other.
const DEPTH_MAX: u8 = 16;

/// The members of an object.
///
/// # Errors
/// It is not JSON, not an object, too deep, or has a member twice. The text of the error may quote the input and
/// belongs into no log.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    match value(bytes, DEPTH_MAX)? {
        Value::Object(members) => Ok(members),
        _ => Err(serde_json::Error::custom("not an object")),
    }
}

/// Any value, with so many levels at most.
///
/// # Errors
/// As [`object`].
pub(crate) fn value(bytes: &[u8], depth_max: u8) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Element { left: depth_max }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// A value with so many levels below it.
#[derive(Clone, Copy)]
struct Element {
    left: u8,
}

impl Element {
    fn below<E: serde::de::Error>(self) -> Result<Element, E> {
        let left = self.left.checked_sub(1);
        left.map(|left| Element { left })
            .ok_or_else(|| E::custom("nested too deeply"))
    }
}

impl<'de> DeserializeSeed<'de> for Element {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(below)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut members = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            let value = object.next_value_seed(below)?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_as_serde_json_reads_it() {
        let text = r#"{"a":1,"b":[true,null,-2,1.5,"\u00e9"],"c":{"a":18446744073709551615}}"#;
        let read = Value::Object(object(text.as_bytes()).expect("it is JSON"));
        assert_eq!(read, serde_json::from_str::<Value>(text).expect("it is"));
    }

    #[test]
    fn what_two_parsers_may_read_differently_is_refused() {
        let deep =
            |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        object(deep(15).as_bytes()).expect("not too deep");
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":{"b":1,"c":2,"b":3}}"#,
            r#"{"a":1} {"#,
            r#"{"a":1e999}"#,
            "[1]",
            "\"a\"",
            "",
            "{'a':1}",
            "{\"a\":\"\u{1}\"}",
            &deep(16),
            &deep(100_000),
        ] {
            let shown: String = text.chars().take(40).collect();
            assert!(object(text.as_bytes()).is_err(), "{shown}");
        }
        assert!(object(b"{\"a\":\"\xff\"}").is_err());
    }
}
