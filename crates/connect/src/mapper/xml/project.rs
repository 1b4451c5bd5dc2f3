//! The short way for plain events: attributes of the event's element and texts of its children,
//! read without a tree.
//!
//! The stream has checked that the event is plain ([`super::stream::Found::Event`]); its first tag is
//! checked here. Whatever is not taken goes to the tree, which gives the same rows.

use event::ColumnBuilder;

use super::stream::{Names, Next, is_plain_name, name_end, next_attribute};
use super::xpath::Path;
use crate::mapper::{Field, scalar};
use crate::rows::Rows;

/// Values that the short way can keep track of.
const FIELDS_MAX: usize = 64;

pub(super) struct Projector {
    attributes: Vec<Part>,
    children: Vec<Part>,
    allows_null: bool,
}

struct Part {
    name: String,
    field: Field,
}

impl Projector {
    /// `None` where a path is more than an attribute or a child of the element `root`.
    pub fn new(fields: &[(Field, Path)], root: &str, allows_null: bool) -> Option<Projector> {
        let mut projector = Projector {
            attributes: Vec::new(),
            children: Vec::new(),
            allows_null,
        };
        if !is_plain_name(root.as_bytes()) || fields.len() > FIELDS_MAX {
            return None;
        }
        for (field, path) in fields {
            let (name, is_attribute) = path.plain_part(root)?;
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

    /// Pushes and commits the row of a plain event; false: not taken, the row must be aborted.
    pub fn push(&self, event: &str, rows: &mut Rows) -> bool {
        let is_taken = self.event(event, rows.columns()).is_some();
        if is_taken {
            rows.commit_row();
        }
        is_taken
    }

    fn event(&self, event: &str, columns: &mut [ColumnBuilder]) -> Option<()> {
        let bytes = event.as_bytes();
        let tag = &bytes[..tag_end(bytes)?];
        self.root_tag(event, tag, columns)?;
        if self.children.is_empty() {
            return Some(());
        }
        self.content(event, tag.len(), columns)
    }

    fn root_tag(&self, event: &str, tag: &[u8], columns: &mut [ColumnBuilder]) -> Option<()> {
        let mut at = name_end(tag, 1);
        if !is_plain_name(&tag[1..at]) {
            return None;
        }
        let mut names = Names::new();
        let (mut seen, mut next) = (0u64, 0);
        loop {
            let attribute = match next_attribute(tag, at) {
                Next::Done => break,
                Next::Odd => return None,
                Next::Attribute(attribute) => attribute,
            };
            let name = &tag[attribute.name.clone()];
            if name == b"xmlns" || !names.insert(tag, &attribute.name) {
                return None;
            }
            at = attribute.value.end + 1;
            let is_named = |part: &Part| part.name.as_bytes() == name;
            let index = match self.attributes.get(next) {
                Some(part) if is_named(part) => Some(next),
                _ => self.attributes.iter().position(is_named),
            };
            let Some(index) = index else { continue };
            next = index + 1;
            seen |= 1 << index;
            let field = &self.attributes[index].field;
            let value = &event[attribute.value];
            if !scalar::push_text(&mut columns[field.column], field.ty, value) {
                return None;
            }
        }
        self.fill(&self.attributes, seen, columns)
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
