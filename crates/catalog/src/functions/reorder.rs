//! `#reorder:`, events put in the order of a timestamp.

use super::{known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const TS: Param = param("timestamp", Types::LONG, "Time of the event, in ms.");
const TIMEOUT: Param = param(
    "timeout",
    Types::LONG,
    "Releases what waits after so long, in ms.",
)
.constant();
const MAX_K: Param = param("max.k", Types::LONG, "Longest wait, in ms.").constant();
const DISCARD: Param = param(
    "discard.late.arrival",
    Types::BOOL,
    "Drops what comes too late.",
)
.constant();
const FIELD: Param = param(
    "correlation.field",
    Types::NUMBER,
    "Number whose quality decides the wait.",
);
const BATCH: Param = param("batch.size", Types::LONG, "Events between two adjustments.").constant();

const fn processor(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
) -> FunctionSpec {
    known(
        FunctionKind::StreamProcessor,
        "reorder",
        name,
        "execution-reorder",
        summary,
        overloads,
        Returns::Nothing,
    )
}

pub const FUNCTIONS: &[FunctionSpec] = &[
    processor(
        "kslack",
        "Orders events by waiting as long as the latest one was late.",
        &[
            Overload::new(&[TS]),
            Overload::new(&[TS, TIMEOUT]),
            Overload::new(&[TS, DISCARD]),
            Overload::new(&[TS, TIMEOUT, MAX_K]),
            Overload::new(&[TS, TIMEOUT, DISCARD]),
            Overload::new(&[TS, TIMEOUT, MAX_K, DISCARD]),
        ],
    ),
    processor(
        "akslack",
        "Orders events by a wait that follows their quality.",
        &[
            Overload::new(&[TS, FIELD]),
            Overload::new(&[TS, FIELD, BATCH]),
            Overload::new(&[TS, FIELD, BATCH, TIMEOUT]),
            Overload::new(&[TS, FIELD, BATCH, TIMEOUT, MAX_K]),
            Overload::new(&[TS, FIELD, BATCH, TIMEOUT, MAX_K, DISCARD]),
            Overload::new(&[
                TS,
                FIELD,
                BATCH,
                TIMEOUT,
                MAX_K,
                DISCARD,
                param("error.threshold", Types::DOUBLE, "Error allowed.").constant(),
                param("confidence.level", Types::DOUBLE, "How sure that is.").constant(),
            ]),
        ],
    ),
];
