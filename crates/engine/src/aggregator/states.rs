//! State per group, and the walk over the rows of a scan.

use std::ops::Range;

use event::codec::{Error as StateError, Reader};

use crate::component::{Group, Groups, Scan, SlideScan};
use crate::emission::SlideStep;
use crate::keyed::Pages;

/// State by dense group number; groups not seen yet are empty.
#[derive(Debug)]
pub struct States<S> {
    all: Pages<S>,
}

impl<S> Default for States<S> {
    fn default() -> Self {
        States {
            all: Pages::default(),
        }
    }
}

impl<S: Default> States<S> {
    #[inline(always)]
    pub fn at(&mut self, group: Group) -> &mut S {
        self.all.at(group)
    }

    pub fn get(&self, group: Group) -> Option<&S> {
        self.all.get(group)
    }

    pub fn clear(&mut self, group: Group) {
        if let Some(state) = self.all.get_mut(group) {
            *state = S::default();
        }
    }

    /// Whole pages of numbers are not in use any more.
    pub fn release(&mut self, groups: Range<Group>) {
        self.all.release(groups);
    }

    /// Heap bytes, without what the states hold themselves.
    pub fn bytes(&self) -> usize {
        self.all.bytes()
    }
}

/// Calls `step` with the group, the row (counted from the start of the scan) and whether it is
/// EXPIRED. What does not change from row to row is decided before the loop.
#[inline(always)]
pub fn each_row(scan: &Scan<'_>, mut step: impl FnMut(Group, usize, bool)) {
    let len = scan.end - scan.start;
    match (scan.groups, scan.expired) {
        (Groups::One(group), None) => (0..len).for_each(|row| step(group, row, false)),
        (Groups::One(group), Some(expired)) => {
            let expired = &expired[scan.start..scan.end];
            expired
                .iter()
                .enumerate()
                .for_each(|(row, &e)| step(group, row, e));
        }
        (Groups::PerRow(groups), None) => {
            let groups = &groups[scan.start..scan.end];
            groups
                .iter()
                .enumerate()
                .for_each(|(row, &g)| step(g, row, false));
        }
        (Groups::PerRow(groups), Some(expired)) => {
            let rows = groups[scan.start..scan.end]
                .iter()
                .zip(&expired[scan.start..scan.end]);
            rows.enumerate().for_each(|(row, (&g, &e))| step(g, row, e));
        }
    }
}

/// Calls `leave` and `arrive` with the group and the row, as the steps of a sliding window have it.
#[inline(always)]
pub fn each_step<S>(
    scan: &SlideScan<'_>,
    state: &mut S,
    mut leave: impl FnMut(&mut S, Group, usize),
    mut arrive: impl FnMut(&mut S, Group, usize),
) {
    #[inline(always)]
    fn walk<S>(
        state: &mut S,
        steps: &[SlideStep],
        mut leave: impl FnMut(&mut S, usize),
        mut arrive: impl FnMut(&mut S, usize),
    ) {
        let (mut left, mut arrived) = (0, 0);
        for step in steps {
            let (leaves, arrives) = (step.leave as usize, step.arrive as usize);
            if step.in_turn {
                for row in 0..arrives {
                    leave(state, left + row);
                    arrive(state, arrived + row);
                }
            } else {
                (left..left + leaves).for_each(|row| leave(state, row));
                (arrived..arrived + arrives).for_each(|row| arrive(state, row));
            }
            left += leaves;
            arrived += arrives;
        }
    }
    match (scan.leaving.groups, scan.arriving.groups) {
        (Groups::PerRow(leaving), Groups::PerRow(arriving)) => walk(
            state,
            scan.steps,
            |s, row| leave(s, leaving[row], row),
            |s, row| arrive(s, arriving[row], row),
        ),
        (leaving, arriving) => {
            let of = |groups: Groups<'_>, row: usize| match groups {
                Groups::One(group) => group,
                Groups::PerRow(groups) => groups[row],
            };
            walk(
                state,
                scan.steps,
                |s, row| leave(s, of(leaving, row), row),
                |s, row| arrive(s, of(arriving, row), row),
            );
        }
    }
}

/// Checks the version of a saved state.
pub fn check_version(reader: &mut Reader<'_>, newest: u8) -> Result<u8, StateError> {
    let version = reader.u8()?;
    if (1..=newest).contains(&version) {
        return Ok(version);
    }
    Err(StateError::Mismatch(format!(
        "aggregator state of version {version}, at most {newest} is known"
    )))
}
