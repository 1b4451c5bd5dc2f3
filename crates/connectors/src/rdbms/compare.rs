//! A table that is there beside its definition in the app: `check --connect`.

use event::{Attribute, Schema, Type};

use super::link::Link;
use crate::rdbms::link::Fault;
use connect::component::Difference;

/// How the columns of a table differ from the definition; none where there is no table yet, which the
/// app makes.
pub fn differences(
    link: &mut dyn Link,
    table: &str,
    schema: &Schema,
) -> Result<Vec<Difference>, Fault> {
    let rows = link.list(&link.dialect().columns_query(table))?;
    let columns: Vec<(String, String)> = rows
        .into_iter()
        .filter_map(|row| {
            let mut row = row.into_iter();
            Some((row.next()??, row.next().flatten().unwrap_or_default()))
        })
        .collect();
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let is_sized = link.dialect().has_sizes();
    let attributes = schema.attributes.iter();
    Ok(attributes
        .filter_map(|attribute| difference(attribute, table, &columns, is_sized))
        .collect())
}

fn difference(
    attribute: &Attribute,
    table: &str,
    columns: &[(String, String)],
    is_sized: bool,
) -> Option<Difference> {
    let (name, ty) = (&attribute.name, attribute.ty);
    let found = columns
        .iter()
        .find(|(column, _)| column.eq_ignore_ascii_case(name));
    let Some((_, column_type)) = found else {
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        return Some(Difference {
            message: format!(
                "table '{table}' has no column '{name}', it has {}",
                names.join(", ")
            ),
            help: "add the column, or name another table by option 'table.name'".into(),
        });
    };
    match holds(ty, column_type, is_sized) {
        true => None,
        false => Some(Difference {
            message: format!(
                "column '{name}' of table '{table}' is {column_type}, which does not hold every {ty}"
            ),
            help: format!("define '{name}' with the type of the column, or change the column"),
        }),
    }
}

/// Does a column of this type hold every value of the attribute's? `is_sized`: the words of numbers
/// say how many bytes they have. A type that nobody here knows is trusted.
fn holds(ty: Type, column: &str, is_sized: bool) -> bool {
    let column = column.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| column.contains(word));
    let is_text = has(&[
        "char", "text", "clob", "json", "enum", "uuid", "name", "xml",
    ]);
    let is_bytes = has(&["blob", "binary", "bytea"]);
    let is_decimal = has(&["decimal", "numeric", "number"]);
    // `interval` and `point` hold the three letters, too.
    let is_int = has(&["int", "serial"]) && !has(&["interval", "point"]);
    let is_small = is_int && has(&["tiny", "small", "medium"]);
    let is_long = has(&["bigint", "bigserial", "int8"]);
    let is_double = has(&["double", "float8"]);
    let is_float = !is_double && has(&["float", "real"]);
    let is_bool = has(&["bool", "bit"]) || column.starts_with("tinyint(1)");
    let is_known = is_text
        || is_bytes
        || is_decimal
        || is_int
        || is_double
        || is_float
        || is_bool
        || has(&["date", "time", "interval"]);
    if !is_known {
        return true;
    }
    match ty {
        Type::String => is_text,
        Type::Object => is_bytes,
        Type::Bool => is_bool || is_int,
        Type::Int => is_decimal || is_int && (!is_sized || !is_small),
        Type::Long => is_decimal || is_long || is_int && !is_sized,
        Type::Float => is_decimal || is_double || is_float,
        Type::Double => is_decimal || is_double || is_float && !is_sized,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_columns() {
        let check = |ty: Type, column: &str, is_sized: bool, expect: bool| {
            assert_eq!(holds(ty, column, is_sized), expect, "{ty} {column}");
        };
        for (ty, own) in [
            (Type::Bool, ["tinyint(1)", "boolean", "TINYINT"]),
            (Type::Int, ["int(11)", "integer", "INTEGER"]),
            (Type::Long, ["bigint(20)", "bigint", "BIGINT"]),
            (Type::Float, ["float", "real", "FLOAT"]),
            (Type::Double, ["double", "double precision", "DOUBLE"]),
            (
                Type::String,
                ["varchar(254)", "character varying(254)", "VARCHAR(254)"],
            ),
            (Type::Object, ["blob", "bytea", "BLOB"]),
        ] {
            for (index, column) in own.iter().enumerate() {
                check(ty, column, index < 2, true);
            }
        }
        check(Type::Int, "smallint", true, false);
        check(Type::Int, "varchar(9)", true, false);
        check(Type::Long, "int(11)", true, false);
        check(Type::Long, "INTEGER", false, true);
        check(Type::Double, "real", true, false);
        check(Type::Double, "decimal(10,2)", true, true);
        check(Type::String, "interval", true, false);
        check(Type::Object, "text", true, false);
        check(Type::String, "geometry", true, true);
    }
}
