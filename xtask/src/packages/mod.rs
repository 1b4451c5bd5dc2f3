//! `cargo xtask packages [PART…] [--binary FILE]`: makes the files of a release, installs each where
//! nothing else is, and starts what it installed.
//!
//! What needs a tool that is not here is skipped, and said. Part `unit` takes a second, and is in the
//! test command; `cargo xtask long packages` runs all parts with the program that is published.

mod chart;
mod container;
mod deb;
mod materials;
mod root;
mod trial;
mod unit;
mod wheel;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::cargo::target_folder;
use crate::dist::Release;

/// What became of a part.
pub enum Outcome {
    Passed,
    Skipped(String),
}

/// A part, its help, and what it runs.
type Part = (
    &'static str,
    &'static str,
    fn(&Release) -> anyhow::Result<Outcome>,
);

const PARTS: &[Part] = &[
    (
        "unit",
        "the unit as systemd-analyze judges it, and the words that it starts the program with",
        deb::unit,
    ),
    ("lint", "the Debian package as lintian judges it", deb::lint),
    (
        "deb",
        "installed, run, upgraded, removed and purged in a clean Debian",
        deb::installed,
    ),
    ("wheel", "installed by pip, and run", wheel::installed),
    (
        "container",
        "its digests, and the image run in its own root",
        container::run,
    ),
    (
        "sbom",
        "names all that is linked, as CycloneDX asks",
        materials::judged,
    ),
    ("checksums", "as sha256sum checks them", materials::summed),
    ("helm", "linted and rendered by helm", chart::judged),
    (
        "trial",
        "an operator's day: a second app, a broker that dies, an upgrade, a backup restored elsewhere",
        trial::run,
    ),
    (
        "again",
        "the program built once more, the same byte for byte",
        materials::again,
    ),
];

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let mut chosen: Vec<&Part> = Vec::new();
    let mut program = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--binary" => {
                program = Some(PathBuf::from(rest.next().context("--binary needs a file")?))
            }
            "--list" => {
                PARTS
                    .iter()
                    .for_each(|(name, help, _)| println!("  {name:<12}{help}"));
                return Ok(true);
            }
            name => match PARTS.iter().find(|(part, ..)| *part == name) {
                Some(part) => chosen.push(part),
                None => bail!(
                    "no part '{name}'; usage: cargo xtask packages [PART…] [--binary FILE] \
                     [--list]"
                ),
            },
        }
    }
    if chosen.is_empty() {
        chosen = PARTS.iter().collect();
    }
    let out = target_folder().join("packages-tested");
    if out.is_dir() {
        std::fs::remove_dir_all(&out)?;
    }
    let release = Release::new(&out, program.as_deref())?;
    let mut failed = 0;
    for (name, help, play) in chosen {
        println!("== {name}: {help}");
        let began = Instant::now();
        let outcome = match play(&release) {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(error) => {
                failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        println!("{name}: {outcome} ({:.1} s)", began.elapsed().as_secs_f64());
    }
    Ok(failed == 0)
}
