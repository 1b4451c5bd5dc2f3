//! Deadlines and timers.
//!
//! A timed operator has, per partition key, a queue of deadlines and at most one armed timer. The
//! timer is armed when a deadline is added while none is armed or running, and is never moved
//! earlier. When it fires, all due deadlines are served, and only then is it armed for the next.
//!
//! Live, timers fire in the order of their times and, at one instant, in the order of arming. In
//! playback, when the clock has moved, operators are served in the order of their definition, each
//! with all its due deadlines and its keys in the order of arming. Operators on the wall clock
//! (triggers, purging, the idle time of playback) fire by the wall clock in both.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use event::codec::{Error as StateError, Reader, Writer};
use plan::{AggregationId, PartitionId, QueryId, WindowId};

use crate::component::Key;
use crate::dirty::DirtyBits;
use crate::snapshot_format::{self as format, Extent, Fields, Id, List};

/// Number of a timed operator, in the order of definition.
pub(crate) type OperatorId = usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// The window of a query; `side` is 1 for the right side of a join.
    Window {
        query: QueryId,
        side: u16,
    },
    /// The one job of all keys of a partition, for a window that asks for it; on key 0.
    Job {
        query: QueryId,
        side: u16,
    },
    /// An absent state of a pattern.
    Absent {
        query: QueryId,
        state: u16,
    },
    /// A stream processor in the chain of a query, by its place there.
    Stage {
        query: QueryId,
        side: u16,
        stage: u16,
    },
    Limiter {
        query: QueryId,
    },
    Named {
        window: WindowId,
    },
    Purge {
        partition: PartitionId,
    },
    /// A trigger, by its place in the text.
    Trigger {
        trigger: usize,
    },
    /// The idle time of playback.
    Idle,
    /// The end of a bucket of a duration, counted from the finest.
    Aggregation {
        aggregation: AggregationId,
        level: usize,
    },
    AggregationPurge {
        aggregation: AggregationId,
    },
}

impl Owner {
    /// Follows the wall clock even in playback.
    const fn is_wall(self) -> bool {
        matches!(
            self,
            Owner::Purge { .. }
                | Owner::Trigger { .. }
                | Owner::Idle
                | Owner::AggregationPurge { .. }
        )
    }
}

#[derive(Debug, Default)]
struct Deadlines {
    /// In the order in which they were set: one that is set behind a later one waits for it
    /// (Siddhi's `Scheduler` looks only at the first of its queue).
    queue: VecDeque<i64>,
    /// Time and number of the armed timer.
    armed: Option<(i64, u64)>,
    /// The timer has fired and its deadlines are being served.
    is_running: bool,
}

#[derive(Debug)]
struct Operator {
    owner: Owner,
    /// Fires by the wall clock in playback too.
    is_wall: bool,
    keys: BTreeMap<Key, Deadlines>,
    /// No deadline is before this one.
    earliest: i64,
    /// Keys whose deadlines have changed since they were saved.
    dirty: DirtyBits,
}

/// Time, number, operator, key; an entry whose timer is not the armed one any more is stale.
type Entry = (i64, u64, OperatorId, Key);

/// Behind every timer.
const NEVER: Entry = (i64::MAX, u64::MAX, OperatorId::MAX, Key::MAX);

#[derive(Debug, Default)]
pub(crate) struct Timers {
    operators: Vec<Operator>,
    /// Of the operators on the application clock and of those on the wall clock.
    heaps: [BinaryHeap<Reverse<Entry>>; 2],
    /// Number of the next timer to be armed.
    next: u64,
}

/// A deadline to be served now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub operator: OperatorId,
    pub key: Key,
    pub deadline: i64,
}

impl Deadlines {
    fn save(&self, writer: &mut Writer) {
        writer.count(self.queue.len());
        self.queue.iter().for_each(|&t| writer.i64(t));
        let (time, number) = self.armed.unwrap_or((0, u64::MAX));
        writer.i64(time);
        writer.u64(number);
    }
}

impl Timers {
    /// The operator's deadlines are times of the wall clock, whatever its kind.
    pub fn follow_wall(&mut self, operator: OperatorId) {
        self.operators[operator].is_wall = true;
    }

    pub fn add_operator(&mut self, owner: Owner) -> OperatorId {
        self.operators.push(Operator {
            owner,
            is_wall: owner.is_wall(),
            keys: BTreeMap::new(),
            earliest: i64::MAX,
            dirty: DirtyBits::default(),
        });
        self.operators.len() - 1
    }

    pub fn owner(&self, operator: OperatorId) -> Owner {
        self.operators[operator].owner
    }

    pub fn find(&self, owner: Owner) -> Option<OperatorId> {
        self.operators.iter().position(|o| o.owner == owner)
    }

    /// Will the operator be called?
    pub fn has_deadline(&self, operator: OperatorId, key: Key) -> bool {
        let deadlines = self.operators[operator].keys.get(&key);
        deadlines.is_some_and(|d| !d.queue.is_empty())
    }

    /// What the operator waits for, the next first.
    pub fn deadlines(&self, operator: OperatorId, key: Key) -> impl Iterator<Item = i64> {
        let deadlines = self.operators[operator].keys.get(&key);
        deadlines.into_iter().flat_map(|d| d.queue.iter().copied())
    }

    pub fn notify(&mut self, operator: OperatorId, key: Key, deadline: i64, now: i64) {
        let earliest = &mut self.operators[operator].earliest;
        *earliest = deadline.min(*earliest);
        self.operators[operator].dirty.mark(key);
        let deadlines = self.operators[operator].keys.entry(key).or_default();
        deadlines.queue.push_back(deadline);
        if deadlines.armed.is_none() && !deadlines.is_running {
            self.arm(operator, key, deadline.max(now));
        }
    }

    fn arm(&mut self, operator: OperatorId, key: Key, time: i64) {
        let number = self.next;
        self.next += 1;
        self.operators[operator].dirty.mark(key);
        let deadlines = self.operators[operator].keys.entry(key).or_default();
        deadlines.armed = Some((time, number));
        self.heap_of(operator)
            .push(Reverse((time, number, operator, key)));
    }

    fn heap_of(&mut self, operator: OperatorId) -> &mut BinaryHeap<Reverse<Entry>> {
        let is_wall = self.operators[operator].is_wall;
        &mut self.heaps[usize::from(is_wall)]
    }

    /// Live: is there a timer at or before `until`, armed or stale? Asked for each batch: mostly
    /// nothing is near.
    #[inline]
    pub fn may_fire(&self, until: i64) -> bool {
        self.heaps.iter().any(|heap| {
            let first = heap.peek();
            first.is_some_and(|Reverse((time, ..))| *time <= until)
        })
    }

    /// Live: takes the first timer at or before `until`; its time is the clock at which it fires.
    /// The caller then asks [`Timers::next_deadline`] until it gives none.
    pub fn fire(&mut self, until: i64) -> Option<(i64, OperatorId, Key)> {
        let first = |at: usize, timers: &mut Timers| timers.first(at).unwrap_or(NEVER);
        let (app, wall) = (first(0, self), first(1, self));
        self.fire_first(if wall < app { 1 } else { 0 }, until)
    }

    /// Playback: the same for operators on the wall clock.
    pub fn fire_wall(&mut self, until: i64) -> Option<(i64, OperatorId, Key)> {
        self.fire_first(1, until)
    }

    fn fire_first(&mut self, heap: usize, until: i64) -> Option<(i64, OperatorId, Key)> {
        let (time, _, operator, key) = self.first(heap).filter(|e| e.0 <= until)?;
        self.heaps[heap].pop();
        self.start(operator, key);
        Some((time, operator, key))
    }

    /// The first entry of a heap that is not stale; stale ones before it are dropped.
    fn first(&mut self, heap: usize) -> Option<Entry> {
        while let Some(&Reverse(entry)) = self.heaps[heap].peek() {
            let (_, number, operator, key) = entry;
            if self.is_armed(operator, key, number) {
                return Some(entry);
            }
            self.heaps[heap].pop();
        }
        None
    }

    fn is_armed(&self, operator: OperatorId, key: Key, number: u64) -> bool {
        let deadlines = self.operators[operator].keys.get(&key);
        deadlines.is_some_and(|d| d.armed.is_some_and(|(_, n)| n == number))
    }

    fn start(&mut self, operator: OperatorId, key: Key) {
        self.operators[operator].dirty.mark(key);
        if let Some(deadlines) = self.operators[operator].keys.get_mut(&key) {
            deadlines.armed = None;
            deadlines.is_running = true;
        }
    }

    /// Playback: keys of an operator with a due deadline, in the order of arming. Each is started.
    pub fn fire_playback(&mut self, operator: OperatorId, now: i64) -> Vec<Key> {
        if self.operators[operator].is_wall {
            return Vec::new();
        }
        if now < self.operators[operator].earliest {
            return Vec::new();
        }
        // Nothing else takes entries off this heap in playback.
        self.first(0);
        let mut earliest = i64::MAX;
        let mut due: Vec<(u64, Key)> = Vec::new();
        for (&key, deadlines) in &self.operators[operator].keys {
            match deadlines.queue.front() {
                Some(time) if *time <= now => {
                    let number = deadlines.armed.map_or(u64::MAX, |(_, number)| number);
                    due.push((number, key));
                }
                Some(time) => earliest = earliest.min(*time),
                None => {}
            }
        }
        self.operators[operator].earliest = earliest;
        due.sort_unstable();
        for &(_, key) in &due {
            self.start(operator, key);
        }
        due.into_iter().map(|(_, key)| key).collect()
    }

    /// No deadline on the application clock is before this one.
    pub fn earliest(&self) -> i64 {
        let played = self.operators.iter().filter(|o| !o.is_wall);
        played.map(|o| o.earliest).min().unwrap_or(i64::MAX)
    }

    pub fn operators(&self) -> usize {
        self.operators.len()
    }

    /// The next due deadline of a running timer; when there is none the timer is armed for the
    /// deadline that comes after, or rests.
    pub fn next_deadline(&mut self, operator: OperatorId, key: Key, now: i64) -> Option<Due> {
        self.operators[operator].dirty.mark(key);
        let deadlines = self.operators[operator].keys.get_mut(&key)?;
        match deadlines.queue.front().copied() {
            Some(deadline) if deadline <= now => {
                deadlines.queue.pop_front();
                Some(Due {
                    operator,
                    key,
                    deadline,
                })
            }
            Some(deadline) => {
                deadlines.is_running = false;
                let earliest = &mut self.operators[operator].earliest;
                *earliest = deadline.min(*earliest);
                self.arm(operator, key, deadline);
                None
            }
            None => {
                self.operators[operator].keys.remove(&key);
                None
            }
        }
    }

    /// When the first timer fires; with `wall_only` that of the operators on the wall clock.
    pub fn next(&self, wall_only: bool) -> Option<i64> {
        let heaps = &self.heaps[usize::from(wall_only)..];
        heaps.iter().filter_map(|heap| self.next_of(heap)).min()
    }

    fn next_of(&self, heap: &BinaryHeap<Reverse<Entry>>) -> Option<i64> {
        let is_armed = |&&Reverse((_, number, operator, key)): &&Reverse<Entry>| {
            self.is_armed(operator, key, number)
        };
        // The first entry is nearly always armed; stale ones are few.
        let armed = heap.peek().filter(is_armed);
        let first = armed.or_else(|| heap.iter().filter(is_armed).max());
        first.map(|Reverse((time, ..))| *time)
    }

    /// Heap bytes, about.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.operators.iter().map(|o| o.keys.len()).sum();
        let entries: usize = self.heaps.iter().map(BinaryHeap::capacity).sum();
        // A key has a node of its tree and a short queue.
        keys * (size_of::<Deadlines>() + 48) + entries * size_of::<Reverse<Entry>>()
    }

    /// A partition key is gone.
    pub fn forget(&mut self, operator: OperatorId, key: Key) {
        self.operators[operator].dirty.mark(key);
        self.operators[operator].keys.remove(&key);
    }

    pub fn is_dirty(&self) -> bool {
        self.operators.iter().any(|o| o.dirty.is_any())
    }

    pub fn mark_saved(&mut self) {
        self.operators.iter_mut().for_each(|o| o.dirty.begin());
    }

    /// A list of the keys that wait, operator by operator; the operators by their labels.
    pub fn save(
        &self,
        writer: &mut Writer,
        extent: Extent,
        label: &dyn Fn(Owner) -> Option<String>,
        key_text: &dyn Fn(Owner, Key) -> String,
    ) {
        format::blob(writer, |w| {
            w.u64(self.next);
            w.count(self.operators.len());
            for operator in &self.operators {
                w.str(&label(operator.owner).unwrap_or_default());
            }
        });
        let mut list = List::new(writer, extent);
        for (at, operator) in (0u32..).zip(&self.operators) {
            let id = |key: Key| Id::from(at) << 32 | Id::from(key);
            let save = |list: &mut List<'_>, key: Key, deadlines: &Deadlines| {
                list.entry(id(key), |w| {
                    w.str(&key_text(operator.owner, key));
                    deadlines.save(w);
                });
            };
            if extent == Extent::All {
                let keys = operator.keys.iter();
                keys.for_each(|(&key, deadlines)| save(&mut list, key, deadlines));
                continue;
            }
            for key in operator.dirty.iter() {
                match operator.keys.get(&key) {
                    Some(deadlines) => save(&mut list, key, deadlines),
                    None => list.gone(id(key)..id(key) + 1),
                }
            }
        }
        list.end();
    }

    /// What a timer before its clock, of the application and of the wall, would have fired for long
    /// ago is not made up for: such a state is no saved one. `None` for a clock that jumps.
    pub fn check(&self, clocks: [Option<i64>; 2]) -> Result<(), StateError> {
        for (heap, clock) in self.heaps.iter().zip(clocks) {
            let first = heap.iter().map(|Reverse((time, ..))| *time).min();
            if let (Some(first), Some(clock)) = (first, clock)
                && first < clock
            {
                return Err(StateError::Mismatch(format!(
                    "an alarm at {first}, before the clock at {clock}"
                )));
            }
        }
        Ok(())
    }

    /// Timers of these operators, as they were saved under the labels they have now; one without a
    /// label has none.
    pub fn restored(
        &self,
        fields: &mut Fields<'_>,
        label: &dyn Fn(Owner) -> Option<String>,
        key_of: &dyn Fn(Owner, &str) -> Option<Key>,
    ) -> Result<Timers, StateError> {
        let mut head = fields.blob()?;
        let mut timers = Timers {
            next: head.u64()?,
            ..Timers::default()
        };
        let mut own = HashMap::new();
        for (operator, owner) in self.operators.iter().map(|o| o.owner).enumerate() {
            timers.add_operator(owner);
            timers.operators[operator].is_wall = self.operators[operator].is_wall;
            timers.operators[operator].earliest = i64::MIN;
            own.extend(label(owner).map(|label| (label, operator)));
        }
        // For each operator that was saved the one that has its label now.
        let mut operators = Vec::new();
        for _ in 0..head.count()? {
            operators.push(own.get(head.str()?).copied());
        }
        let mut list = fields.list()?;
        while let Some((id, mut entry)) = list.next()? {
            let saved = usize::try_from(id >> 32).ok();
            let operator = saved.and_then(|saved| operators.get(saved));
            let operator = operator.ok_or_else(|| {
                StateError::Mismatch(format!("an alarm of the unknown operator {}", id >> 32))
            })?;
            if let Some(operator) = *operator {
                timers.take_back(operator, &mut entry, key_of)?;
            }
        }
        Ok(timers)
    }

    fn take_back(
        &mut self,
        operator: OperatorId,
        reader: &mut Reader<'_>,
        key_of: &dyn Fn(Owner, &str) -> Option<Key>,
    ) -> Result<(), StateError> {
        let text = reader.str()?;
        let key = key_of(self.operators[operator].owner, text);
        let key = key
            .ok_or_else(|| StateError::Mismatch(format!("an alarm of the unknown key '{text}'")))?;
        let mut deadlines = Deadlines::default();
        for _ in 0..reader.count()? {
            deadlines.queue.push_back(reader.i64()?);
        }
        let (time, number) = (reader.i64()?, reader.u64()?);
        if number != u64::MAX {
            deadlines.armed = Some((time, number));
            self.heap_of(operator)
                .push(Reverse((time, number, operator, key)));
        }
        self.operators[operator].keys.insert(key, deadlines);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Owner = Owner::Window { query: 0, side: 0 };

    /// Fires everything until `until`, adding `period` behind each deadline served.
    fn run(timers: &mut Timers, until: i64, period: &[i64]) -> Vec<(i64, OperatorId)> {
        let mut served = Vec::new();
        while let Some((now, operator, key)) = timers.fire(until) {
            while let Some(due) = timers.next_deadline(operator, key, now) {
                served.push((due.deadline, operator));
                timers.notify(operator, key, due.deadline + period[operator], now);
            }
        }
        served
    }

    #[test]
    fn timers_of_one_instant_fire_in_the_order_of_arming() {
        let mut timers = Timers::default();
        let (a, b) = (timers.add_operator(WINDOW), timers.add_operator(WINDOW));
        timers.notify(b, 0, 10, 0);
        timers.notify(a, 0, 5, 0);
        // `a` is armed for 10 at 5, after `b`.
        assert_eq!(run(&mut timers, 10, &[5, 10]), [(5, a), (10, b), (10, a)]);
    }

    #[test]
    fn an_armed_timer_is_not_moved_earlier() {
        let mut timers = Timers::default();
        let a = timers.add_operator(WINDOW);
        timers.notify(a, 0, 10, 0);
        timers.notify(a, 0, 4, 0);
        assert_eq!(timers.next(false), Some(10));
        assert_eq!(timers.fire(10), Some((10, a, 0)));
        let mut served = Vec::new();
        while let Some(due) = timers.next_deadline(a, 0, 10) {
            served.push(due.deadline);
        }
        assert_eq!((served, timers.next(false)), (vec![10, 4], None));
    }
}
