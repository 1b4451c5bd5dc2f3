//! The four queries of the report, over the same files as DuckDB and Polars.

use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::Part;
use crate::store::Trial;
use crate::store::events::Kind;
use crate::store::load::load;
use crate::store::peer::{DUCKDB, POLARS, Peer, are_same};
use crate::store::report::{Figure, Level, Measured, OURS};
use crate::store::site::{Place, Setup, Site, files, rows};

const EVENTS: u64 = 50_000_000;
const QUICK: u64 = 1_000_000;

/// Figure of the time, figure of the CPU, statement.
pub(super) const QUERIES: [(&str, &str, &str); 4] = [
    (
        "cityUsage",
        "cityUsage, CPU",
        "SELECT metro_area, avg(power_reading) AS avg_usage, min(power_reading) AS min_usage, \
         max(power_reading) AS max_usage FROM smart_home GROUP BY metro_area",
    ),
    (
        "count(*)",
        "count(*), CPU",
        "SELECT count(*) FROM smart_home",
    ),
    (
        "peakDeviceUsageRange",
        "peakDeviceUsageRange, CPU",
        "SELECT house_id, max(power_reading) - min(power_reading) AS usage_range FROM smart_home \
         WHERE is_peak = true AND metro_area = 'Seattle' GROUP BY house_id",
    ),
    (
        "stateAvgUsage",
        "stateAvgUsage, CPU",
        "SELECT state, avg(power_reading) AS state_avg_usage FROM smart_home GROUP BY state",
    ),
];

const fn query(name: &'static str, published: &'static str) -> Figure {
    Figure {
        published: Some(published),
        must: Level::times(1.5, &[DUCKDB]),
        target: Level::times(1.0, &[DUCKDB]),
        moonshot: Level::times(1.0, &[DUCKDB, POLARS]),
        ..Figure::plain(name, "s")
    }
}

pub(super) const PART: Part = Part {
    name: "sql",
    about: "the four Smart Home queries by POST /sql, beside DuckDB and Polars on the same Parquet files",
    figures: &[
        query(
            QUERIES[0].0,
            "741 s for 1,000,000,000 rows on three analyzers",
        ),
        Figure::plain(QUERIES[0].1, "s"),
        query(QUERIES[1].0, "735 s"),
        Figure::plain(QUERIES[1].1, "s"),
        query(QUERIES[2].0, "751 s"),
        Figure::plain(QUERIES[2].1, "s"),
        query(QUERIES[3].0, "784 s"),
        Figure::plain(QUERIES[3].1, "s"),
    ],
    measure,
};

/// A store whose rows are all in files, and none beside.
pub(super) fn filled(trial: &Trial<'_>, setup: Setup<'_>, events: u64) -> anyhow::Result<Place> {
    let place = Place::new(&trial.options.binary, trial.folder("filled")?, setup)?;
    let site = place.start(setup)?;
    let loaded = load(&site, setup.kind, 0..events, events)?;
    site.holds(setup.kind, loaded.totals)?;
    site.process.stop()?;
    trial.say(&format!("filled: {}", loaded.in_words()));
    vacuum(trial, &place)?;
    Ok(place)
}

/// Removes what is no longer in the tables, so that all files of a folder are those of its table.
pub(super) fn vacuum(trial: &Trial<'_>, place: &Place) -> anyhow::Result<()> {
    let mut vacuum = std::process::Command::new(&trial.options.binary);
    vacuum.args(["store", "vacuum", "--grace", "0 sec", "--force", "--store"]);
    testservers::run(vacuum.arg(place.store()))?;
    Ok(())
}

/// The peers that are at hand, over the files of a table.
pub(super) fn peers(
    trial: &Trial<'_>,
    found: &mut Measured,
    place: &Place,
    kind: Kind,
    names: &[&'static str],
) -> anyhow::Result<Vec<Peer>> {
    let mut peers = Vec::new();
    let files = files(&place.table(kind), ".parquet")?;
    let of_table = files.into_iter().filter(|file| {
        let folder = file.parent().and_then(|folder| folder.file_name());
        folder.is_none_or(|name| name != "_delta_log")
    });
    let of_table: Vec<_> = of_table.collect();
    ensure!(!of_table.is_empty(), "the table has no file");
    for name in names.iter().filter(|_| !trial.options.is_alone) {
        match Peer::start(name, kind.table(), &of_table) {
            Ok(peer) => peers.push(peer),
            Err(why) => found.lacks(name, format!("{why:#}")),
        }
    }
    Ok(peers)
}

fn measure(trial: &Trial<'_>, found: &mut Measured) -> anyhow::Result<()> {
    let (kind, events) = (Kind::SmartHome, trial.events(EVENTS, QUICK));
    let setup = Setup {
        table: ", cluster.by='metro_area'",
        ..Setup::of(kind)
    };
    let place = filled(trial, setup, events)?;
    let mut peers = peers(trial, found, &place, kind, &[DUCKDB, POLARS])?;
    found.fact(format!(
        "{events} rows in {} Parquet files, clustered by city",
        files(&place.table(kind), ".parquet")?.len()
    ));
    let site = place.start(setup)?;
    rounds(trial, found, &site, &mut peers, &QUERIES)?;
    site.process.stop()
}

/// Asks us and the peers in turns, and compares the rows.
pub(super) fn rounds(
    trial: &Trial<'_>,
    found: &mut Measured,
    site: &Site<'_>,
    peers: &mut [Peer],
    queries: &[(&'static str, &'static str, &str)],
) -> anyhow::Result<()> {
    // The first round warms the caches of all, and has no figure.
    for run in 0..=trial.options.runs {
        for (figure, cpu_figure, sql) in queries.iter().copied() {
            let (seconds, cpu, ours) = asked(site, sql)?;
            if run > 0 {
                found.add(figure, OURS, seconds);
                found.add(cpu_figure, OURS, cpu);
            }
            for peer in peers.iter_mut() {
                let theirs = peer.ask(sql)?;
                ensure!(
                    are_same(&ours, &theirs.rows),
                    "{figure}: {} has {:?}, and we have {ours:?}",
                    peer.name,
                    theirs.rows
                );
                if run > 0 {
                    found.add(figure, peer.name, theirs.seconds);
                    found.add(cpu_figure, peer.name, theirs.cpu);
                }
            }
        }
        trial.say(&format!("queries {run} of {}", trial.options.runs));
    }
    Ok(())
}

/// Seconds, CPU seconds of the server, and the rows.
fn asked(site: &Site<'_>, sql: &str) -> anyhow::Result<(f64, f64, Vec<serde_json::Value>)> {
    let mut connection = site.ask()?;
    let cpu = site.process.cpu_seconds()?;
    let begun = Instant::now();
    let answer = connection
        .post("/sql", sql)
        .with_context(|| sql.to_owned())?;
    let seconds = begun.elapsed().as_secs_f64();
    let rows = rows(answer)?;
    Ok((seconds, site.process.cpu_seconds()? - cpu, rows))
}
