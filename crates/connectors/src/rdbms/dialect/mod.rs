//! What differs between databases: names, types, literals, arithmetic, upserts.
//!
//! A dialect is a constant without state; everything here is text. Names are those that Siddhi would
//! send, which is unquoted: a name is quoted only where it would not be read as a name without.

#[cfg(test)]
mod golden;
mod mysql;
pub mod mysql_literal;
mod oracle;
mod postgres;
mod sqlite;
mod sqlserver;

pub use mysql::MYSQL;
pub use oracle::ORACLE;
pub use postgres::POSTGRES;
pub use sqlite::{SQLITE, arithmetic_name};
pub use sqlserver::SQLSERVER;

use event::Type;
use plan::ArithmeticOp;

use super::sql::Sql;

/// Length of text columns for which none is given (Siddhi's `stringSize`).
pub const TEXT_LENGTH: u32 = 254;

/// Values that a database cannot hold; they are refused before they are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub has_nan: bool,
    pub has_infinity: bool,
    /// U+0000 in a text.
    pub has_nul: bool,
}

/// How a part of a transaction is marked, kept and undone.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    pub set: &'static str,
    /// Nothing where a mark just stays.
    pub keep: Option<&'static str>,
    pub undo: &'static [&'static str],
}

/// An upsert for databases that have MERGE: all names as statements take them.
pub struct Merge<'a> {
    pub table: &'a str,
    pub columns: &'a [String],
    pub key: &'a [String],
    /// Without the columns of the key.
    pub set: &'a Sql,
}

/// Before a column of the table's own row in a [`Merge`].
const TARGET: &str = "target.";

impl Merge<'_> {
    /// What follows the source of the row.
    fn clauses(&self, sql: &mut Sql, source: &str) {
        let equal = self
            .key
            .iter()
            .map(|k| format!("{TARGET}{k} = {source}{k}"));
        let equal: Vec<String> = equal.collect();
        sql.push_str(&format!(" ON ({})", equal.join(" AND ")));
        if !self.set.is_empty() {
            sql.push_str(" WHEN MATCHED THEN UPDATE SET ");
            sql.append(self.set);
        }
        let values = self.columns.iter().map(|c| format!("{source}{c}"));
        let values: Vec<String> = values.collect();
        sql.push_str(&format!(
            " WHEN NOT MATCHED THEN INSERT ({}) VALUES ({})",
            self.columns.join(", "),
            values.join(", ")
        ));
    }
}

pub trait Dialect: Send + Sync {
    /// As people call the database.
    fn name(&self) -> &'static str;

    /// A column's name in a statement.
    fn column(&self, name: &str) -> String;

    /// A table's name in a statement, which may stand behind that of a schema or database.
    fn table(&self, name: &str) -> String {
        let parts: Vec<&str> = name.split('.').collect();
        if parts.len() <= 3 && parts.iter().all(|part| is_plain(part)) {
            let parts: Vec<String> = parts.iter().map(|part| self.column(part)).collect();
            return parts.join(".");
        }
        self.column(name)
    }

    /// Type of a column that is created; `length` is that of `field.length`.
    fn column_type(&self, ty: Type, length: Option<u32>) -> String;

    /// What `use.collation` adds to a text column.
    fn collation(&self) -> &'static str {
        ""
    }

    /// What follows the columns of a table that is created.
    fn table_suffix(&self) -> &'static str {
        ""
    }

    fn limits(&self) -> Limits;

    /// Does the word for a number say how many bytes it has?
    fn has_sizes(&self) -> bool {
        true
    }

    /// Place of parameter `index` (from 0).
    fn placeholder(&self, index: usize, out: &mut String);

    /// A text; the error says why the database cannot hold it.
    fn literal(&self, text: &str) -> Result<String, String>;

    /// Is a condition a value, and a value of BOOL a condition?
    fn has_booleans(&self) -> bool {
        true
    }

    fn boolean(&self, value: bool) -> &'static str {
        if value { "1" } else { "0" }
    }

    /// A finite or infinite number, never NaN.
    fn real(&self, value: f64) -> String;

    fn arithmetic(&self, op: ArithmeticOp, ty: Type, left: &Sql, right: &Sql) -> Sql;

    /// Does `text` hold `part`? A value that is null where one of them is.
    fn contains(&self, text: &Sql, part: &Sql) -> Sql;

    /// Has an INSERT a clause for keys that are there? Else the upsert is [`Dialect::merge`].
    fn has_conflicts(&self) -> bool {
        true
    }

    /// That clause: what stands behind an INSERT to update `set` where the key is there already; `key`
    /// are the key's columns.
    fn on_conflict(&self, _key: &str, _set: &Sql) -> Sql {
        Sql::default()
    }

    /// The upsert of a database that has no [`Dialect::on_conflict`].
    fn merge(&self, _merge: &Merge<'_>) -> Option<Sql> {
        None
    }

    /// Around a question whether there is a row.
    fn first_row(&self) -> (&'static str, &'static str) {
        ("SELECT 1", " LIMIT 1")
    }

    /// What stands before [`Dialect::limit`] where the order does not matter.
    fn any_order(&self) -> &'static str {
        ""
    }

    /// Behind an ORDER BY: no more than so many rows.
    fn limit(&self, rows: usize) -> String {
        format!(" LIMIT {rows}")
    }

    /// Can one INSERT hold several rows of the same key and update with the last of them? Then this is
    /// how it refers to the value of `column` in the row that would be inserted.
    fn inserted(&self, _column: &str) -> Option<String> {
        None
    }

    /// What stands before a column of the table's own row where a conflict has two rows in sight.
    fn own_row(&self, _table: &str) -> String {
        match self.has_conflicts() {
            true => String::new(),
            false => TARGET.to_owned(),
        }
    }

    /// Asks for names and types of a table's columns; nothing for a table that is not there.
    fn columns_query(&self, table: &str) -> String;

    /// Asks for each column of each unique index that covers whole rows, the primary key's among
    /// them: name of the index and name of the column.
    fn unique_keys_query(&self, table: &str) -> String;

    /// Bytes as hexadecimal digits.
    fn hex(&self, column: &str) -> String {
        format!("hex({column})")
    }

    /// Creates the table that notes epochs, where it is missing.
    fn create_epochs(&self) -> String;

    /// Notes an epoch: the parameters are app, epoch and positions.
    fn note_epoch(&self) -> Sql {
        let mut sql = Sql::text(&format!(
            "REPLACE INTO {EPOCHS} (app, epoch, positions) VALUES ("
        ));
        sql.parameters(3);
        sql.push_str(")");
        sql
    }

    /// What makes a question about epochs wait for who is noting one: behind the table's name, and
    /// behind the condition. A run that was killed may have sent its COMMIT.
    fn waits_for_writers(&self) -> [&'static str; 2] {
        ["", " FOR UPDATE"]
    }

    /// Begins a transaction.
    fn begin(&self) -> &'static str {
        "BEGIN"
    }

    fn marks(&self) -> Marks {
        Marks {
            set: "SAVEPOINT part",
            keep: Some("RELEASE SAVEPOINT part"),
            undo: &["ROLLBACK TO SAVEPOINT part", "RELEASE SAVEPOINT part"],
        }
    }

    /// Does an error end the transaction, so that even a single statement needs a mark to go back to?
    fn fails_whole(&self) -> bool {
        false
    }
}

/// The table that notes epochs.
pub const EPOCHS: &str = "headwater_epochs";

/// [`Dialect::limit`] as the standard has it.
fn fetch_next(rows: usize) -> String {
    format!(" OFFSET 0 ROWS FETCH NEXT {rows} ROWS ONLY")
}

/// `left sign right` in parentheses.
fn infix(left: &Sql, sign: &str, right: &Sql) -> Sql {
    let mut sql = Sql::text("(");
    sql.append(left);
    sql.push_str(sign);
    sql.append(right);
    sql.push_str(")");
    sql
}

const fn sign(op: ArithmeticOp) -> &'static str {
    match op {
        ArithmeticOp::Add => " + ",
        ArithmeticOp::Subtract => " - ",
        ArithmeticOp::Multiply => " * ",
        ArithmeticOp::Divide => " / ",
        ArithmeticOp::Modulo => " % ",
    }
}

/// Is the text a name that no database takes for anything else, but for reserved words?
fn is_plain(name: &str) -> bool {
    let mut letters = name.bytes();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// The statement that notes an epoch, where it is a merge.
fn epoch_noted(merged: impl Fn(&Merge<'_>) -> Sql) -> Sql {
    let columns = ["app", "epoch", "positions"].map(str::to_owned);
    merged(&Merge {
        table: EPOCHS,
        columns: &columns,
        key: &columns[..1],
        set: &Sql::text("epoch = source.epoch, positions = source.positions"),
    })
}
