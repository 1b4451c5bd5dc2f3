//! The modes in which every test runs; none of them may change an output. One more is for those with tables,
//! which it keeps elsewhere.

/// How chunks are gathered into batches, and what is done to the app between steps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Every chunk is a batch of its own.
    One,
    /// Up to seven chunks a batch.
    Seven,
    /// As many chunks a batch as follow each other on one stream.
    Whole,
    /// As [`Mode::Whole`], every junction forced to hand on chunk by chunk.
    Lockstep,
    /// As [`Mode::Seven`], and after each step the app is saved, thrown away and restored.
    Snapshot,
    /// As [`Mode::Seven`], and what changes is saved after each step; after some the app is thrown
    /// away and restored from what was put together.
    Changes,
    /// As [`Mode::Seven`], with all tables and aggregations in the event store, which is closed and opened
    /// again after some steps.
    EventStore,
}

impl Mode {
    /// Those of every test.
    pub const ALL: [Mode; 6] = [
        Mode::One,
        Mode::Seven,
        Mode::Whole,
        Mode::Lockstep,
        Mode::Snapshot,
        Mode::Changes,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Mode::One => "one",
            Mode::Seven => "seven",
            Mode::Whole => "whole",
            Mode::Lockstep => "lockstep",
            Mode::Snapshot => "snapshot",
            Mode::Changes => "changes",
            Mode::EventStore => "eventstore",
        }
    }

    pub fn from_name(name: &str) -> Option<Mode> {
        let mut modes = Mode::ALL.into_iter().chain([Mode::EventStore]);
        modes.find(|mode| mode.name() == name)
    }

    /// The same without what restores the app between steps.
    pub const fn without_restores(self) -> Mode {
        match self {
            Mode::Snapshot | Mode::Changes => Mode::Seven,
            mode => mode,
        }
    }

    /// Chunks that may go into one batch.
    pub const fn chunks_max(self) -> usize {
        match self {
            Mode::One => 1,
            Mode::Seven | Mode::Snapshot | Mode::Changes | Mode::EventStore => 7,
            Mode::Whole | Mode::Lockstep => usize::MAX,
        }
    }
}
