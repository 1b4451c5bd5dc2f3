//! Oracle, from 12.1 on.

use std::fmt::Write;

use event::Type;
use plan::ArithmeticOp;

use super::{
    Dialect, EPOCHS, Limits, Marks, Merge, TEXT_LENGTH, epoch_noted, fetch_next, infix, is_plain,
    sign,
};
use crate::rdbms::sql::Sql;

pub const ORACLE: &dyn Dialect = &Oracle;

struct Oracle;

/// Characters of a VARCHAR; Siddhi takes a CLOB beyond.
const VARCHAR_MAX: u32 = 2000;

/// Words that are no names without quotes, sorted.
const RESERVED: &[&str] = &[
    "ACCESS",
    "ADD",
    "ALL",
    "ALTER",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "AUDIT",
    "BETWEEN",
    "BY",
    "CHAR",
    "CHECK",
    "CLUSTER",
    "COLUMN",
    "COLUMN_VALUE",
    "COMMENT",
    "COMPRESS",
    "CONNECT",
    "CREATE",
    "CURRENT",
    "DATE",
    "DECIMAL",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DROP",
    "ELSE",
    "EXCLUSIVE",
    "EXISTS",
    "FILE",
    "FLOAT",
    "FOR",
    "FROM",
    "GRANT",
    "GROUP",
    "HAVING",
    "IDENTIFIED",
    "IMMEDIATE",
    "IN",
    "INCREMENT",
    "INDEX",
    "INITIAL",
    "INSERT",
    "INTEGER",
    "INTERSECT",
    "INTO",
    "IS",
    "LEVEL",
    "LIKE",
    "LOCK",
    "LONG",
    "MAXEXTENTS",
    "MINUS",
    "MLSLABEL",
    "MODE",
    "MODIFY",
    "NESTED_TABLE_ID",
    "NOAUDIT",
    "NOCOMPRESS",
    "NOT",
    "NOWAIT",
    "NULL",
    "NUMBER",
    "OF",
    "OFFLINE",
    "ON",
    "ONLINE",
    "OPTION",
    "OR",
    "ORDER",
    "PCTFREE",
    "PRIOR",
    "PUBLIC",
    "RAW",
    "RENAME",
    "RESOURCE",
    "REVOKE",
    "ROW",
    "ROWID",
    "ROWNUM",
    "ROWS",
    "SELECT",
    "SESSION",
    "SET",
    "SHARE",
    "SIZE",
    "SMALLINT",
    "START",
    "SUCCESSFUL",
    "SYNONYM",
    "SYSDATE",
    "TABLE",
    "THEN",
    "TO",
    "TRIGGER",
    "UID",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USER",
    "VALIDATE",
    "VALUES",
    "VARCHAR",
    "VARCHAR2",
    "VIEW",
    "WHENEVER",
    "WHERE",
    "WITH",
];

/// A plain name is folded to upper case, with quotes as without; any other stays as it is.
fn quoted(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    let is_name = is_plain(name) && !name.starts_with('_');
    match is_name {
        true if RESERVED.binary_search(&upper.as_str()).is_err() => name.to_owned(),
        true => format!("\"{upper}\""),
        false => format!("\"{}\"", name.replace('"', "")),
    }
}

/// The name as the catalog has it.
fn catalogued(name: &str) -> String {
    let own = name.rsplit('.').next().unwrap_or(name);
    let upper = own.to_ascii_uppercase();
    let name = if is_plain(own) { &upper } else { own };
    format!("'{}'", name.replace('\'', "''"))
}

impl Dialect for Oracle {
    fn name(&self) -> &'static str {
        "Oracle"
    }

    fn column(&self, name: &str) -> String {
        quoted(name)
    }

    fn column_type(&self, ty: Type, length: Option<u32>) -> String {
        match ty {
            Type::Bool => "NUMBER(1)".into(),
            Type::Int => "NUMBER(10)".into(),
            Type::Long => "NUMBER(19)".into(),
            Type::Float | Type::Double => "NUMBER(19,4)".into(),
            Type::String => match length.unwrap_or(TEXT_LENGTH) {
                length @ 0..=VARCHAR_MAX => format!("VARCHAR({length})"),
                _ => "CLOB".into(),
            },
            Type::Object => "BLOB".into(),
        }
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

    fn has_sizes(&self) -> bool {
        false
    }

    fn placeholder(&self, index: usize, out: &mut String) {
        write!(out, ":{}", index + 1).expect("writing to a string cannot fail");
    }

    fn literal(&self, text: &str) -> Result<String, String> {
        if text.is_empty() {
            return Err("Oracle has no empty text: it is null there".into());
        }
        Ok(format!("'{}'", text.replace('\'', "''")))
    }

    fn real(&self, value: f64) -> String {
        match value {
            f64::INFINITY => "BINARY_DOUBLE_INFINITY".into(),
            f64::NEG_INFINITY => "-BINARY_DOUBLE_INFINITY".into(),
            _ => format!("{value:e}"),
        }
    }

    /// Numbers have no type of their own there: what is whole is cut. By zero is null.
    fn arithmetic(&self, op: ArithmeticOp, ty: Type, left: &Sql, right: &Sql) -> Sql {
        let is_whole = matches!(ty, Type::Int | Type::Long);
        let mut divisor = Sql::text("NULLIF(");
        divisor.append(right);
        divisor.push_str(", 0)");
        let called = |name: &str, sql: &Sql| {
            let mut call = Sql::text(name);
            call.append(sql);
            call
        };
        match op {
            ArithmeticOp::Divide if is_whole => called("TRUNC", &infix(left, sign(op), &divisor)),
            ArithmeticOp::Divide => infix(left, sign(op), &divisor),
            ArithmeticOp::Modulo => called("MOD", &infix(left, ", ", &divisor)),
            _ => infix(left, sign(op), right),
        }
    }

    fn contains(&self, text: &Sql, part: &Sql) -> Sql {
        let mut sql = Sql::text("INSTR(");
        sql.append(text);
        sql.push_str(", ");
        sql.append(part);
        sql.push_str(") > 0");
        sql
    }

    fn has_conflicts(&self) -> bool {
        false
    }

    fn merge(&self, merge: &Merge<'_>) -> Option<Sql> {
        let mut sql = Sql::text(&format!("MERGE INTO {} target USING (SELECT ", merge.table));
        for (index, column) in merge.columns.iter().enumerate() {
            if index > 0 {
                sql.push_str(", ");
            }
            sql.parameter(index);
            sql.push_str(&format!(" AS {column}"));
        }
        sql.push_str(" FROM DUAL) source");
        merge.clauses(&mut sql, "source.");
        Some(sql)
    }

    fn first_row(&self) -> (&'static str, &'static str) {
        ("SELECT 1", " FETCH FIRST 1 ROWS ONLY")
    }

    fn limit(&self, rows: usize) -> String {
        fetch_next(rows)
    }

    fn columns_query(&self, table: &str) -> String {
        format!(
            "SELECT column_name, data_type FROM user_tab_columns WHERE table_name = {} \
             ORDER BY column_id",
            catalogued(table)
        )
    }

    fn unique_keys_query(&self, table: &str) -> String {
        format!(
            "SELECT i.index_name, c.column_name FROM user_indexes i JOIN user_ind_columns c \
             ON c.index_name = i.index_name WHERE i.table_name = {} AND i.uniqueness = 'UNIQUE'",
            catalogued(table)
        )
    }

    fn hex(&self, column: &str) -> String {
        format!("RAWTOHEX({column})")
    }

    fn create_epochs(&self) -> String {
        format!(
            "CREATE TABLE {EPOCHS} (app VARCHAR(254) PRIMARY KEY, epoch NUMBER(19) NOT NULL, \
             positions BLOB NOT NULL)"
        )
    }

    fn note_epoch(&self) -> Sql {
        epoch_noted(|merge| self.merge(merge).unwrap_or_default())
    }

    /// A transaction begins with its first statement.
    fn begin(&self) -> &'static str {
        "SET TRANSACTION READ WRITE"
    }

    fn marks(&self) -> Marks {
        Marks {
            set: "SAVEPOINT part",
            keep: None,
            undo: &["ROLLBACK TO SAVEPOINT part"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_the_server_reads_them() {
        assert!(RESERVED.is_sorted());
        for (name, expect) in [
            ("price", "price"),
            ("Date", "\"DATE\""),
            ("a b", "\"a b\""),
            ("_x", "\"_x\""),
        ] {
            assert_eq!(ORACLE.column(name), expect);
        }
        assert_eq!(ORACLE.table("shop.Order"), "shop.\"ORDER\"");
        assert!(ORACLE.literal("").is_err());
    }
}
