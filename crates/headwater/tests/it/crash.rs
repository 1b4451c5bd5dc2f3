//! Killed with -9 at any point and started again with the same command and `--state`: every file is
//! where the apps say, every row is in the table exactly once, the verdicts are those of an
//! undisturbed run.
//!
//! When a run is killed is a matter of chance, on purpose: whatever the moment, the outcome is the
//! same. Nothing here waits by the clock for something to have happened.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longest that one run may take.
const RUN_MAX: Duration = Duration::from_secs(120);

fn shared() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = std::env::var_os("HEADWATER_SHARED").map_or(default, PathBuf::from);
    path.join("apps").is_dir().then_some(path)
}

/// A run that is waited for, or killed after a while.
struct Run {
    child: Child,
    started: Instant,
}

impl Run {
    fn start(args: &[String], log: &Path) -> Run {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("a log file");
        let child = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .arg("run")
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the same log file"))
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        Run {
            child,
            started: Instant::now(),
        }
    }

    /// The exit code, after a signal if it took longer than `at_most`; `None` if it was killed.
    fn end(mut self, at_most: Duration, signal: &str) -> (Option<i32>, Duration) {
        let id = self.child.id();
        let (sender, ended) = mpsc::sync_channel(1);
        let waiter = std::thread::spawn(move || {
            let status = self.child.wait().expect("a child can be waited for");
            // Nobody listens any more after a kill.
            sender.send(status.code()).ok();
        });
        let code = match ended.recv_timeout(at_most) {
            Ok(code) => code,
            Err(_) => {
                Command::new("kill")
                    .args([signal, &id.to_string()])
                    .status()
                    .expect("kill runs");
                ended.recv_timeout(RUN_MAX).expect("a signal ends it")
            }
        };
        waiter.join().expect("the waiter does not panic");
        (code, self.started.elapsed())
    }
}

/// A folder with the files and the database of one case.
struct Case {
    dir: tempfile::TempDir,
    apps: Vec<PathBuf>,
    changes: Vec<String>,
}

impl Case {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn args(&self) -> Vec<String> {
        let mut args: Vec<String> = self.apps.iter().map(|p| p.display().to_string()).collect();
        args.extend(self.changes.iter().cloned());
        let state = self.path("state").display().to_string();
        args.extend(["--state".into(), state, "--until-done".into()]);
        args.extend(["--state-interval".into(), "50ms".into()]);
        args
    }

    fn run(&self, at_most: Duration) -> (Option<i32>, Duration) {
        self.run_until(at_most, "-KILL")
    }

    fn run_until(&self, at_most: Duration, signal: &str) -> (Option<i32>, Duration) {
        Run::start(&self.args(), &self.path("log")).end(at_most, signal)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Names of the files below a folder.
    fn files(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|e| {
                let name = e.expect("the folder can be read").file_name();
                name.to_string_lossy().into_owned()
            })
            .collect();
        names.sort();
        names
    }

    fn rows(&self, query: &str) -> Vec<String> {
        self.rows_of("out.db", query)
    }

    fn rows_of(&self, database: &str, query: &str) -> Vec<String> {
        let database = rusqlite::Connection::open(self.path(database)).expect("the database opens");
        let mut statement = database.prepare(query).expect("the query is right");
        let rows = statement
            .query_map([], |row| row.get::<_, String>(0))
            .expect("the query runs");
        rows.map(|r| r.expect("a row of text")).collect()
    }
}

/// Lines of the log that are verdicts, each once: a line may be printed again after a crash.
fn verdicts(log: &str) -> Vec<String> {
    let mut found: Vec<String> = log
        .lines()
        .filter(|l| l.contains("ccurate Batch: "))
        .map(|l| {
            let data = l.find("data=[").map_or(l, |at| &l[at..]);
            let verdict = l.split(':').next().unwrap_or_default();
            let file = data.rsplit('/').next().unwrap_or_default();
            let file = file.split([',', ']']).next().unwrap_or_default();
            format!("{verdict} {file}")
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Kills at `points` moments spread over the time of an undisturbed run, each in a case of its own,
/// a few at a time.
fn at_every_point(
    points: u32,
    signal: &str,
    make: &(dyn Fn() -> Case + Sync),
    check: &(dyn Fn(&Case, &str) + Sync),
) {
    let whole = make();
    let (code, took) = whole.run(RUN_MAX);
    assert_eq!(code, Some(0), "undisturbed: {}", whole.log());
    check(&whole, "undisturbed");
    let next = std::sync::atomic::AtomicU32::new(1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let point = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if point > points {
                        break;
                    }
                    let case = make();
                    let moment = took * point / (points + 1);
                    let (first, _) = case.run_until(moment, signal);
                    let name = format!("{signal} after {moment:?} ({first:?})");
                    let (code, _) = case.run(RUN_MAX);
                    assert_eq!(code, Some(0), "{name}: {}", case.log());
                    check(&case, &name);
                }
            });
        }
    });
}

// ---- an app of our own: rows exactly once ----

const LINES: usize = 60_000;

fn copier() -> Case {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = format!(
        "@app:name('Copier')
         @source(type='file', mode='line', dir.uri='file:{0}/in', tailing='false',
             file.read.wait.timeout='1', action.after.process='MOVE',
             move.after.process='file:{0}/done', @map(type='csv'))
         define stream Lines (id string, amount double);
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{0}/out.db')
         define table T (id string, amount double, number long);
         from Lines select id, amount, count() as number insert into T;",
        dir.path().display()
    );
    let path = dir.path().join("copier.siddhi");
    fs::write(&path, app).expect("the app is written");
    fs::create_dir(dir.path().join("in")).expect("a folder");
    for file in 0..3 {
        let mut text = String::new();
        for line in 0..LINES {
            text.push_str(&format!("f{file}-{line},{line}.5\n"));
        }
        fs::write(dir.path().join(format!("in/{file}.csv")), text).expect("the input is written");
    }
    Case {
        dir,
        apps: vec![path],
        changes: Vec::new(),
    }
}

// shows: source file resume
// shows: store rdbms@sqlite resume
#[test]
fn every_row_is_there_once_and_every_file_is_moved() {
    long_test!();
    at_every_point(20, "-KILL", &copier, &check_copied);
}

fn check_copied(case: &Case, name: &str) {
    assert_eq!(case.files("done"), ["0.csv", "1.csv", "2.csv"], "{name}");
    assert!(case.files("in").is_empty(), "{name}");
    let counts = case.rows(
        "select count(*) || ' ' || count(distinct id) || ' ' || count(distinct number) || ' ' \
         || max(number) from T",
    );
    let all = 3 * LINES;
    assert_eq!(counts, [format!("{all} {all} {all} {all}")], "{name}");
}

#[test]
fn a_run_that_is_asked_to_stop_goes_on_where_it_was() {
    long_test!();
    at_every_point(8, "-TERM", &copier, &check_copied);
}

#[test]
fn a_run_that_is_killed_again_and_again_gets_there() {
    long_test!();
    let case = copier();
    // Short lives first: most of them end while the next snapshot is on its way.
    for life in 1..=30 {
        let (code, _) = case.run(Duration::from_millis(40 + 13 * life));
        assert!(matches!(code, None | Some(0)), "{code:?}: {}", case.log());
    }
    let (code, _) = case.run(RUN_MAX);
    assert_eq!(code, Some(0), "{}", case.log());
    check_copied(&case, "killed again and again");
}

/// An app that reads back what it wrote: its store's transaction is the epoch.
fn counter() -> Case {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = format!(
        "@app:name('Counter')
         @source(type='file', mode='line', file.uri='file:{0}/in.csv', tailing='false',
             file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
         define stream Lines (id string);
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{0}/out.db')
         @PrimaryKey('id')
         define table T (id string, n long);
         from Lines left outer join T on Lines.id == T.id
         select Lines.id as id, ifThenElse(T.n is null, 0L, T.n) + 1L as n
         update or insert into T set T.n = n on T.id == id;",
        dir.path().display()
    );
    let path = dir.path().join("counter.siddhi");
    fs::write(&path, app).expect("the app is written");
    let lines: String = (0..6_000).map(|line| format!("k{}\n", line % 60)).collect();
    fs::write(dir.path().join("in.csv"), lines).expect("the input is written");
    Case {
        dir,
        apps: vec![path],
        changes: Vec::new(),
    }
}

// covers: 649
#[test]
fn what_is_read_back_is_counted_once() {
    long_test!();
    at_every_point(10, "-KILL", &counter, &|case, name| {
        let counts = case.rows("select count(*) || ' ' || min(n) || ' ' || max(n) from T");
        assert_eq!(counts, ["60 100 100"], "{name}: {}", case.log());
    });
}

/// Thousands of keys in every kind of state that is saved by what has changed. Saves come many times
/// a second, so that changes stand on changes and are merged on the way.
fn keys() -> Case {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = format!(
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:{}/out.db')",
        dir.path().display()
    );
    let app = format!(
        "@app:name('Keys')
         @source(type='file', mode='line', file.uri='file:{0}/in.csv', tailing='false',
             file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
         define stream Lines (id string, line long);
         {store} define table Groups (id string, n long);
         {store} define table Parts (id string, n long);
         {store} define table Rows (id string, n long);
         {store} define table Sums (line long, total long);
         @primaryKey('id') define table Counts (id string, n long);
         from Lines select id, count() as n group by id insert into Groups;
         partition with (id of Lines) begin
         from Lines select id, count() as n insert into Parts;
         end;
         from Lines left outer join Counts on Lines.id == Counts.id
         select Lines.id as id, ifThenElse(Counts.n is null, 0L, Counts.n) + 1L as n
         update or insert into Counts set Counts.n = n on Counts.id == id;
         from Lines join Counts on Lines.id == Counts.id
         select Lines.id as id, Counts.n as n insert into Rows;
         from Lines#window.length(3000) select line, sum(line) as total insert into Sums;",
        dir.path().display()
    );
    let path = dir.path().join("keys.siddhi");
    fs::write(&path, app).expect("the app is written");
    let line = |line: usize| format!("k{},{line}\n", line * 7919 % KEYS);
    let lines: String = (0..KEYS * SEEN).map(line).collect();
    fs::write(dir.path().join("in.csv"), lines).expect("the input is written");
    Case {
        dir,
        apps: vec![path],
        changes: Vec::new(),
    }
}

const KEYS: usize = 4_001;

/// How often each key comes.
const SEEN: usize = 4;

// covers: 648
#[test]
fn what_has_changed_is_saved_and_put_together_again() {
    long_test!();
    at_every_point(8, "-KILL", &keys, &|case, name| {
        let all = KEYS * SEEN;
        for table in ["Groups", "Parts", "Rows"] {
            let counts = case.rows(&format!(
                "select count(*) || ' ' || count(distinct id || '-' || n) || ' ' || max(n) \
                 from {table}"
            ));
            let expect = format!("{all} {all} {SEEN}");
            assert_eq!(counts, [expect], "{table}, {name}: {}", case.log());
        }
        let sums = case.rows(
            "select count(*) || ' ' || count(distinct line) || ' ' || \
             sum(total = case when line < 3000 then line * (line + 1) / 2 \
                 else 1500 * (2 * line - 2999) end) from Sums",
        );
        assert_eq!(
            sums,
            [format!("{all} {all} {all}")],
            "{name}: {}",
            case.log()
        );
    });
}

/// An aggregation in a store: buckets that the clock has closed lie in the database, open ones in
/// the snapshot. The last sale asks for both together.
fn totals() -> Case {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = format!(
        "@app:name('Totals')
         @source(type='file', mode='line', file.uri='file:{0}/in.csv', tailing='false',
             file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
         define stream Sales (shop string, amount long, at long);
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{0}/out.db')
         define aggregation Totals
         from Sales select shop, sum(amount) as total, count() as n
         group by shop aggregate by at every sec ... hour;
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{0}/out.db')
         define table T (duration string, shop string, total long, n long);
         from Sales[shop == 'end'] join Totals as t within 0L, 2000000000000L per 'seconds'
         select 'seconds' as duration, t.shop as shop, t.total as total, t.n as n insert into T;
         from Sales[shop == 'end'] join Totals as t within 0L, 2000000000000L per 'hours'
         select 'hours' as duration, t.shop as shop, t.total as total, t.n as n insert into T;",
        dir.path().display()
    );
    let path = dir.path().join("totals.siddhi");
    fs::write(&path, app).expect("the app is written");
    // One sale in 100 ms of their own time, then the one that asks.
    let start = 1_600_000_000_000_i64;
    let sale = |line: i64| format!("shop{},{},{}\n", line % 7, line % 10, start + 100 * line);
    let mut lines: String = (0..SALES).map(sale).collect();
    lines.push_str(&format!("end,0,{}\n", start + 100 * SALES + 7_200_000));
    fs::write(dir.path().join("in.csv"), lines).expect("the input is written");
    Case {
        dir,
        apps: vec![path],
        changes: Vec::new(),
    }
}

const SALES: i64 = 300_000;

#[test]
fn an_aggregation_in_a_store_counts_every_event_once() {
    long_test!();
    at_every_point(8, "-KILL", &totals, &|case, name| {
        let amounts: i64 = (0..SALES).map(|line| line % 10).sum();
        for duration in ["seconds", "hours"] {
            let sums = case.rows(&format!(
                "select sum(total) || ' ' || sum(n) from T \
                 where duration = '{duration}' and shop <> 'end'"
            ));
            let expect = format!("{amounts} {SALES}");
            assert_eq!(sums, [expect], "{name}, {duration}: {}", case.log());
        }
    });
}

/// Two databases commit one after the other: a crash in between leaves the first an epoch ahead, and
/// going on from the epoch of the second writes rows to the first again.
fn two_databases() -> Case {
    let case = copier();
    let path = case.path("copier.siddhi");
    let text = fs::read_to_string(&path).expect("the app is there");
    let other = format!(
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:{}')
         define table U (id string, amount double);
         from Lines select id, amount insert into T;
         from Lines select id, amount insert into U;",
        case.path("other.db").display()
    );
    let text = text.replace(", number long", "");
    let (head, _) = text.split_once("from Lines").expect("a query");
    fs::write(&path, format!("{head}{other}")).expect("the app is written");
    case
}

#[test]
fn two_databases_have_every_row_at_least_once() {
    long_test!();
    let all = (3 * LINES).to_string();
    at_every_point(12, "-KILL", &two_databases, &|case, name| {
        assert_eq!(case.files("done"), ["0.csv", "1.csv", "2.csv"], "{name}");
        let distinct = "select cast(count(distinct id) as text) from ";
        let counts = [
            case.rows(&format!("{distinct} T")),
            case.rows_of("other.db", &format!("{distinct} U")),
        ];
        assert_eq!(counts, [[all.as_str()], [all.as_str()]], "{name}");
    });
}

// shows: store rdbms@sqlite lost
#[test]
fn a_database_that_is_behind_is_said() {
    let case = two_databases();
    let (code, _) = case.run(RUN_MAX);
    assert_eq!(code, Some(0), "{}", case.log());
    let back = "update headwater_epochs set epoch = epoch - 1 returning cast(epoch as text)";
    assert_eq!(case.rows_of("other.db", back).len(), 1);
    let (code, _) = case.run(RUN_MAX);
    assert_eq!(code, Some(0), "{}", case.log());
    let log = case.log();
    assert!(log.contains("store 'T' has committed epoch"), "{log}");
    assert!(log.contains("may be duplicated"), "{log}");
}

/// A file cannot take part in an epoch: lines may stand in it twice, none is missing.
fn writer() -> Case {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = format!(
        "@app:name('Writer')
         @source(type='file', mode='line', file.uri='file:{0}/in.csv', tailing='false',
             file.read.wait.timeout='1', action.after.process='DELETE', @map(type='csv'))
         define stream Lines (id string);
         @sink(type='file', file.uri='file:{0}/out.txt', @map(type='text', @payload('{{{{id}}}}')))
         define stream Out (id string);
         from Lines select id insert into Out;",
        dir.path().display()
    );
    let path = dir.path().join("writer.siddhi");
    fs::write(&path, app).expect("the app is written");
    let lines: String = (0..LINES).map(|line| format!("line-{line}\n")).collect();
    fs::write(dir.path().join("in.csv"), lines).expect("the input is written");
    Case {
        dir,
        apps: vec![path],
        changes: Vec::new(),
    }
}

// shows: sink file resume
#[test]
fn every_line_reaches_a_file() {
    at_every_point(10, "-KILL", &writer, &|case, name| {
        assert!(!case.path("in.csv").exists(), "{name}");
        let text = fs::read_to_string(case.path("out.txt")).expect("the file is there");
        let mut seen = vec![0; LINES];
        for line in text.lines() {
            // A kill in the middle of a write leaves a part of a line; the whole one follows.
            let number = line.strip_prefix("line-").and_then(|n| n.parse().ok());
            if let Some(count) = number.and_then(|n: usize| seen.get_mut(n)) {
                *count += 1;
            }
        }
        let missing = seen.iter().filter(|count| **count == 0).count();
        assert_eq!(missing, 0, "{name}");
    });
}

// ---- the published apps ----

/// Files by name with the count in their header, and how many lines they have.
fn batches() -> BTreeMap<&'static str, (usize, usize)> {
    BTreeMap::from([
        ("a.txt", (4_000, 4_000)),
        ("b.txt", (700, 699)),
        ("c.txt", (2_500, 2_500)),
    ])
}

fn published(shared: &Path) -> Case {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for folder in ["new", "header-processed", "accurate-files"] {
        fs::create_dir(dir.path().join(folder)).expect("a folder");
    }
    for (name, (said, lines)) in batches() {
        let path = dir.path().join("new").join(name);
        let mut file = std::io::BufWriter::new(fs::File::create(path).expect("the input"));
        writeln!(file, "HDprod-abc-2020-01-01-{said}").expect("the header is written");
        for line in 0..lines {
            writeln!(file, "P|{name}{line:07}|{line}.5").expect("the input is written");
        }
    }
    let root = dir.path().display().to_string();
    let apps = ["ETLFileAnalyzer.siddhi", "ETLFileRecordsCopier.siddhi"];
    Case {
        apps: apps.map(|a| shared.join("apps").join(a)).to_vec(),
        changes: vec![
            "--replace".into(),
            format!("/Users/wso2/demo={root}"),
            "--set".into(),
            format!("AccurateBatchTable.store.jdbc.url=jdbc:sqlite:{root}/out.db"),
        ],
        dir,
    }
}

#[test]
fn the_published_file_apps_end_as_if_undisturbed() {
    long_test!();
    let Some(shared) = shared() else {
        println!("skipped: the published apps are not here (HEADWATER_SHARED names their folder)");
        return;
    };
    at_every_point(20, "-KILL", &|| published(&shared), &|case, name| {
        assert_eq!(
            case.files("moved"),
            ["a.txt", "c.txt"],
            "{name}: {}",
            case.log()
        );
        assert_eq!(case.files("inaccurate-files"), ["b.txt"], "{name}");
        for folder in ["new", "header-processed", "accurate-files"] {
            assert!(case.files(folder).is_empty(), "{name}: {folder}");
        }
        let expect = [
            "Accurate Batch a.txt",
            "Accurate Batch c.txt",
            "Inaccurate Batch b.txt",
        ];
        assert_eq!(verdicts(&case.log()), expect, "{name}");
        let counts = case.rows(
            "select count(*) || ' ' || count(distinct serialNo) || ' ' || sum(amount) from \
             AccurateBatchTable",
        );
        let sum = |lines: usize| (0..lines).map(|l| l as f64 + 0.5).sum::<f64>();
        let all = 4_000 + 2_500;
        let amount = sum(4_000) + sum(2_500);
        assert_eq!(counts, [format!("{all} {all} {amount:.1}")], "{name}");
    });
}
