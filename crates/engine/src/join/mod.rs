//! Joins: each row that a side emits looks into the other side.
//!
//! A side is a table, or a stream with or without a window. A stream without one behaves as a
//! window of length 0 (Siddhi's `EmptyWindowProcessor`): its row arrives, expires where EXPIRED is
//! wanted, and resets the aggregates. Each triggering row makes an inner chunk of its own; what one
//! chunk of the stream triggers is delivered together.

mod search;

use std::ops::Range;

use event::{Batch, Chunks, Clock, Column, Reset, Times, Type};
use lang::ast::{EventType, JoinKind, JoinTrigger};
use plan::{From, QueryId};

use crate::aggregation::{Contents, RangeOf};
use crate::component::{AppEnvironment, EvalContext, Key};
use crate::error::Error;
use crate::expr::{Inputs, Layout, OTHER, ROW};
use crate::host::Found;
use crate::kept::Held;
use crate::query::{Chain, Place, ProcessingMode, Selector, Used};
use crate::step::{Broken, Step};
use crate::table::{Condition, ConditionContext};
use crate::timers::{Owner, Timers};
use search::{Equations, Matches, Probing, Side};

/// Inputs of the join's expressions.
const LEFT: plan::InputId = 0;
const RIGHT: plan::InputId = 1;

/// The time of a row that bears none.
const UNTIMED: i64 = -1;

/// Joined rows for which memory is kept from batch to batch.
const KEPT_ROWS_MAX: usize = 1 << 16;

pub(crate) struct Join {
    pub sides: [Chain; 2],
    /// What a row of each side looks for on the other; `None`: the side does not trigger.
    probes: [Option<Probe>; 2],
    expired_wanted: bool,
    /// What EXPIRED rows find is never seen.
    ignores_expired: bool,
    /// Of each side's window no more is looked at than the rows that arrive.
    sees_arrivals: [bool; 2],
    /// Nothing but rows of streams goes in, and none of declared types can fail.
    is_sure: bool,
    /// A column has held values of another type than declared: EXPIRED rows may fail.
    pub has_seen_mixed: bool,
    /// Used again from batch to batch.
    pairs: Pairs,
    room: Vec<Column>,
    always: Column,
    /// The joined row ends with the timestamps of the events of these sides.
    shows_times: [bool; 2],
}

struct Probe {
    on: Condition,
    /// The condition is evaluated here, and may fail.
    is_fallible: bool,
    /// What an index of the searched window answers.
    equations: Option<Equations>,
    /// Columns of the searched side that go into the joined row, for a table.
    columns: Vec<usize>,
    /// A row without a match leaves with nulls.
    keeps_lonely: bool,
    /// With compat: the searched store has selected by itself, and its rows bear no time (ruling 76).
    is_untimed: bool,
    /// The searched side is an aggregation: what is read of it.
    range: Option<RangeOf>,
    /// Used again from batch to batch.
    matches: Matches,
}

/// For each joined row the row of either side, and where each triggering row's matches end.
#[derive(Default)]
struct Pairs {
    own: Vec<u32>,
    other: Vec<u32>,
    expired: Vec<bool>,
    inner: Vec<u32>,
    ends: Vec<u32>,
    clocks: Vec<i64>,
    resets: Vec<Reset>,
    /// Rows that expire at another time than they bear.
    echoes: Vec<(Range<usize>, i64)>,
}

impl Join {
    pub fn new(
        join: &plan::Join,
        (plan, query): (&plan::Plan, QueryId),
        environment: &AppEnvironment,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<(Join, Layout), Error> {
        let singles = [&join.left, &join.right];
        let selector = &plan.queries[query].selector;
        let triggers = [
            join.trigger != JoinTrigger::Right && is_stream(&join.left),
            join.trigger != JoinTrigger::Left && is_stream(&join.right),
        ];
        let used = [LEFT, RIGHT].map(|input| {
            let single = singles[usize::from(input)];
            let mut used = Used::new(single.schema.attributes.len());
            used.selector(selector, input);
            join.on.iter().for_each(|on| used.expr(on, input));
            used
        });
        let is_partitioned = plan.queries[query].partition.is_some();
        let place = |side: usize| Place {
            owner: Owner::Window {
                query,
                side: side as u16,
            },
            expired_wanted: plan.queries[query].events != EventType::Current,
            is_searched: triggers[1 - side],
            is_joined: true,
            is_partitioned,
            environment,
        };
        let (left, left_kept) = Chain::parts(&join.left, &used[0], place(0), timers, context)?;
        let (right, right_kept) = Chain::parts(&join.right, &used[1], place(1), timers, context)?;
        let kept = [left_kept, right_kept];
        let widths = [0, 1].map(|s: usize| singles[s].schema.attributes.len());
        // The joined row: left, right, and for each whether it is there.
        let total = kept[0].len() + kept[1].len();
        let mut layout = Layout::default()
            .and_picked(LEFT, ROW, 0, widths[0], &kept[0])
            .and_picked(RIGHT, ROW, kept[0].len(), widths[1], &kept[1])
            .and_presence(LEFT, ROW, total)
            .and_presence(RIGHT, ROW, total + 1);
        let shows_times = [0, 1].map(|side: usize| used[side].times);
        let shown = [LEFT, RIGHT].into_iter().zip(shows_times);
        for (at, (side, _)) in shown.filter(|&(_, shows)| shows).enumerate() {
            layout = layout.and_times(side, ROW, total + 2 + at);
        }
        let mut probes = [None, None];
        for side in 0..2 {
            if !triggers[side] {
                continue;
            }
            let (own, other) = (side as plan::InputId, 1 - side as plan::InputId);
            let event = Layout::default().and_picked(own, ROW, 0, widths[side], &kept[side]);
            let searched = singles[1 - side];
            let (within, per) = (join.within.as_ref(), join.per.as_ref());
            let range = RangeOf::new(within, per, is_partitioned, &event, context)?;
            let (on, mut equations) = (join.on.as_ref(), None);
            let on = match searched.from {
                From::Table(table) => context.find(on, &event, table, other)?,
                _ => {
                    if is_stream(searched) {
                        let types = [0, 1].map(|s: usize| types_of(singles[s]));
                        let of = |input: plan::InputId| Side {
                            input,
                            kept: &kept[usize::from(input)],
                            types: &types[usize::from(input)],
                        };
                        equations = Equations::new(on, &of(other), &of(own), &event, context)?;
                    }
                    let both = event.and_picked(other, OTHER, 0, widths[1 - side], &kept[1 - side]);
                    context.on_content(on, &both)?
                }
            };
            let preserved = match join.kind {
                JoinKind::Inner => false,
                JoinKind::LeftOuter => side == 0,
                JoinKind::RightOuter => side == 1,
                JoinKind::FullOuter => true,
            };
            probes[side] = Some(Probe {
                is_fallible: matches!(&on, Condition::Memory(on) if on.is_fallible()),
                on,
                equations,
                columns: kept[1 - side].clone(),
                keeps_lonely: preserved,
                is_untimed: environment.compat && selects(plan, searched.from),
                range,
                matches: Matches::default(),
            });
        }
        let is_sure = join.on.as_ref().is_none_or(crate::pattern::is_sure)
            && join.within.is_none()
            && singles.iter().all(|s| matches!(s.from, From::Stream(_)))
            && left.is_sure()
            && right.is_sure();
        let join = Join {
            sides: [left, right],
            probes,
            expired_wanted: plan.queries[query].events != EventType::Current,
            ignores_expired: false,
            sees_arrivals: [false; 2],
            is_sure,
            has_seen_mixed: false,
            pairs: Pairs::default(),
            room: Vec::new(),
            always: Column::new(event::Values::Bool(Vec::new()), None),
            shows_times,
        };
        Ok((join, layout))
    }

    /// Where EXPIRED rows are not asked for and no aggregate has to give anything back, what they
    /// find is looked for in vain, unless a failure could show it.
    pub fn fit_to(&mut self, selector: &Selector) {
        self.ignores_expired =
            !self.expired_wanted && !selector.has_aggregator() && !selector.is_fallible();
        let slides = [0, 1].map(|side: usize| self.sides[side].slides());
        self.sees_arrivals = [0, 1].map(|side: usize| {
            let looks_into_rows = |probe: &Probe| {
                let is_sure = matches!(&probe.on, Condition::Memory(_)) && !probe.is_fallible;
                let searched = self.sides[1 - side].from;
                is_sure && matches!(searched, From::Stream(_) | From::Window(_))
            };
            self.ignores_expired
                && slides[side]
                && self.probes[side].as_ref().is_some_and(looks_into_rows)
        });
    }

    /// Can neither a row of declared types make it fail nor the host, nor what others have written?
    /// A self-join, whose rows are given to both sides in turn, is left out.
    pub fn is_sure(&self) -> bool {
        self.is_sure && !self.is_late_fallible() && !self.is_self_join()
    }

    pub fn is_self_join(&self) -> bool {
        match (self.sides[0].from, self.sides[1].from) {
            (From::Stream(a), From::Stream(b)) => a == b,
            (From::Window(a), From::Window(b)) => a == b,
            _ => false,
        }
    }

    pub fn mode(&self) -> ProcessingMode {
        self.sides[0].mode().and(self.sides[1].mode())
    }

    pub fn is_late_fallible(&self) -> bool {
        let probes = self.probes.iter().flatten();
        self.sides.iter().any(Chain::is_late_fallible)
            || probes.into_iter().any(|p| match &p.on {
                _ if p.range.is_some() => true,
                Condition::Memory(_) => p.is_fallible,
                Condition::External { .. } => self.sides.iter().any(Chain::has_window),
            })
    }

    pub fn process(
        &mut self,
        batch: Batch,
        side: u16,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let side = usize::from(side);
        let chain = &mut self.sides[side];
        let rows = match self.sees_arrivals[side] && !self.has_seen_mixed {
            true => chain.arrive(batch, key, step)?,
            false => chain.process(batch, key, step)?,
        };
        self.join(rows, side, key, step)
    }

    pub fn on_timer(
        &mut self,
        side: u16,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let rows = self.sides[usize::from(side)].on_timer(key, deadline, step)?;
        self.join(rows, usize::from(side), key, step)
    }

    /// A deadline of a stream processor is due, of a side and by its place there.
    pub fn stage_timer(
        &mut self,
        (side, at): (u16, usize),
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let rows = self.sides[usize::from(side)].stage_timer(at, key, deadline, step)?;
        self.join(rows, usize::from(side), key, step)
    }

    fn join(
        &mut self,
        rows: Option<Batch>,
        side: usize,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let is_mixed = self.has_seen_mixed;
        let (Some(mut batch), Some(probe)) = (rows, &mut self.probes[side]) else {
            return Ok(None);
        };
        let rows = Triggering {
            batch: &batch,
            has_window: self.sides[side].is_windowed(),
            expired_wanted: self.expired_wanted,
            ignores_expired: self.ignores_expired && !is_mixed,
        };
        let other = &self.sides[1 - side];
        let held = match (other.from, step.windows) {
            (From::Table(_), _) => None,
            // What the side's own handlers would add has no value there.
            (From::Window(window), Some(windows)) => windows.content(window),
            _ => other.content(key),
        };
        let pairs = &mut self.pairs;
        let found = probe.find(&rows, other, held.as_ref(), pairs, step)?;
        if pairs.ends.is_empty() {
            return Ok(None);
        }
        for column in &mut batch.columns {
            *column = column.gather(&pairs.own);
        }
        // The columns of the left side come first.
        let columns = &mut self.room;
        if side == 0 {
            std::mem::swap(columns, &mut batch.columns);
        }
        match (&found, other.from, &held) {
            (Some(found), _, _) => {
                let read = probe.columns.iter();
                columns.extend(read.map(|&c| padded(found.columns.get(c), &pairs.other)));
            }
            (None, From::Table(table), _) => {
                let table = step.tables.memory(table);
                let read = probe.columns.iter();
                columns.extend(read.map(|&c| table.gather_column(c, &pairs.other)));
            }
            (None, _, Some(held)) => {
                let read = 0..probe.columns.len();
                columns.extend(read.map(|column| held.gather(column, &pairs.other)));
            }
            (None, _, None) => {
                let read = probe.columns.iter();
                columns.extend(read.map(|_| padded(None, &pairs.other)));
            }
        }
        if side == 1 {
            columns.append(&mut batch.columns);
        }
        columns.extend(pairs.presence(side, &mut self.always));
        for of in (0..2).filter(|&of| self.shows_times[of]) {
            columns.push(match of == side {
                true => Column::longs_from(pairs.own_times(&batch.times)),
                false => held.as_ref().map_or_else(
                    || padded(None, &pairs.other),
                    |held| held.times(&pairs.other),
                ),
            });
        }
        std::mem::swap(columns, &mut batch.columns);
        columns.clear();
        pairs.lay_out(&mut batch);
        if probe.is_untimed {
            pairs.untime(&mut batch);
        }
        Ok(Some(batch))
    }
}

/// Is it a table of a store that carries out `select` itself in Siddhi?
fn selects(plan: &plan::Plan, from: From) -> bool {
    let From::Table(table) = from else {
        return false;
    };
    let store = plan.tables[table].store.as_ref();
    store.is_some_and(|store| store.selects)
}

fn is_stream(single: &plan::Single) -> bool {
    matches!(single.from, From::Stream(_) | From::Window(_))
}

/// Types of a side's attributes.
fn types_of(single: &plan::Single) -> Vec<Type> {
    single.schema.attributes.iter().map(|a| a.ty).collect()
}

/// The rows of a side that look into the other.
struct Triggering<'a> {
    batch: &'a Batch,
    has_window: bool,
    expired_wanted: bool,
    ignores_expired: bool,
}

/// Rows of a column, or nothing but nulls where there is none.
fn padded(column: Option<&Column>, rows: &[u32]) -> Column {
    match column {
        Some(column) => column.gather_padded(rows),
        None => Column::constant(event::Type::Object, &event::Value::Null, rows.len()),
    }
}

impl Probe {
    /// Looks up every row of a batch, in order.
    fn find(
        &mut self,
        rows: &Triggering<'_>,
        other: &Chain,
        held: Option<&Held<'_>>,
        pairs: &mut Pairs,
        step: &mut Step<'_>,
    ) -> Result<Option<Found>, Broken> {
        let batch = rows.batch;
        let mut failures = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len);
        let mut found = None;
        let mut contents = self.read(batch, other, step)?;
        if let Some(contents) = &mut contents {
            found = Some(Found {
                columns: std::mem::take(&mut contents.columns),
                ends: Vec::new(),
            });
        }
        let mut context = EvalContext::new(
            step.now,
            step.wall,
            &batch.times,
            step.environment,
            step.seed,
            &mut failures,
        );
        let place = || "join".to_owned();
        let matches = &mut self.matches;
        matches.clear(KEPT_ROWS_MAX);
        let mut skips_expired = false;
        match &mut self.on {
            Condition::External {
                operation,
                parameters,
            } => {
                let parameters: Vec<Column> = parameters
                    .iter_mut()
                    .map(|p| p.column(&inputs, &mut context))
                    .collect();
                let answer = step.host.find(*operation, &parameters, batch.len);
                let answer = answer.map_err(|e| Broken::at(place(), e.message))?;
                matches
                    .rows
                    .extend(0..answer.ends.last().copied().unwrap_or(0));
                matches.ends.extend_from_slice(&answer.ends);
                found = Some(answer);
            }
            Condition::Memory(on) => match (other.from, held) {
                (From::Table(table), _) => {
                    let prepared = on.prepare(&inputs, &mut context);
                    let table = step.tables.memory(table);
                    for row in 0..batch.len {
                        let to = &mut matches.rows;
                        on.find(&prepared, table, &inputs, row, &mut context, to);
                        matches.ends.push(to.len() as u32);
                    }
                }
                (From::Aggregation(_), _) => {
                    let prepared = on.prepare(&inputs, &mut context);
                    for row in 0..batch.len {
                        if let Some(contents) = &contents {
                            let (part, first) = contents.of_row[row];
                            let part = &contents.parts[part];
                            let part = (part.columns.as_slice(), first, part.len);
                            let to = &mut matches.rows;
                            on.scan(&prepared, part, (&inputs, row), &mut context, to);
                        }
                        matches.ends.push(matches.rows.len() as u32);
                    }
                }
                (_, Some(held)) => {
                    skips_expired = rows.ignores_expired && !self.is_fallible;
                    let probing = Probing {
                        batch,
                        skips_expired,
                        width: self.columns.len(),
                    };
                    let equations = self.equations.as_mut();
                    search::find(on, equations, held, &probing, &mut context, matches);
                }
                (_, None) => matches.ends.resize(batch.len, 0),
            },
        }
        if let Some(failure) = failures.into_iter().min_by_key(|f| f.row) {
            return Err(Broken::at(place(), failure.message));
        }
        self.pair(rows, skips_expired, pairs);
        Ok(found)
    }

    /// What an aggregation on the searched side holds for the rows of a batch.
    fn read(
        &mut self,
        batch: &Batch,
        other: &Chain,
        step: &mut Step<'_>,
    ) -> Result<Option<Contents>, Broken> {
        let (From::Aggregation(id), Some(range)) = (other.from, &mut self.range) else {
            return Ok(None);
        };
        let place = || "join".to_owned();
        let mut failures = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len);
        // The step is lent to the evaluation as a whole, so the aggregations wait aside.
        let aggregations = step.take_aggregations();
        let mut context = step.evaluation(batch, &mut failures);
        let ranges = range.ranges((&*aggregations, id), &inputs, &mut context);
        step.aggregations = Some(aggregations);
        if let Some(failure) = failures.into_iter().min_by_key(|f| f.row) {
            return Err(Broken::at(place(), failure.message));
        }
        let contents = Contents::read(id, &ranges, step);
        contents.map(Some).map_err(|e| Broken::at(place(), e))
    }

    /// Lays out the joined rows of what has been found.
    fn pair(&self, rows: &Triggering<'_>, skips_expired: bool, pairs: &mut Pairs) {
        let (batch, matches) = (rows.batch, &self.matches);
        pairs.clear();
        if rows.has_window && batch.resets.is_none() && batch.expired.is_none() {
            return self.pair_arrivals(batch, pairs);
        }
        let resets = batch.resets.as_deref().unwrap_or(&[]);
        let mut next_reset = 0;
        for chunk in 0..batch.chunk_count() {
            let range = batch.chunk(chunk);
            let before = (pairs.own.len(), pairs.resets.len());
            for row in range.start..=range.end {
                while let Some(reset) = resets.get(next_reset).filter(|r| {
                    r.chunk as usize == chunk && (r.row as usize == row || row == range.end)
                }) {
                    pairs.reset(reset.time);
                    next_reset += 1;
                }
                if row == range.end {
                    break;
                }
                let mine = &matches.rows[matches.of(row)];
                let is_expired = batch.is_expired(row);
                if !(is_expired && skips_expired) {
                    self.push(pairs, row, mine, is_expired);
                }
                if !rows.has_window {
                    let now = batch.clock_at(chunk);
                    if rows.expired_wanted {
                        let start = pairs.own.len();
                        self.push(pairs, row, mine, true);
                        // It expires now, whatever time it bears (`EmptyWindowProcessor`).
                        if batch.times.at(row) != now {
                            pairs.echoes.push((start..pairs.own.len(), now));
                        }
                    }
                    pairs.reset(now);
                }
            }
            if (pairs.own.len(), pairs.resets.len()) != before {
                pairs.ends.push(pairs.own.len() as u32);
                pairs.clocks.push(batch.clock_at(chunk));
            }
        }
    }

    /// The same of rows that arrive in a window, and nothing else.
    fn pair_arrivals(&self, batch: &Batch, pairs: &mut Pairs) {
        for chunk in 0..batch.chunk_count() {
            let before = pairs.own.len();
            for row in batch.chunk(chunk) {
                let found = self.matches.of(row);
                match found.len() {
                    0 if self.keeps_lonely => {
                        pairs.other.push(Column::NO_ROW);
                        pairs.own.push(row as u32);
                    }
                    0 => continue,
                    1 => {
                        pairs.other.push(self.matches.rows[found.start]);
                        pairs.own.push(row as u32);
                    }
                    count => {
                        pairs.other.extend_from_slice(&self.matches.rows[found]);
                        pairs.own.extend(std::iter::repeat_n(row as u32, count));
                    }
                }
                pairs.inner.push(pairs.own.len() as u32);
            }
            if pairs.own.len() > before {
                pairs.ends.push(pairs.own.len() as u32);
                pairs.clocks.push(batch.clock_at(chunk));
            }
        }
        pairs.expired.resize(pairs.own.len(), false);
    }

    fn push(&self, pairs: &mut Pairs, row: usize, matches: &[u32], expired: bool) {
        let start = pairs.own.len();
        pairs.other.extend_from_slice(matches);
        if matches.is_empty() && self.keeps_lonely {
            pairs.other.push(Column::NO_ROW);
        }
        let count = pairs.other.len() - start;
        pairs.own.extend(std::iter::repeat_n(row as u32, count));
        pairs.expired.extend(std::iter::repeat_n(expired, count));
        if count > 0 {
            pairs.inner.push(pairs.own.len() as u32);
        }
    }
}

impl Pairs {
    fn reset(&mut self, time: i64) {
        self.resets.push(Reset {
            chunk: self.ends.len() as u32,
            row: self.own.len() as u32,
            time,
        });
    }

    /// Whether each row has a left and a right one.
    fn presence(&self, side: usize, always: &mut Column) -> [Column; 2] {
        let len = self.own.len();
        if always.len() < len {
            let flags = event::Values::Bool(vec![true; len.next_power_of_two()]);
            *always = Column::new(flags, None);
        }
        let here = always.slice(0, len);
        let there = match self.other.contains(&Column::NO_ROW) {
            false => here.clone(),
            true => {
                let flags = self.other.iter().map(|&r| r != Column::NO_ROW).collect();
                Column::new(event::Values::Bool(flags), None)
            }
        };
        match side {
            0 => [here, there],
            _ => [there, here],
        }
    }

    /// The timestamps of the triggering rows.
    fn own_times(&self, times: &Times) -> Vec<i64> {
        self.own.iter().map(|&row| times.at(row as usize)).collect()
    }

    /// Turns what the triggering rows were into what the joined ones are, but for the columns.
    fn lay_out(&self, batch: &mut Batch) {
        let len = self.own.len();
        let mut times = match &batch.times {
            Times::Same(t) => Times::Same(*t),
            times if len > 0 => times.gather(&self.own),
            _ => Times::Same(self.clocks[0]),
        };
        if !self.echoes.is_empty() {
            let mut each: Vec<i64> = (0..len).map(|row| times.at(row)).collect();
            for (rows, now) in &self.echoes {
                each[rows.clone()].fill(*now);
            }
            times = Times::PerRow(each.into(), 0);
        }
        batch.len = len;
        batch.times = times;
        batch.expired = (self.expired.contains(&true)).then(|| self.expired.as_slice().into());
        batch.resets = (!self.resets.is_empty()).then(|| self.resets.as_slice().into());
        // Where each chunk is of one triggering row there is no other level in it.
        let is_plain = self.resets.is_empty() && self.ends == self.inner;
        batch.inner = (!is_plain).then(|| self.inner.as_slice().into());
        batch.chunks = match self.ends.len() {
            1 => Chunks::One,
            chunks if chunks == len && is_plain => Chunks::EachRow,
            _ => Chunks::Ends(self.ends.as_slice().into()),
        };
        let first = self.clocks[0];
        batch.clock = match self.clocks.iter().all(|&clock| clock == first) {
            true => Clock::Same(first),
            false => Clock::PerChunk(self.clocks.as_slice().into()),
        };
    }

    /// Takes the time from the rows that have a match.
    fn untime(&self, batch: &mut Batch) {
        let time = |(row, &other): (usize, &u32)| match other {
            Column::NO_ROW => batch.times.at(row),
            _ => UNTIMED,
        };
        let times: Vec<i64> = self.other.iter().enumerate().map(time).collect();
        batch.times = Times::PerRow(times.into(), 0);
    }

    /// Empty again, its memory kept unless it is much.
    fn clear(&mut self) {
        if self.own.capacity() > KEPT_ROWS_MAX {
            *self = Pairs::default();
        }
        self.echoes.clear();
        self.own.clear();
        self.other.clear();
        self.expired.clear();
        self.inner.clear();
        self.ends.clear();
        self.clocks.clear();
        self.resets.clear();
    }
}
