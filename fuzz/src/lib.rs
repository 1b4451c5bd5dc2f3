//! What several targets share.

pub mod map;

use std::sync::LazyLock;

use headwater_engine::{App, Input, NoHost, Outputs, Setup};
use headwater_event::codec::Writer;
use headwater_event::{Batch, Chunks, Value};
use headwater_check::{CheckConfig, check};
use headwater_plan::Plan;

/// An app with every kind of state that is saved.
const APP: &str = "
define stream S (k string, n int, t long);
@PrimaryKey('k') @Index('n') define table T (k string, n int);
from S#window.length(3) select k, sum(n) as total, max(n) as top group by k insert into A;
from S#window.timeBatch(1 sec) select count() as c, distinctCount(k) as d insert into B;
from S#window.externalTimeBatch(t, 1 sec, 0, 3 sec) select avg(n) as mean insert into C;
from S#window.timeLength(1 sec, 4) select stdDev(n) as dev, min(n) as low insert into D;
from S#window.delay(1 sec) select k insert into E;
from S#window.lengthBatch(2) select k, maxForever(n) as m insert all events into F;
from S select k, n update or insert into T set T.n = n on T.k == k;
from S#window.length(2) join T on S.k == T.k select S.k as k, T.n as n insert into G;
partition with (k of S) begin
  from S#window.time(1 sec) select k, count() as c insert into #I;
  from #I#window.batch() select k, sum(c) as c insert into H;
end;
";

pub static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let parsed = headwater_lang::parse(APP);
    let catalog = headwater_catalog::full();
    check(&parsed.app, &catalog, &CheckConfig::default())
        .plan
        .expect("the app is right")
});

/// An event of the app's stream, as a batch of its own.
pub fn event(key: &str, time: i64) -> Batch {
    let row = vec![Value::str(key), Value::Int(1), Value::Long(time)];
    Batch::from_rows(&PLAN.streams[0].schema, &[(time, row)], Chunks::One, time)
}

/// A fresh app of the plan.
pub fn app() -> App {
    App::new(&PLAN, Setup::default()).expect("every part of the app runs")
}

/// States as the app saves them, from empty to full.
pub fn saved_states() -> Vec<Vec<u8>> {
    states_by(|app| app.snapshot())
}

/// The same, of which each but the first has what has changed since the one before.
pub fn saved_changes() -> Vec<Vec<u8>> {
    let mut is_first = true;
    states_by(|app| {
        let mut writer = Writer::default();
        match std::mem::replace(&mut is_first, false) {
            true => app.save(&mut writer),
            false => app.save_changes(&mut writer),
        }
        app.mark_saved();
        writer.bytes
    })
}

/// [`saved_changes`], made once.
pub fn states() -> &'static [Vec<u8>] {
    static STATES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(saved_changes);
    &STATES
}

fn states_by(mut save: impl FnMut(&mut App) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut app = app();
    let mut out = Outputs::default();
    let mut states = vec![save(&mut app)];
    app.step(0, 0, Input::Start, &mut NoHost, &mut out);
    for (time, key) in [(5, "a"), (6, "b"), (700, "a"), (1200, "c"), (2500, "a")] {
        app.step(
            time,
            time,
            Input::Batch(0, event(key, time)),
            &mut NoHost,
            &mut out,
        );
        states.push(save(&mut app));
    }
    states
}
