//! Takes rejected events that are replayed.

use std::time::Duration;

use engine::Input;
use event::Batch;
use plan::TableId;
use plan::store::OperationKind;

use super::{Executor, HeldAnswer, ReplayBatch, ReplayItem, ReplayTo};
use crate::rejected::{RUNS_MAX, Rejection, Stage};

impl Executor {
    /// One after the other, each as an input of its own: what fails is rejected with what is known of it.
    /// Who replays is told when they are saved.
    pub(super) fn take_replay(&mut self, batch: ReplayBatch) -> Result<(), String> {
        let count = batch.items.len() as u64;
        self.checkpointer.is_dirty = true;
        self.waited = Duration::ZERO;
        for item in batch.items {
            let (log, run, is_first) = (item.log, item.run, item.is_first);
            let outcome = self.take_replayed(batch.app, item);
            self.attempt = None;
            outcome?;
            self.replayed.0[log].add(run, is_first);
        }
        let runs = self.replayed.0.iter().map(|runs| runs.len());
        let are_many = runs.sum::<usize>() >= RUNS_MAX / 2;
        self.checkpointer.is_requested |= batch.is_waited_for || are_many;
        let answer = HeldAnswer::Replayed(batch.reply, count);
        self.asked.unsaved.push(answer);
        Ok(())
    }

    fn take_replayed(&mut self, app: usize, item: ReplayItem) -> Result<(), String> {
        self.attempt = Some(item.attempt);
        for rejection in item.rejected {
            let (stream, place) = (rejection.stream.clone(), rejection.place.clone());
            self.keep_rejected(app, stream, place, rejection);
        }
        match item.to {
            ReplayTo::Nowhere => Ok(()),
            ReplayTo::Stream { stream, rows } => self.step(app, Input::Batch(stream, rows)),
            ReplayTo::Sink { stream, sink, rows } => {
                self.hand_to_sink(app, stream, sink, &rows)?;
                // What readers of a topic made of it.
                while let Some((app, stream, batch)) = self.carried.pop_front() {
                    self.step(app, Input::Batch(stream, batch))?;
                }
                Ok(())
            }
            ReplayTo::Table { table, rows } => self.replay_row(app, table, rows),
            ReplayTo::Function(effect) => {
                self.checkpointer.effects.push(effect);
                Ok(())
            }
        }
    }

    fn replay_row(&mut self, app: usize, table: TableId, rows: Batch) -> Result<(), String> {
        let mut operations = self.apps[app].engine.operations().iter();
        let is_insert = |kind: &OperationKind| matches!(kind, OperationKind::Insert);
        let insert = operations.position(|o| o.table == table && is_insert(&o.kind));
        if let Some(operation) = insert {
            return self.hand_to_store(app, operation, rows);
        }
        let schema = self.apps[app].plan.tables[table].schema.clone();
        let rejection = Rejection {
            stage: Stage::Store,
            origin: "insert".to_owned(),
            cause: "no query of the app inserts into the table any more".to_owned(),
            ..Rejection::of_rows(&rows, &schema)
        };
        let place = format!("table '{}'", schema.name);
        self.keep_rejected(app, schema.name, place, rejection);
        Ok(())
    }
}
