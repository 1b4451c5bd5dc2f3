//! SQL over the event store, handed to the command and to the server; or what to say in a build without it.

use std::path::PathBuf;

#[cfg(feature = "flight")]
mod flight;
#[cfg(feature = "sql")]
mod postgres;
#[cfg(feature = "sql")]
mod script;
#[cfg(feature = "sql")]
mod scripts;
#[cfg(feature = "sql")]
mod with;
#[cfg(not(feature = "sql"))]
mod without;

#[cfg(feature = "flight")]
pub use self::flight::serve_flight;
#[cfg(feature = "sql")]
pub use self::script::run_script;
#[cfg(feature = "sql")]
pub use scripts::ScriptFiles;
#[cfg(feature = "sql")]
pub use with::{Folder, of_server};
#[cfg(not(feature = "sql"))]
pub use without::{Folder, ScriptFiles, of_server, run_script};

/// What a statement of a script came to.
pub enum Ran {
    /// Rows, as `POST /sql` gives them; `is_cut`: there are more.
    Rows {
        answer: serde_json::Value,
        is_cut: bool,
    },
    /// Rows are in a table of the store.
    Written {
        table: String,
        rows: u64,
        is_overwrite: bool,
        took: std::time::Duration,
    },
    /// Rows have become events of a stream.
    Sent {
        stream: String,
        rows: u64,
        took: std::time::Duration,
    },
}

impl Ran {
    /// One document for each statement.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Ran::Rows { answer, is_cut } => {
                let mut answer = answer.clone();
                answer["cut"] = (*is_cut).into();
                answer
            }
            Ran::Written {
                table,
                rows,
                is_overwrite,
                took,
            } => serde_json::json!({
                "version": 1,
                "table": table,
                "rows": rows,
                "overwritten": is_overwrite,
                "millis": took.as_millis() as u64,
            }),
            Ran::Sent { stream, rows, took } => serde_json::json!({
                "version": 1,
                "stream": stream,
                "rows": rows,
                "millis": took.as_millis() as u64,
            }),
        }
    }
}

/// The SQL of a server, by each door.
pub struct ServedSql {
    pub http: server::http::sql::Sql,
    /// By the protocol of PostgreSQL; or what to do to have it.
    pub rows: Result<std::sync::Arc<dyn server::postgres::RowsEngine>, &'static str>,
    /// What answers by Flight SQL.
    #[cfg(feature = "flight")]
    asked: Result<std::sync::Arc<with::OfServer>, &'static str>,
}

/// There is none in this build.
///
/// # Errors
/// Always: what the build lacks, and how to get it.
#[cfg(not(feature = "flight"))]
pub fn serve_flight(
    _: &server::http::HttpOptions,
    _: server::access::Door,
    _: &ServedSql,
    _: &server::secrets::Hidden,
) -> anyhow::Result<server::flight::Flight> {
    Err(anyhow::anyhow!(
        "this build has no Flight SQL: build it with the feature 'flight' (cargo build -p headwater --features \
         flight), or install the full binary"
    ))
}

/// What a server without a store says.
const NO_STORE: &str = "the server has no event store: run it with --store DIR";

/// Files as they are, and those of folders that end as scripts do, in order.
pub fn script_files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let failed = |cause: std::io::Error| {
            server::Error::Usage(format!("cannot read '{}': {cause}", path.display()))
        };
        let mut found = Vec::new();
        for entry in path.read_dir().map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            let kind = file.extension().and_then(|kind| kind.to_str());
            if matches!(kind, Some("xml" | "sql")) {
                found.push(file);
            }
        }
        found.sort();
        all.extend(found);
    }
    Ok(all)
}
