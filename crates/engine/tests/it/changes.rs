//! What has changed, laid over what was saved before, is the state: for everything that is kept by
//! key, page or segment, with keys that go and come back under the numbers of others.

use event::codec::Writer;
use event::{Batch, Chunks, Value};
use headwater_engine as engine;

use check::Catalog;
use check::{CheckConfig, check};
use engine::{App, Input, NoHost, Outputs, Setup, compose};
use plan::Plan;

const STREAM: &str = "define stream S (k string, n long, kind string);\n";

fn plan(text: &str) -> Plan {
    let parsed = lang::parse(&format!("{STREAM}{text}"));
    let catalog = Catalog::new(engine::specs(), []);
    let checked = check(&parsed.app, &catalog, &CheckConfig::default());
    checked
        .plan
        .unwrap_or_else(|| panic!("{text}: {:?}", checked.diagnostics))
}

fn made(plan: &Plan) -> App {
    App::new(plan, Setup::default()).expect("every part of the app runs")
}

/// The same numbers each time (a linear congruence).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % n
    }
}

/// Runs an app for some steps of `rows` rows with one of `keys` keys each. What changes is saved
/// after each, and now and then the app goes on from what was put together.
fn run(text: &str, keys: u64, rows: u64) {
    let plan = plan(text);
    let mut app = made(&plan);
    let mut dice = Dice(keys ^ rows);
    let mut now = 1_000;
    let step = |app: &mut App, now: i64, input| {
        app.step(now, now, input, &mut NoHost, &mut Outputs::default());
    };
    step(&mut app, now, Input::Start);
    let mut composed: Option<Vec<u8>> = None;
    for round in 0..24 {
        now += 1 + dice.below(400) as i64 * (1 + 10 * i64::from(round % 7 == 6));
        // Most keys come from a part of them, so that others are idle.
        let first = dice.below(keys);
        let count = match round % 5 {
            4 => 0,
            3 => 1,
            _ => rows,
        };
        let events: Vec<(i64, Vec<Value>)> = (0..count)
            .map(|_| {
                let key = (first + dice.below(1 + keys / 3)) % keys;
                let kind = ["put", "put", "put", "drop"][dice.below(4) as usize];
                let n = Value::Long(dice.below(1000) as i64);
                (
                    now,
                    vec![Value::str(&format!("k{key}")), n, Value::str(kind)],
                )
            })
            .collect();
        if events.is_empty() {
            step(&mut app, now, Input::Tick);
        } else {
            let schema = &plan.streams[0].schema;
            let batch = Batch::from_rows(schema, &events, Chunks::EachRow, now);
            step(&mut app, now, Input::Batch(0, batch));
        }
        let mut writer = Writer::default();
        match &composed {
            Some(before) if !app.must_be_saved_whole() => {
                let mut changes = Writer::default();
                app.save_changes(&mut changes);
                let mut layers = [before.as_slice(), &changes.bytes];
                compose(&mut layers, &mut writer).expect("they follow each other");
            }
            _ => app.save(&mut writer),
        }
        // A save that was given up takes no mark with it.
        if round % 6 != 5 || composed.is_none() {
            app.mark_saved();
            composed = Some(writer.bytes.clone());
        }
        let restored = |bytes: &[u8]| {
            let mut app = made(&plan);
            app.restore(bytes).expect("the state is that of the app");
            app
        };
        let goes_on = restored(&writer.bytes);
        let whole = restored(&app.snapshot());
        assert!(
            goes_on.snapshot() == whole.snapshot(),
            "round {round} of {text}"
        );
        if round % 8 == 7 {
            app = goes_on;
            composed = None;
        }
    }
}

#[test]
fn groups_and_the_segments_of_windows() {
    for window in [
        "time(2 sec)",
        "length(9000)",
        "timeLength(3 sec, 5000)",
        "delay(1 sec)",
    ] {
        let text = format!(
            "from S#window.{window} select k, sum(n) as t, count() as c group by k insert into O;"
        );
        run(&text, 300, 5_000);
        run(&text, 3, 40);
    }
    run(
        "from S#window.externalTimeBatch(n, 1 sec) select k, max(n) as m group by k insert into O;",
        9,
        50,
    );
    run(
        "from S select k, min(n) as m, avg(n) as a group by k, kind insert into O;",
        500,
        900,
    );
}

#[test]
fn keys_of_partitions_that_are_purged_and_come_back() {
    run(
        "@purge(enable='true', interval='100 millisec', idle.period='300 millisec')
         partition with (k of S) begin
         from S#window.time(1 sec) select k, sum(n) as t group by kind insert into O;
         from S select k, count() as c insert into P;
         from every e1 = S -> e2 = S[e2.n > e1.n] within 2 sec select e1.n as a insert into Q;
         from S#window.lengthBatch(3) select k, sum(n) as t output last every 500 milliseconds
         insert into R;
         end;",
        40,
        60,
    );
    run(
        "partition with (k of S) begin
         from S#window.length(5000) select k, sum(n) as t insert into O; end;",
        2,
        4_000,
    );
}

#[test]
fn rows_of_tables_that_are_written_over_deleted_and_squeezed_out() {
    let writes =
        "from S[kind == 'put'] select k, n update or insert into T set T.n = n on T.k == k;
         from S[kind == 'drop'] delete T on T.k == k;
         from S[n > 990] select k, n insert into L;
         from S[n < 5] delete L on L.n > 0;";
    for keys in [5, 400, 6_000] {
        run(
            &format!(
                "@primaryKey('k') @index('n') define table T (k string, n long);
                 define table L (k string, n long); {writes}"
            ),
            keys,
            2_000,
        );
    }
}

#[test]
fn named_windows_aggregations_and_limits() {
    run(
        "define window W (k string, n long) time(2 sec) output all events;
         define aggregation A from S select k, sum(n) as t group by k aggregate every sec ... min;
         define trigger T at every 300 milliseconds;
         from S select k, n insert into W;
         from W select k, count() as c group by k output snapshot every 1 sec insert into O;
         from S join W on S.k == W.k select S.k as k, W.n as n output first every 3 events
         insert into P;",
        6,
        30,
    );
}

#[test]
fn objects_that_are_changed_where_they_lie() {
    run(
        "@primaryKey('k') define table T (k string, m object);
         from S[not (T.k == k in T)] select k, map:create('n', n) as m update or insert into T on T.k == k;
         from S join T on S.k == T.k select S.k, map:put(T.m, S.kind, S.n) as m insert into O;",
        40,
        9,
    );
}
