//! System calls of a run that fail, or at which it is killed, one after the other: `strace` changes the
//! n-th of them. Whatever happens, the run after it has each row once, and what a run has moved away is
//! in the database.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use super::bench::{Bench, Ran, Scale, finish};

const FILES: u64 = 3;
const LINES: u64 = 40;

/// At most so many calls of a kind are tried; a thread counts its own.
const TRIES: u64 = 6;
const TRIES_LONG: u64 = 400;

/// Calls that change files.
const KILLED_AT: &[&str] = &[
    "fsync,fdatasync",
    "rename,renameat,renameat2",
    "unlink,unlinkat",
    "pwrite64",
    "ftruncate",
    "write",
    "openat",
    "mkdir,mkdirat",
];

/// Calls and their errors. `write` is left out: sockets and the terminal have it too.
const FAILED: &[(&str, &str)] = &[
    ("fsync,fdatasync", "EIO"),
    ("rename,renameat,renameat2", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("ftruncate", "ENOSPC"),
    ("unlink,unlinkat", "EACCES"),
];

fn has_strace(bench: &Bench) -> bool {
    let asked = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_there = asked.is_ok_and(|status| status.success());
    if !is_there {
        bench.skip("the command 'strace' is needed (package strace)");
    }
    is_there
}

/// Files to read, in a folder that is otherwise empty; the app has a table and moves what it has read.
fn prepare(bench: &Bench) -> anyhow::Result<()> {
    bench.clean()?;
    for folder in ["in", "done"] {
        fs::create_dir(bench.path(folder))?;
    }
    for file in 0..FILES {
        let lines: String = (0..LINES).map(|n| format!("f{file}-{n},{n}.5\n")).collect();
        fs::write(bench.path("in").join(format!("{file}.csv")), lines)?;
    }
    let dir = bench.dir.display();
    let app = format!(
        "@app:name('Mover')\n\
         @source(type='file', mode='line', dir.uri='file:{dir}/in', tailing='false', file.read.wait.timeout='1', action.after.process='move', move.after.process='file:{dir}/done', @map(type='csv'))\n\
         define stream Lines (id string, amount double);\n\
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{dir}/out.db')\n\
         define table T (id string, amount double, number long);\n\
         from Lines select id, amount, count() as number insert into T;\n"
    );
    Ok(fs::write(bench.path("mover.siddhi"), app)?)
}

/// A run of which `strace` changes a call; what it saw is in the file `calls`.
fn changed(bench: &Bench, calls: &str, change: &str) -> anyhow::Result<Ran> {
    let child = Command::new("strace")
        .args(["-f", "-qq", "-y", "-s", "300", "-o"])
        .arg(bench.path("calls"))
        .args(["-e", &format!("trace={calls},openat,rename,renameat")])
        .args(["-e", &format!("inject={calls}:{change}")])
        .arg(&bench.binary)
        .arg("run")
        .arg(bench.path("mover.siddhi"))
        .args(["--until-done", "--json", "--state-interval", "20ms"])
        .args(["--grace", "3s", "--state"])
        .arg(bench.path("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("strace does not start")?;
    finish(child)
}

/// Each row is there once, numbered in order, and each file was moved, but for `left` of them.
fn is_whole(bench: &Bench, left: usize) -> anyhow::Result<()> {
    let rows = bench.sql(
        &bench.path("out.db"),
        "select count(*) || ' ' || count(distinct id) || ' ' || count(distinct number) || ' ' || max(number) from T",
    )?;
    let all = FILES * LINES;
    ensure!(
        rows == [format!("{all} {all} {all} {all}")],
        "rows {rows:?}"
    );
    let there = fs::read_dir(bench.path("in"))?.count();
    ensure!(there <= left, "{there} files were not moved");
    Ok(())
}

/// What was moved away is in the database.
fn is_acknowledged_in_vain(bench: &Bench) -> anyhow::Result<()> {
    let moved: Vec<String> = fs::read_dir(bench.path("done"))?
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    if moved.is_empty() {
        return Ok(());
    }
    let query = "select distinct substr(id, 2, 1) || '.csv' from T";
    let there: BTreeSet<String> = bench
        .sql(&bench.path("out.db"), query)?
        .into_iter()
        .collect();
    for file in moved {
        ensure!(
            there.contains(&file),
            "'{file}' was moved and its rows are not there"
        );
    }
    Ok(())
}

/// The same command once more, undisturbed.
fn again(bench: &Bench, left: usize) -> anyhow::Result<()> {
    let app = bench.path("mover.siddhi");
    let ran = bench.run(&app)?;
    ensure!(
        ran.code == 0 || ran.code == 4,
        "the next run ends with {}:\n{}",
        ran.code,
        ran.stderr
    );
    is_whole(bench, left)
}

/// The whole of `calls`, where a call was changed in it.
fn has_changed(bench: &Bench, how: &str) -> anyhow::Result<Option<String>> {
    let calls = fs::read_to_string(bench.path("calls"))?;
    Ok(calls.contains(how).then_some(calls))
}

fn tries(bench: &Bench) -> u64 {
    match bench.scale {
        Scale::Long => TRIES_LONG,
        Scale::Short | Scale::Sample => TRIES,
    }
}

/// Tries the first, second, … call of a kind, until a run has no more of them.
fn each(
    bench: &Bench,
    mut try_one: impl FnMut(u64) -> anyhow::Result<bool>,
) -> anyhow::Result<(u64, bool)> {
    let max = tries(bench);
    for number in 1..=max {
        prepare(bench)?;
        if !try_one(number).with_context(|| format!("call {number}"))? {
            return Ok((number - 1, true));
        }
    }
    Ok((max, false))
}

pub fn killed(bench: &Bench) -> anyhow::Result<()> {
    if !has_strace(bench) {
        return Ok(());
    }
    let mut moments = 0;
    for calls in KILLED_AT {
        let (count, is_all) = each(bench, |number| {
            changed(bench, calls, &format!("signal=KILL:when={number}"))?;
            let was_killed = has_changed(bench, "+++ killed by SIGKILL +++")?.is_some();
            is_acknowledged_in_vain(bench)?;
            again(bench, 0)?;
            Ok(was_killed)
        })
        .with_context(|| format!("killed at {calls}"))?;
        let all = if is_all { " (all)" } else { "" };
        println!("        killed at {calls}: {count} moments{all}, lost 0, doubled 0");
        moments += count;
    }
    *bench.figures() = format!("{moments} moments, lost 0, doubled 0");
    Ok(())
}

pub fn failed(bench: &Bench) -> anyhow::Result<()> {
    if !has_strace(bench) {
        return Ok(());
    }
    let mut failures = 0;
    for (calls, error) in FAILED {
        let mut ended = 0;
        let (count, is_all) = each(bench, |number| {
            let ran = changed(bench, calls, &format!("error={error}:when={number}"))?;
            let Some(seen) = has_changed(bench, "(INJECTED)")? else {
                return Ok(false);
            };
            ended += u64::from(ran.code != 0);
            ensure!(
                (0..=4).contains(&ran.code),
                "it ended with {}:\n{}",
                ran.code,
                ran.stderr
            );
            ensure!(
                ran.code == 0 || ran.stderr.contains("ERROR") || ran.stderr.contains("error"),
                "it ended with {} and said nothing:\n{}",
                ran.code,
                ran.stderr
            );
            trusts_nothing(&seen)?;
            is_acknowledged_in_vain(bench)?;
            // A file that could not be moved stays, which was said with a remedy; it is not read twice.
            let left = ran.stderr.matches("its after-action failed").count();
            again(bench, left)?;
            Ok(true)
        })
        .with_context(|| format!("{error} of {calls}"))?;
        let all = if is_all { " (all)" } else { "" };
        println!(
            "        {error} of {calls}: {count} calls{all}, {ended} ended the run with a message; rows lost 0, \
             doubled 0, acknowledged in vain 0"
        );
        failures += count;
    }
    *bench.figures() =
        format!("{failures} calls failed, rows lost 0, doubled 0, acknowledged in vain 0");
    Ok(())
}

/// A file of ours whose `fsync` has failed is not put in its place unless it was opened anew: the system
/// may have dropped what it could not write, and says so once.
fn trusts_nothing(calls: &str) -> anyhow::Result<()> {
    let mut distrusted: Option<String> = None;
    for line in calls.lines() {
        let is_sync = line.contains("fsync(") || line.contains("fdatasync(");
        if is_sync && line.contains("(INJECTED)") {
            let path = line
                .split('<')
                .nth(1)
                .and_then(|rest| rest.split('>').next());
            distrusted = path
                .filter(|path| path.ends_with(".tmp"))
                .map(str::to_owned);
            continue;
        }
        let Some(path) = &distrusted else {
            continue;
        };
        let quoted = format!("\"{path}\"");
        if line.contains("openat(") && line.contains(&quoted) {
            distrusted = None;
        } else if line.contains("rename") && line.contains(&quoted) {
            bail!("'{path}' was put in its place after its fsync had failed: {line}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_renamed_after_a_failed_sync_is_found() {
        let failed = "7 fsync(9</s/current.tmp>) = -1 EIO (Input/output error) (INJECTED)\n";
        let renamed = "7 rename(\"/s/current.tmp\", \"/s/current\") = 0\n";
        let opened = "7 openat(AT_FDCWD, \"/s/current.tmp\", O_WRONLY|O_TRUNC) = 9\n";
        assert!(trusts_nothing(&format!("{failed}{renamed}")).is_err());
        assert!(trusts_nothing(&format!("{failed}{opened}{renamed}")).is_ok());
        assert!(trusts_nothing(renamed).is_ok());
    }
}
