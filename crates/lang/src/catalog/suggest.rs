//! "Did you mean": the name among several that is nearest to a misspelt one.

/// The nearest candidate, or none that is near enough: a third of its letters may differ. A
/// difference in case counts half, two letters in the wrong order count as one change.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(&'a str, usize)> = None;
    for candidate in candidates {
        let longest = word.chars().count().max(candidate.chars().count());
        let allowed = ((longest / 3).max(1) * CHANGE).min((longest * CHANGE).saturating_sub(1));
        let distance = distance(word, candidate);
        if distance <= allowed && distance > 0 && best.is_none_or(|(_, d)| distance < d) {
            best = Some((candidate, distance));
        }
    }
    best.map(|(candidate, _)| candidate)
}

/// Cost of one letter more, less or other.
const CHANGE: usize = 2;
/// Cost of a letter in the other case.
const CASE: usize = 1;
/// Names longer than this are not compared.
const LENGTH_MAX: usize = 200;

/// Optimal string alignment distance in halves of a change.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(LENGTH_MAX).collect();
    let b: Vec<char> = b.chars().take(LENGTH_MAX).collect();
    let width = b.len() + 1;
    let mut before = vec![0; width];
    let mut last: Vec<usize> = (0..width).map(|j| j * CHANGE).collect();
    for i in 1..=a.len() {
        let mut row = vec![i * CHANGE; width];
        for j in 1..width {
            let replace = last[j - 1] + cost(a[i - 1], b[j - 1]);
            row[j] = replace.min(last[j] + CHANGE).min(row[j - 1] + CHANGE);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + CHANGE);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

fn cost(a: char, b: char) -> usize {
    if a == b {
        0
    } else if a.eq_ignore_ascii_case(&b) {
        CASE
    } else {
        CHANGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_wins() {
        let check = |word: &str, candidates: &[&str], expect: Option<&str>| {
            assert_eq!(nearest(word, candidates.iter().copied()), expect, "{word}");
        };
        check("pric", &["price", "prince", "volume"], Some("price"));
        check("Price", &["price", "prices"], Some("price"));
        check("tpoic", &["topic", "type"], Some("topic"));
        check("x", &["symbol"], None);
        check("", &["a"], None);
        check("symbol", &["symbol"], None);
    }
}
