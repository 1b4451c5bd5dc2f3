//! Ingest while the four queries loop, beside ingest alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::Part;
use super::sql::filled;
use crate::store::Trial;
use crate::store::events::Kind;
use crate::store::load::load_until;
use crate::store::report::{Figure, Level, Measured, OURS};
use crate::store::site::{Setup, Site};

const EVENTS: u64 = 10_000_000;
const QUICK: u64 = 200_000;

const ALONE: &str = "events a second alone";
const BESIDE: &str = "events a second while queries loop";
const KEPT: &str = "rate that is kept";
const QUERIES: &str = "rounds of the four queries";

pub(super) const PART: Part = Part {
    name: "mixed",
    about: "ingest of Smart Home events while the four queries loop",
    figures: &[
        Figure::plain(ALONE, "/s"),
        Figure::plain(BESIDE, "/s"),
        Figure {
            is_floor: true,
            must: Level::value(0.5),
            target: Level::value(0.7),
            moonshot: Level::value(0.85),
            ..Figure::plain(KEPT, "times")
        },
        Figure {
            is_floor: true,
            ..Figure::plain(QUERIES, "a minute")
        },
    ],
    measure,
};

fn measure(trial: &Trial<'_>, found: &mut Measured) -> anyhow::Result<()> {
    let kind = Kind::SmartHome;
    let setup = Setup {
        table: ", cluster.by='metro_area'",
        ..Setup::of(kind)
    };
    let events = trial.events(EVENTS, QUICK);
    let place = filled(trial, setup, events)?;
    found.fact(format!("{events} rows are there before"));
    let site = place.start(setup)?;
    let seconds = Duration::from_secs(if trial.options.is_quick { 5 } else { 30 });
    for run in 1..=trial.options.runs {
        let (alone, _) = beside(&site, events, seconds, |_| Ok(0))?;
        let (mixed, rounds) = beside(&site, events, seconds, |stop| {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                for (_, _, sql) in super::sql::QUERIES {
                    site.sql(sql)?;
                }
                rounds += 1;
            }
            Ok(rounds)
        })?;
        trial.say(&format!(
            "mixed {run}: {alone:.0} a second alone, {mixed:.0} beside queries"
        ));
        found.add(ALONE, OURS, alone);
        found.add(BESIDE, OURS, mixed);
        found.add(KEPT, OURS, mixed / alone);
        found.add(
            QUERIES,
            OURS,
            f64::from(rounds) * 60.0 / seconds.as_secs_f64(),
        );
    }
    site.process.stop()
}

/// Events a second for so long, while this is done until it is told to stop.
fn beside(
    site: &Site<'_>,
    begin: u64,
    seconds: Duration,
    work: impl FnOnce(&AtomicBool) -> anyhow::Result<u32> + Send,
) -> anyhow::Result<(f64, u32)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = scope.spawn(|| work(&stop));
        let load = scope.spawn(|| load_until(site, Kind::SmartHome, begin, None, &stop));
        let end = Instant::now() + seconds;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(left);
        }
        stop.store(true, Ordering::Relaxed);
        let loaded = load.join().map_err(|_| anyhow!("the load panicked"))??;
        let rounds = work.join().map_err(|_| anyhow!("the queries panicked"))??;
        Ok((loaded.rate(), rounds))
    })
}
