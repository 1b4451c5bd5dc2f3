//! `#env:resourceIdentifier(group)`: a member of a group of resources.

use catalog::functions::env::FUNCTIONS as KNOWN;
use event::Value;
use plan::spec::FunctionSpec;

use super::each::{EachRow, Rows};
use crate::spec::runs;

static SPEC: FunctionSpec = runs(
    KNOWN,
    "resourceIdentifier",
    "define stream S (n int);
from S#env:resourceIdentifier('X') select n insert into Out;
---
send S 1
expect Out 1
",
);

/// Events pass; that the processor stands there is what `env:resourceBatch` counts.
pub const IDENTIFIER: EachRow = EachRow {
    spec: &SPEC,
    call: |_: &[Value], rows: &mut Rows<'_>| {
        rows.push(&[]);
        Ok(())
    },
    check: None,
    chunk_each: false,
};
