//! Java's regular expressions on Rust's engines.
//!
//! A pattern is translated ([`translate`]) to the dialect of the `regex` crate, which matches in
//! linear time. What that cannot do (look-around, back references, possessive quantifiers) goes to
//! `fancy-regex`, which backtracks up to a limit. A `$`, which in Java also stands before a last line
//! break, is the end of the text for the linear engine; only a text that ends in a line break goes
//! to the other.
//!
//! Known differences: under `(?i)` without `(?u)` a class like `[é]` takes both cases, and under
//! `(?m)` U+0085, U+2028 and U+2029 end no line.

mod replace;
mod translate;

use std::ops::Range;

use translate::{Target, Translated, translate};

/// Steps after which the backtracking engine gives up on a text.
const BACKTRACK_MAX: usize = 1_000_000;

/// Bytes of a compiled pattern.
const PROGRAM_BYTES_MAX: usize = 10 << 20;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error("the regular expression '{pattern}' cannot be read: {cause}")]
    Syntax { pattern: String, cause: String },
    #[error("the regular expression takes more than {BACKTRACK_MAX} steps on this text")]
    TooManySteps,
    #[error("the replacement '{replacement}' {cause}")]
    Replacement { replacement: String, cause: String },
}

impl From<Error> for String {
    fn from(error: Error) -> String {
        error.to_string()
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Regex {
    linear: Option<regex::Regex>,
    /// There where the linear engine is not enough, for all texts or for those that end in a line
    /// break.
    backtracking: Option<Box<fancy_regex::Regex>>,
}

/// Where a match and its groups lie, in bytes; group 0 is the whole. Reused between matches.
#[derive(Default, Debug)]
pub struct Groups(Vec<Option<Range<usize>>>);

impl Groups {
    /// `None` where the group took no part in the match, or there is none of that number.
    pub fn get(&self, group: usize) -> Option<Range<usize>> {
        self.0.get(group).cloned().flatten()
    }

    /// The match itself. Empty before the first match.
    pub fn whole(&self) -> Range<usize> {
        self.get(0).unwrap_or(0..0)
    }

    fn fill<'t>(&mut self, groups: impl Iterator<Item = Option<Range<usize>>> + 't) {
        self.0.clear();
        self.0.extend(groups);
    }
}

/// Which part of a text has to match.
#[derive(Clone, Copy)]
enum Extent {
    /// `Matcher.find`.
    Anywhere,
    /// `Matcher.lookingAt`.
    Leading,
    /// `Matcher.matches`.
    Whole,
}

impl Regex {
    /// A pattern that is looked for anywhere in a text.
    pub fn new(pattern: &str) -> Result<Regex, Error> {
        Regex::compile(pattern, Extent::Anywhere)
    }

    /// A pattern that the whole text has to match.
    pub fn whole(pattern: &str) -> Result<Regex, Error> {
        Regex::compile(pattern, Extent::Whole)
    }

    /// A pattern that a text has to begin with.
    pub fn leading(pattern: &str) -> Result<Regex, Error> {
        Regex::compile(pattern, Extent::Leading)
    }

    fn compile(pattern: &str, extent: Extent) -> Result<Regex, Error> {
        let bounded = |translated: &Translated| match extent {
            Extent::Anywhere => translated.text.clone(),
            Extent::Leading => format!(r"\A(?:{})", translated.text),
            Extent::Whole => format!(r"\A(?:{})\z", translated.text),
        };
        let translated = translate(pattern, Target::Linear);
        // The linear engine takes a possessive quantifier for a repeated one: it must not see it.
        let linear = (!translated.is_possessive)
            .then(|| {
                regex::RegexBuilder::new(&bounded(&translated))
                    .size_limit(PROGRAM_BYTES_MAX)
                    .build()
                    .ok()
            })
            .flatten();
        if linear.is_some() && !translated.has_end {
            return Ok(Regex {
                linear,
                backtracking: None,
            });
        }
        let source = bounded(&translate(pattern, Target::Backtracking));
        let engine = fancy_regex::RegexBuilder::new(&source)
            .backtrack_limit(BACKTRACK_MAX)
            .delegate_size_limit(PROGRAM_BYTES_MAX)
            .build()
            .map_err(|error| Error::Syntax {
                pattern: pattern.to_owned(),
                cause: last_line(&error.to_string()),
            })?;
        Ok(Regex {
            linear,
            backtracking: Some(Box::new(engine)),
        })
    }

    /// The engine that is right for a text.
    fn engine(&self, text: &str) -> Engine<'_> {
        match (&self.linear, &self.backtracking) {
            (Some(linear), None) => Engine::Linear(linear),
            (Some(linear), Some(_)) if !text.ends_with(LINE_BREAKS) => Engine::Linear(linear),
            (_, Some(backtracking)) => Engine::Backtracking(backtracking),
            (None, None) => unreachable!("a pattern has at least one engine"),
        }
    }

    /// Is there a match?
    pub fn is_match(&self, text: &str) -> Result<bool, Error> {
        match self.engine(text) {
            Engine::Linear(engine) => Ok(engine.is_match(text)),
            Engine::Backtracking(engine) => engine.is_match(text).map_err(|_| Error::TooManySteps),
        }
    }

    /// The first match at or behind a byte, left in `groups`; false where there is none.
    pub fn find_at(&self, text: &str, at: usize, groups: &mut Groups) -> Result<bool, Error> {
        match self.engine(text) {
            Engine::Linear(engine) => {
                let Some(found) = engine.captures_at(text, at) else {
                    return Ok(false);
                };
                groups.fill(found.iter().map(|g| g.map(|m| m.range())));
            }
            Engine::Backtracking(engine) => {
                let found = engine.captures_from_pos(text, at);
                let Some(found) = found.map_err(|_| Error::TooManySteps)? else {
                    return Ok(false);
                };
                groups.fill(found.iter().map(|g| g.map(|m| m.range())));
            }
        }
        Ok(true)
    }

    /// Number of groups, the whole match not counted.
    pub fn group_count(&self) -> usize {
        let all = match self.engine("") {
            Engine::Linear(engine) => engine.captures_len(),
            Engine::Backtracking(engine) => engine.captures_len(),
        };
        all - 1
    }

    fn group_number(&self, name: &str) -> Option<usize> {
        match self.engine("") {
            Engine::Linear(engine) => engine.capture_names().position(|n| n == Some(name)),
            Engine::Backtracking(engine) => engine.capture_names().position(|n| n == Some(name)),
        }
    }
}

enum Engine<'r> {
    Linear(&'r regex::Regex),
    Backtracking(&'r fancy_regex::Regex),
}

/// What ends a line in Java. `\r\n` ends in the first of them.
const LINE_BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// The engines draw the pattern above what is wrong with it.
fn last_line(message: &str) -> String {
    let line = message.lines().last().unwrap_or(message);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All matches, as `Matcher.find` steps through them.
    fn check(pattern: &str, text: &str, expect: &[&str]) {
        let regex = Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"));
        let mut found = Vec::new();
        regex
            .each_match(text, |groups| {
                found.push(&text[groups.whole()]);
                Ok(true)
            })
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found, expect, "{pattern} on {text:?}");
    }

    fn check_whole(pattern: &str, matching: &[&str], other: &[&str]) {
        let regex = Regex::whole(pattern).unwrap_or_else(|error| panic!("{error}"));
        for (texts, expect) in [(matching, true), (other, false)] {
            for text in texts {
                assert_eq!(regex.is_match(text), Ok(expect), "{pattern} on {text:?}");
            }
        }
    }

    #[test]
    fn classes_are_ascii() {
        check_whole(r"\d+", &["0129"], &["٣", ""]);
        check_whole(r"\w+", &["aZ_9"], &["é", "a b"]);
        check_whole(r"[\w.-]+@[\w]+", &["a.b-c@d"], &["é@d"]);
        check_whole(r"[^\s]+", &["ab"], &["a b"]);
        check_whole(r"[^\d]+", &["ab"], &["a1"]);
        check_whole(r"\p{Alpha}\P{Digit}\p{L}\pL", &["aééé"], &["é1éé"]);
        check_whole(r"(?U)\d\w", &["٣é"], &["xé"]);
        check_whole(r"\p{IsLatin}\p{InGreek}", &["éα"], &["αé"]);
        check_whole(r"\p{javaLowerCase}", &["é"], &["É"]);
        check(r"\bé|\b\w", "aé x", &["a", "x"]);
    }

    #[test]
    fn a_dot_stops_at_line_breaks() {
        check_whole(".", &["x"], &["\n", "\r", "\u{2028}", "\u{85}"]);
        check_whole("(?s).", &["\r", "\n"], &[]);
        check_whole("(?d).", &["\r"], &["\n"]);
        check_whole("(?si)A.", &["a\n"], &["b\n"]);
        check_whole("a(?s:.)b.", &["a\nb\t"], &["a\nb\n"]);
        check_whole("a((?s).)b.", &["a\nb\t"], &["a\nb\n"]);
        check_whole("(?s)a(?-s:.)", &["ab"], &["a\n"]);
    }

    #[test]
    fn the_end_also_stands_before_a_last_line_break() {
        check("b$", "ab\n", &["b"]);
        check("b$", "ab\r\n", &["b"]);
        check("b$", "ab", &["b"]);
        check("b$", "ab\n\n", &[]);
        check(r"ab\Z", "ab\n", &["ab"]);
        check(r"ab\z", "ab\n", &[]);
        check("[$]", "a$b", &["$"]);
        check(r"\$", "a$\n", &["$"]);
        check_whole("ab$", &["ab"], &["ab\n"]);
        check_whole("a$\n", &["a\n"], &["a"]);
        check("(?m)b$", "ab\r\nb", &["b", "b"]);
        check("(?m)^b", "a\rb\nb", &["b", "b"]);
        check("(?d)a$", "a\r", &[]);
    }

    #[test]
    fn quotes_escapes_and_sets() {
        check_whole(r"\Qa.b\E.", &["a.bc"], &["axbc"]);
        check_whole(r"\<\-\/\_", &["<-/_"], &[]);
        check_whole(r"[]a]", &["]", "a"], &[]);
        check_whole(r"[^]a]", &["b"], &["]", "a"]);
        check_whole(r"[\Q.]\E]", &["]", "."], &["a"]);
        check_whole(r"[a-z&&[^b]]", &["a"], &["b"]);
        check_whole(r"\u0041\x42\0103\x{44}\cA", &["ABCD\u{1}"], &[]);
        check_whole(r"\uD83D\uDE00", &["😀"], &[]);
        check_whole("[a--]", &["a", "-"], &[]);
        check_whole(r"\R\h\e", &["\r\n\u{a0}\u{1b}"], &[]);
        check_whole("(?x) a b # c", &["ab"], &["a b "]);
        check(r"[a-zA-z]*-([0-9]+)", "ab_c-17", &["ab_c-17"]);
    }

    #[test]
    fn letters_fold_in_ascii_unless_told() {
        check_whole("(?i)aé", &["Aé"], &["AÉ"]);
        check_whole("(?iu)aé", &["AÉ"], &[]);
        check_whole("(?i:a)b", &["Ab"], &["AB"]);
    }

    #[test]
    fn what_needs_backtracking_gets_it_up_to_a_limit() {
        check_whole(r"(a+)\1", &["aaaa"], &["aaa"]);
        check_whole(r"foo(?!bar)\w*", &["foobaz"], &["foobar"]);
        check_whole("a*+a", &[], &["aaa"]);
        check_whole("a{2}+b", &["aab"], &["ab"]);
        check_whole(r"(?<a>x)\k<a>", &["xx"], &["x"]);
        check(r"\w+(?=;)", "ab;", &["ab"]);
        let evil = Regex::new(r"(a|a|aa)*\1c").expect("it compiles");
        assert_eq!(evil.is_match(&"a".repeat(40)), Err(Error::TooManySteps));
        for bad in ["(", "*", "[b-a]", "a**b(", r"\"] {
            assert!(Regex::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn groups_that_took_no_part() {
        let regex = Regex::new("(a)|(b)").expect("it compiles");
        let mut groups = Groups::default();
        assert_eq!(regex.find_at("xb", 0, &mut groups), Ok(true));
        assert_eq!(groups.whole(), 1..2);
        assert_eq!(groups.get(1), None);
        assert_eq!(groups.get(2), Some(1..2));
        assert_eq!(groups.get(3), None);
        assert_eq!(regex.group_count(), 2);
    }

    #[test]
    fn a_leading_match() {
        let regex = Regex::leading("a|ab").expect("it compiles");
        assert_eq!(regex.is_match("abc"), Ok(true));
        assert_eq!(regex.is_match("cab"), Ok(false));
    }
}
