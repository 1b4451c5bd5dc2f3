//! A plan as a query of the index.

use std::ops::Bound as Limit;

use tantivy::Term;
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, EmptyQuery, FuzzyTermQuery,
    InvertedIndexRangeQuery, Occur, PhraseQuery, Query, RangeQuery, RegexQuery, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};

use super::Fields;
use super::fields::category;
use super::phrase::SloppyPhrase;
use crate::error::Error;
use crate::query::Piece;
use crate::query::plan::{Compare, Leaf, Part, Plan, Source};

/// # Errors
/// A pattern is too large.
pub(crate) fn build(plan: &Plan, fields: &Fields) -> Result<Box<dyn Query>, Error> {
    part(&plan.root, plan, fields)
}

fn part(of: &Part, plan: &Plan, fields: &Fields) -> Result<Box<dyn Query>, Error> {
    let all = |parts: &[Part], occur: Occur| -> Result<Vec<(Occur, Box<dyn Query>)>, Error> {
        let parts = parts.iter().map(|of| Ok((occur, part(of, plan, fields)?)));
        parts.collect()
    };
    Ok(match of {
        Part::All => constant(AllQuery),
        Part::Nothing => Box::new(EmptyQuery),
        Part::Leaf(at) => leaf(&plan.leaves[*at], fields)?,
        Part::Boost(of, boost) => Box::new(BoostQuery::new(part(of, plan, fields)?, *boost)),
        Part::Bool { must, should, not } => {
            let mut clauses = all(must, Occur::Must)?;
            clauses.extend(all(should, Occur::Should)?);
            clauses.extend(all(not, Occur::MustNot)?);
            Box::new(BooleanQuery::new(clauses))
        }
    })
}

/// Each counts the same. Of what finds every document, tantivy loses the score in a query of several parts, unless it
/// is wrapped.
fn constant(query: impl Query) -> Box<dyn Query> {
    Box::new(ConstScoreQuery::new(Box::new(query), 1.0))
}

fn is_term(field: Field, text: &str) -> Box<dyn Query> {
    let term = Term::from_field_text(field, text);
    constant(TermQuery::new(term, IndexRecordOption::Basic))
}

fn leaf(leaf: &Leaf, fields: &Fields) -> Result<Box<dyn Query>, Error> {
    let of = match leaf.source {
        Source::Column(column) => fields.of(column),
        Source::Id | Source::Timestamp => super::fields::OfColumn::default(),
    };
    let long = match leaf.source {
        Source::Timestamp => Some(fields.timestamp),
        _ => of.long,
    };
    let missing = || Error::Index("it lacks a column".to_owned());
    let words = of.words.ok_or_else(missing);
    let whole = of.whole.ok_or_else(missing);
    Ok(match &leaf.compare {
        Compare::Word(word) => {
            let term = Term::from_field_text(words?, word);
            Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
        }
        Compare::Phrase {
            words: phrase,
            slop,
        } => {
            let field = words?;
            match slop {
                0 => {
                    let terms = phrase.iter().map(|word| Term::from_field_text(field, word));
                    Box::new(PhraseQuery::new(terms.collect()))
                }
                slop => Box::new(SloppyPhrase {
                    field,
                    words: phrase.clone().into(),
                    slop: *slop,
                }),
            }
        }
        Compare::WordLike(pattern) => Box::new(like(words?, pattern)?),
        Compare::WholeLike(pattern) => Box::new(like(whole?, pattern)?),
        Compare::WordNear { word, edits } => Box::new(near(words?, word, *edits)),
        Compare::WholeNear { text, edits } => Box::new(near(whole?, text, *edits)),
        Compare::WordBetween(from, to) => texts(words?, from, to),
        Compare::WholeBetween(from, to) => texts(whole?, from, to),
        Compare::Whole(text) => is_term(whole?, text),
        Compare::Longs(from, to) => {
            let field = long.ok_or_else(missing)?;
            let term = |value: &i64| Term::from_field_i64(field, *value);
            match (from, to) {
                (Limit::Included(a), Limit::Included(b)) if a == b => {
                    constant(TermQuery::new(term(a), IndexRecordOption::Basic))
                }
                (Limit::Unbounded, Limit::Unbounded) => {
                    let all = (Limit::Included(term(&i64::MIN)), Limit::Unbounded);
                    constant(RangeQuery::new(all.0, all.1))
                }
                _ => constant(RangeQuery::new(limit(from, &term), limit(to, &term))),
            }
        }
        Compare::Doubles(from, to) => {
            let field = of.double.ok_or_else(missing)?;
            let term = |value: &f64| Term::from_field_f64(field, *value);
            match (from, to) {
                (Limit::Included(a), Limit::Included(b)) if a == b => {
                    constant(TermQuery::new(term(a), IndexRecordOption::Basic))
                }
                (Limit::Unbounded, Limit::Unbounded) => {
                    let from = Limit::Included(term(&f64::NEG_INFINITY));
                    constant(RangeQuery::new(from, Limit::Unbounded))
                }
                _ => constant(RangeQuery::new(limit(from, &term), limit(to, &term))),
            }
        }
        Compare::Id(id) => {
            let term = Term::from_field_u64(fields.id, *id);
            constant(TermQuery::new(term, IndexRecordOption::Basic))
        }
        Compare::Category(path) => is_term(of.categories.ok_or_else(missing)?, &category(path)),
        Compare::Exists => match leaf.source {
            Source::Column(column) => is_term(fields.has, &column.to_string()),
            Source::Id | Source::Timestamp => constant(AllQuery),
        },
    })
}

fn limit<T>(from: &Limit<T>, term: &dyn Fn(&T) -> Term) -> Limit<Term> {
    match from {
        Limit::Unbounded => Limit::Unbounded,
        Limit::Included(value) => Limit::Included(term(value)),
        Limit::Excluded(value) => Limit::Excluded(term(value)),
    }
}

fn texts(field: Field, from: &Limit<String>, to: &Limit<String>) -> Box<dyn Query> {
    let term = |text: &String| Term::from_field_text(field, text);
    let from = match from {
        // The bounds name the field.
        Limit::Unbounded => Limit::Included(term(&String::new())),
        from => limit(from, &term),
    };
    constant(InvertedIndexRangeQuery::new(from, limit(to, &term)))
}

fn near(field: Field, text: &str, edits: u8) -> FuzzyTermQuery {
    FuzzyTermQuery::new(Term::from_field_text(field, text), edits, true)
}

fn like(field: Field, pattern: &[Piece]) -> Result<RegexQuery, Error> {
    let mut regex = "(?s)".to_owned();
    for piece in pattern {
        match piece {
            Piece::One => regex.push('.'),
            Piece::Many => regex.push_str(".*"),
            Piece::Char(c) => {
                if c.is_ascii_punctuation() {
                    regex.push('\\');
                }
                regex.push(*c);
            }
        }
    }
    let query = RegexQuery::from_pattern(&regex, field);
    query.map_err(|_| {
        Error::Limit("a pattern of the query is too large: write a shorter one".to_owned())
    })
}
