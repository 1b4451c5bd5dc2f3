//! Functions of the core language, without namespace.

mod choice;
mod clock;
mod conversion;
mod extremes;
mod params;
mod sets;
mod types;

use event::Value;

use super::row::{RowFunction, row};
use crate::component::Function;
use crate::spec::*;
use params::*;

pub use choice::FirstOf;

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    row!(
        scalar("UUID", "A random identifier.", &[NONE], STRING),
        clock::uuid,
        "UUID() as id"
    )
    .infallible(),
    // Never fails, but what uses a value of another class does.
    row!(
        scalar(
            "cast",
            "Names the type of a value without converting it.",
            &[Overload::new(&[ANY, TO])],
            Returns::Named(1),
        ),
        conversion::cast,
        "cast(symbol, 'string') as s"
    ),
    row!(
        scalar(
            "convert",
            "Converts a value to another type; null if it cannot.",
            &[Overload::new(&[ANY, TO])],
            Returns::Named(1),
        ),
        conversion::convert,
        "convert(price, 'int') as whole"
    )
    .checked(conversion::check_convert)
    .infallible(),
    row!(
        scalar(
            "createSet",
            "A set that holds the value.",
            &[Overload::new(&[param("input", Types::BASIC, "The value.")])],
            OBJECT,
        ),
        sets::create_set,
        "createSet(symbol) as symbols"
    )
    .infallible(),
    row!(
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
        choice::if_then_else,
        "ifThenElse(price > 10.0, 'high', 'low') as level"
    )
    .infallible(),
    row!(
        scalar(
            "maximum",
            "The largest argument.",
            SAME_NUMBER,
            Returns::Argument(0),
        ),
        extremes::maximum,
        "maximum(price, 10.0) as p"
    )
    .infallible(),
    row!(
        scalar(
            "minimum",
            "The smallest argument.",
            SAME_NUMBER,
            Returns::Argument(0),
        ),
        extremes::minimum,
        "minimum(price, 10.0) as p"
    )
    .infallible(),
    row!(
        scalar(
            "sizeOfSet",
            "How many values a set holds.",
            &[Overload::new(&[SET])],
            INT,
        ),
        sets::size_of_set,
        "sizeOfSet(createSet(symbol)) as n"
    ),
];

/// Those that work on whole columns, sorted by name.
pub static COLUMNS: &[&dyn Function] = &[
    &choice::COALESCE,
    &clock::CurrentTimeMillis,
    &choice::DEFAULT,
    &clock::EventTimestamp,
    &types::INSTANCE_OF_BOOLEAN,
    &types::INSTANCE_OF_DOUBLE,
    &types::INSTANCE_OF_FLOAT,
    &types::INSTANCE_OF_INTEGER,
    &types::INSTANCE_OF_LONG,
    &types::INSTANCE_OF_STRING,
];

/// A number of the class of a type, from a double (Java's narrowing).
fn number_of(ty: event::Type, value: f64) -> Value {
    match ty {
        event::Type::Int => Value::Int(value as i32),
        event::Type::Long => Value::Long(value as i64),
        event::Type::Float => Value::Float(value as f32),
        _ => Value::Double(value),
    }
}

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    #[test]
    fn conversions() {
        check("cast", &[i(5), s("long")], "5L");
        check("cast", &[s("x"), s("INT")], "'x'");
        check("cast", &[NULL, s("int")], "null");
        check("convert", &[d(2.9), s("int")], "2");
        check("convert", &[d(-2.5), s("int")], "-2");
        check("convert", &[d(f64::NAN), s("long")], "0L");
        check("convert", &[d(1e300), s("int")], "2147483647");
        check("convert", &[l(4_294_967_297), s("int")], "1");
        check("convert", &[s("12"), s("Long")], "12L");
        check("convert", &[s("12.5"), s("int")], "null");
        check("convert", &[s("1e2"), s("double")], "100.0");
        check("convert", &[i(-5), s("bool")], "false");
        check("convert", &[d(1.0), s("bool")], "true");
        check("convert", &[s("TRUE"), s("bool")], "true");
        check("convert", &[b(true), s("float")], "1.0F");
        check("convert", &[d(1e10), s("string")], "'1.0E10'");
        check("convert", &[NULL, s("string")], "null");
        check(
            "convert",
            &[map(&[]), s("int")],
            "!can only be converted to a string",
        );
        check("convert", &[list(&[i(1), s("a")]), s("string")], "'[1, a]'");
    }

    #[test]
    fn choices() {
        check("coalesce", &[NULL, s("a"), s("b")], "'a'");
        check("coalesce", &[NULL, NULL], "null");
        check("default", &[NULL, d(1.0)], "1.0");
        check("ifThenElse", &[b(true), i(1), i(2)], "1");
        check("ifThenElse", &[NULL, i(1), i(2)], "2");
        check("maximum", &[i(1), i(3), i(2)], "3");
        check("maximum", &[i(-1), i(-3)], "0");
        check("maximum", &[d(-1.0), d(-3.0)], "4.9E-324");
        check("maximum", &[i(-1)], "-1");
        check("minimum", &[l(5), NULL, l(2)], "2L");
        check("minimum", &[f(0.5), f(-0.5)], "-0.5F");
    }

    #[test]
    fn facts_of_the_event_and_the_clock() {
        check("eventTimestamp", &[], "7L");
        check("currentTimeMillis", &[], "1580789106789L");
        let id = call("UUID", &[]).unwrap_or_default();
        let id = shown(&id);
        assert_eq!((id.len(), &id[15..16]), (38, "4"), "{id}");
    }

    #[test]
    fn classes_and_sets() {
        check("instanceOfInteger", &[i(1)], "true");
        check("instanceOfLong", &[i(1)], "false");
        check("instanceOfString", &[NULL], "false");
        check("createSet", &[s("a")], "[a]");
        check("sizeOfSet", &[NULL], "0");
        check("sizeOfSet", &[i(1)], "!a set is needed");
    }
}
