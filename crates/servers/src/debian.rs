//! Servers that are one program of a Debian package.

use std::path::PathBuf;

use crate::Error;

/// Where programs of packages lie, whatever the path of the user says.
const FOLDERS: &[&str] = &["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

/// The program that a package brings.
///
/// # Errors
/// [`Error::Missing`] where it is not installed.
pub fn program(name: &str, package: &str) -> Result<PathBuf, Error> {
    let found = FOLDERS
        .iter()
        .map(|folder| PathBuf::from(folder).join(name));
    found
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            let remedy = format!("apt-get install {package} brings it");
            Error::missing(format!("there is no '{name}'"), remedy)
        })
}
