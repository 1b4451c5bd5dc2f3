//! Who may read a state directory: its owner alone. It holds rows, payloads and secrets of events.

use std::fs::{self, OpenOptions};
use std::path::Path;

/// Mode of a directory.
pub(super) const DIR: u32 = 0o700;

/// Mode of a file.
pub(super) const FILE: u32 = 0o600;

/// Files of a state directory, by their names, and by how their names begin.
const OWN_FILES: [&str; 6] = [
    "lock",
    "id",
    super::USERS,
    "users.lock",
    super::SECRETS,
    "secrets.lock",
];
const OWN_PREFIXES: [&str; 2] = ["effects.", super::AUDIT];

/// What is created by these is its owner's alone.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, FILE);
    options
}

/// Takes from others what an earlier version or a copy has left to them.
pub(super) fn make_private(root: &Path) {
    let root = &fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let mut is_shared = false;
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_dir = entry.file_type().is_ok_and(|ty| ty.is_dir());
        if is_dir && path.join("apps").is_file() {
            of_owner(&path, DIR);
            let files = fs::read_dir(&path).into_iter().flatten().flatten();
            let files = files.filter(|entry| entry.file_type().is_ok_and(|ty| ty.is_file()));
            files.for_each(|file| of_owner(&file.path(), FILE));
        } else if OWN_FILES.contains(&&*name)
            || OWN_PREFIXES.iter().any(|own| name.starts_with(own))
        {
            of_owner(&path, FILE);
        } else if is_dir && super::is_kept_below(&name) {
            of_owner(&path, DIR);
        } else {
            is_shared = true;
        }
    }
    if is_shared {
        tracing::warn!(
            directory = root.display().to_string(),
            "state directory contains other files; leaving its permissions unchanged: use a \
             dedicated directory"
        );
    } else {
        of_owner(root, DIR);
    }
}

/// Sets a mode where it allows more than that.
pub(super) fn of_owner(path: &Path, mode: u32) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let Ok(metadata) = fs::symlink_metadata(path) else {
            return;
        };
        let mut permissions = metadata.permissions();
        if metadata.is_symlink() || permissions.mode() & 0o777 & !mode == 0 {
            return;
        }
        permissions.set_mode(mode);
        if let Err(cause) = fs::set_permissions(path, permissions) {
            let path = path.display().to_string();
            tracing::warn!(path, %cause, "cannot restrict permissions: other users may read saved \
                                          state");
        }
    }
    #[cfg(not(unix))]
    let _ = (path, mode);
}
