//! What a statement may be, so that planning it costs little: planning cannot be broken off, and recurses.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement, Visit, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lang::span::Span;

use crate::error::{Error, first_word, wrong};
use crate::statement::span_of_token;

/// Bytes of a text.
pub(crate) const TEXT_MAX: usize = 1 << 20;

/// Parentheses, subqueries and the like inside each other.
pub(crate) const DEPTH_MAX: usize = 50;

/// Operators of a statement: a chain of them becomes a tree as deep as the chain is long.
const OPERATORS_MAX: usize = 1000;

/// Tables that a statement reads, those of `with` once for each time that it is named.
const TABLES_MAX: usize = 200;

/// Stack of a thread that plans: enough for a statement within these bounds, also without optimisation.
pub(crate) const STACK: usize = 64 << 20;

pub(crate) fn too_deep(span: Span) -> Error {
    wrong(
        format!("the statement is nested deeper than {DEPTH_MAX} levels"),
        span,
        Some("put inner queries into 'with NAME as (…)'".to_owned()),
    )
}

/// Refuses a chain of operators that is too long.
pub(crate) fn check_tokens(sql: &str, tokens: &[TokenWithSpan]) -> Result<(), Error> {
    let mut count = 0;
    let mut before = &Token::Comma;
    for token in tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        // A sign, not an operator.
        let is_sign = matches!(token.token, Token::Plus | Token::Minus)
            && matches!(before, Token::Comma | Token::LParen);
        before = &token.token;
        count += usize::from(is_operator(&token.token) && !is_sign);
        if count > OPERATORS_MAX {
            return Err(wrong(
                format!("the statement has more than {OPERATORS_MAX} operators"),
                span_of_token(sql, token),
                Some("write a list of values with 'in (…)'".to_owned()),
            ));
        }
    }
    Ok(())
}

fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::XOR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
                | Keyword::APPLY
                | Keyword::SELECT
        ),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::Comma
        | Token::LParen
        | Token::RParen
        | Token::Period
        | Token::SemiColon
        | Token::EOF => false,
        // What else there is are signs: `+`, `::`, `||`, `->`, `[`.
        _ => true,
    }
}

/// Refuses a statement that reads too many tables.
pub(crate) fn check_tables(sql: &str, statement: &Statement) -> Result<(), Error> {
    let mut count = Count {
        counts: vec![0],
        ..Count::default()
    };
    match statement.visit(&mut count) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(wrong(
            format!("the statement reads more than {TABLES_MAX} tables"),
            first_word(sql),
            Some("a query of 'with' counts each time that it is named".to_owned()),
        )),
    }
}

/// Counts tables as a plan has them, in which each mention of a query of `with` is a copy of it.
#[derive(Default)]
struct Count {
    /// Of the queries that are being walked, the innermost last.
    counts: Vec<usize>,
    /// Which query has which name, by its place in memory.
    named: HashMap<*const Query, String>,
    /// The largest that has that name.
    sizes: HashMap<String, usize>,
}

impl Count {
    fn add(&mut self, more: usize) -> ControlFlow<()> {
        if let Some(count) = self.counts.last_mut() {
            *count = count.saturating_add(more);
            if *count > TABLES_MAX {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

impl Visitor for Count {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = cte.alias.name.value.to_lowercase();
            self.named.insert(&raw const *cte.query, name);
        }
        self.counts.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let count = self.counts.pop().unwrap_or(0);
        match self.named.get(&(&raw const *query)) {
            Some(name) => {
                let size = self.sizes.entry(name.clone()).or_default();
                *size = (*size).max(count);
                ControlFlow::Continue(())
            }
            None => self.add(count),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = relation.0.last().and_then(|part| part.as_ident());
        let name = name.map(|name| name.value.to_lowercase());
        let size = name.and_then(|name| self.sizes.get(&name)).copied();
        self.add(size.unwrap_or(1).max(1))
    }
}
