//! What is known about the inside of an app: the work of its queries, what its parts hold, and the
//! report that `@app:statistics(reporter='console')` asks for.
//!
//! The numbers are filled in when the lane counts what its apps hold, never per event. Names in the
//! report are Siddhi's (`io.siddhi.SiddhiApps.App.Siddhi.Streams.S.throughput`); rates are over the time
//! since the report before.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use engine::{BOUNDS, QueryWork, size_text};
use lang::plan::{Plan, Statistics};

use crate::metrics::{AppMetrics, Counter, Label, Text, escaped};

/// What one query has done.
#[derive(Debug, Default)]
pub struct QueryMetrics {
    pub label: Label,
    pub events: Counter,
    /// Calls that were timed, their time, and how many took at most so long.
    pub timed: Counter,
    pub nanos: Counter,
    pub buckets: [Counter; BOUNDS.len() + 1],
}

impl QueryMetrics {
    pub(crate) fn set(&self, work: &QueryWork) {
        self.events.set(work.events);
        self.timed.set(work.timed);
        self.nanos.set(work.nanos);
        for (counter, &count) in self.buckets.iter().zip(&work.buckets) {
            counter.set(count);
        }
    }

    /// The bound below which this share of the timed calls took, nanoseconds; `None`: longer than all
    /// bounds, or nothing was timed.
    fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.timed.get() as f64 * share).ceil() as u64;
        let mut seen = 0;
        BOUNDS
            .iter()
            .zip(&self.buckets)
            .find_map(|(&bound, count)| {
                seen += count.get();
                (seen >= wanted && wanted > 0).then_some(bound)
            })
    }
}

/// One part of an app that keeps something.
#[derive(Debug, Default)]
pub struct PartMetrics {
    /// `ty` is the kind of the part: `query`, `window`, `table`, …
    pub label: Label,
    pub bytes: Counter,
}

/// The families about queries and parts, for Prometheus.
pub(crate) fn prometheus(apps: &[std::sync::Arc<AppMetrics>], text: &mut Text) {
    const EVENTS: &str = "headwater_query_events_total";
    const SECONDS: &str = "headwater_query_seconds";
    const BYTES: &str = "headwater_memory_bytes";
    text.family(EVENTS, "Events handed to a query.");
    for query in apps.iter().flat_map(|a| a.queries.all()) {
        let labels = query_labels(&query.label);
        text.put(format_args!(
            "{EVENTS}{{{labels}}} {}\n",
            query.events.get()
        ));
    }
    text.put(format_args!(
        "# HELP {SECONDS} Time a query took for what it was handed at once: a sample of its calls.\n\
         # TYPE {SECONDS} histogram\n"
    ));
    for query in apps.iter().flat_map(|a| a.queries.all()) {
        let labels = query_labels(&query.label);
        let mut count = 0;
        for (bucket, bound) in query.buckets.iter().zip(BOUNDS) {
            count += bucket.get();
            let bound = bound as f64 / 1e9;
            text.put(format_args!(
                "{SECONDS}_bucket{{{labels},le=\"{bound}\"}} {count}\n"
            ));
        }
        let (timed, seconds) = (query.timed.get(), query.nanos.get() as f64 / 1e9);
        text.put(format_args!(
            "{SECONDS}_bucket{{{labels},le=\"+Inf\"}} {timed}\n\
             {SECONDS}_sum{{{labels}}} {seconds}\n{SECONDS}_count{{{labels}}} {timed}\n"
        ));
    }
    text.family(BYTES, "Bytes that a part of an app holds in memory.");
    for part in apps.iter().flat_map(|a| a.parts.all()) {
        let Label { app, element, ty } = &part.label;
        let (app, element) = (escaped(app), escaped(element));
        text.put(format_args!(
            "{BYTES}{{app=\"{app}\",kind=\"{ty}\",name=\"{element}\"}} {}\n",
            part.bytes.get()
        ));
    }
}

fn query_labels(label: &Label) -> String {
    let (app, query) = (escaped(&label.app), escaped(&label.element));
    format!("app=\"{app}\",query=\"{query}\"")
}

/// Writes the report of one app from time to time.
pub(crate) struct Reporter {
    every: Duration,
    pub due: Instant,
    include: Vec<String>,
    last: Instant,
    /// Counts at the report before.
    before: HashMap<String, u64>,
}

impl Reporter {
    pub fn of(plan: &Plan, now: Instant) -> Option<Reporter> {
        let asked = plan.options.statistics.as_ref()?;
        let Statistics {
            is_console: true,
            interval_seconds,
            include,
        } = asked
        else {
            return None;
        };
        let every = Duration::from_secs(*interval_seconds);
        Some(Reporter {
            every,
            due: now + every,
            include: include.clone(),
            last: now,
            before: HashMap::new(),
        })
    }

    /// The lines of the report that is due.
    pub fn report(&mut self, app: &AppMetrics, now: Instant) -> Vec<String> {
        let seconds = (now - self.last).as_secs_f64().max(1e-3);
        self.last = now;
        // One that was missed is not made up for.
        self.due = now + self.every;
        let mut lines = vec![format!("statistics of app '{}'", app.label.app)];
        for (name, reading) in readings(app) {
            let name = format!("io.siddhi.SiddhiApps.{}.Siddhi.{name}", app.label.app);
            let is_wanted = |pattern: &String| matches(pattern, &name);
            if !self.include.is_empty() && !self.include.iter().any(is_wanted) {
                continue;
            }
            let said = match reading {
                Reading::Text(text) => text,
                Reading::Count(count) => {
                    let before = self.before.insert(name.clone(), count).unwrap_or(0);
                    let rate = count.saturating_sub(before) as f64 / seconds;
                    format!("count={count} rate={rate:.1}/s")
                }
            };
            lines.push(format!("{name} {said}"));
        }
        lines
    }
}

enum Reading {
    /// A number that only grows.
    Count(u64),
    Text(String),
}

/// Everything that is known of an app, by the end of its name.
fn readings(app: &AppMetrics) -> Vec<(String, Reading)> {
    let mut all = Vec::new();
    for source in app.sources.all() {
        let name = format!("Sources.{}.{}", source.label.element, source.label.ty);
        all.push((
            format!("{name}.throughput"),
            Reading::Count(source.events.get()),
        ));
        all.push((
            format!("{name}.errors"),
            Reading::Count(source.rejected.get()),
        ));
    }
    for stream in app.streams.all() {
        let name = format!("Streams.{}.throughput", stream.label.element);
        all.push((name, Reading::Count(stream.events.get())));
        if stream.is_async {
            let queued = format!("events={}", stream.queued.get());
            let name = format!("Streams.{}.buffer", stream.label.element);
            all.push((name, Reading::Text(queued)));
        }
    }
    for query in app.queries.all() {
        let name = format!("Queries.{}", query.label.element);
        all.push((
            format!("{name}.throughput"),
            Reading::Count(query.events.get()),
        ));
        let (timed, nanos) = (query.timed.get(), query.nanos.get());
        let mean = nanos as f64 / timed.max(1) as f64 / 1e6;
        let below = |share| match query.quantile(share) {
            Some(nanos) => format!("<={}ms", nanos as f64 / 1e6),
            None if timed == 0 => "-".to_owned(),
            None => ">1000ms".to_owned(),
        };
        let said = format!(
            "timed={timed} mean={mean:.4}ms p50{} p99{}",
            below(0.5),
            below(0.99)
        );
        all.push((format!("{name}.latency"), Reading::Text(said)));
    }
    for part in app.parts.all() {
        let kind = match part.label.ty.as_str() {
            "query" => "Queries",
            "window" => "Windows",
            "table" => "Tables",
            "aggregation" => "Aggregations",
            "partition" => "Partitions",
            _ => "Timers",
        };
        let name = match part.label.element.as_str() {
            "" => format!("{kind}.memory"),
            element => format!("{kind}.{element}.memory"),
        };
        let bytes = part.bytes.get();
        let said = format!("bytes={bytes} ({})", size_text(bytes as usize));
        all.push((name, Reading::Text(said)));
    }
    for table in app.tables.all() {
        let name = format!("Tables.{}", table.label.element);
        for (what, count) in [
            ("insert", &table.inserted),
            ("update", &table.updated),
            ("delete", &table.deleted),
        ] {
            let name = format!("{name}.{what}.throughput");
            all.push((name, Reading::Count(count.get())));
        }
    }
    for sink in app.sinks.all() {
        let name = format!("Sinks.{}.{}", sink.label.element, sink.label.ty);
        all.push((
            format!("{name}.throughput"),
            Reading::Count(sink.events.get()),
        ));
        all.push((format!("{name}.errors"), Reading::Count(sink.failed.get())));
        let queued = format!("events={}", sink.queued.get());
        all.push((format!("{name}.buffer"), Reading::Text(queued)));
    }
    let waiting = format!("events={}", app.queued.get());
    all.push(("App.buffer".to_owned(), Reading::Text(waiting)));
    all.push(("App.errors".to_owned(), Reading::Count(app.rejected.get())));
    all
}

/// Does a name fit a pattern in which `*` stands for anything? Each step of the walk moves one of two
/// places on, so the time is bounded by the product of the lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, n));
            p += 1;
        } else if pattern.get(p) == Some(&name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            (p, n) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::StreamMetrics;

    #[test]
    fn patterns_have_stars() {
        for (pattern, name, fits) in [
            ("*", "a.b", true),
            ("*.*", "a.b", true),
            ("*.*", "ab", false),
            ("*Streams*", "x.Streams.S", true),
            ("*.throughput", "x.S.latency", false),
            ("", "a", false),
            ("a*b*c", "a1b2b3c", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    fn app() -> AppMetrics {
        let app = AppMetrics {
            label: Label {
                app: "A".into(),
                ..Label::default()
            },
            ..AppMetrics::default()
        };
        let label = |element: &str, ty: &str| Label {
            app: "A".into(),
            element: element.into(),
            ty: ty.into(),
        };
        let stream = StreamMetrics {
            label: label("S", "stream"),
            ..StreamMetrics::default()
        };
        app.streams.enlist(stream).events.set(30);
        let waiting = StreamMetrics {
            label: label("W", "stream"),
            is_async: true,
            ..StreamMetrics::default()
        };
        app.streams.enlist(waiting).queued.set(7);
        let query = QueryMetrics {
            label: label("q\"1", "query"),
            ..QueryMetrics::default()
        };
        let mut work = QueryWork {
            events: 30,
            timed: 4,
            nanos: 8_000,
            ..QueryWork::default()
        };
        work.buckets[0] = 3;
        work.buckets[BOUNDS.len()] = 1;
        app.queries.enlist(query).set(&work);
        let part = PartMetrics {
            label: label("T", "table"),
            ..PartMetrics::default()
        };
        app.parts.enlist(part).bytes.set(2_048);
        app
    }

    // covers: 654
    #[test]
    fn the_report_has_rates_since_the_one_before() {
        let begun = Instant::now();
        let mut reporter = Reporter {
            every: Duration::from_secs(5),
            due: begun,
            include: vec!["*.Streams.*".into(), "*.latency".into(), "*T.memory".into()],
            last: begun,
            before: HashMap::new(),
        };
        let app = app();
        let lines = reporter.report(&app, begun + Duration::from_secs(10));
        let expect = [
            "statistics of app 'A'",
            "io.siddhi.SiddhiApps.A.Siddhi.Streams.S.throughput count=30 rate=3.0/s",
            "io.siddhi.SiddhiApps.A.Siddhi.Streams.W.throughput count=0 rate=0.0/s",
            "io.siddhi.SiddhiApps.A.Siddhi.Streams.W.buffer events=7",
            "io.siddhi.SiddhiApps.A.Siddhi.Queries.q\"1.latency timed=4 mean=0.0020ms p50<=0.001ms \
             p99>1000ms",
            "io.siddhi.SiddhiApps.A.Siddhi.Tables.T.memory bytes=2048 (2.0 KB)",
        ];
        assert_eq!(lines, expect);
        let lines = reporter.report(&app, begun + Duration::from_secs(20));
        assert!(lines[1].ends_with("count=30 rate=0.0/s"), "{lines:?}");
        assert_eq!(reporter.due, begun + Duration::from_secs(25));
    }

    #[test]
    fn prometheus_has_a_histogram_of_each_query() {
        let mut text = Text::default();
        prometheus(&[std::sync::Arc::new(app())], &mut text);
        for line in [
            "headwater_query_events_total{app=\"A\",query=\"q\\\"1\"} 30\n",
            "headwater_query_seconds_bucket{app=\"A\",query=\"q\\\"1\",le=\"0.000001\"} 3\n",
            "headwater_query_seconds_bucket{app=\"A\",query=\"q\\\"1\",le=\"1\"} 3\n",
            "headwater_query_seconds_bucket{app=\"A\",query=\"q\\\"1\",le=\"+Inf\"} 4\n",
            "headwater_query_seconds_sum{app=\"A\",query=\"q\\\"1\"} 0.000008\n",
            "# TYPE headwater_query_seconds histogram\n",
            "headwater_memory_bytes{app=\"A\",kind=\"table\",name=\"T\"} 2048\n",
        ] {
            assert!(text.as_str().contains(line), "{line} in {}", text.as_str());
        }
    }
}
