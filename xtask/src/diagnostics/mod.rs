//! `cargo xtask diagnostics [--verbose]`: breaks apps in known places and looks at what is said.
//!
//! Two collections: apps of `tests/diagnostics` with their expectations in comments, and changes by
//! a seeded generator to the published apps beside the repository, where those are there. A fault is
//! found when an error stands on its line; its cause is right when that error has the right kind and
//! names what is wrong.

mod mutate;
mod own;
mod sites;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use check::Catalog;
use check::{CheckConfig, check};
use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::source::LineIndex;

use mutate::{Mutation, Random};

/// The generator starts from here: the same faults every time.
const SEED: u64 = 5_130;
/// Faults by each mutator.
const EACH_MAX: usize = 16;
/// Apps with three faults at once.
const TRIPLES: usize = 60;
/// Apps looked at for three places.
const TRIES_MAX: usize = 1_000;
/// Apps with random damage, looked at for panics and hangs only.
const DAMAGED: usize = 600;
/// A check that takes longer hangs.
const SECONDS_MAX: u64 = 10;

const LINE_PERCENT_MIN: usize = 95;
const CAUSE_PERCENT_MIN: usize = 80;
const TRIPLE_PERCENT_MIN: usize = 80;

/// One fault of an app: where it is and how it must be named.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Lines that are right.
    pub lines: Vec<u32>,
    /// Empty: any kind.
    pub kinds: Vec<Kind>,
    /// One of them must be said; empty: anything.
    pub words: Vec<String>,
    /// A warning will do.
    pub warning: bool,
}

/// How one fault was reported.
#[derive(Clone, Copy, Debug)]
struct Finding {
    line: bool,
    cause: bool,
}

#[derive(Default)]
struct Tally {
    faults: usize,
    lines: usize,
    causes: usize,
    /// Errors on lines where no fault is.
    extra: usize,
}

/// What became of one app.
enum Outcome {
    Reported(Vec<(Diagnostic, u32)>),
    Panicked,
    Hung,
}

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let is_verbose = match args {
        [] => false,
        [flag] if flag == "--verbose" => true,
        _ => bail!("usage: cargo xtask diagnostics [--verbose]"),
    };
    let mut bench = Bench {
        is_verbose,
        ..Bench::default()
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    bench.own_apps(&root.join("tests/diagnostics"))?;
    match shared_apps()? {
        Some(apps) => bench.mutations(&apps),
        None => eprintln!("skipped: no published apps beside the repository"),
    }
    Ok(bench.report())
}

/// The published apps that have no fault of their own: name and text.
fn shared_apps() -> anyhow::Result<Option<Vec<(String, String)>>> {
    let Some(folder) = crate::shared("apps") else {
        return Ok(None);
    };
    let mut apps = Vec::new();
    for entry in fs::read_dir(folder).context("cannot list the published apps")? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        apps.push((name, fs::read_to_string(&path)?));
    }
    let real = crate::shared("realapps").map(|folder| folder.join("apps.jsonl"));
    let real = real.and_then(|path| fs::read_to_string(path).ok());
    let real = real.unwrap_or_default();
    for line in real.lines() {
        let app: serde_json::Value = serde_json::from_str(line)?;
        let text = |key: &str| app[key].as_str().unwrap_or_default().to_owned();
        apps.push((text("name"), text("text")));
    }
    apps.sort();
    let catalog = crate::catalog();
    apps.retain(|(_, text)| {
        findings(text, &catalog)
            .iter()
            .all(|d| d.severity == Severity::Warning)
    });
    Ok(Some(apps))
}

/// Everything that parser and checker say about an app.
fn findings(text: &str, catalog: &Catalog) -> Vec<Diagnostic> {
    let parsed = lang::parse(text);
    let config = CheckConfig {
        syntax_faults: parsed.diagnostics.iter().map(|d| d.span).collect(),
        ..CheckConfig::default()
    };
    let checked = check(&parsed.app, catalog, &config);
    parsed
        .diagnostics
        .into_iter()
        .chain(checked.diagnostics)
        .collect()
}

/// Checks an app on a thread of its own, so that a panic or a hang of one is no end of all.
fn judge(text: &str) -> Outcome {
    let (sender, receiver) = mpsc::sync_channel(1);
    let text = text.to_owned();
    let worker = thread::spawn(move || {
        let catalog = crate::catalog();
        let lines = LineIndex::new(&text);
        let found: Vec<(Diagnostic, u32)> = findings(&text, &catalog)
            .into_iter()
            .map(|d| {
                let line = lines.line(d.span.start);
                (d, line)
            })
            .collect();
        // The receiver is gone only when this took too long.
        drop(sender.send(found));
    });
    match receiver.recv_timeout(Duration::from_secs(SECONDS_MAX)) {
        Ok(found) => Outcome::Reported(found),
        Err(mpsc::RecvTimeoutError::Timeout) => Outcome::Hung,
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            drop(worker.join());
            Outcome::Panicked
        }
    }
}

fn look_for(expected: &Expected, found: &[(Diagnostic, u32)]) -> Finding {
    let on_line: Vec<&Diagnostic> = found
        .iter()
        .filter(|(d, line)| {
            expected.lines.contains(line) && (expected.warning || d.severity == Severity::Error)
        })
        .map(|(d, _)| d)
        .collect();
    let is_cause = |d: &&Diagnostic| {
        let said = format!(
            "{} {} {}",
            d.message,
            d.label,
            d.help.as_deref().unwrap_or("")
        )
        .to_lowercase();
        (expected.kinds.is_empty() || expected.kinds.contains(&d.kind))
            && (expected.words.is_empty() || expected.words.iter().any(|w| said.contains(w)))
    };
    Finding {
        line: !on_line.is_empty(),
        cause: on_line.iter().any(is_cause),
    }
}

#[derive(Default)]
struct Bench {
    is_verbose: bool,
    /// By collection and mutator, in the order of the report.
    tallies: BTreeMap<(u8, &'static str), Tally>,
    triples: usize,
    triples_right: usize,
    panics: usize,
    hangs: usize,
    looked_at: usize,
}

impl Bench {
    fn own_apps(&mut self, folder: &Path) -> anyhow::Result<()> {
        for app in own::read(folder)? {
            let expected: Vec<(&'static str, Expected)> = app
                .expected
                .into_iter()
                .map(|e| ("apps of our own", e))
                .collect();
            self.app(0, &app.name, &app.text, &expected);
        }
        Ok(())
    }

    fn mutations(&mut self, apps: &[(String, String)]) {
        let catalog = crate::catalog();
        let mut random = Random::new(SEED);
        let mut by_mutator: BTreeMap<&'static str, Vec<(usize, Mutation)>> = BTreeMap::new();
        let mut of_app: Vec<Vec<Mutation>> = Vec::new();
        for (index, (_, text)) in apps.iter().enumerate() {
            let all = mutate::candidates(&lang::parse(text).app, text, &catalog, &mut random);
            for mutation in &all {
                by_mutator
                    .entry(mutation.mutator)
                    .or_default()
                    .push((index, mutation.clone()));
            }
            of_app.push(all);
        }
        for candidates in by_mutator.values_mut() {
            random.shuffle(candidates);
            for (index, mutation) in candidates.iter().take(EACH_MAX) {
                let (name, text) = &apps[*index];
                let (broken, expected) = broken_by(text, std::slice::from_ref(mutation));
                self.app(1, name, &broken, &expected);
            }
        }
        for _ in 0..TRIES_MAX {
            if self.triples >= TRIPLES {
                break;
            }
            let index = random.below(apps.len());
            let (name, text) = &apps[index];
            let three = apart(text, &of_app[index], &mut random);
            if let [_, _, _] = three.as_slice() {
                let (broken, expected) = broken_by(text, &three);
                self.app(2, name, &broken, &expected);
            }
        }
        for _ in 0..DAMAGED {
            let (_, text) = &apps[random.below(apps.len())];
            let damaged = damage(text, &mut random);
            self.count(&judge(&damaged), "damaged", &damaged);
        }
    }

    fn count(&mut self, outcome: &Outcome, name: &str, text: &str) {
        self.looked_at += 1;
        match outcome {
            Outcome::Reported(_) => return,
            Outcome::Panicked => self.panics += 1,
            Outcome::Hung => self.hangs += 1,
        }
        println!("panic or hang in {name}:\n{text}\n");
    }

    fn app(&mut self, group: u8, name: &str, text: &str, expected: &[(&'static str, Expected)]) {
        let outcome = judge(text);
        self.count(&outcome, name, text);
        let found = match outcome {
            Outcome::Reported(found) => found,
            Outcome::Panicked | Outcome::Hung => Vec::new(),
        };
        let mut all_right = true;
        for (mutator, fault) in expected {
            let finding = look_for(fault, &found);
            let tally = self.tallies.entry((group, mutator)).or_default();
            tally.faults += 1;
            tally.lines += usize::from(finding.line);
            tally.causes += usize::from(finding.cause);
            all_right &= finding.line && finding.cause;
            if self.is_verbose && !(finding.line && finding.cause) {
                show(name, text, mutator, fault, finding, &found);
            }
        }
        if let Some((mutator, _)) = expected.first() {
            let is_extra = |(d, line): &&(Diagnostic, u32)| {
                d.severity == Severity::Error
                    && !expected.iter().any(|(_, e)| e.lines.contains(line))
            };
            let extra = found.iter().filter(is_extra).count();
            self.tallies.entry((group, mutator)).or_default().extra += extra;
        }
        if expected.len() == 3 {
            self.triples += 1;
            self.triples_right += usize::from(all_right);
        }
    }

    /// Prints what was found; true if it is good enough.
    fn report(&self) -> bool {
        println!(
            "{:<28}{:>7}{:>7}{:>7}{:>7}",
            "", "faults", "line", "cause", "extra"
        );
        let mut sum = Tally::default();
        for ((group, mutator), tally) in &self.tallies {
            let title = match group {
                2 => format!("one of three: {mutator}"),
                _ => (*mutator).to_owned(),
            };
            let line = percent(tally.lines, tally.faults);
            let cause = percent(tally.causes, tally.faults);
            println!(
                "{title:<38}{:>7}{line:>6}%{cause:>6}%{:>7}",
                tally.faults, tally.extra
            );
            sum.faults += tally.faults;
            sum.lines += tally.lines;
            sum.causes += tally.causes;
        }
        let line = percent(sum.lines, sum.faults);
        let cause = percent(sum.causes, sum.faults);
        let triple = percent(self.triples_right, self.triples);
        println!(
            "right line {line}% (at least {LINE_PERCENT_MIN}), right cause {cause}% (at least \
             {CAUSE_PERCENT_MIN}) of {} faults",
            sum.faults
        );
        println!(
            "all three faults {triple}% (at least {TRIPLE_PERCENT_MIN}) of {} apps with three",
            self.triples
        );
        println!(
            "{} panics, {} hangs in {} apps",
            self.panics, self.hangs, self.looked_at
        );
        println!("{} passed, {} failed", sum.causes, sum.faults - sum.causes);
        line >= LINE_PERCENT_MIN
            && cause >= CAUSE_PERCENT_MIN
            && triple >= TRIPLE_PERCENT_MIN
            && self.panics == 0
            && self.hangs == 0
    }
}

/// Rounded down; all of nothing is all.
fn percent(part: usize, whole: usize) -> usize {
    (part * 100).checked_div(whole).unwrap_or(100)
}

/// The app with the faults in it, and what must be said. The mutations do not overlap.
fn broken_by(text: &str, mutations: &[Mutation]) -> (String, Vec<(&'static str, Expected)>) {
    let mut order: Vec<&Mutation> = mutations.iter().collect();
    order.sort_by_key(|m| m.span.start);
    let mut broken = String::new();
    let mut copied = 0;
    let mut blamed = Vec::new();
    for mutation in order {
        let start = mutation.span.start as usize;
        broken.push_str(&text[copied..start]);
        blamed.push((broken.len(), mutation));
        broken.push_str(&mutation.replacement);
        copied = mutation.span.end as usize;
    }
    broken.push_str(&text[copied..]);
    let lines = LineIndex::new(&broken);
    let expected = blamed
        .into_iter()
        .map(|(at, mutation)| {
            // What is to blame lies as far from the change in the new text as in the old one; only
            // other changes between the two could move it, and none has a line break.
            let offset = at as i64 + i64::from(mutation.blame) - i64::from(mutation.span.start);
            let line = lines.line(u32::try_from(offset.max(0)).unwrap_or(0));
            let mut right = vec![line];
            if mutation.next_line_too {
                right.extend(next_code_line(&broken, line));
            }
            let expected = Expected {
                lines: right,
                kinds: mutation.kinds.to_vec(),
                words: mutation.words.clone(),
                warning: mutation.warning,
            };
            (mutation.mutator, expected)
        })
        .collect();
    (broken, expected)
}

/// The next line with code, where what stands on this one ends there.
fn next_code_line(text: &str, line: u32) -> Option<u32> {
    let code = mutate::code_mask(text);
    let lines = LineIndex::new(text);
    (line + 1..=lines.lines()).find(|next| {
        let span = lines.line_span(text, *next);
        (span.start..span.end)
            .any(|at| code[at as usize] && !text.as_bytes()[at as usize].is_ascii_whitespace())
    })
}

/// Three mutations of different mutators in three statements, or fewer where there are not so many.
fn apart(text: &str, all: &[Mutation], random: &mut Random) -> Vec<Mutation> {
    let mut order: Vec<&Mutation> = all.iter().collect();
    random.shuffle(&mut order);
    let statement = |m: &Mutation| text[..(m.span.start as usize)].matches(';').count();
    let mut chosen: Vec<Mutation> = Vec::new();
    for mutation in order {
        let is_apart = chosen.iter().all(|c| {
            c.mutator != mutation.mutator
                && statement(c) != statement(mutation)
                && (c.span.end <= mutation.span.start || mutation.span.end <= c.span.start)
        });
        if is_apart {
            chosen.push(mutation.clone());
        }
        if chosen.len() == 3 {
            break;
        }
    }
    chosen
}

/// A text with some bytes taken out, doubled or exchanged, or cut short.
fn damage(text: &str, random: &mut Random) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(letters.len());
        match random.below(5) {
            0 => letters.truncate(at),
            1 => drop(letters.splice(at..(at + 8).min(letters.len()), [])),
            2 => letters.insert(
                at,
                ['(', ')', '\'', '"', '[', '{', '@', '#', ';', '<'][at % 10],
            ),
            3 => {
                let other = random.below(letters.len());
                letters.swap(at, other);
            }
            _ => {
                let end = (at + 40).min(letters.len());
                let copy = letters[at..end].to_vec();
                letters.splice(at..at, copy);
            }
        }
        if letters.is_empty() {
            break;
        }
    }
    letters.into_iter().collect()
}

fn show(
    name: &str,
    text: &str,
    mutator: &str,
    expected: &Expected,
    finding: Finding,
    found: &[(Diagnostic, u32)],
) {
    let lines = LineIndex::new(text);
    let first = expected.lines.first().copied().unwrap_or(1);
    println!(
        "{name}: {mutator}: line {:?} {}, cause {:?} {}",
        expected.lines,
        if finding.line { "right" } else { "WRONG" },
        expected.words,
        if finding.cause { "right" } else { "WRONG" },
    );
    println!("    | {}", lines.line_span(text, first).text(text));
    for (d, line) in found
        .iter()
        .filter(|(d, _)| d.severity == Severity::Error)
        .take(4)
    {
        println!(
            "    {line}: {} {} {} [{}]",
            d.code,
            d.kind.name(),
            d.message,
            d.label
        );
    }
}
