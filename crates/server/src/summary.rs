//! What a run has done, in numbers: the object at the end of `run --json`.

use serde_json::{Value, json};

use crate::executor::ExecutorEnd;
use crate::metrics::{AppMetrics, Metrics};
use crate::process::{self, Process};

/// Counted from the start of the process.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    pub seconds: f64,
    /// At the end, when all input was read: time in which only windows were waited for.
    pub waited_seconds: f64,
    /// `None`: there was no event.
    pub first_event_ms: Option<u64>,
    pub apps: Vec<AppSummary>,
    pub peak_rss_bytes: u64,
    pub cpu_seconds: f64,
    /// Events rejected anywhere.
    pub rejected: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct AppSummary {
    pub name: String,
    pub sources: Vec<SourceSummary>,
    pub sinks: Vec<SinkSummary>,
    pub tables: Vec<TableSummary>,
    /// Rejected by queries.
    pub rejected: u64,
    /// Rows that a timer would still have emitted.
    pub held_in_windows: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct SourceSummary {
    pub stream: String,
    /// `file`, `kafka`.
    pub ty: String,
    pub events: u64,
    pub bytes: u64,
    pub rejected: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct SinkSummary {
    pub stream: String,
    /// `file`, `kafka`.
    pub ty: String,
    pub events: u64,
    pub failed: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TableSummary {
    pub name: String,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    pub failed: u64,
}

impl Summary {
    pub(crate) fn new(metrics: &Metrics, process: Process, ends: Vec<ExecutorEnd>) -> Summary {
        let mut apps: Vec<AppSummary> = metrics.ever().iter().map(|a| app(a)).collect();
        let waited = ends.iter().map(|e| e.waited).max().unwrap_or_default();
        for (name, rows) in ends.into_iter().flat_map(|e| e.held) {
            if let Some(app) = apps.iter_mut().find(|a| a.name == name) {
                app.held_in_windows = rows;
            }
        }
        Summary {
            seconds: process.seconds(),
            waited_seconds: waited.as_secs_f64(),
            first_event_ms: metrics.first_event_ms(),
            apps,
            peak_rss_bytes: process::peak_rss_bytes(),
            cpu_seconds: process::cpu_seconds(),
            rejected: metrics.rejected(),
        }
    }

    /// `{"type":"summary",…}`.
    pub fn to_json(&self) -> Value {
        let apps: Vec<Value> = self.apps.iter().map(app_json).collect();
        json!({
            "type": "summary",
            "version": 1,
            "seconds": rounded(self.seconds),
            "waited_seconds": rounded(self.waited_seconds),
            "first_event_ms": self.first_event_ms,
            "apps": apps,
            "rejected": self.rejected,
            "peak_rss_bytes": self.peak_rss_bytes,
            "cpu_seconds": rounded(self.cpu_seconds),
        })
    }
}

/// To the millisecond.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn app(metrics: &AppMetrics) -> AppSummary {
    let source = |s: &std::sync::Arc<crate::metrics::SourceMetrics>| SourceSummary {
        stream: s.label.element.clone(),
        ty: s.label.ty.clone(),
        events: s.events.get(),
        bytes: s.bytes.get(),
        rejected: s.rejected.get(),
    };
    let sink = |s: &std::sync::Arc<crate::metrics::SinkMetrics>| SinkSummary {
        stream: s.label.element.clone(),
        ty: s.label.ty.clone(),
        events: s.events.get(),
        failed: s.failed.get(),
    };
    let table = |t: &std::sync::Arc<crate::metrics::TableMetrics>| TableSummary {
        name: t.label.element.clone(),
        inserted: t.inserted.get(),
        updated: t.updated.get(),
        deleted: t.deleted.get(),
        failed: t.failed.get(),
    };
    AppSummary {
        name: metrics.label.app.clone(),
        sources: metrics.sources.all().iter().map(source).collect(),
        sinks: metrics.sinks.all().iter().map(sink).collect(),
        tables: metrics.tables.all().iter().map(table).collect(),
        rejected: metrics.rejected.get(),
        held_in_windows: metrics.held_in_windows.get(),
    }
}

fn app_json(app: &AppSummary) -> Value {
    let sources: Vec<Value> = app
        .sources
        .iter()
        .map(|s| {
            json!({"stream": s.stream, "type": s.ty, "events": s.events, "bytes": s.bytes,
                   "rejected": s.rejected})
        })
        .collect();
    let sinks: Vec<Value> = app
        .sinks
        .iter()
        .map(|s| json!({"stream": s.stream, "type": s.ty, "events": s.events, "failed": s.failed}))
        .collect();
    let tables: Vec<Value> = app
        .tables
        .iter()
        .map(|t| {
            json!({"name": t.name, "inserted": t.inserted, "updated": t.updated,
                   "deleted": t.deleted, "failed": t.failed})
        })
        .collect();
    json!({
        "name": app.name,
        "sources": sources,
        "sinks": sinks,
        "tables": tables,
        "rejected": app.rejected,
        "held_in_windows": app.held_in_windows,
    })
}
