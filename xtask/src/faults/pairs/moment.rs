//! The moments at which a run is killed.

use std::fs;
use std::path::Path;

use super::Pair;
use super::sink::Sink;
use super::source::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Within 0.4 s of its start.
    Early,
    /// Up to 2 s after its first new row.
    Later,
    /// While a snapshot is written.
    Save,
    /// When a snapshot is durable and not current, which is while stores and transactions commit.
    Commit,
    /// While the changes of a snapshot are merged with it.
    Merge,
    /// When a file that was read has just been moved.
    Rename,
    /// While another member joins its group, within 1.5 s.
    Rebalance,
    /// When a file of a table has just been begun: small ones become larger ones at this moment as well.
    Flush,
}

/// Taken in turn.
const MOMENTS: [Moment; 6] = [
    Moment::Later,
    Moment::Commit,
    Moment::Early,
    Moment::Save,
    Moment::Later,
    Moment::Merge,
];

impl Moment {
    /// The moment of the kill of this number.
    pub fn of(pair: &Pair, number: u64) -> Moment {
        let of_source = match pair.source {
            Source::Folder => Some(Moment::Rename),
            Source::Group => Some(Moment::Rebalance),
            _ => None,
        };
        let of_sink = (pair.sink == Sink::EventStore).then_some(Moment::Flush);
        let moments: Vec<Moment> = MOMENTS
            .into_iter()
            .chain(of_source)
            .chain(of_sink)
            .collect();
        moments[number as usize % moments.len()]
    }
}

/// Files of the table of a pair, those among them that no version names yet.
pub fn table_files(store: &Path) -> usize {
    fs::read_dir(store.join("tables/seen")).map_or(0, Iterator::count)
}

/// Numbers of the snapshots of a group.
#[derive(Clone, Copy, Default)]
pub struct Epochs {
    pub newest: u64,
    pub current: u64,
    /// The one that is being written, else 0.
    pub temporary: u64,
}

impl Epochs {
    pub fn read(group: &Path) -> Epochs {
        let mut epochs = Epochs::default();
        for file in fs::read_dir(group).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let Some(number) = name.strip_prefix("snapshot-") else {
                continue;
            };
            let (number, into) = match number.strip_suffix(".tmp") {
                Some(number) => (number, &mut epochs.temporary),
                None => (number, &mut epochs.newest),
            };
            *into = number
                .parse()
                .map_or(*into, |number: u64| number.max(*into));
        }
        let current = fs::read_to_string(group.join("current")).unwrap_or_default();
        let current = current.lines().next().unwrap_or_default();
        epochs.current = current.parse().unwrap_or(0);
        epochs
    }

    pub fn is_saving(self) -> bool {
        self.temporary > self.newest
    }

    pub fn is_committing(self) -> bool {
        self.newest > self.current
    }

    pub fn is_merging(self) -> bool {
        self.temporary > 0 && self.temporary <= self.newest
    }
}
