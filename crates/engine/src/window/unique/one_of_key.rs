//! `unique:ever(key, …)`: the newest row of each key. `unique:first(key, …)`: its first, for ever.

use super::super::key::KeyParts;
use super::super::per_key::{PerKey, Rule};
use super::super::pool::Visit;
use super::Newest;
use super::params::*;
use crate::component::*;
use crate::emission::Emission;
use crate::kept::Held;
use crate::spec::*;
use event::Batch;

/// A window that holds one row of each key.
pub struct OneOfKey {
    keeps_first: bool,
    spec: &'static FunctionSpec,
}

const KEYS: &[Overload] = &[Overload::repeating(&[KEY], 1)];

static EVER_SPEC: FunctionSpec = runs(
    window("ever", "The newest event of each key.", KEYS),
    "define stream S (ip string, n int);
from S#window.unique:ever(ip) select ip, sum(n) as total insert into Out;
---
send S @0 A 1
send S @100 B 2
send S @200 A 3
expect Out A 1
expect Out B 3
expect Out A 5
",
);

static FIRST_SPEC: FunctionSpec = runs(
    window("first", "The first event of each key.", KEYS),
    "define stream S (ip string, n int);
from S#window.unique:first(ip) select ip, n insert into Out;
---
send S @0 A 1
send S @100 A 2
send S @200 B 3
expect Out A 1
expect Out B 3
",
);

pub static EVER: OneOfKey = OneOfKey {
    keeps_first: false,
    spec: &EVER_SPEC,
};

pub static FIRST: OneOfKey = OneOfKey {
    keeps_first: true,
    spec: &FIRST_SPEC,
};

impl Window for OneOfKey {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let rule = Choice {
            key: KeyParts::of_arguments(setup.args),
            keeps_first: self.keeps_first,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Choice {
    key: KeyParts,
    keeps_first: bool,
}

impl Rule for Choice {
    type State = Newest;

    /// `[E, C]` per event of a known key (`UniqueEverWindowProcessor`), or nothing
    /// (`UniqueFirstWindowProcessor`).
    fn process(
        &mut self,
        state: &mut Newest,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let Newest { pool, keys } = state;
        let mut visit = Visit::of_batch(pool, batch, out);
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                let key = self.key.joined(batch, row);
                if self.keeps_first && keys.get(key).is_some() {
                    continue;
                }
                if let Some(old) = keys.insert(key, visit.add(row)) {
                    visit.emit(old, true, Some(clock), out);
                    visit.remove(old);
                }
                visit.pass(row, out);
            }
            out.end_chunk(clock);
        }
        visit.finish();
    }

    fn content<'s>(&self, state: &'s Newest) -> Option<Held<'s>> {
        Some(state.pool.rows_by_text_hash(&state.keys))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn the_row_before_leaves_first() {
        let case = Case::new("unique:ever", &[t()]);
        check(
            &case,
            "1~7@0 2~8@1 [3~7 4~7]@2 5~-@3 6~-@4",
            "C1@0 | C2@1 | E1@2 C3@2 E3@2 C4@2 | C5@3 | E5@4 C6@4",
        );
        check_content(&case, "1~8@0 2~7@1 3~8@2", "2 3", 0);
    }

    #[test]
    fn parts_of_a_key_stand_one_behind_the_other() {
        check(
            &Case::new("unique:ever", &[v(), t()]),
            "1~23@0 12~3@1",
            "C1@0 | E1@1 C12@1",
        );
    }

    #[test]
    fn only_the_first_row_of_a_key_passes() {
        let case = Case::new("unique:first", &[t()]);
        check(&case, "1~7@0 2~7@1 [3~8 4~7 5~8 6~9]@2", "C1@0 | C3@2 C6@2");
        check_content(&case, "1~7@0 2~7@1 3~8@2", "1 3", 0);
    }
}
