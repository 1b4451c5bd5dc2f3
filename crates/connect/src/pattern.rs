//! Java regular expressions: a linear-time engine first, a bounded backtracking one where a pattern
//! needs look-around, back-references or possessive quantifiers.
//!
//! A pattern is translated so that classes mean what they mean in Java: `\d`, `\w`, `\s` and POSIX
//! classes are ASCII, `.` stops at Java's line terminators, `\Q…\E` quotes, `$` and `\Z` match before
//! a final line break.

use std::fmt::Write;
use std::ops::Range;

/// Steps after which the backtracking engine gives up on a text.
const BACKTRACK_MAX: usize = 1_000_000;

/// Bytes of a compiled pattern.
const PROGRAM_BYTES_MAX: usize = 10 << 20;

#[derive(Debug)]
pub struct Pattern {
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// Ranges of the groups of one match, group 0 being the whole. Reused between matches.
#[derive(Default, Debug)]
pub struct Groups(Vec<Option<Range<usize>>>);

impl Groups {
    pub fn get(&self, group: usize) -> Option<Range<usize>> {
        self.0.get(group).cloned().flatten()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error("pattern '{pattern}' cannot be compiled: {cause}")]
    Syntax { pattern: String, cause: String },
    #[error("the pattern takes too many steps on this text")]
    TooManySteps,
}

impl Pattern {
    /// Compiles a Java pattern.
    pub fn new(pattern: &str) -> Result<Pattern, Error> {
        let translated = translate(pattern, End::Linear);
        let linear = regex::RegexBuilder::new(&translated)
            .size_limit(PROGRAM_BYTES_MAX)
            .build();
        if let (Ok(engine), false) = (linear, has_final_dollar(pattern)) {
            return Ok(Pattern {
                engine: Engine::Linear(engine),
            });
        }
        let engine = fancy_regex::RegexBuilder::new(&translate(pattern, End::Backtracking))
            .backtrack_limit(BACKTRACK_MAX)
            .delegate_size_limit(PROGRAM_BYTES_MAX)
            .build()
            .map_err(|cause| Error::Syntax {
                pattern: pattern.to_owned(),
                cause: cause.to_string(),
            })?;
        Ok(Pattern {
            engine: Engine::Backtracking(Box::new(engine)),
        })
    }

    /// Number of groups, the whole match not counted.
    pub fn group_count(&self) -> usize {
        let all = match &self.engine {
            Engine::Linear(engine) => engine.captures_len(),
            Engine::Backtracking(engine) => engine.captures_len(),
        };
        all - 1
    }

    /// `Matcher.find`: the first match at or behind a byte; false where there is none.
    pub fn find_at(&self, text: &str, at: usize, groups: &mut Groups) -> Result<bool, Error> {
        groups.0.clear();
        match &self.engine {
            Engine::Linear(engine) => {
                let Some(found) = engine.captures_at(text, at) else {
                    return Ok(false);
                };
                groups.0.extend(found.iter().map(|g| g.map(|m| m.range())));
            }
            Engine::Backtracking(engine) => {
                let found = engine
                    .captures_from_pos(text, at)
                    .map_err(|_| Error::TooManySteps)?;
                let Some(found) = found else { return Ok(false) };
                groups.0.extend(found.iter().map(|g| g.map(|m| m.range())));
            }
        }
        Ok(true)
    }

    /// `Matcher.matches`: is the whole text a match?
    pub fn matches(&self, text: &str) -> Result<bool, Error> {
        // A shorter alternative may be found first; those texts are rare and are tried with the
        // pattern anchored.
        let mut groups = Groups::default();
        if !self.find_at(text, 0, &mut groups)? {
            return Ok(false);
        }
        if groups.get(0) == Some(0..text.len()) {
            return Ok(true);
        }
        let source = match &self.engine {
            Engine::Linear(engine) => engine.as_str(),
            Engine::Backtracking(engine) => engine.as_str(),
        };
        let anchored = fancy_regex::RegexBuilder::new(&format!(r"\A(?:{source})\z"))
            .backtrack_limit(BACKTRACK_MAX)
            .build()
            .map_err(|cause| Error::Syntax {
                pattern: source.to_owned(),
                cause: cause.to_string(),
            })?;
        anchored.is_match(text).map_err(|_| Error::TooManySteps)
    }

    /// `Matcher.lookingAt`: does a match begin at the start?
    pub fn matches_start(&self, text: &str) -> Result<bool, Error> {
        // The first match of all is the leftmost one.
        let mut groups = Groups::default();
        Ok(self.find_at(text, 0, &mut groups)?
            && groups.get(0).is_some_and(|range| range.start == 0))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Linear,
    Backtracking,
}

/// Does the pattern have a `$` or `\Z`, which in Java also match before a final line break?
fn has_final_dollar(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    let mut depth = 0usize;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('Z') => return true,
                Some('Q') => return pattern.contains('$'),
                _ => {}
            },
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '$' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Writes a Java pattern in the syntax of the engines.
fn translate(pattern: &str, end: End) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class_depth = 0usize;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = translate_escape(&mut out, rest, class_depth > 0, end),
            '[' => {
                class_depth += 1;
                out.push('[');
                // A bracket that closes at once is a literal.
                for literal in ["^", "]"] {
                    if let Some(behind) = rest.strip_prefix(literal) {
                        out.push_str(if literal == "]" { "\\]" } else { literal });
                        rest = behind;
                    }
                }
            }
            ']' => {
                class_depth = class_depth.saturating_sub(1);
                out.push(']');
            }
            '.' if class_depth == 0 => out.push_str(r"[^\n\r\x{85}\x{2028}\x{2029}]"),
            '$' if class_depth == 0 && end == End::Backtracking => {
                out.push_str(r"(?=(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z)");
            }
            // Set operations of the engines that Java does not have.
            '~' | '-' if class_depth > 0 && rest.starts_with(c) => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

fn translate_escape<'a>(out: &mut String, rest: &'a str, in_class: bool, end: End) -> &'a str {
    let Some(c) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let behind = &rest[c.len_utf8()..];
    let mut class = |inner: &str, negated: bool| {
        let written = match (in_class, negated) {
            (true, false) => write!(out, "{inner}"),
            (_, true) => write!(out, "[^{inner}]"),
            (false, false) => write!(out, "[{inner}]"),
        };
        written.expect("writing to a string cannot fail");
    };
    match c {
        'd' | 'D' => class("0-9", c == 'D'),
        'w' | 'W' => class("a-zA-Z0-9_", c == 'W'),
        's' | 'S' => class(r" \t\n\x0B\f\r", c == 'S'),
        'h' | 'H' => class(
            r" \t\x{A0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}",
            c == 'H',
        ),
        'v' | 'V' => class(r"\n\x0B\f\r\x{85}\x{2028}\x{2029}", c == 'V'),
        'R' => out.push_str(r"(?:\r\n|[\n\x0B\f\r\x{85}\x{2028}\x{2029}])"),
        'e' => out.push_str(r"\x1B"),
        'Z' if end == End::Backtracking => {
            out.push_str(r"(?=(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z)");
        }
        'u' => {
            // \uXXXX
            let hex = behind
                .get(..4)
                .filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
            let Some(hex) = hex else {
                out.push_str("\\u");
                return behind;
            };
            write!(out, r"\x{{{hex}}}").expect("writing to a string cannot fail");
            return &behind[4..];
        }
        'Q' => {
            let (quoted, after) = behind.split_once("\\E").unwrap_or((behind, ""));
            out.push_str(&regex::escape(quoted));
            return after;
        }
        'p' | 'P' => {
            if let Some((name, after)) = behind
                .strip_prefix('{')
                .and_then(|inner| inner.split_once('}'))
                && let Some(inner) = posix(name)
            {
                class(inner, c == 'P');
                return after;
            }
            out.push('\\');
            out.push(c);
        }
        // Java lets any character that is no letter be escaped; the engines do not.
        _ if !c.is_ascii_alphanumeric() && !regex_syntax_escapes(c) => out.push(c),
        _ => {
            out.push('\\');
            out.push(c);
        }
    }
    behind
}

fn regex_syntax_escapes(c: char) -> bool {
    c.is_ascii_punctuation() && !matches!(c, '<' | '>')
}

/// POSIX classes, ASCII in Java.
fn posix(name: &str) -> Option<&'static str> {
    Some(match name {
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "ASCII" => r"\x00-\x7F",
        "Alpha" => "a-zA-Z",
        "Digit" => "0-9",
        "Alnum" => "a-zA-Z0-9",
        "Punct" => r##"!-/:-@\[-`{-~"##,
        "Graph" => "!-~",
        "Print" => " -~",
        "Blank" => r" \t",
        "Cntrl" => r"\x00-\x1F\x7F",
        "XDigit" => "0-9a-fA-F",
        "Space" => r" \t\n\x0B\f\r",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expect: Option<&[Option<&str>]>) {
        let compiled = Pattern::new(pattern).expect(pattern);
        let mut groups = Groups::default();
        let found = compiled.find_at(text, 0, &mut groups).expect(pattern);
        let texts: Vec<Option<&str>> = groups
            .0
            .iter()
            .map(|g| g.clone().map(|r| &text[r]))
            .collect();
        assert_eq!(
            found.then_some(texts.as_slice()),
            expect,
            "{pattern} on {text:?}"
        );
    }

    #[test]
    fn classes_mean_what_they_mean_in_java() {
        check(r"(\d+)", "٣45", Some(&[Some("45"), Some("45")]));
        check(r"\w+", "é_a1", Some(&[Some("_a1")]));
        check(r"[\s\d]+", "a 1", Some(&[Some(" 1")]));
        check(r"[^\d]+", "12ab", Some(&[Some("ab")]));
        check(r"a.b", "a\rb", None);
        check(r"\p{Alpha}+", "éab", Some(&[Some("ab")]));
        check(r"\p{L}+", "éab", Some(&[Some("éab")]));
        check(r"\Qa.b\E+", "a.bb", Some(&[Some("a.bb")]));
        check(
            r"[a-zA-z]*-([0-9]+)",
            "ab_c-17",
            Some(&[Some("ab_c-17"), Some("17")]),
        );
        check(r"\<x\>", "<x>", Some(&[Some("<x>")]));
        check("A", "A", Some(&[Some("A")]));
        check(r"\u0041", "A", Some(&[Some("A")]));
    }

    #[test]
    fn the_end_is_before_a_final_line_break() {
        check(r"b$", "ab\n", Some(&[Some("b")]));
        check(r"b$", "ab\nc", None);
        check(r"[$]", "a$b", Some(&[Some("$")]));
    }

    #[test]
    fn look_around_back_references_and_limits() {
        check(r"(a)\1", "xaa", Some(&[Some("aa"), Some("a")]));
        check(r"\w+(?=;)", "ab;", Some(&[Some("ab")]));
        check(r"(a)|(b)", "b", Some(&[Some("b"), None, Some("b")]));
        let evil = Pattern::new(r"(a|a|aa)*\1c").expect("it compiles");
        let text = "a".repeat(40);
        assert_eq!(
            evil.find_at(&text, 0, &mut Groups::default()),
            Err(Error::TooManySteps)
        );
        assert!(Pattern::new("(").is_err());
    }

    #[test]
    fn whole_texts_and_starts() {
        let pattern = Pattern::new("a|ab").expect("it compiles");
        assert_eq!(pattern.matches("ab"), Ok(true));
        assert_eq!(pattern.matches("abc"), Ok(false));
        assert_eq!(pattern.matches_start("abc"), Ok(true));
        assert_eq!(pattern.matches_start("cab"), Ok(false));
    }
}
