//! An app is edited between two runs: what of its saved state goes on, what is dropped and named.

use check::Catalog;
use check::{CheckConfig, check as check_app};
use event::{Batch, Chunks, Value};
use headwater_engine::{App, Input, NoHost, Output, Outputs, Setup, StateMatching, specs};
use plan::Plan;

const STREAMS: &str = "define stream S (k string, v long);
    define table T (k string, v long);\n";

fn plan(queries: &str) -> Plan {
    let parsed = lang::parse(&format!("{STREAMS}{queries}"));
    let checked = check_app(
        &parsed.app,
        &Catalog::new(specs(), []),
        &CheckConfig::default(),
    );
    checked
        .plan
        .unwrap_or_else(|| panic!("{:?}", checked.diagnostics))
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

/// Sends one row into S and gives the last attribute of the rows that a stream got.
fn send(app: &mut App, plan: &Plan, now: i64, key: &str, value: i64, into: &str) -> Vec<String> {
    let row = vec![Value::str(key), Value::Long(value)];
    let batch = Batch::from_rows(&plan.streams[0].schema, &[(now, row)], Chunks::EachRow, now);
    rows_of(&step(app, now, Input::Batch(0, batch)), plan, into)
}

fn rows_of(outputs: &[Output], plan: &Plan, into: &str) -> Vec<String> {
    let taps = outputs.iter().filter_map(|o| match o {
        Output::Tap { stream, batch } if plan.streams[*stream].schema.name == into => Some(batch),
        _ => None,
    });
    taps.flat_map(|batch| {
        let last = batch.columns.last().expect("a row has attributes");
        (0..batch.len).map(|row| event::text::to_text(&last.value(row)))
    })
    .collect()
}

/// Runs the first app on a row, then takes its state into the edited one.
fn edited(before: &str, after: &str) -> (App, Plan, StateMatching) {
    let first = plan(before);
    let mut app = made(&first);
    step(&mut app, 0, Input::Start);
    send(&mut app, &first, 10, "a", 5, "Out");
    let saved = app.snapshot();
    let second = plan(after);
    let mut app = made(&second);
    let promised = app.match_state(&saved).expect("the state can be read");
    let matching = app.restore_what_fits(&saved).expect("what fits is taken");
    assert_eq!(promised, matching);
    step(&mut app, 20, Input::Start);
    (app, second, matching)
}

/// Each line of `expect` begins with `+` (kept), `-` (dropped) or `*` (begun).
#[track_caller]
fn check(before: &str, after: &str, expect: &[&str]) {
    let (_, _, matching) = edited(before, after);
    let kept = matching.kept.iter().map(|k| format!("+ {k}"));
    let dropped = matching.dropped.iter().map(|d| format!("- {d}"));
    let begun = matching.begun.iter().map(|b| format!("* {b}"));
    let found: Vec<String> = kept.chain(dropped).chain(begun).collect();
    assert_eq!(found, expect);
}

const SUM: &str = "@info(name='sums') from S#window.length(3) \
    select k, sum(v) as total group by k insert into Out;";

#[test]
fn what_is_not_kept_may_be_edited() {
    let all = [
        "+ table 'T' (rows)",
        "+ query 'sums' (window length(3), aggregate sum(v))",
    ];
    check(SUM, SUM, &all);
    check(
        SUM,
        &SUM.replace("S#", "S[v > 3 and str:length(k) > 0]#"),
        &all,
    );
    check(
        SUM,
        &SUM.replace("insert into Out", "having total > 3 insert into Other"),
        &all,
    );
    check(SUM, &SUM.replace("as total", "as t"), &all);
    let other = format!("@info(name='new') from S select k insert into Out2; {SUM}");
    check(SUM, &other, &all);
}

#[test]
fn an_edited_filter_goes_on_with_the_sum() {
    let (mut app, plan, _) = edited(SUM, &SUM.replace("S#", "S[v > 3]#"));
    assert_eq!(send(&mut app, &plan, 30, "a", 1, "Out"), [""; 0]);
    assert_eq!(send(&mut app, &plan, 30, "a", 10, "Out"), ["15"]);
}

#[test]
fn a_changed_window_drops_the_query_and_nothing_else() {
    let after = SUM.replace("length(3)", "length(4)");
    check(
        SUM,
        &after,
        &[
            "+ table 'T' (rows)",
            "- query 'sums' (window length(3), aggregate sum(v)): \
             it keeps window length(4), aggregate sum(v) now",
            "* query 'sums' (window length(4), aggregate sum(v))",
        ],
    );
    let (mut app, plan, _) = edited(SUM, &after);
    assert_eq!(send(&mut app, &plan, 30, "a", 10, "Out"), ["10"]);
}

#[test]
fn another_group_or_column_drops_the_query() {
    for after in [
        SUM.replace("group by k", ""),
        SUM.replace("select k,", "select k, v,"),
    ] {
        let (_, _, matching) = edited(SUM, &after);
        assert_eq!(
            matching.dropped.len(),
            usize::from(!after.contains("k, v")),
            "{after}"
        );
    }
    check(
        SUM,
        &SUM.replace("sum(v)", "max(v)"),
        &[
            "+ table 'T' (rows)",
            "- query 'sums' (window length(3), aggregate sum(v)): \
             it keeps window length(3), aggregate max(v) now",
            "* query 'sums' (window length(3), aggregate max(v))",
        ],
    );
}

#[test]
fn a_renamed_query_is_another_one() {
    check(
        SUM,
        &SUM.replace("'sums'", "'totals'"),
        &[
            "+ table 'T' (rows)",
            "- query 'sums' (window length(3), aggregate sum(v)): \
             the app has no such element any more",
            "* query 'totals' (window length(3), aggregate sum(v))",
        ],
    );
}

#[test]
fn queries_without_a_name_keep_their_state_when_one_comes_between() {
    let two = "from S#window.length(3) select sum(v) as t insert into Out;
        from S#window.length(9) select sum(v) as t insert into Out9;";
    let three = two.replace(
        "insert into Out;",
        "insert into Out; from S#window.length(5) select sum(v) as t insert into Out5;",
    );
    check(
        two,
        &three,
        &[
            "+ table 'T' (rows)",
            "+ query 'query_1' (window length(3), aggregate sum(v))",
            "+ query 'query_3' (window length(9), aggregate sum(v))",
            "* query 'query_2' (window length(5), aggregate sum(v))",
        ],
    );
    let (mut app, plan, _) = edited(two, &three);
    assert_eq!(send(&mut app, &plan, 30, "a", 1, "Out9"), ["6"]);
    assert_eq!(send(&mut app, &plan, 30, "a", 1, "Out5"), ["2"]);
    check(
        &three,
        two,
        &[
            "+ table 'T' (rows)",
            "+ query 'query_1' (window length(3), aggregate sum(v))",
            "+ query 'query_2' (window length(9), aggregate sum(v))",
            "- query 'query_2' (window length(5), aggregate sum(v)): \
             it keeps window length(9), aggregate sum(v) now",
        ],
    );
}

#[test]
fn a_table_of_another_form_is_dropped_alone() {
    let queries = format!("from S insert into T; {SUM}");
    let first = plan(&queries);
    let mut app = made(&first);
    step(&mut app, 0, Input::Start);
    send(&mut app, &first, 10, "a", 5, "Out");
    let saved = app.snapshot();
    let text = format!("{STREAMS}{queries}")
        .replace("table T (k string, v long)", "table T (k string, v double)");
    let parsed = lang::parse(&text.replace("from S insert into T;", ""));
    let checked = check_app(
        &parsed.app,
        &Catalog::new(specs(), []),
        &CheckConfig::default(),
    );
    let second = checked.plan.expect("the edited app is right");
    let matching = made(&second)
        .match_state(&saved)
        .expect("the state can be read");
    assert_eq!(
        matching.kept,
        ["query 'sums' (window length(3), aggregate sum(v))"]
    );
    let dropped: Vec<String> = matching.dropped.iter().map(ToString::to_string).collect();
    assert_eq!(
        dropped,
        ["table 'T' (rows): what it reads, groups by or keeps of each row has changed"]
    );
}

#[test]
fn what_comes_new_begins_its_timers() {
    let after = format!(
        "{SUM} @info(name='new') from S select count() as n output snapshot every 1 sec \
         insert into Out2;"
    );
    let after = after.replace("output snapshot", "output last");
    let (mut app, plan, _) = edited(SUM, &after);
    send(&mut app, &plan, 30, "a", 1, "Out2");
    let out = step(&mut app, 2_000, Input::Tick);
    assert_eq!(rows_of(&out, &plan, "Out2"), ["1"]);
}

#[test]
fn a_query_that_comes_into_a_partition_leaves_the_others_their_keys() {
    let one = "partition with (k of S) begin
        @info(name='a') from S select k, sum(v) as t insert into Out; end;";
    let two = one.replace(
        "begin",
        "begin @info(name='b') from S select k, count() as n insert into Out2;",
    );
    let (mut app, plan, matching) = edited(one, &two);
    assert_eq!(
        matching.kept,
        [
            "partition 'partition_1' (keys k of S)",
            "table 'T' (rows)",
            "query 'a' (aggregate sum(v))"
        ]
    );
    assert_eq!(send(&mut app, &plan, 30, "a", 1, "Out"), ["6"]);
    assert_eq!(send(&mut app, &plan, 30, "a", 1, "Out2"), ["2"]);
    // Another key: nothing inside can go on.
    let (_, _, matching) = edited(one, &one.replace("(k of S)", "(str:upper(k) of S)"));
    assert_eq!((matching.kept.len(), matching.dropped.len()), (1, 2));
}
