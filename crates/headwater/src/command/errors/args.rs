//! Options of `headwater errors`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::{ServerArgs, parse_rate};

/// Look at rejected events, edit and replay them
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater errors list                             by cause, of a running server\n  \
    headwater errors list state/                      of one that is stopped\n  \
    headwater errors list --app Shop --since 1h --each\n  \
    headwater errors show 12\n  \
    headwater errors edit 12 --payload fixed.json\n  \
    headwater errors replay --app Shop --cause 'is no double'\n  \
    headwater errors purge --older-than 7d\n  \
    headwater errors export --format csv -o errors.csv")]
pub struct ErrorsArgs {
    #[command(subcommand)]
    pub action: ErrorsAction,
}

#[derive(Subcommand, Debug)]
pub enum ErrorsAction {
    /// List rejected events: by cause with their count, or one by one
    List(ListArgs),
    /// Show one rejected event with its whole payload
    Show(ShowArgs),
    /// Give a rejected event another payload, which is replayed instead of its own
    Edit(EditArgs),
    /// Replay rejected events to where they failed, through the app as it is now
    Replay(ReplayArgs),
    /// Remove rejected events for good
    Purge(PurgeArgs),
    /// Write rejected events to a file
    Export(ExportArgs),
}

/// Which events are meant.
#[derive(Args, Clone, Debug, Default)]
pub struct FilterArgs {
    /// Only events of this app
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// Only events of this stream, or of this table
    #[arg(long, value_name = "STREAM")]
    pub stream: Option<String>,
    /// Only events that failed there: source, query, sink-mapper, sink, store or function
    #[arg(long, value_name = "STAGE")]
    pub stage: Option<String>,
    /// Only events whose cause has this text in it
    #[arg(long, value_name = "TEXT")]
    pub cause: Option<String>,
    /// Only events from then on: how long ago (90s, 15min, 1h, 7d) or a time in UTC
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only events before then
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
}

impl FilterArgs {
    /// As names and values, as the server takes them.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("app", &self.app),
            ("stream", &self.stream),
            ("stage", &self.stage),
            ("cause", &self.cause),
            ("since", &self.since),
            ("until", &self.until),
        ];
        let set = all.into_iter();
        set.filter_map(|(name, value)| Some((name, value.clone()?)))
            .collect()
    }
}

#[derive(Args, Debug)]
pub struct ListArgs {
    /// State directory of a server that is stopped, instead of asking a running one
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// By cause, with counts: this is the default
    #[arg(long, conflicts_with = "each")]
    pub group: bool,
    /// One by one, the newest last
    #[arg(long)]
    pub each: bool,
    /// Groups that are shown, or the newest events with --each; 0 for all
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Number of the event, as listed
    #[arg(value_name = "NUMBER")]
    pub number: u64,
    /// State directory of a server that is stopped, instead of asking a running one
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print the payload alone, byte by byte as it is
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater errors edit 12                          in $EDITOR\n  \
    headwater errors edit 12 --payload fixed.json\n  \
    headwater errors show 12 --raw | sed 's/,/./' | headwater errors edit 12 --payload -\n  \
    headwater errors edit 12 --discard                back to what came")]
pub struct EditArgs {
    /// Number of the event, as listed
    #[arg(value_name = "NUMBER")]
    pub number: u64,
    #[command(flatten)]
    pub server: ServerArgs,
    /// The new payload: a file, or - for standard input; without it $VISUAL or $EDITOR is started
    #[arg(long, value_name = "FILE")]
    pub payload: Option<PathBuf>,
    /// Keep the payload also if the app as it is now would reject it
    #[arg(long)]
    pub unchecked: bool,
    /// Go back to the payload that came
    #[arg(long, conflicts_with_all = ["payload", "unchecked"])]
    pub discard: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater errors replay 12 13\n  \
    headwater errors replay --app Shop --dry-run      what would become of them\n  \
    headwater errors replay --all --rate 1000\n\n\
    Exit codes: 0 all are replayed; 4 some failed again or could not be replayed; 1 the replay ended early; \
    3 could not connect.")]
pub struct ReplayArgs {
    /// Numbers of events, as listed
    #[arg(value_name = "NUMBER")]
    pub numbers: Vec<String>,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// All events
    #[arg(long)]
    pub all: bool,
    /// Events per second at most
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Only say what would become of them
    #[arg(long)]
    pub dry_run: bool,
    /// Stop the replay that is at work
    #[arg(long, conflicts_with_all = ["numbers", "all", "rate", "dry_run"])]
    pub cancel: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct PurgeArgs {
    /// Numbers of events, as listed
    #[arg(value_name = "NUMBER")]
    pub numbers: Vec<String>,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// All events
    #[arg(long)]
    pub all: bool,
    /// Only events that are older, such as 7d
    #[arg(long, value_name = "TIME", conflicts_with = "until")]
    pub older_than: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ExportFormat {
    /// One JSON object a line, with the payload
    Ndjson,
    Csv,
    /// The payloads alone, each on a line of its own
    Raw,
}

#[derive(Args, Debug)]
pub struct ExportArgs {
    /// State directory of a server that is stopped, instead of asking a running one
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[arg(long, value_enum, default_value_t = ExportFormat::Ndjson, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// The file to write; it must not be there yet. Standard output without it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
