//! Values as MySQL and MariaDB read them: literals of a statement, and fields of `LOAD DATA`.

use std::fmt::Write;

use crate::rdbms::rows::Cell;
use crate::rdbms::text::{escaped, hex};

/// Appends a text in quotes. The connection's mode lets the backslash escape.
pub fn text(text: &str, out: &mut String) {
    out.push('\'');
    escaped(text, out, |byte| match byte {
        b'\'' => Some("\\'"),
        b'\\' => Some("\\\\"),
        0 => Some("\\0"),
        _ => None,
    });
    out.push('\'');
}

/// Appends a value of a statement.
pub fn value(cell: &Cell<'_>, out: &mut String) {
    match cell {
        Cell::Null => out.push_str("NULL"),
        Cell::Text(value) => text(value, out),
        Cell::Bytes(bytes) => {
            out.push_str("x'");
            hex(bytes, out);
            out.push('\'');
        }
        // The exponent makes it a DOUBLE; without one it would be a DECIMAL.
        Cell::Float(value) => write!(out, "{:e}", f64::from(*value)).expect(INFALLIBLE),
        Cell::Double(value) => write!(out, "{value:e}").expect(INFALLIBLE),
        cell => whole(cell, out),
    }
}

/// Appends a field of `LOAD DATA` with tabs between fields and line feeds between rows. Bytes come as
/// digits, which the statement turns back.
pub fn field(cell: &Cell<'_>, out: &mut String) {
    match cell {
        Cell::Null => out.push_str("\\N"),
        Cell::Text(value) => escaped(value, out, |byte| match byte {
            b'\\' => Some("\\\\"),
            b'\t' => Some("\\t"),
            b'\n' => Some("\\n"),
            0 => Some("\\0"),
            _ => None,
        }),
        Cell::Bytes(bytes) => hex(bytes, out),
        Cell::Float(value) => write!(out, "{:e}", f64::from(*value)).expect(INFALLIBLE),
        Cell::Double(value) => write!(out, "{value:e}").expect(INFALLIBLE),
        cell => whole(cell, out),
    }
}

const INFALLIBLE: &str = "writing to a string cannot fail";

fn whole(cell: &Cell<'_>, out: &mut String) {
    match cell {
        Cell::Bool(value) => out.push(if *value { '1' } else { '0' }),
        Cell::Int(value) => write!(out, "{value}").expect(INFALLIBLE),
        Cell::Long(value) => write!(out, "{value}").expect(INFALLIBLE),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_text() {
        let check = |cell: Cell<'_>, literal: &str, loaded: &str| {
            let (mut a, mut b) = (String::new(), String::new());
            value(&cell, &mut a);
            field(&cell, &mut b);
            assert_eq!((a.as_str(), b.as_str()), (literal, loaded), "{cell:?}");
        };
        check(Cell::Null, "NULL", "\\N");
        check(Cell::Bool(true), "1", "1");
        check(
            Cell::Long(i64::MIN),
            "-9223372036854775808",
            "-9223372036854775808",
        );
        check(Cell::Double(0.1), "1e-1", "1e-1");
        check(
            Cell::Float(0.1),
            "1.0000000149011612e-1",
            "1.0000000149011612e-1",
        );
        check(
            Cell::Text("a'\\\t\nü\0"),
            "'a\\'\\\\\t\nü\\0'",
            "a'\\\\\\t\\nü\\0",
        );
        check(Cell::Bytes(b"\x00\xff"[..].into()), "x'00ff'", "00ff");
    }
}
