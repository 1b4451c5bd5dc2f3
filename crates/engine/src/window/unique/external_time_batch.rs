//! `unique:externalTimeBatch(key, t, T)`: batches of T by an attribute, the newest row of each key.

use super::super::key::KeyParts;
use super::super::key_map::KeyMap;
use super::super::per_key::{PerKey, Rule, Stored};
use super::super::pool::{Pool, SavedRows, Slot, Visit};
use super::super::store::RowTypes;
use super::params::*;
use crate::component::*;
use crate::emission::Emission;
use crate::kept::Held;
use crate::spec::*;
use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column};

pub struct ExternalTimeBatch;

const TS: Param = param("time.stamp", Types::LONG, "Time of the event, in ms.");
const START_INT: Param = param(
    "start.time",
    Types::INT_LONG,
    "Boundaries are this plus multiples of the time.",
);
const TIMEOUT: Param = param(
    "time.out",
    Types::INT_LONG,
    "Flushes after so long without an event, in ms.",
)
.constant();
const REPLACE: Param = param(
    "replace.time.stamp.with.batch.end.time",
    Types::BOOL,
    "Writes the end of the batch into the timestamp.",
)
.constant();

static SPEC: FunctionSpec = runs(
    window(
        "externalTimeBatch",
        "Batches of T by an attribute, the newest event of each key.",
        &[
            Overload::new(&[KEY, TS, TIME]),
            Overload::new(&[KEY, TS, TIME, START_INT]),
            Overload::new(&[KEY, TS, TIME, START_INT, TIMEOUT]),
            Overload::new(&[KEY, TS, TIME, START_INT, TIMEOUT, REPLACE]),
        ],
    ),
    "define stream S (t long, ip string);
from S#window.unique:externalTimeBatch(ip, t, 1 sec, 0) select count() as n insert into Out;
---
send S 100 A
send S 200 A
send S 300 B
send S 1000 A
expect Out 2
",
);

const NAME: &str = "unique:externalTimeBatch";

impl Window for ExternalTimeBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let args = setup.args;
        let attribute = super::super::long_attribute(args, 1, NAME)?;
        let millis = super::super::millis(args, 2, NAME)?;
        if millis <= 0 {
            return Err(Refused(format!("window '{NAME}' needs a time above zero")));
        }
        let optional = |at: usize| match args.len() > at {
            true => super::super::millis(args, at, NAME).map(Some),
            false => Ok(None),
        };
        let timeout = optional(4)?.filter(|&t| t > 0);
        let rule = Rounds {
            key: KeyParts::of_arguments(&args[..1]),
            attribute: [attribute],
            millis,
            start: optional(3)?,
            timeout,
            replaces: args.len() > 5 && super::super::flag(args, 5, NAME)?,
            expired_wanted: setup.expired_wanted,
            // With a timeout alone what has left is kept until the batch is complete.
            keeps: setup.expired_wanted || setup.is_searched && timeout.is_none(),
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Rounds {
    key: KeyParts,
    attribute: [usize; 1],
    millis: i64,
    /// Boundaries are congruent to it; else the first event's time begins the first batch.
    start: Option<i64>,
    /// Longest time without a flush, by the clock.
    timeout: Option<i64>,
    /// The end of the batch is written into the time attribute.
    replaces: bool,
    expired_wanted: bool,
    keeps: bool,
}

struct State {
    pool: Pool,
    /// What is collected, and what has left, each in the order in which its keys came first.
    current: KeyMap<Slot>,
    left: KeyMap<Slot>,
    /// `None` until the first event.
    timing: Option<Timing>,
}

#[derive(Clone, Copy)]
struct Timing {
    start: i64,
    /// End of the batch being collected.
    end: i64,
    /// The largest time seen.
    latest: i64,
    /// The newest deadline: an older one that comes due has been overtaken.
    scheduled: i64,
    /// The timeout has emitted a part of the batch already.
    flushed: bool,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            pool: Pool::new(types),
            current: KeyMap::default(),
            left: KeyMap::default(),
            timing: None,
        }
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + self.current.bytes() + self.left.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.bool(self.timing.is_some());
        if let Some(timing) = &self.timing {
            for time in [timing.start, timing.end, timing.latest, timing.scheduled] {
                writer.i64(time);
            }
            writer.bool(timing.flushed);
        }
        let mut rows = SavedRows::default();
        let all = self.current.iter().chain(self.left.iter());
        rows.extend(all.map(|(_, slot)| *slot));
        writer.rows(&self.pool.rows(rows.slots()));
        super::save_slots(&self.current, &rows, writer);
        super::save_slots(&self.left, &rows, writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let timing = if reader.bool()? {
            Some(Timing {
                start: reader.i64()?,
                end: reader.i64()?,
                latest: reader.i64()?,
                scheduled: reader.i64()?,
                flushed: reader.bool()?,
            })
        } else {
            None
        };
        let rows = reader.rows(types, 0)?;
        let current = super::restore_slots(reader, rows.len)?;
        let left = super::restore_slots(reader, rows.len)?;
        let mut pool = Pool::of(types, rows);
        pool.hold(current.iter().chain(left.iter()).map(|(_, slot)| *slot));
        Ok(State {
            pool,
            current,
            left,
            timing,
        })
    }
}

/// The maps of a state beside its pool.
struct Maps<'a, 'v> {
    current: &'a mut KeyMap<Slot>,
    left: &'a mut KeyMap<Slot>,
    visit: Visit<'v>,
}

impl Maps<'_, '_> {
    fn release(visit: &mut Visit<'_>, keys: &mut KeyMap<Slot>) {
        keys.iter().for_each(|(_, slot)| visit.remove(*slot));
        keys.clear();
    }

    /// What is collected counts as left, or is given back.
    fn keep_current(&mut self, keeps: bool) {
        for (key, &slot) in self.current.iter() {
            if keeps {
                if let Some(old) = self.left.insert(key, slot) {
                    self.visit.remove(old);
                }
            } else {
                self.visit.remove(slot);
            }
        }
        self.current.clear();
    }

    /// `[E…, R, C…]`: what has left, and what is collected.
    fn flush(&mut self, expired_wanted: bool, keeps: bool, latest: i64, out: &mut Emission) {
        if expired_wanted {
            for (_, &slot) in self.left.iter() {
                self.visit.emit(slot, true, Some(latest), out);
            }
        }
        Self::release(&mut self.visit, self.left);
        if self.current.is_empty() {
            return;
        }
        out.reset(latest);
        for (_, &slot) in self.current.iter() {
            self.visit.emit(slot, false, None, out);
        }
        self.keep_current(keeps);
    }

    /// The same where a part of the batch has left: that part once more, and what has come since in
    /// the place of the rows of the same keys (`appendToOutputChunk`).
    fn append(&mut self, expired_wanted: bool, keeps: bool, latest: i64, out: &mut Emission) {
        if self.current.is_empty() {
            return;
        }
        if expired_wanted {
            for (_, &slot) in self.left.iter() {
                self.visit.emit(slot, true, Some(latest), out);
            }
        }
        out.reset(latest);
        for (key, slot) in self.left.iter() {
            let slot = *self.current.get(key).unwrap_or(slot);
            self.visit.emit(slot, false, None, out);
        }
        for (key, &slot) in self.current.iter() {
            if self.left.get(key).is_none() {
                self.visit.emit(slot, false, None, out);
            }
        }
        self.keep_current(keeps);
    }
}

impl Rounds {
    /// The next instant behind `time` that is a multiple of the length away from `start`.
    fn end_behind(&self, time: i64, start: i64) -> i64 {
        let elapsed = time.wrapping_sub(start) % self.millis;
        time.saturating_add(self.millis - elapsed)
    }

    fn begin(&self, first: i64) -> Timing {
        let (start, end) = match self.start {
            Some(start) => (start, self.end_behind(first, start)),
            None => (first, first.saturating_add(self.millis)),
        };
        Timing {
            start,
            end,
            latest: 0,
            scheduled: i64::MIN,
            flushed: false,
        }
    }

    fn schedule(&self, timing: &mut Timing, clock: i64, context: &mut WindowContext<'_>) {
        if let Some(timeout) = self.timeout {
            timing.scheduled = clock.saturating_add(timeout);
            context.notify(timing.scheduled);
        }
    }

    /// The batch with the end of its round in place of each row's time: ends follow from the times
    /// alone.
    fn replaced(&self, batch: &Batch, timing: Option<Timing>) -> Batch {
        let column = &batch.columns[self.attribute[0]];
        let mut timing = timing;
        let ends = (0..batch.len).map(|row| {
            let Some(time) = super::super::stamp_of(column, row) else {
                return 0;
            };
            let timing = timing.get_or_insert_with(|| self.begin(time));
            timing.latest = timing.latest.max(time);
            if time >= timing.end {
                timing.end = self.end_behind(timing.latest, timing.start);
            }
            timing.end
        });
        let mut replaced = batch.clone();
        replaced.columns[self.attribute[0]] = Column::longs_from(ends.collect());
        replaced
    }
}

impl Rule for Rounds {
    type State = State;

    /// `UniqueExternalTimeBatchWindowProcessor`.
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let times = batch.columns[self.attribute[0]].clone();
        let replaced;
        let batch = if self.replaces {
            replaced = self.replaced(batch, state.timing);
            &replaced
        } else {
            batch
        };
        let mut maps = Maps {
            current: &mut state.current,
            left: &mut state.left,
            visit: Visit::of_batch(&mut state.pool, batch, out),
        };
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            let before = out.chunks();
            for row in batch.chunk(chunk) {
                let Some(time) = super::super::stamp_of(&times, row) else {
                    context.failures.push(Failure {
                        row: row as u32,
                        message: format!("the time attribute of window '{NAME}' is null"),
                    });
                    out.abandon_from(before);
                    break;
                };
                let timing = match &mut state.timing {
                    Some(timing) => timing,
                    none => {
                        let mut timing = self.begin(time);
                        self.schedule(&mut timing, clock, context);
                        none.insert(timing)
                    }
                };
                timing.latest = timing.latest.max(time);
                if time >= timing.end {
                    let latest = timing.latest;
                    if std::mem::take(&mut timing.flushed) {
                        maps.append(self.expired_wanted, self.keeps, latest, out);
                    } else {
                        maps.flush(self.expired_wanted, self.keeps, latest, out);
                    }
                    out.end_chunk(clock);
                    timing.end = self.end_behind(latest, timing.start);
                    self.schedule(timing, clock, context);
                }
                let slot = maps.visit.add(row);
                let key = self.key.hashed(batch, row).0;
                if let Some(old) = maps.current.insert(key, slot) {
                    maps.visit.remove(old);
                }
            }
        }
        maps.visit.finish();
    }

    /// The timeout: what has been collected leaves early, and is kept in case more of the same batch
    /// comes.
    fn on_timer(
        &mut self,
        state: &mut State,
        due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let Some(timing) = state.timing.as_mut().filter(|t| t.scheduled <= due) else {
            return;
        };
        let mut maps = Maps {
            current: &mut state.current,
            left: &mut state.left,
            visit: Visit::of_timer(&mut state.pool),
        };
        if std::mem::replace(&mut timing.flushed, true) {
            maps.append(self.expired_wanted, true, timing.latest, out);
        } else {
            maps.flush(self.expired_wanted, true, timing.latest, out);
        }
        maps.visit.finish();
        out.end_chunk(context.now);
        self.schedule(timing, context.now, context);
    }

    fn needed(&self) -> &[usize] {
        &self.attribute
    }

    /// What has left.
    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        let kept = state.left.iter().map(|(_, slot)| *slot);
        self.keeps.then(|| Held::from(state.pool.rows(kept)))
    }

    /// Without a timeout nothing leaves unless an event comes.
    fn held(&self, state: &State) -> usize {
        self.timeout.map_or(0, |_| state.current.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn a_batch_has_the_newest_row_of_each_key() {
        let case = Case::new("unique:externalTimeBatch", &[v(), t(), long(10), int(0)]);
        check(
            &case.showing_t(),
            "1~1@0 2~2@1 1~3@2 3~11@3 1~25@4",
            "R C1~3@2 C2~2@1 | E1~3@25 E2~2@25 R C3~11@3",
        );
    }

    #[test]
    fn the_timeout_emits_early_and_the_rest_again() {
        let case = Case::new(
            "unique:externalTimeBatch",
            &[v(), t(), long(10), int(0), long(100)],
        );
        check(
            &case.without_expired().showing_t(),
            "1~1@0 2~2@1 1~3@150 3~11@160",
            "R C1~1@0 C2~2@1 | R C1~3@150 C2~2@1",
        );
    }

    #[test]
    fn the_end_of_the_batch_replaces_the_time() {
        let case = Case::new(
            "unique:externalTimeBatch",
            &[v(), t(), long(10), int(0), long(-1), bool(true)],
        );
        check(&case.showing_t(), "1~1@0 2~2@1 3~11@2", "R C1~10@0 C2~10@1");
    }
}
