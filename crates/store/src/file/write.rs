//! A file that is being written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use event::{Cells, ColumnBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::columns::{arrow_schema, record_batch};
use crate::definition::Definition;
use crate::delta::{Add, Stats};
use crate::error::Error;
use crate::key::{self, Key};
use crate::layout::Layout;
use crate::paths::{create_private, unique};
use crate::rows::Rows;

/// Rows that are turned into arrays at once.
const BATCH_ROWS: usize = 8192;

/// Bytes of values at which they are, where rows are long.
const BATCH_BYTES: usize = 8 << 20;

/// Rows of a row group of a table without a key, which is read from end to end.
const GROUP_ROWS: usize = 1 << 20;

/// Rows of a row group in the order of some columns: few of them have the values that are looked for.
const CLUSTERED_GROUP_ROWS: usize = 128 << 10;

/// One value of so many that a row group lacks is taken for one that it has.
const FALSE_POSITIVES: f64 = 0.01;

/// Rows of a row group of a table with a key: what a look-up reads.
const KEYED_GROUP_ROWS: usize = 16 << 10;

/// Bytes of a row group: what the writer holds in memory, about.
const GROUP_BYTES: usize = 64 << 20;

/// Rows of a page, so that a reader of a few rows decodes few.
const PAGE_ROWS: usize = 20_000;

/// Writes rows to a new file of a table, in the order in which they come.
pub(crate) struct FileWriter {
    definition: Arc<Definition>,
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<Checked>,
    batch: Pending,
    stats: Stats,
    first: Option<Key>,
    last: Option<Key>,
    cluster: Vec<usize>,
}

/// Rows that wait to become arrays.
struct Pending {
    columns: Vec<ColumnBuilder>,
    ids: Vec<u64>,
    times: Vec<i64>,
    bytes: usize,
}

impl Pending {
    fn new(definition: &Definition) -> Pending {
        let attributes = definition.schema.attributes.iter();
        Pending {
            columns: attributes.map(|a| ColumnBuilder::new(a.ty)).collect(),
            ids: Vec::new(),
            times: Vec::new(),
            bytes: 0,
        }
    }
}

/// A file with the length and checksum of what was written to it.
struct Checked {
    file: File,
    crc: crc32fast::Hasher,
    len: u64,
}

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.crc.update(&bytes[..count]);
        self.len += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl FileWriter {
    /// A file whose rows come in the order of the layout's columns, or of their key or number.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(
        dir: &Path,
        definition: &Arc<Definition>,
        layout: &Layout,
        is_clustered: bool,
    ) -> Result<FileWriter, Error> {
        let path = dir.join(format!("part-{}.zstd.parquet", unique()));
        let schema = arrow_schema(definition);
        let rows = match (definition.is_keyed(), is_clustered) {
            (true, _) => KEYED_GROUP_ROWS,
            (false, true) => CLUSTERED_GROUP_ROWS,
            (false, false) => GROUP_ROWS,
        };
        let mut properties = WriterProperties::builder();
        for column in &layout.indexed {
            let name = definition.schema.attributes[*column].name.as_str();
            let path = ColumnPath::from(name);
            properties = properties.set_column_bloom_filter_fpp(path, FALSE_POSITIVES);
        }
        let properties = properties
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("Headwater ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_max_row_group_row_count(Some(rows))
            .set_max_row_group_bytes(Some(GROUP_BYTES))
            .set_data_page_row_count_limit(PAGE_ROWS)
            .build();
        let file = Checked {
            file: create_private(&path)?,
            crc: crc32fast::Hasher::new(),
            len: 0,
        };
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties));
        Ok(FileWriter {
            writer: writer.map_err(|cause| failed(&path, cause))?,
            batch: Pending::new(definition),
            stats: Stats::new(definition),
            first: None,
            last: None,
            cluster: match is_clustered {
                true => layout.cluster.clone(),
                false => Vec::new(),
            },
            definition: Arc::clone(definition),
            path,
            schema,
        })
    }

    /// Rows so far.
    pub fn len(&self) -> u64 {
        self.stats.rows
    }

    /// Bytes of the file so far, about.
    pub fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    /// Appends a row. Rows of a table with a key come in the order of their keys.
    pub fn push(&mut self, rows: &Rows<'_>, row: usize) -> Result<(), Error> {
        for (builder, cells) in self.batch.columns.iter_mut().zip(&rows.columns) {
            builder.push_cell(cells, row);
            self.batch.bytes += 8 + cells.heap_bytes(row);
        }
        let (id, time) = (rows.ids[row], rows.times[row]);
        self.batch.ids.push(id);
        self.batch.times.push(time);
        self.stats.rows += 1;
        if self.definition.is_keyed() {
            let key = key::of(&self.definition.key, |column| {
                rows.columns[column].value(row)
            });
            self.first.get_or_insert_with(|| key.clone());
            self.last = Some(key);
        }
        if self.batch.ids.len() == BATCH_ROWS || self.batch.bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let fresh = Pending::new(&self.definition);
        let batch = std::mem::replace(&mut self.batch, fresh);
        let rows = Rows {
            columns: batch.columns.iter().map(Cells::from).collect(),
            ids: &batch.ids,
            times: &batch.times,
        };
        let width = rows.columns.len();
        for (column, cells) in rows.columns.iter().enumerate() {
            self.stats.add(column, cells, rows.len());
        }
        self.stats
            .add_longs(width, batch.ids.iter().map(|id| *id as i64));
        self.stats.add_longs(width + 1, batch.times.iter().copied());
        let arrays = record_batch(&self.schema, &rows);
        let arrays = arrays.map_err(|message| Error::damaged(&self.path, message))?;
        self.writer
            .write(&arrays)
            .map_err(|cause| failed(&self.path, cause))
    }

    /// The file as the table is to name it; it lasts, but for its name in the folder.
    pub fn finish(mut self) -> Result<Add, Error> {
        if !self.batch.ids.is_empty() {
            self.flush()?;
        }
        self.writer
            .finish()
            .map_err(|cause| failed(&self.path, cause))?;
        let file = self.writer.inner();
        file.file
            .sync_all()
            .map_err(Error::file("sync", &self.path))?;
        let name = self.path.file_name().unwrap_or_default();
        Ok(Add {
            path: name.to_string_lossy().into_owned(),
            size: file.len,
            time: crate::clock::millis(),
            stats: self.stats,
            range: self.first.zip(self.last),
            cluster: self.cluster,
            crc: Some(file.crc.clone().finalize()),
        })
    }

    /// Gives up the file.
    pub fn discard(self) {
        drop(self.writer);
        if let Err(cause) = fs::remove_file(&self.path) {
            let file = self.path.display().to_string();
            tracing::warn!(file, %cause, "cannot remove a file that was not finished; the next vacuum removes it");
        }
    }
}

fn failed(path: &Path, cause: ParquetError) -> Error {
    Error::file("write", path)(io::Error::other(cause))
}
