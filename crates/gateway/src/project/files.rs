//! The files of a project, or of what else is such a zip: of a folder, or of a zip that anybody may have made.
//!
//! Promises: only files of known names are unpacked, into memory, and never more of them than the limits say; no name in
//! a zip becomes a path. Never: a link followed within a zip.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use super::ProjectError;

/// Longest zip, in bytes.
const ZIP_BYTES_MAX: u64 = 64 << 20;

/// Entries of a zip, and files of a folder.
const ENTRIES_MAX: usize = 5000;

/// Longest file that is read, and all together.
const FILE_BYTES_MAX: u64 = 4 << 20;
const ALL_BYTES_MAX: u64 = 16 << 20;

/// Levels of folders, and bytes of a name.
const DEPTH_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 1024;

/// What is read, below the folder of the project.
const READ: [&str; 9] = [
    "api.yaml",
    "api.json",
    "api_meta.yaml",
    "api_params.yaml",
    "deployment_environments.yaml",
    "params.yaml",
    "Definitions/asyncapi.yaml",
    "Definitions/asyncapi.yml",
    "Definitions/asyncapi.json",
];

/// What the files are of.
#[derive(Clone, Copy)]
pub struct Kind {
    /// In words: `project of API Manager's apictl`.
    pub what: &'static str,
    /// Files at whose folder it begins, which is at the top or one folder below.
    pub marks: &'static [&'static str],
    /// Is a file of this name, below that folder, read?
    pub is_read: fn(&str) -> bool,
}

/// Projects of API Manager.
pub(super) const PROJECT: Kind = Kind {
    what: "project of API Manager's apictl",
    marks: &["api.yaml", "api.json"],
    is_read: |name| READ.contains(&name),
};

/// The texts of those that are read, by their names, and the names of all others.
#[derive(Default, Debug)]
pub struct Files {
    pub texts: BTreeMap<String, String>,
    pub others: Vec<String>,
    bytes: u64,
}

fn refused(message: impl Into<String>) -> ProjectError {
    ProjectError::Refused(message.into())
}

/// Where it begins: the folder of its mark, which is at the top or one folder below.
fn root_of(names: &[String], kind: &Kind) -> Result<String, ProjectError> {
    let roots = names.iter().filter_map(|name| {
        let mut marks = kind.marks.iter();
        let root = marks.find_map(|mark| name.strip_suffix(mark))?;
        let is_folder = root.is_empty() || root.ends_with('/') && root.matches('/').count() == 1;
        is_folder.then_some(root)
    });
    // The one at the top, if there is one.
    let root = roots.min_by_key(|root| root.len());
    root.map(str::to_owned).ok_or_else(|| {
        let Kind { what, marks, .. } = kind;
        refused(format!(
            "it has no '{}' at the top or one folder below: it is no {what}",
            marks[0]
        ))
    })
}

impl Files {
    /// # Errors
    /// It cannot be read, is no project, or is beyond the limits.
    pub fn read(path: &Path, kind: &Kind) -> Result<Files, ProjectError> {
        let failed = |cause: io::Error| ProjectError::Io {
            path: path.display().to_string(),
            cause,
        };
        if path.is_dir() {
            return Files::of_folder(path, kind);
        }
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if length > ZIP_BYTES_MAX {
            return Err(refused(format!(
                "the zip has {length} bytes, more than {ZIP_BYTES_MAX}"
            )));
        }
        Files::of_zip(file, kind)
    }

    fn of_folder(folder: &Path, kind: &Kind) -> Result<Files, ProjectError> {
        let mut names = Vec::new();
        let mut folders = vec![(folder.to_owned(), String::new())];
        while let Some((path, prefix)) = folders.pop() {
            let failed = |cause: io::Error| ProjectError::Io {
                path: path.display().to_string(),
                cause,
            };
            for entry in std::fs::read_dir(&path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                let kind = entry.file_type().map_err(failed)?;
                if kind.is_dir() && name.matches('/').count() < DEPTH_MAX {
                    folders.push((entry.path(), format!("{name}/")));
                } else if kind.is_file() {
                    names.push(name);
                }
                if names.len() + folders.len() > ENTRIES_MAX {
                    return Err(refused(format!(
                        "the folder has more than {ENTRIES_MAX} files"
                    )));
                }
            }
        }
        names.sort();
        let root = root_of(&names, kind)?;
        let mut files = Files::default();
        for name in names {
            if files.wants(&name, &root, kind) {
                let mut file =
                    File::open(folder.join(&name)).map_err(|cause| ProjectError::Io {
                        path: name.clone(),
                        cause,
                    })?;
                files.take(&name[root.len()..], &mut file)?;
            }
        }
        Ok(files)
    }

    /// # Errors
    /// It is no zip, no project, or beyond the limits.
    pub fn of_zip(zip: impl Read + Seek, kind: &Kind) -> Result<Files, ProjectError> {
        let broken =
            |cause: zip::result::ZipError| refused(format!("the zip cannot be read: {cause}"));
        let mut archive = zip::ZipArchive::new(zip).map_err(broken)?;
        if archive.len() > ENTRIES_MAX {
            return Err(refused(format!(
                "the zip has more than {ENTRIES_MAX} entries"
            )));
        }
        let mut names = Vec::new();
        for number in 0..archive.len() {
            let entry = archive.by_index_raw(number).map_err(broken)?;
            let name = entry.name().map_err(broken)?.into_owned();
            judge_name(&name)?;
            // A link is no file here, so that nothing follows it.
            if entry.is_file() && !entry.is_symlink() {
                names.push((name, number));
            }
        }
        let all: Vec<String> = names.iter().map(|(name, _)| name.clone()).collect();
        let root = root_of(&all, kind)?;
        let mut files = Files::default();
        for (name, number) in names {
            if files.wants(&name, &root, kind) {
                let mut entry = archive.by_index(number).map_err(broken)?;
                files.take(&name[root.len()..], &mut entry)?;
            }
        }
        Ok(files)
    }

    /// Is a file of the project one that is read? Of others the name is kept.
    fn wants(&mut self, name: &str, root: &str, kind: &Kind) -> bool {
        let Some(own) = name.strip_prefix(root) else {
            return false;
        };
        let is_read = (kind.is_read)(own);
        if !is_read {
            self.others.push(own.to_owned());
        }
        is_read
    }

    fn take(&mut self, name: &str, from: &mut dyn Read) -> Result<(), ProjectError> {
        let left = FILE_BYTES_MAX.min(ALL_BYTES_MAX - self.bytes);
        let mut bytes = Vec::new();
        // What a zip says of the length of a file is its own.
        let read = from.take(left + 1).read_to_end(&mut bytes);
        read.map_err(|cause| refused(format!("file '{name}' cannot be read: {cause}")))?;
        if bytes.len() as u64 > left {
            return Err(refused(format!(
                "file '{name}' is longer than {FILE_BYTES_MAX} bytes, or all are longer than {ALL_BYTES_MAX}"
            )));
        }
        self.bytes += bytes.len() as u64;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| refused(format!("file '{name}' is not UTF-8")))?;
        if self.texts.insert(name.to_owned(), text).is_some() {
            return Err(refused(format!("file '{name}' is in the zip twice")));
        }
        Ok(())
    }
}

/// A name that would lead out of the folder is the work of somebody who means harm.
fn judge_name(name: &str) -> Result<(), ProjectError> {
    let parts = name.split('/');
    let is_safe = name.len() <= NAME_BYTES_MAX
        && !name.starts_with('/')
        && !name.contains(['\\', '\0'])
        && parts.clone().count() <= DEPTH_MAX
        && parts.clone().all(|part| part != "..");
    match is_safe {
        true => Ok(()),
        false => {
            let shown: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
            Err(refused(format!(
                "the zip has the name '{shown}', which is no place below its folder"
            )))
        }
    }
}
