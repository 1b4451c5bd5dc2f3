//! The events of a scenario: generated once, written for the reference, cut into batches for us.

use std::fmt::Write as _;

use event::{Batch, Chunks, Schema, Value};

use super::{BATCH_ROWS, Feed, Scenario};
use crate::data::Varied;

pub(super) struct Events {
    /// Of each event its stream.
    streams: Vec<&'static str>,
    /// Timestamp and values, as batches are made of them: making one leaves nothing else behind in
    /// the cache.
    rows: Vec<(i64, Vec<Value>)>,
}

impl Events {
    pub fn generate(scenario: &Scenario, count: Option<u64>) -> Events {
        let mut varied = Varied::new(7);
        let count = count.unwrap_or(scenario.events);
        let all = (0..count).map(|number| {
            let (stream, time, values) = (scenario.generate)(number, &mut varied);
            (stream, (time, values))
        });
        let (streams, rows) = all.unzip();
        Events { streams, rows }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// A line for each: stream, timestamp, values, with tabs between.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (stream, (time, values)) in self.streams.iter().zip(&self.rows) {
            // Writing into a text cannot fail.
            write!(text, "{stream}\t{time}").ok();
            for value in values {
                text.push('\t');
                event::text::write_value(&mut text, value);
            }
            text.push('\n');
        }
        text
    }

    /// The events from number `from` on, up to `count` of them, as batches: neighbours of one
    /// stream travel together, as far as the feed allows.
    pub fn batches(
        &self,
        from: usize,
        count: usize,
        feed: Feed,
        schemas: &[&Schema],
    ) -> Vec<(usize, Batch)> {
        let rows_max = match feed {
            Feed::Single => BATCH_ROWS,
            Feed::Arrays => feed.chunk_rows(),
            Feed::OneByOne => 1,
        };
        let chunks = match feed {
            Feed::Single => Chunks::EachRow,
            Feed::Arrays | Feed::OneByOne => Chunks::One,
        };
        let until = self.len().min(from + count);
        let (mut batches, mut start) = (Vec::new(), from);
        for run in self.streams[from..until].chunk_by(|a, b| a == b) {
            let stream = schemas
                .iter()
                .position(|s| s.name == run[0])
                .expect("the app defines the streams of its scenario");
            for rows in self.rows[start..start + run.len()].chunks(rows_max) {
                let batch = Batch::from_rows(schemas[stream], rows, chunks.clone(), rows[0].0);
                batches.push((stream, batch));
            }
            start += run.len();
        }
        batches
    }
}
