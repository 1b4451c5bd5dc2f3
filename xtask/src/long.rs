//! `cargo xtask long [PART…]`: all that the test command is too short for, and in whole that of which
//! it runs a sample.
//!
//! Each part can be run alone. What needs a tool that is not installed is skipped, and the table at
//! the end says so. Miri and fuzzing need the nightly toolchain; fuzzing also `cargo install cargo-fuzz`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use crate::cargo::cargo;
use crate::tidy::metadata::Metadata;

/// Seconds for each fuzz target unless `--seconds` says otherwise.
const FUZZ_SECONDS: u64 = 600;

/// The package whose features are built one by one.
const PACKAGE: &str = "headwater";

struct Part {
    name: &'static str,
    about: &'static str,
    /// What is run, or why nothing can be.
    steps: fn(&Options) -> anyhow::Result<Steps>,
}

enum Steps {
    Run(Vec<Step>),
    Skip(String),
}

struct Step {
    name: String,
    command: Command,
}

struct Options {
    fuzz_seconds: u64,
}

const PARTS: &[Part] = &[
    Part {
        name: "differential",
        about: "generated cases 0..300 in six modes, here and on Siddhi",
        steps: differential,
    },
    Part {
        name: "faults",
        about: "all faults",
        steps: faults,
    },
    Part {
        name: "tests",
        about: "every integration test, long ones too",
        steps: tests,
    },
    Part {
        name: "schemathesis",
        about: "requests made from the OpenAPI document, to a server without users and with them",
        steps: schemathesis,
    },
    Part {
        name: "autobahn",
        about: "the Autobahn test suite against the gateway's WebSocket, its proxy and our client",
        steps: autobahn,
    },
    Part {
        name: "packages",
        about: "the files of a release: built, installed, started, upgraded",
        steps: packages,
    },
    Part {
        name: "connectors",
        about: "every case of every connector on real servers",
        steps: connectors,
    },
    Part {
        name: "features",
        about: "each feature of the binary alone, and none",
        steps: features,
    },
    Part {
        name: "deny",
        about: "licences and bans by cargo-deny",
        steps: deny,
    },
    Part {
        name: "miri",
        about: "the columns under Miri",
        steps: miri,
    },
    Part {
        name: "fuzz",
        about: "every fuzz target",
        steps: fuzz,
    },
];

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let mut options = Options {
        fuzz_seconds: FUZZ_SECONDS,
    };
    let mut chosen: Vec<&Part> = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--seconds" => {
                let seconds = rest.next().context("--seconds needs a number")?;
                options.fuzz_seconds = seconds.parse().context("--seconds needs a number")?;
            }
            "--list" => {
                for part in PARTS {
                    println!("  {:<14}{}", part.name, part.about);
                }
                return Ok(true);
            }
            name => match PARTS.iter().find(|part| part.name == name) {
                Some(part) => chosen.push(part),
                None => bail!(
                    "no part '{name}'; usage: cargo xtask long [PART…] [--seconds N] [--list]"
                ),
            },
        }
    }
    if chosen.is_empty() {
        chosen = PARTS.iter().collect();
    }
    let mut rows: Vec<Row> = Vec::new();
    for part in chosen {
        println!("\n== {}: {}", part.name, part.about);
        play(part, &options, &mut rows);
    }
    Ok(print_table(&rows))
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

struct Row {
    name: String,
    outcome: Outcome,
    seconds: f64,
}

/// Runs a part; each of its steps is a row.
fn play(part: &Part, options: &Options, rows: &mut Vec<Row>) {
    let mut row = |name: String, outcome, began: Instant| {
        rows.push(Row {
            name,
            outcome,
            seconds: began.elapsed().as_secs_f64(),
        });
    };
    let began = Instant::now();
    let steps = match (part.steps)(options) {
        Ok(Steps::Run(steps)) => steps,
        Ok(Steps::Skip(why)) => return row(part.name.into(), Outcome::Skipped(why), began),
        Err(error) => {
            let why = format!("{error:#}");
            return row(part.name.into(), Outcome::Failed(why), began);
        }
    };
    for mut step in steps {
        let began = Instant::now();
        let outcome = match step.command.status() {
            Ok(status) if status.success() => Outcome::Passed,
            Ok(status) => Outcome::Failed(status.to_string()),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        let name = match step.name.as_str() {
            "" => part.name.to_owned(),
            step => format!("{} {step}", part.name),
        };
        row(name, outcome, began);
    }
}

/// Whether nothing failed.
fn print_table(rows: &[Row]) -> bool {
    println!("\n{:<42}{:>9}  result", "part", "seconds");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for row in rows {
        let result = match &row.outcome {
            Outcome::Passed => {
                passed += 1;
                "passed".to_owned()
            }
            Outcome::Failed(why) => {
                failed += 1;
                format!("FAILED: {why}")
            }
            Outcome::Skipped(why) => {
                skipped += 1;
                format!("skipped: {why}")
            }
        };
        println!("{:<42}{:>9.1}  {result}", row.name, row.seconds);
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    failed == 0
}

fn one(command: Command) -> Steps {
    Steps::Run(vec![Step {
        name: String::new(),
        command,
    }])
}

/// Another subcommand of this program.
fn xtask(args: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args);
    Ok(command)
}

fn answers(program: &str, arg: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(arg).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

// ---- the parts ----

/// Nothing, or why Siddhi cannot be asked.
fn siddhi_missing() -> Option<String> {
    if crate::shared("oracle").is_none() {
        return Some("no folder ../shared/oracle".to_owned());
    }
    let missing = ["java", "mvn"]
        .into_iter()
        .find(|p| !answers(p, "-version"));
    missing.map(|program| format!("'{program}' is not installed"))
}

fn differential(_: &Options) -> anyhow::Result<Steps> {
    Ok(match siddhi_missing() {
        Some(why) => Steps::Skip(why),
        None => one(xtask(&["differential", "--seeds", "0..300"])?),
    })
}

fn faults(_: &Options) -> anyhow::Result<Steps> {
    Ok(one(xtask(&["faults"])?))
}

fn tests(_: &Options) -> anyhow::Result<Steps> {
    let mut command = cargo(&["test", "--workspace", "--test", "it", "--quiet"]);
    command.env_remove("HEADWATER_SAMPLE");
    Ok(one(command))
}

fn schemathesis(_: &Options) -> anyhow::Result<Steps> {
    if !answers("python3", "--version") {
        return Ok(Steps::Skip("'python3' is not installed".into()));
    }
    Ok(one(xtask(&["schemathesis"])?))
}

fn autobahn(_: &Options) -> anyhow::Result<Steps> {
    if !crate::gateway::has_autobahn() {
        return Ok(Steps::Skip("Autobahn needs CPython 2.7".into()));
    }
    Ok(one(xtask(&["gateway", "autobahn"])?))
}

fn packages(_: &Options) -> anyhow::Result<Steps> {
    Ok(one(xtask(&["packages"])?))
}

fn connectors(_: &Options) -> anyhow::Result<Steps> {
    let mut command = xtask(&["connectors"])?;
    command.env_remove("HEADWATER_SAMPLE");
    Ok(one(command))
}

fn features(_: &Options) -> anyhow::Result<Steps> {
    let metadata = Metadata::read()?;
    let package = metadata.package(PACKAGE);
    let package = package.with_context(|| format!("no package {PACKAGE}"))?;
    let check = |features: &str| {
        let mut command = cargo(&["check", "--quiet", "--package", PACKAGE]);
        command.args(["--no-default-features", "--features", features]);
        command
    };
    let mut steps = vec![Step {
        name: "none".into(),
        command: check(""),
    }];
    // What puts others together is what the test command builds.
    let alone = package
        .features
        .iter()
        .filter(|name| *name != "default" && *name != "full");
    steps.extend(alone.map(|name| Step {
        name: name.clone(),
        command: check(name),
    }));
    Ok(Steps::Run(steps))
}

fn deny(_: &Options) -> anyhow::Result<Steps> {
    if !answers("cargo-deny", "--version") {
        let why = "cargo-deny is not installed; `cargo xtask tidy licences` reads the same list";
        return Ok(Steps::Skip(why.into()));
    }
    // Advisories need a database from the network: whoever has it asks for them by hand.
    Ok(one(cargo(&[
        "deny",
        "--offline",
        "check",
        "licenses",
        "bans",
    ])))
}

fn miri(_: &Options) -> anyhow::Result<Steps> {
    if !has_nightly() {
        return Ok(Steps::Skip("the nightly toolchain is not installed".into()));
    }
    Ok(one(cargo(&[
        "+nightly",
        "miri",
        "test",
        "-p",
        "headwater-event",
    ])))
}

fn fuzz(options: &Options) -> anyhow::Result<Steps> {
    if !has_nightly() {
        return Ok(Steps::Skip("the nightly toolchain is not installed".into()));
    }
    if !answers("cargo-fuzz", "--version") {
        return Ok(Steps::Skip("cargo-fuzz is not installed".into()));
    }
    let mut steps = vec![Step {
        name: "first inputs".into(),
        command: in_fuzz(&["run", "--release", "--bin", "seeds"]),
    }];
    for target in fuzz_targets()? {
        let time = format!("-max_total_time={}", options.fuzz_seconds);
        let mut command = in_fuzz(&["+nightly", "fuzz", "run", &target, "--", &time]);
        command.args(["-max_len=16384", "-timeout=10", "-print_final_stats=1"]);
        steps.push(Step {
            name: format!("{target} for {} s", options.fuzz_seconds),
            command,
        });
    }
    Ok(Steps::Run(steps))
}

fn has_nightly() -> bool {
    let output = Command::new("rustup").args(["toolchain", "list"]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("nightly"))
}

/// Fuzzing is a workspace of its own.
fn in_fuzz(args: &[&str]) -> Command {
    let mut command = cargo(args);
    command.current_dir("fuzz");
    command
}

fn fuzz_targets() -> anyhow::Result<Vec<String>> {
    let folder = Path::new("fuzz/fuzz_targets");
    let mut names: Vec<String> = std::fs::read_dir(folder)?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some(path.file_stem()?.to_string_lossy().into_owned())
        })
        .collect();
    names.sort();
    ensure!(!names.is_empty(), "no target in {}", folder.display());
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_among_the_rows_fails_the_run() {
        let row = |outcome| Row {
            name: "x".into(),
            outcome,
            seconds: 0.0,
        };
        let skipped = || row(Outcome::Skipped("no java".into()));
        assert!(print_table(&[row(Outcome::Passed), skipped()]));
        assert!(!print_table(&[
            row(Outcome::Failed("exit 1".into())),
            skipped()
        ]));
    }

    #[test]
    fn a_part_that_is_not_known_is_refused() {
        let error = run(&["nothing".into()]).unwrap_err();
        assert!(error.to_string().contains("no part 'nothing'"));
    }
}
