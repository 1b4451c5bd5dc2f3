//! What the engine asks of the allocator while it runs: nothing per row, and no more per batch than
//! is told here.
//!
//! A batch in steady state still asks for the vectors of what it makes anew (masks, numbers of the
//! rows picked, each column that is computed or gathered, with the shared head of each), for the
//! list of columns of each batch that is handed on, and for the tasks' copies of it. The limits are
//! what is measured, a little above; they may only be lowered.

use event::{Batch, Chunks, Value};
use headwater_engine::{App, Input, NoHost, Outputs, Setup, specs};
use lang::catalog::Catalog;
use lang::check::CheckConfig;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BATCHES: usize = 50;

/// Allocations of a batch of so many rows, in steady state.
fn allocations(query: &str, rows: usize) -> usize {
    let text = format!("define stream S (symbol string, price double, volume long);\n{query}");
    let tree = lang::parse(&text).app;
    let checked = lang::check::check(&tree, &Catalog::new(specs()), &CheckConfig::default());
    let plan = checked.plan.expect("the app has no errors");
    let mut app = App::new(&plan, Setup::default()).expect("the app runs");
    let mut out = Outputs::default();
    app.step(1, 1, Input::Start, &mut NoHost, &mut out);
    let trade = |n: usize| {
        vec![
            Value::str(&format!("S{:02}", n * 7 % 100)),
            Value::Double((n * 7919 % 10_000) as f64 / 100.0),
            Value::Long((n * 104_729 % 200) as i64),
        ]
    };
    let made: Vec<_> = (0..rows).map(|n| (1, trade(n))).collect();
    let batch = Batch::from_rows(&plan.streams[0].schema, &made, Chunks::EachRow, 1);
    let mut send = |app: &mut App| {
        app.step(1, 1, Input::Batch(0, batch.clone()), &mut NoHost, &mut out);
        out.clear();
    };
    // Until windows are full and buffers have the size they need.
    (0..20_000 / rows).for_each(|_| send(&mut app));
    let region = Region::new(ALLOCATOR);
    (0..BATCHES).for_each(|_| send(&mut app));
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
            24,
        ),
        (
            "projection",
            "from S select symbol, price * volume as value insert into Out;",
            12,
        ),
        (
            "sum over a length window",
            "from S#window.length(1000) select symbol, sum(price) as total group by symbol \
             insert into Out;",
            50,
        ),
    ];
    for (name, query, most) in cases {
        let (few, many) = (allocations(query, 250), allocations(query, 2_000));
        eprintln!("{name}: {few} allocations in a batch of 250 rows, {many} in one of 2,000");
        assert!(
            few <= most && many <= most,
            "{name}: {few} and {many}, at most {most}"
        );
        // A vector may grow once more in a longer batch; a row asks for nothing.
        assert!(
            many <= few + 6,
            "{name}: {few} with 250 rows, {many} with 2,000"
        );
    }
}
