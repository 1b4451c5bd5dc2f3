//! Identifiers use the field's words: those of `words.txt` have a better one.

use super::{Findings, Rule, Tree, code};

pub const RULE: Rule = Rule {
    name: "words",
    about: "no identifier uses a word that docs/glossary.md has replaced",
    check,
};

/// A line each: the old word, `->`, the new one. A word between `*` is refused as a part of any
/// identifier (`*util*` refuses `FileUtil`), others as a whole identifier, in capitals and all.
const LIST: &str = include_str!("words.txt");

struct Word<'a> {
    old: &'a str,
    new: &'a str,
    /// Also as a part of another identifier.
    as_part: bool,
}

fn check(tree: &Tree) -> anyhow::Result<Findings> {
    Ok(judge(tree, &parse(LIST)?))
}

fn parse(list: &str) -> anyhow::Result<Vec<Word<'_>>> {
    let lines = list.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (old, new) = line
                .split_once("->")
                .ok_or_else(|| anyhow::anyhow!("'{line}' is not 'old -> new'"))?;
            let old = old.trim();
            let part = old.strip_prefix('*').and_then(|old| old.strip_suffix('*'));
            Ok(Word {
                old: part.unwrap_or(old),
                new: new.trim(),
                as_part: part.is_some(),
            })
        })
        .collect()
}

fn judge(tree: &Tree, words: &[Word<'_>]) -> Findings {
    let mut findings = Findings::default();
    for file in tree.rust() {
        let code = code::code(&file.text);
        let mut seen: Vec<&str> = Vec::new();
        for (line, identifier) in code::identifiers(&code) {
            let found = words.iter().find(|word| match word.as_part {
                true => code::parts(identifier).iter().any(|part| part == word.old),
                false => word.old == identifier,
            });
            if let Some(word) = found
                && !seen.contains(&identifier)
            {
                seen.push(identifier);
                findings.fault(format!(
                    "{}:{line}: '{identifier}': write {}",
                    file.path, word.new
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(code: &str) -> Vec<String> {
        let words = parse("# said\n*helper* -> what it does\nParcel -> SinkInput\n").unwrap();
        judge(&Tree::of(&[("crates/a/src/b.rs", code)]), &words).faults
    }

    #[test]
    fn a_replaced_word_is_found() {
        assert_eq!(
            faults("\nstruct Parcel; fn f() -> Parcel {}"),
            ["crates/a/src/b.rs:2: 'Parcel': write SinkInput"]
        );
        assert_eq!(faults("mod file_helper; struct HelperOf;").len(), 2);
    }

    #[test]
    fn other_words_and_texts_are_left_alone() {
        assert!(faults("struct ParcelSize; // Parcel\nlet helpers = \"Parcel\";").is_empty());
    }

    #[test]
    fn the_list_can_be_read() {
        assert!(!parse(LIST).unwrap().is_empty());
        assert!(parse("no arrow").is_err());
    }
}
