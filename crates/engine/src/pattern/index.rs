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
use plan::{CompareOp, Expr, ExprKind};

use super::partials::{CURRENT, Captures, PartialId, Partials};
use super::states::{Kind, StateGraph, StateId};
use crate::key_text::hash_words;

/// No bucket, no partial match.
const NOTHING: u32 = u32::MAX;

/// Seed of the hash of long texts; fixed, so that nothing differs from run to run.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// First word of a long text, which is no length of a short one; its hash is the second.
const LONG: u64 = u64::MAX;

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
        graph: &StateGraph,
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
                let state = graph.of_reference[usize::from(input)];
                let is_single = graph.states[state].kind == Kind::Stream
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
        self.of_events(columns).at(row)
    }

    /// The values of arriving events.
    pub fn of_events<'a>(&self, columns: &'a [Column]) -> Keys<'a> {
        Keys::of(&columns[self.own])
    }
}

/// What the events of a column are looked for by.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    view: View<'a>,
    nulls: Option<&'a [bool]>,
}

impl<'a> Keys<'a> {
    fn of(column: &'a Column) -> Keys<'a> {
        Keys {
            view: column.view(),
            nulls: column.nulls(),
        }
    }

    /// The value of a row; `None` for null, which equals nothing.
    #[inline(always)]
    pub fn at(&self, row: usize) -> Option<Sought<'a>> {
        if self.nulls.is_some_and(|nulls| nulls[row]) {
            return None;
        }
        match self.view {
            View::Int(v) => Some(Sought::Integer(i64::from(v[row]))),
            View::Long(v) => Some(Sought::Integer(v[row])),
            View::Str(v) => Some(Sought::Text(v, row)),
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

/// A value as two words: equal values have equal ones, and short texts that are not equal have others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Words([u64; 2]);

impl Words {
    fn is_long(self) -> bool {
        self.0[0] == LONG
    }

    #[inline]
    fn hash(self) -> u64 {
        hash_words(0, self.0)
    }
}

impl Sought<'_> {
    #[inline(always)]
    fn words(&self) -> Words {
        Words(match self {
            Sought::Integer(value) => [0, *value as u64],
            Sought::Text(texts, row) => match texts.short_words(*row) {
                Some(words) => words,
                None => [LONG, FixedState::with_seed(SEED).hash_one(texts.get(*row))],
            },
        })
    }

    fn is(&self, other: &Sought<'_>) -> bool {
        match (self, other) {
            (Sought::Integer(a), Sought::Integer(b)) => a == b,
            (Sought::Text(a, row), Sought::Text(b, other)) => a.rows_equal(*row, b, *other),
            _ => false,
        }
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

    /// Where it stands in the pending list, counted from the first that is there.
    #[inline(always)]
    pub fn place_of(&self, partial: PartialId, first_place: u64) -> u32 {
        (self.place[partial as usize] - first_place) as u32
    }

    /// The next of the same value.
    #[inline(always)]
    pub fn behind(&self, partial: PartialId) -> Option<PartialId> {
        let next = self.next[partial as usize];
        (next != NOTHING).then_some(next)
    }

    pub fn move_to(&mut self, partial: PartialId, place: u64) {
        if let Some(at) = self.place.get_mut(partial as usize) {
            *at = place;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    words: Words,
    /// The oldest and the newest; [`NOTHING`] where none is left, which is kept for the next.
    head: PartialId,
    tail: PartialId,
}

/// The partial matches of one state and key by value.
///
/// A value whose partial matches are all gone stays for a while: values come again, and where they do
/// not, they go together once there are more of them than there have been of others.
#[derive(Debug, Default)]
pub(super) struct Index {
    table: HashTable<u32>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
    /// Values of which no partial match is left.
    idle: usize,
    /// The most that there were of others since those went.
    busy_most: usize,
}

/// Idle values that are always kept.
const IDLE_FEW: usize = 8;

/// The values by which the partial matches of a state are known: those of the events they have taken.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    state: StateId,
    partials: &'a Partials,
    kept: Option<Keys<'a>>,
}

impl<'a> Values<'a> {
    pub fn new(equation: Equation, partials: &'a Partials, captures: &'a [Captures]) -> Values<'a> {
        let state = equation.state;
        let captures = &captures[state];
        let column = captures.column_of(equation.attribute);
        Values {
            state,
            partials,
            kept: column.map(|at| Keys::of(captures.column(at))),
        }
    }

    #[inline(always)]
    fn of(&self, partial: PartialId) -> Option<Sought<'a>> {
        let event = self.partials.slot(partial, self.state);
        match self.kept {
            Some(kept) if event < CURRENT => kept.at(event as usize),
            _ => None,
        }
    }
}

/// Long texts are told apart by their hash and by the text of a partial match.
#[cold]
fn is_text(bucket: &Bucket, sought: &Sought<'_>, values: &Values<'_>) -> bool {
    values.of(bucket.head).is_some_and(|head| head.is(sought))
}

impl Index {
    #[inline(always)]
    fn bucket_of<'v>(
        &self,
        sought: &Sought<'_>,
        words: Words,
        values: impl Fn() -> Values<'v>,
    ) -> Option<u32> {
        let is_it = |&bucket: &u32| {
            let bucket = &self.buckets[bucket as usize];
            bucket.words == words && (!words.is_long() || is_text(bucket, sought, &values()))
        };
        self.table.find(words.hash(), is_it).copied()
    }

    /// A partial match comes to the end of the pending list. One without a value is in no chain.
    pub fn push(&mut self, partial: PartialId, place: u64, values: &Values<'_>, links: &mut Links) {
        let Some(sought) = values.of(partial) else {
            return links.set(partial, NOTHING, place);
        };
        let words = sought.words();
        if let Some(found) = self.bucket_of(&sought, words, || *values) {
            links.set(partial, found, place);
            let bucket = &mut self.buckets[found as usize];
            match bucket.head {
                NOTHING => {
                    bucket.head = partial;
                    self.idle -= 1;
                }
                _ => links.next[bucket.tail as usize] = partial,
            }
            bucket.tail = partial;
            return self.count_busy();
        }
        let bucket = Bucket {
            words,
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
            .insert_unique(words.hash(), new, |&b| buckets[b as usize].words.hash());
        self.count_busy();
    }

    #[inline(always)]
    fn count_busy(&mut self) {
        self.busy_most = self.busy_most.max(self.table.len() - self.idle);
    }

    /// The chain of a value, and its oldest partial match. Only of a long text `values` are asked for.
    #[inline(always)]
    pub fn chain<'v>(
        &self,
        sought: &Sought<'_>,
        values: impl Fn() -> Values<'v>,
    ) -> Option<(u32, PartialId)> {
        let bucket = self.bucket_of(sought, sought.words(), values)?;
        let head = self.buckets[bucket as usize].head;
        (head != NOTHING).then_some((bucket, head))
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
        let (bucket, head) = self.chain(sought, || *values)?;
        let mut at = Some(head);
        while let Some(partial) = at {
            to.push((links.place_of(partial, first_place), partial));
            at = links.behind(partial);
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

    /// Nothing is left of a chain.
    pub fn remove(&mut self, bucket: u32) {
        let emptied = &mut self.buckets[bucket as usize];
        (emptied.head, emptied.tail) = (NOTHING, NOTHING);
        // A long text is known by its partial matches alone.
        if emptied.words.is_long() {
            if let Ok(entry) = self
                .table
                .find_entry(emptied.words.hash(), |&b| b == bucket)
            {
                entry.remove();
            }
            return self.free.push(bucket);
        }
        self.idle += 1;
        if self.idle > IDLE_FEW + self.busy_most {
            self.sweep();
        }
    }

    #[cold]
    fn sweep(&mut self) {
        let Index {
            table,
            buckets,
            free,
            idle,
            busy_most,
        } = self;
        table.retain(|&mut bucket| {
            let is_idle = buckets[bucket as usize].head == NOTHING;
            if is_idle {
                free.push(bucket);
            }
            !is_idle
        });
        (*idle, *busy_most) = (0, table.len());
        let buckets = &self.buckets;
        if self.table.capacity() > 8 * self.table.len().max(IDLE_FEW) {
            let room = 2 * self.table.len();
            self.table
                .shrink_to(room, |&b| buckets[b as usize].words.hash());
        }
    }

    pub fn clear(&mut self) {
        self.table.clear();
        self.buckets.clear();
        self.free.clear();
        (self.idle, self.busy_most) = (0, 0);
    }

    pub fn bytes(&self) -> usize {
        self.table.capacity() * size_of::<u32>()
            + self.buckets.capacity() * size_of::<Bucket>()
            + self.free.capacity() * size_of::<u32>()
    }
}
