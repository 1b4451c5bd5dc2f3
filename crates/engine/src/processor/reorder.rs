//! Rows that wait for earlier ones: what `#reorder:kslack` and `#reorder:akslack` share.
//!
//! A row goes into a first tree by its time. When the largest time grows, the first tree is poured
//! into the second, and from there leave all rows that lie at least the slack behind.

use std::collections::BTreeMap;

use event::codec::{Error as StateError, Reader, Writer};
use event::column::View;
use event::{Batch, Column, Type, Value};

use crate::component::{Argument, Failure, Refused, WindowContext};
use crate::emission::Emission;
use crate::window::{Pool, RowTypes, Slot, Visit};

/// Milliseconds between two looks at what waits, once the first has come.
const TICK: i64 = 1000;

/// A row that waits; true: it is EXPIRED.
type Waiting = (Slot, bool);

type Tree = BTreeMap<i64, Vec<Waiting>>;

pub struct Buffer {
    pub pool: Pool,
    first: Tree,
    second: Tree,
    /// How far behind the largest time rows wait, ms.
    pub slack: i64,
    /// The largest time so far.
    pub largest: i64,
    /// Time of the row that left last.
    pub last_sent: i64,
    /// In a partition: a look at what waits is to come. Not saved: a second one finds nothing.
    is_watched: bool,
}

/// When to look again after the look at `due`. With a clock that has jumped far ahead
/// (`@app:playback`) the looks that would find nothing are left out: `oldest` is the time of the row
/// that waits longest for a look later than it by the timeout.
fn next_look(due: i64, now: i64, oldest: Option<i64>, timeout: i64) -> i64 {
    let due_of = |time: i64| time.saturating_sub(timeout).saturating_add(1);
    let wanted = oldest.map_or(now, |time| now.min(due_of(time)));
    let ahead = wanted.saturating_sub(due).max(1);
    let looks = ahead / TICK + i64::from(ahead % TICK != 0);
    due.saturating_add(looks.saturating_mul(TICK))
}

/// What both are told, and what their timers do.
pub struct Settings {
    pub timeout: Option<i64>,
    pub slack_max: i64,
    /// What is older than the row that left last is dropped.
    pub discards: bool,
    pub types: Vec<Type>,
    /// Rows of the first tree time out too.
    pub times_out_first: bool,
    /// A key is looked at from its first row on, as long as something waits; without keys from the
    /// start on. Siddhi has one mark for all keys that asks for a look, so that the others wait for
    /// ever; the times of the looks are those of a key that it does look at.
    pub is_partitioned: bool,
}

impl Settings {
    pub fn start(&self, context: &mut WindowContext<'_>) {
        if let Some(timeout) = self.timeout.filter(|_| !self.is_partitioned) {
            context.notify(context.now.saturating_add(timeout));
        }
    }

    /// Takes the rows of a batch one by one. A row of which `take` says what is wrong with it takes what
    /// is left of its chunk with it.
    pub fn each_row(
        &self,
        buffer: &mut Buffer,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        mut take: impl FnMut(&mut Turn<'_>, usize, &mut Emission) -> Result<(), &'static str>,
    ) -> Option<Batch> {
        if self.timeout.is_some() && self.is_partitioned && !buffer.is_watched {
            buffer.is_watched = true;
            context.notify(next_look(-1, context.now, None, 0));
        }
        let mut out = Emission::default();
        let mut turn = Turn::of_batch(buffer, batch, &mut out);
        for chunk in 0..batch.chunk_count() {
            for row in batch.chunk(chunk) {
                if let Err(message) = take(&mut turn, row, &mut out) {
                    context.failures.push(Failure {
                        row: row as u32,
                        message: message.into(),
                    });
                    out.abandon_chunk();
                    break;
                }
            }
            out.end_chunk(batch.clock_at(chunk));
        }
        turn.visit.finish();
        out.finish(&self.types)
    }

    /// A look at what waits: rows that have waited for the timeout leave.
    pub fn look(
        &self,
        buffer: &mut Buffer,
        due: i64,
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        let timeout = self.timeout?;
        let mut out = Emission::default();
        let mut turn = Turn::of_timer(buffer);
        let limit = due.saturating_add(timeout);
        turn.time_out(limit, self.times_out_first, &mut out);
        turn.visit.finish();
        out.end_chunk(context.now);
        let oldest = buffer.oldest(self.times_out_first);
        buffer.is_watched = oldest.is_some();
        if buffer.is_watched || !self.is_partitioned {
            context.notify(next_look(due, context.now, oldest, timeout));
        }
        out.finish(&self.types)
    }

    /// Rows that the timer will let out.
    pub fn held(&self, buffer: &Buffer) -> usize {
        self.timeout.map_or(0, |_| buffer.len())
    }
}

impl Buffer {
    pub fn new(types: &RowTypes) -> Buffer {
        Buffer {
            pool: Pool::new(types),
            first: Tree::new(),
            second: Tree::new(),
            slack: 0,
            largest: 0,
            last_sent: -1,
            is_watched: false,
        }
    }

    /// Rows that wait.
    pub fn len(&self) -> usize {
        self.first
            .values()
            .chain(self.second.values())
            .map(Vec::len)
            .sum()
    }

    /// Time of the row that waits longest; of the second tree alone where only that times out.
    pub fn oldest(&self, first_too: bool) -> Option<i64> {
        let of = |tree: &Tree| tree.first_key_value().map(|(time, _)| *time);
        let first = of(&self.first).filter(|_| first_too);
        of(&self.second).into_iter().chain(first).min()
    }

    pub fn bytes(&self) -> usize {
        self.pool.bytes() + self.len() * size_of::<Waiting>()
    }

    pub fn save(&self, writer: &mut Writer) {
        [self.slack, self.largest, self.last_sent]
            .into_iter()
            .for_each(|v| writer.i64(v));
        let waiting = self.first.values().chain(self.second.values()).flatten();
        writer.rows(&self.pool.rows(waiting.map(|(slot, _)| *slot)));
        for tree in [&self.first, &self.second] {
            writer.count(tree.values().map(Vec::len).sum());
            for (time, rows) in tree {
                for (_, expired) in rows {
                    writer.i64(*time);
                    writer.bool(*expired);
                }
            }
        }
    }

    pub fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Buffer, StateError> {
        let (slack, largest, last_sent) = (reader.i64()?, reader.i64()?, reader.i64()?);
        let rows = reader.rows(types, 0)?;
        let len = rows.len;
        let mut trees = [Tree::new(), Tree::new()];
        let mut slot = 0;
        for tree in &mut trees {
            for _ in 0..reader.count()? {
                let time = reader.i64()?;
                let expired = reader.bool()?;
                tree.entry(time).or_default().push((slot, expired));
                slot += 1;
            }
        }
        if slot as usize != len {
            return Err(StateError::Mismatch(format!("{slot} times for {len} rows")));
        }
        let [first, second] = trees;
        Ok(Buffer {
            pool: Pool::of(types, rows),
            first,
            second,
            slack,
            largest,
            last_sent,
            is_watched: false,
        })
    }
}

/// One call of a reordering processor. The trees lie beside the pool that is being visited.
pub struct Turn<'a> {
    pub visit: Visit<'a>,
    first: &'a mut Tree,
    second: &'a mut Tree,
    pub slack: &'a mut i64,
    largest: &'a mut i64,
    pub last_sent: &'a mut i64,
}

impl<'a> Turn<'a> {
    pub fn of_batch(buffer: &'a mut Buffer, batch: &'a Batch, out: &mut Emission) -> Turn<'a> {
        let Buffer {
            pool,
            first,
            second,
            slack,
            largest,
            last_sent,
            ..
        } = buffer;
        Turn {
            visit: Visit::of_batch(pool, batch, out),
            first,
            second,
            slack,
            largest,
            last_sent,
        }
    }

    pub fn of_timer(buffer: &'a mut Buffer) -> Turn<'a> {
        let Buffer {
            pool,
            first,
            second,
            slack,
            largest,
            last_sent,
            ..
        } = buffer;
        Turn {
            visit: Visit::of_timer(pool),
            first,
            second,
            slack,
            largest,
            last_sent,
        }
    }

    pub fn add(&mut self, time: i64, row: usize, expired: bool) {
        let slot = self.visit.add(row);
        self.first.entry(time).or_default().push((slot, expired));
    }

    /// A row of this time has come. If it is the largest, the wait becomes what `slack` makes of how far
    /// times lie apart, where that is more than it was, and rows leave.
    pub fn advance(&mut self, time: i64, slack: impl FnOnce(i64) -> i64, out: &mut Emission) {
        if time <= *self.largest {
            return;
        }
        *self.largest = time;
        let spread = self.spread();
        if spread > *self.slack {
            *self.slack = slack(spread);
        }
        self.release(out);
    }

    /// How far the smallest time of the first tree lies behind the largest of all.
    fn spread(&self) -> i64 {
        let smallest = self.first.keys().next().copied();
        smallest.map_or(0, |s| self.largest.wrapping_sub(s))
    }

    /// Pours the first tree into the second; what lies the slack behind leaves.
    fn release(&mut self, out: &mut Emission) {
        for (time, rows) in std::mem::take(self.first) {
            self.second.entry(time).or_default().extend(rows);
        }
        while let Some(entry) = self.second.first_entry()
            && entry.key().wrapping_add(*self.slack) <= *self.largest
        {
            let (time, rows) = entry.remove_entry();
            *self.last_sent = time;
            emit(&mut self.visit, rows, out);
        }
    }

    /// Whatever lies before `limit` leaves, from the second tree, and then, if asked, from the first.
    pub fn time_out(&mut self, limit: i64, first_too: bool, out: &mut Emission) {
        let trees = [
            Some(&mut *self.second),
            first_too.then_some(&mut *self.first),
        ];
        for tree in trees.into_iter().flatten() {
            while let Some(entry) = tree.first_entry()
                && *entry.key() < limit
            {
                emit(&mut self.visit, entry.remove(), out);
            }
        }
    }
}

fn emit(visit: &mut Visit<'_>, rows: Vec<Waiting>, out: &mut Emission) {
    for (slot, expired) in rows {
        visit.emit(slot, expired, None, out);
        visit.remove(slot);
    }
}

/// The time of a row; `None` for null or another class.
pub fn time_of(column: &Column, row: usize) -> Option<i64> {
    match column.view() {
        View::Long(times) if !column.is_null(row) => Some(times[row]),
        _ => match column.value(row) {
            Value::Long(time) => Some(time),
            _ => None,
        },
    }
}

/// The constant LONG at a place of the arguments; -1 and what is left out are `default`.
pub fn long(args: &[Argument], at: usize, name: &str) -> Result<Option<i64>, Refused> {
    match args.get(at) {
        None => Ok(None),
        Some(argument) => match argument.constant {
            Some(Value::Long(-1)) => Ok(None),
            Some(Value::Long(value)) => Ok(Some(value)),
            _ => Err(Refused(format!(
                "argument {} of '#reorder:{name}' must be a constant long",
                at + 1
            ))),
        },
    }
}

/// The constant BOOL that stands last.
pub fn discards(args: &[Argument]) -> bool {
    args.iter()
        .rev()
        .find(|a| a.ty == Type::Bool)
        .is_some_and(|a| a.constant == Some(Value::Bool(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_find_nothing_are_left_out() {
        assert_eq!(next_look(500, 500, None, 100), 1500);
        assert_eq!(next_look(500, 500, Some(400), 100), 1500);
        assert_eq!(next_look(500, 1_000_000, None, 100), 1_000_500);
        assert_eq!(next_look(500, 1_000_500, None, 100), 1_000_500);
        // A look at 9,500 lets go what is older than 9,600.
        assert_eq!(next_look(500, 1_000_000, Some(9_599), 100), 9_500);
        assert_eq!(next_look(500, 1_000_000, Some(9_600), 100), 10_500);
    }
}
