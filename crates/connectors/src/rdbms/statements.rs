//! The statements of one table: how it is created, and what each operation of the app becomes.

use event::{Schema, Type};
use plan::CompareOp;
use plan::store::{Operation, OperationKind, Term, TermKind};

use super::dialect::{Dialect, Merge};
use super::link::{Append, Statement};
use super::sql::{Compiler, Sql};

/// A table as the annotations of an app describe it.
pub struct Definition {
    pub schema: Schema,
    /// Name in the database, as the app writes it.
    pub name: String,
    pub primary_key: Vec<usize>,
    pub indexes: Vec<Vec<usize>>,
    /// `field.length` by attribute: a longer text is refused.
    pub lengths: Vec<Option<u32>>,
    /// `use.collation`.
    pub has_collation: bool,
}

/// What of a table that exists matters to statements.
#[derive(Clone, Copy, Default, Debug)]
pub struct Keys {
    /// The table's primary key is one that an upsert may name.
    pub has_key: bool,
    /// No other unique index could be meant by a conflict.
    pub is_only: bool,
}

/// An operation as statements.
pub enum Prepared {
    Insert,
    Find {
        statement: Statement,
        parameters: Vec<Type>,
    },
    Contains {
        statement: Statement,
        parameters: Vec<Type>,
    },
    Write {
        statement: Statement,
        parameters: Vec<Type>,
        is_delete: bool,
    },
    /// One statement that inserts or updates.
    Upsert {
        statement: Statement,
        parameters: Vec<Type>,
    },
    /// Update; where nothing was updated, insert.
    UpdateOrInsert {
        update: Statement,
        insert: Statement,
        parameters: Vec<Type>,
    },
}

/// Makes the statements of a table in one dialect.
pub struct Writer<'a> {
    pub definition: &'a Definition,
    pub dialect: &'a dyn Dialect,
}

impl Writer<'_> {
    fn column(&self, index: usize) -> String {
        self.dialect
            .column(&self.definition.schema.attributes[index].name)
    }

    fn columns(&self, indexes: &[usize]) -> String {
        let names: Vec<String> = indexes.iter().map(|index| self.column(*index)).collect();
        names.join(", ")
    }

    fn all_columns(&self) -> Vec<String> {
        let all = 0..self.definition.schema.attributes.len();
        all.map(|index| self.column(index)).collect()
    }

    fn table(&self) -> String {
        self.dialect.table(&self.definition.name)
    }

    pub fn append(&self) -> Append {
        Append {
            table: self.table(),
            columns: self.all_columns(),
        }
    }

    /// `CREATE TABLE`, then one `CREATE INDEX` for each index.
    pub fn create(&self) -> Vec<String> {
        let definition = self.definition;
        let attributes = definition.schema.attributes.iter().enumerate();
        let mut parts: Vec<String> = attributes
            .map(|(index, attribute)| {
                let ty = self
                    .dialect
                    .column_type(attribute.ty, definition.lengths[index]);
                let collation = match attribute.ty {
                    Type::String if definition.has_collation => self.dialect.collation(),
                    _ => "",
                };
                // SQLite alone would take null in a key.
                let not_null = match definition.primary_key.contains(&index) {
                    true => " NOT NULL",
                    false => "",
                };
                format!("{} {ty}{collation}{not_null}", self.column(index))
            })
            .collect();
        if !definition.primary_key.is_empty() {
            let key = self.columns(&definition.primary_key);
            parts.push(format!("PRIMARY KEY ({key})"));
        }
        let table = self.table();
        let mut statements = vec![format!(
            "CREATE TABLE {table} ({}){}",
            parts.join(", "),
            self.dialect.table_suffix()
        )];
        let own_name = definition.name.rsplit('.').next().unwrap_or_default();
        for (number, index) in definition.indexes.iter().enumerate() {
            let name = self
                .dialect
                .column(&format!("{own_name}_INDEX_{}", number + 1));
            let columns = self.columns(index);
            statements.push(format!("CREATE INDEX {name} ON {table} ({columns})"));
        }
        statements
    }

    /// The error names what cannot be said in SQL.
    pub fn prepare(&self, operation: &Operation, keys: Keys) -> Result<Prepared, String> {
        let parameters = operation.parameters.clone();
        Ok(match &operation.kind {
            OperationKind::Insert => Prepared::Insert,
            OperationKind::Find { on } => {
                let head = format!("SELECT {}", self.all_columns().join(", "));
                Prepared::Find {
                    statement: self.select(&head, on.as_ref(), "")?,
                    parameters,
                }
            }
            OperationKind::Contains { on } => Prepared::Contains {
                statement: {
                    let (head, tail) = self.dialect.first_row();
                    self.select(head, Some(on), tail)?
                },
                parameters,
            },
            OperationKind::Delete { on } => Prepared::Write {
                statement: self.select("DELETE", Some(on), "")?,
                parameters,
                is_delete: true,
            },
            OperationKind::Update { set, on } => Prepared::Write {
                statement: self.update(set, on)?,
                parameters,
                is_delete: false,
            },
            OperationKind::UpdateOrInsert { set, on } => {
                let is_upsert = keys.has_key
                    && self.is_key_equality(on)
                    && !set.is_empty()
                    && (self.dialect.has_conflicts() || self.keeps_key(set));
                if is_upsert && (keys.is_only || self.dialect.inserted("").is_none()) {
                    return Ok(Prepared::Upsert {
                        statement: self.upsert(set)?,
                        parameters,
                    });
                }
                Prepared::UpdateOrInsert {
                    update: self.update(set, on)?,
                    insert: self.statement(self.insert()),
                    parameters,
                }
            }
        })
    }

    fn statement(&self, sql: Sql) -> Statement {
        Statement::new(sql, self.dialect)
    }

    fn compiler<'b>(&'b self, qualifier: &'b str) -> Compiler<'b> {
        Compiler {
            dialect: self.dialect,
            schema: &self.definition.schema,
            qualifier,
        }
    }

    fn select(&self, head: &str, on: Option<&Term>, tail: &str) -> Result<Statement, String> {
        let mut sql = Sql::text(&format!("{head} FROM {}", self.table()));
        if let Some(on) = on {
            sql.push_str(" WHERE ");
            sql.append(&self.compiler("").condition(on)?);
        }
        sql.push_str(tail);
        Ok(self.statement(sql))
    }

    fn update(&self, set: &[(usize, Term)], on: &Term) -> Result<Statement, String> {
        let mut sql = Sql::text(&format!("UPDATE {} SET ", self.table()));
        sql.append(&self.set(set, "")?);
        sql.push_str(" WHERE ");
        sql.append(&self.compiler("").condition(on)?);
        Ok(self.statement(sql))
    }

    fn set(&self, set: &[(usize, Term)], qualifier: &str) -> Result<Sql, String> {
        let mut sql = Sql::default();
        for (number, (index, term)) in set.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            sql.push_str(&format!("{comma}{} = ", self.column(*index)));
            sql.append(&self.compiler(qualifier).value(term)?);
        }
        Ok(sql)
    }

    /// An INSERT whose values are the first parameters.
    fn insert(&self) -> Sql {
        let columns = self.all_columns();
        let mut sql = Sql::text(&self.append().head());
        sql.push_str("(");
        sql.parameters(columns.len());
        sql.push_str(")");
        sql
    }

    fn upsert(&self, set: &[(usize, Term)]) -> Result<Statement, String> {
        if let Some(merge) = self.merge(set)? {
            return Ok(self.statement(merge));
        }
        let mut sql = self.insert();
        let key = self.columns(&self.definition.primary_key);
        // Plain values that are those of the row to insert are taken from it, so that one statement may
        // hold many rows.
        let taken: Option<Vec<String>> = set
            .iter()
            .map(|(index, term)| match term.kind {
                TermKind::Parameter(parameter) if parameter == *index => {
                    let column = self.column(*index);
                    let inserted = self.dialect.inserted(&column)?;
                    Some(format!("{column} = {inserted}"))
                }
                _ => None,
            })
            .collect();
        let set = match taken {
            Some(parts) => Sql::text(&parts.join(", ")),
            // Where a conflict has two rows in sight, the column is that of the table.
            None => self.set(set, &self.dialect.own_row(&self.table()))?,
        };
        sql.append(&self.dialect.on_conflict(&key, &set));
        Ok(self.statement(sql))
    }

    /// Is the key set to what it is?
    fn keeps_key(&self, set: &[(usize, Term)]) -> bool {
        set.iter().all(|(index, term)| {
            let is_same = matches!(term.kind, TermKind::Parameter(p) if p == *index);
            is_same || !self.definition.primary_key.contains(index)
        })
    }

    /// The upsert as MERGE, for databases that have it.
    fn merge(&self, set: &[(usize, Term)]) -> Result<Option<Sql>, String> {
        // The key is the same in both rows, and some databases refuse to see it set.
        let key = &self.definition.primary_key;
        let of_key = |(index, _): &&(usize, Term)| !key.contains(index);
        let others: Vec<(usize, Term)> = set.iter().filter(of_key).cloned().collect();
        let names: Vec<String> = key.iter().map(|index| self.column(*index)).collect();
        let table = self.table();
        Ok(self.dialect.merge(&Merge {
            table: &table,
            columns: &self.all_columns(),
            key: &names,
            set: &self.set(&others, &self.dialect.own_row(&table))?,
        }))
    }

    /// Does the condition say that the key equals the key of the row that would be inserted? Then a
    /// conflict on the key is the same question.
    fn is_key_equality(&self, on: &Term) -> bool {
        let mut found = Vec::new();
        let mut open = vec![on];
        while let Some(term) = open.pop() {
            match &term.kind {
                TermKind::And(left, right) => open.extend([left.as_ref(), right.as_ref()]),
                TermKind::Compare(CompareOp::Equal, left, right) => {
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
        let mut key = self.definition.primary_key.clone();
        key.sort_unstable();
        found == key
    }
}

/// What the unique indexes of a table that exists (name of the index, name of the column) say about
/// the key of the app's definition.
pub fn keys(definition: &Definition, indexed: &[(String, String)]) -> Keys {
    if definition.primary_key.is_empty() {
        return Keys::default();
    }
    let sorted = |mut names: Vec<String>| {
        names
            .iter_mut()
            .for_each(|name| *name = name.to_lowercase());
        names.sort();
        names
    };
    let attributes = &definition.schema.attributes;
    let wanted = definition.primary_key.iter();
    let wanted = sorted(wanted.map(|i| attributes[*i].name.clone()).collect());
    let mut names: Vec<&String> = indexed.iter().map(|(index, _)| index).collect();
    names.sort();
    names.dedup();
    let has_key = names.iter().any(|name| {
        let columns = indexed.iter().filter(|(index, _)| index == *name);
        sorted(columns.map(|(_, column)| column.clone()).collect()) == wanted
    });
    Keys {
        has_key,
        is_only: names.len() == 1,
    }
}
