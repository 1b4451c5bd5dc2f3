//! Asking a table again and again for rows beyond the last one seen.

use std::time::Duration;

use event::{Attribute, Column, ColumnBuilder, Schema, Type, Value};
use jiff::tz::TimeZone;
use lang::cron::Cron;

use super::Options;
use super::delivery::heeded;
use crate::rdbms;
use crate::rdbms::link::{Bound, Found, Link, Statement};
use crate::rdbms::sql::Sql;
use connect::component::{
    Connection, Difference, Finished, Payload, Room, Signal, Source, SourceLink,
};
use connect::error::Error;
use connect::option::Settings;
use connect::rows::Properties;

/// Rows that one question brings; what is behind them comes with the next.
const ROWS_MAX: usize = 10_000;

/// When the table is asked again.
enum Pace {
    Interval(Duration),
    Cron(Cron),
}

pub(super) struct Polling {
    options: Options,
    /// Types of the stream's attributes, which say how columns of their names are read.
    schema: Schema,
    column: String,
    pace: Pace,
    waits_for_missed: bool,
    missed_wait: Option<Duration>,
    /// The last value seen, as text.
    last: Option<String>,
    /// Since when the next number is missing.
    missed_since: Option<i64>,
}

impl Polling {
    pub fn new(options: Options, schema: &Schema) -> Result<Polling, Error> {
        let option = |name: &str| options.transport.option(name).map(str::trim);
        let settings = Settings::of_source(&options.transport, super::CONNECTORS);
        let interval = settings.number("polling.interval")?;
        let missed: i64 = settings.number("missed.record.waiting.timeout")?;
        let column = option("polling.column").unwrap_or_default().to_owned();
        let pace = match option("cron.expression") {
            None => Pace::Interval(Duration::from_secs(interval)),
            Some(text) => Pace::Cron(Cron::parse(text).map_err(|cause| {
                options.refused(format!("option 'cron.expression' is '{text}': {cause}"))
            })?),
        };
        Ok(Polling {
            column,
            pace,
            waits_for_missed: option("wait.on.missed.record") == Some("true"),
            missed_wait: u64::try_from(missed).ok().map(Duration::from_secs),
            schema: schema.clone(),
            last: None,
            missed_since: None,
            options,
        })
    }

    /// Columns of the table in lower case, of the types in which the stream wants them.
    fn attributes(&self, database: &mut dyn Link) -> Result<Vec<Attribute>, Error> {
        let query = database.dialect().columns_query(&self.options.table);
        let rows = database.list(&query).map_err(|f| self.options.error(f))?;
        let names = rows
            .into_iter()
            .filter_map(|row| row.into_iter().next().flatten());
        let attributes: Vec<Attribute> = names
            .map(|name| {
                let name = name.to_lowercase();
                let wanted = self.schema.attributes.iter();
                let ty = wanted
                    .clone()
                    .find(|a| a.name.eq_ignore_ascii_case(&name))
                    .map_or(Type::String, |a| a.ty);
                Attribute {
                    name: name.as_str().into(),
                    ty,
                }
            })
            .collect();
        let is_there = attributes
            .iter()
            .any(|a| a.name.eq_ignore_ascii_case(&self.column));
        match (attributes.is_empty(), is_there) {
            (true, _) => Err(self.options.failed(format!(
                "there is no table '{}' in the database",
                self.options.table
            ))),
            (_, false) => Err(self.options.failed(format!(
                "table '{}' has no column '{}', given in option 'polling.column'",
                self.options.table, self.column
            ))),
            _ => Ok(attributes),
        }
    }

    /// The largest value there is; an empty table has all to come.
    fn newest(&self, database: &mut dyn Link) -> Result<Option<String>, Error> {
        let dialect = database.dialect();
        let sql = format!(
            "SELECT max({}) FROM {}",
            dialect.column(&self.column),
            dialect.table(&self.options.table)
        );
        let rows = database.list(&sql).map_err(|f| self.options.error(f))?;
        Ok(rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next().flatten()))
    }

    /// The rows beyond the last, the polling column as text behind them.
    fn ask(&self, database: &mut dyn Link, attributes: &[Attribute]) -> Result<Vec<Column>, Error> {
        let dialect = database.dialect();
        let column = dialect.column(&self.column);
        let columns: Vec<String> = attributes.iter().map(|a| dialect.column(&a.name)).collect();
        let condition = match &self.last {
            // A literal without a type is compared in the type of the column.
            Some(last) => {
                let last = dialect
                    .literal(last)
                    .map_err(|cause| self.options.failed(cause))?;
                format!(" WHERE {column} > {last}")
            }
            None => String::new(),
        };
        let limit = dialect.limit(ROWS_MAX);
        let sql = format!(
            "SELECT {}, {column} FROM {}{condition} ORDER BY {column}{limit}",
            columns.join(", "),
            dialect.table(&self.options.table)
        );
        let statement = Statement::new(Sql::text(&sql), dialect);
        let mut wanted = attributes.to_vec();
        wanted.push(Attribute {
            name: self.column.as_str().into(),
            ty: Type::String,
        });
        let mut found = Found::new(&wanted, true);
        database
            .find(Bound::new(&statement, &[]), 0, &mut found)
            .map_err(|f| self.options.error(f))?;
        Ok(found
            .builders
            .into_iter()
            .map(ColumnBuilder::finish)
            .collect())
    }

    /// Does the row come before one that is missing, and is to be waited for?
    fn is_behind_gap(&mut self, value: &str, now: i64) -> bool {
        let numbers = self.last.as_deref().map(str::parse::<i64>);
        let (true, Some(Ok(last)), Ok(next)) =
            (self.waits_for_missed, numbers, value.parse::<i64>())
        else {
            return false;
        };
        if next <= last + 1 {
            self.missed_since = None;
            return false;
        }
        let since = *self.missed_since.get_or_insert(now);
        let is_over = self
            .missed_wait
            .is_some_and(|wait| now - since >= wait.as_millis() as i64);
        if is_over {
            self.missed_since = None;
        }
        !is_over
    }

    /// Hands the rows on; how many there were.
    fn deliver(
        &mut self,
        attributes: &[Attribute],
        columns: &[Column],
        link: &mut dyn SourceLink,
    ) -> Result<usize, Error> {
        let Some((keys, values)) = columns.split_last() else {
            return Ok(0);
        };
        let properties = Properties::none();
        let mut map: Vec<(Value, Value)> = attributes
            .iter()
            .map(|a| (Value::str(&a.name), Value::Null))
            .collect();
        let mut delivered = 0;
        for row in 0..keys.len() {
            let Value::Str(key) = keys.value(row) else {
                continue;
            };
            if self.is_behind_gap(&key, link.now()) {
                break;
            }
            for (entry, column) in map.iter_mut().zip(values) {
                entry.1 = column.value(row);
            }
            let room = link.map(Payload::Map(&map), &properties);
            self.last = Some(key.to_string());
            delivered += 1;
            if room == Room::Full {
                link.post(self.save().as_slice())?;
            }
        }
        if delivered > 0 {
            link.post(self.save().as_slice())?;
        }
        Ok(delivered)
    }

    /// Waits until the next time of the expression, where there is one; whether the source is to end.
    fn wait_for_cron(&self, link: &mut dyn SourceLink) -> Option<Finished> {
        let Pace::Cron(cron) = &self.pace else {
            return None;
        };
        let due = cron.next(link.now(), &TimeZone::system());
        loop {
            // An expression may have no time left: then there is nothing but the end to wait for.
            let left = due.map_or(1000, |due| due - link.now());
            let left = u64::try_from(left).unwrap_or(0);
            if left == 0 {
                return None;
            }
            let signal = link.wait(Duration::from_millis(left));
            if let Some(finished) = heeded(signal, link) {
                return Some(finished);
            }
        }
    }

    fn save(&self) -> Vec<u8> {
        format!("poll 1\n{}", self.last.as_deref().unwrap_or_default()).into_bytes()
    }
}

impl Source for Polling {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let mut database = rdbms::link(&self.options.target)?;
        let attributes = self.attributes(database.as_mut())?;
        if self.last.is_none() {
            self.last = self.newest(database.as_mut())?;
            link.post(self.save().as_slice())?;
        }
        link.report(Connection::Connected);
        if let Some(finished) = self.wait_for_cron(link) {
            return Ok(finished);
        }
        loop {
            let columns = self.ask(database.as_mut(), &attributes)?;
            let delivered = self.deliver(&attributes, &columns, link)?;
            let signal = match (&self.pace, delivered) {
                (_, ROWS_MAX) => link.wait(Duration::ZERO),
                (Pace::Cron(_), _) => Signal::Timeout,
                (Pace::Interval(interval), 0) => link.idle(*interval),
                (Pace::Interval(interval), _) => link.wait(*interval),
            };
            if let Some(finished) = heeded(signal, link) {
                return Ok(finished);
            }
            if delivered < ROWS_MAX
                && let Some(finished) = self.wait_for_cron(link)
            {
                return Ok(finished);
            }
        }
    }

    /// Until a question brings nothing.
    fn ends(&self) -> bool {
        matches!(self.pace, Pace::Interval(_))
    }

    fn probe(&mut self) -> Result<Vec<Difference>, Error> {
        self.options.probe()
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        let text = std::str::from_utf8(position).ok();
        let last = text.and_then(|text| text.strip_prefix("poll 1\n"));
        let last = last.ok_or_else(|| {
            self.options
                .failed("the saved state has no position of a polled table for it")
        })?;
        self.last = (!last.is_empty()).then(|| last.to_owned());
        Ok(())
    }
}
