//! `unique:first(key, …)`: the first row of each key, for ever.

use super::super::key::KeyParts;
use super::super::per_key::{PerKey, Rule};
use super::super::pool::Visit;
use super::Newest;
use crate::component::*;
use crate::emission::Emission;
use crate::spec::runs;
use crate::window::Held;
use event::Batch;
use lang::catalog::functions::unique::FUNCTIONS as KNOWN;
use lang::spec::FunctionSpec;

pub struct First;

static SPEC: FunctionSpec = runs(
    KNOWN,
    "first",
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

impl Window for First {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let key = KeyParts::of_arguments(setup.args);
        Ok(PerKey::operator(setup, FirstOfKey { key }))
    }
}

struct FirstOfKey {
    key: KeyParts,
}

impl Rule for FirstOfKey {
    type State = Newest;

    /// Rows of a known key are dropped (`UniqueFirstWindowProcessor`).
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
            for row in batch.chunk(chunk) {
                let key = self.key.joined(batch, row);
                if keys.get(key).is_none() {
                    keys.insert(key, visit.add(row));
                    visit.pass(row, out);
                }
            }
            out.end_chunk(batch.clock_at(chunk));
        }
        visit.finish();
    }

    fn content<'s>(&self, state: &'s Newest) -> Option<Held<'s>> {
        let kept = state.keys.by_text_hash().into_iter();
        Some(Held::from(state.pool.rows(kept.map(|(_, slot)| *slot))))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn only_the_first_row_of_a_key_passes() {
        let case = Case::new("unique:first", &[t()]);
        check(&case, "1~7@0 2~7@1 [3~8 4~7 5~8 6~9]@2", "C1@0 | C3@2 C6@2");
        check_content(&case, "1~7@0 2~7@1 3~8@2", "1 3", 0);
    }
}
