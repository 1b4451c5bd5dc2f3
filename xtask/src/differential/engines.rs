//! A case on both engines, and what they disagree about.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::case::{Body, Case};
use testkit::compare::{Strictness, difference};
use testkit::drive;
use testkit::mode::Mode;
use testkit::outcome::Status;

use super::answers::Answers;
use super::maker::Made;
use crate::oracle::{Oracle, Talk};

/// How a case came out.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    Same,
    /// Both refuse it.
    Refused,
    /// Siddhi has no such extension where it can be asked; our modes agree.
    Alone,
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

/// Time for one case here, in all modes, on a busy machine.
const OURS_MAX: Duration = Duration::from_secs(30);

const STRICT: Strictness = Strictness {
    ts: true,
    chunks: true,
    hash_order: false,
};

/// `None` if our engine does not come to an end; the thread goes on.
fn in_time(case: Json, modes: Vec<Mode>) -> Option<Ours> {
    let (done, result) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // Nobody waits for it any more once the time is over.
        let _ = done.send(ours(&case, &modes));
    });
    result.recv_timeout(OURS_MAX).ok()
}

/// Runs our engine, in every mode if asked.
pub fn ours(case: &Json, modes: &[Mode]) -> Ours {
    let first = play(case, modes[0], false);
    let json = with_rows(first.to_json(""));
    let mut others = Vec::new();
    for &mode in &modes[1..] {
        let other = with_rows(play(case, mode, false).to_json(""));
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

/// Both engines, ready to be asked.
pub struct Judge {
    oracle: Oracle,
    /// JVMs that nobody is talking to.
    idle: Mutex<Vec<Talk>>,
    answers: Answers,
    modes: Vec<Mode>,
    jobs: usize,
}

/// What both gave for one case.
pub struct Judged {
    pub verdict: Verdict,
    pub ours: Json,
    pub siddhi: Json,
}

impl Judge {
    /// # Errors
    /// If the answers of earlier runs cannot be read.
    pub fn new(oracle: Oracle, modes: Vec<Mode>, jobs: usize) -> anyhow::Result<Judge> {
        Ok(Judge {
            answers: Answers::open(&oracle.folder().join("answers.jsonl"))?,
            oracle,
            idle: Mutex::default(),
            modes,
            jobs,
        })
    }

    /// Runs every case on both engines; `told` hears of each that is done.
    pub fn all(
        &self,
        cases: &[Made],
        told: impl Fn(&Verdict) + Sync,
    ) -> anyhow::Result<Vec<Judged>> {
        let judged = in_parallel(self.jobs, cases, |made| {
            let judged = self.one(made);
            if let Ok(judged) = &judged {
                told(&judged.verdict);
            }
            judged
        });
        judged.into_iter().collect()
    }

    pub fn one(&self, made: &Made) -> anyhow::Result<Judged> {
        let Some(ours) = in_time(made.case.clone(), self.modes.clone()) else {
            return Ok(Judged {
                verdict: Verdict::Different("no end here".to_owned()),
                ours: Json::Null,
                siddhi: Json::Null,
            });
        };
        // What we do not run is not asked, unless it is the engine that broke.
        let siddhi = match ours.status {
            Status::NotThereYet(_) => Json::Null,
            _ => with_rows(self.siddhi(&made.case)?),
        };
        Ok(Judged {
            verdict: verdict(made, &ours, &siddhi),
            ours: ours.first,
            siddhi,
        })
    }

    fn siddhi(&self, case: &Json) -> anyhow::Result<Json> {
        if let Some(kept) = self.answers.get(case) {
            return Ok(kept);
        }
        let free = locked(&self.idle).pop();
        let mut talk = match free {
            Some(talk) => talk,
            None => self.oracle.talk()?,
        };
        let answer = talk.ask(case)?;
        if talk.is_fresh(&answer) {
            locked(&self.idle).push(talk);
        }
        self.answers.keep(case, &answer)?;
        Ok(answer)
    }
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn verdict(made: &Made, ours: &Ours, siddhi: &Json) -> Verdict {
    match &ours.status {
        Status::NotThereYet(what) => return Verdict::Pending(what.clone()),
        Status::Panicked(message) => return Verdict::Different(format!("panic: {message}")),
        _ => {}
    }
    // Whatever Siddhi does: how chunks come in batches may not matter.
    for (mode, other) in &ours.others {
        if let Some(why) = differs(made, &ours.first, other) {
            return Verdict::Different(format!("mode {}: {why}", mode.name()));
        }
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
    let class = siddhi["error"]["class"].as_str().unwrap_or_default();
    if class.ends_with("ExtensionNotFoundException") {
        return Verdict::Alone;
    }
    // Not a refusal with a reason: Siddhi itself breaks on the app.
    let cause = siddhi["error"]["cause"]["class"]
        .as_str()
        .unwrap_or_default();
    if let Some(broke) = cause.strip_prefix("java.lang.")
        && status == "create-error"
    {
        return Verdict::Ruling(format!(
            "1: Siddhi only breaks while it reads the app ({broke})"
        ));
    }
    let Some(why) = differs(made, siddhi, &ours.first) else {
        return Verdict::Same;
    };
    let compat = with_rows(play(&made.case, Mode::One, true).to_json(""));
    if differs(made, siddhi, &compat).is_none() {
        return Verdict::Ruling("as under @app:compat('siddhi-5.1')".to_owned());
    }
    if hides_events(made, siddhi, &ours.first) {
        return Verdict::Ruling("17: a failing query hides the event".to_owned());
    }
    if let Some(ruling) = made.excuse {
        return Verdict::Ruling(ruling.to_owned());
    }
    Verdict::Different(why)
}

/// What came out, without the calls of a query's callbacks that bring nothing: Siddhi makes some
/// where rows were dropped on the way, and says nowhere when.
fn with_rows(mut result: Json) -> Json {
    for (_, calls) in result["queries"].as_object_mut().into_iter().flatten() {
        if let Some(calls) = calls.as_array_mut() {
            calls.retain(|call| !(call["in"].is_null() && call["out"].is_null()));
        }
    }
    result
}

/// What differs; the order of rows within a chunk counts where something promises it.
fn differs(made: &Made, want: &Json, got: &Json) -> Option<String> {
    if made.any_order.is_empty() {
        return difference(None, want, got, STRICT);
    }
    difference(
        None,
        &part(made, want, false),
        &part(made, got, false),
        STRICT,
    )
    .or_else(|| {
        difference(
            Some("hash"),
            &part(made, want, true),
            &part(made, got, true),
            STRICT,
        )
    })
}

/// The streams, queries and answers of a result that have or have not an order.
fn part(made: &Made, result: &Json, any_order: bool) -> Json {
    let mut part = result.clone();
    for field in ["streams", "queries"] {
        if let Some(all) = part[field].as_object_mut() {
            all.retain(|name, _| made.any_order.contains(name) == any_order);
        }
    }
    if made.any_order.contains("answers") != any_order {
        part["answers"] = json!([]);
    }
    part
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
pub fn in_parallel<T: Sync, R: Send>(
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
