//! What `headwater top` shows, as lines of text.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use serde_json::Value as Json;

use crate::command::reply::{array, cell};
use crate::command::status::{bytes, duration, number, rate, thousands};

/// Rates of the last seconds that are drawn beside an app.
const TREND_MAX: usize = 20;

/// From so many columns on there is room for everything.
const WIDE: usize = 110;

/// The name and the state are never narrower.
const NAME_MIN: usize = 20;

/// What the apps are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Sort {
    #[default]
    Name,
    Rate,
    Errors,
    Memory,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Rate => "rate",
            Sort::Errors => "errors",
            Sort::Memory => "memory",
        }
    }
}

/// The last readings, and how they are to be shown.
#[derive(Default)]
pub struct View {
    status: Json,
    before: Json,
    trends: HashMap<String, VecDeque<f64>>,
    sort: Sort,
    /// Name of the app that is selected.
    selected: Option<String>,
    /// Only the selected app is shown.
    pub is_alone: bool,
    pub is_paused: bool,
    /// Why there is no newer reading.
    pub fault: Option<String>,
    taken: Option<Instant>,
    /// Seconds between the two readings.
    span: f64,
}

/// One line of the table.
struct Row {
    name: String,
    ty: String,
    rate: String,
    events: String,
    errors: String,
    waiting: String,
    busy: String,
    latency: String,
    memory: String,
    state: String,
    /// Of an app, with its name.
    app: Option<String>,
}

impl View {
    /// Another reading.
    pub fn take(&mut self, status: Json) {
        let now = Instant::now();
        let seconds = |status: &Json| number(&status["server"]["uptimeSeconds"]);
        self.span = seconds(&status) - seconds(&self.status);
        self.before = std::mem::replace(&mut self.status, status);
        if self.taken.replace(now).is_none() || self.span <= 0.0 {
            self.before = Json::Null;
        }
        self.fault = None;
        let names: Vec<String> = self.apps().iter().map(|app| cell(&app["name"])).collect();
        self.trends.retain(|name, _| names.contains(name));
        for name in names {
            let rate = self.rate_of(&["apps", &name], "events");
            let rate = rate.unwrap_or_else(|| number(&self.app(&name)["eventsPerSecond"]));
            let trend = self.trends.entry(name).or_default();
            trend.truncate(TREND_MAX - 1);
            trend.push_front(rate);
        }
    }

    pub fn sort_next(&mut self) {
        self.sort = match self.sort {
            Sort::Name => Sort::Rate,
            Sort::Rate => Sort::Errors,
            Sort::Errors => Sort::Memory,
            Sort::Memory => Sort::Name,
        };
    }

    /// Selects the app so many places further down.
    pub fn select(&mut self, places: isize) {
        let apps = self.sorted();
        let names: Vec<String> = apps.iter().map(|app| cell(&app["name"])).collect();
        let at = names.iter().position(|n| Some(n) == self.selected.as_ref());
        let next = match at {
            None => 0,
            Some(at) => at
                .saturating_add_signed(places)
                .min(names.len().saturating_sub(1)),
        };
        self.selected = names.get(next).cloned();
    }

    fn apps(&self) -> &[Json] {
        array(&self.status["apps"])
    }

    fn app(&self, name: &str) -> &Json {
        let mut apps = self.apps().iter();
        apps.find(|app| app["name"] == name).unwrap_or(&Json::Null)
    }

    fn sorted(&self) -> Vec<&Json> {
        let mut apps: Vec<&Json> = self.apps().iter().collect();
        let by = |key: &'static str| move |app: &&Json| -number(&app[key]);
        apps.sort_by_key(|app| cell(&app["name"]));
        let key = match self.sort {
            Sort::Name => return apps,
            Sort::Rate => "eventsPerSecond",
            Sort::Errors => "rejected",
            Sort::Memory => "memoryBytes",
        };
        let by = by(key);
        apps.sort_by(|a, b| by(a).total_cmp(&by(b)));
        apps
    }

    /// By how much a number has grown per second since the reading before. A path is `apps`, the name of an
    /// app, and then perhaps a kind of parts and the name of one.
    fn rate_of(&self, path: &[&str], key: &str) -> Option<f64> {
        if self.before.is_null() {
            return None;
        }
        let now = found(&self.status, path)?[key].as_f64()?;
        let before = found(&self.before, path)?[key].as_f64()?;
        Some((now - before).max(0.0) / self.span)
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for app in self.sorted() {
            let name = cell(&app["name"]);
            let is_selected = self.selected.as_ref() == Some(&name);
            if self.is_alone && self.selected.is_some() && !is_selected {
                continue;
            }
            rows.push(self.app_row(app));
            for (kind, key) in [
                ("source", "sources"),
                ("query", "queries"),
                ("table", "tables"),
                ("sink", "sinks"),
            ] {
                let parts = array(&app[key]).iter();
                rows.extend(parts.map(|part| self.part_row(&name, (kind, key), part)));
            }
        }
        rows
    }

    fn app_row(&self, app: &Json) -> Row {
        let name = cell(&app["name"]);
        let path = ["apps", name.as_str()];
        let rate_now = self.rate_of(&path, "events");
        let busy = self.rate_of(&path, "busySeconds");
        let checkpoint = match app["checkpoint"].is_null() {
            true => String::new(),
            false => format!(
                ", saved {} ago ({})",
                duration(number(&app["checkpoint"]["ageSeconds"])),
                bytes(number(&app["checkpoint"]["stateBytes"])),
            ),
        };
        let ready = if app["ready"] == true {
            "ready"
        } else {
            "not ready"
        };
        Row {
            ty: String::new(),
            rate: rate(rate_now.unwrap_or_else(|| number(&app["eventsPerSecond"]))),
            events: count(&app["events"]),
            errors: count(&app["rejected"]),
            waiting: count(&app["queued"]),
            busy: busy.map_or_else(String::new, share),
            latency: String::new(),
            memory: bytes(number(&app["memoryBytes"])),
            state: format!("{ready}{checkpoint}{}", self.trend(&name)),
            app: Some(name.clone()),
            name,
        }
    }

    fn part_row(&self, app: &str, (kind, key): (&str, &str), part: &Json) -> Row {
        let name = cell(&part["name"]);
        let path = ["apps", app, key, name.as_str()];
        let events = ["events", "inserted"]
            .into_iter()
            .find(|key| part[*key].is_u64());
        let rate_now = events.and_then(|key| self.rate_of(&path, key));
        let rate_before = part["eventsPerSecond"].as_f64();
        let waiting = ["lag", "queued"]
            .into_iter()
            .find(|key| part[*key].is_u64());
        let waiting = match (waiting, part["waitingBytes"].as_f64()) {
            (_, Some(left)) => bytes(left),
            (Some(key), None) => count(&part[key]),
            (None, None) => String::new(),
        };
        let held = self.rate_of(&path, "heldBackSeconds");
        let busy = held.or(part["queueFill"].as_f64());
        let cause = match part["cause"].as_str() {
            Some(_) => format!(": {}", cell(&part["cause"])),
            None => String::new(),
        };
        let state = match part["state"].is_null() {
            true => String::new(),
            false => format!("{}{cause}", cell(&part["state"])),
        };
        Row {
            name: format!("  {kind} {name}"),
            ty: part["type"]
                .as_str()
                .map_or_else(String::new, |_| cell(&part["type"])),
            rate: rate_now.or(rate_before).map_or_else(String::new, rate),
            events: events.map_or_else(String::new, |key| count(&part[key])),
            errors: part["rejected"]
                .as_u64()
                .map_or_else(String::new, thousands),
            waiting,
            busy: busy.map_or_else(String::new, share),
            latency: part["meanSeconds"].as_f64().map_or_else(String::new, time),
            memory: String::new(),
            state,
            app: None,
        }
    }

    /// The rates of the last seconds as bars, the newest last.
    fn trend(&self, app: &str) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let Some(trend) = self.trends.get(app).filter(|trend| trend.len() > 1) else {
            return String::new();
        };
        let most = trend.iter().copied().fold(0.0, f64::max);
        let bar = |rate: &f64| match most > 0.0 {
            true => BARS[((rate / most * 7.0).round() as usize).min(7)],
            false => BARS[0],
        };
        let bars: String = trend.iter().rev().map(bar).collect();
        format!("  {bars}")
    }

    /// One table, without a terminal.
    pub fn table(&self, width: usize) -> String {
        let rows = self.rows();
        let columns = Columns::of(&rows, width);
        let lines = rows.iter().map(|row| columns.line(row));
        let mut text = format!("{}\n", columns.head().trim_end());
        lines.for_each(|line| text.push_str(&format!("{}\n", line.trim_end())));
        text
    }

    /// The screen, as many lines as fit.
    pub fn screen(&self, url: &str, width: usize, height: usize) -> Vec<String> {
        let rows = self.rows();
        let columns = Columns::of(&rows, width);
        let mut lines = vec![fit(&self.title(url), width)];
        lines.push(format!("\u{1b}[7m{}\u{1b}[0m", fit(&columns.head(), width)));
        let room = height.saturating_sub(3);
        let selected = rows
            .iter()
            .position(|row| row.app.is_some() && row.app == self.selected);
        // The selected app is always in sight.
        let first = selected.map_or(0, |at| at.saturating_sub(room / 2));
        let first = first.min(rows.len().saturating_sub(room));
        for row in rows.iter().skip(first).take(room) {
            let line = fit(&columns.line(row), width);
            lines.push(match (&row.app, row.app == self.selected) {
                (Some(_), true) => format!("\u{1b}[1;4m{line}\u{1b}[0m"),
                (Some(_), false) => format!("\u{1b}[1m{line}\u{1b}[0m"),
                (None, _) if row.state.starts_with("away") => format!("\u{1b}[31m{line}\u{1b}[0m"),
                (None, _) => line,
            });
        }
        while lines.len() + 1 < height {
            lines.push(String::new());
        }
        let keys = format!(
            "q quit  p {}  s sort: {}  ↑↓ select  Enter {}",
            if self.is_paused { "go on" } else { "pause" },
            self.sort.name(),
            if self.is_alone { "all" } else { "alone" },
        );
        lines.push(fit(&keys, width));
        lines.truncate(height);
        lines
    }

    fn title(&self, url: &str) -> String {
        let server = &self.status["server"];
        if let Some(fault) = &self.fault {
            return format!("{url}  {fault}");
        }
        let cpu = match (
            server["cpuSeconds"].as_f64(),
            self.before["server"]["cpuSeconds"].as_f64(),
        ) {
            (Some(now), Some(before)) => share((now - before).max(0.0) / self.span),
            _ => "-".to_owned(),
        };
        format!(
            "headwater {}  {url}  {}  up {}  {}  CPU {cpu}{}",
            cell(&server["version"]),
            if self.status["ready"] == true {
                "ready"
            } else {
                "NOT READY"
            },
            duration(number(&server["uptimeSeconds"])),
            bytes(number(&server["residentBytes"])),
            if self.is_paused { "  PAUSED" } else { "" },
        )
    }
}

/// Where a number stands in a document: see [`View::rate_of`].
fn found<'j>(status: &'j Json, path: &[&str]) -> Option<&'j Json> {
    let mut at = status;
    for pair in path.chunks(2) {
        let [key, name] = pair else { return None };
        at = array(&at[*key])
            .iter()
            .find(|part| cell(&part["name"]) == *name)?;
    }
    Some(at)
}

fn count(json: &Json) -> String {
    thousands(json.as_u64().unwrap_or(0))
}

/// A share of the time.
fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

/// Cut to a width.
fn fit(line: &str, width: usize) -> String {
    line.chars().take(width).collect()
}

/// How wide each column is, and which there are.
struct Columns {
    widths: [usize; 10],
}

const HEADS: [&str; 10] = [
    "NAME", "TYPE", "EVENTS/S", "EVENTS", "ERRORS", "WAITING", "BUSY", "LATENCY", "MEMORY", "STATE",
];

impl Columns {
    fn of(rows: &[Row], width: usize) -> Columns {
        let mut widths = HEADS.map(|head| head.chars().count());
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(cells(row)) {
                *width = (*width).max(cell.chars().count());
            }
        }
        if width < WIDE {
            // The least that tells something.
            for narrow in [3, 7, 8] {
                widths[narrow] = 0;
            }
        }
        let others: usize = widths[1..9].iter().filter(|w| **w > 0).map(|w| w + 2).sum();
        let room = width.saturating_sub(others + 2);
        let state = widths[9].min(room.saturating_sub(widths[0])).max(9);
        widths[0] = widths[0].min(room.saturating_sub(state)).max(NAME_MIN);
        widths[9] = width.saturating_sub(widths[0] + others + 2);
        Columns { widths }
    }

    fn head(&self) -> String {
        self.joined(HEADS.map(str::to_owned))
    }

    fn line(&self, row: &Row) -> String {
        self.joined(cells(row).map(str::to_owned))
    }

    /// Texts stand to the left, numbers to the right.
    fn joined(&self, cells: [String; 10]) -> String {
        let mut parts = Vec::new();
        for (at, (cell, &width)) in cells.iter().zip(&self.widths).enumerate() {
            if width == 0 {
                continue;
            }
            let cell = fit(cell, width);
            parts.push(match at {
                0 | 1 | 9 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            });
        }
        parts.join("  ")
    }
}

fn cells(row: &Row) -> [&str; 10] {
    [
        &row.name,
        &row.ty,
        &row.rate,
        &row.events,
        &row.errors,
        &row.waiting,
        &row.busy,
        &row.latency,
        &row.memory,
        &row.state,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reading(seconds: f64, events: u64) -> Json {
        let app = |name: &str, events: u64, rejected: u64| {
            json!({
                "name": name, "ready": true, "events": events, "eventsPerSecond": events as f64 / 10.0,
                "rejected": rejected, "queued": 5, "busySeconds": seconds / 2.0, "memoryBytes": 2048,
                "checkpoint": null,
                "sources": [{
                    "name": "S[1]", "type": "kafka", "state": "connected", "events": events,
                    "eventsPerSecond": 1.0, "rejected": rejected, "lag": 1234,
                    "heldBackSeconds": seconds / 4.0,
                }],
                "queries": [{ "name": "q", "events": events, "meanSeconds": 0.00002 }],
                "tables": [],
                "sinks": [{
                    "name": "T[1]", "type": "http", "state": "away", "cause": "refused", "events": 0,
                    "rejected": 0, "queued": 7, "queueFill": 0.5,
                }],
            })
        };
        json!({
            "version": 1, "ready": true,
            "server": {
                "version": "1.0", "uptimeSeconds": seconds, "residentBytes": 4e7, "cpuSeconds": seconds,
            },
            "apps": [app("B", events, 0), app("A", events / 2, 3)],
        })
    }

    fn view() -> View {
        let mut view = View::default();
        view.take(reading(10.0, 1000));
        view.take(reading(12.0, 5000));
        view
    }

    #[test]
    fn rates_are_those_between_two_readings() {
        let text = view().table(140);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("NAME "), "{text}");
        assert_eq!(lines.len(), 9, "{text}");
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(lines[1])[..8],
            ["A", "1,000", "2,500", "3", "5", "50", "%", "2.0"]
        );
        let source = "source S[1] kafka 1,000 2,500 3 1,234 25 % connected";
        assert_eq!(words(lines[2]).join(" "), source);
        assert_eq!(words(lines[3]).join(" "), "query q 1,000 2,500 20.0 µs");
        assert_eq!(
            words(lines[4]).join(" "),
            "sink T[1] http 0 0 0 7 50 % away: refused"
        );
        assert!(lines[5].starts_with("B "), "{text}");
    }

    #[test]
    fn a_screen_fits_whatever_its_size() {
        let mut view = view();
        view.select(1);
        for (width, height) in [(80, 24), (140, 40), (30, 6), (1, 1)] {
            let lines = view.screen("http://127.0.0.1:9090", width, height);
            assert_eq!(lines.len(), height);
            for line in &lines {
                let mut plain = line.clone();
                for code in [
                    "\u{1b}[7m",
                    "\u{1b}[0m",
                    "\u{1b}[1m",
                    "\u{1b}[1;4m",
                    "\u{1b}[31m",
                ] {
                    plain = plain.replace(code, "");
                }
                assert!(plain.chars().count() <= width, "{width}: {plain}");
            }
        }
        let narrow = view.screen("u", 80, 24).join("\n");
        assert!(
            narrow.contains("away: refused") && !narrow.contains("LATENCY"),
            "{narrow}"
        );
    }

    #[test]
    fn apps_are_sorted_selected_and_shown_alone() {
        let mut view = view();
        let first = |view: &View| view.rows()[0].name.clone();
        assert_eq!(first(&view), "A");
        view.sort_next();
        assert_eq!((first(&view), view.sort), ("B".to_owned(), Sort::Rate));
        view.sort_next();
        assert_eq!((first(&view), view.sort), ("A".to_owned(), Sort::Errors));
        view.select(1);
        view.select(1);
        assert_eq!(view.selected.as_deref(), Some("B"));
        view.is_alone = true;
        assert_eq!(view.rows().len(), 4);
        view.select(-5);
        assert_eq!(first(&view), "A");
    }
}
