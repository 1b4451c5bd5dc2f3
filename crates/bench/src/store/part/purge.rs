//! A day of events taken out, and its space.

use std::time::Instant;

use anyhow::ensure;
use serde_json::{Value as Json, json};

use super::Part;
use super::sql::filled;
use crate::store::Trial;
use crate::store::events::{DAYS, Kind, day, time};
use crate::store::report::{Figure, Level, Measured, OURS};
use crate::store::site::{Setup, bytes_of};

const EVENTS: u64 = 20_000_000;
const QUICK: u64 = 500_000;

const SECONDS: &str = "a day purged, from the request to its answer";
const FREED: &str = "bytes on disk after vacuum over those before, by rows that stay";

pub(super) const PART: Part = Part {
    name: "purge",
    about: "the oldest of ten days of Smart Home events purged through a server, and its space freed",
    figures: &[
        Figure {
            published: Some("hours, row by row"),
            must: Level::value(1.0),
            target: Level::value(0.2),
            ..Figure::plain(SECONDS, "s")
        },
        Figure {
            must: Level::value(1.1),
            ..Figure::plain(FREED, "times")
        },
    ],
    measure,
};

fn measure(trial: &Trial<'_>, found: &mut Measured) -> anyhow::Result<()> {
    let kind = Kind::SmartHome;
    let events = trial.events(EVENTS, QUICK);
    let setup = Setup::of(kind);
    let place = filled(trial, setup, events)?;
    found.fact(format!("{events} rows of {DAYS} days"));
    let site = place.start(setup)?;
    let before_all = bytes_of(&place.table(kind), ".parquet")?;
    // A store has one oldest day; the next run has the next.
    let runs = trial.options.runs.min(usize::try_from(DAYS - 1)?);
    for run in 1..=runs {
        let until = day(i64::try_from(run)?);
        let order = json!({ "tables": [kind.table()], "before": until });
        let begun = Instant::now();
        let mut connection = site.ask()?;
        let answer: Json =
            serde_json::from_slice(connection.post("/store/purge", &order.to_string())?)?;
        let seconds = begun.elapsed().as_secs_f64();
        let answer = &answer["result"];
        let gone = (0..events)
            .filter(|number| (day(run as i64 - 1)..until).contains(&time(*number, events)));
        let gone = gone.count() as u64;
        ensure!(
            answer["rows"] == gone,
            "{gone} rows are of that day, and {answer} went"
        );
        let order = json!({ "tables": [kind.table()], "grace": "0 sec", "force": true });
        connection.post("/store/vacuum", &order.to_string())?;
        let left = site.sql(&format!("select count(*) from {}", kind.table()))?;
        let left = left[0][0].as_u64().unwrap_or(0);
        let bytes = bytes_of(&place.table(kind), ".parquet")?;
        trial.say(&format!(
            "purge {run}: {gone} rows in {seconds:.3} s, {left} stay in {bytes} bytes"
        ));
        found.add(SECONDS, OURS, seconds);
        let of_rows = before_all as f64 * left as f64 / events as f64;
        found.add(FREED, OURS, bytes as f64 / of_rows.max(1.0));
    }
    site.process.stop()
}
