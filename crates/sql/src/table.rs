//! A table of the store for DataFusion: plans over its files, and the rows of the log beside them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, DataFusionError, Result, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::object_store::path::Path;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::union::UnionExec;
use store::scan::{Checked, DataFile, TableScan};

use crate::error::OfStore;

/// Batches that the store's own scan is ahead of who reads them.
const AHEAD: usize = 2;

/// A table at one version.
pub(crate) struct StoreTable {
    name: String,
    scan: TableScan,
    checked: Arc<Checked>,
}

impl fmt::Debug for StoreTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreTable")
            .field("name", &self.name)
            .finish()
    }
}

impl StoreTable {
    pub fn new(name: &str, scan: TableScan, checked: Arc<Checked>) -> StoreTable {
        StoreTable {
            name: name.to_owned(),
            scan,
            checked,
        }
    }

    /// DataFusion reads the files itself: it rules out parts of them by their statistics and Bloom filters, and
    /// decodes the other columns only of rows that its filters leave.
    fn of_files(
        &self,
        files: &[DataFile],
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.schema();
        let url = ObjectStoreUrl::local_filesystem();
        let environment = state.runtime_env();
        // Footers are kept from one statement to the next.
        let reader = CachedParquetFileReaderFactory::new(
            environment.object_store(&url)?,
            environment.cache_manager.get_file_metadata_cache(),
        );
        let mut source = ParquetSource::new(Arc::clone(&schema))
            .with_pushdown_filters(true)
            .with_bloom_filter_on_read(true)
            .with_parquet_file_reader_factory(Arc::new(reader));
        if let Some(filter) = filters.iter().cloned().reduce(Expr::and) {
            let columns = DFSchema::try_from(Arc::clone(&schema))?;
            source = source.with_predicate(state.create_physical_expr(filter, &columns)?);
        }
        let mut statistics = Statistics::new_unknown(&schema);
        let rows = files.iter().map(|file| file.rows as usize).sum();
        statistics.num_rows = Precision::Exact(rows);
        let files = files.iter().map(partitioned).collect::<Result<Vec<_>>>()?;
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_projection_indices(projection.cloned())?
            .with_statistics(statistics)
            .with_file_group(FileGroup::new(files))
            .with_limit(limit);
        Ok(DataSourceExec::from_data_source(config.build()))
    }
}

fn partitioned(file: &DataFile) -> Result<PartitionedFile> {
    let path = file.path.canonicalize()?;
    let mut partitioned = PartitionedFile::new("", file.bytes);
    partitioned.object_meta.location = Path::from_absolute_path(path)
        .map_err(|cause| DataFusionError::External(Box::new(cause)))?;
    Ok(partitioned)
}

#[async_trait]
impl TableProvider for StoreTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.scan.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.scan.files(&self.checked);
        let Some(files) = files.map_err(|error| OfStore::carried(&error))? else {
            let all: Arc<dyn PartitionStream> = Arc::new(AllRows(self.scan.clone()));
            let schema = self.schema();
            let plan =
                StreamingTableExec::try_new(schema, vec![all], projection, None, false, limit)?;
            return Ok(Arc::new(plan));
        };
        let fresh = self.scan.rows_in_memory();
        let fresh = fresh.map_err(|error| OfStore::carried(&error))?;
        let fresh = MemorySourceConfig::try_new_exec(&[fresh], self.schema(), projection.cloned())?;
        if files.is_empty() {
            return Ok(fresh);
        }
        let files = self.of_files(&files, state, projection, filters, limit)?;
        UnionExec::try_new(vec![files, fresh])
    }

    /// Files leave out what a filter rules out; the rows that are left are looked at once more.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}

/// The rows of files and log as the store puts them together, where some take the place of others.
struct AllRows(TableScan);

impl fmt::Debug for AllRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AllRows")
    }
}

impl PartitionStream for AllRows {
    fn schema(&self) -> &SchemaRef {
        self.0.schema()
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(self.0.schema());
        let mut stream = RecordBatchReceiverStreamBuilder::new(schema, AHEAD);
        let (rows, scan) = (stream.tx(), self.0.clone());
        stream.spawn_blocking(move || {
            // Who does not read on has enough.
            scan.batches(&mut |batch| Ok(rows.blocking_send(Ok(batch)).is_ok()))
                .map_err(|error| OfStore::carried(&error))
        });
        stream.build()
    }
}
