//! `headwater bench state`: what millions of keys cost, and what is given back when they are gone.
//!
//! The engine runs in this process and memory is the resident set as the kernel counts it, so the
//! allocator's share is in the figures. Each key is seen once, with `count()` and `sum()` of it kept.

use std::fs;

use anyhow::{Context as _, anyhow};
use engine::{App, Input, NoHost, Outputs, Setup};
use event::{Batch, Chunks, Clock, Column, StrBuilder, Times, Values};
use lang::catalog::Catalog;
use lang::check::CheckConfig;
use serde_json::{Value as Json, json};

use crate::machine;
use crate::report::thousands;

/// One sentence for the list of scenarios.
pub const ABOUT: &str =
    "memory of distinct keys in 'group by' and in a partition, and what a purge gives back";

/// Keys unless told otherwise.
pub const KEYS: u64 = 5_000_000;

const BATCH_ROWS: u64 = 1000;

/// When the first key comes, and how far behind it everything is idle.
const START: i64 = 1_000;
const IDLE: i64 = 10 * 60_000;

struct Case {
    name: &'static str,
    app: &'static str,
    /// Keys are gone after the idle time.
    is_purged: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "group by",
        app: "define stream S (k string, v double);\n\
              from S select k, count() as n, sum(v) as total group by k insert into Out;\n",
        is_purged: false,
    },
    Case {
        name: "partition",
        app: "define stream S (k string, v double);\n\
              partition with (k of S) begin\n\
              from S select k, count() as n, sum(v) as total insert into Out; end;\n",
        is_purged: false,
    },
    Case {
        name: "partition, purged",
        app: "define stream S (k string, v double);\n\
              @purge(enable='true', interval='1 sec', idle.period='1 min')\n\
              partition with (k of S) begin\n\
              from S select k, count() as n, sum(v) as total insert into Out; end;\n",
        is_purged: true,
    },
];

pub struct Held {
    name: &'static str,
    keys: u64,
    text_bytes: u64,
    /// Growth of the resident set.
    resident: u64,
    /// As the engine counts.
    counted: u64,
    /// Growth of the resident set that is left behind a purge.
    left: Option<u64>,
}

impl Held {
    /// Bytes of a key beyond its own text.
    pub fn bytes_per_key(&self) -> f64 {
        (self.resident as f64 - self.text_bytes as f64) / self.keys as f64
    }

    /// Share of the memory that came back.
    pub fn given_back(&self) -> Option<f64> {
        let left = self.left? as f64;
        Some(1.0 - left / self.resident.max(1) as f64)
    }

    fn to_json(&self) -> Json {
        json!({
            "case": self.name,
            "keys": self.keys,
            "text_bytes_per_key": self.text_bytes as f64 / self.keys as f64,
            "bytes_per_key_beyond_text": self.bytes_per_key(),
            "resident_bytes": self.resident,
            "counted_bytes": self.counted,
            "resident_bytes_after_purge": self.left,
            "given_back": self.given_back(),
        })
    }
}

pub struct StateReport {
    machine: Json,
    held: Vec<Held>,
}

/// Feeds so many distinct keys to each case.
pub fn run(keys: u64, progress: fn(&str)) -> anyhow::Result<StateReport> {
    let machine = machine::describe();
    let mut held = Vec::new();
    for case in CASES {
        progress(case.name);
        held.push(measure(case, keys)?);
    }
    Ok(StateReport { machine, held })
}

fn measure(case: &Case, keys: u64) -> anyhow::Result<Held> {
    let app = lang::parse(case.app).app;
    let checked = lang::check::check(
        &app,
        &Catalog::new(engine::specs()),
        &CheckConfig::default(),
    );
    let plan = checked
        .plan
        .ok_or_else(|| anyhow!("the app of '{}' is refused", case.name))?;
    let mut out = Outputs::default();
    let mut app = App::new(&plan, Setup::default())?;
    app.step(START, START, Input::Start, &mut NoHost, &mut out);
    let stream = plan
        .streams
        .iter()
        .position(|s| s.schema.name == "S")
        .context("the app has a stream S")?;
    let before = resident()?;
    let mut text_bytes = 0;
    let mut first = 0;
    while first < keys {
        let rows = BATCH_ROWS.min(keys - first);
        let batch = batch(first, rows, &mut text_bytes);
        app.step(
            START,
            START,
            Input::Batch(stream, batch),
            &mut NoHost,
            &mut out,
        );
        out.clear();
        first += rows;
    }
    let (resident_now, counted) = (resident()?, app.bytes() as u64);
    let left = if case.is_purged {
        for tick in 0..20 {
            let now = START + IDLE + tick * 1_000;
            app.step(now, now, Input::Tick, &mut NoHost, &mut out);
            // The allocator gives pages back while it is being used.
            let small = batch(0, BATCH_ROWS, &mut 0);
            drop(small);
        }
        Some(resident()?.saturating_sub(before))
    } else {
        None
    };
    Ok(Held {
        name: case.name,
        keys,
        text_bytes,
        resident: resident_now.saturating_sub(before),
        counted,
        left,
    })
}

/// Rows with keys that nobody has seen before.
fn batch(first: u64, rows: u64, text_bytes: &mut u64) -> Batch {
    let mut texts = StrBuilder::with_capacity(rows as usize);
    for number in first..first + rows {
        let text = format!("key{number:08}");
        *text_bytes += text.len() as u64;
        texts.push(&text);
    }
    let values = (first..first + rows).map(|n| (n % 100) as f64).collect();
    let columns = vec![
        Column::new(Values::Str(texts.finish()), None),
        Column::new(Values::Double(values), None),
    ];
    let mut batch = Batch::new(
        columns,
        rows as usize,
        Times::Same(START),
        Chunks::EachRow,
        START,
    );
    batch.clock = Clock::Same(START);
    batch
}

/// Resident set of this process, bytes.
fn resident() -> anyhow::Result<u64> {
    let status =
        fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok());
    Ok(kilobytes.context("/proc/self/status names no resident set")? * 1024)
}

impl StateReport {
    pub fn to_json(&self, commit: &str) -> Json {
        json!({
            "version": 1,
            "scenario": "state",
            "commit": commit,
            "machine": self.machine,
            "runs": self.held.iter().map(Held::to_json).collect::<Vec<_>>(),
        })
    }

    pub fn in_words(&self) -> String {
        let mut out = format!(
            "state: growth of the resident set, with count() and sum() of each key; the cases share a process,\n\
             so a later one may reuse pages that an earlier one left: judge those by what is counted\n\n\
             {:<20}{:>12}{:>14}{:>18}{:>16}{:>12}\n",
            "", "keys", "bytes a key", "beyond its text", "counted, MB", "given back"
        );
        for held in &self.held {
            let back = held
                .given_back()
                .map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
            out += &format!(
                "{:<20}{:>12}{:>14.1}{:>18.1}{:>16.1}{:>12}\n",
                held.name,
                thousands(held.keys as f64),
                held.resident as f64 / held.keys as f64,
                held.bytes_per_key(),
                held.counted as f64 / 1e6,
                back,
            );
        }
        out
    }
}
