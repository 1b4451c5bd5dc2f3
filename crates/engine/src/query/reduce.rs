//! From the rows of a chunk to those that leave: the last of each group, and the chunks they are in.

use event::{Batch, BatchParts, Chunks, Clock, Column, Reset};

use crate::component::Group;

/// Where each group stands in the rows of the chunk at hand, without clearing between chunks.
#[derive(Default)]
pub(super) struct Seen {
    stamp: u32,
    places: Vec<(u32, u32)>,
}

impl Seen {
    /// On the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.places[..])
    }

    pub fn begin(&mut self, groups: usize) {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.places.clear();
            self.stamp = 1;
        }
        if self.places.len() < groups {
            self.places.resize(groups, (0, 0));
        }
    }

    /// There are no more than so many groups now.
    pub fn shrink(&mut self, groups: usize) {
        if self.places.len() > groups {
            self.places.truncate(groups);
            // Halving, so that a few pages that come and go cost nothing.
            if self.places.capacity() > 2 * groups {
                self.places.shrink_to_fit();
            }
        }
    }

    /// The last of the rows of each group, in the order in which the groups first appear; `many` are
    /// those at most.
    pub fn last_rows(
        &mut self,
        groups: &[Group],
        passed: impl Iterator<Item = u32>,
        many: usize,
        rows: &mut Vec<u32>,
    ) {
        rows.resize(many, 0);
        let mut next = 0;
        for row in passed {
            let place = self.place(groups[row as usize], next);
            rows[place as usize] = row;
            next += u32::from(place == next);
        }
        rows.truncate(next as usize);
    }

    /// The place of a group: `next`, where it has none in this chunk yet. Which it is, is hard to
    /// guess for the processor, so there is no branch on it.
    #[inline]
    fn place(&mut self, group: Group, next: u32) -> u32 {
        let slot = &mut self.places[group as usize];
        let place = if slot.0 == self.stamp { slot.1 } else { next };
        *slot = (self.stamp, place);
        place
    }
}

/// Ends and clocks of the chunks that leave.
#[derive(Default)]
pub(super) struct OutChunks {
    ends: Vec<u32>,
    clocks: Vec<i64>,
    resets: Vec<Reset>,
    /// Of the resets of the batch the first that is not looked at yet.
    next_reset: usize,
}

impl OutChunks {
    /// A chunk ends; `picked` are all rows so far that leave.
    pub fn end(&mut self, batch: &Batch, chunk: usize, picked: &[u32], keeps_resets: bool) {
        let start = self.ends.last().copied().unwrap_or(0);
        let end = picked.len() as u32;
        let resets = batch.resets.as_deref().unwrap_or(&[]);
        let before = self.resets.len();
        while let Some(reset) = resets
            .get(self.next_reset)
            .filter(|r| r.chunk as usize == chunk)
        {
            self.next_reset += 1;
            if keeps_resets {
                let ahead = picked[start as usize..].partition_point(|&row| row < reset.row);
                self.resets.push(Reset {
                    chunk: self.ends.len() as u32,
                    row: start + ahead as u32,
                    time: reset.time,
                });
            }
        }
        if end == start && self.resets.len() == before {
            return;
        }
        self.ends.push(end);
        self.clocks.push(batch.clock_at(chunk));
    }

    pub fn batch(self, from: &Batch, columns: &[Column], picked: &[u32]) -> Option<Batch> {
        if self.ends.is_empty() {
            return None;
        }
        let is_whole = picked.len() == from.len
            && picked.iter().enumerate().all(|(at, &row)| at as u32 == row);
        let columns = if is_whole {
            columns.to_vec()
        } else {
            columns.iter().map(|c| c.gather(picked)).collect()
        };
        let times = if is_whole {
            from.times.clone()
        } else {
            match &from.times {
                event::Times::Same(t) => event::Times::Same(*t),
                times => {
                    event::Times::per_row(picked.iter().map(|&r| times.at(r as usize)).collect())
                }
            }
        };
        let expired = from.expired.as_ref().and_then(|e| {
            let marks: Vec<bool> = picked.iter().map(|&r| e[r as usize]).collect();
            marks.contains(&true).then(|| marks.into())
        });
        let each_row = self
            .ends
            .iter()
            .enumerate()
            .all(|(at, &e)| e == at as u32 + 1);
        let chunks = match self.ends.as_slice() {
            [_] => Chunks::One,
            _ if each_row => Chunks::EachRow,
            _ => Chunks::Ends(self.ends.into()),
        };
        let first = self.clocks[0];
        let clock = if self.clocks.iter().all(|&c| c == first) {
            Clock::Same(first)
        } else {
            Clock::PerChunk(self.clocks.into())
        };
        // No rows at all: only calls with nothing in them.
        let times = match times {
            event::Times::PerRow(..) | event::Times::Runs(..) if picked.is_empty() => {
                event::Times::Same(first)
            }
            times => times,
        };
        Some(Batch::from(BatchParts {
            columns,
            len: picked.len(),
            times,
            expired,
            resets: (!self.resets.is_empty()).then(|| self.resets.into()),
            chunks,
            inner: None,
            clock,
        }))
    }
}
