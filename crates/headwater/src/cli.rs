//! The command line: commands, options and their help.

mod learn;
pub mod search;
pub mod sql;
pub mod state;
pub mod store;

use std::path::PathBuf;

use crate::args::{OutputArgs, ServerArgs, parse_rate};
use crate::command::deploy::{AppsArgs, DeployArgs, UndeployArgs};
use clap::{Args, Parser, Subcommand, ValueEnum};
use plan::StatisticsLevel;

use crate::command::errors::ErrorsArgs;
use crate::command::gateway::GatewayArgs;
use crate::command::import::ImportArgs;
use crate::command::secrets::{SecretsArgs, StoreArgs};
use crate::command::status::StatusArgs;
use crate::command::tap::TapArgs;
use crate::command::top::TopArgs;
use crate::command::users::UsersArgs;
pub use learn::{EvalArgs, ManArgs, NewArgs};

#[derive(Parser, Debug)]
#[command(
    name = "headwater",
    version,
    about = "Runs streaming applications written for Siddhi and WSO2 Streaming Integrator.",
    after_help = "Getting started:\n  \
                  headwater new                         apps to start from\n  \
                  headwater check app.siddhi            list every error in an app\n  \
                  headwater run app.siddhi              run it until Ctrl-C\n  \
                  headwater run app.siddhi --until-done run it until all input is read\n\n\
                  Exit codes: 0 success; 1 app refused, or a check or test failed; 2 usage; \
                  3 could not connect; 4 finished (--until-done), but some events were rejected. A server \
                  that is stopped by SIGTERM or Ctrl-C exits with 0.",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    New(NewArgs),
    Run(Box<RunArgs>),
    Check(CheckArgs),
    Fmt(FmtArgs),
    Test(TestArgs),
    Eval(EvalArgs),
    Explain(ExplainArgs),
    Connectors(ConnectorsArgs),
    Query(QueryArgs),
    Sql(sql::SqlArgs),
    Scripts(sql::ScriptsArgs),
    Send(SendArgs),
    Status(StatusArgs),
    Top(TopArgs),
    Tap(TapArgs),
    Statistics(StatisticsArgs),
    Deploy(DeployArgs),
    Undeploy(UndeployArgs),
    Apps(AppsArgs),
    Errors(ErrorsArgs),
    State(state::StateArgs),
    Store(store::StoreArgs),
    Gateway(GatewayArgs),
    Import(ImportArgs),
    Users(UsersArgs),
    Secrets(SecretsArgs),
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Print the version and how it was built
    Version(VersionArgs),
}

/// Who may use --http.
#[derive(Args, Clone, Debug, Default)]
pub struct AccessArgs {
    /// Certificate of --http, --sql-postgres and --sql-flight, PEM, with those of its issuers behind it; SIGHUP reads it again
    #[arg(long, value_name = "FILE", requires_all = ["door", "http_key"])]
    pub http_cert: Option<PathBuf>,
    /// Private key of --http-cert, PEM
    #[arg(long, value_name = "FILE", requires = "http_cert")]
    pub http_key: Option<PathBuf>,
    /// File of the users that may log in; by default that of the --state directory (headwater users)
    #[arg(long, value_name = "FILE", requires = "door")]
    pub users: Option<PathBuf>,
    /// Let anyone read /metrics, without a login
    #[arg(long, requires = "http")]
    pub http_open_metrics: bool,
    /// Allow --http, --sql-postgres and --sql-flight to listen beyond loopback without users or without TLS
    #[arg(long, requires = "door")]
    pub insecure: bool,
}

impl RunArgs {
    /// Does anybody ask the server, at whatever door?
    pub fn is_asked(&self) -> bool {
        self.http.is_some() || self.sql_postgres.is_some() || self.sql_flight.is_some()
    }
}

/// Changes to apps before they are checked.
#[derive(Args, Clone, Debug, Default)]
pub struct ChangeArgs {
    /// Set an option of an annotation, or add it: [App/]Element.annotation[N].option=value
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub sets: Vec<String>,
    /// Replace text in every string literal of the apps
    #[arg(long = "replace", value_name = "OLD=NEW")]
    pub replaces: Vec<String>,
    /// Deployment file of Streaming Integrator (deployment.yaml): refs, extensions, data sources, persistence
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Ignore options whose name is misspelt, as Siddhi does, instead of refusing the app
    #[arg(long)]
    pub lenient: bool,
    #[command(flatten)]
    pub secrets: StoreArgs,
}

/// Run apps in the foreground
///
/// Loads the apps (for a folder, every .siddhi file in it), connects their sources, sinks and
/// stores, and runs them until Ctrl-C or SIGTERM or, with --until-done, until all input has been
/// read and no timer is pending. Lines of log sinks and a final summary are written to standard output,
/// diagnostics and progress to standard error.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("door").multiple(true).args(["http", "sql_flight", "sql_postgres"])))]
#[command(after_help = "Examples:\n  \
    headwater run app.siddhi --until-done\n  \
    headwater run apps/ --state /var/lib/headwater --http 127.0.0.1:9090\n  \
    headwater run app.siddhi --store data      tables of the event store, and the state, in data/\n  \
    headwater run etl.siddhi --set 'Lines.source.dir.uri=file:/data/in' \\\n    \
      --replace 'jdbc:mysql://db/shop=jdbc:sqlite:shop.db' --until-done\n  \
    IN=/data headwater run app.siddhi          ${IN} is read from the environment\n  \
    headwater run app.siddhi --secrets keys --secrets-key-file key   ${secret:NAME} from a key store\n\n\
    In an app, a configuration file and --set: ${NAME}, ${env:NAME} and ${env:NAME:-DEFAULT} are variables of the \
    environment, ${file:PATH} is what a file holds, ${secret:NAME} is from the key store (headwater secrets). \
    ${app:dir} in an app is the folder of its file.")]
pub struct RunArgs {
    /// App files, CApps of WSO2 DAS (.car, with --store), AsyncAPI documents (--gateway), or folders of them; may be left out with --http and --state, for
    /// apps that are deployed to the running server
    #[arg(required_unless_present = "door", value_name = "APP|API|DIR")]
    pub apps: Vec<PathBuf>,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Save positions, windows, tables and rejected events here, and resume from them
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Directory of the event store, for tables with @store(type='eventstore'); without --state, the state is
    /// saved in the folder 'state' in it
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Time between checkpoints (500ms, 5s, 1min)
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub state_interval: Option<std::time::Duration>,
    /// Drop saved state that does not fit an edited app, or that is damaged, instead of refusing to
    /// start; what is kept and what is dropped is reported first in both cases
    #[arg(long)]
    pub drop_state: bool,
    /// Refuse events that would make an app hold more than this in memory, such as 512MB; with
    /// @app:memory(limit='…') the lower of the two limits applies; bodies and messages that are being
    /// received take a quarter of it at most
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,
    /// Keep rejected events of this size at most, for each app or group of linked apps; beyond it the
    /// oldest go. Without --state 64 MB of them are held in memory at most
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = parse_size)]
    pub errors_max: u64,
    /// Keep rejected events for this long at most (30d, 12h), or for ever (none)
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_age)]
    pub errors_age: std::time::Duration,
    /// Exit when all input has been read and no timer is pending
    #[arg(long)]
    pub until_done: bool,
    /// Time that a stop by SIGTERM or Ctrl-C may take; what sinks and stores have not taken by then is
    /// read again after the next start with --state, and lost without
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_interval)]
    pub grace: std::time::Duration,
    /// Reload the apps when one of their files changes, as SIGHUP does at any time: changed apps
    /// resume from their state and positions, the others keep running
    #[arg(long, conflicts_with = "until_done")]
    pub watch: bool,
    /// Time zone of the time:* functions, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    pub timezone: Option<String>,
    /// Listen for HTTP here, such as 127.0.0.1:9090, localhost:9090 or 9090 (on 127.0.0.1): /metrics,
    /// /ready, on-demand queries and the statistics level
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub http: Option<std::net::SocketAddr>,
    /// Answer SQL over the event store here by the protocol of PostgreSQL (psql and others), such as 127.0.0.1:5432; users,
    /// TLS and --insecure are those of --http
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, requires = "store")]
    pub sql_postgres: Option<std::net::SocketAddr>,
    /// Answer SQL over the event store here by Flight SQL (ADBC, JDBC), such as 127.0.0.1:32010; users, TLS and --insecure are
    /// those of --http
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, requires = "store")]
    pub sql_flight: Option<std::net::SocketAddr>,
    /// Serve the topics of APIs here, such as 127.0.0.1:8280: those of AsyncAPI documents among the apps, and of
    /// connectors with api='…'; may be repeated
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub gateway: Vec<std::net::SocketAddr>,
    /// Certificate of --gateway, PEM, with those of its issuers behind it; without it the gateway speaks in the clear
    #[arg(long, value_name = "FILE", requires_all = ["gateway", "gateway_key"])]
    pub gateway_cert: Option<PathBuf>,
    /// Private key of --gateway-cert, PEM
    #[arg(long, value_name = "FILE", requires = "gateway_cert")]
    pub gateway_key: Option<PathBuf>,
    /// Additional host name accepted by --http; requests for any other host are refused, to protect
    /// against requests sent by web pages
    #[arg(long, value_name = "NAME", requires = "http")]
    pub http_host: Vec<String>,
    /// Folder of the CSV files that feeds of the event simulator send (/simulation/feed)
    #[arg(long, value_name = "DIR", requires = "http")]
    pub simulation_files: Option<PathBuf>,
    /// Push metrics, logs and traces to the OpenTelemetry collector at this address, by OTLP over HTTP
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp: Option<String>,
    /// Share of the batches of sources that are traced on their way through the apps, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, requires = "otlp")]
    pub otlp_sample: f64,
    #[command(flatten)]
    pub sql: sql::SqlLimitArgs,
    #[command(flatten)]
    pub scripts: sql::ScriptArgs,
    /// Purge of WSO2 DAS: a file with <analytics-data-purging>, alone or in its analytics-config.xml; runs at the times
    /// of its <cron-expression> and is listed by `headwater scripts`
    #[arg(
        long = "purge",
        value_name = "FILE",
        requires = "store",
        conflicts_with = "until_done"
    )]
    pub purges: Vec<PathBuf>,
    #[command(flatten)]
    pub search: search::SearchLimitArgs,
    #[command(flatten)]
    pub access: AccessArgs,
    /// Write JSON to standard output, one object per line; the last is the summary
    #[arg(long)]
    pub json: bool,
}

/// Query the tables, named windows and aggregations of a running server
///
/// Runs one on-demand query: a find, or an insert, delete or update of rows of a table. The server
/// must run with --http.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run app.siddhi --http 127.0.0.1:9090\n  \
    headwater query 'from Stock on price > 10.0 select symbol, price' --url http://127.0.0.1:9090\n  \
    headwater query \"from Sales within '2024-06-** **:**:**' per 'days' select *\"")]
pub struct QueryArgs {
    /// The on-demand query
    #[arg(value_name = "QUERY")]
    pub query: String,
    #[command(flatten)]
    pub server: ServerArgs,
    /// The app to query, if the server runs several
    #[arg(long, value_name = "NAME")]
    pub app: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Send events to a stream of a running server
///
/// One row by its values, the rows of a CSV or NDJSON file, or random ones. They take the same way as
/// those of a source; also a stream that a query fills takes them. With --state they are saved before
/// they count as sent. The server must run with --http.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run app.siddhi --http 127.0.0.1:9090\n  \
    headwater send Shop/Sales tea 2.5 7                 values in the order of the attributes\n  \
    headwater send Shop/Sales '{\"item\":\"tea\",\"amount\":2.5,\"number\":7}'\n  \
    headwater send Shop/Sales --file sales.csv --rate 100\n  \
    tail -f sales.ndjson | headwater send Shop/Sales --file -\n  \
    headwater send Shop/Sales --random 1000 --pattern 'amount=1..50' --pattern 'item=tea|milk'\n\n\
    Exit codes: 0 all sent; 1 a row does not fit, or there is no such stream; 2 usage; 3 could not \
    connect; 4 sent, but some rows were refused (--keep-going).")]
pub struct SendArgs {
    /// The app and its stream
    #[arg(value_name = "APP/STREAM")]
    pub to: String,
    /// The row: its values in the order of the attributes (null for none), or one JSON list or object
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    pub values: Vec<String>,
    /// Send the rows of this file, or of standard input (-): one JSON list or object per line, or CSV,
    /// whose first line may name the columns
    #[arg(long, value_name = "FILE|-", conflicts_with = "values")]
    pub file: Option<PathBuf>,
    /// Format of the file; by default csv for .csv, .tsv and .txt, otherwise ndjson
    #[arg(long, value_enum, requires = "file")]
    pub format: Option<SendFormat>,
    /// What separates the cells of CSV
    #[arg(
        long,
        value_name = "CHARACTER",
        default_value_t = ',',
        requires = "file"
    )]
    pub delimiter: char,
    /// Send this many rows with random values
    #[arg(long, value_name = "N", conflicts_with_all = ["values", "file"])]
    pub random: Option<u64>,
    /// Random values: the same seed gives the same rows
    #[arg(long, value_name = "N", default_value_t = 1, requires = "random")]
    pub seed: u64,
    /// Random values of an attribute: NAME=A..B (numbers), NAME=A|B|C (one of them), NAME=count
    #[arg(long = "pattern", value_name = "NAME=PATTERN", requires = "random")]
    pub patterns: Vec<String>,
    /// Rows per second; by default as fast as the app takes them
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Send everything this many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: u64,
    /// Leave out this many rows at the beginning
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u64,
    /// Timestamp of the first row, in milliseconds since 1970; by default events have the time at
    /// which they arrive
    #[arg(long, value_name = "MILLIS", value_parser = clap::value_parser!(i64).range(0..))]
    pub timestamp: Option<i64>,
    /// Milliseconds from the timestamp of one row to that of the next
    #[arg(long, value_name = "MILLIS", default_value_t = 0, requires = "timestamp", value_parser = clap::value_parser!(i64).range(0..))]
    pub timestamp_step: i64,
    /// Column of the file with the timestamps, in milliseconds since 1970
    #[arg(
        long,
        value_name = "NAME",
        requires = "file",
        conflicts_with = "timestamp"
    )]
    pub timestamp_column: Option<String>,
    /// Leave out rows that do not fit the stream, and exit with 4
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SendFormat {
    /// Cells between commas
    Csv,
    /// One JSON value per line
    Ndjson,
}

/// Show the statistics of a running server, or set their level
///
/// OFF: only the counters that the server needs itself. BASIC: also throughput and latency of queries.
/// DETAIL: also memory, queue lengths and latency of mappers. An app starts at BASIC if it has
/// @app:statistics, otherwise at OFF. A level set here applies until it is changed or the server
/// stops, also across reloads. The server must run with --http.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run app.siddhi --http 127.0.0.1:9090\n  \
    headwater statistics                       level and readings of each app\n  \
    headwater statistics Orders --level detail measure more of one app\n  \
    headwater statistics --level off --url http://127.0.0.1:9090")]
pub struct StatisticsArgs {
    /// The app; by default all of them
    #[arg(value_name = "APP")]
    pub app: Option<String>,
    /// Set the level
    #[arg(long, value_name = "off|basic|detail", value_parser = parse_level)]
    pub level: Option<StatisticsLevel>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Check apps without running them
///
/// Reports all errors in syntax, names, types and options at once. Features that are recognised but
/// not supported are warnings, or errors with --runnable. With --fix, errors whose fix is known are
/// fixed in the files first: only if an app then has fewer errors, and never because of a warning.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater check app.siddhi\n  \
    headwater check apps/ --runnable --json\n  \
    headwater check apps/ --fix --dry-run      show what --fix would change\n  \
    headwater check - --fix < app.siddhi       the fixed text on standard output\n  \
    headwater check apps/ --format sarif > check.sarif\n  \
    headwater explain E0312                    what a code means, with examples")]
pub struct CheckArgs {
    /// App files, folders of them, or - for standard input
    #[arg(required = true, value_name = "APP|DIR|-")]
    pub apps: Vec<PathBuf>,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Treat unsupported features as errors
    #[arg(long)]
    pub runnable: bool,
    /// Also check that files, servers and databases of the apps can be reached, and that tables have
    /// the columns of their definitions
    #[arg(long)]
    pub connect: bool,
    /// Apply the fixes of errors to the files, and show the lines that change
    #[arg(long)]
    pub fix: bool,
    /// Only show what --fix would change; what is reported is what would be left
    #[arg(long, requires = "fix")]
    pub dry_run: bool,
    /// Format of the report: text on standard error; SARIF 2.1.0 for code scanning; annotations of
    /// GitHub's workflows
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    pub format: Option<ReportFormat>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl CheckArgs {
    pub fn format(&self) -> ReportFormat {
        match self.json {
            true => ReportFormat::Json,
            false => self.format.unwrap_or(ReportFormat::Text),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ReportFormat {
    Text,
    Json,
    Sarif,
    Github,
}

/// Format apps; comments keep their places
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater fmt app.siddhi                   rewrites the file\n  \
    headwater fmt apps/ --check                exit 1 if a file would change\n  \
    headwater fmt - < app.siddhi               from standard input to standard output")]
pub struct FmtArgs {
    /// App files, folders of them, or - for standard input
    #[arg(required = true, value_name = "APP|DIR|-")]
    pub apps: Vec<PathBuf>,
    /// Do not write; exit 1 if a file would change
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
    /// Run only this mode (one, seven, whole, lockstep, snapshot, changes), or `eventstore`: all tables
    /// and aggregations are kept in the event store
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
}

/// Explain the plan of an app, a diagnostic code, a connector or a function
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater explain E0312\n  \
    headwater explain timeBatch\n  \
    headwater explain app.siddhi")]
pub struct ExplainArgs {
    /// An app, a code such as E0312, or a name such as kafka or str:concat
    #[arg(value_name = "APP|CODE|NAME")]
    pub what: String,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Show which state saved in this directory the app would resume from, for example after it was
    /// edited
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// List sources, sinks, mappers and stores with their options; describe functions by name
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater connectors                       all of them\n  \
    headwater connectors file                  every option of the components named file\n  \
    headwater connectors str:concat            windows, aggregators and functions as well\n  \
    headwater connectors --json")]
pub struct ConnectorsArgs {
    /// Only components, windows, aggregators and functions with this name
    pub name: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Run benchmarks, verify their results and compare them with the published figures
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater bench                            list the scenarios\n  \
    headwater bench lines --runs 5\n  \
    headwater bench engine --only join         next to siddhi-core; needs Java and Maven\n  \
    headwater bench engine --alone             without it\n  \
    headwater bench state --events 1000000     memory for this many keys\n  \
    headwater bench store sql --runs 3         one part of the event store, beside DuckDB and Polars\n  \
    headwater bench store --quick              all of them, in ten minutes")]
pub struct BenchArgs {
    /// The scenario
    pub name: Option<String>,
    /// With 'store': one part: ingest, wiki, sql, scripts, search, mixed, purge, recover
    pub part: Option<String>,
    /// Number of runs
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Number of events, instead of the default of the scenario
    #[arg(long, value_name = "N")]
    pub events: Option<u64>,
    /// With 'engine', 'state' and 'gateway': only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// With 'gateway': a fiftieth of the connections for a second, to see that all of it works; with 'store': fewer events
    #[arg(long)]
    pub quick: bool,
    /// With 'engine', 'gateway' and 'store': measure only Headwater, without comparison
    #[arg(long)]
    pub alone: bool,
    /// Say where the last run of a scenario spent its CPU, by Linux's 'perf'; its rate is no figure then
    #[arg(long)]
    pub profile: bool,
    /// Write input and results here and keep them
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

/// `30d`, `12h`, `90min`; `none` is longer than anybody waits.
fn parse_age(text: &str) -> Result<std::time::Duration, String> {
    const FOR_EVER: u64 = 100 * 365 * 24 * 60 * 60;
    if text.eq_ignore_ascii_case("none") {
        return Ok(std::time::Duration::from_secs(FOR_EVER));
    }
    let form = "write a time with its unit, such as 30d or 12h, or none";
    let units = [("min", 60), ("h", 60 * 60), ("d", 24 * 60 * 60)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*seconds)
    });
    match seconds {
        Some(seconds @ 60..=FOR_EVER) => Ok(std::time::Duration::from_secs(seconds)),
        _ => Err(form.to_owned()),
    }
}

fn parse_level(text: &str) -> Result<StatisticsLevel, String> {
    StatisticsLevel::from_name(text).ok_or_else(|| format!("write {}", StatisticsLevel::NAMES))
}

/// `host:port`, `:port` or `port`; without a host this machine alone can connect.
fn parse_address(text: &str) -> Result<std::net::SocketAddr, String> {
    use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};
    let text = text.trim();
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let form = "write host:port, such as 127.0.0.1:9090, localhost:9090 or 9090";
    let (host, port) = text.rsplit_once(':').ok_or(form)?;
    let port: u16 = match port.parse::<u32>() {
        Ok(port) => u16::try_from(port).map_err(|_| "a port is a number from 0 to 65535")?,
        Err(_) => return Err(form.to_owned()),
    };
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> = found
        .map_err(|cause| format!("host '{host}' is not known: {cause}; {form}"))?
        .collect();
    // What people call localhost is an address of either family; the older one is there everywhere.
    let first = found.iter().find(|a| a.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| form.to_owned())
}

/// `500ms`, `5s`, `1min`, `2h`.
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
    let form = "write a time with its unit, such as 500ms, 5s or 1min";
    let (number, scale) = UNITS
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))
        .ok_or(form)?;
    let seconds: f64 = number.trim().parse().map_err(|_| form)?;
    let seconds = seconds * scale;
    if !(0.01..=86_400.0).contains(&seconds) {
        return Err("must be between 10ms and 24h".to_owned());
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
    fn addresses_are_taken_as_people_write_them() {
        let address = |text: &str| parse_address(text).map(|address| address.to_string());
        for text in ["9090", ":9090", "localhost:9090", "127.0.0.1:9090"] {
            assert_eq!(address(text), Ok("127.0.0.1:9090".to_owned()), "{text}");
        }
        assert_eq!(address("[::1]:80"), Ok("[::1]:80".to_owned()));
        for text in [
            "",
            "localhost",
            "localhost:http",
            "127.0.0.1:99999",
            "99999",
        ] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_are_read_with_their_units() {
        let hours = |text: &str| parse_age(text).map(|age| age.as_secs() / 3600).ok();
        assert_eq!(
            [hours("30d"), hours("12h"), hours("90min")],
            [Some(720), Some(12), Some(1)]
        );
        assert!(hours("none").is_some_and(|hours| hours > 500_000));
        assert_eq!([hours("soon"), hours("0d"), hours("9999999d")], [None; 3]);
    }

    #[test]
    fn intervals_are_read_with_their_units() {
        let millis = |text: &str| parse_interval(text).map(|d| d.as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(
            millis("5"),
            Err("write a time with its unit, such as 500ms, 5s or 1min".to_owned())
        );
        assert_eq!(millis("1.5 s"), Ok(1500));
        assert_eq!(millis("2min"), Ok(120_000));
        assert_eq!(millis("1h"), Ok(3_600_000));
        assert!(millis("soon").is_err() && millis("0s").is_err() && millis("9d").is_err());
    }
}
