use std::sync::atomic::{AtomicUsize, Ordering};

use event::{Batch, Chunks, Column, Times, Type};

use super::*;
use crate::change::{Change, Frame, changes_frame};

fn head() -> Head {
    Head {
        store: "store".into(),
        sequence: 1,
        row: 1,
        epochs: Vec::new(),
    }
}

fn empty() -> Replayed {
    Replayed {
        segments: Vec::new(),
        head: head(),
        cut: None,
        tail: None,
    }
}

fn frame(transaction: u64, ids: &[u64]) -> Vec<u8> {
    let values = ids.iter().map(|id| *id as i64).collect();
    let rows = Batch::new(
        vec![Column::longs_from(values)],
        ids.len(),
        Times::Same(5),
        Chunks::One,
        5,
    );
    let change = Change {
        deleted_ids: Vec::new(),
        deleted_keys: Vec::new(),
        ids: ids.to_vec(),
        rows,
    };
    changes_frame(transaction, "t", &[Type::Long], &[change])
}

/// A transaction with so many rows, and its commit; the place behind it.
fn write(log: &Log, rows: usize, epoch: u64) -> u64 {
    let first = log.take_rows(rows);
    let transaction = log.take_sequence();
    let ids: Vec<u64> = (first..first + rows as u64).collect();
    log.append(&frame(transaction, &ids))
        .expect("there is room");
    let noted = Noted {
        app: "A".into(),
        epoch,
        key: b"key".to_vec(),
    };
    log.commit(transaction, vec![noted])
        .expect("there is room")
        .1
}

/// Rows of the commits, and where the log goes on.
fn read(dir: &Path) -> Result<(Vec<u64>, Replayed), Error> {
    let mut rows = Vec::new();
    let mut open = std::collections::HashMap::<u64, Vec<u64>>::new();
    let replayed = replay(dir, head(), |_, frame| {
        match frame {
            Frame::Changes {
                transaction,
                changes,
                ..
            } => {
                let ids = changes.into_iter().flat_map(|change| change.ids);
                open.entry(transaction).or_default().extend(ids);
            }
            Frame::Commit(commit) => {
                rows.extend(open.remove(&commit.transaction).unwrap_or_default())
            }
            Frame::Head(_) | Frame::Abort { .. } => {}
        }
        Ok(())
    })?;
    Ok((rows, replayed))
}

/// A log of one file with three commits of two rows, and the ends of the commits.
fn written() -> (tempfile::TempDir, Vec<u8>, Vec<u64>) {
    let dir = tempfile::tempdir().expect("a folder");
    let log = Log::open(dir.path(), empty()).expect("a log");
    let mut ends = Vec::new();
    for epoch in 1..=3 {
        let end = write(&log, 2, epoch);
        log.sync(end).expect("synced");
        ends.push(end - place(1, 0));
    }
    let bytes = fs::read(segment_path(dir.path(), 1)).expect("the file");
    assert_eq!(ends.last(), Some(&(bytes.len() as u64)));
    (dir, bytes, ends)
}

#[test]
fn a_log_goes_on_where_it_ended() {
    let (dir, ..) = written();
    let (rows, replayed) = read(dir.path()).expect("whole");
    assert_eq!(rows, [1, 2, 3, 4, 5, 6]);
    assert_eq!(replayed.head.row, 7);
    assert!(replayed.cut.is_none());
    let log = Log::open(dir.path(), replayed).expect("a log");
    assert_eq!(log.epoch("A").map(|noted| noted.epoch), Some(3));
    let end = write(&log, 1, 4);
    log.sync(end).expect("synced");
    let (rows, replayed) = read(dir.path()).expect("whole");
    assert_eq!(rows, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(replayed.segments, [1, 2]);
    assert_eq!(replayed.head.epochs[0].epoch, 4);
}

#[test]
fn an_end_that_a_crash_has_cut_is_left_out_at_every_byte() {
    let (_dir, bytes, ends) = written();
    for cut in 0..bytes.len() {
        for zeros in [0, 4096] {
            let dir = tempfile::tempdir().expect("a folder");
            let path = segment_path(dir.path(), 1);
            let mut part = bytes[..cut].to_vec();
            part.resize(cut + zeros, 0);
            fs::write(&path, part).expect("written");
            // Where what is missing was zeros, zeros make it whole.
            let is_whole = |end: &&u64| {
                let missing = bytes.get(cut..**end as usize).unwrap_or_default();
                missing.len() <= zeros && missing.iter().all(|byte| *byte == 0)
            };
            let whole = ends.iter().filter(is_whole).count();
            let (rows, replayed) = read(dir.path()).expect("a torn end is no damage");
            assert_eq!(rows.len(), 2 * whole, "{cut}+{zeros}");
            // What is written behind it is found with what was there.
            let log = Log::open(dir.path(), replayed).expect("a log");
            let end = write(&log, 1, 9);
            log.sync(end).expect("synced");
            let (rows, _) = read(dir.path()).expect("whole");
            assert_eq!(rows.len(), 2 * whole + 1, "{cut}+{zeros}");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_stops_the_start_and_is_said() {
    let (_dir, bytes, _) = written();
    let mut said_rows = 0;
    for at in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let dir = tempfile::tempdir().expect("a folder");
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            fs::write(segment_path(dir.path(), 1), changed).expect("written");
            let Err(error) = read(dir.path()) else {
                panic!("byte {at} bit {bit} is served");
            };
            let text = error.to_string();
            assert!(
                text.contains("00000001.log") && text.contains("damaged"),
                "{text}"
            );
            said_rows += usize::from(text.contains("_id"));
        }
    }
    assert!(
        said_rows > bytes.len() * 2,
        "{said_rows} of {}",
        bytes.len() * 3
    );
}

#[test]
fn a_file_that_is_gone_between_others_stops_the_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let log = Log::open_by(dir.path(), empty(), Box::new(File::sync_data), 100).expect("a log");
    for epoch in 1..=4 {
        let end = write(&log, 2, epoch);
        log.sync(end).expect("synced");
    }
    let (rows, replayed) = read(dir.path()).expect("whole");
    assert_eq!(rows.len(), 8);
    assert!(replayed.segments.len() > 2, "{:?}", replayed.segments);
    log.remove_before(Some(place(2, 50))).expect("removed");
    assert_eq!(read(dir.path()).expect("whole").1.segments[0], 2);
    fs::remove_file(segment_path(dir.path(), 3)).expect("it is there");
    let error = read(dir.path()).err().expect("a gap").to_string();
    assert!(error.contains("00000003.log"), "{error}");
}

#[test]
fn the_oldest_files_go_and_what_they_said_stays() {
    let dir = tempfile::tempdir().expect("a folder");
    let log = Log::open_by(dir.path(), empty(), Box::new(File::sync_data), 100).expect("a log");
    for epoch in 1..=5 {
        let end = write(&log, 2, epoch);
        log.sync(end).expect("synced");
    }
    log.remove_before(None).expect("removed");
    let (_, replayed) = read(dir.path()).expect("whole");
    assert_eq!(replayed.segments.len(), 1);
    assert_eq!(replayed.head.row, 11);
    assert!(replayed.head.epochs[0].epoch >= 4);
}

#[test]
fn after_a_failed_fsync_the_bytes_are_written_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = std::sync::Arc::clone(&calls);
    let fsync = move |file: &File| match seen.fetch_add(1, Ordering::Relaxed) {
        0 => Err(io::Error::other("the disk is away")),
        _ => file.sync_data(),
    };
    let log = Log::open_by(dir.path(), empty(), Box::new(fsync), 1 << 20).expect("a log");
    let end = write(&log, 2, 1);
    assert!(log.sync(end).is_err());
    // What the system has in its cache is not what was written: that is noticed, not synced.
    let path = segment_path(dir.path(), 1);
    let good = fs::read(&path).expect("the file");
    let mut bad = good.clone();
    *bad.last_mut().expect("not empty") ^= 1;
    fs::write(&path, &bad).expect("written");
    assert!(log.sync(end).is_err());
    fs::write(&path, &good).expect("written");
    log.sync(end).expect("synced");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_eq!(read(dir.path()).expect("whole").0, [1, 2]);
}

#[test]
fn one_fsync_serves_all_who_wait() {
    let dir = tempfile::tempdir().expect("a folder");
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = std::sync::Arc::clone(&calls);
    let fsync = move |file: &File| {
        seen.fetch_add(1, Ordering::Relaxed);
        file.sync_data()
    };
    let log = Log::open_by(dir.path(), empty(), Box::new(fsync), 1 << 20).expect("a log");
    let ends: Vec<u64> = (1..=20).map(|epoch| write(&log, 1, epoch)).collect();
    std::thread::scope(|scope| {
        for end in &ends {
            scope.spawn(|| log.sync(*end).expect("synced"));
        }
    });
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
