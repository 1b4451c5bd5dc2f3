//! Wheels of PyPI, for programs in Python that tests and measurements run.

use std::path::PathBuf;
use std::process::Command;

use crate::place::kept;
use crate::{Error, is_required, run, tool};

const EDITION: &str = "1";

/// The folder of a wheel and of what it needs, for `PYTHONPATH`.
///
/// # Errors
/// [`Error::Missing`] where `pip` cannot get it.
pub fn wheel(name: &str) -> Result<PathBuf, Error> {
    kept(&format!("wheel-{name}"), EDITION, |into| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]);
        let installed = run(pip.arg(into).arg(name));
        installed.map(drop).map_err(|error| {
            let what = format!("the wheel '{name}' of PyPI cannot be had: {error}");
            Error::missing(what, "install python3-pip, with a way to PyPI")
        })
    })
}

/// The same for a test, which is skipped without it, and says so.
///
/// # Panics
/// It cannot be had, and servers are required.
pub fn wheel_or_skip(name: &str) -> Option<PathBuf> {
    match wheel(name) {
        Ok(folder) => Some(folder),
        Err(error @ Error::Missing { .. }) if !is_required() => {
            tool::say(&format!("skipped: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}
