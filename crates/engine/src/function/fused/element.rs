//! `json:toString` of what `json:setElement` puts into the root of a `json:toObject`: members are put into
//! the text.

use event::column::View;
use event::{Column, ColumnBuilder, Type};
use plan::Expr;

use super::{Cells, Fused, Fusion, call, constant_text};
use crate::function::json::{ReadStyle, Tape, WriteStyle, write_json, write_place, write_text};

/// A member that is put: its name, and the leaf that is its value.
type Put = (String, usize);

struct Element {
    puts: Vec<Put>,
    tape: Tape,
    /// One row.
    text: String,
}

pub(super) fn fuse(args: &[Expr]) -> Option<Fusion> {
    let [document] = args else { return None };
    let mut document = document;
    // From the last call to the first.
    let (mut path, mut sets) = (vec![0], Vec::new());
    loop {
        match call(document)? {
            ("json:setElement", [inner, place, value, name]) => {
                let is_plain =
                    matches!(value.ty, Type::String | Type::Int | Type::Long | Type::Bool);
                if constant_text(place)? != "$" || !is_plain {
                    return None;
                }
                let leaf = [path.as_slice(), &[2]].concat();
                sets.push((constant_text(name)?.to_owned(), leaf));
                path.push(0);
                document = inner;
            }
            ("json:toObject", [_]) => break,
            _ => return None,
        }
    }
    path.push(0);
    let mut leaves = vec![path];
    let mut puts: Vec<Put> = Vec::new();
    for (name, leaf) in sets.into_iter().rev() {
        match puts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, value)) => *value = leaves.len(),
            None => puts.push((name, leaves.len())),
        }
        leaves.push(leaf);
    }
    let call = Box::new(Element {
        puts,
        tape: Tape::default(),
        text: String::new(),
    });
    Some(Fusion { leaves, call })
}

impl Fused for Element {
    fn evaluate(&mut self, leaves: &[Column], rows: usize) -> Option<Column> {
        let cells: Vec<Cells<'_>> = leaves.iter().map(Cells::of).collect();
        let (documents, _) = cells.split_first()?;
        let View::Str(texts) = &documents.view else {
            return None;
        };
        let mut out = ColumnBuilder::with_capacity(Type::String, rows);
        for row in 0..rows {
            if documents.is_null(row) {
                return None;
            }
            let root = self.tape.read(texts.get(row), ReadStyle::Hashed).ok()?;
            let members = root.members()?;
            let text = &mut self.text;
            text.clear();
            let mut separator = '{';
            let mut begin = |text: &mut String, name: &str| {
                text.push(std::mem::replace(&mut separator, ','));
                write_text(text, name, WriteStyle::Gson);
                text.push(':');
            };
            let mut is_put = 0_u64;
            for (name, value) in members {
                begin(text, name);
                match self.puts.iter().position(|(put, _)| put == name) {
                    Some(put) => {
                        is_put |= 1_u64.checked_shl(put as u32)?;
                        write_cell(text, &cells[self.puts[put].1], row)?;
                    }
                    None => write_place(text, value).ok()?,
                }
            }
            for (number, (name, leaf)) in self.puts.iter().enumerate() {
                if is_put & 1_u64.checked_shl(number as u32)? == 0 {
                    begin(text, name);
                    write_cell(text, &cells[*leaf], row)?;
                }
            }
            if separator == '{' {
                text.push('{');
            }
            text.push('}');
            out.push_str(text);
        }
        Some(out.finish())
    }
}

/// `None` for a text that becomes an object or a list.
fn write_cell(out: &mut String, cells: &Cells<'_>, row: usize) -> Option<()> {
    match &cells.view {
        _ if cells.is_null(row) => out.push_str("null"),
        View::Str(texts) => {
            let text = texts.get(row);
            if text.trim_start().starts_with(['{', '[']) {
                return None;
            }
            write_text(out, text, WriteStyle::Gson);
        }
        _ => write_json(out, &cells.value(row), WriteStyle::Gson, 0).ok()?,
    }
    Some(())
}
