//! Whether the text of an option can be read as its type.

use super::{Given, WithHelp, finding};
use crate::codes::option as code;
use lang::cron::Cron;
use lang::diagnostic::{Diagnostic, Fix, Severity};
use lang::span::Span;
use lang::suggest::nearest;
use plan::spec::{OptionSpec, OptionType};

pub(super) fn judge(known: &OptionSpec, given: &Given) -> Option<Diagnostic> {
    let text = given.value.trim();
    judge_type(known, given, text)
        .or_else(|| out_of_range(known, given))
        .or_else(|| not_such_url(known, given, text))
}

/// A URL of another kind, or one that leads nowhere. It may hold a password, so that no more of it is
/// repeated than is wrong.
fn not_such_url(known: &OptionSpec, given: &Given, text: &str) -> Option<Diagnostic> {
    if known.beginnings.is_empty() {
        return None;
    }
    let all = || known.beginnings.iter().chain(known.not_yet);
    let begins = |with: &&&str| {
        let start = text.get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    let wrong = |message: String, label: &str| {
        finding(
            code::BAD_VALUE,
            Severity::Error,
            given.value_span,
            format!("option '{}' {message}", given.name),
            label,
        )
    };
    let Some(beginning) = all().find(begins) else {
        let list: Vec<String> = known.beginnings.iter().map(|b| format!("'{b}'")).collect();
        let list = list.join(", ");
        let depth = match known.beginnings[0].starts_with("jdbc:") {
            true => 2,
            false => 1,
        };
        let written = scheme(text, depth);
        let near = written.and_then(|written| nearest(written, all().copied()));
        let message = match written {
            Some(written) => format!("begins with '{written}', which is no kind of URL for it"),
            None => "is no URL".to_owned(),
        };
        let mut diagnostic = wrong(message, "not a URL that can be used");
        diagnostic.help = Some(match near {
            Some(near) => format!("did you mean '{near}'? It begins with one of {list}"),
            None => format!("it begins with one of {list}"),
        });
        // The beginning alone, between the quotes: the rest may be secret.
        let span = given.value_span;
        let is_as_written =
            (span.end - span.start) as usize == given.value.len() + 2 && given.value == text;
        diagnostic.fix = near
            .zip(written)
            .filter(|_| is_as_written)
            .map(|(near, written)| Fix {
                span: Span {
                    start: span.start + 1,
                    end: span.start + 1 + written.len() as u32,
                },
                replacement: near.to_owned(),
            });
        return Some(diagnostic);
    };
    if !beginning.ends_with("//") {
        return None;
    }
    let rest = &text[beginning.len()..];
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    let behind_host = place.rsplit(']').next().unwrap_or_default();
    let (host, port) = match behind_host.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (behind_host, None),
    };
    if host.is_empty() && !place.starts_with('[') {
        return Some(wrong("has no host".to_owned(), "no host").with_help("write host:port"));
    }
    let port = port.filter(|port| port.parse::<u16>().is_err())?;
    Some(
        wrong(format!("has the port '{port}'"), "no such port")
            .with_help("a port is a number from 0 to 65535"),
    )
}

/// What stands before the so manyth colon, with it and the slashes behind.
fn scheme(text: &str, colons: usize) -> Option<&str> {
    let (at, _) = text.match_indices(':').nth(colons - 1)?;
    let scheme = &text[..=at];
    let is_one = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '+' | '-' | '.');
    if !scheme.chars().all(is_one) {
        return None;
    }
    let slashes = text[at + 1..].starts_with("//") && colons == 1;
    Some(&text[..at + 1 + if slashes { 2 } else { 0 }])
}

fn out_of_range(known: &OptionSpec, given: &Given) -> Option<Diagnostic> {
    if known.has_in_range(given.value) {
        return None;
    }
    let wanted = known.wanted();
    let help = match known.default {
        "" => format!("write {wanted}"),
        default => format!("write {wanted}, or leave the option out for {default}"),
    };
    Some(
        finding(
            code::BAD_VALUE,
            Severity::Error,
            given.value_span,
            format!(
                "option '{}' is {}, and must be {wanted}",
                given.name,
                given.value.trim()
            ),
            "out of range",
        )
        .with_help(help),
    )
}

fn judge_type(known: &OptionSpec, given: &Given, text: &str) -> Option<Diagnostic> {
    match known.ty {
        OptionType::Text | OptionType::Pairs | OptionType::List => None,
        OptionType::Bool => is_not_bool(text).then(|| read_as_false(given)),
        OptionType::Int => text
            .parse::<i32>()
            .is_err()
            .then(|| bad(given, "a whole number")),
        OptionType::Long | OptionType::Bytes => text
            .parse::<i64>()
            .is_err()
            .then(|| bad(given, "a whole number")),
        OptionType::Millis => text
            .parse::<i64>()
            .is_err()
            .then(|| bad(given, "a number of milliseconds")),
        OptionType::Double => text.parse::<f64>().is_err().then(|| bad(given, "a number")),
        OptionType::Regex => {
            let fault = regex_fault(given.value)?;
            Some(bad(given, "a regular expression").with_help(fault))
        }
        OptionType::Cron => Cron::parse(text).is_err().then(|| {
            bad(given, "a cron expression").with_help(
                "it has 6 or 7 fields, seconds first: '0 */5 * * * ?' is every five minutes",
            )
        }),
        OptionType::OneOf(values) => {
            let is_one = values.iter().any(|v| v.eq_ignore_ascii_case(text));
            (!is_one).then(|| none_of(given, values))
        }
    }
}

fn is_not_bool(text: &str) -> bool {
    !text.eq_ignore_ascii_case("true") && !text.eq_ignore_ascii_case("false")
}

/// `Boolean.parseBoolean` takes whatever is not `true` as false, without a word.
fn read_as_false(given: &Given) -> Diagnostic {
    finding(
        code::READ_AS_FALSE,
        Severity::Warning,
        given.value_span,
        format!(
            "option '{}' is neither 'true' nor 'false', and is read as false",
            given.name
        ),
        "read as false",
    )
    .with_help("write 'true' or 'false'")
}

fn bad(given: &Given, wanted: &str) -> Diagnostic {
    finding(
        code::BAD_VALUE,
        Severity::Error,
        given.value_span,
        format!("option '{}' cannot be '{}'", given.name, given.value),
        format!("{wanted} is needed"),
    )
    .with_help(format!("give {wanted}"))
}

fn none_of(given: &Given, values: &[&'static str]) -> Diagnostic {
    let list = values
        .iter()
        .map(|v| format!("'{v}'"))
        .collect::<Vec<_>>()
        .join(", ");
    let near = nearest(given.value.trim(), values.iter().copied());
    let mut wrong = bad(given, "one of the known values");
    wrong.help = Some(match near {
        Some(value) => format!("did you mean '{value}'? It is one of {list}"),
        None => format!("it is one of {list}"),
    });
    wrong.fix = near.map(|v| Fix {
        span: given.value_span,
        replacement: format!("'{v}'"),
    });
    wrong
}

/// The faults that can be seen without an engine for Java's dialect: brackets that do not match,
/// and a repetition of nothing.
fn regex_fault(pattern: &str) -> Option<&'static str> {
    let mut open = 0_u32;
    let mut in_class = false;
    let mut repeats_nothing = true;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let is_dangling = repeats_nothing && matches!(letter, '*' | '+' | '?');
        repeats_nothing = false;
        match letter {
            '\\' => {
                letters.next()?;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' => {
                open += 1;
                // `(?:`, `(?=` and their like are no repetitions.
                if letters.as_str().starts_with('?') {
                    letters.next();
                }
                repeats_nothing = true;
            }
            ')' if open == 0 => return Some("it has a ')' without a '('"),
            ')' => open -= 1,
            '|' => repeats_nothing = true,
            _ if is_dangling => return Some("it repeats nothing"),
            _ => {}
        }
    }
    if in_class {
        Some("it has a '[' that is not closed")
    } else if open > 0 {
        Some("it has a '(' that is not closed")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_each_type() {
        let check = |ty: OptionType, value: &str, expect: Option<Severity>| {
            let option = OptionSpec::new("o", ty, "");
            let span = Span::default();
            let given = Given {
                name: "o",
                name_span: span,
                value,
                value_span: span,
            };
            assert_eq!(
                judge(&option, &given).map(|d| d.severity),
                expect,
                "{ty:?} {value}"
            );
        };
        let (error, warning) = (Some(Severity::Error), Some(Severity::Warning));
        check(OptionType::Text, "", None);
        check(OptionType::Bool, "TRUE", None);
        check(OptionType::Bool, "yes", warning);
        check(OptionType::Int, " 5 ", None);
        check(OptionType::Int, "5s", error);
        check(OptionType::Int, "3000000000", error);
        check(OptionType::Long, "3000000000", None);
        check(OptionType::Double, "0.5", None);
        check(OptionType::Double, "half", error);
        check(OptionType::OneOf(&["a", "b"]), "B", None);
        check(OptionType::OneOf(&["a", "b"]), "c", error);
        check(OptionType::Cron, "*/5 * * * * ?", None);
        check(OptionType::Cron, "5 * *", error);
        check(OptionType::Regex, r"HDprod-[a-zA-z]*-(\d+)[0-9)(?]", None);
        check(OptionType::Regex, r"(?:a|b)+?(?<n>\()*", None);
        check(OptionType::Regex, "(a", error);
        check(OptionType::Regex, "a)", error);
        check(OptionType::Regex, "[a", error);
        check(OptionType::Regex, "a|*", error);
    }

    #[test]
    fn urls_begin_as_they_must_and_lead_somewhere() {
        let check = |beginnings: &'static [&'static str], value: &str, expect: Option<&str>| {
            let option = OptionSpec::new("o", OptionType::Text, "").url(beginnings);
            let span = Span::default();
            let given = Given {
                name: "o",
                name_span: span,
                value,
                value_span: span,
            };
            let found = judge(&option, &given);
            let found = found.map(|d| format!("{}; {}", d.message, d.help.unwrap_or_default()));
            assert_eq!(found.as_deref(), expect, "{value}");
        };
        let http = &["http://", "https://"];
        check(http, " HTTP://host:8280/path", None);
        check(http, "https://user:secret@[::1]:0", None);
        check(http, "http://host", None);
        check(
            http,
            "htp://user:secret@host",
            Some(
                "option 'o' begins with 'htp://', which is no kind of URL for it; did you mean \
                 'http://'? It begins with one of 'http://', 'https://'",
            ),
        );
        check(
            http,
            "host",
            Some("option 'o' is no URL; it begins with one of 'http://', 'https://'"),
        );
        let port = "option 'o' has the port '99999'; a port is a number from 0 to 65535";
        check(http, "http://host:99999/path", Some(port));
        check(
            http,
            "http:///path",
            Some("option 'o' has no host; write host:port"),
        );
        let jdbc = &["jdbc:mysql:", "jdbc:postgresql:"];
        check(jdbc, "jdbc:mysql://host/db", None);
        check(
            jdbc,
            "jdbc:postgrsql://user:secret@host/db",
            Some(
                "option 'o' begins with 'jdbc:postgrsql:', which is no kind of URL for it; did you \
                 mean 'jdbc:postgresql:'? It begins with one of 'jdbc:mysql:', 'jdbc:postgresql:'",
            ),
        );
    }

    #[test]
    fn numbers_and_their_ranges() {
        let check = |option: OptionSpec, value: &str, expect: Option<&str>| {
            let span = Span::default();
            let given = Given {
                name: "o",
                name_span: span,
                value,
                value_span: span,
            };
            let found = judge(&option, &given).map(|d| {
                assert_eq!((d.code, d.severity), (code::BAD_VALUE, Severity::Error));
                format!("{}; {}", d.message, d.help.unwrap_or_default())
            });
            assert_eq!(found.as_deref(), expect, "{value}");
        };
        let of = |ty| OptionSpec::new("o", ty, "");
        let wait = of(OptionType::Int).range(0, 20).or(-1).unit("seconds");
        check(wait, " 20 ", None);
        check(wait, "-1", None);
        check(
            wait,
            "-2",
            Some(
                "option 'o' is -2, and must be a number from 0 to 20 seconds, or -1; \
                 write a number from 0 to 20 seconds, or -1",
            ),
        );
        check(
            of(OptionType::Millis).default("5").at_least(1),
            "0",
            Some(
                "option 'o' is 0, and must be a number of at least 1 ms; \
                 write a number of at least 1 ms, or leave the option out for 5",
            ),
        );
        check(
            of(OptionType::Bytes).range(1, 9),
            "10",
            Some(
                "option 'o' is 10, and must be a number from 1 to 9 bytes; \
                 write a number from 1 to 9 bytes",
            ),
        );
        let part = of(OptionType::Double).below(0.0, 1.0);
        check(part, "0.999", None);
        check(
            part,
            "1",
            Some(
                "option 'o' is 1, and must be a number from 0 to less than 1; \
                 write a number from 0 to less than 1",
            ),
        );
        check(of(OptionType::Long), "-9223372036854775808", None);
        // What is no number at all has one finding, that of its type.
        check(
            wait,
            "soon",
            Some("option 'o' cannot be 'soon'; give a whole number"),
        );
    }
}
