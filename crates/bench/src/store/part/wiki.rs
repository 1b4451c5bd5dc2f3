//! Articles, stored alone and with full text, and the four queries of the report about them.

use super::Part;
use super::sql::{peers, rounds};
use crate::store::Trial;
use crate::store::events::Kind;
use crate::store::load::load;
use crate::store::peer::DUCKDB;
use crate::store::report::{Figure, Level, Measured, OURS};
use crate::store::site::{Place, Setup, bytes_of};

const EVENTS: u64 = 1_000_000;
const QUICK: u64 = 20_000;

const STORED: &str = "articles a second";
const INDEXED: &str = "articles a second, with full text";
const SIZE: &str = "bytes an article on disk";

/// Every column but `sha1`, as DAS's sample declares them.
const FULL_TEXT: &str = ", schema='title -i, revision_ts -i, contributor_username -i, contributor_id -i, comment -i, \
                         model -i, format -i, text -i, length -i'";

const QUERIES: [(&str, &str, &str); 4] = [
    (
        "avg(length)",
        "avg(length), CPU",
        "SELECT avg(length) AS avg_article_length FROM wiki",
    ),
    (
        "sum(length)",
        "sum(length), CPU",
        "SELECT sum(length) AS total_article_chars FROM wiki",
    ),
    (
        "count(*)",
        "count(*), CPU",
        "SELECT count(*) AS total_pages FROM wiki",
    ),
    (
        "pages by contributor",
        "pages by contributor, CPU",
        // The answer of the report has a row for each contributor; its rows are counted, all of them are made.
        "SELECT count(*), max(page_count) FROM (SELECT contributor_username, count(*) AS page_count FROM wiki \
         GROUP BY contributor_username) AS pages",
    ),
];

const fn query(name: &'static str, published: &'static str) -> Figure {
    Figure {
        published: Some(published),
        must: Level::times(1.5, &[DUCKDB]),
        target: Level::times(1.0, &[DUCKDB]),
        moonshot: Level::times(0.7, &[DUCKDB]),
        ..Figure::plain(name, "s")
    }
}

pub(super) const PART: Part = Part {
    name: "wiki",
    about: "articles of 3.5 kB by bundles of Thrift, and the four Wikipedia queries beside DuckDB on the same files",
    figures: &[
        Figure {
            is_floor: true,
            published: Some("8,993 on 13 nodes"),
            must: Level::value(18_000.0),
            target: Level::value(40_000.0),
            moonshot: Level::value(60_000.0),
            ..Figure::plain(STORED, "/s")
        },
        Figure {
            is_floor: true,
            must: Level::value(5_000.0),
            target: Level::value(9_000.0),
            moonshot: Level::value(12_000.0),
            ..Figure::plain(INDEXED, "/s")
        },
        Figure::plain(SIZE, "bytes"),
        query(
            QUERIES[0].0,
            "167 s for 16,753,779 articles on three analyzers",
        ),
        Figure::plain(QUERIES[0].1, "s"),
        query(QUERIES[1].0, "167 s"),
        Figure::plain(QUERIES[1].1, "s"),
        query(QUERIES[2].0, "166 s"),
        Figure::plain(QUERIES[2].1, "s"),
        query(QUERIES[3].0, "181 s"),
        Figure::plain(QUERIES[3].1, "s"),
    ],
    measure,
};

fn measure(trial: &Trial<'_>, found: &mut Measured) -> anyhow::Result<()> {
    let (kind, events) = (Kind::Wiki, trial.events(EVENTS, QUICK));
    // Indexing costs several times as much: a third of the articles says as much of it.
    let indexed = (events / 3).max(1);
    found.fact(format!(
        "{events} articles, {indexed} with full text, where a run ends when all of them are indexed"
    ));
    for run in 1..=trial.options.runs {
        let setup = Setup {
            table: FULL_TEXT,
            ..Setup::of(kind)
        };
        let place = Place::new(&trial.options.binary, trial.folder("indexed")?, setup)?;
        let site = place.start(setup)?;
        let begun = std::time::Instant::now();
        let loaded = load(&site, kind, 0..indexed, indexed)?;
        site.holds(kind, loaded.totals)?;
        site.ask()?
            .get("/analytics/indexing_done?table=wiki&timeout=3600")?;
        let rate = indexed as f64 / begun.elapsed().as_secs_f64();
        site.process.stop()?;
        trial.say(&format!("wiki {run}, with full text: {rate:.0} a second"));
        found.add(INDEXED, OURS, rate);
    }
    let mut last = None;
    for run in 1..=trial.options.runs {
        let setup = Setup::of(kind);
        let place = Place::new(&trial.options.binary, trial.folder("filled")?, setup)?;
        let site = place.start(setup)?;
        let loaded = load(&site, kind, 0..events, events)?;
        site.holds(kind, loaded.totals)?;
        site.process.stop()?;
        trial.say(&format!("wiki {run}: {}", loaded.in_words()));
        found.add(STORED, OURS, loaded.rate());
        super::sql::vacuum(trial, &place)?;
        found.add(
            SIZE,
            OURS,
            bytes_of(&place.table(kind), ".parquet")? as f64 / events as f64,
        );
        last = Some((place, setup));
    }
    let Some((place, setup)) = last else {
        return Ok(());
    };
    let mut peers = peers(trial, found, &place, kind, &[DUCKDB])?;
    let site = place.start(setup)?;
    rounds(trial, found, &site, &mut peers, &QUERIES)?;
    site.process.stop()
}
