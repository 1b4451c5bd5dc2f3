//! The short way for one flat object: names as expected, values of the right token, no escapes.
//!
//! Whatever it does not take is left to the tree, which then also says what is wrong. Both give the
//! same rows; a property test compares them.

use event::{ColumnBuilder, Type};

use super::source::EVENT;
use super::tree::number;
use crate::mapper::Field;
use crate::mapper::scan::first_stop;
use crate::rows::Rows;
use crate::scalar;

/// Attributes that the short way can keep track of.
const FIELDS_MAX: usize = 64;

pub(super) struct Flat {
    fields: Vec<Field>,
    allows_null: bool,
}

impl Flat {
    pub fn new(fields: &[Field], allows_null: bool) -> Flat {
        Flat {
            fields: fields.to_vec(),
            allows_null,
        }
    }

    /// Pushes and commits the row of the object; false: not taken, the row must be aborted.
    #[inline]
    pub fn push(&self, text: &str, rows: &mut Rows) -> bool {
        if self.fields.len() > FIELDS_MAX {
            return false;
        }
        let is_taken = self.object(text, rows.columns()).is_some();
        if is_taken {
            rows.commit_row();
        }
        is_taken
    }

    fn object(&self, text: &str, columns: &mut [ColumnBuilder]) -> Option<()> {
        let bytes = text.as_bytes();
        let mut at = open(bytes, skip(bytes, 0), b'{')?;
        let is_wrapped = match self.wrapper(bytes, at) {
            Some(inside) => {
                at = inside;
                true
            }
            None => false,
        };
        let (mut seen, mut next) = (0u64, 0);
        loop {
            let (index, behind) = self.name(bytes, at, next)?;
            if seen & (1 << index) != 0 {
                return None;
            }
            seen |= 1 << index;
            next = index + 1;
            let field = &self.fields[index];
            at = value(text, behind, field.ty, &mut columns[field.column])?;
            at = skip(bytes, at);
            match bytes.get(at)? {
                b',' => at = skip(bytes, at + 1),
                b'}' => break,
                _ => return None,
            }
        }
        at = skip(bytes, at + 1);
        if is_wrapped {
            at = skip(bytes, open(bytes, at, b'}')?);
        }
        (at == bytes.len() && self.fill(seen, columns)).then_some(())
    }

    /// Behind `"event" : {`, where the object begins so. A name of an attribute is left alone, for
    /// the tree to decide.
    fn wrapper(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let quoted = bytes.get(at..at + EVENT.len() + 2)?;
        let inner = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if !inner.eq_ignore_ascii_case(EVENT.as_bytes()) {
            return None;
        }
        let at = open(bytes, skip(bytes, at + quoted.len()), b':')?;
        open(bytes, skip(bytes, at), b'{').map(|at| skip(bytes, at))
    }

    /// The attribute named at `at`, likeliest `next`, and where its value begins.
    #[inline]
    fn name(&self, bytes: &[u8], at: usize, next: usize) -> Option<(usize, usize)> {
        let rest = bytes.get(at..)?.strip_prefix(b"\"")?;
        let is_named = |field: &Field| {
            let name = field.name.as_bytes();
            rest.get(name.len()) == Some(&b'"') && rest.starts_with(name)
        };
        let index = match self.fields.get(next) {
            Some(field) if is_named(field) => next,
            _ => self.fields.iter().position(is_named)?,
        };
        let behind = at + self.fields[index].name.len() + 2;
        let at = open(bytes, skip(bytes, behind), b':')?;
        Some((index, skip(bytes, at)))
    }

    /// Nulls for the attributes that were not named, where that is allowed.
    fn fill(&self, seen: u64, columns: &mut [ColumnBuilder]) -> bool {
        if seen.count_ones() as usize == self.fields.len() {
            return true;
        }
        if self.allows_null {
            for (i, field) in self.fields.iter().enumerate() {
                if seen & (1 << i) == 0 {
                    columns[field.column].push_null();
                }
            }
        }
        self.allows_null
    }
}

#[inline]
fn skip(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Behind the byte `token` and the blanks that follow it.
#[inline]
fn open(bytes: &[u8], at: usize, token: u8) -> Option<usize> {
    (bytes.get(at) == Some(&token)).then(|| skip(bytes, at + 1))
}

/// Pushes the value at `at`; gives where it ends.
#[inline]
fn value(text: &str, at: usize, ty: Type, column: &mut ColumnBuilder) -> Option<usize> {
    let bytes = text.as_bytes();
    match (bytes.get(at)?, ty) {
        (b'n', _) => {
            bytes[at..]
                .starts_with(b"null")
                .then(|| column.push_null())?;
            Some(at + 4)
        }
        (b'"', Type::String) => {
            let start = at + 1;
            let end = string_end(bytes, start)?;
            column.push_str(&text[start..end]);
            Some(end + 1)
        }
        (b't', Type::Bool) => {
            bytes[at..]
                .starts_with(b"true")
                .then(|| column.push_bool(true))?;
            Some(at + 4)
        }
        (b'f', Type::Bool) => {
            bytes[at..]
                .starts_with(b"false")
                .then(|| column.push_bool(false))?;
            Some(at + 5)
        }
        (b'-' | b'0'..=b'9', Type::Int | Type::Long | Type::Float | Type::Double) => {
            let (end, is_real) = number(bytes, at)?;
            let fits = match ty {
                Type::Double => is_real,
                Type::Float => true,
                _ => !is_real,
            };
            (fits && scalar::push_text(column, ty, &text[at..end])).then_some(end)
        }
        _ => None,
    }
}

/// Where the string that begins at `at` ends; `None` for one with an escape, a control character or no
/// end.
#[inline]
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let end = first_stop(bytes, at, [b'"', b'\\'])?;
    (bytes[end] == b'"').then_some(end)
}
