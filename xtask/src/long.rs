//! `cargo xtask long`: what the test command is too short for.
//!
//! Needs the nightly toolchain (with Miri) and `cargo install cargo-fuzz`; run by hand.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::cargo::cargo;

/// Seconds for each fuzz target unless `--seconds` says otherwise.
const FUZZ_SECONDS: u64 = 600;

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let seconds = match args {
        [] => FUZZ_SECONDS,
        [flag, seconds] if flag == "--seconds" => seconds.parse().context("--seconds N")?,
        _ => bail!("usage: cargo xtask long [--seconds N]"),
    };
    let mut done = Tally::default();
    done.check(
        "Miri on the columns",
        cargo(&["+nightly", "miri", "test", "-p", "headwater-event"]),
    );
    done.check(
        "first inputs of the fuzz targets",
        fuzz(&["run", "--release", "--bin", "seeds"]),
    );
    for target in fuzz_targets()? {
        let time = format!("-max_total_time={seconds}");
        let arguments = ["+nightly", "fuzz", "run", &target, "--", &time];
        let mut command = fuzz(&arguments);
        command.args(["-max_len=16384", "-timeout=10", "-print_final_stats=1"]);
        done.check(&format!("fuzz {target} for {seconds} s"), command);
    }
    println!("{} passed, {} failed", done.passed, done.failed);
    Ok(done.failed == 0)
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    fn check(&mut self, name: &str, mut command: Command) {
        let started = Instant::now();
        let is_good = command.status().is_ok_and(|status| status.success());
        if is_good {
            self.passed += 1
        } else {
            self.failed += 1
        }
        let word = if is_good { "passed" } else { "FAILED" };
        println!("{word}  {name} ({:.0} s)", started.elapsed().as_secs_f64());
    }
}

/// Fuzzing is a workspace of its own.
fn fuzz(args: &[&str]) -> Command {
    let mut command = cargo(args);
    command.current_dir("fuzz");
    command
}

fn fuzz_targets() -> anyhow::Result<Vec<String>> {
    let mut names: Vec<String> = std::fs::read_dir(Path::new("fuzz/fuzz_targets"))?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some(path.file_stem()?.to_string_lossy().into_owned())
        })
        .collect();
    names.sort();
    Ok(names)
}
