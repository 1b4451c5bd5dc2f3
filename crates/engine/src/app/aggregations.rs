//! An aggregation among the receivers of a stream and the owners of timers.

use event::Batch;
use plan::{AggregationId, StreamId};

use super::{App, Outside};
use crate::aggregation::Aggregation;
use crate::app::junction::Task;
use crate::step::{Broken, Step};

impl App {
    pub(crate) fn start_aggregation(&mut self, id: AggregationId, outside: &mut Outside<'_>) {
        self.with_aggregation(id, outside, |aggregation, step| aggregation.start(step));
    }

    /// Hands an aggregation out together with all that a step may use.
    fn with_aggregation<R>(
        &mut self,
        id: AggregationId,
        outside: &mut Outside<'_>,
        act: impl FnOnce(&mut Aggregation, &mut Step<'_>) -> R,
    ) -> R {
        let mut all = std::mem::take(&mut self.core.aggregations);
        let result = act(&mut all[id], &mut self.core.step(outside));
        self.core.aggregations = all;
        result
    }

    /// The end of a bucket of a duration, or the time to purge, has come.
    pub(crate) fn aggregation_timer(
        &mut self,
        id: AggregationId,
        level: Option<usize>,
        outside: &mut Outside<'_>,
    ) {
        let result = self.with_aggregation(id, outside, |aggregation, step| match level {
            None => aggregation.purge(step),
            Some(level) => aggregation.on_timer(level, step),
        });
        if let Err(broken) = result {
            self.aggregation_failed(id, (None, None), broken, None, 0, outside);
        }
    }

    pub(crate) fn run_aggregation(
        &mut self,
        id: AggregationId,
        stream: StreamId,
        batch: Batch,
        (delivery, depth): (u64, u32),
        outside: &mut Outside<'_>,
    ) {
        let is_one = batch.chunk_count() == 1;
        let mut prepared = None;
        if is_one || !self.core.aggregations[id].wants_chunks() {
            let rows = batch.clone();
            prepared = Some(self.with_aggregation(id, outside, |aggregation, step| {
                aggregation.prepare(rows, step)
            }));
        }
        let result = match prepared {
            Some(Ok(None)) => return,
            Some(Ok(Some(prepared))) => self.with_aggregation(id, outside, |aggregation, step| {
                aggregation.take(prepared, step)
            }),
            Some(Err(broken)) if is_one => Err(broken),
            // The neighbours of a chunk that fails go on.
            _ => {
                for chunk in (0..batch.chunk_count()).rev() {
                    self.stack.push(Task::Aggregation {
                        aggregation: id,
                        stream,
                        batch: batch.slice_chunks(chunk..chunk + 1),
                        delivery,
                        depth,
                    });
                }
                return;
            }
        };
        if let Err(broken) = result {
            let from = (Some(stream), Some(delivery));
            self.aggregation_failed(id, from, broken, Some(batch), depth, outside);
        }
    }

    fn aggregation_failed(
        &mut self,
        id: AggregationId,
        (stream, delivery): (Option<StreamId>, Option<u64>),
        broken: Broken,
        batch: Option<Batch>,
        depth: u32,
        outside: &mut Outside<'_>,
    ) {
        if let (true, Some(delivery)) = (self.core.environment.compat, delivery) {
            self.stack.retain(|task| task.delivery() != Some(delivery));
        }
        let name = &self.core.aggregations[id].name;
        let place = format!("aggregation '{name}', {}", broken.place);
        let broken = Broken::at(place, broken.into_fault().cause);
        self.report_at(None, stream, broken, batch, depth, outside);
    }
}
