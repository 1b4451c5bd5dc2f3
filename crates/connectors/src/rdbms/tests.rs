//! Tables in a database file: writes, conditions, null, epochs, locks.

use std::path::Path;
use std::time::Duration;

use event::{Attribute, Batch, Chunks, Schema, Type, Value};
use lang::span::Span;
use plan::store::{Operation, OperationKind, Term, TermKind};
use plan::{ArithmeticOp, CompareOp, Constant, Store as Annotation, Table};

use super::RDBMS;
use super::server::Login;
use connect::component::{Answer, Connector, Environment, Store, StoreSetup, Written};

fn schema() -> Schema {
    let attribute = |name: &str, ty| Attribute {
        name: name.into(),
        ty,
    };
    Schema {
        name: "T".into(),
        attributes: vec![
            attribute("id", Type::String),
            attribute("n", Type::Int),
            attribute("price", Type::Double),
        ],
    }
}

struct Setup {
    environment: Environment,
    directory: tempfile::TempDir,
}

impl Setup {
    fn new() -> Setup {
        Setup {
            environment: Environment::new("A"),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("data.db")
    }

    fn make(&self, key: &[usize], options: &[(&str, &str)]) -> Result<Box<dyn Store>, String> {
        let url = format!("jdbc:sqlite:{}", self.path().display());
        let mut all = vec![("jdbc.url".to_owned(), url)];
        all.extend(
            options
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
        );
        let table = Table {
            schema: schema(),
            primary_key: key.to_vec(),
            indexes: vec![vec![1]],
            index_details: Vec::new(),
            store: Some(Annotation {
                ty: "rdbms".into(),
                options: all,
                cache: None,
                selects: true,
                span: Span::default(),
            }),
            span: Span::default(),
        };
        let setup = StoreSetup {
            table: &table,
            environment: &self.environment,
        };
        let mut store = RDBMS.store(&setup).map_err(|error| error.to_string())?;
        store.connect().map_err(|error| chain(&error))?;
        Ok(store)
    }

    /// What another program sees.
    fn rows(&self) -> Vec<String> {
        rows_of(&self.path(), "SELECT id, n, price FROM T ORDER BY rowid")
    }
}

fn rows_of(path: &Path, sql: &str) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let width = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let values = (0..width).map(|i| match row.get_ref(i).unwrap() {
            rusqlite::types::ValueRef::Null => "null".to_owned(),
            rusqlite::types::ValueRef::Integer(v) => v.to_string(),
            rusqlite::types::ValueRef::Real(v) => format!("{v:?}"),
            rusqlite::types::ValueRef::Text(v) => String::from_utf8_lossy(v).into_owned(),
            rusqlite::types::ValueRef::Blob(v) => format!("{v:?}"),
        });
        all.push(values.collect::<Vec<_>>().join(" "));
    }
    all
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

fn value(text: &str, ty: Type) -> Value {
    match ty {
        _ if text == "null" => Value::Null,
        Type::Int => Value::Int(text.parse().unwrap()),
        Type::Double => Value::Double(text.parse().unwrap()),
        _ => Value::str(text),
    }
}

/// Rows as `id n price`.
fn batch(rows: &[&str]) -> Batch {
    typed(&[Type::String, Type::Int, Type::Double], rows)
}

fn typed(types: &[Type], rows: &[&str]) -> Batch {
    let attributes = types
        .iter()
        .map(|ty| Attribute {
            name: "p".into(),
            ty: *ty,
        })
        .collect();
    let schema = Schema {
        name: "P".into(),
        attributes,
    };
    let rows: Vec<(i64, Vec<Value>)> = rows
        .iter()
        .map(|row| {
            (
                0,
                row.split(' ')
                    .zip(types)
                    .map(|(t, ty)| value(t, *ty))
                    .collect(),
            )
        })
        .collect();
    Batch::from_rows(&schema, &rows, Chunks::One, 0)
}

fn term(ty: Type, kind: TermKind) -> Term {
    Term { ty, kind }
}

fn column(index: usize) -> Box<Term> {
    Box::new(term(schema().attributes[index].ty, TermKind::Column(index)))
}

fn parameter(index: usize, ty: Type) -> Box<Term> {
    Box::new(term(ty, TermKind::Parameter(index)))
}

fn compare(op: CompareOp, left: Box<Term>, right: Box<Term>) -> Term {
    term(Type::Bool, TermKind::Compare(op, left, right))
}

fn id_is(index: usize) -> Term {
    compare(CompareOp::Equal, column(0), parameter(index, Type::String))
}

fn operation(kind: OperationKind, parameters: &[Type]) -> Operation {
    Operation {
        table: 0,
        kind,
        parameters: parameters.to_vec(),
    }
}

const ROW: &[Type] = &[Type::String, Type::Int, Type::Double];

fn run(store: &mut dyn Store, operation: &Operation, parameters: &[&str]) -> Answer {
    store.prepare(0, operation).unwrap();
    store
        .execute(0, &typed(&operation.parameters, parameters))
        .unwrap()
}

fn written(answer: Answer) -> (u64, u64, u64) {
    let Answer::Written(Written {
        inserted,
        updated,
        deleted,
    }) = answer
    else {
        panic!("a write answers with counts: {answer:?}")
    };
    (inserted, updated, deleted)
}

// shows: store rdbms@sqlite open
#[test]
fn rows_go_in_and_are_found() {
    let setup = Setup::new();
    let mut store = setup.make(&[], &[]).unwrap();
    let many: Vec<String> = (0..100).map(|i| format!("k{i} {i} {i}.5")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    store.insert(&batch(&many)).unwrap();
    assert_eq!(setup.rows().len(), 100);
    assert_eq!(setup.rows()[99], "k99 99 99.5");

    let find = operation(OperationKind::Find { on: Some(id_is(0)) }, &[Type::String]);
    let Answer::Rows { batch, ends } = run(store.as_mut(), &find, &["k7", "x", "k8"]) else {
        panic!("find gives rows")
    };
    assert_eq!(ends, [1, 1, 2]);
    assert_eq!(
        batch.row(0),
        [Value::str("k7"), Value::Int(7), Value::Double(7.5)]
    );
    let contains = operation(OperationKind::Contains { on: id_is(0) }, &[Type::String]);
    let answer = run(store.as_mut(), &contains, &["x", "k9"]);
    assert!(matches!(answer, Answer::Contains(found) if found == [false, true]));
    let columns = rows_of(
        &setup.path(),
        "SELECT name, type FROM pragma_table_info('T')",
    );
    assert_eq!(columns, ["id VARCHAR(254)", "n INTEGER", "price DOUBLE"]);
    let indexes = rows_of(
        &setup.path(),
        "SELECT name FROM sqlite_master WHERE type='index'",
    );
    assert_eq!(indexes, ["T_INDEX_1"]);
}

// shows: store rdbms@sqlite order
#[test]
fn updates_and_deletes_see_the_writes_before_them() {
    let setup = Setup::new();
    let mut store = setup.make(&[], &[]).unwrap();
    store
        .insert(&batch(&["a 2147483647 1.0", "b 2 2.0", "b 3 3.0"]))
        .unwrap();
    let one = Box::new(term(Type::Int, TermKind::Constant(Constant::Int(1))));
    let next = term(
        Type::Int,
        TermKind::Arithmetic(ArithmeticOp::Add, column(1), one),
    );
    let update = operation(
        OperationKind::Update {
            set: vec![(1, next)],
            on: id_is(0),
        },
        &[Type::String],
    );
    assert_eq!(
        written(run(store.as_mut(), &update, &["a", "b", "b", "c"])),
        (0, 5, 0)
    );
    // An int wraps as it does in memory.
    assert_eq!(setup.rows(), ["a -2147483648 1.0", "b 4 2.0", "b 5 3.0"]);
    let delete = operation(OperationKind::Delete { on: id_is(0) }, &[Type::String]);
    assert_eq!(
        written(run(store.as_mut(), &delete, &["b", "b"])),
        (0, 0, 2)
    );
    assert_eq!(setup.rows(), ["a -2147483648 1.0"]);
}

fn update_or_insert(on: Term) -> Operation {
    let set = vec![
        (1, *parameter(1, Type::Int)),
        (2, *parameter(2, Type::Double)),
    ];
    operation(OperationKind::UpdateOrInsert { set, on }, ROW)
}

#[test]
fn update_or_insert_keeps_one_row_a_key() {
    for key in [&[0][..], &[]] {
        let setup = Setup::new();
        let mut store = setup.make(key, &[]).unwrap();
        let operation = update_or_insert(id_is(0));
        let rows = ["a 1 1.0", "b 2 2.0", "a 3 3.0", "a 4 4.0", "c 5 5.0"];
        assert_eq!(
            written(run(store.as_mut(), &operation, &rows)),
            (3, 2, 0),
            "key {key:?}"
        );
        assert_eq!(setup.rows(), ["a 4 4.0", "b 2 2.0", "c 5 5.0"]);
    }
}

#[test]
fn null_in_conditions_is_as_in_memory() {
    let setup = Setup::new();
    let mut store = setup.make(&[], &[("allow.null.values", "true")]).unwrap();
    store
        .insert(&batch(&["a 1 1.0", "b null 2.0", "null 3 3.0"]))
        .unwrap();
    let mut check = |on: Term, parameters: &str, expect: &[&str]| {
        let find = operation(
            OperationKind::Find {
                on: Some(on.clone()),
            },
            &[Type::Int],
        );
        let Answer::Rows { batch, .. } = run(store.as_mut(), &find, &[parameters]) else {
            panic!("find gives rows")
        };
        let found: Vec<String> = (0..batch.len)
            .map(|row| event::text::to_text(&batch.columns[2].value(row)))
            .collect();
        assert_eq!(found, expect, "{on:?}");
    };
    let n = |op| compare(op, column(1), parameter(0, Type::Int));
    let not = |inner: Term| term(Type::Bool, TermKind::Not(Box::new(inner)));
    check(n(CompareOp::Equal), "1", &["1.0"]);
    check(n(CompareOp::Less), "3", &["1.0"]);
    check(n(CompareOp::NotEqual), "1", &["2.0", "3.0"]);
    check(not(n(CompareOp::Equal)), "1", &["2.0", "3.0"]);
    check(not(n(CompareOp::NotEqual)), "1", &["1.0"]);
    check(n(CompareOp::Equal), "null", &[]);
    check(n(CompareOp::NotEqual), "null", &["1.0", "2.0", "3.0"]);
    check(term(Type::Bool, TermKind::IsNull(column(1))), "1", &["2.0"]);
}

#[test]
fn null_without_permission_fails_the_chunk_and_reads_as_zero() {
    let setup = Setup::new();
    let mut store = setup.make(&[], &[]).unwrap();
    let error = store
        .insert(&batch(&["a 1 1.0", "b null 1.0"]))
        .unwrap_err();
    assert!(
        chain(&error).contains("allow.null.values"),
        "{}",
        chain(&error)
    );
    assert!(setup.rows().is_empty());
    rusqlite::Connection::open(setup.path())
        .unwrap()
        .execute_batch("INSERT INTO T VALUES (NULL, NULL, NULL)")
        .unwrap();
    let find = operation(OperationKind::Find { on: None }, &[Type::Int]);
    let Answer::Rows { batch, .. } = run(store.as_mut(), &find, &["0"]) else {
        panic!("find gives rows")
    };
    assert_eq!(
        batch.row(0),
        [Value::Null, Value::Int(0), Value::Double(0.0)]
    );
}

// shows: store rdbms@sqlite bad
#[test]
fn a_bad_row_takes_its_chunk_with_it_and_no_other() {
    let setup = Setup::new();
    let mut store = setup.make(&[0], &[]).unwrap();
    store.insert(&batch(&["a 1 1.0"])).unwrap();
    let error = store.insert(&batch(&["b 1 1.0", "a 2 2.0"])).unwrap_err();
    assert!(!error.is_unavailable());
    assert!(chain(&error).contains("UNIQUE"), "{}", chain(&error));
    store.begin().unwrap();
    store.insert(&batch(&["c 1 1.0"])).unwrap();
    store.insert(&batch(&["d 1 1.0", "a 2 2.0"])).unwrap_err();
    store.insert(&batch(&["a 3 3.0"])).unwrap_err();
    store.insert(&batch(&["e 1 1.0"])).unwrap();
    store.commit(1, b"").unwrap();
    assert_eq!(setup.rows(), ["a 1 1.0", "c 1 1.0", "e 1 1.0"]);
}

// shows: store rdbms@sqlite resume
#[test]
fn an_epoch_is_one_commit_with_its_number_and_positions() {
    let setup = Setup::new();
    let mut store = setup.make(&[], &[]).unwrap();
    let mut second = setup.make(&[], &[("table.name", "U")]).unwrap();
    assert_eq!(store.last_epoch().unwrap(), None);
    for table in [&mut store, &mut second] {
        table.begin().unwrap();
        table.insert(&batch(&["a 1 1.0"])).unwrap();
    }
    assert!(setup.rows().is_empty(), "nothing is seen before the commit");
    store.commit(7, b"here").unwrap();
    store.insert(&batch(&["b 2 2.0"])).unwrap();
    // The other table's part of epoch 7 went with the first.
    second.commit(7, b"here").unwrap();
    assert_eq!(setup.rows(), ["a 1 1.0"]);
    assert_eq!(rows_of(&setup.path(), "SELECT id FROM U"), ["a"]);
    drop((store, second));

    // What had no commit is gone, as after a crash.
    let mut store = setup.make(&[], &[]).unwrap();
    assert_eq!(store.last_epoch().unwrap(), Some((7, b"here".to_vec())));
    assert_eq!(setup.rows(), ["a 1 1.0"]);
    store.begin().unwrap();
    store.insert(&batch(&["c 3 3.0"])).unwrap();
    store.abort().unwrap();
    store.insert(&batch(&["d 4 4.0"])).unwrap();
    assert_eq!(setup.rows(), ["a 1 1.0", "d 4 4.0"]);
}

#[test]
fn writes_can_be_gathered_without_a_number() {
    let setup = Setup::new();
    let mut store = setup.make(&[], &[]).unwrap();
    for id in ["a", "b"] {
        store.begin().unwrap();
        store.insert(&batch(&[&format!("{id} 1 1.0")])).unwrap();
        store.commit(0, b"").unwrap();
        store.commit(0, b"").unwrap();
    }
    assert_eq!(setup.rows(), ["a 1 1.0", "b 1 1.0"]);
    assert_eq!(store.last_epoch().unwrap(), None);
}

#[test]
fn an_existing_table_is_used_as_it_is() {
    let setup = Setup::new();
    let other = rusqlite::Connection::open(setup.path()).unwrap();
    other
        .execute_batch("CREATE TABLE T (ID TEXT, N INT, more TEXT, price REAL)")
        .unwrap();
    let mut store = setup.make(&[0], &[]).unwrap();
    store.insert(&batch(&["a 1 1.0"])).unwrap();
    // Without a unique key in the table an upsert takes the long way.
    let operation = update_or_insert(id_is(0));
    assert_eq!(
        written(run(store.as_mut(), &operation, &["a 2 2.0", "b 3 3.0"])),
        (1, 1, 0)
    );
    assert_eq!(setup.rows(), ["a 2 2.0", "b 3 3.0"]);
    other
        .execute_batch("CREATE TABLE W (id TEXT, n INT)")
        .unwrap();
    let error = setup.make(&[], &[("table.name", "W")]).err().unwrap();
    assert!(error.contains("'price'"), "{error}");
}

#[test]
fn names_and_values_cannot_leave_their_quotes() {
    let setup = Setup::new();
    let name = "x\"; DROP TABLE T; --";
    let mut store = setup.make(&[], &[("table.name", name)]).unwrap();
    store.insert(&typed(ROW, &["'); 1 1.0"])).unwrap();
    let find = operation(OperationKind::Find { on: Some(id_is(0)) }, &[Type::String]);
    let Answer::Rows { batch, .. } = run(store.as_mut(), &find, &["');"]) else {
        panic!("find gives rows")
    };
    assert_eq!(batch.len, 1);
}

#[test]
fn options_of_a_table() {
    let setup = Setup::new();
    let mut store = setup.make(&[], &[("field.length", "id:3")]).unwrap();
    store.insert(&batch(&["abc 1 1.0"])).unwrap();
    let error = store.insert(&batch(&["abcd 1 1.0"])).unwrap_err();
    assert!(chain(&error).contains("field.length"), "{}", chain(&error));
    for (name, bad) in [
        ("field.length", "id:x"),
        ("field.length", "no:3"),
        ("datasource", "D"),
    ] {
        assert!(setup.make(&[], &[(name, bad)]).is_err(), "{bad}");
    }
}

// shows: store rdbms@sqlite slow
#[test]
fn a_locked_database_is_waited_for() {
    let setup = Setup::new();
    let mut store = setup.make(&[], &[]).unwrap();
    let path = setup.path();
    let (locked, is_locked) = std::sync::mpsc::sync_channel(1);
    let (free, may_free) = std::sync::mpsc::sync_channel::<()>(1);
    let other = std::thread::spawn(move || {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection
            .execute_batch("BEGIN IMMEDIATE; INSERT INTO T VALUES ('other', 0, 0.0)")
            .unwrap();
        locked.send(()).unwrap();
        // Longer than SQLite waits by itself, so that the store must try again.
        may_free
            .recv_timeout(std::time::Duration::from_millis(700))
            .ok();
        connection.execute_batch("COMMIT").unwrap();
    });
    is_locked.recv().unwrap();
    store.insert(&batch(&["a 1 1.0"])).unwrap();
    drop(free);
    other.join().unwrap();
    assert_eq!(setup.rows(), ["other 0 0.0", "a 1 1.0"]);
}

/// A server that accepts connections and says nothing is named as that.
#[test]
fn a_look_at_a_server_that_is_silent_ends() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("an address").port();
    for kind in ["postgresql", "mysql", "mariadb"] {
        let url = format!("jdbc:{kind}://127.0.0.1:{port}/d");
        let target = super::url::parse(&url, "T", &Login::default()).expect("a URL");
        let super::url::Target::Server(mut server) = target else {
            panic!("a server");
        };
        server.connect_timeout = Duration::from_millis(300);
        let Err(error) = super::look(&super::url::Target::Server(server)) else {
            panic!("nobody answers");
        };
        let said = connect::error::chain(&error);
        assert!(said.ends_with("no answer within 300 ms"), "{kind}: {said}");
    }
}
