//! `math:rand`.

use event::codec::{Error as StateError, Reader, Writer};
use event::{Column, Values};

use super::params::*;
use crate::component::{Argument, EvalContext, Evaluate, Function, Refused};
use crate::spec::*;

/// A number from 0 to 1 of `java.util.Random`, one generator per call site. Without a seed the
/// app's own generator seeds it at the first row.
pub struct Rand;

impl Function for Rand {
    fn spec(&self) -> &'static FunctionSpec {
        static SPEC: FunctionSpec = runs(
            scalar(
                "rand",
                "A random number from 0 to 1.",
                &[
                    NONE,
                    Overload::new(&[
                        param("seed", Types::INT_LONG, "Start of the sequence.").constant()
                    ]),
                ],
                DOUBLE,
            ),
            "math:rand() as x",
        );
        &SPEC
    }

    fn bind(&self, args: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        let seed = args.first().and_then(Argument::constant_long);
        Ok(Box::new(Generator {
            state: seed.map(scramble),
        }))
    }
}

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

fn scramble(seed: i64) -> u64 {
    (seed as u64 ^ MULTIPLIER) & MASK
}

struct Generator {
    state: Option<u64>,
}

/// `Random.nextDouble`.
fn next_double(state: &mut u64) -> f64 {
    let mut next = |bits: u32| {
        *state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        *state >> (48 - bits)
    };
    let (high, low) = (next(26), next(27));
    ((high << 27) + low) as f64 / (1u64 << 53) as f64
}

impl Evaluate for Generator {
    fn evaluate(&mut self, _: &[Column], rows: usize, context: &mut EvalContext<'_>) -> Column {
        let state = self.state.get_or_insert_with(|| {
            *context.seed = context.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            scramble(*context.seed as i64)
        });
        let numbers = (0..rows).map(|_| next_double(state)).collect();
        Column::new(Values::Double(numbers), None)
    }

    fn is_fallible(&self) -> bool {
        false
    }

    fn save(&self, writer: &mut Writer) {
        writer.bool(self.state.is_some());
        writer.u64(self.state.unwrap_or(0));
    }

    fn restore(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let is_seeded = reader.bool()?;
        let state = reader.u64()?;
        self.state = is_seeded.then_some(state & MASK);
        Ok(())
    }
}
