//! `math:`: functions on numbers, computed in double. A null argument gives null.

mod base;
mod params;
mod random;

use event::Value;

use super::number::{parse_integer, parse_real};
use super::row::{Row, RowFunction, null_in_null_out, row, text, wrong};
use crate::component::Function;
use crate::spec::*;
use params::*;

/// A function of one number.
macro_rules! one {
    ($name:literal, $summary:literal, $overloads:expr, $function:expr) => {
        row!(
            scalar($name, $summary, $overloads, DOUBLE),
            |args, _| {
                let function: fn(f64) -> f64 = $function;
                computed(args, |x| Value::Double(function(x)))
            },
            const { concat!("math:", $name, "(price) as x") }
        )
    };
}

/// A function of two numbers.
macro_rules! two {
    ($name:literal, $summary:literal, $overloads:expr, $function:expr) => {
        row!(
            scalar($name, $summary, $overloads, DOUBLE),
            |args, _| {
                let function: fn(f64, f64) -> f64 = $function;
                computed_of_two(args, function)
            },
            const { concat!("math:", $name, "(price, 2.0) as x") }
        )
    };
}

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    one!("abs", "The number without its sign.", ONE, f64::abs),
    one!("acos", "Arc cosine in radians.", ONE_REAL, f64::acos),
    one!("asin", "Arc sine in radians.", ONE_REAL, f64::asin),
    row!(
        scalar(
            "atan",
            "Arc tangent in radians, of a number or of y and x.",
            &[Overload::new(&[X]), Overload::new(&[X, Y])],
            DOUBLE,
        ),
        atan,
        "math:atan(price) as x"
    ),
    row!(
        scalar("bin", "Binary form.", ONE_WHOLE, STRING),
        base::bin,
        "math:bin(9) as s"
    ),
    one!("cbrt", "Cube root.", ONE, f64::cbrt),
    one!("ceil", "The next whole number above.", ONE_REAL, f64::ceil),
    row!(
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
        base::conv,
        "math:conv('7f', 16, 10) as s"
    ),
    two!(
        "copySign",
        "A number with the sign of another.",
        TWO,
        f64::copysign
    ),
    one!("cos", "Cosine of an angle in radians.", ONE, f64::cos),
    one!("cosh", "Hyperbolic cosine.", ONE, f64::cosh),
    row!(
        scalar("e", "The number e.", &[NONE], DOUBLE),
        |_, _| Ok(Value::Double(std::f64::consts::E)),
        "math:e() as x"
    )
    .infallible(),
    one!("exp", "e to the power.", ONE, f64::exp),
    one!("floor", "The next whole number below.", ONE, f64::floor),
    row!(
        scalar("getExponent", "Exponent of the binary form.", ONE, INT),
        base::get_exponent,
        "math:getExponent(price) as n"
    ),
    row!(
        scalar("hex", "Hexadecimal form.", ONE, STRING),
        base::hex,
        "math:hex(200) as s"
    ),
    row!(
        scalar(
            "isInfinite",
            "Whether a number is infinite.",
            ONE_REAL,
            BOOL,
        ),
        is_infinite,
        "math:isInfinite(price) as b"
    ),
    row!(
        scalar("isNan", "Whether it is not a number.", ONE_REAL, BOOL),
        is_nan,
        "math:isNan(price) as b"
    ),
    one!("ln", "Natural logarithm.", ONE, f64::ln),
    row!(
        scalar("log", "Logarithm to a base.", TWO, DOUBLE),
        log,
        "math:log(price, 2.0) as x"
    ),
    one!("log10", "Logarithm to base 10.", ONE, f64::log10),
    one!("log2", "Logarithm to base 2.", ONE, |x| x.ln()
        / std::f64::consts::LN_2),
    two!("max", "The larger number.", TWO, larger),
    two!("min", "The smaller number.", TWO, smaller),
    row!(
        scalar("oct", "Octal form.", ONE_WHOLE, STRING),
        base::oct,
        "math:oct(99) as s"
    ),
    row!(
        scalar("parseDouble", "A text as DOUBLE.", ONE_TEXT, DOUBLE),
        parse_double,
        "math:parseDouble('1.5') as x"
    ),
    row!(
        scalar("parseFloat", "A text as FLOAT.", ONE_TEXT, FLOAT),
        parse_float,
        "math:parseFloat('1.5') as x"
    ),
    row!(
        scalar("parseInt", "A text as INT.", ONE_TEXT, INT),
        parse_int,
        "math:parseInt('15') as n"
    ),
    row!(
        scalar("parseLong", "A text as LONG.", ONE_TEXT, LONG),
        parse_long,
        "math:parseLong('15') as n"
    ),
    row!(
        scalar("pi", "The number pi.", &[NONE], DOUBLE),
        |_, _| Ok(Value::Double(std::f64::consts::PI)),
        "math:pi() as x"
    )
    .infallible(),
    two!("power", "A number to the power of another.", TWO, f64::powf),
    row!(
        scalar(
            "round",
            "The nearest whole number, INT of FLOAT and LONG of DOUBLE.",
            ONE_REAL,
            Returns::Rounded(0),
        ),
        round,
        "math:round(price) as n"
    ),
    row!(
        scalar("signum", "-1, 0 or 1 by the sign.", ONE, INT),
        signum,
        "math:signum(price) as n"
    ),
    one!("sin", "Sine of an angle in radians.", ONE, f64::sin),
    one!("sinh", "Hyperbolic sine.", ONE, f64::sinh),
    one!("sqrt", "Square root.", ONE, f64::sqrt),
    one!("tan", "Tangent of an angle in radians.", ONE, f64::tan),
    one!("tanh", "Hyperbolic tangent.", ONE, f64::tanh),
    one!(
        "toDegrees",
        "An angle in radians as degrees.",
        ONE,
        f64::to_degrees
    ),
    one!(
        "toRadians",
        "An angle in degrees as radians.",
        ONE,
        f64::to_radians
    ),
];

/// Those with a state of their own, sorted by name.
pub static COLUMNS: &[&dyn Function] = &[&random::Rand];

fn number(args: &[Value], index: usize) -> Result<f64, String> {
    args[index]
        .to_double()
        .ok_or_else(|| wrong(index, "a number", args.get(index)))
}

fn computed(args: &[Value], function: impl Fn(f64) -> Value) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    Ok(function(number(args, 0)?))
}

fn computed_of_two(args: &[Value], function: fn(f64, f64) -> f64) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    Ok(Value::Double(function(number(args, 0)?, number(args, 1)?)))
}

/// `Math.max`: NaN wins, 0.0 is above -0.0.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { b } else { a }
    } else {
        a.max(b)
    }
}

fn smaller(a: f64, b: f64) -> f64 {
    -larger(-a, -b)
}

/// With two arguments the angle of the point (second, first).
fn atan(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    if args.len() > 1 {
        return computed_of_two(args, f64::atan2);
    }
    computed(args, |x| Value::Double(x.atan()))
}

fn log(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let (x, base) = (number(args, 0)?, number(args, 1)?);
    if base == 1.0 {
        return Err("there is no logarithm to base 1".into());
    }
    Ok(Value::Double(x.ln() / base.ln()))
}

/// Null is not infinite.
fn is_infinite(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(
        args[0].to_double().is_some_and(f64::is_infinite),
    ))
}

/// Null is a number, as far as this goes.
fn is_nan(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(args[0].to_double().is_some_and(f64::is_nan)))
}

fn signum(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    computed(args, |x| {
        let sign = if x > 0.0 {
            1
        } else if x < 0.0 {
            -1
        } else {
            0
        };
        Value::Int(sign)
    })
}

/// Half up (`Math.round`): INT for FLOAT, LONG for DOUBLE.
fn round(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    // Adding a half first would round 0.49999999999999994 up.
    let half_up = |x: f64| {
        let floor = x.floor();
        if x - floor >= 0.5 { floor + 1.0 } else { floor }
    };
    match args[0] {
        Value::Null => Ok(Value::Null),
        Value::Float(x) => Ok(Value::Int(half_up(f64::from(x)) as i32)),
        _ => Ok(Value::Long(half_up(number(args, 0)?) as i64)),
    }
}

fn parsed(args: &[Value], parse: impl Fn(&str) -> Option<Value>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let s = text(args, 0)?;
    parse(s).ok_or_else(|| format!("'{s}' is not a valid number"))
}

fn parse_double(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    parsed(args, |s| parse_real(s).map(Value::Double))
}

fn parse_float(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    parsed(args, |s| parse_real(s).map(Value::Float))
}

fn parse_int(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    parsed(args, |s| parse_integer(s).map(Value::Int))
}

fn parse_long(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    parsed(args, |s| parse_integer(s).map(Value::Long))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    #[test]
    fn numbers() {
        check("math:abs", &[i(-5)], "5.0");
        check("math:ceil", &[d(1.2)], "2.0");
        check("math:floor", &[f(-1.5)], "-2.0");
        check("math:ln", &[d(0.0)], "-Infinity");
        check("math:sqrt", &[d(-1.0)], "NaN");
        check("math:acos", &[d(2.0)], "NaN");
        check("math:atan", &[d(1.0), d(0.0)], "1.5707963267948966");
        check("math:log", &[d(8.0), d(2.0)], "3.0");
        check("math:log", &[d(8.0), d(1.0)], "!no logarithm");
        check("math:power", &[i(2), i(10)], "1024.0");
        check("math:max", &[i(2), d(3.5)], "3.5");
        check("math:min", &[d(-0.0), d(0.0)], "-0.0");
        check("math:copySign", &[d(5.0), d(-1.0)], "-5.0");
        check("math:signum", &[i(-7)], "-1");
        check("math:pi", &[], "3.141592653589793");
        check("math:abs", &[NULL], "null");
        check("math:isNan", &[d(f64::NAN)], "true");
        check("math:isNan", &[NULL], "false");
        check("math:isInfinite", &[f(1.0)], "false");
        check("math:toDegrees", &[d(std::f64::consts::PI)], "180.0");
    }

    #[test]
    fn rounding_and_reading() {
        check("math:round", &[d(2.5)], "3L");
        check("math:round", &[d(-2.5)], "-2L");
        check("math:round", &[d(0.499_999_999_999_999_94)], "0L");
        check("math:round", &[f(2.4)], "2");
        check("math:parseInt", &[s("12")], "12");
        check("math:parseInt", &[s("1.2")], "!is not a valid number");
        check("math:parseDouble", &[s("1.2")], "1.2");
        check("math:parseLong", &[NULL], "null");
    }

    #[test]
    fn bases() {
        check("math:bin", &[i(9)], "'1001'");
        check("math:bin", &[i(-1)], "'11111111111111111111111111111111'");
        check("math:oct", &[l(99)], "'143'");
        check("math:hex", &[i(200)], "'c8'");
        check("math:hex", &[l(-1)], "'ffffffffffffffff'");
        check("math:hex", &[d(1.25)], "'0x1.4p0'");
        check("math:hex", &[d(-0.0)], "'-0x0.0p0'");
        check("math:hex", &[f(1.5)], "'0x1.8p0'");
        check("math:hex", &[d(5e-324)], "'0x0.0000000000001p-1022'");
        check("math:conv", &[s("7f"), i(16), i(10)], "'127'");
        check("math:conv", &[s("-7f"), i(16), i(2)], "'-1111111'");
        check("math:conv", &[s("xyz"), i(10), i(2)], "!'xyz'");
        check("math:getExponent", &[d(60.5)], "5");
        check("math:getExponent", &[d(0.0)], "-1023");
        check("math:getExponent", &[f(0.0)], "-1023");
    }

    #[test]
    fn random_numbers_are_java_s() {
        // Two rows: the second number of `new Random(12)`.
        check("math:rand", &[i(12)], "0.2750691655200749");
        assert_eq!(call("math:rand", &[l(12)]), call("math:rand", &[i(12)]));
    }
}
