//! `@cache` of a store: rows that were read or written lately, kept in memory before the store.
//!
//! Promises: every write reaches the store before the cache; what the cache answers is what the
//! store would, as long as no other program writes to its table. With `retention.period` a row is
//! trusted only that long, so that writes of other programs become visible.
//!
//! A lookup by the whole primary key is answered from a kept row. While the cache holds the whole
//! table (it was empty at the start, or was read whole, and nothing had to go since) every
//! condition without functions is. Everything else goes to the store.

mod kept;

use event::{Batch, Chunks, Column, ColumnBuilder, Schema, Times, Type, Value};
use plan::store::{Operation, OperationId, OperationKind, Term, TermKind};
use plan::{CompareOp, Constant};

use crate::component::{Answer, Epochs, Refused, Store};
use crate::condition::{holds, is_plain, value};
use crate::error::Error;
use kept::Kept;
pub use kept::Policy;

/// What `@cache(…)` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most rows kept.
    pub size: usize,
    pub policy: Policy,
    /// Milliseconds for which a row is believed.
    pub retention: Option<i64>,
    /// Milliseconds between two looks for rows that are too old.
    pub purge: i64,
}

/// Milliseconds that only grow.
pub type Clock = Box<dyn Fn() -> i64 + Send>;

impl Limits {
    /// From the options of the annotation.
    ///
    /// # Errors
    /// Words for the author of the app.
    pub fn from_options(options: &[(String, String)]) -> Result<Limits, String> {
        let option = |name: &str| {
            options
                .iter()
                .find(|(k, _)| k == name)
                .map(|(_, v)| v.as_str())
        };
        let time = |name: &str| match option(name) {
            None => Ok(None),
            Some(text) => match lang::quantity::time_text(text) {
                Some(millis) => Ok(Some(millis)),
                None => Err(format!(
                    "option '{name}' of '@cache' is not a time: '{text}'; write for example '1 min'"
                )),
            },
        };
        let size = option("size").unwrap_or_default();
        let size = size.parse().ok().filter(|size| *size > 0).ok_or_else(|| {
            format!("option 'size' of '@cache' is not a number of rows: '{size}'")
        })?;
        let policy = option("cache.policy").unwrap_or("FIFO");
        let retention = time("retention.period")?;
        Ok(Limits {
            size,
            policy: Policy::from_name(policy).ok_or_else(|| {
                format!("option 'cache.policy' of '@cache' knows FIFO, LRU and LFU, not '{policy}'")
            })?,
            retention,
            purge: time("purge.interval")?.or(retention).unwrap_or(i64::MAX),
        })
    }
}

/// A store with a cache before it.
pub struct CachedStore {
    inner: Box<dyn Store>,
    schema: Schema,
    /// Attributes of the primary key; without one rows are only found by looking at all of them.
    key: Vec<usize>,
    operations: Vec<Option<Planned>>,
    kept: Kept,
    retention: Option<i64>,
    purge: i64,
    purged: i64,
    clock: Clock,
    /// The kept rows are the whole table.
    is_whole: bool,
}

/// An operation and how the cache takes part in it.
struct Planned {
    operation: Operation,
    /// The value of each attribute of the primary key, where the condition is equality of all.
    by_key: Option<Vec<Term>>,
    /// Condition and values can be worked out here.
    is_plain: bool,
}

impl CachedStore {
    pub fn new(
        inner: Box<dyn Store>,
        table: &plan::Table,
        limits: Limits,
        clock: Clock,
    ) -> CachedStore {
        CachedStore {
            inner,
            schema: table.schema.clone(),
            key: table.primary_key.clone(),
            operations: Vec::new(),
            kept: Kept::new(limits.size, limits.policy),
            retention: limits.retention,
            purge: limits.purge,
            purged: i64::MIN,
            clock,
            is_whole: false,
        }
    }

    fn forget(&mut self) {
        self.kept.clear();
        self.is_whole = false;
    }

    /// Rows that were believed long enough are read again.
    fn purge(&mut self, now: i64) {
        let Some(retention) = self.retention else {
            return;
        };
        if now.saturating_sub(self.purged) < self.purge {
            return;
        }
        self.purged = now;
        if self.kept.expire(now - retention) {
            self.is_whole = false;
        }
    }

    fn key_text(&self, row: &[Value]) -> Option<String> {
        let values: Vec<&Value> = self.key.iter().map(|at| &row[*at]).collect();
        key_text(&values)
    }

    /// The rows that an operation means, from the cache alone; `None` where the store must say.
    fn look(&mut self, at: OperationId, parameters: &[Value]) -> Option<Vec<Vec<Value>>> {
        let planned = self.operations.get(at)?.as_ref()?;
        let on = condition(&planned.operation.kind);
        if let Some(terms) = &planned.by_key {
            let values: Vec<Value> = terms.iter().map(|t| value(t, &[], parameters)).collect();
            // What is null equals nothing.
            let Some(key) = key_text(&values.iter().collect::<Vec<_>>()) else {
                return Some(Vec::new());
            };
            return match self.kept.by_key(&key) {
                Some(row) => Some(vec![row.to_vec()]),
                None => self.is_whole.then(Vec::new),
            };
        }
        (self.is_whole && planned.is_plain).then(|| {
            let meant = |row: &[Value]| on.is_none_or(|on| holds(on, row, parameters));
            self.kept
                .rows()
                .filter(|row| meant(row))
                .map(<[Value]>::to_vec)
                .collect()
        })
    }

    fn learn(&mut self, row: Vec<Value>, now: i64) {
        let key = self.key_text(&row);
        if !self.key.is_empty() && key.is_none() {
            self.is_whole = false;
            return;
        }
        if self.kept.put(key, row, now) {
            self.is_whole = false;
        }
    }

    /// Does a write that the store has done to the kept rows as well.
    fn follow(&mut self, at: OperationId, parameters: &[Value], now: i64) {
        let Some(planned) = self.operations.get(at).and_then(Option::as_ref) else {
            return self.forget();
        };
        let kind = planned.operation.kind.clone();
        if !planned.is_plain {
            return self.forget();
        }
        let width = self.schema.attributes.len();
        match kind {
            OperationKind::Find { .. } | OperationKind::Contains { .. } => {}
            OperationKind::Insert => {
                let row = parameters[..width.min(parameters.len())].to_vec();
                // Whether a row of that key took its place or stayed is the store's affair.
                match self
                    .key_text(&row)
                    .is_some_and(|key| self.kept.remove_key(&key))
                {
                    true => self.is_whole = false,
                    false => self.learn(row, now),
                }
            }
            OperationKind::Delete { on } => {
                self.kept.remove_where(|row| holds(&on, row, parameters));
            }
            OperationKind::Update { set, on } => {
                self.change(&set, &on, parameters, now);
            }
            OperationKind::UpdateOrInsert { set, on } => {
                let changed = self.change(&set, &on, parameters, now);
                if !changed && self.is_whole {
                    self.learn(parameters[..width.min(parameters.len())].to_vec(), now);
                }
            }
        }
    }

    /// Whether a kept row was changed.
    fn change(&mut self, set: &[(usize, Term)], on: &Term, parameters: &[Value], now: i64) -> bool {
        let types: Vec<Type> = self.schema.attributes.iter().map(|a| a.ty).collect();
        let meant: Vec<Vec<Value>> = self
            .kept
            .rows()
            .filter(|row| holds(on, row, parameters))
            .map(<[Value]>::to_vec)
            .collect();
        for old in &meant {
            let mut new = old.clone();
            for (attribute, term) in set {
                new[*attribute] = as_type(value(term, old, parameters), types[*attribute]);
            }
            let key = self.key_text(&new);
            if !self.kept.replace(old, key, new, now) {
                self.forget();
                return true;
            }
        }
        !meant.is_empty()
    }

    fn answer(&self, found: Vec<Vec<Vec<Value>>>, is_find: bool) -> Answer {
        if !is_find {
            return Answer::Contains(found.iter().map(|rows| !rows.is_empty()).collect());
        }
        let mut builders: Vec<ColumnBuilder> = self
            .schema
            .attributes
            .iter()
            .map(|a| ColumnBuilder::new(a.ty))
            .collect();
        let (mut ends, mut count) = (Vec::with_capacity(found.len()), 0);
        for rows in &found {
            for row in rows {
                builders
                    .iter_mut()
                    .zip(row)
                    .for_each(|(builder, value)| builder.push(value));
            }
            count += rows.len();
            ends.push(count as u32);
        }
        let columns: Vec<Column> = builders.into_iter().map(ColumnBuilder::finish).collect();
        Answer::Rows {
            batch: Batch::new(columns, count, Times::Same(-1), Chunks::One, -1),
            ends,
        }
    }

    fn is_read(&self, id: OperationId) -> Option<bool> {
        match &self.operations.get(id)?.as_ref()?.operation.kind {
            OperationKind::Find { .. } => Some(true),
            OperationKind::Contains { .. } => Some(false),
            _ => None,
        }
    }
}

impl Store for CachedStore {
    fn connect(&mut self) -> Result<(), Error> {
        self.forget();
        self.inner.connect()
    }

    fn prepare(&mut self, id: OperationId, operation: &Operation) -> Result<(), Error> {
        self.inner.prepare(id, operation)?;
        if self.operations.len() <= id {
            self.operations.resize_with(id + 1, || None);
        }
        self.operations[id] = Some(plan(operation, &self.key, &self.schema));
        Ok(())
    }

    fn insert(&mut self, batch: &Batch) -> Result<(), Error> {
        self.forget();
        self.inner.insert(batch)
    }

    fn execute(&mut self, id: OperationId, parameters: &Batch) -> Result<Answer, Error> {
        let now = (self.clock)();
        self.purge(now);
        let rows: Vec<Vec<Value>> = (0..parameters.len).map(|row| parameters.row(row)).collect();
        let Some(is_find) = self.is_read(id) else {
            let answer = self
                .inner
                .execute(id, parameters)
                .inspect_err(|_| self.forget())?;
            rows.iter().for_each(|row| self.follow(id, row, now));
            return Ok(answer);
        };
        let known: Option<Vec<_>> = rows.iter().map(|row| self.look(id, row)).collect();
        if let Some(found) = known {
            return Ok(self.answer(found, is_find));
        }
        let answer = self.inner.execute(id, parameters)?;
        if let Answer::Rows { batch, .. } = &answer {
            let planned = self.operations.get(id).and_then(Option::as_ref);
            let reads_all =
                planned.is_some_and(|p| condition(&p.operation.kind).is_none()) && rows.len() == 1;
            let by_key = planned.is_some_and(|p| p.by_key.is_some());
            if reads_all && batch.len <= self.kept.size() {
                self.forget();
                self.is_whole = true;
            }
            if self.is_whole || by_key {
                (0..batch.len).for_each(|row| self.learn(batch.row(row), now));
            }
        }
        Ok(answer)
    }

    fn take_refused(&mut self) -> Vec<Refused> {
        let refused = self.inner.take_refused();
        if !refused.is_empty() {
            // The cache has followed them.
            self.forget();
        }
        refused
    }

    fn close(&mut self) -> Result<(), Error> {
        self.forget();
        self.inner.close()
    }
}

impl Epochs for CachedStore {
    fn begin(&mut self) -> Result<(), Error> {
        self.inner.begin()
    }

    fn commit(&mut self, epoch: u64, positions: &[u8]) -> Result<(), Error> {
        self.inner
            .commit(epoch, positions)
            .inspect_err(|_| self.forget())
    }

    fn abort(&mut self) -> Result<(), Error> {
        self.forget();
        self.inner.abort()
    }

    fn held(&self) -> usize {
        self.inner.held()
    }

    fn has_lost(&self) -> bool {
        self.inner.has_lost()
    }

    fn last_epoch(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        self.inner.last_epoch()
    }
}

fn condition(kind: &OperationKind) -> Option<&Term> {
    match kind {
        OperationKind::Insert => None,
        OperationKind::Find { on } => on.as_ref(),
        OperationKind::Contains { on }
        | OperationKind::Delete { on }
        | OperationKind::Update { on, .. }
        | OperationKind::UpdateOrInsert { on, .. } => Some(on),
    }
}

fn plan(operation: &Operation, key: &[usize], schema: &Schema) -> Planned {
    let on = condition(&operation.kind);
    let set = match &operation.kind {
        OperationKind::Update { set, .. } | OperationKind::UpdateOrInsert { set, .. } => &set[..],
        _ => &[],
    };
    Planned {
        operation: operation.clone(),
        by_key: on.and_then(|on| key_terms(on, key, schema)),
        is_plain: on.is_none_or(is_plain) && set.iter().all(|(_, term)| is_plain(term)),
    }
}

/// The term that each attribute of the primary key must equal; `None` if the condition says
/// anything else.
fn key_terms(on: &Term, key: &[usize], schema: &Schema) -> Option<Vec<Term>> {
    let mut equal: Vec<Option<Term>> = vec![None; key.len()];
    let mut open = vec![on];
    while let Some(term) = open.pop() {
        match &term.kind {
            TermKind::And(left, right) => open.extend([&**left, &**right]),
            TermKind::Compare(CompareOp::Equal, left, right) => {
                let (column, other) = match (&left.kind, &right.kind) {
                    (TermKind::Column(column), _) => (*column, right),
                    (_, TermKind::Column(column)) => (*column, left),
                    _ => return None,
                };
                let at = key.iter().position(|k| *k == column)?;
                // Numbers of another type are equal in other ways than their texts.
                let fits = other.ty == schema.attributes[column].ty
                    && matches!(other.kind, TermKind::Parameter(_) | TermKind::Constant(_))
                    && !matches!(
                        other.kind,
                        TermKind::Constant(Constant::Float(_) | Constant::Double(_))
                    )
                    && !matches!(other.ty, Type::Float | Type::Double | Type::Object);
                if !fits || equal[at].is_some() {
                    return None;
                }
                equal[at] = Some((**other).clone());
            }
            _ => return None,
        }
    }
    equal
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .filter(|terms| !terms.is_empty())
}

/// The values of a key as one text, each with its length before it; `None` if one is null, or if
/// the table has no key.
fn key_text(values: &[&Value]) -> Option<String> {
    use std::fmt::Write as _;
    if values.is_empty() {
        return None;
    }
    let mut out = String::new();
    for value in values {
        if **value == Value::Null {
            return None;
        }
        let text = event::text::to_text(value);
        write!(out, "{}:{text}", text.len()).ok()?;
    }
    Some(out)
}

/// A number as the column holds it.
fn as_type(value: Value, ty: Type) -> Value {
    match ty {
        Type::Int => value.to_long().map_or(value, |v| Value::Int(v as i32)),
        Type::Long => value.to_long().map_or(value, Value::Long),
        Type::Float => value.to_double().map_or(value, |v| Value::Float(v as f32)),
        Type::Double => value.to_double().map_or(value, Value::Double),
        _ => value,
    }
}

#[cfg(test)]
mod tests;
