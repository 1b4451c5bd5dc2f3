//! The command line: what may be written, and the help for it.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use plan::StatisticsLevel;

#[derive(Parser, Debug)]
#[command(
    name = "headwater",
    version,
    about = "Runs the streaming applications that you have for Siddhi and WSO2 Streaming Integrator.",
    after_help = "Begin here:\n  \
                  headwater check app.siddhi            find every fault of an app\n  \
                  headwater run app.siddhi              run it until Ctrl-C\n  \
                  headwater run app.siddhi --until-done run it until its files are read\n\n\
                  Exit codes: 0 done; 1 refused, or a check or test failed; 2 usage; 3 could not \
                  connect; 4 done, but some events were rejected.",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Clone, Copy, Debug)]
pub struct OutputArgs {
    /// Colours in messages
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Say more; twice: say everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Say only what needs someone to act
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Run(RunArgs),
    Check(CheckArgs),
    Fmt(FmtArgs),
    Test(TestArgs),
    Explain(ExplainArgs),
    Connectors(ConnectorsArgs),
    Query(QueryArgs),
    Statistics(StatisticsArgs),
    Errors(ErrorsArgs),
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    /// Print the version and how it was built
    Version(VersionArgs),
}

/// How apps are changed before they are judged.
#[derive(Args, Clone, Debug, Default)]
pub struct ChangeArgs {
    /// Set or add an option of an annotation: [App/]Element.annotation[N].option=value
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub sets: Vec<String>,
    /// Replace a text in every string literal of the apps
    #[arg(long = "replace", value_name = "OLD=NEW")]
    pub replaces: Vec<String>,
    /// A deployment.yaml of Streaming Integrator: refs, extensions, data sources, persistence
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Run apps in the foreground
///
/// Reads the apps (a folder stands for every .siddhi file in it), connects their sources, sinks and
/// stores, and runs them until Ctrl-C or, with --until-done, until all input has been read and
/// nothing is held back by a timer. Standard output carries the lines of log sinks and a summary at
/// the end; diagnostics and progress go to standard error.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run app.siddhi --until-done\n  \
    headwater run apps/ --state /var/lib/headwater --http 127.0.0.1:9090\n  \
    headwater run etl.siddhi --set 'Lines.source.dir.uri=file:/data/in' \\\n    \
      --replace 'jdbc:mysql://db/shop=jdbc:sqlite:shop.db' --until-done\n  \
    IN=/data headwater run app.siddhi          values for ${IN} come from the environment")]
pub struct RunArgs {
    /// Apps, or folders of apps
    #[arg(required = true, value_name = "APP|DIR")]
    pub apps: Vec<PathBuf>,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Keep positions, windows, tables and rejected events here, and go on from them
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Time between two saves of the state (500ms, 5s, 1min)
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub state_interval: Option<std::time::Duration>,
    /// Drop saved state that an edited app cannot take back, or that is damaged, instead of refusing to
    /// start; what is kept and what is dropped is said first either way
    #[arg(long)]
    pub drop_state: bool,
    /// Refuse events that would let an app hold more than this in memory, such as 512MB; an app with
    /// @app:memory(limit='…') may hold what is less of both
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,
    /// End when all input has been read and no timer holds an event
    #[arg(long)]
    pub until_done: bool,
    /// Read the apps again when one of their files changes, as SIGHUP asks for at any time: apps that
    /// changed go on from their state and positions, the others do not notice
    #[arg(long, conflicts_with = "until_done")]
    pub watch: bool,
    /// Zone of dates and times in the time:* functions, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    pub timezone: Option<String>,
    /// Serve /metrics and /ready here, answer on-demand queries and let the level of statistics be set,
    /// such as 127.0.0.1:9090
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<std::net::SocketAddr>,
    /// Another name by which --http is asked; requests that name any other host are refused, lest web pages
    /// send them
    #[arg(long, value_name = "NAME", requires = "http")]
    pub http_host: Vec<String>,
    /// Let --http listen beyond loopback, where everyone who reaches it may read and change tables
    #[arg(long, requires = "http")]
    pub insecure: bool,
    /// Standard output is JSON, one object a line; the last is the summary
    #[arg(long)]
    pub json: bool,
}

/// Ask a running server for the rows of a table, a named window or an aggregation
///
/// Runs one on-demand query: a find, or an insert, delete or update of rows of a table. The server is
/// one that runs with --http.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run app.siddhi --http 127.0.0.1:9090\n  \
    headwater query 'from Stock on price > 10.0 select symbol, price' --url http://127.0.0.1:9090\n  \
    headwater query \"from Sales within '2024-06-** **:**:**' per 'days' select *\"")]
pub struct QueryArgs {
    /// The on-demand query
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// Where the server listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    pub url: String,
    /// The app to ask, where the server runs several
    #[arg(long, value_name = "NAME")]
    pub app: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Show what a running server measures of its apps, or change how much
///
/// OFF: nothing beside what the server itself needs to count. BASIC: also throughput of queries and how
/// long they take. DETAIL: also memory, what waits, and how long mappers take. An app begins at BASIC if
/// it says @app:statistics, else at OFF. A level given here holds from now on, also when the apps are
/// read again, until another is given or the server ends. The server is one that runs with --http.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run app.siddhi --http 127.0.0.1:9090\n  \
    headwater statistics                       level and readings of each app\n  \
    headwater statistics Orders --level detail measure more of this one\n  \
    headwater statistics --level off --url http://127.0.0.1:9090")]
pub struct StatisticsArgs {
    /// The app; without a name all of them
    #[arg(value_name = "APP")]
    pub app: Option<String>,
    /// Measure so much from now on
    #[arg(long, value_name = "off|basic|detail", value_parser = parse_level)]
    pub level: Option<StatisticsLevel>,
    /// Where the server listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    pub url: String,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Find every fault of apps without running them
///
/// Parses and checks names, types and the options of every component. What is known but does not
/// run yet is a warning, or an error with --runnable.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater check app.siddhi\n  \
    headwater check apps/ --runnable --json\n  \
    headwater explain E0312                    what a code means, with examples")]
pub struct CheckArgs {
    /// Apps, or folders of apps
    #[arg(required = true, value_name = "APP|DIR")]
    pub apps: Vec<PathBuf>,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// What does not run yet is an error
    #[arg(long)]
    pub runnable: bool,
    /// Look whether files, servers and databases of the apps can be reached, and whether tables have
    /// the columns of their definitions
    #[arg(long)]
    pub connect: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Format apps; comments stay where they are
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater fmt app.siddhi                   rewrites the file\n  \
    headwater fmt apps/ --check                exit 1 if a file would change\n  \
    headwater fmt - < app.siddhi               from standard input to standard output")]
pub struct FmtArgs {
    /// Apps, folders of apps, or - for standard input
    #[arg(required = true, value_name = "APP|DIR|-")]
    pub apps: Vec<PathBuf>,
    /// Change nothing; exit 1 if something would change
    #[arg(long)]
    pub check: bool,
}

/// Run text tests with virtual time
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater test tests/\n  \
    headwater test window.test --mode whole")]
pub struct TestArgs {
    /// Test files, or folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Run in this mode only (one, seven, whole, lockstep, snapshot)
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
}

/// Explain the plan of an app, or a code of a diagnostic
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater explain E0312\n  \
    headwater explain app.siddhi")]
pub struct ExplainArgs {
    /// An app, or a code such as E0312
    #[arg(value_name = "APP|CODE")]
    pub what: String,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Say what of the state saved in this directory the app would take back; it may have been edited
    /// since
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// List sources, sinks, mappers, stores and functions with their options
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater connectors                       all of them\n  \
    headwater connectors file                  every option of what is called file\n  \
    headwater connectors --json")]
pub struct ConnectorsArgs {
    /// Only components of this name
    pub name: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Look at events that were rejected
#[derive(Args, Debug)]
pub struct ErrorsArgs {
    #[command(subcommand)]
    pub action: ErrorsAction,
}

#[derive(Subcommand, Debug)]
pub enum ErrorsAction {
    /// One line for each rejected event
    List(ErrorsListArgs),
    /// Everything about one rejected event, its payload included
    Show(ErrorsShowArgs),
}

#[derive(Args, Debug)]
pub struct ErrorsListArgs {
    /// The directory given to run by --state
    #[arg(value_name = "STATE")]
    pub state: PathBuf,
    /// Only those of this app
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ErrorsShowArgs {
    /// The directory given to run by --state
    #[arg(value_name = "STATE")]
    pub state: PathBuf,
    /// Number in the list
    #[arg(value_name = "NUMBER")]
    pub number: usize,
}

/// Measure, verify, and compare with the published figure
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater bench                            the scenarios\n  \
    headwater bench lines --runs 5\n  \
    headwater bench engine --only join         beside siddhi-core, where Java and Maven are\n  \
    headwater bench engine --alone             without it\n  \
    headwater bench state --events 1000000     memory of so many keys")]
pub struct BenchArgs {
    /// The scenario
    pub name: Option<String>,
    /// How often
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// How many events, instead of what the scenario says
    #[arg(long, value_name = "N")]
    pub events: Option<u64>,
    /// Of 'engine' and 'state', only what has this in its name
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Of 'engine', measure this engine alone: no Java, no comparison
    #[arg(long)]
    pub alone: bool,
    /// Put input and results here and leave them
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Print a completion script
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    headwater completions bash > /etc/bash_completion.d/headwater")]
pub struct CompletionsArgs {
    pub shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub struct VersionArgs {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `512MB`, `2 GB`; a bare number is bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    lang::quantity::size_text(text).ok_or_else(|| "write a size such as 512MB or 2GB".to_owned())
}

fn parse_level(text: &str) -> Result<StatisticsLevel, String> {
    StatisticsLevel::from_name(text).ok_or_else(|| format!("write {}", StatisticsLevel::NAMES))
}

/// `500ms`, `5s`, `1min`, `2h`; a bare number is seconds.
fn parse_interval(text: &str) -> Result<std::time::Duration, String> {
    const UNITS: [(&str, f64); 6] = [
        ("ms", 0.001),
        ("sec", 1.0),
        ("min", 60.0),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let text = text.trim();
    let (number, scale) = UNITS
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))
        .unwrap_or((text, 1.0));
    let seconds: f64 = number
        .trim()
        .parse()
        .map_err(|_| "write a time such as 500ms, 5s or 1min".to_owned())?;
    let seconds = seconds * scale;
    if !(0.01..=86_400.0).contains(&seconds) {
        return Err("it must lie between 10ms and 24h".to_owned());
    }
    Ok(std::time::Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn intervals_are_read_with_their_units() {
        let millis = |text: &str| parse_interval(text).map(|d| d.as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("5"), Ok(5000));
        assert_eq!(millis("1.5 s"), Ok(1500));
        assert_eq!(millis("2min"), Ok(120_000));
        assert_eq!(millis("1h"), Ok(3_600_000));
        assert!(millis("soon").is_err() && millis("0s").is_err() && millis("9d").is_err());
    }
}
