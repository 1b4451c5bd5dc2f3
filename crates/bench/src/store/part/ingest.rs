//! Readings of meters by Thrift, answered when they are durable.

use super::Part;
use crate::store::Trial;
use crate::store::events::Kind;
use crate::store::load::{CONNECTIONS, load};
use crate::store::report::{Figure, Level, Measured, OURS};
use crate::store::site::{Place, Setup, bytes_of};

const EVENTS: u64 = 20_000_000;
const QUICK: u64 = 1_000_000;

const RATE: &str = "events a second, durable before the reply";
const CPU: &str = "CPU of the server an event";
const BYTES: &str = "bytes an event on disk";
const STEADY: &str = "rate of the last fifth over that of the first";
const MEMORY: &str = "most that the server had resident";

pub(super) const PART: Part = Part {
    name: "ingest",
    about: "Smart Home events by bundles of Thrift, count and sums verified",
    figures: &[
        Figure {
            is_floor: true,
            published: Some("96,230 on 13 nodes, not durable"),
            must: Level::value(300_000.0),
            target: Level::value(500_000.0),
            moonshot: Level::value(1_000_000.0),
            ..Figure::plain(RATE, "/s")
        },
        Figure {
            must: Level::value(3.0),
            target: Level::value(1.5),
            moonshot: Level::value(1.0),
            ..Figure::plain(CPU, "us")
        },
        Figure {
            published: Some("about 317 a copy"),
            must: Level::value(12.0),
            target: Level::value(10.0),
            moonshot: Level::value(6.2),
            ..Figure::plain(BYTES, "bytes")
        },
        Figure {
            is_floor: true,
            must: Level::value(0.8),
            target: Level::value(0.9),
            moonshot: Level::value(0.95),
            ..Figure::plain(STEADY, "times")
        },
        Figure::plain(MEMORY, "MB"),
    ],
    measure,
};

fn measure(trial: &Trial<'_>, found: &mut Measured) -> anyhow::Result<()> {
    let (kind, events) = (Kind::SmartHome, trial.events(EVENTS, QUICK));
    found.fact(format!(
        "{events} events, {CONNECTIONS} connections, {} events a bundle, clustered by city",
        kind.bundle()
    ));
    for run in 1..=trial.options.runs {
        let setup = Setup {
            table: ", cluster.by='metro_area'",
            ..Setup::of(kind)
        };
        let place = Place::new(&trial.options.binary, trial.folder("ingest")?, setup)?;
        let site = place.start(setup)?;
        let loaded = load(&site, kind, 0..events, events)?;
        site.holds(kind, loaded.totals)?;
        let memory = site.process.peak_rss()?;
        site.process.stop()?;
        trial.say(&format!("ingest {run}: {}", loaded.in_words()));
        found.add(RATE, OURS, loaded.rate());
        found.add(CPU, OURS, loaded.cpu * 1e6 / events as f64);
        let bytes = bytes_of(&place.table(kind), ".parquet")?;
        found.add(BYTES, OURS, bytes as f64 / events as f64);
        found.add(STEADY, OURS, loaded.fifths[0] / loaded.fifths[1].max(1e-9));
        found.add(MEMORY, OURS, memory as f64 / 1e6);
    }
    Ok(())
}
