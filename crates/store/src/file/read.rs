//! A file that is read, row group by row group.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use event::{Cells, ColumnBuilder, Value};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{PageIndexPolicy, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use super::columns::{append, append_longs};
use crate::definition::{Definition, ID, TIMESTAMP};
use crate::error::Error;
use crate::rows::Rows;

/// Rows that are decoded at once, where they are short.
const BATCH_ROWS: usize = 8192;

/// Bytes that are decoded at once, about.
const BATCH_BYTES: i64 = 16 << 20;

/// Some rows of a file, decoded.
pub(crate) struct Part {
    columns: Vec<ColumnBuilder>,
    ids: Vec<u64>,
    times: Vec<i64>,
}

impl Part {
    fn new(definition: &Definition) -> Part {
        let attributes = definition.schema.attributes.iter();
        Part {
            columns: attributes.map(|a| ColumnBuilder::new(a.ty)).collect(),
            ids: Vec::new(),
            times: Vec::new(),
        }
    }

    pub fn rows(&self) -> Rows<'_> {
        Rows {
            columns: self.columns.iter().map(Cells::from).collect(),
            ids: &self.ids,
            times: &self.times,
        }
    }

    pub fn bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(ColumnBuilder::bytes).sum();
        columns + self.ids.len() * 16
    }
}

/// What is known of a file before its rows are read.
pub(super) fn metadata(path: &Path) -> Result<ArrowReaderMetadata, Error> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    // With the places of the pages, a reader of a few rows passes over the others.
    let options = ArrowReaderOptions::new()
        .with_skip_arrow_metadata(true)
        .with_offset_index_policy(PageIndexPolicy::Optional);
    ArrowReaderMetadata::load(&file, options)
        .map_err(|cause| Error::damaged(path, cause.to_string()))
}

/// Smallest and greatest value of a column in a row group, where the file says them.
pub(super) fn bounds(group: &RowGroupMetaData, name: &str) -> Option<(Value, Value)> {
    let columns = group.columns().iter();
    let mut own = columns.filter(|c| c.column_path().parts() == [name]);
    let statistics = own.next()?.statistics()?;
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(Value::str);
    Some(match statistics {
        Statistics::Boolean(v) => (Value::Bool(*v.min_opt()?), Value::Bool(*v.max_opt()?)),
        Statistics::Int32(v) => (Value::Int(*v.min_opt()?), Value::Int(*v.max_opt()?)),
        Statistics::Int64(v) => (Value::Long(*v.min_opt()?), Value::Long(*v.max_opt()?)),
        Statistics::Float(v) => (Value::Float(*v.min_opt()?), Value::Float(*v.max_opt()?)),
        Statistics::Double(v) => (Value::Double(*v.min_opt()?), Value::Double(*v.max_opt()?)),
        Statistics::ByteArray(v) => (text(v.min_opt()?.data())?, text(v.max_opt()?.data())?),
        Statistics::Int96(_) | Statistics::FixedLenByteArray(_) => return None,
    })
}

/// How many rows of these row groups are decoded at once.
fn batch_rows(metadata: &ArrowReaderMetadata, groups: &[usize]) -> usize {
    let all = metadata.metadata().row_groups();
    let rows: i64 = groups.iter().map(|at| all[*at].num_rows()).sum();
    let bytes: i64 = groups.iter().map(|at| all[*at].total_byte_size()).sum();
    let fit = BATCH_BYTES / (bytes / rows.max(1)).max(1);
    usize::try_from(fit).unwrap_or(1).clamp(1, BATCH_ROWS)
}

/// Can a row group have this value in a column? So it can where the file does not say.
pub(super) fn may_have(
    path: &Path,
    file: &File,
    group: &RowGroupMetaData,
    name: &str,
    value: &Value,
) -> Result<bool, Error> {
    let mut columns = group.columns().iter();
    let Some(column) = columns.find(|c| c.column_path().parts() == [name]) else {
        return Ok(true);
    };
    let filter = Sbbf::read_from_column_chunk(column, file)
        .map_err(|cause| Error::damaged(path, cause.to_string()))?;
    Ok(filter.is_none_or(|filter| match value {
        Value::Int(value) => filter.check(value),
        Value::Long(value) => filter.check(value),
        Value::Str(value) => filter.check(&**value),
        _ => true,
    }))
}

/// Row groups of a file, decoded part by part.
pub(crate) struct Parts {
    reader: ParquetRecordBatchReader,
    definition: Arc<Definition>,
    path: PathBuf,
}

impl Parts {
    pub(super) fn new(
        path: &Path,
        metadata: &ArrowReaderMetadata,
        groups: Vec<usize>,
        definition: &Arc<Definition>,
    ) -> Result<Parts, Error> {
        let file = File::open(path).map_err(Error::file("open", path))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
        let rows = batch_rows(metadata, &groups);
        let reader = builder
            .with_row_groups(groups)
            .with_batch_size(rows)
            .build();
        Ok(Parts {
            reader: reader.map_err(|cause| Error::damaged(path, cause.to_string()))?,
            definition: Arc::clone(definition),
            path: path.to_owned(),
        })
    }

    /// Rows by their places in the file, which ascend, or all; columns that are not named are null.
    pub(super) fn picked(
        path: &Path,
        metadata: &ArrowReaderMetadata,
        definition: &Arc<Definition>,
        columns: &[usize],
        rows: Option<&[u32]>,
    ) -> Result<Parts, Error> {
        let file = File::open(path).map_err(Error::file("open", path))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
        let fields = builder.parquet_schema().root_schema().get_fields();
        let is_wanted = |name: &str| {
            let mut wanted = columns
                .iter()
                .map(|column| definition.schema.attributes[*column].name.as_str());
            [ID, TIMESTAMP].contains(&name) || wanted.any(|column| column == name)
        };
        let roots: Vec<usize> = (0..fields.len())
            .filter(|at| is_wanted(fields[*at].name()))
            .collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let all = metadata.metadata().row_groups();
        let (groups, selection) = match rows {
            None => ((0..all.len()).collect(), None),
            Some(rows) => {
                let (groups, selection) = selection(all, rows);
                (groups, Some(selection))
            }
        };
        let batch = batch_rows(metadata, &groups);
        let mut builder = builder
            .with_projection(mask)
            .with_row_groups(groups)
            .with_batch_size(batch);
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let reader = builder.build();
        Ok(Parts {
            reader: reader.map_err(|cause| Error::damaged(path, cause.to_string()))?,
            definition: Arc::clone(definition),
            path: path.to_owned(),
        })
    }

    /// Appends the next rows to a part; false at the end.
    fn add_to(&mut self, part: &mut Part) -> Result<bool, Error> {
        let Some(batch) = self.reader.next() else {
            return Ok(false);
        };
        let batch = batch.map_err(|cause| Error::damaged(&self.path, cause.to_string()))?;
        add(&batch, &self.definition, &self.path, part).map(|()| true)
    }

    /// The next rows.
    pub fn next(&mut self) -> Result<Option<Part>, Error> {
        let mut part = Part::new(&self.definition);
        Ok(self.add_to(&mut part)?.then_some(part))
    }

    /// All rows as one part.
    pub(super) fn whole(mut self) -> Result<Part, Error> {
        let mut part = Part::new(&self.definition);
        while self.add_to(&mut part)? {}
        Ok(part)
    }
}

/// The row groups that have some of these rows, and which rows of these groups they are.
fn selection(groups: &[RowGroupMetaData], rows: &[u32]) -> (Vec<usize>, RowSelection) {
    let (mut touched, mut ranges) = (Vec::new(), Vec::new());
    // Rows of all groups before, and of those before that are read.
    let (mut begin, mut read) = (0, 0);
    let mut rows = rows.iter().map(|row| *row as usize).peekable();
    for (at, group) in groups.iter().enumerate() {
        let len = usize::try_from(group.num_rows()).unwrap_or_default();
        let mut has = false;
        while let Some(row) = rows.next_if(|row| *row < begin + len) {
            let place = read + row - begin;
            has = true;
            match ranges.last_mut() {
                Some(std::ops::Range { end, .. }) if *end == place => *end = place + 1,
                _ => ranges.push(place..place + 1),
            }
        }
        if has {
            touched.push(at);
            read += len;
        }
        begin += len;
    }
    let selection = RowSelection::from_consecutive_ranges(ranges.into_iter(), read);
    (touched, selection)
}

fn add(
    batch: &RecordBatch,
    definition: &Definition,
    path: &Path,
    part: &mut Part,
) -> Result<(), Error> {
    let len = batch.num_rows();
    let other = |name: &str| {
        Error::foreign(
            path,
            format!(
                "column '{name}' has another type than the table; another program has written this file"
            ),
        )
    };
    for (attribute, builder) in definition.schema.attributes.iter().zip(&mut part.columns) {
        match batch.column_by_name(&attribute.name) {
            Some(array) if append(array, attribute.ty, builder) => {}
            Some(_) => return Err(other(&attribute.name)),
            None => (0..len).for_each(|_| builder.push_null()),
        }
    }
    let longs = |name: &str| -> Result<Vec<i64>, Error> {
        let mut out = Vec::with_capacity(len);
        match batch.column_by_name(name) {
            Some(array) if append_longs(array, &mut out) => {}
            Some(_) => return Err(other(name)),
            None => out.resize(len, 0),
        }
        Ok(out)
    };
    let ids = longs(ID)?;
    part.ids.extend(
        ids.into_iter()
            .map(|id| u64::try_from(id).unwrap_or_default()),
    );
    part.times.extend(longs(TIMESTAMP)?);
    Ok(())
}
