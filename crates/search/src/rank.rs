//! How well rows fit: BM25 over the rows of the index and those that it does not have yet, so that the order does not
//! depend on which is which.

use std::collections::HashMap;

use tantivy::Term;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::query::{Bm25StatisticsProvider, Bm25Weight};
use tantivy::schema::Field;

use crate::error::Error;
use crate::index::{Fields, Published};
use crate::query::plan::{Compare, Plan, Source};

/// What was counted in rows that the index does not have.
#[derive(Default)]
pub(crate) struct Fresh {
    pub rows: u64,
    /// Words of a column.
    pub lengths: HashMap<Field, u64>,
    /// Rows that have a word.
    pub words: HashMap<Term, u64>,
}

/// Both together.
pub(crate) struct Statistics<'a> {
    pub fresh: &'a Fresh,
    pub index: Option<&'a Published>,
}

impl Statistics<'_> {
    fn of_index(&self) -> Option<&dyn Bm25StatisticsProvider> {
        self.index.map(Published::statistics)
    }
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        let index = self.of_index().map(|index| index.total_num_tokens(field));
        let fresh = self.fresh.lengths.get(&field).copied().unwrap_or(0);
        Ok(index.transpose()?.unwrap_or(0) + fresh)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        let index = self.of_index().map(|index| index.total_num_docs());
        Ok(index.transpose()?.unwrap_or(0) + self.fresh.rows)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let index = self.of_index().map(|index| index.doc_freq(term));
        let fresh = self.fresh.words.get(term).copied().unwrap_or(0);
        Ok(index.transpose()?.unwrap_or(0) + fresh)
    }
}

/// The words of a comparison that is ranked, as terms.
pub(crate) fn terms(plan: &Plan, leaf: usize, fields: &Fields) -> Vec<Term> {
    let leaf = &plan.leaves[leaf];
    let Source::Column(column) = leaf.source else {
        return Vec::new();
    };
    let Some(field) = fields.of(column).words else {
        return Vec::new();
    };
    let words = match &leaf.compare {
        Compare::Word(word) => std::slice::from_ref(word),
        Compare::Phrase { words, .. } => words.as_slice(),
        _ => &[],
    };
    let terms = words.iter().map(|word| Term::from_field_text(field, word));
    terms.collect()
}

/// What each comparison of a plan counts.
pub(crate) struct Weights(Vec<Option<Bm25Weight>>);

impl Weights {
    /// # Errors
    /// The index is damaged.
    pub fn new(
        plan: &Plan,
        fields: &Fields,
        statistics: &Statistics<'_>,
    ) -> Result<Weights, Error> {
        let weights = (0..plan.leaves.len()).map(|leaf| {
            let terms = terms(plan, leaf, fields);
            if terms.is_empty() || statistics.total_num_docs()? == 0 {
                return Ok(None);
            }
            Bm25Weight::for_terms(statistics, &terms).map(Some)
        });
        let weights: tantivy::Result<Vec<_>> = weights.collect();
        let weights = weights.map_err(|cause| Error::Index(format!("cannot be read: {cause}")))?;
        Ok(Weights(weights))
    }

    /// The score of a comparison that was found so often in so many words.
    pub fn score(&self, leaf: usize, found: u32, length: u32) -> f32 {
        match &self.0[leaf] {
            Some(weight) => weight.score(FieldNormReader::fieldnorm_to_id(length), found),
            None => 1.0,
        }
    }
}
