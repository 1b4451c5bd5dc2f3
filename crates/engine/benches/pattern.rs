//! What an event costs in a pattern: `cargo bench -p headwater-engine --bench pattern`.

use check::Catalog;
use check::{CheckConfig, check};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use event::{Batch, Chunks, Column, StrBuilder, Times, Values};
use headwater_engine::{App, Input, NoHost, Outputs, Setup, specs};
use plan::Plan;

fn main() {
    divan::main();
}

const STREAMS: &str = "define stream A (k string, v int); define stream B (k string, v int);";

/// Partial matches that wait at a time.
const WAITING: usize = 500;

fn plan(query: &str) -> Plan {
    let parsed = lang::parse(&format!("{STREAMS} {query}"));
    let checked = check(
        &parsed.app,
        &Catalog::new(specs(), []),
        &CheckConfig::default(),
    );
    checked.plan.expect("the app is right")
}

/// One row for each key, each a chunk of its own, a millisecond apart.
fn rows(keys: usize, from: i64) -> Batch {
    let mut names = StrBuilder::default();
    (0..keys).for_each(|k| names.push(&format!("key-{k}")));
    let values = (0..keys as i32).collect();
    let columns = vec![
        Column::new(Values::Str(names.finish()), None),
        Column::new(Values::Int(values), None),
    ];
    let times = (0..keys as i64).map(|t| from + t).collect();
    Batch::new(columns, keys, Times::per_row(times), Chunks::EachRow, from)
}

/// Sends as many events to A as to B, `size` rows to a batch.
fn run(bencher: Bencher<'_, '_>, query: &str, size: usize) {
    let plan = plan(query);
    let mut app = App::new(&plan, Setup::default()).expect("the app runs");
    let mut out = Outputs::default();
    app.step(0, 0, Input::Start, &mut NoHost, &mut out);
    let mut now = 0;
    let mut send = |app: &mut App| {
        for stream in [0, 1] {
            let all = rows(WAITING, now);
            let mut at = 0;
            while at < WAITING {
                let end = (at + size).min(WAITING);
                let part = all.slice_chunks(at..end);
                app.step(now, now, Input::Batch(stream, part), &mut NoHost, &mut out);
                at = end;
            }
            now += WAITING as i64;
        }
        black_box(&out.items);
        out.items.clear();
    };
    send(&mut app);
    bencher
        .counter(ItemsCount::new(2 * WAITING))
        .bench_local(|| send(&mut app));
}

const SIZES: [usize; 3] = [1, 64, 512];

#[divan::bench(args = SIZES)]
fn keyed(bencher: Bencher<'_, '_>, size: usize) {
    run(
        bencher,
        "from every a=A -> b=B[k == a.k] select a.v as x, b.v as y insert into Out;",
        size,
    );
}

#[divan::bench(args = SIZES)]
fn keyed_within(bencher: Bencher<'_, '_>, size: usize) {
    run(
        bencher,
        "from every a=A[v >= 0] -> b=B[k == a.k and v >= a.v] within 10 sec \
         select a.k as k, a.v as x, b.v as y insert into Out;",
        size,
    );
}

#[divan::bench(args = [512])]
fn scanned(bencher: Bencher<'_, '_>, size: usize) {
    run(
        bencher,
        "from every a=A -> b=B[v == a.v + 0] select a.v as x, b.v as y insert into Out;",
        size,
    );
}

#[divan::bench(args = SIZES)]
fn sequence(bencher: Bencher<'_, '_>, size: usize) {
    run(
        bencher,
        "from every a=A, b=A[v > a.v] select a.v as x, b.v as y insert into Out;",
        size,
    );
}
