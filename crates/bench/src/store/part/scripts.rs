//! Batch scripts of the shape of DAS's Smart Home sample, and one that goes on where it ended.

use std::fs;

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

use super::Part;
use super::sql::{filled, peers};
use crate::store::Trial;
use crate::store::events::Kind;
use crate::store::load::load;
use crate::store::peer::{DUCKDB, are_same};
use crate::store::report::{Figure, Level, Measured, OURS};
use crate::store::site::{Setup, Site};

const EVENTS: u64 = 20_000_000;
const QUICK: u64 = 300_000;

const WHOLE: &str = "the script over all rows";
const AGAIN: &str = "the incremental script again, after 1 % more rows";

pub(super) const PART: Part = Part {
    name: "scripts",
    about: "a batch script of four statements as in DAS's sample, its tables compared with what DuckDB computes",
    figures: &[
        Figure {
            published: Some(
                "3,012 s for the four statements over 1,000,000,000 rows on three analyzers",
            ),
            ..Figure::plain(WHOLE, "s")
        },
        Figure {
            must: Level::value(1.0),
            target: Level::value(0.1),
            ..Figure::plain(AGAIN, "s")
        },
    ],
    measure,
};

/// Table, and what DuckDB says that it holds.
const TABLES: [(&str, &str); 4] = [
    (
        "select metro_area, avg_usage, min_usage, max_usage from city_usage",
        "select metro_area, avg(power_reading), min(power_reading), max(power_reading) from smart_home group by 1",
    ),
    (
        "select house_id, usage_range from peak_device_usage_range",
        "select house_id, max(power_reading) - min(power_reading) from smart_home \
         where is_peak and metro_area = 'Seattle' group by 1",
    ),
    (
        "select state, state_avg_usage from state_avg_usage",
        "select state, avg(power_reading) from smart_home group by 1",
    ),
    (
        "select state, avg_usage_difference from state_usage_difference",
        "select state, avg(power_reading) - (select avg(power_reading) from smart_home) from smart_home group by 1",
    ),
];

const SCRIPT: &str = r#"<Analytics><Name>smart_home_script</Name><Script>
create temporary table smartHomeData using CarbonAnalytics options (tableName "SMART_HOME",
    schema "house_id INT, metro_area STRING, state STRING, device_id INT, power_reading FLOAT, is_peak BOOLEAN");
create temporary table cityUsage using CarbonAnalytics options (tableName "city_usage",
    schema "metro_area STRING, avg_usage FLOAT, min_usage FLOAT, max_usage FLOAT");
create temporary table peakDeviceUsageRange using CarbonAnalytics options (tableName "peak_device_usage_range",
    schema "house_id INT, usage_range FLOAT");
create temporary table stateAvgUsage using CarbonAnalytics options (tableName "state_avg_usage",
    schema "state STRING, state_avg_usage FLOAT");
create temporary table stateUsageDifference using CarbonAnalytics options (tableName "state_usage_difference",
    schema "state STRING, avg_usage_difference FLOAT");
insert overwrite table cityUsage select metro_area, avg(power_reading) as avg_usage, min(power_reading) as min_usage,
    max(power_reading) as max_usage from smartHomeData group by metro_area;
insert overwrite table peakDeviceUsageRange select house_id, (max(power_reading) - min(power_reading)) as usage_range
    from smartHomeData where is_peak = true and metro_area = "Seattle" group by house_id;
insert overwrite table stateAvgUsage select state, avg(power_reading) as state_avg_usage from smartHomeData group by state;
insert overwrite table stateUsageDifference select a2.state, (a2.state_avg_usage - a1.overall_avg) as avg_usage_difference
    from (select avg(power_reading) as overall_avg from smartHomeData) as a1 join stateAvgUsage as a2 ;
</Script></Analytics>"#;

const INCREMENTAL: &str = r#"<Analytics><Name>incremental</Name><Script>
create temporary table fresh using CarbonAnalytics options (tableName "SMART_HOME", incrementalParams "bench",
    schema "metro_area STRING, power_reading FLOAT, _timestamp LONG");
create temporary table counts using CarbonAnalytics options (tableName "counts", schema "metro_area STRING, n LONG");
insert into table counts select metro_area, count(*) from fresh group by metro_area;
INCREMENTAL_TABLE_COMMIT bench;
</Script></Analytics>"#;

fn measure(trial: &Trial<'_>, found: &mut Measured) -> anyhow::Result<()> {
    let (kind, events) = (Kind::SmartHome, trial.events(EVENTS, QUICK));
    let setup = Setup {
        table: ", cluster.by='metro_area'",
        args: &["--scripts", "smart.xml", "--scripts", "incremental.xml"],
        ..Setup::of(kind)
    };
    let place = filled(trial, Setup { args: &[], ..setup }, events)?;
    for (name, text) in [("smart.xml", SCRIPT), ("incremental.xml", INCREMENTAL)] {
        fs::write(place.dir.join(name), text)?;
    }
    let mut peers = peers(trial, found, &place, kind, &[DUCKDB])?;
    found.fact(format!("{events} rows"));
    let site = place.start(setup)?;
    for run in 1..=trial.options.runs {
        let seconds = ran(&site, "smart_home_script")?;
        found.add(WHOLE, OURS, seconds);
        trial.say(&format!("scripts {run}: {seconds:.2} s"));
    }
    for peer in &mut peers {
        for (ours, theirs) in TABLES {
            let (rows, expected) = (site.sql(ours)?, peer.ask(theirs)?.rows);
            ensure!(
                are_same(&rows, &expected),
                "{ours}: {} has {expected:?}, and we have {rows:?}",
                peer.name
            );
        }
    }
    ran(&site, "incremental")?;
    let mut rows = events;
    for run in 1..=trial.options.runs {
        let more = (events / 100).max(1);
        load(&site, kind, rows..rows + more, events)?;
        rows += more;
        let seconds = ran(&site, "incremental")?;
        let counted = site.sql("select sum(n) from counts")?;
        ensure!(
            counted[0][0] == rows,
            "{rows} rows were counted as {}",
            counted[0][0]
        );
        found.add(AGAIN, OURS, seconds);
        trial.say(&format!("incremental {run}: {seconds:.3} s"));
    }
    site.process.stop()
}

/// Runs a script; its seconds, as the server says.
fn ran(site: &Site<'_>, name: &str) -> anyhow::Result<f64> {
    let mut connection = site.ask()?;
    let answer: Json =
        serde_json::from_slice(connection.post(&format!("/scripts/{name}/run"), "")?)?;
    let mut last = answer;
    // A long one goes on after the answer.
    while last["millis"].is_null() {
        ensure!(last["error"].is_null(), "script '{name}': {last}");
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        let shown: Json = serde_json::from_slice(connection.get(&format!("/scripts/{name}"))?)?;
        if shown["running"].is_null() {
            last = shown["last"].clone();
        }
    }
    ensure!(last["error"].is_null(), "script '{name}': {last}");
    Ok(last["millis"].as_f64().context("milliseconds")? / 1e3)
}
