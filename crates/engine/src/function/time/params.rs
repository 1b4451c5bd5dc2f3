//! Parameters that several functions of `time:` take, and the start of their specs.

use crate::spec::*;

pub(super) const DATE: Param = param("date.value", Types::STRING, "A date or time.");

pub(super) const DATE1: Param = param("date.value1", Types::STRING, "The later date.");

pub(super) const DATE2: Param = param("date.value2", Types::STRING, "The earlier date.");

pub(super) const FORMAT: Param = param(
    "date.format",
    Types::STRING,
    "Its format; default `yyyy-MM-dd HH:mm:ss.SSS`.",
);

pub(super) const MILLIS: Param = param("timestamp.in.milliseconds", Types::LONG, "A time in ms.");

pub(super) const COUNT: Param = param("expr", Types::INT, "How many.");

pub(super) const UNIT: Param = param(
    "unit",
    Types::STRING,
    "YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND.",
)
.constant();

pub(super) const TARGET: Param =
    param("date.target.format", Types::STRING, "Format of the result.");

pub(super) const LOCALE: Param =
    param("locale", Types::STRING, "Language whose weeks count.").constant();

pub(super) const ZONE: Param = param("time.zone", Types::STRING, "Id of a time zone.");

pub(super) const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    function(
        FunctionKind::Scalar,
        "time",
        name,
        "execution-time",
        summary,
        overloads,
        returns,
    )
}

pub(super) const SHIFT: &[Overload] = &[
    Overload::new(&[DATE, COUNT, UNIT]),
    Overload::new(&[MILLIS, COUNT, UNIT]),
    Overload::new(&[DATE, COUNT, UNIT, FORMAT]),
];
