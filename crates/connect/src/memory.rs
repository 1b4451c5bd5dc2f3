//! A store that keeps its rows in memory, behind the interface of external stores: for tests of the
//! layers before a store, and for apps of recorded cases that name such a store.
//!
//! Never: for tables of an app that runs; those are the engine's own.

use std::collections::HashMap;

use event::{Batch, Chunks, Column, ColumnBuilder, Schema, Times, Value};
use plan::store::{Operation, OperationId, OperationKind, Term};

use crate::component::{Answer, Epochs, Store, Written};
use crate::condition::{holds, is_plain, value};
use crate::error::Error;

pub struct MemoryStore {
    schema: Schema,
    key: Vec<usize>,
    rows: Vec<Vec<Value>>,
    operations: HashMap<OperationId, Operation>,
    /// A delete whose parameters are a whole row puts it in: what somebody else writes while a cache
    /// stands before the store.
    pub deletes_insert: bool,
}

impl MemoryStore {
    pub fn new(table: &plan::Table) -> MemoryStore {
        MemoryStore {
            schema: table.schema.clone(),
            key: table.primary_key.clone(),
            rows: Vec::new(),
            operations: HashMap::new(),
            deletes_insert: false,
        }
    }

    fn put(&mut self, row: Vec<Value>) -> Result<(), Error> {
        let same_key = |other: &Vec<Value>| self.key.iter().all(|at| other[*at] == row[*at]);
        if !self.key.is_empty() && self.rows.iter().any(same_key) {
            return Err(Error::failed(
                format!("insert into table '{}'", self.schema.name),
                "a row with that key already exists",
            ));
        }
        self.rows.push(row);
        Ok(())
    }

    fn update(&mut self, set: &[(usize, Term)], on: &Term, parameters: &[Value]) -> u64 {
        let mut count = 0;
        for row in self
            .rows
            .iter_mut()
            .filter(|row| holds(on, row, parameters))
        {
            let old = row.clone();
            for (attribute, term) in set {
                row[*attribute] = value(term, &old, parameters);
            }
            count += 1;
        }
        count
    }

    fn write(
        &mut self,
        kind: &OperationKind,
        parameters: &[Value],
        written: &mut Written,
    ) -> Result<(), Error> {
        let width = self.schema.attributes.len();
        match kind {
            OperationKind::Insert => {
                self.put(parameters[..width].to_vec())?;
                written.inserted += 1;
            }
            OperationKind::Delete { .. } if self.deletes_insert && parameters.len() == width => {
                self.rows.push(parameters.to_vec());
            }
            OperationKind::Delete { on } => {
                let before = self.rows.len();
                self.rows.retain(|row| !holds(on, row, parameters));
                written.deleted += (before - self.rows.len()) as u64;
            }
            OperationKind::Update { set, on } => {
                written.updated += self.update(set, on, parameters)
            }
            OperationKind::UpdateOrInsert { set, on } => match self.update(set, on, parameters) {
                0 => {
                    self.put(parameters[..width].to_vec())?;
                    written.inserted += 1;
                }
                count => written.updated += count,
            },
            OperationKind::Find { .. } | OperationKind::Contains { .. } => {}
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn connect(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(&mut self, id: OperationId, operation: &Operation) -> Result<(), Error> {
        let plain = match &operation.kind {
            OperationKind::Insert => true,
            OperationKind::Find { on } => on.as_ref().is_none_or(is_plain),
            OperationKind::Contains { on } | OperationKind::Delete { on } => is_plain(on),
            OperationKind::Update { set, on } | OperationKind::UpdateOrInsert { set, on } => {
                is_plain(on) && set.iter().all(|(_, term)| is_plain(term))
            }
        };
        if !plain {
            return Err(Error::refused(
                format!("table '{}'", self.schema.name),
                "a store in memory calls no functions in its conditions",
            ));
        }
        self.operations.insert(id, operation.clone());
        Ok(())
    }

    fn insert(&mut self, batch: &Batch) -> Result<(), Error> {
        (0..batch.len).try_for_each(|row| self.put(batch.row(row)))
    }

    fn execute(&mut self, id: OperationId, parameters: &Batch) -> Result<Answer, Error> {
        let Some(operation) = self.operations.get(&id).cloned() else {
            return Err(Error::failed(
                format!("operation {id}"),
                "it was not prepared",
            ));
        };
        let rows = || (0..parameters.len).map(|row| parameters.row(row));
        match &operation.kind {
            OperationKind::Find { on } => {
                let mut builders: Vec<ColumnBuilder> = self
                    .schema
                    .attributes
                    .iter()
                    .map(|a| ColumnBuilder::new(a.ty))
                    .collect();
                let (mut ends, mut count) = (Vec::new(), 0u32);
                for row in rows() {
                    let meant =
                        |found: &&Vec<Value>| on.as_ref().is_none_or(|on| holds(on, found, &row));
                    for found in self.rows.iter().filter(meant) {
                        builders
                            .iter_mut()
                            .zip(found)
                            .for_each(|(builder, value)| builder.push(value));
                        count += 1;
                    }
                    ends.push(count);
                }
                let columns: Vec<Column> =
                    builders.into_iter().map(ColumnBuilder::finish).collect();
                let batch = Batch::new(columns, count as usize, Times::Same(-1), Chunks::One, -1);
                Ok(Answer::Rows { batch, ends })
            }
            OperationKind::Contains { on } => Ok(Answer::Contains(
                rows()
                    .map(|row| self.rows.iter().any(|found| holds(on, found, &row)))
                    .collect(),
            )),
            kind => {
                let mut written = Written::default();
                for row in rows() {
                    self.write(kind, &row, &mut written)?;
                }
                Ok(Answer::Written(written))
            }
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Epochs for MemoryStore {
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn commit(&mut self, _: u64, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn abort(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn last_epoch(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        Ok(None)
    }
}
