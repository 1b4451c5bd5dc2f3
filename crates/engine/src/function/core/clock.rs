//! `currentTimeMillis`, `eventTimestamp` and `UUID`.

use event::{Column, Times, Type, Value};

use super::params::*;
use crate::component::{Argument, EvalContext, Evaluate, Function, Refused};
use crate::function::row::Row;
use crate::spec::*;

/// The application clock.
pub struct CurrentTimeMillis;

impl Function for CurrentTimeMillis {
    fn spec(&self) -> &'static FunctionSpec {
        static SPEC: FunctionSpec = runs(
            scalar(
                "currentTimeMillis",
                "The clock of the app, in milliseconds.",
                &[NONE],
                LONG,
            ),
            "currentTimeMillis() as now",
        );
        &SPEC
    }

    fn bind(&self, _: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        Ok(Box::new(Now))
    }
}

struct Now;

impl Evaluate for Now {
    fn evaluate(&mut self, _: &[Column], rows: usize, context: &mut EvalContext<'_>) -> Column {
        Column::constant(Type::Long, &Value::Long(context.now), rows)
    }

    fn is_fallible(&self) -> bool {
        false
    }
}

/// The timestamp of the event. With an event reference the compiler of expressions reads it from
/// that event.
pub struct EventTimestamp;

impl Function for EventTimestamp {
    fn spec(&self) -> &'static FunctionSpec {
        static SPEC: FunctionSpec = runs(
            scalar(
                "eventTimestamp",
                "Timestamp of the event, or of an event of a pattern.",
                &[
                    NONE,
                    Overload::new(&[param("event", Types::ANY, "Reference of an event.")]),
                ],
                LONG,
            ),
            "eventTimestamp() as at",
        );
        &SPEC
    }

    fn bind(&self, _: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        Ok(Box::new(Timestamp))
    }
}

struct Timestamp;

impl Evaluate for Timestamp {
    fn evaluate(&mut self, _: &[Column], rows: usize, context: &mut EvalContext<'_>) -> Column {
        match context.times {
            Times::Same(time) => Column::longs_from(vec![*time; rows]),
            _ => Column::longs_from((0..rows).map(|row| context.time(row)).collect()),
        }
    }

    fn is_fallible(&self) -> bool {
        false
    }
}

/// A random (version 4) UUID from the app's own generator, whose state is part of the snapshot.
pub fn uuid(_: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let high = next(row.context.seed);
    let low = next(row.context.seed);
    let high = (high & !0xF000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    let text = format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    );
    Ok(Value::str(&text))
}

/// SplitMix64.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
