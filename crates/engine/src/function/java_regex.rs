//! Java's regular expressions on Rust's engines.
//!
//! A pattern is translated to the dialect of the `regex` crate, which matches in linear time; what
//! that cannot do (look-around, back references, possessive quantifiers) goes to `fancy-regex`,
//! with its limit on backtracking. `\d \w \s \b` mean ASCII, `.` stops at every line terminator
//! Java knows, `\Q…\E` quotes, as in `java.util.regex.Pattern`.
//!
//! Known difference: `$` matches at the very end only, not also before a last line terminator.

use std::fmt::Write;
use std::ops::Range;

/// A compiled pattern.
#[derive(Debug)]
pub enum JavaRegex {
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// Largest compiled size of a pattern, in bytes.
const SIZE_MAX: usize = 4 << 20;

impl JavaRegex {
    pub fn new(pattern: &str) -> Result<JavaRegex, String> {
        let (translated, possessive) = translate(pattern);
        JavaRegex::compile(&translated, possessive)
    }

    /// The whole text must match.
    pub fn whole(pattern: &str) -> Result<JavaRegex, String> {
        let (translated, possessive) = translate(pattern);
        JavaRegex::compile(&format!(r"\A(?:{translated})\z"), possessive)
    }

    /// The text must begin with a match.
    pub fn leading(pattern: &str) -> Result<JavaRegex, String> {
        let (translated, possessive) = translate(pattern);
        JavaRegex::compile(&format!(r"\A(?:{translated})"), possessive)
    }

    /// The linear engine takes a possessive quantifier for a repeated one, so it must not see it.
    fn compile(pattern: &str, possessive: bool) -> Result<JavaRegex, String> {
        let linear = regex::RegexBuilder::new(pattern)
            .size_limit(SIZE_MAX)
            .build();
        if let Ok(regex) = linear
            && !possessive
        {
            return Ok(JavaRegex::Linear(regex));
        }
        match fancy_regex::Regex::new(pattern) {
            Ok(regex) => Ok(JavaRegex::Backtracking(Box::new(regex))),
            Err(error) => Err(format!("the regular expression cannot be read: {error}")),
        }
    }

    pub fn is_match(&self, text: &str) -> Result<bool, String> {
        match self {
            JavaRegex::Linear(regex) => Ok(regex.is_match(text)),
            JavaRegex::Backtracking(regex) => regex.is_match(text).map_err(too_hard),
        }
    }

    /// The first match at or behind a byte: the whole and its groups.
    pub fn find_at(&self, text: &str, start: usize) -> Result<Option<Groups>, String> {
        match self {
            JavaRegex::Linear(regex) => Ok(regex.captures_at(text, start).map(|c| {
                let groups = c.iter().map(|m| m.map(|m| m.range()));
                Groups(groups.collect())
            })),
            JavaRegex::Backtracking(regex) => {
                let found = regex.captures_from_pos(text, start).map_err(too_hard)?;
                Ok(found.map(|c| Groups(c.iter().map(|m| m.map(|m| m.range())).collect())))
            }
        }
    }

    /// Number of a named group.
    fn group_number(&self, name: &str) -> Option<usize> {
        match self {
            JavaRegex::Linear(regex) => regex.capture_names().position(|n| n == Some(name)),
            JavaRegex::Backtracking(regex) => regex.capture_names().position(|n| n == Some(name)),
        }
    }

    /// All matches, as `Matcher.find` steps through them.
    fn each_match(
        &self,
        text: &str,
        mut each: impl FnMut(Groups) -> Result<bool, String>,
    ) -> Result<(), String> {
        let mut at = 0;
        while at <= text.len() {
            let Some(groups) = self.find_at(text, at)? else {
                break;
            };
            let whole = groups.whole();
            at = if whole.is_empty() {
                next_char(text, whole.end)
            } else {
                whole.end
            };
            if !each(groups)? {
                break;
            }
        }
        Ok(())
    }

    /// `String.replaceFirst` and `String.replaceAll`: `$n`, `${name}` and `\` are active in the
    /// replacement.
    pub fn replace(&self, text: &str, replacement: &str, all: bool) -> Result<String, String> {
        let mut out = String::new();
        let mut copied = 0;
        self.each_match(text, |groups| {
            out.push_str(&text[copied..groups.whole().start]);
            copied = groups.whole().end;
            self.expand(&mut out, replacement, text, &groups)?;
            Ok(all)
        })?;
        out.push_str(&text[copied..]);
        Ok(out)
    }

    /// `Matcher.appendExpandedReplacement`.
    fn expand(
        &self,
        out: &mut String,
        replacement: &str,
        text: &str,
        groups: &Groups,
    ) -> Result<(), String> {
        let mut rest = replacement;
        while let Some(at) = rest.find(['\\', '$']) {
            out.push_str(&rest[..at]);
            let is_escape = rest.as_bytes()[at] == b'\\';
            rest = &rest[at + 1..];
            let Some(next) = rest.chars().next() else {
                return Err("the replacement ends in the middle of an escape".into());
            };
            if is_escape {
                out.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            }
            let group = if next == '{' {
                let (name, behind) = rest[1..]
                    .split_once('}')
                    .ok_or("a group name in the replacement lacks its '}'")?;
                rest = behind;
                self.group_number(name)
                    .ok_or_else(|| format!("the regular expression has no group '{name}'"))?
            } else {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                if digits == 0 {
                    return Err("'$' in the replacement needs a group number".into());
                }
                // As many digits as make a group that exists, the first one always.
                let mut group = usize::from(rest.as_bytes()[0] - b'0');
                let mut used = 1;
                for digit in rest.bytes().take(digits).skip(1) {
                    let longer = group * 10 + usize::from(digit - b'0');
                    if longer >= groups.0.len() {
                        break;
                    }
                    group = longer;
                    used += 1;
                }
                rest = &rest[used..];
                group
            };
            match groups.0.get(group) {
                Some(Some(range)) => out.push_str(&text[range.clone()]),
                Some(None) => {}
                None => return Err(format!("the regular expression has no group {group}")),
            }
        }
        out.push_str(rest);
        Ok(())
    }

    /// `String.split`: no empty part in front of a match of no width at the start, empty parts at
    /// the end are dropped.
    pub fn split<'t>(&self, text: &'t str) -> Result<Vec<&'t str>, String> {
        let mut parts = Vec::new();
        let mut from = 0;
        self.each_match(text, |groups| {
            let found = groups.whole();
            if found.end > 0 {
                parts.push(&text[from..found.start]);
                from = found.end;
            }
            Ok(true)
        })?;
        if parts.is_empty() {
            return Ok(vec![text]);
        }
        parts.push(&text[from..]);
        while parts.last().is_some_and(|p| p.is_empty()) {
            parts.pop();
        }
        Ok(parts)
    }
}

fn too_hard(error: fancy_regex::Error) -> String {
    format!("the regular expression takes too long on this text: {error}")
}

fn next_char(text: &str, at: usize) -> usize {
    text[at..]
        .chars()
        .next()
        .map_or(at + 1, |c| at + c.len_utf8())
}

/// The places of a match and of its groups, in bytes.
#[derive(Debug)]
pub struct Groups(Vec<Option<Range<usize>>>);

impl Groups {
    pub fn whole(&self) -> Range<usize> {
        self.0[0].clone().expect("group 0 is the match itself")
    }

    /// `None`: there is no such group; `Some(None)`: it took no part in the match.
    pub fn get(&self, group: usize) -> Option<Option<Range<usize>>> {
        self.0.get(group).cloned()
    }
}

/// The pattern in the dialect of the Rust crates, and whether it has a possessive quantifier.
fn translate(pattern: &str) -> (String, bool) {
    let mut out = String::with_capacity(pattern.len() + 16);
    let chars: Vec<char> = pattern.chars().collect();
    // `.` matches line terminators under this flag; looking for it anywhere is precise enough.
    let has_dotall =
        pattern.contains("(?s") || pattern.contains("(?is") || pattern.contains("(?ms");
    let (mut possessive, mut quantified) = (false, false);
    let mut depth = 0usize;
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        at += 1;
        possessive |= c == '+' && quantified;
        quantified = depth == 0 && matches!(c, '*' | '+' | '?' | '}');
        match c {
            '\\' => at = translate_escape(&chars, at, depth > 0, &mut out),
            '[' => {
                depth += 1;
                out.push('[');
                if chars.get(at) == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                if chars.get(at) == Some(&']') {
                    out.push_str(r"\]");
                    at += 1;
                }
            }
            ']' if depth > 0 => {
                depth -= 1;
                out.push(']');
            }
            '.' if depth == 0 && !has_dotall => {
                out.push_str(r"[^\n\r\u{85}\u{2028}\u{2029}]");
            }
            // Java takes these as they are inside a class, the regex crate as set operators.
            '~' | '-' if depth > 0 && chars.get(at) == Some(&c) => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    (out, possessive)
}

/// Translates what follows a backslash; returns where the pattern goes on.
fn translate_escape(chars: &[char], at: usize, in_class: bool, out: &mut String) -> usize {
    let Some(&c) = chars.get(at) else {
        // Java refuses a lone backslash, and so does the regex crate.
        out.push('\\');
        return at;
    };
    let set = |out: &mut String, class: &str, negated: bool| {
        let caret = if negated { "^" } else { "" };
        if in_class && !negated {
            out.push_str(class);
        } else {
            write!(out, "[{caret}{class}]").expect("writing to a string cannot fail");
        }
    };
    match c {
        'd' | 'D' => set(out, "0-9", c == 'D'),
        'w' | 'W' => set(out, "a-zA-Z_0-9", c == 'W'),
        's' | 'S' => set(out, r" \t\n\x0B\f\r", c == 'S'),
        'h' | 'H' => set(
            out,
            r" \t\xA0\u{1680}\u{180e}\u{2000}-\u{200a}\u{202f}\u{205f}\u{3000}",
            c == 'H',
        ),
        'v' | 'V' => set(out, r"\n\x0B\f\r\x85\u{2028}\u{2029}", c == 'V'),
        'R' if !in_class => out.push_str(r"(?:\r\n|[\n\x0B\f\r\x85\u{2028}\u{2029}])"),
        'b' if !in_class => out.push_str(r"(?-u:\b)"),
        'B' if !in_class => out.push_str(r"(?-u:\B)"),
        'Z' if !in_class => out.push_str(r"(?:\r\n|[\n\r\x85\u{2028}\u{2029}])?\z"),
        'e' => out.push_str(r"\x1B"),
        'Q' => return translate_quote(chars, at + 1, out),
        'u' => return translate_unit(chars, at + 1, out),
        'x' if chars.get(at + 1) != Some(&'{') => {
            let digits: String = chars[at + 1..].iter().take(2).collect();
            write!(out, "\\x{digits}").expect("writing to a string cannot fail");
            return at + 1 + digits.chars().count();
        }
        '0' => return translate_octal(chars, at + 1, out),
        'p' | 'P' => return translate_property(chars, at, out),
        'k' => out.push_str(r"\k"),
        c if c.is_ascii_alphanumeric() => {
            out.push('\\');
            out.push(c);
        }
        // Any other character stands for itself.
        c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
    }
    at + 1
}

fn translate_quote(chars: &[char], from: usize, out: &mut String) -> usize {
    let mut at = from;
    while at < chars.len() {
        if chars[at] == '\\' && chars.get(at + 1) == Some(&'E') {
            return at + 2;
        }
        out.push_str(&regex::escape(chars[at].encode_utf8(&mut [0; 4])));
        at += 1;
    }
    at
}

fn hex_of(chars: &[char], at: usize) -> Option<u32> {
    let digits: String = chars.get(at..at + 4)?.iter().collect();
    u32::from_str_radix(&digits, 16).ok()
}

/// `\uXXXX`, two of them for a surrogate pair.
fn translate_unit(chars: &[char], at: usize, out: &mut String) -> usize {
    let Some(mut code) = hex_of(chars, at) else {
        out.push_str(r"\u");
        return at;
    };
    let mut next = at + 4;
    if (0xD800..0xDC00).contains(&code)
        && chars.get(next..next + 2) == Some(&['\\', 'u'])
        && let Some(low) = hex_of(chars, next + 2)
        && (0xDC00..0xE000).contains(&low)
    {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        next += 6;
    }
    write!(out, "\\u{{{code:X}}}").expect("writing to a string cannot fail");
    next
}

fn translate_octal(chars: &[char], at: usize, out: &mut String) -> usize {
    let mut code = 0;
    let mut next = at;
    while let Some(digit) = chars.get(next).and_then(|c| c.to_digit(8))
        && next - at < 3
        && code * 8 + digit <= 0o377
    {
        code = code * 8 + digit;
        next += 1;
    }
    write!(out, "\\x{{{code:X}}}").expect("writing to a string cannot fail");
    next
}

/// `\p{…}`: Java's names of classes, the Unicode ones as they are.
fn translate_property(chars: &[char], at: usize, out: &mut String) -> usize {
    let negated = chars[at] == 'P';
    let (name, next) = if chars.get(at + 1) == Some(&'{') {
        let length = chars[at + 2..].iter().take_while(|&&c| c != '}').count();
        let name: String = chars[at + 2..at + 2 + length].iter().collect();
        (name, (at + 3 + length).min(chars.len()))
    } else {
        let name: String = chars.get(at + 1).into_iter().collect();
        (name, (at + 2).min(chars.len()))
    };
    let class = match name.as_str() {
        "Lower" | "javaLowerCase" => "[a-z]",
        "Upper" | "javaUpperCase" => "[A-Z]",
        "ASCII" => r"[\x00-\x7F]",
        "Alpha" => "[a-zA-Z]",
        "Digit" => "[0-9]",
        "Alnum" => "[a-zA-Z0-9]",
        "Punct" => r"[!-/:-@\[-`{-\~]",
        "Graph" => r"[!-\~]",
        "Print" => r"[ -\~]",
        "Blank" => r"[ \t]",
        "Cntrl" => r"[\x00-\x1F\x7F]",
        "XDigit" => "[0-9a-fA-F]",
        "Space" => r"[ \t\n\x0B\f\r]",
        _ => "",
    };
    if class.is_empty() {
        let name = name
            .strip_prefix("Is")
            .or_else(|| name.strip_prefix("In"))
            .unwrap_or(&name);
        let letter = if negated { 'P' } else { 'p' };
        write!(out, "\\{letter}{{{name}}}").expect("writing to a string cannot fail");
    } else if negated {
        write!(out, "[^{class}]").expect("writing to a string cannot fail");
    } else {
        out.push_str(class);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_whole(pattern: &str, matching: &[&str], other: &[&str]) {
        let regex = JavaRegex::whole(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        for text in matching {
            assert_eq!(regex.is_match(text), Ok(true), "{pattern} on {text:?}");
        }
        for text in other {
            assert_eq!(regex.is_match(text), Ok(false), "{pattern} on {text:?}");
        }
    }

    #[test]
    fn java_classes_are_ascii() {
        check_whole(r"\d+", &["0129"], &["٣", ""]);
        check_whole(r"\w+", &["aZ_9"], &["é", "a b"]);
        check_whole(r"[\w.-]+@[\w]+", &["a.b-c@d"], &["é@d"]);
        check_whole(r"[^\s]+", &["ab"], &["a b"]);
        check_whole(r"\p{Alpha}\P{Digit}\p{L}", &["aéé"], &["é1é"]);
        check_whole(".", &["x"], &["\n", "\r", "\u{2028}"]);
        check_whole("(?s).", &["\r", "\n"], &[]);
    }

    #[test]
    fn quotes_escapes_and_classes() {
        check_whole(r"\Qa.b\E.", &["a.bc"], &["axbc"]);
        check_whole(r"\<\-\/\_", &["<-/_"], &[]);
        check_whole(r"[]a]", &["]", "a"], &[]);
        check_whole(r"[a-z&&[^b]]", &["a"], &["b"]);
        check_whole(r"\u0041\x42\0103", &["ABC"], &[]);
        check_whole("[a--]", &["a", "-"], &[]);
    }

    #[test]
    fn what_needs_backtracking_goes_there() {
        check_whole(r"(a+)\1", &["aaaa"], &["aaa"]);
        check_whole(r"foo(?!bar)\w*", &["foobaz"], &["foobar"]);
        check_whole("a*+a", &[], &["aaa"]);
        assert!(JavaRegex::new("(").is_err());
    }

    #[test]
    fn replacements_name_groups() {
        let check = |pattern: &str, text: &str, replacement: &str, all: bool, expect: &str| {
            let regex = JavaRegex::new(pattern).expect("a pattern");
            let replaced = regex.replace(text, replacement, all);
            assert_eq!(replaced.as_deref(), Ok(expect));
        };
        check("b", "abcb", "x", true, "axcx");
        check("b", "abcb", "x", false, "axcb");
        check("(b)(c)?", "abd", "[$1$2]", true, "a[b]d");
        check("(?<n>b)", "abc", "${n}${n}", true, "abbc");
        check("(b)", "abc", "$12", true, "ab2c");
        check("b", "abc", r"\$1\\", true, r"a$1\c");
        check("", "ab", "-", true, "-a-b-");
        check("x*", "axb", "-", true, "-a--b-");
        let regex = JavaRegex::new("b").expect("a pattern");
        assert!(regex.replace("b", "$1", true).is_err());
        assert!(regex.replace("b", "$", true).is_err());
    }

    #[test]
    fn splitting_drops_empty_ends() {
        let check = |pattern: &str, text: &str, expect: &[&str]| {
            let regex = JavaRegex::new(pattern).expect("a pattern");
            assert_eq!(regex.split(text).as_deref(), Ok(expect));
        };
        check(",", "a,b,,", &["a", "b"]);
        check(",", ",a", &["", "a"]);
        check("", "abc", &["a", "b", "c"]);
        check(",", "", &[""]);
        check(",", ",", &[]);
        check("x", "abc", &["abc"]);
    }
}
