//! `${NAME}`, `${env:NAME}`, `${env:NAME:-default}`, `${file:PATH}`, `${secret:NAME}` and `${app:dir}`: values put into the text of an app before it is
//! parsed.
//!
//! Promises: a value is inserted as it stands (Siddhi interprets `$1` and `\` in it), everywhere
//! in the text, strings and comments included; places in the result can be traced back.
//!
//! Never: reads the environment. Values come from a function that the caller passes.

use std::borrow::Cow;

use crate::diagnostic::Diagnostic;
use crate::fault;
use crate::span::Span;

/// What stands before the name of a variable of the environment, before the path of a file, before the name of
/// a secret of the key store, and before what is known of the app itself.
const ENV: &str = "env:";
const FILE: &str = "file:";
const SECRET: &str = "secret:";
const APP: &str = "app:";

/// What stands before the value that an environment without the variable, or with an empty one, gives.
const DEFAULT: &str = ":-";

/// The variable for the folder of the app's file, so that an app finds the files beside it wherever it is
/// started. Siddhi has no such variable, and a colon is in none of its names.
pub const APP_DIR: &str = "app:dir";

/// A text with its values put in.
#[derive(Clone, Debug)]
pub struct Substituted<'t> {
    pub text: Cow<'t, str>,
    /// What was replaced, in order.
    replaced: Vec<Replaced>,
}

#[derive(Clone, Copy, Debug)]
struct Replaced {
    /// Where `${NAME}` stood in the original.
    original: Span,
    /// Where its value stands in the new text.
    value: Span,
}

impl Substituted<'_> {
    /// The place in the original text. A place inside a value becomes that of its `${NAME}`.
    pub fn to_original(&self, span: Span) -> Span {
        if self.replaced.is_empty() {
            return span;
        }
        Span::new(self.offset(span.start, false), self.offset(span.end, true))
    }

    fn offset(&self, offset: u32, is_end: bool) -> u32 {
        let index = self.replaced.partition_point(|r| r.value.start <= offset);
        let Some(last) = index.checked_sub(1).map(|i| self.replaced[i]) else {
            return offset;
        };
        if offset >= last.value.end {
            return offset - last.value.end + last.original.end;
        }
        if is_end && offset > last.value.start {
            last.original.end
        } else {
            last.original.start
        }
    }
}

fn ends_value(c: char) -> bool {
    matches!(c, '}' | '\'' | '"' | '\n')
}

/// How long the name of a variable is that begins a text: letters, digits and `_`, which `env:` or
/// `app:` may stand before; `secret:` with a name, which may also have `-` and `.`; or `file:` with a path.
fn name_len(text: &str) -> usize {
    let prefix = [FILE, ENV, SECRET, APP]
        .into_iter()
        .find(|word| text.starts_with(word));
    let prefix = prefix.unwrap_or_default();
    let ends = |c: char| match prefix {
        FILE => ends_value(c),
        SECRET => !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'),
        _ => !c.is_ascii_alphanumeric() && c != '_',
    };
    let rest = &text[prefix.len()..];
    match rest.find(ends).unwrap_or(rest.len()) {
        0 => 0,
        len => prefix.len() + len,
    }
}

/// Replaces every `${NAME}` (letters, digits and `_`), `${env:NAME}`, `${file:PATH}`, `${secret:NAME}` and
/// `${app:dir}` by what `lookup` gives for what stands between the braces. Names without a value are reported, all of
/// them, at their places in `text`, and replaced by nothing.
pub fn substitute<'t>(
    text: &'t str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> (Substituted<'t>, Vec<Diagnostic>) {
    let mut out = String::new();
    let mut replaced = Vec::new();
    let mut diagnostics = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find("${") {
        let start = at + found;
        let name = &text[start + 2..start + 2 + name_len(&text[start + 2..])];
        at = start + 2 + name.len();
        let mut default = None;
        if name.starts_with(ENV)
            && let Some(rest) = text[at..].strip_prefix(DEFAULT)
        {
            let value = &rest[..rest.find(ends_value).unwrap_or(rest.len())];
            default = Some(value);
            at += DEFAULT.len() + value.len();
        }
        if name.is_empty() || !text[at..].starts_with('}') {
            continue;
        }
        at += 1;
        let original = Span::new(start as u32, at as u32);
        out.push_str(&text[copied..start]);
        copied = at;
        let value_start = out.len() as u32;
        let found = lookup(name).filter(|value| default.is_none() || !value.is_empty());
        match found.or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => diagnostics.push(no_value(original, name)),
        }
        replaced.push(Replaced {
            original,
            value: Span::new(value_start, out.len() as u32),
        });
    }
    if replaced.is_empty() {
        return (
            Substituted {
                text: Cow::Borrowed(text),
                replaced,
            },
            diagnostics,
        );
    }
    out.push_str(&text[copied..]);
    (
        Substituted {
            text: Cow::Owned(out),
            replaced,
        },
        diagnostics,
    )
}

fn no_value(span: Span, name: &str) -> Diagnostic {
    if let Some(path) = name.strip_prefix(FILE) {
        let message = format!("the file '{path}' of a variable cannot be read");
        return fault::error(
            "E0144",
            span,
            message,
            "no such file, or no right to read it",
        )
        .help("name a file that contains the value; a trailing line break is ignored");
    }
    if let Some(secret) = name.strip_prefix(SECRET) {
        let message = format!("the key store has no secret '{secret}'");
        return fault::error("E0144", span, message, "no value").help(format!(
            "set it with 'headwater secrets set {secret}', and name the store with --secrets FILE or --state DIR"
        ));
    }
    if name.starts_with(APP) {
        return fault::error(
            "E0144",
            span,
            format!("there is no variable '{name}'"),
            "not known of an app",
        )
        .help(format!(
            "write ${{{APP_DIR}}}, the folder of the app's file"
        ))
        .fix(span, format!("${{{APP_DIR}}}"));
    }
    let name = name.strip_prefix(ENV).unwrap_or(name);
    let message = format!("the variable '{name}' has no value");
    fault::error(
        "E0144",
        span,
        message,
        "neither a setting nor in the environment",
    )
    .help(format!(
        "set the environment variable {name}; ${{…}} is replaced in strings and comments too"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "DIR" => Some("/data".into()),
            "ODD" => Some("$1\\n${DIR}".into()),
            "env:DIR" => Some("/of/env".into()),
            APP_DIR => Some("/apps".into()),
            "file:/a-b/c.d" => Some("content".into()),
            "secret:db-1.x" => Some("treasure".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let (found, diagnostics) = substitute(text, &lookup);
        assert_eq!(found.text, expect);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
    }

    #[test]
    fn values_are_inserted_as_they_stand() {
        check("a", "a");
        check("${DIR}", "/data");
        check("'x${DIR}/y' -- ${DIR}", "'x/data/y' -- /data");
        check("${ODD}", "$1\\n${DIR}");
        check("${EMPTY}", "");
        check(
            "'${env:DIR}' ${file:/a-b/c.d}${env:}",
            "'/of/env' content${env:}",
        );
        check("'${app:dir}/a.csv'", "'/apps/a.csv'");
        check("'${secret:db-1.x}'${secret:}", "'treasure'${secret:}");
        check(
            "${env:DIR:-/x} ${env:NONE:-/a b:-c}${env:NONE:-}",
            "/of/env /a b:-c",
        );
        check("${DIR:-x} ${env:NONE:-x", "${DIR:-x} ${env:NONE:-x");
        check("$DIR ${} ${a b} ${DIR", "$DIR ${} ${a b} ${DIR");
        check("${${DIR}}", "${/data}");
    }

    #[test]
    fn names_without_a_value_are_all_reported() {
        let (_, diagnostics) = substitute("${A} ${DIR} ${B}", &lookup);
        let spans: Vec<_> = diagnostics.iter().map(|d| (d.code, d.span)).collect();
        assert_eq!(
            spans,
            [("E0144", Span::new(0, 4)), ("E0144", Span::new(12, 16))]
        );
    }

    #[test]
    fn places_are_traced_back() {
        let text = "ab ${EMPTY}cd ${DIR} ef";
        let (found, _) = substitute(text, &lookup);
        assert_eq!(found.text, "ab cd /data ef");
        let back = |word: &str| {
            let start = found.text.find(word).unwrap() as u32;
            found
                .to_original(Span::new(start, start + word.len() as u32))
                .text(text)
                .to_owned()
        };
        assert_eq!(back("ab"), "ab");
        assert_eq!(back("d "), "d ");
        assert_eq!(back("/data"), "${DIR}");
        assert_eq!(back("ata"), "${DIR}");
        assert_eq!(back("ef"), "ef");
        assert_eq!(back("cd"), "cd");
    }
}
