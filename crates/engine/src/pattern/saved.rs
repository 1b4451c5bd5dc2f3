//! The partial matches of one key, saved and taken back.
//!
//! Kept events are written once, before those that follow them in a chain; partial matches refer to
//! them by their place in the list, lists to partial matches.

use event::codec::{Error as StateError, Reader, Writer};

use super::machine::{Lists, Store};
use super::partials::{CURRENT, EventId, NONE, PartialId};
use super::states::StateGraph;

const VERSION: u8 = 1;

/// Numbers in the saved state for what has other numbers in memory.
#[derive(Default)]
struct Numbers {
    ids: Vec<u32>,
    places: std::collections::BTreeMap<u32, u32>,
}

impl Numbers {
    /// False if it had a number already.
    fn add(&mut self, id: u32) -> bool {
        let next = self.ids.len() as u32;
        if self.places.contains_key(&id) {
            return false;
        }
        self.places.insert(id, next);
        self.ids.push(id);
        true
    }

    fn of(&self, id: u32) -> u32 {
        self.places.get(&id).copied().unwrap_or(NONE)
    }
}

pub(super) fn save(graph: &StateGraph, store: &Store, lists: &Lists, writer: &mut Writer) {
    let width = graph.states.len();
    let mut partials = Numbers::default();
    for state in &lists.states {
        for partial in state.pending.iter().chain(state.new.iter()) {
            partials.add(partial);
        }
    }
    let mut events: Vec<Numbers> = (0..width).map(|_| Numbers::default()).collect();
    for &partial in &partials.ids {
        for (state, events) in events.iter_mut().enumerate() {
            let mut chain = Vec::new();
            let mut event = store.partials.slot(partial, state);
            while event < CURRENT {
                chain.push(event);
                event = store.captures[state].before(event);
            }
            chain.into_iter().rev().for_each(|e| {
                events.add(e);
            });
        }
    }
    writer.u8(VERSION);
    writer.count(width);
    for (captures, events) in store.captures.iter().zip(&events) {
        writer.count(events.ids.len());
        for &event in &events.ids {
            let before = captures.before(event);
            writer.u32(number_of(events, before));
            captures.save(event, writer);
        }
    }
    writer.count(partials.ids.len());
    for &partial in &partials.ids {
        writer.i64(store.partials.time(partial));
        writer.bool(store.partials.is_expired(partial));
        for (state, events) in events.iter().enumerate() {
            writer.u32(number_of(events, store.partials.slot(partial, state)));
        }
    }
    for state in &lists.states {
        for queue in [&state.pending, &state.new] {
            writer.count(queue.len());
            queue.iter().for_each(|p| writer.u32(partials.of(p)));
        }
        writer.bool(state.has_begun);
        writer.bool(state.is_active);
        writer.i64(state.last);
        writer.bool(state.restarts);
    }
}

fn number_of(events: &Numbers, event: EventId) -> u32 {
    if event < CURRENT {
        events.of(event)
    } else {
        event
    }
}

pub(super) fn restore(
    graph: &StateGraph,
    store: &mut Store,
    lists: &mut Lists,
    reader: &mut Reader<'_>,
) -> Result<(), StateError> {
    let version = reader.u8()?;
    if version != VERSION {
        return Err(StateError::Mismatch(format!(
            "partial matches of format {version}, expected {VERSION}"
        )));
    }
    let width = graph.states.len();
    let states = reader.count()?;
    if states != width {
        return Err(StateError::Mismatch(format!(
            "a pattern of {states} states, expected {width}"
        )));
    }
    let mut events: Vec<Vec<EventId>> = Vec::with_capacity(width);
    for captures in &mut store.captures {
        let mut ids: Vec<EventId> = Vec::new();
        for _ in 0..reader.count()? {
            let before = found(&ids, reader.u32()?, "event")?;
            ids.push(captures.restore(before, reader)?);
        }
        events.push(ids);
    }
    let mut partials: Vec<PartialId> = Vec::new();
    for _ in 0..reader.count()? {
        let partial = store.partials.fresh();
        partials.push(partial);
        let time = reader.i64()?;
        store.partials.set_time(partial, time);
        if reader.bool()? {
            store.partials.expire(partial);
        }
        for (state, ids) in events.iter().enumerate() {
            let event = found(ids, reader.u32()?, "event")?;
            store
                .partials
                .set_slot(partial, state, event, &mut store.captures);
        }
    }
    for state in &mut lists.states {
        for queue in [&mut state.pending, &mut state.new] {
            for _ in 0..reader.count()? {
                let number = reader.u32()? as usize;
                let partial = partials.get(number).copied();
                let partial = partial.ok_or_else(|| {
                    StateError::Mismatch(format!("partial match {number}, which is not there"))
                })?;
                store.partials.own(partial);
                queue.push(partial);
            }
        }
        state.has_begun = reader.bool()?;
        state.is_active = reader.bool()?;
        state.last = reader.i64()?;
        state.restarts = reader.bool()?;
    }
    Ok(())
}

fn found(ids: &[EventId], number: u32, what: &str) -> Result<EventId, StateError> {
    if number == NONE || number == CURRENT {
        return Ok(number);
    }
    let id = ids.get(number as usize).copied();
    id.ok_or_else(|| StateError::Mismatch(format!("{what} {number}, which is not there")))
}
