//! `order by`, `offset` and `limit` on one chunk of the selector.

use std::cmp::Ordering;

use event::column::View;
use event::{Batch, Column};

use crate::order::{compare, double_order, text_order};

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
        let ordering = match (column.is_null(a), column.is_null(b)) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if *is_descending => compare_cells(column, b, a),
            (false, false) => compare_cells(column, a, b),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

/// As [`compare`], of two rows where they lie; neither is null.
fn compare_cells(column: &Column, a: usize, b: usize) -> Ordering {
    match column.view() {
        View::Bool(v) => v[a].cmp(&v[b]),
        View::Int(v) => v[a].cmp(&v[b]),
        View::Long(v) => v[a].cmp(&v[b]),
        View::Float(v) => double_order(f64::from(v[a]), f64::from(v[b])),
        View::Double(v) => double_order(v[a], v[b]),
        View::Str(v) => text_order(v.get(a), v.get(b)),
        View::Any(v) => compare(&v[a], &v[b]),
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
    use event::text::to_text;
    use event::{Chunks, ColumnBuilder, Times, Type, Value};

    #[test]
    fn rows_stand_in_the_order_of_their_values_with_nulls_last() {
        // Each ascends; of the last two texts UTF-8 has the first behind the second.
        let cases = [
            (Type::Bool, [false, false, true, true].map(Value::Bool)),
            (Type::Int, [-7, 2, 2, 10].map(Value::Int)),
            (Type::Long, [-7, 2, 2, i64::MAX].map(Value::Long)),
            (Type::Float, [-0.0, 0.0, 1.5, f32::NAN].map(Value::Float)),
            (Type::Double, [-1.5, -0.0, 0.0, f64::NAN].map(Value::Double)),
            (
                Type::String,
                ["B", "a", "\u{1f600}", "\u{fb01}"].map(Value::str),
            ),
            (
                Type::Object,
                [
                    Value::Bool(true),
                    Value::Int(3),
                    Value::Int(4),
                    Value::str("x"),
                ],
            ),
        ];
        for (ty, mut values) in cases {
            let mut builder = ColumnBuilder::new(ty);
            for place in [3, 0, 4, 2, 4, 1] {
                builder.push(values.get(place).unwrap_or(&Value::Null));
            }
            let column = builder.finish();
            let batch = Batch::new(vec![column.clone()], 6, Times::Same(0), Chunks::One, 0);
            for is_descending in [false, true] {
                let mut rows: Vec<u32> = (0..6).collect();
                sort(&mut rows, &[(column.clone(), is_descending)], &batch);
                let found = rows[..4].iter().map(|&row| column.value(row as usize));
                assert_eq!(
                    found.map(|v| to_text(&v)).collect::<Vec<_>>(),
                    values.each_ref().map(to_text),
                    "{ty}, descending: {is_descending}"
                );
                assert_eq!(rows[4..], [2, 4], "nulls stay as they came");
                values.reverse();
            }
        }
    }

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
