//! A server that was killed starts again, with what it acknowledged.

use std::time::Instant;

use anyhow::ensure;

use super::Part;
use crate::store::Trial;
use crate::store::events::Kind;
use crate::store::load::load;
use crate::store::report::{Figure, Level, Measured, OURS};
use crate::store::site::{Place, Setup, bytes_of};

const EVENTS: u64 = 20_000_000;
const QUICK: u64 = 500_000;

const START: &str = "from the start after kill -9 to the first right answer";
const LOG: &str = "log that is read again";

pub(super) const PART: Part = Part {
    name: "recover",
    about: "kill -9 while the log is as long as it gets, and a start on the same folder",
    figures: &[
        Figure {
            published: Some("minutes"),
            must: Level::value(30.0),
            target: Level::value(10.0),
            moonshot: Level::value(3.0),
            ..Figure::plain(START, "s")
        },
        Figure::plain(LOG, "MB"),
    ],
    measure,
};

fn measure(trial: &Trial<'_>, found: &mut Measured) -> anyhow::Result<()> {
    let (kind, events) = (Kind::SmartHome, trial.events(EVENTS, QUICK));
    // Files are written when memory is full, and not before.
    let setup = Setup {
        table: ", commit.interval='1 hour'",
        ..Setup::of(kind)
    };
    found.fact(format!(
        "{events} events; the bars are for 1 GB of log, which the store keeps shorter by writing files"
    ));
    for run in 1..=trial.options.runs {
        let place = Place::new(&trial.options.binary, trial.folder("recover")?, setup)?;
        let site = place.start(setup)?;
        let loaded = load(&site, kind, 0..events, events)?;
        site.process.kill()?;
        let log = bytes_of(&place.store().join("log"), ".log")?;
        let begun = Instant::now();
        let site = place.start(setup)?;
        site.holds(kind, loaded.totals)?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(log > 0 || events == 0, "there is no log to read");
        trial.say(&format!(
            "recover {run}: {seconds:.2} s with {} MB of log",
            log / 1_000_000
        ));
        found.add(START, OURS, seconds);
        found.add(LOG, OURS, log as f64 / 1e6);
        site.process.stop()?;
    }
    Ok(())
}
