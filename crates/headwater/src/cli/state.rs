//! Arguments of `headwater state`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ServerArgs;

/// List, show, compare, copy, restore and verify saved state
///
/// Works on the directory that a server was given with --state, whether that server runs or not, and on
/// backups of it; list and copy also through a running server.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state list state/                       what is saved, and when\n  \
    headwater state copy state/ /backup/monday        a backup, also while the server runs\n  \
    headwater state verify /backup/monday             read every byte of it\n  \
    headwater state restore /backup/monday state/ --replace")]
pub struct StateArgs {
    #[command(subcommand)]
    pub action: StateAction,
}

#[derive(Subcommand, Debug)]
pub enum StateAction {
    List(ListArgs),
    Verify(VerifyArgs),
    Copy(CopyArgs),
    Restore(RestoreArgs),
    Show(ShowArgs),
    Diff(DiffArgs),
}

/// List what is saved: snapshots, positions, tables and windows, rejected events, backups
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state list state/\n  \
    headwater state list /backup/monday --json\n  \
    headwater state list --url https://host:9090      of a running server\n\n\
    Exit codes: 0 done; 1 there is no state, or some of it is damaged; 3 could not connect.")]
pub struct ListArgs {
    /// The --state directory of a server, or a backup; without it the server at --url is asked
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Read every byte of saved state, or of a backup, and report damage
///
/// Compares each file with its checksums (a backup also with its list of files), and puts the snapshots
/// together as a start does. Changes nothing; the server may be running.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state verify state/\n  \
    headwater state verify /backup/monday --json\n\n\
    Exit codes: 0 all of it is as it was written; 1 damaged, or there is no state.")]
pub struct VerifyArgs {
    /// The --state directory of a server, or a backup
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Make a backup of saved state
///
/// Copies every group of apps as one moment left it, with a list of the files and their checksums, and
/// reads the copy again. From a directory: the server may be running, and the copy has the newest
/// checkpoint (at most --state-interval old). Through a running server (one argument, a name): it makes
/// a checkpoint first and keeps the backup in backups/NAME below its state directory.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state copy state/ /backup/monday\n  \
    headwater state copy monday --url https://host:9090                   keep it at the server\n  \
    headwater state copy monday --url https://host:9090 -o monday.tar     fetch it\n\n\
    Databases are not part of it: see docs/backup.md for the order in which to copy both.\n\n\
    Exit codes: 0 done; 1 there is no state, it is damaged, or something is in the way; 2 usage; 3 could \
    not connect.")]
pub struct CopyArgs {
    /// The --state directory of a server; without TO a name for a backup that the server at --url makes
    #[arg(value_name = "DIR|NAME")]
    pub from: String,
    /// The backup: a directory that does not exist yet
    #[arg(value_name = "TO")]
    pub to: Option<PathBuf>,
    /// Fetch the backup from the server into this tar archive, instead of keeping it there
    #[arg(short, long, value_name = "FILE", conflicts_with = "to")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Put a backup into the state directory of a stopped server
///
/// The backup is verified first. All of it is copied beside what is there before anything moves; what was
/// there stays in a directory 'replaced-TIME' below it. The next start continues from the backup: sources
/// read on from its positions, and databases are asked what they have committed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state restore /backup/monday state/             into an empty directory\n  \
    headwater state restore /backup/monday state/ --replace   what is there is put aside\n  \
    headwater state restore /backup/monday staging/ --new-id  beside a server that goes on\n\n\
    Databases: restore theirs of the same checkpoint, else rows written since are written again. The \
    start says so. See docs/backup.md.\n\n\
    Exit codes: 0 done; 1 refused: the backup is damaged, a server uses the directory, or it has state.")]
pub struct RestoreArgs {
    /// A backup (headwater state copy), or a copy of a state directory made while no server used it
    #[arg(value_name = "BACKUP")]
    pub backup: PathBuf,
    /// The --state directory of the server that will run
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Put the state that is there aside, in DIR/replaced-TIME
    #[arg(long)]
    pub replace: bool,
    /// Give the directory an identity of its own, because the server that the backup was made of goes on:
    /// stores keep what the two write apart
    #[arg(long)]
    pub new_id: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Show what is in saved state: positions of sources, rows of tables, answers to queries
///
/// Rows of tables in memory are read from the saved bytes alone. Named windows and aggregations need the
/// app that saved them (--app): it takes the state back as a start does, and answers. What a window inside
/// of a query holds, patterns and partitions cannot be shown, only how much it is.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state show state/                          apps, positions, elements\n  \
    headwater state show state/ Shop Stock --limit 5     rows of a table\n  \
    headwater state show state/@12                       the snapshot of epoch 12\n  \
    headwater state show /backup/monday Shop Last --app shop.siddhi\n  \
    headwater state show state/ Shop --app shop.siddhi --query 'from Stock on price > 10.0 select *'\n\n\
    Exit codes: 0 done; 1 there is no such state, app or element; 2 usage.")]
pub struct ShowArgs {
    /// The --state directory of a server, or a backup; DIR@EPOCH for one of its snapshots
    #[arg(value_name = "DIR")]
    pub dir: String,
    /// Only this app
    #[arg(value_name = "APP")]
    pub name: Option<String>,
    /// Rows of this table, named window or aggregation of the app
    #[arg(value_name = "ELEMENT", requires = "name")]
    pub element: Option<String>,
    /// The app that saved the state, in its file
    #[arg(long, value_name = "FILE")]
    pub app: Option<PathBuf>,
    /// Answer an on-demand query from the saved state; needs --app
    #[arg(
        long,
        value_name = "QUERY",
        requires = "app",
        conflicts_with = "element"
    )]
    pub query: Option<String>,
    /// Show so many rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Compare saved states, or a saved state with an edited app
///
/// Says which positions have moved, which rows of tables in memory were added, removed or changed, and
/// how the size of everything else has changed. With an app file as the second argument it says what the
/// app would take back of the state, as headwater explain --state does.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state diff /backup/monday state/\n  \
    headwater state diff state/@11 state/@12 --limit 5    two snapshots of a directory\n  \
    headwater state diff state/ edited.siddhi             what the app would keep and drop\n\n\
    Exit codes: 0 compared, whatever differs; 1 there is no such state, or the app would drop some of it.")]
pub struct DiffArgs {
    /// A --state directory or a backup; DIR@EPOCH for one of its snapshots
    #[arg(value_name = "BEFORE")]
    pub before: String,
    /// Another one, or the file of an app
    #[arg(value_name = "AFTER|APP")]
    pub after: String,
    /// Only this app
    #[arg(long = "only", value_name = "NAME")]
    pub name: Option<String>,
    /// The app that saved both states, in its file: whose words positions are told in
    #[arg(long, value_name = "FILE")]
    pub app: Option<PathBuf>,
    /// Show so many rows of each table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
