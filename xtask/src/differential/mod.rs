//! `cargo xtask differential --seeds A..B`: makes apps by chance, runs them here and on Siddhi, and
//! shows where the two differ.
//!
//! Promises: a seed always gives the same case as long as `grammar.txt` is the same; a difference
//! is made as small as it goes before it is shown; what no ruling excuses is a failure.

mod answers;
mod choices;
mod definition;
mod engines;
mod expression;
mod forms;
mod grammar;
mod input;
mod maker;
mod partition;
mod pattern;
mod proofs;
mod query;
mod shrink;
mod steps;
mod twins;
mod variants;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value as Json, json};
use testkit::golden::write_test;
use testkit::mode::Mode;

use crate::oracle::{Oracle, shared};
use choices::Choices;
use engines::{Judge, Verdict};
use grammar::Grammar;
use maker::{Made, make};
use testservers::sample::Sample;

/// Cases that go to the engines together.
const BATCH: usize = 1000;

/// With `--sample` one seed of so many is made.
const SAMPLE_PARTS: u64 = 4;

/// Milliseconds after which Siddhi is given up.
const TIMEOUT_MS: u64 = 6000;

/// Differences made small in one run unless told.
const SHOWN_MAX: usize = 12;

/// Of those, how many may differ in the same words.
const ALIKE_MAX: usize = 4;

struct Options {
    seeds: Vec<u64>,
    jobs: usize,
    shared: PathBuf,
    /// Part of a row's label that is to be frequent.
    more: Option<String>,
    modes: Vec<Mode>,
    /// With the rows of the grammar that are marked as wide.
    is_wide: bool,
    shrinks: bool,
    /// Differences made small; further ones are counted only.
    shown: usize,
    /// Part of the reasons whose seeds are told.
    reason: Option<String>,
    /// Folder for the cases found, as text tests.
    write: Option<PathBuf>,
    /// Only prints the cases.
    show: bool,
    /// Only counts what occurs in them.
    counts: bool,
}

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    if args == [worker::SERVE] {
        worker::serve()?;
        return Ok(true);
    }
    let options = parse(args)?;
    let grammar = Grammar::load(options.more.as_deref(), options.is_wide)?;
    if options.show {
        for seed in options.seeds.clone() {
            print_case(&make(&grammar, Choices::of_seed(seed)).case);
        }
        return Ok(true);
    }
    if options.counts {
        let mut tally = Tally::default();
        for seed in options.seeds.clone() {
            let made = make(&grammar, Choices::of_seed(seed));
            tally.take(seed, made, Verdict::Same);
        }
        report(&grammar, &tally, None);
        return Ok(true);
    }
    let oracle = Oracle::find(&options.shared)?.with_timeout(TIMEOUT_MS);
    let judge = Judge::new(oracle, options.modes.clone(), options.jobs)?;
    let mut tally = Tally::default();
    // A panic is a difference here; its message is kept, its trace would only hide the table.
    std::panic::set_hook(Box::new(|_| {}));
    let progress = Progress::begin();
    for seeds in options.seeds.chunks(BATCH) {
        let made: Vec<Made> = seeds
            .iter()
            .map(|&seed| make(&grammar, Choices::of_seed(seed)))
            .collect();
        let judged = judge.all(&made, |index, verdict| progress.tell(seeds[index], verdict))?;
        for ((&seed, made), judged) in seeds.iter().zip(made).zip(judged) {
            tally.take(seed, made, judged.verdict);
        }
    }
    report(&grammar, &tally, options.reason.as_deref());
    show_differences(&judge, &grammar, &options, &tally)?;
    drop(std::panic::take_hook());
    let passed = tally.cases - tally.different.len();
    println!("{passed} passed, {} failed", tally.different.len());
    Ok(tally.different.is_empty())
}

/// One line on standard error every ten seconds.
struct Progress {
    began: Instant,
    told: Mutex<(Instant, usize, usize)>,
}

impl Progress {
    fn begin() -> Progress {
        Progress {
            began: Instant::now(),
            told: Mutex::new((Instant::now(), 0, 0)),
        }
    }

    fn tell(&self, seed: u64, verdict: &Verdict) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.1 += 1;
        if let Verdict::Different(why) = verdict {
            told.2 += 1;
            eprintln!("different: seed {seed}: {}", cut(why));
        }
        if told.0.elapsed() > Duration::from_secs(10) {
            told.0 = Instant::now();
            eprintln!(
                "{} cases, {} different, {:.0} s",
                told.1,
                told.2,
                self.began.elapsed().as_secs_f64()
            );
        }
    }
}

fn parse(args: &[String]) -> anyhow::Result<Options> {
    let mut options = Options {
        seeds: (0..1000).collect(),
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        shared: shared(None),
        more: None,
        modes: Mode::ALL.to_vec(),
        is_wide: false,
        shrinks: true,
        shown: SHOWN_MAX,
        reason: None,
        write: None,
        show: false,
        counts: false,
    };
    let mut sample = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut next = || rest.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--sample" => sample = Some(Sample::of_commit()?),
            "--seeds" => {
                options.seeds = seeds(next()?)?;
            }
            "--jobs" => options.jobs = next()?.parse()?,
            "--shared" => options.shared = shared(Some(next()?)),
            "--more" => options.more = Some(next()?.clone()),
            "--mode" => {
                let name = next()?;
                options.modes = match name.as_str() {
                    "all" => Mode::ALL.to_vec(),
                    _ => vec![Mode::from_name(name).with_context(|| format!("no mode '{name}'"))?],
                };
            }
            "--wide" => options.is_wide = true,
            "--no-shrink" => options.shrinks = false,
            "--reason" => options.reason = Some(next()?.clone()),
            "--write" => options.write = Some(next()?.into()),
            "--shown" => options.shown = next()?.parse()?,
            "--show" => options.show = true,
            "--count" => options.counts = true,
            _ => anyhow::bail!(
                "no option '{arg}'; usage: cargo xtask differential --seeds A..B [--jobs N] [--more WORD] [--sample] [--mode NAME|all] [--wide] [--no-shrink] [--shown N] [--reason WORD] [--write DIR] [--show] [--count] [--shared DIR]"
            ),
        }
    }
    if let Some(sample) = sample {
        let all = options.seeds.len();
        let takes = |seed: &u64| sample.takes(&seed.to_string(), SAMPLE_PARTS);
        options.seeds.retain(takes);
        println!(
            "{}",
            sample.line(&format!("{} of {all} seeds", options.seeds.len()))
        );
    }
    Ok(options)
}

/// `A..B`, single seeds, or several of both with commas between them.
fn seeds(text: &str) -> anyhow::Result<Vec<u64>> {
    let mut seeds = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| {
            let number = text.parse::<u64>();
            number.with_context(|| format!("'{text}' is no seed: give A..B, or seeds with commas"))
        };
        match part.split_once("..") {
            Some((from, to)) => seeds.extend(number(from)?..number(to)?),
            None => seeds.push(number(part)?),
        }
    }
    Ok(seeds)
}

/// What a run gave.
#[derive(Default)]
struct Tally {
    cases: usize,
    sharing: usize,
    same: usize,
    refused: usize,
    alone: usize,
    no_answer: BTreeMap<String, Vec<u64>>,
    pending: BTreeMap<String, usize>,
    excused: BTreeMap<String, Vec<u64>>,
    /// How often each production occurred where Siddhi was asked.
    used: BTreeMap<String, usize>,
    /// And where Siddhi has not the extension, so that only our modes were compared.
    used_alone: BTreeMap<String, usize>,
    different: Vec<(u64, Made, String)>,
}

impl Tally {
    fn take(&mut self, seed: u64, made: Made, verdict: Verdict) {
        self.cases += 1;
        self.sharing += usize::from(made.shares);
        // What both refuse or we do not run shows nothing.
        let used = match verdict {
            Verdict::Refused | Verdict::Pending(_) | Verdict::NoAnswer(_) => None,
            Verdict::Alone => Some(&mut self.used_alone),
            _ => Some(&mut self.used),
        };
        if let Some(used) = used {
            for (label, count) in &made.used {
                *used.entry(label.clone()).or_default() += count;
            }
        }
        match verdict {
            Verdict::Same => self.same += 1,
            Verdict::Refused => self.refused += 1,
            Verdict::Alone => self.alone += 1,
            Verdict::Pending(what) => *self.pending.entry(what).or_default() += 1,
            Verdict::NoAnswer(what) => self.no_answer.entry(what).or_default().push(seed),
            Verdict::Ruling(why) => self.excused.entry(why).or_default().push(seed),
            Verdict::Different(why) => self.different.push((seed, made, why)),
        }
    }
}

/// Each production is to occur so often in so many cases.
const SEEN_MIN: usize = 100;
const SEEN_IN: usize = 20_000;

fn print_used<'a>(used: impl Iterator<Item = (&'a String, &'a usize)>) {
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (label, count) in used {
        let (kind, name) = label.split_once(' ').unwrap_or((label, ""));
        let names = kinds.entry(kind).or_default();
        names.push(format!("{name} {count}"));
    }
    for (kind, names) in kinds {
        println!("  {kind}: {}", names.join(", "));
    }
}

fn report(grammar: &Grammar, tally: &Tally, reason: Option<&str>) {
    println!("how often each production occurred:");
    print_used(tally.used.iter());
    let asked = |label: &String| tally.used.get(label).copied().unwrap_or_default();
    let alone = tally
        .used_alone
        .iter()
        .filter(|(label, count)| **count > asked(label));
    println!(
        "where Siddhi has not the extension, so that our modes were compared with each other:"
    );
    print_used(alone);
    let labels: BTreeSet<String> = grammar.rows.iter().flat_map(grammar::Row::labels).collect();
    let often = |label: &String| {
        let counted = [&tally.used, &tally.used_alone].map(|used| used.get(label).copied());
        counted.into_iter().flatten().max().unwrap_or_default()
    };
    let wanted = SEEN_MIN * tally.cases / SEEN_IN;
    let seldom: Vec<String> = labels
        .iter()
        .filter(|label| often(label) < wanted)
        .map(|label| format!("{label} {}", often(label)))
        .collect();
    println!("under {wanted} times: {}", seldom.join(", "));
    let all = |counts: &BTreeMap<String, usize>| {
        counts
            .iter()
            .map(|(what, n)| format!("{what} ({n})"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    println!(
        "cases {}, two features sharing state {}, same {}, refused by both {}, without Siddhi's extension {}",
        tally.cases, tally.sharing, tally.same, tally.refused, tally.alone
    );
    let excused = tally.excused.iter();
    let excused = excused.map(|(why, seeds)| (why.clone(), seeds.len()));
    for (what, counts) in [
        ("not run yet", &tally.pending),
        ("by ruling", &excused.collect()),
    ] {
        if !counts.is_empty() {
            let sum: usize = counts.values().sum();
            println!("{what}: {sum}, of these {}", all(counts));
        }
    }
    for (why, seeds) in &tally.excused {
        if reason.is_some_and(|part| why.contains(part)) {
            println!("{why}: {seeds:?}");
        }
    }
    for (what, seeds) in &tally.no_answer {
        println!("no answer of Siddhi ({what}): {seeds:?}");
    }
}

/// Makes the differences small and prints one of each shape.
fn show_differences(
    judge: &Judge,
    grammar: &Grammar,
    options: &Options,
    tally: &Tally,
) -> anyhow::Result<()> {
    // The smallest are the quickest to make smaller still.
    let mut found: Vec<&(u64, Made, String)> = tally.different.iter().collect();
    found.sort_by_key(|(_, made, _)| made.case.to_string().len());
    for (seed, _, why) in &found {
        println!("different: seed {seed}: {}", cut(why));
    }
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    found.retain(|(_, _, why)| {
        let seen = alike.entry(shape(why)).or_default();
        *seen += 1;
        *seen <= ALIKE_MAX
    });
    found.truncate(options.shown);
    let smallest = engines::in_parallel(options.jobs, &found, |(_, made, why)| {
        if !options.shrinks {
            return Ok(made.clone());
        }
        shrink::smallest(grammar, made.clone(), |smaller| {
            let verdict = judge.one(smaller)?.verdict;
            Ok(matches!(&verdict, Verdict::Different(other) if kind(other) == kind(why)))
        })
    });
    let smallest: Vec<Made> = smallest.into_iter().collect::<anyhow::Result<_>>()?;
    let judged = judge.all(&smallest, |_, _| {})?;
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for (((seed, ..), made), judged) in found.iter().zip(&smallest).zip(judged) {
        if !shown.insert(made.case["app"].to_string()) {
            continue;
        }
        let why = match judged.verdict {
            Verdict::Different(why) => why,
            other => format!("no longer different: {other:?}"),
        };
        println!("\n--- seed {seed}: {why}");
        print_case(&made.case);
        println!("siddhi: {}", outputs(&judged.siddhi));
        println!("here:   {}", outputs(&judged.ours));
        if let Some(folder) = &options.write {
            std::fs::create_dir_all(folder)?;
            let name = format!("seed {seed}");
            match write_test(&name, &[], &made.case, &judged.siddhi, &crate::catalog()) {
                Ok(text) => std::fs::write(folder.join(format!("seed_{seed}.test")), text)?,
                Err(message) => println!("not written: {message}"),
            }
        }
    }
    Ok(())
}

/// As much of a difference as fits on a line.
fn cut(why: &str) -> &str {
    why.char_indices()
        .nth(160)
        .map_or(why, |(at, _)| &why[..at])
}

/// A smaller case has to differ in the same way: a panic stays a panic.
fn kind(why: &str) -> &str {
    why.split([' ', ':']).next().unwrap_or_default()
}

/// The words of a difference without what is of this case alone.
fn shape(why: &str) -> String {
    let words = why
        .split_whitespace()
        .filter(|w| w.chars().all(|c| c.is_ascii_alphabetic() || c == ':'));
    words.take(8).collect::<Vec<_>>().join(" ")
}

fn print_case(case: &Json) {
    println!("{}", case["app"].as_str().unwrap_or_default().trim_end());
    println!("start {}", case["start"]);
    for step in case["steps"].as_array().into_iter().flatten() {
        println!("{step}");
    }
}

/// What came out, without what came out of both.
fn outputs(result: &Json) -> String {
    let mut short = json!({});
    for field in [
        "status",
        "error",
        "streams",
        "queries",
        "answers",
        "runtimeErrors",
    ] {
        if let Some(value) = result.get(field)
            && value.as_object().is_none_or(|o| !o.is_empty())
            && value.as_array().is_none_or(|a| !a.is_empty())
        {
            short[field] = value.clone();
        }
    }
    short.to_string()
}
