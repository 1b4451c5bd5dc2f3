//! What one event costs in the engine, against the budgets that `BUDGETS` names: batches of 1,000
//! rows, each a chunk of its own, and batches of one; events made beforehand, outputs looked at by
//! nobody. `cargo bench -p headwater-engine --bench budgets`.
//!
//! A line gives the time of a sample and, under it, events a second; 1,000 divided by the Mitem/s
//! of the column `fastest` is nanoseconds an event, which is what the budgets are about.

use check::Catalog;
use check::CheckConfig;
use divan::Bencher;
use divan::counter::ItemsCount;
use event::{Batch, Chunks, Schema, Value};
use headwater_engine::{App, Input, NoHost, Outputs, Setup, Tap, TapPoint, specs};
use plan::{Plan, StreamId};

const ROWS: usize = 1000;

const TRADES: &str = "define stream S (symbol string, price double, volume long);\n";

const TURNS: &str = "define stream Orders (customer string, amount double);
define stream Payments (customer string, amount double);
";

/// Nanoseconds an event, as the design allots them; a quiet machine is needed to judge.
const BUDGETS: &str = "budgets, ns an event: filter 2.5, projection 2, timeBatch count 3, \
    group-by sum over a length window 14, keyed pattern 40, table upsert 17; \
    in batches of one: filter and projection 60, the others 150, pattern and join 600";

/// As in the program itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    eprintln!("{BUDGETS}");
    divan::main();
}

/// Somebody looks at the stream meanwhile.
#[derive(Clone, Copy)]
enum Looks {
    Nobody,
    /// Without a condition.
    AtAll,
    /// For these rows.
    For(&'static str),
}

/// Batches of a thousand rows.
fn measure(bencher: Bencher<'_, '_>, query: &str, rows: fn(usize) -> Vec<Value>) {
    measure_batches(bencher, query, rows, (8, ROWS), Looks::Nobody);
}

/// The same, while somebody looks.
fn measure_tapped(bencher: Bencher<'_, '_>, looks: Looks) {
    measure_batches(bencher, FILTER, trade, (8, ROWS), looks);
}

/// Events that come one by one: what a batch costs whatever is in it.
fn measure_single(bencher: Bencher<'_, '_>, query: &str, rows: fn(usize) -> Vec<Value>) {
    measure_batches(bencher, query, rows, (4 * ROWS, 1), Looks::Nobody);
}

fn measure_single_tapped(bencher: Bencher<'_, '_>, looks: Looks) {
    measure_batches(bencher, FILTER, trade, (4 * ROWS, 1), looks);
}

fn measure_batches(
    bencher: Bencher<'_, '_>,
    query: &str,
    rows: fn(usize) -> Vec<Value>,
    (batches, batch_rows): (usize, usize),
    looks: Looks,
) {
    let made = |schemas: &[&Schema]| {
        let batch = |turn: usize| {
            let numbers = turn * batch_rows..(turn + 1) * batch_rows;
            let rows: Vec<_> = numbers.map(|n| (1, rows(n))).collect();
            (0, Batch::from_rows(schemas[0], &rows, Chunks::EachRow, 1))
        };
        (0..batches).map(batch).collect()
    };
    run(
        bencher,
        &format!("{TRADES}{query}"),
        batch_rows,
        looks,
        made,
    );
}

/// Five hundred orders and the payments of the same customers in another order, in turns.
fn measure_turns(bencher: Bencher<'_, '_>, query: &str, batch_rows: usize) {
    const TURN: usize = 500;
    let made = |schemas: &[&Schema]| {
        let event = |number: usize| {
            let customer = match number / TURN % 2 {
                0 => number % TURN,
                turn => (number * 241 + turn) % TURN,
            };
            let amount = (number * 7919 % 10_000) as f64 / 100.0;
            let values = vec![
                Value::str(&format!("C{customer:03}")),
                Value::Double(amount),
            ];
            (number as i64, values)
        };
        let rows: Vec<_> = (0..4 * TURN).map(event).collect();
        let batches = rows.chunks(batch_rows).enumerate().map(|(at, rows)| {
            let stream = at * batch_rows / TURN % 2;
            let batch = Batch::from_rows(schemas[stream], rows, Chunks::EachRow, 1);
            (stream, batch)
        });
        batches.collect()
    };
    let app = format!("{TURNS}{query}");
    run(bencher, &app, batch_rows, Looks::Nobody, made);
}

/// Sends the batches round and round.
fn run(
    bencher: Bencher<'_, '_>,
    app: &str,
    batch_rows: usize,
    looks: Looks,
    make: impl Fn(&[&Schema]) -> Vec<(StreamId, Batch)>,
) {
    let tree = lang::parse(app).app;
    let checked = check::check(&tree, &Catalog::new(specs(), []), &CheckConfig::default());
    let plan = checked.plan.expect("the app of the bench has no errors");
    let out_stream = plan.streams.iter().position(|s| s.schema.name == "Out");
    let setup = Setup {
        observed_streams: out_stream.into_iter().collect(),
        ..Setup::default()
    };
    let mut app = App::new(&plan, setup).expect("the app of the bench runs");
    let mut out = Outputs::default();
    app.step(1, 1, Input::Start, &mut NoHost, &mut out);
    let point = TapPoint::Stream(0);
    app_with_tap(&mut app, &plan, looks, point);
    let schemas: Vec<&Schema> = plan.streams.iter().map(|s| &s.schema).collect();
    let batches = make(&schemas);
    let mut turn = 0;
    // A whole round a sample where batches are small, so that the clock is asked seldom, or not all
    // of one kind.
    let each = if batch_rows == ROWS { 1 } else { batches.len() };
    let counter = ItemsCount::new(each * batch_rows);
    bencher.counter(counter).bench_local(|| {
        for _ in 0..each {
            turn += 1;
            let (stream, batch) = &batches[turn % batches.len()];
            let input = Input::Batch(*stream, batch.clone());
            app.step(1, 1, input, &mut NoHost, &mut out);
            out.clear();
            // A hundred rows a second at a million events a second, and taken at once.
            if !matches!(looks, Looks::Nobody)
                && turn % (10_000 / batch_rows) == 0
                && let Some(tap) = app.tap_mut(point, 1)
            {
                tap.take();
                tap.allow(1);
            }
        }
    });
}

/// Has a tap look at the first stream.
fn app_with_tap(app: &mut App, plan: &Plan, looks: Looks, point: TapPoint) {
    let schema = &plan.streams[0].schema;
    let condition = match looks {
        Looks::Nobody => return,
        Looks::AtAll => None,
        Looks::For(text) => {
            let (parsed, _) = lang::parser::parse_expression(text);
            let parsed = parsed.expect("the condition of the bench is one");
            let catalog = Catalog::new(specs(), []);
            check::check_condition(&parsed, schema, plan, &catalog).condition
        }
    };
    let mut tap = Tap::new(1, plan, schema, condition.as_ref()).expect("the tap compiles");
    tap.allow(1);
    app.add_tap(point, tap);
}

/// A hundred symbols; prices and volumes vary.
fn trade(number: usize) -> Vec<Value> {
    vec![
        Value::str(&format!("S{:02}", number * 7 % 100)),
        Value::Double((number * 7919 % 10_000) as f64 / 100.0),
        Value::Long((number * 104_729 % 200) as i64),
    ]
}

/// Orders and payments in turn, the key of each pair its own.
fn order_or_payment(number: usize) -> Vec<Value> {
    vec![
        Value::str(&format!("C{}", number / 2)),
        Value::Double(1.0),
        Value::Long((number % 2) as i64),
    ]
}

const FILTER: &str =
    "from S[price > 50.0 and volume > 100] select symbol, price, volume insert into Out;";
const PROJECTION: &str = "from S select symbol, price * volume as value insert into Out;";
const TIME_BATCH: &str = "from S#window.timeBatch(1 sec) select count() as n insert into Out;";
const LENGTH_SUM: &str = "from S#window.length(1000) select symbol, sum(price) as total \
                          group by symbol insert into Out;";

const UPSERT: &str =
    "@PrimaryKey('symbol') define table Last (symbol string, price double, volume long);
     from S select symbol, price, volume update or insert into Last
     set Last.price = price, Last.volume = volume on Last.symbol == symbol;";
const PATTERN: &str = "from every e1=Orders -> e2=Payments[customer == e1.customer] \
     select e1.customer as customer, e1.amount as ordered, e2.amount as paid insert into Out;";
const JOIN: &str = "from Orders#window.length(500) as o join Payments#window.length(500) as p \
                    on o.customer == p.customer \
                    select o.customer as customer, o.amount as ordered, p.amount as paid \
                    insert into Out;";

/// Ten thousand symbols.
fn trade_of_many(number: usize) -> Vec<Value> {
    let mut values = trade(number);
    values[0] = Value::str(&format!("S{:04}", number * 7919 % 10_000));
    values
}

#[divan::bench]
fn filter(bencher: Bencher<'_, '_>) {
    measure(bencher, FILTER, trade);
}

#[divan::bench]
fn projection(bencher: Bencher<'_, '_>) {
    measure(bencher, PROJECTION, trade);
}

#[divan::bench]
fn time_batch_count(bencher: Bencher<'_, '_>) {
    measure(bencher, TIME_BATCH, trade);
}

#[divan::bench]
fn group_by_sum_over_length(bencher: Bencher<'_, '_>) {
    measure(bencher, LENGTH_SUM, trade);
}

#[divan::bench]
fn single_filter(bencher: Bencher<'_, '_>) {
    measure_single(bencher, FILTER, trade);
}

#[divan::bench]
fn single_projection(bencher: Bencher<'_, '_>) {
    measure_single(bencher, PROJECTION, trade);
}

#[divan::bench]
fn single_time_batch_count(bencher: Bencher<'_, '_>) {
    measure_single(bencher, TIME_BATCH, trade);
}

#[divan::bench]
fn single_group_by_sum_over_length(bencher: Bencher<'_, '_>) {
    measure_single(bencher, LENGTH_SUM, trade);
}

#[divan::bench]
fn tapped_filter(bencher: Bencher<'_, '_>) {
    measure_tapped(bencher, Looks::AtAll);
}

#[divan::bench]
fn tapped_filter_where(bencher: Bencher<'_, '_>) {
    measure_tapped(bencher, Looks::For("price > 99.98 and volume == 7"));
}

#[divan::bench]
fn single_tapped_filter(bencher: Bencher<'_, '_>) {
    measure_single_tapped(bencher, Looks::AtAll);
}

#[divan::bench]
fn single_tapped_filter_where(bencher: Bencher<'_, '_>) {
    measure_single_tapped(bencher, Looks::For("price > 99.98 and volume == 7"));
}

#[divan::bench]
fn upsert(bencher: Bencher<'_, '_>) {
    measure_batches(bencher, UPSERT, trade_of_many, (20, ROWS), Looks::Nobody);
}

#[divan::bench]
fn pattern_in_turns(bencher: Bencher<'_, '_>) {
    measure_turns(bencher, PATTERN, 500);
}

#[divan::bench]
fn window_join(bencher: Bencher<'_, '_>) {
    measure_turns(bencher, JOIN, 500);
}

#[divan::bench]
fn single_upsert(bencher: Bencher<'_, '_>) {
    measure_single(bencher, UPSERT, trade_of_many);
}

#[divan::bench]
fn single_pattern(bencher: Bencher<'_, '_>) {
    measure_turns(bencher, PATTERN, 1);
}

#[divan::bench]
fn single_join(bencher: Bencher<'_, '_>) {
    measure_turns(bencher, JOIN, 1);
}

#[divan::bench]
fn keyed_pattern(bencher: Bencher<'_, '_>) {
    let query = "from every e1=S[volume == 0] -> e2=S[volume == 1 and symbol == e1.symbol] \
                 select e1.symbol as symbol, e2.price as price insert into Out;";
    measure(bencher, query, order_or_payment);
}
