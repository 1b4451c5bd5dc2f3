//! `cargo xtask differential --seeds A..B`: makes apps by chance, runs them here and on Siddhi, and
//! shows where the two differ.
//!
//! Promises: a seed always gives the same case as long as `grammar.txt` is the same; a difference
//! is made as small as it goes before it is shown; what no ruling excuses is a failure.

mod choices;
mod engines;
mod expression;
mod grammar;
mod maker;
mod query;
mod shrink;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use serde_json::{Value as Json, json};
use testkit::golden::write_test;
use testkit::mode::Mode;

use crate::oracle::{Oracle, shared};
use choices::Choices;
use engines::{Verdict, judge};
use grammar::Grammar;
use maker::{Made, make};

/// Differences that rulings excuse: number, words of the app joined by `~`, reason.
const EXCUSES: &str = include_str!("excuses.txt");

/// Cases that go to the engines together.
const BATCH: usize = 1000;

/// Milliseconds after which Siddhi is given up.
const TIMEOUT_MS: u64 = 3000;

/// Differences made small in one run; further ones are counted only.
const SHOWN_MAX: usize = 12;

/// Of those, how many may differ in the same words.
const ALIKE_MAX: usize = 4;

struct Options {
    seeds: std::ops::Range<u64>,
    jobs: usize,
    shared: PathBuf,
    /// Rows of the grammar that do not run yet as well.
    all: bool,
    /// Part of a row's label that is to be frequent.
    more: Option<String>,
    modes: Vec<Mode>,
    shrinks: bool,
    /// Folder for the cases found, as text tests.
    write: Option<PathBuf>,
    /// Only prints the cases.
    show: bool,
}

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let options = parse(args)?;
    let grammar = Grammar::load(options.all, options.more.as_deref())?;
    if options.show {
        for seed in options.seeds.clone() {
            print_case(&make(&grammar, Choices::of_seed(seed)).case);
        }
        return Ok(true);
    }
    let oracle = Oracle::find(&options.shared)?.with_timeout(TIMEOUT_MS);
    let mut tally = Tally::default();
    // A panic is a difference here; its message is kept, its trace would only hide the table.
    std::panic::set_hook(Box::new(|_| {}));
    let began = Instant::now();
    let mut seed = options.seeds.start;
    while seed < options.seeds.end {
        let end = options.seeds.end.min(seed + BATCH as u64);
        let made: Vec<Made> = (seed..end)
            .map(|seed| make(&grammar, Choices::of_seed(seed)))
            .collect();
        let verdicts = judge(&oracle, &made, &options.modes, options.jobs)?;
        for ((seed, made), (verdict, ..)) in (seed..).zip(made).zip(verdicts) {
            tally.take(seed, made, verdict);
        }
        eprintln!(
            "{} cases, {} different, {:.0} s",
            tally.cases,
            tally.different.len(),
            began.elapsed().as_secs_f64()
        );
        seed = end;
    }
    report(&grammar, &tally);
    show_differences(&oracle, &grammar, &options, &tally)?;
    drop(std::panic::take_hook());
    let passed = tally.cases - tally.different.len();
    println!("{passed} passed, {} failed", tally.different.len());
    Ok(tally.different.is_empty())
}

fn parse(args: &[String]) -> anyhow::Result<Options> {
    let mut options = Options {
        seeds: 0..1000,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        shared: shared(None),
        all: false,
        more: None,
        modes: Mode::ALL.to_vec(),
        shrinks: true,
        write: None,
        show: false,
    };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut next = || rest.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seeds" => {
                let text = next()?;
                let (from, to) = text
                    .split_once("..")
                    .with_context(|| format!("'{text}' is no range A..B"))?;
                options.seeds = from.parse()?..to.parse()?;
            }
            "--jobs" => options.jobs = next()?.parse()?,
            "--shared" => options.shared = shared(Some(next()?)),
            "--all" => options.all = true,
            "--more" => options.more = Some(next()?.clone()),
            "--mode" => {
                let name = next()?;
                options.modes = match name.as_str() {
                    "all" => Mode::ALL.to_vec(),
                    _ => vec![Mode::from_name(name).with_context(|| format!("no mode '{name}'"))?],
                };
            }
            "--no-shrink" => options.shrinks = false,
            "--write" => options.write = Some(next()?.into()),
            "--show" => options.show = true,
            _ => anyhow::bail!(
                "no option '{arg}'; usage: cargo xtask differential --seeds A..B [--jobs N] [--more WORD] [--all] [--mode NAME|all] [--no-shrink] [--write DIR] [--show] [--shared DIR]"
            ),
        }
    }
    Ok(options)
}

/// What a run gave.
#[derive(Default)]
struct Tally {
    cases: usize,
    sharing: usize,
    same: usize,
    refused: usize,
    no_answer: BTreeMap<String, Vec<u64>>,
    pending: BTreeMap<String, usize>,
    excused: BTreeMap<String, usize>,
    used: BTreeMap<String, usize>,
    different: Vec<(u64, Made, String)>,
}

impl Tally {
    fn take(&mut self, seed: u64, made: Made, verdict: Verdict) {
        self.cases += 1;
        self.sharing += usize::from(made.shares);
        // What both refuse or we do not run shows nothing.
        if !matches!(
            verdict,
            Verdict::Refused | Verdict::Pending(_) | Verdict::NoAnswer(_)
        ) {
            for (label, count) in &made.used {
                *self.used.entry(label.clone()).or_default() += count;
            }
        }
        match verdict {
            Verdict::Same => self.same += 1,
            Verdict::Refused => self.refused += 1,
            Verdict::Pending(what) => *self.pending.entry(what).or_default() += 1,
            Verdict::NoAnswer(what) => self.no_answer.entry(what).or_default().push(seed),
            Verdict::Ruling(why) => *self.excused.entry(why).or_default() += 1,
            Verdict::Different(why) => match excuse(&made.case) {
                Some(ruling) => *self.excused.entry(ruling).or_default() += 1,
                None => self.different.push((seed, made, why)),
            },
        }
    }
}

fn excuse(case: &Json) -> Option<String> {
    let app = case["app"].as_str().unwrap_or_default();
    let steps = case["steps"].to_string();
    EXCUSES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let mut parts = line.splitn(3, '\t');
            let (ruling, words, why) = (parts.next()?, parts.next()?, parts.next()?);
            let holds = |word: &str| match word.strip_prefix("step:") {
                Some(word) => steps.contains(word),
                None => app.contains(word),
            };
            words
                .split('~')
                .all(holds)
                .then(|| format!("{ruling}: {why}"))
        })
}

fn report(grammar: &Grammar, tally: &Tally) {
    println!("how often each production occurred:");
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (label, count) in &tally.used {
        let (kind, name) = label.split_once(' ').unwrap_or((label, ""));
        kinds
            .entry(kind)
            .or_default()
            .push(format!("{name} {count}"));
    }
    for (kind, names) in kinds {
        println!("  {kind}: {}", names.join(", "));
    }
    let labels: BTreeSet<String> = grammar.rows.iter().map(grammar::Row::label).collect();
    let never: Vec<String> = labels
        .into_iter()
        .filter(|label| !tally.used.contains_key(label))
        .collect();
    // A small run says nothing by what it lacks.
    if tally.cases >= 1000 && !never.is_empty() {
        println!("  never: {}", never.join(", "));
    }
    if !grammar.pending.is_empty() {
        let names: BTreeSet<&str> = grammar
            .pending
            .iter()
            .map(|(label, _)| label.as_str())
            .collect();
        println!(
            "  left out, do not run yet: {}",
            names.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    let all = |counts: &BTreeMap<String, usize>| {
        counts
            .iter()
            .map(|(what, n)| format!("{what} ({n})"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    println!(
        "cases {}, two features sharing state {}, same {}, refused by both {}",
        tally.cases, tally.sharing, tally.same, tally.refused
    );
    for (what, counts) in [
        ("not run yet", &tally.pending),
        ("by ruling", &tally.excused),
    ] {
        if !counts.is_empty() {
            println!("{what}: {}", all(counts));
        }
    }
}

/// Makes the differences small and prints one of each shape.
fn show_differences(
    oracle: &Oracle,
    grammar: &Grammar,
    options: &Options,
    tally: &Tally,
) -> anyhow::Result<()> {
    // The smallest are the quickest to make smaller still.
    let mut found: Vec<&(u64, Made, String)> = tally.different.iter().collect();
    found.sort_by_key(|(_, made, _)| made.case.to_string().len());
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    found.retain(|(_, _, why)| {
        let seen = alike.entry(shape(why)).or_default();
        *seen += 1;
        *seen <= ALIKE_MAX
    });
    found.truncate(SHOWN_MAX);
    let mut smallest: Vec<Made> = found.iter().map(|(_, made, _)| made.clone()).collect();
    if options.shrinks {
        smallest = shrink::smallest(oracle, grammar, smallest, &options.modes, options.jobs)?;
    }
    let verdicts = judge(oracle, &smallest, &options.modes, options.jobs)?;
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for (((seed, ..), made), (verdict, ours, siddhi)) in found.iter().zip(&smallest).zip(verdicts) {
        if !shown.insert(made.case["app"].to_string()) {
            continue;
        }
        let why = match verdict {
            Verdict::Different(why) => why,
            other => format!("no longer different: {other:?}"),
        };
        println!("\n--- seed {seed}: {why}");
        print_case(&made.case);
        println!("siddhi: {}", outputs(&siddhi));
        println!("here:   {}", outputs(&ours));
        if let Some(folder) = &options.write {
            std::fs::create_dir_all(folder)?;
            let name = format!("seed {seed}");
            match write_test(&name, &[], &made.case, &siddhi) {
                Ok(text) => std::fs::write(folder.join(format!("seed_{seed}.test")), text)?,
                Err(message) => println!("not written: {message}"),
            }
        }
    }
    Ok(())
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
