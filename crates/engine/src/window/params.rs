//! Parameters that several windows take, and the start of their specs.

use crate::spec::*;

pub(super) const LENGTH: Param = param("window.length", Types::INT, "How many events.").constant();

pub(super) const TIME: Param = param("window.time", Types::INT_LONG, "How long, in ms.").constant();

pub(super) const STREAM_CURRENT: Param = param(
    "stream.current.event",
    Types::BOOL,
    "Events pass at once; only their expiry comes in batches.",
)
.constant();

pub(super) const TIMESTAMP: Param =
    param("timestamp", Types::LONG, "Time of the event, in ms.").attribute();

pub(super) const EXPRESSION: Param = param(
    "expression",
    Types::STRING,
    "Condition over the content of the window.",
);

pub(super) const fn window(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
) -> FunctionSpec {
    function(
        FunctionKind::Window,
        "",
        name,
        "core",
        summary,
        overloads,
        Returns::Nothing,
    )
}
