//! `cargo xtask faults`: breaks what surrounds a run and looks at what the run says and keeps; and kills
//! pairs of source and sink again and again, with a ledger of what became of each event.
//! `--promises` prints the tables of the documentation that are made from the pairs.
//!
//! Each fault gives a clear error with its place and a remedy, is counted, and leaves its neighbours
//! alone; nothing is lost. What a sink has is read back by its own client.

mod bench;
mod bytes;
mod calls;
mod chance;
mod clock;
mod flips;
mod input;
mod ledger;
mod listeners;
mod memory;
mod pairs;
mod slow;
mod state;
mod surroundings;

use std::time::Instant;

use anyhow::{Context as _, bail};

use bench::{Bench, Scale};
use pairs::PAIRS;
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
}

impl Options {
    fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options {
            name: None,
            seed: 1,
            kills: KILLS,
            scale: Scale::Short,
            is_promises: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--sample" => options.scale = Scale::Sample,
                "--long" => (options.scale, options.kills) = (Scale::Long, KILLS_LONG),
                "--promises" => options.is_promises = true,
                "--seed" => {
                    let seed = args.next().and_then(|seed| seed.parse().ok());
                    options.seed = seed.context("--seed needs a number")?;
                }
                flag if flag.starts_with("--") => {
                    bail!(
                        "usage: cargo xtask faults [CASE] [--seed N] [--long] | --sample | --promises"
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
        outcomes.push(tried(&bench, name, || fault(&bench))?);
    }
    for pair in pairs {
        let play = || pairs::play(&bench, pair, options.seed, options.kills);
        outcomes.push(tried(&bench, pair.name, play)?);
    }
    let passed = outcomes.iter().filter(|passed| **passed).count();
    println!("{passed} passed, {} failed", outcomes.len() - passed);
    Ok(passed == outcomes.len())
}

/// Whether a case passes; it begins with an empty folder.
fn tried(
    bench: &Bench,
    name: &str,
    case: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let started = Instant::now();
    bench.clean()?;
    match case() {
        Ok(()) => println!("passed  {name} ({:.1} s)", started.elapsed().as_secs_f64()),
        Err(error) => {
            println!("FAILED  {name}: {error:#}");
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// All Rust files below a folder, as one text.
    fn sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text.push_str(&std::fs::read_to_string(&path).expect("a source file"));
            }
        }
    }

    #[test]
    fn the_page_of_faults_names_cases_and_tests_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let page =
            std::fs::read_to_string(root.join("docs/internals/faults.md")).expect("it is there");
        let mut code = String::new();
        sources(&root.join("crates"), &mut code);
        let cases: Vec<&str> = FAULTS.iter().map(|(name, _)| *name).collect();
        let pairs = pairs::PAIRS.iter().map(|pair| pair.name);
        let cases: Vec<&str> = cases.into_iter().chain(pairs).collect();
        let mut named = 0;
        for quoted in page.split('`').skip(1).step_by(2) {
            if let Some(case) = quoted.strip_prefix("faults ") {
                assert!(case == "NAME" || cases.contains(&case), "no case '{case}'");
                named += 1;
                continue;
            }
            let test = quoted.rsplit("::").next().unwrap_or(quoted);
            // Cases of the kit are made by a macro, from the functions of these names.
            let is_test = quoted.contains("::") || test.matches('_').count() > 3;
            if is_test && !["crash", "changes"].contains(&test) {
                let is_there = [format!("fn {test}("), format!("fn {test}<")];
                assert!(
                    is_there.iter().any(|name| code.contains(name)),
                    "no test '{quoted}'"
                );
                named += 1;
            }
        }
        assert!(named > 60, "{named}");
    }
}
