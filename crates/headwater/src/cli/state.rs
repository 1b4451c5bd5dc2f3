//! Arguments of `headwater state`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// List, copy, restore and verify saved state
///
/// Works on the directory that a server was given with --state, whether that server runs or not, and on
/// backups of it.
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
}

/// List what is saved: snapshots, positions, tables and windows, rejected events, backups
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state list state/\n  \
    headwater state list /backup/monday --json\n\n\
    Exit codes: 0 done; 1 there is no state, or some of it is damaged.")]
pub struct ListArgs {
    /// The --state directory of a server, or a backup
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
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
/// reads the copy again. The server may be running: it is not waited for and does not wait; the copy has
/// the newest checkpoint (at most --state-interval old). A stopped server's state is copied whole.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater state copy state/ /backup/monday\n\n\
    Databases are not part of it: see docs/backup.md for the order in which to copy both.\n\n\
    Exit codes: 0 done; 1 there is no state, it is damaged, or something is in the way.")]
pub struct CopyArgs {
    /// The --state directory of a server
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The backup: a directory that does not exist yet
    #[arg(value_name = "TO")]
    pub to: PathBuf,
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
