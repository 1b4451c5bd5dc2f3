//! Answers as the protocol of PostgreSQL carries them: rows as its messages, types by its numbers, and as much of its
//! catalog as clients ask for before they ask anything else.
//!
//! Promises: a statement is the same as at `POST /sql`, with the same bounds and the same errors in the same places; a
//! value given for a parameter is never text of a statement. Never: a row of the catalog that is about anything but
//! the tables of the store.

mod catalog;
mod functions;
mod parameters;
mod rewrite;
mod rows;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::runtime::SpawnedTask;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use futures_util::StreamExt as _;
use store::reader::Reader;
use tokio::sync::mpsc;

use crate::engine::{BLOCK, BLOCKS_MAX, Begun, Engine, Setting, Snapshot, begun, defect, too_many};
use crate::error::{Error, translated};
use crate::statement::{explained, reading};
use rows::RowEncoder;

/// The number of the type `text`.
const TEXT: u32 = 25;

/// Parameters of which is tried whether nothing but themselves says their type.
const ALONE_MAX: usize = 8;

/// A column of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    pub name: String,
    /// The type, by PostgreSQL's number.
    pub oid: u32,
    /// Bytes of a value; -1 where they differ.
    pub size: i16,
}

/// What a statement takes and gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// Types of `$1`, `$2` and so on.
    pub parameters: Vec<u32>,
    pub columns: Vec<Column>,
}

/// A value for a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    pub oid: u32,
    pub is_binary: bool,
    /// `None` is null.
    pub bytes: Option<Vec<u8>>,
}

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asker {
    pub user: String,
    /// The version of PostgreSQL that is told to clients.
    pub version: String,
    /// Names and values of what the session is set to.
    pub settings: Vec<(String, String)>,
}

/// Takes out of a text what it must not show; `None`: nothing of it.
pub type Hide = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What is asked.
#[derive(Clone)]
pub struct Asked {
    /// The folder of the store.
    pub store: PathBuf,
    pub sql: String,
    pub parameters: Vec<Parameter>,
    /// The columns as they were described, which those of the answer are then.
    pub columns: Option<Vec<Column>>,
    /// Whether columns are binary: none, one for all, or one for each.
    pub formats: Vec<bool>,
    pub asker: Asker,
    /// Where it is to end sooner than [`crate::Limits::time`] says.
    pub time: Option<Duration>,
    pub hide: Hide,
}

/// A part of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The first.
    Columns(Vec<Column>),
    /// So many messages `DataRow`.
    Rows { bytes: Bytes, count: u64 },
}

/// An answer as it comes. Who drops it ends the statement.
pub struct Rows(mpsc::Receiver<Result<Part, Error>>);

impl Rows {
    /// The next part; `None`: that was all.
    pub fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Part, Error>>> {
        self.0.poll_recv(context)
    }

    /// The same, for a thread that may wait.
    pub fn blocking_recv(&mut self) -> Option<Result<Part, Error>> {
        self.0.blocking_recv()
    }
}

impl Engine {
    /// Says what a statement takes and gives. `types`: of its parameters, as far as they are known; 0 is unknown. It is
    /// not made any more once it is dropped.
    ///
    /// # Errors
    /// The statement is wrong, or the store cannot be read.
    pub fn describe(
        &self,
        store: PathBuf,
        sql: String,
        types: Vec<u32>,
        asker: Asker,
    ) -> impl Future<Output = Result<Description, Error>> + Send + use<> {
        let (sender, mut described) = mpsc::channel(1);
        let setting = self.setting(None);
        let to = sender.clone();
        self.work(setting.limits.time, sender, async move {
            let opened = Opened::new(store, &setting, &asker).await?;
            // Planning does not give way: beside it the time is watched.
            let planned =
                SpawnedTask::spawn(async move { description(&opened, &sql, &types).await });
            let described = planned.join().await.map_err(defect)??;
            // Nobody is left to tell if it was dropped.
            to.send(Ok(described)).await.ok();
            Ok(())
        });
        async move {
            let described = described.recv().await;
            described.unwrap_or_else(|| Err(defect("a description has not come")))
        }
    }

    /// Answers one statement over what a store holds now, in the background.
    pub fn rows(&self, asked: Asked) -> Rows {
        let (sender, rows) = mpsc::channel(BLOCKS_MAX);
        let time = asked.time.map(|time| time.min(self.limits.time));
        let setting = self.setting(time);
        let to = sender.clone();
        self.work(setting.limits.time, sender, answered(asked, setting, to));
        Rows(rows)
    }
}

/// The tables of a store at one version, with the catalog that is made of them.
struct Opened {
    tables: Snapshot,
}

impl Opened {
    async fn new(store: PathBuf, setting: &Setting, asker: &Asker) -> Result<Opened, Error> {
        let reader = SpawnedTask::spawn_blocking(move || Reader::open(&store));
        let reader = reader.join().await.map_err(defect)??;
        let tables = Snapshot::new(&reader, setting)?;
        catalog::add(&tables, asker)?;
        Ok(Opened { tables })
    }

    fn parsed(&self, sql: &str) -> Result<ParsedStatement, Error> {
        let mut statement = reading(sql, &PostgreSqlDialect {})?;
        if let ParsedStatement::Statement(ast) = explained(&mut statement)
            && !rewrite::put_into(ast)?
        {
            self.tables.names.put_into(ast);
        }
        Ok(statement)
    }
}

async fn answered(
    asked: Asked,
    setting: Setting,
    to: mpsc::Sender<Result<Part, Error>>,
) -> Result<(), Error> {
    let rows_max = setting.limits.rows;
    let opened = Opened::new(asked.store, &setting, &asked.asker).await?;
    let opened = Arc::new(opened);
    let (planned, sql) = (Arc::clone(&opened), asked.sql.clone());
    let values = asked.parameters;
    // Planning does not give way: beside it the time is watched.
    let begun = SpawnedTask::spawn(async move {
        let mut statement = planned.parsed(&sql)?;
        parameters::put(&mut statement, &values)?;
        let tables = &planned.tables;
        begun(&tables.context, statement, &sql, &tables.known).await
    });
    let Begun { mut rows, .. } = begun.join().await.map_err(defect)??;
    let columns = asked.columns.unwrap_or_else(|| columns(&rows.schema()));
    let mut encoder = RowEncoder::new(&columns, &asked.formats, asked.hide);
    if to.send(Ok(Part::Columns(columns))).await.is_err() {
        return Ok(());
    }
    let (mut out, mut count, mut all) = (Vec::new(), 0, 0);
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(|error| translated(&error, &asked.sql, &opened.tables.known))?;
        all += batch.num_rows();
        if all > rows_max {
            return Err(too_many(rows_max));
        }
        let columns = encoder.fit(&batch)?;
        for row in 0..batch.num_rows() {
            encoder.push(&columns, row, &mut out)?;
            count += 1;
            if out.len() >= BLOCK && !send(&to, &mut out, &mut count).await {
                return Ok(());
            }
        }
    }
    send(&to, &mut out, &mut count).await;
    Ok(())
}

/// False: nobody reads on.
async fn send(to: &mpsc::Sender<Result<Part, Error>>, out: &mut Vec<u8>, count: &mut u64) -> bool {
    if *count == 0 {
        return true;
    }
    let part = Part::Rows {
        bytes: std::mem::take(out).into(),
        count: std::mem::take(count),
    };
    to.send(Ok(part)).await.is_ok()
}

async fn description(opened: &Opened, sql: &str, types: &[u32]) -> Result<Description, Error> {
    let statement = opened.parsed(sql)?;
    let mut types = types.to_vec();
    let count = parameters::count(sql, &statement)?;
    types.resize(count.max(types.len()), 0);
    for (at, ty) in parameters::hints(&statement) {
        if let Some(unknown) = types.get_mut(at - 1).filter(|ty| **ty == 0) {
            *unknown = ty;
        }
    }
    let plan = |types: Vec<u32>| {
        let mut statement = statement.clone();
        async move {
            parameters::declare(&mut statement, &types);
            schema_of(&opened.tables, statement, sql).await
        }
    };
    if types.iter().all(|ty| *ty != 0) {
        let (columns, _) = plan(types.clone()).await?;
        return Ok(Description {
            parameters: types,
            columns,
        });
    }
    // What a parameter is compared with says its type; what nothing says is a text.
    let mut planned = plan(types.clone()).await;
    // One that stands alone keeps the others from being known.
    let unknown = (0..types.len()).filter(|at| types[*at] == 0);
    for at in unknown.take(ALONE_MAX).collect::<Vec<_>>() {
        if planned.is_ok() {
            break;
        }
        let mut some = types.clone();
        some[at] = TEXT;
        planned = plan(some.clone()).await;
        if planned.is_ok() {
            types = some;
        }
    }
    if let Ok((_, inferred)) = planned {
        for (at, ty) in types.iter_mut().enumerate().filter(|(_, ty)| **ty == 0) {
            let name = format!("${}", at + 1);
            let found = inferred.iter().find(|(known, _)| *known == name);
            *ty = found.map_or(TEXT, |(_, oid)| *oid);
        }
    }
    types
        .iter_mut()
        .filter(|ty| **ty == 0)
        .for_each(|ty| *ty = TEXT);
    let (columns, _) = plan(types.clone()).await?;
    Ok(Description {
        parameters: types,
        columns,
    })
}

/// Columns of a statement, and the types of the parameters that are still in it.
async fn schema_of(
    snapshot: &Snapshot,
    statement: ParsedStatement,
    sql: &str,
) -> Result<(Vec<Column>, Vec<(String, u32)>), Error> {
    let plan = snapshot.context.state().statement_to_plan(statement).await;
    let plan = plan.map_err(|error| translated(&error, sql, &snapshot.known))?;
    let inferred = plan.get_parameter_types();
    let inferred = inferred.map_err(|error| translated(&error, sql, &snapshot.known))?;
    let inferred = inferred
        .into_iter()
        .filter_map(|(name, ty)| Some((name, rows::oid(&ty?).0)));
    Ok((columns(plan.schema().as_arrow()), inferred.collect()))
}

fn columns(schema: &Schema) -> Vec<Column> {
    let fields = schema.fields().iter();
    let columns = fields.map(|field| {
        let (oid, size) = rows::oid(field.data_type());
        Column {
            name: field.name().clone(),
            oid,
            size,
        }
    });
    columns.collect()
}
