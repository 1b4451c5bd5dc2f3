//! Where a server stands, in one document: `GET /status`, `headwater status` and `headwater top`.
//!
//! Everything in it is read from the counters ([`crate::metrics`]); no app is asked, so that an app that is
//! stuck is shown as well. Rates are those of the last ten seconds: somebody has to call [`mark`] once per
//! second for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use plan::StatisticsLevel;
use serde_json::{Value as Json, json};

use crate::clock::{timestamp, wall_millis};
use crate::metrics::{
    AppMetrics, Label, MEMORY, Metrics, SinkMetrics, SourceMetrics, TableMetrics,
};
use crate::presence::Presence;
use crate::process;
use crate::statistics::QueryMetrics;

/// Notes how far all counters are, for the rates.
pub(crate) fn mark(metrics: &Metrics, now: Instant) {
    for app in metrics.apps.all() {
        for source in app.sources.all() {
            source.recent.mark(now, source.events.get());
        }
        for sink in app.sinks.all() {
            sink.recent.mark(now, sink.events.get());
        }
        for query in app.queries.all() {
            query.recent.mark(now, query.events.get());
        }
        for stream in app.streams.all() {
            stream.recent.mark(now, stream.events.get());
        }
    }
}

/// The document.
pub(crate) fn document(metrics: &Metrics, now: Instant) -> Json {
    let apps: Vec<Json> = metrics.apps.all().iter().map(|a| app(a, now)).collect();
    let not_ready = metrics.not_ready();
    let started = (process::start_seconds() * 1000.0) as i64;
    let wall = wall_millis();
    json!({
        "version": 1,
        "server": {
            "version": env!("CARGO_PKG_VERSION"),
            "time": timestamp(wall),
            "started": timestamp(started),
            "uptimeSeconds": (wall - started).max(0) as f64 / 1000.0,
            "residentBytes": process::rss_bytes(),
            "cpuSeconds": process::cpu_seconds(),
        },
        "ready": not_ready.is_none(),
        "rejected": metrics.rejected(),
        "apps": apps,
    })
}

fn app(app: &Arc<AppMetrics>, now: Instant) -> Json {
    let sources = app.sources.all();
    let rate: f64 = sources
        .iter()
        .map(|s| s.recent.rate(now, s.events.get()))
        .sum();
    let events: u64 = sources.iter().map(|s| s.events.get()).sum();
    let (tables, sinks) = (app.tables.all(), app.sinks.all());
    let rejected = app.rejected.get()
        + sources.iter().map(|s| s.rejected.get()).sum::<u64>()
        + sinks.iter().map(|s| s.failed.get()).sum::<u64>()
        + tables.iter().map(|t| t.failed.get()).sum::<u64>();
    let lost = sources.iter().map(|s| s.presence.is_lost());
    let lost = lost.chain(sinks.iter().map(|s| s.presence.is_lost()));
    let mut lost = lost.chain(tables.iter().map(|t| t.presence.is_lost()));
    let limit = app.memory_limit.get();
    let level = app.level.get();
    let streams = app.streams.all();
    json!({
        "name": app.label.app,
        "ready": !lost.any(|is_lost| is_lost),
        "events": events,
        "eventsPerSecond": rounded(rate),
        "rejected": rejected,
        "refused": app.refused.get(),
        "queued": app.queued.get(),
        "queueFill": app.queue_fill.get() as f64 / 1000.0,
        "busySeconds": app.step_nanos.get() as f64 / 1e9,
        "heldInWindows": app.held_in_windows.get(),
        "memoryBytes": app.memory_bytes.get(),
        "memoryLimitBytes": (limit > 0).then_some(limit),
        "statistics": level.name(),
        "checkpoint": checkpoint(app),
        "sources": sources.iter().map(|s| source(s, now)).collect::<Vec<Json>>(),
        "sinks": sinks.iter().map(|s| sink(s, now)).collect::<Vec<Json>>(),
        "tables": tables.iter().map(|t| table(t)).collect::<Vec<Json>>(),
        "streams": streams
            .iter()
            .map(|s| json!({
                "name": s.label.element,
                "events": s.events.get(),
                "eventsPerSecond": rounded(s.recent.rate(now, s.events.get())),
            }))
            .collect::<Vec<Json>>(),
        "queries": app
            .queries
            .all()
            .iter()
            .map(|q| query(q, level >= StatisticsLevel::Basic, now))
            .collect::<Vec<Json>>(),
    })
}

/// The last checkpoint that was saved; null without a state directory.
fn checkpoint(app: &AppMetrics) -> Json {
    let at = i64::try_from(app.checkpoint_ms.get()).unwrap_or(i64::MAX);
    if at == 0 {
        return Json::Null;
    }
    json!({
        "time": timestamp(at),
        "ageSeconds": (wall_millis() - at).max(0) as f64 / 1000.0,
        "tookSeconds": app.checkpoint_micros.get() as f64 / 1e6,
        "stateBytes": app.state_bytes.get(),
        "count": app.snapshots.get(),
    })
}

fn source(source: &SourceMetrics, now: Instant) -> Json {
    let mut json = element(&source.label, &source.presence, Some(&source.is_connected));
    if source.has_ended.load(Ordering::Relaxed) {
        json["state"] = json!("ended");
    }
    json["events"] = json!(source.events.get());
    json["eventsPerSecond"] = json!(rounded(source.recent.rate(now, source.events.get())));
    json["rejected"] = json!(source.rejected.get());
    json["retries"] = json!(source.retries.get());
    json["bytes"] = json!(source.bytes.get());
    json["lag"] = json!(source.lag());
    json["waitingBytes"] = json!(source.bytes_waiting());
    json["heldBackSeconds"] = json!(source.held_back_nanos.get() as f64 / 1e9);
    json
}

fn sink(sink: &SinkMetrics, now: Instant) -> Json {
    let mut json = element(&sink.label, &sink.presence, Some(&sink.is_connected));
    json["events"] = json!(sink.events.get());
    json["eventsPerSecond"] = json!(rounded(sink.recent.rate(now, sink.events.get())));
    json["rejected"] = json!(sink.failed.get());
    json["retries"] = json!(sink.retries.get());
    json["queued"] = json!(sink.queued.get());
    json["queueFill"] = json!(sink.queue_fill.get() as f64 / 1000.0);
    json
}

fn table(table: &TableMetrics) -> Json {
    let mut json = element(&table.label, &table.presence, None);
    json["inserted"] = json!(table.inserted.get());
    json["updated"] = json!(table.updated.get());
    json["deleted"] = json!(table.deleted.get());
    json["rejected"] = json!(table.failed.get());
    json["rows"] = json!((table.label.ty == MEMORY).then(|| table.rows.get()));
    json
}

/// What is not measured at the app's level is null.
fn query(query: &QueryMetrics, is_measured: bool, now: Instant) -> Json {
    let events = query.events.get();
    let rate = query.recent.rate(now, events);
    json!({
        "name": query.label.element,
        "events": is_measured.then_some(events),
        "eventsPerSecond": is_measured.then(|| rounded(rate)),
        "meanSeconds": is_measured.then(|| query.mean_seconds()).flatten(),
    })
}

/// What all parts with another side have in common.
fn element(label: &Label, presence: &Presence, is_connected: Option<&AtomicBool>) -> Json {
    let name = match label.number {
        0 => label.element.clone(),
        number => format!("{}[{number}]", label.element),
    };
    let is_connected = is_connected.is_none_or(|is| is.load(Ordering::Relaxed));
    let away = presence.away();
    let state = match (&away, is_connected) {
        (Some(_), _) => "away",
        (None, true) => "connected",
        (None, false) => "connecting",
    };
    json!({
        "name": name,
        "type": label.ty,
        "state": state,
        "since": away.as_ref().map(|away| timestamp(away.since)),
        "cause": away.as_ref().map(|away| away.cause.clone()),
        "nextTry": away.and_then(|away| away.next_try).map(timestamp),
    })
}

/// To a thousandth.
fn rounded(rate: f64) -> f64 {
    // The sum of nothing is -0.
    (rate * 1000.0).round() / 1000.0 + 0.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_document_says_what_is_away_since_when_and_why() {
        let metrics = Metrics::default();
        let app = metrics.enlist("Shop");
        let label = Label {
            app: "Shop".into(),
            element: "Sales".into(),
            ty: "kafka".into(),
            number: 2,
            is_twin: false,
        };
        let source = app.sources.enlist(SourceMetrics {
            label: label.clone(),
            ..SourceMetrics::default()
        });
        let sink = app.sinks.enlist(SinkMetrics {
            label,
            ..SinkMetrics::default()
        });
        let begun = Instant::now();
        mark(&metrics, begun);
        source.events.add(40);
        source.rejected.add(3);
        source.is_connected.store(true, Ordering::Relaxed);
        let now = begun + Duration::from_secs(4);
        let status = document(&metrics, now);
        assert_eq!(status["ready"], true);
        let shop = &status["apps"][0];
        assert_eq!(
            (&shop["name"], &shop["ready"]),
            (&json!("Shop"), &json!(true))
        );
        assert_eq!(shop["eventsPerSecond"], 10.0);
        assert_eq!(shop["rejected"], 3);
        assert_eq!(shop["checkpoint"], Json::Null);
        assert_eq!(shop["sources"][0]["name"], "Sales[2]");
        assert_eq!(shop["sources"][0]["state"], "connected");
        assert_eq!(shop["sinks"][0]["state"], "connecting");
        sink.presence
            .lost("connection refused", Some(Duration::from_secs(5)));
        app.checkpoint_ms.set(wall_millis().unsigned_abs());
        let status = document(&metrics, now);
        assert_eq!(status["ready"], false);
        let sink = &status["apps"][0]["sinks"][0];
        assert_eq!(sink["state"], "away");
        assert_eq!(sink["cause"], "connection refused");
        assert!(sink["since"].is_string() && sink["nextTry"].is_string());
        let age = status["apps"][0]["checkpoint"]["ageSeconds"].as_f64();
        assert!(age.is_some_and(|age| (0.0..60.0).contains(&age)), "{age:?}");
    }
}
