//! A build with the feature `sql`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

use ::sql::{Answer, Engine, Format, Limits};
use bytes::Bytes;
use serde_json::json;
use server::client::Reply;
use server::http::fault_json;
use server::http::sql::{Sql, SqlAnswer, SqlEngine, SqlFormat, SqlRefusal};

use super::NO_STORE;
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
                Ok(block) if write(&block) => {}
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
) -> anyhow::Result<Sql> {
    let Some(dir) = store else {
        return Ok(Sql::absent(NO_STORE));
    };
    let limits = Limits {
        memory: usize::try_from(args.sql_memory_limit).unwrap_or(usize::MAX),
        time: args.sql_timeout,
        rows: args.sql_max_rows,
        ..Limits::default()
    };
    Ok(Sql::new(Arc::new(OfServer {
        engine: Engine::new(limits)?.with_search(search.of_sql()),
        dir: dir.to_owned(),
    })))
}

struct OfServer {
    engine: Engine,
    dir: PathBuf,
}

impl SqlEngine for OfServer {
    fn ask(&self, sql: &str, format: SqlFormat) -> Box<dyn SqlAnswer> {
        let format = match format {
            SqlFormat::Json => Format::Json,
            SqlFormat::Ndjson => Format::Ndjson,
            SqlFormat::Csv => Format::Csv,
            SqlFormat::Arrow => Format::Arrow,
            SqlFormat::Parquet => Format::Parquet,
        };
        Box::new(Blocks(self.engine.ask(&self.dir, sql, format)))
    }
}

struct Blocks(Answer);

impl SqlAnswer for Blocks {
    fn poll_block(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SqlRefusal>>> {
        let next = self.0.poll_recv(context);
        next.map(|block| block.map(|block| block.map_err(refusal)))
    }
}

fn refusal(error: ::sql::Error) -> SqlRefusal {
    match error {
        ::sql::Error::Statement(fault) => SqlRefusal::Statement(fault),
        ::sql::Error::Limit(message) => SqlRefusal::Rows(message),
        ::sql::Error::Failed(message) => SqlRefusal::Failed(message),
        error @ ::sql::Error::Values(_) => SqlRefusal::Rows(error.to_string()),
    }
}
