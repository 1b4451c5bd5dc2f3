//! JSON paths over values: what they find, and writing there.

use event::value::Shared;
use event::{Object, Value};
use javatext::json_path::{self, Item, Node, Path, Scalar, Slot, Targets};

use super::tape;

/// What a path leads to.
pub enum Found<'t> {
    /// In the text.
    Place(tape::Place<'t>),
    /// In an object, or made by the path.
    Value(Value),
}

impl Found<'_> {
    pub fn into_value(self) -> Value {
        match self {
            Found::Place(place) => place.value(),
            Found::Value(value) => value,
        }
    }
}

/// What a path gives: a value, or for an indefinite path a list. `None`: it leads nowhere.
pub fn read(path: &Path, root: &Value) -> Result<Option<Value>, String> {
    let found = path.find(&Place(root.clone()))?;
    Ok(value_found(found, |Place(value)| value))
}

/// As [`read`], of a text.
pub fn look<'t>(path: &Path, root: tape::Place<'t>) -> Result<Option<Found<'t>>, String> {
    Ok(match path.find(&root)? {
        json_path::Found::One(Item::Node(place)) => Some(Found::Place(place)),
        found => value_found(found, tape::Place::value).map(Found::Value),
    })
}

fn value_found<N>(found: json_path::Found<N>, value: impl Fn(N) -> Value) -> Option<Value> {
    match found {
        json_path::Found::Nothing => None,
        json_path::Found::One(item) => Some(value_of(item, &value)),
        json_path::Found::Many(items) => {
            let values = items.into_iter().map(|item| value_of(item, &value));
            Some(Value::Object(Object::List(Shared::new(values.collect()))))
        }
    }
}

/// Puts a member into each object that the path meets.
pub fn put(path: &Path, root: &Value, key: &str, value: &Value) -> Result<(), String> {
    for Place(place) in path.nodes(&Place(root.clone()))? {
        if let Value::Object(Object::Map(map)) = place {
            set_member(&mut map.change(), key, value);
        }
    }
    Ok(())
}

/// Appends to each list that the path meets.
pub fn add(path: &Path, root: &Value, value: &Value) -> Result<(), String> {
    for Place(place) in path.nodes(&Place(root.clone()))? {
        if let Value::Object(Object::List(list)) = place {
            list.change().push(value.clone());
        }
    }
    Ok(())
}

/// Replaces what the path meets; what is not there is not made. The root itself is replaced by
/// returning another.
pub fn set(path: &Path, root: Value, value: &Value) -> Result<Value, String> {
    let slots = match path.targets(&Place(root.clone()))? {
        Targets::Root => return Ok(value.clone()),
        Targets::Inside(slots) => slots,
    };
    for (Place(parent), slot) in slots {
        match (parent, slot) {
            (Value::Object(Object::Map(map)), Slot::Member(name)) => {
                set_member(&mut map.change(), &name, value);
            }
            (Value::Object(Object::List(list)), Slot::Element(index)) => {
                if let Some(element) = list.change().get_mut(index) {
                    *element = value.clone();
                }
            }
            _ => {}
        }
    }
    Ok(root)
}

fn set_member(entries: &mut Vec<(Value, Value)>, key: &str, value: &Value) {
    match entries.iter_mut().find(|(k, _)| k.as_str() == Some(key)) {
        Some((_, old)) => *old = value.clone(),
        None => entries.push((Value::str(key), value.clone())),
    }
}

fn value_of<N>(item: Item<N>, value: &impl Fn(N) -> Value) -> Value {
    match item {
        Item::Node(node) => value(node),
        Item::Members(members) => {
            let members = members.into_iter();
            let entries = members.map(|(name, node)| (Value::str(&name), value(node)));
            Value::Object(Object::Map(Shared::new(entries.collect())))
        }
        Item::Number(number) => Value::Double(number),
        Item::Count(count) => Value::Int(i32::try_from(count).unwrap_or(i32::MAX)),
        Item::Null => Value::Null,
    }
}

/// A value as a place of a document. Lists and objects are shared, so a clone is the same place.
#[derive(Clone)]
struct Place(Value);

impl Node for Place {
    fn scalar(&self) -> Scalar {
        match &self.0 {
            Value::Bool(value) => Scalar::Bool(*value),
            Value::Str(text) => Scalar::Text(text.to_string()),
            Value::Object(Object::List(list)) => {
                let list = list.lock();
                Scalar::List(list.iter().map(|v| Place(v.clone()).scalar()).collect())
            }
            Value::Object(Object::Map(map)) => {
                let map = map.lock();
                let entry = |(key, value): &(Value, Value)| {
                    (event::text::to_text(key), Place(value.clone()).scalar())
                };
                Scalar::Object(map.iter().map(entry).collect())
            }
            value => match value.to_double() {
                Some(number) => Scalar::Number(number, event::text::to_text(value)),
                None => Scalar::Null,
            },
        }
    }

    fn size(&self) -> Option<usize> {
        match &self.0 {
            Value::Object(Object::List(list)) => Some(list.lock().len()),
            Value::Object(Object::Map(map)) => Some(map.lock().len()),
            _ => None,
        }
    }

    fn is_object(&self) -> bool {
        matches!(self.0, Value::Object(Object::Map(_)))
    }

    fn member(&self, name: &str) -> Option<Place> {
        let Value::Object(Object::Map(map)) = &self.0 else {
            return None;
        };
        let map = map.lock();
        let found = map.iter().find(|(key, _)| key.as_str() == Some(name));
        found.map(|(_, value)| Place(value.clone()))
    }

    fn element(&self, index: usize) -> Option<Place> {
        match &self.0 {
            Value::Object(Object::List(list)) => list.lock().get(index).cloned().map(Place),
            _ => None,
        }
    }

    fn children(&self) -> Vec<Place> {
        match &self.0 {
            Value::Object(Object::List(list)) => list.lock().iter().cloned().map(Place).collect(),
            Value::Object(Object::Map(map)) => {
                let map = map.lock();
                map.iter().map(|(_, value)| Place(value.clone())).collect()
            }
            _ => Vec::new(),
        }
    }
}
