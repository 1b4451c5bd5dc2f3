//! Runs statements within limits.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as ParsedStatement;
use futures_util::StreamExt as _;
use store::reader::Reader;
use store::scan::Checked;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::bounds::STACK;
use crate::encode::{Encoder, Format};
use crate::error::{Error, Known, translated};
use crate::giving_way::JoinsGiveWay;
use crate::memory::{SharedPool, merge_share};
use crate::names::Names;
use crate::progress::Progress;
use crate::search::{SearchFunction, TableSearch};
use crate::statement::parsed;
use crate::table::StoreTable;
use crate::version::VersionFunction;

/// Bytes of a block of an answer, and blocks that wait to be taken.
pub(crate) const BLOCK: usize = 64 << 10;
pub(crate) const BLOCKS_MAX: usize = 4;

/// What statements may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Of all statements that are being answered.
    pub memory: usize,
    /// Bytes of temporary files, of all statements, for what does not fit into memory.
    pub spill: u64,
    /// Where these files are; else where the system has them.
    pub spill_dir: Option<PathBuf>,
    /// For one statement.
    pub time: Duration,
    /// Of one answer.
    pub rows: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 1 << 30,
            spill: 16 << 30,
            spill_dir: None,
            time: Duration::from_secs(10 * 60),
            rows: 1_000_000,
        }
    }
}

/// The threads and the memory with which statements are answered.
pub struct Engine {
    /// Taken when it is dropped.
    pub(crate) runtime: Option<Runtime>,
    pub(crate) environment: Arc<RuntimeEnv>,
    pub(crate) checked: Arc<Checked>,
    pub(crate) limits: Limits,
    /// What the function `search` asks.
    pub(crate) search: Option<Arc<dyn TableSearch>>,
}

/// A part of an answer. It ends with a row where the format has lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    pub bytes: Bytes,
    /// Rows that are written since the block before.
    pub rows: u64,
    /// A document ends with it: the whole answer, or a page.
    pub ends_page: bool,
}

/// An answer as it comes. The first block comes once there is enough of it or all, so that most of what goes wrong is
/// in its place. Who drops it ends the statement.
pub struct Answer {
    blocks: mpsc::Receiver<Result<Block, Error>>,
    progress: Arc<Progress>,
}

impl Answer {
    /// The next block; `None`: that was all.
    pub fn poll_block(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Block, Error>>> {
        self.blocks.poll_recv(context)
    }

    /// The same, for a thread that may wait.
    pub fn blocking_recv(&mut self) -> Option<Result<Block, Error>> {
        self.blocks.blocking_recv()
    }

    /// How far it is; it can be asked until the answer is dropped, and then for what it was.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The folder of the store.
    pub store: PathBuf,
    pub sql: String,
    pub format: Format,
    /// So many rows are a document of their own; without it all are one.
    pub page_rows: Option<NonZero<usize>>,
    /// Instead of [`Limits::time`].
    pub time: Option<Duration>,
}

impl Engine {
    /// # Errors
    /// There are no threads, or there is no folder for temporary files.
    pub fn new(limits: Limits) -> Result<Engine, Error> {
        let failed =
            |cause: &dyn std::fmt::Display| Error::Failed(format!("cannot begin: {cause}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("sql")
            .thread_stack_size(STACK)
            .enable_time()
            .build()
            .map_err(|cause| failed(&cause))?;
        let disk = DiskManagerBuilder::default()
            .with_mode(match &limits.spill_dir {
                Some(dir) => DiskManagerMode::Directories(vec![dir.clone()]),
                None => DiskManagerMode::OsTmpDirectory,
            })
            .with_max_temp_directory_size(limits.spill);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(SharedPool::new(limits.memory)))
            .with_disk_manager_builder(disk)
            .build_arc()
            .map_err(|cause| failed(&cause))?;
        Ok(Engine {
            runtime: Some(runtime),
            environment,
            checked: Arc::default(),
            limits,
            search: None,
        })
    }

    /// Gives statements the function `search('table', 'query')`.
    pub fn with_search(mut self, search: Option<Arc<dyn TableSearch>>) -> Engine {
        self.search = search;
        self
    }

    /// Answers one statement over what a store holds now, in the background, as one document.
    pub fn ask(&self, store: &Path, sql: &str, format: Format) -> Answer {
        self.answer(Question {
            store: store.to_owned(),
            sql: sql.to_owned(),
            format,
            page_rows: None,
            time: None,
        })
    }

    /// Answers one statement over what a store holds now, in the background.
    pub fn answer(&self, question: Question) -> Answer {
        let (sender, blocks) = mpsc::channel(BLOCKS_MAX);
        let progress = Arc::<Progress>::default();
        let answer = Answer {
            blocks,
            progress: Arc::clone(&progress),
        };
        let setting = self.setting(question.time);
        let time = setting.limits.time;
        let statement = Statement {
            question,
            setting,
            sender: sender.clone(),
            progress,
        };
        self.work(time, sender, statement.answer());
        answer
    }

    /// What one statement is answered with; `time`: instead of that of the engine.
    pub(crate) fn setting(&self, time: Option<Duration>) -> Setting {
        let mut limits = self.limits.clone();
        limits.time = time.unwrap_or(limits.time);
        Setting {
            environment: Arc::clone(&self.environment),
            checked: Arc::clone(&self.checked),
            limits,
            search: self.search.clone(),
        }
    }

    /// Works in the background, for so long at most and as long as somebody waits at the other end of `sender`, who is
    /// told of an error.
    pub(crate) fn work<T: Send + 'static>(
        &self,
        time: Duration,
        sender: mpsc::Sender<Result<T, Error>>,
        work: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) {
        let work = async move {
            let answered = tokio::select! {
                () = sender.closed() => return,
                answered = tokio::time::timeout(time, work) => answered,
            };
            let late = |_| Error::Limit(format!("the statement takes longer than {time:?}"));
            if let Err(error) = answered.map_err(late).flatten() {
                // Nobody is left to tell if it was dropped.
                sender.send(Err(error)).await.ok();
            }
        };
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }
}

impl Drop for Engine {
    /// Its threads end by themselves: whoever drops it may not be allowed to wait for them.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// One statement on its way.
struct Statement {
    question: Question,
    setting: Setting,
    sender: mpsc::Sender<Result<Block, Error>>,
    progress: Arc<Progress>,
}

/// What one statement is answered with.
pub(crate) struct Setting {
    environment: Arc<RuntimeEnv>,
    checked: Arc<Checked>,
    pub limits: Limits,
    search: Option<Arc<dyn TableSearch>>,
}

/// One version of a store, for one statement.
pub(crate) struct Snapshot {
    pub context: SessionContext,
    pub names: Names,
    pub known: Known,
    /// The tables and their columns.
    pub schemas: Vec<(String, SchemaRef)>,
}

pub(crate) fn too_many(rows_max: usize) -> Error {
    Error::Limit(format!(
        "the answer has more than {rows_max} rows: select fewer with 'limit', or allow more"
    ))
}

impl Statement {
    async fn answer(self) -> Result<(), Error> {
        let (store, sql) = (self.question.store.clone(), &self.question.sql);
        let (Begun { mut rows, plan }, snapshot) = begin(store, sql, &self.setting).await?;
        self.progress.begin(plan);
        let (format, schema) = (self.question.format, rows.schema());
        let page_rows = self.question.page_rows.map_or(usize::MAX, NonZero::get);
        let mut encoder = Encoder::new(format, &schema)?;
        let (mut count, mut in_page, mut unsent) = (0, 0, 0);
        while let Some(batch) = rows.next().await {
            let batch =
                batch.map_err(|error| translated(&error, &self.question.sql, &snapshot.known))?;
            count += batch.num_rows();
            if count > self.setting.limits.rows {
                return Err(too_many(self.setting.limits.rows));
            }
            let mut at = 0;
            while at < batch.num_rows() {
                // The next page begins with its first row: none is empty behind others.
                if in_page == page_rows {
                    let full = std::mem::replace(&mut encoder, Encoder::new(format, &schema)?);
                    if !self.send(full.end()?, &mut unsent, true).await {
                        return Ok(());
                    }
                    in_page = 0;
                }
                let some = (page_rows - in_page).min(batch.num_rows() - at);
                encoder.push(&batch.slice(at, some))?;
                (at, in_page, unsent) = (at + some, in_page + some, unsent + some as u64);
                if encoder.len() >= BLOCK && !self.send(encoder.take(), &mut unsent, false).await {
                    return Ok(());
                }
            }
        }
        self.send(encoder.end()?, &mut unsent, true).await;
        Ok(())
    }

    /// False: nobody reads on.
    async fn send(&self, bytes: Vec<u8>, unsent: &mut u64, ends_page: bool) -> bool {
        let block = Block {
            bytes: bytes.into(),
            rows: std::mem::take(unsent),
            ends_page,
        };
        self.sender.send(Ok(block)).await.is_ok()
    }
}

/// Where statements are planned, without any table.
pub(crate) fn session(environment: &Arc<RuntimeEnv>, limits: &Limits) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        .with_default_catalog_and_schema("store", "public");
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    // What a sort keeps free to merge what it has spilled: no more than it gets for that.
    let merge = &mut options.execution.sort_spill_reservation_bytes;
    *merge = (*merge).min(merge_share(limits.memory));
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(Arc::clone(environment))
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(JoinsGiveWay))
        .build();
    SessionContext::new_with_state(state)
}

/// The functions that a statement may call.
pub(crate) fn function_names(context: &SessionContext) -> Vec<String> {
    let state = context.state();
    [
        state.scalar_functions().keys().cloned().collect::<Vec<_>>(),
        state.aggregate_functions().keys().cloned().collect(),
        state.window_functions().keys().cloned().collect(),
    ]
    .concat()
}

/// A statement that is being answered: its rows, and the plan that has counted what it has read.
pub(crate) struct Begun {
    pub rows: SendableRecordBatchStream,
    pub plan: Arc<dyn ExecutionPlan>,
}

/// Plans a statement over what a store holds now, and begins it.
pub(crate) async fn begin(
    store: PathBuf,
    sql: &str,
    setting: &Setting,
) -> Result<(Begun, Arc<Snapshot>), Error> {
    let snapshot = Arc::new(Snapshot::open(store, setting).await?);
    let (sql, planned) = (sql.to_owned(), Arc::clone(&snapshot));
    // Planning does not give way: beside it the time is watched.
    let begun = SpawnedTask::spawn(async move { planned.plan(&sql).await });
    Ok((begun.join().await.map_err(defect)??, snapshot))
}

/// Plans a statement that is known to read, and begins it. Planning does not give way: this is called beside what
/// watches the time.
pub(crate) async fn begun(
    context: &SessionContext,
    statement: ParsedStatement,
    sql: &str,
    known: &Known,
) -> Result<Begun, Error> {
    let begun = async {
        let plan = context.state().statement_to_plan(statement).await?;
        // What it has inside it is asked once more.
        let reads = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        reads.verify_plan(&plan)?;
        let rows = context.execute_logical_plan(plan).await?;
        let task = Arc::new(rows.task_ctx());
        let plan = rows.create_physical_plan().await?;
        let rows = execute_stream(Arc::clone(&plan), task)?;
        Ok(Begun { rows, plan })
    };
    let begun = begun.await;
    begun.map_err(|error| translated(&error, sql, known))
}

impl Snapshot {
    /// What a store holds now.
    pub async fn open(store: PathBuf, setting: &Setting) -> Result<Snapshot, Error> {
        let reader = SpawnedTask::spawn_blocking(move || Reader::open(&store));
        let reader = reader.join().await.map_err(defect)??;
        Snapshot::new(&reader, setting)
    }

    pub fn new(reader: &Reader, setting: &Setting) -> Result<Snapshot, Error> {
        let context = session(&setting.environment, &setting.limits);
        let mut names = Names::default();
        let known = Known {
            tables: reader.tables().map(str::to_owned).collect(),
            functions: function_names(&context),
        };
        let mut scans = HashMap::new();
        let mut schemas = Vec::new();
        for name in &known.tables {
            let Some(scan) = reader.scan(name) else {
                continue;
            };
            scans.insert(name.clone(), scan.clone());
            names.add_table(name);
            schemas.push((name.clone(), Arc::clone(scan.schema())));
            let fields = scan.schema().fields().iter();
            fields.for_each(|field| names.add_column(field.name()));
            let table = Arc::new(StoreTable::new(name, scan, Arc::clone(&setting.checked)));
            let registered = context.register_table(TableReference::bare(name.as_str()), table);
            registered.map_err(|error| translated(&error, "", &known))?;
        }
        let versions = VersionFunction::new(scans.clone(), Arc::clone(&setting.checked));
        context.register_udtf("version", Arc::new(versions));
        let function = SearchFunction::new(scans, setting.search.clone());
        context.register_udtf("search", Arc::new(function));
        Ok(Snapshot {
            context,
            names,
            known,
            schemas,
        })
    }

    pub async fn plan(&self, sql: &str) -> Result<Begun, Error> {
        let statement = parsed(sql, &self.names)?;
        begun(&self.context, statement, sql, &self.known).await
    }
}

pub(crate) fn defect(cause: impl std::fmt::Display) -> Error {
    Error::Failed(format!("internal error: {cause}; please report it"))
}
