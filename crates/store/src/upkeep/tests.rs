use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use connect::component::{Connector as _, Environment, SETTING_DIR, Setting, StoreSetup};
use event::{Attribute, Batch, Chunks, ColumnBuilder, Schema, Times, Type, Value};

use super::*;
use crate::batch::Mode;
use crate::definition::Definition;
use crate::{EVENT_STORE, reader};

/// Each row is a second behind the one before, from here on.
const BEGIN: i64 = 1_000_000;

fn definition(name: &str, key: Vec<usize>) -> Definition {
    let attributes = [("k", Type::String), ("v", Type::Long)];
    let attributes = attributes.iter().map(|(name, ty)| Attribute {
        name: (*name).to_owned(),
        ty: *ty,
    });
    let schema = Schema {
        name: name.into(),
        attributes: attributes.collect(),
    };
    Definition::new(name, schema, key).expect("plain names")
}

fn time(row: i64) -> i64 {
    BEGIN + row * 1000
}

/// One file with these rows, in another order than that of their times.
fn put(store: &EventStore, definition: &Definition, rows: std::ops::Range<i64>) {
    let mut order: Vec<i64> = rows.collect();
    order.sort_by_key(|row| (row % 3, *row));
    let keys = StringArray::from_iter_values(order.iter().map(|row| format!("{row:05}")));
    let values = Int64Array::from_iter_values(order.iter().copied());
    let times = Int64Array::from_iter_values(order.iter().map(|row| time(*row)));
    let columns: [ArrayRef; 2] = [Arc::new(keys), Arc::new(values)];
    let mut writer = store.batch(definition).expect("a table");
    writer.push(&columns, Some(&times)).expect("it fits");
    writer.commit(Mode::Append).expect("committed");
}

/// The rows of a table, each of which is there once.
fn rows(reader: &reader::Reader, table: &str) -> BTreeSet<i64> {
    let all = reader.rows(table).expect("a table");
    let rows: BTreeSet<i64> = (0..all.len)
        .map(|at| match &all.row(at)[..] {
            [Value::Str(key), Value::Long(value)] if **key == format!("{value:05}") => *value,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(rows.len(), all.len);
    rows
}

fn now(dir: &Path, table: &str) -> BTreeSet<i64> {
    rows(&reader::Reader::open(dir).expect("a store"), table)
}

fn names(names: &[&str]) -> Names {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Names::new(&names).expect("patterns")
}

fn purge(store: &EventStore, table: &str, before: i64) -> Purged {
    let mut all = Vec::new();
    store
        .purge(&names(&[table]), before, &Watch::NONE, &mut |_, purged| {
            all.push(*purged)
        })
        .expect("purged");
    assert_eq!(all.len(), 1);
    all[0]
}

fn dry(dir: &Path, table: &str, before: i64) -> Purged {
    let mut all = Vec::new();
    purgeable(
        dir,
        &names(&[table]),
        before,
        &Watch::NONE,
        &mut |_, purged| all.push(*purged),
    )
    .expect("read");
    all[0]
}

#[test]
fn whole_files_go_and_those_at_the_border_are_written_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    for key in [vec![], vec![0]] {
        let table = if key.is_empty() { "plain" } else { "keyed" };
        let definition = definition(table, key);
        let store = EventStore::open(dir.path()).expect("a store");
        for begin in [0, 100, 200] {
            put(&store, &definition, begin..begin + 100);
        }
        let before = reader::Reader::open(dir.path()).expect("a store");
        let wanted = dry(dir.path(), table, time(150));
        assert_eq!(
            (wanted.rows, now(dir.path(), table).len()),
            (150, 300),
            "{table}"
        );
        let purged = purge(&store, table, time(150));
        let left: BTreeSet<i64> = (150..300).collect();
        assert_eq!(now(dir.path(), table), left, "{table}");
        assert_eq!(
            Purged {
                version: wanted.version + 1,
                ..wanted
            },
            purged
        );
        if table == "plain" {
            assert_eq!((purged.files, purged.rewritten), (1, 1));
        }
        // A reader that was there before still has all rows, and has them after a vacuum.
        store
            .vacuum(&names(&[]), GRACE, false, &mut |_, vacuumed| {
                assert_eq!(vacuumed.files, 0)
            })
            .expect("vacuumed");
        assert_eq!(rows(&before, table), (0..300).collect());
        let again = purge(&store, table, time(150));
        assert_eq!(
            (again.rows, again.files, again.rewritten, again.version),
            (0, 0, 0, purged.version)
        );
        drop(store);
        // Nothing comes back from the log, and the table takes rows as before.
        let store = EventStore::open(dir.path()).expect("a store");
        assert_eq!(now(dir.path(), table), left);
        put(&store, &definition, 300..400);
        assert_eq!(purge(&store, table, time(1_000)).rows, 250);
        assert_eq!(now(dir.path(), table), BTreeSet::new());
        put(&store, &definition, 400..410);
        assert_eq!(now(dir.path(), table), (400..410).collect());
    }
    let verified = verify(dir.path(), &Watch::NONE).expect("read");
    assert_eq!((verified.damage, verified.rows), (Vec::new(), 20));
}

#[test]
fn versions_are_listed_and_copied() {
    let place = tempfile::tempdir().expect("a folder");
    let dir = place.path().join("data");
    let plain = definition("plain", Vec::new());
    let store = EventStore::open(&dir).expect("a store");
    put(&store, &plain, 0..100);
    put(&store, &plain, 100..200);
    purge(&store, "plain", time(50));
    let all = versions(&dir, "PLAIN").expect("a table");
    let told: Vec<(u64, &str, u64, u64)> = all
        .iter()
        .map(|v| (v.version, v.operation.as_str(), v.added, v.removed))
        .collect();
    assert_eq!(
        told,
        [
            (0, "CREATE TABLE", 0, 0),
            (1, "WRITE", 1, 0),
            (2, "WRITE", 1, 0),
            (3, "DELETE", 1, 1)
        ]
    );
    for (version, want) in [
        (None, 50..200),
        (Some(2), 0..200),
        (Some(1), 0..100),
        (Some(0), 0..0),
    ] {
        let to = place.path().join(format!("{version:?}"));
        let mut copied = Vec::new();
        copy(&dir, &names(&[]), version, &to, &Watch::NONE, &mut |c| {
            copied.push(c.clone())
        })
        .expect("copied");
        assert_eq!(now(&to, "plain"), want.clone().collect(), "{version:?}");
        assert_eq!(copied[0].rows, (want.end - want.start) as u64);
        // It is a store of its own, whose rows have other numbers than those that come.
        let copy = EventStore::open(&to).expect("a store");
        put(&copy, &plain, 500..510);
        assert_eq!(now(&to, "plain").len(), copied[0].rows as usize + 10);
        assert_eq!(verify(&to, &Watch::NONE).expect("read").damage, []);
    }
    let refused = |version, to: &str| {
        let to = place.path().join(to);
        let refused = copy(&dir, &names(&[]), version, &to, &Watch::NONE, &mut |_| {});
        refused.expect_err("refused").to_string()
    };
    assert!(refused(Some(4), "x").contains("has no version 4: the newest is 3"));
    assert!(refused(None, "None").contains("is not empty"));
    // What a vacuum has removed is no longer there to be copied.
    let mut freed = Vec::new();
    store
        .vacuum(&names(&["plain"]), Duration::ZERO, true, &mut |_, v| {
            freed.push(*v)
        })
        .expect("counted");
    assert_eq!((freed[0].files, freed[0].kept), (1, 0));
    store
        .vacuum(&names(&["plain"]), Duration::ZERO, false, &mut |_, v| {
            freed.push(*v)
        })
        .expect("vacuumed");
    assert_eq!(freed[0], freed[1]);
    assert!(
        refused(Some(2), "y").contains("is damaged"),
        "{}",
        refused(Some(2), "z")
    );
    assert_eq!(now(&dir, "plain"), (50..200).collect());
}

#[test]
fn versions_before_a_checkpoint_are_read_from_it() {
    let place = tempfile::tempdir().expect("a folder");
    let dir = place.path().join("data");
    let plain = definition("plain", Vec::new());
    let store = EventStore::open(&dir).expect("a store");
    for row in 0..130 {
        put(&store, &plain, row..row + 1);
    }
    drop(store);
    let log = dir.join("tables/plain/_delta_log");
    let path = |version: u64, end: &str| log.join(format!("{version:020}.{end}"));
    assert!(path(50, "checkpoint.parquet").exists() && path(100, "checkpoint.parquet").exists());
    // As after a day.
    for version in 0..50 {
        fs::remove_file(path(version, "json")).expect("removed");
    }
    let table = dir.join("tables/plain");
    let count = |version| {
        let at = Table::at(&table, version).map(|table| table.view().snapshot);
        at.map(|at| at.files.values().map(|add| add.stats.rows).sum::<u64>())
    };
    let operations = versions(&dir, "plain").expect("a table");
    let first = operations.first().expect("one").version;
    assert_eq!(first, 50);
    // A compaction takes versions, and adds no rows.
    let at_70 = count(70).expect("read");
    assert!((60..=70).contains(&at_70), "{at_70}");
    assert_eq!(
        count(operations.last().expect("one").version).expect("read"),
        130
    );
    assert!(
        count(49)
            .expect_err("gone")
            .to_string()
            .contains("begins with version 50")
    );
    // A checkpoint that is damaged is not believed.
    let checkpoint = path(50, "checkpoint.parquet");
    let len = fs::metadata(&checkpoint).expect("a file").len();
    let mut told = 0;
    for at in (0..len).step_by(usize::try_from(len / 60).expect("it fits")) {
        let bytes = flip(&checkpoint, at);
        match count(70) {
            Ok(rows) => assert_eq!(rows, at_70, "byte {at}"),
            Err(_) => told += 1,
        }
        fs::write(&checkpoint, bytes).expect("written");
    }
    assert!(told > 10, "{told}");
}

fn only_file(dir: &Path, table: &str) -> PathBuf {
    let entries = fs::read_dir(dir.join("tables").join(table)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files = paths.filter(|path| path.extension().is_some_and(|end| end == "parquet"));
    let file = files.next().expect("a file");
    assert!(files.next().is_none());
    file
}

fn flip(path: &Path, at: u64) -> Vec<u8> {
    let bytes = fs::read(path).expect("read");
    let mut other = bytes.clone();
    let at = usize::try_from(at).expect("it fits") % other.len();
    other[at] ^= 0x10;
    fs::write(path, other).expect("written");
    bytes
}

#[test]
fn damage_is_named_with_its_rows() {
    let place = tempfile::tempdir().expect("a folder");
    let dir = place.path();
    let store = EventStore::open(dir).expect("a store");
    for table in ["one", "two"] {
        put(&store, &definition(table, Vec::new()), 0..100);
    }
    drop(store);
    let check = |path: &Path, table: Option<&str>, says: &str| {
        for at in [0, 40, 1 << 20, u64::MAX / 3] {
            let bytes = flip(path, at);
            let found = verify(dir, &Watch::NONE).expect("read");
            let [damage] = &found.damage[..] else {
                panic!("{path:?} at {at}: {:?}", found.damage);
            };
            assert_eq!(damage.table.as_deref(), table);
            assert!(damage.message.contains(says), "{damage:?}");
            if says == "its bytes have changed" && path.extension().is_some_and(|e| e == "parquet")
            {
                assert_eq!(damage.path, path);
                assert_eq!(
                    (damage.rows, damage.times),
                    (Some(100), Some((time(0), time(99))))
                );
                assert!(damage.ids.is_some());
                // The neighbour was read.
                assert_eq!((found.files, found.rows), (2, 100));
            }
            fs::write(path, bytes).expect("written");
        }
    };
    check(
        &only_file(dir, "two"),
        Some("two"),
        "its bytes have changed",
    );
    let commit = dir
        .join("tables/one/_delta_log")
        .join(format!("{:020}.json", 1));
    let bytes = flip(&commit, 300);
    let found = verify(dir, &Watch::NONE).expect("read").damage;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].path.as_path(), found[0].table.as_deref()),
        (commit.as_path(), Some("one"))
    );
    fs::write(&commit, bytes).expect("written");
    let file = only_file(dir, "one");
    let aside = dir.join("aside");
    fs::rename(&file, &aside).expect("moved");
    let found = verify(dir, &Watch::NONE).expect("read").damage;
    assert!(
        found[0].message.contains("the file is gone, with 100 rows"),
        "{found:?}"
    );
    fs::rename(&aside, &file).expect("moved");
    assert_eq!(verify(dir, &Watch::NONE).expect("read").damage, []);
    fs::write(dir.join("incremental.json"), "{").expect("written");
    assert_eq!(verify(dir, &Watch::NONE).expect("read").damage.len(), 1);
    assert!(verify(&dir.join("tables"), &Watch::NONE).is_err());
}

/// A table of an app, whose rows stay in memory.
fn of_app(dir: &Path) -> Box<dyn connect::component::Store> {
    let table = plan::Table {
        schema: definition("app", Vec::new()).schema,
        primary_key: Vec::new(),
        indexes: Vec::new(),
        index_details: Vec::new(),
        store: Some(plan::Store {
            ty: "eventstore".into(),
            options: vec![("commit.interval".into(), "1 hour".into())],
            cache: None,
            selects: false,
            span: lang::span::Span::default(),
        }),
        span: lang::span::Span::default(),
    };
    let environment = Environment {
        settings: Arc::from([Setting {
            namespace: "store".into(),
            name: "eventstore".into(),
            key: SETTING_DIR.into(),
            value: dir.display().to_string(),
        }]),
        ..Environment::new("A")
    };
    let setup = StoreSetup {
        table: &table,
        environment: &environment,
    };
    let mut store = EVENT_STORE.store(&setup).expect("made");
    store.connect().expect("opened");
    // What the tests purge is in the store that the app has open.
    store
}

fn events(rows: std::ops::Range<i64>) -> Batch {
    let (mut keys, mut values) = (
        ColumnBuilder::new(Type::String),
        ColumnBuilder::new(Type::Long),
    );
    for row in rows.clone() {
        keys.push_str(&format!("{row:05}"));
        values.push_long(row);
    }
    let times: Vec<i64> = rows.clone().map(time).collect();
    let len = times.len();
    let columns = vec![keys.finish(), values.finish()];
    Batch::new(columns, len, Times::per_row(times), Chunks::One, 0)
}

#[test]
fn rows_of_the_log_go_too_and_a_dry_run_counts_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut app = of_app(dir.path());
    app.insert(&events(0..100)).expect("inserted");
    let wanted = dry(dir.path(), "app", time(60));
    assert_eq!((wanted.rows, wanted.in_memory), (0, 60));
    app.close().expect("closed");
    drop(app);
    // Not in files yet, as after a kill: the log alone has them.
    let store = EventStore::open(dir.path()).expect("a store");
    assert_eq!(purge(&store, "app", time(60)).rows, 60);
    assert_eq!(now(dir.path(), "app"), (60..100).collect());
    assert_eq!(
        dry(dir.path(), "app", time(60)),
        Purged {
            version: 2,
            ..Purged::default()
        }
    );
    drop(store);
    assert_eq!(now(dir.path(), "app"), (60..100).collect());
    // A copy has what the log alone has.
    let mut app = of_app(dir.path());
    app.insert(&events(100..120)).expect("inserted");
    let to = tempfile::tempdir().expect("a folder");
    copy(
        dir.path(),
        &names(&["app"]),
        None,
        to.path(),
        &Watch::NONE,
        &mut |_| {},
    )
    .expect("copied");
    assert_eq!(now(to.path(), "app"), (60..120).collect());
    let about = about(dir.path()).expect("a store");
    assert_eq!((about[0].rows, about[0].rows_of_log), (40, 20));
    assert_eq!(about[0].times, Some((time(60), time(99))));
}

#[test]
fn a_table_takes_rows_while_it_is_purged() {
    let dir = tempfile::tempdir().expect("a folder");
    let plain = definition("plain", Vec::new());
    let store = EventStore::open(dir.path()).expect("a store");
    let is_done = AtomicBool::new(false);
    let mut border = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for begin in 0..60 {
                put(&store, &plain, begin * 10..begin * 10 + 10);
            }
            is_done.store(true, Ordering::Release);
        });
        let mut gone = 0;
        while !is_done.load(Ordering::Acquire) || border < 300 {
            border = (border + 7).min(300);
            // The table is made by the other thread.
            if store.shared().tables().contains_key("plain") {
                gone += purge(&store, "plain", time(border)).rows;
            }
        }
        gone += purge(&store, "plain", time(300)).rows;
        assert_eq!(gone, 300);
    });
    assert_eq!(now(dir.path(), "plain"), (300..600).collect());
    assert_eq!(verify(dir.path(), &Watch::NONE).expect("read").damage, []);
}

#[test]
fn what_was_stopped_or_means_no_table_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = EventStore::open(dir.path()).expect("a store");
    put(&store, &definition("plain", Vec::new()), 0..100);
    let stopped = Watch {
        is_stopped: &|| true,
        note: &|_, _| {},
    };
    let refused = store.purge(&names(&[]), time(50), &stopped, &mut |_, _| {});
    assert!(
        refused
            .expect_err("stopped")
            .to_string()
            .contains("stopped")
    );
    let refused = store.purge(&names(&["plane"]), time(50), &Watch::NONE, &mut |_, _| {});
    assert!(refused.expect_err("none").to_string().contains("no table"));
    assert_eq!(now(dir.path(), "plain").len(), 100);
    // Only the first of two rows a tenth of a retention apart is old enough to write their file anew.
    // The thread of an open store would look at the retention by the clock.
    drop(store);
    let table = Table::open(&dir.path().join("tables/plain"), None).expect("a table");
    table.lock().retention = Some(Duration::from_secs(100));
    let at = |row: i64| time(row) + 100_000;
    assert_eq!(table.retain(at(5)).expect("looked"), None);
    let purged = table.retain(at(11)).expect("looked").expect("old rows");
    assert_eq!((purged.rows, purged.rewritten), (11, 1));
    assert_eq!(table.retain(at(20)).expect("looked"), None);
    let purged = table.retain(at(100)).expect("looked").expect("old rows");
    assert_eq!((purged.rows, purged.files, purged.rewritten), (89, 1, 0));
}
