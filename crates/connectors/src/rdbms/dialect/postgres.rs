//! PostgreSQL. A name that is not quoted is one in lower case there, so a quoted one must be, too.

use std::fmt::Write;

use event::Type;
use plan::ArithmeticOp;

use super::{Dialect, EPOCHS, Limits, TEXT_LENGTH, infix, is_plain, sign};
use crate::rdbms::sql::Sql;

pub const POSTGRES: &dyn Dialect = &Postgres;

struct Postgres;

/// Longest VARCHAR.
const VARCHAR_MAX: u32 = 10_485_760;

/// Words that are no names of columns or tables (`pg_get_keywords()`, reserved ones).
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// As an unquoted name would be read; odd names are kept as they are.
fn quoted(name: &str) -> String {
    if is_plain(name) {
        let lower = name.to_ascii_lowercase();
        return match RESERVED.binary_search(&lower.as_str()) {
            Ok(_) => format!("\"{lower}\""),
            Err(_) => name.to_owned(),
        };
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Postgres {
    /// The table's number, null for one that is not there.
    fn class(&self, table: &str) -> String {
        format!("to_regclass('{}')", self.table(table).replace('\'', "''"))
    }
}

impl Dialect for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn column(&self, name: &str) -> String {
        quoted(name)
    }

    fn column_type(&self, ty: Type, length: Option<u32>) -> String {
        match ty {
            Type::Bool => "BOOLEAN".into(),
            Type::Int => "INTEGER".into(),
            Type::Long => "BIGINT".into(),
            Type::Float => "REAL".into(),
            Type::Double => "DOUBLE PRECISION".into(),
            Type::String => match length.unwrap_or(TEXT_LENGTH) {
                length @ 0..=VARCHAR_MAX => format!("VARCHAR({length})"),
                _ => "TEXT".into(),
            },
            Type::Object => "BYTEA".into(),
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            has_nan: true,
            has_infinity: true,
            has_nul: false,
        }
    }

    fn placeholder(&self, index: usize, out: &mut String) {
        write!(out, "${}", index + 1).expect("writing to a string cannot fail");
    }

    fn literal(&self, text: &str) -> Result<String, String> {
        if text.contains('\0') {
            return Err("PostgreSQL has no text with the character U+0000".into());
        }
        Ok(format!("'{}'", text.replace('\'', "''")))
    }

    fn boolean(&self, value: bool) -> &'static str {
        if value { "true" } else { "false" }
    }

    fn real(&self, value: f64) -> String {
        match value {
            f64::INFINITY => "'Infinity'::float8".into(),
            f64::NEG_INFINITY => "'-Infinity'::float8".into(),
            _ => format!("'{value:e}'::float8"),
        }
    }

    /// Division by zero is null. FLOAT is computed in 32 bits, LONG in 64.
    fn arithmetic(&self, op: ArithmeticOp, ty: Type, left: &Sql, right: &Sql) -> Sql {
        let cast = match ty {
            Type::Int => "::int4",
            Type::Long => "::int8",
            Type::Float => "::float4",
            _ => "::float8",
        };
        let mut first = left.clone();
        first.push_str(cast);
        let mut second = right.clone();
        second.push_str(cast);
        match op {
            ArithmeticOp::Divide | ArithmeticOp::Modulo => {
                let mut divisor = Sql::text("NULLIF(");
                divisor.append(&second);
                divisor.push_str(", 0)");
                if op == ArithmeticOp::Modulo && matches!(ty, Type::Float | Type::Double) {
                    // There is no `%` of floating numbers; through NUMERIC it is exact.
                    first.push_str("::numeric");
                    divisor.push_str("::numeric");
                    let mut sql = infix(&first, sign(op), &divisor);
                    sql.push_str(cast);
                    return sql;
                }
                infix(&first, sign(op), &divisor)
            }
            _ => infix(&first, sign(op), &second),
        }
    }

    fn contains(&self, text: &Sql, part: &Sql) -> Sql {
        let mut sql = Sql::text("strpos(");
        sql.append(text);
        sql.push_str(", ");
        sql.append(part);
        sql.push_str(") > 0");
        sql
    }

    /// `xmax` is 0 in a row that was inserted.
    fn on_conflict(&self, key: &str, set: &Sql) -> Sql {
        let mut sql = Sql::text(&format!(" ON CONFLICT ({key}) DO UPDATE SET "));
        sql.append(set);
        sql.push_str(" RETURNING (xmax = 0)");
        sql
    }

    fn own_row(&self, table: &str) -> String {
        let own = table.rsplit('.').next().unwrap_or(table);
        format!("{own}.")
    }

    fn columns_query(&self, table: &str) -> String {
        format!(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute \
             WHERE attrelid = {} AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            self.class(table)
        )
    }

    fn unique_keys_query(&self, table: &str) -> String {
        format!(
            "SELECT i.indexrelid::text, a.attname FROM pg_index i JOIN pg_attribute a \
             ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = {} \
             AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL",
            self.class(table)
        )
    }

    fn hex(&self, column: &str) -> String {
        format!("encode({column}, 'hex')")
    }

    fn create_epochs(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {EPOCHS} (app VARCHAR(254) PRIMARY KEY, \
             epoch BIGINT NOT NULL, positions BYTEA NOT NULL)"
        )
    }

    fn note_epoch(&self) -> Sql {
        let mut sql = Sql::text(&format!(
            "INSERT INTO {EPOCHS} (app, epoch, positions) VALUES ("
        ));
        sql.parameters(3);
        sql.push_str(
            ") ON CONFLICT (app) DO UPDATE SET epoch = EXCLUDED.epoch, \
             positions = EXCLUDED.positions",
        );
        sql
    }

    fn fails_whole(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_sorted_to_be_found() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn names_as_the_server_reads_them() {
        for (name, expect) in [
            ("price", "price"),
            ("firstName", "firstName"),
            ("Order", "\"order\""),
            ("a b\"c", "\"a b\"\"c\""),
        ] {
            assert_eq!(POSTGRES.column(name), expect);
        }
        assert_eq!(POSTGRES.table("shop.Order"), "shop.\"order\"");
        assert_eq!(POSTGRES.table("a.b c"), "\"a.b c\"");
    }
}
