use super::*;
use crate::rejected::{RejectedLog, Rejection};
use crate::state::StateDir;

/// An epoch that is marked current, as a run leaves it: one app that keeps nothing.
pub fn save(group: &GroupState, epoch: u64) {
    let mut log =
        RejectedLog::open(&group.path("rejected"), u64::MAX, Default::default()).expect("opens");
    for number in 0..3 {
        let payload = format!("epoch {epoch}, event {number}");
        log.append(&Rejection::of_payload(payload.as_bytes()))
            .expect("appends");
    }
    let rejected = log.sync().expect("syncs");
    let mut payload = event::codec::Writer::default();
    payload.u8(crate::state::saved::VERSION);
    payload.section(|w| {
        w.u64(rejected);
        w.count(0);
        w.count(0);
    });
    payload.count(1);
    payload.str("A");
    payload.u32(3);
    payload.u8(0);
    let mut spool = group.spool(epoch, None);
    spool.write_all(&payload.bytes).expect("writes");
    spool.seal(0).expect("seals");
    group.mark_current(epoch).expect("marks");
}

/// A directory with two epochs.
pub fn state(root: &Path) -> StateDir {
    let state = StateDir::open(root).expect("opens");
    let group = state.group(&["A".to_owned()]).expect("a group");
    save(&group, 6);
    save(&group, 7);
    fs::write(group.path("effects.journal"), b"HWEFFCT\x02").expect("writes");
    fs::write(group.path("snapshot-8.tmp"), b"half").expect("writes");
    state
}

pub fn copy_of(root: &Path, to: &Path) -> Result<Backup, Error> {
    back_up(root, to, None, &Registry::EMPTY, &mut |_, _| {})
}

/// Every file with its bytes.
pub fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("reads") {
        let path = entry.expect("reads").path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push((path.clone(), fs::read(&path).expect("reads"))),
        }
    }
    all.sort();
    all
}

#[test]
fn a_backup_has_all_that_a_start_reads_and_a_server_may_run_meanwhile() {
    let above = tempfile::tempdir().expect("a temporary directory");
    let (root, to) = (above.path().join("state"), above.path().join("copy"));
    let _in_use = state(&root);
    let backup = copy_of(&root, &to).expect("copies");
    assert_eq!(backup.manifest.groups, [("A".to_owned(), 7)]);
    let names: Vec<String> = files(&to)
        .iter()
        .map(|(path, _)| path.strip_prefix(&to).expect("below").display().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "A/apps",
            "A/current",
            "A/effects.journal",
            "A/rejected",
            "A/snapshot-6",
            "A/snapshot-7",
            "backup",
            "id"
        ]
    );
    for name in ["A/snapshot-7", "A/rejected", "id"] {
        let of = |dir: &Path| fs::read(dir.join(name)).expect("reads");
        assert_eq!(of(&root), of(&to), "{name}");
    }
    let verified = verify(&to, &Registry::EMPTY, &mut |_, _| {}).expect("reads");
    assert_eq!(verified.damage, []);
    assert_eq!(verified.groups[0].epochs, [7, 6]);
    assert_eq!(verified.manifest, Some(backup.manifest));
    // It is no place for another.
    let again = copy_of(&root, &to).expect_err("it is there");
    assert!(again.to_string().contains("name another"), "{again}");
}

#[test]
fn every_flip_and_cut_of_a_backup_is_found() {
    let above = tempfile::tempdir().expect("a temporary directory");
    let (root, to) = (above.path().join("state"), above.path().join("copy"));
    drop(state(&root));
    copy_of(&root, &to).expect("copies");
    for (path, bytes) in files(&to) {
        let flips = (0..bytes.len()).map(|at| {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            changed
        });
        let cuts = (0..bytes.len()).map(|at| bytes[..at].to_vec());
        for changed in flips.chain(cuts) {
            fs::write(&path, &changed).expect("writes");
            let verified = verify(&to, &Registry::EMPTY, &mut |_, _| {}).expect("reads");
            let said = verified.in_words();
            assert!(!verified.damage.is_empty(), "{}", path.display());
            assert!(said.contains("help: "), "{said}");
        }
        fs::remove_file(&path).expect("removes");
        let gone = verify(&to, &Registry::EMPTY, &mut |_, _| {});
        let is_found = gone.is_err() || gone.is_ok_and(|verified| !verified.damage.is_empty());
        // Without its list it is a plain copy, which is as good.
        let is_list = path.ends_with(MANIFEST);
        assert!(is_found || is_list, "{} is gone", path.display());
        fs::write(&path, bytes).expect("writes");
    }
}

#[test]
fn damaged_state_gives_no_backup() {
    let above = tempfile::tempdir().expect("a temporary directory");
    let (root, to) = (above.path().join("state"), above.path().join("copy"));
    drop(state(&root));
    let path = root.join("A/snapshot-7");
    let mut bytes = fs::read(&path).expect("reads");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(&path, bytes).expect("writes");
    let refused = copy_of(&root, &to).expect_err("it is damaged");
    let said = refused.to_string();
    assert!(said.contains("snapshot-7: the checksum"), "{said}");
    assert!(!to.exists() && !stage_of(&to).exists());
    let empty = above.path().join("empty");
    fs::create_dir(&empty).expect("creates");
    let nothing = copy_of(&empty, &to).expect_err("there is nothing");
    assert!(
        nothing.to_string().contains("no state is saved here"),
        "{nothing}"
    );
}

#[test]
fn the_list_of_a_backup_leads_nowhere_else() {
    let of = |line: &str| Manifest::of_lines(std::iter::once(line));
    assert!(of("file 0000002a 7 A/snapshot-1").is_some());
    for line in [
        "file 0000002a 7 ../A",
        "file 0000002a 7 /etc/passwd",
        "file 0000002a 7",
        "file x 7 A",
        "group x A",
        "what",
    ] {
        assert_eq!(of(line), None, "{line}");
    }
}

#[test]
fn names_of_backups_need_no_quotes() {
    for name in ["a", "before-upgrade_2.1", "1499179260517_Shop+Till"] {
        assert!(checked_name(name).is_ok(), "{name}");
    }
    let long = "x".repeat(NAME_MAX + 1);
    for name in [
        "",
        ".",
        "..",
        "a/b",
        "-x",
        "a b",
        "x.unfinished",
        "ä",
        &long,
    ] {
        assert!(checked_name(name).is_err(), "{name}");
    }
}
