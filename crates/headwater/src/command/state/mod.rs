//! `headwater state`: what a server has saved, and copies of it.

mod copy;
mod diff;
mod list;
mod restore;
mod show;
mod verify;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use server::clock::{utc_text, wall_millis};

use plan::Plan;
use server::{Error, deployment};

use super::load_options;
use super::secrets::StoreArgs;
use crate::cli::ChangeArgs;
use crate::cli::state::{StateAction, StateArgs};
use crate::output::Output;

pub fn run(args: &StateArgs, output: &Output) -> anyhow::Result<u8> {
    match &args.action {
        StateAction::List(args) => list::run(args, output),
        StateAction::Verify(args) => verify::run(args, output),
        StateAction::Copy(args) => copy::run(args, output),
        StateAction::Restore(args) => restore::run(args, output),
        StateAction::Show(args) => show::run(args, output),
        StateAction::Diff(args) => diff::run(args, output),
    }
}

/// A directory, or one of its snapshots: `DIR@12`.
fn place(text: &str) -> (PathBuf, Option<u64>) {
    let whole = || (PathBuf::from(text), None);
    if Path::new(text).exists() {
        return whole();
    }
    let split = text.rsplit_once('@');
    let epoch = split.and_then(|(dir, epoch)| Some((dir.into(), Some(epoch.parse().ok()?))));
    epoch.unwrap_or_else(whole)
}

/// The app of a file, checked.
fn plan_of(file: &Path, output: &Output) -> anyhow::Result<Plan> {
    let options = load_options(
        &ChangeArgs::default(),
        StoreArgs::of_environment().secrets(None, output),
        false,
    )?;
    let texts = deployment::read_texts(&[file.to_owned()])?;
    let apps = deployment::load(&texts, &options)?;
    let plan = apps.into_iter().find_map(|app| app.plan);
    plan.ok_or_else(|| {
        let file = file.display();
        Error::Refused(format!(
            "the app in '{file}' has errors: headwater check {file} lists them"
        ))
        .into()
    })
}

/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Says on a terminal which file is being read, once that takes long.
struct Progress<'o> {
    output: &'o Output,
    what: &'static str,
    said: Instant,
    bytes: u64,
    is_shown: bool,
}

impl<'o> Progress<'o> {
    fn new(what: &'static str, output: &'o Output) -> Progress<'o> {
        Progress {
            output,
            what,
            said: Instant::now(),
            bytes: 0,
            is_shown: io::stderr().is_terminal() && !output.is_quiet,
        }
    }

    fn next(&mut self, path: &Path, bytes: u64) {
        if self.is_shown && self.said.elapsed() >= PROGRESS_EVERY {
            self.said = Instant::now();
            self.output.say(&format!(
                "{} {} ({}), {} done",
                self.what,
                path.display(),
                size(bytes),
                size(self.bytes)
            ));
        }
        self.bytes += bytes;
    }
}

/// `812 B`, `1.5 KB`, `20.0 MB`.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// `2026-01-31T09:00:00Z, 5 min ago`.
fn time_and_age(millis: i64) -> String {
    let seconds = (wall_millis() - millis).max(0) / 1000;
    let age = match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    };
    format!("{}, {age} ago", utc_text(millis - millis.rem_euclid(1000)))
}

/// `1 file`, `2 files`.
fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_have_units() {
        assert_eq!(size(812), "812 B");
        assert_eq!(size(1_536), "1.5 KB");
        assert_eq!(size(20 << 20), "20.0 MB");
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "file"), "0 files");
        assert_eq!(place("gone@12"), ("gone".into(), Some(12)));
        assert_eq!(place("gone@x"), ("gone@x".into(), None));
    }
}
