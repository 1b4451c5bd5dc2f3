//! Searches over stores that a test writes as an app does.

mod index;
mod requests;
mod same;

use std::path::Path;
use std::sync::Arc;

use connect::component::{Connector, Environment, SETTING_DIR, Setting, Store, StoreSetup};
use event::{Attribute, Batch, Chunks, Schema, Times, Type, Value};
use plan::store::{Operation, OperationKind, Term, TermKind};
use plan::{CompareOp, Table};
use serde_json::Value as Json;
use store::EVENT_STORE;

use crate::rest::{Call, Reply};
use crate::{Options, Search};

const COLUMNS: [(&str, Type); 8] = [
    ("k", Type::Int),
    ("title", Type::String),
    ("region", Type::String),
    ("n", Type::Int),
    ("size", Type::Long),
    ("rate", Type::Float),
    ("price", Type::Double),
    ("open", Type::Bool),
];

const SCHEMA: &str = "title -i, region -i -f, n -i -sp, size -i, rate -i, price -i -sp, open -i";

const DELETE: usize = 0;

fn table(name: &str, key: Vec<usize>, schema: &str) -> Table {
    let attributes = COLUMNS.iter().map(|(name, ty)| Attribute {
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
            options: vec![
                ("commit.interval".into(), "1 hour".into()),
                ("schema".into(), schema.into()),
                // What is found is the same; that it comes from the index, a test of its own shows.
                ("store.rows".into(), (schema == SCHEMA).to_string()),
            ],
            cache: None,
            selects: false,
            span: lang::span::Span::default(),
        }),
        span: lang::span::Span::default(),
    }
}

/// A table of a store, open for writing; closed, its rows are in files.
struct Writer {
    store: Box<dyn Store>,
    time: i64,
}

impl Writer {
    fn open(dir: &Path, table: &Table) -> Writer {
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
        let mut store = EVENT_STORE
            .store(&StoreSetup { table, environment })
            .expect("made");
        store.connect().expect("opened");
        let term = |kind| Term {
            ty: Type::Int,
            kind,
        };
        let column = Box::new(term(TermKind::Column(0)));
        let parameter = Box::new(term(TermKind::Parameter(0)));
        let on = Term {
            ty: Type::Bool,
            kind: TermKind::Compare(CompareOp::Equal, column, parameter),
        };
        let operation = Operation {
            table: 0,
            kind: OperationKind::Delete { on },
            parameters: vec![Type::Int],
        };
        store.prepare(DELETE, &operation).expect("prepared");
        Writer { store, time: 1_000 }
    }

    /// All of them in one commit; each is a second after the one before.
    fn insert(&mut self, rows: &[Vec<Value>]) {
        let columns = COLUMNS.iter().enumerate().map(|(at, (_, ty))| {
            let mut builder = event::ColumnBuilder::new(*ty);
            rows.iter().for_each(|row| builder.push(&row[at]));
            builder.finish()
        });
        let times: Vec<i64> = (0..rows.len() as i64)
            .map(|at| self.time + at * 1_000)
            .collect();
        self.time += rows.len() as i64 * 1_000;
        let batch = Batch::new(
            columns.collect(),
            rows.len(),
            Times::per_row(times),
            Chunks::One,
            0,
        );
        self.store.insert(&batch).expect("inserted");
        assert!(self.store.take_refused().is_empty());
    }

    fn delete(&mut self, k: i32) {
        let mut builder = event::ColumnBuilder::new(Type::Int);
        builder.push(&Value::Int(k));
        let batch = Batch::new(vec![builder.finish()], 1, Times::Same(1), Chunks::One, 1);
        self.store.execute(DELETE, &batch).expect("deleted");
    }

    fn close(mut self) {
        self.store.close().expect("closed");
    }
}

fn row(
    k: i32,
    title: Option<&str>,
    region: Option<&str>,
    n: Option<i32>,
    price: Option<f64>,
) -> Vec<Value> {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::str);
    vec![
        Value::Int(k),
        text(title),
        text(region),
        n.map_or(Value::Null, Value::Int),
        n.map_or(Value::Null, |n| Value::Long(i64::from(n) << 33)),
        price.map_or(Value::Null, |price| Value::Float(price as f32)),
        price.map_or(Value::Null, Value::Double),
        n.map_or(Value::Null, |n| Value::Bool(n % 2 == 0)),
    ]
}

/// Some books.
fn books() -> Vec<Vec<Value>> {
    [
        (1, "The quick brown fox", "Ulm,Mitte", 1, 2.5),
        (2, "A quick fox and a lazy dog", "Ulm,Ost", 2, 1.0),
        (3, "Foxes of the brown forest", "Berlin,Mitte", 3, 4.0),
        (4, "Lazy days", "Berlin,Mitte", 4, 8.0),
        (5, "quick, quick, quick!", "", 5, 16.0),
    ]
    .into_iter()
    .map(|(k, title, region, n, price)| row(k, Some(title), Some(region), Some(n), Some(price)))
    .collect()
}

fn search(dir: &Path) -> Search {
    Search::new(dir, Options::default()).expect("made")
}

/// What is answered to a request; `path` has the table in it, and what stands behind the question mark.
fn asked(
    search: &Search,
    verb: &'static str,
    route: &'static str,
    more: &[(&str, &str)],
    body: &str,
) -> (u16, Json) {
    let mut sent = Vec::new();
    let pairs = |is_path: bool| -> Vec<(String, String)> {
        let is_in = |name: &str| route.contains(&format!("{{{name}}}"));
        let own = more.iter().filter(|(name, _)| is_in(name) == is_path);
        own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let call = Call {
        verb,
        route,
        path: pairs(true),
        query: pairs(false),
        body: body.as_bytes().to_vec(),
    };
    let Reply { status, body } = search.answer(&call, &mut |block| {
        sent.extend(block);
        true
    });
    sent.extend(body);
    let text = String::from_utf8(sent).expect("a text");
    let json = serde_json::from_str(&text).unwrap_or(Json::String(text));
    (status, json)
}
