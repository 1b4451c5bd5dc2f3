//! Replacing and splitting, as `String.replaceAll` and `String.split` do.

use super::{Error, Groups, Regex};

impl Regex {
    /// All matches, as `Matcher.find` steps through them, until `each` says false.
    pub(super) fn each_match(
        &self,
        text: &str,
        mut each: impl FnMut(&Groups) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut groups = Groups::default();
        let mut at = 0;
        while at <= text.len() && self.find_at(text, at, &mut groups)? {
            let whole = groups.whole();
            at = if whole.is_empty() {
                next_char(text, whole.end)
            } else {
                whole.end
            };
            if !each(&groups)? {
                break;
            }
        }
        Ok(())
    }

    /// `String.replaceFirst` and `String.replaceAll`: `$n`, `${name}` and `\` are active in the
    /// replacement.
    pub fn replace(&self, text: &str, replacement: &str, all: bool) -> Result<String, Error> {
        let mut out = String::new();
        let mut copied = 0;
        self.each_match(text, |groups| {
            out.push_str(&text[copied..groups.whole().start]);
            copied = groups.whole().end;
            self.expand(&mut out, replacement, text, groups)
                .map_err(|cause| Error::Replacement {
                    replacement: replacement.to_owned(),
                    cause,
                })?;
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
                return Err("ends in the middle of an escape".into());
            };
            if is_escape {
                out.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            }
            let (group, behind) = self.group_of(rest)?;
            rest = behind;
            if group > self.group_count() {
                return Err(format!(
                    "names group {group}, which the regular expression lacks"
                ));
            }
            out.push_str(groups.get(group).map_or("", |range| &text[range]));
        }
        out.push_str(rest);
        Ok(())
    }

    /// What stands behind a `$`: the number of the group, and what follows.
    fn group_of<'r>(&self, rest: &'r str) -> Result<(usize, &'r str), String> {
        if let Some(inner) = rest.strip_prefix('{') {
            let (name, behind) = inner
                .split_once('}')
                .ok_or("lacks the '}' of a group's name")?;
            let group = self.group_number(name).ok_or_else(|| {
                format!("names group '{name}', which the regular expression lacks")
            })?;
            return Ok((group, behind));
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err("has a '$' without the number of a group".into());
        }
        // As many digits as make a group that exists, the first one always.
        let mut group = usize::from(rest.as_bytes()[0] - b'0');
        let mut used = 1;
        for digit in rest.bytes().take(digits).skip(1) {
            let longer = group * 10 + usize::from(digit - b'0');
            if longer > self.group_count() {
                break;
            }
            group = longer;
            used += 1;
        }
        Ok((group, &rest[used..]))
    }

    /// `String.split`: no empty part in front of a match of no width at the start, empty parts at
    /// the end are dropped.
    pub fn split<'t>(&self, text: &'t str) -> Result<Vec<&'t str>, Error> {
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

fn next_char(text: &str, at: usize) -> usize {
    text[at..]
        .chars()
        .next()
        .map_or(at + 1, |c| at + c.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_name_groups() {
        let check = |pattern: &str, text: &str, replacement: &str, all: bool, expect: &str| {
            let regex = Regex::new(pattern).expect("a pattern");
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
        let regex = Regex::new("b").expect("a pattern");
        for bad in ["$1", "$", "${n}", "${n", r"\"] {
            assert!(regex.replace("b", bad, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn splitting_drops_empty_ends() {
        let check = |pattern: &str, text: &str, expect: &[&str]| {
            let regex = Regex::new(pattern).expect("a pattern");
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
