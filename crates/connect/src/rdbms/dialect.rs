//! Names and column types of the embedded database, as H2 would declare them.

use event::Type;

/// Length of text columns for which none is given (Siddhi's `stringSize`). Declared, not enforced.
const TEXT_LENGTH: u32 = 254;

/// A quoted name; a quote inside is doubled, so that no name can end the quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text literal.
pub fn literal(text: &str) -> String {
    if text.contains('\0') {
        use std::fmt::Write;
        let mut hex = String::from("CAST(x'");
        for byte in text.bytes() {
            write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
        }
        return hex + "' AS TEXT)";
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// The type of a column. SQLite derives its affinity from the words, so values keep their kind.
pub fn column_type(ty: Type, length: Option<u32>) -> String {
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
