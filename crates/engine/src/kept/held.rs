//! What a window holds, looked at where it lies.

use event::{Batch, Cells, Column, ColumnBuilder, Type, Value};

use super::index::{Index, Indexes, KeyColumn};
use super::store::{self, Queue};

/// The rows that joins and on-demand queries find in a window, in storage order.
pub struct Held<'a>(Rows<'a>);

enum Rows<'a> {
    Queue(&'a Queue),
    Batch {
        rows: Batch,
        /// Number of the first row, and the window's indexes; without them an index lives as long
        /// as this look at the rows.
        numbered: Option<(u64, &'a Indexes)>,
    },
}

impl From<Batch> for Held<'_> {
    fn from(rows: Batch) -> Self {
        Held(Rows::Batch {
            rows,
            numbered: None,
        })
    }
}

impl<'a> From<&'a Queue> for Held<'a> {
    fn from(queue: &'a Queue) -> Self {
        Held(Rows::Queue(queue))
    }
}

impl<'a> Held<'a> {
    /// Rows that have numbers: those that came first leave first, and more come behind them.
    pub fn numbered(rows: Batch, first: u64, indexes: &'a Indexes) -> Held<'a> {
        let numbered = Some((first, indexes));
        Held(Rows::Batch { rows, numbered })
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Rows::Queue(queue) => queue.len(),
            Rows::Batch { rows, .. } => rows.len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn width(&self) -> usize {
        match &self.0 {
            Rows::Queue(queue) => queue.width(),
            Rows::Batch { rows, .. } => rows.columns.len(),
        }
    }

    /// All rows, as one batch of their own.
    pub fn into_batch(self) -> Batch {
        match self.0 {
            Rows::Queue(queue) => queue.content(),
            Rows::Batch { rows, .. } => rows,
        }
    }

    /// Where a value lies.
    #[inline]
    pub fn cell(&self, column: usize, row: usize) -> (Cells<'_>, usize) {
        match &self.0 {
            Rows::Queue(queue) => queue.cell(column, row),
            Rows::Batch { rows, .. } => (Cells::from(&rows.columns[column]), row),
        }
    }

    /// Where the values of one attribute lie, to be asked for many rows.
    pub fn attribute(&self, column: usize) -> Attribute<'_> {
        Attribute(match &self.0 {
            Rows::Queue(queue) => Values::Queue(queue.attribute(column)),
            Rows::Batch { rows, .. } => Values::Batch(Cells::from(&rows.columns[column])),
        })
    }

    /// Are all values of an attribute of one type?
    pub fn is_of_one_type(&self, column: usize) -> bool {
        match &self.0 {
            Rows::Queue(queue) => queue.is_of_one_type(column),
            Rows::Batch { rows, .. } => !rows.columns[column].is_any(),
        }
    }

    /// One attribute of some rows; [`Column::NO_ROW`] gives null, as does every row of an attribute
    /// that the window does not have.
    pub fn gather(&self, column: usize, rows: &[u32]) -> Column {
        if column >= self.width() {
            return nothing(rows.len());
        }
        match &self.0 {
            Rows::Queue(queue) => queue.gather(column, rows),
            Rows::Batch { rows: all, .. } => all.columns[column].gather_padded(rows),
        }
    }

    /// The timestamps of some rows; [`Column::NO_ROW`] gives null.
    pub fn times(&self, rows: &[u32]) -> Column {
        let mut times = ColumnBuilder::with_capacity(Type::Long, rows.len());
        for &row in rows {
            match &self.0 {
                _ if row == Column::NO_ROW => times.push_null(),
                Rows::Queue(queue) => times.push_long(queue.time(row as usize)),
                Rows::Batch { rows, .. } => times.push_long(rows.times.at(row as usize)),
            }
        }
        times.finish()
    }

    /// The rows part by part, in order: of each part the attributes that are used, nothing of the
    /// others, and how many rows it has.
    pub fn parts(
        &self,
        width: usize,
        is_used: impl Fn(usize) -> bool,
    ) -> Vec<(Vec<Column>, usize)> {
        let pick = |len: usize, column_of: &dyn Fn(usize) -> Column| {
            let columns = (0..width).map(|column| match column {
                _ if !is_used(column) => nothing(0),
                _ if column >= self.width() => nothing(len),
                _ => column_of(column),
            });
            (columns.collect(), len)
        };
        match &self.0 {
            Rows::Batch { rows, .. } => vec![pick(rows.len, &|c| rows.columns[c].clone())],
            Rows::Queue(queue) => {
                let parts = queue.lengths().enumerate();
                let parts = parts.map(|(part, len)| pick(len, &|c| queue.part_column(part, c)));
                parts.collect()
            }
        }
    }

    /// Looks through an index over some columns: [`Index::catch_up`] with the hashes of the rows,
    /// then, where it has, `look`.
    pub fn with_index(
        &self,
        keys: &[KeyColumn],
        probes: usize,
        hash: impl FnMut(usize) -> Option<u32>,
        look: impl FnOnce(&Index),
    ) -> bool {
        let (first, indexes) = match &self.0 {
            Rows::Queue(queue) => (queue.gone(), Some(queue.indexes())),
            Rows::Batch { numbered, .. } => {
                numbered.map_or((0, None), |(first, indexes)| (first, Some(indexes)))
            }
        };
        let mut index = indexes.map_or_else(|| Index::new(keys), |all| all.lend(keys));
        let is_there = index.catch_up(first, self.len(), probes, hash);
        if is_there {
            look(&index);
        }
        if let Some(indexes) = indexes {
            indexes.give_back(index);
        }
        is_there
    }
}

/// The values of one attribute.
pub struct Attribute<'a>(Values<'a>);

enum Values<'a> {
    Queue(store::Attribute<'a>),
    Batch(Cells<'a>),
}

impl<'a> Attribute<'a> {
    #[inline(always)]
    pub fn cell(&self, row: usize) -> (Cells<'a>, usize) {
        match &self.0 {
            Values::Queue(attribute) => attribute.cell(row),
            Values::Batch(cells) => (*cells, row),
        }
    }
}

/// As many rows without a value.
fn nothing(rows: usize) -> Column {
    match rows {
        0 => ColumnBuilder::new(Type::Object).finish(),
        _ => Column::constant(Type::Object, &Value::Null, rows),
    }
}
