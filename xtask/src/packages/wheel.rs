//! The wheel, installed by pip into an environment of its own.

use std::process::Command;

use anyhow::ensure;

use super::Outcome;
use super::root::is_installed;
use crate::dist::{Release, output, wheel};

pub fn installed(release: &Release) -> anyhow::Result<Outcome> {
    if !is_installed("python3") {
        return Ok(Outcome::Skipped("'python3' is not installed".into()));
    }
    let file = wheel::make(release)?;
    let dir = tempfile::tempdir()?;
    let environment = dir.path().join("environment");
    let made = output(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment),
    );
    if let Err(error) = made {
        return Ok(Outcome::Skipped(format!(
            "no environment of Python can be made: {error:#}"
        )));
    }
    let pip = environment.join("bin/pip");
    let mut install = Command::new(&pip);
    install.args(["install", "--no-index", "--disable-pip-version-check"]);
    output(install.arg(&file))?;
    let program = environment.join("bin/headwater");
    let version = output(Command::new(&program).arg("version"))?;
    ensure!(
        version.starts_with(&format!("headwater {} ", release.version)),
        "{version}"
    );
    let mut hello = Command::new(&program);
    hello.args(["run", "examples/hello/hello.siddhi", "--until-done"]);
    let said = output(&mut hello)?;
    ensure!(
        said.contains("apple") && said.contains("6.5"),
        "the example prints: {said}"
    );
    // Every file is in the list of the wheel, so nothing is left.
    output(Command::new(&pip).args(["uninstall", "--yes", "headwater"]))?;
    ensure!(!program.exists(), "pip leaves the program behind");
    Ok(Outcome::Passed)
}
