//! `unique:length(key, n)`: the newest rows of the last n keys.

use super::super::key::KeyParts;
use super::super::key_map::KeyMap;
use super::super::linked::Linked;
use super::super::per_key::{PerKey, Rule, Stored};
use super::super::pool::{Pool, SavedRows, Slot, Visit};
use super::super::store::RowTypes;
use super::params::*;
use crate::component::*;
use crate::emission::Emission;
use crate::kept::Held;
use crate::spec::*;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

pub struct Length;

static SPEC: FunctionSpec = runs(
    window("length", "The newest events of the last n keys.", BY_LENGTH),
    "define stream S (ip string, n int);
from S#window.unique:length(ip, 2) select ip, sum(n) as total insert into Out;
---
send S @0 A 1
send S @100 B 2
send S @200 C 3
expect Out A 1
expect Out B 3
expect Out C 5
",
);

impl Window for Length {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let key = KeyParts::of_arguments(&setup.args[..1]);
        let rule = LastKeys {
            needed: key.columns(),
            key,
            length: super::super::count(setup.args, 1, "unique:length")?,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct LastKeys {
    key: KeyParts,
    needed: Vec<usize>,
    length: usize,
}

/// The newest row of every key there has been, and the list of the rows that count as held.
pub(super) struct Listed {
    pub pool: Pool,
    pub keys: KeyMap<Slot>,
    pub list: Linked,
}

impl Stored for Listed {
    fn new(types: &RowTypes) -> Listed {
        Listed {
            pool: Pool::new(types),
            keys: KeyMap::default(),
            list: Linked::default(),
        }
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + self.keys.bytes() + self.list.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        let mut rows = SavedRows::default();
        rows.extend(self.keys.iter().map(|(_, slot)| *slot));
        rows.extend(self.list.stored_slots());
        writer.rows(&self.pool.rows(rows.slots()));
        super::save_slots(&self.keys, &rows, writer);
        self.list.save(writer, |slot| rows.number(slot));
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Listed, StateError> {
        let rows = reader.rows(types, 0)?;
        let keys = super::restore_slots(reader, rows.len)?;
        let list = Linked::restore(reader, rows.len)?;
        let mut pool = Pool::of(types, rows);
        pool.hold(
            keys.iter()
                .map(|(_, slot)| *slot)
                .chain(list.stored_slots()),
        );
        Ok(Listed { pool, keys, list })
    }
}

impl Rule for LastKeys {
    type State = Listed;

    /// `[E, C]` per event of a known key or of a full window. Keys are never forgotten: one that has
    /// left and comes again expires its last row once more (`UniqueLengthWindowProcessor`).
    fn process(
        &mut self,
        state: &mut Listed,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let Listed { pool, keys, list } = state;
        let mut visit = Visit::of_batch(pool, batch, out);
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                let Some(key) = self.key.single(batch, row) else {
                    super::fail_key("length", row, context, out);
                    break;
                };
                let slot = visit.add(row);
                let old = keys.insert(key, slot);
                let mut is_listed = true;
                match old {
                    None if keys.len() <= self.length => {}
                    Some(old) => {
                        while let Some(listed) = list.walk() {
                            if visit.are_equal(listed, old) {
                                list.remove();
                            }
                        }
                        visit.emit(old, true, Some(clock), out);
                        visit.remove(old);
                    }
                    None => match list.poll() {
                        Some(first) => visit.emit(first, true, Some(clock), out),
                        None => {
                            is_listed = false;
                            visit.emit(slot, true, None, out);
                        }
                    },
                }
                if is_listed {
                    visit.share(slot);
                    list.add(slot);
                }
                visit.pass(row, out);
                list.sweep(|gone| visit.remove(gone));
            }
            out.end_chunk(clock);
        }
        visit.finish();
    }

    fn needed(&self) -> &[usize] {
        &self.needed
    }

    fn content<'s>(&self, state: &'s Listed) -> Option<Held<'s>> {
        Some(Held::from(state.pool.rows(state.list.slots())))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    fn case() -> Case {
        Case::new("unique:length", &[t(), int(2)])
    }

    #[test]
    fn a_row_leaves_for_its_key_or_for_its_age() {
        check(
            &case(),
            "1~7@0 2~8@1 3~7@2 4~9@3 5~7@4",
            "C1@0 | C2@1 | E1@2 C3@2 | E2@3 C4@3 | E3@4 C5@4",
        );
        check_content(&case(), "1~7@0 2~8@1 3~7@2", "2 3", 0);
    }

    #[test]
    fn what_is_added_behind_a_replaced_end_is_not_found() {
        check_content(&case(), "1~7@0 2~8@1 3~8@2", "1", 0);
        check(
            &case(),
            "1~7@0 2~8@1 3~8@2 4~9@3 5~6@4",
            "C1@0 | C2@1 | E2@2 C3@2 | E1@3 C4@3 | E4@4 C5@4",
        );
    }

    #[test]
    fn a_key_that_is_null_fails() {
        check_failure(
            &case(),
            "1~7@0 2~-@1 3~7@2",
            "the key of window 'unique:length' is null",
            "C1@0 | E1@2 C3@2",
        );
    }
}
