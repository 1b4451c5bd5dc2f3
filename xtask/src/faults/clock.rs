//! The clock of the machine jumps, as `libfaketime` shows it to the process: windows of processing time
//! fire once for each event, and none waits for an hour.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::bench::{Bench, kill};

/// Where Debian has it, without the name of the machine.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

const EVENTS: u64 = 50;
const PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for the windows of what was written.
const PATIENCE: Duration = Duration::from_secs(10);

/// Seconds by which the clock is wrong, one after the other: an hour ahead, right, an hour behind, a leap
/// second, right.
const JUMPS: [i64; 5] = [3600, 0, -3600, 1, 0];

fn library() -> Option<std::path::PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut paths = folders.map(|folder| folder.path().join(LIBRARY));
    paths.find(|path| path.exists())
}

/// Events in all windows so far.
fn counted(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.parse::<u64>().ok())
        .sum()
}

pub fn jumps(bench: &Bench) -> anyhow::Result<()> {
    let Some(library) = library() else {
        bench.skip("libfaketime is needed (package faketime)");
        return Ok(());
    };
    let dir = bench.dir.display();
    let app = format!(
        "@app:name('Clock')\n\
         @source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', file.polling.interval='20', @map(type='csv'))\n\
         define stream In (n long);\n\
         @sink(type='file', file.uri='file:{dir}/batch.csv', @map(type='csv')) define stream Batch (c long);\n\
         @sink(type='file', file.uri='file:{dir}/expired.csv', @map(type='csv')) define stream Expired (c long);\n\
         from In#window.timeBatch(300 milliseconds) select count() as c insert into Batch;\n\
         from In#window.time(300 milliseconds) select 1L as c insert expired events into Expired;\n"
    );
    fs::write(bench.path("app.siddhi"), app)?;
    fs::write(bench.path("in.csv"), "")?;
    let clock = bench.path("clock");
    fs::write(&clock, "+0\n")?;
    let log = fs::File::create(bench.path("log"))?;
    let mut child = Command::new(&bench.binary)
        .arg("run")
        .arg(bench.path("app.siddhi"))
        .args(["--state-interval", "100ms", "--state"])
        .arg(bench.path("state"))
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", &clock)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start headwater")?;
    let played = play(bench, &clock);
    kill(child.id(), "TERM")?;
    let status = child.wait()?;
    let log = fs::read_to_string(bench.path("log"))?;
    let longest = played.with_context(|| log.clone())?;
    ensure!(status.success(), "{status}:\n{log}");
    let figures = format!(
        "{} jumps of the clock, {} events: each counted once by timeBatch and expired once by time; \
         longest wait for a window {} ms",
        JUMPS.len(),
        EVENTS * (JUMPS.len() as u64 + 1),
        longest.as_millis()
    );
    println!("        {figures}");
    *bench.figures() = figures;
    Ok(())
}

/// Longest wait for the windows of some events.
fn play(bench: &Bench, clock: &Path) -> anyhow::Result<Duration> {
    let (batch, expired) = (bench.path("batch.csv"), bench.path("expired.csv"));
    let mut input = fs::File::options()
        .append(true)
        .open(bench.path("in.csv"))?;
    let mut longest = Duration::ZERO;
    let mut sent = 0;
    for jump in [None].into_iter().chain(JUMPS.map(Some)) {
        for part in 0..EVENTS / 10 {
            // In the middle of windows.
            if let Some(jump) = jump.filter(|_| part == EVENTS / 20) {
                fs::write(clock, format!("{jump:+}\n"))?;
            }
            let lines: String = (0..10).map(|n| format!("{}\n", sent + n)).collect();
            input.write_all(lines.as_bytes())?;
            sent += 10;
            std::thread::park_timeout(PAUSE);
        }
        let began = Instant::now();
        while counted(&batch) < sent || counted(&expired) < sent {
            ensure!(
                began.elapsed() < PATIENCE,
                "after {jump:?} s: {} and {} of {sent} events",
                counted(&batch),
                counted(&expired)
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
        longest = longest.max(began.elapsed());
        let both = (counted(&batch), counted(&expired));
        ensure!(both == (sent, sent), "{both:?} of {sent} events");
    }
    Ok(longest)
}
