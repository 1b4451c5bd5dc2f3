//! The short way for plain events: attributes of the event's element and texts of its children,
//! read without a tree.
//!
//! The stream has checked that the event is plain ([`super::stream::Found::Event`]) and has found the
//! attributes of its first tag. Whatever is not taken goes to the tree, which gives the same rows.

use event::ColumnBuilder;

use super::stream::{Tag, is_plain_name, name_end};
use super::xpath::Path;
use crate::mapper::Field;
use crate::rows::Rows;
use crate::scalar;

/// Values that the short way can keep track of.
const FIELDS_MAX: usize = 64;

pub(super) struct Projector {
    attributes: Vec<Part>,
    children: Vec<Part>,
    allows_null: bool,
    /// For each name of the shape: the index of the attribute that it fills.
    indexes: Vec<Option<usize>>,
    shape: Option<u64>,
}

struct Part {
    name: String,
    field: Field,
}

impl Projector {
    /// `None` where a path is more than an attribute or a child of the element `root`.
    pub fn new(
        fields: &[(Field, Option<Path>)],
        root: &str,
        allows_null: bool,
    ) -> Option<Projector> {
        let mut projector = Projector {
            attributes: Vec::new(),
            children: Vec::new(),
            allows_null,
            indexes: Vec::new(),
            shape: None,
        };
        if !is_plain_name(root.as_bytes()) || fields.len() > FIELDS_MAX {
            return None;
        }
        for (field, path) in fields {
            let (name, is_attribute) = path.as_ref()?.plain_part(root)?;
            let part = Part {
                name: name.to_owned(),
                field: field.clone(),
            };
            if !is_plain_name(name.as_bytes()) {
                return None;
            }
            let parts = if is_attribute {
                &mut projector.attributes
            } else {
                &mut projector.children
            };
            if parts.iter().any(|known| known.name == name) {
                return None;
            }
            parts.push(part);
        }
        Some(projector)
    }

    /// Pushes and commits the row of a plain event with this first tag; false: not taken, the row must
    /// be aborted.
    #[inline]
    pub fn push(&mut self, event: &str, tag: &Tag, rows: &mut Rows) -> bool {
        if self.shape != Some(tag.shape()) {
            self.learn(tag);
        }
        let is_taken = self.event(event, tag, rows.columns()).is_some();
        if is_taken {
            rows.commit_row();
        }
        is_taken
    }

    #[cold]
    fn learn(&mut self, tag: &Tag) {
        self.shape = Some(tag.shape());
        self.indexes.clear();
        self.indexes.extend(
            tag.names()
                .map(|name| self.attributes.iter().position(|part| part.name == name)),
        );
    }

    #[inline]
    fn event(&self, event: &str, tag: &Tag, columns: &mut [ColumnBuilder]) -> Option<()> {
        let mut seen = 0u64;
        for (value, index) in tag.values().iter().zip(&self.indexes) {
            let Some(index) = *index else { continue };
            seen |= 1 << index;
            let field = &self.attributes[index].field;
            let value = &event[value.clone()];
            if !scalar::push_text(&mut columns[field.column], field.ty, value) {
                return None;
            }
        }
        self.fill(&self.attributes, seen, columns)?;
        if self.children.is_empty() {
            return Some(());
        }
        self.content(event, tag_end(event.as_bytes())?, columns)
    }

    /// The texts of the children: of each name the first.
    fn content(&self, event: &str, from: usize, columns: &mut [ColumnBuilder]) -> Option<()> {
        let bytes = event.as_bytes();
        let (mut at, mut seen, mut depth) = (from, 0u64, 0usize);
        if bytes[from - 2] == b'/' {
            return self.fill(&self.children, 0, columns);
        }
        loop {
            at += memchr::memchr(b'<', &bytes[at..])?;
            let end = at + tag_end(&bytes[at..])?;
            if bytes[at + 1] == b'/' {
                if depth == 0 {
                    break;
                }
                depth -= 1;
                at = end;
                continue;
            }
            let name = &bytes[at + 1..name_end(bytes, at + 1)];
            let is_empty = bytes[end - 2] == b'/';
            let wanted = (depth == 0)
                .then(|| self.children.iter().position(|p| p.name.as_bytes() == name))
                .flatten()
                .filter(|index| seen & (1 << index) == 0);
            let Some(index) = wanted else {
                depth += usize::from(!is_empty);
                at = end;
                continue;
            };
            seen |= 1 << index;
            let text_end = if is_empty {
                end
            } else {
                end + memchr::memchr(b'<', &bytes[end..])?
            };
            if !is_empty && bytes.get(text_end + 1) != Some(&b'/') {
                return None;
            }
            let field = &self.children[index].field;
            if !scalar::push_text(&mut columns[field.column], field.ty, &event[end..text_end]) {
                return None;
            }
            at = if is_empty {
                end
            } else {
                text_end + tag_end(&bytes[text_end..])?
            };
        }
        self.fill(&self.children, seen, columns)
    }

    /// Nulls for what was not there, where that is allowed.
    fn fill(&self, parts: &[Part], seen: u64, columns: &mut [ColumnBuilder]) -> Option<()> {
        if seen.count_ones() as usize == parts.len() {
            return Some(());
        }
        if !self.allows_null {
            return None;
        }
        for (i, part) in parts.iter().enumerate() {
            if seen & (1 << i) == 0 {
                columns[part.field.column].push_null();
            }
        }
        Some(())
    }
}

/// Behind the `>` that ends the tag at the start of the bytes.
#[inline]
fn tag_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr::memchr3(b'>', b'"', b'\'', &bytes[at..])?;
        let byte = bytes[found];
        if byte == b'>' {
            return Some(found + 1);
        }
        at = found + 1 + memchr::memchr(byte, &bytes[found + 1..])? + 1;
    }
}
