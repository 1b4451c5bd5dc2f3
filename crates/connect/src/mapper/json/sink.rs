//! Rows to JSON.

use event::column::View;
use event::{Batch, Column, Object, Value};

use super::{lenient, write_string};
use crate::component::{SinkMapper, SinkMapperSetup};
use crate::error::Error;
use crate::mapper::{Options, write_value};
use crate::message::Messages;
use crate::rows::Rejected;
use crate::template::Template;

/// Nesting of values that is written.
const DEPTH_MAX: usize = 256;

pub(super) struct Sink {
    form: Form,
    /// Around the result.
    prefix: String,
    suffix: String,
    is_grouped: bool,
    is_validated: bool,
    writes_null: bool,
}

enum Form {
    /// `"name":` of each attribute.
    Events(Vec<String>),
    Template(Template),
}

impl Sink {
    pub fn new(setup: &SinkMapperSetup<'_>) -> Result<Sink, Error> {
        let options = Options::of_sink(setup.mapping);
        let form = match options.payload(setup.schema)? {
            Some(text) => Form::Template(Template::new(text, setup.schema, &options.component)?),
            None => Form::Events(
                setup
                    .schema
                    .attributes
                    .iter()
                    .map(|attribute| {
                        let mut name = String::new();
                        write_string(&mut name, &attribute.name);
                        name.push(':');
                        name
                    })
                    .collect(),
            ),
        };
        let (prefix, suffix) = enclosing(options.text_or_default("enclosing.element"));
        Ok(Sink {
            form,
            prefix,
            suffix,
            is_grouped: options.bool("event.grouping.enabled"),
            is_validated: options.bool("validate.json"),
            writes_null: options.bool("enable.null.attribute.value"),
        })
    }

    fn write_event(&self, out: &mut String, batch: &Batch, row: usize) {
        match &self.form {
            Form::Template(template) => {
                let null = if self.writes_null {
                    "null"
                } else {
                    "undefined"
                };
                template.write(out, batch, row, null);
            }
            Form::Events(names) => {
                out.push_str("{\"event\":{");
                let mut is_first = true;
                for (name, column) in names.iter().zip(&batch.columns) {
                    if is_left_out(column, row) {
                        continue;
                    }
                    if !is_first {
                        out.push(',');
                    }
                    is_first = false;
                    out.push_str(name);
                    self.write_attribute(out, column, row);
                }
                out.push_str("}}");
            }
        }
    }

    #[inline]
    fn write_attribute(&self, out: &mut String, column: &Column, row: usize) {
        if column.is_null(row) {
            // Siddhi's mapper puts the text `undefined` in the place of a null.
            return out.push_str(if self.writes_null {
                "null"
            } else {
                "\"undefined\""
            });
        }
        match column.view() {
            View::Str(texts) => write_string(out, texts.get(row)),
            View::Any(values) => self.write_json(out, &values[row], 0),
            _ => write_value(out, column, row),
        }
    }

    fn write_json(&self, out: &mut String, value: &Value, depth: usize) {
        if depth > DEPTH_MAX {
            return out.push_str("null");
        }
        match value {
            Value::Str(text) => write_string(out, text),
            Value::Object(Object::Map(map)) => {
                out.push('{');
                let mut is_first = true;
                for (key, value) in map.lock().iter() {
                    if value.is_null() && !self.writes_null {
                        continue;
                    }
                    if !is_first {
                        out.push(',');
                    }
                    is_first = false;
                    write_string(out, &event::text::to_text(key));
                    out.push(':');
                    self.write_json(out, value, depth + 1);
                }
                out.push('}');
            }
            Value::Object(Object::List(list)) => self.write_list(out, &list.lock(), depth),
            Value::Object(Object::Set(set)) => self.write_list(out, &set.lock(), depth),
            Value::Object(Object::Array(array)) => self.write_list(out, array, depth),
            Value::Object(_) => write_string(out, &event::text::to_text(value)),
            plain => event::text::write_value(out, plain),
        }
    }

    fn write_list(&self, out: &mut String, values: &[Value], depth: usize) {
        out.push('[');
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            self.write_json(out, value, depth + 1);
        }
        out.push(']');
    }

    fn write_group(&self, out: &mut String, batch: &Batch, rows: &[u32]) {
        out.push_str(&self.prefix);
        if let [row] = rows {
            self.write_event(out, batch, *row as usize);
        } else {
            out.push('[');
            let separator = match self.form {
                Form::Events(_) => ",",
                Form::Template(_) => ",\n",
            };
            for (i, &row) in rows.iter().enumerate() {
                if i > 0 {
                    out.push_str(separator);
                }
                self.write_event(out, batch, row as usize);
            }
            out.push(']');
        }
        out.push_str(&self.suffix);
    }
}

/// An empty map in an OBJECT attribute is left out, name and all.
fn is_left_out(column: &Column, row: usize) -> bool {
    match column.view() {
        View::Any(values) => {
            matches!(&values[row], Value::Object(Object::Map(map)) if map.lock().is_empty())
        }
        _ => false,
    }
}

/// `$.a.b` to `{"a":{"b":` and `}}`.
fn enclosing(path: &str) -> (String, String) {
    let path = path.trim();
    let path = path
        .strip_prefix('$')
        .map_or(path, |rest| rest.trim_start_matches('.'));
    let (mut prefix, mut suffix) = (String::new(), String::new());
    for name in path.split('.').filter(|name| !name.is_empty()) {
        prefix.push('{');
        write_string(&mut prefix, name);
        prefix.push(':');
        suffix.push('}');
    }
    (prefix, suffix)
}

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        let groups: &mut dyn Iterator<Item = &[u32]> = if self.is_grouped {
            &mut std::iter::once(rows)
        } else {
            &mut rows.chunks(1)
        };
        for group in groups {
            let start = out.text_start();
            self.write_group(out.text(), batch, group);
            if self.is_validated && !lenient::is_json(&out.text()[start..]) {
                let rejected = Rejected::new(
                    &out.text()[start..],
                    "the payload is not valid JSON",
                    "put the template of @payload right, or leave out validate.json",
                );
                out.reject_text(start, rejected, group);
            } else {
                out.end_text(start, group);
            }
        }
    }
}
