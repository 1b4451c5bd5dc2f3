//! What the documentation promises, made from the cases: a pair without a case has no promise.

use super::sink::Sink;
use super::source::Source;
use super::{PAIRS, Pair};

fn promise(pair: &Pair) -> &'static str {
    match pair.is_exactly_once() {
        true => "exactly once",
        false => "at least once",
    }
}

/// Each pair with its promise and the case that shows it.
pub fn table() -> String {
    let mut text =
        String::from("| Source | Destination | With `--state` | Case |\n|---|---|---|---|\n");
    for pair in PAIRS {
        let row = [
            pair.source.about(),
            pair.sink.about(),
            promise(pair),
            &format!("`faults {}`", pair.name),
        ];
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

/// Sources down, destinations across.
pub fn matrix() -> String {
    let head: Vec<&str> = Sink::ALL.iter().map(|sink| sink.name()).collect();
    let mut text = format!("| From, to | {} |\n|---", head.join(" | "));
    text.push_str(&"|---".repeat(head.len()));
    text.push_str("|\n");
    for source in Source::ALL {
        let cells = Sink::ALL.iter().map(|sink| {
            let is_it = |pair: &&Pair| pair.source == *source && pair.sink == *sink;
            PAIRS.iter().find(is_it).map_or("", promise)
        });
        let cells: Vec<&str> = cells.collect();
        text.push_str(&format!("| {} | {} |\n", source.name(), cells.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[track_caller]
    fn has(page: &str, table: &str) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(root.join(page)).expect("the page is there");
        assert!(
            text.contains(table),
            "{page} promises something else than the cases show; put the output of `cargo xtask faults \
             --promises` there:\n{table}"
        );
    }

    #[test]
    fn the_pages_promise_what_the_cases_show() {
        has("docs/delivery.md", &table());
        has("README.md", &matrix());
    }

    #[test]
    fn each_source_and_destination_has_a_case() {
        for source in Source::ALL {
            assert!(PAIRS.iter().any(|pair| pair.source == *source));
        }
        for sink in Sink::ALL {
            assert!(PAIRS.iter().any(|pair| pair.sink == *sink));
        }
        let names: std::collections::BTreeSet<&str> = PAIRS.iter().map(|pair| pair.name).collect();
        assert_eq!(names.len(), PAIRS.len());
    }
}
