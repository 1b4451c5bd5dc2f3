//! Rows to text: lines `name:value`, or a template.

use event::{Batch, Schema, Value};

use super::Layout;
use super::mustache::Mustache;
use crate::component::{SinkMapper, SinkMapperSetup};
use crate::error::Error;
use crate::mapper::{Options, write_value};
use crate::message::Messages;
use crate::template::Template;

pub(super) struct Sink {
    layout: Layout,
    form: Form,
}

enum Form {
    /// Names of the attributes.
    Lines(Vec<String>),
    Template(Template),
    Mustache(Mustache),
}

impl Sink {
    pub fn new(setup: &SinkMapperSetup<'_>) -> Result<Sink, Error> {
        let options = Options::of_sink(setup.mapping);
        let schema: &Schema = setup.schema;
        let form = match options.payload(schema)? {
            None => Form::Lines(schema.attributes.iter().map(|a| a.name.clone()).collect()),
            Some(text) if options.bool("mustache.enabled") => Form::Mustache(
                Mustache::new(text, schema).map_err(|message| options.refused(message))?,
            ),
            Some(text) => Form::Template(Template::new(text, schema, &options.component)?),
        };
        Ok(Sink {
            layout: Layout::of(&options),
            form,
        })
    }

    fn write_event(&self, out: &mut String, batch: &Batch, row: usize) {
        match &self.form {
            Form::Template(template) => template.write(out, batch, row, "null"),
            Form::Mustache(mustache) => mustache.write(out, batch, row),
            Form::Lines(names) => {
                for (i, (name, column)) in names.iter().zip(&batch.columns).enumerate() {
                    if i > 0 {
                        out.push(',');
                        out.push_str(&self.layout.new_line);
                    }
                    out.push_str(name);
                    out.push(':');
                    if column.is_null(row) {
                        out.push_str("null");
                        continue;
                    }
                    let is_text = matches!(column.view(), event::column::View::Str(_))
                        || matches!(column.value(row), Value::Str(_));
                    if is_text {
                        out.push('"');
                    }
                    write_value(out, column, row);
                    if is_text {
                        out.push('"');
                    }
                }
            }
        }
    }
}

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        let groups: &mut dyn Iterator<Item = &[u32]> = if self.layout.is_grouped {
            &mut std::iter::once(rows)
        } else {
            &mut rows.chunks(1)
        };
        for group in groups {
            let start = out.text_start();
            for (i, &row) in group.iter().enumerate() {
                if i > 0 {
                    out.text().push_str(&self.layout.separator);
                }
                self.write_event(out.text(), batch, row as usize);
            }
            out.end_text(start, group);
        }
    }
}
