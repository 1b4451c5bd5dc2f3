//! A build with the feature `sql`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::sql::{Answer, Engine, Format, Limits, Progress, Question};
use serde_json::json;
use server::client::Reply;
use server::http::fault_json;
use server::http::sql::{
    JobLimits, Sql, SqlAnswer, SqlBlock, SqlEngine, SqlFormat, SqlProgress, SqlQuestion, SqlRefusal,
};

use super::{NO_STORE, ServedSql};
use crate::cli::sql::{SqlArgs, SqlLimitArgs, SqlOutput};
use crate::search::Searching;

/// A store that is asked without a server.
pub struct Folder {
    engine: Engine,
    dir: PathBuf,
}

impl Folder {
    /// # Errors
    /// The folder is no store; there are no threads.
    pub fn open(dir: &Path, args: &SqlArgs) -> anyhow::Result<Folder> {
        if !dir.join("store.json").exists() {
            let message = format!(
                "'{}' is not a folder of an event store: name that of 'headwater run --store'",
                dir.display()
            );
            return Err(server::Error::Usage(message).into());
        }
        let limits = limits(args);
        Ok(Folder {
            engine: Engine::new(limits)?.with_search(searched(dir)?),
            dir: dir.to_owned(),
        })
    }

    /// Gives the answer to `write` as it comes, until that says `false`; or the reason why there is none.
    pub fn ask(
        &self,
        name: &str,
        sql: &str,
        format: SqlOutput,
        colour: bool,
        write: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<Reply> {
        let format = match format {
            SqlOutput::Table | SqlOutput::Json => Format::Json,
            SqlOutput::Ndjson => Format::Ndjson,
            SqlOutput::Csv => Format::Csv,
            SqlOutput::Arrow => Format::Arrow,
            SqlOutput::Parquet => Format::Parquet,
        };
        let mut answer = self.engine.ask(&self.dir, sql, format);
        while let Some(block) = answer.blocking_recv() {
            match block {
                Ok(block) if write(&block.bytes) => {}
                Ok(_) => return None,
                Err(error) => return Some(refused(&error, name, sql, colour)),
            }
        }
        None
    }
}

/// The search over the tables of a folder.
#[cfg(feature = "search")]
fn searched(dir: &Path) -> anyhow::Result<Option<Arc<dyn ::sql::TableSearch>>> {
    Ok(Searching::of_folder(dir, &crate::command::run::zone(None)?)?.of_sql())
}

/// There is none in this build.
#[cfg(not(feature = "search"))]
fn searched(_: &Path) -> anyhow::Result<Option<Arc<dyn ::sql::TableSearch>>> {
    Ok(None)
}

/// What the arguments allow.
pub(super) fn limits(args: &SqlArgs) -> Limits {
    Limits {
        memory: usize::try_from(args.memory_limit).unwrap_or(usize::MAX),
        spill: args.spill_limit,
        spill_dir: args.spill_dir.clone(),
        time: args.timeout,
        rows: args.max_rows,
    }
}

/// As a server would say it.
pub(super) fn refused(error: &::sql::Error, name: &str, text: &str, colour: bool) -> Reply {
    let json = match error {
        ::sql::Error::Statement(fault) => {
            let (faults, catalog) = (std::slice::from_ref(&**fault), catalog::full());
            let mut json = fault_json(name, text, faults, &catalog);
            let rendered = check::render::render(faults, name, text, &catalog, colour);
            json["rendered"] = rendered.trim_end().into();
            json
        }
        error => json!({ "message": error.to_string() }),
    };
    Reply { status: 400, json }
}

/// The SQL of a server.
///
/// # Errors
/// There are no threads.
pub fn of_server(
    store: Option<&Path>,
    args: &SqlLimitArgs,
    search: &Searching,
) -> anyhow::Result<ServedSql> {
    let Some(dir) = store else {
        return Ok(ServedSql {
            http: Sql::absent(NO_STORE),
            rows: Err(NO_STORE),
            #[cfg(feature = "flight")]
            asked: Err(NO_STORE),
        });
    };
    let limits = Limits {
        memory: usize::try_from(args.sql_memory_limit).unwrap_or(usize::MAX),
        time: args.sql_timeout,
        rows: args.sql_max_rows,
        ..Limits::default()
    };
    let engine = OfServer {
        engine: Arc::new(Engine::new(limits)?.with_search(search.of_sql())),
        dir: dir.to_owned(),
        job_time: args.sql_job_timeout,
    };
    let jobs = JobLimits {
        bytes: args.sql_jobs_size,
        age: args.sql_jobs_age,
    };
    let engine = Arc::new(engine);
    Ok(ServedSql {
        http: Sql::new(Arc::<OfServer>::clone(&engine), jobs),
        #[cfg(feature = "flight")]
        asked: Ok(Arc::clone(&engine)),
        rows: Ok(engine),
    })
}

pub(super) struct OfServer {
    pub engine: Arc<Engine>,
    pub dir: PathBuf,
    job_time: Duration,
}

impl SqlEngine for OfServer {
    fn ask(&self, question: SqlQuestion) -> Box<dyn SqlAnswer> {
        let format = match question.format {
            SqlFormat::Json => Format::Json,
            SqlFormat::Ndjson => Format::Ndjson,
            SqlFormat::Csv => Format::Csv,
            SqlFormat::Arrow => Format::Arrow,
            SqlFormat::Parquet => Format::Parquet,
        };
        Box::new(Blocks(self.engine.answer(Question {
            store: self.dir.clone(),
            sql: question.sql,
            format,
            page_rows: question.page_rows,
            time: question.is_job.then_some(self.job_time),
        })))
    }
}

struct Blocks(Answer);

impl SqlAnswer for Blocks {
    fn poll_block(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<SqlBlock, SqlRefusal>>> {
        let next = self.0.poll_block(context);
        next.map(|block| {
            let block = block?.map(|block| SqlBlock {
                bytes: block.bytes,
                rows: block.rows,
                ends_page: block.ends_page,
            });
            Some(block.map_err(refusal))
        })
    }

    fn progress(&self) -> Arc<dyn SqlProgress> {
        Arc::new(Reading(self.0.progress()))
    }
}

struct Reading(Arc<Progress>);

impl SqlProgress for Reading {
    fn rows_read(&self) -> u64 {
        self.0.rows_read()
    }

    fn rows_to_read(&self) -> Option<u64> {
        self.0.rows_to_read()
    }
}

pub(super) fn refusal(error: ::sql::Error) -> SqlRefusal {
    match error {
        ::sql::Error::Statement(fault) => SqlRefusal::Statement(fault),
        ::sql::Error::Limit(message) => SqlRefusal::Rows(message),
        ::sql::Error::Failed(message) => SqlRefusal::Failed(message),
        error @ ::sql::Error::Values(_) => SqlRefusal::Rows(error.to_string()),
    }
}
