//! Makes differing cases smaller: all of them at once, so that each round asks Siddhi only once.

use std::collections::HashSet;

use testkit::mode::Mode;

use super::choices::Choices;
use super::engines::{Verdict, judge};
use super::grammar::Grammar;
use super::maker::{Made, make};
use crate::oracle::Oracle;

/// Smaller cases that are tried of each in one round.
const TRIED_MAX: usize = 80;

const ROUNDS_MAX: usize = 14;

/// The smallest case found for each that still differs.
pub fn smallest(
    oracle: &Oracle,
    grammar: &Grammar,
    mut cases: Vec<Made>,
    modes: &[Mode],
    jobs: usize,
) -> anyhow::Result<Vec<Made>> {
    let mut seen: Vec<HashSet<String>> = cases
        .iter()
        .map(|made| HashSet::from([key(made)]))
        .collect();
    for _ in 0..ROUNDS_MAX {
        let mut tried: Vec<(usize, Made)> = Vec::new();
        for (index, made) in cases.iter().enumerate() {
            let size = size(made);
            let mut of_this = 0;
            for choices in made.recording.smaller() {
                let smaller = make(grammar, Choices::replaying(choices));
                if self::size(&smaller) < size && seen[index].insert(key(&smaller)) {
                    tried.push((index, smaller));
                    of_this += 1;
                    if of_this == TRIED_MAX {
                        break;
                    }
                }
            }
        }
        if tried.is_empty() {
            break;
        }
        let all: Vec<Made> = tried.iter().map(|(_, made)| made.clone()).collect();
        let verdicts = judge(oracle, &all, modes, jobs)?;
        for ((index, made), (verdict, ..)) in tried.into_iter().zip(verdicts) {
            let differs =
                matches!(verdict, Verdict::Different(_)) && super::excuse(&made.case).is_none();
            if differs && size(&made) < size(&cases[index]) {
                cases[index] = made;
            }
        }
    }
    Ok(cases)
}

/// Length of what a reader has to read, then the numbers in it.
fn size(made: &Made) -> (usize, u64) {
    let weight = made.recording.choices.iter().map(|c| u64::from(*c)).sum();
    (
        made.case["app"].as_str().map_or(0, str::len) + made.case["steps"].to_string().len(),
        weight,
    )
}

fn key(made: &Made) -> String {
    format!("{}{}", made.case["app"], made.case["steps"])
}
