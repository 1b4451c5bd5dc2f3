//! Which patterns and sequences the grammar of Siddhi has: it spells out what may stand beside an
//! absence with a time, and where `every` may stand, while ours takes them all.
//!
//! Promises: says of a form that Siddhi's grammar derives it or not, by the rules of its
//! `SiddhiQL.g4` under their names there. Never: whether Siddhi takes an app that it can read.

use lang::ast::{Element, Input, PatternElement, PatternInput, PatternKind, Query};
use lang::span::Span;

/// Rules of the grammar that derive a piece of a pattern; in sequences those of the same sense.
type Rules = u8;

/// `pattern_source`, `sequence_source`.
const SOURCE: Rules = 1;
/// `pattern_source_chain`, `sequence_source_chain`.
const CHAIN: Rules = 2;
/// `every_pattern_source_chain`.
const EVERY_CHAIN: Rules = 4;
/// `every_absent_pattern_source`, `basic_absent_pattern_source`.
const ABSENT: Rules = 8;
/// `left_absent_pattern_source`, `left_absent_sequence_source`.
const LEFT_ABSENT: Rules = 16;
/// `right_absent_pattern_source`, `right_absent_sequence_source`.
const RIGHT_ABSENT: Rules = 32;
/// `absent_pattern_source_chain`, `absent_sequence_source_chain`.
const ABSENT_CHAIN: Rules = 64;

/// What stands left and right of an arrow, and what both are together.
const PATTERN_PAIRS: [(Rules, Rules, Rules); 10] = [
    (CHAIN, CHAIN, CHAIN),
    (EVERY_CHAIN, EVERY_CHAIN, EVERY_CHAIN),
    (ABSENT, EVERY_CHAIN, LEFT_ABSENT),
    (LEFT_ABSENT, LEFT_ABSENT, LEFT_ABSENT),
    (LEFT_ABSENT, ABSENT, LEFT_ABSENT),
    (EVERY_CHAIN, LEFT_ABSENT, LEFT_ABSENT),
    (EVERY_CHAIN, ABSENT, RIGHT_ABSENT),
    (RIGHT_ABSENT, RIGHT_ABSENT, RIGHT_ABSENT),
    (ABSENT, RIGHT_ABSENT, RIGHT_ABSENT),
    (RIGHT_ABSENT, EVERY_CHAIN, RIGHT_ABSENT),
];

/// The same of a comma.
const SEQUENCE_PAIRS: [(Rules, Rules, Rules); 9] = [
    (CHAIN, CHAIN, CHAIN),
    (ABSENT, CHAIN, LEFT_ABSENT),
    (LEFT_ABSENT, LEFT_ABSENT, LEFT_ABSENT),
    (LEFT_ABSENT, ABSENT, LEFT_ABSENT),
    (CHAIN, LEFT_ABSENT, LEFT_ABSENT),
    (CHAIN, ABSENT, RIGHT_ABSENT),
    (RIGHT_ABSENT, RIGHT_ABSENT, RIGHT_ABSENT),
    (ABSENT, RIGHT_ABSENT, RIGHT_ABSENT),
    (RIGHT_ABSENT, CHAIN, RIGHT_ABSENT),
];

/// Does the app have a pattern or sequence that Siddhi's grammar has not?
pub fn has_form_of_ours(app: &str) -> bool {
    let parsed = lang::parse(app).app;
    let queries = parsed.elements.iter().flat_map(|element| match element {
        Element::Query(query) => std::slice::from_ref(query),
        Element::Partition(partition) => &partition.queries,
        _ => &[],
    });
    let is_ours = |query: &Query| match &query.input {
        Input::Pattern(pattern) => !Forms::of(app, pattern).has(pattern),
        _ => false,
    };
    queries.into_iter().any(is_ours)
}

struct Forms<'a> {
    text: &'a str,
    kind: PatternKind,
}

impl Forms<'_> {
    fn of<'a>(text: &'a str, pattern: &PatternInput) -> Forms<'a> {
        let kind = pattern.kind;
        Forms { text, kind }
    }

    /// Is the whole one that Siddhi's grammar derives?
    fn has(&self, pattern: &PatternInput) -> bool {
        if self.kind == PatternKind::Pattern {
            return self.rules(&pattern.root) & (EVERY_CHAIN | ABSENT_CHAIN) != 0;
        }
        let root = match &pattern.root {
            PatternElement::Every(inner, _) => &**inner,
            root => root,
        };
        let PatternElement::Chain(elements, _) = root else {
            return false;
        };
        (1..elements.len()).any(|at| {
            let (first, rest) = elements.split_at(at);
            let (first, rest) = (self.chain(first), self.chain(rest));
            let begins = first & SOURCE != 0 && rest & (CHAIN | ABSENT_CHAIN) != 0;
            begins || first & ABSENT_CHAIN != 0 && rest & CHAIN != 0
        })
    }

    /// Depth is bounded by the parser's limit on nesting.
    fn rules(&self, element: &PatternElement) -> Rules {
        match element {
            PatternElement::Stream(_)
            | PatternElement::Count { .. }
            | PatternElement::Logical { .. } => with_units(SOURCE, self.kind),
            PatternElement::Absent { span, .. } if self.is_group(*span) => ABSENT_CHAIN,
            PatternElement::Absent { .. } => ABSENT | ABSENT_CHAIN,
            PatternElement::Every(inner, span)
                if matches!(**inner, PatternElement::Absent { .. }) && self.is_group(*span) =>
            {
                ABSENT_CHAIN
            }
            PatternElement::Every(inner, _) => {
                let repeated = self.rules(inner);
                let absences = repeated & (ABSENT | LEFT_ABSENT | RIGHT_ABSENT | ABSENT_CHAIN);
                match repeated & CHAIN != 0 {
                    true => absences | EVERY_CHAIN,
                    false => absences,
                }
            }
            // Parentheses leave it what it is.
            PatternElement::Chain(elements, _) => self.chain(elements) & !SOURCE,
        }
    }

    /// Does the element stand alone in parentheses?
    fn is_group(&self, span: Span) -> bool {
        let (before, behind) = (&self.text[..span.start as usize], span.end as usize);
        before.trim_end().ends_with('(') && self.text[behind..].trim_start().starts_with(')')
    }

    /// Of elements one behind the other.
    fn chain(&self, elements: &[PatternElement]) -> Rules {
        if let [element] = elements {
            return self.rules(element);
        }
        let pairs = match self.kind {
            PatternKind::Pattern => &PATTERN_PAIRS[..],
            PatternKind::Sequence => &SEQUENCE_PAIRS[..],
        };
        let mut all = 0;
        for at in 1..elements.len() {
            let (left, right) = elements.split_at(at);
            let (left, right) = (self.chain(left), self.chain(right));
            let fits = |&&(l, r, _): &&(Rules, Rules, Rules)| left & l != 0 && right & r != 0;
            all |= pairs
                .iter()
                .filter(fits)
                .fold(0, |all, (.., both)| all | both);
        }
        with_units(all, self.kind)
    }
}

/// With the rules that stand for one of these alone.
fn with_units(mut rules: Rules, kind: PatternKind) -> Rules {
    if rules & SOURCE != 0 {
        rules |= CHAIN;
    }
    if rules & CHAIN != 0 && kind == PatternKind::Pattern {
        rules |= EVERY_CHAIN;
    }
    if rules & (ABSENT | LEFT_ABSENT | RIGHT_ABSENT) != 0 {
        rules |= ABSENT_CHAIN;
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_the_grammar_are_told_from_ours() {
        let check = |pattern: &str, is_ours: bool| {
            let app = format!("from {pattern} select 1 as o insert into O;");
            assert_eq!(has_form_of_ours(&app), is_ours, "{pattern}");
        };
        for both in [
            "every e1=S -> e2=S",
            "every (e1=S -> e2=S<2>) -> (e3=S and e4=S)",
            "not S for 1 sec -> e1=S",
            "every not S for 1 sec -> e1=S",
            "e1=S -> not S for 1 sec",
            "e1=S -> not S for 1 sec -> e2=S",
            "every (e1=S -> not S for 1 sec)",
            "e1=S, not S for 1 sec",
            "every e1=S, not S for 1 sec, e2=S",
            "e1=S, (e2=S, e3=S)",
        ] {
            check(both, false);
        }
        for ours in [
            "not S for 1 sec -> not S for 1 sec",
            "every (e1=S -> every e2=S)",
            "every e1=S -> (every not S for 1 sec)",
            "not S for 1 sec, not S for 1 sec",
        ] {
            check(ours, true);
        }
    }
}
