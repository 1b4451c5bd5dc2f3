//! `math:`, numbers.

use super::{BOOL, DOUBLE, FLOAT, INT, LONG, NONE, STRING, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const X: Param = param("p1", Types::NUMBER, "The number.");
const Y: Param = param("p2", Types::NUMBER, "The second number.");
const REAL: Param = param("p1", Types::REAL, "The number, FLOAT or DOUBLE.");
const WHOLE: Param = param("p1", Types::INT_LONG, "The number, INT or LONG.");
const TEXT: Param = param("p1", Types::STRING, "The number as text.");

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "math",
        name,
        "execution-math",
        summary,
        overloads,
        returns,
    )
}

const ONE: &[Overload] = &[Overload::new(&[X])];
const TWO: &[Overload] = &[Overload::new(&[X, Y])];
const ONE_REAL: &[Overload] = &[Overload::new(&[REAL])];
const ONE_WHOLE: &[Overload] = &[Overload::new(&[WHOLE])];
const ONE_TEXT: &[Overload] = &[Overload::new(&[TEXT])];

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar("abs", "The number without its sign.", ONE, DOUBLE),
    scalar("acos", "Arc cosine in radians.", ONE_REAL, DOUBLE),
    scalar("asin", "Arc sine in radians.", ONE_REAL, DOUBLE),
    scalar(
        "atan",
        "Arc tangent in radians, of a number or of y and x.",
        &[Overload::new(&[X]), Overload::new(&[X, Y])],
        DOUBLE,
    ),
    scalar("bin", "Binary form.", ONE_WHOLE, STRING),
    scalar("cbrt", "Cube root.", ONE, DOUBLE),
    scalar("ceil", "The next whole number above.", ONE_REAL, DOUBLE),
    scalar(
        "conv",
        "A number in another base.",
        &[Overload::new(&[
            param("a", Types::STRING, "The number as text."),
            param("from.base", Types::INT, "Its base."),
            param("to.base", Types::INT, "The new base."),
        ])],
        STRING,
    ),
    scalar(
        "copySign",
        "A number with the sign of another.",
        TWO,
        DOUBLE,
    ),
    scalar("cos", "Cosine of an angle in radians.", ONE, DOUBLE),
    scalar("cosh", "Hyperbolic cosine.", ONE, DOUBLE),
    scalar("e", "The number e.", &[NONE], DOUBLE),
    scalar("exp", "e to the power.", ONE, DOUBLE),
    scalar("floor", "The next whole number below.", ONE, DOUBLE),
    scalar("getExponent", "Exponent of the binary form.", ONE, INT),
    scalar("hex", "Hexadecimal form.", ONE, STRING),
    scalar(
        "isInfinite",
        "Whether a number is infinite.",
        ONE_REAL,
        BOOL,
    ),
    scalar("isNan", "Whether it is not a number.", ONE_REAL, BOOL),
    scalar("ln", "Natural logarithm.", ONE, DOUBLE),
    scalar("log", "Logarithm to a base.", TWO, DOUBLE),
    scalar("log10", "Logarithm to base 10.", ONE, DOUBLE),
    scalar("log2", "Logarithm to base 2.", ONE, DOUBLE),
    scalar("max", "The larger number.", TWO, DOUBLE),
    scalar("min", "The smaller number.", TWO, DOUBLE),
    scalar("oct", "Octal form.", ONE_WHOLE, STRING),
    scalar("parseDouble", "A text as DOUBLE.", ONE_TEXT, DOUBLE),
    scalar("parseFloat", "A text as FLOAT.", ONE_TEXT, FLOAT),
    scalar("parseInt", "A text as INT.", ONE_TEXT, INT),
    scalar("parseLong", "A text as LONG.", ONE_TEXT, LONG),
    scalar("pi", "The number pi.", &[NONE], DOUBLE),
    scalar("power", "A number to the power of another.", TWO, DOUBLE),
    scalar(
        "rand",
        "A random number from 0 to 1.",
        &[
            NONE,
            Overload::new(&[param("seed", Types::INT_LONG, "Start of the sequence.").constant()]),
        ],
        DOUBLE,
    ),
    scalar(
        "round",
        "The nearest whole number, INT of FLOAT and LONG of DOUBLE.",
        ONE_REAL,
        Returns::Rounded(0),
    ),
    scalar("signum", "-1, 0 or 1 by the sign.", ONE, INT),
    scalar("sin", "Sine of an angle in radians.", ONE, DOUBLE),
    scalar("sinh", "Hyperbolic sine.", ONE, DOUBLE),
    scalar("sqrt", "Square root.", ONE, DOUBLE),
    scalar("tan", "Tangent of an angle in radians.", ONE, DOUBLE),
    scalar("tanh", "Hyperbolic tangent.", ONE, DOUBLE),
    scalar("toDegrees", "An angle in radians as degrees.", ONE, DOUBLE),
    scalar("toRadians", "An angle in degrees as radians.", ONE, DOUBLE),
    known(
        FunctionKind::Aggregator,
        "math",
        "percentile",
        "execution-math",
        "The value below which a share of all values lies.",
        &[Overload::new(&[
            param("arg", Types::NUMBER, "The value."),
            param("p", Types::DOUBLE, "The share, above 0 and up to 100.").constant(),
        ])],
        DOUBLE,
    ),
];
