//! What an object is once it was written as JSON and read again, without the text between.
//!
//! Siddhi's functions look for a path in the text that Gson writes of an object. What comes of it is a copy in
//! which numbers have the types of a reader. Anything out of the ordinary is left to the writer and the
//! reader, so that their errors and their edges stay theirs.

use event::value::Shared;
use event::{Object, Value};

/// Deepest nesting that is copied here; the reader takes a little more.
const DEPTH_MAX: usize = 48;

/// `None` where the copy has to go by the text.
pub(super) fn read_back(value: &Value, depth: usize) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    Some(match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Str(_) => value.clone(),
        Value::Long(long) => i32::try_from(*long).map_or(Value::Long(*long), Value::Int),
        Value::Double(double) if double.is_finite() => value.clone(),
        Value::Object(Object::List(list)) => {
            let values = list.copied();
            let values = values.iter().map(|value| read_back(value, depth + 1));
            Value::Object(Object::List(Shared::new(values.collect::<Option<_>>()?)))
        }
        Value::Object(Object::Map(map)) => {
            let mut entries = map.copied();
            for (key, value) in &mut entries {
                if !matches!(key, Value::Str(_)) {
                    return None;
                }
                // A text stays the same one.
                if !matches!(value, Value::Str(_)) {
                    *value = read_back(value, depth + 1)?;
                }
            }
            Value::Object(Object::Map(Shared::new(entries)))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::json::{ReadStyle, WriteStyle, parse, to_json};

    fn check(value: &Value) {
        let text = to_json(value, WriteStyle::Gson).unwrap();
        let read = parse(&text, ReadStyle::Linked).unwrap();
        let copy = read_back(value, 0).expect("ordinary");
        // `==` of objects says whether they are the same one: the texts show types and order.
        assert_eq!(format!("{copy:?}"), format!("{read:?}"), "{text}");
    }

    fn map(entries: Vec<(&str, Value)>) -> Value {
        let entries = entries.into_iter().map(|(k, v)| (Value::str(k), v));
        Value::Object(Object::Map(Shared::new(entries.collect())))
    }

    fn list(values: Vec<Value>) -> Value {
        Value::Object(Object::List(Shared::new(values)))
    }

    #[test]
    fn a_copy_is_what_is_read_of_the_text() {
        for double in [0.0, -0.0, 1.5, 20.0, 1e7, 1e-5, 5e-324, f64::MAX, 0.1 + 0.2] {
            check(&list(vec![Value::Double(double)]));
        }
        for long in [
            0,
            -1,
            1 << 31,
            -(1 << 31),
            (1 << 31) - 1,
            i64::MIN,
            i64::MAX,
        ] {
            check(&list(vec![Value::Long(long)]));
        }
        let texts = [
            "",
            "a",
            "\"\\/<>&='",
            "\u{1}\t\n\r\u{8}\u{c}",
            "é\u{2028}\u{2029}🙂",
            " null ",
            "1",
        ];
        let texts = texts.map(Value::str).to_vec();
        let inner = map(vec![
            ("b", list(texts)),
            ("a<", Value::Null),
            ("", Value::Bool(true)),
        ]);
        check(&map(vec![
            ("z", inner),
            ("y", Value::Int(i32::MIN)),
            ("x", list(vec![])),
        ]));
    }

    #[test]
    fn what_is_not_ordinary_goes_by_the_text() {
        assert!(read_back(&Value::Double(f64::NAN), 0).is_none());
        assert!(read_back(&Value::Float(1.5), 0).is_none());
        let mut deep = list(vec![]);
        for _ in 0..DEPTH_MAX {
            deep = list(vec![deep]);
        }
        assert!(read_back(&deep, 0).is_some());
        assert!(read_back(&list(vec![deep]), 0).is_none());
        let numbered = Object::Map(Shared::new(vec![(Value::Int(1), Value::Null)]));
        assert!(read_back(&Value::Object(numbered), 0).is_none());
    }
}
