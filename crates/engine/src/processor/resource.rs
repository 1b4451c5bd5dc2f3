//! `#env:resourceIdentifier(group)`: a member of a group of resources.

use event::Value;

use super::each::{EachRow, Rows};
use crate::spec::*;

const GROUP: Param = param(
    "resource.group.id",
    Types::STRING,
    "Name of the group of resources.",
)
.constant();

static SPEC: FunctionSpec = runs(
    function(
        FunctionKind::StreamProcessor,
        "env",
        "resourceIdentifier",
        "execution-env",
        "Counts as one member of a group of resources.",
        &[Overload::new(&[GROUP])],
        Returns::Nothing,
    ),
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
    is_chunk_per_event: false,
};
