//! A case on both engines, and what they disagree about.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};
use testkit::case::{Body, Case};
use testkit::compare::{Strictness, difference};
use testkit::drive;
use testkit::mode::Mode;
use testkit::outcome::Status;

use super::maker::Made;
use crate::oracle::Oracle;

/// How a case came out.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    Same,
    /// Both refuse it.
    Refused,
    /// The engine does not run something in it.
    Pending(String),
    /// Siddhi does not come to an end, or not to a result.
    NoAnswer(String),
    /// The same under `@app:compat`: a ruling.
    Ruling(String),
    Different(String),
}

/// Results of ours by mode, without those that are the same as the first.
pub struct Ours {
    pub first: Json,
    pub status: Status,
    /// Modes with another result.
    pub others: Vec<(Mode, Json)>,
}

const STRICT: Strictness = Strictness {
    ts: true,
    chunks: true,
    hash_order: false,
};

/// Runs our engine, in every mode if asked.
pub fn ours(case: &Json, modes: &[Mode]) -> Ours {
    let first = play(case, modes[0], false);
    let json = first.to_json("");
    let mut others = Vec::new();
    for &mode in &modes[1..] {
        let other = play(case, mode, false).to_json("");
        if other != json {
            others.push((mode, other));
        }
    }
    Ours {
        first: json,
        status: first,
        others,
    }
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
    let played = catch_unwind(AssertUnwindSafe(|| drive::run(&app, mode, false, compat)));
    played.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Status::Panicked(message.unwrap_or_default())
    })
}

/// Runs every case on both engines.
pub fn judge(
    oracle: &Oracle,
    cases: &[Made],
    modes: &[Mode],
    jobs: usize,
) -> anyhow::Result<Vec<(Verdict, Json, Json)>> {
    let named: Vec<Json> = cases
        .iter()
        .enumerate()
        .map(|(index, made)| {
            let mut case = made.case.clone();
            case["id"] = json!(index.to_string());
            case
        })
        .collect();
    let ours = in_parallel(jobs, &named, |case| ours(case, modes));
    // What we do not run is not asked, unless it is the engine that broke.
    let asked: Vec<&Json> = named
        .iter()
        .zip(&ours)
        .filter(|(_, ours)| !matches!(ours.status, Status::NotThereYet(_)))
        .map(|(case, _)| case)
        .collect();
    let share = asked.len().div_ceil(jobs).max(1);
    let shares: Vec<&[&Json]> = asked.chunks(share).collect();
    let answers = in_parallel(jobs, &shares, |share| oracle.ask(share.iter().copied()));
    let mut results: HashMap<String, Json> = HashMap::new();
    for answer in answers {
        results.extend(answer?);
    }
    Ok(cases
        .iter()
        .zip(ours)
        .enumerate()
        .map(|(index, (made, ours))| {
            let result = results.remove(&index.to_string()).unwrap_or_default();
            let verdict = verdict(made, &ours, &result);
            (verdict, ours.first, result)
        })
        .collect())
}

fn verdict(made: &Made, ours: &Ours, siddhi: &Json) -> Verdict {
    let order = made.hash.then_some("hash");
    match &ours.status {
        Status::NotThereYet(what) => return Verdict::Pending(what.clone()),
        Status::Panicked(message) => return Verdict::Different(format!("panic: {message}")),
        _ => {}
    }
    let status = siddhi["status"].as_str().unwrap_or("none");
    if !matches!(
        status,
        "ok" | "create-error" | "parse-error" | "observe-error" | "start-error"
    ) {
        return Verdict::NoAnswer(status.to_owned());
    }
    if matches!(ours.status, Status::Refused(_)) && status != "ok" {
        return Verdict::Refused;
    }
    if let Some(why) = difference(order, siddhi, &ours.first, STRICT) {
        if hides_events(made, siddhi, &ours.first) {
            return Verdict::Ruling("17: a failing query hides the event".to_owned());
        }
        let compat = play(&made.case, Mode::One, true).to_json("");
        return match difference(order, siddhi, &compat, STRICT) {
            None => Verdict::Ruling("passes under compat".to_owned()),
            Some(_) => Verdict::Different(why),
        };
    }
    for (mode, other) in &ours.others {
        if let Some(why) = difference(order, siddhi, other, STRICT) {
            return Verdict::Different(format!("mode {}: {why}", mode.name()));
        }
    }
    Verdict::Same
}

/// Does a stream that nothing but the test feeds show fewer events in Siddhi? Then a query failed
/// there and hid them from what reads the stream after it.
fn hides_events(made: &Made, siddhi: &Json, ours: &Json) -> bool {
    let rows = |result: &Json, name: &str| -> usize {
        let chunks = result["streams"][name].as_array();
        chunks.map_or(0, |all| {
            all.iter()
                .map(|c| c["events"].as_array().map_or(0, Vec::len))
                .sum()
        })
    };
    made.fed
        .iter()
        .any(|name| rows(siddhi, name) < rows(ours, name))
}

/// Results in the order of the inputs.
fn in_parallel<T: Sync, R: Send>(
    jobs: usize,
    inputs: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(inputs.len()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(inputs.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(input) = inputs.get(index) else {
                        return;
                    };
                    let result = work(input);
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
