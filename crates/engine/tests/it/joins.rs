//! A join that finds its rows through an index gives what one gives that looks at every row.
//!
//! `a == b` is an equation, `not (a != b)` is not, and both mean the same: null equals nothing.

use check::Catalog;
use check::CheckConfig;
use event::{Batch, Chunks, Clock, Times, Value};
use headwater_engine::{App, Input, NoHost, Output, Outputs, Setup, specs};
use plan::Plan;

const STREAMS: &str = "@app:playback
define stream L (k string, i int, l long, d double, v int);
define stream R (k string, i int, l long, d double, v int);
define window W (k string, i int, l long, d double, v int) length(60) output all events;
from R[v >= 0] insert into W;
";

/// Windows of a side; rows are found in most of them, in some never.
const WINDOWS: [&str; 16] = [
    "length(70)",
    "length(4)",
    "time(40)",
    "timeLength(60, 80)",
    "externalTime(l, 50)",
    "delay(20)",
    "lengthBatch(50)",
    "timeBatch(60)",
    "batch()",
    "sort(50, v)",
    "expression('count() <= 60')",
    "expressionBatch('count() <= 60')",
    "frequent(60, i)",
    "unique:ever(v)",
    "unique:length(k, 60)",
    "session(30 sec)",
];

/// The conditions: how equality is written is left open.
const CONDITIONS: [fn(fn(&str, &str) -> String) -> String; 8] = [
    |eq| eq("a.k", "b.k"),
    |eq| eq("a.i", "b.i"),
    |eq| format!("{} and {}", eq("a.k", "b.k"), eq("b.i", "a.v")),
    |eq| format!("{} and a.v > b.v", eq("a.i", "b.l")),
    |eq| format!("a.v != b.v and {}", eq("a.d", "b.i")),
    |eq| eq("a.i + 1", "b.l"),
    |eq| format!("{} and str:length(a.k) > 1", eq("b.d", "a.d")),
    |eq| format!("({} or a.v == 3)", eq("a.k", "b.k")),
];

struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn value(&mut self, value: Value) -> Value {
        if self.next(12) == 0 {
            Value::Null
        } else {
            value
        }
    }

    fn row(&mut self, time: i64) -> Vec<Value> {
        let key = self.next(20);
        let text = match key % 2 {
            0 => format!("k{key}"),
            _ => format!("a key of more than twelve bytes {key}"),
        };
        let (i, d) = (self.next(15) as i32, self.next(30) as f64 / 2.0);
        vec![
            self.value(Value::str(&text)),
            self.value(Value::Int(i)),
            Value::Long(time),
            self.value(Value::Double(d)),
            Value::Int(self.next(9) as i32),
        ]
    }

    /// Rows for one of the streams, some of them sharing a chunk.
    fn batch(&mut self, plan: &Plan, rows_max: u64, time: &mut i64) -> (usize, Batch) {
        let stream = self.next(2) as usize;
        let rows = 1 + self.next(rows_max);
        let mut made = Vec::new();
        let (mut ends, mut clocks) = (Vec::new(), Vec::new());
        for row in 1..=rows {
            made.push((*time, self.row(*time)));
            if row == rows || self.next(3) > 0 {
                ends.push(row as u32);
                clocks.push(*time);
                *time += self.next(3) as i64;
            }
        }
        let schema = &plan.streams[stream].schema;
        let chunks = Chunks::Ends(ends.into());
        let mut batch = Batch::from_rows(schema, &made, chunks, clocks[0]);
        batch.times = Times::per_row(made.iter().map(|(t, _)| *t).collect());
        batch.clock = Clock::PerChunk(clocks.into());
        (stream, batch)
    }
}

fn plan(query: &str) -> Plan {
    let text = format!("{STREAMS}{query}");
    let tree = lang::parse(&text).app;
    let checked = check::check(&tree, &Catalog::new(specs(), []), &CheckConfig::default());
    let problems = checked.diagnostics;
    checked
        .plan
        .unwrap_or_else(|| panic!("{query}: {problems:?}"))
}

fn made(plan: &Plan) -> App {
    let out = plan.streams.iter().position(|s| s.schema.name == "Out");
    let setup = Setup {
        observed_streams: out.into_iter().collect(),
        ..Setup::default()
    };
    App::new(plan, setup).expect("the app runs")
}

/// Everything that comes out, a line per row; the app is saved and restored now and then.
fn run(query: &str, rows_max: u64, seed: u64) -> Vec<String> {
    let plan = plan(query);
    let mut app = made(&plan);
    let mut out = Outputs::default();
    app.step(0, 0, Input::Start, &mut NoHost, &mut out);
    let (mut draw, mut time) = (Draw(seed), 1000);
    let mut lines = Vec::new();
    let mut sent = 0;
    let mut cuts = 0;
    while sent < 260 {
        let (stream, batch) = draw.batch(&plan, rows_max, &mut time);
        sent += batch.len;
        let now = batch.clock_at(0);
        app.step(now, now, Input::Batch(stream, batch), &mut NoHost, &mut out);
        if sent / 100 > cuts {
            cuts = sent / 100;
            let mut writer = event::codec::Writer::default();
            app.save(&mut writer);
            app = made(&plan);
            app.restore(&writer.bytes).expect("it was just saved");
        }
        for item in out.items.drain(..) {
            match item {
                Output::Tap { batch, .. } => {
                    for row in 0..batch.len {
                        let (time, is_expired) = (batch.times.at(row), batch.is_expired(row));
                        lines.push(format!("{time} {is_expired} {:?}", batch.row(row)));
                    }
                    lines.push(format!("{:?}", batch.chunks));
                }
                Output::Rejected(rejected) => lines.push(rejected.cause),
                _ => {}
            }
        }
    }
    lines
}

/// Both ways of writing equality give the same, and something.
fn check(query: impl Fn(fn(&str, &str) -> String) -> String, seed: u64) -> usize {
    let with_index = query(|a, b| format!("{a} == {b}"));
    let without = query(|a, b| format!("not ({a} != {b})"));
    let mut rows = 0;
    for rows_max in [1, 40] {
        let found = run(&with_index, rows_max, seed);
        assert_eq!(found, run(&without, rows_max, seed), "{with_index}");
        rows += found.len();
    }
    rows
}

#[test]
fn an_index_finds_what_a_look_at_every_row_finds() {
    let kinds = [
        "join",
        "left outer join",
        "right outer join",
        "full outer join",
    ];
    let mut seed = 0;
    let mut rows = 0;
    for (number, window) in WINDOWS.iter().enumerate() {
        for (at, condition) in CONDITIONS.iter().enumerate() {
            seed += 1;
            let kind = kinds[(number + at) % kinds.len()];
            let one_sided = if at % 3 == 2 { "unidirectional" } else { "" };
            let events = if at % 2 == 0 { "" } else { "all events" };
            let sum = if at % 4 == 0 { ", sum(b.v) as s" } else { "" };
            rows += check(
                |eq| {
                    let on = condition(eq);
                    format!(
                        "from L#window.length(50) as a {one_sided} {kind} R#window.{window} as b \
                         on {on} select a.k, b.i, a.v as av, b.v as bv{sum} insert {events} into Out;"
                    )
                },
                seed,
            );
        }
    }
    assert!(rows > 20_000, "{rows}");
}

#[test]
fn named_windows_and_partitions_too() {
    let mut rows = 0;
    for (seed, condition) in CONDITIONS.iter().enumerate() {
        rows += check(
            |eq| {
                let on = condition(eq);
                format!(
                    "from L#window.time(9) as a join W as b on {on} \
                     select a.k, b.d, a.v insert all events into Out;"
                )
            },
            seed as u64,
        );
        rows += check(
            |eq| {
                let on = condition(eq);
                format!(
                    "partition with (v of L, v of R) begin \
                     from L#window.length(60) as a join R#window.length(60) as b on {on} \
                     select a.k, b.d, a.v insert into Out; end;"
                )
            },
            seed as u64,
        );
    }
    assert!(rows > 4_000, "{rows}");
}
