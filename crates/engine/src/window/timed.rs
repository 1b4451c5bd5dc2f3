//! Rows that leave when their time is over.

use super::per_key::Stored;
use super::store::{Queue, RowTypes};
use crate::component::WindowContext;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

/// A queue of rows, and the newest timestamp that went in.
pub struct TimedQueue {
    pub queue: Queue,
    /// The largest timestamp so far: only a larger one sets a deadline.
    latest: i64,
}

impl TimedQueue {
    /// In a partition Siddhi gives up the state of a key whose last row has left (`canDestroy`), and
    /// with it the newest timestamp: what then comes late sets a deadline, that has passed.
    pub fn forget(&mut self) {
        if self.queue.is_empty() {
            self.latest = i64::MIN;
        }
    }

    /// Sets a deadline `millis` behind each timestamp that is larger than all before.
    pub fn notify_later(&mut self, batch: &Batch, millis: i64, context: &mut WindowContext<'_>) {
        for (_, time) in batch.times.runs(0..batch.len) {
            if time > self.latest {
                self.latest = time;
                context.notify(time.saturating_add(millis));
            }
        }
    }
}

impl Stored for TimedQueue {
    fn new(types: &RowTypes) -> TimedQueue {
        TimedQueue {
            queue: Queue::new(types),
            latest: i64::MIN,
        }
    }

    fn bytes(&self) -> usize {
        self.queue.bytes()
    }

    fn queue(&self) -> Option<&Queue> {
        Some(&self.queue)
    }

    fn queue_mut(&mut self) -> Option<&mut Queue> {
        Some(&mut self.queue)
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        self.queue.save(writer);
        writer.i64(self.latest);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<TimedQueue, StateError> {
        Ok(TimedQueue {
            queue: Queue::restore(types, reader)?,
            latest: reader.i64()?,
        })
    }
}
