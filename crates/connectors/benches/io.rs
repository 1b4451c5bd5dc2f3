//! How fast rows go into SQLite and lines come out of a file: `cargo bench -p headwater-connect`.
//!
//! CPU time of this process is printed beside the wall clock, since machines are shared.

// What a bench has to say goes to standard output.
#![allow(clippy::print_stdout)]

use std::io::Write;
use std::time::Instant;

use connect::component::{Connector, Environment, StoreSetup};
use event::{Attribute, Batch, Chunks, Schema, Type, Value};
use headwater_connectors::file::lines::{End, LineReader, Step};
use headwater_connectors::rdbms::RDBMS;
use lang::span::Span;
use plan::{Store, Table};

/// Rows of one batch.
const BATCH: usize = 1024;

fn main() {
    let rows: usize = std::env::args()
        .filter_map(|a| a.parse().ok())
        .next()
        .unwrap_or(2_000_000);
    insert(
        rows,
        "etl",
        &[
            Type::String,
            Type::Double,
            Type::String,
            Type::String,
            Type::Long,
        ],
        &[],
    );
    insert(
        rows,
        "csv",
        &[
            Type::String,
            Type::Int,
            Type::Double,
            Type::String,
            Type::String,
        ],
        &[],
    );
    insert(
        rows / 4,
        "keyed",
        &[Type::String, Type::Int, Type::Double, Type::Long],
        &[0],
    );
    lines(rows * 5);
}

fn measure(name: &str, count: usize, unit: &str, work: impl FnOnce()) {
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    work();
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!(
        "{name}: {count} {unit}, {:.0}/s wall, {:.0}/s cpu, {:.0} ns each",
        count as f64 / wall,
        count as f64 / cpu,
        cpu * 1e9 / count as f64
    );
}

/// User and system time so far, from the kernel's count of ticks.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .expect("a name")
        .split_whitespace()
        .collect();
    let ticks: f64 =
        fields[11].parse::<f64>().expect("utime") + fields[12].parse::<f64>().expect("stime");
    ticks / 100.0
}

fn insert(rows: usize, name: &str, types: &[Type], key: &[usize]) {
    let directory = tempfile::tempdir().expect("a directory");
    let attributes = types
        .iter()
        .enumerate()
        .map(|(i, ty)| Attribute {
            name: format!("c{i}"),
            ty: *ty,
        })
        .collect();
    let schema = Schema {
        name: "T".into(),
        attributes,
    };
    let url = format!("jdbc:sqlite:{}/data.db", directory.path().display());
    let table = Table {
        schema: schema.clone(),
        primary_key: key.to_vec(),
        indexes: Vec::new(),
        index_details: Vec::new(),
        store: Some(Store {
            ty: "rdbms".into(),
            options: vec![("jdbc.url".into(), url)],
            cache: None,
            selects: true,
            span: Span::default(),
        }),
        span: Span::default(),
    };
    let environment = Environment::new("A");
    let mut store = RDBMS
        .store(&StoreSetup {
            table: &table,
            environment: &environment,
        })
        .expect("a store");
    store.connect().expect("a database");
    let batches: Vec<Batch> = (0..rows / BATCH)
        .map(|i| batch(&schema, i * BATCH))
        .collect();
    measure(
        &format!("insert {name}"),
        rows / BATCH * BATCH,
        "rows",
        || {
            for (i, batch) in batches.iter().enumerate() {
                store.begin().expect("an epoch");
                store.insert(batch).expect("rows go in");
                if i % 500 == 499 {
                    store.commit(1 + i as u64, b"").expect("a commit");
                }
            }
            store.commit(u64::MAX >> 1, b"").expect("a commit");
        },
    );
}

fn batch(schema: &Schema, first: usize) -> Batch {
    let rows: Vec<(i64, Vec<Value>)> = (first..first + BATCH)
        .map(|row| {
            let value = |(i, attribute): (usize, &Attribute)| match attribute.ty {
                Type::String if i == 0 => Value::str(&format!("k{:08}", row * 7919 % 100_000_007)),
                Type::String if i == 2 => Value::str("/data/accurate-files/batch-0001.csv"),
                Type::String => Value::str("test"),
                Type::Int => Value::Int(row as i32),
                Type::Long => Value::Long(1_700_000_000_000 + row as i64),
                _ => Value::Double(row as f64 * 0.25),
            };
            (0, schema.attributes.iter().enumerate().map(value).collect())
        })
        .collect();
    Batch::from_rows(schema, &rows, Chunks::EachRow, 0)
}

fn lines(rows: usize) {
    let mut file = tempfile::tempfile().expect("a file");
    let mut block = Vec::new();
    for row in 0..rows {
        writeln!(block, "HD|{:08}|{:07.2}", row, (row % 10_000) as f64).expect("memory");
        if block.len() > 1 << 20 {
            file.write_all(&block).expect("disk");
            block.clear();
        }
    }
    file.write_all(&block).expect("disk");
    let bytes = file.metadata().expect("a file").len() as usize;
    let mut reader = LineReader::new(file, 0, 1, End::Mark).expect("a file");
    measure("blocks of lines", bytes, "bytes", || {
        let mut text = 0;
        while let Step::Block(block) = reader.read_step().expect("a file") {
            text += std::str::from_utf8(reader.block(&block))
                .expect("text")
                .len();
        }
        assert_eq!(text, bytes);
    });
}
