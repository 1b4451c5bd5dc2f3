//! The after-action of a file that has been read: keep, delete or move.
//!
//! An action may be asked for again after a crash at any point of it: it looks first, and what has
//! been done already counts as done. It never touches a file that only has the same name.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::functions::rename_or_copy;
use super::options::{After, Existing};
use super::position::{Identity, InputFile};

/// What became of an action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The file is gone from its place.
    Gone { to: Option<PathBuf> },
    /// Another file stands under its name, or none: nothing was left to do.
    Vanished,
    /// The file stays; why, and what to do.
    Stays { cause: String, remedy: &'static str },
}

/// Does the action. `is_directory`: the target of a move is a directory (`dir.uri`); else it is the
/// new path itself, or a directory that exists. `is_resumed`: it may have been begun before a crash.
pub fn act(after: &After, file: &InputFile, is_directory: bool, is_resumed: bool) -> Outcome {
    let found = match fs::metadata(&file.place) {
        Ok(found) => Identity::of(&found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Outcome::Vanished,
        Err(error) => return stays("looking at it", &error),
    };
    if !found.is_same_file(&file.identity) {
        return Outcome::Vanished;
    }
    if found.size > file.identity.size {
        tracing::warn!(
            path = %file.path.display(),
            "file grew after it was read; the added part has not been read"
        );
    }
    match after {
        After::Keep => Outcome::Stays {
            cause: String::new(),
            remedy: "",
        },
        After::Delete => match fs::remove_file(&file.place) {
            Ok(()) => Outcome::Gone { to: None },
            Err(error) => stays("deleting it", &error),
        },
        After::Move { to, existing } => {
            let target = if is_directory || to.is_dir() {
                to.join(file.path.file_name().unwrap_or_default())
            } else {
                to.clone()
            };
            move_file(&file.place, target, *existing, is_resumed)
        }
    }
}

fn stays(action: &str, error: &io::Error) -> Outcome {
    Outcome::Stays {
        cause: format!("{action} failed: {error}"),
        remedy: "correct the permissions, then move the file out and in again",
    }
}

fn move_file(from: &Path, target: PathBuf, existing: Existing, is_resumed: bool) -> Outcome {
    if let Some(parent) = target.parent()
        && let Err(error) = fs::create_dir_all(parent)
    {
        return stays("making the target directory", &error);
    }
    let target = match (target.symlink_metadata(), existing) {
        (Err(_), _) | (Ok(_), Existing::Overwrite) => target,
        // A copy to another file system was cut off before the original was removed.
        (Ok(_), _) if is_resumed && is_same_content(from, &target) => {
            return match fs::remove_file(from) {
                Ok(()) => Outcome::Gone { to: Some(target) },
                Err(error) => stays("removing it after a copy", &error),
            };
        }
        (Ok(_), Existing::KeepBoth) => another_name(&target),
        (Ok(_), Existing::Refuse) => {
            return Outcome::Stays {
                cause: format!("the target '{}' exists", target.display()),
                remedy: "remove the target, or set move.if.exist.mode to OVERWRITE or KEEP",
            };
        }
    };
    match rename_or_copy(from, &target) {
        Ok(()) => Outcome::Gone { to: Some(target) },
        Err(error) => stays("moving it", &error),
    }
}

/// `name_<uuid>.ext` beside the target.
fn another_name(target: &Path) -> PathBuf {
    let random = || RandomState::new().build_hasher().finish();
    let (high, low) = (random(), random());
    let uuid = format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48) & 0x3fff,
        low & 0xffff_ffff_ffff
    );
    let stem = target.file_stem().unwrap_or_default().to_string_lossy();
    let name = match target.extension() {
        Some(extension) => format!("{stem}_{uuid}.{}", extension.to_string_lossy()),
        None => format!("{stem}_{uuid}"),
    };
    target.with_file_name(name)
}

/// Only asked where a target exists, which is rare.
fn is_same_content(a: &Path, b: &Path) -> bool {
    let same = || -> io::Result<bool> {
        let (found_a, found_b) = (fs::metadata(a)?, fs::metadata(b)?);
        if !found_b.is_file() || found_a.len() != found_b.len() {
            return Ok(false);
        }
        if Identity::of(&found_a) == Identity::of(&found_b) {
            // A link to itself: removing the source would lose it.
            return Ok(false);
        }
        let (mut a, mut b) = (fs::File::open(a)?, fs::File::open(b)?);
        let (mut block_a, mut block_b) = (vec![0; 64 << 10], vec![0; 64 << 10]);
        loop {
            let count = a.read(&mut block_a)?;
            if count == 0 {
                return Ok(true);
            }
            b.read_exact(&mut block_b[..count])?;
            if block_a[..count] != block_b[..count] {
                return Ok(false);
            }
        }
    };
    same().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Setup {
        directory: tempfile::TempDir,
        file: InputFile,
    }

    fn setup() -> Setup {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.csv");
        fs::write(&path, "1\n").unwrap();
        let identity = Identity::of(&fs::metadata(&path).unwrap());
        Setup {
            directory,
            file: InputFile {
                place: path.clone(),
                path,
                identity,
            },
        }
    }

    fn moves(to: &Path, existing: Existing) -> After {
        After::Move {
            to: to.to_path_buf(),
            existing,
        }
    }

    #[test]
    fn moving_makes_directories_and_is_done_once() {
        let s = setup();
        let to = s.directory.path().join("x/y");
        let after = moves(&to, Existing::Refuse);
        let done = Outcome::Gone {
            to: Some(to.join("a.csv")),
        };
        assert_eq!(act(&after, &s.file, true, false), done);
        assert_eq!(act(&after, &s.file, true, false), Outcome::Vanished);
        assert_eq!(fs::read_to_string(to.join("a.csv")).unwrap(), "1\n");
    }

    #[test]
    fn a_target_that_exists() {
        let s = setup();
        let to = s.directory.path().join("to");
        fs::create_dir(&to).unwrap();
        fs::write(to.join("a.csv"), "old\n").unwrap();
        let refused = act(&moves(&to, Existing::Refuse), &s.file, true, false);
        assert!(matches!(refused, Outcome::Stays { .. }), "{refused:?}");
        let Outcome::Gone { to: Some(other) } =
            act(&moves(&to, Existing::KeepBoth), &s.file, true, false)
        else {
            panic!("the file is moved under another name")
        };
        let name = other.file_name().unwrap().to_string_lossy().into_owned();
        assert!(
            name.starts_with("a_") && name.ends_with(".csv") && name.len() == 42,
            "{name}"
        );
        assert_eq!(fs::read_to_string(to.join("a.csv")).unwrap(), "old\n");
        let s = setup();
        let to = s.directory.path().join("to");
        fs::create_dir(&to).unwrap();
        fs::write(to.join("a.csv"), "old\n").unwrap();
        let replaced = act(&moves(&to, Existing::Overwrite), &s.file, true, false);
        assert_eq!(
            replaced,
            Outcome::Gone {
                to: Some(to.join("a.csv"))
            }
        );
        assert_eq!(fs::read_to_string(to.join("a.csv")).unwrap(), "1\n");
    }

    #[test]
    fn a_copy_cut_off_before_the_original_went_is_finished() {
        let s = setup();
        let to = s.directory.path().join("to.csv");
        fs::write(&to, "1\n").unwrap();
        let done = act(&moves(&to, Existing::Refuse), &s.file, false, true);
        assert_eq!(done, Outcome::Gone { to: Some(to) });
        assert!(!s.file.place.exists());
    }

    #[test]
    fn another_file_under_the_name_is_not_touched() {
        let s = setup();
        fs::remove_file(&s.file.place).unwrap();
        fs::write(s.directory.path().join("b"), "takes the inode\n").unwrap();
        fs::write(&s.file.place, "another one\n").unwrap();
        let file = InputFile {
            identity: Identity::default(),
            ..s.file
        };
        assert_eq!(act(&After::Delete, &file, true, false), Outcome::Vanished);
        assert!(file.place.exists());
    }

    #[test]
    fn a_single_file_moves_to_a_path_or_into_a_directory() {
        let s = setup();
        let to = s.directory.path().join("new.csv");
        let done = act(&moves(&to, Existing::Refuse), &s.file, false, false);
        assert_eq!(done, Outcome::Gone { to: Some(to) });
        let s = setup();
        let into = s.directory.path().join("dir");
        fs::create_dir(&into).unwrap();
        let done = act(&moves(&into, Existing::Refuse), &s.file, false, false);
        assert_eq!(
            done,
            Outcome::Gone {
                to: Some(into.join("a.csv"))
            }
        );
    }
}
