//! Our engine in a process of its own: a case that overflows the stack, grows without end or does
//! not end breaks that process and is a difference like any other; the run goes on with a new one.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value as Json, json};
use testkit::case::{Body, Case};
use testkit::compile::{test_config, with_stores};
use testkit::drive;
use testkit::mode::Mode;
use testkit::outcome::Status;

use crate::partner::{Partner, Silence};

/// Argument that makes the program a worker.
pub const SERVE: &str = "--serve";

/// Address space of a worker, in KB.
const MEMORY_MAX: u32 = 3_000_000;

/// Time for one case in all modes, on a machine that is busy.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Results of ours by mode, without those that are the same as the first.
#[derive(Clone)]
pub struct Ours {
    pub status: Kind,
    pub first: Json,
    /// Modes with another result.
    pub others: Vec<(Mode, Json)>,
    /// Chunks failed.
    pub has_failures: bool,
    /// Numbers of the rulings that `check` says the app leans on.
    pub rulings: Vec<String>,
}

/// How a run ended; words where there are some.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Done,
    Refused,
    NotThereYet(String),
    Broken(String),
}

/// A worker that is ready to be asked.
pub struct Worker(Partner);

impl Worker {
    /// # Errors
    /// If it cannot be started.
    pub fn start() -> anyhow::Result<Worker> {
        let program = std::env::current_exe()?;
        let limited = format!("ulimit -v {MEMORY_MAX} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command
            .args(["-c", &limited])
            .arg(program)
            .args(["differential", SERVE]);
        Ok(Worker(Partner::start(&mut command)?))
    }

    /// Runs the case in the modes.
    ///
    /// # Errors
    /// If the engine breaks the process or does not end; the worker is to be given up.
    pub fn run(&mut self, case: &Json, modes: &[Mode], compat: bool) -> Result<Ours, String> {
        let names: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
        let question = json!({ "case": case, "modes": names, "compat": compat });
        let answer = self.0.ask(&question.to_string(), TIME_MAX);
        let answer = answer.map_err(|silence| match silence {
            Silence::Late => format!("no end: nothing came within {} s", TIME_MAX.as_secs()),
            Silence::Ended(how) => format!("the process ended: {how}"),
        })?;
        let mut answer: Json = serde_json::from_str(&answer).map_err(|e| e.to_string())?;
        let words = answer["words"].as_str().unwrap_or_default().to_owned();
        Ok(Ours {
            status: match answer["status"].as_str() {
                Some("done") => Kind::Done,
                Some("refused") => Kind::Refused,
                Some("not there yet") => Kind::NotThereYet(words),
                _ => Kind::Broken(words),
            },
            has_failures: answer["failures"] == true,
            rulings: answer["rulings"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|number| Some(number.as_str()?.to_owned()))
                .collect(),
            others: answer["others"]
                .as_object_mut()
                .into_iter()
                .flatten()
                .filter_map(|(name, other)| Some((Mode::from_name(name)?, other.take())))
                .collect(),
            first: answer["first"].take(),
        })
    }
}

/// Answers questions until there are no more.
///
/// # Errors
/// If a question cannot be read or its answer not written.
pub fn serve() -> anyhow::Result<()> {
    // Its message is a part of the result.
    std::panic::set_hook(Box::new(|_| {}));
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let question: Json = serde_json::from_str(&line?)?;
        let modes: Vec<Mode> = question["modes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| Mode::from_name(name.as_str()?))
            .collect();
        let compat = question["compat"] == true;
        // On a stack as large as that of the threads that run apps.
        let answer = std::thread::scope(|scope| {
            let run = scope.spawn(|| answer(&question["case"], &modes, compat));
            run.join()
        });
        let answer = answer.ok().context("a panic outside the engine")?;
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(case: &Json, modes: &[Mode], compat: bool) -> Json {
    let first = play(case, modes[0], compat);
    let json = with_rows(first.to_json(""));
    let mut others = json!({});
    for &mode in &modes[1..] {
        let other = with_rows(play(case, mode, compat).to_json(""));
        if other != json {
            others[mode.name()] = other;
        }
    }
    let (status, words, failures) = match first {
        Status::Done(outcome) => ("done", String::new(), !outcome.failures.is_empty()),
        Status::Refused(_) | Status::NothingToObserve(_) => ("refused", String::new(), false),
        Status::NotThereYet(words) => ("not there yet", words, false),
        Status::Panicked(words) => ("broken", words, false),
    };
    json!({ "status": status, "words": words, "failures": failures, "first": json,
            "others": others, "rulings": rulings(case, compat) })
}

/// The numbers of the rulings in the warnings of `check`.
fn rulings(case: &Json, compat: bool) -> BTreeSet<String> {
    let way = if compat {
        "@app:compat('siddhi-5.1') "
    } else {
        ""
    };
    let text = format!("{way}{}", case["app"].as_str().unwrap_or_default());
    let parsed = lang::parse(&text);
    let checked = check::check(&parsed.app, &with_stores(&crate::catalog()), &test_config());
    let number = |message: &str| {
        let (_, named) = message.rsplit_once("(ruling ")?;
        Some(named.split_once(' ')?.0.to_owned())
    };
    let messages = checked.diagnostics.iter().map(|d| d.message.as_str());
    messages.filter_map(number).collect()
}

fn play(case: &Json, mode: Mode, compat: bool) -> Status {
    let mut full = case.clone();
    full["expected"] = json!({});
    let case = match Case::parse(&full.to_string()) {
        Ok(case) => case,
        Err(error) => return Status::Panicked(error.to_string()),
    };
    let Body::App(app) = case.body else {
        return Status::Panicked("no app".into());
    };
    let played = catch_unwind(AssertUnwindSafe(|| {
        drive::run(&app, &crate::catalog(), mode, false, compat)
    }));
    played.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Status::Panicked(message.unwrap_or_default())
    })
}

/// What came out, without the calls of a query's callbacks that bring nothing: Siddhi makes some
/// where rows were dropped on the way, and says nowhere when.
pub fn with_rows(mut result: Json) -> Json {
    for (_, calls) in result["queries"].as_object_mut().into_iter().flatten() {
        if let Some(calls) = calls.as_array_mut() {
            calls.retain(|call| !(call["in"].is_null() && call["out"].is_null()));
        }
    }
    result
}

/// The result of one mode, in this process.
#[cfg(test)]
pub fn ours_here(case: &Json) -> Json {
    with_rows(play(case, Mode::One, false).to_json(""))
}
