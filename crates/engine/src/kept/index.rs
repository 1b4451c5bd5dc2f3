//! Rows of a window found by the values of some columns.
//!
//! A window appends at its end and takes from its front, so rows are numbered as they come: the
//! window says which numbers it holds, and the index catches up when it is next asked. Rows of one
//! hash are chained in the order of their numbers; whoever leaves is the first of its chain.
//!
//! An index is no state: it is never saved, and made again where it is missing. It is kept up only
//! as far as that is cheaper than looking at every row.

use std::cell::RefCell;
use std::hash::BuildHasher;

use event::column::View;
use event::{Cells, ShortText, Type};
use foldhash::fast::FixedState;

/// Rows up to which looking at each is always the faster way.
const ROWS_MIN: usize = 32;

/// What it costs to put a row into an index, in rows looked at.
const ROW_COST: u64 = 8;

/// Seed of the hash of texts; fixed, so that nothing differs from run to run.
const SEED: u64 = 0x6a09_e667_f3bc_c908;

/// No row of a chain.
const NOTHING: u32 = u32::MAX;

/// The hash of a row that equals nothing: a value of it is null or no number.
const NO_HASH: u32 = 0;

/// A column whose values are looked for, and the type in which they are compared: BOOL, LONG (of
/// INT too), FLOAT, DOUBLE or STRING.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyColumn {
    pub column: usize,
    pub ty: Type,
}

/// A value as a word, the same for all that are equal when compared as `ty`; `None` for what equals
/// nothing, and for texts, which do not fit.
#[inline]
fn word(cells: &Cells<'_>, row: usize, ty: Type) -> Option<u64> {
    // Zero has two signs, which are equal; what is not a number equals nothing.
    let real = |v: f64| (!v.is_nan()).then(|| (v + 0.0).to_bits());
    if cells.is_null(row) {
        return None;
    }
    match (ty, cells.view()) {
        (Type::Bool, View::Bool(v)) => Some(u64::from(v[row])),
        (Type::Long, View::Long(v)) => Some(v[row] as u64),
        (Type::Long, View::Int(v)) => Some(i64::from(v[row]) as u64),
        (Type::Float, View::Float(v)) => real(f64::from(v[row])),
        (Type::Float, View::Int(v)) => real(f64::from(v[row] as f32)),
        (Type::Double, View::Double(v)) => real(v[row]),
        (Type::Double, View::Float(v)) => real(f64::from(v[row])),
        (Type::Double, View::Long(v)) => real(v[row] as f64),
        (Type::Double, View::Int(v)) => real(f64::from(v[row])),
        _ => None,
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

/// Hash of the values of some keys: `cell` gives the column and the row of each.
#[inline]
pub fn hash<'a>(keys: &[KeyColumn], cell: impl Fn(usize) -> (Cells<'a>, usize)) -> u32 {
    let mut hash = SEED;
    for (at, key) in keys.iter().enumerate() {
        let (cells, row) = cell(at);
        match cells.view() {
            View::Str(texts) if key.ty == Type::String && !cells.is_null(row) => {
                match texts.short(row).map(ShortText::words) {
                    Some([first, second]) => hash = mix(mix(hash, first), second),
                    None => {
                        let long = FixedState::with_seed(SEED).hash_one(texts.get(row));
                        hash = mix(hash, long);
                    }
                }
            }
            _ => match word(&cells, row, key.ty) {
                Some(word) => hash = mix(hash, word),
                None => return NO_HASH,
            },
        }
    }
    (hash ^ (hash >> 32)) as u32 | 1
}

/// Are two values, whose rows have one hash, equal when compared as `ty`?
#[inline]
pub fn equal(ty: Type, (a, a_row): (Cells<'_>, usize), (b, b_row): (Cells<'_>, usize)) -> bool {
    match (a.view(), b.view()) {
        (View::Str(a), View::Str(b)) => a.rows_equal(a_row, &b, b_row),
        _ => word(&a, a_row, ty) == word(&b, b_row, ty),
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    hash: u32,
    /// The next row of the chain.
    next: u32,
}

/// Rows with numbers from `from` to `to`, chained by hash. A row's place is its number modulo the
/// number of places, of which there are as many as chains: a power of two.
#[derive(Debug, Default)]
struct Chains {
    /// Places of the first and the last row.
    ends: Vec<[u32; 2]>,
    links: Vec<Link>,
    from: u64,
    to: u64,
}

impl Chains {
    fn place(&self, number: u64) -> usize {
        number as usize & (self.links.len() - 1)
    }

    /// Only the rows from a number on are left.
    fn leave(&mut self, first: u64) {
        if first >= self.to {
            self.ends.fill([NOTHING; 2]);
            (self.from, self.to) = (first, first);
            return;
        }
        for number in self.from..first {
            let place = self.place(number);
            let link = self.links[place];
            if link.hash == NO_HASH {
                continue;
            }
            let chain = link.hash as usize >> 1 & (self.ends.len() - 1);
            let chain = &mut self.ends[chain];
            debug_assert_eq!(chain[0] as usize, place);
            if chain[1] as usize == place {
                *chain = [NOTHING; 2];
            } else {
                chain[0] = link.next;
            }
        }
        self.from = first;
    }

    /// Makes room for so many rows in all.
    fn reserve(&mut self, rows: usize) {
        if rows <= self.links.len() {
            return;
        }
        let room = rows.next_power_of_two();
        let hashes: Vec<u32> = (self.from..self.to)
            .map(|number| self.links[self.place(number)].hash)
            .collect();
        self.ends = vec![[NOTHING; 2]; room];
        self.links = vec![
            Link {
                hash: NO_HASH,
                next: NOTHING
            };
            room
        ];
        self.to = self.from;
        hashes.into_iter().for_each(|hash| self.push(hash));
    }

    fn push(&mut self, hash: u32) {
        let place = self.place(self.to);
        self.to += 1;
        self.links[place] = Link {
            hash,
            next: NOTHING,
        };
        if hash == NO_HASH {
            return;
        }
        let chain = hash as usize >> 1 & (self.ends.len() - 1);
        let chain = &mut self.ends[chain];
        if chain[1] == NOTHING {
            chain[0] = place as u32;
        } else {
            self.links[chain[1] as usize].next = place as u32;
        }
        chain[1] = place as u32;
    }

    /// Each row of a hash, oldest first, counted from the oldest of all.
    #[inline]
    fn find(&self, hash: u32, mut each: impl FnMut(usize)) {
        if hash == NO_HASH || self.ends.is_empty() {
            return;
        }
        let mut place = self.ends[hash as usize >> 1 & (self.ends.len() - 1)][0];
        let first = self.place(self.from);
        while place != NOTHING {
            let link = self.links[place as usize];
            if link.hash == hash {
                each((place as usize).wrapping_sub(first) & (self.links.len() - 1));
            }
            place = link.next;
        }
    }
}

/// An index over some columns of a window's rows.
#[derive(Debug)]
pub struct Index {
    keys: Box<[KeyColumn]>,
    chains: Chains,
    /// Rows looked at because the index lay behind, since it last caught up.
    spent: u64,
    /// The number behind the last row with a value of another type than declared.
    mixed_until: u64,
}

impl Index {
    pub fn new(keys: &[KeyColumn]) -> Index {
        Index {
            keys: keys.into(),
            chains: Chains::default(),
            spent: 0,
            mixed_until: 0,
        }
    }

    /// Brings the index up to the rows numbered from `first` on; `hash` gives that of a row counted
    /// from there, `None` for one with a value of another type than declared. False: every row has
    /// to be looked at, or so many are new that it pays to do so `probes` times.
    pub fn catch_up(
        &mut self,
        first: u64,
        rows: usize,
        probes: usize,
        mut hash: impl FnMut(usize) -> Option<u32>,
    ) -> bool {
        if rows < ROWS_MIN {
            return false;
        }
        let end = first + rows as u64;
        let new = end - self.chains.to.clamp(first, end);
        self.spent = self.spent.saturating_add(rows as u64 * probes as u64);
        if new * ROW_COST > self.spent {
            return false;
        }
        self.spent = 0;
        self.chains.leave(first);
        self.chains.reserve(rows);
        for row in (self.chains.to - first) as usize..rows {
            let hash = hash(row);
            if hash.is_none() {
                self.mixed_until = first + row as u64 + 1;
            }
            self.chains.push(hash.unwrap_or(NO_HASH));
        }
        self.mixed_until <= first
    }

    /// Rows that may be equal, oldest first, counted from the oldest.
    #[inline]
    pub fn candidates(&self, hash: u32, each: impl FnMut(usize)) {
        self.chains.find(hash, each);
    }

    fn bytes(&self) -> usize {
        self.chains.ends.capacity() * size_of::<[u32; 2]>()
            + self.chains.links.capacity() * size_of::<Link>()
    }
}

/// The indexes of one window and key, made when they are first asked for.
#[derive(Debug, Default)]
pub struct Indexes {
    all: RefCell<Vec<Index>>,
}

impl Indexes {
    /// Lends the index over some columns; it must be given back.
    pub fn lend(&self, keys: &[KeyColumn]) -> Index {
        let mut all = self.all.borrow_mut();
        match all.iter().position(|index| *index.keys == *keys) {
            Some(at) => all.swap_remove(at),
            None => Index::new(keys),
        }
    }

    pub fn give_back(&self, index: Index) {
        self.all.borrow_mut().push(index);
    }

    pub fn bytes(&self) -> usize {
        self.all.borrow().iter().map(Index::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Column;

    const KEY: [KeyColumn; 1] = [KeyColumn {
        column: 0,
        ty: Type::Long,
    }];

    /// A window over numbers that follow each other is asked after each change.
    #[test]
    fn an_index_finds_what_a_look_at_every_row_finds() {
        let mut index = Index::new(&KEY);
        let mut held: Vec<i64> = Vec::new();
        let (mut first, mut draw) = (0u64, 1u64);
        let mut was_used = 0;
        for round in 0..2000 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (adds, takes) = ((draw >> 33) % 9, (draw >> 45) % 9);
            held.extend((0..adds).map(|i| (draw >> (20 + i)) as i64 % 17));
            let takes = (takes as usize).min(held.len().saturating_sub(50));
            held.drain(..takes);
            first += takes as u64;
            if round % 5 == 0 {
                // Now and then all of them leave at once.
                let takes = if round % 500 == 0 { held.len() } else { 0 };
                held.drain(..takes);
                first += takes as u64;
            }
            let column = Column::longs_from(held.clone());
            let cells = Cells::from(&column);
            let of = |row: usize| Some(hash(&KEY, |_| (cells, row)));
            if !index.catch_up(first, held.len(), 2, of) {
                continue;
            }
            was_used += 1;
            for sought in -16..17 {
                let key = Column::longs_from(vec![sought]);
                let key = Cells::from(&key);
                let mut found = Vec::new();
                index.candidates(hash(&KEY, |_| (key, 0)), |row| {
                    if equal(Type::Long, (cells, row), (key, 0)) {
                        found.push(row);
                    }
                });
                let all = held.iter().enumerate().filter(|(_, v)| **v == sought);
                let expected: Vec<usize> = all.map(|(row, _)| row).collect();
                assert_eq!(found, expected, "{sought} in round {round}");
            }
        }
        assert!(was_used > 1000, "{was_used}");
    }

    #[test]
    fn numbers_are_equal_as_the_comparison_says() {
        let column = |value: event::Value| {
            let ty = value.ty().expect("it is not null");
            Column::constant(ty, &value, 1)
        };
        let check = |a: event::Value, b: event::Value, ty: Type, is_equal: bool| {
            let key = [KeyColumn { column: 0, ty }];
            let (a, b) = (column(a), column(b));
            let (a, b) = ((Cells::from(&a), 0), (Cells::from(&b), 0));
            let hashes = [a, b].map(|cell| hash(&key, |_| cell));
            let same = hashes[0] == hashes[1] && hashes[0] != NO_HASH;
            assert_eq!(same && equal(ty, a, b), is_equal);
        };
        use event::Value::{Double, Float, Int, Long};
        check(Int(5), Long(5), Type::Long, true);
        check(Double(0.0), Double(-0.0), Type::Double, true);
        check(Double(f64::NAN), Double(f64::NAN), Type::Double, false);
        check(Float(0.1), Double(0.1), Type::Double, false);
        check(Float(0.5), Double(0.5), Type::Double, true);
        let large = (1i64 << 53) + 1;
        check(Long(large), Double((1i64 << 53) as f64), Type::Double, true);
        check(Int(16_777_217), Float(16_777_216.0), Type::Float, true);
        check(Int(16_777_217), Long(16_777_216), Type::Long, false);
    }
}
