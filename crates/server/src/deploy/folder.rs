//! Where deployed apps are kept: one file each, in the folder that the server reads at its start.
//!
//! ```text
//! FOLDER/NAME.siddhi        one app each
//! FOLDER/.commit.json       a deployment that has begun: what it writes and removes, with a checksum
//! FOLDER/.drop-state        apps whose saved state may be dropped where it does not fit their text
//! FOLDER/.headwater.lock    held by the server that deploys into the folder
//! ```
//!
//! Promises: once the commit is written ([`DeploymentFolder::begin`]) the deployment takes effect, after a
//! crash at the next start, unless the server that wrote it gives it up ([`DeploymentFolder::abandon`]) because the
//! apps do not start; before that nothing has changed. Files of an operator keep their mode and owner. Never: a
//! file outside the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::deployment::AppText;
use crate::error::Error;
use crate::report::chain;
use crate::state::proof::{self, Text};
use crate::state::{create_dir, private, sync_dir, write_whole};

/// A commit that has begun. No app is called so: it does not end in `.siddhi`.
pub const COMMIT: &str = ".commit.json";

const DROPS: &str = ".drop-state";
const LOCK: &str = ".headwater.lock";

/// A folder of apps that may be changed while the server runs.
#[derive(Debug)]
pub struct DeploymentFolder {
    path: PathBuf,
    /// It is below a state directory: its files are their owner's alone.
    is_private: bool,
    lock: Option<File>,
    /// The apps run, and what is written is not all in its place yet.
    pending: Option<Commit>,
}

/// What a deployment does to the folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Commit {
    pub files: Vec<FileChange>,
    /// Apps that are put or removed: what was allowed for their former texts is void.
    pub apps: Vec<String>,
    /// Those of them whose saved state may be dropped, with the CRC-32 of the text that may do so.
    pub drops: BTreeMap<String, u32>,
}

/// One file of a commit; without a text it goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FileChange {
    pub file: String,
    pub text: Option<String>,
}

impl DeploymentFolder {
    /// Finishes a commit that a crash has broken off.
    ///
    /// # Errors
    /// [`Error::File`] if the folder cannot be made, read or written.
    pub fn open(path: &Path, is_private: bool) -> Result<DeploymentFolder, Error> {
        for path in path.parent().into_iter().chain([path]) {
            if !path.as_os_str().is_empty() && !path.exists() {
                create_dir(path)?;
            }
        }
        let mut folder = DeploymentFolder {
            path: path.to_owned(),
            is_private,
            lock: None,
            pending: None,
        };
        let commit = path.join(COMMIT);
        match fs::read(&commit) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file("read", &commit)(error)),
            Ok(bytes) => {
                folder.lock()?;
                let found = read(&bytes).ok_or_else(|| {
                    Error::Refused(format!(
                        "'{}' is not a list of changes to apps, or damaged: look at it, apply by hand \
                         what it says, and remove it",
                        commit.display()
                    ))
                })?;
                folder.apply(&found)?;
                tracing::warn!(
                    folder = %path.display(),
                    files = found.files.len(),
                    "finished a deployment that was broken off"
                );
            }
        }
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps other servers from deploying into the folder.
    fn lock(&mut self) -> Result<(), Error> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = self.path.join(LOCK);
        let mut options = File::options();
        let options = private(options.create(true).truncate(false).write(true));
        let lock = options.open(&path).map_err(Error::file("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Refused(format!(
                    "another server deploys into '{}': stop it, or give each server a folder of its own",
                    self.path.display()
                )));
            }
            Err(TryLockError::Error(cause)) => return Err(Error::file("lock", path)(cause)),
        }
        self.lock = Some(lock);
        Ok(())
    }

    /// Its apps, after what could not be put into its place before. A folder without any is no fault.
    ///
    /// # Errors
    /// [`Error::File`] if they cannot be read.
    pub fn texts(&mut self) -> Result<Vec<AppText>, Error> {
        self.settle()?;
        let entries = fs::read_dir(&self.path).map_err(Error::file("read folder", &self.path))?;
        let mut files = Vec::new();
        for entry in entries {
            let path = entry
                .map_err(Error::file("read folder", &self.path))?
                .path();
            if path.is_file() && path.extension().is_some_and(|e| e == "siddhi") {
                files.push(path);
            }
        }
        files.sort();
        match files.is_empty() {
            true => Ok(Vec::new()),
            false => crate::deployment::read_texts(&files),
        }
    }

    /// Files of the folder that are not as the server has read them: edited, new or gone since.
    pub(super) fn edited(&mut self, running: &[AppText]) -> Result<Vec<AppText>, Error> {
        let found = self.texts()?;
        let is_known = |app: &AppText| running.contains(app);
        Ok(found.into_iter().filter(|app| !is_known(app)).collect())
    }

    /// Does the file of an app lie here?
    pub(super) fn holds(&self, file: &str) -> bool {
        Path::new(file).parent() == Some(&self.path)
    }

    /// Where an app of this name is kept that is not here yet: no file that is there, whoever made it.
    pub(super) fn file_for(&self, name: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let mut stem: String = name
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .take(STEM_MAX)
            .collect();
        if stem.starts_with('.') {
            stem.insert(0, '_');
        }
        let mut path = self.path.join(format!("{stem}.siddhi"));
        let mut number = 1;
        while fs::symlink_metadata(&path).is_ok() {
            number += 1;
            path = self.path.join(format!("{stem}-{number}.siddhi"));
        }
        path.display().to_string()
    }

    /// From here on the deployment takes effect, whatever comes, unless it is abandoned.
    pub(super) fn begin(&mut self, commit: &Commit) -> Result<(), Error> {
        self.settle()?;
        self.lock()?;
        write_whole(&self.path.join(COMMIT), &[written(commit).as_bytes()])
    }

    /// The apps do not start: nothing has changed.
    pub(super) fn abandon(&self) -> Result<(), Error> {
        self.remove(COMMIT)?;
        sync_dir(&self.path)
    }

    /// Puts into its place what has begun. What cannot be now, for lack of room or of rights, is by the next
    /// deployment, reload or start.
    pub(super) fn finish(&mut self, commit: Commit) {
        self.pending = Some(commit);
        if let Err(error) = self.settle() {
            tracing::error!(
                cause = chain(&error),
                folder = %self.path.display(),
                commit = COMMIT,
                "apps are deployed, but cannot be put into their folder yet; the next deployment, reload or \
                 start does it: make room in the folder, or make it writable"
            );
        }
    }

    fn settle(&mut self) -> Result<(), Error> {
        if let Some(commit) = &self.pending {
            self.apply(commit)?;
            self.pending = None;
        }
        Ok(())
    }

    fn apply(&self, commit: &Commit) -> Result<(), Error> {
        for change in &commit.files {
            match &change.text {
                Some(text) => self.put(&change.file, text)?,
                None => self.remove(&change.file)?,
            }
        }
        let mut drops = self.drops()?;
        drops.retain(|app, _| !commit.apps.contains(app));
        drops.extend(commit.drops.clone());
        match drops.is_empty() {
            true => self.remove(DROPS)?,
            false => proof::write(&self.path.join(DROPS), &format!("{}\n", json!(drops)))?,
        }
        sync_dir(&self.path)?;
        self.remove(COMMIT)?;
        sync_dir(&self.path)
    }

    /// Writes a file whole or not at all. One that is there keeps its mode and, where that is allowed, its owner.
    fn put(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        let tmp = self.path.join(format!(".{name}.new"));
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        if self.is_private {
            private(&mut options);
        }
        let mut file = options.open(&tmp).map_err(Error::file("create", &tmp))?;
        if let Ok(before) = fs::metadata(&path)
            && !self.is_private
        {
            let kept = file.set_permissions(before.permissions());
            kept.map_err(Error::file("set the permissions of", &tmp))?;
            #[cfg(unix)]
            {
                use std::os::unix::fs::{MetadataExt as _, fchown};
                // Only root may give a file away; of another user's server it is its own anyway.
                fchown(&file, Some(before.uid()), Some(before.gid())).ok();
            }
        }
        file.write_all(text.as_bytes())
            .map_err(Error::file("write", &tmp))?;
        file.sync_all().map_err(Error::file("sync", &tmp))?;
        fs::rename(&tmp, &path).map_err(Error::file("rename", &tmp))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::file("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    fn drops(&self) -> Result<BTreeMap<String, u32>, Error> {
        let path = self.path.join(DROPS);
        let read = match proof::read(&path)? {
            None => return Ok(BTreeMap::new()),
            Some(Text::Proven(text)) => serde_json::from_str(&text).ok(),
            Some(_) => None,
        };
        read.ok_or_else(|| {
            Error::Refused(format!(
                "'{}' is damaged: remove it; an app whose saved state does not fit it is refused then, unless \
                 given --drop-state",
                path.display()
            ))
        })
    }

    /// Apps whose saved state may be dropped where it does not fit: that was allowed when these texts were
    /// deployed.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Refused`] if what is allowed cannot be read.
    pub fn may_drop(&self, apps: &[AppText]) -> Result<BTreeSet<String>, Error> {
        let drops = self.drops()?;
        let named = apps
            .iter()
            .filter(|app| drops.values().any(|crc| *crc == crc_of(&app.text)))
            .map(|app| (crate::deployment::name_of(app), crc_of(&app.text)));
        Ok(named
            .filter(|(name, crc)| drops.get(name) == Some(crc))
            .map(|(name, _)| name)
            .collect())
    }
}

/// Characters of the name of an app that are taken over into the name of its file.
const STEM_MAX: usize = 100;

pub(super) fn crc_of(text: &str) -> u32 {
    crc32fast::hash(text.as_bytes())
}

fn written(commit: &Commit) -> String {
    let files = commit.files.iter();
    let files = files.map(|c| json!({ "file": c.file, "text": c.text }));
    let body = json!({
        "version": 1,
        "files": files.collect::<Vec<Json>>(),
        "apps": commit.apps,
        "drops": commit.drops,
    })
    .to_string();
    format!("{:08x}\n{body}", crc_of(&body))
}

fn read(bytes: &[u8]) -> Option<Commit> {
    let (crc, body) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    if u32::from_str_radix(crc, 16).ok()? != crc_of(body) {
        return None;
    }
    let mut json: Json = serde_json::from_str(body).ok()?;
    let files = json["files"].as_array()?.iter();
    let files = files.map(|change| {
        let file = change["file"].as_str()?;
        // A name, and no way out of the folder.
        let is_name = Path::new(file).file_name() == Some(file.as_ref());
        is_name.then(|| FileChange {
            file: file.to_owned(),
            text: change["text"].as_str().map(str::to_owned),
        })
    });
    let files = files.collect::<Option<Vec<FileChange>>>()?;
    Some(Commit {
        files,
        // A commit of an earlier version has neither.
        apps: serde_json::from_value(json["apps"].take()).unwrap_or_default(),
        drops: serde_json::from_value(json["drops"].take()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(file: &str, text: &str) -> FileChange {
        FileChange {
            file: file.to_owned(),
            text: Some(text.to_owned()),
        }
    }

    fn commit(files: &[FileChange]) -> Commit {
        Commit {
            files: files.to_vec(),
            ..Commit::default()
        }
    }

    fn open(path: &Path) -> DeploymentFolder {
        DeploymentFolder::open(path, true).unwrap()
    }

    fn carry_out(folder: &mut DeploymentFolder, commit: Commit) {
        folder.begin(&commit).unwrap();
        folder.finish(commit);
    }

    fn names(folder: &mut DeploymentFolder) -> Vec<(String, String)> {
        let texts = folder.texts().unwrap().into_iter();
        let name = |file: &str| Path::new(file).file_name().unwrap().display().to_string();
        texts.map(|app| (name(&app.file), app.text)).collect()
    }

    #[test]
    fn a_commit_that_was_broken_off_anywhere_is_finished_at_the_next_start() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deployed");
        let remove = FileChange {
            file: "b.siddhi".to_owned(),
            text: None,
        };
        let changes = Commit {
            files: vec![put("a.siddhi", "3"), remove],
            apps: vec!["A".to_owned(), "B".to_owned()],
            drops: [("A".to_owned(), crc_of("3"))].into(),
        };
        // How many of its steps were done when it was broken off.
        for done in 0..=3 {
            let mut folder = open(&path);
            carry_out(
                &mut folder,
                commit(&[put("a.siddhi", "1"), put("b.siddhi", "2")]),
            );
            folder.begin(&changes).unwrap();
            if done > 0 {
                folder.put("a.siddhi", "3").unwrap();
            }
            if done > 1 {
                folder.remove("b.siddhi").unwrap();
            }
            if done > 2 {
                folder.apply(&changes).unwrap();
            }
            drop(folder);
            let mut folder = open(&path);
            let found = names(&mut folder);
            assert_eq!(found, [("a.siddhi".to_owned(), "3".to_owned())], "{done}");
            assert!(!path.join(COMMIT).exists());
            assert_eq!(folder.drops().unwrap(), changes.drops, "{done}");
        }
    }

    #[test]
    fn a_commit_that_is_abandoned_has_changed_nothing() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = open(root.path());
        carry_out(&mut folder, commit(&[put("a.siddhi", "1")]));
        folder.begin(&commit(&[put("a.siddhi", "2")])).unwrap();
        folder.abandon().unwrap();
        drop(folder);
        let found = names(&mut open(root.path()));
        assert_eq!(found, [("a.siddhi".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn what_cannot_be_put_into_its_place_now_is_put_there_before_the_folder_is_read() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = open(root.path());
        // A folder is in the way of the file.
        let in_the_way = root.path().join(".a.siddhi.new");
        fs::create_dir(&in_the_way).unwrap();
        carry_out(&mut folder, commit(&[put("a.siddhi", "1")]));
        assert!(root.path().join(COMMIT).exists());
        assert!(folder.texts().is_err());
        assert!(folder.begin(&commit(&[put("b.siddhi", "1")])).is_err());
        fs::remove_dir(&in_the_way).unwrap();
        let found = names(&mut folder);
        assert_eq!(found, [("a.siddhi".to_owned(), "1".to_owned())]);
        assert!(!root.path().join(COMMIT).exists());
    }

    #[test]
    fn a_commit_that_is_damaged_or_leads_out_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let whole = written(&commit(&[put("a.siddhi", "1")]));
        let damaged = whole.replace("a.siddhi", "b.siddhi");
        let out = written(&commit(&[put("../a.siddhi", "1")]));
        for text in [&damaged, &out, &whole[..9].to_owned(), &String::new()] {
            fs::write(root.path().join(COMMIT), text).unwrap();
            let refused = DeploymentFolder::open(root.path(), true).unwrap_err();
            assert!(refused.to_string().contains(COMMIT), "{refused}");
        }
    }

    #[test]
    fn what_may_be_dropped_is_void_once_the_app_is_deployed_again_or_has_another_text() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = open(root.path());
        let text = "@app:name('A')";
        let mut first = commit(&[put("a.siddhi", text)]);
        first.apps = vec!["A".to_owned()];
        first.drops = [("A".to_owned(), crc_of(text))].into();
        carry_out(&mut folder, first.clone());
        let mut apps = folder.texts().unwrap();
        let allowed = folder.may_drop(&apps).unwrap();
        assert_eq!(allowed, ["A".to_owned()].into());
        apps[0].text.push(' ');
        assert!(folder.may_drop(&apps).unwrap().is_empty());
        first.drops.clear();
        carry_out(&mut folder, first);
        let apps = folder.texts().unwrap();
        assert!(folder.may_drop(&apps).unwrap().is_empty());
        assert!(!root.path().join(DROPS).exists());
    }

    #[test]
    fn one_server_deploys_into_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = open(root.path());
        folder.begin(&Commit::default()).unwrap();
        let other = DeploymentFolder::open(root.path(), true).unwrap_err();
        assert!(other.to_string().contains("another server"), "{other}");
    }

    #[cfg(unix)]
    #[test]
    fn files_of_an_operator_keep_their_mode_and_those_below_a_state_directory_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a.siddhi");
        fs::write(&file, "1").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let plain = root.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mut folder = DeploymentFolder::open(root.path(), false).unwrap();
        let both = commit(&[put("a.siddhi", "2"), put("new.siddhi", "2")]);
        carry_out(&mut folder, both.clone());
        assert_eq!(mode(&file), 0o640);
        assert_eq!(mode(&root.path().join("new.siddhi")), mode(&plain));
        let deployed = root.path().join("deployed");
        carry_out(&mut open(&deployed), both);
        assert_eq!(mode(&deployed.join("a.siddhi")), 0o600);
    }

    #[test]
    fn any_name_of_an_app_makes_a_file_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let folder = open(root.path());
        let name = |app: &str| {
            let file = folder.file_for(app);
            Path::new(&file).file_name().unwrap().display().to_string()
        };
        assert_eq!(name("Shop"), "Shop.siddhi");
        assert_eq!(name("../ä b"), "_..___b.siddhi");
        assert_eq!(name(&"x".repeat(300)).len(), STEM_MAX + ".siddhi".len());
        fs::write(root.path().join("Shop.siddhi"), "").unwrap();
        assert_eq!(name("Shop"), "Shop-2.siddhi");
    }
}
