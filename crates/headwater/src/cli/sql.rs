//! Arguments of `headwater sql`, and what SQL may use in a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{parse_interval, parse_size};
use crate::args::ServerArgs;

/// Ask the tables of an event store in SQL
///
/// With --store, the folder is read that `headwater run --store` writes, whether a server runs on it or not; else a
/// running server is asked, which must run with --http and --store. A statement sees what is committed when it
/// begins, and changes nothing; those of a script may. Without a statement and a file, statements are read from the terminal, each up to
/// its semicolon, or from standard input.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater sql --store data 'show tables'\n  \
    headwater sql --store data 'select metro_area, avg(power_reading) from smart_home group by 1'\n  \
    headwater sql --store data --file report.sql --format csv > report.csv\n  \
    headwater sql --store data 'select * from smart_home' --format parquet > smart_home.parquet\n  \
    headwater sql --url https://host:9090 'select count(*) from smart_home'\n  \
    headwater sql --store data --script usage.xml\n  \
    echo 'describe smart_home' | headwater sql --store data -\n  \
    headwater sql --background 'select house_id, sum(power_reading) from smart_home group by 1' --format csv\n  \
    headwater sql --jobs\n  \
    headwater sql --result 5d0c3e0f9a1b2c3d > sums.csv\n\n\
    Exit codes: 0 answered; 1 a statement is wrong or came to a limit; 2 usage; 3 could not connect.")]
pub struct SqlArgs {
    /// One statement, or several with semicolons between them; - reads standard input
    #[arg(value_name = "SQL|-")]
    pub sql: Option<String>,
    /// Statements from a file
    #[arg(long, value_name = "FILE", conflicts_with = "sql")]
    pub file: Option<PathBuf>,
    /// A batch script of WSO2 DAS, as XML (<Analytics>) or as statements alone; it writes to the store, and no server
    /// may run on it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sql", "file"], requires = "store")]
    pub script: Option<PathBuf>,
    /// JavaScript functions that the script calls: a file of `define function`
    #[arg(long, value_name = "FILE", requires = "script")]
    pub functions: Option<PathBuf>,
    /// The folder of the event store; without it a server is asked
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Have the server answer the statement in the background, as a job, and print its number
    #[arg(long, conflicts_with_all = ["store", "script"])]
    pub background: bool,
    /// List your jobs on the server
    #[arg(long, conflicts_with_all = ["store", "script", "sql", "file", "background"])]
    pub jobs: bool,
    /// Wait for a job, and print its result in the format that it was begun with
    #[arg(long, value_name = "JOB", conflicts_with_all = ["store", "script", "sql", "file", "background", "jobs"])]
    pub result: Option<String>,
    /// End a job that runs; a job that has ended is forgotten, with its result
    #[arg(long, value_name = "JOB", conflicts_with_all = ["store", "script", "sql", "file", "background", "jobs", "result"])]
    pub cancel: Option<String>,
    /// What answers are printed as
    #[arg(long, value_enum, default_value_t = SqlOutput::Table)]
    pub format: SqlOutput,
    /// Print one JSON document for each statement, as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Memory of a statement; what does not fit goes to temporary files, if the statement allows it
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = parse_size, requires = "store")]
    pub memory_limit: u64,
    /// Size of temporary files
    #[arg(long, value_name = "SIZE", default_value = "16GB", value_parser = parse_size, requires = "store")]
    pub spill_limit: u64,
    /// Folder for temporary files; by default that of the system
    #[arg(long, value_name = "DIR", requires = "store")]
    pub spill_dir: Option<PathBuf>,
    /// Time after which a statement is ended
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = parse_interval, requires = "store")]
    pub timeout: Duration,
    /// Rows of an answer
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        requires = "store"
    )]
    pub max_rows: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SqlOutput {
    /// Columns for people
    Table,
    /// One JSON document for each statement
    Json,
    /// One JSON object for each row
    Ndjson,
    /// CSV with the names of the columns
    Csv,
    /// A stream of Arrow IPC, of one statement
    Arrow,
    /// A Parquet file, of one statement
    Parquet,
}

impl SqlArgs {
    pub fn output(&self) -> SqlOutput {
        match self.json {
            true => SqlOutput::Json,
            false => self.format,
        }
    }
}

/// Batch scripts of a server.
#[derive(Args, Clone, Debug, Default)]
pub struct ScriptArgs {
    /// Batch scripts of WSO2 DAS (XML with <Analytics>, or statements alone), or folders of them (*.xml, *.sql): they
    /// run at the times of their <CronExpression>, and on demand
    #[arg(
        long,
        value_name = "FILE|DIR",
        requires = "store",
        conflicts_with = "until_done"
    )]
    pub scripts: Vec<PathBuf>,
    /// JavaScript functions that scripts call: a file of `define function`
    #[arg(long, value_name = "FILE", requires = "scripts")]
    pub functions: Option<PathBuf>,
    /// Time after which a statement of a script is ended
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_interval, requires = "scripts")]
    pub script_timeout: Duration,
}

/// Batch scripts of a running server
///
/// Lists them; with a name: what its last run came to, or with --run, runs it now and shows what that comes to. The
/// server must run with --http, --store and --scripts.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run shop.siddhi --store data --scripts usage.xml --http 127.0.0.1:9090\n  \
    headwater scripts\n  \
    headwater scripts usage --run\n\n\
    Exit codes: 0 shown, or run; 1 there is no such script, it runs already, or it has failed; 2 usage; \
    3 could not connect.")]
pub struct ScriptsArgs {
    /// One script
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Run it now
    #[arg(long, requires = "name")]
    pub run: bool,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What SQL may use in a server.
#[derive(Args, Clone, Debug)]
pub struct SqlLimitArgs {
    /// Memory of all statements that are being answered at /sql, --sql-postgres and --sql-flight, and as much again of those of scripts; what does not
    /// fit goes to temporary files
    #[arg(long, value_name = "SIZE", default_value = "512MB", value_parser = parse_size, requires = "store")]
    pub sql_memory_limit: u64,
    /// Time after which a statement at /sql, --sql-postgres and --sql-flight is ended
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = parse_interval, requires = "door")]
    pub sql_timeout: Duration,
    /// Rows of an answer at /sql, --sql-postgres and --sql-flight
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "door")]
    pub sql_max_rows: usize,
    /// Time after which a job at /sql is ended
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_interval, requires = "http")]
    pub sql_job_timeout: Duration,
    /// Size of the results of all jobs at /sql, in temporary files; those of the oldest go first
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = parse_size, requires = "http")]
    pub sql_jobs_size: u64,
    /// Time for which a job at /sql and its result are kept after its end
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_interval, requires = "http")]
    pub sql_jobs_age: Duration,
}
