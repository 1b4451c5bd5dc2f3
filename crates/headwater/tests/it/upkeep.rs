//! Keeping house in the event store, as users of the binary have it: in the folder and through a server, and when it
//! is killed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::network::{Running, eventually, free_port, text};

/// The rows of a script: each a second behind the one before, in files of its own order.
const ROWS: u64 = 20_000;

fn headwater(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(args).current_dir(dir);
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    headwater(dir, args).output().expect("headwater starts")
}

#[track_caller]
fn done(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    text(&output.stdout)
}

#[track_caller]
fn json(output: &Output) -> Json {
    serde_json::from_str(&done(output)).expect("JSON")
}

#[track_caller]
fn refused(output: &Output, code: i32, says: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(says), "{said}");
}

/// A store with a table `t` of rows `n` from 0, of which row n is of second n of 2026.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("data")).expect("a folder");
    let ten: Vec<String> = (0..10).map(|n| format!("SELECT {n}")).collect();
    let create = "CREATE TEMPORARY TABLE s USING CarbonAnalytics OPTIONS (tableName \"s\", schema \"n INT\");\n\
                  CREATE TEMPORARY TABLE t USING CarbonAnalytics OPTIONS (tableName \"t\", schema \"n INT, _timestamp LONG\");\n";
    // Five files, of which the third has rows before and behind each border of the tests.
    let inserts: Vec<String> = (0..5)
        .map(|file| {
            format!(
                "INSERT INTO t SELECT m.n, 1767225600000 + m.n * 1000 FROM (SELECT {file} * 4000 + a.n * 1000 + b.n * 100 + \
                 c.n * 10 + d.n AS n FROM s a JOIN s b JOIN s c JOIN s d WHERE a.n < 4) m;\n"
            )
        })
        .collect();
    let script = format!(
        "{create}INSERT INTO s {};\n{}",
        ten.join(" UNION ALL "),
        inserts.concat()
    );
    fs::write(dir.path().join("begin.sql"), script).expect("written");
    done(&run(
        dir.path(),
        &["sql", "--store", "data", "--script", "begin.sql"],
    ));
    dir
}

/// The first row that is there, after which all have to be, each once.
#[track_caller]
fn first(dir: &Path) -> u64 {
    let sql = "select min(n), max(n), count(*), count(distinct n), count(distinct _id) from t";
    let answer = json(&run(dir, &["sql", "--store", "data", "--json", sql]));
    let row = &answer["records"][0];
    let first = row[0].as_u64().expect("a number");
    let count = ROWS - first;
    assert_eq!(*row, json!([first, ROWS - 1, count, count, count]));
    first
}

#[test]
fn a_purge_that_is_killed_leaves_the_rows_before_it_or_those_after_it() {
    let place = place();
    let dir = place.path();
    let purge = |hour: u32| {
        let before = format!("2026-01-01T0{hour}:00:00Z");
        headwater(
            dir,
            &[
                "store", "purge", "--store", "data", "t", "--before", &before,
            ],
        )
    };
    let begun = Instant::now();
    done(&purge(1).output().expect("headwater starts"));
    let whole = begun.elapsed();
    let (mut before, mut moments) = (first(dir), [0, 0]);
    assert_eq!(before, 3600);
    let kills = 8;
    for kill in 0..kills {
        // Each purge has a border of its own, so that one that has happened leaves something to the next.
        let after = 3600 + u64::from(kill + 1) * 1800;
        let time = format!("2026-01-01T{:02}:{:02}:00Z", after / 3600, after / 60 % 60);
        let mut child = headwater(
            dir,
            &["store", "purge", "--store", "data", "t", "--before", &time],
        )
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("headwater starts");
        // Nobody sends: the moment of the kill is a matter of chance.
        let (sender, ended) = std::sync::mpsc::sync_channel::<()>(1);
        ended.recv_timeout(whole * kill / (kills - 2)).ok();
        drop(sender);
        child.kill().expect("killed, or ended before");
        child.wait().expect("ended");
        let found = first(dir);
        assert!(
            [before, after].contains(&found),
            "{before}, {after}: {found}"
        );
        moments[usize::from(found == after)] += 1;
        before = found;
    }
    assert!(
        moments[0] > 0,
        "no purge was killed before its commit: {moments:?}"
    );
    let found = json(&run(dir, &["store", "verify", "--store", "data", "--json"]));
    assert_eq!(found["damage"], json!([]));
    // What was left half written is in nobody's way.
    done(&run(
        dir,
        &[
            "store",
            "purge",
            "--store",
            "data",
            "t",
            "--before",
            "2026-01-01T05:00:00Z",
        ],
    ));
    assert_eq!(first(dir), 18_000);
}

#[test]
fn house_is_kept_in_a_folder() {
    let place = place();
    let dir = place.path();
    let store = |args: &[&str]| {
        run(
            dir,
            &[&["store"], args, &["--store", "data", "--json"]].concat(),
        )
    };
    let tables = json(&store(&["tables"]));
    let t = &tables["tables"][1];
    assert_eq!(
        (&t["table"], &t["rows"], &t["first"]),
        (&json!("t"), &json!(ROWS), &json!("2026-01-01T00:00:00Z"))
    );
    let purge = ["purge", "t", "--before", "2026-01-01T03:00:00Z"];
    let wanted = json(&store(&[&purge[..], &["--dry-run"]].concat()));
    assert_eq!((&wanted["rows"], first(dir)), (&json!(10_800), 0));
    let purged = json(&store(&purge));
    assert_eq!((&purged["rows"], first(dir)), (&json!(10_800), 10_800));
    let (wanted, purged) = (&wanted["tables"][0], &purged["tables"][0]);
    assert_eq!(
        (&purged["files"], &purged["rewritten"]),
        (&wanted["files"], &wanted["rewritten"])
    );
    let before_all = "select count(*), min(n) from version('t', 5)";
    let found = json(&run(dir, &["sql", "--store", "data", "--json", before_all]));
    assert_eq!(found["records"], json!([[ROWS, 0]]));
    for (sql, says) in [
        ("select * from version('t', 99)", "has no version 99"),
        ("select * from version('x', 1)", "there is no table 'x'"),
        ("select * from version('t')", "takes the name of a table"),
    ] {
        refused(&run(dir, &["sql", "--store", "data", sql]), 1, says);
    }
    // The version before is copied, and lost with the space that it takes.
    let versions = json(&store(&["versions", "t"]));
    let versions = versions["versions"].as_array().expect("a list");
    let last = versions.last().expect("a version");
    assert_eq!(last["operation"], "DELETE");
    let before = (last["version"].as_u64().expect("a number") - 1).to_string();
    let copied = run(
        dir,
        &[
            "store",
            "copy",
            "--store",
            "data",
            "--table",
            "t",
            "--version",
            &before,
            "copy",
            "--json",
        ],
    );
    assert_eq!(json(&copied)["tables"][0]["rows"], ROWS);
    let count = ["sql", "--store", "copy", "--json", "select count(*) from t"];
    assert_eq!(json(&run(dir, &count))["records"][0][0], ROWS);
    assert_eq!(json(&store(&["vacuum"]))["files"], 0);
    refused(&store(&["vacuum", "--grace", "0 sec"]), 1, "");
    let forced = json(&store(&["vacuum", "--grace", "0 sec", "--force"]));
    assert!(forced["files"].as_u64() > Some(1), "{forced}");
    let again = run(
        dir,
        &[
            "store",
            "copy",
            "--store",
            "data",
            "--table",
            "t",
            "--version",
            &before,
            "again",
        ],
    );
    refused(&again, 1, "the file is gone");
    assert_eq!(first(dir), 10_800);
    // Damage is named with its rows.
    let files = fs::read_dir(dir.join("data/tables/t")).expect("a folder");
    let mut files = files.map(|entry| entry.expect("an entry").path());
    let file = files
        .find(|path| path.extension().is_some_and(|end| end == "parquet"))
        .expect("a file");
    let mut bytes = fs::read(&file).expect("read");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&file, bytes).expect("written");
    let found = store(&["verify"]);
    assert_eq!(found.status.code(), Some(1));
    let found: Json = serde_json::from_str(&text(&found.stdout)).expect("JSON");
    let damage = &found["damage"][0];
    assert_eq!(damage["table"], "t");
    assert!(
        damage["rows"].as_u64() > Some(0) && damage["path"].as_str() > Some("tables/t/part-"),
        "{found}"
    );
    let said = text(&run(dir, &["store", "verify", "--store", "data"]).stdout);
    assert!(
        said.contains("1 place is damaged") && said.contains("rows of table 't'"),
        "{said}"
    );
    // What makes no sense.
    refused(
        &run(
            dir,
            &[
                "store",
                "purge",
                "--store",
                "data",
                "tt",
                "--older-than",
                "1 day",
            ],
        ),
        1,
        "no table",
    );
    refused(
        &run(
            dir,
            &["store", "purge", "--store", "data", "t", "--before", "soon"],
        ),
        1,
        "'soon' is no time",
    );
    refused(
        &run(dir, &["store", "purge", "--store", "data", "t"]),
        2,
        "--older-than",
    );
    refused(
        &run(dir, &["store", "verify", "--store", "copies"]),
        2,
        "not a folder of an event store",
    );
}

const METERS: &str = "@app:name('Meters')
define stream Readings (at long, meter int);
@store(type='eventstore', table.name='KEPT', schema='meter -i', commit.interval='200 millisec')
define table Kept (meter int);
@store(type='eventstore', table.name='SHORT', retention='3 sec', commit.interval='200 millisec')
define table Short (meter int);
from Readings select meter insert into Kept;
from Readings select meter insert into Short;
";

const PURGE: &str = "<analytics-dataservice-configuration><shardCount>6</shardCount><analytics-data-purging>
  <purging-enable>true</purging-enable><cron-expression>* * * * * ?</cron-expression>
  <purge-include-tables><table>OLD.*</table></purge-include-tables><data-retention-days>7</data-retention-days>
</analytics-data-purging></analytics-dataservice-configuration>";

/// A server whose apps write to a store.
struct Server {
    dir: tempfile::TempDir,
    run: Running,
    url: String,
}

impl Server {
    fn start(more: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name).display().to_string();
        fs::write(path("meters.siddhi"), METERS).expect("written");
        fs::write(path("purge.xml"), PURGE).expect("written");
        let (app, store, purge) = (path("meters.siddhi"), path("data"), path("purge.xml"));
        let http = format!("127.0.0.1:{}", free_port());
        let mut args = vec![&*app, "--store", &store, "--http", &http];
        for arg in more {
            args.push(if *arg == "purge.xml" { &purge } else { arg });
        }
        let run = Running::start(&args);
        run.err_has("HTTP server is listening", 1);
        Server {
            url: format!("http://{http}"),
            run,
            dir,
        }
    }

    fn ask(&self, args: &[&str]) -> Output {
        run(self.dir.path(), &[args, &["--url", &self.url]].concat())
    }

    fn send(&self, meter: u32) {
        done(&self.ask(&["send", "Meters/Readings", "0", &meter.to_string()]));
    }

    fn count(&self, table: &str) -> u64 {
        let sql = format!("select count(*) from {table}");
        let answer = json(&self.ask(&["sql", "--json", &sql]));
        answer["records"][0][0].as_u64().expect("a number")
    }
}

/// With `--http`, where tables are read beside the app, as well as without.
#[test]
fn a_row_has_the_time_of_its_event() {
    let server = Server::start(&[]);
    let time = 1_767_225_600_000_i64;
    let at = time.to_string();
    let send = ["send", "--timestamp", &at, "Meters/Readings", "0", "7"];
    done(&server.ask(&send));
    eventually("the row is there", || server.count("kept") == 1);
    let answer = json(&server.ask(&["sql", "--json", "select _timestamp, meter from kept"]));
    assert_eq!(answer["records"], json!([[time, 7]]));
}

#[test]
fn rows_older_than_their_retention_go() {
    let server = Server::start(&[]);
    server.send(1);
    eventually("the row is there", || server.count("short") == 1);
    eventually("the row goes", || server.count("short") == 0);
    assert_eq!(server.count("kept"), 1);
    server.send(2);
    eventually("the next row is there", || server.count("kept") == 2);
    server.run.err_has(
        "rows older than the retention of their table went table=\"short\"",
        1,
    );
    let (code, summary) = server.run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

#[test]
fn house_is_kept_through_a_server() {
    let server = Server::start(&["--purge", "purge.xml"]);
    server.run.err_has(
        "these settings of WSO2 DAS have no meaning here purge=\"purge\" settings=\"shardCount\"",
        1,
    );
    (1..=20).for_each(|meter| server.send(meter));
    eventually("all rows are there", || server.count("kept") == 20);
    let store = |args: &[&str]| server.ask(&[&["store"], args, &["--json"]].concat());
    let tables = json(&store(&["tables"]));
    assert_eq!(tables["tables"][0]["table"], "kept");
    // Rows that lie in memory alone go, too.
    let wanted = json(&store(&[
        "purge",
        "kept",
        "--older-than",
        "0 sec",
        "--dry-run",
    ]));
    let total = |json: &Json| {
        let of = |name: &str| json["tables"][0][name].as_u64().expect("a number");
        of("rows") + of("inMemory")
    };
    assert_eq!(total(&wanted), 20, "{wanted}");
    let nothing = json(&store(&["purge", "KEPT", "--older-than", "1 day"]));
    assert_eq!(nothing["rows"], 0);
    let purged = json(&store(&["purge", "KE.T", "--older-than", "0 sec"]));
    assert_eq!(
        (&purged["rows"], server.count("kept")),
        (&json!(20), 0),
        "{purged}"
    );
    // The index follows, and is made again.
    server.send(7);
    let found = json(&store(&["reindex", "kept"]));
    assert_eq!(found["tables"][0]["table"], "kept");
    eventually("the row is found", || {
        let sql = "select count(*) from search('kept', 'meter:7')";
        json(&server.ask(&["sql", "--json", sql]))["records"][0][0] == 1
    });
    refused(
        &server.ask(&["store", "reindex", "short"]),
        1,
        "columns that are searched",
    );
    assert_eq!(json(&store(&["verify"]))["damage"], json!([]));
    assert!(json(&store(&["versions", "kept"]))["versions"][1].is_object());
    refused(&server.ask(&["store", "versions", "none"]), 1, "no table");
    refused(
        &server.ask(&["store", "purge", "none", "--older-than", "1 day"]),
        1,
        "no table",
    );
    assert_eq!(json(&store(&["vacuum"]))["files"], 0);
    // The folder belongs to the server.
    let folder = [
        "store",
        "purge",
        "--store",
        "data",
        "--all",
        "--older-than",
        "1 day",
    ];
    refused(
        &run(server.dir.path(), &folder),
        1,
        "another process writes to this event store",
    );
    // The purge of DAS runs at its times, and finds no table yet.
    eventually("a purge at its time", || {
        let found = json(&server.ask(&["scripts", "purge", "--json"]));
        assert_eq!(found["failed"], 0, "{found}");
        found["succeeded"].as_u64() > Some(0)
    });
    let (code, summary) = server.run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

#[test]
fn work_that_a_server_does_is_stopped_with_it_and_before() {
    let server = Server::start(&[]);
    refused(
        &server.ask(&["store", "purge", "x", "--older-than", "soon"]),
        1,
        "'olderThan' is 'soon'",
    );
    let (code, answer) =
        crate::network::curl(&["-X", "DELETE", &format!("{}/store/work", server.url)]);
    assert!(
        code.contains("404") || answer.contains("nothing is done"),
        "{code} {answer}"
    );
    let (_, answer) = crate::network::curl(&[
        "-X",
        "POST",
        "-H",
        "Content-Type: application/json",
        "-d",
        "[]",
        &format!("{}/store/verify", server.url),
    ]);
    assert!(answer.contains("no JSON object"), "{answer}");
    let begun = Instant::now();
    let (code, summary) = server.run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}
