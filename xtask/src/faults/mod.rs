//! `cargo xtask faults`: breaks what surrounds a run and looks at what the run says and keeps; and kills
//! pairs of source and sink again and again, with a ledger of what became of each event.
//! `--promises` prints the tables of the documentation that are made from the pairs. An ID of the page of
//! faults (`R06`; `R` and `S` for all) runs what its row names, tests as well; `--record` writes what came of
//! it to the page.
//!
//! Each fault gives a clear error with its place and a remedy, is counted, and leaves its neighbours
//! alone; nothing is lost. What a sink has is read back by its own client.

mod away;
mod bench;
mod bytes;
mod calls;
mod catalogue;
mod chance;
mod clock;
mod flips;
mod follower;
mod input;
mod ledger;
mod listeners;
mod memory;
mod pairs;
mod slow;
mod state;
mod stub;
mod surroundings;

use std::time::Instant;

use anyhow::{Context as _, bail};

use bench::{Bench, Scale};
use catalogue::{Part, Record, Records, Row};
use pairs::{PAIRS, Pair};
use testservers::sample::Sample;

/// With `--sample` one fault of so many is tried.
const SAMPLE_PARTS: u64 = 4;
/// And one pair of so many.
const SAMPLE_PAIRS: u64 = 8;

/// Kills of a pair, and with `--long`.
const KILLS: u64 = 3;
const KILLS_LONG: u64 = 30;

type Fault = (&'static str, fn(&Bench) -> anyhow::Result<()>);

/// In the order of the catalogue.
const FAULTS: &[Fault] = &[
    ("a line with too few columns", input::too_few_columns),
    ("a value of the wrong type", input::wrong_type),
    (
        "a file that ends in the middle of a line",
        input::torn_lines,
    ),
    (
        "an XML file that ends in the middle of a node",
        input::torn_xml,
    ),
    ("bytes of another encoding", input::other_encoding),
    ("a file in UTF-16", input::utf16),
    ("a line of 1 GB", input::huge_line),
    ("a folder that is missing", surroundings::missing_folder),
    (
        "a database that another process has locked",
        surroundings::locked_database,
    ),
    ("an insert that takes longer than a window", slow::insert),
    ("a file that takes long to read", slow::reading),
    ("a full disk, then room again", surroundings::full_disk),
    (
        "a file that may not grow (RLIMIT_FSIZE)",
        surroundings::file_size_limit,
    ),
    (
        "a target of a move that exists",
        surroundings::move_target_exists,
    ),
    ("the newest saved state is damaged", state::newest),
    ("all saved states are damaged", state::all),
    ("flips and cuts of every saved file", flips::all),
    ("killed at each system call", calls::killed),
    ("system calls that fail", calls::failed),
    ("jumps of the clock", clock::jumps),
    ("slow clients of each listener", listeners::slow_clients),
    (
        "no descriptors for each listener",
        listeners::no_descriptors,
    ),
    ("a Kafka broker that is away", away::kafka),
    ("a MariaDB that is away", away::mariadb),
    ("an HTTP receiver that is away", away::http),
    ("an MQTT broker that is away", away::mqtt),
    ("bytes of each size", bytes::each_size),
    ("large bodies of many clients", memory::large_bodies),
];

struct Options {
    name: Option<String>,
    seed: u64,
    kills: u64,
    scale: Scale,
    /// Only what the documentation promises is printed.
    is_promises: bool,
    /// What comes of rows and pairs is written down.
    is_recorded: bool,
}

impl Options {
    fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options {
            name: None,
            seed: 1,
            kills: KILLS,
            scale: Scale::Short,
            is_promises: false,
            is_recorded: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--sample" => options.scale = Scale::Sample,
                "--long" => (options.scale, options.kills) = (Scale::Long, KILLS_LONG),
                "--record" => options.is_recorded = true,
                "--promises" => options.is_promises = true,
                "--seed" => {
                    let seed = args.next().and_then(|seed| seed.parse().ok());
                    options.seed = seed.context("--seed needs a number")?;
                }
                flag if flag.starts_with("--") => {
                    bail!(
                        "usage: cargo xtask faults [CASE | ID] [--seed N] [--long] [--record] | --sample | --promises"
                    )
                }
                name => options.name = Some(name.to_lowercase()),
            }
        }
        Ok(options)
    }

    fn takes(&self, name: &str) -> bool {
        let wanted = self.name.as_ref();
        wanted.is_none_or(|wanted| name.to_lowercase().contains(wanted))
    }
}

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let options = Options::parse(args)?;
    if options.is_promises {
        println!("{}\n{}", pairs::matrix(), pairs::table());
        return Ok(true);
    }
    if options.name.as_deref().is_some_and(catalogue::is_id) {
        return run_rows(&options);
    }
    let is_sample = options.scale == Scale::Sample;
    let mut faults: Vec<&Fault> = FAULTS.iter().filter(|f| options.takes(f.0)).collect();
    let mut pairs: Vec<_> = PAIRS.iter().filter(|p| options.takes(p.name)).collect();
    if is_sample {
        let sample = Sample::of_commit()?;
        faults.retain(|(name, _)| sample.takes(name, SAMPLE_PARTS));
        pairs.retain(|pair| sample.takes(pair.name, SAMPLE_PAIRS));
        let count = faults.len() + pairs.len();
        let all = FAULTS.len() + PAIRS.len();
        println!("{}", sample.line(&format!("{count} of {all} faults")));
    }
    if faults.is_empty() && pairs.is_empty() && !is_sample {
        bail!("no case has this in its name");
    }
    let bench = Bench::new(options.scale)?;
    let mut outcomes = Vec::new();
    for (name, fault) in faults {
        outcomes.push(tried(&bench, name, &options, || fault(&bench))?);
    }
    for pair in pairs {
        outcomes.push(play(&bench, pair, &options)?);
    }
    let passed = outcomes.iter().filter(|passed| **passed).count();
    println!("{passed} passed, {} failed", outcomes.len() - passed);
    Ok(passed == outcomes.len())
}

fn play(bench: &Bench, pair: &Pair, options: &Options) -> anyhow::Result<bool> {
    let play = || pairs::play(bench, pair, options.seed, options.kills);
    tried(bench, pair.name, options, play)
}

/// Runs what the rows of an ID name, and says what came of each row.
fn run_rows(options: &Options) -> anyhow::Result<bool> {
    let wanted = options.name.as_deref().unwrap_or_default();
    let mut rows = catalogue::rows()?;
    rows.retain(|row| row.id.to_lowercase().starts_with(wanted));
    let bench = Bench::new(options.scale)?;
    let mut is_passed = true;
    for row in rows {
        let all = row.run_here().count();
        if all == 0 {
            println!("{}  nothing to run here", row.id);
            continue;
        }
        let passed = run_row(&bench, &row, options)?;
        println!("{}  {passed} of {all} passed", row.id);
        is_passed &= passed == all;
    }
    Ok(is_passed)
}

/// How many parts of a row pass.
fn run_row(bench: &Bench, row: &Row, options: &Options) -> anyhow::Result<usize> {
    let mut passed = catalogue::run_tests(row)?;
    for part in row.run_here() {
        let is_passed = match part {
            Part::EachPair => {
                let mut is_passed = true;
                for pair in PAIRS {
                    is_passed &= play(bench, pair, options)?;
                }
                is_passed
            }
            Part::Case(name) => match FAULTS.iter().find(|(case, _)| case == name) {
                Some((case, fault)) => tried(bench, case, options, || fault(bench))?,
                None => {
                    let pair = PAIRS.iter().find(|pair| pair.name == name);
                    let pair = pair.with_context(|| format!("there is no case '{name}'"))?;
                    play(bench, pair, options)?
                }
            },
            // Those of a row are run at once, above.
            Part::Test { .. } | Part::Long(_) => false,
        };
        passed += usize::from(is_passed);
    }
    Ok(passed)
}

/// Whether a case passes; it begins with an empty folder.
fn tried(
    bench: &Bench,
    name: &str,
    options: &Options,
    case: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let started = Instant::now();
    bench.clean()?;
    let outcome = case();
    let (took, is_passed) = (started.elapsed(), outcome.is_ok());
    let is_skipped = is_passed && bench.was_skipped();
    match outcome {
        Ok(()) if is_skipped => println!("skipped {name}"),
        Ok(()) => println!("passed  {name} ({:.1} s)", took.as_secs_f64()),
        Err(error) => println!("FAILED  {name}: {error:#}"),
    }
    if options.is_recorded && !is_skipped {
        let figures = std::mem::take(&mut *bench.figures());
        let record = Record::now(is_passed, took, &figures)?;
        let pairs: Vec<&str> = PAIRS.iter().map(|pair| pair.name).collect();
        catalogue::write(Records::from([(name.to_owned(), record)]), &pairs)?;
    }
    Ok(is_passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_faults_names_cases_that_exist() {
        let rows = catalogue::rows().expect("its tests exist");
        let mut named = 0;
        for part in rows.iter().flat_map(|row| &row.parts) {
            if let Part::Case(name) = part {
                let is_case = FAULTS.iter().any(|(case, _)| case == name)
                    || PAIRS.iter().any(|pair| pair.name == name);
                assert!(is_case, "no case '{name}'");
            }
            named += 1;
        }
        assert!(named > 60, "{named}");
    }
}
