//! What an executor says about its apps while they run: memory that comes to its budget, and reports.

use std::time::Instant;

use engine::size_text;

use super::{Executor, RunningApp, SinkBinding};

/// Parts that are named as those that hold most.
const NAMED_MAX: usize = 3;

impl RunningApp {
    /// Says when the app comes near its budget, and when it has room again.
    pub(super) fn watch_budget(&mut self) {
        let Some(budget) = self.engine.budget() else {
            return;
        };
        self.metrics.refused.set(budget.refused);
        if budget.is_high() == self.is_high {
            return;
        }
        self.is_high = budget.is_high();
        let Some(count) = self.budget_throttle.admit() else {
            return;
        };
        let (held, limit) = (size_text(budget.held), size_text(budget.limit));
        if self.is_high {
            tracing::warn!(
                app = self.name,
                held,
                limit,
                most = self.holds_most(),
                count,
                "app is close to its memory budget; events are refused once it is used up"
            );
        } else {
            tracing::info!(
                app = self.name,
                held,
                limit,
                count,
                "app is no longer close to its memory budget"
            );
        }
    }

    /// `table 'T' 12.0 MB, query 'q' 1.5 MB`.
    fn holds_most(&self) -> String {
        let mut parts: Vec<_> = self.engine.held().collect();
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let named: Vec<String> = parts
            .iter()
            .take(NAMED_MAX)
            .map(|(holder, bytes)| {
                let (kind, name) = (holder.kind(), holder.name(&self.plan));
                format!("{kind} '{name}' {}", size_text(*bytes))
            })
            .collect();
        named.join(", ")
    }

    /// Brings the numbers about its inside up to date.
    pub(super) fn count(&mut self) {
        let held = self.engine.held_in_windows() as u64;
        self.metrics.held_in_windows.set(held);
        let mut bytes = 0;
        for ((_, part), metrics) in self.engine.held().zip(&self.parts) {
            metrics.bytes.set(part as u64);
            bytes += part as u64;
        }
        self.metrics.memory_bytes.set(bytes);
        for (stream, &rows) in self.streams.iter().zip(self.engine.rows_in()) {
            stream.events.set(rows);
        }
        for (query, work) in self.queries.iter().zip(self.engine.work()) {
            query.set(work);
        }
        for sink in self.sinks.iter().flatten() {
            if let SinkBinding::Thread {
                output_queue,
                metrics,
                ..
            } = sink
            {
                metrics.queued.set(output_queue.held().rows as u64);
                metrics.queue_fill.set(output_queue.fill());
            }
        }
        for (table, metrics) in &self.tables {
            let rows = self.engine.table_rows(*table).unwrap_or(0);
            metrics.rows.set(rows as u64);
        }
    }
}

impl Executor {
    /// When the next report of an app is due.
    pub(super) fn next_report(&self) -> Option<Instant> {
        let reporters = self.apps.iter().filter_map(|app| app.reporter.as_ref());
        reporters.map(|reporter| reporter.due).min()
    }

    /// Writes the reports that are due.
    pub(super) fn report(&mut self) {
        let now = Instant::now();
        if self.next_report().is_none_or(|due| due > now) {
            return;
        }
        self.count();
        for app in &mut self.apps {
            if let Some(reporter) = app.reporter.as_mut().filter(|r| r.due <= now) {
                let lines = reporter.report(&app.metrics, now);
                lines.iter().for_each(|line| self.lines.put(line));
            }
        }
        self.lines.flush();
    }
}
