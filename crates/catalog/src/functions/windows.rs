//! Windows of Siddhi's core.

use super::{known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const LENGTH: Param = param("window.length", Types::INT, "How many events.").constant();
const TIME: Param = param("window.time", Types::INT_LONG, "How long, in ms.").constant();
const STREAM_CURRENT: Param = param(
    "stream.current.event",
    Types::BOOL,
    "Events pass at once; only their expiry comes in batches.",
)
.constant();
const TIMESTAMP: Param = param("timestamp", Types::LONG, "Time of the event, in ms.").attribute();
const START: Param = param(
    "start.time",
    Types::INT_LONG,
    "Boundaries are this plus multiples of the time.",
)
.constant();
/// A constant, or a LONG attribute: the value of the first event.
const START_OR_ATTRIBUTE: Param = param(
    "start.time",
    Types::INT_LONG,
    "Boundaries are this plus multiples of the time.",
);
const TIMEOUT: Param = param(
    "timeout",
    Types::INT_LONG,
    "Flushes after so long without an event, in ms.",
)
.constant();
const REPLACE: Param = param(
    "replace.with.batchtime",
    Types::BOOL,
    "Writes the end of the batch into the timestamp.",
)
.constant();
// Siddhi declares INT as well, and then fails to cast it.
const GAP: Param = param(
    "session.gap",
    Types::LONG,
    "Quiet time that ends a session, in ms.",
)
.constant();
const KEY: Param = param(
    "session.key",
    Types::STRING,
    "Sessions are kept apart by it.",
);
const LATENCY: Param = param(
    "allowed.latency",
    Types::LONG,
    "How late an event may come, in ms.",
)
.constant();
const EXPRESSION: Param = param(
    "expression",
    Types::STRING,
    "Condition over the content of the window.",
);
const SORT_KEY: Types = Types(Types::NUMBER.0 | Types::STRING.0);

const fn window(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
) -> FunctionSpec {
    known(
        FunctionKind::Window,
        "",
        name,
        "core",
        summary,
        overloads,
        Returns::Nothing,
    )
}

pub const FUNCTIONS: &[FunctionSpec] = &[
    window("length", "The last n events.", &[Overload::new(&[LENGTH])]),
    window(
        "lengthBatch",
        "Batches of n events.",
        &[
            Overload::new(&[LENGTH]),
            Overload::new(&[LENGTH, STREAM_CURRENT]),
        ],
    ),
    window(
        "time",
        "The events of the last T.",
        &[Overload::new(&[TIME])],
    ),
    window(
        "timeBatch",
        "Batches of T.",
        &[
            Overload::new(&[TIME]),
            Overload::new(&[TIME, START]),
            Overload::new(&[TIME, STREAM_CURRENT]),
            Overload::new(&[TIME, START, STREAM_CURRENT]),
        ],
    ),
    window(
        "timeLength",
        "The events of the last T, n at most.",
        &[Overload::new(&[TIME, LENGTH])],
    ),
    window(
        "externalTime",
        "The events of the last T by an attribute.",
        &[Overload::new(&[TIMESTAMP, TIME])],
    ),
    window(
        "externalTimeBatch",
        "Batches of T by an attribute.",
        &[
            Overload::new(&[TIMESTAMP, TIME]),
            Overload::new(&[TIMESTAMP, TIME, START_OR_ATTRIBUTE]),
            Overload::new(&[TIMESTAMP, TIME, START_OR_ATTRIBUTE, TIMEOUT]),
            Overload::new(&[TIMESTAMP, TIME, START_OR_ATTRIBUTE, TIMEOUT, REPLACE]),
        ],
    ),
    window(
        "batch",
        "Each chunk as it came in.",
        &[
            Overload::new(&[]),
            Overload::new(&[
                param("chunk.length", Types::INT, "Cuts larger chunks; 0: never.").constant(),
            ]),
        ],
    ),
    window(
        "session",
        "Events until a quiet time.",
        &[
            Overload::new(&[GAP]),
            Overload::new(&[GAP, KEY]),
            Overload::new(&[GAP, LATENCY]),
            Overload::new(&[GAP, KEY, LATENCY]),
        ],
    ),
    window(
        "sort",
        "The n first events of an order.",
        &[
            Overload::new(&[LENGTH, param("attribute", SORT_KEY, "What is ordered by.")]),
            Overload::repeating(
                &[
                    LENGTH,
                    param("attribute", SORT_KEY, "What is ordered by."),
                    param("order", SORT_KEY, "'asc' or 'desc', or the next attribute."),
                ],
                1,
            ),
        ],
    ),
    window(
        "delay",
        "Holds each event for T.",
        &[Overload::new(&[TIME])],
    ),
    FunctionSpec {
        findable: false,
        ..window(
            "cron",
            "Batches that end at the times of a schedule.",
            &[Overload::new(&[param(
                "cron.expression",
                Types::STRING,
                "Quartz expression.",
            )
            .constant()])],
        )
    },
    window(
        "frequent",
        "Events of the n most frequent keys (deprecated).",
        &[
            Overload::new(&[param("event.count", Types::INT, "How many keys.").constant()]),
            Overload::repeating(
                &[
                    param("event.count", Types::INT, "How many keys.").constant(),
                    param("attribute", Types::BASIC, "Part of the key."),
                ],
                1,
            ),
        ],
    ),
    window(
        "lossyFrequent",
        "Events of keys above a share (deprecated).",
        // Siddhi declares the form without an error as well, and then fails to make the window.
        &[
            Overload::new(&[SUPPORT, ERROR_BOUND]),
            Overload::repeating(
                &[
                    SUPPORT,
                    ERROR_BOUND,
                    param("attribute", Types::BASIC, "Part of the key."),
                ],
                1,
            ),
        ],
    ),
    window(
        "expression",
        "Events while a condition over them holds.",
        &[Overload::new(&[EXPRESSION])],
    ),
    window(
        "expressionBatch",
        "Batches that end when a condition over them fails.",
        &[
            Overload::new(&[EXPRESSION]),
            Overload::new(&[EXPRESSION, INCLUDE_TRIGGER]),
            Overload::new(&[EXPRESSION, INCLUDE_TRIGGER, STREAM_CURRENT_DYNAMIC]),
        ],
    ),
];

const SUPPORT: Param = param(
    "support.threshold",
    Types::DOUBLE,
    "Share of all events, 0 to 1.",
)
.constant();
const ERROR_BOUND: Param = param(
    "error.bound",
    Types::DOUBLE,
    "Error allowed; a tenth of the share is usual.",
)
.constant();
const INCLUDE_TRIGGER: Param = param(
    "include.triggering.event",
    Types::BOOL,
    "The event that ends a batch belongs to it.",
);
const STREAM_CURRENT_DYNAMIC: Param =
    param("stream.current.event", Types::BOOL, "Events pass at once.");
