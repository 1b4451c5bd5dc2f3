//! A build without the feature `search`.

use std::path::Path;

use server::http::analytics::Analytics;

use super::NO_STORE;
use crate::cli::search::SearchLimitArgs;

const LACKS: &str = "this build has no search: build it with the feature 'search' (cargo build -p headwater \
                     --features search), or install the full binary";

/// There is none.
#[derive(Clone)]
pub struct Searching {
    has_store: bool,
}

impl Searching {
    /// # Errors
    /// None.
    pub fn of_server(
        store: Option<&Path>,
        _: &SearchLimitArgs,
        _: &str,
    ) -> anyhow::Result<Searching> {
        Ok(Searching {
            has_store: store.is_some(),
        })
    }
}

#[cfg(feature = "sql")]
impl Searching {
    /// There is none for SQL.
    pub fn of_sql(&self) -> Option<std::sync::Arc<dyn sql::TableSearch>> {
        None
    }
}

#[cfg(feature = "history")]
impl Searching {
    /// # Errors
    /// Always: what the build lacks, and how to get it.
    pub fn keeping(_: &Path) -> anyhow::Result<Searching> {
        Err(anyhow::anyhow!(LACKS))
    }

    /// # Errors
    /// Always, as above.
    pub fn reindex(
        &self,
        _: &dyn Fn(&str) -> bool,
        _: &dyn Fn() -> bool,
    ) -> Result<serde_json::Value, server::http::store::StoreRefusal> {
        Err(server::http::store::StoreRefusal::Failed(LACKS.to_owned()))
    }
}

/// What a server answers at `/analytics`.
pub fn of_server(_: Option<&Path>, search: &Searching) -> Analytics {
    Analytics::absent(if search.has_store { LACKS } else { NO_STORE })
}
