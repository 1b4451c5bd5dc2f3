//! Answers as Arrow has them, for doors that carry batches.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use futures_util::{Stream, StreamExt as _};
use tokio::sync::mpsc;

use crate::engine::{BLOCKS_MAX, Begun, Engine, Setting, Snapshot, begin, defect, too_many};
use crate::error::{Error, translated};

/// Rows as they come. Who drops them ends the statement.
pub(crate) struct Batches {
    pub schema: SchemaRef,
    rows: mpsc::Receiver<Result<Piece, Error>>,
}

enum Piece {
    /// The first.
    Schema(SchemaRef),
    Rows(RecordBatch),
}

impl Stream for Batches {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch, Error>>> {
        self.rows.poll_recv(context).map(|piece| {
            Some(match piece? {
                Ok(Piece::Rows(batch)) => Ok(batch),
                Ok(Piece::Schema(_)) => Err(defect("a schema behind rows")),
                Err(error) => Err(error),
            })
        })
    }
}

impl Engine {
    /// The columns of a statement.
    pub(crate) fn columns(
        &self,
        store: PathBuf,
        sql: String,
    ) -> impl Future<Output = Result<SchemaRef, Error>> + Send + use<> {
        let (sender, mut columns) = mpsc::channel(1);
        let setting = self.setting(None);
        let to = sender.clone();
        self.work(setting.limits.time, sender, async move {
            let (begun, _) = begin(store, &sql, &setting).await?;
            // Nobody is left to tell if it was dropped.
            to.send(Ok(begun.plan.schema())).await.ok();
            Ok(())
        });
        async move {
            let found = columns.recv().await;
            found.unwrap_or_else(|| Err(defect("the columns have not come")))
        }
    }

    /// The tables of a store with their columns.
    pub(crate) fn tables(
        &self,
        store: PathBuf,
    ) -> impl Future<Output = Result<Vec<(String, SchemaRef)>, Error>> + Send + use<> {
        let (sender, mut tables) = mpsc::channel(1);
        let setting = self.setting(None);
        let to = sender.clone();
        self.work(setting.limits.time, sender, async move {
            let snapshot = Snapshot::open(store, &setting).await?;
            to.send(Ok(snapshot.schemas.clone())).await.ok();
            Ok(())
        });
        async move {
            let found = tables.recv().await;
            found.unwrap_or_else(|| Err(defect("the tables have not come")))
        }
    }

    /// Answers one statement over what a store holds now, in the background.
    pub(crate) fn batches(
        &self,
        store: PathBuf,
        sql: String,
    ) -> impl Future<Output = Result<Batches, Error>> + Send + use<> {
        let (sender, mut rows) = mpsc::channel(BLOCKS_MAX);
        let setting = self.setting(None);
        let to = sender.clone();
        self.work(
            setting.limits.time,
            sender,
            answered(store, sql, setting, to),
        );
        async move {
            match rows.recv().await {
                Some(Ok(Piece::Schema(schema))) => Ok(Batches { schema, rows }),
                Some(Err(error)) => Err(error),
                Some(Ok(Piece::Rows(_))) | None => Err(defect("an answer without a schema")),
            }
        }
    }
}

async fn answered(
    store: PathBuf,
    sql: String,
    setting: Setting,
    to: mpsc::Sender<Result<Piece, Error>>,
) -> Result<(), Error> {
    let (Begun { mut rows, .. }, snapshot) = begin(store, &sql, &setting).await?;
    if to.send(Ok(Piece::Schema(rows.schema()))).await.is_err() {
        return Ok(());
    }
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(|error| translated(&error, &sql, &snapshot.known))?;
        count += batch.num_rows();
        if count > setting.limits.rows {
            return Err(too_many(setting.limits.rows));
        }
        if to.send(Ok(Piece::Rows(batch))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
