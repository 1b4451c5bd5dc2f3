//! One table of an app in a database.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{Batch, Chunks, Column, ColumnBuilder, Schema, Times, Type};
use plan::store::{Operation, OperationId};
use plan::{Store as Annotation, Table};

use super::Databases;
use super::compare::differences;
use super::database::Database;
use super::dialect::Dialect;
use super::link::{Append, Bound, Fault, Found, Link, Statement};
use super::rows::{Binder, Check};
use super::statements::{Definition, Keys, Prepared, Writer, keys};
use super::url::Target;
use connect::component::{Answer, Difference, Epochs, Store, StoreSetup, Written};
use connect::error::Error;

pub struct TableStore {
    app: String,
    definition: Definition,
    allows_null: bool,
    /// `table.check.query`: fails where the table is not there.
    table_check: Option<String>,
    /// What the annotation calls the database, and what that is.
    address: String,
    target: Target,
    databases: Arc<Databases>,
    /// Open from `connect` to `close`.
    database: Option<Arc<Mutex<Database>>>,
    operations: Vec<Option<Prepared>>,
    append: Append,
    keys: Keys,
}

impl TableStore {
    pub fn new(
        setup: &StoreSetup<'_>,
        annotation: &Annotation,
        address: String,
        target: Target,
    ) -> Result<TableStore, Error> {
        let Table {
            schema,
            primary_key,
            indexes,
            ..
        } = setup.table;
        let name = annotation
            .option("table.name")
            .unwrap_or(&schema.name)
            .to_owned();
        if name.contains('\0') {
            return Err(refused(
                schema,
                "option 'table.name' holds a character that no name can",
            ));
        }
        let is_set = |option: &str| {
            annotation
                .option(option)
                .is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
        };
        let definition = Definition {
            lengths: lengths(schema, annotation.option("field.length"))?,
            schema: schema.clone(),
            name,
            primary_key: primary_key.clone(),
            indexes: indexes.clone(),
            has_collation: is_set("use.collation"),
        };
        let writer = Writer {
            definition: &definition,
            dialect: target.dialect(),
        };
        Ok(TableStore {
            app: setup.environment.app.clone(),
            append: writer.append(),
            definition,
            allows_null: is_set("allow.null.values"),
            table_check: annotation
                .option("table.check.query")
                .map(|query| query.trim().to_owned())
                .filter(|query| !query.is_empty()),
            address,
            target,
            databases: setup.environment.shared.get::<Databases>(),
            database: None,
            operations: Vec::new(),
            keys: Keys::default(),
        })
    }

    fn schema(&self) -> &Schema {
        &self.definition.schema
    }

    fn dialect(&self) -> &'static dyn Dialect {
        self.target.dialect()
    }

    fn writer(&self) -> Writer<'_> {
        Writer {
            definition: &self.definition,
            dialect: self.dialect(),
        }
    }

    fn database(&self) -> Result<MutexGuard<'_, Database>, Error> {
        match &self.database {
            Some(database) => Ok(database.lock().unwrap_or_else(PoisonError::into_inner)),
            None => Err(Error::unavailable(
                format!("table '{}'", self.schema().name),
                "its database is not open",
            )),
        }
    }

    // ---- creation ----

    /// Names of the columns; none where the table is missing.
    fn columns(&self, database: &mut Database) -> Result<Vec<String>, Error> {
        let query = self.dialect().columns_query(&self.definition.name);
        let rows = database.read("looking for the table", |link| link.list(&query))?;
        Ok(rows.into_iter().filter_map(first).collect())
    }

    fn create(&self, database: &mut Database) -> Result<(), Error> {
        for sql in self.writer().create() {
            match database.define("creating the table", &sql) {
                Ok(()) => {}
                // Another program was faster.
                Err(Error::Failed { cause, .. })
                    if cause.to_string().to_lowercase().contains("already exists") => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Does the table exist, by the app's own query or by the names of its columns?
    fn exists(&self, database: &mut Database, columns: &[String]) -> Result<bool, Error> {
        let Some(query) = &self.table_check else {
            return Ok(!columns.is_empty());
        };
        match database.read("looking for the table", |link| link.list(query)) {
            Ok(_) => Ok(true),
            // Any answer of the database but rows means that there is none (Siddhi's `tableExists`).
            Err(Error::Failed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A table that exists is used as it is; it must have a column for each attribute.
    fn check_columns(&self, columns: &[String]) -> Result<(), Error> {
        let missing = self.schema().attributes.iter().find(|attribute| {
            !columns
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&attribute.name))
        });
        let Some(missing) = missing else {
            return Ok(());
        };
        Err(Error::failed(
            format!("opening table '{}'", self.schema().name),
            format!(
                "table '{}' exists without a column '{}' (it has {}): name another table by \
                 option 'table.name', or add the column",
                self.definition.name,
                missing.name,
                columns.join(", ")
            ),
        ))
    }

    fn find_keys(&self, database: &mut Database) -> Result<Keys, Error> {
        if self.definition.primary_key.is_empty() {
            return Ok(Keys::default());
        }
        let query = self.dialect().unique_keys_query(&self.definition.name);
        let rows = database.read("looking for the key", |link| link.list(&query))?;
        let pairs = rows.into_iter().filter_map(|row| {
            let mut row = row.into_iter();
            Some((row.next()??, row.next()??))
        });
        Ok(keys(&self.definition, &pairs.collect::<Vec<_>>()))
    }

    // ---- writing ----

    fn binders<'a>(&'a self, columns: &'a [Column]) -> Result<Vec<Binder<'a>>, Error> {
        let attributes = &self.schema().attributes;
        if columns.len() < attributes.len() {
            return Err(Error::failed(
                format!("writing to table '{}'", self.schema().name),
                format!(
                    "a row has {} values, it needs {}",
                    columns.len(),
                    attributes.len()
                ),
            ));
        }
        let attributes = attributes.iter().zip(&self.definition.lengths);
        Ok(attributes
            .zip(columns)
            .map(|((attribute, length), column)| {
                let may_be_null = self.allows_null || attribute.ty == Type::String;
                Binder::new(column, attribute, *length, may_be_null)
            })
            .collect())
    }

    fn write(&self, prepared: &Prepared, batch: &Batch) -> Result<Written, Error> {
        let rows = batch.len;
        let mut written = Written::default();
        let mut database = self.database()?;
        let limits = self.dialect().limits();
        match prepared {
            Prepared::Insert => {
                let binders = self.binders(&batch.columns)?;
                database.write("inserting", rows, |link| {
                    let check = Check::new(&binders, limits);
                    check.rows(rows).map_err(Fault::refused)?;
                    link.append(&self.append, &binders, rows)
                })?;
                written.inserted = rows as u64;
            }
            Prepared::Write {
                statement,
                parameters,
                is_delete,
            } => {
                let binders = plain(parameters, batch);
                let count = database.write("writing", rows, |link| {
                    let check = Check::new(&binders, limits);
                    check.rows(rows).map_err(Fault::refused)?;
                    link.write(Bound::new(statement, &binders), 0..rows)
                })?;
                match is_delete {
                    true => written.deleted = count,
                    false => written.updated = count,
                }
            }
            Prepared::Upsert {
                statement,
                parameters,
            } => {
                let row_binders = self.binders(&batch.columns)?;
                let binders = plain(parameters, batch);
                written = database.write("writing", rows, |link| {
                    let check = Check::new(&row_binders, limits);
                    check.rows(rows).map_err(Fault::refused)?;
                    link.upsert(Bound::new(statement, &binders), rows)
                })?;
            }
            Prepared::UpdateOrInsert {
                update,
                insert,
                parameters,
            } => {
                let row_binders = self.binders(&batch.columns)?;
                let binders = plain(parameters, batch);
                written = database.write("writing", rows, |link| {
                    let check = Check::new(&row_binders, limits);
                    let statements = (update, insert);
                    update_or_insert(link, statements, &binders, (&row_binders, &check), rows)
                })?;
            }
            Prepared::Find { .. } | Prepared::Contains { .. } => {}
        }
        Ok(written)
    }

    // ---- reading ----

    fn find(
        &self,
        statement: &Statement,
        parameters: &[Type],
        batch: &Batch,
    ) -> Result<Answer, Error> {
        let binders = plain(parameters, batch);
        let mut found = Found::new(&self.schema().attributes, self.allows_null);
        let mut ends = Vec::with_capacity(batch.len);
        self.database()?.read("reading", |link| {
            for row in 0..batch.len {
                link.find(Bound::new(statement, &binders), row, &mut found)?;
                ends.push(found.count);
            }
            Ok(())
        })?;
        let rows = found.count as usize;
        let columns = found.builders.into_iter();
        let columns: Vec<Column> = columns.map(ColumnBuilder::finish).collect();
        let batch = Batch::new(columns, rows, Times::Same(-1), Chunks::One, -1);
        Ok(Answer::Rows { batch, ends })
    }

    fn contains(
        &self,
        statement: &Statement,
        parameters: &[Type],
        batch: &Batch,
    ) -> Result<Answer, Error> {
        let binders = plain(parameters, batch);
        let mut database = self.database()?;
        let answers = database.read("reading", |link| {
            let rows = 0..batch.len;
            rows.map(|row| link.contains(Bound::new(statement, &binders), row))
                .collect::<Result<Vec<bool>, Fault>>()
        })?;
        Ok(Answer::Contains(answers))
    }
}

/// Parameters as they are, in the types that the operation declares.
fn plain<'a>(types: &[Type], batch: &'a Batch) -> Vec<Binder<'a>> {
    let columns = types.iter().zip(&batch.columns);
    columns
        .map(|(ty, column)| Binder::parameter(column, *ty))
        .collect()
}

/// Row by row, because a row may update what the row before it has inserted.
fn update_or_insert(
    link: &mut dyn Link,
    (update, insert): (&Statement, &Statement),
    binders: &[Binder<'_>],
    (row_binders, check): (&[Binder<'_>], &Check<'_, '_>),
    rows: usize,
) -> Result<Written, Fault> {
    let mut written = Written::default();
    for row in 0..rows {
        let count = link.write(Bound::new(update, binders), row..row + 1)?;
        written.updated += count;
        if count == 0 {
            let checked = check.row(row);
            checked.map_err(|cause| Fault::refused(cause).at(row))?;
            link.write(Bound::new(insert, row_binders), row..row + 1)?;
            written.inserted += 1;
        }
    }
    Ok(written)
}

fn first(row: Vec<Option<String>>) -> Option<String> {
    row.into_iter().next().flatten()
}

fn refused(schema: &Schema, message: impl Into<String>) -> Error {
    Error::refused(format!("table '{}'", schema.name), message)
}
/// `field.length='column:length,…'`.
fn lengths(schema: &Schema, text: Option<&str>) -> Result<Vec<Option<u32>>, Error> {
    let mut lengths = vec![None; schema.attributes.len()];
    for pair in text
        .unwrap_or("")
        .split(',')
        .filter(|pair| !pair.trim().is_empty())
    {
        let parsed = pair.split_once(':').and_then(|(name, length)| {
            Some((
                name.trim(),
                length.trim().parse::<u32>().ok().filter(|l| *l > 0)?,
            ))
        });
        let Some((name, length)) = parsed else {
            return Err(refused(
                schema,
                format!(
                    "option 'field.length' holds '{}': write column:length",
                    pair.trim()
                ),
            ));
        };
        let Some(index) = schema.attributes.iter().position(|a| a.name == name) else {
            return Err(refused(
                schema,
                format!("option 'field.length' names '{name}', which is not an attribute"),
            ));
        };
        lengths[index] = Some(length);
    }
    Ok(lengths)
}

impl Store for TableStore {
    fn probe(&mut self) -> Result<Vec<Difference>, Error> {
        let Some(mut link) = super::look(&self.target)? else {
            return Ok(Vec::new());
        };
        differences(link.as_mut(), &self.definition.name, self.schema())
            .map_err(|fault| super::opening(&self.target.display_name(), fault))
    }

    fn connect(&mut self) -> Result<(), Error> {
        if self.database.is_none() {
            self.database = Some(self.databases.open(&self.address, &self.target)?);
        }
        let mut database = self.database()?;
        database.enlist(&self.app);
        database.reach()?;
        let mut columns = self.columns(&mut database)?;
        if !self.exists(&mut database, &columns)? {
            self.create(&mut database)?;
            columns = self.columns(&mut database)?;
        }
        self.check_columns(&columns)?;
        let keys = self.find_keys(&mut database)?;
        drop(database);
        self.keys = keys;
        Ok(())
    }

    fn prepare(&mut self, id: OperationId, operation: &Operation) -> Result<(), Error> {
        let prepared = self.writer().prepare(operation, self.keys);
        let prepared = prepared.map_err(|message| refused(self.schema(), message))?;
        if self.operations.len() <= id {
            self.operations.resize_with(id + 1, || None);
        }
        self.operations[id] = Some(prepared);
        Ok(())
    }

    fn insert(&mut self, batch: &Batch) -> Result<(), Error> {
        self.write(&Prepared::Insert, batch).map(|_| ())
    }

    fn execute(&mut self, id: OperationId, parameters: &Batch) -> Result<Answer, Error> {
        let Some(Some(prepared)) = self.operations.get(id) else {
            return Err(Error::failed(
                format!("operation {id} on table '{}'", self.schema().name),
                "it was not prepared",
            ));
        };
        match prepared {
            Prepared::Find {
                statement,
                parameters: types,
            } => self.find(statement, types, parameters),
            Prepared::Contains {
                statement,
                parameters: types,
            } => self.contains(statement, types, parameters),
            prepared => self.write(prepared, parameters).map(Answer::Written),
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        self.database = None;
        Ok(())
    }
}

impl Epochs for TableStore {
    fn begin(&mut self) -> Result<(), Error> {
        self.database()?.begin()
    }

    fn commit(&mut self, epoch: u64, positions: &[u8]) -> Result<(), Error> {
        self.database()?.commit(epoch, positions)
    }

    fn abort(&mut self) -> Result<(), Error> {
        self.database()?.abort()
    }

    fn has_lost(&self) -> bool {
        self.database().is_ok_and(|database| database.has_lost())
    }

    fn last_epoch(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        self.database()?.last_epoch(&self.app)
    }
}
