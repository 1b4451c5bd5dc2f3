//! Partial matches found by a value instead of one by one.
//!
//! Where a filter says that an attribute of the event equals one of an event matched before, only
//! the partial matches of that value are looked at. Each value has a chain of its partial matches in
//! the order of the pending list, so what is found comes in the order in which a scan would find it.
//! The oldest of the list is the oldest of its chain, which is why expiry takes chains at the head.

use std::hash::BuildHasher;

use event::column::{StrView, View};
use event::{Column, Type};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use lang::ast::Index as Nth;
use lang::plan::{self, CompareOp, Expr, ExprKind};

use super::chart::{Chart, Kind, StateId};
use super::partials::{CURRENT, Captures, PartialId, Partials};

/// No bucket, no partial match.
const NOTHING: u32 = u32::MAX;

/// Seed of the hash of values; fixed, so that nothing differs from run to run.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Whether the two sides of the equation are numbers without a fraction, or texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Integer,
    Text,
}

fn class(ty: Type) -> Option<Class> {
    match ty {
        Type::Int | Type::Long => Some(Class::Integer),
        Type::String => Some(Class::Text),
        Type::Bool | Type::Float | Type::Double | Type::Object => None,
    }
}

/// An equation of a filter that an index answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equation {
    /// Attribute of the arriving event.
    own: usize,
    /// State whose event is compared with, and the attribute of its stream.
    pub state: StateId,
    pub attribute: usize,
}

impl Equation {
    /// The condition as such an equation. The earlier event must be a single one that no longer
    /// changes while the partial match waits.
    pub fn new(
        condition: &Expr,
        reference: usize,
        pattern: &plan::Pattern,
        chart: &Chart,
    ) -> Option<Equation> {
        let ExprKind::Compare(CompareOp::Equal, left, right) = &condition.kind else {
            return None;
        };
        let own = |expr: &Expr| match expr.kind {
            ExprKind::Attribute {
                input,
                index: None,
                attribute,
            } if usize::from(input) == reference => Some(attribute),
            _ => None,
        };
        let other = |expr: &Expr| match expr.kind {
            ExprKind::Attribute {
                input,
                index: None | Some(Nth::At(0) | Nth::Last(0)),
                attribute,
            } if usize::from(input) < reference => {
                let state = chart.of_reference[usize::from(input)];
                let is_single = chart.states[state].kind == Kind::Stream
                    && !pattern.references[usize::from(input)].is_counted;
                is_single.then_some((state, attribute))
            }
            _ => None,
        };
        if class(left.ty)? != class(right.ty)? {
            return None;
        }
        let (own, (state, attribute)) = match (own(left), other(right)) {
            (Some(own), Some(other)) => (own, other),
            _ => (own(right)?, other(left)?),
        };
        Some(Equation {
            own,
            state,
            attribute,
        })
    }

    /// The value of an arriving event; `None` for null, which equals nothing.
    pub fn of_event<'a>(&self, columns: &'a [Column], row: usize) -> Option<Sought<'a>> {
        sought(&columns[self.own], row)
    }

    /// The value of the event that a partial match has taken.
    fn of_partial<'a>(
        &self,
        partial: PartialId,
        partials: &Partials,
        captures: &'a [Captures],
    ) -> Option<Sought<'a>> {
        let event = partials.slot(partial, self.state);
        let captures = &captures[self.state];
        match captures.column_of(self.attribute) {
            Some(at) if event < CURRENT => sought(captures.column(at), event as usize),
            _ => None,
        }
    }
}

/// A value as it is looked for; a text by its column and row.
#[derive(Clone, Copy)]
pub(super) enum Sought<'a> {
    Integer(i64),
    Text(StrView<'a>, usize),
}

impl Sought<'_> {
    #[inline]
    fn hash(&self) -> u64 {
        let state = FixedState::with_seed(SEED);
        match self {
            Sought::Integer(value) => state.hash_one(value),
            Sought::Text(texts, row) => match texts.short_words(*row) {
                Some(words) => state.hash_one(words),
                None => state.hash_one(texts.get(*row)),
            },
        }
    }

    #[inline]
    fn is(&self, other: &Sought<'_>) -> bool {
        match (self, other) {
            (Sought::Integer(a), Sought::Integer(b)) => a == b,
            (Sought::Text(a, row), Sought::Text(b, other)) => a.rows_equal(*row, b, *other),
            _ => false,
        }
    }
}

fn sought(column: &Column, row: usize) -> Option<Sought<'_>> {
    if column.is_null(row) {
        return None;
    }
    match column.view() {
        View::Int(v) => Some(Sought::Integer(i64::from(v[row]))),
        View::Long(v) => Some(Sought::Integer(v[row])),
        View::Str(v) => Some(Sought::Text(v, row)),
        _ => None,
    }
}

/// Where each partial match of the query stands in the index of the one state that has it.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The next of the same value.
    next: Vec<PartialId>,
    bucket: Vec<u32>,
    /// Number of its place in the pending list, counted from the first ever.
    place: Vec<u64>,
}

impl Links {
    fn set(&mut self, partial: PartialId, bucket: u32, place: u64) {
        let at = partial as usize;
        if self.next.len() <= at {
            self.next.resize(at + 1, NOTHING);
            self.bucket.resize(at + 1, NOTHING);
            self.place.resize(at + 1, 0);
        }
        self.next[at] = NOTHING;
        self.bucket[at] = bucket;
        self.place[at] = place;
    }

    pub fn move_to(&mut self, partial: PartialId, place: u64) {
        if let Some(at) = self.place.get_mut(partial as usize) {
            *at = place;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u64,
    head: PartialId,
    tail: PartialId,
}

/// The partial matches of one state and key by value.
#[derive(Debug, Default)]
pub(super) struct Index {
    table: HashTable<u32>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
}

/// What finding and comparing values needs.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub equation: Equation,
    pub partials: &'a Partials,
    pub captures: &'a [Captures],
}

impl Index {
    fn bucket_of(&self, sought: &Sought<'_>, hash: u64, values: &Values<'_>) -> Option<u32> {
        let is_it = |&bucket: &u32| {
            let bucket = &self.buckets[bucket as usize];
            let head = || {
                let (partials, captures) = (values.partials, values.captures);
                values.equation.of_partial(bucket.head, partials, captures)
            };
            bucket.hash == hash && head().is_some_and(|head| head.is(sought))
        };
        self.table.find(hash, is_it).copied()
    }

    /// A partial match comes to the end of the pending list. One without a value is in no chain.
    pub fn push(&mut self, partial: PartialId, place: u64, values: &Values<'_>, links: &mut Links) {
        let (partials, captures) = (values.partials, values.captures);
        let Some(sought) = values.equation.of_partial(partial, partials, captures) else {
            return links.set(partial, NOTHING, place);
        };
        let hash = sought.hash();
        if let Some(found) = self.bucket_of(&sought, hash, values) {
            links.set(partial, found, place);
            let bucket = &mut self.buckets[found as usize];
            links.next[bucket.tail as usize] = partial;
            bucket.tail = partial;
            return;
        }
        let bucket = Bucket {
            hash,
            head: partial,
            tail: partial,
        };
        let new = match self.free.pop() {
            Some(at) => {
                self.buckets[at as usize] = bucket;
                at
            }
            None => {
                self.buckets.push(bucket);
                (self.buckets.len() - 1) as u32
            }
        };
        links.set(partial, new, place);
        let buckets = &self.buckets;
        self.table
            .insert_unique(hash, new, |&b| buckets[b as usize].hash);
    }

    /// The partial matches of a value, oldest first, each with its place; the chain they are of.
    pub fn find(
        &self,
        sought: &Sought<'_>,
        values: &Values<'_>,
        links: &Links,
        first_place: u64,
        to: &mut Vec<(u32, PartialId)>,
    ) -> Option<u32> {
        let bucket = self.bucket_of(sought, sought.hash(), values)?;
        let mut partial = self.buckets[bucket as usize].head;
        while partial != NOTHING {
            let at = partial as usize;
            to.push(((links.place[at] - first_place) as u32, partial));
            partial = links.next[at];
        }
        Some(bucket)
    }

    /// Of a chain only these are left.
    pub fn retain(
        &mut self,
        bucket: u32,
        left: impl Iterator<Item = PartialId>,
        links: &mut Links,
    ) {
        let (mut head, mut tail) = (NOTHING, NOTHING);
        for partial in left {
            if tail == NOTHING {
                head = partial;
            } else {
                links.next[tail as usize] = partial;
            }
            tail = partial;
        }
        if tail == NOTHING {
            return self.remove(bucket);
        }
        links.next[tail as usize] = NOTHING;
        let bucket = &mut self.buckets[bucket as usize];
        (bucket.head, bucket.tail) = (head, tail);
    }

    /// The oldest of the pending list leaves it.
    pub fn pop(&mut self, partial: PartialId, links: &Links) {
        let at = partial as usize;
        let bucket = links.bucket.get(at).copied().unwrap_or(NOTHING);
        if bucket == NOTHING {
            return;
        }
        debug_assert_eq!(self.buckets[bucket as usize].head, partial);
        match links.next[at] {
            NOTHING => self.remove(bucket),
            next => self.buckets[bucket as usize].head = next,
        }
    }

    fn remove(&mut self, bucket: u32) {
        let hash = self.buckets[bucket as usize].hash;
        if let Ok(entry) = self.table.find_entry(hash, |&b| b == bucket) {
            entry.remove();
        }
        self.free.push(bucket);
    }

    pub fn clear(&mut self) {
        self.table.clear();
        self.buckets.clear();
        self.free.clear();
    }

    pub fn bytes(&self) -> usize {
        self.table.capacity() * size_of::<u32>()
            + self.buckets.capacity() * size_of::<Bucket>()
            + self.free.capacity() * size_of::<u32>()
    }
}
