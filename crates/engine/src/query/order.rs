//! `order by`, `offset` and `limit` on one chunk of the selector.

use std::cmp::Ordering;

use event::{Batch, Column, Value};

/// Sorts rows by keys. Stable; only rows of one kind that stand together are sorted among each
/// other; nulls come last in both directions (Siddhi's `OrderByEventComparator`).
pub(super) fn sort(rows: &mut [u32], keys: &[(Column, bool)], batch: &Batch) {
    let mut start = 0;
    while start < rows.len() {
        let kind = batch.is_expired(rows[start] as usize);
        let len = rows[start..]
            .iter()
            .take_while(|&&r| batch.is_expired(r as usize) == kind)
            .count();
        rows[start..start + len].sort_by(|&a, &b| compare_rows(keys, a as usize, b as usize));
        start += len;
    }
}

fn compare_rows(keys: &[(Column, bool)], a: usize, b: usize) -> Ordering {
    for (column, is_descending) in keys {
        let (a, b) = (column.value(a), column.value(b));
        let ordering = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if *is_descending => compare(&b, &a),
            (false, false) => compare(&a, &b),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

/// Java's `compareTo` of values of one class; texts by UTF-16 units. Values of several classes, which
/// Java does not compare, stand by class and nulls last: a sort needs an order of all.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => a.encode_utf16().cmp(b.encode_utf16()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Long(a), Value::Long(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => double_order(f64::from(*a), f64::from(*b)),
        (Value::Double(a), Value::Double(b)) => double_order(*a, *b),
        _ => class(a).cmp(&class(b)),
    }
}

fn class(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => 0,
        Value::Int(_) => 1,
        Value::Long(_) => 2,
        Value::Float(_) => 3,
        Value::Double(_) => 4,
        Value::Str(_) => 5,
        Value::Object(_) => 6,
        Value::Null => 7,
    }
}

/// Java's `Double.compare`: -0.0 before 0.0, NaN last.
fn double_order(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.total_cmp(&b),
    }
}

/// Drops the first `offset` rows, then CURRENT rows beyond `limit`. EXPIRED rows are never limited
/// where the query emits them, though they count (a slip of precedence in Siddhi's
/// `QuerySelector.limitEventChunk`).
pub(super) fn offset_and_limit(
    rows: &mut Vec<u32>,
    offset: Option<u64>,
    limit: Option<u64>,
    batch: &Batch,
) {
    if let Some(offset) = offset {
        rows.drain(..rows.len().min(offset as usize));
    }
    if let Some(limit) = limit {
        let mut kept = 0;
        rows.retain(|&row| {
            let is_kept = kept < limit || batch.is_expired(row as usize);
            kept += u64::from(is_kept);
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_classes_have_an_order() {
        let mut values: Vec<Value> = (0..90)
            .map(|n| match n % 3 {
                0 => Value::Long(i64::from(97 * n % 31)),
                1 => Value::Int(13 * n % 17),
                _ => Value::Null,
            })
            .collect();
        values.sort_by(compare);
        assert!(values[60..].iter().all(Value::is_null));
        assert!(values.is_sorted_by(|a, b| compare(a, b).is_le()));
    }
}
