//! Patterns and sequences.

use event::Type;

use super::expression::Column;
use super::maker::{Maker, Source, scope_of};
use super::query::Input;

/// Groups within groups.
const GROUPS_MAX: usize = 2;

/// Elements of a chain, after which no further groups begin: partial matches of nested `every`
/// multiply with each other.
const GROUPED_MAX: usize = 3;

/// Times of quiet that repeat: each multiplies what the others have let through.
const QUIETS_MAX: usize = 1;

/// What is gathered while a pattern is made.
#[derive(Default)]
struct Chain {
    scope: Vec<Column>,
    references: Vec<String>,
    level: usize,
    names: usize,
    /// Elements `every not … for`.
    quiets: usize,
    /// Inside of `every (...)`, where the grammar of Siddhi has no further `every`.
    repeats: bool,
    /// The stream that the element being made has to read.
    same: Option<Source>,
}

impl Maker<'_> {
    pub fn pattern(&mut self, kind: &'static str) -> Input {
        let is_sequence = kind == "sequence";
        let mut chain = Chain::default();
        self.no_tables = true;
        let every = if self.choices.chance(65) {
            "every "
        } else {
            ""
        };
        let mut text = format!("{every}{}", self.elements(&mut chain, is_sequence, 0));
        self.no_tables = false;
        let start = self.choices.open();
        if self.choices.chance(30) {
            let within = *self.choices.pick(&["1 sec", "500 milliseconds", "2 sec"]);
            text.push_str(&format!(" within {within}"));
            self.used(kind, "within");
        }
        self.choices.close(start);
        self.keeps_state();
        self.references = chain.references;
        Input {
            text,
            scope: chain.scope,
            level: chain.level,
            is_single: false,
        }
    }

    fn elements(&mut self, chain: &mut Chain, is_sequence: bool, depth: usize) -> String {
        let mut text = String::new();
        let mut count = 0;
        // A pattern of one element is one as well.
        let least = if is_sequence || self.choices.chance(90) {
            2
        } else {
            1
        };
        while let Some(start) = self.choices.one_more(count, least, 3, 40) {
            if count > 0 {
                text.push_str(if is_sequence { ", " } else { " -> " });
            }
            text.push_str(&match is_sequence {
                true => self.sequence_element(chain, count == 0),
                false => self.pattern_element(chain, depth),
            });
            count += 1;
            self.choices.close(start);
        }
        text
    }

    fn pattern_element(&mut self, chain: &mut Chain, depth: usize) -> String {
        match self.name_of("pattern") {
            "count" => self.counted(chain),
            "not for" => self.absent_for(chain),
            "every not for" if !chain.repeats && chain.quiets < QUIETS_MAX => {
                chain.quiets += 1;
                format!("every {}", self.absent_for(chain))
            }
            "not for and not for" => match self.choices.chance(50) {
                true => format!("({})", self.logical("not for or not for", chain)),
                false => format!("({})", self.logical("not for and not for", chain)),
            },
            logical if sides(logical).is_some() => {
                format!("({})", self.logical(logical, chain))
            }
            "every" if !chain.repeats => format!("every {}", self.one(chain)),
            "group" if depth < GROUPS_MAX && chain.names < GROUPED_MAX => {
                format!("({})", self.elements(chain, false, depth + 1))
            }
            "every group" if !chain.repeats && depth < GROUPS_MAX && chain.names < GROUPED_MAX => {
                let outer = std::mem::replace(&mut chain.repeats, true);
                let group = self.elements(chain, false, depth + 1);
                chain.repeats = outer;
                format!("every ({group})")
            }
            _ => self.one(chain),
        }
    }

    fn sequence_element(&mut self, chain: &mut Chain, is_first: bool) -> String {
        match self.name_of("sequence-element") {
            "zero-or-more" => self.repeated(chain, "*"),
            "one-or-more" => self.repeated(chain, "+"),
            "zero-or-one" => self.repeated(chain, "?"),
            "count" => self.counted(chain),
            "not for" => self.absent_for(chain),
            // The grammar of sequences has no parentheses around these.
            logical if sides(logical).is_some() => self.logical(logical, chain),
            // It means nothing, but it may stand there; at the beginning it may not.
            "group" if !is_first => format!("({}, {})", self.one(chain), self.one(chain)),
            _ => self.one(chain),
        }
    }

    /// Two elements with `and` or `or` between them, as the row's name says.
    fn logical(&mut self, name: &'static str, chain: &mut Chain) -> String {
        // In Siddhi the keys of one stream are read by the other's attributes (62).
        if self.partitioned.is_some() {
            chain.same = Some(self.read(false));
        }
        let (left, sign, right) = sides(name).unwrap_or(("", "and", ""));
        let sides = [left, right].map(|side| match side {
            "not for" => self.absent_for(chain),
            "not" => self.absent(chain),
            _ => self.one(chain),
        });
        chain.same = None;
        format!("{} {sign} {}", sides[0], sides[1])
    }

    /// A stream and a filter that may look at the elements before.
    fn input_of(&mut self, chain: &mut Chain) -> (Vec<(String, Type)>, String) {
        let source = match chain.same.clone() {
            Some(source) => source,
            None => self.read(false),
        };
        chain.level = chain.level.max(source.level);
        let mut scope = scope_of(&source.columns, "");
        // A list of all values fits nowhere in a condition.
        let earlier = chain.scope.iter().filter(|c| c.ty != Type::Object);
        scope.extend(earlier.cloned());
        self.references = chain.references.clone();
        let filter = self.filter(&scope, 45);
        self.references.clear();
        (source.columns, format!("{}{filter}", source.name))
    }

    fn one(&mut self, chain: &mut Chain) -> String {
        let (columns, text) = self.input_of(chain);
        let name = next_name(chain);
        chain.scope.extend(scope_of(&columns, &format!("{name}.")));
        chain.references.push(name.clone());
        format!("{name}={text}")
    }

    fn counted(&mut self, chain: &mut Chain) -> String {
        let count = self.name_of("count");
        self.repeated(chain, count)
    }

    fn repeated(&mut self, chain: &mut Chain, count: &str) -> String {
        let (columns, text) = self.input_of(chain);
        let name = next_name(chain);
        match self.name_of("reference") {
            // All values together are a list.
            "all" => chain.scope.extend(columns.iter().map(|(column, _)| Column {
                text: format!("{name}.{column}"),
                name: column.clone(),
                ty: Type::Object,
            })),
            index => {
                chain
                    .scope
                    .extend(scope_of(&columns, &format!("{name}{index}.")));
                chain.references.push(format!("{name}{index}"));
            }
        }
        format!("{name}={text}{count}")
    }

    fn absent(&mut self, chain: &mut Chain) -> String {
        format!("not {}", self.input_of(chain).1)
    }

    fn absent_for(&mut self, chain: &mut Chain) -> String {
        let wait = *self.choices.pick(&["500 milliseconds", "1 sec"]);
        format!("{} for {wait}", self.absent(chain))
    }
}

/// What stands left and right of `and` or `or` in a row's name.
fn sides(name: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    ["and", "or"].into_iter().find_map(|sign| {
        let at = match name == sign || name.starts_with(&format!("{sign} ")) {
            true => 0,
            false => name.find(&format!(" {sign}"))? + 1,
        };
        Some((name[..at].trim(), sign, name[at + sign.len()..].trim()))
    })
}

fn next_name(chain: &mut Chain) -> String {
    chain.names += 1;
    format!("e{}", chain.names)
}
