//! SQLite, as H2 would declare its columns. Arithmetic is done by our own functions
//! ([`crate::rdbms::sqlite::functions`]).

use std::fmt::Write;

use event::Type;
use plan::ArithmeticOp;

use super::{Dialect, EPOCHS, Limits, TEXT_LENGTH};
use crate::rdbms::sql::Sql;

pub const SQLITE: &dyn Dialect = &Sqlite;

struct Sqlite;

/// Names of the functions that do arithmetic.
pub fn arithmetic_name(op: ArithmeticOp, ty: Type) -> String {
    let op = match op {
        ArithmeticOp::Add => "add",
        ArithmeticOp::Subtract => "subtract",
        ArithmeticOp::Multiply => "multiply",
        ArithmeticOp::Divide => "divide",
        ArithmeticOp::Modulo => "modulo",
    };
    format!("headwater_{op}_{}", ty.name())
}

/// A quoted name; a quote inside is doubled, so that no name can end the quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(text: &str) -> String {
    if text.contains('\0') {
        let mut hex = String::from("CAST(x'");
        for byte in text.bytes() {
            write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
        }
        return hex + "' AS TEXT)";
    }
    format!("'{}'", text.replace('\'', "''"))
}

impl Dialect for Sqlite {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn column(&self, name: &str) -> String {
        quoted(name)
    }

    fn table(&self, name: &str) -> String {
        quoted(name)
    }

    /// SQLite derives its affinity from the words, so values keep their kind; lengths are declared,
    /// not enforced.
    fn column_type(&self, ty: Type, length: Option<u32>) -> String {
        match ty {
            Type::Bool => "TINYINT".into(),
            Type::Int => "INTEGER".into(),
            Type::Long => "BIGINT".into(),
            Type::Float => "FLOAT".into(),
            Type::Double => "DOUBLE".into(),
            Type::String => format!("VARCHAR({})", length.unwrap_or(TEXT_LENGTH)),
            Type::Object => "BLOB".into(),
        }
    }

    /// NaN would silently become null.
    fn limits(&self) -> Limits {
        Limits {
            has_nan: false,
            has_infinity: true,
            has_nul: true,
        }
    }

    fn has_sizes(&self) -> bool {
        false
    }

    fn placeholder(&self, index: usize, out: &mut String) {
        write!(out, "?{}", index + 1).expect("writing to a string cannot fail");
    }

    fn literal(&self, literal: &str) -> Result<String, String> {
        Ok(text(literal))
    }

    fn real(&self, value: f64) -> String {
        match value {
            f64::INFINITY => "9e999".into(),
            f64::NEG_INFINITY => "-9e999".into(),
            _ => format!("{value:?}"),
        }
    }

    fn arithmetic(&self, op: ArithmeticOp, ty: Type, left: &Sql, right: &Sql) -> Sql {
        let mut sql = Sql::text(&arithmetic_name(op, ty));
        sql.push_str("(");
        sql.append(left);
        sql.push_str(", ");
        sql.append(right);
        sql.push_str(")");
        sql
    }

    fn contains(&self, text: &Sql, part: &Sql) -> Sql {
        let mut sql = Sql::text("instr(");
        sql.append(text);
        sql.push_str(", ");
        sql.append(part);
        sql.push_str(") > 0");
        sql
    }

    fn on_conflict(&self, key: &str, set: &Sql) -> Sql {
        let mut sql = Sql::text(&format!(" ON CONFLICT ({key}) DO UPDATE SET "));
        sql.append(set);
        sql
    }

    fn columns_query(&self, table: &str) -> String {
        let table = text(table);
        format!("SELECT name, type FROM pragma_table_info({table})")
    }

    /// A key that is the row's number has no index of its own.
    fn unique_keys_query(&self, table: &str) -> String {
        let table = text(table);
        format!(
            "SELECT '', name FROM pragma_table_info({table}) WHERE pk > 0 \
             UNION ALL SELECT l.name, coalesce(i.name, '') FROM pragma_index_list({table}) l, \
             pragma_index_info(l.name) i WHERE l.\"unique\" AND NOT l.partial AND l.origin <> 'pk'"
        )
    }

    /// Who is gone holds no lock.
    fn waits_for_writers(&self) -> [&'static str; 2] {
        ["", ""]
    }

    fn create_epochs(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {EPOCHS} (app TEXT PRIMARY KEY, epoch INTEGER NOT NULL, \
             positions BLOB NOT NULL)"
        )
    }

    /// The lock is taken at once: to take it later could fail halfway.
    fn begin(&self) -> &'static str {
        "BEGIN IMMEDIATE"
    }
}
