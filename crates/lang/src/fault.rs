//! The diagnostics of the lexer and the parser, one function each, in the words of whoever wrote
//! the app: never the name of a token or of a grammar rule.

use crate::diagnostic::{Diagnostic, Fix, Kind, Severity};
use crate::span::Span;

/// An error without related places, help or fix.
pub(crate) fn error(code: &'static str, span: Span, message: String, label: &str) -> Diagnostic {
    Diagnostic {
        code,
        severity: Severity::Error,
        kind: Kind::Syntax,
        message,
        span,
        label: label.to_owned(),
        related: Vec::new(),
        help: None,
        fix: None,
    }
}

fn warning(code: &'static str, span: Span, message: String, label: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        ..error(code, span, message, label)
    }
}

// ---- characters, strings, numbers ----

pub(crate) fn stray_character(span: Span, found: char) -> Diagnostic {
    let shown = match found {
        '\u{a0}' => "a no-break space".to_owned(),
        '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' => format!("the curly quote {found}"),
        _ if found.is_control() || found.is_whitespace() => {
            format!("the invisible character U+{:04X}", found as u32)
        }
        _ => format!("the character '{found}'"),
    };
    let report = error(
        "E0101",
        span,
        format!("{shown} has no meaning here"),
        "remove it, or put it inside quotes",
    );
    match found {
        '\u{2018}' | '\u{2019}' => report.help("write a straight quote: '").fix(span, "'"),
        '\u{201c}' | '\u{201d}' => report.help("write a straight quote: \"").fix(span, "\""),
        '\u{a0}' => report.help("write an ordinary space").fix(span, " "),
        '$' => report.help("a variable is written ${NAME}"),
        '{' | '}' => report.help("braces are only allowed around the body of a script function"),
        '\\' => report.help("there are no escapes; put a long text between \"\"\" and \"\"\""),
        _ => report,
    }
}

pub(crate) fn string_not_closed(span: Span, quote: char) -> Diagnostic {
    error(
        "E0102",
        span,
        format!("a string is not closed on its line, a {quote} is missing"),
        "this quote has no partner on the line",
    )
    .help("close it on the same line; put a text of several lines between \"\"\" and \"\"\"")
}

pub(crate) fn long_string_not_closed(span: Span) -> Diagnostic {
    error(
        "E0102",
        span,
        "a string is not closed".into(),
        "the \"\"\" that opens here has no end",
    )
    .help("close it with \"\"\"")
}

pub(crate) fn control_in_string(span: Span) -> Diagnostic {
    error(
        "E0103",
        span,
        "a string holds a tab or another control character".into(),
        "not allowed between ' or \" quotes",
    )
    .help("write a space, or put the text between \"\"\" and \"\"\"")
}

pub(crate) fn quoted_name_not_closed(span: Span) -> Diagnostic {
    error(
        "E0104",
        span,
        "a quoted name is not closed, a ` is missing".into(),
        "opens here",
    )
    .help("close the name with ` on the same line")
}

/// A number that its type cannot hold; `value` is its text with the sign, without a suffix.
pub(crate) fn number_range(is_int: bool, value: &str, span: Span) -> Diagnostic {
    let (ty, label) = if is_int {
        ("an int", "outside of -2147483648 … 2147483647")
    } else {
        (
            "a long",
            "outside of -9223372036854775808 … 9223372036854775807",
        )
    };
    let report = error(
        "E0105",
        span,
        format!("the number {value} does not fit {ty}"),
        label,
    );
    if is_int && value.parse::<i64>().is_ok() {
        report
            .help("write it as a long")
            .fix(span, format!("{value}L"))
    } else {
        report.help("write it as a double, with a fraction")
    }
}

pub(crate) fn number_glued_unit(span: Span, fix: Fix) -> Diagnostic {
    let mut report = error(
        "E0106",
        span,
        "a space is missing between a number and its unit".into(),
        "read as a number with a suffix",
    )
    .help(format!("write {}", fix.replacement));
    report.fix = Some(fix);
    report
}

pub(crate) fn number_malformed(span: Span, text: &str) -> Diagnostic {
    error(
        "E0106",
        span,
        format!("'{text}' is neither a number nor a name"),
        "not a number",
    )
    .help("numbers are written 5, 5L, 2.5f, 2.5 or 1e3; a name cannot start with a digit")
}

pub(crate) fn script_not_closed(span: Span) -> Diagnostic {
    error(
        "E0107",
        span,
        "the body of a script is not closed".into(),
        "the '{' that opens here has no '}'",
    )
    .help("add the missing '}'; braces inside \"…\" and after // do not count")
}

pub(crate) fn slash_comment(span: Span) -> Diagnostic {
    error(
        "E0108",
        span,
        "'//' does not start a comment".into(),
        "no comment in SiddhiQL",
    )
    .help("write -- for a comment to the end of the line, or /* … */")
    .fix(span, "--")
}

pub(crate) fn comment_not_closed(span: Span) -> Diagnostic {
    warning(
        "W0102",
        span,
        "a comment is not closed".into(),
        "everything from here to the end of the text is skipped",
    )
    .help("close the comment with */")
}

pub(crate) fn symbol_operator(span: Span, symbol: &str, word: &str) -> Diagnostic {
    error(
        "E0119",
        span,
        format!("'{symbol}' is not an operator"),
        "not an operator of SiddhiQL",
    )
    .help(format!("write '{word}'"))
    .fix(span, word)
}
