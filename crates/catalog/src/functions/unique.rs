//! `unique:`, windows that keep one event for each key.

use super::{known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const KEY: Param = param("unique.key", Types::BASIC, "What must be unique.");
const LENGTH: Param = param("window.length", Types::INT, "How many keys.").constant();
const TIME: Param = param("window.time", Types::INT_LONG, "How long, in ms.").constant();
const START: Param = param(
    "start.time",
    Types::INT_LONG,
    "Boundaries are this plus multiples of the time.",
)
.constant();
const TS: Param = param("time.stamp", Types::LONG, "Time of the event, in ms.");
const START_INT: Param = param(
    "start.time",
    Types::INT_LONG,
    "Boundaries are this plus multiples of the time.",
);
const TIMEOUT: Param = param(
    "time.out",
    Types::INT_LONG,
    "Flushes after so long without an event, in ms.",
)
.constant();
const REPLACE: Param = param(
    "replace.time.stamp.with.batch.end.time",
    Types::BOOL,
    "Writes the end of the batch into the timestamp.",
)
.constant();

const fn window(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
) -> FunctionSpec {
    known(
        FunctionKind::Window,
        "unique",
        name,
        "execution-unique",
        summary,
        overloads,
        Returns::Nothing,
    )
}

const KEYS: &[Overload] = &[Overload::repeating(&[KEY], 1)];
const BY_LENGTH: &[Overload] = &[Overload::new(&[KEY, LENGTH])];
const BY_TIME: &[Overload] = &[
    Overload::new(&[KEY, TIME]),
    Overload::new(&[KEY, TIME, START]),
];

pub const FUNCTIONS: &[FunctionSpec] = &[
    window("ever", "The newest event of each key.", KEYS),
    window("first", "The first event of each key.", KEYS),
    window("length", "The newest events of the last n keys.", BY_LENGTH),
    window(
        "time",
        "The newest event of each key in the last T.",
        &[Overload::new(&[KEY, TIME])],
    ),
    window(
        "lengthBatch",
        "Batches of n keys, the newest event of each.",
        BY_LENGTH,
    ),
    window(
        "firstLengthBatch",
        "Batches of n keys, the first event of each.",
        BY_LENGTH,
    ),
    window(
        "timeBatch",
        "Batches of T, the newest event of each key.",
        BY_TIME,
    ),
    window(
        "firstTimeBatch",
        "Batches of T, the first event of each key.",
        BY_TIME,
    ),
    window(
        "timeLengthBatch",
        "Batches of T or of n keys, whichever is first.",
        &[
            Overload::new(&[KEY, TIME, LENGTH]),
            Overload::new(&[KEY, TIME, START, LENGTH]),
        ],
    ),
    window(
        "externalTimeBatch",
        "Batches of T by an attribute, the newest event of each key.",
        &[
            Overload::new(&[KEY, TS, TIME]),
            Overload::new(&[KEY, TS, TIME, START_INT]),
            Overload::new(&[KEY, TS, TIME, START_INT, TIMEOUT]),
            Overload::new(&[KEY, TS, TIME, START_INT, TIMEOUT, REPLACE]),
        ],
    ),
    known(
        FunctionKind::StreamProcessor,
        "unique",
        "deduplicate",
        "execution-unique",
        "Drops events of a key that has passed less than T before.",
        &[Overload::new(&[
            KEY,
            // Siddhi declares INT as well, and then fails to cast it.
            param("time.interval", Types::LONG, "How long, in ms.").constant(),
        ])],
        Returns::Nothing,
    ),
];
