//! Arguments of `headwater store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::ServerArgs;

/// Keep house in an event store: list, purge, vacuum, index again, verify, copy
///
/// With --store, works on the folder that `headwater run --store` writes; what changes it then needs that no server
/// uses it. Without, a running server is asked, which must run with --http and --store. TABLE is the name of a table or
/// a pattern for names (a regular expression for the whole name), without case.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater store tables --store data                        tables, rows, files, times\n  \
    headwater store purge smart_home --older-than '30 days' --dry-run\n  \
    headwater store purge --all --before 2026-11-01            through the server at --url\n  \
    headwater store vacuum --store data                        frees the space of what was purged\n  \
    headwater store verify --store data                        reads every byte\n  \
    headwater store versions --store data smart_home\n  \
    headwater store copy --store data backup/monday --version 12")]
pub struct StoreArgs {
    #[command(subcommand)]
    pub action: StoreAction,
}

#[derive(Subcommand, Debug)]
pub enum StoreAction {
    Tables(TablesArgs),
    Versions(VersionsArgs),
    Purge(PurgeArgs),
    Vacuum(VacuumArgs),
    Reindex(ReindexArgs),
    Verify(VerifyArgs),
    Copy(CopyArgs),
}

/// Which store, and how it is said.
#[derive(Args, Debug)]
pub struct WhereArgs {
    /// The folder of the event store; without it a server is asked
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// List the tables of an event store
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 listed; 1 the store cannot be read; 2 usage; 3 could not connect."
)]
pub struct TablesArgs {
    #[command(flatten)]
    pub at: WhereArgs,
}

/// List the versions of a table that can still be read
///
/// The log of a table keeps its commits for a day, and files that are out of it for an hour, until a vacuum.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 listed; 1 there is no such table; 2 usage; 3 could not connect."
)]
pub struct VersionsArgs {
    #[arg(value_name = "TABLE")]
    pub table: String,
    #[command(flatten)]
    pub at: WhereArgs,
}

/// Take old rows out of tables
///
/// By `_timestamp`, each table in one commit: files whose rows are all older go as a whole, those that have newer rows,
/// too, are written anew. Readers see the rows before or after it. A vacuum frees the space, an hour later at the
/// earliest.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater store purge smart_home --older-than '30 days'\n  \
    headwater store purge --store data 'org_wso2_.*' --before 2026-11-01\n  \
    headwater store purge --all --older-than '1 year' --dry-run --json\n\n\
    Exit codes: 0 purged; 1 no table has the name, or the store cannot be read or written; 2 usage; 3 could not \
    connect.")]
pub struct PurgeArgs {
    #[arg(value_name = "TABLE", required_unless_present = "all")]
    pub tables: Vec<String>,
    /// All tables
    #[arg(long, conflicts_with = "tables")]
    pub all: bool,
    /// Rows older than this, such as '30 days'
    #[arg(long, value_name = "TIME", required_unless_present = "before")]
    pub older_than: Option<String>,
    /// Rows before this time (2026-01-31, 2026-01-31T08:00:00, 2026-01-31T08:00:00Z), in the zone of the server or of
    /// this machine
    #[arg(long, value_name = "TIME", conflicts_with = "older_than")]
    pub before: Option<String>,
    /// Only count what would go
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub at: WhereArgs,
}

/// Remove files that no table names any more
///
/// A server does so by itself, an hour after they were taken out: what readers may still be at stays.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 done; 1 no table has the name, or a file cannot be removed; 2 usage; 3 could not \
    connect."
)]
pub struct VacuumArgs {
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
    /// How long files are kept that were taken out; below an hour only with --force
    #[arg(long, value_name = "TIME", default_value = "1 hour")]
    pub grace: String,
    /// Take files away that questions and other programs may be reading
    #[arg(long)]
    pub force: bool,
    /// Only count what would go
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub at: WhereArgs,
}

/// Make search indexes again
///
/// Searches read the tables meanwhile.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 done; 1 no table has the name, or none of its columns is searched; 2 usage; \
    3 could not connect."
)]
pub struct ReindexArgs {
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
    #[command(flatten)]
    pub at: WhereArgs,
}

/// Read every byte of an event store and report damage
///
/// Each file of a table against its checksum and the rows that it should have, the logs of tables and of the store
/// record by record. Changes nothing; a server may be running on the folder.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 it is sound; 1 it is damaged, or cannot be read; 2 usage; 3 could not connect."
)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub at: WhereArgs,
}

/// Copy tables into a store of its own, as they are or as they were
///
/// Reads beside a running server; all tables as they were at one moment. The state of apps is not copied (headwater
/// state copy).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater store copy --store data backup/monday\n  \
    headwater store copy --store data --table smart_home before/ --version 12\n\n\
    Exit codes: 0 copied; 1 there is no such table or version, or a file is damaged; 2 usage.")]
pub struct CopyArgs {
    /// The folder of the event store
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// The folder of the copy, which is not there yet
    #[arg(value_name = "TO")]
    pub to: PathBuf,
    /// Only these tables
    #[arg(long = "table", value_name = "TABLE")]
    pub tables: Vec<String>,
    /// As they were at this version (headwater store versions), of one table
    #[arg(long, value_name = "N", requires = "tables")]
    pub version: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
