//! `session(gap, key, latency)`: events until a quiet time.

use super::held::Held;
use super::params::*;
use crate::spec::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::key::KeyParts;
use super::key_map::KeyMap;
use super::linked::Linked;
use super::per_key::{PerKey, Rule, Stored};
use super::pool::{Pool, Slot, Visit};
use super::store::RowTypes;
use crate::component::*;
use crate::emission::Emission;
use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Chunks, Column, Value};

pub struct SessionWindow;

// Siddhi declares INT as well, and then fails to cast it.
const GAP: Param = param(
    "session.gap",
    Types::LONG,
    "Quiet time that ends a session, in ms.",
)
.constant();
const KEY: Param = param(
    "session.key",
    Types::STRING,
    "Sessions are kept apart by it.",
);
const LATENCY: Param = param(
    "allowed.latency",
    Types::LONG,
    "How late an event may come, in ms.",
)
.constant();

static SPEC: FunctionSpec = runs(
    window(
        "session",
        "Events until a quiet time.",
        &[
            Overload::new(&[GAP]),
            Overload::new(&[GAP, KEY]),
            Overload::new(&[GAP, LATENCY]),
            Overload::new(&[GAP, KEY, LATENCY]),
        ],
    ),
    "define stream S (user string, page string);
from S#window.session(1 sec, user) select user, page insert expired events into Out;
---
send S @0 A x
send S @500 A y
send S @600 B z
advance @1600
expect Out [A x; A y]
expect Out B z
",
);

const NAME: &str = "session";

impl Window for SessionWindow {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let gap = long(setup.args, 0)?;
        let (mut key, mut latency) = (None, 0);
        for (index, argument) in setup.args.iter().enumerate().skip(1) {
            if argument.constant.is_some() {
                latency = long(setup.args, index)?;
            } else {
                key = Some(argument.clone());
            }
        }
        let key = KeyParts::of_arguments(&key.map_or_else(|| vec![ONE_SESSION], |k| vec![k]));
        Ok(PerKey::operator(
            setup,
            Sessions {
                gap,
                latency,
                needed: key.columns(),
                key,
                types: super::store::row_types(setup.schema),
                expired_wanted: setup.expired_wanted,
            },
        ))
    }
}

/// Stands for the key where there is none.
const ONE_SESSION: Argument = Argument {
    ty: event::Type::Bool,
    constant: Some(Value::Bool(true)),
    attribute: None,
};

/// Siddhi declares INT too, and then fails to cast it.
fn long(args: &[Argument], index: usize) -> Result<i64, Refused> {
    match args.get(index).and_then(|a| a.constant.as_ref()) {
        Some(Value::Long(millis)) => Ok(*millis),
        _ => Err(super::refused(NAME, index, "a constant long or time")),
    }
}

struct Sessions {
    gap: i64,
    /// How long a session stays open for late events once it is over.
    latency: i64,
    key: KeyParts,
    needed: Vec<usize>,
    types: RowTypes,
    expired_wanted: bool,
}

/// Events of one session; none: there is no session, and the times mean nothing.
#[derive(Default)]
struct Session {
    rows: Linked,
    start: i64,
    end: i64,
    /// Until when late events are taken.
    alive: i64,
    /// The earliest time at which it is looked at in [`Times`].
    watched: Option<i64>,
}

/// The session of a key that goes on, and the one before, while it waits for late events.
#[derive(Default)]
struct Sequel {
    current: Session,
    previous: Session,
}

struct State {
    pool: Pool,
    keys: KeyMap<Sequel>,
    due: Times,
}

/// When sessions are over: the ends of the current ones, and until when those before wait.
struct Times {
    current: Ends,
    previous: Ends,
}

impl Times {
    fn new() -> Times {
        Times {
            current: Ends::new(|s| &mut s.current, |s| s.end),
            previous: Ends::new(|s| &mut s.previous, |s| s.alive),
        }
    }

    fn watch(&mut self, key: &str, sequel: &mut Sequel) {
        self.current.watch(key, sequel);
        self.previous.watch(key, sequel);
    }
}

/// Times at which to look at sessions. A session stands here once, or again where its end has come
/// nearer; one whose end is later by then is put back.
struct Ends {
    heap: BinaryHeap<Reverse<(i64, Box<str>)>>,
    session: fn(&mut Sequel) -> &mut Session,
    end: fn(&Session) -> i64,
}

impl Ends {
    fn new(session: fn(&mut Sequel) -> &mut Session, end: fn(&Session) -> i64) -> Ends {
        Ends {
            heap: BinaryHeap::new(),
            session,
            end,
        }
    }

    fn watch(&mut self, key: &str, sequel: &mut Sequel) {
        let session = (self.session)(sequel);
        let end = (self.end)(session);
        if session.rows.is_empty() || session.watched.is_some_and(|watched| watched <= end) {
            return;
        }
        session.watched = Some(end);
        self.heap.push(Reverse((end, Box::from(key))));
    }

    /// Keys of sessions that are over, those that ended first in front.
    fn over(&mut self, now: i64, keys: &mut KeyMap<Sequel>) -> Vec<Box<str>> {
        let mut over = Vec::new();
        while let Some(Reverse((time, _))) = self.heap.peek()
            && *time <= now
            && let Some(Reverse((_, key))) = self.heap.pop()
        {
            let place = keys.place(&key);
            let Some(sequel) = keys.get_mut(&key) else {
                continue;
            };
            let session = (self.session)(sequel);
            session.watched = None;
            if (self.end)(session) > now {
                self.watch(&key, sequel);
            } else if !session.rows.is_empty() {
                over.push((session.end, place, key));
            }
        }
        over.sort();
        over.dedup();
        over.into_iter().map(|(.., key)| key).collect()
    }
}

impl Session {
    fn set(&mut self, start: i64, end: i64, latency: i64) {
        self.start = start;
        self.end = end;
        self.alive = end.saturating_add(latency);
    }

    fn save(&self, writer: &mut Writer, row: &mut impl FnMut(Slot) -> u32) {
        [self.start, self.end, self.alive]
            .into_iter()
            .for_each(|time| writer.i64(time));
        self.rows.save(writer, row);
    }

    fn restore(reader: &mut Reader<'_>, rows: usize) -> Result<Session, StateError> {
        Ok(Session {
            start: reader.i64()?,
            end: reader.i64()?,
            alive: reader.i64()?,
            rows: Linked::restore(reader, rows)?,
            watched: None,
        })
    }
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            pool: Pool::new(types),
            keys: KeyMap::default(),
            due: Times::new(),
        }
    }

    fn bytes(&self) -> usize {
        let lists = |(_, s): (&str, &Sequel)| s.current.rows.bytes() + s.previous.rows.bytes();
        self.pool.bytes() + self.keys.bytes() + self.keys.iter().map(lists).sum::<usize>()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        let mut rows = super::pool::SavedRows::default();
        for (_, sequel) in self.keys.iter() {
            rows.extend(sequel.current.rows.stored_slots());
            rows.extend(sequel.previous.rows.stored_slots());
        }
        writer.rows(&self.pool.rows(rows.slots()));
        self.keys.save(writer, |sequel, w| {
            sequel.current.save(w, &mut |slot| rows.number(slot));
            sequel.previous.save(w, &mut |slot| rows.number(slot));
        });
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let rows = reader.rows(types, 0)?;
        let count = rows.len;
        let mut keys = KeyMap::restore(reader, |r| {
            Ok(Sequel {
                current: Session::restore(r, count)?,
                previous: Session::restore(r, count)?,
            })
        })?;
        let mut due = Times::new();
        keys.for_each_mut(|key, sequel| due.watch(key, sequel));
        Ok(State {
            pool: Pool::of(types, rows),
            keys,
            due,
        })
    }
}

/// What leaves behind the events that come in.
type Expired = Vec<Slot>;

/// What becomes of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is in a session.
    ValueStore,
    /// It passes, but its session is over and its timer has yet to say so: it is in none.
    Passed,
    /// It is too late for all.
    Dropped,
}

impl Sessions {
    /// Puts an event into its session.
    fn take(
        &self,
        sequel: &mut Sequel,
        (slot, time): (Slot, i64),
        expired: &mut Expired,
        context: &mut WindowContext<'_>,
    ) -> Fate {
        let end = time.saturating_add(self.gap);
        let Sequel { current, previous } = sequel;
        if current.rows.is_empty() {
            current.rows.add(slot);
            current.set(time, end, self.latency);
            context.notify(end);
        } else if time < current.start {
            return self.take_late(sequel, slot, time);
        } else if time <= current.end {
            current.set(current.start, end, self.latency);
            current.rows.add(slot);
            context.notify(end);
        } else if self.latency > 0 {
            expired.extend(previous.rows.slots());
            previous.rows.clear();
            previous.rows.add_all(&mut current.rows);
            previous.set(current.start, current.end, self.latency);
            previous.alive = current.alive;
            context.notify(current.alive);
            current.set(time, end, self.latency);
            current.rows.add(slot);
            context.notify(end);
        } else {
            return Fate::Passed;
        }
        Fate::ValueStore
    }

    /// An event from before the session that goes on.
    fn take_late(&self, sequel: &mut Sequel, slot: Slot, time: i64) -> Fate {
        let Sequel { current, previous } = sequel;
        if time >= current.start.saturating_sub(self.gap) {
            if current.rows.has_next() {
                current.rows.walk();
            }
            current.rows.insert_before(slot);
            current.start = time;
            if self.latency > 0 {
                self.merge(previous, current);
            }
            return Fate::ValueStore;
        }
        if self.latency == 0
            || previous.rows.is_empty()
            || time < previous.start.saturating_sub(self.gap)
        {
            return Fate::Dropped;
        }
        previous.rows.add(slot);
        if time <= previous.end.saturating_sub(self.gap) && time < previous.start {
            previous.start = time;
        } else {
            let end = time.saturating_add(self.gap);
            previous.set(previous.start, end, self.latency);
            self.merge(previous, current);
        }
        Fate::ValueStore
    }

    /// Sessions between which there is no quiet time any more become one.
    fn merge(&self, previous: &mut Session, next: &mut Session) {
        if previous.rows.is_empty() || previous.end < next.start.saturating_sub(self.gap) {
            return;
        }
        if next.rows.has_next() {
            next.rows.walk();
        }
        let slots: Vec<Slot> = previous.rows.slots().collect();
        slots.into_iter().for_each(|s| next.rows.insert_before(s));
        next.start = previous.start;
        previous.rows.clear();
    }
}

impl Rule for Sessions {
    type State = State;

    /// Every event passes; sessions that leave stand behind the events of the chunk
    /// (`SessionWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let mut visit = Visit::of_batch(&mut state.pool, batch, out);
        let mut expired = Expired::new();
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                let Some(key) = self.key.single(batch, row) else {
                    context.failures.push(Failure {
                        row: row as u32,
                        message: "the key of window 'session' is null".into(),
                    });
                    out.abandon_chunk();
                    break;
                };
                let key = key.to_owned();
                let slot = visit.add(row);
                let sequel = state.keys.entry(&key, Sequel::default);
                let event = (slot, batch.times.at(row));
                let fate = self.take(sequel, event, &mut expired, context);
                state.due.watch(&key, sequel);
                if fate != Fate::ValueStore {
                    visit.remove(slot);
                }
                if fate != Fate::Dropped {
                    visit.pass(row, out);
                }
            }
            for slot in expired.drain(..) {
                visit.emit(slot, true, None, out);
                visit.remove(slot);
            }
            out.end_chunk(clock);
        }
        visit.finish();
    }

    fn on_timer(
        &mut self,
        state: &mut State,
        due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State {
            pool,
            keys,
            due: times,
        } = state;
        let mut expired = Expired::new();
        let ended = times.current.over(due, keys);
        for key in &ended {
            let Some(sequel) = keys.get_mut(key) else {
                continue;
            };
            let Sequel { current, previous } = sequel;
            if self.latency == 0 {
                expired.extend(current.rows.slots());
                current.rows.clear();
                continue;
            }
            previous.rows.add_all(&mut current.rows);
            (previous.start, previous.end) = (current.start, current.end);
            previous.alive = current.alive;
            context.notify(current.alive);
            times.watch(key, sequel);
        }
        let dead = times.previous.over(due, keys);
        for key in &dead {
            if let Some(Sequel { previous, .. }) = keys.get_mut(key) {
                expired.extend(previous.rows.slots());
                previous.rows.clear();
            }
        }
        let mut visit = Visit::of_timer(pool);
        for slot in expired {
            visit.emit(slot, true, None, out);
            visit.remove(slot);
        }
        visit.finish();
        out.end_chunk(context.now);
        // A key whose sessions are over begins anew with its next event.
        let is_over = |s: &Sequel| s.current.rows.is_empty() && s.previous.rows.is_empty();
        for key in ended.iter().chain(&dead) {
            if keys.get(key).is_some_and(is_over) {
                keys.remove(key);
            }
        }
    }

    fn needed(&self) -> &[usize] {
        &self.needed
    }

    /// Siddhi searches a list that is empty between two calls.
    fn content<'s>(&self, _state: &'s State) -> Option<Held<'s>> {
        let columns = self
            .types
            .iter()
            .map(|&ty| Column::constant(ty, &Value::Null, 0));
        let none = Batch::new(columns.collect(), 0, event::Times::Same(0), Chunks::One, 0);
        Some(Held::from(none))
    }

    fn held(&self, state: &State) -> usize {
        if !self.expired_wanted {
            return 0;
        }
        let rows = |(_, s): (&str, &Sequel)| {
            s.current.rows.slots().count() + s.previous.rows.slots().count()
        };
        state.keys.iter().map(rows).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn a_session_ends_after_a_quiet_time() {
        check(
            &Case::new("session", &[long(100)]),
            "1@0 2@50 [3 4]@151 tick@999",
            "C1@0 | C2@50 | E1@0 E2@50 | C3@151 C4@151 | E3@151 E4@151",
        );
    }

    #[test]
    fn each_key_has_a_session() {
        check(
            &Case::new("session", &[long(100), t()]),
            "1~7@0 2~8@20 3~7@60 tick@999",
            "C1@0 | C2@20 | C3@60 | E2@20 | E1@0 E3@60",
        );
    }

    #[test]
    fn a_late_event_comes_first_or_is_dropped() {
        check(
            &Case::new("session", &[long(100)]),
            "1#500@500 2#450@510 3#300@520 tick@999",
            "C1@500 | C2@450 | E2@450 E1@500",
        );
    }

    #[test]
    fn with_a_latency_sessions_wait_and_merge() {
        let case = Case::new("session", &[long(100), long(50)]);
        check(
            &case,
            "1@0 2@120 3#60@130 tick@999",
            "C1@0 | C2@120 | C3@60 | E3@60 E1@0 E2@120",
        );
        check(&case, "1@0 2@200 tick@999", "C1@0 | E1@0 | C2@200 | E2@200");
    }

    #[test]
    fn nothing_is_found_and_all_is_held() {
        check_content(&Case::new("session", &[long(100)]), "1@0 2@50", "", 2);
    }

    #[test]
    fn a_gap_of_type_int_is_refused() {
        assert!(Case::new("session", &[int(100)]).is_refused());
    }
}
