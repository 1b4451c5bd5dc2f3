//! `unique:lengthBatch(key, n)` and `unique:firstLengthBatch(key, n)`: batches of n keys.

use super::super::key::KeyParts;
use super::super::per_key::{PerKey, Rule};
use super::super::pool::Visit;
use super::batch::{KeyBatch, collect};
use super::params::*;
use crate::component::*;
use crate::emission::Emission;
use crate::kept::Held;
use crate::spec::*;
use event::Batch;

/// The newest row of each key.
pub struct LengthBatch;

/// The first row of each key.
pub struct FirstLengthBatch;

static NEWEST: FunctionSpec = runs(
    window(
        "lengthBatch",
        "Batches of n keys, the newest event of each.",
        BY_LENGTH,
    ),
    "define stream S (ip string, n int);
from S#window.unique:lengthBatch(ip, 2) select sum(n) as total insert into Out;
---
send S @0 A 1
send S @100 A 2
send S @200 B 3
expect Out 5
",
);

static FIRST: FunctionSpec = runs(
    window(
        "firstLengthBatch",
        "Batches of n keys, the first event of each.",
        BY_LENGTH,
    ),
    "define stream S (ip string, n int);
from S#window.unique:firstLengthBatch(ip, 2) select sum(n) as total insert into Out;
---
send S @0 A 1
send S @100 A 2
send S @200 B 3
expect Out 4
",
);

impl Window for LengthBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &NEWEST
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        bind(setup, "unique:lengthBatch", false)
    }
}

impl Window for FirstLengthBatch {
    fn spec(&self) -> &'static FunctionSpec {
        &FIRST
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        bind(setup, "unique:firstLengthBatch", true)
    }
}

fn bind(
    setup: &WindowSetup<'_>,
    name: &str,
    keeps_first: bool,
) -> Result<Box<dyn WindowOperator>, Refused> {
    let rule = Counted {
        key: KeyParts::of_arguments(&setup.args[..1]),
        length: super::super::count(setup.args, 1, name)?,
        keeps_first,
    };
    Ok(PerKey::operator(setup, rule))
}

struct Counted {
    key: KeyParts,
    length: usize,
    keeps_first: bool,
}

impl Rule for Counted {
    type State = KeyBatch;

    /// A chunk per full batch (`UniqueLengthBatchWindowProcessor`; a chunk that fills several
    /// batches makes Siddhi send the same chunk several times).
    fn process(
        &mut self,
        state: &mut KeyBatch,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let mut row = 0;
        while row < batch.len {
            let mut visit = Visit::of_batch(&mut state.pool, batch, out);
            let rows = (batch, row..batch.len);
            let full = Some(self.length);
            row = collect(
                (&mut state.keys, &mut visit),
                &mut self.key,
                rows,
                self.keeps_first,
                full,
            );
            visit.finish();
            if full == Some(state.keys.len()) {
                state.flush(batch.clock_at(batch.chunk_of(row - 1)), out);
            }
        }
    }

    /// The rows that are pending.
    fn content<'s>(&self, state: &'s KeyBatch) -> Option<Held<'s>> {
        Some(Held::from(state.pending_rows()))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn a_batch_is_full_with_so_many_keys() {
        let case = Case::new("unique:lengthBatch", &[t(), int(2)]);
        check(
            &case,
            "1~7@0 2~7@1 3~8@2 4~8@3 5~9@4",
            "C2@2 C3@2 | E2@4 E3@4 R C4@4 C5@4",
        );
        check_content(&case, "1~7@0 2~7@1", "2", 0);
        check(
            &Case::new("unique:firstLengthBatch", &[t(), int(2)]),
            "1~7@0 [2~7 3~8 4~-]@2 5~9@4",
            "C1@2 C3@2 | E1@4 E3@4 R C4@4 C5@4",
        );
    }
}
