//! `headwater bench`.

use std::io::Write as _;
use std::process::Command;

use anyhow::Context as _;
use bench::{Options, SCENARIOS};
use lang::suggest::nearest;
use server::Error;

use crate::cli::BenchArgs;
use crate::output::Output;

pub fn run(args: &BenchArgs, output: &Output) -> anyhow::Result<u8> {
    let Some(name) = &args.name else {
        for scenario in SCENARIOS {
            output.print(&format!("{:<14}{}\n", scenario.name(), scenario.about()))?;
        }
        output.print(&format!("{:<14}{}\n", "engine", bench::engine::ABOUT))?;
        output.print(&format!("{:<14}{}\n", "state", bench::state::ABOUT))?;
        output.print(&format!("{:<14}{}\n", "errors", bench::errors::ABOUT))?;
        return Ok(0);
    };
    let progress = |line: &str| {
        // Nobody is left to tell when standard error cannot be written.
        writeln!(std::io::stderr().lock(), "{line}").ok();
    };
    if name == "engine" {
        return engine(args, progress, output);
    }
    if name == "state" {
        return state(args, progress, output);
    }
    if name == "errors" {
        return errors(args, progress, output);
    }
    let scenario = SCENARIOS
        .iter()
        .find(|s| s.name() == name)
        .ok_or_else(|| unknown(name))?;
    let options = Options {
        binary: std::env::current_exe().context("cannot find this binary")?,
        runs: args.runs as usize,
        events: args.events,
        dir: args.dir.clone(),
        progress,
    };
    let report = bench::run::run(*scenario, &options)?;
    if args.json {
        output.print_json(&report.to_json(env!("HEADWATER_COMMIT")))?;
    } else {
        output.print(&report.in_words())?;
    }
    Ok(u8::from(!report.is_right()))
}

fn engine(args: &BenchArgs, progress: fn(&str), output: &Output) -> anyhow::Result<u8> {
    let report = bench::engine::run(&bench::engine::EngineOptions {
        runs: args.runs as usize,
        events: args.events,
        only: args.only.clone(),
        dir: args.dir.clone(),
        feeds: bench::engine::Feed::ALL.to_vec(),
        with_siddhi: !args.alone,
        progress,
    })?;
    if args.json {
        output.print_json(&report.to_json(env!("HEADWATER_COMMIT")))?;
    } else {
        output.print(&report.in_words(env!("HEADWATER_COMMIT")))?;
    }
    Ok(u8::from(!report.is_right()))
}

fn state(args: &BenchArgs, progress: fn(&str), output: &Output) -> anyhow::Result<u8> {
    let keys = args.events.unwrap_or(bench::state::KEYS);
    let binary = std::env::current_exe().context("cannot find this binary")?;
    let report = bench::state::run(&bench::state::StateOptions {
        keys,
        only: args.only.as_deref(),
        command: &|case| {
            let mut command = Command::new(&binary);
            let keys = keys.to_string();
            command.args([
                "bench", "state", "--json", "--events", &keys, "--only", case,
            ]);
            Ok(command)
        },
        progress,
    })?;
    if args.json {
        output.print_json(&report.to_json(env!("HEADWATER_COMMIT")))?;
    } else {
        output.print(&report.in_words())?;
    }
    Ok(u8::from(!report.is_right()))
}

fn errors(args: &BenchArgs, progress: fn(&str), output: &Output) -> anyhow::Result<u8> {
    let report = bench::errors::run(&bench::errors::ErrorsOptions {
        binary: std::env::current_exe().context("cannot find this binary")?,
        events: args.events.unwrap_or(bench::errors::EVENTS),
        runs: args.runs as usize,
        progress,
    })?;
    if args.json {
        output.print_json(&report.to_json(env!("HEADWATER_COMMIT")))?;
    } else {
        output.print(&report.in_words())?;
    }
    Ok(u8::from(!report.is_right()))
}

fn unknown(name: &str) -> Error {
    let hint = nearest(
        name,
        SCENARIOS
            .iter()
            .map(|s| s.name())
            .chain(["engine", "state", "errors"]),
    )
    .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Error::Usage(format!("there is no scenario '{name}'{hint}"))
}
