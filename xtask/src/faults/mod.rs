//! `cargo xtask faults`: breaks what surrounds a run and looks at what the run says and keeps.
//!
//! Each fault gives a clear error with its place and a remedy, is counted, and leaves its neighbours
//! alone; nothing is lost. The rows are read back by the database's own client.

mod flips;
mod slow;
mod state;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;

use crate::cargo;
use crate::sample::Sample;

/// Longest a run may take; a run that hangs is a failure, not a wait.
const RUN_SECONDS_MAX: u64 = 120;

/// With `--sample` one fault of so many is tried.
const SAMPLE_PARTS: u64 = 4;

type Fault = (&'static str, fn(&Bench) -> anyhow::Result<()>);

/// In the order of the catalogue.
const FAULTS: &[Fault] = &[
    ("a line with too few columns", too_few_columns),
    ("a value of the wrong type", wrong_type),
    ("a file that ends in the middle of a line", torn_lines),
    ("an XML file that ends in the middle of a node", torn_xml),
    ("bytes of another encoding", other_encoding),
    ("a file in UTF-16", utf16),
    ("a line of 1 GB", huge_line),
    ("a folder that is missing", missing_folder),
    (
        "a database that another process has locked",
        locked_database,
    ),
    ("an insert that takes longer than a window", slow::insert),
    ("a file that takes long to read", slow::reading),
    ("a full disk, then room again", full_disk),
    ("a file that may not grow (RLIMIT_FSIZE)", file_size_limit),
    ("a target of a move that exists", move_target_exists),
    ("the newest saved state is damaged", state::newest),
    ("all saved states are damaged", state::all),
    ("flips and cuts of every saved file", flips::all),
];

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let bench = Bench::new()?;
    let mut chosen: Vec<&Fault> = FAULTS.iter().collect();
    match args.first().map(String::as_str) {
        None => {}
        Some("--sample") => {
            let sample = Sample::of_commit()?;
            chosen.retain(|(name, _)| sample.takes(name, SAMPLE_PARTS));
            sample.print(&format!("{} of {} faults", chosen.len(), FAULTS.len()));
        }
        Some(wanted) => chosen.retain(|(name, _)| name.contains(wanted)),
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, fault) in chosen {
        let started = Instant::now();
        bench.clean()?;
        match fault(&bench) {
            Ok(()) => {
                passed += 1;
                println!("passed  {name} ({:.1} s)", started.elapsed().as_secs_f64());
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error:#}");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// A folder to break things in, and the binary.
struct Bench {
    dir: PathBuf,
    binary: PathBuf,
    _temporary: tempfile::TempDir,
}

/// What a run said and how it ended.
struct Ran {
    code: i32,
    stderr: String,
    summary: Json,
}

impl Ran {
    /// The summary's count of rejected events, over all sources.
    fn rejected(&self) -> u64 {
        let apps = self.summary["apps"].as_array().into_iter().flatten();
        apps.flat_map(|app| app["sources"].as_array().into_iter().flatten())
            .filter_map(|source| source["rejected"].as_u64())
            .sum()
    }

    fn said(&self, words: &[&str]) -> anyhow::Result<()> {
        for word in words {
            ensure!(
                self.stderr.contains(word),
                "nothing of '{word}' was said:\n{}",
                self.stderr
            );
        }
        Ok(())
    }

    fn ended(&self, code: i32) -> anyhow::Result<()> {
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
    fn new() -> anyhow::Result<Bench> {
        let temporary = tempfile::tempdir()?;
        let binary = build()?;
        Ok(Bench {
            dir: temporary.path().to_owned(),
            binary,
            _temporary: temporary,
        })
    }

    fn clean(&self) -> anyhow::Result<()> {
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

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// An app that copies lines `id,amount` from `in.csv` into table `T` of `out.db`.
    fn copier(&self, database: &Path) -> anyhow::Result<PathBuf> {
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

    fn start(&self, app: &Path, more: &[&str]) -> anyhow::Result<Child> {
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

    fn run(&self, app: &Path) -> anyhow::Result<Ran> {
        finish(self.start(app, &[])?)
    }

    /// Rows of `T`.
    fn rows(&self, database: &Path) -> anyhow::Result<Vec<String>> {
        self.sql(database, "select id || ',' || amount from T order by rowid")
    }

    /// What the database's own client answers, a line a row.
    fn sql(&self, database: &Path, query: &str) -> anyhow::Result<Vec<String>> {
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
    fn kept(&self) -> anyhow::Result<String> {
        let output = Command::new(&self.binary)
            .args(["errors", "list"])
            .arg(self.path("state"))
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The binary that `HEADWATER_BINARY` names, or one that is built here.
fn build() -> anyhow::Result<PathBuf> {
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
fn finish(child: Child) -> anyhow::Result<Ran> {
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

fn kill(id: u32, signal: &str) -> anyhow::Result<()> {
    Command::new("kill")
        .args([&format!("-{signal}"), &id.to_string()])
        .status()?;
    Ok(())
}

// ---- bad input ----

fn too_few_columns(bench: &Bench) -> anyhow::Result<()> {
    fs::write(bench.path("in.csv"), "a,1.5\nb\nc,2.5\n")?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "c,2.5"]);
    ran.said(&["in.csv", "line 2"])?;
    ensure!(
        bench.kept()?.contains("line 2"),
        "not in the error store: {}",
        bench.kept()?
    );
    Ok(())
}

fn wrong_type(bench: &Bench) -> anyhow::Result<()> {
    fs::write(bench.path("in.csv"), "a,1.5\nb,much\nc,2.5\n")?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "c,2.5"]);
    ran.said(&["in.csv", "line 2", "amount", "much"])
}

fn torn_lines(bench: &Bench) -> anyhow::Result<()> {
    fs::write(bench.path("in.csv"), "a,1.5\nb,2.5\nc")?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "b,2.5"]);
    ran.said(&["line 3"])
}

fn torn_xml(bench: &Bench) -> anyhow::Result<()> {
    fs::write(
        bench.path("in.xml"),
        "<osm>\n<node id=\"a\" lat=\"1\"/>\n<node id=\"b\" lat=\"2\"/>\n<node id=\"c\" la",
    )?;
    let app = format!(
        "@app:name('Nodes')\n\
         @source(type='file', mode='line', file.uri='file:{}', tailing='false', action.after.process='keep',\n\
           @map(type='xml', enclosing.element='/osm/node', enable.streaming.xml.content='true', @attributes(id='/node/@id', amount='/node/@lat')))\n\
         define stream Nodes (id string, amount double);\n\
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{}')\n\
         define table T (id string, amount double);\n\
         from Nodes select id, amount insert into T;\n",
        bench.path("in.xml").display(),
        bench.path("out.db").display()
    );
    let path = bench.path("nodes.siddhi");
    fs::write(&path, app)?;
    let ran = bench.run(&path)?;
    ran.ended(4)?;
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.0", "b,2.0"]);
    ran.said(&["in.xml"])
}

fn other_encoding(bench: &Bench) -> anyhow::Result<()> {
    fs::write(bench.path("in.csv"), b"a,1.5\nm\xfcller,2.5\nc,3.5\n")?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "c,3.5"]);
    ran.said(&["line 2", "UTF-8"])
}

fn utf16(bench: &Bench) -> anyhow::Result<()> {
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend("a,1.5\nb,2.5\n".encode_utf16().flat_map(u16::to_le_bytes));
    fs::write(bench.path("in.csv"), bytes)?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ran.said(&["UTF-16"])
}

fn huge_line(bench: &Bench) -> anyhow::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(bench.path("in.csv"))?);
    file.write_all(b"a,1.5\n")?;
    let block = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        file.write_all(&block)?;
    }
    file.write_all(b"\nc,2.5\n")?;
    file.flush()?;
    drop(file);
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "c,2.5"]);
    ran.said(&["line 2", "too long"])?;
    let peak = ran.summary["peak_rss_bytes"].as_u64().unwrap_or(u64::MAX);
    ensure!(peak < 256 << 20, "{} MB of memory at the peak", peak >> 20);
    Ok(())
}

// ---- surroundings ----

fn missing_folder(bench: &Bench) -> anyhow::Result<()> {
    let app = format!(
        "@app:name('Watcher')\n\
         @source(type='file', mode='line', dir.uri='file:{}', tailing='false', action.after.process='keep', @map(type='csv'))\n\
         define stream Lines (id string, amount double);\n\
         from Lines select id insert into Out;\n",
        bench.path("nowhere").display()
    );
    let path = bench.path("watcher.siddhi");
    fs::write(&path, app)?;
    let ran = bench.run(&path)?;
    ran.ended(3)?;
    ran.said(&["nowhere", "Lines"])
}

/// 20,000 rows, and what the table must hold.
fn many_rows(bench: &Bench) -> anyhow::Result<u64> {
    let rows = 20_000;
    let text: String = (0..rows).map(|i| format!("r{i},{i}.5\n")).collect();
    fs::write(bench.path("in.csv"), text)?;
    Ok(rows)
}

/// Another process that holds the write lock of a database.
struct Lock {
    client: Child,
    input: ChildStdin,
}

impl Lock {
    fn take(database: &Path) -> anyhow::Result<Lock> {
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
    fn wait_for(&self, run: &mut Child) -> anyhow::Result<String> {
        read_until(run.stderr.as_mut().context("no standard error")?, "lock")
    }

    fn release(mut self) -> anyhow::Result<()> {
        self.input.write_all(b"commit;\n")?;
        drop(self.input);
        self.client.wait()?;
        Ok(())
    }
}

fn locked_database(bench: &Bench) -> anyhow::Result<()> {
    let rows = many_rows(bench)?;
    let database = bench.path("out.db");
    let app = bench.copier(&database)?;
    let lock = Lock::take(&database)?;
    let mut child = bench.start(&app, &[])?;
    let said = lock.wait_for(&mut child)?;
    lock.release()?;
    let ran = finish(child)?;
    ran.ended(0).context(said)?;
    ensure!(bench.rows(&database)?.len() as u64 == rows);
    Ok(())
}

fn full_disk(bench: &Bench) -> anyhow::Result<()> {
    let mount = bench.path("small");
    fs::create_dir(&mount)?;
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(&mount)
        .stderr(Stdio::null())
        .status()?;
    if !mounted.success() {
        println!(
            "skipped a full disk: this machine does not let us mount (RLIMIT_FSIZE is tested)"
        );
        return Ok(());
    }
    let result = fill_and_free(bench, &mount);
    Command::new("umount").arg(&mount).status()?;
    result
}

fn fill_and_free(bench: &Bench, mount: &Path) -> anyhow::Result<()> {
    let rows = many_rows(bench)?;
    let ballast = mount.join("ballast");
    fs::write(&ballast, vec![0; 900 << 10])?;
    let database = mount.join("out.db");
    let app = bench.copier(&database)?;
    let mut child = bench.start(&app, &[])?;
    let said = read_until(child.stderr.as_mut().context("no standard error")?, "full")?;
    fs::remove_file(&ballast)?;
    Command::new("mount")
        .args(["-o", "remount,size=64m"])
        .arg(mount)
        .status()?;
    let ran = finish(child)?;
    ran.ended(0).context(said)?;
    ensure!(
        bench.rows(&database)?.len() as u64 == rows,
        "rows were lost or written twice"
    );
    Ok(())
}

fn file_size_limit(bench: &Bench) -> anyhow::Result<()> {
    let rows = many_rows(bench)?;
    let database = bench.path("out.db");
    let app = bench.copier(&database)?;
    // 256 blocks of 512 bytes: too small for the rows.
    let child = Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 256; exec \"$0\" run \"$1\" --until-done --json")
        .arg(&bench.binary)
        .arg(&app)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let id = child.id();
    let mut child = child;
    read_until(
        child.stderr.as_mut().context("no standard error")?,
        "out.db",
    )?;
    kill(id, "TERM")?;
    let ran = finish(child)?;
    ensure!(
        ran.code > 0 && ran.code < 101,
        "exit {}:\n{}",
        ran.code,
        ran.stderr
    );
    // The same command with room again brings every row, once.
    fs::remove_file(&database).ok();
    let again = bench.run(&app)?;
    again.ended(0)?;
    ensure!(bench.rows(&database)?.len() as u64 == rows);
    Ok(())
}

fn move_target_exists(bench: &Bench) -> anyhow::Result<()> {
    fs::create_dir(bench.path("in"))?;
    fs::create_dir(bench.path("moved"))?;
    fs::write(bench.path("in/a.csv"), "a,1.5\n")?;
    fs::write(bench.path("moved/a.csv"), "an older one\n")?;
    let app = format!(
        "@app:name('Mover')\n\
         @source(type='file', mode='line', dir.uri='file:{}', tailing='false', action.after.process='move', move.after.process='file:{}', @map(type='csv'))\n\
         define stream Lines (id string, amount double);\n\
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{}')\n\
         define table T (id string, amount double);\n\
         from Lines select id, amount insert into T;\n",
        bench.path("in").display(),
        bench.path("moved").display(),
        bench.path("out.db").display()
    );
    let path = bench.path("mover.siddhi");
    fs::write(&path, app)?;
    let ran = bench.run(&path)?;
    ran.said(&["a.csv", "exists", "move.if.exist.mode"])?;
    ensure!(
        fs::read_to_string(bench.path("moved/a.csv"))? == "an older one\n",
        "overwritten"
    );
    ensure!(bench.path("in/a.csv").exists(), "the file is gone");
    ensure!(
        bench.rows(&bench.path("out.db"))? == ["a,1.5"],
        "read more than once, or not at all"
    );
    Ok(())
}

/// Reads until `word` was said, in any case; the run goes on meanwhile.
fn read_until(stream: &mut impl std::io::Read, word: &str) -> anyhow::Result<String> {
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
