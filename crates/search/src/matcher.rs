//! Whether a row is meant, and how well it fits, without an index: for rows that no index has yet.

use std::collections::HashMap;
use std::ops::Bound as Limit;

use event::Value;
use event::column::View;
use store::rows::Rows;
use tantivy::Term;

use crate::analyze::{keyword, words};
use crate::query::Piece;
use crate::query::plan::{Compare, Part, Plan, Source, categories, category_text};
use crate::rank::Fresh;

/// Compares rows, one after the other.
pub(crate) struct Matcher<'p> {
    plan: &'p Plan,
    /// Leaves by what they compare.
    sources: Vec<(Source, Vec<usize>)>,
    /// For each leaf: how often it is found in the row.
    found: Vec<u32>,
    /// For each leaf that is a phrase: where its words are.
    phrases: HashMap<usize, Vec<Vec<u32>>>,
    /// For each source: words of its text.
    lengths: Vec<u32>,
    /// Words of a text as UTF-32, for comparisons that need characters.
    chars: Vec<char>,
}

/// For each leaf how often it was found, and of how many words.
pub(crate) type Counts = Box<[(u32, u32)]>;

impl<'p> Matcher<'p> {
    pub fn new(plan: &'p Plan) -> Matcher<'p> {
        let mut sources: Vec<(Source, Vec<usize>)> = Vec::new();
        let mut phrases = HashMap::new();
        for (at, leaf) in plan.leaves.iter().enumerate() {
            match sources
                .iter_mut()
                .find(|(source, _)| *source == leaf.source)
            {
                Some((_, leaves)) => leaves.push(at),
                None => sources.push((leaf.source, vec![at])),
            }
            if let Compare::Phrase { words, .. } = &leaf.compare {
                phrases.insert(at, vec![Vec::new(); words.len()]);
            }
        }
        Matcher {
            lengths: vec![0; sources.len()],
            found: vec![0; plan.leaves.len()],
            sources,
            phrases,
            plan,
            chars: Vec::new(),
        }
    }

    /// Is the row meant?
    pub fn matches(&mut self, rows: &Rows<'_>, row: usize) -> bool {
        if self.plan.leaves.is_empty() {
            // Nothing has to be looked up: `*:*`, alone or in a query with itself.
            return is_met(&self.plan.root, &|_| false);
        }
        self.look(rows, row);
        is_met(&self.plan.root, &|leaf| self.found[leaf] > 0)
    }

    /// What was found in the row that was looked at last.
    pub fn counts(&self) -> Counts {
        let mut counts: Counts = self.found.iter().map(|found| (*found, 0)).collect();
        for ((_, leaves), length) in self.sources.iter().zip(&self.lengths) {
            for leaf in leaves {
                counts[*leaf].1 = *length;
            }
        }
        counts
    }

    /// Adds the words of the row that was looked at last; `ranked` are comparisons with their words as terms.
    pub fn count_words(&self, ranked: &[(usize, Vec<Term>)], fresh: &mut Fresh) {
        for ((_, leaves), length) in self.sources.iter().zip(&self.lengths) {
            let mut terms = ranked.iter().filter(|(leaf, _)| leaves.contains(leaf));
            if let Some((_, terms)) = terms.next()
                && let Some(term) = terms.first()
            {
                *fresh.lengths.entry(term.field()).or_default() += u64::from(*length);
            }
        }
        let mut counted: Vec<&Term> = Vec::new();
        for (leaf, terms) in ranked {
            for (slot, term) in terms.iter().enumerate() {
                let is_there = match self.phrases.get(leaf) {
                    Some(positions) => self.lengths_of(*leaf) > 0 && !positions[slot].is_empty(),
                    None => self.found[*leaf] > 0,
                };
                if is_there && !counted.contains(&term) {
                    counted.push(term);
                    *fresh.words.entry(term.clone()).or_default() += 1;
                }
            }
        }
    }

    /// Words of the text that a leaf compares.
    fn lengths_of(&self, leaf: usize) -> u32 {
        let mut sources = self.sources.iter().zip(&self.lengths);
        let own = sources.find(|((_, leaves), _)| leaves.contains(&leaf));
        own.map_or(0, |(_, length)| *length)
    }

    fn look(&mut self, rows: &Rows<'_>, row: usize) {
        for at in 0..self.sources.len() {
            let (source, leaves) = &self.sources[at];
            for leaf in leaves {
                self.found[*leaf] = 0;
            }
            self.lengths[at] = 0;
            match source {
                Source::Id => {
                    let id = rows.ids[row];
                    for leaf in leaves {
                        let is_it = self.plan.leaves[*leaf].compare == Compare::Id(id);
                        self.found[*leaf] = u32::from(is_it);
                    }
                }
                Source::Timestamp => {
                    for leaf in leaves {
                        let is_it = has_long(&self.plan.leaves[*leaf].compare, rows.times[row]);
                        self.found[*leaf] = u32::from(is_it);
                    }
                }
                Source::Column(column) => self.look_at_column(at, *column, rows, row),
            }
        }
    }

    fn look_at_column(&mut self, at: usize, column: usize, rows: &Rows<'_>, row: usize) {
        let cells = &rows.columns[column];
        let is_null = cells.is_null(row);
        let text = match cells.view() {
            _ if is_null => None,
            View::Str(texts) => Some(texts.get(row)),
            View::Bool(values) => Some(if values[row] { "true" } else { "false" }),
            _ => None,
        };
        let number = match cells.view() {
            View::Str(_) | View::Bool(_) => Value::Null,
            _ => cells.value(row),
        };
        let mut has_words = false;
        for leaf in &self.sources[at].1 {
            let compare = &self.plan.leaves[*leaf].compare;
            let is_it = match compare {
                Compare::Exists => !is_null,
                Compare::Longs(..) => number.to_long().is_some_and(|v| has_long(compare, v)),
                Compare::Doubles(from, to) => {
                    number.to_double().is_some_and(|v| is_between(&v, from, to))
                }
                Compare::Category(path) => {
                    categories(category_text(cells, row).as_deref()).starts_with(path)
                }
                Compare::Whole(want) => text.is_some_and(|text| keyword(text) == want),
                Compare::WholeBetween(from, to) => {
                    text.is_some_and(|text| is_text_between(keyword(text), from, to))
                }
                Compare::WholeLike(pattern) => text.is_some_and(|text| {
                    into_chars(keyword(text), &mut self.chars);
                    is_like(&self.chars, pattern)
                }),
                Compare::WholeNear { text: want, edits } => text.is_some_and(|text| {
                    into_chars(keyword(text), &mut self.chars);
                    is_near(&self.chars, want, *edits)
                }),
                Compare::Id(_) => false,
                Compare::Word(_)
                | Compare::Phrase { .. }
                | Compare::WordLike(_)
                | Compare::WordNear { .. }
                | Compare::WordBetween(..) => {
                    has_words = true;
                    false
                }
            };
            self.found[*leaf] = u32::from(is_it);
        }
        if has_words && let Some(text) = text {
            self.look_at_words(at, text);
        }
    }

    fn look_at_words(&mut self, at: usize, text: &str) {
        let Matcher {
            plan,
            sources,
            found,
            phrases,
            lengths,
            chars,
        } = self;
        let leaves = &sources[at].1;
        for leaf in leaves {
            if let Some(positions) = phrases.get_mut(leaf) {
                positions.iter_mut().for_each(Vec::clear);
            }
        }
        words(text, &mut |word, position| {
            lengths[at] += 1;
            for leaf in leaves {
                let is_it = match &plan.leaves[*leaf].compare {
                    Compare::Word(want) => word == want,
                    Compare::Phrase { words, .. } => {
                        let positions = phrases.get_mut(leaf).expect("made for each phrase");
                        for (slot, want) in words.iter().enumerate() {
                            if word == want {
                                positions[slot].push(position);
                            }
                        }
                        false
                    }
                    Compare::WordLike(pattern) => {
                        into_chars(word, chars);
                        is_like(chars, pattern)
                    }
                    Compare::WordNear { word: want, edits } => {
                        into_chars(word, chars);
                        is_near(chars, want, *edits)
                    }
                    Compare::WordBetween(from, to) => is_text_between(word, from, to),
                    _ => false,
                };
                found[*leaf] += u32::from(is_it);
            }
        });
        for leaf in leaves {
            if let Compare::Phrase { words, slop } = &plan.leaves[*leaf].compare {
                found[*leaf] = phrase_count(&phrases[leaf], words, *slop);
            }
        }
    }
}

fn into_chars(text: &str, chars: &mut Vec<char>) {
    chars.clear();
    chars.extend(text.chars());
}

/// Is a part of a plan met?
fn is_met(part: &Part, has: &dyn Fn(usize) -> bool) -> bool {
    match part {
        Part::All => true,
        Part::Nothing => false,
        Part::Leaf(leaf) => has(*leaf),
        Part::Boost(part, _) => is_met(part, has),
        Part::Bool { must, should, not } => {
            must.iter().all(|part| is_met(part, has))
                && (!must.is_empty() || should.iter().any(|part| is_met(part, has)))
                && !not.iter().any(|part| is_met(part, has))
        }
    }
}

/// How well a row fits; `None` where it does not. `weigh` is asked for the leaves that are met.
pub(crate) fn score(
    part: &Part,
    counts: &Counts,
    weigh: &dyn Fn(usize, u32, u32) -> f32,
) -> Option<f32> {
    match part {
        Part::All => Some(1.0),
        Part::Nothing => None,
        Part::Leaf(leaf) => {
            let (found, length) = counts[*leaf];
            (found > 0).then(|| weigh(*leaf, found, length))
        }
        Part::Boost(part, boost) => score(part, counts, weigh).map(|score| score * boost),
        Part::Bool { must, should, not } => {
            if not
                .iter()
                .any(|part| is_met(part, &|leaf| counts[leaf].0 > 0))
            {
                return None;
            }
            let mut sum = 0.0;
            for part in must {
                sum += score(part, counts, weigh)?;
            }
            let optional = should.iter().filter_map(|part| score(part, counts, weigh));
            let (mut some, mut more) = (0, 0.0);
            for score in optional {
                some += 1;
                more += score;
            }
            (some > 0 || !must.is_empty()).then_some(sum + more)
        }
    }
}

fn has_long(compare: &Compare, value: i64) -> bool {
    match compare {
        Compare::Longs(from, to) => is_between(&value, from, to),
        Compare::Exists => true,
        _ => false,
    }
}

fn is_between<T: PartialOrd>(value: &T, from: &Limit<T>, to: &Limit<T>) -> bool {
    let above = match from {
        Limit::Unbounded => true,
        Limit::Included(from) => value >= from,
        Limit::Excluded(from) => value > from,
    };
    above
        && match to {
            // Not for NaN, which is in no range.
            Limit::Unbounded => value.partial_cmp(value).is_some(),
            Limit::Included(to) => value <= to,
            Limit::Excluded(to) => value < to,
        }
}

fn is_text_between(value: &str, from: &Limit<String>, to: &Limit<String>) -> bool {
    let above = match from {
        Limit::Unbounded => true,
        Limit::Included(from) => value >= from.as_str(),
        Limit::Excluded(from) => value > from.as_str(),
    };
    above
        && match to {
            Limit::Unbounded => true,
            Limit::Included(to) => value <= to.as_str(),
            Limit::Excluded(to) => value < to.as_str(),
        }
}

/// Does a text have the form of a pattern? Takes no longer than their lengths multiplied.
fn is_like(text: &[char], pattern: &[Piece]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Behind the last `*`: where the pattern goes on, and where the text would.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(place) {
            Some(Piece::Many) => {
                retry = Some((place + 1, at));
                place += 1;
            }
            Some(Piece::One) => (at, place) = (at + 1, place + 1),
            Some(Piece::Char(c)) if *c == text[at] => (at, place) = (at + 1, place + 1),
            _ => match &mut retry {
                Some((behind, next)) => {
                    *next += 1;
                    (at, place) = (*next, *behind);
                }
                None => return false,
            },
        }
    }
    pattern[place..].iter().all(|piece| *piece == Piece::Many)
}

/// Can one text be made the other by so many changes: a character more, less or other, or two neighbours that change
/// places?
fn is_near(text: &[char], want: &str, edits: u8) -> bool {
    let want: Vec<char> = want.chars().collect();
    let edits = usize::from(edits);
    if text.len().abs_diff(want.len()) > edits {
        return false;
    }
    let width = want.len() + 1;
    let mut before = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    let mut next = vec![0; width];
    for row in 1..=text.len() {
        next[0] = row;
        for column in 1..width {
            let is_other = usize::from(text[row - 1] != want[column - 1]);
            let mut cost = (last[column - 1] + is_other)
                .min(last[column] + 1)
                .min(next[column - 1] + 1);
            let is_swapped = row > 1
                && column > 1
                && text[row - 1] == want[column - 2]
                && text[row - 2] == want[column - 1];
            if is_swapped {
                cost = cost.min(before[column - 2] + 1);
            }
            next[column] = cost;
        }
        if next.iter().min().is_some_and(|least| *least > edits) {
            return false;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut next);
    }
    last[width - 1] <= edits
}

/// How often a phrase is there; with slop whether it is, as in Lucene: moved to where they stand in the phrase, its
/// words lie no further apart than the slop. `positions` are those of each word.
pub(crate) fn phrase_count(positions: &[Vec<u32>], phrase: &[String], slop: u32) -> u32 {
    if positions.iter().any(Vec::is_empty) {
        return 0;
    }
    if slop == 0 {
        let begins = positions[0].iter();
        let is_there = |begin: &&u32| {
            let mut rest = positions.iter().zip(0..);
            rest.all(|(places, by)| places.binary_search(&(**begin + by)).is_ok())
        };
        return begins.filter(is_there).count() as u32;
    }
    // The word that stands furthest left, moved to where it is in the phrase, begins a window.
    let slots = || positions.iter().zip(0_i64..);
    let mut begins: Vec<i64> = slots()
        .flat_map(|(places, by)| places.iter().map(move |place| i64::from(*place) - by))
        .collect();
    begins.sort_unstable();
    begins.dedup();
    let is_there = |begin: i64| {
        // A word that is twice in the phrase has to be there twice: behind where it was taken.
        let mut taken: Vec<(&str, usize)> = Vec::new();
        for (places, by) in slots() {
            let (from, to) = (begin + by, begin + by + i64::from(slop));
            let word = phrase[by as usize].as_str();
            let first = places.partition_point(|place| i64::from(*place) < from);
            let before = taken.iter_mut().find(|(other, _)| *other == word);
            let at = before
                .as_ref()
                .map_or(first, |(_, last)| first.max(*last + 1));
            if places.get(at).is_none_or(|place| i64::from(*place) > to) {
                return false;
            }
            match before {
                Some((_, last)) => *last = at,
                None => taken.push((word, at)),
            }
        }
        true
    };
    u32::from(begins.into_iter().any(is_there))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chars(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    fn pieces(pattern: &str) -> Vec<Piece> {
        let piece = |c| match c {
            '*' => Piece::Many,
            '?' => Piece::One,
            c => Piece::Char(c),
        };
        pattern.chars().map(piece).collect()
    }

    #[test]
    fn patterns_are_compared() {
        for (text, pattern, is) in [
            ("test", "te?t", true),
            ("test", "te*", true),
            ("test", "t*t", true),
            ("test", "t*s", false),
            ("te", "te*", true),
            ("tests", "te?t", false),
            ("abcabd", "a*abd", true),
            ("äöü", "ä?ü", true),
        ] {
            assert_eq!(
                is_like(&chars(text), &pieces(pattern)),
                is,
                "{text} {pattern}"
            );
        }
        // No explosion.
        let text = chars(&"a".repeat(2000));
        assert!(!is_like(&text, &pieces(&format!("{}b", "a*".repeat(30)))));
    }

    #[test]
    fn words_that_differ_a_little_are_near() {
        for (a, b, edits, is) in [
            ("roam", "foam", 1, true),
            ("roam", "roams", 1, true),
            ("roam", "raom", 1, true),
            ("roam", "fom", 1, false),
            ("roam", "fom", 2, true),
            ("", "ab", 2, true),
            ("abcd", "badc", 2, true),
            ("äb", "bä", 1, true),
        ] {
            assert_eq!(is_near(&chars(a), b, edits), is, "{a} {b}");
        }
    }

    #[test]
    fn phrases_are_found_where_their_words_are() {
        let count = |phrase: &str, text: &str, slop| {
            let phrase: Vec<String> = phrase.split(' ').map(str::to_owned).collect();
            let of = |word: &String| {
                let places = (0..).zip(text.split(' ')).filter(|(_, w)| w == word);
                places.map(|(place, _)| place).collect()
            };
            let positions: Vec<Vec<u32>> = phrase.iter().map(of).collect();
            phrase_count(&positions, &phrase, slop)
        };
        for (phrase, text, slop, times) in [
            ("a b", "a b c a b", 0, 2),
            ("a b", "a c b", 0, 0),
            ("a b", "a c b", 1, 1),
            ("a b", "b a", 1, 0),
            ("a b", "b a", 2, 1),
            ("a b c", "a x b x c", 1, 0),
            ("a b c", "a x b x c", 2, 1),
            ("a a", "a b", 3, 0),
            ("a a", "a b a", 1, 1),
            ("a b a", "a b", 4, 0),
        ] {
            assert_eq!(
                count(phrase, text, slop),
                times,
                "'{phrase}'~{slop} in '{text}'"
            );
        }
    }
}
