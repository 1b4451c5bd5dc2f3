//! Scalar functions, aggregators and stream processors of Siddhi's core.

use event::Type;

use super::{BOOL, DOUBLE, INT, LONG, NONE, OBJECT, STRING, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const ANY: Param = param("arg", Types::ANY, "The value.");
const NUMBER: Param = param("arg", Types::NUMBER, "The value.");
const CONDITION: Param = param("condition", Types::BOOL, "What decides.");
const SET: Param = param("set", Types::OBJECT, "A set.");
const TO: Param = param(
    "to",
    Types::STRING,
    "Name of the type: int, long, float, double, string or bool.",
)
.constant();

/// `ifThenElse` takes two values of one type, whatever it is.
const fn choice(ty: Type) -> Overload {
    const fn branches(ty: Type) -> &'static [Param] {
        macro_rules! of {
            ($types:expr) => {
                const {
                    &[
                        CONDITION,
                        param(
                            "if.expression",
                            $types,
                            "The value where the condition is true.",
                        ),
                        param(
                            "else.expression",
                            $types,
                            "The value where it is false or null.",
                        ),
                    ]
                }
            };
        }
        match ty {
            Type::String => of!(Types::STRING),
            Type::Int => of!(Types::INT),
            Type::Long => of!(Types::LONG),
            Type::Float => of!(Types::FLOAT),
            Type::Double => of!(Types::DOUBLE),
            Type::Bool => of!(Types::BOOL),
            Type::Object => of!(Types::OBJECT),
        }
    }
    Overload::new(branches(ty))
}

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "",
        name,
        "core",
        summary,
        overloads,
        returns,
    )
}

const fn aggregator(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Aggregator,
        "",
        name,
        "core",
        summary,
        overloads,
        returns,
    )
}

const ONE_ANY: &[Overload] = &[Overload::new(&[ANY])];
const ONE_NUMBER: &[Overload] = &[Overload::new(&[NUMBER])];
const ONE_BOOL: &[Overload] = &[Overload::new(&[param("arg", Types::BOOL, "The value.")])];
const SAME_ANY: &[Overload] = &[Overload::repeating(&[ANY], 1).same_type()];
const SAME_NUMBER: &[Overload] = &[Overload::repeating(&[NUMBER], 1).same_type()];
const COUNTABLE: Types = Types::of(&[
    Type::Int,
    Type::Long,
    Type::Double,
    Type::Float,
    Type::String,
]);

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar(
        "cast",
        "Names the type of a value without converting it.",
        &[Overload::new(&[ANY, TO])],
        Returns::Named(1),
    ),
    scalar(
        "coalesce",
        "The first argument that is not null.",
        SAME_ANY,
        Returns::Argument(0),
    ),
    scalar(
        "convert",
        "Converts a value to another type; null where it cannot.",
        &[Overload::new(&[ANY, TO])],
        Returns::Named(1),
    ),
    scalar(
        "createSet",
        "A set that holds the value.",
        &[Overload::new(&[param("input", Types::BASIC, "The value.")])],
        OBJECT,
    ),
    scalar(
        "currentTimeMillis",
        "The clock of the app, in milliseconds.",
        &[NONE],
        LONG,
    ),
    scalar(
        "default",
        "The value, or another where it is null.",
        &[Overload::new(&[
            ANY,
            param("default", Types::ANY, "The value instead of null."),
        ])
        .same_type()],
        Returns::Argument(0),
    ),
    scalar(
        "eventTimestamp",
        "Timestamp of the event, or of an event of a pattern.",
        &[
            NONE,
            Overload::new(&[param("event", Types::ANY, "Reference of an event.")]),
        ],
        LONG,
    ),
    scalar(
        "ifThenElse",
        "One of two values, by a condition.",
        &[
            choice(Type::String),
            choice(Type::Int),
            choice(Type::Long),
            choice(Type::Float),
            choice(Type::Double),
            choice(Type::Bool),
            choice(Type::Object),
        ],
        Returns::Argument(1),
    ),
    scalar(
        "instanceOfBoolean",
        "Whether the value is a BOOL.",
        ONE_ANY,
        BOOL,
    ),
    scalar(
        "instanceOfDouble",
        "Whether the value is a DOUBLE.",
        ONE_ANY,
        BOOL,
    ),
    scalar(
        "instanceOfFloat",
        "Whether the value is a FLOAT.",
        ONE_ANY,
        BOOL,
    ),
    scalar(
        "instanceOfInteger",
        "Whether the value is an INT.",
        ONE_ANY,
        BOOL,
    ),
    scalar(
        "instanceOfLong",
        "Whether the value is a LONG.",
        ONE_ANY,
        BOOL,
    ),
    scalar(
        "instanceOfString",
        "Whether the value is a STRING.",
        ONE_ANY,
        BOOL,
    ),
    scalar(
        "maximum",
        "The largest argument.",
        SAME_NUMBER,
        Returns::Argument(0),
    ),
    scalar(
        "minimum",
        "The smallest argument.",
        SAME_NUMBER,
        Returns::Argument(0),
    ),
    scalar(
        "sizeOfSet",
        "How many values a set holds.",
        &[Overload::new(&[SET])],
        INT,
    ),
    scalar("UUID", "A random identifier.", &[NONE], STRING),
    aggregator("and", "True when all values are.", ONE_BOOL, BOOL),
    aggregator("avg", "Mean of the values.", ONE_NUMBER, DOUBLE),
    aggregator(
        "count",
        "How many events there are.",
        &[NONE, Overload::new(&[ANY])],
        LONG,
    ),
    aggregator(
        "distinctCount",
        "How many different values there are.",
        &[Overload::new(&[param("arg", COUNTABLE, "The value.")])],
        LONG,
    ),
    aggregator(
        "max",
        "The largest value.",
        ONE_NUMBER,
        Returns::Argument(0),
    ),
    aggregator(
        "maxForever",
        "The largest value so far, also of events that have left.",
        ONE_NUMBER,
        Returns::Argument(0),
    ),
    aggregator(
        "min",
        "The smallest value.",
        ONE_NUMBER,
        Returns::Argument(0),
    ),
    aggregator(
        "minForever",
        "The smallest value so far, also of events that have left.",
        ONE_NUMBER,
        Returns::Argument(0),
    ),
    aggregator("or", "True when any value is.", ONE_BOOL, BOOL),
    aggregator(
        "stdDev",
        "Standard deviation of the values.",
        ONE_NUMBER,
        DOUBLE,
    ),
    aggregator("sum", "Sum of the values.", ONE_NUMBER, Returns::Widened(0)),
    aggregator(
        "unionSet",
        "Union of the sets.",
        &[Overload::new(&[SET])],
        OBJECT,
    ),
    FunctionSpec {
        adds: &[("x", Type::Double), ("y", Type::Double)],
        ..known(
            FunctionKind::StreamProcessor,
            "",
            "pol2Cart",
            "core",
            "Cartesian coordinates of polar ones; the angle is in degrees.",
            &[
                Overload::new(&[
                    param("theta", Types::DOUBLE, "Angle in degrees."),
                    param("rho", Types::DOUBLE, "Distance."),
                ]),
                Overload::new(&[
                    param("theta", Types::DOUBLE, "Angle in degrees."),
                    param("rho", Types::DOUBLE, "Distance."),
                    param("z", Types::DOUBLE, "Height."),
                ])
                .adding(&[("z", Type::Double)]),
            ],
            Returns::Nothing,
        )
    },
];
