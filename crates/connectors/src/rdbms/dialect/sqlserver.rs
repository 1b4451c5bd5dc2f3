//! Microsoft SQL Server, from 2012 on. It has not been tried on a server: what is sent is in golden
//! files and follows the documentation.

use std::fmt::Write;

use event::Type;
use plan::ArithmeticOp;

use super::{
    Dialect, EPOCHS, Limits, Marks, Merge, TEXT_LENGTH, epoch_noted, fetch_next, infix, sign,
};
use crate::rdbms::sql::Sql;

pub const SQLSERVER: &dyn Dialect = &SqlServer;

struct SqlServer;

/// Characters of an NVARCHAR with a length.
const NVARCHAR_MAX: u32 = 4000;

/// Compares character by character, whatever the table does.
const BINARY: &str = " COLLATE Latin1_General_BIN2";

/// Names are always quoted: that changes nothing about them here.
fn quoted(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

fn text(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

impl SqlServer {
    fn object(&self, table: &str) -> String {
        format!("OBJECT_ID({})", text(&self.table(table)))
    }
}

impl Dialect for SqlServer {
    fn name(&self) -> &'static str {
        "SQL Server"
    }

    fn column(&self, name: &str) -> String {
        quoted(name)
    }

    /// NVARCHAR where Siddhi has VARCHAR, which would turn what its code page lacks into `?`.
    fn column_type(&self, ty: Type, length: Option<u32>) -> String {
        match ty {
            Type::Bool => "BIT".into(),
            Type::Int => "INTEGER".into(),
            Type::Long => "BIGINT".into(),
            Type::Float => "REAL".into(),
            Type::Double => "FLOAT(32)".into(),
            Type::String => match length.unwrap_or(TEXT_LENGTH) {
                length @ 0..=NVARCHAR_MAX => format!("NVARCHAR({length})"),
                _ => "NVARCHAR(max)".into(),
            },
            Type::Object => "VARBINARY(max)".into(),
        }
    }

    fn collation(&self) -> &'static str {
        " COLLATE SQL_Latin1_General_CP1_CS_AS"
    }

    fn limits(&self) -> Limits {
        Limits {
            has_nan: false,
            has_infinity: false,
            has_nul: true,
        }
    }

    fn has_booleans(&self) -> bool {
        false
    }

    fn placeholder(&self, index: usize, out: &mut String) {
        write!(out, "@P{}", index + 1).expect("writing to a string cannot fail");
    }

    fn literal(&self, literal: &str) -> Result<String, String> {
        Ok(text(literal))
    }

    /// With an exponent, which makes it a FLOAT and no DECIMAL; the largest number for infinity.
    fn real(&self, value: f64) -> String {
        match value {
            f64::INFINITY => format!("{:e}", f64::MAX),
            f64::NEG_INFINITY => format!("{:e}", f64::MIN),
            _ => format!("{value:e}"),
        }
    }

    /// Whole numbers divide to a whole number; by zero is null. A rest of real numbers is not an operator
    /// there.
    fn arithmetic(&self, op: ArithmeticOp, ty: Type, left: &Sql, right: &Sql) -> Sql {
        let is_whole = matches!(ty, Type::Int | Type::Long);
        let divisor = || wrapped("NULLIF(", right, ", 0)");
        match op {
            ArithmeticOp::Divide => infix(left, sign(op), &divisor()),
            ArithmeticOp::Modulo if is_whole => infix(left, sign(op), &divisor()),
            ArithmeticOp::Modulo => {
                let quotient = infix(left, " / ", &divisor());
                let whole = wrapped("ROUND(", &quotient, ", 0, 1)");
                infix(left, " - ", &infix(right, " * ", &whole))
            }
            _ => infix(left, sign(op), right),
        }
    }

    /// Nothing is held by every text, which CHARINDEX denies.
    fn contains(&self, text: &Sql, part: &Sql) -> Sql {
        let mut sql = wrapped("CHARINDEX(", part, &format!("{BINARY}, "));
        sql.append(text);
        sql.push_str(&format!("{BINARY}) > 0 OR (DATALENGTH("));
        sql.append(part);
        sql.push_str(") = 0 AND ");
        sql.append(text);
        sql.push_str(" IS NOT NULL)");
        sql
    }

    fn has_conflicts(&self) -> bool {
        false
    }

    fn merge(&self, merge: &Merge<'_>) -> Option<Sql> {
        let mut sql = merged(merge);
        sql.push_str(" OUTPUT $action;");
        Some(sql)
    }

    fn first_row(&self) -> (&'static str, &'static str) {
        ("SELECT TOP 1 1", "")
    }

    fn any_order(&self) -> &'static str {
        " ORDER BY (SELECT NULL)"
    }

    fn limit(&self, rows: usize) -> String {
        fetch_next(rows)
    }

    fn columns_query(&self, table: &str) -> String {
        format!(
            "SELECT c.name, t.name FROM sys.columns c JOIN sys.types t \
             ON t.user_type_id = c.user_type_id WHERE c.object_id = {} ORDER BY c.column_id",
            self.object(table)
        )
    }

    fn unique_keys_query(&self, table: &str) -> String {
        format!(
            "SELECT i.name, c.name FROM sys.indexes i JOIN sys.index_columns k \
             ON k.object_id = i.object_id AND k.index_id = i.index_id JOIN sys.columns c \
             ON c.object_id = k.object_id AND c.column_id = k.column_id WHERE i.object_id = {} \
             AND i.is_unique = 1 AND i.has_filter = 0 AND k.is_included_column = 0",
            self.object(table)
        )
    }

    fn hex(&self, column: &str) -> String {
        format!("CONVERT(VARCHAR(max), {column}, 2)")
    }

    fn waits_for_writers(&self) -> [&'static str; 2] {
        [" WITH (UPDLOCK)", ""]
    }

    fn create_epochs(&self) -> String {
        format!(
            "IF OBJECT_ID(N'{EPOCHS}') IS NULL CREATE TABLE {EPOCHS} (app NVARCHAR(254) PRIMARY \
             KEY, epoch BIGINT NOT NULL, positions VARBINARY(max) NOT NULL)"
        )
    }

    fn note_epoch(&self) -> Sql {
        let mut sql = epoch_noted(merged);
        sql.push_str(";");
        sql
    }

    fn begin(&self) -> &'static str {
        "BEGIN TRANSACTION"
    }

    fn marks(&self) -> Marks {
        Marks {
            set: "SAVE TRANSACTION part",
            keep: None,
            undo: &["ROLLBACK TRANSACTION part"],
        }
    }
}

/// A merge without its end.
fn merged(merge: &Merge<'_>) -> Sql {
    // The hint keeps others from inserting the same key meanwhile.
    let mut sql = Sql::text(&format!(
        "MERGE INTO {} WITH (HOLDLOCK) AS target USING (VALUES (",
        merge.table
    ));
    sql.parameters(merge.columns.len());
    sql.push_str(&format!(")) AS source ({})", merge.columns.join(", ")));
    merge.clauses(&mut sql, "source.");
    sql
}

fn wrapped(begin: &str, sql: &Sql, end: &str) -> Sql {
    let mut all = Sql::text(begin);
    all.append(sql);
    all.push_str(end);
    all
}
