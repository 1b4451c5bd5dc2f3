//! A value that lies in its column and needs no heap.
//!
//! It is made of whole words, whatever it is. Events that come alone are copied many times on their
//! way, and a value whose mark is one byte is taken apart at each: the pieces are written one way and
//! read another, for which the processor has to wait each time.

// Twin: ../column.rs (the same columns as vectors); keep both in step.

use std::fmt;
use std::slice::from_ref;

use super::{ScalarRef, Values, View};
use crate::strings::{ShortText, StrView, Strings};
use crate::types::Type;
use crate::value::Value;

/// A value, or the placeholder under a null mark.
///
/// Invariant: of the bits, all of which are set, those of the kind have been written as such.
#[derive(Clone, Copy)]
pub(super) struct InlineValue {
    bits: Bits,
    kind: Kind,
}

#[derive(Clone, Copy)]
#[repr(C)]
union Bits {
    words: [u64; 2],
    bool: bool,
    int: i32,
    long: i64,
    float: f32,
    double: f64,
    text: ShortText,
}

/// As long as a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Kind {
    Bool,
    Int,
    Long,
    Float,
    Double,
    Text,
}

macro_rules! made_of {
    ($name:ident, $kind:ident, $ty:ty) => {
        #[inline(always)]
        pub fn $name($name: $ty) -> InlineValue {
            let mut bits = Bits { words: [0; 2] };
            bits.$name = $name;
            InlineValue {
                bits,
                kind: Kind::$kind,
            }
        }
    };
}

impl InlineValue {
    /// A BOOL that stands for whatever is to come.
    pub const LATER: InlineValue = InlineValue {
        bits: Bits { words: [0; 2] },
        kind: Kind::Bool,
    };

    made_of!(bool, Bool, bool);
    made_of!(int, Int, i32);
    made_of!(long, Long, i64);
    made_of!(float, Float, f32);
    made_of!(double, Double, f64);
    made_of!(text, Text, ShortText);

    /// The placeholder of a type; `None` for an OBJECT.
    pub fn placeholder(ty: Type) -> Option<InlineValue> {
        Some(match ty {
            Type::Bool => InlineValue::bool(false),
            Type::Int => InlineValue::int(0),
            Type::Long => InlineValue::long(0),
            Type::Float => InlineValue::float(0.0),
            Type::Double => InlineValue::double(0.0),
            Type::String => InlineValue::text(ShortText::default()),
            Type::Object => return None,
        })
    }

    /// `None` where the value is null, not of the type, or needs a vector.
    pub fn of(ty: Type, value: ScalarRef<'_>) -> Option<InlineValue> {
        Some(match (ty, value) {
            (Type::Bool, ScalarRef::Bool(v)) => InlineValue::bool(v),
            (Type::Int, ScalarRef::Int(v)) => InlineValue::int(v),
            (Type::Long, ScalarRef::Long(v)) => InlineValue::long(v),
            (Type::Float, ScalarRef::Float(v)) => InlineValue::float(v),
            (Type::Double, ScalarRef::Double(v)) => InlineValue::double(v),
            (Type::String, ScalarRef::Text(v)) => InlineValue::text(ShortText::new(v)?),
            _ => return None,
        })
    }

    /// The same value of the same type, bit by bit?
    pub fn is_same(&self, other: &InlineValue) -> bool {
        // SAFETY: all bits are set.
        #[allow(unsafe_code)]
        let is_same = unsafe { self.bits.words == other.bits.words };
        self.kind == other.kind && is_same
    }

    /// The value where it lies.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        // SAFETY: the invariant: these bits have been written as what they are read as.
        #[allow(unsafe_code)]
        unsafe {
            match self.kind {
                Kind::Bool => View::Bool(from_ref(&self.bits.bool)),
                Kind::Int => View::Int(from_ref(&self.bits.int)),
                Kind::Long => View::Long(from_ref(&self.bits.long)),
                Kind::Float => View::Float(from_ref(&self.bits.float)),
                Kind::Double => View::Double(from_ref(&self.bits.double)),
                Kind::Text => View::Str(StrView::of_short(&self.bits.text)),
            }
        }
    }

    #[inline(always)]
    pub fn single(&self) -> ScalarRef<'_> {
        let value = self.view().single(0);
        value.expect("no value of any type lies in its column")
    }

    pub fn into_values(self) -> Values {
        match self.view() {
            View::Bool(v) => Values::Bool(v.to_vec()),
            View::Int(v) => Values::Int(v.to_vec()),
            View::Long(v) => Values::Long(v.to_vec()),
            View::Float(v) => Values::Float(v.to_vec()),
            View::Double(v) => Values::Double(v.to_vec()),
            View::Str(v) => Values::Str(v.iter().collect::<Strings>()),
            View::Any(v) => Values::Any(v.to_vec()),
        }
    }
}

impl fmt::Debug for InlineValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.single().fmt(f)
    }
}

impl View<'_> {
    /// A row that needs no vector.
    #[inline]
    pub(super) fn one(&self, row: usize) -> Option<InlineValue> {
        Some(match self {
            View::Bool(v) => InlineValue::bool(v[row]),
            View::Int(v) => InlineValue::int(v[row]),
            View::Long(v) => InlineValue::long(v[row]),
            View::Float(v) => InlineValue::float(v[row]),
            View::Double(v) => InlineValue::double(v[row]),
            View::Str(v) => InlineValue::text(v.short(row)?),
            View::Any(_) => return None,
        })
    }
}

/// What a value of a type is, where it needs no vector, and whether it is null.
pub(super) fn one_of(ty: Type, value: &Value) -> Option<(InlineValue, bool)> {
    match ScalarRef::of_value(value)? {
        ScalarRef::Null => Some((InlineValue::placeholder(ty)?, true)),
        value => Some((InlineValue::of(ty, value)?, false)),
    }
}
