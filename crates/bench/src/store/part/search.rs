//! One record by its id among many, as the report asks for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use serde_json::{Value as Json, json};

use super::Part;
use super::sql::filled;
use crate::store::Trial;
use crate::store::client::Publisher;
use crate::store::events::{Kind, instance};
use crate::store::load::load_until;
use crate::store::report::{Figure, Level, Measured, OURS};
use crate::store::site::{Setup, Site};

const EVENTS: u64 = 10_000_000;
const QUICK: u64 = 200_000;

const CONNECTIONS: u64 = 80;

/// Events a second that come in meanwhile.
const INGEST: f64 = 100_000.0;

/// The same in a quick run, which an unoptimised program has to get through.
const QUICK_INGEST: f64 = 1000.0;

/// Events whose way to being found is timed.
const FRESH: u64 = 50;

const RATE: &str = "requests a second";
const P99: &str = "99th percentile";
const CPU: &str = "CPU of the server a request";
const BESIDE: &str = "requests a second while 100,000 events come in";
const KEPT: &str = "rate that is kept";
const FOUND: &str = "from the reply to being found by search, 99th percentile";
const SEEN: &str = "from the reply to being seen by SQL, 99th percentile";

const fn fresh(name: &'static str) -> Figure {
    Figure {
        published: Some("1.5 s and more"),
        must: Level::value(1.0),
        target: Level::value(0.2),
        moonshot: Level::value(0.05),
        ..Figure::plain(name, "s")
    }
}

pub(super) const PART: Part = Part {
    name: "search",
    about: "POST /analytics/search for one record by its id, 80 connections, logged in",
    figures: &[
        Figure {
            is_floor: true,
            published: Some("2,839"),
            must: Level::value(5.0 * 2839.0),
            target: Level::value(10.0 * 2839.0),
            moonshot: Level::value(25.0 * 2839.0),
            ..Figure::plain(RATE, "/s")
        },
        Figure {
            published: Some("29 ms in the mean"),
            must: Level::value(29.0),
            target: Level::value(15.0),
            moonshot: Level::value(5.0),
            ..Figure::plain(P99, "ms")
        },
        Figure::plain(CPU, "us"),
        Figure::plain(BESIDE, "/s"),
        Figure {
            is_floor: true,
            must: Level::value(1.0 / 3.0),
            target: Level::value(0.5),
            moonshot: Level::value(0.8),
            ..Figure::plain(KEPT, "times")
        },
        fresh(FOUND),
        fresh(SEEN),
    ],
    measure,
};

fn measure(trial: &Trial<'_>, found: &mut Measured) -> anyhow::Result<()> {
    let (kind, events) = (Kind::Process, trial.events(EVENTS, QUICK));
    let setup = Setup {
        table: ", schema='instance_id -i', store.rows='true'",
        has_users: true,
        ..Setup::of(kind)
    };
    let place = filled(trial, setup, events)?;
    found.fact(format!(
        "{events} records, rows kept in the index (store.rows)"
    ));
    let site = place.start(setup)?;
    let begun = Instant::now();
    site.ask()?
        .get("/analytics/indexing_done?table=process&timeout=3600")?;
    trial.say(&format!(
        "search: indexed after {:.1} s more",
        begun.elapsed().as_secs_f64()
    ));
    let (seconds, ingest) = match trial.options.is_quick {
        true => (Duration::from_secs(3), QUICK_INGEST),
        false => (Duration::from_secs(15), INGEST),
    };
    if trial.options.is_quick {
        found.fact(format!(
            "{ingest} events a second come in beside the searches"
        ));
    }
    for run in 1..=trial.options.runs {
        let cpu = site.process.cpu_seconds()?;
        let alone = searched(&site, events, seconds)?;
        let cpu = site.process.cpu_seconds()? - cpu;
        let stop = AtomicBool::new(false);
        let (beside, [by_search, by_sql]) = std::thread::scope(|scope| {
            let load = scope.spawn(|| load_until(&site, kind, events, Some(ingest), &stop));
            let found = searched(&site, events, seconds)
                .and_then(|found| Ok((found, fresh_events(&site, events, run)?)));
            stop.store(true, Ordering::Relaxed);
            load.join().map_err(|_| anyhow!("the load panicked"))??;
            found
        })?;
        trial.say(&format!(
            "search {run}: {:.0} a second, p99 {:.1} ms; beside ingest {:.0}",
            alone.rate, alone.p99, beside.rate
        ));
        found.add(RATE, OURS, alone.rate);
        found.add(P99, OURS, alone.p99);
        found.add(CPU, OURS, cpu * 1e6 / alone.requests as f64);
        found.add(BESIDE, OURS, beside.rate);
        found.add(KEPT, OURS, beside.rate / alone.rate);
        found.add(FOUND, OURS, by_search);
        found.add(SEEN, OURS, by_sql);
    }
    site.process.stop()
}

struct Searched {
    requests: u64,
    rate: f64,
    /// Milliseconds.
    p99: f64,
}

fn question(instance: &str) -> String {
    json!({ "tableName": "process", "query": format!("instance_id:{instance}"), "start": 0, "count": 2 })
        .to_string()
}

/// Has all connections search for records that are there, one after the other, and each answer judged.
fn searched(site: &Site<'_>, events: u64, time: Duration) -> anyhow::Result<Searched> {
    let next = AtomicU64::new(1);
    let begun = Instant::now();
    let search = || -> anyhow::Result<Vec<f64>> {
        let mut connection = site.ask()?;
        let mut millis = Vec::new();
        while begun.elapsed() < time {
            // Any order but that of the table.
            let number = next
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_mul(0x9e37_79b9)
                % events;
            let wanted = instance(number);
            let asked = Instant::now();
            let answer = connection.post("/analytics/search", &question(&wanted))?;
            millis.push(asked.elapsed().as_secs_f64() * 1e3);
            let records: Vec<Json> = serde_json::from_slice(answer)?;
            let is_right = matches!(&records[..], [one] if one["values"]["instance_id"] == *wanted);
            ensure!(is_right, "the search for {wanted} gave {records:?}");
        }
        Ok(millis)
    };
    let mut millis = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(search)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(
                worker
                    .join()
                    .map_err(|_| anyhow!("a connection panicked"))??,
            );
        }
        anyhow::Ok(all)
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Searched {
        requests: millis.len() as u64,
        rate: millis.len() as f64 / seconds,
        p99: percentile(&mut millis, 99),
    })
}

fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = values.len() * percent / 100;
    values
        .get(at.min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

/// Seconds from the reply to an event until search finds it, and until SQL sees it: the 99th percentile of each.
fn fresh_events(site: &Site<'_>, events: u64, run: usize) -> anyhow::Result<[f64; 2]> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut publisher = Publisher::connect(site.port(), &site.session)?;
    let mut connection = site.ask()?;
    let mut times = [Vec::new(), Vec::new()];
    // Numbers that no load comes to.
    let first = u64::MAX / 2 + run as u64 * FRESH;
    for number in first..first + FRESH {
        publisher.publish(Kind::Process, number..number + 1, u64::MAX)?;
        let replied = Instant::now();
        let wanted = instance(number);
        let mut waits = [true, true];
        while waits != [false, false] {
            if waits[0] {
                let answer = connection.post("/analytics/search", &question(&wanted))?;
                let records: Vec<Json> = serde_json::from_slice(answer)?;
                waits[0] = records.is_empty();
                if !waits[0] {
                    times[0].push(replied.elapsed().as_secs_f64());
                }
            }
            if waits[1] {
                let sql = format!("select count(*) from process where instance_id = '{wanted}'");
                waits[1] = site.sql(&sql)?[0][0] != 1;
                if !waits[1] {
                    times[1].push(replied.elapsed().as_secs_f64());
                }
            }
            ensure!(
                replied.elapsed() < PATIENCE,
                "event {number} of {events} and more is not found"
            );
        }
    }
    Ok(times.map(|mut times| percentile(&mut times, 99)))
}
