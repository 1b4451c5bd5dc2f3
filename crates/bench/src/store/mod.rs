//! `headwater bench store`: the event store under the loads of the published report of WSO2 DAS, and beside the programs
//! that a user would pick instead.
//!
//! Promises: what goes in is counted and summed by the generator, and a run whose store has another count or sum has no
//! figure; peers answer from the same files, in turns with us, and their answers are compared with ours; CPU is that of
//! the server's own process. A peer that is not at hand is named.

mod client;
mod events;
mod http;
mod load;
mod part;
mod peer;
mod report;
mod site;
mod text;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use part::{PARTS, Part};
use report::Measured;
pub use report::StoreReport;

use crate::machine;

/// One sentence for the list of scenarios.
pub const ABOUT: &str =
    "the event store: ingest, SQL, scripts, search, purge, restart, beside DuckDB and Polars";

pub struct StoreOptions {
    /// The `headwater` binary that is measured.
    pub binary: PathBuf,
    /// Runs of what is repeated.
    pub runs: usize,
    /// Events, instead of the number of each part.
    pub events: Option<u64>,
    /// One part; all without.
    pub part: Option<String>,
    /// Fewer events, so that all parts take ten minutes.
    pub is_quick: bool,
    /// Ours alone.
    pub is_alone: bool,
    /// For stores; below the system's folder for temporary files without.
    pub dir: Option<PathBuf>,
    pub progress: fn(&str),
}

/// What a part is measured with.
struct Trial<'a> {
    options: &'a StoreOptions,
    /// Of this part alone.
    dir: &'a Path,
}

impl Trial<'_> {
    /// Events of a run.
    fn events(&self, whole: u64, quick: u64) -> u64 {
        let of_part = if self.options.is_quick { quick } else { whole };
        self.options.events.unwrap_or(of_part)
    }

    fn say(&self, line: &str) {
        (self.options.progress)(line);
    }

    /// A new folder for a store.
    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.dir.join(name);
        // Of the run before: the disk holds one of them.
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }
}

/// Measures all parts, or the one that was chosen.
///
/// # Errors
/// There is no such part, or the store has not what was put into it.
pub fn run(options: &StoreOptions) -> anyhow::Result<StoreReport> {
    let chosen = PARTS.iter().copied();
    let chosen = chosen.filter(|part| options.part.as_deref().is_none_or(|name| name == part.name));
    let chosen: Vec<&'static Part> = chosen.collect();
    ensure!(
        !chosen.is_empty(),
        "there is no part '{}': there are {}",
        options.part.as_deref().unwrap_or_default(),
        PARTS.map(|part| part.name).join(", ")
    );
    let mut report = StoreReport::new(machine::describe(), options.is_quick);
    for part in chosen {
        let dir = match &options.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir)?;
                tempfile::tempdir_in(dir)?
            }
            None => tempfile::tempdir()?,
        };
        let trial = Trial {
            options,
            dir: dir.path(),
        };
        let mut found = Measured::new(part);
        (part.measure)(&trial, &mut found).with_context(|| format!("part '{}'", part.name))?;
        report.add(found);
    }
    Ok(report)
}
