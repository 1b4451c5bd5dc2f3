//! Conditions that compare attributes with constants: `price > 50.0 and symbol == 'IBM'`.
//!
//! Most filters are such a list. It is gone through comparison by comparison, each one loop over a
//! column into the same marks, without a column of answers in between; of a single row up to the
//! first comparison that does not hold.

use event::column::View;
use event::selection::{keep_bits, set_bits};
use event::{Column, ScalarRef, Type, Value};
use plan::CompareOp;

use super::arithmetic::Number;
use super::{Inputs, Node, Part, Slot, compare};

/// Comparisons that must all hold.
pub(super) struct Bounds(Vec<Bound>);

struct Bound {
    slot: Slot,
    op: CompareOp,
    limit: Limit,
}

/// A constant of the type that it is compared in, which is that of the column.
enum Limit {
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    /// A column of one text.
    Text(Column),
}

impl Bounds {
    /// `None` where the condition is of another kind, or compares in another type than a column's.
    pub fn of(node: &Node) -> Option<Bounds> {
        let mut bounds = Vec::new();
        collect(node, &mut bounds)?;
        Some(Bounds(bounds))
    }

    /// Marks the rows on which all comparisons hold; false, and nothing is marked, where a column
    /// is not of its declared type.
    pub fn mask_into(&self, inputs: &Inputs<'_>, mask: &mut Vec<bool>) -> bool {
        mask.clear();
        for (at, bound) in self.0.iter().enumerate() {
            let Some(column) = column(inputs, bound.slot) else {
                return false;
            };
            if !bound.mark(column, at == 0, mask) {
                return false;
            }
        }
        true
    }

    /// A bit for each row, set where all comparisons hold. False where a column has nulls or is not of
    /// its declared type; the bits are of no meaning then.
    pub fn bits_into(&self, inputs: &Inputs<'_>, bits: &mut Vec<u64>) -> bool {
        set_bits(inputs.rows, bits);
        self.0.iter().all(|bound| {
            let column = column(inputs, bound.slot).filter(|c| c.nulls().is_none());
            column.is_some_and(|column| bound.keep_bits(column, bits))
        })
    }

    /// Do all hold on the only row? `None` where a column is not of its declared type.
    pub fn hold(&self, inputs: &Inputs<'_>) -> Option<bool> {
        for bound in &self.0 {
            if !bound.holds(column(inputs, bound.slot)?)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

fn column<'a>(inputs: &Inputs<'a>, slot: Slot) -> Option<&'a Column> {
    match inputs.parts[usize::from(slot.part)] {
        Part::Columns(columns) => columns.get(usize::from(slot.index)),
        Part::Values(_) => None,
    }
}

fn collect(node: &Node, to: &mut Vec<Bound>) -> Option<()> {
    match node {
        Node::Logical {
            stops_at: false,
            sides,
        } => {
            collect(&sides[0], to)?;
            collect(&sides[1], to)
        }
        Node::Compare { op, sides, .. } => {
            let (slot, ty, op, value) = match sides.as_ref() {
                [Node::Input { slot, ty }, Node::Constant(value)] => (slot, ty, *op, value),
                [Node::Constant(value), Node::Input { slot, ty }] => (slot, ty, op.turned(), value),
                _ => return None,
            };
            to.push(Bound {
                slot: *slot,
                op,
                limit: Limit::of(op, *ty, value)?,
            });
            Some(())
        }
        _ => None,
    }
}

impl Limit {
    fn of(op: CompareOp, ty: Type, value: &Value) -> Option<Limit> {
        let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
        if ty == Type::String {
            let is_text = matches!(value, Value::Str(_)) && is_equality;
            return is_text.then(|| Limit::Text(Column::constant(ty, value, 1)));
        }
        let of = value.ty().filter(|of| of.is_numeric() && ty.is_numeric())?;
        if compare::common(op, ty, of) != ty {
            return None;
        }
        Some(match ty {
            Type::Int => Limit::Int(i32::of_value(value)?),
            Type::Long => Limit::Long(i64::of_value(value)?),
            Type::Float => Limit::Float(f32::of_value(value)?),
            _ => Limit::Double(f64::of_value(value)?),
        })
    }
}

impl Bound {
    fn holds(&self, column: &Column) -> Option<bool> {
        Some(match (column.single()?, &self.limit) {
            (ScalarRef::Null, _) => self.op == CompareOp::NotEqual,
            (ScalarRef::Int(v), Limit::Int(limit)) => compare::holds(self.op, v, *limit),
            (ScalarRef::Long(v), Limit::Long(limit)) => compare::holds(self.op, v, *limit),
            (ScalarRef::Float(v), Limit::Float(limit)) => compare::holds(self.op, v, *limit),
            (ScalarRef::Double(v), Limit::Double(limit)) => compare::holds(self.op, v, *limit),
            (ScalarRef::Text(v), Limit::Text(text)) => match text.single()? {
                ScalarRef::Text(text) => (v == text) == (self.op == CompareOp::Equal),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn mark(&self, column: &Column, is_first: bool, mask: &mut Vec<bool>) -> bool {
        let marks = Marks {
            mask,
            is_first,
            nulls: column.nulls(),
            with_null: self.op == CompareOp::NotEqual,
        };
        match (column.view(), &self.limit) {
            (View::Int(v), Limit::Int(limit)) => marks.numbers(self.op, v, *limit),
            (View::Long(v), Limit::Long(limit)) => marks.numbers(self.op, v, *limit),
            (View::Float(v), Limit::Float(limit)) => marks.numbers(self.op, v, *limit),
            (View::Double(v), Limit::Double(limit)) => marks.numbers(self.op, v, *limit),
            (View::Str(v), Limit::Text(text)) => {
                let View::Str(text) = text.view() else {
                    return false;
                };
                let is_equal = self.op == CompareOp::Equal;
                marks.rows(0..v.len(), |row| v.rows_equal(row, &text, 0) == is_equal);
            }
            _ => return false,
        }
        true
    }
}

impl Bound {
    /// Takes the bits of the rows on which it does not hold.
    fn keep_bits(&self, column: &Column, bits: &mut [u64]) -> bool {
        match (column.view(), &self.limit) {
            (View::Int(v), Limit::Int(limit)) => keep_numbers(self.op, v, *limit, bits),
            (View::Long(v), Limit::Long(limit)) => keep_numbers(self.op, v, *limit, bits),
            (View::Float(v), Limit::Float(limit)) => keep_numbers(self.op, v, *limit, bits),
            (View::Double(v), Limit::Double(limit)) => keep_numbers(self.op, v, *limit, bits),
            (View::Str(v), Limit::Text(text)) => {
                let View::Str(text) = text.view() else {
                    return false;
                };
                v.keep_equal(&text, self.op == CompareOp::Equal, bits);
            }
            _ => return false,
        }
        true
    }
}

fn keep_numbers<T: Number>(op: CompareOp, values: &[T], limit: T, bits: &mut [u64]) {
    match op {
        CompareOp::Less => keep_bits(values, bits, |v| v < limit),
        CompareOp::LessEqual => keep_bits(values, bits, |v| v <= limit),
        CompareOp::Greater => keep_bits(values, bits, |v| v > limit),
        CompareOp::GreaterEqual => keep_bits(values, bits, |v| v >= limit),
        CompareOp::Equal => keep_bits(values, bits, |v| v == limit),
        CompareOp::NotEqual => keep_bits(values, bits, |v| v != limit),
    }
}

/// Where one comparison puts its answers.
struct Marks<'a> {
    mask: &'a mut Vec<bool>,
    /// The marks are made; else those that stand are kept where it holds too.
    is_first: bool,
    nulls: Option<&'a [bool]>,
    with_null: bool,
}

impl Marks<'_> {
    fn numbers<T: Number>(self, op: CompareOp, values: &[T], limit: T) {
        let values = values.iter().copied();
        match op {
            CompareOp::Less => self.rows(values, |v| v < limit),
            CompareOp::LessEqual => self.rows(values, |v| v <= limit),
            CompareOp::Greater => self.rows(values, |v| v > limit),
            CompareOp::GreaterEqual => self.rows(values, |v| v >= limit),
            CompareOp::Equal => self.rows(values, |v| v == limit),
            CompareOp::NotEqual => self.rows(values, |v| v != limit),
        }
    }

    #[inline]
    fn rows<T>(self, values: impl ExactSizeIterator<Item = T>, test: impl Fn(T) -> bool) {
        let Marks {
            mask, with_null, ..
        } = self;
        match (self.is_first, self.nulls) {
            (true, None) => mask.extend(values.map(test)),
            (false, None) => mask.iter_mut().zip(values).for_each(|(m, v)| *m &= test(v)),
            (is_first, Some(nulls)) => {
                if is_first {
                    mask.resize(nulls.len(), true);
                }
                for ((mark, value), &is_null) in mask.iter_mut().zip(values).zip(nulls) {
                    *mark &= if is_null { with_null } else { test(value) };
                }
            }
        }
    }
}
