//! `cargo xtask dist [--part NAME]… [--out DIR] [--binary FILE]`: the files of a release.
//!
//! All of them carry the same program, built once. The same commit, toolchain and folder give the same
//! bytes: what a file says of time is the time of the commit (`SOURCE_DATE_EPOCH` overrides it).

mod archive;
pub mod binary;
pub mod container;
pub mod deb;
pub mod files;
pub mod helm;
mod parts;
pub mod sbom;
mod share;
pub mod wheel;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use self::binary::Binary;
use crate::cargo::target_folder;

/// A kind of file, its help, and what writes it and names it.
type Part = (
    &'static str,
    &'static str,
    fn(&Release) -> anyhow::Result<PathBuf>,
);

/// In the order in which they are made.
const PARTS: &[Part] = &[
    (
        "binary",
        "the program with its manual, as .tar.gz",
        archive::make,
    ),
    ("deb", "a Debian package with a systemd service", deb::make),
    (
        "container",
        "an image, as an archive of an OCI layout",
        container::make,
    ),
    ("helm", "a chart for Kubernetes", helm::make),
    (
        "wheel",
        "a wheel for PyPI that carries the program",
        wheel::make,
    ),
    (
        "sbom",
        "what the program is made of (CycloneDX)",
        sbom::make,
    ),
    ("checksums", "SHA-256 of all files in the folder", checksums),
];

/// What all parts of a release have in common.
pub struct Release {
    pub version: String,
    /// Time of everything in it, in seconds since 1970.
    pub epoch: u64,
    /// Where its files go.
    pub out: PathBuf,
    pub binary: Binary,
    /// Built here to be published; else it is whatever program was named, and is packed quickly.
    pub is_published: bool,
}

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let (mut chosen, mut out, mut program) = (Vec::new(), None, None);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--part" => chosen.push(part(value()?)?),
            "--out" => out = Some(PathBuf::from(value()?)),
            "--binary" => program = Some(PathBuf::from(value()?)),
            "--list" => {
                PARTS
                    .iter()
                    .for_each(|(name, help, _)| println!("  {name:<12}{help}"));
                return Ok(true);
            }
            _ => {
                bail!("usage: cargo xtask dist [--part NAME]… [--out DIR] [--binary FILE] [--list]")
            }
        }
    }
    if chosen.is_empty() {
        chosen = PARTS.iter().collect();
    }
    let out = out.unwrap_or_else(|| target_folder().join("packages"));
    let release = Release::new(&out, program.as_deref())?;
    for (name, _, make) in chosen {
        let path = make(&release).with_context(|| format!("part '{name}'"))?;
        let bytes = std::fs::metadata(&path)?.len();
        println!("{bytes:>12}  {}", path.display());
    }
    Ok(true)
}

fn part(name: &str) -> anyhow::Result<&'static Part> {
    let found = PARTS.iter().find(|(part, ..)| *part == name);
    found.with_context(|| {
        let names: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
        format!("no part '{name}': write one of {}", names.join(", "))
    })
}

impl Release {
    /// Of the commit that is checked out. Without `program`, it is built now.
    pub fn new(out: &Path, program: Option<&Path>) -> anyhow::Result<Release> {
        std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        let epoch = epoch()?;
        let binary = match program {
            Some(program) => Binary::read(program)?,
            None => binary::build(epoch, &std::path::absolute(target_folder())?)?,
        };
        Ok(Release {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch,
            out: out.to_owned(),
            binary,
            is_published: program.is_none(),
        })
    }

    /// The features that its program was built with beside the default ones.
    pub fn features(&self) -> &'static [&'static str] {
        match self.is_published {
            true => &["vendored"],
            false => &[],
        }
    }

    /// From 0 to 9: a program that is only tried out is not worth the time.
    fn compression(&self) -> u32 {
        match self.is_published {
            true => 9,
            false => 1,
        }
    }

    /// The time of the release as `date` writes it in this format.
    fn date(&self, format: &str) -> anyhow::Result<String> {
        let at = format!("@{}", self.epoch);
        output(
            Command::new("date")
                .args(["-u", "-d", &at, format])
                .env("LC_ALL", "C"),
        )
    }

    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.out.join(name);
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

/// `SOURCE_DATE_EPOCH`, else the time of the commit.
fn epoch() -> anyhow::Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]))?,
    };
    text.trim()
        .parse()
        .with_context(|| format!("'{text}' is no time in seconds since 1970"))
}

/// What a command prints, without the white space at its end.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} fails: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// `amd64` and the like.
fn debian_architecture() -> anyhow::Result<String> {
    output(Command::new("dpkg").arg("--print-architecture"))
}

/// One line for each file in the folder, as `sha256sum --check` reads them.
pub fn checksums(release: &Release) -> anyhow::Result<PathBuf> {
    const NAME: &str = "SHA256SUMS";
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&release.out)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && name != NAME {
            names.push(name);
        }
    }
    names.sort();
    let mut text = String::new();
    for name in names {
        let sum = files::sha256_of(&release.out.join(&name))?;
        text.push_str(&format!("{sum}  {name}\n"));
    }
    release.write(NAME, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_not_known_is_refused_with_those_that_are() {
        let error = run(&["--part".into(), "rpm".into()])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no part 'rpm': write one of binary, deb"),
            "{error}"
        );
        assert!(
            run(&["--rpm".into()])
                .unwrap_err()
                .to_string()
                .contains("usage:")
        );
    }
}
