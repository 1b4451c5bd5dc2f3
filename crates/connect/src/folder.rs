//! Folders whose entries last: what is synced in a folder that has lost its name is lost with it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// What was created or renamed in a folder so far stays so.
///
/// # Errors
/// The folder cannot be opened or synced.
pub fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all())
}

/// Creates a folder with those above it, so that they last. Its owner alone can use what is made.
///
/// # Errors
/// One cannot be made, or it is a file.
pub fn create(dir: &Path) -> io::Result<()> {
    if dir.is_file() {
        return Err(io::Error::other("it is a file; name a directory"));
    }
    let above = dir.ancestors().filter(|dir| !dir.as_os_str().is_empty());
    let missing: Vec<&Path> = above.take_while(|dir| !dir.exists()).collect();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    for parent in missing.iter().filter_map(|made| made.parent()) {
        let here = parent.as_os_str().is_empty();
        sync(if here { Path::new(".") } else { parent })?;
    }
    Ok(())
}
