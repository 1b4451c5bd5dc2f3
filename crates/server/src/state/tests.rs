use super::*;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

fn write(group: &GroupState, epoch: u64, payload: &[u8]) {
    use std::io::Write;
    let mut spool = group.spool(epoch, None);
    spool.write_all(payload).expect("writes");
    spool.seal(10 * epoch).expect("seals");
}

#[test]
fn a_large_snapshot_streams_into_its_file() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let state = StateDir::open(root.path()).expect("opens");
    let group = state.group(&names(&["A"])).expect("a new group");
    let payload: Vec<u8> = (0..9_000_000u32).map(|i| (i % 251) as u8).collect();
    write(&group, 1, &payload);
    assert_eq!(group.find().expect("reads").epochs, [1]);
    assert!(group.read(1).expect("reads") == (10, payload));
    assert!(!group.path("snapshot-1.tmp").exists());
}

/// Changes a file of a group.
fn change(group: &GroupState, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let path = group.path(name);
    let mut bytes = fs::read(&path).expect("reads");
    change(&mut bytes);
    fs::write(&path, bytes).expect("writes");
}

/// Why a start is refused, which must have these words.
fn refused(group: &GroupState, words: &[&str]) {
    let refusal = group.find().expect("reads").refusal();
    let refusal = refusal.expect("nothing sound stands in for it");
    for word in words.iter().chain(&["--drop-state", "lost"]) {
        assert!(refusal.contains(word), "{word} in {refusal}");
    }
}

#[test]
fn a_snapshot_of_another_version_is_refused() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let state = StateDir::open(root.path()).expect("opens");
    let group = state.group(&names(&["A"])).expect("a new group");
    for epoch in [1, 2] {
        write(&group, epoch, b"good");
        group.mark_current(epoch).expect("marks");
    }
    change(&group, "snapshot-2", |bytes| bytes[8] = 99);
    refused(
        &group,
        &[
            "snapshot-2: it has version 99",
            "since epoch 1",
            "start the version",
        ],
    );
    // One that nobody needs any more bars nothing.
    change(&group, "snapshot-2", |bytes| bytes[8] = 3);
    change(&group, "snapshot-1", |bytes| bytes[8] = 99);
    let found = group.find().expect("reads");
    assert_eq!((&found.epochs[..], found.refusal()), (&[2][..], None));
}

#[test]
fn a_start_without_anything_sound_is_refused() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let state = StateDir::open(root.path()).expect("opens");
    let group = state.group(&names(&["A"])).expect("a new group");
    // A first start, and one after a crash before the first save was whole.
    assert_eq!(group.find().expect("reads").refusal(), None);
    fs::write(group.path("snapshot-1.tmp"), b"half").expect("writes");
    assert_eq!(group.find().expect("reads").refusal(), None);
    for epoch in [1, 2] {
        write(&group, epoch, b"good");
        group.mark_current(epoch).expect("marks");
    }
    change(&group, "snapshot-2", |bytes| bytes.truncate(30));
    let found = group.find().expect("reads");
    assert_eq!((found.refusal(), found.passed_over(1)), (None, Some(2)));
    change(&group, "snapshot-1", |bytes| {
        *bytes.last_mut().expect("a byte") ^= 1
    });
    refused(
        &group,
        &[
            "snapshot-1: the checksum",
            "snapshot-2: it is not a snapshot, or its head",
        ],
    );
    for epoch in [1, 2] {
        fs::remove_file(group.path(&format!("snapshot-{epoch}"))).expect("removes");
    }
    refused(&group, &["snapshot-2: it is missing"]);
    assert_eq!(group.find().expect("reads").highest, 2);
    // Dropped, it is the empty beginning that is current.
    write(&group, 3, b"given up");
    group.mark_current(0).expect("marks");
    let found = group.find().expect("reads");
    assert_eq!((found.refusal(), found.current), (None, Some(0)));
    assert!(found.epochs.is_empty() && found.damage.is_empty());
}

#[test]
fn what_is_current_is_known_or_refused() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let state = StateDir::open(root.path()).expect("opens");
    let group = state.group(&names(&["A"])).expect("a new group");
    write(&group, 1, b"good");
    for bytes in [&b""[..], b"one", b"\xff\xfe"] {
        fs::write(group.path("current"), bytes).expect("writes");
        refused(&group, &["current: it does not contain an epoch number"]);
    }
    drop(state);
    fs::write(root.path().join("id"), b"").expect("writes");
    let unknown = StateDir::open(root.path()).expect_err("stores know it by its name");
    assert!(unknown.to_string().contains("restore a copy"), "{unknown}");
}

/// Each flip of a bit and each checkpoint of a file.
fn changes(bytes: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let flips = (0..bytes.len()).map(|at| {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (at % 8);
        (format!("byte {at}"), flipped)
    });
    let cuts = (0..bytes.len()).map(|at| (format!("cut at {at}"), bytes[..at].to_vec()));
    flips.chain(cuts)
}

#[test]
fn every_change_of_the_short_files_is_found_or_does_no_harm() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let state = StateDir::open(root.path()).expect("opens");
    let apps = names(&["A", "B"]);
    let group = state.group(&apps).expect("a new group");
    for epoch in 10..=12 {
        write(&group, epoch, b"good");
        group.mark_current(epoch).expect("marks");
    }
    let (id, dir) = (state.id.clone(), group.dir.clone());
    drop(state);
    let check = |path: &Path, judge: &dyn Fn() -> Result<bool, Error>| {
        let whole = fs::read(path).expect("reads");
        for (what, bytes) in changes(&whole) {
            fs::write(path, bytes).expect("writes");
            match judge() {
                Ok(is_same) => assert!(is_same, "{what} of {} changes it", path.display()),
                Err(error) => {
                    let said = error.to_string();
                    assert!(
                        said.contains("damaged") && said.contains("restore a copy")
                            || said.contains("Restore a copy"),
                        "{said}"
                    );
                }
            }
        }
        fs::write(path, whole).expect("writes");
    };
    check(&root.path().join("id"), &|| {
        StateDir::open(root.path()).map(|state| state.id == id)
    });
    check(&dir.join("apps"), &|| {
        apps_of(&dir).map(|found| found == apps)
    });
    // With both of the newest there it is not needed.
    check(&dir.join("current"), &|| {
        let found = group.find()?;
        let is_known = found.current == Some(12);
        let is_damage = found.current.is_none() && found.damage.len() == 1;
        let choice = choose(&found, &[("s".to_owned(), 11)]);
        let goes_on = found.refusal().is_none() && choice.epoch == Some(11);
        Ok(goes_on && (is_known || is_damage))
    });
    check(&dir.join("snapshot-12"), &|| {
        let found = group.find()?;
        Ok(found.epochs == [11] && found.damage.len() == 1)
    });
}

#[test]
fn a_file_in_place_of_the_directory_is_named_as_such() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let refused = StateDir::open(file.path()).map(drop);
    let said = connect::error::chain(&refused.expect_err("it is no directory"));
    assert!(said.contains("it is a file; name a directory"), "{said}");
}

#[test]
fn files_of_a_version_before_are_read_and_get_a_checksum() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let apps = names(&["A", "b/c"]);
    let dir = root.path().join(group_name(&apps));
    fs::create_dir(&dir).expect("creates");
    fs::write(root.path().join("id"), "0123456789abcdef\n").expect("writes");
    fs::write(dir.join("apps"), "A\nb/c").expect("writes");
    for _ in 0..2 {
        let state = StateDir::open(root.path()).expect("opens");
        assert_eq!(state.id, "0123456789abcdef");
        let group = state.group(&apps).expect("it is there");
        write(&group, 7, b"good");
        fs::write(dir.join("current"), "7\n").expect("writes");
        assert_eq!(group.find().expect("reads").current, Some(7));
        for name in ["../id", "apps"] {
            let text = proof::read(&group.path(name)).expect("reads");
            assert!(matches!(text, Some(Text::Proven(_))), "{name}: {text:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_state_directory_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets")
    };
    let above = tempfile::tempdir().expect("a temporary directory");
    let root = above.path().join("state");
    let open = || {
        let state = StateDir::open(&root).expect("opens");
        let group = state.group(&names(&["A"])).expect("a group");
        write(&group, 1, b"good");
        group.mark_current(1).expect("marks");
        group
    };
    let dir = open().dir;
    let files = [
        root.join("id"),
        root.join("lock"),
        dir.join("apps"),
        dir.join("snapshot-1"),
    ];
    let is_private = || {
        assert_eq!((mode(&root), mode(&dir)), (0o700, 0o700));
        files
            .iter()
            .for_each(|path| assert_eq!(mode(path), 0o600, "{}", path.display()));
    };
    is_private();
    [&root, &dir].iter().for_each(|path| set(path, 0o755));
    files.iter().for_each(|path| set(path, 0o644));
    drop(StateDir::open(&root).expect("opens"));
    is_private();
    // One that holds other things is not taken away from others.
    set(&root, 0o755);
    fs::write(root.join("notes"), "").expect("writes");
    drop(StateDir::open(&root).expect("opens"));
    assert_eq!((mode(&root), mode(&dir)), (0o755, 0o700));
}

#[test]
fn the_two_newest_epochs_are_kept() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let state = StateDir::open(root.path()).expect("opens");
    let group = state.group(&names(&["A"])).expect("a new group");
    for epoch in 1..=4 {
        write(&group, epoch, format!("state {epoch}").as_bytes());
        group.mark_current(epoch).expect("marks");
    }
    let found = group.find().expect("reads");
    assert_eq!((found.epochs, found.current), (vec![4, 3], Some(4)));
    assert_eq!(group.read(3).expect("kept"), (30, b"state 3".to_vec()));
}

#[test]
fn a_damaged_snapshot_is_named_and_passed_over() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let state = StateDir::open(root.path()).expect("opens");
    let group = state.group(&names(&["A"])).expect("a new group");
    write(&group, 1, b"good");
    write(&group, 2, b"bad later");
    let path = group.path("snapshot-2");
    let mut bytes = fs::read(&path).expect("reads");
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).expect("writes");
        let found = group.find().expect("reads");
        assert_eq!((found.epochs, found.damage.len()), (vec![1], 1), "{cut}");
    }
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).expect("writes");
    let found = group.find().expect("reads");
    assert!(found.damage[0].cause.contains("checksum"), "{found:?}");
}

#[test]
fn one_server_at_a_time_and_one_group_per_app() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let state = StateDir::open(root.path()).expect("opens");
    let second = StateDir::open(root.path()).expect_err("locked");
    assert!(second.to_string().contains("another server"), "{second}");
    state.group(&names(&["B", "A"])).expect("a new group");
    state
        .group(&names(&["A", "B"]))
        .expect("the same in any order");
    let other = state.group(&names(&["A"])).expect_err("saved with B");
    assert!(other.to_string().contains("'B'"), "{other}");
    drop(state);
    StateDir::open(root.path()).expect("the lock goes with its holder");
}

#[test]
fn names_of_groups_are_safe_and_distinct() {
    let odd = group_name(&names(&["a/b"]));
    assert!(!odd.contains('/') && odd != group_name(&names(&["a_b"])));
    assert_ne!(odd, group_name(&names(&["a:b"])));
    assert_eq!(group_name(&names(&["A", "B"])), "A+B");
}
