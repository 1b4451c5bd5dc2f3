//! Statements over stores that a test writes as an app does.

mod answers;
mod errors;
mod formats;
mod limits;
mod postgres;
mod pruning;
mod scripts;
mod texts;

use std::path::Path;
use std::sync::Arc;

use connect::component::{Connector, Environment, SETTING_DIR, Setting, Store, StoreSetup};
use event::{Attribute, Batch, Chunks, Object, Schema, Times, Type, Value};
use plan::store::{Operation, OperationKind, Term, TermKind};
use plan::{CompareOp, Table};
use serde_json::Value as Json;
use store::EVENT_STORE;
use store::reader::Reader;

use crate::{Engine, Error, Format, Limits};

/// Every type of column; `Price` has a capital letter.
const COLUMNS: [(&str, Type); 7] = [
    ("k", Type::Int),
    ("name", Type::String),
    ("Price", Type::Double),
    ("volume", Type::Long),
    ("rate", Type::Float),
    ("open", Type::Bool),
    ("extra", Type::Object),
];

const UPSERT: usize = 0;
const DELETE: usize = 1;

pub(super) fn table(name: &str, columns: &[(&str, Type)], key: Vec<usize>) -> Table {
    let attributes = columns.iter().map(|(name, ty)| Attribute {
        name: (*name).to_owned(),
        ty: *ty,
    });
    Table {
        schema: Schema {
            name: name.into(),
            attributes: attributes.collect(),
        },
        primary_key: key,
        indexes: Vec::new(),
        index_details: Vec::new(),
        store: Some(plan::Store {
            ty: "eventstore".into(),
            // Rows become files when a test closes the table, and not before.
            options: vec![("commit.interval".into(), "1 hour".into())],
            cache: None,
            selects: false,
            span: lang::span::Span::default(),
        }),
        span: lang::span::Span::default(),
    }
}

/// A table of a store, open for writing; closed, its rows are in files.
pub(super) struct Writer {
    store: Box<dyn Store>,
    columns: Vec<Type>,
}

impl Writer {
    pub fn open(dir: &Path, table: &Table) -> Writer {
        let environment = Environment {
            settings: Arc::from([Setting {
                namespace: "store".into(),
                name: "eventstore".into(),
                key: SETTING_DIR.into(),
                value: dir.display().to_string(),
            }]),
            ..Environment::new("A")
        };
        let environment = &environment;
        let setup = StoreSetup { table, environment };
        let mut store = EVENT_STORE.store(&setup).expect("made");
        store.connect().expect("opened");
        let columns: Vec<Type> = table.schema.attributes.iter().map(|a| a.ty).collect();
        let term = |ty, kind| Term { ty, kind };
        let by_first = |parameter| {
            let column = term(columns[0], TermKind::Column(0));
            let parameter = term(columns[0], TermKind::Parameter(parameter));
            let kind = TermKind::Compare(CompareOp::Equal, Box::new(column), Box::new(parameter));
            term(Type::Bool, kind)
        };
        let set = (1..columns.len()).map(|at| (at, term(columns[at], TermKind::Parameter(at))));
        let upsert = OperationKind::UpdateOrInsert {
            set: set.collect(),
            on: by_first(0),
        };
        let delete = OperationKind::Delete { on: by_first(0) };
        for (id, kind, parameters) in [
            (UPSERT, upsert, columns.clone()),
            (DELETE, delete, vec![columns[0]]),
        ] {
            let operation = Operation {
                table: 0,
                kind,
                parameters,
            };
            store.prepare(id, &operation).expect("prepared");
        }
        Writer { store, columns }
    }

    fn batch(types: &[Type], rows: &[Vec<Value>]) -> Batch {
        let columns = types.iter().enumerate().map(|(at, ty)| {
            let mut builder = event::ColumnBuilder::new(*ty);
            rows.iter().for_each(|row| builder.push(&row[at]));
            builder.finish()
        });
        let columns = columns.collect();
        Batch::new(columns, rows.len(), Times::Same(1_000), Chunks::One, 1_000)
    }

    /// All of them in one commit.
    pub fn insert(&mut self, rows: &[Vec<Value>]) {
        let batch = Writer::batch(&self.columns, rows);
        self.store.insert(&batch).expect("inserted");
        assert!(self.store.take_refused().is_empty(), "{rows:?}");
    }

    pub fn upsert(&mut self, rows: &[Vec<Value>]) {
        let batch = Writer::batch(&self.columns, rows);
        self.store.execute(UPSERT, &batch).expect("written");
    }

    pub fn delete(&mut self, key: Value) {
        let batch = Writer::batch(&self.columns[..1], &[vec![key]]);
        self.store.execute(DELETE, &batch).expect("written");
    }

    pub fn close(mut self) {
        self.store.close().expect("closed");
    }
}

pub(super) fn row(k: i32) -> Vec<Value> {
    vec![
        Value::Int(k),
        Value::str(&format!("n{}", k % 10)),
        Value::Double(f64::from(k) / 4.0),
        Value::Long(i64::from(k) << 33),
        Value::Float(k as f32 / 10.0),
        Value::Bool(k % 2 == 0),
        Value::Object(Object::Bytes(format!("{{\"k\":{k}}}").into_bytes().into())),
    ]
}

pub(super) fn engine() -> Engine {
    Engine::new(Limits::default()).expect("threads")
}

/// The whole answer.
pub(super) fn bytes(
    engine: &Engine,
    dir: &Path,
    sql: &str,
    format: Format,
) -> Result<Vec<u8>, Error> {
    let mut answer = engine.ask(dir, sql, format);
    let mut all = Vec::new();
    while let Some(block) = answer.blocking_recv() {
        all.extend_from_slice(&block?.bytes);
    }
    Ok(all)
}

pub(super) fn asked(engine: &Engine, dir: &Path, sql: &str) -> Json {
    let answer = bytes(engine, dir, sql, Format::Json);
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let json: Json = serde_json::from_slice(&answer).expect("JSON");
    json["records"].clone()
}

/// The rows of a table as the store's own reader has them, as JSON.
pub(super) fn read(dir: &Path, table: &str) -> Json {
    let rows = Reader::open(dir)
        .expect("a store")
        .rows(table)
        .expect("a table");
    let json = |value: &Value| match value {
        Value::Null => Json::Null,
        Value::Bool(v) => Json::from(*v),
        Value::Int(v) => Json::from(*v),
        Value::Long(v) => Json::from(*v),
        Value::Float(v) => Json::from(v.to_string().parse::<f64>().expect("a number")),
        Value::Double(v) => Json::from(*v),
        Value::Object(Object::Bytes(bytes)) => Json::from(String::from_utf8_lossy(bytes)),
        Value::Object(object) => {
            let json = connect::object::to_json(object);
            Json::from(String::from_utf8_lossy(&json))
        }
        other => Json::from(event::text::to_text(other)),
    };
    (0..rows.len)
        .map(|at| rows.row(at).iter().map(json).collect::<Json>())
        .collect()
}
