//! What is known of an event that is replayed: its earlier attempts, and, until a checkpoint has it, its
//! place in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::codec::{Error as CodecError, Reader, Writer};

use super::Rejection;
use super::removal::Runs;

/// In a snapshot among the positions of sources: what was replayed. No stream has such a name.
pub(crate) const POSITION: &str = "replayed events";

/// What an event that is replayed was before.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The number that it had first.
    pub earlier: u64,
    /// How often it is tried, this time included.
    pub attempts: u32,
    /// Counts those that fail again.
    pub again: Arc<AtomicU64>,
}

impl Attempt {
    /// The event was rejected again.
    pub fn mark(&self, rejection: Rejection) -> Rejection {
        self.again.fetch_add(1, Ordering::Relaxed);
        Rejection {
            earlier: self.earlier,
            attempts: self.attempts,
            ..rejection
        }
    }
}

/// Events that an executor has taken since the last checkpoint, by log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Replayed(pub [Runs; 2]);

impl Replayed {
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Runs::is_empty)
    }

    pub fn write(&self, writer: &mut Writer) {
        self.0.iter().for_each(|runs| runs.write(writer));
    }

    pub fn read(bytes: &[u8]) -> Result<Replayed, CodecError> {
        let mut reader = Reader::new(bytes);
        let first = Runs::read(&mut reader)?;
        Ok(Replayed([first, Runs::read(&mut reader)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rejected::Run;

    #[test]
    fn what_was_replayed_is_kept_in_a_snapshot() {
        let mut replayed = Replayed::default();
        assert!(replayed.is_empty());
        let run = Run {
            at: 100,
            bytes: 20,
            number: 3,
            count: 1,
        };
        replayed.0[1].add(run, false);
        let mut writer = Writer::default();
        replayed.write(&mut writer);
        assert_eq!(Replayed::read(&writer.bytes), Ok(replayed));
        assert!(Replayed::read(&writer.bytes[1..]).is_err());
    }
}
