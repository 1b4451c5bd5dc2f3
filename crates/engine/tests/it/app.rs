//! What recorded cases cannot say: the host, pruning, bounds and saved states.

use check::Catalog;
use check::{CheckConfig, check};
use event::{Batch, Chunks, Column, ColumnBuilder, Times, Type, Value};
use headwater_engine::{
    App, Called, Found, Host, HostError, Input, NoHost, Output, Outputs, RestoreError, Setup,
    WriteCounts, specs,
};
use plan::Plan;
use plan::spec::{ConnectorKind, ConnectorSpec, Status};
use plan::store::{OperationId, OperationKind};

/// A store by the name of one: the engine asks its host for what is in it.
static RDBMS: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    ..ConnectorSpec::new(
        ConnectorKind::Store,
        "rdbms",
        "store-rdbms",
        "A table kept outside.",
    )
};

fn plan(text: &str) -> Plan {
    let parsed = lang::parse(text);
    let catalog = Catalog::new(specs(), [&RDBMS]);
    let checked = check(&parsed.app, &catalog, &CheckConfig::default());
    let faults: Vec<String> = checked
        .diagnostics
        .iter()
        .map(|d| d.message.clone())
        .collect();
    let plan = checked.plan.unwrap_or_else(|| panic!("{faults:?}"));
    assert_eq!(plan.not_runnable, []);
    plan
}

/// An app that has started, all its streams observed.
fn app(plan: &Plan) -> App {
    let setup = Setup {
        observed_streams: (0..plan.streams.len()).collect(),
        ..Setup::default()
    };
    let mut app = App::new(plan, setup).expect("the app runs");
    app.step(0, 0, Input::Start, &mut NoHost, &mut Outputs::default());
    app
}

fn send(
    app: &mut App,
    plan: &Plan,
    stream: &str,
    rows: &[Vec<Value>],
    chunks: Chunks,
    host: &mut dyn Host,
) -> Vec<Output> {
    let id = stream_of(plan, stream);
    let rows: Vec<_> = rows.iter().map(|row| (10, row.clone())).collect();
    let batch = Batch::from_rows(&plan.streams[id].schema, &rows, chunks, 10);
    let mut out = Outputs::default();
    app.step(10, 10, Input::Batch(id, batch), host, &mut out);
    out.items
}

fn stream_of(plan: &Plan, name: &str) -> usize {
    let mut all = plan.streams.iter();
    all.position(|s| s.schema.name == name)
        .expect("the stream is defined")
}

/// Rows of an observed stream, first attribute only, as text.
fn rows_of(outputs: &[Output], plan: &Plan, stream: &str) -> Vec<String> {
    let id = stream_of(plan, stream);
    let taps = outputs.iter().filter_map(|o| match o {
        Output::Tap { stream, batch } if *stream == id => Some(batch),
        _ => None,
    });
    taps.flat_map(|b| (0..b.len).map(|r| event::text::to_text(&b.columns[0].value(r))))
        .collect()
}

/// A store of one text attribute that answers `==` on it.
#[derive(Default)]
struct Shelf {
    rows: Vec<String>,
    asked: Vec<(OperationId, usize)>,
    fails_on: Option<String>,
}

impl Host for Shelf {
    fn find(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
    ) -> Result<Found, HostError> {
        self.asked.push((operation, rows));
        let mut found = ColumnBuilder::new(Type::String);
        let ends = (0..rows)
            .map(|row| {
                let key = event::text::to_text(&parameters[0].value(row));
                let hits = self.rows.iter().filter(|r| **r == key);
                hits.for_each(|r| found.push_str(r));
                found.len() as u32
            })
            .collect();
        Ok(Found {
            columns: vec![found.finish()],
            ends,
        })
    }

    fn contains(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
    ) -> Result<Vec<bool>, HostError> {
        let found = self.find(operation, parameters, rows)?;
        let start = |row: usize| if row == 0 { 0 } else { found.ends[row - 1] };
        Ok((0..rows).map(|row| found.ends[row] > start(row)).collect())
    }

    fn write(
        &mut self,
        operation: OperationId,
        parameters: &[Column],
        rows: usize,
        _: &Times,
    ) -> Result<WriteCounts, HostError> {
        self.asked.push((operation, rows));
        for row in 0..rows {
            let text = event::text::to_text(&parameters[0].value(row));
            if self.fails_on.as_ref() == Some(&text) {
                return Err(HostError {
                    row,
                    message: "the shelf is full".into(),
                });
            }
            self.rows.push(text);
        }
        Ok(WriteCounts {
            inserted: rows as u64,
            ..WriteCounts::default()
        })
    }

    fn call(&mut self, function: &str, _: &[Column], _: usize) -> Result<Called, HostError> {
        panic!("nobody calls '{function}'")
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<Value>> {
    texts.iter().map(|t| vec![Value::str(t)]).collect()
}

const STORE: &str = "define stream S (k string); define stream R (k string);
    @Store(type='rdbms', jdbc.url='jdbc:sqlite::memory:', username='', password='',
           jdbc.driver.name='sqlite')
    define table T (k string);";

#[test]
fn a_store_that_nobody_reads_is_written_by_another() {
    let plan = plan(&format!("{STORE} from S select k insert into T;"));
    let mut app = app(&plan);
    assert_eq!(app.operations().len(), 1);
    let out = send(
        &mut app,
        &plan,
        "S",
        &texts(&["a", "b"]),
        Chunks::EachRow,
        &mut NoHost,
    );
    let Some(Output::Write {
        operation: 0,
        batch,
        ..
    }) = out.iter().find(|o| matches!(o, Output::Write { .. }))
    else {
        panic!("the write leaves the app");
    };
    assert_eq!((batch.len, batch.chunk_count()), (2, 2));
}

#[test]
fn a_store_that_is_read_sees_each_chunk_before_the_next() {
    let plan = plan(&format!(
        "{STORE}
         from S[not ((T.k == k) in T)] select k insert into T;
         from R join T on R.k == T.k select T.k as k insert into O;"
    ));
    let mut app = app(&plan);
    let kinds: Vec<bool> = app.operations().iter().map(|o| o.kind.is_write()).collect();
    assert_eq!(kinds, [false, true, false]);
    assert!(matches!(
        app.operations()[0].kind,
        OperationKind::Contains { .. }
    ));
    let mut shelf = Shelf::default();
    let rows = texts(&["a", "b", "a"]);
    send(&mut app, &plan, "S", &rows, Chunks::EachRow, &mut shelf);
    assert_eq!(shelf.rows, ["a", "b"]);
    let out = send(
        &mut app,
        &plan,
        "R",
        &texts(&["b", "x", "a"]),
        Chunks::One,
        &mut shelf,
    );
    assert_eq!(rows_of(&out, &plan, "O"), ["b", "a"]);
    assert_eq!(app.written()[0].inserted, 2);
}

#[test]
fn a_failed_write_rejects_its_chunk_and_no_other() {
    let plan = plan(&format!(
        "{STORE} @info(name='keep') from S select k insert into T;
         from R join T on R.k == T.k select T.k as k insert into O;"
    ));
    let mut app = app(&plan);
    let mut shelf = Shelf {
        fails_on: Some("b".into()),
        ..Shelf::default()
    };
    let rows = texts(&["a", "b", "c"]);
    let out = send(&mut app, &plan, "S", &rows, Chunks::EachRow, &mut shelf);
    let rejected: Vec<_> = out
        .iter()
        .filter_map(|o| match o {
            Output::Rejected(r) => Some((r.place.as_str(), r.cause.as_str(), r.rows.len)),
            _ => None,
        })
        .collect();
    assert_eq!(
        rejected,
        [("query 'keep', output to a table", "the shelf is full", 1)]
    );
    assert_eq!(shelf.rows, ["a", "c"]);
}

#[test]
fn only_attributes_that_are_used_enter_a_window() {
    let bytes = |select: &str| {
        let plan = plan(&format!(
            "define stream S (a long, b string, c double);
             from S#window.length(1000) select {select} insert into O;"
        ));
        let mut app = app(&plan);
        let long = "a text that does not fit into a view, whatever its length";
        let rows: Vec<_> = (0..1000)
            .map(|i| {
                vec![
                    Value::Long(i),
                    Value::str(&format!("{long} {i}")),
                    Value::Double(0.5),
                ]
            })
            .collect();
        send(&mut app, &plan, "S", &rows, Chunks::EachRow, &mut NoHost);
        app.bytes()
    };
    assert!(bytes("sum(a) as s") < 30_000, "{}", bytes("sum(a) as s"));
    assert!(bytes("a, b, c") > 80_000);
}

#[test]
fn a_row_in_a_table_costs_little() {
    let plan = plan(
        "define stream S (no string, amount double, file string, status string, at long);
         define table T (no string, amount double, file string, status string, at long);
         from S insert into T;",
    );
    let mut app = app(&plan);
    let file = Value::str("/a/long/path/to/a/file/that/is/on/every/row.csv");
    for start in (0..100_000).step_by(10_000) {
        let rows: Vec<_> = (start..start + 10_000)
            .map(|i| {
                let no = Value::str(&format!("{i:07}"));
                let status = Value::str("test");
                vec![no, Value::Double(1.5), file.clone(), status, Value::Long(i)]
            })
            .collect();
        send(&mut app, &plan, "S", &rows, Chunks::One, &mut NoHost);
    }
    assert_eq!(app.table_rows(0), Some(100_000));
    assert!(
        app.bytes() / 100_000 <= 80,
        "{} bytes a row",
        app.bytes() / 100_000
    );
}

#[test]
fn a_loop_of_streams_without_an_end_is_given_up() {
    let plan = plan(
        "define stream A (v int); define stream B (v int);
         from A select v + 1 as v insert into B; from B select v + 1 as v insert into A;",
    );
    let mut app = app(&plan);
    let out = send(
        &mut app,
        &plan,
        "A",
        &[vec![Value::Int(0)]],
        Chunks::One,
        &mut NoHost,
    );
    let rejected = out
        .iter()
        .filter(|o| matches!(o, Output::Rejected(_)))
        .count();
    assert_eq!(rejected, 1);
    assert!(rows_of(&out, &plan, "B").len() > 1000);
}

#[test]
fn a_deferred_stream_is_read_when_the_root_chunk_is_done() {
    let plan = plan(
        "define stream S (k string); @async(buffer.size='16') define stream Later (k string);
         from S select k insert into Later;
         from Later select str:concat(k, ' later') as k insert into O;
         from S select str:concat(k, ' now') as k insert into O;",
    );
    let mut app = app(&plan);
    let rows = texts(&["a", "b"]);
    let out = send(&mut app, &plan, "S", &rows, Chunks::EachRow, &mut NoHost);
    assert_eq!(
        rows_of(&out, &plan, "O"),
        ["a now", "a later", "b now", "b later"]
    );
}

#[test]
fn a_batch_stays_whole_behind_a_deferred_stream_that_meets_nothing() {
    let plan = plan(
        "define stream S (k string); @async(buffer.size='16') define stream Later (k string);
         from S select k insert into Later;
         from Later select str:concat(k, ' later') as k insert into O;
         from S select str:concat(k, ' now') as k insert into P;",
    );
    let mut app = app(&plan);
    let rows = texts(&["a", "b"]);
    let out = send(&mut app, &plan, "S", &rows, Chunks::EachRow, &mut NoHost);
    assert_eq!(rows_of(&out, &plan, "O"), ["a later", "b later"]);
    assert_eq!(rows_of(&out, &plan, "P"), ["a now", "b now"]);
    let batches: Vec<usize> = out
        .iter()
        .filter_map(|o| match o {
            Output::Tap { batch, .. } => Some(batch.chunk_count()),
            _ => None,
        })
        .collect();
    assert!(!batches.is_empty() && batches.iter().all(|chunks| *chunks == 2));
}

#[test]
fn a_saved_state_goes_on_and_says_what_does_not_fit() {
    let text = "define stream S (k string);
        @info(name='q') from S#window.length(3) select count() as n insert into O;";
    let first = plan(text);
    let mut before = app(&first);
    send(
        &mut before,
        &first,
        "S",
        &texts(&["a", "b"]),
        Chunks::EachRow,
        &mut NoHost,
    );
    let saved = before.snapshot();
    let mut after = app(&first);
    after.restore(&saved).expect("the state fits");
    let out = send(
        &mut after,
        &first,
        "S",
        &texts(&["c", "d"]),
        Chunks::EachRow,
        &mut NoHost,
    );
    assert_eq!(rows_of(&out, &first, "O"), ["3", "3"]);
    assert_eq!(after.rows_in()[0], 4);

    let renamed = plan(&text.replace("'q'", "'other'"));
    let refused = app(&renamed).restore(&saved);
    assert_eq!(
        refused,
        Err(RestoreError::Extra {
            part: "query 'q'".into()
        })
    );
    for cut in 0..saved.len() {
        assert!(app(&first).restore(&saved[..cut]).is_err(), "cut at {cut}");
    }
}
