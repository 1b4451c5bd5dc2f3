//! Damage to saved state: when it refuses a start, and with which message.
//!
//! A first start finds no files, and a crash leaves at most a temporary one: neither is damage.
//! What else is missing or has changed was lost outside of the server, and starting without it
//! would also lose what sources were told is safe. So that needs `--drop-state`.

use std::fmt;
use std::path::PathBuf;

use super::Found;

/// A file that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    pub path: PathBuf,
    /// Of a snapshot; 0 for the file that says which is current.
    pub epoch: u64,
    pub cause: String,
    /// An older snapshot may not stand in for it: it is whole and of another version, or it says
    /// which snapshot is the right one, and not all are there that could be.
    pub bars: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.cause)
    }
}

impl Found {
    /// Why a run may not begin with what was found, unless what cannot be used may be dropped.
    pub fn refusal(&self) -> Option<String> {
        let Some(&newest) = self.epochs.first() else {
            return (!self.damage.is_empty()).then(|| {
                self.in_words(
                    "none of its saved states is usable, and a run would start empty",
                    "the read positions of sources, the contents of windows, tables, patterns and \
                     aggregations, and the stored rejected events",
                )
            });
        };
        let mut bars = self.damage.iter().filter(|damage| damage.bars);
        let bar = bars.find(|damage| match damage.epoch {
            // With all that is kept of a run the stores say which one it is, as after a crash.
            0 => self.epochs.len() < 2 || self.damage.iter().any(|d| d.epoch > newest),
            epoch => epoch > newest,
        })?;
        let outcome = match bar.epoch {
            0 => "the current one of its saved states is unknown",
            _ => "its newest saved state is unusable",
        };
        let lost = format!("input since epoch {newest} that its source no longer has");
        Some(self.in_words(outcome, &lost))
    }

    /// The newest epoch that sources and stores were told of, where that cannot be gone on from and
    /// an older one is instead.
    pub fn passed_over(&self, chosen: u64) -> Option<u64> {
        let current = self.current.filter(|&current| current > chosen)?;
        let is_damaged = self.damage.iter().any(|damage| damage.epoch == current);
        is_damaged.then_some(current)
    }

    /// What a run would do, the files and what is wrong with each, what would be lost and the remedies.
    pub(super) fn in_words(&self, outcome: &str, lost: &str) -> String {
        let mut text = outcome.to_owned();
        for damage in &self.damage {
            text += &format!("\n   --> {damage}");
        }
        let is_foreign = self.damage.iter().any(|d| d.bars && d.epoch > 0);
        let version = match is_foreign {
            true => ", start the version that wrote them",
            false => "",
        };
        text + &format!(
            "\n    = lost would be: {lost}\n    = help: restore a copy of these files{version}, or \
             drop them with --drop-state"
        )
    }
}
