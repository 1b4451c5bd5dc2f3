//! Tables that sinks work from: a sink is shown all rows of its table ahead of the first event, and
//! again ahead of the next event after they have changed.
//!
//! A table in memory is shown as it is when the event leaves. One in a store may be written by others
//! as well, so it is read again when this app has written to it or a second has passed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use connect::component::Answer;
use engine::WriteCounts;
use event::Batch;
use plan::store::{Operation, OperationId, OperationKind};
use plan::{StreamId, TableId};

use super::Executor;
use crate::rows::parameters;
use crate::rows::weight_of;
use crate::sink::{OutputItem, OutputQueue, SinkRows};
use crate::store::Failure;

/// How long the rows of a store are taken as they were.
const FRESH: Duration = Duration::from_secs(1);

/// The table that a sink works from, and what the sink has seen of it.
pub(crate) struct TableFeed {
    pub table: TableId,
    /// The sink, by its place in the app.
    pub stream: StreamId,
    pub sink: usize,
    pub output_queue: Arc<OutputQueue<SinkRows>>,
    pub slot: usize,
    /// What the app had written to the table by then; `None`: it was not shown.
    pub written: Option<WriteCounts>,
    pub read: Option<Instant>,
    /// Reads all rows, where they are in a store.
    pub find: Option<OperationId>,
}

impl TableFeed {
    fn is_fresh(&self) -> bool {
        self.read.is_some_and(|at| at.elapsed() < FRESH)
    }
}

impl Executor {
    /// Shows a sink its table where it has one that has changed.
    pub(super) fn update_sink_table(
        &mut self,
        app: usize,
        stream: StreamId,
        sink: usize,
    ) -> Result<(), String> {
        let is_it = |feed: &TableFeed| feed.stream == stream && feed.sink == sink;
        let Some(at) = self.apps[app].table_feeds.iter().position(is_it) else {
            return Ok(());
        };
        let running = &self.apps[app];
        let feed = &running.table_feeds[at];
        let written = running.engine.written()[feed.table];
        let in_store = running.table_bindings[feed.table];
        let is_fresh = in_store.is_none() || feed.is_fresh();
        if feed.written == Some(written) && is_fresh {
            return Ok(());
        }
        let rows = match in_store {
            None => running.engine.table_content(feed.table),
            Some(place) => self.read_store(app, at, place)?,
        };
        let feed = &mut self.apps[app].table_feeds[at];
        feed.read = Some(Instant::now());
        let Some(batch) = rows else {
            return Ok(());
        };
        feed.written = Some(written);
        let weight = weight_of(&batch);
        let rows = SinkRows {
            slot: feed.slot,
            batch,
            is_table: true,
            attempt: None,
            span: None,
        };
        feed.output_queue
            .push(OutputItem::Rows(rows), weight)
            .map_err(|_| "a sink has stopped".to_owned())
    }

    /// All rows of a table in a store; `None`, with a word in the log, where it does not give them.
    fn read_store(
        &mut self,
        app: usize,
        at: usize,
        (database, slot): (usize, usize),
    ) -> Result<Option<Batch>, String> {
        let feed = &mut self.apps[app].table_feeds[at];
        let find = match feed.find {
            Some(find) => find,
            None => {
                let operation = Operation {
                    table: feed.table,
                    kind: OperationKind::Find { on: None },
                    parameters: Vec::new(),
                };
                let place = (database, slot);
                let prepared = self.asked.prepare(&operation, place, &mut self.databases);
                *feed.find.insert(prepared.map_err(|error| error.message)?)
            }
        };
        let question = parameters(&[], 1);
        let cause = match self.databases[database].execute(slot, find, question) {
            Ok(Answer::Rows { batch, .. }) => return Ok(Some(batch)),
            Ok(_) => "the store gave no rows".to_owned(),
            Err(Failure::Refused(cause)) => cause,
            Err(Failure::Fatal(cause)) => return Err(cause),
        };
        let running = &mut self.apps[app];
        if let Some(count) = running.warn_throttle.admit() {
            tracing::error!(
                app = running.name,
                cause,
                count,
                "cannot read table; the sink keeps using its last contents"
            );
        }
        Ok(None)
    }
}
