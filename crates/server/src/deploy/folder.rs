//! Where deployed apps are kept: one file each, in the folder that the server reads at its start.
//!
//! Promises: a commit of several apps takes effect whole or not at all, also in a crash. What is to be
//! done is written to one file first ([`COMMIT`]), then done, then that file goes; the next start does
//! what it says once more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::deployment::AppText;
use crate::error::Error;
use crate::state::{create_dir, sync_dir, write_whole};

/// A commit that has begun. No app is called so: it does not end in `.siddhi`.
const COMMIT: &str = ".commit.json";

/// A folder of apps that may be changed while the server runs.
#[derive(Clone, Debug)]
pub struct DeploymentFolder {
    path: PathBuf,
}

/// One file of a commit; without a text it goes.
pub(super) struct FileChange {
    pub file: String,
    pub text: Option<String>,
}

impl DeploymentFolder {
    /// Finishes a commit that a crash has broken off.
    ///
    /// # Errors
    /// [`Error::File`] if the folder cannot be made, read or written.
    pub fn open(path: &Path) -> Result<DeploymentFolder, Error> {
        for path in path.parent().into_iter().chain([path]) {
            if !path.as_os_str().is_empty() && !path.exists() {
                create_dir(path)?;
            }
        }
        let folder = DeploymentFolder {
            path: path.to_owned(),
        };
        let commit = path.join(COMMIT);
        match fs::read(&commit) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file("read", &commit)(error)),
            Ok(bytes) => {
                let changes = read(&bytes).ok_or_else(|| {
                    Error::Refused(format!(
                        "'{}' is not a list of changes to apps, or damaged: look at it, apply by hand \
                         what it says, and remove it",
                        commit.display()
                    ))
                })?;
                folder.apply(&changes)?;
                tracing::warn!(
                    folder = %path.display(),
                    files = changes.len(),
                    "finished a deployment that was broken off"
                );
            }
        }
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its apps. A folder without any is no fault.
    ///
    /// # Errors
    /// [`Error::File`] if they cannot be read.
    pub fn texts(&self) -> Result<Vec<AppText>, Error> {
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

    /// Does the file of an app lie here?
    pub(super) fn holds(&self, file: &str) -> bool {
        Path::new(file).parent() == Some(&self.path)
    }

    /// Where an app of this name is kept that is not here yet.
    pub(super) fn file_for(&self, name: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let mut stem: String = name
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .collect();
        if stem.starts_with('.') {
            stem.insert(0, '_');
        }
        let mut path = self.path.join(format!("{stem}.siddhi"));
        let mut number = 1;
        while path.exists() {
            number += 1;
            path = self.path.join(format!("{stem}-{number}.siddhi"));
        }
        path.display().to_string()
    }

    /// Makes the changes durable, all or none.
    pub(super) fn commit(&self, changes: &[FileChange]) -> Result<(), Error> {
        let text = written(changes);
        write_whole(&self.path.join(COMMIT), &[text.as_bytes()])?;
        self.apply(changes)
    }

    fn apply(&self, changes: &[FileChange]) -> Result<(), Error> {
        for change in changes {
            let path = self.path.join(&change.file);
            match &change.text {
                Some(text) => write_whole(&path, &[text.as_bytes()])?,
                None => match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(Error::file("remove", &path)(error));
                    }
                    _ => {}
                },
            }
        }
        sync_dir(&self.path)?;
        let commit = self.path.join(COMMIT);
        match fs::remove_file(&commit) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::file("remove", &commit)(error))
            }
            _ => sync_dir(&self.path),
        }
    }
}

fn written(changes: &[FileChange]) -> String {
    let files = changes.iter();
    let files = files.map(|c| json!({ "file": c.file, "text": c.text }));
    let body = json!({ "version": 1, "files": files.collect::<Vec<Json>>() }).to_string();
    format!("{:08x}\n{body}", crc32fast::hash(body.as_bytes()))
}

fn read(bytes: &[u8]) -> Option<Vec<FileChange>> {
    let (crc, body) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    if u32::from_str_radix(crc, 16).ok()? != crc32fast::hash(body.as_bytes()) {
        return None;
    }
    let json: Json = serde_json::from_str(body).ok()?;
    let files = json["files"].as_array()?.iter();
    files
        .map(|change| {
            let file = change["file"].as_str()?;
            // A name, and no way out of the folder.
            let is_name = Path::new(file).file_name() == Some(file.as_ref());
            is_name.then(|| FileChange {
                file: file.to_owned(),
                text: change["text"].as_str().map(str::to_owned),
            })
        })
        .collect()
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

    fn names(folder: &DeploymentFolder) -> Vec<(String, String)> {
        let texts = folder.texts().unwrap().into_iter();
        let name = |file: &str| Path::new(file).file_name().unwrap().display().to_string();
        texts.map(|app| (name(&app.file), app.text)).collect()
    }

    #[test]
    fn a_commit_that_was_broken_off_is_finished_at_the_next_start() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deployed");
        let folder = DeploymentFolder::open(&path).unwrap();
        folder
            .commit(&[put("a.siddhi", "1"), put("b.siddhi", "2")])
            .unwrap();
        let remove = FileChange {
            file: "b.siddhi".to_owned(),
            text: None,
        };
        // It had begun, and one of two files was written.
        let changes = [put("a.siddhi", "3"), remove];
        fs::write(path.join(COMMIT), written(&changes)).unwrap();
        fs::write(path.join("a.siddhi"), "3").unwrap();
        let folder = DeploymentFolder::open(&path).unwrap();
        assert_eq!(names(&folder), [("a.siddhi".to_owned(), "3".to_owned())]);
        assert!(!path.join(COMMIT).exists());
    }

    #[test]
    fn a_commit_that_is_damaged_or_leads_out_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let whole = written(&[put("a.siddhi", "1")]);
        let damaged = whole.replace("a.siddhi", "b.siddhi");
        let out = written(&[put("../a.siddhi", "1")]);
        for text in [&damaged, &out, &whole[..9].to_owned(), &String::new()] {
            fs::write(root.path().join(COMMIT), text).unwrap();
            let refused = DeploymentFolder::open(root.path()).unwrap_err();
            assert!(refused.to_string().contains(COMMIT), "{refused}");
        }
    }

    #[test]
    fn any_name_of_an_app_makes_a_file_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let folder = DeploymentFolder::open(root.path()).unwrap();
        let name = |app: &str| {
            let file = folder.file_for(app);
            Path::new(&file).file_name().unwrap().display().to_string()
        };
        assert_eq!(name("Shop"), "Shop.siddhi");
        assert_eq!(name("../ä b"), "_..___b.siddhi");
        fs::write(root.path().join("Shop.siddhi"), "").unwrap();
        assert_eq!(name("Shop"), "Shop-2.siddhi");
    }
}
