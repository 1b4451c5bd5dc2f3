//! `time:`, dates and times as text and as milliseconds.

use super::{INT, LONG, NONE, STRING, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const DATE: Param = param("date.value", Types::STRING, "A date or time.");
const DATE1: Param = param("date.value1", Types::STRING, "The later date.");
const DATE2: Param = param("date.value2", Types::STRING, "The earlier date.");
const FORMAT: Param = param(
    "date.format",
    Types::STRING,
    "Its format; default `yyyy-MM-dd HH:mm:ss.SSS`.",
);
const MILLIS: Param = param("timestamp.in.milliseconds", Types::LONG, "A time in ms.");
const COUNT: Param = param("expr", Types::INT, "How many.");
const UNIT: Param = param(
    "unit",
    Types::STRING,
    "YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND.",
)
.constant();
const TARGET: Param = param("date.target.format", Types::STRING, "Format of the result.");
const LOCALE: Param = param("locale", Types::STRING, "Language whose weeks count.").constant();
const ZONE: Param = param("time.zone", Types::STRING, "Id of a time zone.");

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "time",
        name,
        "execution-time",
        summary,
        overloads,
        returns,
    )
}

const SHIFT: &[Overload] = &[
    Overload::new(&[DATE, COUNT, UNIT]),
    Overload::new(&[MILLIS, COUNT, UNIT]),
    Overload::new(&[DATE, COUNT, UNIT, FORMAT]),
];

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar("currentDate", "Today, as `yyyy-MM-dd`.", &[NONE], STRING),
    scalar(
        "currentTime",
        "The time of day, as `HH:mm:ss`.",
        &[NONE],
        STRING,
    ),
    scalar(
        "currentTimestamp",
        "Now, as `yyyy-MM-dd HH:mm:ss`.",
        &[NONE, Overload::new(&[ZONE])],
        STRING,
    ),
    scalar(
        "date",
        "The date of a time.",
        // Siddhi declares the form with one argument and refuses it when the app is made.
        &[Overload::new(&[DATE, FORMAT]), Overload::new(&[DATE])],
        STRING,
    ),
    scalar("dateAdd", "A time later by some units.", SHIFT, STRING),
    scalar(
        "dateDiff",
        "Days between two times.",
        &[
            Overload::new(&[
                DATE1,
                DATE2,
                param("date.format1", Types::STRING, "Format of the first."),
                param("date.format2", Types::STRING, "Format of the second."),
            ]),
            Overload::new(&[DATE1, DATE2]),
            Overload::new(&[
                param(
                    "timestamp.in.milliseconds1",
                    Types::LONG,
                    "The later time in ms.",
                ),
                param(
                    "timestamp.in.milliseconds2",
                    Types::LONG,
                    "The earlier time in ms.",
                ),
            ]),
        ],
        LONG,
    ),
    scalar(
        "dateFormat",
        "A time in another format.",
        &[
            Overload::new(&[
                DATE,
                TARGET,
                param("date.source.format", Types::STRING, "Format of the value."),
            ]),
            Overload::new(&[DATE, TARGET]),
            Overload::new(&[MILLIS, TARGET]),
        ],
        STRING,
    ),
    scalar("dateSub", "A time earlier by some units.", SHIFT, STRING),
    scalar(
        "dayOfWeek",
        "Name of the day.",
        &[Overload::new(&[DATE, FORMAT]), Overload::new(&[DATE])],
        STRING,
    ),
    scalar(
        "extract",
        "One unit of a time as a number.",
        &[
            Overload::new(&[UNIT, DATE]),
            Overload::new(&[UNIT, DATE, FORMAT]),
            Overload::new(&[UNIT, DATE, FORMAT, LOCALE]),
            Overload::new(&[MILLIS, UNIT]),
            Overload::new(&[MILLIS, UNIT, LOCALE]),
        ],
        INT,
    ),
    scalar(
        "timestampInMilliseconds",
        "A time in milliseconds; now without an argument.",
        &[NONE, Overload::new(&[DATE, FORMAT]), Overload::new(&[DATE])],
        LONG,
    ),
    scalar(
        "timezoneConvert",
        "A time in another time zone.",
        &[
            Overload::new(&[
                DATE,
                FORMAT,
                param("target.time.zone", Types::STRING, "Zone of the result."),
            ]),
            Overload::new(&[
                DATE,
                FORMAT,
                param("target.time.zone", Types::STRING, "Zone of the result."),
                param("source.time.zone", Types::STRING, "Zone of the value."),
            ]),
        ],
        STRING,
    ),
    scalar(
        "utcTimestamp",
        "Now in UTC.",
        &[NONE, Overload::new(&[FORMAT])],
        STRING,
    ),
];
