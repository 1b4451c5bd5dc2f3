//! One table of an app in the embedded database.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{Batch, Chunks, Column, ColumnBuilder, Schema, Times, Type};
use lang::plan::{Store as Annotation, Table};
use lang::store::{Operation, OperationId, OperationKind, Term, TermKind};
use rusqlite::{Connection, Statement};

use super::Databases;
use super::dialect::{column_type, quoted};
use super::rows::{Binder, bind_row, check_row, read_value};
use super::sql;
use super::sqlite::{Database, WriteError, has_table};
use super::url::Target;
use crate::component::{Answer, Store, StoreSetup, Written};
use crate::error::Error;

/// Rows of one INSERT statement while many are written: fewer steps of the virtual machine.
const INSERT_ROWS: usize = 32;

/// Parameters of one statement, a limit of SQLite.
const PARAMETERS_MAX: usize = 32_766;

pub struct TableStore {
    app: String,
    schema: Schema,
    /// Name in the database.
    name: String,
    primary_key: Vec<usize>,
    indexes: Vec<Vec<usize>>,
    /// `field.length` by attribute: a longer text is refused.
    lengths: Vec<Option<u32>>,
    allows_null: bool,
    /// What the annotation calls the database, and what that is.
    address: String,
    target: Target,
    databases: Arc<Databases>,
    /// Open from `connect` to `close`.
    database: Option<Arc<Mutex<Database>>>,
    operations: Vec<Option<Prepared>>,
    insert_one: String,
    insert_many: String,
    insert_rows: usize,
    /// The table's primary key is one that `ON CONFLICT` may name.
    has_key: bool,
}

/// An operation as statements.
enum Prepared {
    Insert,
    Find {
        sql: String,
        parameters: Vec<Type>,
    },
    Contains {
        sql: String,
        parameters: Vec<Type>,
    },
    Write {
        sql: String,
        parameters: Vec<Type>,
        is_delete: bool,
    },
    /// One statement that inserts or updates.
    Upsert {
        sql: String,
        parameters: Vec<Type>,
    },
    /// Update; where nothing was updated, insert.
    UpdateOrInsert {
        update: String,
        insert: String,
        parameters: Vec<Type>,
    },
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
        let columns: Vec<String> = schema.attributes.iter().map(|a| quoted(&a.name)).collect();
        let columns = columns.join(", ");
        let width = schema.attributes.len();
        let insert_rows = INSERT_ROWS.min(PARAMETERS_MAX / width.max(1)).max(1);
        let values = |rows: usize| {
            let row = format!("({})", vec!["?"; width].join(", "));
            let rows = vec![row; rows].join(", ");
            format!("INSERT INTO {} ({columns}) VALUES {rows}", quoted(&name))
        };
        Ok(TableStore {
            app: setup.environment.app.clone(),
            insert_one: values(1),
            insert_many: values(insert_rows),
            insert_rows,
            lengths: lengths(schema, annotation.option("field.length"))?,
            allows_null: annotation
                .option("allow.null.values")
                .is_some_and(|text| text.trim().eq_ignore_ascii_case("true")),
            schema: schema.clone(),
            name,
            primary_key: primary_key.clone(),
            indexes: indexes.clone(),
            address,
            target,
            databases: Arc::clone(&setup.environment.databases),
            database: None,
            operations: Vec::new(),
            has_key: false,
        })
    }

    fn database(&self) -> Result<MutexGuard<'_, Database>, Error> {
        match &self.database {
            Some(database) => Ok(database.lock().unwrap_or_else(PoisonError::into_inner)),
            None => Err(Error::unavailable(
                format!("table '{}'", self.schema.name),
                "its database is not open",
            )),
        }
    }

    fn column(&self, index: usize) -> String {
        quoted(&self.schema.attributes[index].name)
    }

    fn columns(&self, indexes: &[usize]) -> String {
        let names: Vec<String> = indexes.iter().map(|index| self.column(*index)).collect();
        names.join(", ")
    }

    // ---- creation ----

    fn create(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut parts: Vec<String> = Vec::new();
        for (index, attribute) in self.schema.attributes.iter().enumerate() {
            // H2 and MySQL do not take null in a key; SQLite would.
            let not_null = if self.primary_key.contains(&index) {
                " NOT NULL"
            } else {
                ""
            };
            let ty = column_type(attribute.ty, self.lengths[index]);
            parts.push(format!("{} {ty}{not_null}", quoted(&attribute.name)));
        }
        if !self.primary_key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", self.columns(&self.primary_key)));
        }
        let table = quoted(&self.name);
        connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {table} ({})",
            parts.join(", ")
        ))?;
        for (number, index) in self.indexes.iter().enumerate() {
            let name = quoted(&format!("{}_INDEX_{}", self.name, number + 1));
            connection.execute_batch(&format!(
                "CREATE INDEX IF NOT EXISTS {name} ON {table} ({})",
                self.columns(index)
            ))?;
        }
        Ok(())
    }

    /// A table that exists is used as it is; it must have a column for each attribute.
    fn check_columns(&self, connection: &Connection) -> Result<(), WriteError> {
        let mut statement =
            connection.prepare(&format!("PRAGMA table_info({})", quoted(&self.name)))?;
        let names: Vec<String> = statement
            .query_map([], |row| row.get("name"))?
            .collect::<Result<_, _>>()?;
        for attribute in &self.schema.attributes {
            if !names
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&attribute.name))
            {
                return Err(WriteError::Refused(format!(
                    "table '{}' exists without a column '{}' (it has {}): name another table by \
                     option 'table.name', or add the column",
                    self.name,
                    attribute.name,
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Is there a unique index over exactly the primary key's columns?
    fn find_key(&self, connection: &Connection) -> rusqlite::Result<bool> {
        if self.primary_key.is_empty() {
            return Ok(false);
        }
        let mut wanted: Vec<String> = self
            .primary_key
            .iter()
            .map(|i| self.schema.attributes[*i].name.to_lowercase())
            .collect();
        wanted.sort();
        let table = quoted(&self.name);
        let mut statement = connection.prepare(&format!("PRAGMA table_info({table})"))?;
        let mut own: Vec<String> = statement
            .query_map([], |row| {
                Ok((row.get::<_, String>("name")?, row.get::<_, i64>("pk")?))
            })?
            .filter_map(|found| found.ok().filter(|(_, pk)| *pk > 0))
            .map(|(name, _)| name.to_lowercase())
            .collect();
        own.sort();
        if own == wanted {
            return Ok(true);
        }
        let mut statement = connection.prepare(&format!("PRAGMA index_list({table})"))?;
        let unique: Vec<String> = statement
            .query_map([], |row| {
                let whole = row.get::<_, bool>("unique")? && !row.get::<_, bool>("partial")?;
                Ok((row.get::<_, String>("name")?, whole))
            })?
            .filter_map(|found| found.ok().filter(|(_, whole)| *whole))
            .map(|(name, _)| name)
            .collect();
        for index in unique {
            let mut statement =
                connection.prepare(&format!("PRAGMA index_info({})", quoted(&index)))?;
            let mut columns: Vec<String> = statement
                .query_map([], |row| row.get::<_, Option<String>>("name"))?
                .map(|name| name.map(|name| name.unwrap_or_default().to_lowercase()))
                .collect::<Result<_, _>>()?;
            columns.sort();
            if columns == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    // ---- operations ----

    fn compile(&self, operation: &Operation) -> Result<Prepared, String> {
        let table = quoted(&self.name);
        let parameters = operation.parameters.clone();
        let condition = |on: &Term| sql::condition(&self.schema, on);
        Ok(match &operation.kind {
            OperationKind::Insert => Prepared::Insert,
            OperationKind::Find { on } => {
                let all: Vec<usize> = (0..self.schema.attributes.len()).collect();
                let filter = match on {
                    Some(on) => format!(" WHERE {}", condition(on)?),
                    None => String::new(),
                };
                let sql = format!("SELECT {} FROM {table}{filter}", self.columns(&all));
                Prepared::Find { sql, parameters }
            }
            OperationKind::Contains { on } => Prepared::Contains {
                sql: format!("SELECT 1 FROM {table} WHERE {} LIMIT 1", condition(on)?),
                parameters,
            },
            OperationKind::Delete { on } => Prepared::Write {
                sql: format!("DELETE FROM {table} WHERE {}", condition(on)?),
                parameters,
                is_delete: true,
            },
            OperationKind::Update { set, on } => Prepared::Write {
                sql: format!(
                    "UPDATE {table} SET {} WHERE {}",
                    self.set(set)?,
                    condition(on)?
                ),
                parameters,
                is_delete: false,
            },
            OperationKind::UpdateOrInsert { set, on } => {
                let insert = self.insert_numbered();
                if self.is_key_equality(on) && !set.is_empty() {
                    let key = self.columns(&self.primary_key);
                    let set = self.set(set)?;
                    let sql = format!("{insert} ON CONFLICT ({key}) DO UPDATE SET {set}");
                    return Ok(Prepared::Upsert { sql, parameters });
                }
                Prepared::UpdateOrInsert {
                    update: format!(
                        "UPDATE {table} SET {} WHERE {}",
                        self.set(set)?,
                        condition(on)?
                    ),
                    insert,
                    parameters,
                }
            }
        })
    }

    fn set(&self, set: &[(usize, Term)]) -> Result<String, String> {
        let parts = set
            .iter()
            .map(|(index, term)| {
                let value = sql::value(&self.schema, term)?;
                Ok(format!("{} = {value}", self.column(*index)))
            })
            .collect::<Result<Vec<String>, String>>()?;
        Ok(parts.join(", "))
    }

    /// An INSERT whose values are the first parameters by number.
    fn insert_numbered(&self) -> String {
        let all: Vec<usize> = (0..self.schema.attributes.len()).collect();
        let values: Vec<String> = all.iter().map(|index| format!("?{}", index + 1)).collect();
        format!(
            "INSERT INTO {} ({}) VALUES ({})",
            quoted(&self.name),
            self.columns(&all),
            values.join(", ")
        )
    }

    /// Does the condition say that the key equals the key of the row that would be inserted? Then a
    /// conflict on the key is the same question.
    fn is_key_equality(&self, on: &Term) -> bool {
        let mut found = Vec::new();
        let mut open = vec![on];
        while let Some(term) = open.pop() {
            match &term.kind {
                TermKind::And(left, right) => open.extend([left.as_ref(), right.as_ref()]),
                TermKind::Compare(lang::plan::CompareOp::Equal, left, right) => {
                    match (&left.kind, &right.kind) {
                        (TermKind::Column(column), TermKind::Parameter(parameter))
                        | (TermKind::Parameter(parameter), TermKind::Column(column))
                            if column == parameter =>
                        {
                            found.push(*column);
                        }
                        _ => return false,
                    }
                }
                _ => return false,
            }
        }
        found.sort_unstable();
        let mut key = self.primary_key.clone();
        key.sort_unstable();
        self.has_key && found == key
    }

    fn insert_rows(
        &self,
        connection: &Connection,
        columns: &[Column],
        rows: usize,
    ) -> Result<u64, WriteError> {
        let binders: Vec<Binder<'_>> = self.binders(columns)?;
        let width = binders.len();
        let mut row = 0;
        if rows >= self.insert_rows {
            let mut many = connection.prepare_cached(&self.insert_many)?;
            while row + self.insert_rows <= rows {
                for (slot, row) in (row..row + self.insert_rows).enumerate() {
                    self.checked_bind(&mut many, &binders, slot * width, row)?;
                }
                many.raw_execute()?;
                row += self.insert_rows;
            }
        }
        if row < rows {
            let mut one = connection.prepare_cached(&self.insert_one)?;
            while row < rows {
                self.checked_bind(&mut one, &binders, 0, row)?;
                one.raw_execute()?;
                row += 1;
            }
        }
        Ok(rows as u64)
    }

    fn binders<'a>(&'a self, columns: &'a [Column]) -> Result<Vec<Binder<'a>>, WriteError> {
        if columns.len() != self.schema.attributes.len() {
            return Err(WriteError::Refused(format!(
                "a row for table '{}' has {} values, it needs {}",
                self.schema.name,
                columns.len(),
                self.schema.attributes.len()
            )));
        }
        let attributes = self.schema.attributes.iter().zip(&self.lengths);
        Ok(attributes
            .zip(columns)
            .map(|((attribute, length), column)| {
                let may_be_null = self.allows_null || attribute.ty == Type::String;
                Binder::new(column, attribute, *length, may_be_null)
            })
            .collect())
    }

    fn checked_bind(
        &self,
        statement: &mut Statement<'_>,
        binders: &[Binder<'_>],
        offset: usize,
        row: usize,
    ) -> Result<(), WriteError> {
        check_row(binders, row)
            .map_err(|cause| WriteError::Refused(format!("row {}: {cause}", row + 1)))?;
        Ok(bind_row(statement, binders, offset, row)?)
    }

    /// Parameters as they are, in the types that the operation declares.
    /// Only those that the statement mentions.
    fn parameters<'a>(
        statement: &Statement<'_>,
        types: &[Type],
        columns: &'a [Column],
    ) -> Vec<Binder<'a>> {
        let used = statement.parameter_count();
        types
            .iter()
            .zip(columns)
            .take(used)
            .map(|(ty, column)| Binder::parameter(column, *ty))
            .collect()
    }

    fn write(&self, prepared: &Prepared, batch: &Batch) -> Result<Written, Error> {
        let mut database = self.database()?;
        let (columns, rows) = (&batch.columns, batch.len);
        match prepared {
            Prepared::Insert => {
                let inserted = database.write("inserting", rows, |connection| {
                    self.insert_rows(connection, columns, rows)
                })?;
                Ok(Written {
                    inserted,
                    ..Written::default()
                })
            }
            Prepared::Write {
                sql,
                parameters,
                is_delete,
            } => {
                let count = database.write("writing", rows, |connection| {
                    let mut statement = connection.prepare_cached(sql)?;
                    let binders = Self::parameters(&statement, parameters, columns);
                    let mut count = 0;
                    for row in 0..rows {
                        bind_row(&mut statement, &binders, 0, row)?;
                        count += statement.raw_execute()? as u64;
                    }
                    Ok(count)
                })?;
                Ok(if *is_delete {
                    Written {
                        deleted: count,
                        ..Written::default()
                    }
                } else {
                    Written {
                        updated: count,
                        ..Written::default()
                    }
                })
            }
            Prepared::Upsert { sql, parameters } => database.write("writing", rows, |connection| {
                self.upsert(connection, sql, parameters, columns, rows)
            }),
            Prepared::UpdateOrInsert {
                update,
                insert,
                parameters,
            } => database.write("writing", rows, |connection| {
                self.update_or_insert(connection, update, insert, parameters, columns, rows)
            }),
            Prepared::Find { .. } | Prepared::Contains { .. } => Ok(Written::default()),
        }
    }

    fn upsert(
        &self,
        connection: &Connection,
        sql: &str,
        parameters: &[Type],
        columns: &[Column],
        rows: usize,
    ) -> Result<Written, WriteError> {
        let mut statement = connection.prepare_cached(sql)?;
        let binders = Self::parameters(&statement, parameters, columns);
        let row_binders =
            self.binders(&columns[..self.schema.attributes.len().min(columns.len())])?;
        let mut written = Written::default();
        let mut last = connection.last_insert_rowid();
        for row in 0..rows {
            check_row(&row_binders, row).map_err(WriteError::Refused)?;
            bind_row(&mut statement, &binders, 0, row)?;
            statement.raw_execute()?;
            // Only an insert moves it.
            let now = connection.last_insert_rowid();
            if now == last {
                written.updated += 1;
            } else {
                written.inserted += 1;
            }
            last = now;
        }
        Ok(written)
    }

    fn update_or_insert(
        &self,
        connection: &Connection,
        update: &str,
        insert: &str,
        parameters: &[Type],
        columns: &[Column],
        rows: usize,
    ) -> Result<Written, WriteError> {
        let mut update = connection.prepare_cached(update)?;
        let mut insert = connection.prepare_cached(insert)?;
        let binders = Self::parameters(&update, parameters, columns);
        let row_binders =
            self.binders(&columns[..self.schema.attributes.len().min(columns.len())])?;
        let mut written = Written::default();
        for row in 0..rows {
            bind_row(&mut update, &binders, 0, row)?;
            let count = update.raw_execute()? as u64;
            written.updated += count;
            if count == 0 {
                check_row(&row_binders, row).map_err(WriteError::Refused)?;
                bind_row(&mut insert, &row_binders, 0, row)?;
                insert.raw_execute()?;
                written.inserted += 1;
            }
        }
        Ok(written)
    }

    // ---- reading ----

    fn find(&self, sql: &str, parameters: &[Type], batch: &Batch) -> Result<Answer, Error> {
        let database = self.database()?;
        let mut builders: Vec<ColumnBuilder> = self
            .schema
            .attributes
            .iter()
            .map(|a| ColumnBuilder::new(a.ty))
            .collect();
        let mut ends = Vec::with_capacity(batch.len);
        let mut count = 0u32;
        let mut work = |connection: &Connection| -> Result<(), WriteError> {
            let mut statement = connection.prepare_cached(sql)?;
            let binders = Self::parameters(&statement, parameters, &batch.columns);
            for row in 0..batch.len {
                bind_row(&mut statement, &binders, 0, row)?;
                let mut found = statement.raw_query();
                while let Some(found) = found.next()? {
                    for (index, builder) in builders.iter_mut().enumerate() {
                        let attribute = &self.schema.attributes[index];
                        read_value(found.get_ref(index)?, attribute, self.allows_null, builder)
                            .map_err(WriteError::Refused)?;
                    }
                    count += 1;
                }
                ends.push(count);
            }
            Ok(())
        };
        let result = work(database.connection());
        Self::read_result(&database, result)?;
        let columns: Vec<Column> = builders.into_iter().map(ColumnBuilder::finish).collect();
        let rows = count as usize;
        let batch = Batch::new(columns, rows, Times::Same(-1), Chunks::One, -1);
        Ok(Answer::Rows { batch, ends })
    }

    fn contains(&self, sql: &str, parameters: &[Type], batch: &Batch) -> Result<Answer, Error> {
        let database = self.database()?;
        let work = |connection: &Connection| -> Result<Vec<bool>, WriteError> {
            let mut statement = connection.prepare_cached(sql)?;
            let binders = Self::parameters(&statement, parameters, &batch.columns);
            let mut answers = Vec::with_capacity(batch.len);
            for row in 0..batch.len {
                bind_row(&mut statement, &binders, 0, row)?;
                answers.push(statement.raw_query().next()?.is_some());
            }
            Ok(answers)
        };
        let result = work(database.connection());
        Self::read_result(&database, result).map(Answer::Contains)
    }

    fn read_result<T>(database: &Database, result: Result<T, WriteError>) -> Result<T, Error> {
        result.map_err(|error| match error {
            WriteError::Sql(error) => database.error("reading", error),
            WriteError::Refused(cause) => Error::failed(
                format!("reading from database '{}'", database.name()),
                cause,
            ),
        })
    }
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
                format!("option 'field.length' names '{name}', which is no attribute"),
            ));
        };
        lengths[index] = Some(length);
    }
    Ok(lengths)
}

impl Store for TableStore {
    fn connect(&mut self) -> Result<(), Error> {
        if self.database.is_none() {
            self.database = Some(self.databases.open(&self.address, &self.target)?);
        }
        let mut database = self.database()?;
        database.enlist(&self.app);
        let exists = has_table(database.connection(), &self.name)
            .map_err(|error| database.error("looking for the table", error))?;
        if !exists {
            database.write("creating the table", 2, |connection| {
                Ok(self.create(connection)?)
            })?;
        }
        let result = self.check_columns(database.connection());
        Self::read_result(&database, result)?;
        let has_key = self
            .find_key(database.connection())
            .map_err(|error| database.error("looking for the key", error))?;
        drop(database);
        self.has_key = has_key;
        Ok(())
    }

    fn prepare(&mut self, id: OperationId, operation: &Operation) -> Result<(), Error> {
        let prepared = self
            .compile(operation)
            .map_err(|message| refused(&self.schema, message))?;
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
                format!("operation {id} on table '{}'", self.schema.name),
                "it was not prepared",
            ));
        };
        match prepared {
            Prepared::Find {
                sql,
                parameters: types,
            } => self.find(sql, types, parameters),
            Prepared::Contains {
                sql,
                parameters: types,
            } => self.contains(sql, types, parameters),
            prepared => self.write(prepared, parameters).map(Answer::Written),
        }
    }

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

    fn close(&mut self) -> Result<(), Error> {
        self.database = None;
        Ok(())
    }
}
