//! The key of a row: the texts of some of its values, one behind the other.

use event::{Batch, Column, Value, text};

use crate::component::Argument;
use crate::function::java_map::hash_code;

/// Where the parts of a key come from.
pub struct KeyParts {
    parts: Vec<Part>,
    text: String,
}

enum Part {
    Column(usize),
    Constant(Value),
}

impl KeyParts {
    pub fn of_columns(columns: &[usize]) -> KeyParts {
        KeyParts {
            parts: columns.iter().map(|&c| Part::Column(c)).collect(),
            text: String::new(),
        }
    }

    pub fn of_arguments(args: &[Argument]) -> KeyParts {
        let part = |arg: &Argument| match arg.attribute {
            Some(column) => Part::Column(column),
            None => Part::Constant(arg.constant.clone().unwrap_or_default()),
        };
        KeyParts {
            parts: args.iter().map(part).collect(),
            text: String::new(),
        }
    }

    /// Columns that the key is read from.
    pub fn columns(&self) -> Vec<usize> {
        let column = |part: &Part| match part {
            Part::Column(column) => Some(*column),
            Part::Constant(_) => None,
        };
        self.parts.iter().filter_map(column).collect()
    }

    /// Values without anything between them; null is 'null' (Java's `StringBuilder.append`).
    pub fn joined(&mut self, batch: &Batch, row: usize) -> &str {
        self.text.clear();
        for part in &self.parts {
            match part {
                Part::Column(column) => write_cell(&mut self.text, &batch.columns[*column], row),
                Part::Constant(value) => text::write_value(&mut self.text, value),
            }
        }
        &self.text
    }

    /// The text of the first part; `None` for null.
    pub fn single(&mut self, batch: &Batch, row: usize) -> Option<&str> {
        self.text.clear();
        match self.parts.first()? {
            Part::Column(column) => {
                let column = &batch.columns[*column];
                if column.is_null(row) {
                    return None;
                }
                write_cell(&mut self.text, column, row);
            }
            Part::Constant(Value::Null) => return None,
            Part::Constant(value) => text::write_value(&mut self.text, value),
        }
        Some(&self.text)
    }
}

/// Stands for null where null is a key like any other.
const NULL: &str = "\0";

impl KeyParts {
    /// The text of the first part and `hashCode` of its value in Java; null is a key of its own.
    pub fn hashed(&mut self, batch: &Batch, row: usize) -> (&str, i32) {
        let value = match self.parts.first() {
            Some(Part::Column(column)) => batch.columns[*column].value(row),
            Some(Part::Constant(value)) => value.clone(),
            None => Value::Null,
        };
        self.text.clear();
        match &value {
            Value::Null => self.text.push_str(NULL),
            value => text::write_value(&mut self.text, value),
        }
        (&self.text, hash_code(&value))
    }
}

fn write_cell(to: &mut String, column: &Column, row: usize) {
    match column.view() {
        event::column::View::Str(texts) if !column.is_null(row) => to.push_str(texts.get(row)),
        _ => text::write_value(to, &column.value(row)),
    }
}
