//! How a join finds the rows of a window: through an index where the condition has equations,
//! else by a look at every row.
//!
//! An equation says that an attribute of the window equals something that the triggering row alone
//! decides. The rows of an index are those that an `and` would have gone on with, as long as
//! nothing in front of the equation can fail or draws a number: what may is met row by row.

use std::ops::Range;

use event::{Batch, Cells, Column, Type};
use plan::{CompareOp, Expr, ExprKind, InputId};

use crate::component::EvalContext;
use crate::error::Error;
use crate::expr::{Expression, Inputs, Layout, OTHER, ROW, Slot, attributes_of, comparison_type};
use crate::kept::{Attribute, Held, KeyColumn, equal, hash};
use crate::table::{ConditionContext, MemoryCondition};

/// The equations of a condition, and what is looked at beside them.
pub(super) struct Equations {
    keys: Vec<KeyColumn>,
    /// For each key what the triggering row says it must be.
    values: Vec<Expression>,
    /// Nothing else is in the condition.
    is_exact: bool,
    /// Attributes in the condition, of the window and of the triggering row, whose values must
    /// have their declared types.
    watched: [Vec<usize>; 2],
    /// What the rows of a batch look for, kept for its room.
    sought: Vec<Column>,
}

/// The attributes of a side that reach the join: for each column its attribute.
pub(super) struct Side<'a> {
    pub input: InputId,
    pub kept: &'a [usize],
    pub types: &'a [Type],
}

impl Side<'_> {
    fn column(&self, attribute: usize) -> Option<usize> {
        self.kept.iter().position(|&kept| kept == attribute)
    }

    fn watched(&self, on: &Expr) -> Vec<usize> {
        let mut columns = Vec::new();
        attributes_of(on, &mut |input, attribute| {
            if input == self.input
                && self.types.get(attribute) != Some(&Type::Object)
                && let Some(column) = self.column(attribute)
                && !columns.contains(&column)
            {
                columns.push(column);
            }
        });
        columns
    }
}

impl Equations {
    /// `None`: the condition has none.
    pub fn new(
        on: Option<&Expr>,
        window: &Side<'_>,
        own: &Side<'_>,
        event: &Layout,
        context: &mut ConditionContext<'_>,
    ) -> Result<Option<Equations>, Error> {
        let Some(on) = on else {
            return Ok(None);
        };
        let mut equations = Equations {
            keys: Vec::new(),
            values: Vec::new(),
            is_exact: true,
            watched: [window.watched(on), own.watched(on)],
            sought: Vec::new(),
        };
        for conjunct in conjuncts(on) {
            let Some((column, value)) = equation(conjunct, window) else {
                equations.is_exact = false;
                if is_sure(conjunct) {
                    continue;
                }
                break;
            };
            let ExprKind::Attribute { attribute, .. } = column.kind else {
                continue;
            };
            let ty = comparison_type(column.ty, value.ty);
            match (window.column(attribute), ty) {
                (Some(column), Some(ty)) => {
                    equations.keys.push(KeyColumn { column, ty });
                    equations.values.push(context.expression(value, event)?);
                }
                _ => equations.is_exact = false,
            }
        }
        Ok((!equations.keys.is_empty()).then_some(equations))
    }

    /// As [`find`], through an index; false where there is none to go through.
    fn find(
        &mut self,
        on: &mut MemoryCondition,
        held: &Held<'_>,
        probe: &Probing<'_>,
        context: &mut EvalContext<'_>,
        found: &mut Matches,
    ) -> bool {
        let [theirs, own] = &self.watched;
        let columns = &probe.batch.columns;
        if self.keys.iter().any(|key| key.column >= held.width())
            || own.iter().any(|&c| is_mixed(Cells::from(&columns[c])))
        {
            return false;
        }
        let keys = self.keys.as_slice();
        let (one, many): (Attribute<'_>, Vec<Attribute<'_>>);
        let kept = match keys {
            [key] => {
                one = held.attribute(key.column);
                std::slice::from_ref(&one)
            }
            keys => {
                many = keys.iter().map(|k| held.attribute(k.column)).collect();
                &many
            }
        };
        let is_typed = theirs.iter().all(|&c| held.is_of_one_type(c));
        let row_hash = |row: usize| {
            let is_sure = is_typed || theirs.iter().all(|&c| !is_mixed(held.cell(c, row).0));
            is_sure.then(|| hash(keys, |key| kept[key].cell(row)))
        };
        let (sought, values) = (&mut self.sought, &mut self.values);
        let is_exact = self.is_exact;
        held.with_index(keys, probe.batch.len, row_hash, |index| {
            let inputs = probe.inputs();
            sought.clear();
            sought.extend(values.iter_mut().map(|v| v.column(&inputs, context)));
            let (one, many): (Cells<'_>, Vec<Cells<'_>>);
            let cells = match sought.as_slice() {
                [value] => {
                    one = Cells::from(value);
                    std::slice::from_ref(&one)
                }
                values => {
                    many = values.iter().map(Cells::from).collect();
                    &many
                }
            };
            let prepared = (!is_exact).then(|| on.prepare(&inputs, context));
            for row in 0..probe.batch.len {
                if !probe.is_passed_over(row) {
                    let start = found.rows.len();
                    index.candidates(hash(keys, |key| (cells[key], row)), |candidate| {
                        let is_equal = |(at, key): (usize, &KeyColumn)| {
                            equal(key.ty, kept[at].cell(candidate), (cells[at], row))
                        };
                        if keys.iter().enumerate().all(is_equal) {
                            found.rows.push(candidate as u32);
                        }
                    });
                    if let Some(prepared) = prepared.as_ref().filter(|_| found.rows.len() > start) {
                        let candidates = &mut found.rows;
                        let gather = |rows: &[u32], uses: &[Slot]| gathered(held, rows, uses);
                        on.retain(prepared, start, candidates, gather, (&inputs, row), context);
                    }
                }
                found.ends.push(found.rows.len() as u32);
            }
        })
    }
}

/// The rows that each triggering row has found: their numbers, and where those of each row end.
#[derive(Default)]
pub(super) struct Matches {
    pub rows: Vec<u32>,
    pub ends: Vec<u32>,
}

impl Matches {
    /// Empty again, its memory kept where it is for no more rows than so many.
    pub fn clear(&mut self, rows_max: usize) {
        if self.rows.capacity() > rows_max {
            *self = Matches::default();
        }
        self.rows.clear();
        self.ends.clear();
    }

    pub fn of(&self, row: usize) -> Range<usize> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start as usize..self.ends[row] as usize
    }
}

/// The rows that look into a window.
pub(super) struct Probing<'a> {
    pub batch: &'a Batch,
    /// Nobody would see what EXPIRED rows find.
    pub skips_expired: bool,
    /// Columns of a row of the window.
    pub width: usize,
}

impl<'a> Probing<'a> {
    fn inputs(&self) -> Inputs<'a> {
        Inputs::of(&self.batch.columns, self.batch.len)
    }

    fn is_passed_over(&self, row: usize) -> bool {
        self.skips_expired && self.batch.is_expired(row)
    }
}

/// Finds the rows of a window that satisfy the condition, for each triggering row in storage order.
pub(super) fn find(
    on: &mut MemoryCondition,
    equations: Option<&mut Equations>,
    held: &Held<'_>,
    probe: &Probing<'_>,
    context: &mut EvalContext<'_>,
    found: &mut Matches,
) {
    if let Some(equations) = equations
        && equations.find(on, held, probe, context, found)
    {
        return;
    }
    let inputs = probe.inputs();
    let prepared = on.prepare(&inputs, context);
    let uses = prepared.uses();
    let is_used = |column: usize| uses.contains(&other(column));
    let parts = held.parts(probe.width, is_used);
    for row in 0..probe.batch.len {
        if !probe.is_passed_over(row) {
            let mut first = 0;
            for (columns, len) in &parts {
                let part = (columns.as_slice(), first, *len);
                on.scan(&prepared, part, (&inputs, row), context, &mut found.rows);
                first += *len as u32;
            }
        }
        found.ends.push(found.rows.len() as u32);
    }
}

fn other(column: usize) -> Slot {
    Slot {
        part: OTHER,
        index: column as u16,
    }
}

/// Columns of some rows of a window; those that are not used are left empty.
fn gathered(held: &Held<'_>, rows: &[u32], uses: &[Slot]) -> Vec<Column> {
    let used = uses.iter().filter(|slot| slot.part == OTHER);
    let width = used.map(|slot| usize::from(slot.index) + 1).max();
    (0..width.unwrap_or(0))
        .map(|column| {
            let is_used = uses.contains(&other(column));
            held.gather(column, if is_used { rows } else { &[] })
        })
        .collect()
}

fn is_mixed(cells: Cells<'_>) -> bool {
    cells.ty() == Type::Object
}

/// What `and` joins, from left to right. The parser limits how deep it goes.
fn conjuncts(on: &Expr) -> Vec<&Expr> {
    let ExprKind::And(left, right) = &on.kind else {
        return vec![on];
    };
    let mut all = conjuncts(left);
    all.extend(conjuncts(right));
    all
}

/// The attribute of the window and what it must equal.
fn equation<'e>(conjunct: &'e Expr, window: &Side<'_>) -> Option<(&'e Expr, &'e Expr)> {
    let ExprKind::Compare(CompareOp::Equal, left, right) = &conjunct.kind else {
        return None;
    };
    [(left, right), (right, left)]
        .into_iter()
        .find_map(|(column, value)| {
            let is_theirs = matches!(column.kind,
                ExprKind::Attribute { input, .. } if input == window.input);
            let mut sees_window = false;
            attributes_of(value, &mut |input, _| sees_window |= input == window.input);
            (is_theirs && !sees_window && is_sure(value)).then_some((&**column, &**value))
        })
}

/// Cannot fail and draws nothing, however often it is evaluated: attributes, constants, arithmetic
/// and comparisons of them.
fn is_sure(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Constant(_) | ExprKind::Attribute { .. } | ExprKind::IsNoEvent { .. } => true,
        ExprKind::Arithmetic(_, a, b) => {
            a.ty.is_numeric() && b.ty.is_numeric() && is_sure(a) && is_sure(b)
        }
        ExprKind::Compare(_, a, b) | ExprKind::And(a, b) | ExprKind::Or(a, b) => {
            is_sure(a) && is_sure(b)
        }
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => is_sure(inner),
        ExprKind::Call { .. }
        | ExprKind::Script { .. }
        | ExprKind::In { .. }
        | ExprKind::Aggregate { .. } => false,
    }
}

/// The triggering row is the row of an expression.
const _: () = assert!(ROW != OTHER);
