//! Changes of a table, made from operations of an app.

use connect::component::{Refused, Written};
use connect::condition::value;
use connect::object;
use event::{Batch, Chunks, Column, ColumnBuilder, Object, Times, Type, Value};
use plan::store::{OperationKind, Term};

use super::search::key_of;
use super::{State, Table};
use crate::change::Change;
use crate::condition::Prepared;
use crate::definition::Definition;
use crate::error::Error;
use crate::key::{self, Key};
use crate::log::Log;

/// Bytes of the rows that one event updates or deletes.
const MEANT_MAX: usize = 64 << 20;

/// Rows that fit the columns of a table, and those that do not, each with its reason.
pub(crate) fn fit(definition: &Definition, batch: &Batch) -> (Batch, Vec<Refused>) {
    let mut refused: Vec<Refused> = Vec::new();
    let mut columns = Vec::with_capacity(definition.width());
    for (at, attribute) in definition.schema.attributes.iter().enumerate() {
        let column = &batch.columns[at];
        if column.view().ty() == attribute.ty && attribute.ty != Type::Object {
            columns.push(column.clone());
            continue;
        }
        let mut builder = ColumnBuilder::new(attribute.ty);
        for row in 0..batch.len {
            match in_column(attribute.ty, &column.value(row)) {
                Some(value) => builder.push(&value),
                None => {
                    builder.push_null();
                    if refused.last().is_none_or(|last| last.row != row) {
                        let message = format!(
                            "attribute '{}' is {}, and its value is not",
                            attribute.name, attribute.ty
                        );
                        let action = format!("storing a row in table '{}'", definition.name);
                        let cause = connect::Error::failed(action, message);
                        refused.push(Refused { row, cause });
                    }
                }
            }
        }
        columns.push(builder.finish());
    }
    refused.sort_by_key(|refused| refused.row);
    refused.dedup_by_key(|refused| refused.row);
    let now = crate::clock::millis();
    // A write of a query has no event; 0 and -1 stand for that.
    let times = (0..batch.len).map(|row| match batch.times.at(row) {
        time if time > 0 => time,
        _ => now,
    });
    let times = Times::per_row(times.collect());
    let whole = Batch::new(columns, batch.len, times, Chunks::One, now);
    if refused.is_empty() {
        return (whole, refused);
    }
    let kept: Vec<u32> = (0..batch.len as u32)
        .filter(|row| {
            refused
                .binary_search_by_key(&(*row as usize), |r| r.row)
                .is_err()
        })
        .collect();
    let columns = whole
        .columns
        .iter()
        .map(|column| column.gather(&kept))
        .collect();
    let batch = Batch::new(
        columns,
        kept.len(),
        whole.times.gather(&kept),
        Chunks::One,
        now,
    );
    (batch, refused)
}

/// A value as a column holds it, in memory as after it was read from a file.
fn in_column(ty: Type, value: &Value) -> Option<Value> {
    match (ty, value) {
        (Type::Object, Value::Object(Object::Bytes(_)) | Value::Null) => Some(value.clone()),
        (Type::Object, Value::Object(held)) => Some(object::read(&object::to_json(held))),
        (Type::Object, _) => None,
        _ => key::in_type(ty, value),
    }
}

/// What a call does to a table, as it goes into the log.
pub(crate) struct Writer<'a> {
    pub table: &'a Table,
    pub state: &'a mut State,
    pub log: &'a Log,
    pub changes: Vec<Change>,
    /// Place that the first change will have in the log, or one before it.
    pub place: u64,
}

impl Writer<'_> {
    /// Runs a write for one event: it sees what those before it have written.
    pub fn run(
        &mut self,
        prepared: &Prepared,
        parameters: &[Value],
        time: i64,
        written: &mut Written,
    ) -> Result<(), Error> {
        match &prepared.kind {
            OperationKind::Insert => {
                self.insert(parameters, time)?;
                written.inserted += 1;
            }
            OperationKind::Delete { .. } => {
                let (rows, _) = self.meant(prepared, parameters, false)?;
                written.deleted += rows.len() as u64;
                if !rows.is_empty() {
                    self.change(rows, Vec::new(), time)?;
                }
            }
            OperationKind::Update { set, .. } => {
                written.updated += self.update(prepared, set, parameters, time)?;
            }
            OperationKind::UpdateOrInsert { set, .. } => {
                let count = self.update(prepared, set, parameters, time)?;
                written.updated += count;
                if count == 0 {
                    self.insert(parameters, time)?;
                    written.inserted += 1;
                }
            }
            OperationKind::Find { .. } | OperationKind::Contains { .. } => {}
        }
        Ok(())
    }

    fn definition(&self) -> &Definition {
        &self.table.definition
    }

    fn insert(&mut self, parameters: &[Value], time: i64) -> Result<(), Error> {
        let row = self.row(&parameters[..self.definition().width()])?;
        let id = self.log.take_rows(1);
        self.change(Vec::new(), vec![(id, row)], time)
    }

    /// Values as the columns hold them.
    fn row(&self, values: &[Value]) -> Result<Vec<Value>, Error> {
        let attributes = self.definition().schema.attributes.iter();
        let row = attributes.zip(values).map(|(attribute, value)| {
            in_column(attribute.ty, value).ok_or_else(|| {
                Error::Refused(format!(
                    "attribute '{}' is {}, and its value is not",
                    attribute.name, attribute.ty
                ))
            })
        });
        row.collect()
    }

    /// The rows that are meant, by number and key, and their values where they are wanted.
    fn meant(
        &self,
        prepared: &Prepared,
        parameters: &[Value],
        wants_values: bool,
    ) -> Result<(Vec<(u64, Key)>, Vec<Vec<Value>>), Error> {
        let definition = self.definition();
        let bounded = prepared.condition.with(parameters, definition);
        let (mut rows, mut values, mut bytes) = (Vec::new(), Vec::new(), 0);
        self.table.search(&self.state.view, &bounded, &mut |found, row| {
            let key = match definition.is_keyed() {
                true => key_of(definition, found, row),
                false => Key::default(),
            };
            if found.ids[row] == 0 && !definition.is_keyed() {
                return Err(Error::Refused(format!(
                    "table '{}' has rows that another program has added without a number ('_id'): they can \
                     be read, but neither updated nor deleted",
                    definition.name
                )));
            }
            bytes += size_of::<(u64, Key)>() + key.len();
            rows.push((found.ids[row], key));
            if wants_values {
                let weights = found.columns.iter().map(|cells| size_of::<Value>() + cells.heap_bytes(row));
                bytes += weights.sum::<usize>();
                values.push(found.row(row));
            }
            match bytes > MEANT_MAX {
                true => Err(Error::Refused(format!(
                    "the condition means more than {} rows at once, which would take more than {} MB of \
                     memory: narrow it",
                    rows.len(),
                    MEANT_MAX >> 20
                ))),
                false => Ok(true),
            }
        })?;
        Ok((rows, values))
    }

    fn update(
        &mut self,
        prepared: &Prepared,
        set: &[(usize, Term)],
        parameters: &[Value],
        time: i64,
    ) -> Result<u64, Error> {
        let (rows, values) = self.meant(prepared, parameters, true)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let count = rows.len() as u64;
        let mut fresh = Vec::with_capacity(rows.len());
        // As in a table in memory: in the order of the columns, each with the new values of those before it.
        let mut set: Vec<&(usize, Term)> = set.iter().collect();
        set.sort_by_key(|(column, _)| *column);
        for ((id, _), mut row) in rows.iter().zip(values) {
            for (column, term) in &set {
                row[*column] = value(term, &row, parameters);
            }
            fresh.push((*id, self.row(&row)?));
        }
        // A row with the same key takes the place of the old one by itself.
        let is_replaced = self.definition().is_keyed() && !prepared.changes_key(self.definition());
        let gone = if is_replaced { Vec::new() } else { rows };
        self.change(gone, fresh, time)?;
        Ok(count)
    }

    /// Does it to the rows in memory, and notes it for the log.
    fn change(
        &mut self,
        gone: Vec<(u64, Key)>,
        fresh: Vec<(u64, Vec<Value>)>,
        time: i64,
    ) -> Result<(), Error> {
        let (ids, keys) = gone.into_iter().unzip();
        let is_keyed = self.definition().is_keyed();
        let attributes = self.definition().schema.attributes.iter().enumerate();
        let columns = attributes.map(|(at, attribute)| {
            let mut builder = ColumnBuilder::new(attribute.ty);
            fresh.iter().for_each(|(_, row)| builder.push(&row[at]));
            builder.finish()
        });
        let time = if time > 0 {
            time
        } else {
            crate::clock::millis()
        };
        let rows = Batch::new(
            columns.collect(),
            fresh.len(),
            Times::Same(time),
            Chunks::One,
            time,
        );
        let change = Change {
            deleted_ids: if is_keyed { Vec::new() } else { ids },
            deleted_keys: if is_keyed { keys } else { Vec::new() },
            ids: fresh.iter().map(|(id, _)| *id).collect(),
            rows,
        };
        self.state.is_dirty = true;
        self.state.apply(&change, self.place);
        self.changes.push(change);
        Ok(())
    }
}

/// The same changes as fewer: rows that come one after the other are one.
pub(crate) fn joined(definition: &Definition, changes: Vec<Change>) -> Vec<Change> {
    let only_adds =
        |change: &Change| change.deleted_ids.is_empty() && change.deleted_keys.is_empty();
    if changes.len() < 2 || !changes.iter().all(only_adds) {
        return changes;
    }
    let columns = (0..definition.width()).map(|at| {
        let parts: Vec<Column> = changes
            .iter()
            .map(|change| change.rows.columns[at].clone())
            .collect();
        Column::concat(&parts)
    });
    let columns: Vec<Column> = columns.collect();
    let times = changes
        .iter()
        .flat_map(|change| (0..change.rows.len).map(|row| change.rows.times.at(row)));
    let times = Times::per_row(times.collect());
    let ids: Vec<u64> = changes
        .iter()
        .flat_map(|change| change.ids.iter().copied())
        .collect();
    let rows = Batch::new(columns, ids.len(), times, Chunks::One, 0);
    vec![Change {
        deleted_ids: Vec::new(),
        deleted_keys: Vec::new(),
        ids,
        rows,
    }]
}
