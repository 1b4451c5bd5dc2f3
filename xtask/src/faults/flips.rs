//! Bits that flip and files that are cut while no server runs: each change is found, and never fewer
//! or more events are there than is said.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;

use super::bench::{Bench, Scale, finish};
use super::chance::Chance;

/// How many changes are tried.
const TRIES: u64 = 1000;
/// With `--sample`.
const TRIES_SAMPLE: u64 = 100;

/// Rejected lines of the run that is damaged, and events of it that were not delivered.
const REJECTED: u64 = 40;
const UNDELIVERED: u64 = 20;
const KEPT: u64 = REJECTED + UNDELIVERED;

/// Events that change rows which the app holds, and how many rows these are: saves of them have changes
/// alone, and come to so much that they are merged.
const COUNTED: u64 = 1_500_000;
const ROWS: u64 = 20_000;

/// Files of the database.
const DATABASE: [&str; 3] = ["out.db", "out.db-wal", "out.db-shm"];

/// Kinds of files of which there must be some.
const KINDS: [&str; 7] = [
    "apps",
    "current",
    "id",
    MERGED,
    "rejected",
    CHANGES,
    "undelivered",
];
const MERGED: &str = "merged snapshot";
const CHANGES: &str = "snapshot of changes";

/// What became of the changes of one kind of file.
#[derive(Default)]
struct Outcome {
    tries: u64,
    refused: u64,
    said: u64,
    harmless: u64,
}

/// Every file with its bytes.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(dir: &Path, into: &mut Files) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, into)?;
        } else {
            into.insert(path.clone(), fs::read(path)?);
        }
    }
    Ok(())
}

/// `state` and the database as they were.
fn restore(bench: &Bench, all: &Files) -> anyhow::Result<()> {
    fs::remove_dir_all(bench.path("state"))?;
    for name in DATABASE {
        fs::remove_file(bench.path(name)).ok();
    }
    for (path, bytes) in all {
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// Events that are listed, how many are said to be missing at least, and whether that is exact.
fn listed(bench: &Bench) -> anyhow::Result<(u64, u64, bool)> {
    let output = Command::new(&bench.binary)
        .args(["errors", "list", "--each", "--json"])
        .arg(bench.path("state"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "errors list: {said}");
    let list: Json = serde_json::from_str(&text)?;
    let events = list["events"].as_array().map_or(0, Vec::len) as u64;
    let missing: Vec<&Json> = list["missing"].as_array().into_iter().flatten().collect();
    let count = missing.iter().filter_map(|m| m["events"].as_u64()).sum();
    ensure!(
        count == 0 || said.contains("damaged"),
        "only the JSON says it"
    );
    let is_exact = missing.iter().all(|m| m["exact"] == true);
    Ok((events, count, is_exact))
}

/// The number of a snapshot.
fn epoch_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("snapshot-")?.parse().ok()
}

/// Numbers of the snapshots, in order.
fn epochs(all: &Files) -> Vec<u64> {
    let mut epochs: Vec<u64> = all.keys().filter_map(|path| epoch_of(path)).collect();
    epochs.sort_unstable();
    epochs
}

/// Does a snapshot say all by itself? The epoch whose changes it has stands in its head, and is 0 then.
fn is_whole(bytes: &[u8]) -> bool {
    let before = bytes.get(40..48);
    before.is_some_and(|before| before.iter().all(|byte| *byte == 0))
}

/// Files by kind.
fn kinds<'a>(bench: &Bench, all: &'a Files) -> BTreeMap<String, Vec<&'a PathBuf>> {
    let state = bench.path("state");
    let mut kinds: BTreeMap<String, Vec<&PathBuf>> = BTreeMap::new();
    for (path, bytes) in all {
        if !path.starts_with(&state) || bytes.is_empty() {
            continue;
        }
        let kind = match epoch_of(path) {
            Some(_) if is_whole(bytes) => MERGED.to_owned(),
            Some(_) => CHANGES.to_owned(),
            None => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.split('-').next().unwrap_or_default().to_owned()
            }
        };
        kinds.entry(kind).or_default().push(path);
    }
    kinds
}

/// The events that are counted in the rows of the saved state.
fn counted(bench: &Bench) -> anyhow::Result<u64> {
    let output = Command::new(&bench.binary)
        .args(["state", "show"])
        .arg(bench.path("state"))
        .arg("--app")
        .arg(bench.path("copier.siddhi"))
        .args(["--json", "--query", "from Held select sum(times) as times"])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "state show: {said}");
    let answer: Json = serde_json::from_slice(&output.stdout)?;
    let times = answer["rows"][0][0].as_u64();
    times.with_context(|| format!("no count in {answer}"))
}

fn rows(bench: &Bench) -> anyhow::Result<Vec<String>> {
    bench.sql(&bench.path("out.db"), "select id from T order by rowid")
}

/// Runs that save one after the other, with lines that are rejected and events that are not delivered; the
/// last one saves so often that changes are merged.
fn prepare(bench: &Bench) -> anyhow::Result<(PathBuf, Files)> {
    let app = format!(
        "@app:name('Copier')\n\
         @source(type='file', mode='line', dir.uri='file:{}', tailing='false', action.after.process='keep', @map(type='csv'))\n\
         define stream Lines (id string, amount double);\n\
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{}')\n\
         define table T (id string, amount double);\n\
         @PrimaryKey('id') define table Held (id string, times long);\n\
         @sink(type='http', publisher.url='http://127.0.0.1:{}/', on.error='STORE', @map(type='json'))\n\
         define stream Away (id string);\n\
         from Lines[amount == 1.5] select id, amount insert into T;\n\
         from Lines[amount == 2.5] select id insert into Away;\n\
         from Lines[amount == 3.5] select id, count() as times group by id\n\
         update or insert into Held on Held.id == id;\n",
        bench.path("in").display(),
        bench.path("out.db").display(),
        testservers::free_port()?
    );
    let path = bench.path("copier.siddhi");
    fs::write(&path, app)?;
    fs::create_dir(bench.path("in"))?;
    for name in ["a", "b"] {
        let bad: String = (0..REJECTED / 2)
            .map(|i| format!("{name}{i},much\n"))
            .collect();
        let lost: String = (0..UNDELIVERED / 2)
            .map(|i| format!("{name}{i},2.5\n"))
            .collect();
        fs::write(
            bench.path("in").join(name),
            format!("{name},1.5\n{bad}{lost}"),
        )?;
        bench.run(&path)?.ended(4)?;
    }
    let mut all = Files::new();
    files(&bench.path("state"), &mut all)?;
    let before = epochs(&all).last().copied().unwrap_or(0);
    let counted_lines: String = (0..COUNTED)
        .map(|i| format!("{},3.5\n", i % ROWS))
        .collect();
    fs::write(bench.path("in").join("c"), counted_lines)?;
    finish(bench.start(&path, &["--state-interval", "10ms"])?)?.ended(0)?;
    ensure!(listed(bench)? == (KEPT, 0, true) && rows(bench)? == ["a", "b"]);
    ensure!(counted(bench)? == COUNTED);
    all.clear();
    files(&bench.path("state"), &mut all)?;
    // A run begins with a whole snapshot, which goes when a later one is whole as well.
    let first = epochs(&all).first().copied().unwrap_or(0);
    ensure!(first > before + 1, "nothing was merged after {before}");
    for name in DATABASE {
        if let Ok(bytes) = fs::read(bench.path(name)) {
            all.insert(bench.path(name), bytes);
        }
    }
    Ok((path, all))
}

/// What a start does with the change: it is refused with a remedy, or says how many events are gone,
/// or nothing has changed for anybody.
fn judge(bench: &Bench, app: &Path, outcome: &mut Outcome) -> anyhow::Result<()> {
    outcome.tries += 1;
    // The list may be asked for before a start: it must not fail, whatever is damaged.
    listed(bench)?;
    let ran = bench.run(app)?;
    if ran.code == 1 {
        let said = ran.stderr.to_lowercase();
        ensure!(
            said.contains("restore a copy"),
            "refused without a remedy:\n{said}"
        );
        outcome.refused += 1;
        return Ok(());
    }
    ensure!(
        ran.code == 0 || ran.code == 4,
        "exit {}:\n{}",
        ran.code,
        ran.stderr
    );
    let (events, missing, is_exact) = listed(bench)?;
    let has_all = match is_exact {
        true => events + missing == KEPT,
        false => missing > 0 && events + missing <= KEPT,
    };
    ensure!(
        has_all,
        "{events} events, {missing} said to be missing, of {KEPT}"
    );
    let (rows, counted) = (rows(bench)?, counted(bench)?);
    ensure!(
        rows == ["a", "b"] && counted == COUNTED,
        "rows {rows:?}, {counted} events counted of {COUNTED}:\n{}",
        ran.stderr
    );
    if missing > 0 || ran.stderr.contains("cannot use saved state") {
        outcome.said += 1;
    } else {
        outcome.harmless += 1;
    }
    Ok(())
}

/// Each change of a backup is found by `state verify`, and none of them is restored.
fn backups(bench: &Bench, chance: &mut Chance) -> anyhow::Result<()> {
    let state = |args: &[&str], dirs: &[PathBuf]| {
        let output = Command::new(&bench.binary)
            .arg("state")
            .args(args)
            .args(dirs)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::Ok((output.status.code(), said))
    };
    let (from, to) = (bench.path("state"), bench.path("backup"));
    let (code, said) = state(&["copy"], &[from, to.clone()])?;
    ensure!(code == Some(0), "state copy: {said}");
    let mut all = Files::new();
    files(&to, &mut all)?;
    let paths: Vec<&PathBuf> = all.keys().filter(|path| !all[*path].is_empty()).collect();
    let tries = if bench.scale == Scale::Sample {
        20
    } else {
        200
    };
    for number in 0..tries {
        let path = paths[chance.below(paths.len() as u64) as usize];
        let mut bytes = all[path].clone();
        let at = chance.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << chance.below(8);
        fs::write(path, bytes)?;
        for (command, dirs) in [
            ("verify", vec![to.clone()]),
            ("restore", vec![to.clone(), bench.path("elsewhere")]),
        ] {
            let (code, said) = state(&[command], &dirs)?;
            ensure!(
                code == Some(1) && said.contains("help: "),
                "change {number} at byte {at} of '{}': state {command} ends with {code:?}: {said}",
                path.display()
            );
        }
        fs::write(path, &all[path])?;
    }
    println!("        backup: {tries} flips, all found and none restored");
    Ok(())
}

pub fn all(bench: &Bench) -> anyhow::Result<()> {
    let (app, all) = prepare(bench)?;
    let kinds = kinds(bench, &all);
    for kind in KINDS {
        ensure!(kinds.contains_key(kind), "no file '{kind}' was saved");
    }
    let kinds: Vec<(String, Vec<&PathBuf>)> = kinds.into_iter().collect();
    let mut outcomes: BTreeMap<String, Outcome> = BTreeMap::new();
    let mut chance = Chance(1);
    backups(bench, &mut chance)?;
    let tries = match bench.scale {
        Scale::Sample => TRIES_SAMPLE,
        Scale::Short | Scale::Long => TRIES,
    };
    for number in 0..tries {
        restore(bench, &all)?;
        // Of each kind as many, however many files it has.
        let (kind, paths) = &kinds[chance.below(kinds.len() as u64) as usize];
        let path = paths[chance.below(paths.len() as u64) as usize];
        let mut bytes = all[path].clone();
        let at = chance.below(bytes.len() as u64) as usize;
        let is_cut = chance.below(4) == 0;
        if is_cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << chance.below(8);
        }
        fs::write(path, bytes)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let outcome = outcomes.entry(kind.clone()).or_default();
        if let Err(error) = judge(bench, &app, outcome) {
            let what = if is_cut { "cut at" } else { "flip in" };
            bail!("change {number}, {what} byte {at} of '{name}': {error:#}");
        }
    }
    let sum = |of: fn(&Outcome) -> u64| outcomes.values().map(of).sum::<u64>();
    *bench.figures() = format!(
        "{tries} changes of {} kinds of files: refused with a remedy {}, said and gone on {}, without effect {}, \
         silent 0",
        outcomes.len(),
        sum(|outcome| outcome.refused),
        sum(|outcome| outcome.said),
        sum(|outcome| outcome.harmless)
    );
    for (kind, outcome) in &outcomes {
        println!(
            "        {kind}: {} changes; refused with a remedy {}, run and said {}, without effect {}",
            outcome.tries, outcome.refused, outcome.said, outcome.harmless
        );
    }
    Ok(())
}
