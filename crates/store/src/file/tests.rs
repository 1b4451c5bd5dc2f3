use std::fs;
use std::sync::Arc;

use event::value::Shared;
use event::{Batch, Chunks, Object, Value};

use super::*;
use crate::definition::{Definition, sample};
use crate::delta::Add;
use crate::error::Error;
use crate::layer::Layer;
use crate::layout::Layout;

/// Rows with each type at its ends, and nulls.
fn rows() -> Vec<Vec<Value>> {
    let map = Object::Map(Shared::new(vec![(Value::str("k"), Value::Int(1))]));
    vec![
        vec![
            Value::str("𝄞 é"),
            Value::Long(i64::MIN),
            Value::Double(f64::NAN),
            Value::Int(i32::MAX),
            Value::Bool(true),
            Value::Float(f32::MIN_POSITIVE),
            Value::Object(map),
        ],
        vec![Value::Null; 7],
        vec![
            Value::str(&"long ".repeat(100)),
            Value::Long(i64::MAX),
            Value::Double(f64::NEG_INFINITY),
            Value::Int(i32::MIN),
            Value::Bool(false),
            Value::Float(f32::NAN),
            Value::Object(Object::Bytes(Arc::from(&b"\x00\xff"[..]))),
        ],
        vec![
            Value::str(""),
            Value::Long(0),
            Value::Double(-0.0),
            Value::Int(0),
            Value::Null,
            Value::Float(-1.5),
            Value::Null,
        ],
    ]
}

fn write(dir: &std::path::Path, definition: &Arc<Definition>) -> Add {
    let layout = Layout {
        indexed: vec![0, 1, 3],
        ..Layout::default()
    };
    let values: Vec<(i64, Vec<Value>)> = rows()
        .into_iter()
        .enumerate()
        .map(|(at, row)| (at as i64 + 5, row))
        .collect();
    let change = crate::change::Change {
        deleted_ids: Vec::new(),
        deleted_keys: Vec::new(),
        ids: (10..14).collect(),
        rows: Batch::from_rows(&definition.schema, &values, Chunks::One, 0),
    };
    let mut layer = Layer::new(definition);
    layer.apply(&change, 0);
    let mut writer = FileWriter::create(dir, definition, &layout, false).expect("created");
    for row in 0..4 {
        writer.push(&layer.rows(), row).expect("written");
    }
    writer.finish().expect("written")
}

fn read(files: &Files, add: &Add) -> Result<Vec<(u64, i64, Vec<Value>)>, Error> {
    let mut found = Vec::new();
    files.scan(add, None, &mut |part| {
        let rows = part.rows();
        found.extend((0..rows.len()).map(|row| (rows.ids[row], rows.times[row], rows.row(row))));
        Ok(true)
    })?;
    Ok(found)
}

#[test]
fn every_value_comes_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = Arc::new(sample(vec![]));
    let add = write(dir.path(), &definition);
    let files = Files::new(dir.path(), &definition);
    let back = read(&files, &add).expect("whole");
    for (at, ((id, time, row), want)) in back.iter().zip(rows()).enumerate() {
        assert_eq!((*id, *time), (10 + at as u64, 5 + at as i64));
        // Maps are equal where they are the same one; their text tells.
        let text =
            |row: &[Value]| -> Vec<String> { row.iter().map(event::text::to_text).collect() };
        assert_eq!(text(row), text(&want));
        assert!(row[..6].iter().zip(&want).all(|(a, b)| a.ty() == b.ty()));
    }
    assert_eq!(back.len(), 4);
    // NaN leaves a column without bounds, and objects have none.
    assert!(
        [2, 5, 6]
            .iter()
            .all(|column| add.stats.bounds(*column).is_none())
    );
    assert_eq!(
        add.stats.bounds(1),
        Some((&Value::Long(i64::MIN), &Value::Long(i64::MAX)))
    );
    assert_eq!(add.stats.ids(), Some((10, 13)));
}

#[test]
fn an_index_rules_out_what_is_not_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = Arc::new(sample(vec![]));
    let add = write(dir.path(), &definition);
    let files = Files::new(dir.path(), &definition);
    let may_have = |column: usize, value: Value| {
        let prune = Prune {
            may_hold: &|_| true,
            equal: vec![(column, value)],
        };
        let mut parts = files.parts(&add, Some(&prune)).expect("opened");
        parts.next().expect("read").is_some()
    };
    // These have their bounds around them, which therefore cannot rule them out.
    for (column, value) in [
        (0, Value::str("m")),
        (1, Value::Long(17)),
        (3, Value::Int(17)),
    ] {
        assert!(!may_have(column, value.clone()), "{value:?}");
    }
    for row in rows() {
        for column in [0, 1, 3] {
            let value = row[column].clone();
            assert!(
                value.is_null() || may_have(column, value.clone()),
                "{value:?}"
            );
        }
    }
    assert!(may_have(2, Value::Double(17.0)), "it has no index");
}

#[test]
fn a_byte_that_has_changed_is_found_wherever_it_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let definition = Arc::new(sample(vec![]));
    let add = write(dir.path(), &definition);
    let path = dir.path().join(&add.path);
    let good = fs::read(&path).expect("the file");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, bad).expect("written");
        let files = Files::new(dir.path(), &definition);
        assert!(
            matches!(read(&files, &add), Err(Error::Damaged { .. })),
            "byte {at}"
        );
    }
    for len in [0, 1, good.len() / 2, good.len() - 1] {
        fs::write(&path, &good[..len]).expect("written");
        let files = Files::new(dir.path(), &definition);
        let error = read(&files, &add).expect_err("it is cut").to_string();
        assert!(error.contains("4 rows"), "{error}");
    }
    fs::remove_file(&path).expect("removed");
    let error = read(&Files::new(dir.path(), &definition), &add).expect_err("it is gone");
    assert!(
        error.to_string().contains("the file is gone, with 4 rows"),
        "{error}"
    );
}
