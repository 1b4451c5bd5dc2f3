//! The published file apps when time passes where they do not expect it: an insert that takes longer
//! than the copier's ten-second window, and a file whose reading takes longer than that.
//!
//! Both apps run as published; only folder and database are replaced. What must be there afterwards
//! is counted by the database's own client.

use std::fmt::Write as _;
use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::bench::{Bench, Lock, RUN_SECONDS_MAX, finish, kill};

/// The folder that the published apps name.
const PUBLISHED_FOLDER: &str = "/Users/wso2/demo";
/// The copier flushes what it holds after ten seconds without an event that ends its window.
const COPIER_WINDOW: Duration = Duration::from_secs(10);
const FOLDERS: &[&str] = &[
    "new",
    "header-processed",
    "accurate-files",
    "inaccurate-files",
    "moved",
];

/// Two files of which one says the truth about its number of rows.
struct Files {
    rows: u64,
}

impl Files {
    fn new(bench: &Bench, rows: u64) -> anyhow::Result<Files> {
        for folder in FOLDERS {
            fs::create_dir(bench.path(folder))?;
        }
        for (name, claimed) in [("right.txt", rows), ("wrong.txt", rows + 1)] {
            let mut text = format!("HDprod-orders-2020-01-31-{claimed}\n");
            for row in 0..rows {
                writeln!(text, "P|{row}|{}.25", row % 1000)?;
            }
            fs::write(bench.path("new").join(name), text)?;
        }
        Ok(Files { rows })
    }

    fn check(&self, bench: &Bench) -> anyhow::Result<()> {
        let names = |folder: &str| -> anyhow::Result<Vec<String>> {
            fs::read_dir(bench.path(folder))?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect()
        };
        ensure!(names("moved")? == ["right.txt"], "the accurate file");
        ensure!(
            names("inaccurate-files")? == ["wrong.txt"],
            "the inaccurate file"
        );
        let counted = bench.sql(
            &bench.path("out.db"),
            "select count(*), count(distinct serialNo), cast(sum(amount) as integer) \
             from AccurateBatchTable",
        )?;
        let cents: u64 = (0..self.rows).map(|row| (row % 1000) * 100 + 25).sum();
        let expected = format!("{0}|{0}|{1}", self.rows, cents / 100);
        ensure!(
            counted == [expected.as_str()],
            "{counted:?}, not {expected}"
        );
        Ok(())
    }
}

/// Starts analyzer and copier as published; `None` where the published apps are not there.
fn start(bench: &Bench) -> anyhow::Result<Option<Child>> {
    let Some(apps) = crate::shared("apps") else {
        bench.skip("the published apps are not there (no folder ../shared)");
        return Ok(None);
    };
    let replace = format!("{PUBLISHED_FOLDER}={}", bench.dir.display());
    let database = bench.path("out.db");
    let url = format!(
        "AccurateBatchTable.store.jdbc.url=jdbc:sqlite:{}",
        database.display()
    );
    let copier = apps.join("ETLFileRecordsCopier.siddhi");
    let more = [
        copier.to_str().context("a path in UTF-8")?,
        "--replace",
        &replace,
        "--set",
        &url,
    ];
    bench
        .start(&apps.join("ETLFileAnalyzer.siddhi"), &more)
        .map(Some)
}

/// Lets time pass: it is what these faults are made of.
#[expect(
    clippy::disallowed_methods,
    reason = "the passing of time is the fault"
)]
fn pass(time: Duration) {
    std::thread::sleep(time);
}

pub fn insert(bench: &Bench) -> anyhow::Result<()> {
    let files = Files::new(bench, 20_000)?;
    let lock = Lock::take(&bench.path("out.db"))?;
    let Some(mut child) = start(bench)? else {
        return lock.release();
    };
    lock.wait_for(&mut child)?;
    // What the window held is on its way; the next windows fall due meanwhile.
    pass(COPIER_WINDOW + Duration::from_secs(2));
    lock.release()?;
    let ran = finish(child)?;
    ran.ended(0)?;
    files.check(bench)
}

pub fn reading(bench: &Bench) -> anyhow::Result<()> {
    let files = Files::new(bench, 2_000_000)?;
    let Some(child) = start(bench)? else {
        return Ok(());
    };
    let id = child.id();
    let started = Instant::now();
    // The process gets some milliseconds of each second, so that the file is read for a long time.
    while started.elapsed() < 3 * COPIER_WINDOW {
        kill(id, "STOP")?;
        pass(Duration::from_secs(1));
        kill(id, "CONT")?;
        pass(Duration::from_millis(5));
    }
    let was_too_fast = bench.path("moved/right.txt").exists();
    let ran = finish(child)?;
    ran.ended(0)?;
    ensure!(!was_too_fast, "the file was read too fast to show anything");
    ensure!(started.elapsed() < Duration::from_secs(RUN_SECONDS_MAX));
    files.check(bench)
}
