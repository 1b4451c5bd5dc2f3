//! Where the statements of a text in SQL begin and end, so that each is asked by itself. What they
//! mean is known to who answers them.

use std::ops::Range;

/// The statements between semicolons, without these and without space around them. Semicolons in quotes and in
/// comments are part of a statement; a text of comments alone has none.
pub fn statements(text: &str) -> Vec<Range<usize>> {
    let mut statements = Vec::new();
    let mut words: Option<Range<usize>> = None;
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        let end = at
            + match next {
                '\'' | '"' | '`' => quoted(rest, next),
                '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
                '/' if rest.starts_with("/*") => commented(rest),
                other => other.len_utf8(),
            };
        let is_comment = rest.starts_with("--") || rest.starts_with("/*");
        if next == ';' {
            statements.extend(words.take());
        } else if !is_comment && !next.is_whitespace() {
            words.get_or_insert(at..at).end = end;
        }
        at = end;
    }
    statements.extend(words);
    statements
}

/// Bytes of a quoted text, up to its end if it is not closed. Two quotes in it are two such texts beside each other,
/// which comes to the same.
fn quoted(text: &str, quote: char) -> usize {
    let inner = &text[1..];
    inner.find(quote).map_or(text.len(), |end| end + 2)
}

/// Bytes of a comment, which may hold others.
fn commented(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_between_semicolons() {
        for (text, expect) in [
            ("", &[][..]),
            (" ;\n; -- nothing;\n/* ; */", &[]),
            ("select 1", &["select 1"]),
            ("select 1 ; select 2;", &["select 1", "select 2"]),
            ("-- first; \nselect 1;\n-- last", &["select 1"]),
            (
                "select ';' as \"a;b\", 'it''s;';x",
                &["select ';' as \"a;b\", 'it''s;'", "x"],
            ),
            (
                "select /* ; /* ; */ ; */ 1;2",
                &["select /* ; /* ; */ ; */ 1", "2"],
            ),
            ("select 'open; select 2", &["select 'open; select 2"]),
            ("select 1 - -1; 'ä;ä' -- x", &["select 1 - -1", "'ä;ä'"]),
            ("/* open ; select", &[]),
            ("a/b;-", &["a/b", "-"]),
        ] {
            let found: Vec<&str> = statements(text).into_iter().map(|at| &text[at]).collect();
            assert_eq!(found, expect, "{text}");
        }
    }
}
