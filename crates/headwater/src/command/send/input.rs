//! The rows of `headwater send`: from arguments, a file, standard input, or by chance.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use anyhow::Context as _;
use event::{Schema, Type};
use serde_json::{Map, Value as Json, json};
use server::cells::cells;
use server::random;

use crate::cli::{SendArgs, SendFormat};

/// Bytes of a row.
const ROW_BYTES_MAX: u64 = 1 << 20;

/// An event as JSON on one line, and where it came from.
pub struct Row {
    pub text: String,
    pub place: String,
}

type To = SyncSender<Result<Row, String>>;

/// Nobody takes rows any more, or the input is at fault and that has been said.
struct Ended;

pub struct Input {
    source: Source,
    schema: Schema,
    skip: u64,
    repeat: u64,
    stamp: Stamp,
    /// Rows so far, also those that are skipped.
    rows: u64,
}

enum Source {
    Row(Json),
    File {
        /// `None`: standard input.
        path: Option<PathBuf>,
        format: SendFormat,
        delimiter: u8,
    },
    Random {
        rows: random::Rows,
        count: u64,
    },
}

/// Where timestamps come from.
struct Stamp {
    first: Option<i64>,
    step: i64,
    column: Option<String>,
}

impl Input {
    /// # Errors
    /// The arguments do not fit each other or the stream, or the file cannot be opened.
    pub fn new(args: &SendArgs, schema: Schema) -> anyhow::Result<Input> {
        let usage = |what: &str| server::Error::Usage(what.to_owned());
        let source = match (&args.file, args.random, &args.values[..]) {
            (Some(path), None, []) => {
                let path = Some(path.clone()).filter(|path| path.as_os_str() != "-");
                if let Some(path) = &path {
                    File::open(path)
                        .with_context(|| format!("cannot open file '{}'", path.display()))?;
                } else if args.repeat > 1 {
                    return Err(usage(
                        "standard input cannot be read again: --repeat needs a file",
                    )
                    .into());
                }
                Source::File {
                    format: args.format.unwrap_or_else(|| format_of(path.as_deref())),
                    path,
                    delimiter: u8::try_from(args.delimiter)
                        .map_err(|_| usage("--delimiter is one ASCII character"))?,
                }
            }
            (None, Some(count), []) => {
                let patterns: Result<Vec<_>, String> =
                    args.patterns.iter().map(|text| pattern(text)).collect();
                let rows = patterns
                    .and_then(|patterns| random::Rows::new(&schema, &patterns, args.seed))
                    .map_err(server::Error::Usage)?;
                Source::Random { rows, count }
            }
            (None, None, [_, ..]) => Source::Row(row_of(&args.values, &schema)),
            _ => return Err(usage("say what to send: VALUES, --file FILE or --random N").into()),
        };
        Ok(Input {
            source,
            schema,
            skip: args.skip,
            repeat: args.repeat,
            stamp: Stamp {
                first: args.timestamp,
                step: args.timestamp_step,
                column: args.timestamp_column.clone(),
            },
            rows: 0,
        })
    }

    /// Reads all there is, as often as wanted. A fault of the input is the last that is sent.
    pub fn read(mut self, to: &To) {
        for _ in 0..self.repeat {
            let read = match std::mem::replace(&mut self.source, Source::Row(Json::Null)) {
                Source::Row(row) => {
                    let read = self.put(row.clone(), String::new, to);
                    self.source = Source::Row(row);
                    read
                }
                Source::Random { mut rows, count } => {
                    let read = (0..count).try_for_each(|at| {
                        self.put(rows.next_row(), || format!("random row {}", at + 1), to)
                    });
                    self.source = Source::Random { rows, count };
                    read
                }
                Source::File {
                    path,
                    format,
                    delimiter,
                } => {
                    let read = self.read_file(path.as_deref(), format, delimiter, to);
                    self.source = Source::File {
                        path,
                        format,
                        delimiter,
                    };
                    read
                }
            };
            if read.is_err() {
                return;
            }
        }
    }

    /// Passes a row on, with its timestamp.
    fn put(&mut self, row: Json, place: impl FnOnce() -> String, to: &To) -> Result<(), Ended> {
        let at = self.rows;
        self.rows += 1;
        if at < self.skip {
            return Ok(());
        }
        let after = i64::try_from(at).unwrap_or(i64::MAX);
        let row = match self.stamp.first {
            Some(first) => {
                let time = first.saturating_add(self.stamp.step.saturating_mul(after));
                json!({ "timestamp": time, "data": row })
            }
            None => row,
        };
        let row = Row {
            text: row.to_string(),
            place: place(),
        };
        to.send(Ok(row)).map_err(|_| Ended)
    }

    fn read_file(
        &mut self,
        path: Option<&Path>,
        format: SendFormat,
        delimiter: u8,
        to: &To,
    ) -> Result<(), Ended> {
        let name = path.map_or_else(|| "standard input".to_owned(), |p| p.display().to_string());
        let opened: io::Result<Box<dyn BufRead>> = match path {
            Some(path) => File::open(path).map(|file| Box::new(BufReader::new(file)) as _),
            None => Ok(Box::new(BufReader::new(io::stdin()))),
        };
        let read = opened
            .map_err(|error| format!("cannot read {name}: {error}"))
            .map(|from| match format {
                SendFormat::Ndjson => self.read_lines(from, &name, to),
                SendFormat::Csv => self.read_csv(from, &name, delimiter, to),
            });
        match read {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Stop::Ended)) => Err(Ended),
            Ok(Err(Stop::Fault(fault))) | Err(fault) => {
                to.send(Err(fault)).ok();
                Err(Ended)
            }
        }
    }

    fn read_lines(&mut self, mut from: impl BufRead, name: &str, to: &To) -> Result<(), Stop> {
        let (mut line, mut number) = (Vec::new(), 0u64);
        while read_line(&mut from, &mut line, name, number + 1)? {
            number += 1;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let place = || format!("{name}:{number}");
            let mut row: Json = serde_json::from_slice(&line).map_err(|error| {
                Stop::Fault(format!(
                    "{}: it is no JSON: {error}; expected: one row per line, such as [\"a\",1.5]; for CSV \
                     use --format csv",
                    place()
                ))
            })?;
            if let (Some(column), Json::Object(values)) = (&self.stamp.column, &mut row) {
                let time = values.get(column).cloned().unwrap_or(Json::Null);
                if self.schema.index_of(column).is_none() {
                    values.remove(column);
                }
                row = json!({ "timestamp": time, "data": row });
            }
            self.put(row, place, to)?;
        }
        Ok(())
    }

    /// The first record may name the columns, in any order; otherwise they are those of the stream.
    fn read_csv(
        &mut self,
        mut from: impl BufRead,
        name: &str,
        delimiter: u8,
        to: &To,
    ) -> Result<(), Stop> {
        let mut header: Option<Vec<String>> = None;
        let (mut is_first, mut number) = (true, 0u64);
        let mut record = Vec::new();
        loop {
            let begun = number + 1;
            if !read_record(&mut from, &mut record, name, &mut number)? {
                return Ok(());
            }
            let text = std::str::from_utf8(&record)
                .map_err(|_| Stop::Fault(format!("{name}:{begun}: it is no UTF-8 text")))?;
            let text = text.trim_end_matches(['\r', '\n']);
            let text = if is_first {
                text.trim_start_matches('\u{feff}')
            } else {
                text
            };
            if text.is_empty() {
                continue;
            }
            let cells = cells(text, char::from(delimiter));
            if std::mem::take(&mut is_first) && self.names_columns(&cells) {
                header = Some(cells);
                continue;
            }
            let place = || format!("{name}:{begun}");
            let row = self
                .row_of_cells(cells, header.as_deref())
                .map_err(|cause| Stop::Fault(format!("{}: {cause}", place())))?;
            self.put(row, place, to)?;
        }
    }

    fn names_columns(&self, cells: &[String]) -> bool {
        cells.iter().all(|cell| {
            let cell = cell.trim();
            self.schema.index_of(cell).is_some() || self.stamp.column.as_deref() == Some(cell)
        })
    }

    fn row_of_cells(&self, cells: Vec<String>, header: Option<&[String]>) -> Result<Json, String> {
        let Some(header) = header else {
            if let Some(column) = &self.stamp.column
                && self.schema.index_of(column).is_none()
            {
                return Err(format!(
                    "the first line does not name the columns, so there is no column '{column}'; expected: a \
                     first line with {column} and the attributes of the stream"
                ));
            }
            let attributes = self.schema.attributes.iter();
            let types = attributes
                .map(|a| a.ty)
                .chain(std::iter::repeat(Type::String));
            let row: Json = cells
                .into_iter()
                .zip(types)
                .map(|(cell, ty)| cell_of(cell, ty))
                .collect();
            let at = self
                .stamp
                .column
                .as_ref()
                .and_then(|c| self.schema.index_of(c));
            return Ok(match at {
                Some(at) => json!({ "timestamp": row[at], "data": row }),
                None => row,
            });
        };
        if cells.len() != header.len() {
            return Err(format!(
                "the line has {} cells; expected: {}, one for each column of the first line",
                cells.len(),
                header.len()
            ));
        }
        let (mut values, mut time) = (Map::new(), None);
        for (column, cell) in header.iter().zip(cells) {
            let column = column.trim();
            if self.stamp.column.as_deref() == Some(column) {
                time = Some(cell.clone());
            }
            if let Some(at) = self.schema.index_of(column) {
                values.insert(
                    column.to_owned(),
                    cell_of(cell, self.schema.attributes[at].ty),
                );
            }
        }
        Ok(match time {
            Some(time) => json!({ "timestamp": time, "data": values }),
            None => Json::Object(values),
        })
    }
}

/// Why reading ends before the end.
enum Stop {
    Ended,
    Fault(String),
}

impl From<Ended> for Stop {
    fn from(Ended: Ended) -> Stop {
        Stop::Ended
    }
}

/// Values in order, or a row as JSON in one argument.
fn row_of(values: &[String], schema: &Schema) -> Json {
    if let [only] = values
        && only.starts_with(['{', '['])
        && let Ok(row) = serde_json::from_str(only)
    {
        return row;
    }
    let attributes = schema.attributes.iter();
    let types = attributes
        .map(|a| a.ty)
        .chain(std::iter::repeat(Type::String));
    let cells = values.iter().cloned().zip(types);
    cells.map(|(cell, ty)| cell_of(cell, ty)).collect()
}

/// A cell is a text, which the server reads by the type of the attribute; `null` is none, and so is
/// nothing where a text cannot be.
fn cell_of(cell: String, ty: Type) -> Json {
    let is_null = cell == "null" || cell.is_empty() && ty != Type::String;
    if is_null {
        Json::Null
    } else {
        Json::String(cell)
    }
}

fn pattern(text: &str) -> Result<(String, random::Pattern), String> {
    let Some((name, pattern)) = text.split_once('=') else {
        return Err(format!(
            "'{text}' is no pattern: write ATTRIBUTE=PATTERN, such as price=1..100"
        ));
    };
    Ok((name.to_owned(), random::Pattern::parse(pattern)?))
}

fn format_of(path: Option<&Path>) -> SendFormat {
    let extension = path.and_then(Path::extension).and_then(|e| e.to_str());
    match extension {
        Some("csv" | "tsv" | "txt") => SendFormat::Csv,
        _ => SendFormat::Ndjson,
    }
}

/// The next line with its break; false at the end.
fn read_line(
    from: &mut impl BufRead,
    line: &mut Vec<u8>,
    name: &str,
    number: u64,
) -> Result<bool, Stop> {
    line.clear();
    let read = from.by_ref().take(ROW_BYTES_MAX).read_until(b'\n', line);
    let read = read.map_err(|error| Stop::Fault(format!("cannot read {name}: {error}")))?;
    if read as u64 == ROW_BYTES_MAX {
        return Err(Stop::Fault(format!(
            "{name}:{number}: the row is longer than {ROW_BYTES_MAX} bytes"
        )));
    }
    Ok(read > 0)
}

/// The next record, which goes on over lines while quotes are open; `number` is its last line.
fn read_record(
    from: &mut impl BufRead,
    record: &mut Vec<u8>,
    name: &str,
    number: &mut u64,
) -> Result<bool, Stop> {
    record.clear();
    let begun = *number + 1;
    let mut line = Vec::new();
    let mut quotes = 0;
    while read_line(from, &mut line, name, *number + 1)? {
        *number += 1;
        quotes += line.iter().filter(|&&byte| byte == b'"').count();
        record.extend_from_slice(&line);
        if quotes % 2 == 0 {
            return Ok(true);
        }
        if record.len() as u64 > ROW_BYTES_MAX {
            break;
        }
    }
    if record.is_empty() {
        return Ok(false);
    }
    Err(Stop::Fault(format!(
        "{name}:{begun}: a quote is opened and never closed"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_goes_on_while_a_quote_is_open() {
        let mut from = io::Cursor::new("a,\"x\ny\"\nb,2\n\"open");
        let (mut record, mut number) = (Vec::new(), 0);
        let mut next = || {
            let read = read_record(&mut from, &mut record, "f.csv", &mut number);
            (read, String::from_utf8_lossy(&record).into_owned(), number)
        };
        let (read, text, line) = next();
        assert!(matches!(read, Ok(true)));
        assert_eq!((text.as_str(), line), ("a,\"x\ny\"\n", 2));
        let (read, text, line) = next();
        assert!(matches!(read, Ok(true)));
        assert_eq!((text.as_str(), line), ("b,2\n", 3));
        let (Err(Stop::Fault(fault)), ..) = next() else {
            panic!("a fault");
        };
        assert!(fault.starts_with("f.csv:4:"), "{fault}");
    }
}
