//! A build without the feature `history`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connect::shared::Shared;
use serde_json::Value as Json;
use server::capp::Capp;
use server::http::store::{StoreKeeper, StoreRefusal, StoreUpkeep, StoreWatch, StoreWork};
use server::scripts::ScriptDefinition;

use super::NO_STORE;
use crate::cli::store::CopyArgs;
use crate::search::Searching;

const LACKS: &str = "this build has no event store: build it with the feature 'history' (cargo build -p headwater \
                     --features history), or install the full binary; a server that has it can be asked with --url";

/// There is none.
pub enum Place {}

impl Place {
    /// # Errors
    /// Always: what the build lacks, and how to get it.
    pub fn of_folder(_: &Path) -> anyhow::Result<Place> {
        Err(anyhow::anyhow!(LACKS))
    }

    pub fn of_server(store: Option<&Path>, _: &Arc<Shared>, _: &Searching, _: &str) -> StoreUpkeep {
        StoreUpkeep::absent(if store.is_some() { LACKS } else { NO_STORE })
    }
}

impl StoreKeeper for Place {
    fn tables(&self) -> Result<Json, StoreRefusal> {
        match *self {}
    }

    fn versions(&self, _: &str) -> Result<Json, StoreRefusal> {
        match *self {}
    }

    fn work(&self, _: StoreWork, _: &Json, _: &StoreWatch) -> Result<Json, StoreRefusal> {
        match *self {}
    }
}

/// # Errors
/// Always, as above.
pub fn copy(_: &CopyArgs, _: &StoreWatch) -> Result<Json, StoreRefusal> {
    Err(StoreRefusal::Failed(LACKS.to_owned()))
}

/// There are none.
pub struct PurgeFiles(());

impl PurgeFiles {
    pub fn is_empty(&self) -> bool {
        true
    }

    /// # Errors
    /// Some are named: what the build lacks, and how to get it.
    pub fn read(files: &[PathBuf], capps: &[Capp]) -> anyhow::Result<PurgeFiles> {
        let of_capps = capps.iter().any(|capp| !capp.purges.is_empty());
        match files.is_empty() && !of_capps {
            true => Ok(PurgeFiles(())),
            false => Err(anyhow::anyhow!(LACKS)),
        }
    }

    /// None.
    pub fn definitions(self, _: &Path, _: &Arc<Shared>, _: &str) -> Vec<ScriptDefinition> {
        Vec::new()
    }
}
