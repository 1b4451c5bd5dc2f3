//! Damage, bounds and removal of the log of rejected events.

use super::super::SharedLog;
use super::super::cursor::Walk;
use super::super::record::tests::written_before;
use super::super::segments::segments;
use super::super::{AGE_MAX, Entry, Filter, Kept, read_all};
use super::*;

fn opened(path: &Path, keep: u64) -> RejectedLog {
    RejectedLog::open(path, keep, Limits::default()).expect("opens")
}

fn sample(n: i64) -> Rejection {
    Rejection {
        time: n,
        app: "A".into(),
        stream: "S".into(),
        place: format!("in.csv:{n}"),
        cause: "column 2 is not a double".into(),
        ..Rejection::of_payload(b"P|x|y")
    }
}

#[test]
fn records_come_back_and_a_torn_tail_is_cut_off() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let group = root.path().join("A");
    std::fs::create_dir(&group).expect("creates");
    std::fs::write(group.join("apps"), "A").expect("writes");
    let path = group.join("rejected");
    let mut log = opened(&path, u64::MAX);
    let mut ends = vec![0];
    for n in 0..3 {
        log.append(&sample(n)).expect("appends");
        ends.push(log.sync().expect("syncs"));
    }
    assert_eq!(
        read_all(root.path()).expect("reads"),
        [0, 1, 2].map(sample).to_vec()
    );
    let whole = std::fs::read(&path).expect("reads");
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).expect("writes");
        let log = opened(&path, u64::MAX);
        assert_eq!(
            log.len(),
            *ends.iter().filter(|e| **e <= cut as u64).max().expect("0")
        );
    }
    std::fs::write(&path, &whole).expect("writes");
    let mut log = opened(&path, ends[1]);
    log.append(&sample(9)).expect("appends");
    log.sync().expect("syncs");
    let times: Vec<i64> = read_all(root.path())
        .expect("reads")
        .iter()
        .map(|r| r.time)
        .collect();
    assert_eq!(times, [0, 9]);
}

fn failed() -> io::Error {
    io::Error::other("the disk has failed")
}

/// `/dev/full` says what a disk without room says.
#[test]
fn what_has_no_room_is_left_out_whole() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let group = root.path().join("A");
    std::fs::create_dir(&group).expect("creates");
    std::fs::write(group.join("apps"), "A").expect("writes");
    let mut log = opened(&group.join("rejected"), 0);
    log.append(&sample(0)).expect("it waits");
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("opens");
    let file = std::mem::replace(&mut log.file, full);
    let before = log.len();
    let large = Rejection::of_payload(&[b'x'; PENDING_MAX]);
    log.append(&large).expect_err("there is no room for it");
    assert_eq!(log.len(), before);
    assert!(log.sync().is_err());
    log.file = file;
    log.append(&sample(1)).expect("there is room again");
    let length = log.sync().expect("syncs");
    assert_eq!(length, log.len());
    let kept = read_all(root.path()).expect("reads");
    assert_eq!(kept, [sample(0), sample(1)]);
}

#[test]
fn what_a_failed_sync_may_have_dropped_is_written_again() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("rejected");
    let mut log = opened(&path, 0);
    for n in 0..3 {
        log.append(&sample(n)).expect("appends");
        let mut fails = |_: &File| -> io::Result<()> { Err(failed()) };
        assert!(log.sync_by(&mut fails).is_err());
        let length = log.sync().expect("syncs");
        assert_eq!((length, log.durable), (log.len(), log.len()));
    }
    // What cannot be read back is not said to last.
    log.append(&sample(3)).expect("appends");
    let at = log.durable;
    let mut drops = |mut file: &File| -> io::Result<()> {
        file.seek(SeekFrom::Start(at))?;
        file.write_all(b"what was there before")?;
        Err(failed())
    };
    assert!(log.sync_by(&mut drops).is_err());
    assert!(log.sync().is_err() && log.sync().is_err());
    drop(log);
    let log = opened(&path, at);
    assert_eq!(log.len(), at);
}

#[test]
fn zeros_behind_the_last_record_are_cut_off() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("rejected");
    let mut log = opened(&path, 0);
    log.append(&sample(0)).expect("appends");
    let length = log.sync().expect("syncs");
    drop(log);
    let grown = File::options().write(true).open(&path).expect("opens");
    grown.set_len(length + 4096).expect("grows");
    let log = opened(&path, u64::MAX);
    assert_eq!(log.len(), length);
}

/// A log of so many events, its path and where each ends.
fn written(count: i64) -> (tempfile::TempDir, PathBuf, Vec<u64>) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let group = root.path().join("A");
    fs::create_dir(&group).expect("creates");
    fs::write(group.join("apps"), "A").expect("writes");
    let path = group.join("rejected");
    let mut log = opened(&path, 0);
    let mut ends = vec![0];
    for n in 0..count {
        log.append(&sample(n)).expect("appends");
        ends.push(log.sync().expect("syncs"));
    }
    (root, path, ends)
}

/// Times of the events that are there, and how many are said to be missing, exactly or at least.
fn listed(root: &Path) -> (Vec<i64>, u64, bool) {
    let mut kept = Kept::open(root).expect("opens");
    let mut times = Vec::new();
    while let Some(Entry { rejection, .. }) = kept.next_event(&Filter::default()).expect("reads") {
        assert_eq!(rejection, sample(rejection.time));
        times.push(rejection.time);
    }
    let missing = kept.missing().into_iter();
    let missing = missing.fold((0, true), |(all, is_exact), m| {
        (all + m.events, is_exact && m.is_exact)
    });
    (times, missing.0, missing.1)
}

/// After a change of the file: what is listed before a start and after it, and after one more.
/// Each time what is there and what is said to be missing is all there was.
fn check(root: &Path, path: &Path, keep: u64, all: u64, what: &str) {
    for start in 0..3 {
        let (times, missing, is_exact) = listed(root);
        let there = times.len() as u64;
        assert!(there < all && times.is_sorted(), "{what}: {times:?}");
        // Before the start nobody has told the list how long the log was.
        if start > 0 || missing > 0 {
            assert!(missing > 0 && there + missing <= all, "{what}: {missing}");
            assert!(!is_exact || there + missing == all, "{what}: {missing}");
        }
        let log = opened(path, keep);
        assert_eq!(log.len(), keep, "{what}");
    }
    let mut log = opened(path, keep);
    log.append(&sample(99)).expect("appends");
    let keep = log.sync().expect("syncs");
    drop(log);
    assert_eq!(listed(root).0.last(), Some(&99), "{what}");
    opened(path, keep);
    assert_eq!(listed(root).0.last(), Some(&99), "{what}");
}

#[test]
fn a_flip_of_any_byte_costs_one_event_which_is_said() {
    let (root, path, ends) = written(4);
    let whole = fs::read(&path).expect("reads");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).expect("writes");
        assert_eq!(listed(root.path()).0.len(), 3, "{at}");
        // Each start waits for the disk.
        if at % 5 == 0 {
            check(root.path(), &path, ends[4], 4, &format!("byte {at}"));
        }
    }
    let aside = path.with_file_name("rejected.damaged-1");
    let record = &whole[..ends[1] as usize];
    let flipped = fs::read(aside).expect("it is set aside");
    assert_eq!(flipped.len(), record.len());
}

#[test]
fn a_cut_of_what_was_durable_is_said() {
    let (root, path, ends) = written(3);
    let whole = fs::read(&path).expect("reads");
    for cut in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..cut]).expect("writes");
        check(root.path(), &path, ends[3], 3, &format!("cut at {cut}"));
    }
    fs::remove_file(&path).expect("removes");
    check(root.path(), &path, ends[3], 3, "no file");
}

#[test]
fn what_a_crash_left_behind_what_was_durable_goes_without_a_word() {
    let (root, path, ends) = written(3);
    let whole = fs::read(&path).expect("reads");
    for cut in ends[2] as usize..whole.len() {
        fs::write(&path, &whole[..cut]).expect("writes");
        drop(opened(&path, ends[2]));
        assert_eq!(listed(root.path()), (vec![0, 1], 0, true));
    }
}

/// As versions before have written them: a length, a CRC, the record.
fn older(times: std::ops::Range<i64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in times {
        let record = written_before(&sample(n));
        bytes.extend((record.len() as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(&record).to_le_bytes());
        bytes.extend(record);
    }
    bytes
}

#[test]
fn a_log_of_a_version_before_is_read_and_gone_on_with() {
    let (root, path, _) = written(0);
    let whole = older(0..4);
    let keep = whole.len() as u64;
    fs::write(&path, &whole).expect("writes");
    let mut log = opened(&path, keep);
    log.append(&sample(4)).expect("appends");
    let end = log.sync().expect("syncs");
    drop(log);
    assert_eq!(listed(root.path()), ((0..5).collect(), 0, true));
    let both = fs::read(&path).expect("reads");
    for at in 0..both.len() {
        let mut bytes = both.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).expect("writes");
        assert_eq!(listed(root.path()).0.len(), 4, "{at}");
        if at % 7 == 0 {
            check(root.path(), &path, end, 5, &format!("byte {at}"));
        }
    }
}

/// A log whose files are full after two events, and which keeps so many bytes.
fn small(path: &Path, keep: u64, bytes_max: u64) -> RejectedLog {
    let mut log = opened(path, keep);
    (log.segment_max, log.limits.bytes_max) = (100, 2 * bytes_max);
    log
}

#[test]
fn a_full_log_drops_its_oldest_file_and_says_so() {
    let (root, path, _) = written(0);
    let mut log = small(&path, 0, 500);
    let mut keep = 0;
    for n in 0..20 {
        log.append(&sample(n)).expect("appends");
        keep = log.sync().expect("syncs");
    }
    let dropped = log.take_dropped();
    assert!(dropped > 5 && log.take_dropped() == 0, "{dropped}");
    drop(log);
    let there: Vec<i64> = (dropped as i64..20).collect();
    assert_eq!(listed(root.path()), (there.clone(), dropped, true));
    // Nothing of this is damage at a start, and places stay what they were.
    let mut log = small(&path, keep, 500);
    assert_eq!(log.len(), keep);
    log.append(&sample(20)).expect("appends");
    log.sync().expect("syncs");
    drop(log);
    assert!(!path.with_file_name("rejected.damaged-1").exists());
    // An epoch before that is gone on from: later files go.
    let found = segments(&path).expect("reads");
    let back = found[1].start + found[1].len / 2;
    let at = found[1].start;
    drop(small(&path, at, 500));
    assert_eq!(segments(&path).expect("reads").len(), 1, "{back}");
    // It is older than all that is left.
    drop(small(&path, 20, 500));
    assert_eq!(listed(root.path()).0, [0; 0]);
}

#[test]
fn a_file_in_the_middle_that_is_gone_is_said() {
    let (root, path, _) = written(0);
    let mut log = small(&path, 0, 1 << 20);
    let mut keep = 0;
    for n in 0..9 {
        log.append(&sample(n)).expect("appends");
        keep = log.sync().expect("syncs");
    }
    drop(log);
    let found = segments(&path).expect("reads");
    assert!(found.len() >= 4, "{found:?}");
    fs::remove_file(&found[2].path).expect("removes");
    let (times, missing, is_exact) = listed(root.path());
    assert!(missing > 0 && times.len() as u64 + missing <= 9 && !is_exact);
    let log = opened(&path, keep);
    assert_eq!(log.len(), keep);
    drop(log);
    assert_eq!(listed(root.path()).0, times);
}

#[test]
fn old_files_go() {
    let (root, path, _) = written(0);
    let mut log = small(&path, 0, 1 << 20);
    for n in 0..6 {
        log.append(&sample(n)).expect("appends");
        log.sync().expect("syncs");
    }
    let later = SystemTime::now() + AGE_MAX + Duration::from_secs(60);
    log.drop_oldest(later);
    assert_eq!(log.segments.len(), 1);
    let (times, dropped, _) = listed(root.path());
    assert_eq!(
        (times.len() as u64 + dropped, log.take_dropped()),
        (6, dropped)
    );
}

/// Removes the events of these numbers, as a purge does.
fn remove(log: &SharedLog, numbers: &[u32]) {
    let mut runs = Runs::default();
    let cursor = log.cursor(0, 0, 0, true).expect("reads").expect("a log");
    let mut walk = Walk::new(vec![cursor]).expect("reads");
    while let Some(step) = walk.next().expect("reads") {
        let run = step.removable().expect("a number");
        if numbers.contains(&run.number) {
            runs.add(run, step.is_first());
        }
    }
    log.remove(&runs).expect("removes");
}

/// A log of so many events that are covered, in files of two, shared as in a server.
fn shared(path: &Path, count: i64) -> SharedLog {
    let mut log = small(path, 0, 1 << 20);
    for n in 0..count {
        log.append(&sample(n)).expect("appends");
        let length = log.sync().expect("syncs");
        log.cover(length);
    }
    let shared = SharedLog::default();
    shared.set(log);
    shared
}

#[test]
fn what_is_removed_is_gone_and_all_others_stay_what_they_were() {
    for gone in [
        &[0][..],
        &[3, 4, 5],
        &[9],
        &[1, 3, 5, 7],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ] {
        let (root, path, _) = written(0);
        let log = shared(&path, 10);
        let numbers_before: Vec<u64> = numbers(root.path());
        remove(&log, gone);
        let left: Vec<i64> = (0..10).filter(|n| !gone.contains(&(*n as u32))).collect();
        assert_eq!(listed(root.path()), (left.clone(), 0, true), "{gone:?}");
        let expect: Vec<u64> = left.iter().map(|n| numbers_before[*n as usize]).collect();
        assert_eq!(numbers(root.path()), expect, "{gone:?}");
        assert_eq!(log.count(), left.len() as u64);
        // Removing again finds nothing, and a start finds it as it is.
        remove(&log, gone);
        log.keep(sample(10));
        let length = log.sync().expect("syncs");
        log.close();
        let opened = small(&path, length, 1 << 20);
        assert_eq!(opened.total(), left.len() as u64 + 1, "{gone:?}");
        drop(opened);
        let last: Vec<i64> = left.into_iter().chain([10]).collect();
        assert_eq!(listed(root.path()), (last, 0, true), "{gone:?}");
        assert!(!path.with_file_name("rejected.removing").exists());
        assert!(!path.with_file_name("rejected.damaged-1").exists());
    }
}

/// Numbers of the events as people see them.
fn numbers(root: &Path) -> Vec<u64> {
    let mut kept = Kept::open(root).expect("opens");
    let mut numbers = Vec::new();
    while let Some(entry) = kept.next_event(&Filter::default()).expect("reads") {
        let found = Kept::find(root, entry.number).expect("reads");
        assert_eq!(found, Some(entry.clone()));
        numbers.push(entry.number);
    }
    numbers
}

#[test]
fn files_without_events_go_and_are_not_called_dropped() {
    let (root, path, _) = written(0);
    let log = shared(&path, 10);
    let before = segments(&path).expect("reads").len();
    remove(&log, &[0, 1, 2, 3, 4, 5]);
    let left = segments(&path).expect("reads").len();
    assert!(left <= before - 2, "{left} of {before}");
    assert_eq!(log.take_dropped(), 0);
    assert_eq!(listed(root.path()), ((6..10).collect(), 0, true));
}

#[test]
fn a_removal_that_a_crash_interrupts_is_finished_by_the_next_start() {
    let (root, path, _) = written(0);
    let log = shared(&path, 6);
    let before: Vec<(PathBuf, Vec<u8>)> = segments(&path)
        .expect("reads")
        .into_iter()
        .map(|s| (s.path.clone(), fs::read(&s.path).expect("reads")))
        .collect();
    let length = log.sync().expect("syncs");
    remove(&log, &[1, 2]);
    log.close();
    let after: Vec<Vec<u8>> = before
        .iter()
        .map(|(p, _)| fs::read(p).expect("reads"))
        .collect();
    // The note is there, and so much of each file has been written.
    let runs = {
        let shared_again = tempfile::tempdir().expect("a temporary directory");
        let other = shared_again.path().join("rejected");
        for (path, bytes) in &before {
            let name = path.file_name().expect("a name");
            fs::write(shared_again.path().join(name), bytes).expect("writes");
        }
        let mut log = small(&other, length, 1 << 20);
        log.cover(length);
        let log_again = SharedLog::default();
        log_again.set(log);
        let cursor = log_again
            .cursor(0, 0, 0, true)
            .expect("reads")
            .expect("a log");
        let mut walk = Walk::new(vec![cursor]).expect("reads");
        let mut runs = Runs::default();
        while let Some(step) = walk.next().expect("reads") {
            let run = step.removable().expect("a number");
            if [1, 2].contains(&run.number) {
                runs.add(run, step.is_first());
            }
        }
        runs
    };
    let longest = before
        .iter()
        .map(|(_, bytes)| bytes.len())
        .max()
        .unwrap_or(0);
    for cut in (0..=longest).step_by(13) {
        for ((path, old), new) in before.iter().zip(&after) {
            let cut = cut.min(old.len());
            fs::write(path, [&new[..cut], &old[cut..]].concat()).expect("writes");
        }
        super::super::removal::note(&path, &runs).expect("notes");
        // Who looks meanwhile sees no damage.
        let (times, missing, _) = listed(root.path());
        assert_eq!(missing, 0, "{cut}: {times:?}");
        let opened = small(&path, length, 1 << 20);
        assert_eq!(opened.total(), 4, "{cut}");
        drop(opened);
        assert_eq!(listed(root.path()), (vec![0, 3, 4, 5], 0, true), "{cut}");
    }
}

#[test]
fn a_flip_of_any_byte_of_a_log_with_removed_events_is_said() {
    let (root, path, _) = written(0);
    let mut log = opened(&path, 0);
    let mut length = 0;
    for n in 0..5 {
        log.append(&sample(n)).expect("appends");
        length = log.sync().expect("syncs");
    }
    log.cover(length);
    let log_shared = SharedLog::default();
    log_shared.set(log);
    remove(&log_shared, &[1, 2]);
    log_shared.close();
    let whole = fs::read(&path).expect("reads");
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).expect("writes");
        let (times, missing, _) = listed(root.path());
        assert!(
            times.len() >= 2 && times.len() as u64 + missing >= 3,
            "{at}: {times:?} {missing}"
        );
        assert!(missing > 0 || times == [0, 3, 4], "{at}: {times:?}");
        assert_eq!(opened(&path, length).len(), length);
    }
}

#[test]
fn the_disk_is_bounded_by_what_files_take_without_their_holes() {
    let (root, path, _) = written(0);
    let mut log = RejectedLog::open(&path, 0, Limits::default()).expect("opens");
    log.segment_max = 64 << 10;
    log.limits.bytes_max = 2 * (256 << 10);
    let large = |n: i64| Rejection {
        time: n,
        ..Rejection::of_payload(&vec![b'x'; 16 << 10])
    };
    let shared = SharedLog::default();
    shared.set(log);
    for n in 0..100 {
        shared.keep(large(n));
        let length = shared.sync().expect("syncs");
        shared.cover(length);
        // All but one in four are replayed at once.
        if n % 4 == 3 {
            remove(&shared, &[n as u32 - 3, n as u32 - 2, n as u32 - 1]);
        }
    }
    let disk: u64 = segments(&path).expect("reads").iter().map(|s| s.disk).sum();
    assert!(disk <= (256 + 80) << 10, "{disk}");
    // Without holes only 16 events of 16 KB would fit.
    let count = Kept::open(root.path())
        .expect("opens")
        .summary(&Filter::default());
    let count = count.expect("reads").total();
    assert!(count <= 25 && count == shared.count(), "{count}");
    assert_eq!(count + shared.take_dropped(), 25);
}
