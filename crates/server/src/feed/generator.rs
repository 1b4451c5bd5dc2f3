//! The events of one source of a feed, one after the other.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use event::Schema;
use serde_json::Value as Json;

use super::config::{Config, Kind, SourceConfig};
use crate::cells::cells;
use crate::random;

/// Bytes of a line of a file.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a file whose timestamps do not ascend: it is sorted in memory.
const SORTED_BYTES_MAX: u64 = 64 << 20;

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
}

struct Lines {
    from: BufReader<File>,
    name: String,
    delimiter: char,
    columns: usize,
}

impl Generator {
    /// # Errors
    /// Its file cannot be read.
    pub fn new(
        config: &Config,
        source: &SourceConfig,
        schema: &Schema,
        (files, now): (Option<&Path>, i64),
    ) -> Result<Generator, String> {
        // Without a start, timestamps of a file are taken as they are.
        let (first, last) = (config.start.unwrap_or(0), config.end.unwrap_or(i64::MAX));
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
            } else if matches!(self.rows, Rows::Random { .. } | Rows::Lines { .. }) {
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
        };
        let now = *time;
        *time = time.saturating_add(*step);
        Ok(row.map(|row| (now, row)))
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
