//! What the test command takes of a set that is too large for it: a part that moves with the commit.
//!
//! Promises: one commit always takes the same part, on every machine; the parts of a set share
//! nothing and together are the whole, so that all of it is run after some commits.

use std::io;
use std::process::Command;

/// Replaces the commit: a run elsewhere is repeated with the value that it printed.
const VARIABLE: &str = "HEADWATER_SAMPLE";

/// The test command runs one in so many of the tests that take long.
const TEST_PARTS: u64 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// A commit, or what stands in [`VARIABLE`].
    name: String,
}

impl Sample {
    /// The sample that [`VARIABLE`] names; without it everything is run.
    pub fn asked_for() -> Option<Sample> {
        let name = std::env::var(VARIABLE).ok()?;
        Some(Sample { name })
    }

    /// The sample of the commit that is checked out.
    ///
    /// # Errors
    /// If git does not know the commit and [`VARIABLE`] is not set.
    pub fn of_commit() -> io::Result<Sample> {
        if let Some(sample) = Sample::asked_for() {
            return Ok(sample);
        }
        let output = Command::new("git").args(["rev-parse", "HEAD"]).output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!(
                "git names no commit to take the sample from: set {VARIABLE}"
            )));
        }
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Sample { name })
    }

    /// Whether this is one of the one in `parts` that the sample takes.
    pub fn takes(&self, item: &str, parts: u64) -> bool {
        (fnv(item) % parts + fnv(&self.name) % parts).is_multiple_of(parts)
    }

    /// Where chance begins in a run of this sample.
    pub fn seed(&self) -> u32 {
        (fnv(&self.name) >> 32) as u32
    }

    /// What is run of what, and how to run it again or in full, as a line.
    pub fn line(&self, what: &str) -> String {
        format!(
            "sample: {what}; again with {VARIABLE}={}, all with cargo xtask long",
            self.name
        )
    }
}

/// Is a test that takes long run, or left to another commit's sample? Then it says so.
pub fn is_due(test: &str) -> bool {
    let is_due = Sample::asked_for().is_none_or(|sample| sample.takes(test, TEST_PARTS));
    if !is_due {
        eprintln!("{test} is not in the sample of this commit");
    }
    is_due
}

/// The hash of Fowler, Noll and Vo: the same with every version of Rust.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str) -> Sample {
        Sample { name: name.into() }
    }

    #[test]
    fn the_samples_of_many_commits_are_the_whole() {
        let commits: Vec<Sample> = (0..60).map(|n| sample(&format!("commit {n}"))).collect();
        let items: Vec<String> = (0..500).map(|n| format!("case_{n}")).collect();
        for item in &items {
            assert!(commits.iter().any(|c| c.takes(item, 4)), "{item}");
        }
        let taken = items.iter().filter(|i| commits[0].takes(i, 4)).count();
        assert!((80..170).contains(&taken), "a quarter, not {taken} of 500");
    }

    #[test]
    fn a_commit_takes_the_same_each_time() {
        let (one, other) = (sample("abc"), sample("abc"));
        assert!((0..99).all(|n| one.takes(&n.to_string(), 7) == other.takes(&n.to_string(), 7)));
    }
}
