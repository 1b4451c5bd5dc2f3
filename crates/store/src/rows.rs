//! Rows that somebody looks at: of a buffer or of a part of a file.

use event::{Cells, Value};

/// Columns with the numbers and times of their rows.
pub struct Rows<'a> {
    pub columns: Vec<Cells<'a>>,
    pub ids: &'a [u64],
    pub times: &'a [i64],
}

#[allow(
    clippy::len_without_is_empty,
    reason = "nobody gives away rows without any"
)]
impl Rows<'_> {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn row(&self, row: usize) -> Vec<Value> {
        self.columns
            .iter()
            .map(|column| column.value(row))
            .collect()
    }
}
