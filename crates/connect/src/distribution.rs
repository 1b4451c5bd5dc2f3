//! `@distribution` of a sink: which rows go to which of its destinations.
//!
//! Each destination is a separate sink in the plan and gets its share of the rows here; the shares
//! of a stream are independent of each other, and together they are what the strategy prescribes.

use event::Batch;
use event::text::{java_hash, to_text};
use plan::Transport;

/// The share of one destination.
#[derive(Clone, Debug)]
pub struct Share {
    strategy: Strategy,
    index: usize,
    of: usize,
}

#[derive(Clone, Debug)]
enum Strategy {
    Broadcast,
    /// Chunks seen so far: each chunk is one payload, and goes to the next destination.
    RoundRobin(usize),
    /// Index of the attribute whose text chooses, as Java hashes it.
    Partitioned(usize),
}

impl Share {
    /// `None` for a sink without `@distribution`, which takes everything.
    pub fn of(transport: &Transport) -> Option<Share> {
        let distribution = transport.distribution.as_ref()?;
        let strategy = match distribution.strategy.as_str() {
            "roundRobin" => Strategy::RoundRobin(0),
            "partitioned" => Strategy::Partitioned(distribution.partition_key?),
            _ => Strategy::Broadcast,
        };
        Some(Share {
            strategy,
            index: distribution.index,
            of: distribution.destinations.len().max(1),
        })
    }

    /// The rows that go to this destination; `None` if none do.
    pub fn pick(&mut self, batch: &Batch) -> Option<Batch> {
        let (index, of) = (self.index, self.of);
        match &mut self.strategy {
            Strategy::Broadcast => Some(batch.clone()),
            Strategy::RoundRobin(seen) => {
                let mut keep = vec![false; batch.len];
                for chunk in 0..batch.chunk_count() {
                    keep[batch.chunk(chunk)].fill((*seen + chunk) % of == index);
                }
                *seen = (*seen + batch.chunk_count()) % of;
                batch.filter(&keep)
            }
            Strategy::Partitioned(key) => {
                let column = &batch.columns[*key];
                let goes = |row: usize| {
                    let hash = java_hash(&to_text(&column.value(row)));
                    hash.unsigned_abs() as usize % of == index
                };
                let keep: Vec<bool> = (0..batch.len).map(goes).collect();
                batch.filter(&keep)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Chunks, ColumnBuilder, Times, Type, Value};

    fn batch(chunks: &[&[&str]]) -> Batch {
        let mut keys = ColumnBuilder::new(Type::String);
        let mut ends = Vec::new();
        for chunk in chunks {
            chunk.iter().for_each(|key| keys.push(&Value::str(key)));
            ends.push(keys.len() as u32);
        }
        let len = keys.len();
        Batch::new(
            vec![keys.finish()],
            len,
            Times::Same(0),
            Chunks::Ends(ends.into()),
            0,
        )
    }

    fn shares(strategy: &Strategy, rows: &Batch) -> Vec<String> {
        (0..2)
            .map(|index| {
                let mut share = Share {
                    strategy: strategy.clone(),
                    index,
                    of: 2,
                };
                let picked = share.pick(rows);
                let texts = picked
                    .iter()
                    .flat_map(|b| (0..b.len).map(|row| to_text(&b.columns[0].value(row))));
                texts.collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    #[test]
    fn each_destination_gets_its_share() {
        let rows = batch(&[&["WSO2", "IBM"], &["IBM"], &["WSO2"]]);
        let check =
            |strategy: Strategy, want: [&str; 2]| assert_eq!(shares(&strategy, &rows), want);
        check(
            Strategy::Broadcast,
            ["WSO2 IBM IBM WSO2", "WSO2 IBM IBM WSO2"],
        );
        check(Strategy::RoundRobin(0), ["WSO2 IBM WSO2", "IBM"]);
        check(Strategy::Partitioned(0), ["IBM IBM", "WSO2 WSO2"]);
    }
}
