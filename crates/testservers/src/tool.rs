//! The programs that recipes call.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::Error;

/// Does a program start and end well with these arguments?
pub fn answers(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// A program under an account of its own where we are root, for servers that refuse to run as root.
pub fn under(account: Option<&str>, program: impl AsRef<OsStr>) -> Command {
    let Some(account) = account.filter(|_| geteuid().is_root()) else {
        return Command::new(program);
    };
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", account, "--regid", account, "--init-groups"])
        .arg(program);
    command
}

/// Runs a program to its end; what it wrote to its standard output.
///
/// # Errors
/// [`Error::Missing`] where there is no such program, else its last words.
pub fn run(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        let what = format!("'{program}' does not start: {error}");
        Error::missing(what, "install the package that has it")
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let said = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    Err(Error::failed(
        format!("'{program}' ended with {}", output.status),
        last_lines(&said, 12),
    ))
}

/// The first line that a program writes about itself.
///
/// # Errors
/// Those of [`run`].
pub fn version_line(program: &str, args: &[&str]) -> Result<String, Error> {
    let text = run(Command::new(program).args(args))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The end of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// A line for whoever runs a test, whatever the test harness does with its output.
pub(crate) fn say(line: &str) {
    // A closed standard error is nobody's concern here.
    writeln!(std::io::stderr(), "{line}").ok();
}
