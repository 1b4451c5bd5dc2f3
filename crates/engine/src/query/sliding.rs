//! Aggregates over a sliding window without its EXPIRED rows.
//!
//! Where only CURRENT rows leave a query, its EXPIRED rows matter to the aggregators alone. So the
//! two are not put into one batch, twice as long, to be told apart again: the rows that arrive are
//! selected as they came, and the aggregators follow the window step by step. The number of each
//! row's group is kept beside the window, so that a row that leaves is not looked up again.
//!
//! It is a shorter way to the same result. Where something does not fit (a RESET, a column of mixed
//! values), the batch goes the common way, and the numbers are found anew from then on.

// Twin: query/select.rs (aggregators that see EXPIRED rows); keep both in step.

use std::collections::VecDeque;

use event::{Batch, BatchParts, Column, ColumnBuilder};
use lang::ast::EventType;

use super::chain::{SlidMany, SlidOne};
use super::select::{FastPath, Selector};
use super::site::SiteRows;
use crate::component::{Group, Groups, Key, SlideRow, SlideRows, SlideScan};
use crate::emission::{Arrivals, SlideStep};
use crate::expr::{Expression, Inputs, ROW, Site};
use crate::keyed::Keyed;
use crate::step::{Broken, Step};

/// What a selector keeps of a sliding window before it.
#[derive(Default)]
pub(super) struct Sliding {
    /// For each partition key the groups of the newest rows in the window, the oldest first. The
    /// rows before them are of unknown groups: those of a state that was restored, for one.
    groups: Keyed<VecDeque<Group>>,
    /// Kept from batch to batch for the room they have taken.
    steps: Vec<SlideStep>,
    leaving: Vec<Column>,
    /// The window's columns without a row.
    empty: Vec<Column>,
    leaving_groups: Vec<Group>,
    emptied: Vec<Group>,
}

impl Sliding {
    pub fn remove(&mut self, key: Key) {
        self.groups.remove(key);
    }

    /// Heap bytes of a row's number are counted with the rows they stand beside.
    pub fn bytes(&self) -> usize {
        self.groups
            .get(0)
            .map_or(0, |g| g.capacity() * size_of::<Group>())
    }

    /// The window has gone on without the selector.
    pub fn lose_track(&mut self, key: Key) {
        if let Some(groups) = self.groups.get_mut(key) {
            groups.clear();
        }
    }
}

impl Selector {
    /// The window has gone on without the selector.
    pub fn lose_track(&mut self, key: Key) {
        self.sliding.lose_track(key);
    }

    /// Can all of the select clause follow a sliding window?
    pub fn slides(&self) -> bool {
        let sites = self.sites.iter().all(|site| match site {
            Site::Aggregate(site) => {
                site.aggregate.slides() && site.args.len() <= 1 && site.args.iter().all(is_simple)
            }
            Site::Probe(_) | Site::Effect(_) => false,
        });
        sites
            && !self.sites.is_empty()
            && self.events == EventType::Current
            && self.having.as_ref().is_none_or(|h| h.sites.is_empty())
            && self.group_by.iter().all(is_simple)
            && !self.is_fallible()
            && !self.is_late_fallible()
            && !self.is_unreduced
    }

    /// Can a row that arrives alone be followed without columns of those that leave?
    pub(super) fn slides_by_one(&self) -> bool {
        self.sites.iter().all(|site| match site {
            Site::Aggregate(site) => site.args.iter().all(|a| a.as_column(ROW).is_some()),
            Site::Probe(_) | Site::Effect(_) => false,
        })
    }

    /// As [`Selector::select_sliding`], of a row that arrived alone.
    pub fn select_one(
        &mut self,
        slid: SlidOne<'_>,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let SlidOne { batch, held, left } = slid;
        let mut numbers = std::mem::take(&mut self.room.numbers);
        let mut columns = std::mem::take(&mut self.room.columns);
        let is_grouped = self.group_numbers(&batch, key, step, &mut numbers);
        let group = numbers.first().copied().unwrap_or(key);
        let mut leaving_group = group;
        if is_grouped {
            leaving_group = self.leaving_number(left, held, group, key, step);
        }
        self.room.computed.clear();
        for site in &mut self.sites {
            let Site::Aggregate(site) = site else {
                continue;
            };
            let arg = site.args.first().and_then(|arg| arg.as_column(ROW));
            let left = left.map(|(rows, row)| SlideRow {
                group: leaving_group,
                arg: arg.map(|at| &rows.columns[at]),
                row,
            });
            let arrived = SlideRow {
                group,
                arg: arg.map(|at| &batch.columns[at]),
                row: 0,
            };
            let emptied = &mut self.sliding.emptied;
            let value = site.aggregate.slide_one(left.as_ref(), &arrived, emptied);
            let column = value.column(site.ty);
            let column = column.unwrap_or_else(|| Column::constant(site.ty, &value.value(), 1));
            self.room.computed.push(column);
        }
        let groups = is_grouped.then_some(numbers.as_slice());
        let result = self.arrived(batch, groups, key, &mut columns, step);
        self.put_away(is_grouped, numbers, columns);
        result
    }

    /// The group of the row that leaves, if one does, while one of `group` arrives.
    fn leaving_number(
        &mut self,
        left: Option<(&Batch, usize)>,
        held: usize,
        group: Group,
        key: Key,
        step: &mut Step<'_>,
    ) -> Group {
        let known = self.sliding.groups.entry(key, VecDeque::new);
        let is_known = known.len() >= held;
        known.push_back(group);
        match left {
            None => group,
            Some(_) if is_known => {
                let group = known.pop_front().unwrap_or(group);
                self.dirty.mark(group);
                group
            }
            Some((rows, row)) => {
                let columns = rows.columns.iter().map(|c| c.slice(row, 1));
                let mut batch = nothing(columns.collect(), step.now);
                batch.len = 1;
                let mut number = Vec::new();
                self.group_numbers(&batch, key, step, &mut number);
                number.first().copied().unwrap_or(group)
            }
        }
    }

    /// What is used again for the next batch; groups of which nothing is left are given up.
    fn put_away(&mut self, is_grouped: bool, mut numbers: Vec<Group>, mut columns: Vec<Column>) {
        let mut emptied = std::mem::take(&mut self.sliding.emptied);
        if is_grouped {
            emptied.iter().for_each(|&group| self.forget_empty(group));
        }
        emptied.clear();
        self.sliding.emptied = emptied;
        self.sliding.leaving.clear();
        self.room.computed.clear();
        numbers.clear();
        self.room.numbers = numbers;
        columns.clear();
        self.room.columns = columns;
    }

    /// As [`Selector::select`], of what a sliding window has done. The emission is clear afterwards.
    pub fn select_sliding(
        &mut self,
        slid: SlidMany<'_>,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let mut steps = std::mem::take(&mut self.sliding.steps);
        steps.clear();
        let arrivals = slid.emission.slide_steps(&mut steps);
        let result = match arrivals {
            Some(arrivals) if self.take_leaving(&slid) => {
                self.follow(slid, arrivals.as_ref(), &steps, key, step)
            }
            _ => {
                self.sliding.lose_track(key);
                let batch = slid.emission.finish_into(slid.types, slid.spare);
                let Some(batch) = batch else {
                    return Ok(None);
                };
                let selected = self.select(batch, key, step);
                selected.map(|selected| selected.map(|selected| selected.batch))
            }
        };
        self.sliding.steps = steps;
        result
    }

    /// The columns of the rows that leave, as far as aggregators and groups read them; false where
    /// one of them, or of those that arrive, holds values of another type than declared.
    fn take_leaving(&mut self, slid: &SlidMany<'_>) -> bool {
        let empty = &mut self.sliding.empty;
        if empty.len() != slid.types.len() {
            let columns = slid.types.iter().map(|&ty| ColumnBuilder::new(ty).finish());
            *empty = columns.collect();
        }
        let leaving = &mut self.sliding.leaving;
        leaving.clone_from(empty);
        let args = self.sites.iter().flat_map(|site| match site {
            Site::Aggregate(site) => site.args.iter(),
            Site::Probe(_) | Site::Effect(_) => [].iter(),
        });
        let mut read = args.chain(&self.group_by).flat_map(|e| &e.uses);
        read.all(|slot| {
            let index = usize::from(slot.index);
            let ty = slid.types[index];
            if let Some(column) = slid.emission.leaving(index, ty) {
                leaving[index] = column;
            }
            leaving[index].view().ty() == ty && slid.emission.is_of(index, ty)
        })
    }

    fn follow(
        &mut self,
        slid: SlidMany<'_>,
        arrivals: Option<&Arrivals>,
        steps: &[SlideStep],
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let SlidMany {
            held,
            emission,
            spare,
            ..
        } = slid;
        let leaves = steps.iter().map(|s| s.leave as usize).sum::<usize>();
        let batch = match arrivals {
            Some(arrivals) => emission.arriving(arrivals, spare),
            None => nothing(self.sliding.empty.clone(), step.now),
        };
        emission.clear();
        let mut numbers = std::mem::take(&mut self.room.numbers);
        let mut columns = std::mem::take(&mut self.room.columns);
        let is_grouped = self.group_numbers(&batch, key, step, &mut numbers);
        if is_grouped {
            self.leaving_numbers(leaves, held, &numbers, key, step);
        }
        let groups = is_grouped.then_some(numbers.as_slice());
        self.slide_sites(&batch, steps, leaves, groups, key, step);
        let result = if batch.len == 0 {
            Ok(None)
        } else {
            self.arrived(batch, groups, key, &mut columns, step)
        };
        self.put_away(is_grouped, numbers, columns);
        result
    }

    /// The groups of the rows that leave: those of rows before the ones kept track of are looked up.
    fn leaving_numbers(
        &mut self,
        leaves: usize,
        held: usize,
        arriving: &[Group],
        key: Key,
        step: &mut Step<'_>,
    ) {
        let mut numbers = std::mem::take(&mut self.sliding.leaving_groups);
        numbers.clear();
        let known = self.sliding.groups.entry(key, VecDeque::new);
        let unknown = held.saturating_sub(known.len()).min(leaves);
        if unknown > 0 {
            let columns = &self.sliding.leaving;
            let columns = columns.iter().map(|c| c.slice(0, unknown.min(c.len())));
            let mut batch = nothing(columns.collect(), step.now);
            batch.len = unknown;
            self.group_numbers(&batch, key, step, &mut numbers);
        }
        let known = self.sliding.groups.entry(key, VecDeque::new);
        let front = (leaves - unknown).min(known.len());
        let (older, newer) = known.as_slices();
        let of_older = front.min(older.len());
        numbers.extend_from_slice(&older[..of_older]);
        numbers.extend_from_slice(&newer[..front - of_older]);
        known.drain(..front);
        // The rest arrive and leave in one batch.
        let through = (leaves - numbers.len()).min(arriving.len());
        numbers.extend_from_slice(&arriving[..through]);
        known.extend(&arriving[through..]);
        self.dirty.mark_each(&numbers);
        self.sliding.leaving_groups = numbers;
    }

    /// All aggregators follow the window; their values for the rows that arrive are left in
    /// `room.computed`.
    fn slide_sites(
        &mut self,
        batch: &Batch,
        steps: &[SlideStep],
        leaves: usize,
        groups: Option<&[Group]>,
        key: Key,
        step: &mut Step<'_>,
    ) {
        let (leaving_groups, arriving_groups) = match groups {
            Some(groups) => (
                Groups::PerRow(&self.sliding.leaving_groups),
                Groups::PerRow(groups),
            ),
            None => (Groups::One(key), Groups::One(key)),
        };
        let mut ignored = Vec::new();
        self.room.computed.clear();
        for site in &mut self.sites {
            let Site::Aggregate(site) = site else {
                continue;
            };
            site.begin(batch.len);
            if let Some(arg) = site.args.first_mut() {
                let mut column = |columns: &[Column], rows: usize| {
                    let inputs = Inputs::of(columns, rows);
                    arg.column(&inputs, &mut step.evaluation(batch, &mut ignored))
                };
                site.columns.push(column(&self.sliding.leaving, leaves));
                site.columns.push(column(&batch.columns, batch.len));
            }
            let scan = SlideScan {
                steps,
                leaving: SlideRows {
                    arg: site.columns.first(),
                    groups: leaving_groups,
                },
                arriving: SlideRows {
                    arg: site.columns.last(),
                    groups: arriving_groups,
                },
            };
            let emptied = &mut self.sliding.emptied;
            site.aggregate.slide(&scan, &mut site.values, emptied);
            site.columns.clear();
            self.room.computed.push(site.values.take());
        }
    }

    /// The rows that arrived leave the query.
    fn arrived(
        &mut self,
        mut batch: Batch,
        groups: Option<&[Group]>,
        key: Key,
        columns: &mut Vec<Column>,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let mut computed = std::mem::take(&mut self.room.computed);
        let FastPath::Fewer(fewer) = self.way(&batch) else {
            let put = self.put_items(&mut batch, &mut computed, columns, step);
            self.room.computed = computed;
            batch.inner = None;
            return put.map(|()| Some(batch));
        };
        let mut failures = Vec::new();
        self.early_attributes(&batch, step, &mut failures, columns);
        self.late_attributes(&batch, &computed, step, &mut failures, columns);
        self.room.computed = computed;
        let rows = SiteRows {
            batch: &batch,
            groups: groups.map_or(Groups::One(key), Groups::PerRow),
            reset_groups: &[],
        };
        let selected = self.leaving(fewer, columns, groups, &rows, step)?;
        Ok(selected.map(|selected| selected.batch))
    }
}

/// Does it read nothing but the columns of the row?
fn is_simple(expression: &Expression) -> bool {
    expression.is_of_columns()
        && !expression.is_fallible()
        && expression.uses.iter().all(|slot| slot.part == ROW)
}

/// No rows at all.
fn nothing(columns: Vec<Column>, now: i64) -> Batch {
    let (times, chunks) = (event::Times::Same(now), event::Chunks::One);
    Batch::from(BatchParts {
        columns,
        len: 0,
        times,
        expired: None,
        resets: None,
        chunks,
        inner: None,
        clock: event::Clock::Same(now),
    })
}
