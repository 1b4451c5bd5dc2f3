//! Batches of rows for a table: all of them count at once, or none does.
//!
//! Promises: a reader sees the rows before a batch or those after it, whenever the process is killed; a batch
//! needs no more memory than a part of it. An app may write the same table meanwhile: what it has committed
//! before the batch counts before it. Never: a batch that waits for an app without end.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array};
use event::{Column, ColumnBuilder, Type};

use crate::definition::Definition;
use crate::error::Error;
use crate::file::append;
use crate::reader::Reader;
use crate::store::EventStore;
use crate::table::Batch;

pub use crate::table::Mode;

/// Rows on their way into a table.
pub struct BatchWriter<'a> {
    store: &'a EventStore,
    /// Taken at the end.
    batch: Option<Batch>,
}

impl EventStore {
    /// What is committed now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn reader(&self) -> Result<Reader, Error> {
        Reader::open(self.dir())
    }

    /// The folder of the store.
    pub fn dir(&self) -> &Path {
        self.shared().dir()
    }

    /// Begins a batch for a table, which is made where it is missing.
    ///
    /// # Errors
    /// The table is there with other columns or another key, or cannot be made.
    pub fn batch(&self, definition: &Definition) -> Result<BatchWriter<'_>, Error> {
        let table = self.shared().table(definition)?;
        Ok(BatchWriter {
            store: self,
            batch: Some(Batch::new(&table)),
        })
    }
}

impl BatchWriter<'_> {
    /// Rows by columns, in the order and of the types of the table's; `times` are those of the rows, or now.
    ///
    /// # Errors
    /// A column has another type, or a file cannot be written.
    pub fn push(&mut self, columns: &[ArrayRef], times: Option<&Int64Array>) -> Result<(), Error> {
        let Some(batch) = &mut self.batch else {
            return Ok(());
        };
        let len = columns.first().map_or(0, |column| column.len());
        let attributes = batch.definition().schema.attributes.iter();
        let mut builders = Vec::with_capacity(columns.len());
        for (attribute, array) in attributes.zip(columns) {
            let builder = built(array, attribute.ty).ok_or_else(|| {
                Error::Refused(format!(
                    "column '{}' is {}, and its values are {}",
                    attribute.name,
                    attribute.ty,
                    array.data_type()
                ))
            })?;
            builders.push(builder);
        }
        let now = crate::clock::millis();
        let times = match times {
            Some(times) => times.iter().map(|time| time.unwrap_or(now)).collect(),
            None => vec![now; len],
        };
        let first = self.store.shared().log.take_rows(len);
        batch.push(builders, times, first)
    }

    /// Makes the rows count; how many came.
    ///
    /// # Errors
    /// None of them counts, unless the disk failed while the commit was written.
    pub fn commit(mut self, mode: Mode) -> Result<u64, Error> {
        let Some(batch) = self.batch.take() else {
            return Ok(0);
        };
        let shared = Arc::clone(self.store.shared());
        let begun = Instant::now();
        let count = batch.commit(mode, shared.id(), &|table| shared.quiet(table, begun))?;
        // Small files of many batches become large ones.
        shared.wake();
        Ok(count)
    }
}

/// The values of an array as those of a column; `None` if they have another type.
pub fn column(array: &ArrayRef, ty: Type) -> Option<Column> {
    built(array, ty).map(ColumnBuilder::finish)
}

fn built(array: &ArrayRef, ty: Type) -> Option<ColumnBuilder> {
    let mut builder = ColumnBuilder::new(ty);
    append(array, ty, &mut builder).then_some(builder)
}

impl Drop for BatchWriter<'_> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            batch.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use arrow_array::StringArray;
    use event::{Attribute, Schema, Value};

    fn definition(name: &str, key: Vec<usize>) -> Definition {
        let attributes = [("k", Type::String), ("v", Type::Long)];
        let attributes = attributes.iter().map(|(name, ty)| Attribute {
            name: (*name).to_owned(),
            ty: *ty,
        });
        let schema = Schema {
            name: name.into(),
            attributes: attributes.collect(),
        };
        Definition::new(name, schema, key).expect("plain names")
    }

    fn put(writer: &mut BatchWriter<'_>, rows: &[(&str, i64)]) {
        let keys = StringArray::from_iter_values(rows.iter().map(|(key, _)| key));
        let values = Int64Array::from_iter_values(rows.iter().map(|(_, value)| *value));
        let columns: [ArrayRef; 2] = [Arc::new(keys), Arc::new(values)];
        writer.push(&columns, None).expect("it fits");
    }

    fn batch(store: &EventStore, definition: &Definition, mode: Mode, rows: &[(&str, i64)]) {
        let mut writer = store.batch(definition).expect("a table");
        put(&mut writer, rows);
        assert_eq!(writer.commit(mode).expect("committed"), rows.len() as u64);
    }

    fn rows(store: &EventStore, table: &str) -> Vec<(String, i64)> {
        let all = store
            .reader()
            .expect("a store")
            .rows(table)
            .expect("a table");
        let row = |at: usize| match &all.row(at)[..] {
            [Value::Str(key), Value::Long(value)] => (key.to_string(), *value),
            other => panic!("{other:?}"),
        };
        let mut rows: Vec<_> = (0..all.len).map(row).collect();
        rows.sort();
        rows
    }

    fn owned(rows: &[(&str, i64)]) -> Vec<(String, i64)> {
        rows.iter()
            .map(|(key, value)| ((*key).to_owned(), *value))
            .collect()
    }

    #[test]
    fn a_batch_counts_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a folder");
        let plain = definition("plain", Vec::new());
        let store = EventStore::open(dir.path()).expect("a store");
        batch(&store, &plain, Mode::Append, &[("a", 1), ("b", 2)]);
        let mut given_up = store.batch(&plain).expect("a table");
        put(&mut given_up, &[("c", 3)]);
        assert_eq!(rows(&store, "plain"), owned(&[("a", 1), ("b", 2)]));
        drop(given_up);
        batch(&store, &plain, Mode::Append, &[("a", 1)]);
        assert_eq!(
            rows(&store, "plain"),
            owned(&[("a", 1), ("a", 1), ("b", 2)])
        );
        drop(store);
        // Numbers go on after a restart, though the log knows of no row.
        let store = EventStore::open(dir.path()).expect("a store");
        batch(&store, &plain, Mode::Append, &[("d", 4)]);
        let mut ids = Vec::new();
        let scan = store
            .reader()
            .expect("a store")
            .scan("plain")
            .expect("a table");
        scan.batches(&mut |batch| {
            let column = batch.column(0).as_any().downcast_ref::<Int64Array>();
            ids.extend(column.expect("numbers").iter().flatten());
            Ok(true)
        })
        .expect("read");
        assert_eq!(
            (ids.len(), ids.iter().collect::<HashSet<_>>().len()),
            (4, 4)
        );
        batch(&store, &plain, Mode::Overwrite, &[("z", 9)]);
        assert_eq!(rows(&store, "plain"), owned(&[("z", 9)]));
        batch(&store, &plain, Mode::Overwrite, &[]);
        assert_eq!(rows(&store, "plain"), owned(&[]));
    }

    #[test]
    fn the_newest_row_of_a_key_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let keyed = definition("keyed", vec![0]);
        let store = EventStore::open(dir.path()).expect("a store");
        batch(
            &store,
            &keyed,
            Mode::Append,
            &[("b", 1), ("a", 1), ("b", 2)],
        );
        assert_eq!(rows(&store, "keyed"), owned(&[("a", 1), ("b", 2)]));
        batch(&store, &keyed, Mode::Append, &[("c", 1), ("b", 3)]);
        assert_eq!(
            rows(&store, "keyed"),
            owned(&[("a", 1), ("b", 3), ("c", 1)])
        );
        let mut writer = store.batch(&keyed).expect("a table");
        for part in [[("d", 1), ("e", 1)], [("d", 2), ("f", 1)]] {
            put(&mut writer, &part);
        }
        writer.commit(Mode::Overwrite).expect("committed");
        drop(store);
        let store = EventStore::open(dir.path()).expect("a store");
        assert_eq!(
            rows(&store, "keyed"),
            owned(&[("d", 2), ("e", 1), ("f", 1)])
        );
        assert!(store.batch(&definition("keyed", Vec::new())).is_err());
    }

    #[test]
    fn rows_with_a_key_that_are_more_than_memory_takes_are_merged() {
        let dir = tempfile::tempdir().expect("a folder");
        let keyed = definition("keyed", vec![0]);
        let store = EventStore::open(dir.path()).expect("a store");
        let long = "x".repeat(4 << 10);
        // Twice, so that the second batch is merged with the files of the first, in more than one part.
        for value in 0..2 {
            let mut writer = store.batch(&keyed).expect("a table");
            for part in 0..20 {
                let keys: Vec<String> = (0..500)
                    .map(|n| format!("{:05}{long}", n * 20 + part))
                    .collect();
                let rows: Vec<(&str, i64)> = keys.iter().map(|key| (key.as_str(), value)).collect();
                put(&mut writer, &rows);
            }
            writer.commit(Mode::Append).expect("committed");
            let found = rows(&store, "keyed");
            assert_eq!(found.len(), 10_000);
            assert!(found.iter().all(|(_, found)| *found == value));
        }
    }
}
