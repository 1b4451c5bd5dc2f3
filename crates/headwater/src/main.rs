//! The binary: reads the command line, runs the command, turns its outcome into an exit code.
//!
//! Promises: 0 done; 1 refused, or a check or test failed; 2 usage; 3 could not connect; 4 a run
//! with an end (`--until-done`) is done but some events were rejected. Never another code: a fault of our own is caught and is 1. Standard
//! output carries what was asked for, standard error everything else.

mod allocator;
mod args;
mod cli;
mod command;
mod log;
mod other_names;
mod output;
mod progress;
mod registry;
mod search;
mod service;
mod sql;
mod upkeep;

use std::any::Any;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::{Cli, Command};
use crate::output::Output;

fn main() -> ExitCode {
    let process = server::process::Process::begin();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            other_names::suggest(&mut error);
            let code = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
                _ => 2,
            };
            // Nobody is left to tell when this cannot be printed.
            error.print().ok();
            return ExitCode::from(code);
        }
    };
    let is_server = matches!(&cli.command, Command::Run(args) if !args.until_done);
    let output = Output::new(cli.output, is_server);
    quiet_panics();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run(cli.command, &output, process)
    }));
    let code = match outcome {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            output.error(&format!("{error:#}"));
            error
                .downcast_ref::<server::Error>()
                .map_or(1, server::Error::exit_code)
        }
        Err(panic) => {
            output.error(&fault(panic.as_ref()));
            1
        }
    };
    ExitCode::from(code)
}

fn run(command: Command, output: &Output, process: server::process::Process) -> anyhow::Result<u8> {
    match command {
        Command::New(args) => command::new::run(&args, output),
        Command::Run(args) => command::run::run(*args, output, process),
        Command::Check(args) => command::check::run(&args, output),
        Command::Fmt(args) => command::fmt::run(&args, output),
        Command::Test(args) => command::test::run(&args, output),
        Command::Eval(args) => command::eval::run(&args, output),
        Command::Explain(args) => command::explain::run(&args, output),
        Command::Connectors(args) => command::connectors::run(&args, output),
        Command::Query(args) => command::query::run(&args, output),
        Command::Sql(args) => command::sql::run(&args, output),
        Command::Send(args) => command::send::run(&args, output),
        Command::Top(args) => command::top::run(&args, output),
        Command::Status(args) => command::status::run(&args, output),
        Command::Tap(args) => command::tap::run(&args, output),
        Command::Statistics(args) => command::statistics::run(&args, output),
        Command::Deploy(args) => command::deploy::deploy(&args, output),
        Command::Undeploy(args) => command::deploy::undeploy(&args, output),
        Command::Scripts(args) => command::scripts::run(&args, output),
        Command::Apps(args) => command::deploy::apps(&args, output),
        Command::Gateway(args) => command::gateway::run(&args, output),
        Command::Import(args) => command::import::run(&args, output),
        Command::Store(args) => command::store::run(&args, output),
        Command::State(args) => command::state::run(&args, output),
        Command::Users(args) => command::users::run(args, output),
        Command::Secrets(args) => command::secrets::run(args, output),
        Command::Errors(args) => command::errors::run(args.action, output),
        Command::Bench(args) => command::bench::run(&args, output),
        Command::Completions(args) => command::completions::run(&args, output),
        Command::Man(args) => command::man::run(&args, output),
        Command::Version(args) => command::version::run(&args, output),
    }
}

/// Threads of the server catch their panics and report them with the app's name; the standard
/// message beside it would only confuse. `RUST_BACKTRACE` brings it back.
fn quiet_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
}

fn fault(panic: &(dyn Any + Send)) -> String {
    format!(
        "internal error: {}; please report it, with RUST_BACKTRACE=1",
        server::report::panic_text(panic)
    )
}
