//! `headwater bench state`: what millions of keys cost, and what is given back when they are gone.
//!
//! Memory is the resident set as the kernel counts it, so the allocator's share is in the figures.
//! Each case runs in a process of its own, which no other case has left pages to: a run of several
//! cases starts this program again for each. Every key is seen once with `count()` and `sum()` kept;
//! then some are seen again, and a case whose results are not what they should be has no figures.
//! Where nothing is purged it is also measured how long a save keeps the app waiting, and how much it
//! writes: of all, and of what has changed when one key of a hundred was seen again.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use check::CheckConfig;
use engine::{App, Input, NoHost, Output, Outputs, Setup};
use event::codec::Writer;
use event::{Batch, Chunks, Clock, Column, StrBuilder, Times, Value, Values};
use plan::StreamId;
use serde_json::{Value as Json, json};

use crate::machine;
use crate::report::thousands;

/// One sentence for the list of scenarios.
pub const ABOUT: &str = "memory of distinct keys, what a purge gives back, and what a save costs";

/// Keys unless told otherwise.
pub const KEYS: u64 = 5_000_000;

/// What a key may cost beyond its own text, bytes, and the share that a purge must give back.
const BYTES_MAX: f64 = 64.0;
const GIVEN_BACK_MIN: f64 = 0.9;

const BATCH_ROWS: u64 = 1000;

/// Keys that are looked at again.
const CHECKED: u64 = 100_000;

/// Batches that come behind a purge: the allocator gives pages back while it is used, some at a time.
const GOES_ON: i64 = 10_000;

/// When the first key comes, and how far behind it everything is idle.
const START: i64 = 1_000;
const IDLE: i64 = 10 * 60_000;

struct Case {
    name: &'static str,
    app: &'static str,
    /// Keys are gone after the idle time.
    is_purged: bool,
    /// It keeps whole rows, which have no bound of bytes.
    keeps_rows: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "group-by",
        app: "define stream S (k string, shard int, v double);\n\
              from S select k, count() as n, sum(v) as total group by k insert into Out;\n",
        is_purged: false,
        keeps_rows: false,
    },
    Case {
        name: "group-by-purged",
        app: "define stream S (k string, shard int, v double);\n\
              @purge(enable='true', interval='1 sec', idle.period='1 min')\n\
              partition with (shard of S) begin\n\
              from S select k, count() as n, sum(v) as total group by k insert into Out; end;\n",
        is_purged: true,
        keeps_rows: false,
    },
    Case {
        name: "partition",
        app: "define stream S (k string, shard int, v double);\n\
              partition with (k of S) begin\n\
              from S select k, count() as n, sum(v) as total insert into Out; end;\n",
        is_purged: false,
        keeps_rows: false,
    },
    Case {
        name: "partition-purged",
        app: "define stream S (k string, shard int, v double);\n\
              @purge(enable='true', interval='1 sec', idle.period='1 min')\n\
              partition with (k of S) begin\n\
              from S select k, count() as n, sum(v) as total insert into Out; end;\n",
        is_purged: true,
        keeps_rows: false,
    },
    Case {
        name: "table",
        app: "define stream S (k string, shard int, v double);\n\
              @primaryKey('k') define table T (k string, shard int, v double);\n\
              from S update or insert into T set T.v = v on T.k == k;\n\
              from S select k, count() as n, sum(v) as total group by k insert into Out;\n",
        is_purged: false,
        keeps_rows: true,
    },
    Case {
        name: "window",
        app: "define stream S (k string, shard int, v double);\n\
              from S#window.time(1 hour)\n\
              select k, count() as n, sum(v) as total group by k insert into Out;\n",
        is_purged: false,
        keeps_rows: true,
    },
];

/// What one case has shown.
pub struct Held {
    name: String,
    keys: u64,
    text_bytes: u64,
    /// Growth of the resident set.
    resident: u64,
    /// As the engine counts.
    counted: u64,
    /// Growth of the resident set that is left behind a purge.
    left: Option<u64>,
    keeps_rows: bool,
    /// A save of all, and of what has changed.
    saves: Option<[Save; 2]>,
}

/// What a save costs.
#[derive(Clone, Copy)]
struct Save {
    /// How long the app stands still.
    pause: Duration,
    bytes: u64,
}

impl Save {
    fn of(write: impl FnOnce(&mut Writer)) -> anyhow::Result<Save> {
        let begun = Instant::now();
        let mut writer = Writer::streaming(Box::new(std::io::sink()));
        write(&mut writer);
        let bytes = writer.finish()?;
        Ok(Save {
            pause: begun.elapsed(),
            bytes,
        })
    }

    fn to_json(self) -> Json {
        json!({ "pause_ms": self.pause.as_secs_f64() * 1e3, "bytes": self.bytes })
    }

    fn from_json(json: &Json) -> Option<Save> {
        Some(Save {
            pause: Duration::from_secs_f64(json["pause_ms"].as_f64()? / 1e3),
            bytes: json["bytes"].as_u64()?,
        })
    }
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

    /// As little is kept, and as much given back, as is promised.
    pub fn is_right(&self) -> bool {
        (self.keeps_rows || self.bytes_per_key() <= BYTES_MAX)
            && self.given_back().is_none_or(|s| s >= GIVEN_BACK_MIN)
    }

    fn to_json(&self) -> Json {
        json!({
            "case": self.name,
            "keys": self.keys,
            "text_bytes": self.text_bytes,
            "bytes_per_key_beyond_text": self.bytes_per_key(),
            "resident_bytes": self.resident,
            "counted_bytes": self.counted,
            "resident_bytes_after_purge": self.left,
            "given_back": self.given_back(),
            "keeps_rows": self.keeps_rows,
            "save": self.saves.map(|[all, _]| all.to_json()),
            "save_of_changes": self.saves.map(|[_, changes]| changes.to_json()),
        })
    }

    fn from_json(json: &Json) -> Option<Held> {
        Some(Held {
            name: json["case"].as_str()?.to_owned(),
            keys: json["keys"].as_u64()?,
            text_bytes: json["text_bytes"].as_u64()?,
            resident: json["resident_bytes"].as_u64()?,
            counted: json["counted_bytes"].as_u64()?,
            left: json["resident_bytes_after_purge"].as_u64(),
            keeps_rows: json["keeps_rows"].as_bool()?,
            saves: Save::from_json(&json["save"])
                .zip(Save::from_json(&json["save_of_changes"]))
                .map(|(all, changes)| [all, changes]),
        })
    }
}

pub struct StateReport {
    machine: Json,
    held: Vec<Held>,
}

/// How the cases are run.
pub struct StateOptions<'a> {
    /// Distinct keys fed to each case.
    pub keys: u64,
    /// Only the cases with this in their name; the one that is called so is run in this process.
    pub only: Option<&'a str>,
    /// Starts this program for one case, by its name: it prints the report's JSON on standard output.
    pub command: &'a dyn Fn(&str) -> anyhow::Result<Command>,
    pub progress: fn(&str),
}

/// Feeds so many distinct keys to each case.
///
/// # Errors
/// A case cannot be run, or its results are wrong.
pub fn run(options: &StateOptions<'_>) -> anyhow::Result<StateReport> {
    let machine = machine::describe();
    let mut held = Vec::new();
    let only = options.only.unwrap_or_default();
    if let Some(case) = CASES.iter().find(|c| c.name == only) {
        held.push(measure(case, options.keys)?);
        return Ok(StateReport { machine, held });
    }
    for case in CASES.iter().filter(|c| c.name.contains(only)) {
        (options.progress)(case.name);
        held.push(in_a_process(case, options)?);
    }
    ensure!(
        !held.is_empty(),
        "there is no case with '{only}' in its name"
    );
    Ok(StateReport { machine, held })
}

fn in_a_process(case: &Case, options: &StateOptions<'_>) -> anyhow::Result<Held> {
    let output = (options.command)(case.name)?
        .output()
        .with_context(|| format!("cannot start the process of case '{}'", case.name))?;
    let read = serde_json::from_slice::<Json>(&output.stdout).ok();
    let held = read
        .as_ref()
        .and_then(|json| Held::from_json(&json["runs"][0]));
    held.ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow!("case '{}' gave no figures: {}", case.name, said.trim())
    })
}

/// An app that is being fed.
struct Fed {
    app: App,
    out: Outputs,
    stream: StreamId,
}

impl Fed {
    fn new(case: &Case) -> anyhow::Result<Fed> {
        let parsed = lang::parse(case.app).app;
        let catalog = catalog::full();
        let checked = check::check(&parsed, &catalog, &CheckConfig::default());
        let plan = checked
            .plan
            .ok_or_else(|| anyhow!("the app of '{}' is refused", case.name))?;
        let place = |name: &str| plan.streams.iter().position(|s| s.schema.name == name);
        let observed = place("Out").context("the app has a stream Out")?;
        let setup = Setup {
            observed_streams: vec![observed],
            ..Setup::default()
        };
        let mut fed = Fed {
            app: App::new(&plan, setup)?,
            out: Outputs::default(),
            stream: place("S").context("the app has a stream S")?,
        };
        fed.step(START, Input::Start);
        Ok(fed)
    }

    fn step(&mut self, now: i64, input: Input) {
        self.out.clear();
        self.app.step(now, now, input, &mut NoHost, &mut self.out);
    }

    /// Sends keys from a number on, and checks that each has been counted so often, with the sum of
    /// its values.
    fn send(&mut self, now: i64, numbers: &[u64], times: i64) -> anyhow::Result<()> {
        let stream = self.stream;
        self.step(now, Input::Batch(stream, batch(numbers, now)));
        let mut rows = 0;
        for output in &self.out.items {
            let Output::Tap { batch, .. } = output else {
                bail!("the app gave something else than rows of 'Out'");
            };
            for row in 0..batch.len {
                let number = numbers.get(rows).context("more rows than were sent")?;
                let expect = [
                    Value::str(&key_of(*number)),
                    Value::Long(times),
                    Value::Double(value_of(*number) * times as f64),
                ];
                let found = batch.row(row);
                ensure!(found == expect, "{found:?} where {expect:?} is right");
                rows += 1;
            }
        }
        ensure!(rows == numbers.len(), "{rows} rows of {}", numbers.len());
        Ok(())
    }
}

fn measure(case: &Case, keys: u64) -> anyhow::Result<Held> {
    let mut fed = Fed::new(case)?;
    // What a first batch makes once (buffers, the tasks of the stack) is not part of a key.
    let before = resident()?;
    let mut first = 0;
    while first < keys {
        let numbers: Vec<u64> = (first..keys.min(first + BATCH_ROWS)).collect();
        fed.send(START, &numbers, 1)?;
        first += BATCH_ROWS;
    }
    let (full, counted) = (resident()?, fed.app.bytes() as u64);
    let again: Vec<u64> = (0..keys)
        .step_by((keys / CHECKED).max(1) as usize)
        .collect();
    for numbers in again.chunks(BATCH_ROWS as usize) {
        fed.send(START, numbers, 2)?;
    }
    let saves = match case.is_purged {
        true => None,
        false => Some(saved(&mut fed, &again, keys)?),
    };
    let left = if case.is_purged {
        Some(purged(&mut fed, counted)?.saturating_sub(before))
    } else {
        None
    };
    Ok(Held {
        name: case.name.to_owned(),
        keys,
        text_bytes: (0..keys).map(|n| key_of(n).len() as u64).sum(),
        resident: full.saturating_sub(before),
        counted,
        left,
        keeps_rows: case.keeps_rows,
        saves,
    })
}

/// Saves all, then what has changed when one key of a hundred was seen for the third time.
fn saved(fed: &mut Fed, again: &[u64], keys: u64) -> anyhow::Result<[Save; 2]> {
    let all = Save::of(|writer| fed.app.save(writer))?;
    fed.app.mark_saved();
    let wanted = (keys as usize / 100).clamp(1, again.len());
    let touched = again.iter().copied().step_by(again.len() / wanted);
    let touched: Vec<u64> = touched.take(wanted).collect();
    for numbers in touched.chunks(BATCH_ROWS as usize) {
        fed.send(START, numbers, 3)?;
    }
    let changes = Save::of(|writer| fed.app.save_changes(writer))?;
    fed.app.mark_saved();
    Ok([all, changes])
}

/// The resident set when all keys have been idle long enough and a few new ones came; these are
/// checked to begin anew. `counted`: bytes that the app said it held with all keys.
fn purged(fed: &mut Fed, counted: u64) -> anyhow::Result<u64> {
    let few: Vec<u64> = (0..BATCH_ROWS).collect();
    for round in 0..GOES_ON {
        // Within the idle period, so that these stay.
        let now = START + IDLE + round;
        fed.step(now, Input::Tick);
        fed.send(now, &few, round + 1)?;
    }
    // The few, and a bit for each place that a key has had.
    let (left, most) = (fed.app.bytes() as u64, (counted / 100).max(1 << 20));
    ensure!(
        left < most,
        "the app still holds {left} bytes of {counted}, and {most} are enough"
    );
    resident()
}

fn key_of(number: u64) -> String {
    format!("key{number:08}")
}

fn value_of(number: u64) -> f64 {
    (number % 100) as f64
}

fn batch(numbers: &[u64], now: i64) -> Batch {
    let mut texts = StrBuilder::with_capacity(numbers.len());
    numbers.iter().for_each(|&n| texts.push(&key_of(n)));
    let shards = numbers.iter().map(|n| (n % 1000) as i32).collect();
    let values = numbers.iter().map(|&n| value_of(n)).collect();
    let columns = vec![
        Column::new(Values::Str(texts.finish()), None),
        Column::new(Values::Int(shards), None),
        Column::new(Values::Double(values), None),
    ];
    let rows = numbers.len();
    let mut batch = Batch::new(columns, rows, Times::Same(now), Chunks::EachRow, now);
    batch.clock = Clock::Same(now);
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
    /// Every case keeps what is promised.
    pub fn is_right(&self) -> bool {
        self.held.iter().all(Held::is_right)
    }

    pub fn to_json(&self, commit: &str) -> Json {
        json!({
            "version": 1,
            "scenario": "state",
            "commit": commit,
            "machine": self.machine,
            "allocator": "mimalloc",
            "runs": self.held.iter().map(Held::to_json).collect::<Vec<_>>(),
        })
    }

    pub fn in_words(&self) -> String {
        let mut out = format!(
            "state: growth of the resident set, allocator mimalloc, with count() and sum() of each key; each\n\
             case in a process of its own; at most {BYTES_MAX} bytes a key beyond its text and at least\n\
             {:.0} % given back are right\n\n\
             {:<20}{:>12}{:>14}{:>18}{:>16}{:>12}\n",
            GIVEN_BACK_MIN * 100.0,
            "",
            "keys",
            "bytes a key",
            "beyond its text",
            "counted, MB",
            "given back"
        );
        for held in &self.held {
            let back = held
                .given_back()
                .map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
            out += &format!(
                "{:<20}{:>12}{:>14.1}{:>18.1}{:>16.1}{:>12}{}\n",
                held.name,
                thousands(held.keys as f64),
                held.resident as f64 / held.keys as f64,
                held.bytes_per_key(),
                held.counted as f64 / 1e6,
                back,
                if held.is_right() { "" } else { "  not right" },
            );
        }
        if self.held.iter().any(|held| held.saves.is_some()) {
            out += &self.saves_in_words();
        }
        out
    }

    fn saves_in_words(&self) -> String {
        let mut out = format!(
            "\nsaves: how long the app stands still and what is written, of all and of what has changed\n\
             when one key of a hundred was seen again\n\n{:<20}{:>12}{:>14}{:>18}{:>16}\n",
            "", "all, ms", "all, MB", "changes, ms", "changes, MB",
        );
        for held in &self.held {
            let Some([all, changes]) = held.saves else {
                continue;
            };
            out += &format!(
                "{:<20}{:>12.1}{:>14.1}{:>18.2}{:>16.2}\n",
                held.name,
                all.pause.as_secs_f64() * 1e3,
                all.bytes as f64 / 1e6,
                changes.pause.as_secs_f64() * 1e3,
                changes.bytes as f64 / 1e6,
            );
        }
        out
    }
}
