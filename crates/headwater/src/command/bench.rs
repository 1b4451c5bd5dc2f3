//! `headwater bench`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use bench::{Options, SCENARIOS};
use lang::suggest::nearest;
use serde_json::Value as Json;
use server::Error;

use crate::cli::BenchArgs;
use crate::output::Output;

/// What is measured by the parts of a server alone, or by commands of its own: name, what it is, and how it
/// is run.
const BENCHES: &[(&str, &str, fn(&BenchArgs) -> anyhow::Result<Found>)] = &[
    ("engine", bench::engine::ABOUT, engine),
    ("state", bench::state::ABOUT, state),
    ("errors", bench::errors::ABOUT, errors),
    ("gateway", bench::gateway::ABOUT, gateway),
    ("store", bench::store::ABOUT, store),
];

/// What a run has found.
struct Found {
    json: Json,
    words: String,
    is_right: bool,
}

pub fn run(args: &BenchArgs, output: &Output) -> anyhow::Result<u8> {
    let Some(name) = &args.name else {
        let scenarios = SCENARIOS.iter().map(|s| (s.name(), s.about()));
        let benches = BENCHES.iter().map(|(name, about, _)| (*name, *about));
        for (name, about) in scenarios.chain(benches) {
            output.print(&format!("{name:<24}{about}\n"))?;
        }
        return Ok(0);
    };
    if args.part.is_some() && name != "store" {
        return Err(Error::Usage(format!("'{name}' has no parts")).into());
    }
    let found = match BENCHES.iter().find(|(bench, _, _)| bench == name) {
        Some((_, _, run)) => run(args)?,
        None => scenario(name, args)?,
    };
    match args.json {
        true => output.print_json(&found.json)?,
        false => output.print(&found.words)?,
    }
    Ok(u8::from(!found.is_right))
}

fn progress(line: &str) {
    // Nobody is left to tell when standard error cannot be written.
    writeln!(std::io::stderr().lock(), "{line}").ok();
}

fn binary() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this binary")
}

fn scenario(name: &str, args: &BenchArgs) -> anyhow::Result<Found> {
    let scenario = SCENARIOS
        .iter()
        .find(|s| s.name() == name)
        .ok_or_else(|| unknown(name))?;
    let options = Options {
        binary: binary()?,
        runs: args.runs as usize,
        events: args.events,
        is_profiled: args.profile,
        dir: args.dir.clone(),
        progress,
    };
    let report = bench::run::run(*scenario, &options)?;
    Ok(Found {
        json: report.to_json(env!("HEADWATER_COMMIT")),
        words: report.in_words(),
        is_right: report.is_right(),
    })
}

fn engine(args: &BenchArgs) -> anyhow::Result<Found> {
    let report = bench::engine::run(&bench::engine::EngineOptions {
        runs: args.runs as usize,
        events: args.events,
        only: args.only.clone(),
        dir: args.dir.clone(),
        feeds: bench::engine::Feed::ALL.to_vec(),
        with_siddhi: !args.alone,
        progress,
    })?;
    Ok(Found {
        json: report.to_json(env!("HEADWATER_COMMIT")),
        words: report.in_words(env!("HEADWATER_COMMIT")),
        is_right: report.is_right(),
    })
}

fn state(args: &BenchArgs) -> anyhow::Result<Found> {
    let keys = args.events.unwrap_or(bench::state::KEYS);
    let binary = binary()?;
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
    Ok(Found {
        json: report.to_json(env!("HEADWATER_COMMIT")),
        words: report.in_words(),
        is_right: report.is_right(),
    })
}

fn errors(args: &BenchArgs) -> anyhow::Result<Found> {
    let report = bench::errors::run(&bench::errors::ErrorsOptions {
        binary: binary()?,
        events: args.events.unwrap_or(bench::errors::EVENTS),
        runs: args.runs as usize,
        progress,
    })?;
    Ok(Found {
        json: report.to_json(env!("HEADWATER_COMMIT")),
        words: report.in_words(),
        is_right: report.is_right(),
    })
}

fn gateway(args: &BenchArgs) -> anyhow::Result<Found> {
    let report = bench::gateway::run(&bench::gateway::GatewayOptions {
        binary: binary()?,
        runs: args.runs as usize,
        only: args.only.clone(),
        is_quick: args.quick,
        is_alone: args.alone,
        progress,
    })?;
    Ok(Found {
        json: report.to_json(env!("HEADWATER_COMMIT")),
        words: report.in_words(env!("HEADWATER_COMMIT")),
        is_right: report.is_right(),
    })
}

fn store(args: &BenchArgs) -> anyhow::Result<Found> {
    let report = bench::store::run(&bench::store::StoreOptions {
        binary: binary()?,
        runs: args.runs as usize,
        events: args.events,
        part: args.part.clone(),
        is_quick: args.quick,
        is_alone: args.alone,
        dir: args.dir.clone(),
        progress,
    })?;
    Ok(Found {
        json: report.to_json(env!("HEADWATER_COMMIT")),
        words: report.in_words(env!("HEADWATER_COMMIT")),
        is_right: report.is_right(),
    })
}

fn unknown(name: &str) -> Error {
    let scenarios = SCENARIOS.iter().map(|s| s.name());
    let names = scenarios.chain(BENCHES.iter().map(|(name, _, _)| *name));
    let hint = nearest(name, names).map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Error::Usage(format!("there is no scenario '{name}'{hint}"))
}
