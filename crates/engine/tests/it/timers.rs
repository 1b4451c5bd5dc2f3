//! Named windows, triggers and limiters: what they hold, save and make up for.

use check::Catalog;
use check::{CheckConfig, check};
use event::{Batch, Chunks, Value};
use headwater_engine::{App, Input, NoHost, Output, Outputs, Setup, specs};
use plan::Plan;

fn plan(text: &str) -> Plan {
    let parsed = lang::parse(text);
    let checked = check(
        &parsed.app,
        &Catalog::new(specs(), []),
        &CheckConfig::default(),
    );
    let plan = checked.plan.expect("the app has no errors");
    assert_eq!(plan.not_runnable, []);
    plan
}

fn made(plan: &Plan) -> App {
    let setup = Setup {
        observed_streams: (0..plan.streams.len()).collect(),
        ..Setup::default()
    };
    App::new(plan, setup).expect("the app runs")
}

fn step(app: &mut App, now: i64, input: Input) -> Vec<Output> {
    let mut out = Outputs::default();
    app.step(now, now, input, &mut NoHost, &mut out);
    out.items
}

/// One row of longs into the first stream, stamped and at the wall clock `now`.
fn send(app: &mut App, plan: &Plan, now: i64, row: &[i64]) -> Vec<Output> {
    let row: Vec<Value> = row.iter().map(|&v| Value::Long(v)).collect();
    let schema = &plan.streams[0].schema;
    let batch = Batch::from_rows(schema, &[(now, row)], Chunks::One, now);
    step(app, now, Input::Batch(0, batch))
}

/// Rows on a stream as text, `;` between them.
fn rows_on(outputs: &[Output], plan: &Plan, name: &str) -> String {
    let mut rows = Vec::new();
    for output in outputs {
        if let Output::Tap { stream, batch } = output
            && plan.junction_name(*stream) == name
        {
            for row in 0..batch.len {
                let values: Vec<String> = batch.row(row).iter().map(event::text::to_text).collect();
                rows.push(values.join(" "));
            }
        }
    }
    rows.join("; ")
}

/// The saved state is taken back whole and refused at every cut.
fn check_saved(app: &App, plan: &Plan) -> App {
    let saved = app.snapshot();
    for cut in 0..saved.len() {
        assert!(made(plan).restore(&saved[..cut]).is_err(), "cut at {cut}");
    }
    let mut restored = made(plan);
    restored.restore(&saved).expect("the state fits");
    assert_eq!(restored.snapshot(), saved);
    restored
}

#[test]
fn a_named_window_is_held_measured_saved_and_found() {
    let plan = plan(
        "define stream S (v long); define window W (v long) time(1 sec);
         from S select v insert into W;
         from W select v, sum(v) as s insert all events into O;",
    );
    let mut app = made(&plan);
    step(&mut app, 0, Input::Start);
    send(&mut app, &plan, 100, &[1]);
    send(&mut app, &plan, 200, &[2]);
    assert_eq!((app.held_in_windows(), app.next_timer()), (2, Some(1100)));
    assert!(app.bytes() > 0);
    let mut restored = check_saved(&app, &plan);
    let content = restored.content(0).expect("the window can be searched");
    assert_eq!((content.len, restored.held_in_windows()), (2, 2));
    let out = step(&mut restored, 1100, Input::Tick);
    assert_eq!(rows_on(&out, &plan, "O"), "1 2");
}

#[test]
fn a_trigger_goes_on_where_it_was_saved() {
    let plan = plan(
        "define trigger Every at every 1 sec; define trigger Once at 'start';
         define trigger Cron at '0/2 * * * * ?';
         from Every select triggered_time as t insert into O;
         from Cron select triggered_time as t insert into C;
         from Once select triggered_time as t insert into P;",
    );
    let mut app = made(&plan);
    let out = step(&mut app, 300, Input::Start);
    assert_eq!(rows_on(&out, &plan, "P"), "300");
    step(&mut app, 1300, Input::Tick);
    let mut restored = check_saved(&app, &plan);
    let mut out = step(&mut restored, 1400, Input::Start);
    out.extend(step(&mut restored, 3400, Input::Tick));
    assert_eq!(rows_on(&out, &plan, "O"), "2300; 3300");
    assert_eq!(rows_on(&out, &plan, "C"), "2000");
    assert_eq!(rows_on(&out, &plan, "P"), "");
}

#[test]
fn a_snapshot_is_held_until_it_was_seen_and_saved_in_every_form() {
    for select in [
        "v, k",
        "v, sum(v) as s",
        "sum(v) as s",
        "v, sum(v) as s group by k",
        "sum(v) as s group by k",
    ] {
        for window in ["", "#window.length(2)"] {
            let plan = plan(&format!(
                "define stream S (v long, k long);
                 from S{window} select {select} output snapshot every 1 sec insert into O;"
            ));
            let mut app = made(&plan);
            step(&mut app, 0, Input::Start);
            for row in [[1, 7], [2, 8], [3, 7]] {
                send(&mut app, &plan, 100, &row);
            }
            assert!(app.held_in_windows() > 0, "{select} {window}");
            let mut restored = check_saved(&app, &plan);
            let first = step(&mut app, 1000, Input::Tick);
            let same = step(&mut restored, 1000, Input::Tick);
            let picture = rows_on(&first, &plan, "O");
            assert!(!picture.is_empty(), "{select} {window}");
            assert_eq!(rows_on(&same, &plan, "O"), picture);
            assert_eq!(app.held_in_windows(), 0, "{select} {window}");
        }
    }
}

#[test]
fn a_clock_that_jumps_over_years_passes_empty_periods_at_once() {
    let plan = plan(
        "@app:playback define stream S (v long);
         from S#window.timeBatch(1 millisecond) select v, count() as n insert all events into O;
         from S select v output all every 1 millisecond insert into P;",
    );
    let mut app = made(&plan);
    step(&mut app, 0, Input::Start);
    send(&mut app, &plan, 1, &[1]);
    let out = send(&mut app, &plan, 1_700_000_000_000, &[2]);
    assert_eq!(rows_on(&out, &plan, "O"), "1 1; 1 0");
    assert_eq!(rows_on(&out, &plan, "P"), "1");
}

#[test]
fn a_state_with_timers_or_clocks_that_cannot_be_is_refused() {
    let plan = plan("define trigger T at every 1 sec; from T select triggered_time insert into O;");
    let mut app = made(&plan);
    step(&mut app, 5000, Input::Start);
    let saved = app.snapshot();
    // The timer at 6000 is written as a deadline and as the time it is armed for.
    let forge = |value: i64, by: i64| {
        let mut forged = saved.clone();
        let (from, to) = (value.to_le_bytes(), by.to_le_bytes());
        for at in 0..forged.len() - 8 {
            if forged[at..at + 8] == from {
                forged[at..at + 8].copy_from_slice(&to);
            }
        }
        assert_ne!(forged, saved, "{value} is saved");
        made(&plan).restore(&forged)
    };
    assert!(forge(6000, 4000).is_err());
    assert!(forge(5000, -1).is_err());
    assert!(forge(6000, 7000).is_ok());
}
