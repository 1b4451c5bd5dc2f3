//! Counters of a running server, and their text for Prometheus.
//!
//! Counters are added to once per batch, never per row, and read without a lock. Labels are names
//! from the apps, so their number is bounded by the apps.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use connect::answer::{AnswerClass, AnswerCounts};
use connect::arrivals::Arrivals;
use connect::component::Progress;
use gateway::{Counts, Gateway};

use crate::families::{self, Families, Family as Read, Labels};
use crate::presence::Presence;
use crate::process;
use crate::recent::Recent;
use crate::scripts::Scripts;
use crate::statistics::{self, Level, MapperMetrics, PartMetrics, QueryMetrics};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Puts back what a snapshot held, or a gauge's new level.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where a number belongs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Label {
    pub app: String,
    /// Stream or table.
    pub element: String,
    /// `file`, `log`, `rdbms`.
    pub ty: String,
    /// Which of the sources or sinks of its stream it is, from 1; 0 for other elements.
    pub number: usize,
    /// One before it has the same type.
    pub is_twin: bool,
}

impl Label {
    /// As labels of a sample; `element` is what the element is called there.
    pub(crate) fn of(&self, element: &'static str) -> Labels {
        let mut labels = vec![
            ("app", self.app.clone()),
            (element, self.element.clone()),
            ("type", self.ty.clone()),
        ];
        // Two of one type on a stream would be the same sample.
        if self.is_twin {
            labels.push(("number", self.number.to_string()));
        }
        labels
    }

    fn of_app(&self) -> Labels {
        vec![("app", self.app.clone())]
    }
}

/// One source.
#[derive(Debug, Default)]
pub struct SourceMetrics {
    pub label: Label,
    pub events: Counter,
    pub bytes: Counter,
    pub rejected: Counter,
    /// Bytes known to be waiting (size of the files found), for the progress bar; 0: unknown.
    pub bytes_expected: Counter,
    pub retries: Counter,
    /// How far it is in each of its inputs, for sources that count records.
    pub progress: Mutex<Vec<Progress>>,
    pub is_connected: AtomicBool,
    /// It has read all there is.
    pub has_ended: AtomicBool,
    /// It cannot be reached, or has failed.
    pub presence: Presence,
    /// Time for which it had something and its app took nothing, nanoseconds.
    pub held_back_nanos: Counter,
    /// Of its events.
    pub recent: Recent,
}

impl SourceMetrics {
    /// Bytes of what it found at its start that it has not read yet, 0 once it has ended; `None` where that
    /// is not known.
    pub fn bytes_waiting(&self) -> Option<u64> {
        let expected = self.bytes_expected.get();
        let left = match self.has_ended.load(Ordering::Relaxed) {
            true => 0,
            false => expected.saturating_sub(self.bytes.get()),
        };
        (expected > 0).then_some(left)
    }

    /// Records that wait in all its inputs, as far as it is known.
    pub fn lag(&self) -> Option<u64> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress
            .iter()
            .filter_map(|p| p.lag)
            .map(|lag| u64::try_from(lag).unwrap_or(0))
            .reduce(u64::saturating_add)
    }
}

/// One sink.
#[derive(Debug, Default)]
pub struct SinkMetrics {
    pub label: Label,
    pub events: Counter,
    pub failed: Counter,
    pub retries: Counter,
    /// Rows that wait in its queue.
    pub queued: Counter,
    /// How full its queue is, of a thousand parts.
    pub queue_fill: Counter,
    pub is_connected: AtomicBool,
    /// Its destination is away.
    pub presence: Presence,
    /// Of its events.
    pub recent: Recent,
    /// What its requests were answered.
    pub answers: Arc<AnswerCounts>,
}

/// One table, in memory or in a store.
#[derive(Debug, Default)]
pub struct TableMetrics {
    pub label: Label,
    pub inserted: Counter,
    pub updated: Counter,
    pub deleted: Counter,
    /// Rows in a table in memory.
    pub rows: Counter,
    /// Rows that the store refused.
    pub failed: Counter,
    /// Its store is away.
    pub presence: Presence,
}

/// One stream inside an app.
#[derive(Debug, Default)]
pub struct StreamMetrics {
    pub label: Label,
    /// Rows that went through it, whoever sent them.
    pub events: Counter,
    /// Rows that wait to go through it.
    pub queued: Counter,
    /// It is `@async`: the console tells what waits.
    pub is_async: bool,
    /// Of its events.
    pub recent: Recent,
}

/// One app.
#[derive(Debug, Default)]
pub struct AppMetrics {
    /// Its name alone.
    pub label: Label,
    /// How much of it is measured; its mappers look at it as well.
    pub level: Arc<Level>,
    pub steps: Counter,
    /// Time spent inside the engine.
    pub step_nanos: Counter,
    /// Rows rejected behind the source, by a query or a store.
    pub rejected: Counter,
    /// Rejected events that were kept and have gone because the log of them has bounds. Apps that
    /// are saved together have one log; the first of them counts.
    pub errors_dropped: Counter,
    pub held_in_windows: Counter,
    /// Bytes of windows and tables in memory, as last counted.
    pub memory_bytes: Counter,
    /// Bytes that the app may hold; 0: no limit.
    pub memory_limit: Counter,
    /// Events refused because the app holds as much as it may.
    pub refused: Counter,
    /// Events that wait for the app, or for others of its executor.
    pub queued: Counter,
    /// Bytes of the saved state: those of the last whole snapshot and of the changes over it.
    pub state_bytes: Counter,
    pub snapshots: Counter,
    /// When the last checkpoint was complete, milliseconds since 1970; 0: there was none.
    pub checkpoint_ms: Counter,
    /// How long it took, microseconds.
    pub checkpoint_micros: Counter,
    /// How full the queue of its executor is, of a thousand parts.
    pub queue_fill: Counter,
    /// Bytes that the executor has saved, all of the state or what had changed.
    pub saved_bytes: Counter,
    pub sources: Listed<SourceMetrics>,
    /// In the order of the plan.
    pub streams: Listed<StreamMetrics>,
    pub sinks: Listed<SinkMetrics>,
    pub tables: Listed<TableMetrics>,
    pub source_mappers: Listed<MapperMetrics>,
    pub sink_mappers: Listed<MapperMetrics>,
    pub queries: Listed<QueryMetrics>,
    pub parts: Listed<PartMetrics>,
}

impl AppMetrics {
    /// The app is made anew: the counters of what it still has go on, the others are forgotten.
    fn renew(&self) {
        self.sources.renew();
        self.streams.renew();
        self.sinks.renew();
        self.tables.renew();
        self.source_mappers.renew();
        self.sink_mappers.renew();
        self.queries.renew();
        self.parts.renew();
    }
}

/// All numbers of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    pub apps: Listed<AppMetrics>,
    /// Milliseconds from process start to the first event, plus one; 0: none yet.
    first_event_ms: AtomicU64,
    /// What comes in on the ports of the server.
    pub arrivals: OnceLock<Arc<Arrivals>>,
    /// Batch scripts, where there are any.
    pub scripts: OnceLock<Scripts>,
    /// The gateway, where there is one.
    pub gateway: OnceLock<Arc<Gateway>>,
}

/// What a number is found again by when its app is made anew.
pub trait Labelled {
    fn label(&self) -> &Label;
}

/// Counters of one kind, in the order in which they were enlisted. Locked only to be copied.
#[derive(Debug)]
pub struct Listed<T>(Mutex<Lists<T>>);

#[derive(Debug)]
struct Lists<T> {
    present: Vec<Arc<T>>,
    /// Of what there was before, and may come again.
    former: Vec<Arc<T>>,
}

impl<T> Default for Listed<T> {
    fn default() -> Listed<T> {
        Listed(Mutex::new(Lists {
            present: Vec::new(),
            former: Vec::new(),
        }))
    }
}

impl<T: Labelled> Listed<T> {
    fn lock(&self) -> MutexGuard<'_, Lists<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn all(&self) -> Vec<Arc<T>> {
        self.lock().present.clone()
    }

    /// Adds these counters, or those that stood under their label before: then they go on.
    pub fn enlist(&self, fresh: T) -> Arc<T> {
        let mut lists = self.lock();
        let is_it = |old: &Arc<T>| old.label() == fresh.label();
        let item = match lists.former.iter().position(is_it) {
            Some(at) => lists.former.remove(at),
            None => Arc::new(fresh),
        };
        lists.present.push(Arc::clone(&item));
        item
    }

    /// All is enlisted again from here on.
    fn renew(&self) {
        let mut lists = self.lock();
        let present = std::mem::take(&mut lists.present);
        lists.former = present;
    }

    /// Takes out what is not there any more.
    fn retire(&self, is_gone: impl Fn(&T) -> bool) {
        let mut lists = self.lock();
        let present = std::mem::take(&mut lists.present);
        let (gone, stays): (Vec<_>, Vec<_>) = present.into_iter().partition(|item| is_gone(item));
        lists.present = stays;
        lists.former.extend(gone);
    }
}

macro_rules! labelled {
    ($($ty:ty),*) => {
        $(impl Labelled for $ty {
            fn label(&self) -> &Label {
                &self.label
            }
        })*
    };
}

labelled!(
    SourceMetrics,
    SinkMetrics,
    TableMetrics,
    StreamMetrics,
    AppMetrics,
    MapperMetrics,
    QueryMetrics,
    PartMetrics
);

impl Metrics {
    /// Counters of an app. One that there was before goes on; what it consists of is enlisted again.
    pub fn enlist(&self, app: &str) -> Arc<AppMetrics> {
        let label = Label {
            app: app.to_owned(),
            ..Label::default()
        };
        self.apps.retire(|other| other.label == label);
        let app = self.apps.enlist(AppMetrics {
            label,
            ..AppMetrics::default()
        });
        app.renew();
        app
    }

    /// These apps run no more.
    pub fn retire(&self, apps: &[&str]) {
        self.apps
            .retire(|app| apps.contains(&app.label.app.as_str()));
    }

    /// All apps, also those that run no more.
    pub fn ever(&self) -> Vec<Arc<AppMetrics>> {
        let lists = self.apps.lock();
        lists.present.iter().chain(&lists.former).cloned().collect()
    }

    /// Called for each batch that enters an app; only the first counts.
    pub fn event_seen(&self, since_start_ms: impl FnOnce() -> u64) {
        if self.first_event_ms.load(Ordering::Relaxed) == 0 {
            let mark = since_start_ms().saturating_add(1);
            // Another executor may have been first: its mark stays.
            let _first =
                self.first_event_ms
                    .compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub fn first_event_ms(&self) -> Option<u64> {
        self.first_event_ms.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Rows rejected anywhere.
    pub fn rejected(&self) -> u64 {
        self.ever()
            .iter()
            .map(|app| {
                let at_sources: u64 = app.sources.all().iter().map(|s| s.rejected.get()).sum();
                let at_sinks: u64 = app.sinks.all().iter().map(|s| s.failed.get()).sum();
                let at_tables: u64 = app.tables.all().iter().map(|t| t.failed.get()).sum();
                at_sources + at_sinks + at_tables + app.rejected.get()
            })
            .sum()
    }

    /// Why the server is not ready: sources, sinks and tables that are not connected, a line each.
    /// `None`: it is.
    pub fn not_ready(&self) -> Option<String> {
        let mut waiting = String::new();
        let mut put = |kind: &str, label: &Label, presence: &Presence| {
            if presence.is_lost() {
                let Label {
                    app, element, ty, ..
                } = label;
                writeln!(waiting, "{kind} '{element}' ({ty}) of app '{app}'")
                    .expect("writing to a string does not fail");
            }
        };
        for app in self.apps.all() {
            for source in app.sources.all() {
                put("source", &source.label, &source.presence);
            }
            for sink in app.sinks.all() {
                put("sink", &sink.label, &sink.presence);
            }
            for table in app.tables.all() {
                put("table", &table.label, &table.presence);
            }
        }
        (!waiting.is_empty()).then(|| format!("not connected:\n{waiting}"))
    }

    /// The Prometheus text format, version 0.0.4.
    pub fn prometheus(&self) -> String {
        families::to_text(&self.read())
    }

    /// All numbers as they stand.
    pub(crate) fn read(&self) -> Vec<Read> {
        let mut page = Families::default();
        let apps = self.apps.all();
        process_families(&mut page);
        source_families(&mut page, &apps);
        sink_families(&mut page, &apps);
        table_families(&mut page, &apps);
        for (name, help, value) in STREAM_FAMILIES {
            page.begin(name, help);
            for stream in apps.iter().flat_map(|a| a.streams.all()) {
                page.put(stream.label.of("stream"), value(&stream));
            }
        }
        statistics::read(&apps, &mut page);
        for (name, help, value) in APP_FAMILIES {
            page.begin(name, help);
            for app in &apps {
                page.put(app.label.of_app(), value(app));
            }
        }
        for (name, help, value) in CHECKPOINT_FAMILIES {
            page.begin(name, help);
            for app in apps.iter().filter(|app| app.checkpoint_ms.get() > 0) {
                page.put(app.label.of_app(), value(app));
            }
        }
        if let Some(arrivals) = self.arrivals.get() {
            for (name, help, value) in ARRIVALS_FAMILIES {
                page.begin(name, help);
                page.put(Labels::new(), value(arrivals));
            }
        }
        if let Some(scripts) = self.scripts.get() {
            scripts.read(&mut page);
        }
        if let Some(gateway) = self.gateway.get() {
            gateway_families(&mut page, gateway.counts());
            page.begin(
                "headwater_gateway_news_dropped_total",
                "Events about the gateway itself that the app which listens had no room for",
            );
            page.put(Labels::new(), gateway.news_dropped() as f64);
        }
        page.finish()
    }
}

fn gateway_families(page: &mut Families, counts: &Counts) {
    for (name, help, value) in GATEWAY_FAMILIES {
        page.begin(name, help);
        page.put(Labels::new(), value(counts));
    }
    page.begin(
        "headwater_gateway_refused_total",
        "Requests and messages that the gateway has refused, by cause",
    );
    for (cause, count) in counts.refused.all() {
        page.put(vec![("cause", cause.to_owned())], count as f64);
    }
}

fn source_families(page: &mut Families, apps: &[Arc<AppMetrics>]) {
    for (name, help, value) in SOURCE_FAMILIES {
        page.begin(name, help);
        for source in apps.iter().flat_map(|a| a.sources.all()) {
            page.put(source.label.of("stream"), value(&source));
        }
    }
    let (name, help) = SOURCE_WAITING;
    page.begin(name, help);
    for source in apps.iter().flat_map(|a| a.sources.all()) {
        if let Some(bytes) = source.bytes_waiting() {
            page.put(source.label.of("stream"), bytes as f64);
        }
    }
    for (name, help, value) in PROGRESS_FAMILIES {
        page.begin(name, help);
        for source in apps.iter().flat_map(|a| a.sources.all()) {
            let progress = source.progress.lock();
            for one in progress.unwrap_or_else(PoisonError::into_inner).iter() {
                let mut labels = source.label.of("stream");
                labels.push(("input", one.input.to_string()));
                page.put(labels, value(one));
            }
        }
    }
}

fn sink_families(page: &mut Families, apps: &[Arc<AppMetrics>]) {
    for (name, help, value) in SINK_FAMILIES {
        page.begin(name, help);
        for sink in apps.iter().flat_map(|a| a.sinks.all()) {
            page.put(sink.label.of("stream"), value(&sink));
        }
    }
    let (name, help) = SINK_ANSWERS;
    page.begin(name, help);
    for sink in apps.iter().flat_map(|a| a.sinks.all()) {
        for class in AnswerClass::ALL {
            let mut labels = sink.label.of("stream");
            labels.push(("class", class.name().to_owned()));
            page.put(labels, sink.answers.get(class) as f64);
        }
    }
}

fn table_families(page: &mut Families, apps: &[Arc<AppMetrics>]) {
    for (name, help, value) in TABLE_FAMILIES {
        page.begin(name, help);
        for table in apps.iter().flat_map(|a| a.tables.all()) {
            page.put(table.label.of("table"), value(&table));
        }
    }
    for ((name, help, value), is_in_memory) in [(STORE_CONNECTED, false), (TABLE_ROWS, true)] {
        page.begin(name, help);
        for table in apps.iter().flat_map(|a| a.tables.all()) {
            if (table.label.ty == MEMORY) == is_in_memory {
                page.put(table.label.of("table"), value(&table));
            }
        }
    }
}

const GATEWAY_FAMILIES: &[Family<Counts>] = &[
    (
        "headwater_gateway_connections",
        "Connections of the gateway that are open",
        |counts| counts.connections.get() as f64,
    ),
    (
        "headwater_gateway_sse_streams",
        "Streams of server-sent events that are held open",
        |counts| counts.sse.get() as f64,
    ),
    (
        "headwater_gateway_websockets",
        "WebSocket connections that are open",
        |counts| counts.websockets.get() as f64,
    ),
    (
        "headwater_gateway_published_total",
        "Events that came to topics of the gateway",
        |counts| counts.published.get() as f64,
    ),
    (
        "headwater_gateway_delivered_total",
        "Events that were given to clients of the gateway",
        |counts| counts.delivered.get() as f64,
    ),
    (
        "headwater_gateway_gaps_total",
        "Gaps that clients were told of: they had missed events",
        |counts| counts.gaps.get() as f64,
    ),
    (
        "headwater_gateway_slow_total",
        "Clients that were disconnected because they read too slowly",
        |counts| counts.slow.get() as f64,
    ),
    (
        "headwater_gateway_repeated_total",
        "Events of webhooks that had been taken before, by their ids",
        |counts| counts.repeated.get() as f64,
    ),
    (
        "headwater_gateway_dead_letters_total",
        "Payloads that fit no message of their topic and were kept as rejected events",
        |counts| counts.dead_letters.get() as f64,
    ),
];

const ARRIVALS_FAMILIES: &[Family<Arrivals>] = &[
    (
        "headwater_arriving_bytes",
        "Bytes of bodies, frames and messages that are being read.",
        |i| i.held() as f64,
    ),
    (
        "headwater_arriving_limit_bytes",
        "Bytes that may be read at once, a quarter of --memory-limit.",
        |i| i.max() as f64,
    ),
    (
        "headwater_arriving_waiting",
        "Connections that are read no further before others have given bytes back.",
        |i| i.waiting() as f64,
    ),
    (
        "headwater_arriving_refused_total",
        "Bodies, frames and messages larger than all that may be read at once.",
        |i| i.refused() as f64,
    ),
    (
        "headwater_late_total",
        "Bodies, frames and messages that clients began and did not complete in their time.",
        |i| i.late() as f64,
    ),
];

type Family<T> = (&'static str, &'static str, fn(&T) -> f64);

const SOURCE_FAMILIES: &[Family<SourceMetrics>] = &[
    (
        "headwater_source_events_total",
        "Events handed to the app.",
        |s| s.events.get() as f64,
    ),
    ("headwater_source_bytes_total", "Bytes read.", |s| {
        s.bytes.get() as f64
    }),
    (
        "headwater_source_errors_total",
        "Events rejected at the source.",
        |s| s.rejected.get() as f64,
    ),
    (
        "headwater_source_retries_total",
        "Attempts to connect again.",
        |s| s.retries.get() as f64,
    ),
    (
        "headwater_source_backpressure_seconds_total",
        "Time for which the source had events that its app did not take.",
        |s| s.held_back_nanos.get() as f64 / 1e9,
    ),
    (
        "headwater_source_connected",
        "1 while the source is connected.",
        |s| f64::from(u8::from(s.is_connected.load(Ordering::Relaxed))),
    ),
];

const SOURCE_WAITING: (&str, &str) = (
    "headwater_source_waiting_bytes",
    "Bytes of the files found at the start that are not read yet.",
);

const PROGRESS_FAMILIES: &[Family<Progress>] = &[
    (
        "headwater_source_position",
        "Number of the record that is read next, by topic and partition.",
        |p| p.position as f64,
    ),
    (
        "headwater_source_lag",
        "Records that wait, by topic and partition; NaN if unknown.",
        |p| p.lag.map_or(f64::NAN, |lag| lag as f64),
    ),
];

const SINK_FAMILIES: &[Family<SinkMetrics>] = &[
    (
        "headwater_sink_events_total",
        "Events taken by the destination.",
        |s| s.events.get() as f64,
    ),
    (
        "headwater_sink_errors_total",
        "Events the destination did not take.",
        |s| s.failed.get() as f64,
    ),
    (
        "headwater_sink_retries_total",
        "Attempts to connect or publish again.",
        |s| s.retries.get() as f64,
    ),
    (
        "headwater_sink_queued_events",
        "Events that wait for the destination.",
        |s| s.queued.get() as f64,
    ),
    (
        "headwater_sink_queue_ratio",
        "How full the queue of the destination is, from 0 to 1; a full one holds the app up.",
        |s| s.queue_fill.get() as f64 / 1e3,
    ),
    (
        "headwater_sink_connected",
        "1 while the sink is connected.",
        |s| f64::from(u8::from(s.is_connected.load(Ordering::Relaxed))),
    ),
];

/// Zero in all classes for sinks that get no answers.
const SINK_ANSWERS: (&str, &str) = (
    "headwater_sink_answers_total",
    "Answers of the destination, by what they mean for the event.",
);

const TABLE_FAMILIES: &[Family<TableMetrics>] = &[
    ("headwater_table_inserted_total", "Rows inserted.", |t| {
        t.inserted.get() as f64
    }),
    ("headwater_table_updated_total", "Rows updated.", |t| {
        t.updated.get() as f64
    }),
    ("headwater_table_deleted_total", "Rows deleted.", |t| {
        t.deleted.get() as f64
    }),
];

/// Type of a table that no store keeps.
pub const MEMORY: &str = "memory";

const TABLE_ROWS: Family<TableMetrics> =
    ("headwater_table_rows", "Rows in a table in memory.", |t| {
        t.rows.get() as f64
    });

const STORE_CONNECTED: Family<TableMetrics> = (
    "headwater_store_connected",
    "0 while the store of the table is away.",
    |t| f64::from(u8::from(!t.presence.is_lost())),
);

/// What Prometheus clients tell of every process, by the names that its dashboards know, and which
/// build this is.
fn process_families(page: &mut Families) {
    let families = [
        (
            "process_cpu_seconds_total",
            "User and system CPU time.",
            process::cpu_seconds(),
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory.",
            process::rss_bytes() as f64,
        ),
        (
            "process_start_time_seconds",
            "Start of the process, in seconds since 1970.",
            process::start_seconds(),
        ),
        (
            "process_open_fds",
            "Open file descriptors.",
            process::open_fds() as f64,
        ),
        (
            "process_max_fds",
            "Most file descriptors that may be open.",
            process::max_fds() as f64,
        ),
    ];
    for (name, help, value) in families {
        page.begin(name, help);
        page.put(Labels::new(), value);
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    page.begin(
        "headwater_build_info",
        "1; the labels say which build this is.",
    );
    page.put(vec![("version", version)], 1.0);
}

const STREAM_FAMILIES: &[Family<StreamMetrics>] = &[
    (
        "headwater_stream_events_total",
        "Events that went through a stream.",
        |s| s.events.get() as f64,
    ),
    (
        "headwater_stream_queued_events",
        "Events that wait to go through a stream.",
        |s| s.queued.get() as f64,
    ),
];

/// Of apps that have made a checkpoint with a state directory.
const CHECKPOINT_FAMILIES: &[Family<AppMetrics>] = &[
    (
        "headwater_checkpoint_timestamp_seconds",
        "When the last checkpoint was complete, in seconds since 1970.",
        |a| a.checkpoint_ms.get() as f64 / 1e3,
    ),
    (
        "headwater_checkpoint_duration_seconds",
        "How long the last checkpoint took, from the snapshot until everything was committed.",
        |a| a.checkpoint_micros.get() as f64 / 1e6,
    ),
];

const APP_FAMILIES: &[Family<AppMetrics>] = &[
    ("headwater_app_steps_total", "Steps of the engine.", |a| {
        a.steps.get() as f64
    }),
    (
        "headwater_process_seconds_total",
        "Time inside the engine.",
        |a| a.step_nanos.get() as f64 / 1e9,
    ),
    (
        "headwater_app_errors_total",
        "Events rejected by queries and stores.",
        |a| a.rejected.get() as f64,
    ),
    (
        "headwater_held_in_windows",
        "Rows that a timer would still emit.",
        |a| a.held_in_windows.get() as f64,
    ),
    (
        "headwater_app_memory_bytes",
        "Bytes of windows and tables in memory.",
        |a| a.memory_bytes.get() as f64,
    ),
    (
        "headwater_app_memory_limit_bytes",
        "Bytes that the app may hold; 0: no limit.",
        |a| a.memory_limit.get() as f64,
    ),
    (
        "headwater_app_refused_total",
        "Events refused because the app holds as much as it may.",
        |a| a.refused.get() as f64,
    ),
    (
        "headwater_app_queued_events",
        "Events that wait for the app, or for others of its group.",
        |a| a.queued.get() as f64,
    ),
    (
        "headwater_app_queue_ratio",
        "How full the queue of the app and others of its group is, from 0 to 1; a full one holds sources back.",
        |a| a.queue_fill.get() as f64 / 1e3,
    ),
    (
        "headwater_state_bytes",
        "Size of the saved state: a whole snapshot and the changes over it.",
        |a| a.state_bytes.get() as f64,
    ),
    (
        "headwater_snapshots_total",
        "Snapshots made durable.",
        |a| a.snapshots.get() as f64,
    ),
    (
        "headwater_saved_bytes_total",
        "Bytes saved: all of the state, or what had changed.",
        |a| a.saved_bytes.get() as f64,
    ),
    (
        "headwater_errors_dropped_total",
        "Rejected events that were kept and dropped at the bounds of the log.",
        |a| a.errors_dropped.get() as f64,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn source(app: &AppMetrics, stream: &str) -> SourceMetrics {
        SourceMetrics {
            label: Label {
                app: app.label.app.clone(),
                element: stream.into(),
                ty: "file".into(),
                ..Label::default()
            },
            ..SourceMetrics::default()
        }
    }

    #[test]
    fn text_holds_every_number_with_its_labels() {
        let metrics = Metrics::default();
        let app = metrics.enlist("A \"1\"");
        let source = app.sources.enlist(source(&app, "S"));
        source.events.add(3);
        source.rejected.add(2);
        source.progress.lock().expect("no panic").push(Progress {
            input: "orders/3".into(),
            position: 17,
            lag: Some(4),
        });
        let text = metrics.prometheus();
        let line =
            "headwater_source_events_total{app=\"A \\\"1\\\"\",stream=\"S\",type=\"file\"} 3\n";
        assert!(text.contains(line), "{text}");
        let line = "headwater_source_lag{app=\"A \\\"1\\\"\",stream=\"S\",type=\"file\",input=\"orders/3\"} 4\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("# TYPE headwater_held_in_windows gauge\n"));
        // Nobody has such: the family is not there.
        assert!(!text.contains("headwater_sink_events_total"), "{text}");
        assert_eq!(metrics.rejected(), 2);
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert!(text.contains("headwater_build_info{version="), "{text}");
    }

    #[test]
    fn what_is_away_is_named_by_kind_type_and_app() {
        let metrics = Metrics::default();
        let app = metrics.enlist("A");
        let sink = app.sinks.enlist(SinkMetrics {
            label: Label {
                app: "A".into(),
                element: "Out".into(),
                ty: "kafka".into(),
                ..Label::default()
            },
            ..SinkMetrics::default()
        });
        assert_eq!(metrics.not_ready(), None);
        sink.presence.lost("refused", None);
        let expected = "not connected:\nsink 'Out' (kafka) of app 'A'\n";
        assert_eq!(metrics.not_ready().as_deref(), Some(expected));
    }

    #[test]
    fn an_app_that_is_made_anew_goes_on_counting_what_it_still_has() {
        let metrics = Metrics::default();
        let app = metrics.enlist("A");
        app.steps.add(7);
        app.sources.enlist(source(&app, "S")).events.add(3);
        app.sources.enlist(source(&app, "Gone")).events.add(5);
        let again = metrics.enlist("A");
        assert_eq!(again.steps.get(), 7);
        assert_eq!(again.sources.enlist(source(&app, "S")).events.get(), 3);
        assert_eq!(again.sources.all().len(), 1);
        metrics.retire(&["A"]);
        assert_eq!((metrics.apps.all().len(), metrics.ever().len()), (0, 1));
        assert_eq!(metrics.enlist("A").steps.get(), 7);
        assert_eq!(metrics.ever().len(), 1);
    }

    #[test]
    fn only_the_first_event_is_timed() {
        let metrics = Metrics::default();
        assert_eq!(metrics.first_event_ms(), None);
        metrics.event_seen(|| 0);
        metrics.event_seen(|| 9);
        assert_eq!(metrics.first_event_ms(), Some(0));
    }
}
