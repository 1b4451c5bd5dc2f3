//! Queries in Lucene's classic syntax: read ([`parse`]), and put in terms of the columns of a table ([`plan`]).

pub(crate) mod parse;
pub(crate) mod plan;

use std::ops::Range;

/// Why a query is not one, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("Invalid query, {message}{}", at(.place))]
pub struct QueryError {
    pub message: String,
    /// Characters of the query; none where all of it is meant.
    pub place: Option<Range<usize>>,
}

fn at(place: &Option<Range<usize>>) -> String {
    match place {
        Some(place) => format!(" (at character {})", place.start + 1),
        None => String::new(),
    }
}

impl QueryError {
    pub(crate) fn new(message: impl Into<String>, place: Range<usize>) -> QueryError {
        QueryError {
            message: message.into(),
            place: Some(place),
        }
    }
}

/// A text with its place, in characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    pub text: String,
    pub place: Range<usize>,
}

/// What a document must have.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Node {
    All,
    Group(Vec<Clause>),
    Field {
        field: Placed,
        test: Test,
        place: Range<usize>,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Clause {
    pub occur: Occur,
    pub node: Node,
    pub boost: f32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Occur {
    Must,
    Should,
    Not,
}

/// How the value of a field is compared.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Test {
    Term(String),
    Phrase {
        text: String,
        slop: u32,
    },
    Wildcard(Vec<Piece>),
    Fuzzy {
        text: String,
        closeness: Closeness,
    },
    Range {
        from: Bound,
        to: Bound,
    },
    /// There is a value.
    Exists,
}

/// How much a word may differ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Closeness {
    Edits(u8),
    /// As Lucene had it before version 4: a part of the word's length.
    Similarity(f32),
}

/// A part of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    Char(char),
    /// `?`
    One,
    /// `*`
    Many,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    Open,
    Included(String),
    Excluded(String),
}
