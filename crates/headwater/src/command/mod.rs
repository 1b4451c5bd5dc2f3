//! One file per command; each returns the exit code.

pub mod bench;
pub mod check;
pub mod completions;
pub mod connectors;
pub mod errors;
pub mod explain;
pub mod fmt;
pub mod query;
pub mod run;
pub mod statistics;
pub mod test;
pub mod version;
mod watch;

use std::path::Path;

use anyhow::Context as _;
use server::config::Config;
use server::deployment::LoadOptions;
use server::variable;

use crate::cli::ChangeArgs;

/// The configuration file, with what it says that has no meaning here named in a warning.
fn read_config(path: &Path) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read configuration file '{}'", path.display()))?;
    let config = Config::parse(&path.display().to_string(), &text, &variable::value)?;
    if !config.ignored.is_empty() {
        tracing::warn!(
            file = %path.display(),
            keys = config.ignored.join(", "),
            "ignoring configuration keys that Headwater does not use"
        );
    }
    Ok(config)
}

fn load_options(change: &ChangeArgs, must_run: bool) -> anyhow::Result<LoadOptions> {
    Ok(LoadOptions {
        registry: ::connectors::REGISTRY,
        catalog: catalog::full(),
        sets: change.sets.clone(),
        replaces: change.replaces.clone(),
        config: change.config.as_deref().map(read_config).transpose()?,
        must_run,
    })
}
