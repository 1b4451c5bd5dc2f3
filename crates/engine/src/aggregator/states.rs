//! State per group, and the walk over the rows of a scan.

use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};

use super::value_store::Total;
use crate::component::{Group, Groups, Scan, SlideScan};
use crate::keyed::{PAGE, Pages};

/// What one group of an aggregator holds. The default is the empty group.
pub trait GroupState: Default + Send + 'static {
    fn is_empty(&self) -> bool;

    /// On the heap.
    fn bytes(&self) -> usize {
        0
    }

    fn save(&self, writer: &mut Writer);
    fn restore(reader: &mut Reader<'_>) -> Result<Self, StateError>;
}

/// The states of all groups of an aggregator, with what they have on the heap.
pub struct GroupStates<S> {
    pub states: States<S>,
    pub total: Total,
}

impl<S> Default for GroupStates<S> {
    fn default() -> Self {
        GroupStates {
            states: States::default(),
            total: Total::default(),
        }
    }
}

/// The methods of [`Aggregate`](crate::component::Aggregate) about whole groups.
impl<S: GroupState> GroupStates<S> {
    pub fn clear(&mut self, group: Group) {
        let bytes = self.states.get(group).map_or(0, S::bytes);
        self.total.change(bytes, 0);
        self.states.clear(group);
    }

    pub fn is_empty(&self, group: Group) -> bool {
        self.states.get(group).is_none_or(S::is_empty)
    }

    pub fn release(&mut self, groups: Range<Group>) {
        self.states.release(groups);
    }

    pub fn bytes(&self) -> usize {
        self.states.bytes() + self.total.bytes()
    }

    pub fn save(&self, group: Group, writer: &mut Writer) {
        writer.u8(1);
        match self.states.get(group) {
            Some(state) => state.save(writer),
            None => S::default().save(writer),
        }
    }

    pub fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        check_version(reader, 1)?;
        self.clear(group);
        let state = S::restore(reader)?;
        self.total.change(0, state.bytes());
        *self.states.at(group) = state;
        Ok(())
    }
}

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

    /// The states of the groups of many rows side by side by their numbers, where they are so few that
    /// they share a page.
    pub fn side_by_side(&mut self, scan: &SlideScan<'_>) -> Option<&mut [S]> {
        let (Groups::PerRow(leaving), Groups::PerRow(arriving)) =
            (scan.leaving.groups, scan.arriving.groups)
        else {
            return None;
        };
        let all = leaving.iter().chain(arriving).fold(0, |all, &g| all | g);
        if all as usize >= PAGE {
            return None;
        }
        // No number is greater than all their bits together.
        self.all.at(all);
        self.all.first_page()
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

/// Where a group's state is found.
pub trait Slots<S> {
    fn slot(&mut self, group: Group) -> &mut S;
}

impl<S: Default> Slots<S> for States<S> {
    #[inline(always)]
    fn slot(&mut self, group: Group) -> &mut S {
        self.at(group)
    }
}

impl<S> Slots<S> for [S] {
    #[inline(always)]
    fn slot(&mut self, group: Group) -> &mut S {
        &mut self[group as usize]
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

/// What follows a sliding window.
pub trait Follow {
    /// A row of a group leaves.
    fn leave(&mut self, group: Group, row: usize);
    /// A row of a group arrives.
    fn arrive(&mut self, group: Group, row: usize);
}

/// Tells each group and row in the order of the steps of a sliding window.
#[inline(always)]
pub fn each_step(scan: &SlideScan<'_>, mut follow: impl Follow) {
    let of = |groups: Groups<'_>, row: usize| match groups {
        Groups::One(group) => group,
        Groups::PerRow(groups) => groups[row],
    };
    let (leaving, arriving) = (scan.leaving.groups, scan.arriving.groups);
    let (mut left, mut arrived) = (0, 0);
    for step in scan.steps {
        let (leaves, arrives) = (step.leave as usize, step.arrive as usize);
        match (step.in_turn, leaving, arriving) {
            (true, Groups::PerRow(leaving), Groups::PerRow(arriving)) => {
                let leaving = &leaving[left..left + arrives];
                let arriving = &arriving[arrived..arrived + arrives];
                for (row, (&leaver, &comer)) in leaving.iter().zip(arriving).enumerate() {
                    follow.leave(leaver, left + row);
                    follow.arrive(comer, arrived + row);
                }
            }
            (true, ..) => {
                for row in 0..arrives {
                    follow.leave(of(leaving, left + row), left + row);
                    follow.arrive(of(arriving, arrived + row), arrived + row);
                }
            }
            (false, ..) => {
                (left..left + leaves).for_each(|row| follow.leave(of(leaving, row), row));
                (arrived..arrived + arrives).for_each(|row| follow.arrive(of(arriving, row), row));
            }
        }
        left += leaves;
        arrived += arrives;
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
