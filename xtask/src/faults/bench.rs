//! What every fault works with: a folder to break things in, the binary, runs that are waited for.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;

use crate::cargo;

/// Longest a run may take; a run that hangs is a failure, not a wait.
pub(super) const RUN_SECONDS_MAX: u64 = 120;

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// As part of the test command.
    Sample,
    Short,
    Long,
}

/// A folder to break things in, and the binary.
pub(super) struct Bench {
    pub dir: PathBuf,
    pub binary: PathBuf,
    pub scale: Scale,
    /// What the case or pair came to, in a line.
    figures: Mutex<String>,
    /// This machine lacks something that the case needs.
    is_skipped: AtomicBool,
    _temporary: tempfile::TempDir,
}

/// What a run said and how it ended.
pub(super) struct Ran {
    pub code: i32,
    pub stderr: String,
    pub summary: Json,
}

impl Ran {
    /// The summary's count of rejected events, over all sources.
    pub fn rejected(&self) -> u64 {
        let apps = self.summary["apps"].as_array().into_iter().flatten();
        apps.flat_map(|app| app["sources"].as_array().into_iter().flatten())
            .filter_map(|source| source["rejected"].as_u64())
            .sum()
    }

    pub fn said(&self, words: &[&str]) -> anyhow::Result<()> {
        for word in words {
            ensure!(
                self.stderr.contains(word),
                "nothing of '{word}' was said:\n{}",
                self.stderr
            );
        }
        Ok(())
    }

    pub fn ended(&self, code: i32) -> anyhow::Result<()> {
        ensure!(
            self.code == code,
            "exit {} instead of {code}:\n{}",
            self.code,
            self.stderr
        );
        Ok(())
    }
}

impl Bench {
    pub fn new(scale: Scale) -> anyhow::Result<Bench> {
        let temporary = tempfile::tempdir()?;
        let binary = build()?;
        Ok(Bench {
            dir: temporary.path().to_owned(),
            binary,
            scale,
            figures: Mutex::default(),
            is_skipped: AtomicBool::new(false),
            _temporary: temporary,
        })
    }

    pub fn figures(&self) -> MutexGuard<'_, String> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The case shows nothing on this machine: it has neither passed nor failed.
    pub fn skip(&self, cause: &str) {
        println!("        {cause}");
        self.is_skipped.store(true, Ordering::Relaxed);
    }

    /// Was the case skipped? The next one is asked for itself.
    pub fn was_skipped(&self) -> bool {
        self.is_skipped.swap(false, Ordering::Relaxed)
    }

    pub fn clean(&self) -> anyhow::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?
            } else {
                fs::remove_file(path)?
            }
        }
        Ok(())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// An app that copies lines `id,amount` from `in.csv` into table `T` of `out.db`.
    pub fn copier(&self, database: &Path) -> anyhow::Result<PathBuf> {
        let app = format!(
            "@app:name('Copier')\n\
             @source(type='file', mode='line', file.uri='file:{}', tailing='false', action.after.process='keep', @map(type='csv'))\n\
             define stream Lines (id string, amount double);\n\
             @store(type='rdbms', jdbc.url='jdbc:sqlite:{}')\n\
             define table T (id string, amount double);\n\
             from Lines select id, amount insert into T;\n",
            self.path("in.csv").display(),
            database.display()
        );
        let path = self.path("copier.siddhi");
        fs::write(&path, app)?;
        Ok(path)
    }

    pub fn start(&self, app: &Path, more: &[&str]) -> anyhow::Result<Child> {
        Command::new(&self.binary)
            .arg("run")
            .arg(app)
            .args(["--until-done", "--json", "--state"])
            .arg(self.path("state"))
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start headwater")
    }

    pub fn run(&self, app: &Path) -> anyhow::Result<Ran> {
        finish(self.start(app, &[])?)
    }

    /// Rows of `T`.
    pub fn rows(&self, database: &Path) -> anyhow::Result<Vec<String>> {
        self.sql(database, "select id || ',' || amount from T order by rowid")
    }

    /// What the database's own client answers, a line a row.
    pub fn sql(&self, database: &Path, query: &str) -> anyhow::Result<Vec<String>> {
        let output = Command::new("sqlite3")
            .arg(database)
            .arg(query)
            .output()
            .context("the command 'sqlite3' is needed (package sqlite3)")?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect())
    }

    /// The error store's own words about what it keeps.
    pub fn kept(&self) -> anyhow::Result<String> {
        let output = Command::new(&self.binary)
            .args(["errors", "list", "--each", "--limit", "0"])
            .arg(self.path("state"))
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The binary that `HEADWATER_BINARY` names, or one that is built here.
pub(super) fn build() -> anyhow::Result<PathBuf> {
    if let Some(binary) = std::env::var_os("HEADWATER_BINARY") {
        return Ok(binary.into());
    }
    let built = cargo::build(&["build", "--package", "headwater"])?;
    built
        .iter()
        .filter(|message| message["target"]["name"] == "headwater")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo named no executable")
}

/// Waits for the end of a run, at most [`RUN_SECONDS_MAX`].
pub(super) fn finish(child: Child) -> anyhow::Result<Ran> {
    let id = child.id();
    let (sender, receiver) = std::sync::mpsc::sync_channel::<std::io::Result<Output>>(1);
    let waiter = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = match receiver.recv_timeout(Duration::from_secs(RUN_SECONDS_MAX)) {
        Ok(output) => output?,
        Err(_) => {
            kill(id, "KILL")?;
            bail!("the run hung for {RUN_SECONDS_MAX} s");
        }
    };
    drop(waiter);
    let summary = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok())
        .rfind(|json| json["type"] == "summary")
        .unwrap_or(Json::Null);
    Ok(Ran {
        code: output.status.code().unwrap_or(-1),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        summary,
    })
}

/// Hundredths of a second that a process has worked.
pub(super) fn worked(id: u32) -> anyhow::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    let numbers = fields.split(' ').skip(11).take(2);
    Ok(numbers.filter_map(|n| n.parse::<u64>().ok()).sum())
}

pub(super) fn kill(id: u32, signal: &str) -> anyhow::Result<()> {
    Command::new("kill")
        .args([&format!("-{signal}"), &id.to_string()])
        .status()?;
    Ok(())
}

/// Another process that holds the write lock of a database.
pub(super) struct Lock {
    client: Child,
    input: ChildStdin,
}

impl Lock {
    pub fn take(database: &Path) -> anyhow::Result<Lock> {
        let mut client = Command::new("sqlite3")
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = client.stdin.take().context("sqlite3 has no input")?;
        input.write_all(b"create table lock(x);\nbegin exclusive;\nselect 'locked';\n")?;
        input.flush()?;
        let output = client.stdout.as_mut().context("sqlite3 has no output")?;
        read_until(output, "locked")?;
        Ok(Lock { client, input })
    }

    /// Until the run says that it waits for the lock; gives what it said so far.
    pub fn wait_for(&self, run: &mut Child) -> anyhow::Result<String> {
        read_until(run.stderr.as_mut().context("no standard error")?, "lock")
    }

    pub fn release(mut self) -> anyhow::Result<()> {
        self.input.write_all(b"commit;\n")?;
        drop(self.input);
        self.client.wait()?;
        Ok(())
    }
}

/// Reads until `word` was said, in any case; the run goes on meanwhile.
pub(super) fn read_until(stream: &mut impl std::io::Read, word: &str) -> anyhow::Result<String> {
    let mut said = Vec::new();
    let mut byte = [0];
    let deadline = Instant::now() + Duration::from_secs(RUN_SECONDS_MAX);
    while Instant::now() < deadline {
        if stream.read(&mut byte)? == 0 {
            break;
        }
        said.push(byte[0]);
        if byte[0] == b'\n' && String::from_utf8_lossy(&said).to_lowercase().contains(word) {
            return Ok(String::from_utf8_lossy(&said).into_owned());
        }
    }
    bail!(
        "nothing of '{word}' was said: {}",
        String::from_utf8_lossy(&said)
    );
}
