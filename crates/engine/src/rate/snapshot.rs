//! `output snapshot every t`: the current picture of a query's output, again and again.
//!
//! What the picture is depends on the query (Siddhi's `WrappedSnapshotOutputRateLimiter` chooses one
//! of seven limiters). Where the query has a window the picture is what the window holds: a CURRENT
//! row comes in, an EXPIRED one takes the first equal row out, a RESET empties it. A row whose
//! timestamp has come to the next deadline lets the picture out before it is taken itself.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Chunks, Column, ColumnBuilder, Times, Type, Value};
use plan::Query;

use super::Name;
use crate::component::Key;

pub(crate) struct SnapshotLimiter {
    form: Form,
    period: i64,
    types: Vec<Type>,
    /// Items that are aggregators and nothing else.
    aggregates: Vec<usize>,
    /// Those that two rows of a picture need not have in common: all, but for compat.
    left_out: Vec<usize>,
    keys: BTreeMap<Key, State>,
}

/// What a picture is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// No window: the last CURRENT row, of all or of each group.
    Last,
    /// A window, and nothing but aggregators: the last row, gone as soon as one expires.
    LastUntilExpired,
    /// The same by group: the last row of each group that has rows.
    LastOfLiveGroups,
    /// A window: every row in it.
    Rows,
    /// A window, and aggregators among other attributes: every row in it, with the latest values.
    RowsWithLatest,
    /// The same by group: the oldest row of each group in it, with the group's latest values.
    OldestWithLatest,
}

#[derive(Default)]
struct State {
    /// When the next picture is due.
    due: i64,
    /// Something has changed since the last picture.
    is_fresh: bool,
    /// Rows in the window.
    rows: VecDeque<Row>,
    /// Values of the aggregators, of all rows or of each group in the window, with its rows.
    latest: HashMap<Name, (usize, Vec<Value>)>,
    lasts: Lasts,
    /// Heap bytes of the rows in the window, beside their places.
    row_bytes: usize,
    /// Bytes of the latest values and of their names.
    latest_bytes: usize,
}

impl State {
    fn push(&mut self, row: Row) {
        self.row_bytes += row.bytes();
        self.rows.push_back(row);
    }

    fn remove(&mut self, at: usize) -> Option<Row> {
        let row = self.rows.remove(at)?;
        self.row_bytes -= row.bytes();
        Some(row)
    }

    /// The latest values of a group, and how many rows it has.
    fn set_latest(&mut self, name: &Name, rows: usize, values: Vec<Value>) {
        self.drop_latest(name);
        self.latest_bytes += name.len() + values_bytes(&values);
        self.latest.insert(name.clone(), (rows, values));
    }

    fn drop_latest(&mut self, name: &Name) {
        if let Some((_, values)) = self.latest.remove(name) {
            self.latest_bytes -= name.len() + values_bytes(&values);
        }
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.latest.clear();
        (self.row_bytes, self.latest_bytes) = (0, 0);
    }

    /// On the heap; the nodes of trees are taken to be two thirds full, the tables of maps to be as
    /// large as they tell.
    fn bytes(&self) -> usize {
        let rows = self.rows.capacity() * size_of::<Row>() + self.row_bytes;
        let latest = self.latest.capacity() * size_of::<(Name, (usize, Vec<Value>))>();
        rows + latest + self.latest_bytes + self.lasts.bytes()
    }
}

fn values_bytes(values: &Vec<Value>) -> usize {
    let beside = values.iter().map(Value::heap_bytes).sum::<usize>();
    values.capacity() * size_of::<Value>() + beside
}

struct Row {
    name: Name,
    time: i64,
    is_expired: bool,
    values: Vec<Value>,
}

/// The last row of each group, in the order in which the groups came, and how many rows the group
/// has.
#[derive(Default)]
struct Lasts {
    order: BTreeMap<u64, (i64, Row)>,
    places: HashMap<Name, u64>,
    next: u64,
    /// Heap bytes of the rows, and of their names twice.
    row_bytes: usize,
}

impl Lasts {
    /// Puts a row in the place of its group; `change` is added to the number of its rows.
    fn put(&mut self, row: Row, change: i64) {
        if let Some(place) = self.places.get(&row.name) {
            if let Some((count, last)) = self.order.get_mut(place) {
                *count = count.saturating_add(change);
                self.row_bytes += row.bytes();
                self.row_bytes -= last.bytes();
                *last = row;
            }
            return;
        }
        self.row_bytes += row.bytes() + row.name.len();
        self.places.insert(row.name.clone(), self.next);
        self.order.insert(self.next, (change, row));
        self.next += 1;
    }

    /// Forgets groups without rows.
    fn drop_dead(&mut self) {
        let (places, bytes) = (&mut self.places, &mut self.row_bytes);
        self.order.retain(|_, (count, row)| {
            let lives = *count > 0;
            if !lives {
                places.remove(&row.name);
                *bytes -= row.bytes() + row.name.len();
            }
            lives
        });
    }

    fn clear(&mut self) {
        self.order.clear();
        self.places.clear();
        self.row_bytes = 0;
    }

    fn bytes(&self) -> usize {
        let order = self.order.len() * size_of::<(u64, (i64, Row))>() * 3 / 2;
        let places = self.places.capacity() * size_of::<(Name, u64)>();
        order + places + self.row_bytes
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.order.values().map(|(_, row)| row)
    }
}

impl SnapshotLimiter {
    pub fn new(query: &Query, period: i64, types: Vec<Type>, is_compat: bool) -> SnapshotLimiter {
        let aggregates = query.aggregates();
        let left_out = is_compat.then(|| query.aggregates_left_out()).flatten();
        let has_groups = !query.selector.group_by.is_empty();
        let form = if !query.has_window() {
            Form::Last
        } else if aggregates.len() == types.len() {
            if has_groups {
                Form::LastOfLiveGroups
            } else {
                Form::LastUntilExpired
            }
        } else if aggregates.is_empty() {
            Form::Rows
        } else if has_groups {
            Form::OldestWithLatest
        } else {
            Form::RowsWithLatest
        };
        SnapshotLimiter {
            form,
            period,
            types,
            left_out: left_out.unwrap_or_else(|| aggregates.clone()),
            aggregates,
            keys: BTreeMap::new(),
        }
    }

    pub fn start(&mut self, key: Key, wall: i64) -> i64 {
        let due = wall + self.period;
        self.keys.entry(key).or_default().due = due;
        due
    }

    pub fn bytes(&self) -> usize {
        let state = size_of::<(Key, State)>() * 3 / 2;
        self.keys.values().map(|s| state + s.bytes()).sum()
    }

    pub fn remove(&mut self, key: Key) {
        self.keys.remove(&key);
    }

    pub fn process(
        &mut self,
        batch: &Batch,
        names: Option<Vec<Name>>,
        key: Key,
        now: i64,
        deadlines: &mut Vec<i64>,
    ) -> Option<Batch> {
        let mut state = self.keys.remove(&key).unwrap_or_default();
        let mut pictures = Picture::default();
        let resets = batch.resets.as_deref().unwrap_or(&[]);
        let mut next_reset = 0;
        let is_grouped = names.is_some();
        let mut names = names.into_iter().flatten();
        for row in 0..=batch.len {
            while let Some(reset) = resets.get(next_reset)
                && reset.row as usize <= row
            {
                next_reset += 1;
                self.draw_if_due(&mut state, reset.time, &mut pictures, deadlines);
                self.reset(&mut state);
            }
            if row == batch.len {
                break;
            }
            let row = Row {
                name: names.next().unwrap_or_default(),
                time: batch.times.at(row),
                is_expired: batch.is_expired(row),
                values: batch.row(row),
            };
            // Siddhi's limiter of the last row of each group does not look at EXPIRED rows at all.
            if self.form != Form::Last || !row.is_expired || !is_grouped {
                self.draw_if_due(&mut state, row.time, &mut pictures, deadlines);
            }
            self.take(&mut state, row);
        }
        self.keys.insert(key, state);
        pictures.into_batch(&self.types, now)
    }

    /// A deadline is due. A picture that rows have let out before it has moved the deadline on.
    pub fn on_timer(&mut self, key: Key, deadline: i64, now: i64) -> (Option<Batch>, Option<i64>) {
        let mut state = self.keys.remove(&key).unwrap_or_default();
        let (mut picture, mut deadlines) = (Picture::default(), Vec::new());
        self.draw_if_due(&mut state, deadline, &mut picture, &mut deadlines);
        self.keys.insert(key, state);
        let picture = picture.into_batch(&self.types, now);
        (picture, deadlines.into_iter().next())
    }

    pub fn held(&self) -> usize {
        let fresh = self.keys.values().filter(|s| s.is_fresh);
        fresh.map(|s| s.rows.len() + s.lasts.order.len()).sum()
    }

    fn draw_if_due(
        &self,
        state: &mut State,
        time: i64,
        out: &mut Picture,
        deadlines: &mut Vec<i64>,
    ) {
        if time < state.due {
            return;
        }
        state.due = state.due.saturating_add(self.period);
        state.is_fresh = false;
        deadlines.push(state.due);
        out.is_drawn = true;
        match self.form {
            Form::Last | Form::LastUntilExpired => state.lasts.rows().for_each(|r| out.add(r)),
            Form::LastOfLiveGroups => {
                state.lasts.drop_dead();
                state.lasts.rows().for_each(|r| out.add(r));
            }
            Form::Rows => state.rows.iter().for_each(|r| out.add(r)),
            Form::RowsWithLatest => {
                for row in &state.rows {
                    out.add(row);
                    self.put_latest(state, out);
                }
            }
            Form::OldestWithLatest => {
                let mut seen: HashSet<&str> = HashSet::with_capacity(state.latest.len());
                for row in &state.rows {
                    if seen.insert(&row.name) {
                        out.add(row);
                        self.put_latest(state, out);
                    }
                }
            }
        }
    }

    /// The latest values of the aggregators into the row that was added last.
    fn put_latest(&self, state: &State, out: &mut Picture) {
        let Some((name, values)) = out.last() else {
            return;
        };
        let latest = state.latest.get(name).map(|(_, values)| values);
        for (nth, &at) in self.aggregates.iter().enumerate() {
            values[at] = latest.map_or(Value::Null, |l| l[nth].clone());
        }
    }

    fn reset(&self, state: &mut State) {
        state.is_fresh = true;
        match self.form {
            // What stands there without a window, or by group, never sees a RESET in Siddhi.
            Form::Last | Form::LastOfLiveGroups | Form::OldestWithLatest => {}
            Form::LastUntilExpired => state.lasts.clear(),
            Form::Rows | Form::RowsWithLatest => {
                state.clear();
            }
        }
    }

    fn take(&self, state: &mut State, row: Row) {
        state.is_fresh = true;
        match (self.form, row.is_expired) {
            (Form::Last | Form::LastUntilExpired, false) => state.lasts.put(row, 1),
            (Form::Last, true) => {}
            (Form::LastUntilExpired, true) => state.lasts.clear(),
            (Form::LastOfLiveGroups, is_expired) => {
                state.lasts.put(row, if is_expired { -1 } else { 1 });
            }
            (Form::Rows | Form::RowsWithLatest | Form::OldestWithLatest, false) => {
                if self.form != Form::Rows {
                    let values = self.latest_of(&row);
                    let rows = state.latest.get(&row.name).map_or(0, |(rows, _)| *rows);
                    state.set_latest(&row.name, rows + 1, values);
                }
                state.push(row);
            }
            (Form::Rows | Form::RowsWithLatest | Form::OldestWithLatest, true) => {
                self.take_out(state, &row);
            }
        }
    }

    /// An EXPIRED row takes out the first row that equals it in all but aggregators, of whatever
    /// group; only then its own values are the latest of its group.
    fn take_out(&self, state: &mut State, row: &Row) {
        let is_equal = |own: &Row| {
            let mut pairs = own.values.iter().zip(&row.values).enumerate();
            pairs.all(|(at, (a, b))| self.left_out.contains(&at) || a == b)
        };
        let Some(at) = state.rows.iter().position(is_equal) else {
            return;
        };
        let gone = state.remove(at);
        if self.form == Form::Rows {
            return;
        }
        if let Some((rows, _)) = state.latest.get(&row.name) {
            state.set_latest(&row.name, *rows, self.latest_of(row));
        }
        let name = gone.map(|g| g.name).unwrap_or_default();
        if let Some((rows, _)) = state.latest.get_mut(&name) {
            *rows -= 1;
            if *rows == 0 {
                state.drop_latest(&name);
            }
        }
    }

    fn latest_of(&self, row: &Row) -> Vec<Value> {
        self.aggregates
            .iter()
            .map(|&at| row.values[at].clone())
            .collect()
    }

    // ---- state ----

    pub fn save(&self, key: Key, writer: &mut Writer) {
        writer.u8(2);
        let none = State::default();
        let state = self.keys.get(&key).unwrap_or(&none);
        writer.i64(state.due);
        writer.bool(state.is_fresh);
        writer.count(state.rows.len());
        state.rows.iter().for_each(|row| row.save(writer));
        // Sorted, so that one state has one form.
        let latest: BTreeMap<&Name, &(usize, Vec<Value>)> = state.latest.iter().collect();
        writer.count(latest.len());
        for (name, (_, values)) in latest {
            writer.str(name);
            values.iter().for_each(|v| writer.value(v));
        }
        writer.count(state.lasts.order.len());
        for (count, row) in state.lasts.order.values() {
            writer.i64(*count);
            row.save(writer);
        }
    }

    pub fn restore(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let mark = reader.u8()?;
        if mark != 2 {
            return Err(StateError::Mark { mark, at: 0 });
        }
        let width = self.types.len();
        let mut state = State {
            due: reader.i64()?,
            is_fresh: reader.bool()?,
            ..State::default()
        };
        if state.due < 0 {
            let what = format!("a snapshot that was due at {}", state.due);
            return Err(StateError::Mismatch(what));
        }
        let mut counts: HashMap<Name, usize> = HashMap::new();
        for _ in 0..reader.count()? {
            let row = Row::restore(reader, width)?;
            *counts.entry(row.name.clone()).or_default() += 1;
            state.push(row);
        }
        for _ in 0..reader.count()? {
            let name = Name::from(reader.str()?);
            let values = (0..self.aggregates.len()).map(|_| reader.value());
            let values = values.collect::<Result<_, _>>()?;
            let rows = counts.remove(&name).unwrap_or(0);
            state.set_latest(&name, rows, values);
        }
        let has_latest = matches!(self.form, Form::RowsWithLatest | Form::OldestWithLatest);
        let is_torn = state.latest.values().any(|(rows, _)| *rows == 0);
        if has_latest && !counts.is_empty() || is_torn {
            let what = "the latest values of a snapshot do not fit its rows";
            return Err(StateError::Mismatch(what.to_owned()));
        }
        for _ in 0..reader.count()? {
            let count = reader.i64()?;
            state.lasts.put(Row::restore(reader, width)?, count);
        }
        self.keys.insert(key, state);
        Ok(())
    }
}

impl Row {
    /// On the heap.
    fn bytes(&self) -> usize {
        self.name.len() + values_bytes(&self.values)
    }

    fn save(&self, writer: &mut Writer) {
        writer.str(&self.name);
        writer.i64(self.time);
        writer.bool(self.is_expired);
        self.values.iter().for_each(|v| writer.value(v));
    }

    fn restore(reader: &mut Reader<'_>, width: usize) -> Result<Row, StateError> {
        Ok(Row {
            name: Name::from(reader.str()?),
            time: reader.i64()?,
            is_expired: reader.bool()?,
            values: (0..width)
                .map(|_| reader.value())
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Pictures drawn in one call leave as one chunk, also if there is nothing in it: callbacks are called
/// all the same.
#[derive(Default)]
struct Picture {
    is_drawn: bool,
    rows: Vec<(Name, Vec<Value>)>,
    times: Vec<i64>,
    expired: Vec<bool>,
}

impl Picture {
    fn add(&mut self, row: &Row) {
        self.rows.push((row.name.clone(), row.values.clone()));
        self.times.push(row.time);
        self.expired.push(row.is_expired);
    }

    fn last(&mut self) -> Option<(&Name, &mut Vec<Value>)> {
        let (name, values) = self.rows.last_mut()?;
        Some((&*name, values))
    }

    fn into_batch(self, types: &[Type], now: i64) -> Option<Batch> {
        if !self.is_drawn {
            return None;
        }
        let len = self.rows.len();
        let columns: Vec<Column> = types
            .iter()
            .enumerate()
            .map(|(at, &ty)| {
                let mut builder = ColumnBuilder::with_capacity(ty, len);
                self.rows.iter().for_each(|(_, row)| builder.push(&row[at]));
                builder.finish()
            })
            .collect();
        let times = match self.times.as_slice() {
            [] => Times::Same(now),
            _ => Times::per_row(self.times),
        };
        let mut batch = Batch::new(columns, len, times, Chunks::One, now);
        batch.expired = self.expired.contains(&true).then(|| self.expired.into());
        Some(batch)
    }
}
