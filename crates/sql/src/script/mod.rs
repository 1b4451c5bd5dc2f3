//! Batch scripts of WSO2 DAS: statements that name tables of the store, select from them, and put what they select
//! into others.
//!
//! Each statement sees what is committed when it begins, those before it included, and changes its table by one
//! commit or not at all. The first that fails ends the script; what those before it did stays.

mod declare;
mod functions;
mod incremental;
mod streams;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::{Column as ColumnName, TableReference};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::prelude::SessionContext;
use event::{Attribute, Schema, Type};
use futures_util::StreamExt as _;
use jiff::tz::TimeZone;
use lang::span::Span;
use serde_json::{Value as Json, json};
use store::EventStore;
use store::batch::{BatchWriter, Mode};
use store::definition::{Definition, TIMESTAMP};
use store::indexing::{Flags, Indexing};
use store::marks::{Mark, Marks};
use store::reader::Reader;
use store::scan::Checked;
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;

use self::declare::{Action, Column, Create, Own, TableOptions, What, own};
use self::incremental::Incremental;
use self::text::{Piece, pieces};
use crate::convert::{converted, data_type};
use crate::encode::{Encoder, Format};
use crate::engine::{Engine, Limits, begun, defect, function_names, session};
use crate::error::{Error, Known, first_word, translated, wrong};
use crate::names::Names;
use crate::statement::{Effect, of_script, tables_read};
use crate::table::StoreTable;

pub use functions::{Call, UserFunction};
pub use streams::{StreamWriter, Streams};
pub use text::Script;

/// Rows of an answer in a script.
const ROWS_SHOWN: usize = 1000;

/// Outcomes that wait to be taken.
const OUTCOMES_MAX: usize = 4;

/// What SHOW says of a value that is not set.
const UNSET: i64 = i64::MIN;

/// What is run.
pub struct Run {
    pub store: Arc<EventStore>,
    /// The statements.
    pub text: String,
    pub functions: Vec<UserFunction>,
    /// `None`: the script runs in no server.
    pub streams: Option<Arc<dyn Streams>>,
    /// The script ends, in the middle of a statement too, when this is set.
    pub stop: Option<watch::Receiver<bool>>,
    /// In which days and hours begin, such as `Europe/Berlin`; empty for UTC.
    pub zone: String,
}

/// What a statement came to.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Rows, as `POST /sql` gives them; `is_cut`: there are more.
    Rows { answer: Json, is_cut: bool },
    /// Rows are in a table of the store.
    Written {
        table: String,
        rows: u64,
        is_overwrite: bool,
        took: Duration,
    },
    /// Rows have become events of a stream.
    Sent {
        stream: String,
        rows: u64,
        took: Duration,
    },
}

/// Why a script did not run to its end.
#[derive(Clone, Debug)]
pub struct ScriptError {
    pub error: Error,
    /// The text to which the place in the error belongs.
    pub text: String,
}

/// What its statements come to, one after the other. Who drops it ends the script.
pub type Outcomes = mpsc::Receiver<Result<Outcome, ScriptError>>;

impl Engine {
    /// Runs a script in the background.
    pub fn run(&self, run: Run) -> Outcomes {
        let (sender, outcomes) = mpsc::channel(OUTCOMES_MAX);
        let session = Session {
            zone: TimeZone::get(&run.zone).unwrap_or(TimeZone::UTC),
            run,
            environment: Arc::clone(&self.environment),
            checked: Arc::clone(&self.checked),
            limits: self.limits.clone(),
            tables: BTreeMap::new(),
            streams: BTreeMap::new(),
        };
        let ends = sender.clone();
        let stop = session.run.stop.clone();
        let work = async move {
            let ran = tokio::select! {
                () = ends.closed() => return,
                () = stopped(stop) => return,
                ran = session.run(sender) => ran,
            };
            if let Err(error) = ran {
                // Nobody is left to tell if it was dropped.
                ends.send(Err(error)).await.ok();
            }
        };
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
        outcomes
    }

    /// What comes next of a script; `None` at its end, or when `stop` is set, whatever the script does then.
    pub fn next_outcome(
        &self,
        outcomes: &mut Outcomes,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<Result<Outcome, ScriptError>> {
        self.runtime.as_ref()?.block_on(async {
            tokio::select! {
                biased;
                outcome = outcomes.recv() => outcome,
                _ = stop.wait_for(|is_stopped| *is_stopped) => None,
            }
        })
    }
}

impl Script {
    /// Looks at the statements as far as that can be done without a store.
    ///
    /// # Errors
    /// The first that cannot be right, whatever the store has.
    pub fn check(&self) -> Result<(), ScriptError> {
        let names = Names::of_script();
        for piece in pieces(&self.text).map_err(|(error, text)| ScriptError { error, text })? {
            let checked = match own(&piece) {
                Some(own) => own.map(drop),
                None => of_script(&piece.text, &piece.tokens, &names).map(drop),
            };
            checked.map_err(|error| ScriptError {
                error,
                text: piece.text.clone(),
            })?;
        }
        Ok(())
    }
}

async fn stopped(stop: Option<watch::Receiver<bool>>) {
    if let Some(mut stop) = stop
        && stop.wait_for(|is_stopped| *is_stopped).await.is_ok()
    {
        return;
    }
    // Who has dropped the sender does not stop it any more.
    std::future::pending().await
}

/// A script on its way.
struct Session {
    run: Run,
    zone: TimeZone,
    environment: Arc<RuntimeEnv>,
    checked: Arc<Checked>,
    limits: Limits,
    /// What it has created, by name in lower case.
    tables: BTreeMap<String, Temporary>,
    /// Into which it can put rows, by name in lower case.
    streams: BTreeMap<String, Stream>,
}

/// A stream by the name that a script gives it.
struct Stream {
    /// In the server.
    stream: String,
    columns: Vec<Column>,
    writer: Mutex<Box<dyn StreamWriter>>,
}

/// A table by the name that a script gives it.
struct Temporary {
    /// In the store.
    table: String,
    columns: Vec<Column>,
    incremental: Option<Incremental>,
}

/// What the tables that a statement reads are when it begins.
struct Now {
    context: SessionContext,
    known: Known,
    /// The last time that is read of incremental tables, by id.
    last: Vec<(String, i64)>,
}

impl Session {
    async fn run(
        mut self,
        sender: mpsc::Sender<Result<Outcome, ScriptError>>,
    ) -> Result<(), ScriptError> {
        let of_text = |(error, text)| ScriptError { error, text };
        for piece in pieces(&self.run.text).map_err(of_text)? {
            let time = self.limits.time;
            let late = |_| Error::Limit(format!("a statement takes longer than {time:?}"));
            let outcome = tokio::time::timeout(time, self.statement(&piece)).await;
            let outcome = outcome.map_err(late).flatten();
            let outcome = outcome.map_err(|error| ScriptError {
                error,
                text: piece.text.clone(),
            })?;
            if let Some(outcome) = outcome
                && sender.send(Ok(outcome)).await.is_err()
            {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn statement(&mut self, piece: &Piece) -> Result<Option<Outcome>, Error> {
        match own(piece).transpose()? {
            Some(Own::Create(create)) => {
                block_in_place(|| self.create(create))?;
                Ok(None)
            }
            Some(Own::Incremental { action, ids }) => {
                block_in_place(|| self.incremental(action, &ids)).map(Some)
            }
            None => self.select(piece).await.map(Some),
        }
    }

    // ---- tables ----

    /// Names a table of the store or a stream of the server; one name is of the last of them.
    fn create(&mut self, create: Create) -> Result<(), Error> {
        let name = create.name.to_lowercase();
        self.tables.remove(&name);
        self.streams.remove(&name);
        match create.what {
            What::Table(options) => {
                let temporary = self.table(options, create.span)?;
                self.tables.insert(name, temporary);
            }
            What::Stream { stream, columns } => {
                let stream = self.stream(stream, columns, create.span)?;
                self.streams.insert(name, stream);
            }
        }
        Ok(())
    }

    /// Makes the table in the store where it is missing.
    fn table(&self, create: TableOptions, span: Span) -> Result<Temporary, Error> {
        let refused = |message: String| wrong(message, span, None);
        let reader = self.run.store.reader()?;
        let asked = Definition::new(&create.table, Schema::default(), Vec::new());
        let table = asked.map_err(|error| refused(error.to_string()))?.name;
        let columns = match (reader.definition(&table), &create.columns) {
            (Some(definition), Some(columns)) => {
                fits(definition, columns, &create.keys).map_err(refused)?;
                columns.clone()
            }
            (Some(definition), None) => {
                let attributes = definition.schema.attributes.iter();
                let columns = attributes.map(|attribute| Column {
                    name: attribute.name.clone(),
                    ty: attribute.ty,
                    flags: Flags::default(),
                });
                columns.collect()
            }
            (None, Some(columns)) => {
                let definition = defined(&create.table, columns, &create.keys).map_err(refused)?;
                drop(self.run.store.batch(&definition)?);
                columns.clone()
            }
            (None, None) => {
                let help = "name its columns with schema \"…\", and it is made".to_owned();
                let message = format!("there is no table '{table}' in the event store");
                return Err(wrong(message, span, Some(help)));
            }
        };
        self.note_flags(&table, &columns, span)?;
        Ok(Temporary {
            table,
            columns,
            incremental: create.incremental,
        })
    }

    fn stream(&self, stream: String, columns: Vec<Column>, span: Span) -> Result<Stream, Error> {
        let Some(streams) = &self.run.streams else {
            let help = "run it in a server: headwater run APP --store DIR --scripts FILE";
            return Err(wrong(
                "rows become events of a stream only inside a server",
                span,
                Some(help.to_owned()),
            ));
        };
        let attributes: Vec<(&str, Type)> =
            columns.iter().map(|c| (c.name.as_str(), c.ty)).collect();
        let opened = streams.open(&stream, &attributes);
        let writer = opened.map_err(|message| wrong(message, span, None))?;
        Ok(Stream {
            stream,
            columns,
            writer: Mutex::new(writer),
        })
    }

    /// Columns that the script wants to be searched are from now on.
    fn note_flags(&self, table: &str, columns: &[Column], span: Span) -> Result<(), Error> {
        let reader = self.run.store.reader()?;
        let Some(definition) = reader.definition(table) else {
            return Ok(());
        };
        let mut indexing = Indexing::default();
        let own = columns
            .iter()
            .filter(|column| !column.name.eq_ignore_ascii_case(TIMESTAMP));
        for column in own {
            let added = indexing.add(definition, &column.name, column.flags);
            added.map_err(|error| wrong(error.to_string(), span, None))?;
        }
        Ok(indexing.write_beside(self.run.store.dir(), table)?)
    }

    /// What the tables of the script and their columns are called.
    fn names(&self) -> Names {
        let mut names = Names::of_script();
        for (name, temporary) in &self.tables {
            names.add_table(name);
            let columns = temporary.columns.iter();
            columns.for_each(|column| names.add_column(&column.name));
        }
        names
    }

    /// The tables of these names as they are now. Others are left alone: of an incremental table it is noted what
    /// was read, and rows that come before another statement have not been.
    async fn now(&self, read: &BTreeSet<String>) -> Result<(Now, Reader), Error> {
        let reader = block_in_place(|| self.run.store.reader())?;
        let context = session(&self.environment, &self.limits);
        functions::register(&context, &self.zone, &self.run.functions);
        let known = Known {
            tables: self.tables.keys().cloned().collect(),
            functions: function_names(&context),
        };
        let failed = |error| translated(&error, "", &known);
        let mut last = Vec::new();
        let tables = || self.tables.iter().filter(|(name, _)| read.contains(*name));
        let marks = match tables().any(|(_, table)| table.incremental.is_some()) {
            true => block_in_place(|| self.run.store.marks())?,
            false => Marks::new(),
        };
        for (name, temporary) in tables() {
            let (Some(scan), Some(definition)) = (
                reader.scan(&temporary.table),
                reader.definition(&temporary.table),
            ) else {
                continue;
            };
            let table = StoreTable::new(&temporary.table, scan, Arc::clone(&self.checked));
            let mut rows = context.read_table(Arc::new(table)).map_err(failed)?;
            let time = || Expr::Column(ColumnName::from_name(TIMESTAMP));
            if let Some(incremental) = &temporary.incremental {
                let mark = marks.get(&incremental.id).copied().unwrap_or_default();
                if let Some(primary) = mark.primary {
                    let start = incremental.start(primary, &self.zone);
                    rows = rows.filter(time().gt_eq(lit(start))).map_err(failed)?;
                }
                let greatest = rows.clone().aggregate(Vec::new(), vec![max(time())]);
                let greatest = greatest.map_err(failed)?.collect().await.map_err(failed)?;
                let greatest = greatest.iter().find_map(|batch| {
                    let column = batch.column(0).as_primitive_opt::<Int64Type>()?;
                    column.iter().flatten().next()
                });
                if let Some(greatest) = greatest.or(mark.primary) {
                    last.push((incremental.id.clone(), greatest));
                }
            }
            let columns = temporary.columns.iter().map(|column| {
                let attributes = &definition.schema.attributes;
                let own = attributes
                    .iter()
                    .find(|a| a.name.eq_ignore_ascii_case(&column.name));
                let own = own.map(|own| (own.name.as_str(), own.ty));
                let (name, ty) = own.unwrap_or((TIMESTAMP, Type::Long));
                let value = Expr::Column(ColumnName::from_name(name));
                match ty == column.ty {
                    true => value.alias(&column.name),
                    false => cast(value, data_type(column.ty)).alias(&column.name),
                }
            });
            let view = rows
                .select(columns.collect::<Vec<Expr>>())
                .map_err(failed)?;
            let named = TableReference::bare(name.as_str());
            let registered = context.register_table(named, view.into_view());
            registered.map_err(failed)?;
        }
        let now = Now {
            context,
            known,
            last,
        };
        Ok((now, reader))
    }

    fn incremental(&self, action: Action, ids: &[String]) -> Result<Outcome, Error> {
        let value = |value: Option<i64>| value.unwrap_or(UNSET);
        let of = |marks: &Marks, id: &String| marks.get(id).copied().unwrap_or_default();
        let (columns, records): (&[&str], Vec<Json>) = match action {
            Action::Show => {
                let marks = self.run.store.marks()?;
                let show = |id| {
                    let mark: Mark = of(&marks, id);
                    json!([id, value(mark.temporary), value(mark.primary)])
                };
                (
                    &["TABLE_ID", "TEMP_VAL", "PRIMARY_VAL"],
                    ids.iter().map(show).collect(),
                )
            }
            Action::Commit => {
                let before = self.run.store.change_marks(|marks| {
                    for id in ids {
                        let mark = marks.entry(id.clone()).or_default();
                        mark.primary = mark.temporary.or(mark.primary);
                    }
                })?;
                let show = |id| {
                    let mark: Mark = of(&before, id);
                    let fresh = mark.temporary.or(mark.primary);
                    json!([id, value(mark.primary), value(fresh)])
                };
                let columns = &["TABLE_ID", "PREV_PRIMARY_VAL", "NEW_PRIMARY_VAL"];
                (columns, ids.iter().map(show).collect())
            }
            Action::Reset => {
                self.run.store.change_marks(|marks| {
                    marks.retain(|id, _| !ids.contains(id));
                })?;
                (&["TABLE_ID"], ids.iter().map(|id| json!([id])).collect())
            }
        };
        let details = columns.iter().map(|name| {
            let ty = if *name == "TABLE_ID" {
                "STRING"
            } else {
                "LONG"
            };
            json!({"name": name, "dataType": ty})
        });
        let details: Vec<Json> = details.collect();
        Ok(Outcome::Rows {
            answer: json!({"details": details, "records": records}),
            is_cut: false,
        })
    }

    // ---- statements ----

    async fn select(&self, piece: &Piece) -> Result<Outcome, Error> {
        let start = Instant::now();
        let (statement, effect) = of_script(&piece.text, &piece.tokens, &self.names())?;
        let read = tables_read(&statement);
        if let Some(name) = self.streams.keys().find(|name| read.contains(*name)) {
            let message = format!("'{name}' is a stream, from which a script cannot select");
            return Err(wrong(message, first_word(&piece.text), None));
        }
        let (now, reader) = self.now(&read).await?;
        let target = match &effect {
            Effect::Answer => Target::Answer,
            Effect::Insert {
                table,
                is_overwrite,
            } => self.target(table, *is_overwrite, piece, &reader)?,
        };
        drop(reader);
        let Now {
            context,
            known,
            last,
        } = now;
        let (sql, words) = (piece.text.clone(), known.clone());
        // Planning does not give way: beside it the time is watched.
        let planned = tokio::spawn(async move { begun(&context, statement, &sql, &words).await });
        let mut stream = planned.await.map_err(defect)??.rows;
        let failed = |error| translated(&error, &piece.text, &known);
        let wanted = match &target {
            Target::Answer => None,
            Target::Table { temporary, .. } => Some(("table", &temporary.columns)),
            Target::Stream(stream) => Some(("stream", &stream.columns)),
        };
        let width = stream.schema().fields().len();
        if let Some((what, columns)) = wanted.filter(|(_, columns)| columns.len() != width) {
            return Err(width_error(piece, width, what, columns));
        }
        let outcome = match target {
            Target::Table {
                temporary,
                definition,
                mode,
            } => {
                let mut writer = block_in_place(|| self.run.store.batch(&definition))?;
                let mut before = 0;
                while let Some(batch) = stream.next().await {
                    let batch = batch.map_err(failed)?;
                    block_in_place(|| put(&mut writer, &batch, temporary, &definition, before))?;
                    before += batch.num_rows();
                }
                let rows = block_in_place(|| writer.commit(mode))?;
                Outcome::Written {
                    table: definition.name.clone(),
                    rows,
                    is_overwrite: mode == Mode::Overwrite,
                    took: start.elapsed(),
                }
            }
            Target::Stream(to) => {
                let mut rows = 0;
                while let Some(batch) = stream.next().await {
                    let batch = batch.map_err(failed)?;
                    block_in_place(|| send(to, &batch, rows))?;
                    rows += batch.num_rows();
                }
                Outcome::Sent {
                    stream: to.stream.clone(),
                    rows: rows as u64,
                    took: start.elapsed(),
                }
            }
            Target::Answer => {
                let schema = stream.schema();
                let (mut batches, mut left) = (Vec::new(), ROWS_SHOWN + 1);
                while left > 0
                    && let Some(batch) = stream.next().await
                {
                    let batch = batch.map_err(failed)?;
                    let taken = batch.num_rows().min(left);
                    left -= taken;
                    batches.push(batch.slice(0, taken));
                }
                answer(&schema, &batches)?
            }
        };
        if !last.is_empty() {
            block_in_place(|| {
                self.run.store.change_marks(|marks| {
                    for (id, last) in &last {
                        marks.entry(id.clone()).or_default().temporary = Some(*last);
                    }
                })
            })?;
        }
        Ok(outcome)
    }

    fn target(
        &self,
        name: &str,
        is_overwrite: bool,
        piece: &Piece,
        reader: &Reader,
    ) -> Result<Target<'_>, Error> {
        if let Some(stream) = self.streams.get(&name.to_lowercase()) {
            return Ok(Target::Stream(stream));
        }
        let missing = || {
            let place = first_word(&piece.text);
            let help = "CREATE TEMPORARY TABLE … USING CarbonAnalytics names it first".to_owned();
            wrong(
                format!("there is no table '{name}' in the script"),
                place,
                Some(help),
            )
        };
        let temporary = self.tables.get(&name.to_lowercase()).ok_or_else(missing)?;
        let definition = reader.definition(&temporary.table).ok_or_else(missing)?;
        Ok(Target::Table {
            temporary,
            definition: definition.clone(),
            mode: match is_overwrite {
                true => Mode::Overwrite,
                false => Mode::Append,
            },
        })
    }
}

/// Where the rows of a statement go.
enum Target<'a> {
    Answer,
    Table {
        temporary: &'a Temporary,
        definition: Definition,
        mode: Mode,
    },
    /// Events follow each other: INTO and OVERWRITE do the same.
    Stream(&'a Stream),
}

/// Rows become events, their columns by their places.
fn send(stream: &Stream, batch: &RecordBatch, before: usize) -> Result<(), Error> {
    let mut columns = Vec::with_capacity(stream.columns.len());
    for (column, array) in stream.columns.iter().zip(batch.columns()) {
        let array = array_of(array, column.ty, &column.name, before)?;
        let values = store::batch::column(&array, column.ty);
        columns.push(values.ok_or_else(|| defect("an array of another type than its column"))?);
    }
    let mut writer = stream.writer.lock().unwrap_or_else(PoisonError::into_inner);
    let sent = writer.send(&columns, batch.num_rows());
    sent.map_err(|cause| {
        Error::Values(format!(
            "stream '{}' has taken {before} rows, and not those behind them: {cause}",
            stream.stream
        ))
    })
}

/// The values of a column with its type; the error names the row, `before` rows having come already.
fn array_of(array: &ArrayRef, ty: Type, name: &str, before: usize) -> Result<ArrayRef, Error> {
    converted(array, ty).map_err(|(row, message)| {
        Error::Values(format!(
            "row {}, column '{name}': {message}",
            before + row + 1
        ))
    })
}

fn width_error(piece: &Piece, width: usize, what: &str, columns: &[Column]) -> Error {
    let columns: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    wrong(
        format!(
            "{width} columns are selected, and the {what} has {}",
            columns.len()
        ),
        first_word(&piece.text),
        Some(format!("they go by their places: {}", columns.join(", "))),
    )
}

/// The first rows, and whether there are more.
fn answer(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Outcome, Error> {
    let mut encoder = Encoder::new(Format::Json, schema)?;
    let mut left = ROWS_SHOWN;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    for batch in batches {
        let taken = batch.num_rows().min(left);
        left -= taken;
        encoder.push(&batch.slice(0, taken))?;
    }
    let bytes = encoder.end()?;
    Ok(Outcome::Rows {
        answer: serde_json::from_slice(&bytes).map_err(defect)?,
        is_cut: rows > ROWS_SHOWN,
    })
}

/// Rows go to the columns of a table by their places.
fn put(
    writer: &mut BatchWriter<'_>,
    batch: &RecordBatch,
    temporary: &Temporary,
    definition: &Definition,
    before: usize,
) -> Result<(), Error> {
    let place = |name: &str| {
        let mut columns = temporary.columns.iter();
        columns.position(|column| column.name.eq_ignore_ascii_case(name))
    };
    let of = |name: &str, ty: Type| -> Result<Option<ArrayRef>, Error> {
        let Some(place) = place(name) else {
            return Ok(None);
        };
        array_of(batch.column(place), ty, name, before).map(Some)
    };
    let mut columns = Vec::with_capacity(definition.width());
    for attribute in &definition.schema.attributes {
        let array = of(&attribute.name, attribute.ty)?;
        let nothing = || new_null_array(&data_type(attribute.ty), batch.num_rows());
        columns.push(array.unwrap_or_else(nothing));
    }
    let times = of(TIMESTAMP, Type::Long)?;
    let times = times
        .as_ref()
        .map(|times| times.as_primitive::<Int64Type>());
    Ok(writer.push(&columns, times)?)
}

/// A new table.
fn defined(name: &str, columns: &[Column], keys: &[String]) -> Result<Definition, String> {
    let own = columns
        .iter()
        .filter(|column| !column.name.eq_ignore_ascii_case(TIMESTAMP));
    let attributes: Vec<Attribute> = own
        .map(|column| Attribute {
            name: column.name.clone(),
            ty: column.ty,
        })
        .collect();
    let place = |key: &String| {
        let mut all = attributes.iter();
        let place = all.position(|attribute| attribute.name.eq_ignore_ascii_case(key));
        place.ok_or_else(|| format!("there is no column '{key}' for the primary key"))
    };
    let key = keys
        .iter()
        .map(place)
        .collect::<Result<Vec<usize>, String>>()?;
    let schema = Schema {
        name: name.to_owned(),
        attributes,
    };
    Definition::new(name, schema, key).map_err(|error| error.to_string())
}

/// Can a script that declares these columns use a table that is there?
fn fits(definition: &Definition, columns: &[Column], keys: &[String]) -> Result<(), String> {
    let attributes = &definition.schema.attributes;
    let has = |name: &str| {
        name.eq_ignore_ascii_case(TIMESTAMP)
            || attributes.iter().any(|a| a.name.eq_ignore_ascii_case(name))
    };
    if let Some(column) = columns.iter().find(|column| !has(&column.name)) {
        let names: Vec<&str> = attributes.iter().map(|a| a.name.as_str()).collect();
        return Err(format!(
            "table '{}' has no column '{}': it has {}",
            definition.name,
            column.name,
            names.join(", ")
        ));
    }
    let made: Vec<&str> = definition
        .key
        .iter()
        .map(|at| attributes[*at].name.as_str())
        .collect();
    let is_same = keys.len() == made.len()
        && keys
            .iter()
            .zip(&made)
            .all(|(a, b)| a.eq_ignore_ascii_case(b));
    match keys.is_empty() || is_same {
        true => Ok(()),
        false => Err(format!(
            "table '{}' was made with the primary key '{}', not '{}'",
            definition.name,
            made.join(", "),
            keys.join(", ")
        )),
    }
}
