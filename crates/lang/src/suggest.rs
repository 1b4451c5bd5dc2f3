//! "Did you mean": the nearest of some words.

/// How many edits (insert, delete, replace, swap of neighbours) make `a` into `b`, if at most
/// `max`.
fn distance(a: &[u8], b: &[u8], max: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > max {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    Some(last[b.len()]).filter(|edits| *edits <= max)
}

/// Names longer than this are not compared: the work grows with the square.
const WORD_LEN_MAX: usize = 64;

/// The candidate nearest to `word`, case ignored: at most one edit for short words, two from five
/// letters on, three from nine. The first of equals wins. None where the only candidate is the
/// word itself.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_ascii_lowercase();
    let max = match word.len() {
        0..=1 => return None,
        2..=4 => 1,
        5..=8 => 2,
        9..=WORD_LEN_MAX => 3,
        _ => return None,
    };
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == word {
            continue;
        }
        let other = candidate.to_ascii_lowercase();
        if let Some(edits) = distance(lower.as_bytes(), other.as_bytes(), max)
            && best.is_none_or(|(least, _)| edits < least)
        {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, candidates: &[&str], expect: Option<&str>) {
        assert_eq!(nearest(word, candidates.iter().copied()), expect, "{word}");
    }

    #[test]
    fn nearest_word() {
        check("form", &["for", "from"], Some("for"));
        check("selct", &["select", "set"], Some("select"));
        check("strng", &["int", "string"], Some("string"));
        check("avTemp", &["roomNo", "avgTemp"], Some("avgTemp"));
        check("Price", &["price"], Some("price"));
        check("price", &["price"], None);
        check("x", &["y"], None);
        check("abc", &["xyz"], None);
        check("fromm", &["from"], Some("from"));
    }
}
