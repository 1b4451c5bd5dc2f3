//! Maps in the order in which a Java `HashMap` iterates.
//!
//! An OBJECT map is a vector of entries. Functions that in Siddhi make or change a `HashMap` keep
//! its entries in that map's iteration order, so that texts made of it come out the same; maps that
//! are linked there (what a JSON path was read from) stay in the order of insertion.

use event::Value;
use event::text::java_hash;

use crate::hash_order;

pub type Entries = Vec<(Value, Value)>;

/// `Object.hashCode` of what may be a key.
pub fn hash_code(key: &Value) -> i32 {
    let long = |v: i64| (v ^ ((v as u64) >> 32) as i64) as i32;
    match key {
        Value::Null | Value::Object(_) => 0,
        Value::Bool(v) => {
            if *v {
                1231
            } else {
                1237
            }
        }
        Value::Int(v) => *v,
        Value::Long(v) => long(*v),
        Value::Float(v) => v.to_bits() as i32,
        Value::Double(v) => long(v.to_bits() as i64),
        Value::Str(v) => java_hash(v),
    }
}

/// Brings entries, which stand in the order of insertion within equal buckets, into iteration order.
pub fn into_hash_order(entries: &mut Entries) {
    let buckets = hash_order::buckets_for(entries.len(), hash_order::BUCKETS);
    entries.sort_by_cached_key(|(key, _)| hash_order::bucket(hash_code(key), buckets));
}

/// `HashMap.put`: the value that was there before.
pub fn put(entries: &mut Entries, key: Value, value: Value) -> Option<Value> {
    match entries.iter_mut().find(|(k, _)| *k == key) {
        Some((_, old)) => Some(std::mem::replace(old, value)),
        None => {
            entries.push((key, value));
            into_hash_order(entries);
            None
        }
    }
}

/// The map that `HashMap.put` makes of these, one after the other. The order is that of [`put`] for each: with
/// more buckets, keys of one bucket keep their order.
pub fn of_pairs(pairs: impl Iterator<Item = (Value, Value)>) -> Entries {
    let mut entries = Entries::new();
    for (key, value) in pairs {
        match entries.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => entries.push((key, value)),
        }
    }
    into_hash_order(&mut entries);
    entries
}

pub fn get<'a>(entries: &'a Entries, key: &Value) -> Option<&'a Value> {
    entries.iter().find(|(k, _)| k == key).map(|(_, v)| v)
}

pub fn remove(entries: &mut Entries, key: &Value) -> Option<Value> {
    let at = entries.iter().position(|(k, _)| k == key)?;
    Some(entries.remove(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_iterate_as_in_java() {
        let check = |keys: &[&str], expect: &[&str]| {
            let mut entries = Entries::new();
            for key in keys {
                put(&mut entries, Value::str(key), Value::Null);
            }
            let pairs = keys.iter().map(|key| (Value::str(key), Value::Null));
            assert_eq!(of_pairs(pairs), entries);
            let order: Vec<_> = entries
                .iter()
                .map(|(k, _)| k.as_str().unwrap_or(""))
                .collect();
            assert_eq!(order, expect);
        };
        check(
            &["name", "age", "citizen", "bar"],
            &["citizen", "bar", "name", "age"],
        );
        let many: Vec<String> = (0..100).map(|n| format!("k{}", n * 7919 % 100)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (mut put_singly, pairs) = (
            Entries::new(),
            many.iter().map(|key| (Value::str(key), Value::Null)),
        );
        for key in &many {
            put(&mut put_singly, Value::str(key), Value::Null);
        }
        assert_eq!(of_pairs(pairs), put_singly);
        check(
            &["name", "middleName", "surName"],
            &["surName", "name", "middleName"],
        );
    }
}
