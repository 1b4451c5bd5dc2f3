//! `headwater bench engine`: the engine alone beside siddhi-core, on the same events in one run.
//!
//! The same app and the same events go into both; what comes out is compared row for row before any
//! time is taken. Events are made in blocks before each timed stretch, so that neither side is
//! charged for making them. Time is the CPU time of the thread that sends: here everything happens on
//! it, there the garbage collector and the compiler run beside it, and the time of the whole process
//! is told too. Passes of the two take turns.
//!
//! Never: a ratio for outputs that differ.

mod events;
mod ours;
mod report;
mod scenario;
mod siddhi;

use std::path::{Path, PathBuf};

use anyhow::anyhow;

pub use report::{EngineReport, Row, Sample};
pub use scenario::{SCENARIOS, Scenario};

use events::Events;
use siddhi::Siddhi;

/// One sentence for the list of scenarios.
pub const ABOUT: &str =
    "the engine alone beside siddhi-core: filter, projection, windows, pattern, join, table";

/// Rows of a batch while events come in faster than they are taken.
const BATCH_ROWS: usize = 1000;

/// Events of an array that is sent as one chunk.
const ARRAY_ROWS: usize = 100;

/// Passes of siddhi-core before the first that counts: its code is compiled while it runs.
const WARM_UPS: usize = 4;

#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub runs: usize,
    /// Events of each scenario, instead of what it says.
    pub events: Option<u64>,
    /// Only scenarios whose name contains this.
    pub only: Option<String>,
    /// In these feeds.
    pub feeds: Vec<Feed>,
    /// Measure siddhi-core too.
    pub with_siddhi: bool,
    /// Where events, outputs and the built reference lie; the user's cache folder by default.
    pub dir: Option<PathBuf>,
    pub progress: fn(&str),
}

/// How events are handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feed {
    /// Each a chunk of its own, many in a batch.
    Single,
    /// Arrays, each one chunk and one batch.
    Arrays,
    /// Each a chunk and a batch of its own.
    OneByOne,
}

impl Feed {
    pub const ALL: [Feed; 3] = [Feed::Single, Feed::Arrays, Feed::OneByOne];

    pub fn describe(self) -> String {
        match self {
            Feed::Single => {
                format!("each event a chunk of its own, in batches of up to {BATCH_ROWS}")
            }
            Feed::Arrays => format!("arrays of {ARRAY_ROWS} events, each array one chunk"),
            Feed::OneByOne => "each event a chunk of its own, in batches of one".to_owned(),
        }
    }

    /// Events of one call of siddhi-core.
    fn chunk_rows(self) -> usize {
        match self {
            Feed::Single | Feed::OneByOne => 1,
            Feed::Arrays => ARRAY_ROWS,
        }
    }
}

/// Measures all scenarios in all feeds.
pub fn run(options: &EngineOptions) -> anyhow::Result<EngineReport> {
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => testservers::cache()?.join("bench-engine"),
    };
    std::fs::create_dir_all(&dir)?;
    let dir = dir.canonicalize()?;
    let started = if options.with_siddhi {
        Siddhi::start(&dir, options.progress)
    } else {
        Err(anyhow!("not asked for"))
    };
    let mut siddhi = match started {
        Ok(siddhi) => Ok(siddhi),
        Err(reason) => {
            (options.progress)(&format!("siddhi-core is not measured: {reason:#}"));
            Err(format!("{reason:#}"))
        }
    };
    let mut report = EngineReport::new(match &siddhi {
        Ok(siddhi) => Ok(siddhi.version().to_owned()),
        Err(reason) => Err(reason.clone()),
    });
    let chosen = SCENARIOS.iter().filter(|s| {
        options
            .only
            .as_ref()
            .is_none_or(|only| s.name.contains(only.as_str()))
    });
    for scenario in chosen {
        let events = Events::generate(scenario, options.events);
        if let Ok(siddhi) = &mut siddhi {
            siddhi.load(&dir, scenario, &events)?;
        }
        // One by one is the same for siddhi-core whatever our batches are.
        let mut singles: Vec<Sample> = Vec::new();
        for &feed in &options.feeds {
            let mut row = measure(
                scenario,
                &events,
                feed,
                &dir,
                siddhi.as_mut().ok(),
                options,
                &singles,
            )?;
            if feed == Feed::Single {
                singles.clone_from(&row.siddhi);
            } else if feed == Feed::OneByOne {
                row.siddhi.clone_from(&singles);
            }
            (options.progress)(&format!("{}: {}", scenario.name, row.in_words()));
            report.rows.push(row);
        }
    }
    Ok(report)
}

fn measure(
    scenario: &'static Scenario,
    events: &Events,
    feed: Feed,
    dir: &Path,
    mut siddhi: Option<&mut Siddhi>,
    options: &EngineOptions,
    singles: &[Sample],
) -> anyhow::Result<Row> {
    let mut row = Row::new(scenario, feed, events.len() as u64);
    let mine = match ours::rows(scenario, events, feed) {
        Ok(rows) => rows,
        Err(reason) => {
            row.refused = Some(format!("{reason:#}"));
            return Ok(row);
        }
    };
    row.rows_out = mine.len() as u64;
    if let Some(siddhi) = siddhi.as_deref_mut() {
        let theirs = siddhi.rows(dir, feed.chunk_rows())?;
        row.difference = report::difference(&mine, &theirs, scenario.is_ordered);
        if row.difference.is_some() {
            return Ok(row);
        }
        row.is_verified = true;
    }
    let measures_theirs = singles.is_empty() || feed.chunk_rows() > 1;
    if let (Some(siddhi), true) = (siddhi.as_deref_mut(), measures_theirs) {
        for _ in 0..WARM_UPS {
            siddhi.pass(feed.chunk_rows())?;
        }
    }
    ours::pass(scenario, events, feed)?;
    for _ in 0..options.runs {
        if let (Some(siddhi), true) = (siddhi.as_deref_mut(), measures_theirs) {
            row.siddhi.push(siddhi.pass(feed.chunk_rows())?);
        }
        row.headwater.push(ours::pass(scenario, events, feed)?);
    }
    Ok(row)
}
