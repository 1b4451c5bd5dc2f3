//! The parts of the bench, one file each.

mod ingest;
mod mixed;
mod purge;
mod recover;
mod scripts;
mod search;
mod sql;
mod wiki;

use super::Trial;
use super::report::{Figure, Measured};

/// What is measured together.
pub(super) struct Part {
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    pub figures: &'static [Figure],
    /// # Errors
    /// The store does not hold what was put into it, or a server did not do what was asked of it.
    pub measure: fn(&Trial<'_>, &mut Measured) -> anyhow::Result<()>,
}

pub(super) const PARTS: [&Part; 8] = [
    &ingest::PART,
    &wiki::PART,
    &sql::PART,
    &scripts::PART,
    &search::PART,
    &mixed::PART,
    &purge::PART,
    &recover::PART,
];
