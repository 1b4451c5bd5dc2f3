//! A case on both engines, and what they disagree about.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};
use testkit::compare::{Strictness, difference};
use testkit::mode::Mode;

use super::answers::Answers;
use super::forms::has_form_of_ours;
use super::maker::{IDLE, Made, PLAYED};
use super::worker::{Kind, Ours, Worker, with_rows};
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

/// Siddhi's own words for a text that its grammar has not.
const PARSER_FAILED: &str = "io.siddhi.query.compiler.exception.SiddhiParserException";

/// Status of a case on which the JVM breaks.
const ENDED: &str = "the JVM ended";

const STRICT: Strictness = Strictness {
    ts: true,
    chunks: true,
    hash_order: false,
};

/// Both engines, ready to be asked.
pub struct Judge {
    oracle: Oracle,
    /// JVMs that nobody is talking to.
    idle: Mutex<Vec<Talk>>,
    workers: Mutex<Vec<Worker>>,
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
            workers: Mutex::default(),
            modes,
            jobs,
        })
    }

    /// Runs every case on both engines; `told` hears of each that is done, by its place.
    pub fn all(
        &self,
        cases: &[Made],
        told: impl Fn(usize, &Verdict) + Sync,
    ) -> anyhow::Result<Vec<Judged>> {
        let places: Vec<usize> = (0..cases.len()).collect();
        let judged = in_parallel(self.jobs, &places, |&place| {
            let judged = self.one(&cases[place]);
            if let Ok(judged) = &judged {
                told(place, &judged.verdict);
            }
            judged
        });
        judged.into_iter().collect()
    }

    pub fn one(&self, made: &Made) -> anyhow::Result<Judged> {
        let ours = match self.ours(&made.case, &self.modes, false)? {
            Ok(ours) => ours,
            Err(why) => {
                // What multiplies without end does so in both.
                let siddhi = self.siddhi(&made.case)?;
                let verdict = match siddhi["status"] == "timeout" {
                    true => Verdict::NoAnswer("neither comes to an end".to_owned()),
                    false => Verdict::Different(why),
                };
                return Ok(Judged {
                    verdict,
                    ours: Json::Null,
                    siddhi: Json::Null,
                });
            }
        };
        // What we do not run is not asked, unless it is the engine that broke.
        let siddhi = match ours.status {
            Kind::NotThereYet(_) => Json::Null,
            _ => with_rows(self.siddhi(&made.case)?),
        };
        Ok(Judged {
            verdict: self.verdict(made, &ours, &siddhi)?,
            ours: ours.first,
            siddhi,
        })
    }

    /// What our engine makes of it; in words, how it broke.
    pub(super) fn ours(
        &self,
        case: &Json,
        modes: &[Mode],
        compat: bool,
    ) -> anyhow::Result<Result<Ours, String>> {
        let free = locked(&self.workers).pop();
        let mut worker = match free {
            Some(worker) => worker,
            None => Worker::start()?,
        };
        let ours = worker.run(case, modes, compat);
        if ours.is_ok() {
            locked(&self.workers).push(worker);
        }
        Ok(ours)
    }

    /// When Siddhi first breaks down on an event by an error of Java's, and on what: no query says
    /// so, none can lean on it, and what it leaves half done shows in all that follows. An error
    /// that a function gives with a reason is none of these.
    fn broke_down(&self, made: &Made) -> anyhow::Result<Option<(i64, String)>> {
        let first = self.first_failure(made)?;
        Ok(first.and_then(|(at, text)| Some((at, breakdown(&text)?))))
    }

    /// When an event first fails in Siddhi, and the text of the error.
    pub(super) fn first_failure(&self, made: &Made) -> anyhow::Result<Option<(i64, String)>> {
        let [all, defined] = &made.with_faults;
        let mut faults = self.siddhi(all)?;
        // What a stream is made of is not known for sure where no definition says it.
        if faults["status"] != "ok" {
            faults = self.siddhi(defined)?;
        }
        let mut first: Option<(i64, String)> = None;
        let mut see = |at: Option<i64>, text: Option<&str>| {
            if let (Some(at), Some(text)) = (at, text)
                && first.as_ref().is_none_or(|(earliest, _)| at < *earliest)
            {
                first = Some((at, text.to_owned()));
            }
        };
        let streams = faults["streams"].as_object().into_iter().flatten();
        for chunk in streams.filter_map(|(_, all)| all.as_array()).flatten() {
            let row = chunk["events"][0]["data"].as_array();
            let error = row.and_then(|row| row.last());
            let text = error.and_then(|error| error["o"]["text"].as_str());
            see(chunk["at"].as_i64(), text);
        }
        // Errors of fault streams and of triggers have no stream to go to.
        for error in faults["runtimeErrors"].as_array().into_iter().flatten() {
            let text = format!(
                "{}: {}",
                error["class"].as_str().unwrap_or_default(),
                error["message"].as_str().unwrap_or_default()
            );
            see(error["at"].as_i64(), Some(&text));
        }
        Ok(first)
    }

    /// Is it the played clock alone that makes the difference, in an app with a partition? In
    /// Siddhi a step of it fires one timer of several keys that are due at one time.
    fn plays_late(&self, made: &Made) -> anyhow::Result<bool> {
        let app = made.case["app"].as_str().unwrap_or_default();
        let played = match app.starts_with(IDLE) {
            true => IDLE,
            false => PLAYED,
        };
        if !app.contains("partition with") || !app.starts_with(played) {
            return Ok(false);
        }
        let mut live = made.clone();
        let [all, defined] = &mut live.with_faults;
        for case in [&mut live.case, all, defined] {
            let app = case["app"].as_str().unwrap_or_default();
            case["app"] = json!(app.replacen(played, "", 1));
        }
        let siddhi = with_rows(self.siddhi(&live.case)?);
        let Ok(ours) = self.ours(&live.case, &[Mode::One], true)? else {
            return Ok(false);
        };
        if agrees(&live, &siddhi, &ours.first) {
            return Ok(true);
        }
        // Or they agree until Siddhi breaks down.
        let Some((at, _)) = self.broke_down(&live)? else {
            return Ok(false);
        };
        let until = |result: &Json| before(&live, result, at);
        Ok(agrees(&live, &until(&siddhi), &until(&ours.first)))
    }

    pub(super) fn siddhi(&self, case: &Json) -> anyhow::Result<Json> {
        if let Some(kept) = self.answers.get(case) {
            return Ok(kept);
        }
        let answer = self.ask_anew(case)?;
        if answer["status"] != ENDED {
            self.answers.keep(case, &answer)?;
        }
        Ok(answer)
    }

    /// What Siddhi says now, whatever it said before.
    pub(super) fn ask_anew(&self, case: &Json) -> anyhow::Result<Json> {
        // A JVM may have had enough of the cases before this one: only a fresh one breaks on it.
        for _ in 0..2 {
            let free = locked(&self.idle).pop();
            let mut talk = match free {
                Some(talk) => talk,
                None => self.oracle.talk()?,
            };
            if let Ok(answer) = talk.ask(case) {
                if talk.is_fresh(&answer) {
                    locked(&self.idle).push(talk);
                }
                return Ok(answer);
            }
        }
        Ok(json!({ "status": ENDED }))
    }

    fn verdict(&self, made: &Made, ours: &Ours, siddhi: &Json) -> anyhow::Result<Verdict> {
        let Some((steps, reason)) = broken_answers(siddhi) else {
            return self.verdict_without(made, ours, siddhi, &[]);
        };
        let without = |result: &Json| without_answers(result, &steps);
        let others = ours.others.iter();
        let ours = Ours {
            first: without(&ours.first),
            others: others
                .map(|(mode, other)| (*mode, without(other)))
                .collect(),
            ..ours.clone()
        };
        Ok(
            match self.verdict_without(made, &ours, &without(siddhi), &steps)? {
                Verdict::Same => Verdict::Ruling(reason.to_owned()),
                other => other,
            },
        )
    }

    /// The verdict, where the answers of these steps do not count.
    fn verdict_without(
        &self,
        made: &Made,
        ours: &Ours,
        siddhi: &Json,
        steps: &[Json],
    ) -> anyhow::Result<Verdict> {
        let why = match verdict(made, ours, siddhi) {
            Compared::Settled(verdict) => return Ok(verdict),
            Compared::Differs(why) => why,
        };
        let app = made.case["app"].as_str().unwrap_or_default();
        if siddhi["error"]["class"] == PARSER_FAILED && has_form_of_ours(app) {
            return Ok(Verdict::Ruling(
                "68: a form that the grammar of Siddhi has not".to_owned(),
            ));
        }
        let message = siddhi["error"]["message"].as_str().unwrap_or_default();
        if message.contains("contains attribute with same name 'AGG_TIMESTAMP'") {
            return Ok(Verdict::Ruling(
                "1: Siddhi mixes up the aliases where an aggregation stands left".to_owned(),
            ));
        }
        if message.contains("parameterOverload for 'eventTimestamp'") {
            return Ok(Verdict::Ruling(
                "68: Siddhi takes the attribute 'last' where the last event is meant".to_owned(),
            ));
        }
        if siddhi["status"] != "ok" {
            let said = message.rsplit_once("'. ").map_or(message, |(_, said)| said);
            return Ok(Verdict::Different(format!("Siddhi refuses it: {said}")));
        }
        if ours.status != Kind::Done {
            return Ok(Verdict::Different(why));
        }
        // With compat everything has to be as in Siddhi, what failing queries hide as well.
        let compat = match self.ours(&made.case, &[Mode::One], true)? {
            Ok(compat) => compat,
            Err(broken) => return Ok(Verdict::Different(format!("with compat: {broken}"))),
        };
        let first = without_answers(&compat.first, steps);
        let (left, without_old_form) = (differs(made, siddhi, &first), compat.rulings);
        let Some(left) = left else {
            let mut numbers = ours.rulings.clone();
            numbers.retain(|number| !without_old_form.contains(number));
            if made.case["app"]
                .as_str()
                .is_some_and(|app| app.contains("#str:tokenize("))
            {
                numbers.push("84".to_owned());
            }
            if ours.has_failures || numbers.is_empty() {
                numbers.push("17".to_owned());
            }
            let numbers = numbers.join(", ");
            return Ok(Verdict::Ruling(format!("{numbers}: the same with compat")));
        };
        if let Some((at, cause)) = self.broke_down(made)?
            && differs(made, &before(made, siddhi, at), &before(made, &first, at)).is_none()
        {
            return Ok(Verdict::Ruling(cause));
        }
        if self.plays_late(made)? {
            return Ok(Verdict::Ruling(
                "25: timers of several keys at one played time".to_owned(),
            ));
        }
        if let Some(ruling) = self.proven(made, siddhi, &first, &without_old_form)? {
            return Ok(Verdict::Ruling(ruling.to_owned()));
        }
        Ok(Verdict::Different(match left == why {
            true => why,
            false => format!("{left} (with compat; without: {why})"),
        }))
    }
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Said by a function of `time:` that is given a null. Recorded cases have a null there, of the
/// release of the extension that gave it.
const NULL_REFUSED: &str =
    "cannot be null. Exception on class 'io.siddhi.extension.execution.time.";
const NULL_REFUSED_BY: &str = "an older release of time: fails on a null";

/// Why a failure of Siddhi says nothing about ours, where it does not: an error of Java's, which
/// no query says a reason for.
fn breakdown(text: &str) -> Option<String> {
    if text.contains(NULL_REFUSED) {
        return Some(NULL_REFUSED_BY.to_owned());
    }
    for kind in [
        "Cannot invoke",
        "Cannot read",
        "cannot be cast",
        "out of bounds",
    ] {
        if let Some((_, behind)) = text.split_once(kind) {
            let what: String = behind.chars().take_while(|c| !"(,".contains(*c)).collect();
            return Some(format!("17: Siddhi breaks down: {kind}{}", what.trim_end()));
        }
    }
    let class = text.split_once(':').map_or(text, |(class, _)| class);
    let class = class.strip_prefix("java.")?;
    Some(format!("17: Siddhi breaks down: {class}"))
}

/// What comes out before a time.
pub(super) fn before(made: &Made, result: &Json, at: i64) -> Json {
    let mut result = result.clone();
    for field in ["streams", "queries", "topics"] {
        for (_, all) in result[field].as_object_mut().into_iter().flatten() {
            if let Some(all) = all.as_array_mut() {
                all.retain(|one| one["at"].as_i64().is_none_or(|t| t < at));
            }
        }
    }
    if let Some(answers) = result["answers"].as_array_mut() {
        let time = |answer: &Json| {
            let step = answer["step"].as_u64()? as usize;
            made.case["steps"][step]["at"].as_i64()
        };
        answers.retain(|answer| time(answer).is_none_or(|t| t < at));
    }
    result
}

/// What a first look at the results says.
enum Compared {
    Settled(Verdict),
    /// From Siddhi, while our modes agree.
    Differs(String),
}

fn verdict(made: &Made, ours: &Ours, siddhi: &Json) -> Compared {
    Compared::Settled(match &ours.status {
        Kind::NotThereYet(what) => Verdict::Pending(what.clone()),
        Kind::Broken(message) => Verdict::Different(format!("panic: {message}")),
        _ => {
            // Whatever Siddhi does: how chunks come in batches may not matter.
            let split = ours.others.iter().find_map(|(mode, other)| {
                let why = differs(made, &ours.first, other)?;
                Some(Verdict::Different(format!("mode {}: {why}", mode.name())))
            });
            match split.or_else(|| without_answer(ours, siddhi)) {
                Some(verdict) => verdict,
                None => match differs(made, siddhi, &ours.first) {
                    Some(why) => return Compared::Differs(why),
                    None => Verdict::Same,
                },
            }
        }
    })
}

/// Where Siddhi gives nothing to compare with.
fn without_answer(ours: &Ours, siddhi: &Json) -> Option<Verdict> {
    let status = siddhi["status"].as_str().unwrap_or("none");
    if !matches!(
        status,
        "ok" | "create-error" | "parse-error" | "observe-error" | "start-error"
    ) {
        return Some(Verdict::NoAnswer(status.to_owned()));
    }
    if ours.status == Kind::Refused && status != "ok" {
        return Some(Verdict::Refused);
    }
    let class = siddhi["error"]["class"].as_str().unwrap_or_default();
    if class.ends_with("ExtensionNotFoundException") {
        return Some(Verdict::Alone);
    }
    // Not a refusal with a reason: Siddhi itself breaks on the app.
    let cause = siddhi["error"]["cause"]["class"].as_str()?;
    let broke = cause.strip_prefix("java.lang.")?;
    (status == "create-error").then(|| {
        Verdict::Ruling(format!(
            "1: Siddhi only breaks while it reads the app ({broke})"
        ))
    })
}

/// Errors that Siddhi gives for an on-demand query which is well made: a part of the class or
/// message, and what stands behind it.
const BROKEN_ANSWERS: &[(&str, &str)] = &[
    (
        "java.lang.NullPointerException",
        "1: Siddhi only breaks while it reads an on-demand query",
    ),
    (
        "ExtensionNotFoundException",
        "1: Siddhi finds no aggregator of an extension in an on-demand query",
    ),
    ("', null\"", "65: a null is not looked up in an index"),
    (
        "Cannot construct finder for the window",
        "69: a window that is not searched is not asked either",
    ),
    (
        " cannot be cast to class java.lang.",
        "40: a key of another numeric type is not looked up",
    ),
    (NULL_REFUSED, NULL_REFUSED_BY),
];

/// Steps whose on-demand query Siddhi breaks on, and the reason of the first.
fn broken_answers(siddhi: &Json) -> Option<(Vec<Json>, &'static str)> {
    let answers = siddhi["answers"].as_array()?;
    let broken = |answer: &Json| {
        let cause = &answer["error"]["cause"];
        let text = format!("{} {}", cause["class"], cause["message"]);
        let mut known = BROKEN_ANSWERS.iter();
        let (_, reason) = known.find(|(part, _)| text.contains(part))?;
        Some((answer["step"].clone(), *reason))
    };
    let (steps, reasons): (Vec<Json>, Vec<&str>) = answers.iter().filter_map(broken).unzip();
    Some((steps, *reasons.first()?))
}

fn without_answers(result: &Json, steps: &[Json]) -> Json {
    let mut result = result.clone();
    if let Some(answers) = result["answers"].as_array_mut() {
        answers.retain(|answer| !steps.contains(&answer["step"]));
    }
    result
}

/// What differs; the order of rows within a chunk counts where something promises it.
pub(super) fn differs(made: &Made, want: &Json, got: &Json) -> Option<String> {
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

/// Whether both give the same, but for answers that Siddhi breaks on.
pub(super) fn agrees(made: &Made, siddhi: &Json, ours: &Json) -> bool {
    let broken = broken_answers(siddhi).map_or(Vec::new(), |(steps, _)| steps);
    let without = |result: &Json| without_answers(result, &broken);
    differs(made, &without(siddhi), &without(ours)).is_none()
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
