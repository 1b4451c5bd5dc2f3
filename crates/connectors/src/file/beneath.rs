//! Opening a file below a directory, whatever its path is made of.
//!
//! Promises: no link below the directory is followed, also one that is put there meanwhile; directories
//! that lack are made.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

/// The directory that is opened first, which may be a link; what follows may not.
const TOP: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC);
const BELOW: OFlags = TOP.union(OFlags::NOFOLLOW);
const APPEND: OFlags = OFlags::WRONLY
    .union(OFlags::APPEND)
    .union(OFlags::CREATE)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens `path`, which lies below `root`, to write at its end.
///
/// # Errors
/// `InvalidInput`: the path is not below the root, or a part of it is a link. Others are the system's.
pub fn append(root: &Path, path: &Path) -> io::Result<File> {
    let outside = || invalid(format!("it is not below '{}'", root.display()));
    let below = path.strip_prefix(root).map_err(|_| outside())?;
    let mut names = Vec::new();
    for part in below.components() {
        match part {
            Component::Normal(name) => names.push(name),
            _ => return Err(outside()),
        }
    }
    let name = names.pop().ok_or_else(outside)?;
    std::fs::create_dir_all(root)?;
    let mut directory = open(root, TOP, Mode::empty())?;
    for name in names {
        directory = enter(&directory, name.as_ref())?;
    }
    let mode = Mode::from_raw_mode(0o666);
    let file =
        openat(&directory, name, APPEND, mode).map_err(|error| refused(error, name.as_ref()))?;
    Ok(File::from(file))
}

/// A directory in a directory, made where it lacks.
fn enter(directory: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    let enter = || openat(directory, name, BELOW, Mode::empty());
    let entered = match enter() {
        Err(Errno::NOENT) => {
            match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o777)) {
                // Somebody else has made it.
                Ok(()) | Err(Errno::EXIST) => enter(),
                Err(error) => Err(error),
            }
        }
        entered => entered,
    };
    entered.map_err(|error| refused(error, name))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn refused(error: Errno, name: &Path) -> io::Error {
    match error {
        // A link to a directory is "not a directory" where both are asked for.
        Errno::LOOP | Errno::NOTDIR => invalid(format!(
            "'{}' is a link, or no directory: links are not followed below the directory that \
             'file.uri' names; write where the link leads to in the app",
            name.display()
        )),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_below_the_directory_are_not_followed_and_the_directory_may_be_one() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::create_dir(at("secret")).unwrap();
        fs::write(at("secret/keys"), "k").unwrap();
        symlink(at("real"), at("root")).unwrap();
        symlink(at("secret"), at("real/way")).unwrap();
        symlink(at("secret/keys"), at("real/file")).unwrap();
        symlink(at("secret/new"), at("real/dangling")).unwrap();
        for text in ["a", "b"] {
            let mut file = append(&at("root"), &at("root/deep/er/out")).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(at("real/deep/er/out")).unwrap(), "ab");
        for path in [
            "way/new",
            "way/keys",
            "file",
            "dangling",
            "deep/../../x",
            "",
            "../x",
        ] {
            let error = append(&at("root"), &at("root").join(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}: {error}");
        }
        assert!(append(&at("root"), &at("secret/keys")).is_err());
        assert_eq!(fs::read_to_string(at("secret/keys")).unwrap(), "k");
        assert_eq!(fs::read_dir(at("secret")).unwrap().count(), 1);
        assert!(!at("x").exists());
    }
}
