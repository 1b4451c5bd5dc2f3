//! Phrases whose words may be moved. Tantivy's own slop counts otherwise for more than two words; this one is the
//! function that fresh rows are compared by.

use std::sync::Arc;

use tantivy::postings::Postings;
use tantivy::query::{Bm25Weight, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, Score, SegmentReader, TantivyError, Term};
use tantivy::{DocSet, TERMINATED};

use crate::matcher::phrase_count;

#[derive(Clone, Debug)]
pub(super) struct SloppyPhrase {
    pub field: Field,
    pub words: Arc<[String]>,
    pub slop: u32,
}

struct SloppyWeight {
    phrase: SloppyPhrase,
    ranking: Option<Bm25Weight>,
}

/// Documents that were found, with their scores.
#[derive(Default)]
struct Found {
    documents: Vec<(DocId, Score)>,
    at: usize,
}

impl SloppyPhrase {
    fn terms(&self) -> Vec<Term> {
        let words = self.words.iter();
        words
            .map(|word| Term::from_field_text(self.field, word))
            .collect()
    }
}

impl Query for SloppyPhrase {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let ranking = match scoring {
            EnableScoring::Enabled {
                statistics_provider,
                ..
            } => Some(Bm25Weight::for_terms(statistics_provider, &self.terms())?),
            EnableScoring::Disabled { .. } => None,
        };
        Ok(Box::new(SloppyWeight {
            phrase: self.clone(),
            ranking,
        }))
    }
}

impl Weight for SloppyWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let field = self.phrase.field;
        let index = reader.inverted_index(field)?;
        let mut postings = Vec::new();
        for term in self.phrase.terms() {
            match index.read_postings(&term, IndexRecordOption::WithFreqsAndPositions)? {
                Some(found) => postings.push(found),
                None => return Ok(Box::new(Found::default())),
            }
        }
        let norms = reader.fieldnorms_readers().get_field(field)?;
        let mut documents = Vec::new();
        let mut positions = vec![Vec::new(); postings.len()];
        let mut doc = postings[0].doc();
        'documents: while doc != TERMINATED {
            for other in &mut postings {
                let at = match other.doc() < doc {
                    true => other.seek(doc),
                    false => other.doc(),
                };
                if at != doc {
                    doc = match at {
                        TERMINATED => break 'documents,
                        // The first word is sought there, and then the others again.
                        at => match postings[0].doc() < at {
                            true => postings[0].seek(at),
                            false => postings[0].doc(),
                        },
                    };
                    continue 'documents;
                }
            }
            for (postings, positions) in postings.iter_mut().zip(&mut positions) {
                postings.positions(positions);
            }
            let count = phrase_count(&positions, &self.phrase.words, self.phrase.slop);
            if count > 0 {
                let norm = norms.as_ref().map_or(1, |norms| norms.fieldnorm_id(doc));
                let score = self.ranking.as_ref();
                let score = score.map_or(1.0, |ranking| ranking.score(norm, count));
                documents.push((doc, score * boost));
            }
            doc = postings[0].advance();
        }
        Ok(Box::new(Found { documents, at: 0 }))
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(reader, 1.0)?;
        match scorer.seek(doc) == doc {
            true => Ok(Explanation::new("SloppyPhrase", scorer.score())),
            false => Err(TantivyError::InvalidArgument(
                "the document is not found".to_owned(),
            )),
        }
    }
}

impl DocSet for Found {
    fn advance(&mut self) -> DocId {
        self.at = (self.at + 1).min(self.documents.len());
        self.doc()
    }

    fn doc(&self) -> DocId {
        self.documents
            .get(self.at)
            .map_or(TERMINATED, |(doc, _)| *doc)
    }

    fn size_hint(&self) -> u32 {
        self.documents.len() as u32
    }
}

impl Scorer for Found {
    fn score(&mut self) -> Score {
        self.documents.get(self.at).map_or(0.0, |(_, score)| *score)
    }
}
