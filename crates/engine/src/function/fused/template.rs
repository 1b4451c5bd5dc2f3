//! `str:fillTemplate` of a template that is known, with values or with a `map:create` of keys that are.

use event::column::View;
use event::text::write_value;
use event::{Column, ColumnBuilder, Type};
use plan::{Expr, ExprKind};

use super::{Cells, Fused, Fusion, call, constant_text};
use crate::function::str::{Braces, split};

/// A part of what comes out.
#[derive(Debug)]
enum Part {
    Text(String),
    /// The cell of a leaf; what is between the braces where it is null.
    Cell {
        leaf: usize,
        name: String,
    },
}

struct Template {
    parts: Vec<Part>,
    /// One row.
    text: String,
}

/// `None` where a placeholder fails, as each row then does.
pub(super) fn fuse(args: &[Expr]) -> Option<Fusion> {
    let (template, values) = args.split_first()?;
    let template = constant_text(template)?;
    let mut parts = Vec::new();
    let text = |parts: &mut Vec<Part>, more: &str| match parts.last_mut() {
        Some(Part::Text(text)) => text.push_str(more),
        _ => parts.push(Part::Text(more.to_owned())),
    };
    let leaves: Vec<Vec<usize>>;
    if let [map] = values
        && map.ty == Type::Object
    {
        let ("map:create", pairs) = call(map)? else {
            return None;
        };
        let pairs = pairs.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return None;
        }
        let mut keys = Vec::new();
        for pair in pairs {
            // A key that is no text is that of no placeholder.
            match &pair[0].kind {
                ExprKind::Constant(_) => keys.push(constant_text(&pair[0])),
                _ => return None,
            }
        }
        leaves = (0..keys.len()).map(|pair| vec![1, 2 * pair + 1]).collect();
        split(template, |piece| {
            match piece {
                Braces::Outside(more) => text(&mut parts, more),
                Braces::Inside(name) => {
                    // The last value of a key is the one that the map has.
                    match keys.iter().rposition(|key| *key == Some(name.trim())) {
                        Some(leaf) => parts.push(Part::Cell {
                            leaf,
                            name: name.to_owned(),
                        }),
                        None => text(&mut parts, name),
                    }
                }
            }
            Ok(())
        })
        .ok()?;
    } else {
        leaves = (1..args.len()).map(|argument| vec![argument]).collect();
        split(template, |piece| {
            match piece {
                Braces::Outside(more) => text(&mut parts, more),
                Braces::Inside(name) => match crate::function::str::number(name, args.len())? {
                    0 => text(&mut parts, template),
                    argument => parts.push(Part::Cell {
                        leaf: argument - 1,
                        name: name.to_owned(),
                    }),
                },
            }
            Ok(())
        })
        .ok()?;
    }
    let call = Box::new(Template {
        parts,
        text: String::new(),
    });
    Some(Fusion { leaves, call })
}

impl Fused for Template {
    fn evaluate(&mut self, leaves: &[Column], rows: usize) -> Option<Column> {
        let cells: Vec<Cells<'_>> = leaves.iter().map(Cells::of).collect();
        let mut out = ColumnBuilder::with_capacity(Type::String, rows);
        for row in 0..rows {
            self.text.clear();
            for part in &self.parts {
                let (leaf, name) = match part {
                    Part::Text(text) => {
                        self.text.push_str(text);
                        continue;
                    }
                    Part::Cell { leaf, name } => (*leaf, name),
                };
                let cells = &cells[leaf];
                match &cells.view {
                    _ if cells.is_null(row) => self.text.push_str(name),
                    View::Str(texts) => self.text.push_str(texts.get(row)),
                    View::Any(values) => write_value(&mut self.text, &values[row]),
                    _ => write_value(&mut self.text, &cells.value(row)),
                }
            }
            out.push_str(&self.text);
        }
        Some(out.finish())
    }
}
