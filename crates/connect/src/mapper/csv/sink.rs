//! Rows to separated values, quoted as Commons CSV does by default.

use event::{Batch, Type};

use super::{delimiter, header};
use crate::component::{SinkMapper, SinkMapperSetup};
use crate::error::Error;
use crate::mapper::{Options, write_value};
use crate::message::Messages;
use crate::scalar;

pub(super) struct Sink {
    delimiter: String,
    /// Attributes in the order of the columns.
    columns: Vec<usize>,
    /// The first record, until it is written.
    header: Option<String>,
    is_grouped: bool,
    field: String,
}

impl Sink {
    pub fn new(setup: &SinkMapperSetup<'_>) -> Result<Sink, Error> {
        let options = Options::of_sink(setup.mapping);
        let delimiter = delimiter(&options)?;
        let columns = columns(setup, &options)?;
        let header = header(&options).then(|| {
            let mut line = String::new();
            for (i, &column) in columns.iter().enumerate() {
                if i > 0 {
                    line.push_str(&delimiter);
                }
                write_field(
                    &mut line,
                    &setup.schema.attributes[column].name,
                    i == 0,
                    &delimiter,
                );
            }
            line.push('\n');
            line
        });
        Ok(Sink {
            delimiter,
            columns,
            header,
            is_grouped: options.bool("event.grouping.enabled"),
            field: String::new(),
        })
    }

    fn write_record(&mut self, out: &mut String, batch: &Batch, row: usize) {
        for (i, &index) in self.columns.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.delimiter);
            }
            let column = &batch.columns[index];
            if column.is_null(row) {
                out.push_str("null");
                continue;
            }
            match column.view() {
                event::column::View::Str(texts) => {
                    write_field(out, texts.get(row), i == 0, &self.delimiter);
                }
                event::column::View::Any(_) => {
                    self.field.clear();
                    write_value(&mut self.field, column, row);
                    let is_text = !column
                        .value(row)
                        .ty()
                        .is_some_and(|ty| ty.is_numeric() || ty == Type::Bool);
                    if is_text {
                        write_field(out, &self.field, i == 0, &self.delimiter);
                    } else {
                        out.push_str(&self.field);
                    }
                }
                _ => write_value(out, column, row),
            }
        }
        out.push('\n');
    }
}

/// The attributes that are written, in their order: all, or those of `@payload(attr='index')`.
fn columns(setup: &SinkMapperSetup<'_>, options: &Options<'_>) -> Result<Vec<usize>, Error> {
    let entries = &setup.mapping.payload;
    if entries.is_empty() {
        return Ok((0..setup.schema.attributes.len()).collect());
    }
    let mut columns = vec![None; entries.len()];
    for (name, at) in entries {
        let attribute = setup
            .schema
            .index_of(name)
            .ok_or_else(|| options.no_attribute(name, setup.schema))?;
        let slot = scalar::parse_int(at.trim())
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| columns.get_mut(at))
            .ok_or_else(|| {
                options.refused(format!(
                    "@payload puts attribute '{name}' at '{at}'; columns are numbered 0 to {}",
                    entries.len() - 1
                ))
            })?;
        if slot.replace(attribute).is_some() {
            return Err(options.refused(format!(
                "@payload puts two attributes at column {at}; give each its own"
            )));
        }
    }
    Ok(columns.into_iter().flatten().collect())
}

/// Would the end of the text and the delimiter behind it be read as a delimiter too early?
fn ends_with_a_part(text: &str, delimiter: &str) -> bool {
    delimiter
        .char_indices()
        .skip(1)
        .any(|(end, _)| text.ends_with(&delimiter[..end]))
}

/// `CSVPrinter.printAndQuote` with `QuoteMode.MINIMAL`.
fn write_field(out: &mut String, text: &str, is_first: bool, delimiter: &str) {
    let (first, last) = (text.bytes().next(), text.bytes().last());
    let is_quoted = match (first, last) {
        (Some(first), Some(last)) => {
            first <= b'#'
                || last <= b' '
                || text.contains(['"', '\n', '\r'])
                || text.contains(delimiter)
                || ends_with_a_part(text, delimiter)
        }
        _ => is_first,
    };
    if !is_quoted {
        return out.push_str(text);
    }
    out.push('"');
    for (i, part) in text.split('"').enumerate() {
        if i > 0 {
            out.push_str("\"\"");
        }
        out.push_str(part);
    }
    out.push('"');
}

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        if let Some(header) = self.header.take() {
            out.push_text(&header, &[]);
        }
        let groups: &mut dyn Iterator<Item = &[u32]> = if self.is_grouped {
            &mut std::iter::once(rows)
        } else {
            &mut rows.chunks(1)
        };
        for group in groups {
            let start = out.text_start();
            for &row in group {
                self.write_record(out.text(), batch, row as usize);
            }
            out.end_text(start, group);
        }
    }
}
