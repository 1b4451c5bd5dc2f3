//! What is known about the inside of an app: the work of its queries and mappers, what its parts hold,
//! and the report that `@app:statistics(reporter='console')` asks for.
//!
//! How much is measured is the app's level, which can be changed while it runs. Sources, sinks,
//! streams and tables are counted at every level, as the server itself needs that; higher levels
//! define what else is measured and reported. Numbers are filled in when the executor counts what
//! its apps hold, or once per batch, never per event. Names in the report are Siddhi's
//! (`io.siddhi.SiddhiApps.App.Siddhi.Streams.S.throughput`); rates are over the time since the
//! previous report.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use engine::{BOUNDS, QueryWork, size_text};
use plan::{Plan, Statistics, StatisticsLevel};
use serde_json::{Value as Json, json};

use crate::families::{Families, Labels, Times};
use crate::metrics::{AppMetrics, Counter, Label, Listed};
use crate::recent::Recent;

/// The level of one app, read once per step and batch.
#[derive(Debug, Default)]
pub struct Level(AtomicU8);

/// Beside the number of the level: it was set while the app ran.
const BY_HAND: u8 = 0x80;

impl Level {
    pub fn get(&self) -> StatisticsLevel {
        let number = self.0.load(Ordering::Relaxed) & !BY_HAND;
        StatisticsLevel::ALL[usize::from(number)]
    }

    /// Sets it from outside: it stays also when the app is begun anew.
    pub fn set(&self, level: StatisticsLevel) {
        self.0.store(level as u8 | BY_HAND, Ordering::Relaxed);
    }

    /// The app begins, as its text says.
    pub(crate) fn begin(&self, plan: &Plan) {
        let written = plan.options.statistics.as_ref();
        let level = written.map_or(StatisticsLevel::Off, |s| s.level);
        // An error says that somebody has set it by hand.
        let _kept = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                (old & BY_HAND == 0).then_some(level as u8)
            });
    }
}

/// Calls that were timed, their time, and how many took at most so long.
#[derive(Debug, Default)]
pub struct Latency {
    timed: Counter,
    nanos: Counter,
    buckets: [Counter; BOUNDS.len() + 1],
}

impl Latency {
    fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.timed.add(1);
        self.nanos.add(nanos);
        self.buckets[BOUNDS.partition_point(|&bound| bound < nanos)].add(1);
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

    fn times(&self) -> Times {
        Times {
            count: self.timed.get(),
            seconds: self.nanos.get() as f64 / 1e9,
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].get()),
        }
    }

    fn reading(&self) -> Reading {
        let timed = self.timed.get();
        let millis = |nanos: u64| nanos as f64 / 1e6;
        Reading::Latency {
            timed,
            mean_ms: millis(self.nanos.get()) / timed.max(1) as f64,
            p50_ms: self.quantile(0.5).map(millis),
            p99_ms: self.quantile(0.99).map(millis),
        }
    }
}

/// What one query has done.
#[derive(Debug, Default)]
pub struct QueryMetrics {
    pub label: Label,
    pub events: Counter,
    pub latency: Latency,
    /// Of its events.
    pub recent: Recent,
}

impl QueryMetrics {
    /// What a call took on the average of those that were timed; `None`: none was.
    pub(crate) fn mean_seconds(&self) -> Option<f64> {
        let timed = self.latency.timed.get();
        (timed > 0).then(|| self.latency.nanos.get() as f64 / 1e9 / timed as f64)
    }

    pub(crate) fn set(&self, work: &QueryWork) {
        self.events.set(work.events);
        self.latency.timed.set(work.timed);
        self.latency.nanos.set(work.nanos);
        for (counter, &count) in self.latency.buckets.iter().zip(&work.buckets) {
            counter.set(count);
        }
    }
}

/// The mapper of one source or sink.
#[derive(Debug, Default)]
pub struct MapperMetrics {
    /// `ty` is that of the source or sink, and of the mapper: `http.json`.
    pub label: Label,
    level: Arc<Level>,
    pub latency: Latency,
}

impl MapperMetrics {
    pub(crate) fn new(label: Label, level: &Arc<Level>) -> MapperMetrics {
        MapperMetrics {
            label,
            level: Arc::clone(level),
            latency: Latency::default(),
        }
    }

    /// What the mapper does for one batch; timed at DETAIL, and else no clock is read.
    pub(crate) fn time<T>(&self, map: impl FnOnce() -> T) -> T {
        if self.level.get() < StatisticsLevel::Detail {
            return map();
        }
        let begun = Instant::now();
        let mapped = map();
        self.latency.add(begun.elapsed());
        mapped
    }
}

/// Times one call of a source's mapper in each batch: it may be called for every event.
pub(crate) struct SourceMapping {
    metrics: Arc<MapperMetrics>,
    is_begun: bool,
}

impl SourceMapping {
    pub fn new(metrics: Arc<MapperMetrics>) -> SourceMapping {
        SourceMapping {
            metrics,
            is_begun: false,
        }
    }

    pub fn time<T>(&mut self, map: impl FnOnce() -> T) -> T {
        match std::mem::replace(&mut self.is_begun, true) {
            false => self.metrics.time(map),
            true => map(),
        }
    }

    /// The batch has been taken.
    pub fn next_batch(&mut self) {
        self.is_begun = false;
    }
}

/// One part of an app that keeps something.
#[derive(Debug, Default)]
pub struct PartMetrics {
    /// `ty` is the kind of the part: `query`, `window`, `table`, …
    pub label: Label,
    pub bytes: Counter,
}

/// The families about queries, mappers and parts: of each app what its level measures.
pub(crate) fn read(apps: &[Arc<AppMetrics>], page: &mut Families) {
    let at = |level| apps.iter().filter(move |app| app.level.get() >= level);
    let queries = || at(StatisticsLevel::Basic).flat_map(|a| a.queries.all());
    page.begin("headwater_query_events_total", "Events handed to a query.");
    for query in queries() {
        page.put(query_labels(&query.label), query.events.get() as f64);
    }
    page.begin_times(
        "headwater_query_seconds",
        "Time per call of a query, sampled.",
    );
    for query in queries() {
        page.put_times(query_labels(&query.label), query.latency.times());
    }
    for (name, help, mappers) in MAPPER_FAMILIES {
        page.begin_times(name, help);
        for mapper in at(StatisticsLevel::Detail).flat_map(|a| mappers(a).all()) {
            page.put_times(mapper.label.of("stream"), mapper.latency.times());
        }
    }
    page.begin(
        "headwater_memory_bytes",
        "Bytes that a part of an app holds in memory.",
    );
    for part in at(StatisticsLevel::Detail).flat_map(|a| a.parts.all()) {
        let Label {
            app, element, ty, ..
        } = &part.label;
        let labels = vec![
            ("app", app.clone()),
            ("kind", ty.clone()),
            ("name", element.clone()),
        ];
        page.put(labels, part.bytes.get() as f64);
    }
}

type Mappers = fn(&AppMetrics) -> &Listed<MapperMetrics>;

const MAPPER_FAMILIES: [(&str, &str, Mappers); 2] = [
    (
        "headwater_source_mapper_seconds",
        "Time per call of the mapper of a source, one call of each batch.",
        |a| &a.source_mappers,
    ),
    (
        "headwater_sink_mapper_seconds",
        "Time the mapper of a sink took for a batch.",
        |a| &a.sink_mappers,
    ),
];

fn query_labels(label: &Label) -> Labels {
    vec![("app", label.app.clone()), ("query", label.element.clone())]
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
            level: _,
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

    /// The lines of the report that is due; none while the app is not measured.
    pub fn report(&mut self, app: &AppMetrics, now: Instant) -> Vec<String> {
        // One that was missed is not made up for.
        self.due = now + self.every;
        let level = app.level.get();
        if level == StatisticsLevel::Off {
            return Vec::new();
        }
        let seconds = (now - self.last).as_secs_f64().max(1e-3);
        self.last = now;
        let mut lines = vec![format!("statistics of app '{}'", app.label.app)];
        for (name, reading) in readings(app, level) {
            let name = format!("io.siddhi.SiddhiApps.{}.Siddhi.{name}", app.label.app);
            let is_wanted = |pattern: &String| matches(pattern, &name);
            if !self.include.is_empty() && !self.include.iter().any(is_wanted) {
                continue;
            }
            let said = match reading {
                Reading::Count(count) => {
                    let before = self.before.insert(name.clone(), count).unwrap_or(0);
                    let rate = count.saturating_sub(before) as f64 / seconds;
                    format!("count={count} rate={rate:.1}/s")
                }
                other => other.text(),
            };
            lines.push(format!("{name} {said}"));
        }
        lines
    }
}

/// What is known of one part of an app.
enum Reading {
    /// A number that only grows.
    Count(u64),
    /// Events that wait.
    Waiting(u64),
    Bytes(u64),
    /// Quantiles are upper bounds; `None`: longer than all bounds, or nothing was timed.
    Latency {
        timed: u64,
        mean_ms: f64,
        p50_ms: Option<f64>,
        p99_ms: Option<f64>,
    },
}

impl Reading {
    fn text(&self) -> String {
        match self {
            Reading::Count(count) => format!("count={count}"),
            Reading::Waiting(events) => format!("events={events}"),
            Reading::Bytes(bytes) => format!("bytes={bytes} ({})", size_text(*bytes as usize)),
            Reading::Latency {
                timed,
                mean_ms,
                p50_ms,
                p99_ms,
            } => {
                let below = |quantile: &Option<f64>| match quantile {
                    Some(ms) => format!("<={ms}ms"),
                    None if *timed == 0 => "-".to_owned(),
                    None => ">1000ms".to_owned(),
                };
                let (p50, p99) = (below(p50_ms), below(p99_ms));
                format!("timed={timed} mean={mean_ms:.4}ms p50{p50} p99{p99}")
            }
        }
    }

    fn json(&self, name: &str) -> Json {
        match self {
            Reading::Count(count) => json!({ "name": name, "count": count }),
            Reading::Waiting(events) => json!({ "name": name, "events": events }),
            Reading::Bytes(bytes) => json!({ "name": name, "bytes": bytes }),
            Reading::Latency {
                timed,
                mean_ms,
                p50_ms,
                p99_ms,
            } => json!({
                "name": name,
                "timed": timed,
                "meanMs": mean_ms,
                "p50AtMostMs": p50_ms,
                "p99AtMostMs": p99_ms,
            }),
        }
    }
}

/// The level of an app and its readings, for those who ask over HTTP.
pub(crate) fn to_json(app: &AppMetrics) -> Json {
    let level = app.level.get();
    let readings = readings(app, level).into_iter();
    json!({
        "appName": app.label.app,
        "level": level.name(),
        "statsEnable": level > StatisticsLevel::Off,
        "readings": readings.map(|(name, reading)| reading.json(&name)).collect::<Json>(),
    })
}

/// What is told of an app at a level, by the end of its name.
fn readings(app: &AppMetrics, level: StatisticsLevel) -> Vec<(String, Reading)> {
    let mut all = Vec::new();
    if level >= StatisticsLevel::Basic {
        read_work(app, &mut all);
    }
    if level >= StatisticsLevel::Detail {
        read_details(app, &mut all);
    }
    all
}

/// Throughput, the latency of queries, and what failed.
fn read_work(app: &AppMetrics, all: &mut Vec<(String, Reading)>) {
    let mut count =
        |name: String, counter: &Counter| all.push((name, Reading::Count(counter.get())));
    for source in app.sources.all() {
        let name = format!("Sources.{}.{}", source.label.element, source.label.ty);
        count(format!("{name}.throughput"), &source.events);
        count(format!("{name}.errors"), &source.rejected);
    }
    for stream in app.streams.all() {
        let name = format!("Streams.{}.throughput", stream.label.element);
        count(name, &stream.events);
    }
    for table in app.tables.all() {
        let name = format!("Tables.{}", table.label.element);
        count(format!("{name}.insert.throughput"), &table.inserted);
        count(format!("{name}.update.throughput"), &table.updated);
        count(format!("{name}.delete.throughput"), &table.deleted);
    }
    for sink in app.sinks.all() {
        let name = format!("Sinks.{}.{}", sink.label.element, sink.label.ty);
        count(format!("{name}.throughput"), &sink.events);
        count(format!("{name}.errors"), &sink.failed);
    }
    count("App.errors".to_owned(), &app.rejected);
    for query in app.queries.all() {
        let name = format!("Queries.{}", query.label.element);
        let events = Reading::Count(query.events.get());
        all.push((format!("{name}.throughput"), events));
        all.push((format!("{name}.latency"), query.latency.reading()));
    }
}

/// Latency of mappers, what waits, and what is held in memory.
fn read_details(app: &AppMetrics, all: &mut Vec<(String, Reading)>) {
    for (kind, mappers) in [
        ("SourceMappers", app.source_mappers.all()),
        ("SinkMappers", app.sink_mappers.all()),
    ] {
        for mapper in mappers {
            let Label { element, ty, .. } = &mapper.label;
            let name = format!("{kind}.{element}.{ty}.latency");
            all.push((name, mapper.latency.reading()));
        }
    }
    for stream in app.streams.all().iter().filter(|s| s.is_async) {
        let name = format!("Streams.{}.buffer", stream.label.element);
        all.push((name, Reading::Waiting(stream.queued.get())));
    }
    for sink in app.sinks.all() {
        let name = format!("Sinks.{}.{}.buffer", sink.label.element, sink.label.ty);
        all.push((name, Reading::Waiting(sink.queued.get())));
    }
    let waiting = Reading::Waiting(app.queued.get());
    all.push(("App.buffer".to_owned(), waiting));
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
        all.push((name, Reading::Bytes(part.bytes.get())));
    }
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
    use crate::families::to_text;
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
            ..Label::default()
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
        let mapper = MapperMetrics::new(label("S", "http.json"), &app.level);
        app.source_mappers.enlist(mapper);
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
        let off = reporter.report(&app, begun + Duration::from_secs(5));
        assert_eq!((off.len(), reporter.due), (0, begun + reporter.every * 2));
        app.level.set(StatisticsLevel::Detail);
        let lines = reporter.report(&app, begun + Duration::from_secs(10));
        let expect = [
            "statistics of app 'A'",
            "io.siddhi.SiddhiApps.A.Siddhi.Streams.S.throughput count=30 rate=3.0/s",
            "io.siddhi.SiddhiApps.A.Siddhi.Streams.W.throughput count=0 rate=0.0/s",
            "io.siddhi.SiddhiApps.A.Siddhi.Queries.q\"1.latency timed=4 mean=0.0020ms p50<=0.001ms \
             p99>1000ms",
            "io.siddhi.SiddhiApps.A.Siddhi.SourceMappers.S.http.json.latency timed=0 mean=0.0000ms p50- \
             p99-",
            "io.siddhi.SiddhiApps.A.Siddhi.Streams.W.buffer events=7",
            "io.siddhi.SiddhiApps.A.Siddhi.Tables.T.memory bytes=2048 (2.0 KB)",
        ];
        assert_eq!(lines, expect);
        let lines = reporter.report(&app, begun + Duration::from_secs(20));
        assert!(lines[1].ends_with("count=30 rate=0.0/s"), "{lines:?}");
        assert_eq!(reporter.due, begun + Duration::from_secs(25));
    }

    // covers: 653
    #[test]
    fn each_level_tells_more_than_the_one_before() {
        let app = app();
        let named = |part: &str| {
            let all = readings(&app, app.level.get());
            all.iter().any(|(name, _)| name.contains(part))
        };
        for (level, basic, detail) in [
            (StatisticsLevel::Off, false, false),
            (StatisticsLevel::Basic, true, false),
            (StatisticsLevel::Detail, true, true),
        ] {
            app.level.set(level);
            for part in ["Streams.S.throughput", "Queries.q\"1.latency"] {
                assert_eq!(named(part), basic, "{part} at {level:?}");
            }
            for part in ["W.buffer", "T.memory", "SourceMappers.S.http.json.latency"] {
                assert_eq!(named(part), detail, "{part} at {level:?}");
            }
        }
    }

    // covers: 653
    #[test]
    fn a_source_s_mapper_is_timed_once_a_batch_and_only_in_detail() {
        let app = app();
        let metrics = app.source_mappers.all().remove(0);
        let mut mapping = SourceMapping::new(Arc::clone(&metrics));
        for (level, timed) in [
            (StatisticsLevel::Off, 0),
            (StatisticsLevel::Basic, 0),
            (StatisticsLevel::Detail, 1),
            (StatisticsLevel::Detail, 2),
            (StatisticsLevel::Off, 2),
        ] {
            app.level.set(level);
            let mapped: Vec<u32> = (0..5).map(|n| mapping.time(|| n)).collect();
            assert_eq!(mapped, [0, 1, 2, 3, 4]);
            mapping.next_batch();
            assert_eq!(metrics.latency.timed.get(), timed, "{level:?}");
        }
    }

    #[test]
    fn prometheus_has_what_the_level_measures() {
        let app = Arc::new(app());
        let of = |level| {
            let mut page = Families::default();
            app.level.set(level);
            read(&[Arc::clone(&app)], &mut page);
            to_text(&page.finish())
        };
        assert!(!of(StatisticsLevel::Off).contains("app="));
        let basic = of(StatisticsLevel::Basic);
        assert!(basic.contains("headwater_query_seconds_sum{"));
        assert!(!basic.contains("headwater_memory_bytes{"));
        assert!(!basic.contains("mapper_seconds_count{"));
        let text = of(StatisticsLevel::Detail);
        for line in [
            "headwater_query_events_total{app=\"A\",query=\"q\\\"1\"} 30\n",
            "headwater_query_seconds_bucket{app=\"A\",query=\"q\\\"1\",le=\"0.000001\"} 3\n",
            "headwater_query_seconds_bucket{app=\"A\",query=\"q\\\"1\",le=\"1\"} 3\n",
            "headwater_query_seconds_bucket{app=\"A\",query=\"q\\\"1\",le=\"+Inf\"} 4\n",
            "headwater_query_seconds_sum{app=\"A\",query=\"q\\\"1\"} 0.000008\n",
            "# TYPE headwater_query_seconds histogram\n",
            "headwater_memory_bytes{app=\"A\",kind=\"table\",name=\"T\"} 2048\n",
            "headwater_source_mapper_seconds_count{app=\"A\",stream=\"S\",type=\"http.json\"} 0\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
