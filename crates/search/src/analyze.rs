//! Text as words: what is indexed and what is looked for go through the same function.
//!
//! Words are those of Unicode (UAX 29) in lower case, as Lucene's StandardAnalyzer has them, without its list of
//! words that are left out.

use unicode_segmentation::UnicodeSegmentation as _;

/// Characters of the longest word; what is longer counts as several.
pub(crate) const WORD_MAX: usize = 255;

/// Characters of a text that are compared as a whole.
pub(crate) const KEYWORD_MAX: usize = 1000;

/// Gives away the words of a text, the first at position 0.
pub(crate) fn words(text: &str, each: &mut dyn FnMut(&str, u32)) {
    let mut word = String::new();
    let mut position = 0;
    for found in text.unicode_words() {
        word.clear();
        let mut len = 0;
        for c in found.chars() {
            if len == WORD_MAX {
                each(&word, position);
                position += 1;
                word.clear();
                len = 0;
            }
            match c.is_ascii() {
                true => word.push(c.to_ascii_lowercase()),
                false => word.extend(c.to_lowercase()),
            }
            len += 1;
        }
        each(&word, position);
        position += 1;
    }
}

/// The words of a text, one after the other.
pub(crate) fn word_list(text: &str) -> Vec<String> {
    let mut list = Vec::new();
    words(text, &mut |word, _| list.push(word.to_owned()));
    list
}

/// A text in lower case, character by character, as words are.
pub(crate) fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// What of a text is compared as a whole.
pub(crate) fn keyword(text: &str) -> &str {
    match text.char_indices().nth(KEYWORD_MAX) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_unicode_in_lower_case() {
        for (text, list) in [
            (
                "The quick-brown Fox, 3.5 times",
                &["the", "quick", "brown", "fox", "3.5", "times"][..],
            ),
            (
                "can't_stop user@host.de",
                &["can't_stop", "user", "host.de"],
            ),
            ("ÄPFEL Straße Ωmega", &["äpfel", "straße", "ωmega"]),
            ("東京 カタカナ", &["東", "京", "カタカナ"]),
            ("  --- ", &[]),
        ] {
            assert_eq!(word_list(text), list, "{text}");
        }
        let long = "a".repeat(WORD_MAX + 1);
        assert_eq!(word_list(&long), [&long[1..], "a"]);
    }

    #[test]
    fn a_keyword_has_a_thousand_characters() {
        let text = "ä".repeat(KEYWORD_MAX + 1);
        assert_eq!(keyword(&text).chars().count(), KEYWORD_MAX);
        assert_eq!(keyword("short"), "short");
    }
}
