//! Stream processors: chunks in, chunks out, with attributes added.
//!
//! They stand as `#ns:name(…)` before or behind a window, in joins and in patterns. Most look at one
//! row at a time and are a plain function ([`each::EachRow`]); the others keep a state per partition
//! key and may set deadlines. They never read a clock and never evaluate an expression: arguments
//! come as columns.
//!
//! A new stream processor is one file here and one line in [`PROCESSORS`].

mod akslack;
mod deduplicate;
mod each;
mod json_tokenize;
mod kslack;
mod list_tokenize;
mod map_tokenize;
mod per_key;
mod polar;
mod reorder;
mod resource;
mod str_tokenize;

use event::{Batch, BatchParts, Chunks, Clock, Reset, Times};

use crate::component::Processor;

/// Sorted by name.
pub const PROCESSORS: &[&dyn Processor] = &[
    &resource::IDENTIFIER,
    &json_tokenize::TEXTS,
    &json_tokenize::OBJECTS,
    &list_tokenize::TOKENIZE,
    &map_tokenize::TOKENIZE,
    &polar::POLAR_TO_CARTESIAN,
    &akslack::AlphaKSlack,
    &kslack::KSlack,
    &str_tokenize::TOKENIZE,
    &deduplicate::Deduplicate,
];

/// How the rows that [`spread`] makes are divided into chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpreadChunks {
    /// Those of one chunk stay one chunk.
    Kept,
    /// Those of one event are a chunk.
    PerEvent,
    /// Each is a chunk.
    PerRow,
}

/// The rows of a batch again, each as often as `origins` names it, in the order of the batch. They
/// keep kinds and times.
pub(crate) fn spread(batch: &Batch, origins: &[u32], chunks: SpreadChunks) -> Option<Batch> {
    let mut counts = vec![0u32; batch.len];
    origins.iter().for_each(|&o| counts[o as usize] += 1);
    let mut ends: Vec<u32> = Vec::with_capacity(batch.chunk_count());
    let mut clocks = Vec::with_capacity(batch.chunk_count());
    let mut resets = Vec::new();
    let mut marks = batch.resets.iter().flat_map(|r| r.iter()).peekable();
    let mut end = 0;
    for chunk in 0..batch.chunk_count() {
        let clock = batch.clock_at(chunk);
        let rows = batch.chunk(chunk);
        for row in rows.start..=rows.end {
            while let Some(mark) =
                marks.next_if(|r| (r.chunk as usize, r.row as usize) == (chunk, row))
            {
                resets.push(Reset {
                    chunk: ends.len() as u32,
                    row: end,
                    time: mark.time,
                });
            }
            let times = counts.get(row).filter(|_| row < rows.end);
            let times = times.copied().unwrap_or(0);
            for _ in 0..times {
                end += 1;
                if chunks == SpreadChunks::PerRow {
                    ends.push(end);
                    clocks.push(clock);
                }
            }
            if chunks == SpreadChunks::PerEvent && times > 0 {
                ends.push(end);
                clocks.push(clock);
            }
        }
        let has_reset = resets
            .last()
            .is_some_and(|r| r.chunk as usize == ends.len());
        if end > ends.last().copied().unwrap_or(0) || has_reset {
            ends.push(end);
            clocks.push(clock);
        }
    }
    if ends.is_empty() {
        return None;
    }
    let times = match &batch.times {
        Times::Same(time) => Times::Same(*time),
        times => Times::per_row(origins.iter().map(|&o| times.at(o as usize)).collect()),
    };
    let expired = batch.expired.as_ref();
    Some(Batch::from(BatchParts {
        columns: batch.columns.iter().map(|c| c.gather(origins)).collect(),
        len: origins.len(),
        times,
        expired: expired.map(|e| origins.iter().map(|&o| e[o as usize]).collect()),
        resets: (!resets.is_empty()).then(|| resets.into()),
        chunks: Chunks::Ends(ends.into()),
        inner: None,
        clock: Clock::PerChunk(clocks.into()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_is_sorted_and_each_spec_has_a_summary_and_an_example() {
        let names: Vec<_> = PROCESSORS
            .iter()
            .map(|p| (p.spec().namespace, p.spec().name))
            .collect();
        let sorted = {
            let mut sorted = names.clone();
            sorted.sort_by_key(|(namespace, name)| format!("{namespace}:{name}"));
            sorted
        };
        assert_eq!(names.len(), sorted.len());
        for processor in PROCESSORS {
            let spec = processor.spec();
            assert!(
                !spec.summary.is_empty() && !spec.example.is_empty(),
                "{}",
                spec.name
            );
        }
    }
}
