//! What a group goes on from: opens the stores and sinks that take part in epochs, asks them which
//! epoch they have committed, and takes the snapshot that fits.

use connect::component::Epochs;

use crate::error::Error;
use crate::lane::Saved;
use crate::report::chain;
use crate::sink::{SinkSlot, SinkThread};
use crate::state::{GroupState, choose};
use crate::store::{StoreContext, StoreSeat, retry};

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

/// Connects them; a store or sink that is away is waited for as the context says.
pub(crate) fn open(
    seats: &mut [&mut StoreSeat],
    sinks: &mut [SinkThread],
    context: &StoreContext,
) -> Result<(), Error> {
    for seat in seats {
        seat.open(context).map_err(away("a store"))?;
    }
    for slot in slots(sinks) {
        if slot.takes_part {
            let name = format!("sink '{}'", slot.name());
            retry(&name, context, || slot.sink.connect()).map_err(away("a sink"))?;
        }
    }
    Ok(())
}

/// Looks for the snapshot that fits what was committed.
pub(crate) fn recover(
    state: &GroupState,
    seats: &mut [&mut StoreSeat],
    sinks: &mut [SinkThread],
    context: &StoreContext,
) -> Result<Recovered, Error> {
    let found = state.find()?;
    for damaged in &found.damaged {
        tracing::warn!(snapshot = damaged, "a snapshot cannot be used");
    }
    let mut epochs = Vec::new();
    for seat in seats.iter_mut() {
        let name = format!("store '{}'", seat.table);
        let epoch = last_epoch(&name, seat.store.as_mut(), context).map_err(away("a store"))?;
        epochs.push((name, epoch));
    }
    for slot in slots(sinks) {
        let name = format!("sink '{}'", slot.name());
        if let Some(part) = slot.sink.epochs() {
            let epoch = last_epoch(&name, part, context).map_err(away("a sink"))?;
            epochs.push((name, epoch));
        }
    }
    let choice = choose(&found.epochs, found.current, &epochs);
    for warning in &choice.warnings {
        tracing::warn!("{warning}");
    }
    let newest = found.epochs.first().copied().unwrap_or(0);
    let members = epochs.iter().map(|(_, epoch)| *epoch);
    let highest = members.chain([newest]).max().unwrap_or(0);
    let Some(epoch) = choice.epoch else {
        return Ok(Recovered {
            highest,
            ..Recovered::default()
        });
    };
    // One that knows of no epoch learns of this one before it is given anything: else nobody could
    // tell, after a crash in its first interval, that it has not committed.
    let mut numbers = epochs.iter().map(|(_, epoch)| *epoch);
    for seat in seats.iter_mut() {
        let name = format!("store '{}'", seat.table);
        if numbers.next() == Some(0) {
            note(&name, seat.store.as_mut(), epoch, context).map_err(away("a store"))?;
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
    tracing::info!(epoch, newest, "going on from the saved state");
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
    retry(name, context, || {
        part.begin()?;
        part.commit(epoch, context.store_key.as_bytes())
    })
}

/// The epoch committed under this state directory; 0 for none.
fn last_epoch<E: Epochs + ?Sized>(
    name: &str,
    part: &mut E,
    context: &StoreContext,
) -> Result<u64, String> {
    let found = retry(name, context, || part.last_epoch())?;
    Ok(match found {
        Some((epoch, key)) if key == context.store_key.as_bytes() => epoch,
        _ => 0,
    })
}

fn away(what: &'static str) -> impl Fn(String) -> Error {
    move |message| Error::Connect {
        what: what.into(),
        message,
    }
}
