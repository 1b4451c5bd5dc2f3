//! One value of a row, for the places where rows are looked at one by one.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::types::Type;

/// A value with its run-time type, which need not be the declared one.
#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Str(Arc<str>),
    Object(Object),
}

/// What an OBJECT attribute may hold.
#[derive(Clone, Debug)]
pub enum Object {
    List(Shared<Vec<Value>>),
    Map(Shared<Vec<(Value, Value)>>),
    Set(Shared<Vec<Value>>),
    Array(Arc<[Value]>),
    Bytes(Arc<[u8]>),
    /// An exception, as it stands in `_error`: its message and cause.
    Error(Arc<str>),
}

/// Lists and maps are changed in place by Siddhi's functions, and the change is seen through every
/// reference; hence shared and mutable. Only the app that owns the event touches it, so the lock is
/// never waited for.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

static CHANGES: AtomicU64 = AtomicU64::new(0);

/// How often something shared was changed in place, by whichever app. Who holds it is not told: what is
/// saved by its changes alone has to look here.
pub fn objects_changed() -> u64 {
    CHANGES.load(Ordering::Relaxed)
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    pub fn new(inner: T) -> Self {
        Shared(Arc::new(Mutex::new(inner)))
    }

    /// To look at what it holds.
    pub fn lock(&self) -> impl Deref<Target = T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To change it in place, which [`objects_changed`] counts.
    pub fn change(&self) -> MutexGuard<'_, T> {
        CHANGES.fetch_add(1, Ordering::Relaxed);
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of what it holds; nothing is locked afterwards.
    pub fn copied(&self) -> T
    where
        T: Clone,
    {
        self.lock().clone()
    }

    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Value {
    pub fn str(text: &str) -> Value {
        Value::Str(Arc::from(text))
    }

    /// Heap bytes beside the value itself. A list or a map is counted by its handle, since others may
    /// hold it too.
    pub fn heap_bytes(&self) -> usize {
        /// In front of what is shared: how many hold it.
        const SHARED_HEAD: usize = 2 * size_of::<usize>();
        /// The list or map behind a handle, without what is in it.
        const OBJECT: usize = 64;
        match self {
            Value::Str(text) => SHARED_HEAD + text.len(),
            Value::Object(_) => OBJECT,
            _ => 0,
        }
    }

    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// `None` for null.
    pub const fn ty(&self) -> Option<Type> {
        Some(match self {
            Value::Null => return None,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Long(_) => Type::Long,
            Value::Float(_) => Type::Float,
            Value::Double(_) => Type::Double,
            Value::Str(_) => Type::String,
            Value::Object(_) => Type::Object,
        })
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Java's `Number.longValue()`; `None` for what is not a number.
    pub fn to_long(&self) -> Option<i64> {
        Some(match self {
            Value::Int(v) => i64::from(*v),
            Value::Long(v) => *v,
            Value::Float(v) => *v as i64,
            Value::Double(v) => *v as i64,
            _ => return None,
        })
    }

    /// Java's `Number.doubleValue()`; `None` for what is not a number.
    pub fn to_double(&self) -> Option<f64> {
        Some(match self {
            Value::Int(v) => f64::from(*v),
            Value::Long(v) => *v as f64,
            Value::Float(v) => f64::from(*v),
            Value::Double(v) => *v,
            _ => return None,
        })
    }
}

/// Java's `equals`: classes must be the same, NaN equals NaN, 0.0 differs from -0.0.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Long(a), Value::Long(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => {
                a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
            }
            (Value::Double(a), Value::Double(b)) => {
                a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
            }
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Object(a), Value::Object(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

/// Agrees with `==`. Objects of one kind share a hash: they change in place, and are never large in
/// number where values are hashed.
impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Value::Null => {}
            Value::Bool(v) => v.hash(state),
            Value::Int(v) => v.hash(state),
            Value::Long(v) => v.hash(state),
            Value::Float(v) if v.is_nan() => f32::NAN.to_bits().hash(state),
            Value::Float(v) => v.to_bits().hash(state),
            Value::Double(v) if v.is_nan() => f64::NAN.to_bits().hash(state),
            Value::Double(v) => v.to_bits().hash(state),
            Value::Str(v) => v.hash(state),
            Value::Object(v) => std::mem::discriminant(v).hash(state),
        }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        match (self, other) {
            // Values may hold one another, so nothing stays locked while they are compared.
            (Object::List(a), Object::List(b)) => a.is_same(b) || a.copied() == b.copied(),
            (Object::Map(a), Object::Map(b)) => {
                a.is_same(b) || same_entries(&a.copied(), &b.copied(), |x, y| x == y)
            }
            (Object::Set(a), Object::Set(b)) => {
                a.is_same(b) || same_entries(&a.copied(), &b.copied(), |x, y| x == y)
            }
            (Object::Array(a), Object::Array(b)) => Arc::ptr_eq(a, b),
            (Object::Bytes(a), Object::Bytes(b)) => Arc::ptr_eq(a, b),
            (Object::Error(a), Object::Error(b)) => a == b,
            _ => false,
        }
    }
}

fn same_entries<T>(a: &[T], b: &[T], equal: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().all(|x| b.iter().any(|y| equal(x, y)))
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_hold_one_another_can_be_compared() {
        let list = |values: &[Value]| Value::Object(Object::List(Shared::new(values.to_vec())));
        let inner = list(&[]);
        let middle = list(std::slice::from_ref(&inner));
        let outer = list(std::slice::from_ref(&middle));
        assert!(middle != outer && outer == list(&[list(&[list(&[])])]));
    }
}
