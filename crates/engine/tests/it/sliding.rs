//! Aggregates over sliding windows, by groups that come and go, against a model that adds up the
//! window anew for each event: whatever the batches, and through a saved state.

use std::collections::VecDeque;

use check::Catalog;
use check::{CheckConfig, check as check_app};
use event::{Batch, Chunks, Times, Value};
use headwater_engine::{App, Input, NoHost, Output, Outputs, Setup, specs};
use plan::Plan;

const LENGTH: usize = 7;

type Event = (String, Option<i64>);

fn plan(query: &str) -> Plan {
    let text = format!("define stream S (k string, v long);\n{query}");
    let checked = check_app(
        &lang::parse(&text).app,
        &Catalog::new(specs(), []),
        &CheckConfig::default(),
    );
    checked.plan.expect("the app has no errors")
}

fn started(plan: &Plan) -> App {
    let setup = Setup {
        observed_streams: vec![1],
        ..Setup::default()
    };
    App::new(plan, setup).expect("the app runs")
}

/// Events of a few groups, one value in four null; a seed for each run.
fn events(seed: u64, count: usize) -> Vec<Event> {
    let mut state = seed;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    (0..count)
        .map(|_| {
            let key = match draw(6) {
                0 => "a group with a long name".to_owned(),
                n => format!("g{n}"),
            };
            let value = (draw(4) > 0).then(|| draw(100) as i64 - 50);
            (key, value)
        })
        .collect()
}

/// What `select k, sum(v), count(), avg(v) group by k` gives behind `length(LENGTH)`.
fn model(events: &[Event]) -> Vec<String> {
    let mut window: VecDeque<&Event> = VecDeque::new();
    let mut rows = Vec::new();
    for event in events {
        window.push_back(event);
        if window.len() > LENGTH {
            window.pop_front();
        }
        let group = window.iter().filter(|e| e.0 == event.0);
        let values: Vec<i64> = group.clone().filter_map(|e| e.1).collect();
        let sum: i64 = values.iter().sum();
        let (sum, mean) = if values.is_empty() {
            ("null".to_owned(), "null".to_owned())
        } else {
            let mean = sum as f64 / values.len() as f64;
            (sum.to_string(), event::text::to_text(&Value::Double(mean)))
        };
        rows.push(format!("{} {sum} {} {mean}", event.0, group.count()));
    }
    rows
}

fn batch(plan: &Plan, events: &[Event], chunks: Chunks) -> Batch {
    let row = |(key, value): &Event| {
        let value = value.map_or(Value::Null, Value::Long);
        (5, vec![Value::str(key), value])
    };
    let rows: Vec<_> = events.iter().map(row).collect();
    let mut batch = Batch::from_rows(&plan.streams[0].schema, &rows, chunks, 5);
    batch.times = Times::Same(5);
    batch
}

fn taps(out: &Outputs) -> Vec<String> {
    let batches = out.items.iter().filter_map(|item| match item {
        Output::Tap { batch, .. } => Some(batch),
        _ => None,
    });
    batches
        .flat_map(|batch| {
            (0..batch.len).map(|row| {
                let values: Vec<String> = batch.row(row).iter().map(event::text::to_text).collect();
                values.join(" ")
            })
        })
        .collect()
}

/// Batches of `sizes` in turn; at `restored_at` of them the app is thrown away and restored.
fn check(query: &str, seed: u64, sizes: &[usize], restored_at: usize) {
    let (plan, all) = (plan(query), events(seed, 400));
    let mut app = started(&plan);
    let mut out = Outputs::default();
    app.step(5, 5, Input::Start, &mut NoHost, &mut out);
    let mut rest = all.as_slice();
    let mut rows = Vec::new();
    for (turn, &size) in sizes.iter().cycle().enumerate() {
        if rest.is_empty() {
            break;
        }
        if turn == restored_at {
            let saved = app.snapshot();
            app = started(&plan);
            app.restore(&saved).expect("the state is that of the app");
        }
        let (now, later) = rest.split_at(size.min(rest.len()));
        rest = later;
        let input = Input::Batch(0, batch(&plan, now, Chunks::EachRow));
        app.step(5, 5, input, &mut NoHost, &mut out);
        rows.extend(taps(&out));
        out.clear();
    }
    assert_eq!(rows, model(&all), "seed {seed}, batches of {sizes:?}");
}

#[test]
fn aggregates_follow_a_sliding_window() {
    let select = "select k, sum(v) as s, count() as n, avg(v) as m group by k insert into Out;";
    for window in ["length(7)", "timeLength(1 min, 7)"] {
        let query = format!("from S#window.{window} {select}");
        for (seed, sizes) in [&[1][..], &[3, 20, 1], &[100], &[2, 6, 7, 8]]
            .into_iter()
            .enumerate()
        {
            for restored_at in [1, 3, 1_000] {
                check(&query, seed as u64 + 11, sizes, restored_at);
            }
        }
    }
}

/// A chunk of many events gives one row a group, the last.
#[test]
fn a_chunk_gives_the_last_row_of_each_group() {
    let plan = plan("from S#window.length(3) select k, sum(v) as s group by k insert into Out;");
    let mut app = started(&plan);
    let mut out = Outputs::default();
    app.step(5, 5, Input::Start, &mut NoHost, &mut out);
    let mut send = |rows: &[(&str, i64)]| {
        let events: Vec<Event> = rows.iter().map(|(k, v)| ((*k).into(), Some(*v))).collect();
        let input = Input::Batch(0, batch(&plan, &events, Chunks::One));
        app.step(5, 5, input, &mut NoHost, &mut out);
        let rows = taps(&out);
        out.clear();
        rows
    };
    assert_eq!(send(&[("a", 1), ("b", 2), ("a", 3)]), ["a 4", "b 2"]);
    assert_eq!(
        send(&[("c", 5), ("a", 7), ("b", 1)]),
        ["c 5", "a 10", "b 1"]
    );
    assert_eq!(send(&[("b", 2), ("b", 3)]), ["b 6"]);
}
