//! Named windows among the receivers of a stream and the owners of timers.

use event::Batch;
use plan::{StreamId, WindowId};

use super::junction::{Task, Writer};
use super::{App, Outside};
use crate::kept::Held;
use crate::named::SHARED;

impl App {
    /// What a named window holds, for on-demand queries; `None` where it keeps nothing to be found.
    pub fn content(&self, window: WindowId) -> Option<Batch> {
        let held = self.core.windows.get(window).content();
        held.map(Held::into_batch)
    }

    /// Rows go into a named window, chunk by chunk where something behind it looks into it.
    pub(crate) fn run_window(
        &mut self,
        window: WindowId,
        batch: Batch,
        writer: Option<Writer>,
        depth: u32,
        outside: &mut Outside<'_>,
    ) {
        let stream = self.junction_of(window);
        let is_lockstep = self.forced_lockstep || self.streams[stream].lockstep.is_some();
        let chunks = batch.chunk_count();
        let is_cut = chunks > 1 && (is_lockstep || writer.is_some());
        let now = if is_cut {
            batch.slice_chunks(0..1)
        } else {
            batch.clone()
        };
        if is_cut {
            self.stack.push(Task::Window {
                window,
                batch: batch.slice_chunks(1..chunks),
                writer: writer.clone(),
                depth,
            });
        }
        let (windows, step) = &mut self.core.windows_and_step(outside);
        match windows.get_mut(window).process(now, step) {
            Ok(rows) => self.publish(window, rows, depth),
            Err(broken) => self.writer_failed(window, writer, broken, outside),
        }
    }

    /// A deadline of a named window is due.
    pub(crate) fn window_timer(
        &mut self,
        window: WindowId,
        deadline: i64,
        outside: &mut Outside<'_>,
    ) {
        let (windows, step) = &mut self.core.windows_and_step(outside);
        match windows.get_mut(window).on_timer(deadline, step) {
            Ok(rows) => self.publish(window, rows, 0),
            Err(broken) => self.writer_failed(window, None, broken, outside),
        }
    }

    fn publish(&mut self, window: WindowId, rows: Option<Batch>, depth: u32) {
        if let Some(batch) = rows {
            self.stack.push(Task::Stream {
                stream: self.junction_of(window),
                key: SHARED,
                batch,
                depth: depth + 1,
            });
        }
    }

    fn junction_of(&self, window: WindowId) -> StreamId {
        self.streams.len() - self.core.windows.iter().count() + window
    }
}
