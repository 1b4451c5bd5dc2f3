//! Putting findings together.

use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::span::Span;

/// A finding under construction: what is wrong and where; the rest is added by its methods.
pub(super) fn error(
    code: &'static str,
    kind: Kind,
    span: Span,
    message: impl Into<String>,
    label: impl Into<String>,
) -> Diagnostic {
    Diagnostic {
        code,
        severity: Severity::Error,
        kind,
        message: message.into(),
        span,
        label: label.into(),
        related: Vec::new(),
        help: None,
        fix: None,
    }
}

pub(super) fn warning(
    code: &'static str,
    kind: Kind,
    span: Span,
    message: impl Into<String>,
    label: impl Into<String>,
) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        ..error(code, kind, span, message, label)
    }
}

/// `'a', 'b' and 'c'`, cut after `limit` names.
pub(super) fn list<'n>(names: impl IntoIterator<Item = &'n str>, limit: usize) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.len().min(limit);
    let mut text = String::new();
    for (i, name) in names[..shown].iter().enumerate() {
        if i > 0 {
            text.push_str(if i + 1 == names.len() { " and " } else { ", " });
        }
        text.push('\'');
        text.push_str(name);
        text.push('\'');
    }
    if names.len() > shown {
        text.push_str(&format!(" and {} more", names.len() - shown));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut() {
        assert_eq!(list(["a", "b", "c"], 5), "'a', 'b' and 'c'");
        assert_eq!(list(["a", "b", "c"], 2), "'a', 'b' and 1 more");
        assert_eq!(list(["a"], 2), "'a'");
    }
}
