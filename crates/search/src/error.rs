//! Why a search has no answer.

use std::path::Path;

use crate::query::QueryError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The query is wrong.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Something else that was asked for is.
    #[error("{0}")]
    Request(String),
    /// There is no such table.
    #[error("Table : {0} does not exist.")]
    NoTable(String),
    /// It needs more than it may use.
    #[error("{0}")]
    Limit(String),
    #[error("{}", said(.0))]
    Store(#[from] store::error::Error),
    /// The index is damaged or cannot be written; the table is as it was.
    #[error("the search index: {0}")]
    Index(String),
    /// Whoever asked has gone.
    #[error("nobody waits for the answer")]
    Gone,
}

fn said(error: &store::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        words.push_str(": ");
        words.push_str(&next.to_string());
        cause = next.source();
    }
    words
}

impl Error {
    pub(crate) fn index(
        action: &'static str,
        dir: &Path,
    ) -> impl FnOnce(tantivy::TantivyError) -> Error {
        let dir = dir.display().to_string();
        move |cause| Error::Index(format!("cannot {action} '{dir}': {cause}"))
    }

    /// Is it the fault of whoever asked?
    pub fn is_of_request(&self) -> bool {
        matches!(self, Error::Query(_) | Error::Request(_) | Error::Limit(_))
    }
}
