//! One file per command; each returns the exit code.

pub mod bench;
pub mod check;
pub mod completions;
pub mod connectors;
pub mod deploy;
pub mod errors;
pub mod eval;
pub mod explain;
pub mod fmt;
pub mod gateway;
pub mod import;
pub mod man;
pub mod new;
pub mod query;
mod reply;
pub mod run;
pub mod scripts;
pub mod secrets;
pub mod send;
pub mod sql;
pub mod state;
pub mod statistics;
pub mod status;
pub mod store;
pub mod tap;
pub mod test;
pub mod top;
pub mod users;
pub mod version;
mod watch;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use lang::suggest::nearest;
use server::Error;
use server::capp;
use server::config::Config;
use server::deployment::LoadOptions;
use server::secrets::Secrets;

use crate::cli::ChangeArgs;

/// A text cannot be written back to where it was made from.
fn refuse_archives(arguments: &[PathBuf]) -> Result<(), Error> {
    match capp::find(arguments)?.first() {
        Some(path) => Err(Error::Usage(format!(
            "'{}' is a CApp and is not changed: write its app to a file first with 'headwater import'",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// The configuration file, with what it says that has no meaning here named in a warning.
fn read_config(path: &Path, secrets: &Secrets) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read configuration file '{}'", path.display()))?;
    let opened = secrets.open();
    let config = Config::parse(&path.display().to_string(), &text, &|name| {
        opened.value(name)
    });
    if let Ok(config) = &config {
        opened.hide_secrets_of(&config.text_of_options(), &catalog::full());
    }
    opened.close()?;
    let config = config?;
    if !config.ignored.is_empty() {
        let keys = config.ignored.iter();
        let meant: Vec<&str> = keys
            .filter_map(|key| nearest(key, CONFIG_KEYS.iter().copied()))
            .collect();
        tracing::warn!(
            file = %path.display(),
            keys = config.ignored.join(", "),
            did_you_mean = (!meant.is_empty()).then(|| meant.join(", ")),
            "ignoring configuration keys that Headwater does not use"
        );
    }
    Ok(config)
}

/// Keys of a configuration file that are used, as far as one may be misspelt at the top or below
/// `siddhi`.
const CONFIG_KEYS: [&str; 11] = [
    "siddhi",
    "siddhi.refs",
    "siddhi.extensions",
    "siddhi.properties",
    "siddhi.dataSources",
    "refs",
    "extensions",
    "properties",
    "dataSources",
    "wso2.datasources",
    "state.persistence",
];

/// `secrets`: where `${secret:NAME}` is looked up.
fn load_options(
    change: &ChangeArgs,
    secrets: Secrets,
    must_run: bool,
) -> anyhow::Result<LoadOptions> {
    let config = change.config.as_deref();
    let config = config.map(|path| read_config(path, &secrets)).transpose()?;
    Ok(LoadOptions {
        registry: crate::registry::REGISTRY,
        catalog: catalog::full(),
        sets: change.sets.clone(),
        replaces: change.replaces.clone(),
        config,
        secrets,
        must_run,
        is_lenient: change.lenient,
    })
}

/// Puts a text in place of a file: whoever reads it sees the old one or the new one, never half of it.
fn replace_file(path: &Path, text: &str) -> anyhow::Result<()> {
    // A link stays one.
    let path =
        std::fs::canonicalize(path).with_context(|| format!("cannot find '{}'", path.display()))?;
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    std::fs::write(part, text).with_context(|| format!("cannot write '{}'", part.display()))?;
    let permissions = std::fs::metadata(&path).map(|m| m.permissions());
    permissions
        .and_then(|p| std::fs::set_permissions(part, p))
        .and_then(|()| std::fs::rename(part, &path))
        .with_context(|| format!("cannot replace '{}'", path.display()))
}
