use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::*;
use crate::definition::sample;

fn add(definition: &crate::definition::Definition, path: &str) -> Add {
    Add {
        path: path.to_owned(),
        size: 7,
        time: 1,
        stats: Stats::new(definition),
        range: Some((Key::from(&b"\x01a"[..]), Key::from(&b"\x01z"[..]))),
        cluster: vec![3, 0],
        crc: Some(5),
    }
}

fn txn(version: i64) -> Txn {
    Txn {
        app: "store".into(),
        version,
    }
}

fn made() -> (tempfile::TempDir, DeltaLog, Arc<Snapshot>) {
    let dir = tempfile::tempdir().expect("a folder");
    let table = dir.path().join("trades");
    fs::create_dir(&table).expect("made");
    let log = DeltaLog::new(&table);
    let snapshot = log.create(&sample(vec![0])).expect("made");
    (dir, log, snapshot)
}

fn commit(dir: &Path, version: u64) -> PathBuf {
    dir.join(format!("trades/_delta_log/{version:020}.json"))
}

fn paths(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.files.keys().map(String::as_str).collect()
}

#[test]
fn a_table_is_what_its_commits_say() {
    let (_dir, log, empty) = made();
    assert_eq!((empty.version, &*empty.definition), (0, &sample(vec![0])));
    let of = |path| add(&empty.definition, path);
    let one = log
        .overwrite(&empty, &[of("a"), of("b")], &[], Some(&txn(3)))
        .expect("appended");
    let two = log
        .overwrite(&one, &[of("c d%")], &["a".into()], Some(&txn(4)))
        .expect("replaced");
    let read = log.snapshot().expect("read");
    assert_eq!(
        (read.version, read.txn("store"), read.txn("other")),
        (2, Some(4), None)
    );
    assert_eq!(paths(&read), ["b", "c d%"]);
    assert_eq!(read.files, two.files);
    assert!(read.removed.contains_key("a"));
    let three = log
        .overwrite(&two, &[], &["b".into()], None)
        .expect("removed");
    assert_eq!(paths(&three), ["c d%"]);
    assert_eq!(log.newer(&empty).expect("read").files, three.files);
}

#[test]
fn a_commit_never_takes_the_place_of_another() {
    let (_dir, log, empty) = made();
    let of = |path| add(&empty.definition, path);
    log.overwrite(&empty, &[of("a")], &[], Some(&txn(1)))
        .expect("appended");
    let late = log.overwrite(&empty, &[of("b")], &[], Some(&txn(2)));
    assert!(matches!(late, Err(Error::Conflict(_))), "{late:?}");
    assert_eq!(paths(&log.snapshot().expect("read")), ["a"]);
}

#[test]
fn a_checkpoint_says_the_same_as_the_commits_before_it() {
    let (dir, log, empty) = made();
    let mut snapshot = empty;
    for version in 1..=120i64 {
        let removes: Vec<String> = snapshot
            .files
            .keys()
            .take(usize::from(version % 3 == 0))
            .cloned()
            .collect();
        let fresh = add(&snapshot.definition, &format!("part-{version:03}"));
        snapshot = log
            .overwrite(&snapshot, &[fresh], &removes, Some(&txn(version)))
            .expect("written");
    }
    let last = fs::read_to_string(dir.path().join("trades/_delta_log/_last_checkpoint"))
        .expect("there is one");
    let last: Json = serde_json::from_str(&last).expect("JSON");
    assert_eq!(last["version"], 100);
    for version in 0..100 {
        fs::remove_file(commit(dir.path(), version)).expect("it is there");
    }
    let read = log.snapshot().expect("read");
    assert_eq!((read.version, read.txn("store")), (120, Some(120)));
    assert_eq!(read.files, snapshot.files);
    assert_eq!(read.definition, snapshot.definition);
    assert_eq!(
        read.removed.keys().collect::<Vec<_>>(),
        snapshot.removed.keys().collect::<Vec<_>>()
    );
    // A checkpoint that has changed is not used, and without its commits nothing else can be.
    let path = dir
        .path()
        .join(format!("trades/_delta_log/{:020}.checkpoint.parquet", 100));
    let mut bytes = fs::read(&path).expect("the file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("written");
    assert!(matches!(log.snapshot(), Err(Error::Damaged { .. })));
}

#[test]
fn a_commit_of_ours_that_has_changed_is_found() {
    let (dir, log, empty) = made();
    let of = |path| add(&empty.definition, path);
    log.overwrite(&empty, &[of("a")], &[], Some(&txn(1)))
        .expect("appended");
    let path = commit(dir.path(), 1);
    let good = fs::read(&path).expect("the commit");
    let want = log.snapshot().expect("read");
    let (mut refused, mut same) = (0, 0);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 7);
        fs::write(&path, bad).expect("written");
        match log.snapshot() {
            Err(_) => refused += 1,
            // What the line about the commit says of its time counts for nothing.
            Ok(read) => {
                assert_eq!(
                    (&read.files, read.txn("store")),
                    (&want.files, want.txn("store")),
                    "byte {at}"
                );
                same += 1;
            }
        }
    }
    assert!(
        refused > good.len() * 3 / 4 && same < 100,
        "{refused} refused, {same} the same"
    );
    for len in 1..good.len() - 1 {
        fs::write(&path, &good[..len]).expect("written");
        assert!(log.snapshot().is_err(), "cut at {len}");
    }
}

#[test]
fn commits_of_other_programs_are_read_and_what_is_too_new_is_refused() {
    let (dir, log, empty) = made();
    let write = |version: u64, action: Json| {
        let info = json!({"commitInfo": {"engineInfo": "Apache-Spark/4.2.0"}});
        fs::write(commit(dir.path(), version), format!("{info}\n{action}\n")).expect("written");
    };
    write(
        1,
        json!({"add": {"path": "a%20b.parquet", "size": 9, "partitionValues": {}, "modificationTime": 3,
            "dataChange": true, "stats": "{\"numRecords\":2,\"maxValues\":{\"volume\":9},\"minValues\":{\"volume\":-1}}"}}),
    );
    let read = log.newer(&empty).expect("read");
    let file = &read.files["a b.parquet"];
    assert_eq!((file.stats.rows, file.size, file.crc), (2, 9, None));
    assert!(
        file.range.is_none() && file.stats.bounds(1).is_some() && file.stats.bounds(2).is_none()
    );
    for action in [
        json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []}}),
        json!({"add": {"path": "x", "size": 1, "deletionVector": {"storageType": "u"}}}),
        json!({"add": {"path": "../../x", "size": 1}}),
        json!({"add": {"path": "/etc/x", "size": 1}}),
        json!({"add": {"size": 1}}),
    ] {
        write(2, action.clone());
        assert!(log.newer(&read).is_err(), "{action}");
    }
}

#[test]
fn files_that_no_version_names_go_after_a_time_of_grace() {
    let (dir, log, empty) = made();
    let table = dir.path().join("trades");
    let of = |path| add(&empty.definition, path);
    for name in [
        "part-a.parquet",
        "part-b.parquet",
        "part-c.parquet",
        "other.parquet",
    ] {
        fs::write(table.join(name), "x").expect("written");
    }
    let old = std::time::SystemTime::now() - local::GRACE * 2;
    let age = |name: &str| {
        let file = fs::File::options().write(true).open(table.join(name));
        file.and_then(|file| file.set_modified(old)).expect("aged");
    };
    let one = log
        .overwrite(
            &empty,
            &[of("part-a.parquet"), of("part-b.parquet")],
            &[],
            None,
        )
        .expect("written");
    ["part-a.parquet", "part-b.parquet", "other.parquet"]
        .into_iter()
        .for_each(age);
    let two = log
        .overwrite(&one, &[], &["part-b.parquet".into()], None)
        .expect("removed");
    // Taken out just now, never put in just now, and not ours.
    assert_eq!(log.vacuum(&two, GRACE, false).expect("done").files, 0);
    age("part-c.parquet");
    let mut later = (*two).clone();
    let time = crate::clock::millis() - 2 * local::GRACE.as_millis() as i64;
    later.removed.insert("part-b.parquet".into(), time);
    assert_eq!(log.vacuum(&later, GRACE, false).expect("done").files, 2);
    assert!(table.join("part-a.parquet").exists() && table.join("other.parquet").exists());
}
