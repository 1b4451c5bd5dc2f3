use std::path::Path;

use super::super::backup::tests::{copy_of, files, save, state};
use super::*;
use crate::state::{GroupState, StateDir, read_id};

fn restored(backup: &Path, root: &Path, options: RestoreOptions) -> Result<Restored, Error> {
    restore(backup, root, options, &Registry::EMPTY, &mut |_, _| {})
}

fn id_of(root: &Path) -> String {
    let (id, _) = read_id(root).expect("reads").expect("it has one");
    id
}

/// Files below a directory that belong to its state, with their bytes.
fn content(root: &Path) -> Vec<(String, Vec<u8>)> {
    let all = files(root).into_iter().map(|(path, bytes)| {
        let name = path
            .strip_prefix(root)
            .expect("below")
            .display()
            .to_string();
        (name, bytes)
    });
    let is_state = |name: &str| name == "id" || name.starts_with("A/");
    all.filter(|(name, _)| is_state(name)).collect()
}

const REPLACES: RestoreOptions = RestoreOptions {
    replaces: true,
    has_new_id: false,
};

#[test]
fn what_was_there_is_put_aside_and_a_server_in_use_is_left_alone() {
    let above = tempfile::tempdir().expect("a temporary directory");
    let (root, backup) = (above.path().join("state"), above.path().join("copy"));
    let open = state(&root);
    copy_of(&root, &backup).expect("copies");
    save(&open.group(&["A".to_owned()]).expect("a group"), 8);
    let refused = restored(&backup, &root, REPLACES).expect_err("in use");
    assert!(refused.to_string().contains("another server"), "{refused}");
    drop(open);
    let refused = restored(&backup, &root, RestoreOptions::default()).expect_err("not empty");
    assert!(refused.to_string().contains("--replace"), "{refused}");
    let before = content(&root);
    let done = restored(&backup, &root, REPLACES).expect("restores");
    assert_eq!(done.manifest.groups, [("A".to_owned(), 7)]);
    let aside = done.replaced.expect("there was something");
    assert_eq!(content(&aside), before);
    assert_eq!(content(&root), content(&backup));
    assert!(!done.has_users);
    let state = StateDir::open(&root).expect("opens");
    let group = state.group(&["A".to_owned()]).expect("a group");
    assert_eq!(group.find().expect("reads").current, Some(7));
}

#[test]
fn elsewhere_it_is_the_same_directory_to_stores_unless_it_gets_a_new_id() {
    let above = tempfile::tempdir().expect("a temporary directory");
    let (root, backup) = (above.path().join("state"), above.path().join("copy"));
    drop(state(&root));
    let id = id_of(&root);
    copy_of(&root, &backup).expect("copies");
    let at = |name: &str| above.path().join(name);
    restored(&backup, &at("same"), RestoreOptions::default()).expect("restores");
    assert_eq!(id_of(&at("same")), id);
    let fresh = RestoreOptions {
        has_new_id: true,
        ..RestoreOptions::default()
    };
    restored(&backup, &at("fresh"), fresh).expect("restores");
    assert_ne!(id_of(&at("fresh")), id);
    // A plain copy of a directory is as good as a backup.
    restored(&at("same"), &at("again"), RestoreOptions::default()).expect("restores");
    assert_eq!(content(&at("again")), content(&backup));
}

#[test]
fn users_stay_and_none_come_along() {
    let above = tempfile::tempdir().expect("a temporary directory");
    let (root, backup) = (above.path().join("state"), above.path().join("copy"));
    drop(state(&root));
    fs::write(root.join(USERS), b"users").expect("writes");
    copy_of(&root, &backup).expect("copies");
    let elsewhere = above.path().join("elsewhere");
    let done = restored(&backup, &elsewhere, RestoreOptions::default()).expect("restores");
    assert!(!done.has_users && !elsewhere.join(USERS).exists());
    assert!(
        restored(&backup, &root, REPLACES)
            .expect("restores")
            .has_users
    );
    assert_eq!(fs::read(root.join(USERS)).expect("reads"), b"users");
}

#[test]
fn a_damaged_backup_changes_nothing() {
    let above = tempfile::tempdir().expect("a temporary directory");
    let (root, backup) = (above.path().join("state"), above.path().join("copy"));
    drop(state(&root));
    copy_of(&root, &backup).expect("copies");
    let path = backup.join("A/effects.journal");
    fs::write(&path, b"HWEFFCT\x01").expect("writes");
    let before = content(&root);
    let refused = restored(&backup, &root, REPLACES).expect_err("it is damaged");
    let said = refused.to_string();
    assert!(said.contains("nothing was restored"), "{said}");
    assert!(
        said.contains("effects.journal: bytes have changed"),
        "{said}"
    );
    assert_eq!(content(&root), before);
    assert!(!root.join(STAGE).exists());
}

#[test]
fn an_interrupted_restore_refuses_a_start_and_is_ended_by_another() {
    let above = tempfile::tempdir().expect("a temporary directory");
    let (root, backup) = (above.path().join("state"), above.path().join("copy"));
    drop(state(&root));
    copy_of(&root, &backup).expect("copies");
    let group = GroupState::to_read(root.join("A"));
    save(&group, 8);
    let before = content(&root);
    // It was killed when the group had been put aside, and the name had not.
    let half = Half {
        aside: "replaced-then".to_owned(),
        is_aside: false,
    };
    half.write(&root).expect("writes");
    let aside = root.join(&half.aside);
    fs::create_dir(&aside).expect("creates");
    fs::rename(root.join("A"), aside.join("A")).expect("renames");
    let refused = StateDir::open(&root).expect_err("it is half");
    assert!(refused.to_string().contains("was interrupted"), "{refused}");
    let done = restored(&backup, &root, RestoreOptions::default()).expect("goes on");
    assert_eq!(done.replaced.as_deref(), Some(aside.as_path()));
    assert_eq!(content(&aside), before);
    assert_eq!(content(&root), content(&backup));
    // It was killed when a part of the copy was in place: that goes, and what is aside stays.
    let half = Half {
        is_aside: true,
        ..half
    };
    half.write(&root).expect("writes");
    fs::remove_file(root.join("id")).expect("removes");
    restored(&backup, &root, RestoreOptions::default()).expect("goes on");
    assert_eq!(content(&aside), before);
    assert_eq!(content(&root), content(&backup));
    StateDir::open(&root).expect("it is whole");
}
