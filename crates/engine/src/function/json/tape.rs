//! What was read of a JSON text: its values one after the other, for a look or a copy, without an object.
//!
//! Texts stay where they are in the source. The room is kept for the next text, so that reading one takes
//! no allocation. A [`Place`] is a value in it, which JSON paths walk.

use std::borrow::Cow;
use std::sync::Arc;

use event::text::{java_hash, write_double};
use event::value::Shared;
use event::{Object, Value};
use javatext::json_path::{Node, Scalar};

use crate::hash_order;

/// Entries and bytes that are kept for the next text; a larger one is rare.
const KEPT_MAX: usize = 16 << 10;

/// An object with more members looks for a name that it has twice by sorting.
const LOOKED_THROUGH_MAX: usize = 16;

/// Names of one text that are kept for the values of the next.
const NAMES_MAX: usize = 64;

/// A text in the source, or where that has escapes, beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u32,
    length: u32,
    is_beside: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Span),
    List(Children),
    Map(Children),
}

/// Entries that lie side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Children {
    first: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Empty in a list.
    name: Span,
    item: Item,
}

#[derive(Default, Debug)]
pub struct Tape {
    /// Texts without their escapes.
    beside: String,
    /// Of lists and objects that have ended.
    entries: Vec<Entry>,
    /// Of those that have not, the inner ones behind.
    open: Vec<Entry>,
    /// The first names of the text before, which a value of the next shares where it has them too.
    names: Vec<Arc<str>>,
}

impl Tape {
    /// Forgets the text before.
    pub(super) fn clear(&mut self) {
        if self.entries.len() > KEPT_MAX || self.beside.len() > KEPT_MAX {
            self.beside = String::new();
            self.entries = Vec::new();
            self.open = Vec::new();
        }
        self.beside.clear();
        self.entries.clear();
        self.open.clear();
    }

    /// A text of the source.
    pub(super) fn span(&mut self, source: &str, text: Cow<'_, str>) -> Span {
        match text {
            Cow::Borrowed(text) => Span {
                // It is a part of the source.
                start: (text.as_ptr().addr() - source.as_ptr().addr()) as u32,
                length: text.len() as u32,
                is_beside: false,
            },
            Cow::Owned(text) => {
                let start = self.beside.len() as u32;
                self.beside.push_str(&text);
                Span {
                    start,
                    length: text.len() as u32,
                    is_beside: true,
                }
            }
        }
    }

    /// Begins a list or an object: what the end needs.
    pub(super) fn begin(&self) -> usize {
        self.open.len()
    }

    pub(super) fn element(&mut self, item: Item) {
        let name = Span {
            start: 0,
            length: 0,
            is_beside: false,
        };
        self.open.push(Entry { name, item });
    }

    pub(super) fn member(&mut self, name: Span, item: Item) {
        self.open.push(Entry { name, item });
    }

    pub(super) fn end_list(&mut self, begun: usize) -> Item {
        Item::List(self.close(begun))
    }

    /// The last value of a name stays, in the place of the first.
    pub(super) fn end_map(&mut self, begun: usize, source: &str, is_hashed: bool) -> Item {
        let (beside, members) = (&self.beside, &mut self.open[begun..]);
        let count = keep_last_of_each_name(members, |name| text_of(name, source, beside));
        self.open.truncate(begun + count);
        if is_hashed {
            let buckets = hash_order::buckets_for(count, hash_order::BUCKETS);
            let bucket = |entry: &Entry| {
                let name = text_of(entry.name, source, beside);
                hash_order::bucket(java_hash(name), buckets)
            };
            let members = &mut self.open[begun..];
            match count <= LOOKED_THROUGH_MAX {
                true => members.sort_by_key(bucket),
                false => members.sort_by_cached_key(bucket),
            }
        }
        Item::Map(self.close(begun))
    }

    fn close(&mut self, begun: usize) -> Children {
        let first = self.entries.len() as u32;
        self.entries.extend(self.open.drain(begun..));
        Children {
            first,
            count: self.entries.len() as u32 - first,
        }
    }

    pub(super) fn place<'t>(&'t self, source: &'t str, item: Item) -> Place<'t> {
        Place {
            tape: self,
            source,
            item,
        }
    }

    /// The value of what was read, a copy of its own.
    pub(super) fn value(&mut self, source: &str, item: Item) -> Value {
        let mut names = std::mem::take(&mut self.names);
        let mut next = 0;
        let value = self.place(source, item).build(&mut |name| {
            next += 1;
            shared(&mut names, next - 1, name)
        });
        self.names = names;
        value
    }
}

/// The name, which is that of the text before where that had it in the same place.
fn shared(names: &mut Vec<Arc<str>>, place: usize, name: &str) -> Arc<str> {
    match names.get_mut(place) {
        Some(seen) if **seen == *name => Arc::clone(seen),
        Some(seen) => {
            *seen = Arc::from(name);
            Arc::clone(seen)
        }
        None => {
            let name: Arc<str> = Arc::from(name);
            if place < NAMES_MAX {
                names.push(Arc::clone(&name));
            }
            name
        }
    }
}

fn text_of<'t>(span: Span, source: &'t str, beside: &'t str) -> &'t str {
    let whole = if span.is_beside { beside } else { source };
    &whole[span.start as usize..][..span.length as usize]
}

/// How many members stay, which stand in front.
fn keep_last_of_each_name<'t>(members: &mut [Entry], name: impl Fn(Span) -> &'t str) -> usize {
    let mut kept = 0;
    if members.len() <= LOOKED_THROUGH_MAX {
        for at in 0..members.len() {
            let entry = members[at];
            let text = name(entry.name);
            match members[..kept].iter().position(|e| name(e.name) == text) {
                Some(first) => members[first].item = entry.item,
                None => {
                    members[kept] = entry;
                    kept += 1;
                }
            }
        }
        return kept;
    }
    // Members of one name side by side, in the order in which they came.
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&at| name(members[at].name));
    let mut is_first = vec![false; members.len()];
    let mut rest = order.as_slice();
    while let [first, ..] = rest {
        let same = name(members[*first].name);
        let count = rest
            .iter()
            .take_while(|&&at| name(members[at].name) == same)
            .count();
        is_first[*first] = true;
        members[*first].item = members[rest[count - 1]].item;
        rest = &rest[count..];
    }
    for at in 0..members.len() {
        if is_first[at] {
            members[kept] = members[at];
            kept += 1;
        }
    }
    kept
}

/// A value that was read.
#[derive(Clone, Copy, Debug)]
pub struct Place<'t> {
    tape: &'t Tape,
    source: &'t str,
    item: Item,
}

impl<'t> Place<'t> {
    fn at(self, item: Item) -> Place<'t> {
        Place { item, ..self }
    }

    fn text_of(self, span: Span) -> &'t str {
        text_of(span, self.source, &self.tape.beside)
    }

    fn entries(self, of: Children) -> impl ExactSizeIterator<Item = (&'t str, Place<'t>)> {
        let entries = &self.tape.entries[of.first as usize..][..of.count as usize];
        entries
            .iter()
            .map(move |entry| (self.text_of(entry.name), self.at(entry.item)))
    }

    pub fn is_null(self) -> bool {
        matches!(self.item, Item::Null)
    }

    /// The text that it is.
    pub fn as_text(self) -> Option<&'t str> {
        match self.item {
            Item::Text(span) => Some(self.text_of(span)),
            _ => None,
        }
    }

    /// The members of an object in their order.
    pub fn members(self) -> Option<impl ExactSizeIterator<Item = (&'t str, Place<'t>)>> {
        match self.item {
            Item::Map(children) => Some(self.entries(children)),
            _ => None,
        }
    }

    pub fn elements(self) -> Option<impl ExactSizeIterator<Item = Place<'t>>> {
        match self.item {
            Item::List(children) => Some(self.entries(children).map(|(_, place)| place)),
            _ => None,
        }
    }

    /// The value of a number or a bool, null for anything else.
    pub fn scalar_value(self) -> Value {
        match self.item {
            Item::Bool(value) => Value::Bool(value),
            Item::Int(value) => Value::Int(value),
            Item::Long(value) => Value::Long(value),
            Item::Double(value) => Value::Double(value),
            Item::Null | Item::Text(_) | Item::List(_) | Item::Map(_) => Value::Null,
        }
    }

    /// A copy.
    pub fn value(self) -> Value {
        self.build(&mut |name| Arc::from(name))
    }

    /// Names are asked for in the order in which objects have them.
    fn build(self, name_of: &mut dyn FnMut(&str) -> Arc<str>) -> Value {
        match self.item {
            Item::Text(span) => Value::str(self.text_of(span)),
            Item::List(children) => {
                let elements = self.entries(children);
                let values = elements.map(|(_, place)| place.build(name_of)).collect();
                Value::Object(Object::List(Shared::new(values)))
            }
            Item::Map(children) => {
                let members = self.entries(children);
                let entries = members
                    .map(|(name, place)| (Value::Str(name_of(name)), place.build(name_of)))
                    .collect();
                Value::Object(Object::Map(Shared::new(entries)))
            }
            _ => self.scalar_value(),
        }
    }
}

/// As that of a [`Value`].
impl Node for Place<'_> {
    fn scalar(&self) -> Scalar {
        let number = |number: f64, text: String| Scalar::Number(number, text);
        match self.item {
            Item::Null => Scalar::Null,
            Item::Bool(value) => Scalar::Bool(value),
            Item::Int(value) => number(f64::from(value), value.to_string()),
            Item::Long(value) => number(value as f64, value.to_string()),
            Item::Double(value) => {
                let mut text = String::new();
                write_double(&mut text, value);
                number(value, text)
            }
            Item::Text(span) => Scalar::Text(self.text_of(span).to_owned()),
            Item::List(of) => {
                Scalar::List(self.entries(of).map(|(_, place)| place.scalar()).collect())
            }
            Item::Map(of) => {
                let members = self.entries(of);
                Scalar::Object(members.map(|(k, v)| (k.to_owned(), v.scalar())).collect())
            }
        }
    }

    fn size(&self) -> Option<usize> {
        match self.item {
            Item::List(of) | Item::Map(of) => Some(of.count as usize),
            _ => None,
        }
    }

    fn is_object(&self) -> bool {
        matches!(self.item, Item::Map(_))
    }

    fn member(&self, name: &str) -> Option<Self> {
        let mut members = self.members()?;
        members
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }

    fn element(&self, index: usize) -> Option<Self> {
        self.elements()?.nth(index)
    }

    fn children(&self) -> Vec<Self> {
        match self.item {
            Item::List(of) | Item::Map(of) => self.entries(of).map(|(_, place)| place).collect(),
            _ => Vec::new(),
        }
    }
}
