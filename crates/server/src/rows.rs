//! What the server needs to know of the rows of a batch: how much they weigh in a queue, some of them alone,
//! and their text for people.

use event::{Batch, Chunks};

use crate::queue::Weight;

/// What the rows of a batch weigh in a queue; a row without values weighs nothing but itself.
pub(crate) fn weight_of(batch: &Batch) -> Weight {
    Weight {
        rows: batch.len.max(1),
        bytes: batch.columns.iter().map(event::Column::weight).sum(),
    }
}

/// Rows of parameters as a batch for a store.
pub(crate) fn parameters(columns: &[event::Column], rows: usize) -> Batch {
    Batch::new(
        columns.to_vec(),
        rows,
        event::Times::Same(0),
        Chunks::One,
        0,
    )
}

/// Some rows of a batch, as a batch; `None` without rows.
pub(crate) fn rows_picked(batch: &Batch, rows: &[u32]) -> Option<Batch> {
    let mut marks = vec![false; batch.len];
    for &row in rows {
        marks[row as usize] = true;
    }
    batch.filter(&marks)
}

/// Rows as text, for people who look at what was rejected.
pub(crate) fn payload_text(batch: &Batch, rows: &[u32]) -> String {
    const ROWS_SHOWN: usize = 1000;
    let mut text = String::new();
    for &row in rows.iter().take(ROWS_SHOWN) {
        for (i, value) in batch.row(row as usize).iter().enumerate() {
            if i > 0 {
                text.push_str(", ");
            }
            event::text::write_value(&mut text, value);
        }
        text.push('\n');
    }
    if rows.len() > ROWS_SHOWN {
        text.push_str(&format!("and {} more\n", rows.len() - ROWS_SHOWN));
    }
    text
}
