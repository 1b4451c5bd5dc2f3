//! Values of an answer as a column of a table holds them.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::util::display::array_value_to_string;
use event::Type;

/// The type of a column of the store.
pub(crate) fn data_type(ty: Type) -> DataType {
    match ty {
        Type::String => DataType::Utf8,
        Type::Int => DataType::Int32,
        Type::Long => DataType::Int64,
        Type::Float => DataType::Float32,
        Type::Double => DataType::Float64,
        Type::Bool => DataType::Boolean,
        Type::Object => DataType::Binary,
    }
}

/// An array with a column's type; else the first row whose value does not fit, and what it is.
pub(crate) fn converted(array: &ArrayRef, ty: Type) -> Result<ArrayRef, (usize, String)> {
    let to = data_type(ty);
    if *array.data_type() == to {
        return Ok(array.clone());
    }
    let unfit = |row: usize| {
        let value = array_value_to_string(array, row).unwrap_or_default();
        (row, format!("'{value}' does not fit {to}"))
    };
    let safe = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let Ok(converted) = cast_with_options(array, &to, &safe) else {
        return Err((0, format!("{} cannot become {to}", array.data_type())));
    };
    let lost = (0..array.len()).find(|row| !array.is_null(*row) && converted.is_null(*row));
    let other = changed(array, &converted);
    if let Some(row) = lost.into_iter().chain(other).min() {
        return Err(unfit(row));
    }
    Ok(converted)
}

/// The first real number that became another whole one, or infinite.
fn changed(from: &ArrayRef, to: &ArrayRef) -> Option<usize> {
    let is_real = |ty: &DataType| matches!(ty, DataType::Float32 | DataType::Float64);
    if !is_real(from.data_type()) {
        return None;
    }
    let from = cast(from, &DataType::Float64).ok()?;
    let from = from.as_primitive::<Float64Type>();
    match to.data_type() {
        DataType::Int32 | DataType::Int64 => {
            let back = cast(to, &DataType::Float64).ok()?;
            let back = back.as_primitive::<Float64Type>();
            (0..from.len()).find(|row| !from.is_null(*row) && from.value(*row) != back.value(*row))
        }
        DataType::Float32 => {
            let to = to.as_primitive::<Float32Type>();
            let grew = |row: &usize| from.value(*row).is_finite() && !to.value(*row).is_finite();
            (0..from.len()).find(|row| !from.is_null(*row) && grew(row))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use datafusion::arrow::array::{Float64Array, Int64Array, StringArray};

    #[test]
    fn what_fits_is_converted_and_what_does_not_is_named() {
        let longs: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(1 << 40)]));
        let unfit = converted(&longs, Type::Int).expect_err("too large");
        assert_eq!(unfit, (2, "'1099511627776' does not fit Int32".to_owned()));
        assert!(converted(&longs, Type::String).is_ok());
        let reals: ArrayRef = Arc::new(Float64Array::from(vec![2.0, 2.5, 1e300]));
        assert_eq!(converted(&reals, Type::Long).expect_err("a fraction").0, 1);
        assert_eq!(converted(&reals, Type::Float).expect_err("too large").0, 2);
        assert!(converted(&reals.slice(0, 1), Type::Int).is_ok());
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["7", "x"]));
        assert_eq!(converted(&texts, Type::Int).expect_err("no number").0, 1);
    }
}
