//! Finds the state from which a group continues: reads what was saved, opens the stores and sinks
//! that participate in epochs, asks them which epoch they have committed, and selects the snapshot
//! that fits.

use connect::component::Epochs;

use crate::error::Error;
use crate::report::chain;
use crate::sink::{SinkSlot, SinkThread};
use crate::state::Saved;
use crate::state::{Found, GroupState, choose};
use crate::store::{StoreBinding, StoreContext, retry};

/// What a group goes on from.
#[derive(Default)]
pub(crate) struct Recovered {
    /// That of the snapshot, 0 for none.
    pub epoch: u64,
    /// The highest number that was ever given. The next is one more, so that no epoch is taken for
    /// another that had its number and was given up.
    pub highest: u64,
    /// What the snapshot holds, with the length of the log of undelivered events, which is written in
    /// front of it.
    pub saved: Option<(u64, Saved)>,
}

/// What lies in the state directory, before anything is connected. What cannot be used refuses the
/// start where nothing sound stands in for it, unless it may be dropped.
pub(crate) fn look(state: &GroupState, may_drop: bool) -> Result<Found, Error> {
    let found = state.find()?;
    if let Some(message) = found.refusal().filter(|_| !may_drop) {
        return Err(refused(state, message));
    }
    for damage in &found.damage {
        let file = damage.path.display().to_string();
        tracing::warn!(file, cause = damage.cause, "cannot use saved state");
    }
    Ok(found)
}

fn refused(state: &GroupState, message: String) -> Error {
    Error::State {
        path: state.path(""),
        message,
    }
}

/// Connects them; a store or sink that is away is waited for as the context says.
pub(crate) fn open(
    bindings: &mut [&mut StoreBinding],
    sinks: &mut [SinkThread],
    context: &StoreContext,
) -> Result<(), Error> {
    for binding in bindings {
        binding.open(context).map_err(away("a store"))?;
    }
    for slot in slots(sinks) {
        if slot.takes_part {
            let name = format!("sink '{}'", slot.name());
            retry(&name, None, context, || slot.sink.connect()).map_err(away("a sink"))?;
        }
    }
    Ok(())
}

/// Takes the snapshot that fits what was committed. Where there is none because it is damaged, that
/// refuses the start, unless what cannot be used may be dropped.
pub(crate) fn recover(
    state: &GroupState,
    found: &Found,
    may_drop: bool,
    bindings: &mut [&mut StoreBinding],
    sinks: &mut [SinkThread],
    context: &StoreContext,
) -> Result<Recovered, Error> {
    let mut epochs = Vec::new();
    // Members that know an epoch of another state directory alone.
    let mut strangers = Vec::new();
    for binding in bindings.iter_mut() {
        let name = format!("store '{}'", binding.table);
        let last = last_epoch(&name, binding.store.as_mut(), context).map_err(away("a store"))?;
        strangers.extend(last.stranger.then(|| name.clone()));
        epochs.push((name, last.epoch));
    }
    for slot in slots(sinks) {
        let name = format!("sink '{}'", slot.name());
        if let Some(part) = slot.sink.epochs() {
            let last = last_epoch(&name, part, context).map_err(away("a sink"))?;
            strangers.extend(last.stranger.then(|| name.clone()));
            epochs.push((name, last.epoch));
        }
    }
    let choice = choose(found, &epochs);
    if let Some(message) = choice.refusal.filter(|_| !may_drop) {
        return Err(refused(state, message));
    }
    if found.highest > 0 && !strangers.is_empty() && !may_drop {
        return Err(refused(state, strange(found, &strangers)));
    }
    for warning in &choice.warnings {
        tracing::warn!("{warning}");
    }
    let members = epochs.iter().map(|(_, epoch)| *epoch);
    let highest = members.chain([found.highest]).max().unwrap_or(0);
    let chosen = choice.epoch.unwrap_or(0);
    let is_dropped = may_drop && !found.damage.is_empty();
    if is_dropped || chosen == 0 && highest > 0 && found.epochs.is_empty() {
        // What is passed over is gone for good: after a crash in the first interval nobody goes on
        // from anything else, and nobody has to allow it again.
        state.mark_current(chosen)?;
    }
    if is_dropped && chosen == 0 {
        tracing::warn!("cannot use saved state; dropping it and starting empty");
    } else if let Some(current) = found.passed_over(chosen) {
        tracing::error!(
            epoch = chosen,
            damaged = current,
            "cannot use the newest saved state; continuing from an older one: later input is read \
             again if its source still has it, and later output may be written twice"
        );
    }
    let Some(epoch) = choice.epoch else {
        return Ok(Recovered {
            highest,
            ..Recovered::default()
        });
    };
    // One that knows of no epoch learns of this one before it is given anything: else nobody could
    // tell, after a crash in its first interval, that it has not committed.
    let mut numbers = epochs.iter().map(|(_, epoch)| *epoch);
    for binding in bindings.iter_mut() {
        let name = format!("store '{}'", binding.table);
        if numbers.next() == Some(0) {
            note(&name, binding.store.as_mut(), epoch, context).map_err(away("a store"))?;
        }
    }
    for slot in slots(sinks) {
        let name = format!("sink '{}'", slot.name());
        if let Some(part) = slot.sink.epochs()
            && numbers.next() == Some(0)
        {
            note(&name, part, epoch, context).map_err(away("a sink"))?;
        }
    }
    let (undelivered, bytes) = state.read(epoch)?;
    let saved = Saved::read(bytes).map_err(|error| Error::State {
        path: state.path(""),
        message: chain(&error),
    })?;
    let newest = found.epochs.first().copied().unwrap_or(0);
    tracing::info!(epoch, newest, "continuing from saved state");
    Ok(Recovered {
        epoch,
        highest,
        saved: Some((undelivered, saved)),
    })
}

fn slots(sinks: &mut [SinkThread]) -> impl Iterator<Item = &mut SinkSlot> {
    sinks.iter_mut().flat_map(|thread| &mut thread.slots)
}

/// Commits a number with nothing else.
fn note<E: Epochs + ?Sized>(
    name: &str,
    part: &mut E,
    epoch: u64,
    context: &StoreContext,
) -> Result<(), String> {
    retry(name, None, context, || {
        part.begin()?;
        part.commit(epoch, context.store_key.as_bytes())
    })
}

/// Why rows would be written twice that a store has, but not under the name of this directory.
fn strange(found: &Found, strangers: &[String]) -> String {
    let current = found.current.unwrap_or(found.highest);
    format!(
        "{} has rows of this app that were written under another state directory, and no epoch of \
         this one, of which {current} is current: a run would write rows twice\n    = help: use \
         the state directory that the rows were written with, or restore a copy of the file 'id' \
         beside this one, which names it; to continue anyway, start once with --drop-state",
        strangers.join(", ")
    )
}

/// What a member remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LastEpoch {
    /// That it has committed under this state directory; 0 for none.
    epoch: u64,
    /// It has committed one under the name of another directory.
    stranger: bool,
}

/// The epoch committed under this state directory, or whether it was another one.
fn last_epoch<E: Epochs + ?Sized>(
    name: &str,
    part: &mut E,
    context: &StoreContext,
) -> Result<LastEpoch, String> {
    let found = retry(name, None, context, || part.last_epoch())?;
    Ok(LastEpoch::of(found, context.store_key.as_bytes()))
}

impl LastEpoch {
    /// From what a member has noted, and the key of this directory.
    fn of(noted: Option<(u64, Vec<u8>)>, own: &[u8]) -> LastEpoch {
        let id = |key: &[u8]| key.split(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
        match noted {
            Some((epoch, key)) if key == own => LastEpoch {
                epoch,
                stranger: false,
            },
            noted => LastEpoch {
                epoch: 0,
                stranger: noted.is_some_and(|(_, key)| id(&key) != id(own)),
            },
        }
    }
}

fn away(what: &'static str) -> impl Fn(String) -> Error {
    move |message| Error::Connect {
        what: what.into(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_another_directory_is_a_stranger() {
        let of = |key: Option<&str>| {
            let noted = key.map(|key| (7, key.as_bytes().to_vec()));
            let last = LastEpoch::of(noted, b"0123456789abcdef/A");
            (last.epoch, last.stranger)
        };
        assert_eq!(of(Some("0123456789abcdef/A")), (7, false));
        assert_eq!(of(Some("0123456789abcdef/A+B")), (0, false));
        assert_eq!(of(Some("0123456789bbcdef/A")), (0, true));
        assert_eq!(of(None), (0, false));
    }
}
