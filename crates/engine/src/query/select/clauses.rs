//! Which of the selected rows leave: `having`, `order by`, `limit` and `offset`, and the last row of
//! each chunk or group where there are aggregates or groups.
//!
//! All of that is done chunk by chunk ([`Selector::reduce`]). Most batches have a shorter way to the
//! same rows; which one is decided in one place ([`Selector::way`]).

use std::borrow::Cow;
use std::ops::Range;

use event::{Batch, BatchParts, Chunks, Clock, Column};
use lang::ast::EventType;

use super::{Selected, Selector, one_row};
use crate::component::Group;
use crate::expr::{COMPUTED, Inputs, OTHER};
use crate::query::order;
use crate::query::reduce::OutChunks;
use crate::query::site::{self, SiteRows};
use crate::step::{Broken, Step};

/// How the rows of a batch leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::query) enum FastPath {
    /// All of them, as they are but for their columns.
    Whole,
    /// Fewer of them, or in other chunks.
    Fewer(Fewer),
}

/// Which rows leave, and what has to be looked at to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::query) enum Fewer {
    /// The last of the only chunk.
    Last,
    /// The last of each group of the only chunk.
    LastOfGroups,
    /// Those that pass; each is a chunk by itself, so that there is nothing to reduce or to sort.
    EachRow,
    /// What all clauses leave of each chunk.
    Reduced,
}

impl Selector {
    /// The shortest way that gives what all clauses would.
    #[inline]
    pub(in crate::query) fn way(&self, batch: &Batch) -> FastPath {
        let takes_all = self.takes_all(batch);
        if self.is_plain && takes_all {
            return FastPath::Whole;
        }
        if self.is_unreduced || batch.inner.is_some() {
            return FastPath::Fewer(Fewer::Reduced);
        }
        let has_resets = batch.resets.is_some();
        let is_grouped = !self.group_by.is_empty();
        match batch.chunks {
            Chunks::EachRow if has_resets => FastPath::Fewer(Fewer::Reduced),
            Chunks::EachRow if self.passes_all && takes_all => FastPath::Whole,
            Chunks::EachRow => FastPath::Fewer(Fewer::EachRow),
            Chunks::One if !self.passes_all => FastPath::Fewer(Fewer::Reduced),
            Chunks::One if batch.len == 1 && takes_all && !has_resets => FastPath::Whole,
            // RESETs do not leave with an aggregate.
            Chunks::One if self.has_aggregator && !is_grouped => FastPath::Fewer(Fewer::Last),
            Chunks::One
                if is_grouped
                    && takes_all
                    && batch.expired.is_none()
                    && !has_resets
                    && self.order_by.is_empty() =>
            {
                FastPath::Fewer(Fewer::LastOfGroups)
            }
            Chunks::One | Chunks::Ends(_) => FastPath::Fewer(Fewer::Reduced),
        }
    }

    /// Are all rows of the kind that leaves?
    #[inline]
    pub(super) fn takes_all(&self, batch: &Batch) -> bool {
        match self.events {
            EventType::All => true,
            EventType::Current => batch.expired.is_none(),
            EventType::Expired => false,
        }
    }

    /// The rows that leave; `columns` are those of the select clause.
    pub(in crate::query) fn leaving(
        &mut self,
        fewer: Fewer,
        columns: &[Column],
        groups: Option<&[Group]>,
        rows: &SiteRows<'_>,
        step: &mut Step<'_>,
    ) -> Result<Option<Selected>, Broken> {
        let batch = rows.batch;
        match (fewer, groups) {
            (Fewer::Last, _) => return Ok(self.last(batch, columns)),
            (Fewer::LastOfGroups, Some(groups)) => {
                return Ok(self.last_of_groups(batch, columns, groups));
            }
            _ => {}
        }
        let keep = self.passing(columns, rows, step)?;
        if fewer == Fewer::EachRow {
            return Ok(self.each_row(batch, columns, groups, &keep));
        }
        if let Some(selected) = self.one_a_chunk(batch, columns, groups, &keep) {
            return Ok(Some(selected));
        }
        let keys = self.order_keys(batch, columns, step);
        Ok(self.reduce(batch, columns, groups, &keep, &keys))
    }

    /// The last row of its kind.
    fn last(&self, batch: &Batch, columns: &[Column]) -> Option<Selected> {
        let takes = |row: &usize| match self.events {
            EventType::All => true,
            EventType::Current => !batch.is_expired(*row),
            EventType::Expired => batch.is_expired(*row),
        };
        let row = (0..batch.len).rev().find(takes)?;
        Some(Selected {
            batch: one_row(batch, columns, row),
            groups: None,
            names: None,
        })
    }

    /// The last row of each group.
    fn last_of_groups(
        &mut self,
        batch: &Batch,
        columns: &[Column],
        groups: &[Group],
    ) -> Option<Selected> {
        let rows = &mut self.room.rows;
        rows.clear();
        self.seen.begin(self.groups.width());
        self.seen
            .last_rows(groups, 0..batch.len as u32, batch.len, rows);
        if rows.is_empty() {
            return None;
        }
        let rows = &self.room.rows;
        Some(Selected {
            batch: Batch::from(BatchParts {
                columns: columns.iter().map(|c| c.gather(rows)).collect(),
                len: rows.len(),
                times: batch.times.gather(rows),
                expired: None,
                resets: None,
                chunks: Chunks::One,
                inner: None,
                clock: batch.clock.clone(),
            }),
            groups: self.picked_groups(Some(groups), rows),
            names: None,
        })
    }

    /// The groups of the rows that leave, where somebody asks for their names.
    fn picked_groups(&self, groups: Option<&[Group]>, rows: &[u32]) -> Option<Vec<Group>> {
        let groups = groups.filter(|_| self.wants_names)?;
        Some(rows.iter().map(|&row| groups[row as usize]).collect())
    }

    /// For each row whether it is of the kind that leaves, and `having` lets it pass.
    fn passing(
        &mut self,
        columns: &[Column],
        rows: &SiteRows<'_>,
        step: &mut Step<'_>,
    ) -> Result<Vec<bool>, Broken> {
        let batch = rows.batch;
        let mut keep: Vec<bool> = match (self.events, &batch.expired) {
            (EventType::All, _) | (EventType::Current, None) => vec![true; batch.len],
            (EventType::Expired, None) => vec![false; batch.len],
            (EventType::Current, Some(expired)) => expired.iter().map(|e| !e).collect(),
            (EventType::Expired, Some(expired)) => expired.to_vec(),
        };
        if let Some(having) = &mut self.having {
            let mut failures = Vec::new();
            let mut row = batch.clone();
            row.columns.truncate(having.inputs);
            row.columns.extend_from_slice(columns);
            let rows = SiteRows {
                batch: &row,
                ..*rows
            };
            let computed = site::compute(&mut having.sites, &rows, step, &mut failures);
            let inputs = Inputs::of(&row.columns, row.len).with(COMPUTED, &computed);
            let mut context = step.evaluation(&row, &mut failures);
            let passes = having.condition.mask(&inputs, &mut context);
            if let Some(failure) = failures.into_iter().min_by_key(|f| f.row) {
                return Err(Broken::at("having".to_owned(), failure.message));
            }
            keep.iter_mut().zip(passes).for_each(|(k, p)| *k &= p);
        }
        Ok(keep)
    }

    /// Those that pass, of rows that are chunks by themselves: an offset leaves nothing of one.
    fn each_row(
        &self,
        batch: &Batch,
        columns: &[Column],
        groups: Option<&[Group]>,
        keep: &[bool],
    ) -> Option<Selected> {
        if self.offset.unwrap_or(0) > 0 {
            return None;
        }
        let is_limited = self.limit == Some(0);
        let keep: Cow<'_, [bool]> = if is_limited {
            (0..batch.len)
                .map(|r| keep[r] && batch.is_expired(r))
                .collect()
        } else {
            Cow::Borrowed(keep)
        };
        let whole = batch.with_columns(columns.to_vec());
        let groups = groups.filter(|_| self.wants_names).map(|groups| {
            let kept = groups.iter().zip(keep.iter()).filter(|(_, k)| **k);
            kept.map(|(&g, _)| g).collect()
        });
        let batch = whole.filter(&keep)?;
        Some(Selected {
            batch,
            groups,
            names: None,
        })
    }

    /// Where one row of each chunk passed, as behind a sliding window that is full, there is
    /// nothing to reduce or to sort either. `None` where it is not so.
    fn one_a_chunk(
        &self,
        batch: &Batch,
        columns: &[Column],
        groups: Option<&[Group]>,
        keep: &[bool],
    ) -> Option<Selected> {
        let (Chunks::Ends(ends), Clock::Same(_)) = (&batch.chunks, &batch.clock) else {
            return None;
        };
        let is_whole = self.offset.unwrap_or(0) == 0 && self.limit.is_none();
        if !is_whole || batch.inner.is_some() || batch.resets.is_some() {
            return None;
        }
        let picked = event::picked(keep);
        let mut start = 0;
        let mut is_one = picked.len() == ends.len();
        for (&row, &end) in picked.iter().zip(ends.iter()) {
            is_one &= start <= row && row < end;
            start = end;
        }
        if !is_one {
            return None;
        }
        let expired = match (&batch.expired, self.events) {
            (Some(expired), EventType::All | EventType::Expired) => {
                let marks: Vec<bool> = picked.iter().map(|&r| expired[r as usize]).collect();
                marks.contains(&true).then(|| marks.into())
            }
            _ => None,
        };
        Some(Selected {
            batch: Batch::from(BatchParts {
                columns: columns.iter().map(|c| c.gather(&picked)).collect(),
                len: picked.len(),
                times: batch.times.gather(&picked),
                expired,
                resets: None,
                chunks: if picked.len() == 1 {
                    Chunks::One
                } else {
                    Chunks::EachRow
                },
                inner: None,
                clock: batch.clock.clone(),
            }),
            groups: self.picked_groups(groups, &picked),
            names: None,
        })
    }

    fn order_keys(
        &mut self,
        batch: &Batch,
        columns: &[Column],
        step: &mut Step<'_>,
    ) -> Vec<(Column, bool)> {
        let mut ignored = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len).with(OTHER, columns);
        let mut context = step.evaluation(batch, &mut ignored);
        self.order_by
            .iter_mut()
            .map(|(e, descending)| (e.column(&inputs, &mut context), *descending))
            .collect()
    }

    /// From the rows that passed to those that leave, inner chunk by inner chunk.
    fn reduce(
        &mut self,
        batch: &Batch,
        columns: &[Column],
        groups: Option<&[Group]>,
        keep: &[bool],
        keys: &[(Column, bool)],
    ) -> Option<Selected> {
        let mut picked: Vec<u32> = Vec::with_capacity(batch.len);
        let mut out = OutChunks::default();
        let mut inner_end = 0;
        let mut rows = Vec::new();
        for chunk in 0..batch.chunk_count() {
            let range = batch.chunk(chunk);
            let mut start = range.start;
            let mut is_first = true;
            let mut is_lost = false;
            while start < range.end || is_first {
                is_first = false;
                let end = match &batch.inner {
                    None => range.end,
                    Some(inner) => {
                        while inner_end < inner.len() && inner[inner_end] as usize <= start {
                            inner_end += 1;
                        }
                        inner
                            .get(inner_end)
                            .map_or(range.end, |&e| (e as usize).min(range.end))
                    }
                };
                rows.clear();
                self.survivors(start..end, groups, keep, &mut rows);
                let passed = rows.last().copied();
                let is_rebuilt = !keys.is_empty()
                    || groups.is_some()
                    || self.has_aggregator && !self.is_unreduced;
                // Siddhi cuts the end of a chunk and still appends to what it has cut off
                // (`ComplexEventChunk.remove`): the results of the events after it are lost.
                let mut is_cut = !is_rebuilt && passed.is_some_and(|last| last as usize + 1 < end);
                if self.is_unreduced && groups.is_some() {
                    // Order and offset do not reach grouped rows (`QuerySelector.processGroupBy`).
                    let limit = self.limit.unwrap_or(u64::MAX);
                    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
                } else {
                    if !keys.is_empty() {
                        order::sort(&mut rows, keys, batch);
                    }
                    let last = rows.last().copied();
                    order::offset_and_limit(&mut rows, self.offset, self.limit, batch);
                    is_cut |= !rows.is_empty() && rows.last().copied() != last;
                }
                if !is_lost {
                    picked.extend_from_slice(&rows);
                }
                is_lost |= self.is_compat && is_cut && batch.inner.is_some();
                start = end.max(start + 1);
            }
            let keeps_resets = (!self.has_aggregator || self.is_unreduced) && groups.is_none();
            out.end(batch, chunk, &picked, keeps_resets);
        }
        let batch = out.batch(batch, columns, &picked)?;
        let groups = self.picked_groups(groups, &picked);
        Some(Selected {
            batch,
            groups,
            names: None,
        })
    }

    /// All rows that passed; with an aggregator the last; with groups the last of each, in the
    /// order in which the groups first appear.
    fn survivors(
        &mut self,
        range: Range<usize>,
        groups: Option<&[Group]>,
        keep: &[bool],
        rows: &mut Vec<u32>,
    ) {
        let len = range.len();
        let mut passed = range.filter(|&r| keep[r]).map(|r| r as u32);
        match groups {
            _ if self.is_unreduced => rows.extend(passed),
            None if self.has_aggregator => rows.extend(passed.next_back()),
            None => rows.extend(passed),
            Some(groups) => {
                self.seen.begin(self.groups.width());
                self.seen.last_rows(groups, passed, len, rows);
            }
        }
    }
}
