//! Rows to XML.

use event::Batch;
use event::column::View;

use super::tree::Tree;
use crate::component::{SinkMapper, SinkMapperSetup};
use crate::error::Error;
use crate::mapper::{Options, write_value};
use crate::message::Messages;
use crate::rows::Rejected;
use crate::template::Template;

pub(super) struct Sink {
    form: Form,
    /// Around the events.
    prefix: String,
    suffix: String,
    is_validated: bool,
    value: String,
}

enum Form {
    /// Names of the attributes.
    Events(Vec<String>),
    Template(Template),
}

impl Sink {
    pub fn new(setup: &SinkMapperSetup<'_>) -> Result<Sink, Error> {
        let options = Options::of_sink(setup.mapping);
        let template = options
            .payload(setup.schema)?
            .map(|text| Template::new(text, setup.schema, &options.component))
            .transpose()?;
        let prefix = match options.text("enclosing.element") {
            Some(tag) => tag.to_owned(),
            None if template.is_some() => String::new(),
            None => "<events>".to_owned(),
        };
        Ok(Sink {
            suffix: closing(&prefix),
            prefix,
            is_validated: template.is_some() && options.bool("validate.xml"),
            form: match template {
                Some(template) => Form::Template(template),
                None => Form::Events(
                    setup
                        .schema
                        .attributes
                        .iter()
                        .map(|attribute| attribute.name.clone())
                        .collect(),
                ),
            },
            value: String::new(),
        })
    }

    fn write_event(&mut self, out: &mut String, batch: &Batch, row: usize) {
        let names = match &self.form {
            Form::Template(template) => return template.write(out, batch, row, "null"),
            Form::Events(names) => names,
        };
        out.push_str("<event>");
        for (name, column) in names.iter().zip(&batch.columns) {
            out.push('<');
            out.push_str(name);
            if column.is_null(row) {
                out.push_str(" xsi:nil=\"true\"/>");
                continue;
            }
            out.push('>');
            match column.view() {
                View::Str(texts) => escape(out, texts.get(row)),
                View::Any(_) => {
                    self.value.clear();
                    write_value(&mut self.value, column, row);
                    escape(out, &self.value);
                }
                _ => write_value(out, column, row),
            }
            out.push_str("</");
            out.push_str(name);
            out.push('>');
        }
        out.push_str("</event>");
    }
}

/// `</portfolio>` for `<portfolio xmlns:f='x'>`: made from its first word.
fn closing(tag: &str) -> String {
    let word = tag.split_whitespace().next().unwrap_or("");
    let name = word.trim_start_matches('<').trim_end_matches('>');
    if name.is_empty() {
        String::new()
    } else {
        format!("</{name}>")
    }
}

/// Siddhi writes `&`, `<` and `>` as they are, which no reader takes back.
fn escape(out: &mut String, text: &str) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'\r' => "&#13;",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        out.push_str(escaped);
        from = at + 1;
    }
    out.push_str(&text[from..]);
}

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        let start = out.text_start();
        out.text().push_str(&self.prefix);
        for &row in rows {
            self.write_event(out.text(), batch, row as usize);
        }
        out.text().push_str(&self.suffix);
        if self.is_validated
            && let Err(cause) = Tree::fragment(&out.text()[start..])
        {
            let rejected = Rejected::new(
                &out.text()[start..],
                cause,
                "put the template of @payload right, or leave out validate.xml",
            );
            return out.reject_text(start, rejected, rows);
        }
        out.end_text(start, rows);
    }
}
