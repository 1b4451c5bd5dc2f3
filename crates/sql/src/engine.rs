//! Runs statements within limits.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use datafusion::common::TableReference;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
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
use crate::search::{SearchFunction, TableSearch};
use crate::statement::parsed;
use crate::table::StoreTable;
use crate::version::VersionFunction;

/// Bytes of a block of an answer, and blocks that wait to be taken.
const BLOCK: usize = 64 << 10;
const BLOCKS_MAX: usize = 4;

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

/// An answer as it comes. The first block comes once there is enough of it or all, so that most of what goes wrong is
/// in its place. Who drops it ends the statement.
pub type Answer = mpsc::Receiver<Result<Bytes, Error>>;

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

    /// Answers one statement over what a store holds now, in the background.
    pub fn ask(&self, store: &Path, sql: &str, format: Format) -> Answer {
        let (sender, answer) = mpsc::channel(BLOCKS_MAX);
        let statement = Statement {
            store: store.to_owned(),
            sql: sql.to_owned(),
            format,
            environment: Arc::clone(&self.environment),
            checked: Arc::clone(&self.checked),
            limits: self.limits.clone(),
            search: self.search.clone(),
            sender: sender.clone(),
        };
        let work = async move {
            let time = statement.limits.time;
            let answered = tokio::select! {
                () = sender.closed() => return,
                answered = tokio::time::timeout(time, statement.answer()) => answered,
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
        answer
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
    store: PathBuf,
    sql: String,
    format: Format,
    environment: Arc<RuntimeEnv>,
    checked: Arc<Checked>,
    limits: Limits,
    search: Option<Arc<dyn TableSearch>>,
    sender: mpsc::Sender<Result<Bytes, Error>>,
}

/// One version of a store, for one statement.
struct Snapshot {
    context: SessionContext,
    names: Names,
    known: Known,
}

impl Statement {
    async fn answer(self) -> Result<(), Error> {
        let store = self.store.clone();
        let reader = SpawnedTask::spawn_blocking(move || Reader::open(&store));
        let reader = reader.join().await.map_err(defect)??;
        let snapshot = Arc::new(Snapshot::new(&reader, &self)?);
        drop(reader);
        let (sql, planned) = (self.sql.clone(), Arc::clone(&snapshot));
        // Planning does not give way: beside it the time is watched.
        let stream = SpawnedTask::spawn(async move { planned.plan(&sql).await });
        let mut stream = stream.join().await.map_err(defect)??;
        let mut encoder = Encoder::new(self.format, &stream.schema())?;
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|error| translated(&error, &self.sql, &snapshot.known))?;
            rows += batch.num_rows();
            if rows > self.limits.rows {
                return Err(Error::Limit(format!(
                    "the answer has more than {} rows: select fewer with 'limit', or allow more",
                    self.limits.rows
                )));
            }
            encoder.push(&batch)?;
            if encoder.len() >= BLOCK && !self.send(encoder.take()).await {
                return Ok(());
            }
        }
        self.send(encoder.end()?).await;
        Ok(())
    }

    /// False: nobody reads on.
    async fn send(&self, block: Vec<u8>) -> bool {
        block.is_empty() || self.sender.send(Ok(block.into())).await.is_ok()
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

/// Plans a statement that is known to read, and begins it. Planning does not give way: this is called beside what
/// watches the time.
pub(crate) async fn begun(
    context: &SessionContext,
    statement: ParsedStatement,
    sql: &str,
    known: &Known,
) -> Result<SendableRecordBatchStream, Error> {
    let stream = async {
        let plan = context.state().statement_to_plan(statement).await?;
        // What it has inside it is asked once more.
        let reads = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        reads.verify_plan(&plan)?;
        let rows = context.execute_logical_plan(plan).await?;
        rows.execute_stream().await
    };
    let stream = stream.await;
    stream.map_err(|error| translated(&error, sql, known))
}

impl Snapshot {
    fn new(reader: &Reader, statement: &Statement) -> Result<Snapshot, Error> {
        let context = session(&statement.environment, &statement.limits);
        let mut names = Names::default();
        let known = Known {
            tables: reader.tables().map(str::to_owned).collect(),
            functions: function_names(&context),
        };
        let mut scans = HashMap::new();
        for name in &known.tables {
            let Some(scan) = reader.scan(name) else {
                continue;
            };
            scans.insert(name.clone(), scan.clone());
            names.add_table(name);
            let fields = scan.schema().fields().iter();
            fields.for_each(|field| names.add_column(field.name()));
            let table = Arc::new(StoreTable::new(name, scan, Arc::clone(&statement.checked)));
            let registered = context.register_table(TableReference::bare(name.as_str()), table);
            registered.map_err(|error| translated(&error, "", &known))?;
        }
        let versions = VersionFunction::new(scans.clone(), Arc::clone(&statement.checked));
        context.register_udtf("version", Arc::new(versions));
        let function = SearchFunction::new(scans, statement.search.clone());
        context.register_udtf("search", Arc::new(function));
        Ok(Snapshot {
            context,
            names,
            known,
        })
    }

    async fn plan(&self, sql: &str) -> Result<SendableRecordBatchStream, Error> {
        let statement = parsed(sql, &self.names)?;
        begun(&self.context, statement, sql, &self.known).await
    }
}

pub(crate) fn defect(cause: impl std::fmt::Display) -> Error {
    Error::Failed(format!("internal error: {cause}; please report it"))
}
