//! The events of a scenario: generated once, written for the reference, cut into batches for us.

use std::fmt::Write as _;

use event::{Batch, Chunks, Schema, Value};

use super::{BATCH_ROWS, Feed, Scenario};
use crate::data::Varied;

/// One event: stream, timestamp, values.
type Event = (&'static str, i64, Vec<Value>);

pub(super) struct Events {
    all: Vec<Event>,
}

impl Events {
    pub fn generate(scenario: &Scenario, count: Option<u64>) -> Events {
        let mut varied = Varied::new(7);
        let count = count.unwrap_or(scenario.events);
        Events {
            all: (0..count)
                .map(|number| (scenario.generate)(number, &mut varied))
                .collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// A line for each: stream, timestamp, values, with tabs between.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (stream, time, values) in &self.all {
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
        let all = &self.all[from..self.all.len().min(from + count)];
        let mut batches = Vec::new();
        for run in all.chunk_by(|a, b| a.0 == b.0) {
            for part in run.chunks(rows_max) {
                let name = part[0].0;
                let stream = schemas
                    .iter()
                    .position(|s| s.name == name)
                    .expect("the app defines the streams of its scenario");
                let rows: Vec<(i64, Vec<Value>)> =
                    part.iter().map(|(_, t, v)| (*t, v.clone())).collect();
                let batch = Batch::from_rows(schemas[stream], &rows, chunks.clone(), rows[0].0);
                batches.push((stream, batch));
            }
        }
        batches
    }
}
