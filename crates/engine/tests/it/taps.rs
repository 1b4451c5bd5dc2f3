//! Taps see what passes, whichever path it takes, take no more than they may, and change nothing.

use check::{Catalog, CheckConfig, check, check_condition};
use event::{Batch, Chunks, Schema, Value};
use headwater_engine::{
    App, Input, NoHost, Output, Outputs, Setup, Tap, TapCounts, TapPoint, specs,
};
use plan::Plan;

const APP: &str = "define stream S (symbol string, price double);
    @info(name='double') from S[price > 1.0] select symbol, price * 2.0 as twice insert into T;
    from T#window.length(2) select symbol, sum(twice) as total insert all events into Sums;
    define window W (symbol string, price double) length(1) output all events;
    from S insert into W;
    define stream Parts (symbol string, price double);
    partition with (symbol of Parts) begin
        from Parts select symbol, price insert into #Inner;
        from #Inner select symbol, sum(price) as total insert into OfParts;
    end;";

fn plan() -> Plan {
    plan_of(APP)
}

fn plan_of(text: &str) -> Plan {
    let parsed = lang::parse(text);
    let checked = check(&parsed.app, &catalog(), &CheckConfig::default());
    let faults: Vec<String> = checked
        .diagnostics
        .iter()
        .map(|d| d.message.clone())
        .collect();
    checked.plan.unwrap_or_else(|| panic!("{faults:?}"))
}

fn catalog() -> Catalog {
    Catalog::new(specs(), [])
}

fn tap(id: u64, plan: &Plan, schema: &Schema, condition: Option<&str>, rows: usize) -> Tap {
    let condition = condition.map(|text| {
        let (parsed, faults) = lang::parser::parse_expression(text);
        let parsed = parsed.unwrap_or_else(|| panic!("{faults:?}"));
        let checked = check_condition(&parsed, schema, plan, &catalog());
        checked
            .condition
            .unwrap_or_else(|| panic!("{:?}", checked.diagnostics))
    });
    let mut tap = Tap::new(id, plan, schema, condition.as_ref()).expect("it compiles");
    tap.allow(rows);
    tap
}

/// How rows are handed to an app.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    /// All in one batch, each a chunk of its own.
    Whole,
    /// The same, forced through chunk by chunk.
    Lockstep,
    /// All in one chunk.
    OneChunk,
    /// Each in a step of its own: the fast path, where nobody looks.
    OneByOne,
}

const WAYS: [Way; 4] = [Way::Whole, Way::Lockstep, Way::OneChunk, Way::OneByOne];

struct Running {
    plan: Plan,
    app: App,
    way: Way,
}

fn start(way: Way) -> Running {
    let plan = plan();
    let setup = Setup {
        observed_streams: ["Sums", "OfParts"].map(|n| junction(&plan, n)).to_vec(),
        lockstep: way == Way::Lockstep,
        ..Setup::default()
    };
    let mut app = App::new(&plan, setup).expect("the app runs");
    app.step(0, 0, Input::Start, &mut NoHost, &mut Outputs::default());
    Running { plan, app, way }
}

fn junction(plan: &Plan, name: &str) -> usize {
    plan.junction_named(name).expect("it is defined")
}

fn text(batch: &Batch, row: usize) -> String {
    let cells: Vec<String> = batch.row(row).iter().map(event::text::to_text).collect();
    let mark = if batch.is_expired(row) { "-" } else { "" };
    format!("{mark}{}@{}", cells.join(" "), batch.times.at(row))
}

impl Running {
    fn point(&self, name: &str) -> (TapPoint, Schema) {
        if let Some(query) = self.plan.queries.iter().position(|q| q.name == name) {
            let schema = self.plan.queries[query].selector.schema.clone();
            return (TapPoint::Query(query), schema);
        }
        let id = junction(&self.plan, name);
        (TapPoint::Stream(id), self.plan.junction_schema(id).clone())
    }

    fn tap(&mut self, id: u64, at: &str, condition: Option<&str>, rows: usize) {
        let (point, schema) = self.point(at);
        let tap = tap(id, &self.plan, &schema, condition, rows);
        self.app.add_tap(point, tap);
    }

    /// What a tap has picked since it was last asked, and what has passed it.
    fn taken(&mut self, id: u64, at: &str) -> (Vec<String>, TapCounts) {
        let (point, _) = self.point(at);
        let tap = self.app.tap_mut(point, id).expect("it is there");
        let batches = tap.take();
        let rows = batches
            .iter()
            .flat_map(|b| (0..b.len).map(|row| text(b, row)))
            .collect();
        (rows, tap.counts())
    }

    /// Sends rows; what leaves the app.
    fn send(&mut self, stream: &str, rows: &[(&str, f64)]) -> Vec<String> {
        let id = junction(&self.plan, stream);
        let schema = &self.plan.streams[id].schema;
        let rows: Vec<(i64, Vec<Value>)> = rows
            .iter()
            .map(|(symbol, price)| (5, vec![Value::str(symbol), Value::Double(*price)]))
            .collect();
        let batches: Vec<Batch> = match self.way {
            Way::Whole | Way::Lockstep => vec![Batch::from_rows(schema, &rows, Chunks::EachRow, 5)],
            Way::OneChunk => vec![Batch::from_rows(schema, &rows, Chunks::One, 5)],
            Way::OneByOne => rows
                .chunks(1)
                .map(|row| Batch::from_rows(schema, row, Chunks::One, 5))
                .collect(),
        };
        let mut out = Outputs::default();
        for batch in batches {
            self.app
                .step(5, 5, Input::Batch(id, batch), &mut NoHost, &mut out);
        }
        let left = out.items.iter().filter_map(|output| match output {
            Output::Tap { batch, .. } => Some(batch),
            _ => None,
        });
        left.flat_map(|b| (0..b.len).map(|row| text(b, row)))
            .collect()
    }
}

const ROWS: [(&str, f64); 4] = [("a", 1.0), ("b", 2.0), ("c", 3.0), ("b", 4.0)];

#[test]
fn a_stream_a_query_and_a_window_are_seen_on_every_path() {
    for way in WAYS {
        let mut quiet = start(way);
        let expected = quiet.send("S", &ROWS);
        let mut running = start(way);
        running.tap(1, "S", None, 100);
        running.tap(2, "double", None, 100);
        running.tap(3, "T", None, 100);
        running.tap(4, "W", None, 100);
        running.tap(5, "Sums", None, 100);
        assert_eq!(running.send("S", &ROWS), expected, "{way:?}");
        let (rows, counts) = running.taken(1, "S");
        assert_eq!(
            rows,
            ["a 1.0@5", "b 2.0@5", "c 3.0@5", "b 4.0@5"],
            "{way:?}"
        );
        assert_eq!((counts.seen, counts.matched, counts.picked), (4, 4, 4));
        let doubled = ["b 4.0@5", "c 6.0@5", "b 8.0@5"];
        assert_eq!(running.taken(2, "double").0, doubled, "{way:?}");
        assert_eq!(running.taken(3, "T").0, doubled, "{way:?}");
        let window = running.taken(4, "W").0;
        let current = window.iter().filter(|row| !row.starts_with('-')).count();
        assert_eq!((current, window.len()), (4, 7), "{way:?}: {window:?}");
        let (sums, _) = running.taken(5, "Sums");
        assert!(!sums.is_empty() && sums == expected, "{way:?}: {sums:?}");
    }
}

#[test]
fn inner_streams_are_seen_for_all_keys() {
    for way in WAYS {
        let mut running = start(way);
        running.tap(1, "#Inner", Some("price > 1.0"), 100);
        running.send("Parts", &ROWS);
        let (mut rows, counts) = running.taken(1, "#Inner");
        // Keys of one chunk come one after the other.
        rows.sort();
        assert_eq!(rows, ["b 2.0@5", "b 4.0@5", "c 3.0@5"], "{way:?}");
        assert_eq!((counts.seen, counts.matched), (4, 3));
    }
}

#[test]
fn a_condition_picks_and_what_is_over_the_allowance_is_counted() {
    for way in WAYS {
        let mut running = start(way);
        running.tap(1, "S", Some("symbol == 'b' and price >= 2.0"), 1);
        running.tap(2, "S", None, 3);
        running.send("S", &ROWS);
        let (rows, counts) = running.taken(1, "S");
        assert_eq!(rows, ["b 2.0@5"], "{way:?}");
        assert_eq!((counts.seen, counts.picked), (4, 1));
        // One batch is looked at whole; batches behind the last row that it may pick are not.
        assert_eq!(
            counts.matched + counts.unexamined,
            if way == Way::OneByOne { 3 } else { 2 }
        );
        let (rows, counts) = running.taken(2, "S");
        assert_eq!(rows.len(), 3, "{way:?}");
        assert_eq!((counts.seen, counts.picked), (4, 3));
        // What it may take again it takes.
        let (point, _) = running.point("S");
        running.app.tap_mut(point, 2).expect("there").allow(10);
        running.send("S", &ROWS);
        assert_eq!(running.taken(2, "S").0.len(), 4);
    }
}

#[test]
fn a_tap_that_rests_looks_at_nothing_and_a_failing_condition_fits_no_row() {
    let mut running = start(Way::Whole);
    running.tap(1, "S", Some("price > 0.0"), 100);
    let (point, schema) = running.point("S");
    running.app.tap_mut(point, 1).expect("there").rest(true);
    running.send("S", &ROWS);
    let (rows, counts) = running.taken(1, "S");
    assert_eq!((rows.len(), counts.unexamined, counts.matched), (0, 4, 0));
    // A double where the schema says string: the row fails, not the app.
    let failing = "math:sqrt(convert(symbol, 'double')) > 1.0";
    running.tap(2, "S", Some(failing), 100);
    assert!(schema.attributes.len() == 2);
    running.send("S", &[("4", 1.0), ("x", 1.0), ("9", 1.0)]);
    let (rows, counts) = running.taken(2, "S");
    assert_eq!(rows, ["4 1.0@5", "9 1.0@5"]);
    assert_eq!(counts.seen, 3);
}

#[test]
fn a_tap_that_has_gone_leaves_nothing_behind_and_state_does_not_know_of_taps() {
    for way in WAYS {
        let mut quiet = start(way);
        quiet.send("S", &ROWS);
        let mut running = start(way);
        let (stream, _) = running.point("S");
        let (query, _) = running.point("double");
        running.tap(1, "S", None, 100);
        running.tap(2, "double", None, 100);
        running.send("S", &ROWS[..2]);
        running.app.remove_tap(stream, 1);
        running.app.remove_tap(query, 2);
        assert!(running.app.tap_mut(stream, 1).is_none());
        running.send("S", &ROWS[2..]);
        if way == Way::OneByOne {
            assert_eq!(running.app.snapshot(), quiet.app.snapshot());
        }
    }
}

#[test]
fn a_condition_reaches_nothing_but_the_row() {
    let script = "define function twice[javascript] return double { return 2 * data[0]; };\n";
    let plan = plan_of(&format!("{script}{APP}"));
    let schema = &plan.streams[junction(&plan, "S")].schema;
    for (text, part) in [
        ("pric > 1.0", "no attribute 'pric'"),
        ("price", "'where' needs a condition"),
        ("sum(price) > 1.0", "aggregator 'sum' is not allowed"),
        ("symbol > 1", "cannot be compared"),
        ("twice(price) > 1.0", "a script function is not allowed"),
    ] {
        let (parsed, _) = lang::parser::parse_expression(text);
        let checked = check_condition(&parsed.expect("it parses"), schema, &plan, &catalog());
        assert!(checked.condition.is_none(), "{text}");
        let said = &checked.diagnostics[0].message;
        assert!(said.contains(part), "{text}: {said}");
    }
}
