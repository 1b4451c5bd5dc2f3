//! The formatter: one style for all apps.
//!
//! Promises: the formatted text has the same tokens in the same order (keywords in lower case, a
//! `;` added behind the last element and query of a partition) and the same comments, so its
//! meaning is that of the original; formatting it again changes nothing. Both are checked: the
//! tokens on every call, all of it over the corpus.
//!
//! Never: guesses. A text with an error is refused with its diagnostics.
//!
//! The parser tells which tokens belong together ([`layout`]); the printer fits groups into lines
//! of [`COLUMNS_MAX`] columns or breaks them, one item a line.

mod printer;
#[cfg(test)]
mod tests;

use crate::diagnostic::{Diagnostic, Severity};
use crate::lexer::{Lexed, lex};
use crate::parser::parse_for_format;
use crate::token::TokenKind;

#[cfg(doc)]
use crate::parser::layout;

/// Longer lines are broken where that is possible.
const COLUMNS_MAX: usize = 100;

/// The text of an app in the one style, or what is wrong with it.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let (parsed, layout) = parse_for_format(text);
    if parsed
        .diagnostics
        .iter()
        .any(|d| d.severity == Severity::Error)
    {
        return Err(parsed.diagnostics);
    }
    let lexed = lex(text);
    let formatted = printer::print(text, &lexed, &layout);
    let kept = keeps_all(text, &lexed, &formatted);
    debug_assert!(
        kept,
        "formatting changed the tokens of:\n{text}\nto:\n{formatted}"
    );
    Ok(if kept { formatted } else { text.to_owned() })
}

/// Whether two texts have the same comments, and the same tokens but for the case of keywords and
/// for `;`.
fn keeps_all(text: &str, lexed: &Lexed, formatted: &str) -> bool {
    let again = lex(formatted);
    let comments = |text: &str, lexed: &Lexed| -> Vec<String> {
        lexed
            .comments
            .iter()
            .map(|c| c.text(text).trim_end().to_owned())
            .collect()
    };
    let same = |a: &str, b: &str, kind| match kind {
        TokenKind::Keyword(_) => a.eq_ignore_ascii_case(b),
        _ => a == b,
    };
    let is_word = |t: &&crate::token::Token| !t.kind.is(crate::token::Sign::Semicolon);
    let mut old = lexed.tokens.iter().filter(is_word);
    let mut new = again.tokens.iter().filter(is_word);
    let tokens_kept = loop {
        match (old.next(), new.next()) {
            (None, None) => break true,
            (Some(a), Some(b))
                if a.kind == b.kind && same(a.span.text(text), b.span.text(formatted), a.kind) => {}
            _ => break false,
        }
    };
    tokens_kept && comments(text, lexed) == comments(formatted, &again)
}
