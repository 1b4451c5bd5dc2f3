//! Which pieces of a saved state belong to which elements of an app that may have been edited.
//!
//! An element is known by its name; queries and partitions without one are matched in their order,
//! by what they keep, so that one that is put between two others does not cost them their state.
//! What has another shape is dropped whole: a sum that lost its window would never shrink again.

use event::codec::{Error as StateError, Reader};
use plan::state::State;

use super::Piece;
use crate::app::App;
use crate::error::RestoreError;
use crate::snapshot_format::{self as format, END, Field, PIECE, VERSION};

/// Parts of an element that are read back.
const PARTS_MAX: usize = 100_000;

/// What becomes of a saved state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StateMatching {
    /// Elements that go on with their state, and what it is.
    pub kept: Vec<String>,
    pub dropped: Vec<Dropped>,
    /// Elements that keep something and begin without it.
    pub begun: Vec<String>,
}

/// State that fits no element of the app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// `query 'name'`.
    pub element: String,
    /// What is lost.
    pub parts: Vec<String>,
    pub why: String,
}

/// A piece as it was saved.
pub(super) struct Saved<'a> {
    pub name: &'a str,
    pub shape: &'a str,
    pub parts: Vec<String>,
    pub fields: Vec<Field<'a>>,
}

/// How many bytes the saved state takes that these begin with.
pub fn state_len(bytes: &[u8]) -> Result<usize, RestoreError> {
    let mut reader = Reader::new(bytes);
    Saved::read_from(&mut reader, bytes)?;
    Ok(reader.position())
}

impl<'a> Saved<'a> {
    pub fn read_all(bytes: &'a [u8]) -> Result<Vec<Saved<'a>>, RestoreError> {
        Saved::read_from(&mut Reader::new(bytes), bytes)
    }

    fn read_from(reader: &mut Reader<'a>, bytes: &'a [u8]) -> Result<Vec<Saved<'a>>, RestoreError> {
        let version = reader.u32()?;
        if version != VERSION {
            return Err(RestoreError::Version {
                found: version,
                expected: VERSION,
            });
        }
        let (mut all, mut mark) = (Vec::new(), reader.u8()?);
        while mark == PIECE {
            let (saved, next) = Saved::read(reader, bytes)?;
            all.push(saved);
            mark = next;
        }
        match mark {
            END => Ok(all),
            mark => {
                let at = reader.position() - 1;
                Err(StateError::Mark { mark, at }.into())
            }
        }
    }

    /// A piece, and the mark behind it.
    fn read(reader: &mut Reader<'a>, bytes: &'a [u8]) -> Result<(Saved<'a>, u8), StateError> {
        let (name, shape) = (reader.str()?, reader.str()?);
        let count = reader.count()?;
        if count > PARTS_MAX {
            return Err(StateError::Mismatch(format!("{name} has {count} parts")));
        }
        let parts = (0..count)
            .map(|_| reader.str().map(str::to_owned))
            .collect::<Result<_, _>>()?;
        let (fields, mark) = format::read_fields(reader, bytes)?;
        let saved = Saved {
            name,
            shape,
            parts,
            fields,
        };
        Ok((saved, mark))
    }
}

/// For each piece of the app the saved one, if there is one that fits.
pub(super) struct Pairs {
    pub pieces: Vec<(Piece, Option<usize>)>,
    pub matching: StateMatching,
}

impl Pairs {
    pub fn of(&self, piece: Piece) -> Option<usize> {
        let found = self.pieces.iter().find(|(own, _)| *own == piece);
        found.and_then(|(_, saved)| *saved)
    }

    /// Named windows, aggregations and queries without a saved state.
    pub fn unbegun(&self) -> Unbegun {
        let mut unbegun = Unbegun::default();
        for (piece, _) in self.pieces.iter().filter(|(_, saved)| saved.is_none()) {
            match piece {
                Piece::Window(id) => unbegun.windows.push(*id),
                Piece::Aggregation(id) => unbegun.aggregations.push(*id),
                Piece::Query(id) => unbegun.queries.push(*id),
                Piece::Clock | Piece::Timers | Piece::Table(_) | Piece::Partition(_) => {}
            }
        }
        unbegun
    }
}

/// What has no state after a restore, and begins with the next start.
#[derive(Clone, Default, Debug)]
pub(crate) struct Unbegun {
    pub windows: Vec<usize>,
    pub aggregations: Vec<usize>,
    pub queries: Vec<usize>,
}

impl Unbegun {
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }
}

struct Own {
    piece: Piece,
    name: String,
    state: State,
    saved: Option<usize>,
}

impl App {
    pub(super) fn pair(&self, saved: &[Saved<'_>]) -> Pairs {
        let mut own: Vec<Own> = self
            .pieces()
            .into_iter()
            .map(|piece| Own {
                piece,
                name: self.name_of(piece),
                state: self.state_of(piece),
                saved: None,
            })
            .collect();
        for one in own.iter_mut().filter(|one| !is_ordinal(&one.name)) {
            one.saved = saved
                .iter()
                .position(|s| s.name == one.name && s.shape == one.state.shape);
        }
        for kind in ["partition '", "query '"] {
            pair_ordinals(&mut own, saved, kind);
        }
        self.unpair_strangers(&mut own);
        Pairs {
            matching: matching_of(&own, saved),
            pieces: own.into_iter().map(|one| (one.piece, one.saved)).collect(),
        }
    }

    /// A query cannot take its state back without the keys of its partition.
    fn unpair_strangers(&self, own: &mut [Own]) {
        let has_keys: Vec<bool> = (0..self.partitions.len())
            .map(|id| {
                own.iter()
                    .any(|one| one.piece == Piece::Partition(id) && one.saved.is_some())
            })
            .collect();
        for one in own {
            if let Piece::Query(id) = one.piece
                && self.queries[id].partition.is_some_and(|p| !has_keys[p])
            {
                one.saved = None;
            }
        }
    }
}

/// A name that was given by counting: `query_3`, `partition_1`.
fn is_ordinal(name: &str) -> bool {
    ["query 'query_", "partition 'partition_"]
        .iter()
        .filter_map(|prefix| name.strip_prefix(prefix)?.strip_suffix('\''))
        .any(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Pairs what was only counted, in its order, as many as possible (the longest common subsequence).
fn pair_ordinals(own: &mut [Own], saved: &[Saved<'_>], kind: &str) {
    let left: Vec<usize> = (0..own.len())
        .filter(|&i| own[i].name.starts_with(kind) && is_ordinal(&own[i].name))
        .collect();
    let right: Vec<usize> = (0..saved.len())
        .filter(|&i| saved[i].name.starts_with(kind) && is_ordinal(saved[i].name))
        .collect();
    let fits = |l: usize, r: usize| own[left[l]].state.shape == saved[right[r]].shape;
    let mut lengths = vec![vec![0u32; right.len() + 1]; left.len() + 1];
    for l in (0..left.len()).rev() {
        for r in (0..right.len()).rev() {
            lengths[l][r] = if fits(l, r) {
                lengths[l + 1][r + 1] + 1
            } else {
                lengths[l + 1][r].max(lengths[l][r + 1])
            };
        }
    }
    let (mut l, mut r) = (0, 0);
    let mut pairs = Vec::new();
    while l < left.len() && r < right.len() {
        if fits(l, r) {
            pairs.push((left[l], right[r]));
            (l, r) = (l + 1, r + 1);
        } else if lengths[l + 1][r] >= lengths[l][r + 1] {
            l += 1;
        } else {
            r += 1;
        }
    }
    for (one, at) in pairs {
        own[one].saved = Some(at);
    }
}

fn matching_of(own: &[Own], saved: &[Saved<'_>]) -> StateMatching {
    let mut matching = StateMatching::default();
    for one in own.iter().filter(|one| !one.state.parts.is_empty()) {
        let said = described(&one.name, &one.state.parts);
        match one.saved {
            Some(_) => matching.kept.push(said),
            None => matching.begun.push(said),
        }
    }
    for (at, old) in saved.iter().enumerate() {
        let is_taken = own.iter().any(|one| one.saved == Some(at));
        if is_taken || old.parts.is_empty() {
            continue;
        }
        let namesake = own.iter().find(|one| one.name == old.name);
        matching.dropped.push(Dropped {
            element: old.name.to_owned(),
            parts: old.parts.clone(),
            why: match namesake {
                None => "the app has no such element any more".to_owned(),
                Some(one) if one.state.parts == old.parts => {
                    "what it reads, groups by or keeps of each row has changed".to_owned()
                }
                Some(one) if one.state.parts.is_empty() => "it keeps nothing any more".to_owned(),
                Some(one) => format!("it keeps {} now", one.state.parts.join(", ")),
            },
        });
    }
    matching
}

/// `query 'q' (window length(5))`.
fn described(name: &str, parts: &[String]) -> String {
    format!("{name} ({})", parts.join(", "))
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", described(&self.element, &self.parts), self.why)
    }
}
