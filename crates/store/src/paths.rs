//! Files and folders of a store.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use connect::folder;

use crate::error::Error;

/// A new file that its owner alone can read.
pub(crate) fn create_private(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    private(&mut options)
        .open(path)
        .map_err(Error::file("create", path))
}

pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// What was created or renamed in a folder so far stays so.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    folder::sync(dir).map_err(Error::file("sync", dir))
}

/// Creates a folder with those above it, so that they last.
pub(crate) fn create_dir(dir: &Path) -> Result<(), Error> {
    folder::create(dir).map_err(Error::file("create folder", dir))
}

/// Puts a file in place whole or not at all; one that is there is replaced.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let tmp = written_aside(path, bytes)?;
    fs::rename(&tmp, path).map_err(Error::file("rename", &tmp))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Puts a file in place whole or not at all, unless one is there: then false.
pub(crate) fn put_if_absent(path: &Path, bytes: &[u8]) -> Result<bool, Error> {
    let tmp = written_aside(path, bytes)?;
    let linked = fs::hard_link(&tmp, path);
    fs::remove_file(&tmp).map_err(Error::file("remove", &tmp))?;
    match linked {
        Ok(()) => sync_dir(path.parent().unwrap_or(Path::new("."))).map(|()| true),
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(cause) => Err(Error::file("create", path)(cause)),
    }
}

/// A file beside another, that lasts. A name with a dot in front is no file of a table to any reader.
fn written_aside(path: &Path, bytes: &[u8]) -> Result<std::path::PathBuf, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let tmp = path.with_file_name(format!(".{name}.tmp"));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let file = private(&mut options).open(&tmp);
    let mut file = file.map_err(Error::file("create", &tmp))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(Error::file("write", &tmp))?;
    Ok(tmp)
}

/// Text that occurs once, in the form of a UUID: from the seeds of the standard hasher.
pub(crate) fn unique() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_i64(crate::clock::millis());
        hasher.write_u32(std::process::id());
        hasher.finish()
    };
    let (a, b) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xFFFF,
        a & 0xFFF,
        b >> 48 & 0x3FFF | 0x8000,
        b & 0xFFFF_FFFF_FFFF
    )
}
