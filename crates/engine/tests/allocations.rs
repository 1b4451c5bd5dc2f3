//! What the engine asks of the allocator while it runs: nothing per row, and no more per batch than
//! is told here.
//!
//! An event that comes alone asks for nothing: a column of one row has no vector, and every list that
//! is filled for a batch is kept for the next. Of many rows, each column that is computed, gathered or
//! built still asks for its vector and the shared head of it, a filter for its masks and the numbers
//! of the rows picked. The limits are what is measured, a little above; they may only be lowered.

use check::Catalog;
use check::CheckConfig;
use event::{Batch, Chunks, Value};
use headwater_engine::{App, Input, NoHost, Outputs, Setup, specs};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BATCHES: usize = 100;

/// Allocations of a batch of so many rows, in steady state; making the batch is not counted. A query
/// that reads two streams gets batches of S and of T in turn.
fn allocations(query: &str, rows: usize) -> usize {
    const ATTRIBUTES: &str = "(symbol string, price double, volume long)";
    let text = format!("define stream S {ATTRIBUTES};\ndefine stream T {ATTRIBUTES};\n{query}");
    let streams = if query.contains("T#") || query.contains("=T[") {
        2
    } else {
        1
    };
    let tree = lang::parse(&text).app;
    let checked = check::check(&tree, &Catalog::new(specs(), []), &CheckConfig::default());
    let plan = checked.plan.expect("the app has no errors");
    let setup = Setup {
        observed_streams: (2..plan.streams.len()).collect(),
        ..Setup::default()
    };
    let mut app = App::new(&plan, setup).expect("the app runs");
    let mut out = Outputs::default();
    app.step(1, 1, Input::Start, &mut NoHost, &mut out);
    let trade = |n: usize| {
        vec![
            Value::str(&format!("S{:02}", n * 7 % 100)),
            Value::Double((n * 7919 % 10_000) as f64 / 100.0),
            Value::Long((n * 104_729 % 200) as i64),
        ]
    };
    let batches: Vec<(usize, Batch)> = (0..BATCHES)
        .map(|turn| {
            let (stream, turn) = (turn % streams, turn / streams);
            let numbers = turn * rows..(turn + 1) * rows;
            let made: Vec<_> = numbers.map(|n| (1, trade(n))).collect();
            let schema = &plan.streams[stream].schema;
            (stream, Batch::from_rows(schema, &made, Chunks::EachRow, 1))
        })
        .collect();
    let mut send = |app: &mut App, (stream, batch): (usize, Batch)| {
        app.step(1, 1, Input::Batch(stream, batch), &mut NoHost, &mut out);
        out.clear();
    };
    // Until windows are full and buffers have the size they need.
    for _ in 0..(20_000 / rows).div_ceil(BATCHES) + 1 {
        for batch in &batches {
            send(&mut app, batch.clone());
        }
    }
    let region = Region::new(ALLOCATOR);
    batches.into_iter().for_each(|batch| send(&mut app, batch));
    let change = region.change();
    (change.allocations + change.reallocations) / BATCHES
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn a_batch_allocates_little_and_a_row_nothing() {
    let cases = [
        (
            "filter",
            "from S[price > 50.0 and volume > 100] select symbol, price, volume insert into Out;",
            15,
        ),
        (
            "projection",
            "from S select symbol, price * volume as value insert into Out;",
            4,
        ),
        (
            "sum over a length window",
            "from S#window.length(1000) select symbol, sum(price) as total group by symbol \
             insert into Out;",
            14,
        ),
        (
            "count over a time batch",
            "from S#window.timeBatch(1 sec) select count() as n insert into Out;",
            4,
        ),
        (
            "pattern",
            "from every e1=S[volume == 0] -> e2=S[volume > 0 and symbol == e1.symbol] \
             select e1.symbol as symbol, e2.price as price insert into Out;",
            20,
        ),
        (
            "pattern over two streams",
            "from every e1=S -> e2=T[symbol == e1.symbol] \
             select e1.symbol as symbol, e2.price as price insert into Out;",
            20,
        ),
        (
            "window join",
            // Of each symbol the windows hold one at most. They are so short that every fiftieth event
            // closes a part of them, of two queues.
            "from S#window.length(50) as s join T#window.length(50) as t \
             on s.symbol == t.symbol \
             select s.symbol as symbol, s.price as ours, t.price as theirs insert into Out;",
            30,
        ),
        (
            "update or insert",
            "@PrimaryKey('symbol') define table Last (symbol string, price double, volume long);
             from S select symbol, price, volume update or insert into Last
             set Last.price = price, Last.volume = volume on Last.symbol == symbol;",
            4,
        ),
    ];
    for (name, query, most) in cases {
        let (few, many) = (allocations(query, 250), allocations(query, 2_000));
        eprintln!("{name}: {few} allocations in a batch of 250 rows, {many} in one of 2,000");
        let one = allocations(query, 1);
        let alone = usize::from(name == "window join");
        assert!(
            one <= alone,
            "{name}: an event that comes alone asks for nothing, not {one} times"
        );
        assert!(
            few <= most && many <= most,
            "{name}: {few} and {many}, at most {most}"
        );
        // More rows than the window holds fill its vectors anew; a row asks for nothing.
        assert!(
            many <= few + 10,
            "{name}: {few} with 250 rows, {many} with 2,000"
        );
    }
}
