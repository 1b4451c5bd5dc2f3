//! A scenario on the engine of this project.

use anyhow::{Context as _, anyhow, bail};
use check::CheckConfig;
use engine::{App, Input, NoHost, Output, Outputs, Setup};
use event::{Batch, Schema};
use plan::{Plan, StreamId, TableId};
use rustix::time::{ClockId, clock_gettime};

use super::events::Events;
use super::{Feed, Sample, Scenario};

/// Events prepared before a timed stretch: few enough that they are still in the cache, as if just
/// decoded.
const BLOCK: usize = 2_000;

enum Watched {
    Stream(StreamId),
    Table(TableId),
}

struct Runner {
    plan: Plan,
    watched: Watched,
}

impl Runner {
    fn new(scenario: &Scenario) -> anyhow::Result<Runner> {
        let app = lang::parse(scenario.app).app;
        let config = CheckConfig {
            must_run: true,
            ..CheckConfig::default()
        };
        let checked = check::check(&app, &catalog::full(), &config);
        let plan = checked.plan.ok_or_else(|| {
            let first = checked.diagnostics.first();
            anyhow!("{}", first.map_or("", |d| d.message.as_str()))
        })?;
        let stream = plan
            .streams
            .iter()
            .position(|s| s.schema.name == scenario.output);
        let table = plan
            .tables
            .iter()
            .position(|t| t.schema.name == scenario.output);
        let watched = match (stream, table) {
            (Some(stream), _) => Watched::Stream(stream),
            (None, Some(table)) => Watched::Table(table),
            (None, None) => bail!("the app has no '{}'", scenario.output),
        };
        Ok(Runner { plan, watched })
    }

    fn start(&self, out: &mut Outputs) -> anyhow::Result<App> {
        let observed_streams = match self.watched {
            Watched::Stream(stream) => vec![stream],
            Watched::Table(_) => Vec::new(),
        };
        let setup = Setup {
            observed_streams,
            ..Setup::default()
        };
        let mut app = App::new(&self.plan, setup).context("the app does not run")?;
        app.step(0, 0, Input::Start, &mut NoHost, out);
        Ok(app)
    }

    fn schemas(&self) -> Vec<&Schema> {
        self.plan.streams.iter().map(|s| &s.schema).collect()
    }
}

/// One pass; every row that comes out as timestamp and values with tabs between.
pub(super) fn rows(
    scenario: &Scenario,
    events: &Events,
    feed: Feed,
) -> anyhow::Result<Vec<String>> {
    let runner = Runner::new(scenario)?;
    let mut out = Outputs::default();
    let mut app = runner.start(&mut out)?;
    let mut rows = Vec::new();
    let schemas = runner.schemas();
    for (stream, batch) in events.batches(0, events.len(), feed, &schemas) {
        send(&mut app, stream, batch, &mut out);
        for item in out.items.drain(..) {
            match item {
                Output::Tap { batch, .. } => append_rows(&batch, false, &mut rows),
                Output::Rejected(rejected) => {
                    bail!("a chunk failed: {}", rejected.cause)
                }
                _ => {}
            }
        }
    }
    if let Watched::Table(table) = runner.watched {
        let content = app.table_content(table).context("the table is in memory")?;
        append_rows(&content, true, &mut rows);
    }
    Ok(rows)
}

fn append_rows(batch: &Batch, is_table: bool, rows: &mut Vec<String>) {
    for row in 0..batch.len {
        let time = if is_table { 0 } else { batch.times.at(row) };
        let mut line = time.to_string();
        for column in &batch.columns {
            line.push('\t');
            event::text::write_value(&mut line, &column.value(row));
        }
        rows.push(line);
    }
}

fn send(app: &mut App, stream: StreamId, batch: Batch, out: &mut Outputs) {
    let now = batch.clock_at(0);
    app.step(now, now, Input::Batch(stream, batch), &mut NoHost, out);
}

/// One measured pass.
pub(super) fn pass(scenario: &Scenario, events: &Events, feed: Feed) -> anyhow::Result<Sample> {
    let runner = Runner::new(scenario)?;
    let mut out = Outputs::default();
    let mut app = runner.start(&mut out)?;
    let schemas = runner.schemas();
    let mut sample = Sample::default();
    let mut from = 0;
    while from < events.len() {
        let batches = events.batches(from, BLOCK, feed, &schemas);
        from += BLOCK;
        let (cpu, wall) = (now_ns(ClockId::ThreadCPUTime), now_ns(ClockId::Monotonic));
        for (stream, batch) in batches {
            send(&mut app, stream, batch, &mut out);
            for item in &out.items {
                if let Output::Tap { batch, .. } = item {
                    sample.rows += batch.len as u64;
                }
            }
            out.clear();
        }
        let spent = now_ns(ClockId::ThreadCPUTime) - cpu;
        sample.process_ns += spent;
        sample.thread_ns += spent;
        sample.wall_ns += now_ns(ClockId::Monotonic) - wall;
    }
    if let Watched::Table(table) = runner.watched {
        sample.rows = app.table_rows(table).unwrap_or(0) as u64;
    }
    Ok(sample)
}

fn now_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
