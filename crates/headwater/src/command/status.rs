//! `headwater status`: where a running server stands, on one screen.

use clap::Args;
use serde_json::{Value as Json, json};

use super::reply::{array, cell, print_reply};
use crate::args::ServerArgs;
use crate::output::Output;

/// Characters of the cause for which something is away.
const CAUSE_MAX: usize = 100;

/// Show where a running server stands
///
/// Is it ready, and if not, what is away since when and why; rates of the last ten seconds, rejected events,
/// memory and the last checkpoint of each app. The server must run with --http.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater status                           all apps\n  \
    headwater status Shop --json               one app, for another program\n\n\
    Exit codes: 0 ready; 1 not ready: a source, sink or store is away, or there is no such app; 2 usage; \
    3 no server.")]
pub struct StatusArgs {
    /// Only this app
    #[arg(value_name = "APP")]
    pub app: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &StatusArgs, output: &Output) -> anyhow::Result<u8> {
    let mut reply = args.server.client()?.status()?;
    if reply.status != 200 {
        return print_reply(reply, args.json, |_| String::new(), output);
    }
    let mut is_ready = reply.json["ready"] == true;
    if let Some(name) = &args.app {
        let Some(app) = app_of(&reply.json, name) else {
            output.error(&no_app(&reply.json, name));
            return Ok(1);
        };
        is_ready = app["ready"] == true;
        reply.json["apps"] = json!([app]);
    }
    let text = |json: &Json| status_text(json, &args.server.url);
    print_reply(reply, args.json, text, output)?;
    Ok(u8::from(!is_ready))
}

fn app_of(status: &Json, name: &str) -> Option<Json> {
    let mut apps = array(&status["apps"]).iter();
    apps.find(|app| app["name"] == name).cloned()
}

fn no_app(status: &Json, name: &str) -> String {
    let names: Vec<String> = array(&status["apps"])
        .iter()
        .map(|app| format!("'{}'", cell(&app["name"])))
        .collect();
    format!("there is no app '{name}'; running: {}", names.join(", "))
}

fn status_text(status: &Json, url: &str) -> String {
    let server = &status["server"];
    let ready = match status["ready"] == true {
        true => "ready",
        false => "not ready",
    };
    let mut text = format!(
        "headwater {} at {url}: {ready}, up {}, {} of memory, {} s of CPU\n",
        cell(&server["version"]),
        duration(number(&server["uptimeSeconds"])),
        bytes(number(&server["residentBytes"])),
        rate(number(&server["cpuSeconds"])),
    );
    for app in array(&status["apps"]) {
        text.push_str(&app_text(app));
    }
    text
}

fn app_text(app: &Json) -> String {
    let mut text = format!(
        "\n{}: {}/s, {} events, {} rejected; {}; {}\n",
        cell(&app["name"]),
        rate(number(&app["eventsPerSecond"])),
        whole(&app["events"]),
        whole(&app["rejected"]),
        memory(app),
        checkpoint(&app["checkpoint"]),
    );
    let mut rows: Vec<[String; 4]> = Vec::new();
    for (kind, key) in [
        ("source", "sources"),
        ("sink", "sinks"),
        ("table", "tables"),
    ] {
        for element in array(&app[key]) {
            rows.push([
                format!("{kind} {}", cell(&element["name"])),
                cell(&element["type"]),
                state(element),
                counts(element),
            ]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 3] = [0, 1, 2].map(|column| width(column).unwrap_or(0).min(60));
    for [name, ty, state, counts] in &rows {
        let [a, b, c] = widths;
        text.push_str(&format!("  {name:a$}  {ty:b$}  {state:c$}  {counts}\n"));
    }
    text
}

fn memory(app: &Json) -> String {
    let held = bytes(number(&app["memoryBytes"]));
    match app["memoryLimitBytes"].as_f64() {
        Some(limit) => format!("holds {held} of {}", bytes(limit)),
        None => format!("holds {held}"),
    }
}

fn checkpoint(checkpoint: &Json) -> String {
    match checkpoint.is_null() {
        true => "no checkpoint".to_owned(),
        false => format!(
            "checkpoint {} ago, {}",
            duration(number(&checkpoint["ageSeconds"])),
            bytes(number(&checkpoint["stateBytes"])),
        ),
    }
}

/// `connected`, or since when it is away, why, and when it is tried again.
fn state(element: &Json) -> String {
    if element["state"] != "away" {
        return cell(&element["state"]);
    }
    let cause: String = cell(&element["cause"]).chars().take(CAUSE_MAX).collect();
    let mut text = format!("away since {}", cell(&element["since"]));
    if !cause.is_empty() {
        text.push_str(&format!(": {cause}"));
    }
    if let Some(next) = element["nextTry"].as_str() {
        text.push_str(&format!("; next try {next}"));
    }
    text
}

fn counts(element: &Json) -> String {
    let mut parts = Vec::new();
    if let Some(events) = element["events"].as_u64() {
        let rate = rate(number(&element["eventsPerSecond"]));
        parts.push(format!("{rate}/s, {} events", thousands(events)));
    }
    for (key, what) in [
        ("rows", "rows"),
        ("inserted", "inserted"),
        ("updated", "updated"),
        ("deleted", "deleted"),
        ("rejected", "rejected"),
        ("queued", "waiting"),
        ("lag", "behind"),
        ("retries", "retries"),
    ] {
        if let Some(count) = element[key].as_u64().filter(|&count| count > 0) {
            parts.push(format!("{} {what}", thousands(count)));
        }
    }
    if let Some(waiting) = element["waitingBytes"].as_f64().filter(|&b| b > 0.0) {
        parts.push(format!("{} to read", bytes(waiting)));
    }
    parts.join(", ")
}

pub(super) fn number(json: &Json) -> f64 {
    json.as_f64().unwrap_or(0.0)
}

fn whole(json: &Json) -> String {
    thousands(json.as_u64().unwrap_or(0))
}

pub(super) fn thousands(n: u64) -> String {
    crate::progress::thousands(n)
}

/// A number per second, as short as it may be.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => thousands(rate.round() as u64),
    }
}

/// `12.5 MB`.
pub(super) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut left, mut unit) = (bytes, 0);
    while left >= 1000.0 && unit + 1 < UNITS.len() {
        (left, unit) = (left / 1000.0, unit + 1);
    }
    match unit {
        0 => format!("{left:.0} B"),
        unit => format!("{left:.1} {}", UNITS[unit]),
    }
}

/// `3 d 4 h`, `2 h 5 min`, `3 min 20 s`, `12 s`.
pub(super) fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let rates = [0.0, 0.25, 9.94, 1234.4].map(rate);
        assert_eq!(rates, ["0", "0.2", "9.9", "1,234"]);
        let sizes = [0.0, 999.0, 1500.0, 2.5e9].map(bytes);
        assert_eq!(sizes, ["0 B", "999 B", "1.5 kB", "2.5 GB"]);
        let times = [0.4, 59.9, 200.0, 7500.0, 270_000.0].map(duration);
        assert_eq!(times, ["0 s", "59 s", "3 min 20 s", "2 h 5 min", "3 d 3 h"]);
    }

    #[test]
    fn what_is_away_is_said_with_its_cause_and_its_next_try() {
        let status = json!({
            "ready": false,
            "server": {
                "version": "1.0", "uptimeSeconds": 61.0, "residentBytes": 40e6, "cpuSeconds": 1.25,
            },
            "apps": [{
                "name": "Shop", "eventsPerSecond": 1200.0, "events": 5000, "rejected": 2,
                "memoryBytes": 1500, "memoryLimitBytes": 5e8,
                "checkpoint": { "ageSeconds": 3.2, "stateBytes": 12000 },
                "sources": [{
                    "name": "Sales[1]", "type": "http", "state": "connected", "events": 5000,
                    "eventsPerSecond": 1200.0, "rejected": 0, "lag": 7,
                }],
                "sinks": [{
                    "name": "Big[1]", "type": "kafka", "state": "away", "since": "T1",
                    "cause": "refused\u{1b}", "nextTry": "T2", "events": 0, "eventsPerSecond": 0.0,
                }],
                "tables": [],
            }],
        });
        assert_eq!(
            status_text(&status, "http://x"),
            "headwater 1.0 at http://x: not ready, up 1 min 1 s, 40.0 MB of memory, 1.2 s of CPU\n\n\
             Shop: 1,200/s, 5,000 events, 2 rejected; holds 1.5 kB of 500.0 MB; checkpoint 3 s ago, 12.0 kB\n\
             \u{20} source Sales[1]  http   connected                             1,200/s, 5,000 events, 7 behind\n\
             \u{20} sink Big[1]      kafka  away since T1: refused ; next try T2  0/s, 0 events\n"
        );
    }
}
