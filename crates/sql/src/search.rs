//! `search('table', 'query')`: the rows of a table that a query in Lucene's classic syntax means, with their scores. What
//! searches is handed in: this crate knows no index.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Float32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use lang::suggest::nearest;
use store::rows::Rows;
use store::scan::{Picked, TableScan};

use crate::error::OfStore;

/// How well a row fits.
const SCORE: &str = "_score";

/// Columns that the store adds in front of those of a table.
const ADDED: usize = 2;

/// Batches that the search is ahead of who reads them.
const AHEAD: usize = 2;

/// Is told of each row that was found with its score; false ends the search.
pub type EachFound<'a> = dyn FnMut(&Rows<'_>, usize, f32) -> bool + 'a;

/// Searches tables at the version that a statement sees.
pub trait TableSearch: Send + Sync {
    /// Is a query right for a table?
    ///
    /// # Errors
    /// What is wrong with it, in words for whoever wrote it.
    fn check(&self, table: &str, scan: &TableScan, query: &str) -> Result<(), String>;

    /// Gives away the rows that a query means, with those of their columns that are asked for; scores count where
    /// `is_ranked`.
    ///
    /// # Errors
    /// The table cannot be read, in words for its operator.
    fn search(
        &self,
        table: &str,
        scan: &TableScan,
        query: &str,
        columns: &[usize],
        is_ranked: bool,
        each: &mut EachFound<'_>,
    ) -> Result<(), String>;
}

/// The function, for one statement.
pub(crate) struct SearchFunction {
    tables: HashMap<String, TableScan>,
    search: Option<Arc<dyn TableSearch>>,
}

impl SearchFunction {
    pub fn new(
        tables: HashMap<String, TableScan>,
        search: Option<Arc<dyn TableSearch>>,
    ) -> SearchFunction {
        SearchFunction { tables, search }
    }
}

impl fmt::Debug for SearchFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("search")
    }
}

impl TableFunctionImpl for SearchFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let Some(search) = &self.search else {
            return plan_err!(
                "this build has no search: build it with the feature 'search', or install the full binary"
            );
        };
        let text = |expr: &Expr| match expr {
            Expr::Literal(
                ScalarValue::Utf8(Some(text))
                | ScalarValue::LargeUtf8(Some(text))
                | ScalarValue::Utf8View(Some(text)),
                _,
            ) => Some(text.clone()),
            _ => None,
        };
        let [table, query] = args.exprs() else {
            return plan_err!("search('table', 'query') takes two texts");
        };
        let (Some(table), Some(query)) = (text(table), text(query)) else {
            return plan_err!("search('table', 'query') takes two texts that stand there");
        };
        let name = table.trim().replace('.', "_").to_lowercase();
        let Some(scan) = self.tables.get(&name) else {
            let help = match nearest(&name, self.tables.keys().map(String::as_str)) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "'show tables' lists them".to_owned(),
            };
            return plan_err!("there is no table '{table}': {help}");
        };
        if let Err(message) = search.check(&name, scan, &query) {
            return plan_err!("{message}");
        }
        let mut fields: Vec<Field> = scan
            .schema()
            .fields()
            .iter()
            .map(|field| Field::clone(field))
            .collect();
        fields.push(Field::new(SCORE, DataType::Float32, false));
        Ok(Arc::new(FoundRows {
            name,
            query,
            scan: scan.clone(),
            schema: Arc::new(Schema::new(fields)),
            search: Arc::clone(search),
        }))
    }
}

/// The rows that one call means.
#[derive(Clone)]
struct FoundRows {
    name: String,
    query: String,
    scan: TableScan,
    schema: SchemaRef,
    search: Arc<dyn TableSearch>,
}

impl fmt::Debug for FoundRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundRows")
            .field("name", &self.name)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for FoundRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let width = self.schema.fields().len();
        let wanted: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..width).collect());
        let rows: Arc<dyn PartitionStream> = Arc::new(Search {
            is_ranked: wanted.contains(&(width - 1)),
            columns: wanted
                .into_iter()
                .filter(|at| (ADDED..width - 1).contains(at))
                .map(|at| at - ADDED)
                .collect(),
            of: self.clone(),
        });
        let schema = self.schema();
        let plan = StreamingTableExec::try_new(schema, vec![rows], projection, None, false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// A search that is to be run.
struct Search {
    of: FoundRows,
    /// Columns of the table.
    columns: Vec<usize>,
    is_ranked: bool,
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Search({:?})", self.of.query)
    }
}

impl PartitionStream for Search {
    fn schema(&self) -> &SchemaRef {
        &self.of.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.of.schema);
        let mut stream = RecordBatchReceiverStreamBuilder::new(schema, AHEAD);
        let sender = stream.tx();
        let (of, columns, is_ranked) = (self.of.clone(), self.columns.clone(), self.is_ranked);
        stream.spawn_blocking(move || {
            of.run(&columns, is_ranked, &mut |batch| {
                sender.blocking_send(Ok(batch)).is_ok()
            })
        });
        stream.build()
    }
}

impl FoundRows {
    fn run(
        &self,
        columns: &[usize],
        is_ranked: bool,
        send: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<()> {
        let mut picked = Picked::new(&self.scan);
        let mut scores = Vec::new();
        let mut failed = None;
        let found = self.search.search(
            &self.name,
            &self.scan,
            &self.query,
            columns,
            is_ranked,
            &mut |rows, row, score| {
                scores.push(score);
                let pushed = picked
                    .push(rows, row)
                    .map_err(|error| OfStore::carried(&error));
                let goes_on = pushed.and_then(|()| match picked.is_full() {
                    true => Ok(send(self.batch(&mut picked, &mut scores)?)),
                    false => Ok(true),
                });
                goes_on.unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                })
            },
        );
        if let Some(error) = failed {
            return Err(error);
        }
        found.map_err(|message| DataFusionError::External(message.into()))?;
        if !scores.is_empty() {
            // Who does not read on has enough.
            send(self.batch(&mut picked, &mut scores)?);
        }
        Ok(())
    }

    fn batch(&self, picked: &mut Picked, scores: &mut Vec<f32>) -> Result<RecordBatch> {
        let rows = picked.take().map_err(|error| OfStore::carried(&error))?;
        let scores: ArrayRef = Arc::new(Float32Array::from(std::mem::take(scores)));
        let columns = rows.columns().iter().cloned().chain([scores]);
        Ok(RecordBatch::try_new(
            Arc::clone(&self.schema),
            columns.collect(),
        )?)
    }
}
