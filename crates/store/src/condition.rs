//! Operations of an app on a table: which rows they mean, found without looking at all of them where
//! the condition allows it.
//!
//! A condition that names a value for each column of the key is a look-up. Its comparisons of a column
//! with a value, joined by `and`, rule out files and row groups by their statistics, and rows by typed
//! loops; what is left is worked out term by term, as [`connect::condition`] does.

use connect::condition::{holds, is_plain, value};
use event::column::View;
use event::{Cells, Value};
use plan::CompareOp;
use plan::store::{Operation, OperationKind, Term, TermKind};

use crate::definition::Definition;
use crate::error::Error;
use crate::key::{self, Key};
use crate::rows::Rows;

/// The longest chain of `and` that is looked through for comparisons.
const DEPTH_MAX: u32 = 100;

/// An operation that can be run.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub kind: OperationKind,
    pub condition: Condition,
    /// Columns whose values the condition or the new values ask for.
    sets: Vec<usize>,
}

/// Which rows are meant.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    on: Option<Term>,
    bounds: Vec<Bound>,
    /// The comparisons are the whole condition.
    is_bounds: bool,
    /// Columns that it looks at.
    used: Vec<bool>,
    /// For each column of the key the place of its value in `bounds`.
    key: Option<Vec<usize>>,
}

/// A column compared with what does not depend on the row.
#[derive(Clone, Debug)]
struct Bound {
    column: usize,
    op: CompareOp,
    other: Term,
}

impl Prepared {
    /// # Errors
    /// The condition calls a function, in words for the author of the app.
    pub fn new(operation: &Operation, definition: &Definition) -> Result<Prepared, String> {
        let (on, set): (Option<&Term>, &[(usize, Term)]) = match &operation.kind {
            OperationKind::Insert => (None, &[]),
            OperationKind::Find { on } => (on.as_ref(), &[]),
            OperationKind::Contains { on } | OperationKind::Delete { on } => (Some(on), &[]),
            OperationKind::Update { set, on } | OperationKind::UpdateOrInsert { set, on } => {
                (Some(on), set)
            }
        };
        let terms = || on.into_iter().chain(set.iter().map(|(_, term)| term));
        if !terms().all(is_plain) {
            return Err(
                "a condition on it calls a function of the table's attributes, or nests too deep: compute the \
                 value in a query before, or keep the table in memory"
                    .into(),
            );
        }
        Ok(Prepared {
            kind: operation.kind.clone(),
            condition: Condition::new(on, definition),
            sets: set.iter().map(|(column, _)| *column).collect(),
        })
    }

    /// Does an update give a row another key?
    pub fn changes_key(&self, definition: &Definition) -> bool {
        self.sets
            .iter()
            .any(|column| definition.key.contains(column))
    }
}

/// Calls `each` for every column that a term looks at.
fn columns(term: &Term, each: &mut dyn FnMut(usize)) {
    match &term.kind {
        TermKind::Column(column) => each(*column),
        TermKind::Parameter(_) | TermKind::Constant(_) => {}
        TermKind::Arithmetic(_, a, b)
        | TermKind::Compare(_, a, b)
        | TermKind::And(a, b)
        | TermKind::Or(a, b) => {
            columns(a, each);
            columns(b, each);
        }
        TermKind::Not(inner) | TermKind::IsNull(inner) => columns(inner, each),
        TermKind::Call { args, .. } => args.iter().for_each(|arg| columns(arg, each)),
    }
}

impl Condition {
    pub fn new(on: Option<&Term>, definition: &Definition) -> Condition {
        let mut bounds = Vec::new();
        let is_bounds = on.is_none_or(|on| find_bounds(on, &mut bounds, 0));
        let mut used = vec![false; definition.width()];
        if let Some(on) = on {
            columns(on, &mut |column| used[column] = true);
        }
        let of_key = |column: &usize| {
            let mut equal = bounds.iter().enumerate();
            let found = equal.find(|(_, b)| b.column == *column && b.op == CompareOp::Equal);
            found.map(|(at, _)| at)
        };
        let key: Option<Vec<usize>> = definition.key.iter().map(of_key).collect();
        Condition {
            on: on.cloned(),
            key: key.filter(|key| !key.is_empty()),
            bounds,
            is_bounds,
            used,
        }
    }

    /// With the values of an event.
    pub fn with<'a>(&'a self, parameters: &'a [Value], definition: &Definition) -> Bounded<'a> {
        let values: Vec<Value> = self
            .bounds
            .iter()
            .map(|b| value(&b.other, &[], parameters))
            .collect();
        let key = self.key.as_ref().and_then(|places| {
            let mut bytes = Vec::new();
            for (column, place) in definition.key.iter().zip(places) {
                let value = key::in_type(definition.ty(*column), &values[*place])?;
                key::push(&value, &mut bytes);
            }
            Some(Key::from(bytes))
        });
        Bounded {
            // A comparison with null is false.
            is_never: values.iter().any(Value::is_null),
            condition: self,
            parameters,
            values,
            key,
            is_wanted: None,
        }
    }
}

/// Collects comparisons of columns; whether they are all that the condition is.
fn find_bounds(on: &Term, bounds: &mut Vec<Bound>, depth: u32) -> bool {
    if depth == DEPTH_MAX {
        return false;
    }
    let is_fixed = |term: &Term| {
        let mut is_fixed = true;
        columns(term, &mut |_| is_fixed = false);
        is_fixed
    };
    match &on.kind {
        TermKind::And(a, b) => {
            let a = find_bounds(a, bounds, depth + 1);
            find_bounds(b, bounds, depth + 1) && a
        }
        TermKind::Compare(op, a, b) if *op != CompareOp::NotEqual => {
            for (column, other, op) in [(a, b, *op), (b, a, op.turned())] {
                if let TermKind::Column(column) = column.kind
                    && is_fixed(other)
                {
                    bounds.push(Bound {
                        column,
                        op,
                        other: (**other).clone(),
                    });
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

/// A condition with the values of an event.
pub(crate) struct Bounded<'a> {
    condition: &'a Condition,
    parameters: &'a [Value],
    /// Of the comparisons.
    values: Vec<Value>,
    /// The key of the only row that can be meant.
    pub key: Option<Key>,
    /// No row is meant.
    pub is_never: bool,
    is_wanted: Option<&'a dyn Fn() -> bool>,
}

impl<'a> Bounded<'a> {
    /// For a question that may be given up.
    pub fn while_wanted(mut self, is_wanted: &'a dyn Fn() -> bool) -> Bounded<'a> {
        self.is_wanted = Some(is_wanted);
        self
    }

    /// Does somebody wait for the answer?
    ///
    /// # Errors
    /// Nobody does.
    pub fn check_wanted(&self) -> Result<(), Error> {
        match self.is_wanted.is_none_or(|is_wanted| is_wanted()) {
            true => Ok(()),
            false => Err(Error::Refused(
                "nobody waits for the answer any more".into(),
            )),
        }
    }

    /// Columns that have the value of the event in each row that is meant.
    pub fn equal(&self) -> impl Iterator<Item = (usize, &Value)> {
        let pairs = self.condition.bounds.iter().zip(&self.values);
        let equal = pairs.filter(|(bound, _)| bound.op == CompareOp::Equal);
        equal.map(|(bound, value)| (bound.column, value))
    }

    /// Can there be a row that is meant, where each column lies between two values?
    pub fn may_hold(&self, bounds: &dyn Fn(usize) -> Option<(Value, Value)>) -> bool {
        let mut pairs = self.condition.bounds.iter().zip(&self.values);
        pairs.all(|(bound, value)| {
            bounds(bound.column).is_none_or(|(min, max)| may_compare(bound.op, &min, &max, value))
        })
    }

    /// The rows that are meant, of those that `is_visible` says are there.
    pub fn select(
        &self,
        rows: &Rows<'_>,
        is_visible: &dyn Fn(usize) -> bool,
        found: &mut Vec<usize>,
    ) {
        if self.is_never {
            return;
        }
        let mut is_whole = self.condition.is_bounds;
        let mut candidates: Vec<usize> = (0..rows.len()).collect();
        for (bound, value) in self.condition.bounds.iter().zip(&self.values) {
            is_whole &= retain(
                &rows.columns[bound.column],
                bound.op,
                value,
                &mut candidates,
            );
        }
        candidates.retain(|row| is_visible(*row));
        if !is_whole && let Some(on) = &self.condition.on {
            candidates.retain(|row| self.holds(on, rows, *row));
        }
        found.append(&mut candidates);
    }

    /// Is this row meant?
    pub fn takes(&self, rows: &Rows<'_>, row: usize) -> bool {
        let on = self.condition.on.as_ref();
        !self.is_never && on.is_none_or(|on| self.holds(on, rows, row))
    }

    fn holds(&self, on: &Term, rows: &Rows<'_>, row: usize) -> bool {
        let used = self.condition.used.iter().zip(&rows.columns);
        let values: Vec<Value> = used
            .map(|(is_used, column)| {
                if *is_used {
                    column.value(row)
                } else {
                    Value::Null
                }
            })
            .collect();
        holds(on, &values, self.parameters)
    }
}

/// Can a value between two others compare so with a third?
fn may_compare(op: CompareOp, min: &Value, max: &Value, value: &Value) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = |a: &Value| match (a, value) {
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Int(_) | Value::Long(_), Value::Int(_) | Value::Long(_)) => {
            Some(a.to_long().cmp(&value.to_long()))
        }
        _ => a.to_double()?.partial_cmp(&value.to_double()?),
    };
    let (Some(min), Some(max)) = (order(min), order(max)) else {
        return true;
    };
    match op {
        CompareOp::Equal => min != Greater && max != Less,
        CompareOp::Less => min == Less,
        CompareOp::LessEqual => min == Less || min == Equal,
        CompareOp::Greater => max == Greater,
        CompareOp::GreaterEqual => max == Greater || max == Equal,
        CompareOp::NotEqual => true,
    }
}

fn compares<T: PartialOrd>(op: CompareOp, a: &T, b: &T) -> bool {
    match op {
        CompareOp::Equal => a == b,
        CompareOp::NotEqual => a != b,
        CompareOp::Less => a < b,
        CompareOp::LessEqual => a <= b,
        CompareOp::Greater => a > b,
        CompareOp::GreaterEqual => a >= b,
    }
}

/// Keeps the rows whose value compares so; false where that is left to the whole condition.
fn retain(cells: &Cells<'_>, op: CompareOp, value: &Value, rows: &mut Vec<usize>) -> bool {
    let is_real = matches!(value, Value::Float(_) | Value::Double(_));
    match (cells.view(), value.to_long(), value.to_double()) {
        (View::Int(v), Some(x), _) if !is_real => {
            rows.retain(|row| !cells.is_null(*row) && compares(op, &i64::from(v[*row]), &x));
        }
        (View::Long(v), Some(x), _) if !is_real => {
            rows.retain(|row| !cells.is_null(*row) && compares(op, &v[*row], &x));
        }
        (View::Float(v), _, Some(x)) => {
            rows.retain(|row| !cells.is_null(*row) && compares(op, &f64::from(v[*row]), &x));
        }
        (View::Double(v), _, Some(x)) => {
            rows.retain(|row| !cells.is_null(*row) && compares(op, &v[*row], &x));
        }
        (View::Str(v), ..) if op == CompareOp::Equal => {
            let Some(text) = value.as_str() else {
                return false;
            };
            rows.retain(|row| !cells.is_null(*row) && v.get(*row) == text);
        }
        _ => return false,
    }
    true
}
