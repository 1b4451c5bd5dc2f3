//! SQL over the event store, handed to the command and to the server; or what to say in a build without it.

#[cfg(feature = "sql")]
mod script;
#[cfg(feature = "sql")]
mod with;
#[cfg(not(feature = "sql"))]
mod without;

#[cfg(feature = "sql")]
pub use self::script::run_script;
#[cfg(feature = "sql")]
pub use with::{Folder, of_server};
#[cfg(not(feature = "sql"))]
pub use without::{Folder, of_server, run_script};

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
}

/// What a server without a store says.
const NO_STORE: &str = "the server has no event store: run it with --store DIR";
