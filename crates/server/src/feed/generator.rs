//! The events of one source of a feed, one after the other. All that may wait for a disk or a database is done at the
//! beginning.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use connect::component::TableRead;
use connect::error::chain;
use connect::registry::Registry;
use event::{Attribute, Column, Schema, Type, Value};
use serde_json::Value as Json;

use super::config::{Config, Kind, SourceConfig, TableSource};
use crate::cells::cells;
use crate::random;
use crate::rejected::json_value;

/// Bytes of a line of a file.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a file whose timestamps do not ascend: it is sorted in memory.
const SORTED_BYTES_MAX: u64 = 64 << 20;

/// Rows of a table: they are held in memory.
const TABLE_ROWS_MAX: usize = 100_000;

/// Where the rows of a feed come from, and when it begins.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// The folder of CSV files; without it, none can be read.
    pub files: Option<&'a Path>,
    /// Knows databases.
    pub registry: Registry,
    pub now: i64,
}

pub(super) struct Generator {
    pub app: String,
    pub stream: String,
    /// The event to come, with its timestamp.
    next: Option<(i64, Json)>,
    rows: Rows,
    /// Timestamps are from the first to the last.
    first: i64,
    last: i64,
}

enum Rows {
    Random {
        rows: random::Rows,
        time: i64,
        step: i64,
    },
    Lines {
        lines: Lines,
        time: i64,
        step: i64,
    },
    Stamped(Lines, usize),
    Sorted(VecDeque<(i64, Json)>),
    Table {
        rows: TableRows,
        time: i64,
        step: i64,
    },
}

/// What a table had when the feed began.
struct TableRows {
    columns: Vec<Column>,
    /// The first column is the timestamp.
    is_stamped: bool,
    next: usize,
}

struct Lines {
    from: BufReader<File>,
    name: String,
    delimiter: char,
    columns: usize,
}

impl Generator {
    /// # Errors
    /// Its file or table cannot be read.
    pub fn new(
        config: &Config,
        source: &SourceConfig,
        schema: &Schema,
        from: Inputs<'_>,
    ) -> Result<Generator, String> {
        // Without a start, timestamps of a file are taken as they are.
        let (first, last) = (config.start.unwrap_or(0), config.end.unwrap_or(i64::MAX));
        let Inputs {
            files,
            registry,
            now,
        } = from;
        let (time, step) = (config.start.unwrap_or(now), source.step);
        let rows = match &source.kind {
            Kind::Random(patterns) => {
                let names = schema.attributes.iter().map(|a| a.name.clone());
                let patterns: Vec<_> = names.zip(patterns.iter().cloned()).collect();
                let rows = random::Rows::new(schema, &patterns, now.unsigned_abs())?;
                Rows::Random { rows, time, step }
            }
            Kind::Csv {
                file,
                delimiter,
                timestamp,
                is_ordered,
            } => {
                let columns = schema.attributes.len() + usize::from(timestamp.is_some());
                let mut lines = Lines::open(files, file, *delimiter, columns)?;
                match timestamp {
                    None => Rows::Lines { lines, time, step },
                    Some(at) if *is_ordered => Rows::Stamped(lines, *at),
                    Some(at) => Rows::Sorted(lines.sorted(*at)?),
                }
            }
            Kind::Table(table) => {
                let events = config.events.map_or(usize::MAX, |events| events as usize);
                let rows = TableRows::read(table, schema, (first, last), events, registry)?;
                Rows::Table { rows, time, step }
            }
        };
        Ok(Generator {
            app: source.app.clone(),
            stream: source.stream.clone(),
            next: None,
            rows,
            first,
            last,
        })
    }

    /// The timestamp of the event to come; `None` when there is none.
    pub fn peek(&mut self) -> Result<Option<i64>, String> {
        while self.next.is_none() {
            let next = self.rows.next_event()?;
            let Some((time, row)) = next else {
                return Ok(None);
            };
            if time <= self.last && time >= self.first {
                self.next = Some((time, row));
            } else if matches!(
                self.rows,
                Rows::Random { .. } | Rows::Lines { .. } | Rows::Table { .. }
            ) {
                // These only ascend.
                return Ok(None);
            }
        }
        Ok(self.next.as_ref().map(|(time, _)| *time))
    }

    pub fn take(&mut self) -> Option<(i64, Json)> {
        self.next.take()
    }
}

impl Rows {
    fn next_event(&mut self) -> Result<Option<(i64, Json)>, String> {
        let (row, time, step) = match self {
            Rows::Random { rows, time, step } => (Some(rows.next_row()), time, step),
            Rows::Lines { lines, time, step } => (lines.next_cells()?.map(row_of), time, step),
            Rows::Stamped(lines, at) => return lines.next_stamped(*at),
            Rows::Sorted(rows) => return Ok(rows.pop_front()),
            Rows::Table { rows, time, step } => match rows.next_row() {
                Some((Some(stamp), row)) => return Ok(Some((stamp, row))),
                other => (other.map(|(_, row)| row), time, step),
            },
        };
        let now = *time;
        *time = time.saturating_add(*step);
        Ok(row.map(|row| (now, row)))
    }
}

impl TableRows {
    /// # Errors
    /// It cannot be read, or has more rows than are wanted and can be held.
    fn read(
        table: &TableSource,
        schema: &Schema,
        (first, last): (i64, i64),
        events: usize,
        registry: Registry,
    ) -> Result<TableRows, String> {
        let named = |at: usize| table.columns.get(at);
        let attributes = schema.attributes.iter().enumerate();
        let columns = attributes.map(|(at, attribute)| {
            let name = named(at).unwrap_or(&attribute.name);
            Attribute {
                name: name.clone(),
                ty: attribute.ty,
            }
        });
        let stamp = table.timestamp.as_ref();
        let stamp = stamp.map(|name| Attribute {
            name: name.clone(),
            ty: Type::Long,
        });
        let columns: Vec<Attribute> = stamp.into_iter().chain(columns).collect();
        let is_stamped = table.timestamp.is_some();
        let read = TableRead {
            jdbc_url: &table.jdbc_url.0,
            username: table.username.as_deref(),
            password: table.password.as_ref().map(|password| password.0.as_str()),
            table: &table.table,
            columns: &columns,
            order: is_stamped.then_some((0, first, last)),
            rows_max: events.min(TABLE_ROWS_MAX + 1),
        };
        let mut connectors = registry.connectors.iter();
        let columns = connectors
            .find_map(|connector| connector.read_table(&read))
            .ok_or("this build of headwater has no databases")?
            .map_err(|error| chain(&error))?;
        if columns
            .first()
            .is_some_and(|column| column.len() > TABLE_ROWS_MAX)
        {
            return Err(format!(
                "table '{}' has more than {TABLE_ROWS_MAX} rows: say how many are wanted with 'noOfEvents', or name a \
                 view with fewer",
                table.table
            ));
        }
        Ok(TableRows {
            columns,
            is_stamped,
            next: 0,
        })
    }

    /// The next row, with its own timestamp if it has one. One whose timestamp is null is left out.
    fn next_row(&mut self) -> Option<(Option<i64>, Json)> {
        while self
            .columns
            .first()
            .is_some_and(|column| self.next < column.len())
        {
            let row = self.next;
            self.next += 1;
            let stamp = match (self.is_stamped, self.columns[0].value(row)) {
                (false, _) => None,
                (true, Value::Long(stamp)) => Some(stamp),
                (true, _) => continue,
            };
            let values = &self.columns[usize::from(self.is_stamped)..];
            let values = values.iter().map(|column| json_value(&column.value(row)));
            return Some((stamp, values.collect()));
        }
        None
    }
}

impl Lines {
    fn open(
        files: Option<&Path>,
        file: &str,
        delimiter: char,
        columns: usize,
    ) -> Result<Lines, String> {
        let folder = files.ok_or_else(|| {
            format!("file '{file}' cannot be read: start the server with --simulation-files DIR")
        })?;
        let opened = File::open(folder.join(file));
        let from = opened.map_err(|error| format!("cannot read file '{file}': {error}"))?;
        Ok(Lines {
            from: BufReader::new(from),
            name: file.to_owned(),
            delimiter,
            columns,
        })
    }

    /// The cells of the next line that has as many as are needed; others are passed over, as Streaming
    /// Integrator does.
    fn next_cells(&mut self) -> Result<Option<Vec<String>>, String> {
        loop {
            let mut line = String::new();
            let read = self.from.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
            let read =
                read.map_err(|error| format!("cannot read file '{}': {error}", self.name))?;
            if read == 0 {
                return Ok(None);
            }
            let line = line
                .trim_end_matches(['\r', '\n'])
                .trim_start_matches('\u{feff}');
            let cells = cells(line, self.delimiter);
            if cells.len() == self.columns {
                return Ok(Some(cells));
            }
            tracing::warn!(
                file = self.name,
                cells = cells.len(),
                needed = self.columns,
                "line of a feed left out: it has another number of cells"
            );
        }
    }

    fn next_stamped(&mut self, at: usize) -> Result<Option<(i64, Json)>, String> {
        while let Some(mut cells) = self.next_cells()? {
            let time = cells.get(at).and_then(|cell| cell.trim().parse().ok());
            if let Some(time) = time.filter(|time| *time >= 0) {
                cells.remove(at);
                return Ok(Some((time, row_of(cells))));
            }
            tracing::warn!(
                file = self.name,
                column = at,
                "line of a feed left out: its column of timestamps has none (milliseconds since 1970)"
            );
        }
        Ok(None)
    }

    fn sorted(&mut self, at: usize) -> Result<VecDeque<(i64, Json)>, String> {
        let bytes = self.from.get_ref().metadata().map_or(0, |m| m.len());
        if bytes > SORTED_BYTES_MAX {
            return Err(format!(
                "file '{}' has {bytes} bytes, more than {SORTED_BYTES_MAX}: sort it by its timestamps, and set \
                 isOrdered to true",
                self.name
            ));
        }
        let mut rows = Vec::new();
        while let Some(row) = self.next_stamped(at)? {
            rows.push(row);
        }
        rows.sort_by_key(|(time, _)| *time);
        Ok(rows.into())
    }
}

fn row_of(cells: Vec<String>) -> Json {
    cells.into_iter().map(Json::String).collect()
}
