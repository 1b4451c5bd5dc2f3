//! A build without the feature `sql`.

use std::path::Path;

use connect::shared::Shared;
use server::capp::Capp;
use server::client::Reply;
use server::http::sql::Sql;
use server::scripts::ScriptDefinition;

use super::{NO_STORE, Ran, ServedSql};
use crate::cli::sql::{ScriptArgs, SqlArgs, SqlLimitArgs, SqlOutput};
use crate::search::Searching;

const LACKS: &str = "this build has no SQL: build it with the feature 'sql' (cargo build -p headwater --features sql), \
                     or install the full binary; a server that has it can be asked with --url";

/// There is none.
pub enum Folder {}

impl Folder {
    /// # Errors
    /// Always: what the build lacks, and how to get it.
    pub fn open(_: &Path, _: &SqlArgs) -> anyhow::Result<Folder> {
        Err(anyhow::anyhow!(LACKS))
    }

    pub fn ask(
        &self,
        _: &str,
        _: &str,
        _: SqlOutput,
        _: bool,
        _: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<Reply> {
        match *self {}
    }
}

/// # Errors
/// Always, as above.
pub fn run_script(
    _: &SqlArgs,
    _: &Path,
    _: &Path,
    _: bool,
    _: &mut dyn FnMut(Ran) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Reply>> {
    Err(anyhow::anyhow!(LACKS))
}

/// There are none.
pub struct ScriptFiles(());

impl ScriptFiles {
    /// # Errors
    /// Scripts are named: what the build lacks, and how to get it.
    pub fn read(args: &ScriptArgs, capps: &[Capp], _: bool) -> anyhow::Result<ScriptFiles> {
        let of_capps = capps.iter().any(|capp| !capp.scripts.is_empty());
        match args.scripts.is_empty() && !of_capps {
            true => Ok(ScriptFiles(())),
            false => Err(anyhow::anyhow!(LACKS)),
        }
    }

    pub fn is_empty(&self) -> bool {
        true
    }

    /// # Errors
    /// None.
    pub fn definitions(
        self,
        _: &Path,
        _: &Shared,
        _: &str,
        _: (&SqlLimitArgs, &ScriptArgs),
    ) -> anyhow::Result<Vec<ScriptDefinition>> {
        Ok(Vec::new())
    }
}

/// # Errors
/// None.
pub fn of_server(
    store: Option<&Path>,
    _: &SqlLimitArgs,
    _: &Searching,
) -> anyhow::Result<ServedSql> {
    let why = if store.is_some() { LACKS } else { NO_STORE };
    Ok(ServedSql {
        http: Sql::absent(why),
        rows: Err(why),
    })
}
