//! Tables that sinks work from: a sink is shown all rows of its table ahead of the first event, and
//! again ahead of the next event after they have changed.
//!
//! A table in memory is shown as it is when the event leaves. One in a store may be written by others
//! as well, so it is read again when this app has written to it or a second has passed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use connect::component::Answer;
use engine::Written;
use event::Batch;
use plan::store::{Operation, OperationId, OperationKind};
use plan::{StreamId, TableId};

use super::Lane;
use crate::sink::{Outbox, Parcel, SinkRows, weight_of};
use crate::store::{Failure, parameters};

/// How long the rows of a store are taken as they were.
const FRESH: Duration = Duration::from_secs(1);

/// The table that a sink works from, and what the sink has seen of it.
pub(crate) struct ShownTable {
    pub table: TableId,
    /// The sink, by its place in the app.
    pub stream: StreamId,
    pub sink: usize,
    pub outbox: Arc<Outbox<SinkRows>>,
    pub slot: usize,
    /// What the app had written to the table by then; `None`: it was not shown.
    pub written: Option<Written>,
    pub read: Option<Instant>,
    /// Reads all rows, where they are in a store.
    pub find: Option<OperationId>,
}

impl ShownTable {
    fn is_fresh(&self) -> bool {
        self.read.is_some_and(|at| at.elapsed() < FRESH)
    }
}

impl Lane {
    /// Shows a sink its table where it has one that has changed.
    pub(super) fn show_table(
        &mut self,
        app: usize,
        stream: StreamId,
        sink: usize,
    ) -> Result<(), String> {
        let is_it = |shown: &ShownTable| shown.stream == stream && shown.sink == sink;
        let Some(at) = self.apps[app].shown.iter().position(is_it) else {
            return Ok(());
        };
        let seat = &self.apps[app];
        let shown = &seat.shown[at];
        let written = seat.engine.written()[shown.table];
        let in_store = seat.table_seats[shown.table];
        let is_fresh = in_store.is_none() || shown.is_fresh();
        if shown.written == Some(written) && is_fresh {
            return Ok(());
        }
        let rows = match in_store {
            None => seat.engine.table_content(shown.table),
            Some(place) => self.read_store(app, at, place)?,
        };
        let shown = &mut self.apps[app].shown[at];
        shown.read = Some(Instant::now());
        let Some(batch) = rows else {
            return Ok(());
        };
        shown.written = Some(written);
        let weight = weight_of(&batch);
        let rows = SinkRows {
            slot: shown.slot,
            batch,
            is_table: true,
        };
        shown
            .outbox
            .push(Parcel::Rows(rows), weight)
            .map_err(|_| "a sink has stopped".to_owned())
    }

    /// All rows of a table in a store; `None`, with a word in the log, where it does not give them.
    fn read_store(
        &mut self,
        app: usize,
        at: usize,
        (database, slot): (usize, usize),
    ) -> Result<Option<Batch>, String> {
        let shown = &mut self.apps[app].shown[at];
        let find = match shown.find {
            Some(find) => find,
            None => {
                let operation = Operation {
                    table: shown.table,
                    kind: OperationKind::Find { on: None },
                    parameters: Vec::new(),
                };
                let place = (database, slot);
                let prepared = self.asked.prepare(&operation, place, &mut self.databases);
                *shown.find.insert(prepared.map_err(|error| error.message)?)
            }
        };
        let question = parameters(&[], 1);
        let cause = match self.databases[database].execute(slot, find, question) {
            Ok(Answer::Rows { batch, .. }) => return Ok(Some(batch)),
            Ok(_) => "the store gave no rows".to_owned(),
            Err(Failure::Refused(cause)) => cause,
            Err(Failure::Fatal(cause)) => return Err(cause),
        };
        let seat = &mut self.apps[app];
        if let Some(count) = seat.said.say() {
            tracing::error!(
                app = seat.name,
                cause,
                count,
                "a sink works from its table as it was, which cannot be read"
            );
        }
        Ok(None)
    }
}
