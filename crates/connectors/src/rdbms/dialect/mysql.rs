//! MySQL and MariaDB. Our connections have a strict `sql_mode` in which the backslash escapes
//! ([`crate::rdbms::mysql`]), which is what literals count on.

use event::Type;
use plan::ArithmeticOp;

use super::mysql_literal as literal;
use super::{Dialect, EPOCHS, Limits, TEXT_LENGTH, infix, is_plain, sign};
use crate::rdbms::sql::Sql;

pub const MYSQL: &dyn Dialect = &MySql;

struct MySql;

/// Characters that a VARCHAR of four bytes each can have in a row of 64 KiB.
const VARCHAR_MAX: u32 = 16_000;

/// Names are always quoted: that changes nothing about them here, upper and lower case included.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    literal::text(text, &mut out);
    out
}

/// A condition on the tables of `information_schema`.
fn place(table: &str) -> String {
    match table.split_once('.') {
        Some((database, name)) if is_plain(database) && is_plain(name) => format!(
            "table_schema = {} AND table_name = {}",
            text(database),
            text(name)
        ),
        _ => format!("table_schema = DATABASE() AND table_name = {}", text(table)),
    }
}

impl Dialect for MySql {
    fn name(&self) -> &'static str {
        "MySQL"
    }

    fn column(&self, name: &str) -> String {
        quoted(name)
    }

    fn column_type(&self, ty: Type, length: Option<u32>) -> String {
        match ty {
            Type::Bool => "TINYINT(1)".into(),
            Type::Int => "INTEGER".into(),
            Type::Long => "BIGINT".into(),
            Type::Float => "FLOAT".into(),
            Type::Double => "DOUBLE".into(),
            Type::String => match length.unwrap_or(TEXT_LENGTH) {
                length @ 0..=VARCHAR_MAX => format!("VARCHAR({length})"),
                _ => "LONGTEXT".into(),
            },
            Type::Object => "BLOB".into(),
        }
    }

    /// Siddhi's choice: it tells upper from lower case, and holds the characters of Latin-1 alone.
    fn collation(&self) -> &'static str {
        " COLLATE latin1_bin"
    }

    /// Every character can be stored, whatever the server takes by default.
    fn table_suffix(&self) -> &'static str {
        " DEFAULT CHARACTER SET utf8mb4"
    }

    fn limits(&self) -> Limits {
        Limits {
            has_nan: false,
            has_infinity: false,
            has_nul: true,
        }
    }

    fn placeholder(&self, _index: usize, out: &mut String) {
        out.push('?');
    }

    fn literal(&self, literal: &str) -> Result<String, String> {
        Ok(text(literal))
    }

    /// With an exponent, which makes it a DOUBLE and no DECIMAL; the largest number for infinity, which
    /// no column can hold.
    fn real(&self, value: f64) -> String {
        match value {
            f64::INFINITY => format!("{:e}", f64::MAX),
            f64::NEG_INFINITY => format!("{:e}", f64::MIN),
            _ => format!("{value:e}"),
        }
    }

    /// Whole numbers divide to a whole number; by zero is null (the mode leaves it so).
    fn arithmetic(&self, op: ArithmeticOp, ty: Type, left: &Sql, right: &Sql) -> Sql {
        let is_whole = matches!(ty, Type::Int | Type::Long);
        match op {
            ArithmeticOp::Divide if is_whole => infix(left, " DIV ", right),
            _ => infix(left, sign(op), right),
        }
    }

    /// Compared byte by byte, as in memory.
    fn contains(&self, text: &Sql, part: &Sql) -> Sql {
        let mut sql = Sql::text("INSTR(BINARY ");
        sql.append(text);
        sql.push_str(", BINARY ");
        sql.append(part);
        sql.push_str(") > 0");
        sql
    }

    fn on_conflict(&self, _key: &str, set: &Sql) -> Sql {
        let mut sql = Sql::text(" ON DUPLICATE KEY UPDATE ");
        sql.append(set);
        sql
    }

    fn inserted(&self, column: &str) -> Option<String> {
        Some(format!("VALUES({column})"))
    }

    fn columns_query(&self, table: &str) -> String {
        let place = place(table);
        format!(
            "SELECT column_name, column_type FROM information_schema.columns WHERE {place} \
             ORDER BY ordinal_position"
        )
    }

    fn unique_keys_query(&self, table: &str) -> String {
        let place = place(table);
        format!(
            "SELECT index_name, coalesce(column_name, '') FROM information_schema.statistics \
             WHERE {place} AND non_unique = 0"
        )
    }

    fn create_epochs(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {EPOCHS} (app VARCHAR(254) PRIMARY KEY, \
             epoch BIGINT NOT NULL, positions LONGBLOB NOT NULL) ENGINE=InnoDB \
             DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )
    }
}
