//! `cargo xtask conformance DIR`: replays recorded cases with virtual time and says which agree.
//!
//! A case passes when it agrees in every mode asked for. A case that expects a refusal passes only
//! if the app is refused for a fault of its own; one that needs what does not run yet is counted
//! apart, with the feature named. One that cannot be read is wrong, and the others are replayed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use serde_json::{Value as Json, json};
use testkit::case::{Body, Case, CaseError, Playback};
use testkit::compare::{Strictness, difference};
use testkit::drive;
use testkit::mode::Mode;
use testkit::outcome::Status;

/// Cases in which a defect of the reference is fixed: they pass under `@app:compat('siddhi-5.1')`.
/// The file says what stands in a line.
const RULINGS: &str = include_str!("../../tests/rulings.txt");

/// What `--columns` judges, one after the other: rows, timestamps, bounds of chunks, playback.
const COLUMNS: [(&str, Strictness, bool); 4] = [
    ("rows", strict(false, false), false),
    ("--ts", strict(true, false), false),
    ("--chunks", strict(false, true), false),
    ("--playback", strict(false, false), true),
];

const fn strict(ts: bool, chunks: bool) -> Strictness {
    Strictness {
        ts,
        chunks,
        hash_order: false,
    }
}

#[derive(Clone, Default)]
struct Options {
    dir: PathBuf,
    group: Option<String>,
    id: Option<String>,
    modes: Vec<Mode>,
    playback: bool,
    format: bool,
    strictness: Strictness,
    columns: bool,
    out: Option<PathBuf>,
    json: bool,
    /// Prints which cases pass under `@app:compat` alone, and why.
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Passed,
    Ruling,
    NotThereYet,
    Wrong,
    Panicked,
    Skipped,
}

const VERDICTS: [(Verdict, &str); 6] = [
    (Verdict::Passed, "passed"),
    (Verdict::Ruling, "ruling"),
    (Verdict::NotThereYet, "not-there-yet"),
    (Verdict::Wrong, "wrong"),
    (Verdict::Panicked, "panicked"),
    (Verdict::Skipped, "skipped"),
];

#[derive(Clone)]
struct Judged {
    id: String,
    group: String,
    verdict: Verdict,
    why: String,
    result: Json,
}

impl Judged {
    fn unreadable(error: &CaseError) -> Judged {
        Judged {
            id: error.id.clone(),
            group: "unreadable".to_owned(),
            verdict: Verdict::Wrong,
            why: format!("cannot be read: {}", error.message),
            result: Json::Null,
        }
    }
}

#[derive(Default)]
struct Cases {
    readable: Vec<Case>,
    unreadable: Vec<CaseError>,
}

/// What one case gave, by mode, playback and compat.
#[derive(Default)]
struct Plays(Vec<((Mode, bool, bool), Status)>);

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let options = parse(args)?;
    let cases = load(&options)?;
    if options.columns {
        return Ok(print_columns(&cases, &options));
    }
    let judged = in_parallel(&cases.readable, |case| {
        can_be(case, &options).then(|| judge(case, &options, &mut Plays::default()))
    });
    let mut judged: Vec<Judged> = judged.into_iter().flatten().collect();
    judged.extend(cases.unreadable.iter().map(Judged::unreadable));
    if let Some(path) = &options.out {
        let mut file = fs::File::create(path)?;
        for case in &judged {
            writeln!(file, "{}", case.result)?;
        }
    }
    if options.json {
        print_json(&judged)
    } else {
        print_table(&judged, &options)
    };
    let (passed, failed) = sums(&judged);
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// How many passed and failed; what is skipped did neither.
fn sums(judged: &[Judged]) -> (usize, usize) {
    let count = |verdict| judged.iter().filter(|j| j.verdict == verdict).count();
    let passed = count(Verdict::Passed) + count(Verdict::Ruling);
    (passed, judged.len() - passed - count(Verdict::Skipped))
}

/// For each column how many cases pass as they are, pass under `@app:compat` alone, fail or are
/// skipped, and what the last three are.
fn print_columns(cases: &Cases, options: &Options) -> bool {
    println!(
        "{:<12}{:>8}{:>8}{:>8}{:>8}",
        "column", "passed", "compat", "failed", "skipped"
    );
    let columns = COLUMNS.map(|(name, strictness, playback)| {
        let options = Options {
            strictness,
            playback,
            ..options.clone()
        };
        (name, options)
    });
    // What a case gives is looked at by three columns: it is played for them once.
    let judged = in_parallel(&cases.readable, |case| {
        let mut plays = Plays::default();
        columns
            .each_ref()
            .map(|(_, options)| can_be(case, options).then(|| judge(case, options, &mut plays)))
    });
    let (mut all_passed, mut all_failed) = (0, 0);
    let mut apart = BTreeMap::new();
    for (at, (name, _)) in columns.iter().enumerate() {
        let readable = judged.iter().filter_map(|columns| columns[at].clone());
        let unreadable = cases.unreadable.iter().map(Judged::unreadable);
        let judged: Vec<Judged> = readable.chain(unreadable).collect();
        let (passed, failed) = sums(&judged);
        let count = |verdict| judged.iter().filter(|j| j.verdict == verdict).count();
        let (compat, skipped) = (count(Verdict::Ruling), count(Verdict::Skipped));
        println!(
            "{name:<12}{:>8}{compat:>8}{failed:>8}{skipped:>8}",
            passed - compat
        );
        all_passed += passed;
        all_failed += failed;
        for case in judged.into_iter().filter(|j| j.verdict != Verdict::Passed) {
            let line = format!("{} {}: {}", name_of(case.verdict), case.id, case.why);
            apart.entry(line).or_insert_with(Vec::new).push(*name);
        }
    }
    println!();
    for (line, columns) in apart {
        println!("{line} [{}]", columns.join(", "));
    }
    println!("{all_passed} passed, {all_failed} failed");
    all_failed == 0
}

fn name_of(verdict: Verdict) -> &'static str {
    let found = VERDICTS.iter().find(|(v, _)| *v == verdict);
    found.map_or("", |(_, name)| name)
}

fn parse(args: &[String]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut next = || rest.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--group" => options.group = Some(next()?.clone()),
            "--id" => options.id = Some(next()?.clone()),
            "--out" => options.out = Some(next()?.into()),
            "--mode" => {
                let name = next()?;
                options.modes = match name.as_str() {
                    "all" => Mode::ALL.to_vec(),
                    _ => vec![Mode::from_name(name).with_context(|| {
                        format!("no mode '{name}': one, seven, whole, lockstep, snapshot or all")
                    })?],
                };
            }
            "--playback" => options.playback = true,
            "--fmt" => options.format = true,
            "--ts" => options.strictness.ts = true,
            "--chunks" => options.strictness.chunks = true,
            "--columns" => options.columns = true,
            "--json" => options.json = true,
            "--verbose" => options.verbose = true,
            _ if arg.starts_with("--") => bail!("no option '{arg}'"),
            _ => options.dir = arg.into(),
        }
    }
    if options.dir.as_os_str().is_empty() {
        bail!(
            "which folder? usage: cargo xtask conformance DIR [--group G] [--id ID] [--mode NAME|all] [--playback] [--fmt] [--ts] [--chunks] [--columns] [--out FILE] [--json] [--verbose]"
        );
    }
    if options.modes.is_empty() {
        options.modes = vec![Mode::One];
    }
    Ok(options)
}

fn load(options: &Options) -> anyhow::Result<Cases> {
    let mut files: Vec<PathBuf> = fs::read_dir(&options.dir)
        .with_context(|| format!("cannot read folder '{}'", options.dir.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("no *.jsonl in folder '{}'", options.dir.display());
    }
    let mut cases = Cases::default();
    for file in &files {
        read_cases(&fs::read_to_string(file)?, options, &mut cases);
    }
    Ok(cases)
}

fn read_cases(text: &str, options: &Options, cases: &mut Cases) {
    let is_asked = |id: &str| options.id.as_ref().is_none_or(|wanted| wanted == id);
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        match Case::parse(line) {
            Ok(case) => {
                if is_asked(&case.id) && options.group.as_ref().is_none_or(|g| *g == case.group) {
                    cases.readable.push(case);
                }
            }
            // Its group may be what cannot be read.
            Err(error) if is_asked(&error.id) => cases.unreadable.push(error),
            Err(_) => {}
        }
    }
}

/// In playback only those cases are judged that can be.
fn can_be(case: &Case, options: &Options) -> bool {
    !options.playback || case.has_playback()
}

/// Does this with every case, on all processors; the results are in the order of the cases.
fn in_parallel<T: Send>(cases: &[Case], work: impl Fn(&Case) -> T + Sync) -> Vec<T> {
    // A panic is a verdict here; its message is kept, its trace would only hide the table.
    std::panic::set_hook(Box::new(|_| {}));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(cases.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { return };
                    let result = work(case);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, result));
                    }
                }
            });
        }
    });
    drop(std::panic::take_hook());
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn judge(case: &Case, options: &Options, plays: &mut Plays) -> Judged {
    let mut judged = Judged {
        id: case.id.clone(),
        group: case.group.clone(),
        verdict: Verdict::Passed,
        why: String::new(),
        result: Json::Null,
    };
    for &mode in &options.modes {
        let (verdict, why, result) = judge_in(case, mode, options, plays);
        if judged.result.is_null() {
            judged.result = result;
        }
        if verdict != Verdict::Passed {
            judged.verdict = verdict;
            judged.why = match verdict {
                Verdict::Ruling | Verdict::Skipped => why,
                _ => format!("{}: {why}", mode.name()),
            };
        }
        if !matches!(verdict, Verdict::Passed | Verdict::Ruling) {
            break;
        }
    }
    judged
}

fn judge_in(
    case: &Case,
    mode: Mode,
    options: &Options,
    plays: &mut Plays,
) -> (Verdict, String, Json) {
    let status = plays.of(case, mode, options.playback, false);
    let result = status.to_json(&case.id);
    let want = match (&case.playback, options.playback) {
        (Some(Playback::Expected(expected)), true) => expected,
        _ => &case.expected,
    };
    let wrong =
        |result: &Json| difference(case.row_order.as_deref(), want, result, options.strictness);
    match status {
        Status::Panicked(message) => return (Verdict::Panicked, message.clone(), result),
        Status::NotThereYet(what) => return (Verdict::NotThereYet, what.clone(), result),
        _ => {}
    }
    let Some(why) = wrong(&result) else {
        return (Verdict::Passed, String::new(), result);
    };
    // Stores of the test-suite are there (testkit); its sources, sinks and mappers are not.
    if let Some(needs) = case
        .needs
        .as_ref()
        .filter(|needs| !needs.starts_with("store:"))
    {
        return (Verdict::Skipped, format!("needs {needs}"), result);
    }
    let Some(ruling) = ruling(&case.id) else {
        return (Verdict::Wrong, why, result);
    };
    let mode = match ruling.is_unsaved {
        true => mode.without_restores(),
        false => mode,
    };
    let compat = plays
        .of(case, mode, options.playback, true)
        .to_json(&case.id);
    match wrong(&compat) {
        None => (Verdict::Ruling, ruling.reason.to_owned(), compat),
        Some(why) => (Verdict::Wrong, format!("with compat: {why}"), compat),
    }
}

/// Why a case passes under `@app:compat` alone.
struct Ruling {
    reason: &'static str,
    /// The old form loses something when it is restored, which no mode may that restores at every step.
    is_unsaved: bool,
}

fn ruling(id: &str) -> Option<Ruling> {
    let mut lines = RULINGS.lines().filter(|line| !line.starts_with('#'));
    let rest = lines.find_map(|line| line.strip_prefix(id)?.strip_prefix('\t'))?;
    Some(match rest.split_once('\t') {
        Some((reason, mark)) => Ruling {
            reason,
            is_unsaved: mark == "unsaved",
        },
        None => Ruling {
            reason: rest,
            is_unsaved: false,
        },
    })
}

impl Plays {
    fn of(&mut self, case: &Case, mode: Mode, playback: bool, compat: bool) -> &Status {
        let key = (mode, playback, compat);
        let at = self.0.iter().position(|(known, _)| *known == key);
        let at = at.unwrap_or_else(|| {
            self.0.push((key, play(case, mode, playback, compat)));
            self.0.len() - 1
        });
        &self.0[at].1
    }
}

fn play(case: &Case, mode: Mode, playback: bool, compat: bool) -> Status {
    let played = catch_unwind(AssertUnwindSafe(|| match &case.body {
        Body::Parse { entry, text } => drive::parse_only(entry, text),
        Body::App(app) => drive::run(app, &crate::catalog(), mode, playback, compat),
    }));
    played.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            .unwrap_or_default();
        Status::Panicked(message)
    })
}

fn print_table(judged: &[Judged], options: &Options) {
    let mut groups: BTreeMap<&str, [usize; 6]> = BTreeMap::new();
    let mut total = [0; 6];
    for case in judged {
        let at = VERDICTS
            .iter()
            .position(|(v, _)| *v == case.verdict)
            .unwrap_or(0);
        groups.entry(&case.group).or_default()[at] += 1;
        total[at] += 1;
    }
    for case in judged {
        let is_shown = match case.verdict {
            Verdict::Wrong | Verdict::Panicked | Verdict::Skipped => true,
            Verdict::NotThereYet | Verdict::Ruling => options.verbose,
            Verdict::Passed => false,
        };
        if is_shown {
            let why: String = case.why.chars().take(400).collect();
            println!("{} {}: {why}", name_of(case.verdict), case.id);
        }
    }
    print!("{:<18}", "group");
    VERDICTS.iter().for_each(|(_, name)| print!("{name:>14}"));
    println!();
    let line = |name: &str, counts: &[usize; 6]| {
        print!("{name:<18}");
        counts.iter().for_each(|n| print!("{n:>14}"));
        println!();
    };
    groups.iter().for_each(|(name, counts)| line(name, counts));
    line("all", &total);
}

fn print_json(judged: &[Judged]) {
    let cases: Vec<Json> = judged
        .iter()
        .map(|j| json!({ "id": j.id, "group": j.group, "verdict": name_of(j.verdict), "why": j.why }))
        .collect();
    println!("{}", json!({ "version": 1, "cases": cases }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_read_fails_its_case_alone() {
        let case = |id: &str, value: &str| {
            format!(
                r#"{{"id":"{id}","group":"g","app":"define stream S (a object);","start":0,"steps":[{{"at":0,"send":{{"stream":"S","data":[{value}]}}}}],"expected":{{}}}}"#
            )
        };
        let number = r#"{"o":{"class":"java.math.BigInteger","text":"12345678901234567890"}}"#;
        let lines = [
            case("first", "1"),
            case("second", number),
            case("third", "2"),
        ]
        .join("\n");
        let mut cases = Cases::default();
        read_cases(&lines, &Options::default(), &mut cases);
        let ids: Vec<&str> = cases.readable.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["first", "third"]);
        let wrong: Vec<Judged> = cases.unreadable.iter().map(Judged::unreadable).collect();
        assert_eq!(wrong.len(), 1);
        assert_eq!(wrong[0].id, "second");
        assert!(
            wrong[0].why.contains("java.math.BigInteger"),
            "{}",
            wrong[0].why
        );
        assert_eq!(sums(&wrong), (0, 1));
    }
}
