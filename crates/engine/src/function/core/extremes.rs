//! `maximum` and `minimum`.

use event::{Type, Value};

use super::number_of;
use crate::function::row::Row;

/// Computed in double from the smallest positive double on, nulls left out, so that the maximum of
/// negative numbers alone is that start value (`MaximumFunctionExecutor`).
pub fn maximum(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(best(args, row.returns, f64::from_bits(1), |value, best| {
        value > best
    }))
}

/// As [`maximum`], from the largest double on.
pub fn minimum(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(best(args, row.returns, f64::MAX, |value, best| {
        value < best
    }))
}

fn best(args: &[Value], ty: Type, start: f64, is_better: fn(f64, f64) -> bool) -> Value {
    if let [only] = args {
        return only.clone();
    }
    let best = args
        .iter()
        .filter_map(Value::to_double)
        .fold(
            start,
            |best, value| if is_better(value, best) { value } else { best },
        );
    number_of(ty, best)
}
