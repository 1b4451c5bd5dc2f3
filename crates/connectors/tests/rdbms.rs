//! Tables in real databases: every kind of value into SQLite, MariaDB and PostgreSQL, compared by the
//! client that each database brings; operations that mean the same in all of them; servers that go
//! away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use connect::component::{Answer, Connector, Environment, Store, StoreSetup, Written};
use event::{Attribute, Batch, Chunks, Object, Schema, Type, Value};
use headwater_connectors::rdbms::RDBMS;
use lang::span::Span;
use plan::store::{Operation, OperationKind, Term, TermKind};
use plan::{ArithmeticOp, CompareOp, Constant, Store as Annotation, Table};
use testservers::odd::{DOUBLES, FLOATS, INTS, LONGS, TEXTS, characters};
use testservers::{Order, Running};

// ---- databases ----

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sqlite,
    MariaDb,
    MySql,
    Postgres,
}

impl Kind {
    /// Do they speak the same SQL?
    fn is_mysql(self) -> bool {
        matches!(self, Kind::MariaDb | Kind::MySql)
    }
}

/// A database, and its own client.
struct Database {
    kind: Kind,
    url: String,
    server: Option<Running>,
    _directory: Option<tempfile::TempDir>,
}

impl Database {
    fn sqlite() -> Database {
        let directory = tempfile::tempdir().unwrap();
        Database {
            kind: Kind::Sqlite,
            url: format!("jdbc:sqlite:{}/data.db", directory.path().display()),
            server: None,
            _directory: Some(directory),
        }
    }

    fn server(kind: Kind, order: &Order) -> Option<Database> {
        let name = match kind {
            Kind::Postgres => "postgres",
            Kind::MySql => "mysql",
            _ => "mariadb",
        };
        let server = order.start_or_skip(name)?;
        Some(Database {
            kind,
            url: server.endpoint(),
            server: Some(server),
            _directory: None,
        })
    }

    /// All that this machine has.
    fn all() -> Vec<Database> {
        let servers = [Kind::MariaDb, Kind::MySql, Kind::Postgres];
        let servers = servers
            .iter()
            .filter_map(|kind| Database::server(*kind, &Order::new()));
        std::iter::once(Database::sqlite()).chain(servers).collect()
    }

    fn port(&self) -> String {
        self.server.as_ref().unwrap().port().to_string()
    }

    /// Runs SQL by the database's own client: a line for each row, columns between tabs.
    #[track_caller]
    fn ask(&self, sql: &str) -> Vec<String> {
        let server = match self.kind {
            Kind::Sqlite => None,
            Kind::MariaDb | Kind::MySql => Some("mariadb"),
            Kind::Postgres => Some("postgres"),
        };
        let text = match server {
            Some(server) => {
                let port = self.port().parse().expect("a port");
                testservers::sql(server, port, sql)
            }
            None => {
                let path = self.url.strip_prefix("jdbc:sqlite:").unwrap();
                let args = ["-separator", "\t", "-nullvalue", "NULL", path, sql];
                testservers::run(Command::new("sqlite3").args(args))
            }
        };
        let text = text.unwrap_or_else(|error| panic!("{:?}: {sql}: {error}", self.kind));
        text.lines().map(str::to_owned).collect()
    }

    fn store(&self, table: &Table) -> Box<dyn Store> {
        let environment = Environment::new("A");
        let setup = StoreSetup {
            table,
            environment: &environment,
        };
        let mut store = RDBMS
            .store(&setup)
            .unwrap_or_else(|e| panic!("{}", chain(&e)));
        store.connect().unwrap_or_else(|e| panic!("{}", chain(&e)));
        store
    }

    fn table(&self, schema: Schema, key: &[usize], options: &[(&str, &str)]) -> Table {
        let own = [("jdbc.url", self.url.as_str())];
        // Those of the test come first, and so count.
        let options = options.iter().chain(&own);
        Table {
            schema,
            primary_key: key.to_vec(),
            indexes: Vec::new(),
            index_details: Vec::new(),
            store: Some(Annotation {
                ty: "rdbms".into(),
                options: options.map(|(k, v)| ((*k).into(), (*v).into())).collect(),
                cache: None,
                selects: true,
                span: Span::default(),
            }),
            span: Span::default(),
        }
    }
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

fn schema(name: &str, attributes: &[(&str, Type)]) -> Schema {
    let attributes = attributes.iter().map(|(name, ty)| Attribute {
        name: (*name).into(),
        ty: *ty,
    });
    Schema {
        name: name.into(),
        attributes: attributes.collect(),
    }
}

fn batch(schema: &Schema, rows: &[Vec<Value>]) -> Batch {
    let rows: Vec<(i64, Vec<Value>)> = rows.iter().map(|row| (0, row.clone())).collect();
    Batch::from_rows(schema, &rows, Chunks::One, 0)
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Object(Object::Bytes(bytes.into()))
}

// ---- every value ----

const EVERY: [(&str, Type); 8] = [
    ("id", Type::Int),
    ("s", Type::String),
    ("i", Type::Int),
    ("l", Type::Long),
    ("f", Type::Float),
    ("d", Type::Double),
    ("b", Type::Bool),
    ("o", Type::Object),
];

/// Rows that differ from a plain one in one value each, odd values in turn.
fn odd_rows(kind: Kind, with_nulls: bool) -> Vec<Vec<Value>> {
    let plain = [
        Value::Int(0),
        Value::str("plain"),
        Value::Int(1),
        Value::Long(2),
        Value::Float(0.5),
        Value::Double(0.25),
        Value::Bool(true),
        bytes(b"o"),
    ];
    let mut odd: Vec<(usize, Value)> = Vec::new();
    odd.extend(TEXTS.iter().map(|text| (1, Value::str(text))));
    odd.extend(characters().map(|text| (1, Value::str(&text))));
    odd.push((1, Value::str(&('\u{1}'..='\u{fe}').collect::<String>())));
    odd.extend(INTS.map(|v| (2, Value::Int(v))));
    odd.extend(LONGS.map(|v| (3, Value::Long(v))));
    odd.extend(FLOATS.map(|v| (4, Value::Float(v))));
    odd.extend(DOUBLES.map(|v| (5, Value::Double(v))));
    if !kind.is_mysql() {
        odd.extend([f32::INFINITY, f32::NEG_INFINITY].map(|v| (4, Value::Float(v))));
        odd.extend([f64::INFINITY, f64::NEG_INFINITY].map(|v| (5, Value::Double(v))));
    }
    if kind == Kind::Postgres {
        odd.extend([(4, Value::Float(f32::NAN)), (5, Value::Double(f64::NAN))]);
    }
    odd.push((6, Value::Bool(false)));
    odd.extend((0..=255u8).map(|byte| (7, bytes(&[byte]))));
    odd.push((7, bytes(&(0..=255).collect::<Vec<u8>>())));
    odd.push((7, bytes(b"")));
    odd.push((1, Value::Null));
    if with_nulls {
        odd.extend((2..=7).map(|column| (column, Value::Null)));
    }
    let rows = odd.into_iter().enumerate().map(|(id, (column, value))| {
        let mut row = plain.to_vec();
        row[0] = Value::Int(id as i32);
        row[column] = value;
        row
    });
    rows.collect()
}

/// A query that says every value without a doubt.
fn every_query(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => {
            "SELECT id, CASE WHEN s IS NULL THEN 'NULL' ELSE hex(s) END, i, l, printf('%!.17e', f), \
             printf('%!.17e', d), b, CASE WHEN o IS NULL THEN 'NULL' ELSE hex(o) END, f IS NULL, \
             d IS NULL FROM E ORDER BY id"
        }
        Kind::MariaDb | Kind::MySql => {
            "SELECT id, HEX(s), i, l, CAST(f AS DOUBLE), d, b, HEX(o), f IS NULL, d IS NULL FROM E \
             ORDER BY id"
        }
        Kind::Postgres => {
            "SELECT id, upper(encode(convert_to(s, 'UTF8'), 'hex')), i, l, f::float8, d, b::int, \
             upper(encode(o, 'hex')), (f IS NULL)::int, (d IS NULL)::int FROM E ORDER BY id"
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Does a line of the client say this row?
fn check_line(kind: Kind, line: &str, row: &[Value]) -> Result<(), String> {
    let fields: Vec<&str> = line.split('\t').collect();
    if fields.len() != row.len() + 2 {
        return Err(format!("{} fields", fields.len()));
    }
    for (index, value) in row.iter().enumerate() {
        let field = fields[index];
        let real = |wanted: f64| {
            if fields[index + 4] == "1" {
                return false;
            }
            let found: f64 = match field {
                "Inf" | "+Inf" => f64::INFINITY,
                "-Inf" => f64::NEG_INFINITY,
                field => field.parse().unwrap(),
            };
            let is_near = kind == Kind::Sqlite && (found / wanted - 1.0).abs() < 1e-14
                || found == 0.0 && wanted == 0.0;
            is_near || found.is_nan() && wanted.is_nan() || found.to_bits() == wanted.to_bits()
        };
        let is_same = match value {
            Value::Null if index == 4 || index == 5 => fields[index + 4] == "1",
            Value::Null => field == "NULL",
            Value::Bool(v) => field == if *v { "1" } else { "0" },
            Value::Int(v) => field == v.to_string(),
            Value::Long(v) => field == v.to_string(),
            Value::Float(v) => real(f64::from(*v)),
            Value::Double(v) => real(*v),
            Value::Str(v) => field == hex(v.as_bytes()),
            Value::Object(Object::Bytes(v)) => field == hex(v),
            Value::Object(_) => false,
        };
        if !is_same {
            return Err(format!(
                "column {}: '{field}' for {value:?}",
                EVERY[index].0
            ));
        }
    }
    Ok(())
}

// shows: store rdbms@mariadb+mysql+postgres bad
#[test]
fn every_value_arrives_as_it_is_in_every_database() {
    for database in Database::all() {
        for allows_null in [false, true] {
            let schema = schema("E", &EVERY);
            let allows = allows_null.to_string();
            let options = [
                ("allow.null.values", allows.as_str()),
                ("field.length", "s:2000"),
            ];
            if allows_null {
                database.ask("DROP TABLE E");
            }
            let mut store = database.store(&database.table(schema.clone(), &[0], &options));
            let rows = odd_rows(database.kind, allows_null);
            // As many at once as goes the bulk way, then few at a time, which do not.
            let (many, few) = rows.split_at(rows.len() / 2);
            let mut plain_rows = few.to_vec();
            plain_rows.reverse();
            store
                .insert(&batch(&schema, many))
                .unwrap_or_else(|e| panic!("{}", chain(&e)));
            for rows in plain_rows.chunks(3) {
                store
                    .insert(&batch(&schema, rows))
                    .unwrap_or_else(|e| panic!("{}", chain(&e)));
            }
            let lines = database.ask(every_query(database.kind));
            assert_eq!(lines.len(), rows.len(), "{:?}", database.kind);
            for (line, row) in lines.iter().zip(&rows) {
                check_line(database.kind, line, row)
                    .unwrap_or_else(|cause| panic!("{:?}: {cause}: {line}", database.kind));
            }
            check_read_back(store.as_mut(), &schema, &rows, database.kind);
        }
    }
}

/// What the app reads is what it wrote.
fn check_read_back(store: &mut dyn Store, schema: &Schema, rows: &[Vec<Value>], kind: Kind) {
    let find = operation(OperationKind::Find { on: None }, &[]);
    store.prepare(0, &find).unwrap();
    let one = Batch::from_rows(&Schema::default(), &[(0, Vec::new())], Chunks::One, 0);
    let Answer::Rows { batch, .. } = store.execute(0, &one).unwrap() else {
        panic!("find gives rows")
    };
    assert_eq!(batch.len, rows.len());
    let mut found: Vec<Vec<Value>> = (0..batch.len).map(|row| batch.row(row)).collect();
    found.sort_by_key(|row| match row[0] {
        Value::Int(id) => id,
        _ => 0,
    });
    for (found, row) in found.iter().zip(rows) {
        for (index, (found, wanted)) in found.iter().zip(row).enumerate() {
            let is_same = match (found, wanted) {
                (Value::Object(Object::Bytes(a)), Value::Object(Object::Bytes(b))) => a == b,
                (Value::Float(a), Value::Float(b)) => a == b || a.is_nan() && b.is_nan(),
                (Value::Double(a), Value::Double(b)) => a == b || a.is_nan() && b.is_nan(),
                (a, b) => a == b,
            };
            let name = &schema.attributes[index].name;
            assert!(is_same, "{kind:?}: column {name}: {found:?} for {wanted:?}");
        }
    }
}

// ---- what is refused ----

// shows: store rdbms@mariadb+mysql+postgres bad
#[test]
fn what_a_database_cannot_hold_is_refused_by_the_columns_name() {
    for database in Database::all() {
        let schema = schema("E", &EVERY);
        let mut store = database.store(&database.table(schema.clone(), &[0], &[]));
        let mut next = 0;
        let mut refused = |column: usize, value: Value, rows: usize| {
            let plain = odd_rows(database.kind, false).swap_remove(0);
            let all = (0..rows).map(|row| {
                let mut all = plain.clone();
                next += 1;
                all[0] = Value::Int(next);
                if row == rows / 2 {
                    all[column] = value.clone();
                }
                all
            });
            let error = store.insert(&batch(&schema, &all.collect::<Vec<_>>()));
            error.map_err(|e| {
                assert!(!e.is_unavailable(), "{e}");
                chain(&e)
            })
        };
        for rows in [1, 3, 60] {
            let says = |result: Result<(), String>, part: &str| {
                let said = result.expect_err("it must be refused");
                assert!(said.contains(part), "{:?}: {said}", database.kind);
            };
            let long = "x".repeat(300);
            if database.kind != Kind::Sqlite {
                let part = match database.kind {
                    Kind::MariaDb | Kind::MySql => "column 's'",
                    _ => "character varying(254)",
                };
                says(refused(1, Value::str(&long), rows), part);
            }
            if database.kind != Kind::Postgres {
                says(refused(5, Value::Double(f64::NAN), rows), "'d'");
            }
            if database.kind.is_mysql() {
                says(refused(4, Value::Float(f32::INFINITY), rows), "'f'");
                says(refused(7, bytes(&vec![0; 70_000]), rows), "column 'o'");
            }
            if database.kind == Kind::Postgres {
                says(refused(1, Value::str("a\0b"), rows), "'s'");
            }
            says(refused(2, Value::Null, rows), "'i'");
        }
        let count = database.ask("SELECT count(*) FROM E");
        assert_eq!(
            count,
            ["0"],
            "{:?}: a chunk is stored whole or not at all",
            database.kind
        );
        // A key that is there already.
        let plain = odd_rows(database.kind, false).swap_remove(0);
        let rows: Vec<Vec<Value>> = vec![plain.clone(); 40];
        let error = store.insert(&batch(&schema, &rows)).unwrap_err();
        assert!(!error.is_unavailable());
        store.insert(&batch(&schema, &[plain])).unwrap();
        assert_eq!(database.ask("SELECT count(*) FROM E"), ["1"]);
    }
}

// shows: store rdbms@mariadb+mysql+postgres open
#[test]
fn options_of_tables_on_servers() {
    for kind in [Kind::MariaDb, Kind::MySql, Kind::Postgres] {
        let Some(database) = Database::server(kind, &Order::new()) else {
            continue;
        };
        let own = schema("T", &[("order", Type::String), ("Name", Type::String)]);
        let options = [
            ("field.length", "order:10,Name:20000"),
            ("use.collation", "true"),
            ("table.check.query", "SELECT 1 FROM no_such_table"),
        ];
        let mut store = database.store(&database.table(own.clone(), &[0], &options));
        store
            .insert(&batch(&own, &[vec![Value::str("a"), Value::str("b")]]))
            .unwrap();
        let columns = database.ask(
            "SELECT lower(column_name), lower(data_type), coalesce(lower(collation_name), '') \
             FROM information_schema.columns WHERE lower(table_name) = 't' ORDER BY ordinal_position",
        );
        let expect = match kind {
            Kind::MariaDb | Kind::MySql => {
                ["order\tvarchar\tlatin1_bin", "name\tlongtext\tlatin1_bin"]
            }
            _ => ["order\tcharacter varying\t", "name\tcharacter varying\t"],
        };
        assert_eq!(columns, expect, "{kind:?}");
        // The query says that there is none again; that the table is there is no fault.
        database.store(&database.table(own.clone(), &[0], &options));

        // A table that another program made, with types of its own, in a schema of its own.
        let create = match kind {
            Kind::MariaDb | Kind::MySql => {
                "CREATE DATABASE shop; CREATE TABLE shop.sales (id BIGINT, amount DECIMAL(9,2), \
                 at DATETIME, paid BIT(1), more TEXT)"
            }
            _ => {
                "CREATE SCHEMA shop; CREATE TABLE shop.sales (id INT8, amount NUMERIC(9,2), \
                 at TIMESTAMP, paid BOOL, more TEXT)"
            }
        };
        database.ask(create);
        let attributes = [
            ("id", Type::Int),
            ("amount", Type::Double),
            ("at", Type::String),
            ("paid", Type::Bool),
        ];
        let sales = schema("Sales", &attributes);
        let table = database.table(sales.clone(), &[], &[("table.name", "shop.sales")]);
        let mut store = database.store(&table);
        let row = vec![
            Value::Int(1),
            Value::Double(12.5),
            Value::str("2026-01-02 03:04:05"),
            Value::Bool(true),
        ];
        for rows in [1, 50] {
            store
                .insert(&batch(&sales, &vec![row.clone(); rows]))
                .unwrap();
        }
        check_read_back(store.as_mut(), &sales, &vec![row; 51], kind);
        let other = schema("Sales", &[("nothing", Type::Int)]);
        let table = database.table(other, &[], &[("table.name", "shop.sales")]);
        let environment = Environment::new("A");
        let setup = StoreSetup {
            table: &table,
            environment: &environment,
        };
        let error = RDBMS.store(&setup).unwrap().connect().unwrap_err();
        assert!(chain(&error).contains("'nothing'"), "{}", chain(&error));
    }
}

// shows: store rdbms@mariadb+mysql+postgres login
#[test]
fn a_login_that_is_refused_is_no_outage() {
    for kind in [Kind::MariaDb, Kind::MySql, Kind::Postgres] {
        let Some(database) = Database::server(kind, &Order::new()) else {
            continue;
        };
        let table = |options: &[(&str, &str)]| {
            let table = database.table(schema("T", &[("id", Type::Int)]), &[], options);
            let environment = Environment::new("A");
            let setup = StoreSetup {
                table: &table,
                environment: &environment,
            };
            RDBMS.store(&setup).unwrap().connect()
        };
        let login = [("username", "headwater"), ("password", "s3cret")];
        let error = table(&login).unwrap_err();
        assert!(!error.is_unavailable(), "{kind:?}: {}", chain(&error));
        assert!(!chain(&error).contains("s3cret"), "{}", chain(&error));
        let nobody = database.url.replace(&database.port(), "1");
        let error = table(&[("jdbc.url", &nobody)]).unwrap_err();
        assert!(error.is_unavailable(), "{kind:?}: {}", chain(&error));
        assert!(!chain(&error).contains("password"), "{}", chain(&error));
    }
}

// ---- operations ----

fn operation(kind: OperationKind, parameters: &[Type]) -> Operation {
    Operation {
        table: 0,
        kind,
        parameters: parameters.to_vec(),
    }
}

fn term(ty: Type, kind: TermKind) -> Term {
    Term { ty, kind }
}

const ROW: [(&str, Type); 4] = [
    ("id", Type::String),
    ("n", Type::Int),
    ("price", Type::Double),
    ("ok", Type::Bool),
];

fn column(index: usize) -> Box<Term> {
    Box::new(term(ROW[index].1, TermKind::Column(index)))
}

fn parameter(index: usize, ty: Type) -> Box<Term> {
    Box::new(term(ty, TermKind::Parameter(index)))
}

fn compare(op: CompareOp, left: Box<Term>, right: Box<Term>) -> Term {
    term(Type::Bool, TermKind::Compare(op, left, right))
}

fn arithmetic(op: ArithmeticOp, ty: Type, left: Box<Term>, right: Box<Term>) -> Box<Term> {
    Box::new(term(ty, TermKind::Arithmetic(op, left, right)))
}

fn int(value: i32) -> Box<Term> {
    Box::new(term(Type::Int, TermKind::Constant(Constant::Int(value))))
}

fn id_is(index: usize) -> Term {
    compare(CompareOp::Equal, column(0), parameter(index, Type::String))
}

fn row(id: &str, n: Option<i32>, price: f64, ok: bool) -> Vec<Value> {
    let n = n.map_or(Value::Null, Value::Int);
    vec![Value::str(id), n, Value::Double(price), Value::Bool(ok)]
}

/// A store and the operations that tests run on it.
struct Table1 {
    store: Box<dyn Store>,
    count: usize,
}

impl Table1 {
    fn run(&mut self, kind: OperationKind, types: &[Type], rows: &[Vec<Value>]) -> Answer {
        let operation = operation(kind, types);
        self.store
            .prepare(self.count, &operation)
            .unwrap_or_else(|e| panic!("{}", chain(&e)));
        let names: Vec<(&str, Type)> = types.iter().map(|ty| ("p", *ty)).collect();
        let batch = batch(&schema("P", &names), rows);
        let answer = self.store.execute(self.count, &batch);
        self.count += 1;
        answer.unwrap_or_else(|e| panic!("{}", chain(&e)))
    }

    fn written(&mut self, kind: OperationKind, types: &[Type], rows: &[Vec<Value>]) -> [u64; 3] {
        let Answer::Written(Written {
            inserted,
            updated,
            deleted,
        }) = self.run(kind, types, rows)
        else {
            panic!("a write answers with counts")
        };
        [inserted, updated, deleted]
    }

    fn ids(&mut self, on: Term, types: &[Type], parameters: &[Value]) -> Vec<String> {
        let answer = self.run(
            OperationKind::Find { on: Some(on) },
            types,
            &[parameters.to_vec()],
        );
        let Answer::Rows { batch, .. } = answer else {
            panic!("find gives rows")
        };
        let mut ids: Vec<String> = (0..batch.len)
            .map(|row| event::text::to_text(&batch.columns[0].value(row)).to_string())
            .collect();
        ids.sort();
        ids
    }
}

// shows: store rdbms@mariadb+mysql+postgres order
#[test]
fn operations_mean_the_same_in_every_database() {
    const ALL: [Type; 4] = [Type::String, Type::Int, Type::Double, Type::Bool];
    for database in Database::all() {
        let kind = database.kind;
        // With a key, an upsert is one statement; without, it takes two.
        for (name, key) in [("Keyed", &[0usize][..]), ("Plain", &[])] {
            let schema = schema(name, &ROW);
            let options = [("allow.null.values", "true")];
            let mut table = Table1 {
                store: database.store(&database.table(schema, key, &options)),
                count: 0,
            };
            let insert = [
                row("a", Some(1), 1.5, true),
                row("b", None, 2.5, false),
                row("C", Some(-7), -0.5, true),
            ];
            let inserted = table.run(OperationKind::Insert, &ALL, &insert);
            assert!(
                matches!(inserted, Answer::Written(w) if w.inserted == 3),
                "{kind:?}"
            );

            let n = |op| compare(op, column(1), parameter(0, Type::Int));
            let not = |inner: Term| term(Type::Bool, TermKind::Not(Box::new(inner)));
            let mut check = |on: Term, value: Value, expect: &[&str]| {
                let found = table.ids(on.clone(), &[Type::Int], &[value]);
                assert_eq!(found, expect, "{kind:?}: {on:?}");
            };
            check(n(CompareOp::Equal), Value::Int(1), &["a"]);
            check(n(CompareOp::NotEqual), Value::Int(1), &["C", "b"]);
            check(not(n(CompareOp::Equal)), Value::Int(1), &["C", "b"]);
            check(n(CompareOp::NotEqual), Value::Null, &["C", "a", "b"]);
            check(n(CompareOp::GreaterEqual), Value::Null, &[]);
            check(not(*column(3)), Value::Int(0), &["b"]);
            check(*column(3), Value::Int(0), &["C", "a"]);
            let null = term(Type::Bool, TermKind::IsNull(column(1)));
            check(null, Value::Int(0), &["b"]);
            let half = arithmetic(ArithmeticOp::Divide, Type::Int, column(1), int(2));
            check(
                compare(CompareOp::Equal, half, int(-3)),
                Value::Int(0),
                &["C"],
            );
            let rest = arithmetic(ArithmeticOp::Modulo, Type::Int, column(1), int(4));
            check(
                compare(CompareOp::Equal, rest, int(-3)),
                Value::Int(0),
                &["C"],
            );
            let zero = arithmetic(ArithmeticOp::Divide, Type::Int, column(1), int(0));
            check(
                term(Type::Bool, TermKind::IsNull(zero)),
                Value::Int(0),
                &["C", "a", "b"],
            );

            let contains = table.run(
                OperationKind::Contains { on: id_is(0) },
                &[Type::String],
                &[
                    vec![Value::str("b")],
                    vec![Value::str("x'")],
                    vec![Value::Null],
                ],
            );
            assert!(matches!(&contains, Answer::Contains(found) if *found == [true, false, false]));

            let add = arithmetic(
                ArithmeticOp::Add,
                Type::Int,
                column(1),
                parameter(1, Type::Int),
            );
            let update = OperationKind::Update {
                set: vec![(1, *add)],
                on: id_is(0),
            };
            let add = |id: &str, n: i32| vec![Value::str(id), Value::Int(n)];
            let types = [Type::String, Type::Int];
            let rows = [add("a", 1), add("a", 10), add("no", 1), add("C", 0)];
            assert_eq!(table.written(update, &types, &rows), [0, 3, 0], "{kind:?}");

            let set = vec![
                (1, *parameter(1, Type::Int)),
                (2, *parameter(2, Type::Double)),
            ];
            let upsert = OperationKind::UpdateOrInsert { set, on: id_is(0) };
            let rows = [
                row("b", Some(5), 5.0, true),
                row("d", Some(6), 6.0, false),
                row("d", Some(7), 7.0, true),
                row("o'\\x", None, 8.0, true),
            ];
            assert_eq!(
                table.written(upsert, &ALL, &rows),
                [2, 2, 0],
                "{kind:?} {name}"
            );
            let add = arithmetic(
                ArithmeticOp::Add,
                Type::Int,
                column(1),
                parameter(1, Type::Int),
            );
            let upsert = OperationKind::UpdateOrInsert {
                set: vec![(1, *add)],
                on: id_is(0),
            };
            let rows = [
                row("d", Some(100), 6.0, false),
                row("e", Some(1), 9.0, false),
                row("e", Some(1), 9.0, false),
            ];
            assert_eq!(
                table.written(upsert, &ALL, &rows),
                [1, 2, 0],
                "{kind:?} {name}"
            );

            let delete = OperationKind::Delete { on: id_is(0) };
            let rows = [vec![Value::str("C")], vec![Value::str("C")]];
            assert_eq!(
                table.written(delete, &[Type::String], &rows),
                [0, 0, 1],
                "{kind:?}"
            );
            let lines = database.ask(&format!("SELECT id, n, price FROM {name} ORDER BY id"));
            let lines: Vec<String> = lines.iter().map(|line| line.replace(".0", "")).collect();
            let id = if kind.is_mysql() { "o'\\\\x" } else { "o'\\x" };
            let last = format!("{id}\tNULL\t8");
            assert_eq!(
                lines,
                ["a\t12\t1.5", "b\t5\t5", "d\t107\t7", "e\t2\t9", &last],
                "{kind:?} {name}"
            );
        }
    }
}

// ---- epochs, and servers that go away ----

fn ids(schema: &Schema, ids: &[i32]) -> Batch {
    let rows: Vec<Vec<Value>> = ids.iter().map(|id| vec![Value::Int(*id)]).collect();
    batch(schema, &rows)
}

// shows: store rdbms@mariadb+mysql+postgres resume
#[test]
fn an_epoch_is_one_commit_and_a_lost_server_loses_only_what_was_not_committed() {
    for kind in [Kind::MariaDb, Kind::MySql, Kind::Postgres] {
        let Some(mut database) = Database::server(kind, &Order::new()) else {
            continue;
        };
        let schema = schema("T", &[("id", Type::Int)]);
        let table = database.table(schema.clone(), &[], &[]);
        let mut store = database.store(&table);
        assert_eq!(store.last_epoch().unwrap(), None);
        store.begin().unwrap();
        store.insert(&ids(&schema, &[1, 2])).unwrap();
        assert_eq!(database.ask("SELECT count(*) FROM T"), ["0"]);
        store.commit(7, b"here\x00").unwrap();
        store.commit(7, b"here\x00").unwrap();
        assert_eq!(database.ask("SELECT count(*) FROM T"), ["2"]);

        // In the middle of an epoch.
        store.insert(&ids(&schema, &[3])).unwrap();
        database.server.as_mut().unwrap().kill();
        let begin = std::time::Instant::now();
        let error = store.insert(&ids(&schema, &[4])).unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(begin.elapsed().as_secs() < 5);
        assert!(store.has_lost());
        store.abort().unwrap();
        assert!(store.begin().unwrap_err().is_unavailable());
        database.server.as_mut().unwrap().restart().unwrap();
        store.begin().unwrap();
        store.insert(&ids(&schema, &[3, 4])).unwrap();
        store.commit(8, b"there").unwrap();

        // Between two epochs nothing is lost.
        database.server.as_mut().unwrap().kill();
        database.server.as_mut().unwrap().restart().unwrap();
        assert!(
            store
                .insert(&ids(&schema, &[5]))
                .unwrap_err()
                .is_unavailable()
        );
        assert!(!store.has_lost());
        store.connect().unwrap();
        store.insert(&ids(&schema, &[5])).unwrap();
        store.commit(9, b"there").unwrap();
        assert_eq!(store.last_epoch().unwrap(), Some((9, b"there".to_vec())));
        let found = database.ask("SELECT id FROM T ORDER BY id");
        assert_eq!(found, ["1", "2", "3", "4", "5"], "{kind:?}");
    }
}
