//! Makes a differing case smaller: pieces of its recording are left out, then its choices are
//! lowered, as long as what is left still differs.
//!
//! A stretch of the recording is a step, an event, a query, a definition, a select item, a clause
//! or an expression, so that leaving one out leaves out just that. The boldest tries come first;
//! after each that holds, it begins anew with what is left.

use std::collections::HashSet;

use super::choices::Choices;
use super::grammar::Grammar;
use super::maker::{Made, make};

/// Tries for one case.
const TRIED_MAX: usize = 1500;

/// The smallest case found that still `differs`.
pub fn smallest(
    grammar: &Grammar,
    case: Made,
    mut differs: impl FnMut(&Made) -> anyhow::Result<bool>,
) -> anyhow::Result<Made> {
    let mut seen = HashSet::from([key(&case)]);
    let mut best = case;
    let mut tried = 0;
    'anew: loop {
        for choices in best.recording.smaller() {
            let smaller = make(grammar, Choices::replaying(choices));
            if size(&smaller) >= size(&best) || !seen.insert(key(&smaller)) {
                continue;
            }
            tried += 1;
            if tried > TRIED_MAX {
                return Ok(best);
            }
            if differs(&smaller)? {
                best = smaller;
                continue 'anew;
            }
        }
        return Ok(best);
    }
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

#[cfg(test)]
mod tests {
    use super::super::worker::ours_here;
    use super::*;
    use serde_json::Value as Json;

    /// An engine that loses what queries give as expired, beside one that does not.
    fn differs(made: &Made) -> bool {
        let result = ours_here(&made.case);
        let queries = result["queries"].as_object();
        queries.into_iter().flatten().any(|(_, chunks)| {
            let chunks = chunks.as_array().into_iter().flatten();
            chunks
                .filter_map(|chunk| chunk["out"].as_array())
                .any(|out| !out.is_empty())
        })
    }

    #[test]
    fn a_planted_difference_becomes_a_few_lines() {
        let grammar = Grammar::load(None, false).unwrap();
        let planted: Vec<Made> = (0..2000)
            .map(|seed| make(&grammar, Choices::of_seed(seed)))
            .filter(|made| made.case["app"].as_str().unwrap().len() > 500)
            .filter(differs)
            .take(3)
            .collect();
        assert_eq!(planted.len(), 3);
        for made in planted {
            let small = smallest(&grammar, made, |made| Ok(differs(made))).unwrap();
            assert!(differs(&small));
            let app = small.case["app"].as_str().unwrap();
            let steps: &Vec<Json> = small.case["steps"].as_array().unwrap();
            // Definitions of streams that nothing reads stay where the choices for them do.
            assert!(app.lines().count() <= 5, "{app}");
            assert!(app.len() < 260, "{app}");
            assert!(steps.len() <= 3, "{steps:?}");
        }
    }
}
