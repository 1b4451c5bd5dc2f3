//! What a connection to a database can do for a table: the part that differs from driver to driver.

use std::ops::Range;

use event::{Attribute, ColumnBuilder};

use super::dialect::Dialect;
use super::rows::Binder;
use super::sql::Sql;
use connect::component::Written;
use connect::error::Cause;

/// Why a statement did not do its work.
#[derive(Debug)]
pub enum Fault {
    /// The connection is gone, and with it what was not committed.
    Lost(Cause),
    /// Passing: worth another try on the same connection (a lock, a full disk).
    Passing(Cause),
    /// The database has ended the transaction and asks for another try (a deadlock).
    Undone(Cause),
    /// The database says no, and will say so again.
    Refused(Cause),
}

impl Fault {
    pub fn refused(cause: impl Into<Cause>) -> Fault {
        Fault::Refused(cause.into())
    }

    /// Names the row of parameters (from 0) that was refused.
    pub fn at(self, row: usize) -> Fault {
        match self {
            Fault::Refused(cause) => Fault::Refused(format!("row {}: {cause}", row + 1).into()),
            other => other,
        }
    }
}

/// A statement of a table's operation.
#[derive(Clone, Debug)]
pub struct Statement {
    pub sql: Sql,
    /// With the dialect's marks for parameters.
    pub text: String,
}

impl Statement {
    pub fn new(sql: Sql, dialect: &dyn Dialect) -> Statement {
        Statement {
            text: sql.marked(dialect),
            sql,
        }
    }
}

/// A statement and where its parameters come from.
#[derive(Clone, Copy)]
pub struct Bound<'b, 'a> {
    pub statement: &'b Statement,
    pub binders: &'b [Binder<'a>],
}

impl<'b, 'a> Bound<'b, 'a> {
    pub fn new(statement: &'b Statement, binders: &'b [Binder<'a>]) -> Bound<'b, 'a> {
        Bound { statement, binders }
    }
}

/// How rows are appended to a table.
#[derive(Clone, Debug)]
pub struct Append {
    /// In the form that statements take.
    pub table: String,
    /// In the form that statements take.
    pub columns: Vec<String>,
}

impl Append {
    /// `INSERT INTO table (columns) VALUES `.
    pub fn head(&self) -> String {
        format!(
            "INSERT INTO {} ({}) VALUES ",
            self.table,
            self.columns.join(", ")
        )
    }
}

/// Rows that a query finds, in the columns of the table.
pub struct Found<'a> {
    pub attributes: &'a [Attribute],
    /// SQL NULL reads as null where it is allowed; else as 0, 0.0 or false in columns that are not
    /// text (Siddhi's `RDBMSTableUtils`).
    pub allows_null: bool,
    pub builders: Vec<ColumnBuilder>,
    pub count: u32,
}

impl<'a> Found<'a> {
    pub fn new(attributes: &'a [Attribute], allows_null: bool) -> Found<'a> {
        Found {
            attributes,
            allows_null,
            builders: attributes
                .iter()
                .map(|a| ColumnBuilder::new(a.ty))
                .collect(),
            count: 0,
        }
    }
}

/// A connection to one database. Calls come one at a time; after [`Fault::Lost`] only
/// [`Link::reconnect`] works.
pub trait Link: Send {
    fn dialect(&self) -> &'static dyn Dialect;

    /// Connects again after the connection was lost.
    fn reconnect(&mut self) -> Result<(), Fault>;

    /// Statements without parameters and without a result.
    fn run(&mut self, sql: &str) -> Result<(), Fault>;

    /// The same, on a connection of its own where a statement about definitions would end the
    /// transaction.
    fn define(&mut self, sql: &str) -> Result<(), Fault> {
        self.run(sql)
    }

    /// A small result as text, mostly about definitions; null is `None`.
    fn list(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault>;

    /// Appends all rows or fails.
    fn append(&mut self, to: &Append, binders: &[Binder<'_>], rows: usize) -> Result<(), Fault>;

    /// Runs a statement for each of the rows in order; the number of rows changed by all of them.
    fn write(&mut self, bound: Bound<'_, '_>, rows: Range<usize>) -> Result<u64, Fault>;

    /// Runs a statement of [`Dialect::on_conflict`] for each row in order.
    fn upsert(&mut self, bound: Bound<'_, '_>, rows: usize) -> Result<Written, Fault>;

    /// Appends what the statement finds for one row of parameters.
    fn find(
        &mut self,
        bound: Bound<'_, '_>,
        row: usize,
        found: &mut Found<'_>,
    ) -> Result<(), Fault>;

    /// Does the statement find anything for this row of parameters?
    fn contains(&mut self, bound: Bound<'_, '_>, row: usize) -> Result<bool, Fault>;

    /// Has the database ended the transaction by itself?
    fn has_undone(&self) -> bool {
        false
    }

    /// What makes commits last through a power cut, where that costs extra.
    fn be_durable(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}
