//! Lists and maps that functions change in place.
//!
//! Values are shared and may hold one another, so no lock is ever held while values are compared:
//! a function works on a copy of the elements (the elements themselves are shared) and puts it back.
//! A container never comes to hold itself, which would make its text endless.

use event::{Object, Value};

/// Deepest nesting of lists and maps that a function may make.
const DEPTH_MAX: usize = 60;

/// An error where the container would hold itself, or too deep a nesting.
pub fn check_holds<'a>(
    container: &Value,
    values: impl IntoIterator<Item = &'a Value>,
) -> Result<(), String> {
    values
        .into_iter()
        .try_for_each(|value| check(container, value, 0))
}

fn check(container: &Value, value: &Value, depth: usize) -> Result<(), String> {
    let Value::Object(object) = value else {
        return Ok(());
    };
    if depth > DEPTH_MAX {
        return Err(format!("lists and maps nest deeper than {DEPTH_MAX}"));
    }
    match (container, object) {
        (Value::Object(Object::List(a)), Object::List(b)) if a.is_same(b) => {
            return Err("a list cannot hold itself".into());
        }
        (Value::Object(Object::Map(a)), Object::Map(b)) if a.is_same(b) => {
            return Err("a map cannot hold itself".into());
        }
        _ => {}
    }
    let elements: Vec<Value> = match object {
        Object::List(list) => list.copied(),
        Object::Set(set) => set.copied(),
        Object::Array(array) => array.to_vec(),
        Object::Map(map) => {
            let entries = map.copied();
            entries.into_iter().flat_map(|(k, v)| [k, v]).collect()
        }
        Object::Bytes(_) | Object::Error(_) => return Ok(()),
    };
    elements
        .iter()
        .try_for_each(|element| check(container, element, depth + 1))
}
