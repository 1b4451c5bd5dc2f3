//! Timestamps of the rows of a batch, stored as runs where many rows share one.

use std::ops::Range;
use std::sync::Arc;

use crate::column::RETAINED_SHARE;

/// Timestamps in milliseconds, one per row. Cloning and slicing copy nothing.
#[derive(Clone, Debug)]
pub enum Times {
    Same(i64),
    /// One per row, from an offset on.
    PerRow(Arc<[i64]>, usize),
    /// Runs of equal timestamps (the end of each run in rows, its timestamp), from an offset on:
    /// what a window holds for minutes costs next to nothing per row.
    Runs(Arc<[(u32, i64)]>, usize),
}

impl Times {
    pub fn per_row(times: Vec<i64>) -> Times {
        match times.first() {
            Some(&first) if times.iter().all(|&t| t == first) => Times::Same(first),
            _ => Times::PerRow(times.into(), 0),
        }
    }

    /// The timestamp of a row. Many rows in order are cheaper through [`Times::runs`].
    pub fn at(&self, row: usize) -> i64 {
        match self {
            Times::Same(t) => *t,
            Times::PerRow(times, offset) => times[offset + row],
            Times::Runs(runs, offset) => runs[run_of(runs, offset + row)].1,
        }
    }

    /// The timestamps of a range of rows, where each is stored by itself.
    pub fn each(&self, rows: Range<usize>) -> Option<&[i64]> {
        match self {
            Times::PerRow(times, offset) => Some(&times[offset + rows.start..offset + rows.end]),
            Times::Same(_) | Times::Runs(..) => None,
        }
    }

    /// The same timestamps by value or in shared memory.
    pub fn is_same(&self, other: &Times) -> bool {
        match (self, other) {
            (Times::Same(a), Times::Same(b)) => a == b,
            (Times::PerRow(a, i), Times::PerRow(b, j)) => i == j && Arc::ptr_eq(a, b),
            (Times::Runs(a, i), Times::Runs(b, j)) => i == j && Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The rows from `start` on.
    pub fn slice(&self, start: usize) -> Times {
        match self {
            Times::Same(t) => Times::Same(*t),
            Times::PerRow(times, offset) => Times::PerRow(Arc::clone(times), offset + start),
            Times::Runs(runs, offset) => Times::Runs(Arc::clone(runs), offset + start),
        }
    }

    /// Rows picked by index; those that ascend cost less.
    pub fn gather(&self, rows: &[u32]) -> Times {
        match self {
            Times::Same(t) => Times::Same(*t),
            Times::PerRow(times, offset) => {
                let times = &times[*offset..];
                Times::PerRow(rows.iter().map(|&r| times[r as usize]).collect(), 0)
            }
            Times::Runs(runs, offset) => {
                let (mut run, mut before) = (0, 0);
                let picked = rows.iter().map(|&r| {
                    let row = offset + r as usize;
                    if row < before {
                        run = run_of(runs, row);
                    }
                    while runs[run].0 as usize <= row {
                        run += 1;
                    }
                    before = row;
                    runs[run].1
                });
                Times::PerRow(picked.collect(), 0)
            }
        }
    }

    /// As [`Times::gather`], in place where the timestamps are nobody else's.
    pub fn retain(&mut self, rows: &[u32]) {
        if let Times::PerRow(times, offset) = self
            && rows.len() > 1
            && rows.len() >= times.len() / RETAINED_SHARE
            && let Some(times) = Arc::get_mut(times)
        {
            for (to, &row) in rows.iter().enumerate() {
                times[to] = times[*offset + row as usize];
            }
            *offset = 0;
            return;
        }
        *self = self.gather(rows);
    }

    /// Is one of the rows before 1970? Marks in place of a timestamp are, and of many rows together it
    /// is found out that none is.
    pub fn has_negative(&self, rows: Range<usize>) -> bool {
        match self {
            Times::Same(t) => *t < 0 && !rows.is_empty(),
            Times::PerRow(times, offset) => {
                let times = &times[offset + rows.start..offset + rows.end];
                // The sign of all of them, one over the other.
                times.iter().fold(0, |all, &t| all | t) < 0
            }
            Times::Runs(..) => self.runs(rows).any(|(_, t)| t < 0),
        }
    }

    /// Rows of a range as (count, timestamp), in order; equal neighbours are not always joined.
    pub fn runs(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, i64)> + '_ {
        let mut at = rows.start;
        let mut run = match self {
            Times::Runs(runs, offset) if !rows.is_empty() => run_of(runs, offset + at),
            _ => 0,
        };
        std::iter::from_fn(move || {
            if at >= rows.end {
                return None;
            }
            let (end, time) = match self {
                Times::Same(t) => (rows.end, *t),
                Times::PerRow(times, offset) => {
                    let time = times[offset + at];
                    let mut end = at + 1;
                    while end < rows.end && times[offset + end] == time {
                        end += 1;
                    }
                    (end, time)
                }
                Times::Runs(runs, offset) => {
                    let (end, time) = runs[run];
                    run += 1;
                    ((end as usize - offset).min(rows.end), time)
                }
            };
            let count = end - at;
            at = end;
            Some((count, time))
        })
    }
}

fn run_of(runs: &[(u32, i64)], row: usize) -> usize {
    runs.partition_point(|&(end, _)| end as usize <= row)
}

/// Builds [`Times`] from runs in order.
#[derive(Clone, Default, Debug)]
pub struct TimesBuilder {
    runs: Vec<(u32, i64)>,
}

impl TimesBuilder {
    pub fn len(&self) -> usize {
        self.runs.last().map_or(0, |&(end, _)| end as usize)
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The timestamp of a row.
    pub fn at(&self, row: usize) -> i64 {
        self.runs[run_of(&self.runs, row)].1
    }

    /// `count` more rows with this timestamp.
    #[inline]
    pub fn push(&mut self, count: usize, time: i64) {
        if count == 0 {
            return;
        }
        let end = (self.len() + count) as u32;
        match self.runs.last_mut() {
            Some(last) if last.1 == time => last.0 = end,
            _ => self.runs.push((end, time)),
        }
    }

    #[inline]
    pub fn extend(&mut self, times: &Times, rows: Range<usize>) {
        if let Times::Same(time) = times {
            return self.push(rows.len(), *time);
        }
        self.extend_each(times, rows);
    }

    fn extend_each(&mut self, times: &Times, rows: Range<usize>) {
        if let Times::PerRow(times, offset) = times {
            return self.extend_from_slice(&times[offset + rows.start..offset + rows.end]);
        }
        for (count, time) in times.runs(rows) {
            self.push(count, time);
        }
    }

    fn extend_from_slice(&mut self, times: &[i64]) {
        let mut end = self.len() as u32;
        let mut last = self.runs.pop();
        for &time in times {
            end += 1;
            match &mut last {
                Some(run) if run.1 == time => run.0 = end,
                _ => self.runs.extend(last.replace((end, time))),
            }
        }
        self.runs.extend(last);
    }

    /// How many rows from the first on satisfy `test`, up to the first that does not.
    pub fn leading(&self, test: impl Fn(i64) -> bool) -> usize {
        let stop = self.runs.iter().position(|&(_, time)| !test(time));
        match stop {
            Some(0) => 0,
            Some(run) => self.runs[run - 1].0 as usize,
            None => self.len(),
        }
    }

    /// Heap bytes in use.
    pub fn bytes(&self) -> usize {
        self.runs.len() * size_of::<(u32, i64)>()
    }

    /// `empty` is the timestamp that stands for no rows at all.
    pub fn finish(self, empty: i64) -> Times {
        let rows = self.len();
        match self.runs.as_slice() {
            [] => Times::Same(empty),
            [(_, time)] => Times::Same(*time),
            runs if runs.len() * 4 <= rows => Times::Runs(self.runs.into(), 0),
            runs => {
                let mut times = Vec::with_capacity(rows);
                for &(end, time) in runs {
                    times.resize(end as usize, time);
                }
                Times::PerRow(times.into(), 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(times: &[i64]) -> Times {
        let mut builder = TimesBuilder::default();
        times.iter().for_each(|&t| builder.push(1, t));
        builder.finish(-1)
    }

    /// Whatever the form, the same timestamps come out, whole and sliced.
    fn check(times: &[i64]) {
        let built = build(times);
        for start in 0..times.len() {
            let sliced = built.slice(start);
            for row in 0..times.len() - start {
                assert_eq!(sliced.at(row), times[start + row]);
            }
            let odd: Vec<u32> = (0..(times.len() - start) as u32)
                .filter(|r| r % 2 == 1)
                .collect();
            let gathered = sliced.gather(&odd);
            for (at, &row) in odd.iter().enumerate() {
                assert_eq!(gathered.at(at), sliced.at(row as usize));
            }
            let backwards: Vec<u32> = odd.iter().rev().copied().collect();
            let turned = sliced.gather(&backwards);
            for (at, &row) in backwards.iter().enumerate() {
                assert_eq!(turned.at(at), sliced.at(row as usize));
            }
            let mut retained = sliced.clone();
            retained.retain(&odd);
            let mut own = Times::PerRow(times.into(), start);
            own.retain(&odd);
            for (at, &row) in odd.iter().enumerate() {
                assert_eq!(retained.at(at), sliced.at(row as usize));
                assert_eq!(own.at(at), sliced.at(row as usize));
            }
            let runs: Vec<i64> = sliced
                .runs(0..times.len() - start)
                .flat_map(|(count, time)| std::iter::repeat_n(time, count))
                .collect();
            assert_eq!(runs, &times[start..]);
            let mut again = TimesBuilder::default();
            again.extend(&built, start..times.len());
            assert_eq!(again.len(), times.len() - start);
        }
    }

    #[test]
    fn all_forms_give_the_same_timestamps() {
        check(&[]);
        check(&[5, 5, 5]);
        check(&[1, 2, 3]);
        check(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
        assert!(matches!(build(&[7; 9]), Times::Same(7)));
        assert!(matches!(
            build(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]),
            Times::Runs(..)
        ));
        assert!(matches!(build(&[1, 2]), Times::PerRow(..)));
        assert!(matches!(build(&[]), Times::Same(-1)));
    }
}
