//! Applies the fixes that diagnostics carry to the text of an app.
//!
//! Promises: a text comes back only if fewer errors are found in it than in the one before; a fix that
//! leaves its error where it is is not applied; the work is bounded.
//!
//! Never: applies the fix of a warning, which would change what an accepted app does; writes a file.

use lang::diagnostic::{Diagnostic, Fix, Kind, Severity};
use lang::source::{LineIndex, Position};

/// Rounds of fixes and checks: a fixed error may reveal others.
const ROUNDS_MAX: usize = 32;

/// How far two texts are compared for lines that are the same again.
const LOOK_AHEAD: usize = 12;

/// A text with fewer errors than before.
#[derive(Clone, PartialEq, Debug)]
pub struct Fixed {
    pub text: String,
    /// What is gone, in the order in which it was fixed.
    pub applied: Vec<Applied>,
}

/// An error that was fixed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    pub code: &'static str,
    pub message: String,
    /// In the text as it was in its round.
    pub at: Position,
    pub replaced: String,
    pub replacement: String,
}

/// Lines that differ between two texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change<'t> {
    /// The first of them in the text before, and in the one after, from 1.
    pub lines: (usize, usize),
    pub before: Vec<&'t str>,
    pub after: Vec<&'t str>,
}

/// Errors of syntax first: one of them can hide any number of others.
type Rank = (usize, usize);

/// Applies fixes until no error has one that helps. `judge` finds what is wrong with a text. `None` if
/// that leaves as many errors as there were.
pub fn apply(text: &str, judge: &dyn Fn(&str) -> Vec<Diagnostic>) -> Option<Fixed> {
    let mut now = text.to_owned();
    let mut found = judge(&now);
    let mut best = rank(&found);
    let mut best_text = None;
    let mut applied: Vec<Applied> = Vec::new();
    let mut useless: Vec<Tried> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let fixes = usable(&found, &now, &useless);
        if fixes.is_empty() {
            break;
        }
        let next = replaced(&now, &fixes);
        let after = judge(&next);
        let failed = fixes
            .iter()
            .filter(|(d, fix)| is_there(&after, d, moved(d.span.start, &fixes), fix));
        let failed: Vec<Tried> = failed.map(|(d, fix)| Tried::new(d, fix)).collect();
        // One that failed may have spoilt others: they are tried again without it.
        if !failed.is_empty() {
            useless.extend(failed);
            continue;
        }
        let lines = LineIndex::new(&now);
        applied.extend(fixes.iter().map(|(d, fix)| Applied {
            code: d.code,
            message: d.message.clone(),
            at: lines.position(&now, fix.span.start),
            replaced: fix.span.text(&now).to_owned(),
            replacement: fix.replacement.clone(),
        }));
        (now, found) = (next, after);
        if rank(&found) < best {
            best = rank(&found);
            best_text = Some((now.clone(), applied.len()));
        }
    }
    let (text, len) = best_text?;
    applied.truncate(len);
    Some(Fixed { text, applied })
}

/// A fix that left its error where it was.
#[derive(PartialEq)]
struct Tried {
    code: &'static str,
    message: String,
    replacement: String,
}

impl Tried {
    fn new(diagnostic: &Diagnostic, fix: &Fix) -> Tried {
        Tried {
            code: diagnostic.code,
            message: diagnostic.message.clone(),
            replacement: fix.replacement.clone(),
        }
    }
}

fn rank(found: &[Diagnostic]) -> Rank {
    let errors = found.iter().filter(|d| d.severity == Severity::Error);
    let syntax = errors.clone().filter(|d| d.kind == Kind::Syntax).count();
    (syntax, errors.count() - syntax)
}

/// Is the same still said at the place, which is where it was or behind what was put in?
fn is_there(found: &[Diagnostic], wanted: &Diagnostic, at: i64, fix: &Fix) -> bool {
    let places = at..=at + fix.replacement.len() as i64;
    found.iter().any(|d| {
        d.code == wanted.code
            && d.message == wanted.message
            && places.contains(&i64::from(d.span.start))
    })
}

/// Where a place is after the fixes before it.
fn moved(offset: u32, fixes: &[(&Diagnostic, &Fix)]) -> i64 {
    let before = fixes
        .iter()
        .filter(|(_, fix)| fix.span.start < offset && fix.span.end <= offset);
    let grown = before
        .map(|(_, fix)| fix.replacement.len() as i64 - i64::from(fix.span.end - fix.span.start));
    i64::from(offset) + grown.sum::<i64>()
}

/// The fixes of errors in the order of the text, none of them inside another.
fn usable<'d>(
    found: &'d [Diagnostic],
    text: &str,
    useless: &[Tried],
) -> Vec<(&'d Diagnostic, &'d Fix)> {
    let errors = found.iter().filter(|d| d.severity == Severity::Error);
    let mut fixes: Vec<(&Diagnostic, &Fix)> = errors
        .filter_map(|d| Some((d, d.fix.as_ref()?)))
        .filter(|(d, fix)| is_applicable(text, fix) && !useless.contains(&Tried::new(d, fix)))
        .collect();
    fixes.sort_by_key(|(_, fix)| (fix.span.start, fix.span.end));
    let mut end = None;
    fixes.retain(|(_, fix)| {
        let is_apart = end.is_none_or(|end| fix.span.start > end);
        if is_apart {
            end = Some(fix.span.end);
        }
        is_apart
    });
    fixes
}

/// What stands for the value of a variable is not replaced: the fault may be in the value.
fn is_applicable(text: &str, fix: &Fix) -> bool {
    let range = fix.span.start as usize..fix.span.end as usize;
    text.get(range)
        .is_some_and(|old| old != fix.replacement && !old.contains("${"))
}

fn replaced(text: &str, fixes: &[(&Diagnostic, &Fix)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for (_, fix) in fixes {
        out.push_str(&text[copied..fix.span.start as usize]);
        out.push_str(&fix.replacement);
        copied = fix.span.end as usize;
    }
    out.push_str(&text[copied..]);
    out
}

/// The lines that differ, in groups.
pub fn changes<'t>(before: &'t str, after: &'t str) -> Vec<Change<'t>> {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let (mut i, mut j) = (0, 0);
    let mut changes = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let (skip, take) = next_equal(&old[i..], &new[j..]);
        changes.push(Change {
            lines: (i + 1, j + 1),
            before: old[i..i + skip].to_vec(),
            after: new[j..j + take].to_vec(),
        });
        (i, j) = (i + skip, j + take);
    }
    changes
}

/// How many lines of each to pass over until they are the same again; all, if that is far away.
fn next_equal(old: &[&str], new: &[&str]) -> (usize, usize) {
    for sum in 1..=LOOK_AHEAD {
        for skip in 0..=sum {
            let take = sum - skip;
            if let (Some(a), Some(b)) = (old.get(skip), new.get(take))
                && a == b
            {
                return (skip, take);
            }
        }
    }
    (old.len(), new.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::catalog;
    use crate::{CheckConfig, check};

    fn judge(text: &str) -> Vec<Diagnostic> {
        let parsed = lang::parse(text);
        let config = CheckConfig {
            syntax_faults: parsed.diagnostics.iter().map(|d| d.span).collect(),
            ..CheckConfig::default()
        };
        let checked = check(&parsed.app, &catalog(), &config);
        let found = parsed.diagnostics.into_iter().chain(checked.diagnostics);
        found.collect()
    }

    fn fixed(text: &str) -> Option<String> {
        apply(text, &judge).map(|fixed| fixed.text)
    }

    #[test]
    fn a_fix_that_reveals_an_error_with_a_fix_goes_on() {
        let broken = "define stream Trades (symbol string, price double);\n\
                      from Trade[pric > 1.0] select symbl insert into Out;";
        let whole = "define stream Trades (symbol string, price double);\n\
                     from Trades[price > 1.0] select symbol insert into Out;";
        assert_eq!(fixed(broken).as_deref(), Some(whole));
        assert_eq!(fixed(whole), None);
    }

    #[test]
    fn what_has_no_fix_stays_and_the_rest_is_fixed() {
        let broken = "define stream S (price double);\n\
                      from S select pric insert into Out;\nfrom S select qqqq insert into Out2;";
        let after = fixed(broken).expect("one of two");
        assert!(
            after.contains("select price") && after.contains("qqqq"),
            "{after}"
        );
    }

    #[test]
    fn a_fix_that_does_not_help_is_not_applied() {
        let judge = |text: &str| {
            let at = text.find("bad").unwrap_or(0) as u32;
            let span = lang::span::Span::new(at, at + 3);
            let d = crate::report::error("E0203", Kind::Name, span, "always", "");
            vec![d.fix(span, "worse")]
        };
        assert_eq!(apply("a bad text", &judge), None);
    }

    #[test]
    fn a_variable_is_not_overwritten() {
        let fix = Fix {
            span: lang::span::Span::new(2, 7),
            replacement: "x".into(),
        };
        assert!(!is_applicable("a ${B} c", &fix));
        assert!(is_applicable("a bcdef c", &fix));
    }

    #[test]
    fn changed_lines_are_found_in_groups() {
        let found = changes("a\nb\nc\nd", "a\nB\nc\nd\ne");
        let seen: Vec<_> = found
            .iter()
            .map(|c| (c.lines, c.before.len(), c.after.len()))
            .collect();
        assert_eq!(seen, [((2, 2), 1, 1), ((5, 5), 0, 1)]);
        assert!(changes("a\n", "a\n").is_empty());
    }
}
