//! A table of an app from end to end: against one in memory, over restarts, crashes and damage.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use connect::component::{
    Answer, Connector, Environment, SETTING_DIR, Setting, Store, StoreSetup, Written,
};
use connect::memory::MemoryStore;
use event::{Attribute, Batch, Chunks, Schema, Times, Type, Value};
use plan::store::{Operation, OperationKind, Term, TermKind};
use plan::{ArithmeticOp, CompareOp, Table};

use crate::EVENT_STORE;
use crate::reader::Reader;
use crate::store::EventStore;

const INSERT: usize = 0;
const ALL: usize = 1;
const BY_KEY: usize = 2;
const DELETE_BETWEEN: usize = 3;
const ADD_ABOVE: usize = 4;
const UPSERT: usize = 5;
const CONTAINS: usize = 6;
const FIND_TEXT: usize = 7;

fn table(key: Vec<usize>) -> Table {
    let attributes = [("k", Type::Int), ("text", Type::String), ("v", Type::Long)];
    let attributes = attributes.map(|(name, ty)| Attribute {
        name: name.to_owned(),
        ty,
    });
    Table {
        schema: Schema {
            name: "T".into(),
            attributes: attributes.into(),
        },
        primary_key: key,
        indexes: Vec::new(),
        index_details: Vec::new(),
        store: Some(plan::Store {
            ty: "eventstore".into(),
            // Only the test writes rows to files.
            options: vec![("commit.interval".into(), "1 hour".into())],
            cache: None,
            selects: false,
            span: lang::span::Span::default(),
        }),
        span: lang::span::Span::default(),
    }
}

/// A table without a key whose files are in another order than its rows were inserted, with an index.
fn clustered() -> Table {
    let mut table = table(vec![]);
    table.indexes = vec![vec![0], vec![1]];
    let options = table.store.as_mut().map(|store| &mut store.options);
    let cluster = ("cluster.by".into(), "text, v".into());
    options.expect("it is kept in a store").push(cluster);
    table
}

fn environment(dir: &Path, state: Option<&str>) -> Environment {
    Environment {
        settings: Arc::from([Setting {
            namespace: "store".into(),
            name: "eventstore".into(),
            key: SETTING_DIR.into(),
            value: dir.display().to_string(),
        }]),
        state_id: state.map(str::to_owned),
        ..Environment::new("A")
    }
}

fn made(table: &Table, environment: &Environment) -> Box<dyn Store> {
    let setup = StoreSetup { table, environment };
    EVENT_STORE.store(&setup).expect("made")
}

fn open(dir: &Path, table: &Table, state: Option<&str>) -> Box<dyn Store> {
    let mut store = made(table, &environment(dir, state));
    store.connect().expect("opened");
    prepare(store.as_mut());
    store
}

fn term(ty: Type, kind: TermKind) -> Term {
    Term { ty, kind }
}

fn compare(op: CompareOp, column: usize, parameter: usize, ty: Type) -> Term {
    let column = term(ty, TermKind::Column(column));
    let parameter = term(ty, TermKind::Parameter(parameter));
    term(
        Type::Bool,
        TermKind::Compare(op, Box::new(column), Box::new(parameter)),
    )
}

fn prepare(store: &mut dyn Store) {
    let and = |a, b| term(Type::Bool, TermKind::And(Box::new(a), Box::new(b)));
    let plus = term(
        Type::Long,
        TermKind::Arithmetic(
            ArithmeticOp::Add,
            Box::new(term(Type::Long, TermKind::Column(2))),
            Box::new(term(Type::Long, TermKind::Parameter(1))),
        ),
    );
    let row = vec![Type::Int, Type::String, Type::Long];
    let by_key = || compare(CompareOp::Equal, 0, 0, Type::Int);
    let kinds = [
        (OperationKind::Insert, row.clone()),
        (OperationKind::Find { on: None }, vec![]),
        (OperationKind::Find { on: Some(by_key()) }, vec![Type::Int]),
        (
            OperationKind::Delete {
                on: and(
                    compare(CompareOp::GreaterEqual, 2, 0, Type::Long),
                    compare(CompareOp::Less, 2, 1, Type::Long),
                ),
            },
            vec![Type::Long, Type::Long],
        ),
        (
            OperationKind::Update {
                set: vec![(2, plus)],
                on: compare(CompareOp::Greater, 2, 0, Type::Long),
            },
            vec![Type::Long, Type::Long],
        ),
        (
            OperationKind::UpdateOrInsert {
                set: vec![
                    (1, term(Type::String, TermKind::Parameter(1))),
                    (2, term(Type::Long, TermKind::Parameter(2))),
                ],
                on: by_key(),
            },
            row,
        ),
        (OperationKind::Contains { on: by_key() }, vec![Type::Int]),
        (
            OperationKind::Find {
                on: Some(compare(CompareOp::Equal, 1, 0, Type::String)),
            },
            vec![Type::String],
        ),
    ];
    for (id, (kind, parameters)) in kinds.into_iter().enumerate() {
        let operation = Operation {
            table: 0,
            kind,
            parameters,
        };
        store.prepare(id, &operation).expect("prepared");
    }
}

fn batch(rows: &[Vec<Value>]) -> Batch {
    let width = rows.first().map_or(0, Vec::len);
    let columns = (0..width).map(|at| {
        let ty = rows
            .iter()
            .find_map(|row| row[at].ty())
            .unwrap_or(Type::Int);
        let mut builder = event::ColumnBuilder::new(ty);
        rows.iter().for_each(|row| builder.push(&row[at]));
        builder.finish()
    });
    Batch::new(
        columns.collect(),
        rows.len(),
        Times::Same(1_000),
        Chunks::One,
        1_000,
    )
}

fn run(store: &mut dyn Store, id: usize, rows: &[Vec<Value>]) -> Answer {
    store.execute(id, &batch(rows)).expect("answered")
}

fn written(answer: Answer) -> Written {
    answer.into_written().expect("a write")
}

fn rows_of(answer: Answer) -> Vec<Vec<Value>> {
    let Answer::Rows { batch, .. } = answer else {
        panic!("no rows");
    };
    (0..batch.len).map(|row| batch.row(row)).collect()
}

/// One row of parameters of no columns.
fn all(store: &mut dyn Store) -> Vec<Vec<Value>> {
    let one = Batch::new(Vec::new(), 1, Times::Same(-1), Chunks::One, -1);
    rows_of(store.execute(ALL, &one).expect("answered"))
}

fn row(k: i32, text: &str, v: i64) -> Vec<Value> {
    vec![Value::Int(k), Value::str(text), Value::Long(v)]
}

/// As a killed process leaves it: all that was written to files, and nothing of memory.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("read") {
        let entry = entry.expect("read");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// The files of the store, through the same registry as its tables.
fn flush(dir: &Path, store: &mut dyn Store, table: &Table, state: Option<&str>) -> Box<dyn Store> {
    store.close().expect("closed");
    open(dir, table, state)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Does the same to the store and to one in memory; closing it puts its rows into files.
#[track_caller]
fn check_against_memory(definition: &Table, seed: u64) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = open(dir.path(), definition, None);
    let mut model = MemoryStore::new(definition);
    prepare(&mut model);
    let mut random = Random(seed);
    for step in 0..150 {
        let mut fresh = || {
            row(
                random.below(40) as i32,
                ["a", "b", "ü"][random.below(3) as usize],
                random.below(100) as i64,
            )
        };
        let rows: Vec<Vec<Value>> = (0..4).map(|_| fresh()).collect();
        let from = random.below(100) as i64;
        let (id, rows) = match random.below(8) {
            0 | 1 if definition.primary_key.is_empty() => (INSERT, rows),
            0..=2 => (UPSERT, rows),
            3 => (
                DELETE_BETWEEN,
                vec![vec![Value::Long(from), Value::Long(from + 4)]],
            ),
            4 => (ADD_ABOVE, vec![vec![Value::Long(from), Value::Long(3)]]),
            5 => (
                BY_KEY,
                vec![
                    vec![Value::Int(random.below(40) as i32)],
                    vec![Value::Int(7)],
                ],
            ),
            6 => (
                CONTAINS,
                vec![vec![Value::Int(random.below(40) as i32)], vec![Value::Null]],
            ),
            _ => (FIND_TEXT, vec![vec![Value::str("ü")]]),
        };
        let (got, want) = (run(store.as_mut(), id, &rows), run(&mut model, id, &rows));
        let at = format!("seed {seed}, step {step}, operation {id} with {rows:?}");
        match (got, want) {
            (Answer::Written(got), Answer::Written(want)) => assert_eq!(got, want, "{at}"),
            (Answer::Contains(got), Answer::Contains(want)) => assert_eq!(got, want, "{at}"),
            (Answer::Rows { batch: a, ends: e }, Answer::Rows { batch: b, ends: f }) => {
                let rows = |batch: &Batch| -> Vec<_> {
                    (0..batch.len).map(|row| batch.row(row)).collect()
                };
                assert_eq!((rows(&a), e), (rows(&b), f), "{at}");
            }
            other => panic!("{at}: {other:?}"),
        }
        if random.below(15) == 0 {
            store = flush(dir.path(), store.as_mut(), definition, None);
        }
        assert_eq!(all(store.as_mut()), all(&mut model), "{at}");
    }
}

#[test]
fn a_table_without_a_key_is_as_one_in_memory() {
    (1..=6).for_each(|seed| check_against_memory(&table(vec![]), seed));
}

#[test]
fn a_table_in_another_order_and_with_an_index_is_as_one_in_memory() {
    (1..=6).for_each(|seed| check_against_memory(&clustered(), seed));
}

#[test]
fn files_are_in_the_order_that_the_app_chose_also_when_small_ones_become_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = clustered();
    let mut random = Random(5);
    let mut want = Vec::new();
    for _ in 0..12 {
        let mut store = open(dir.path(), &definition, None);
        let text = |at: u64| ["a", "b", "c"][at as usize % 3];
        let rows: Vec<Vec<Value>> = (0..50)
            .map(|at| row(at, text(random.below(9)), random.below(1000) as i64))
            .collect();
        store.insert(&batch(&rows)).expect("inserted");
        want.extend(rows);
        store.close().expect("closed");
    }
    let folder = dir.path().join("tables/t");
    let table = crate::table::Table::open(&folder, None).expect("a table");
    let view = table.view();
    assert!(view.snapshot.files.len() < 12, "small files became one");
    for add in view.snapshot.files.values() {
        assert_eq!(add.cluster, [1, 2]);
        let mut parts = table.files.parts(add, None).expect("opened");
        let mut order = Vec::new();
        while let Some(part) = parts.next().expect("read") {
            let rows = part.rows();
            let key = |at| {
                let row = rows.row(at);
                (event::text::to_text(&row[1]), row[2].to_long())
            };
            order.extend((0..rows.len()).map(key));
        }
        assert!(order.is_sorted(), "{order:?}");
    }
    let mut store = open(dir.path(), &definition, None);
    assert_eq!(all(store.as_mut()), want);
}

#[test]
fn a_view_stays_as_it_was() {
    for key in [vec![], vec![0]] {
        let dir = tempfile::tempdir().expect("a folder");
        let definition = table(key);
        let mut store = open(dir.path(), &definition, None);
        store.insert(&batch(&[row(1, "file", 1)])).expect("stored");
        let mut store = flush(dir.path(), store.as_mut(), &definition, None);
        store.insert(&batch(&[row(2, "log", 2)])).expect("stored");
        let view = store.view().expect("a view");
        run(
            store.as_mut(),
            UPSERT,
            &[row(1, "new", 3), row(2, "new", 3)],
        );
        store.insert(&batch(&[row(3, "new", 3)])).expect("stored");
        let find = Operation {
            table: 0,
            kind: OperationKind::Find { on: None },
            parameters: Vec::new(),
        };
        let one = Batch::new(Vec::new(), 1, Times::Same(-1), Chunks::One, -1);
        let found = view.find(&find, &one, &|| true).expect("found");
        assert_eq!(rows_of(found), [row(1, "file", 1), row(2, "log", 2)]);
        assert!(view.find(&find, &one, &|| false).is_err(), "nobody waits");
        let now = [row(1, "new", 3), row(2, "new", 3), row(3, "new", 3)];
        assert_eq!(all(store.as_mut()), now);
    }
}

#[test]
fn a_table_with_a_key_is_as_one_in_memory() {
    (1..=6).for_each(|seed| check_against_memory(&table(vec![0]), seed));
    check_against_memory(&table(vec![1, 0]), 9);
}

#[test]
fn the_newest_row_of_a_key_wins_wherever_the_older_one_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = table(vec![0]);
    let mut store = open(dir.path(), &definition, None);
    store
        .insert(&batch(&[row(1, "a", 1), row(2, "b", 2), row(1, "c", 3)]))
        .expect("inserted");
    assert_eq!(all(store.as_mut()), [row(2, "b", 2), row(1, "c", 3)]);
    let mut store = flush(dir.path(), store.as_mut(), &definition, None);
    store.insert(&batch(&[row(2, "d", 4)])).expect("inserted");
    assert_eq!(all(store.as_mut()), [row(1, "c", 3), row(2, "d", 4)]);
    let mut store = flush(dir.path(), store.as_mut(), &definition, None);
    assert_eq!(all(store.as_mut()), [row(1, "c", 3), row(2, "d", 4)]);
    assert_eq!(
        rows_of(run(store.as_mut(), BY_KEY, &[vec![Value::Int(2)]])),
        [row(2, "d", 4)]
    );
}

// shows: store eventstore bad
#[test]
fn what_a_column_cannot_hold_is_refused_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = open(dir.path(), &table(vec![]), None);
    let mut odd = row(2, "b", 2);
    odd[0] = Value::str("two");
    store
        .insert(&batch_of_any(&[row(1, "a", 1), odd, row(3, "c", 3)]))
        .expect("inserted");
    let refused = store.take_refused();
    assert_eq!(
        refused
            .iter()
            .map(|refused| refused.row)
            .collect::<Vec<_>>(),
        [1]
    );
    let cause = connect::error::chain(&refused[0].cause);
    assert!(cause.contains("attribute 'k' is int"), "{cause}");
    assert_eq!(all(store.as_mut()), [row(1, "a", 1), row(3, "c", 3)]);
}

fn batch_of_any(rows: &[Vec<Value>]) -> Batch {
    let schema = table(vec![]).schema;
    let rows: Vec<(i64, Vec<Value>)> = rows.iter().map(|row| (1_000, row.clone())).collect();
    Batch::from_rows(&schema, &rows, Chunks::One, 1_000)
}

/// Rows and epoch that a start finds in a copy of the folder.
fn found(dir: &Path, definition: &Table) -> (Vec<Vec<Value>>, Option<(u64, Vec<u8>)>) {
    let other = tempfile::tempdir().expect("a folder");
    copy(dir, other.path());
    let mut store = open(other.path(), definition, Some("id/A"));
    let epoch = store.last_epoch().expect("known");
    (all(store.as_mut()), epoch)
}

#[test]
fn a_crash_leaves_whole_epochs() {
    for key in [vec![], vec![0]] {
        let dir = tempfile::tempdir().expect("a folder");
        let definition = table(key);
        let mut store = open(dir.path(), &definition, Some("id/A"));
        let mut want = Vec::new();
        for epoch in 1..=12u64 {
            store.begin().expect("begun");
            for at in 0..3 {
                let k = (epoch * 3 + at) as i32 % 20;
                let rows = [row(k, "x", (epoch * 10 + at) as i64)];
                run(store.as_mut(), UPSERT, &rows);
                // Not committed: a crash now leaves the epoch before.
                let before = (epoch > 1).then(|| (epoch - 1, b"id/A".to_vec()));
                assert_eq!(
                    found(dir.path(), &definition),
                    (want.clone(), before),
                    "{epoch}"
                );
            }
            store.commit(epoch, b"id/A").expect("committed");
            // The same epoch for another table of the app.
            store.commit(epoch, b"id/A").expect("committed");
            want = all(store.as_mut());
            assert_eq!(
                found(dir.path(), &definition),
                (want.clone(), Some((epoch, b"id/A".to_vec())))
            );
            if epoch % 5 == 0 {
                store = flush(dir.path(), store.as_mut(), &definition, Some("id/A"));
                assert_eq!(all(store.as_mut()), want);
            }
        }
    }
}

#[test]
fn what_is_undone_is_gone_and_what_was_committed_stays() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = table(vec![]);
    let mut store = open(dir.path(), &definition, Some("id/A"));
    store.begin().expect("begun");
    store.insert(&batch(&[row(1, "a", 1)])).expect("inserted");
    store.commit(1, b"id/A").expect("committed");
    store.begin().expect("begun");
    store.insert(&batch(&[row(2, "b", 2)])).expect("inserted");
    assert_eq!(
        written(run(
            store.as_mut(),
            ADD_ABOVE,
            &[vec![Value::Long(0), Value::Long(5)]]
        ))
        .updated,
        2
    );
    assert_eq!(all(store.as_mut()), [row(1, "a", 6), row(2, "b", 7)]);
    store.abort().expect("undone");
    assert_eq!(all(store.as_mut()), [row(1, "a", 1)]);
    store.begin().expect("begun");
    store.insert(&batch(&[row(3, "c", 3)])).expect("inserted");
    store.commit(2, b"id/A").expect("committed");
    assert_eq!(
        found(dir.path(), &definition).0,
        [row(1, "a", 1), row(3, "c", 3)]
    );
}

#[test]
fn apps_of_a_group_share_a_table_and_its_transaction() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = table(vec![]);
    let environment = environment(dir.path(), Some("id/A"));
    let mut stores = [(); 2].map(|()| made(&definition, &environment));
    for store in &mut stores {
        store.connect().expect("opened");
        prepare(store.as_mut());
        store.begin().expect("begun");
    }
    let [one, other] = &mut stores;
    one.insert(&batch(&[row(1, "a", 1)])).expect("inserted");
    assert_eq!(all(other.as_mut()), [row(1, "a", 1)]);
    other.commit(1, b"id/A").expect("committed");
    one.commit(1, b"id/A").expect("committed");
    assert_eq!(found(dir.path(), &definition).0, [row(1, "a", 1)]);
    // Apps of another group wait for it.
    let mut elsewhere = Environment {
        state_id: Some("id/B".into()),
        ..environment
    };
    let mut third = made(&definition, &elsewhere);
    assert!(third.connect().is_err_and(|error| error.is_unavailable()));
    stores
        .iter_mut()
        .for_each(|store| store.close().expect("closed"));
    elsewhere.app = "B".into();
    third.connect().expect("opened");
}

#[test]
fn a_reader_of_the_folder_sees_what_was_committed() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = table(vec![]);
    let read = || {
        let rows = Reader::open(dir.path())
            .expect("read")
            .rows("t")
            .expect("there");
        (0..rows.len).map(|at| rows.row(at)).collect::<Vec<_>>()
    };
    let mut store = open(dir.path(), &definition, Some("id/A"));
    store.begin().expect("begun");
    store.insert(&batch(&[row(1, "a", 1)])).expect("inserted");
    assert!(read().is_empty());
    store.commit(1, b"id/A").expect("committed");
    assert_eq!(read(), [row(1, "a", 1)]);
    let mut store = flush(dir.path(), store.as_mut(), &definition, Some("id/A"));
    store.begin().expect("begun");
    run(
        store.as_mut(),
        ADD_ABOVE,
        &[vec![Value::Long(0), Value::Long(1)]],
    );
    assert_eq!(read(), [row(1, "a", 1)]);
    store.commit(2, b"id/A").expect("committed");
    assert_eq!(read(), [row(1, "a", 2)]);
}

#[test]
fn a_reader_sees_each_row_once_while_rows_of_the_log_become_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = table(vec![]);
    let mut store = open(dir.path(), &definition, None);
    store.insert(&batch(&[row(1, "a", 1)])).expect("inserted");
    let (mut store, mut next) = (Some(store), 2);
    // Each time that the log was read, its rows are written to files.
    let reader = Reader::open_beside(dir.path(), None, &mut || {
        let mut open = store.take().expect("it is open");
        let mut open = flush(dir.path(), open.as_mut(), &definition, None);
        open.insert(&batch(&[row(next, "b", 2)])).expect("inserted");
        (store, next) = (Some(open), next + 1);
    });
    let rows = reader.expect("read").rows("t").expect("there");
    let rows: Vec<Vec<Value>> = (0..rows.len).map(|at| rows.row(at)).collect();
    assert_eq!(rows, [row(1, "a", 1)]);
}

#[test]
fn one_process_writes_and_a_table_is_what_it_was_made_as() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &table(vec![]), None);
    let second = EventStore::open(dir.path()).err().expect("it is locked");
    assert!(
        connect::error::chain(&second).contains("another process"),
        "{second}"
    );
    drop(store);
    let mut store = made(&table(vec![0]), &environment(dir.path(), None));
    let error = store.connect().expect_err("another key");
    let said = connect::error::chain(&error);
    assert!(
        !error.is_unavailable() && said.contains("primary key none"),
        "{said}"
    );
}

#[test]
fn many_rows_become_files_and_small_files_become_larger_ones() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = table(vec![]);
    let mut want = Vec::new();
    for part in 0..12 {
        let mut store = open(dir.path(), &definition, None);
        let rows: Vec<Vec<Value>> = (0..100).map(|at| row(at, "x", i64::from(part))).collect();
        store.insert(&batch(&rows)).expect("inserted");
        want.extend(rows);
        store.close().expect("closed");
    }
    let mut store = open(dir.path(), &definition, None);
    assert_eq!(all(store.as_mut()), want);
    let table = crate::delta::DeltaLog::new(&dir.path().join("tables/t"));
    let files = crate::delta::TableLog::snapshot(&table)
        .expect("read")
        .files
        .len();
    assert!(files < 10, "{files} files");
    // The log has nothing that the files have.
    let logs = fs::read_dir(dir.path().join("log")).expect("read").count();
    assert!(logs <= 2, "{logs} files of the log");
}

#[test]
fn a_reader_knows_when_it_is_no_longer_current() {
    let (dir, definition) = (tempfile::tempdir().expect("a folder"), table(vec![]));
    let mut store = open(dir.path(), &definition, None);
    store.insert(&batch(&[row(1, "a", 1)])).expect("inserted");
    let mut reader = Reader::open(dir.path()).expect("a store");
    let mut k = 1;
    // Rows in the log, rows that become files, another table: each is seen.
    let mut changed = |dir: &Path| {
        assert!(!reader.is_current(dir));
        reader = Reader::open_after(dir, &reader).expect("a store");
        assert!(reader.is_current(dir));
        let rows = reader.rows("t").expect("a table");
        let fresh = Reader::open(dir).expect("a store");
        let fresh = fresh.rows("t").expect("a table");
        assert_eq!(rows.len, fresh.len);
        assert!((0..rows.len).all(|at| rows.row(at) == fresh.row(at)));
        rows.len
    };
    for _ in 0..3 {
        k += 1;
        store.insert(&batch(&[row(k, "a", 1)])).expect("inserted");
        assert_eq!(changed(dir.path()), k as usize);
        // Only the end of the log is read.
        k += 1;
        store
            .insert(&batch(&[row(k, "b", 2), row(k, "c", 3)]))
            .expect("inserted");
        let gone = [vec![Value::Long(3), Value::Long(4)]];
        run(store.as_mut(), DELETE_BETWEEN, &gone);
        assert_eq!(changed(dir.path()), k as usize);
        store = flush(dir.path(), store.as_mut(), &definition, None);
        assert_eq!(changed(dir.path()), k as usize);
    }
    let mut other = definition.clone();
    other.schema.name = "U".into();
    store.close().expect("closed");
    open(dir.path(), &other, None).close().expect("closed");
    assert_eq!(changed(dir.path()), k as usize);
    store = open(dir.path(), &definition, None);
    // Commits that are gone since a checkpoint has them are no reason to stay behind.
    for _ in 0..120 {
        k += 1;
        store.insert(&batch(&[row(k, "a", 1)])).expect("inserted");
        store = flush(dir.path(), store.as_mut(), &definition, None);
    }
    let log = dir.path().join("tables/t/_delta_log");
    for version in 0..100 {
        let commit = log.join(format!("{version:020}.json"));
        if commit.exists() {
            fs::remove_file(commit).expect("removed");
        }
    }
    fs::copy(
        log.join(format!("{:020}.json", 101)),
        log.join(format!("{:020}.json", 0)),
    )
    .expect("a table has its first commit");
    assert_eq!(changed(dir.path()), k as usize);
}

#[test]
fn rows_of_a_file_are_read_by_their_places_without_those_that_are_hidden() {
    for key in [vec![], vec![0]] {
        let (dir, definition) = (tempfile::tempdir().expect("a folder"), table(key));
        let mut store = open(dir.path(), &definition, None);
        let rows: Vec<Vec<Value>> = (0..40_000)
            .map(|k| row(k, "text", i64::from(k) * 2))
            .collect();
        store.insert(&batch(&rows)).expect("inserted");
        let mut store = flush(dir.path(), store.as_mut(), &definition, None);
        let gone = [vec![Value::Long(60_000), Value::Long(60_003)]];
        run(store.as_mut(), DELETE_BETWEEN, &gone);
        let reader = Reader::open(dir.path()).expect("a store");
        let scan = reader.scan("t").expect("a table");
        let (name, len) = scan.file_names().next().expect("a file");
        let (name, mut found) = (name.to_owned(), Vec::new());
        assert_eq!(len, 40_000);
        let places = [0, 1, 19_999, 20_000, 29_999, 30_000, 30_001, 39_999];
        let whole = scan.visit_file(&name, &[2], Some(&places), &mut |rows, row, place| {
            let values = rows.row(row);
            assert_eq!(values[1], Value::Null, "it was not asked for");
            found.push((place, values[2].to_long().expect("a number")));
            Ok(true)
        });
        assert!(whole.expect("read"));
        let hidden = [30_000, 30_001];
        let want = places.iter().filter(|place| !hidden.contains(*place));
        let want: Vec<(u32, i64)> = want.map(|place| (*place, i64::from(*place) * 2)).collect();
        assert_eq!(found, want, "{:?}", scan.hidden_marks().len());
        assert_eq!(scan.hidden_marks().len(), 2);
        let mut count = 0;
        scan.visit_file(&name, &[], None, &mut |_, _, _| {
            count += 1;
            Ok(count < 5)
        })
        .expect("read");
        assert_eq!(count, 5);
    }
}

#[test]
fn a_row_is_looked_up_by_its_key_wherever_it_is() {
    let (dir, definition) = (tempfile::tempdir().expect("a folder"), table(vec![0]));
    let mut store = open(dir.path(), &definition, None);
    store
        .insert(&batch(&[row(1, "a", 1), row(2, "b", 2)]))
        .expect("inserted");
    let mut store = flush(dir.path(), store.as_mut(), &definition, None);
    store.insert(&batch(&[row(2, "c", 3)])).expect("inserted");
    let reader = Reader::open(dir.path()).expect("a store");
    let scan = reader.scan("t").expect("a table");
    let text = |k: i32| {
        let mut found = None;
        scan.look_up(&[Value::Int(k)], &mut |rows, row| {
            found = Some(rows.row(row)[1].clone())
        })
        .expect("read");
        found
    };
    assert_eq!(text(1), Some(Value::str("a")));
    assert_eq!(text(2), Some(Value::str("c")));
    assert_eq!(text(3), None);
    assert_eq!(scan.files_between(i64::MIN, 0).len(), 0);
    assert_eq!(scan.files_between(0, i64::MAX).len(), 1);
}
