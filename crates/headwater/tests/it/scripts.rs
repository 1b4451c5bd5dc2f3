//! Batch scripts as users of the binary have them, also when they are killed.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use serde_json::{Value as Json, json};

use crate::network::{Running, eventually, free_port, text};

/// Rows that a script puts into its table.
const ROWS: u64 = 10_000;

fn headwater(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(["sql", "--store", "data"]).args(args);
    command.current_dir(dir);
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

/// A store with ten rows, and two scripts that overwrite a table with ten thousand rows each.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("data")).expect("a folder");
    let ten: Vec<String> = (0..10).map(|n| format!("SELECT {n}")).collect();
    let create = "CREATE TEMPORARY TABLE s USING CarbonAnalytics OPTIONS (tableName \"s\", schema \"n INT\");\n\
                  CREATE TEMPORARY TABLE t USING CarbonAnalytics OPTIONS (tableName \"t\", schema \"v INT, k INT\");\n";
    let of = |value: u32| {
        format!(
            "{create}INSERT OVERWRITE TABLE t SELECT {value}, a.n * 1000 + b.n * 100 + c.n * 10 + d.n \
             FROM s a JOIN s b JOIN s c JOIN s d;"
        )
    };
    let begin = format!("{create}INSERT INTO s {};", ten.join(" UNION ALL "));
    for (name, script) in [("begin.sql", begin), ("1.sql", of(1)), ("2.sql", of(2))] {
        fs::write(dir.path().join(name), script).expect("written");
    }
    done(&run(dir.path(), &["--script", "begin.sql"]));
    dir
}

/// The value that all rows of the table have.
#[track_caller]
fn value(dir: &Path) -> u64 {
    let sql = "select count(*), sum(k), count(distinct _id), min(v), max(v) from t";
    let answer: Json = serde_json::from_str(&done(&run(dir, &["--json", sql]))).expect("JSON");
    let row = &answer["records"][0];
    let whole = json!([ROWS, (0..ROWS).sum::<u64>(), ROWS]);
    assert_eq!(
        row.as_array().expect("a row")[..3],
        whole.as_array().expect("a row")[..],
        "{row}"
    );
    assert_eq!(row[3], row[4], "{row}");
    row[3].as_u64().expect("a number")
}

#[test]
fn a_script_that_is_killed_leaves_the_old_rows_or_the_new() {
    let place = place();
    let dir = place.path();
    done(&run(dir, &["--script", "1.sql"]));
    let begun = Instant::now();
    done(&run(dir, &["--script", "2.sql"]));
    let whole = begun.elapsed();
    let (mut before, mut moments) = (value(dir), [0, 0]);
    let kills = 20;
    for kill in 0..kills {
        let after = 3 - before;
        let mut script = headwater(dir, &["--script", &format!("{after}.sql")])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("headwater starts");
        let mut said = script.stdout.take().expect("a pipe");
        let (sender, ended) = mpsc::sync_channel(1);
        let reader = std::thread::spawn(move || {
            said.read_to_end(&mut Vec::new()).expect("read");
            // Nobody listens any more after a kill.
            sender.send(()).ok();
        });
        // From the start of the process to behind its end.
        ended.recv_timeout(whole * kill / (kills - 2)).ok();
        script.kill().expect("killed");
        script.wait().expect("ended");
        reader.join().expect("the reader does not panic");
        let found = value(dir);
        assert!([before, after].contains(&found), "{found}");
        moments[usize::from(found == after)] += 1;
        before = found;
    }
    assert!(
        moments[0] > 0,
        "no run was killed before its commit: {moments:?}"
    );
    // What was left half written is in nobody's way.
    done(&run(dir, &["--script", "1.sql"]));
    assert_eq!(value(dir), 1);
}

#[test]
fn what_a_script_cannot_do_is_said() {
    let place = place();
    let dir = place.path();
    let refused = |script: &str, part: &str, code: i32| {
        fs::write(dir.join("x.xml"), script).expect("written");
        let output = run(dir, &["--script", "x.xml"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{said}");
    };
    refused(
        "<Analytics><Script>select 1</Name></Analytics>",
        "this is not XML",
        2,
    );
    refused("<Other></Other>", "not 'Analytics'", 2);
    refused("select 'a", "x.xml:1:8", 1);
    let stream = "CREATE TEMPORARY TABLE s USING CarbonEvents OPTIONS (streamName \"a.b\", payload \"v INT\")";
    refused(stream, "x.xml:1:65", 1);
    fs::write(dir.join("udf.xml"), "<udf-configuration/>").expect("written");
    let output = run(dir, &["--script", "1.sql", "--functions", "udf.xml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("define function NAME[javascript]"), "{said}");
}

const SHOP: &str = "@app:name('Shop')
define stream Lines (item string, city string, amount double);
@store(type='eventstore', table.name='SALES')
define table Sales (item string, city string, amount double);
@sink(type='log', prefix='big')
define stream org_shop_big (city string, total double);
from Lines select * insert into Sales;
";

/// Rows of a table go to another, to a stream, and to whoever asks for them.
const USAGE: &str = "<Analytics>
  <Name>usage</Name>
  <Script>
    CREATE TEMPORARY TABLE sales USING CarbonAnalytics OPTIONS (tableName \"SALES\");
    CREATE TEMPORARY TABLE byCity USING CarbonAnalytics OPTIONS (tableName \"by_city\", schema \"city STRING, total DOUBLE\");
    CREATE TEMPORARY TABLE big USING CarbonEvents OPTIONS (streamName \"org.shop.big\", payload \"total DOUBLE, city STRING\");
    INSERT OVERWRITE TABLE byCity SELECT city, sum(amount) FROM sales GROUP BY city;
    INSERT INTO TABLE big SELECT total, city FROM byCity WHERE total &gt; 3;
    SELECT city FROM byCity ORDER BY city;
  </Script>
  <CronExpression>{cron}</CronExpression>
</Analytics>
";

/// A server with an event store and scripts.
struct Server {
    dir: tempfile::TempDir,
    run: Running,
    url: String,
}

impl Server {
    fn start(scripts: &[(&str, &str)]) -> Server {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("scripts")).expect("a folder");
        for (name, text) in scripts {
            fs::write(dir.path().join("scripts").join(name), text).expect("written");
        }
        fs::write(dir.path().join("shop.siddhi"), SHOP).expect("written");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (app, store, scripts) = (path("shop.siddhi"), path("data"), path("scripts"));
        let port = free_port();
        let http = format!("127.0.0.1:{port}");
        let args = [
            &*app,
            "--store",
            &store,
            "--scripts",
            &scripts,
            "--http",
            &http,
        ];
        let run = Running::start(&args);
        run.err_has("HTTP server is listening", 1);
        Server {
            run,
            url: format!("http://{http}"),
            dir,
        }
    }

    fn ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command.args(args).args(["--url", &self.url]);
        command.output().expect("headwater starts")
    }

    fn script(&self, name: &str) -> Json {
        let said = done(&self.ask(&["scripts", name, "--json"]));
        serde_json::from_str(&said).expect("JSON")
    }
}

#[test]
fn a_server_runs_scripts_at_their_times_and_on_demand() {
    let server = Server::start(&[
        ("usage.xml", &USAGE.replace("{cron}", "* * * * * ?")),
        (
            "typo.sql",
            "CREATE TEMPORARY TABLE s USING CarbonAnalytics OPTIONS (tableName \"SALES\");\nSELECT amuont FROM s",
        ),
    ]);
    for row in [
        ["tea", "Ulm", "2.5"],
        ["milk", "Ulm", "1"],
        ["tea", "Bonn", "3"],
    ] {
        done(&server.ask(&[&["send", "Shop/Lines"], &row[..]].concat()));
    }
    // Attributes are found by name.
    server.run.out_has("data=[Ulm, 3.5]", 1);
    eventually("a run at its time", || {
        server.script("usage")["last"]["rows"] == 3
    });
    let found = server.script("usage");
    let outcomes = &found["last"]["outcomes"];
    assert_eq!(outcomes[0]["table"], "by_city");
    assert_eq!(outcomes[1]["stream"], "org.shop.big");
    assert_eq!(outcomes[2]["records"], json!([["Bonn"], ["Ulm"]]));
    // Nobody asks for it, so it has not run.
    assert_eq!(server.script("typo")["last"], Json::Null);
    let refused = server.ask(&["scripts", "typo", "--run"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(
        said.contains("typo.sql:2:8") && said.contains("did you mean 'amount'?"),
        "{said}"
    );
    assert_eq!(server.script("typo")["failed"], 1);
    let unknown = server.ask(&["scripts", "other", "--run"]);
    assert!(text(&unknown.stderr).contains("there is typo, usage"));
    // A script that is mended runs on; one that cannot be right changes nothing.
    let file = |name: &str| server.dir.path().join("scripts").join(name);
    fs::write(file("typo.sql"), "SELECT 1 AS one").expect("written");
    server.run.reload();
    server.run.err_has("script is ready script=\"typo\"", 2);
    let said = done(&server.ask(&["scripts", "typo", "--run"]));
    assert!(said.starts_with("one\n---\n1\n"), "{said}");
    fs::write(file("typo.sql"), "SELEC 2").expect("written");
    server.run.reload();
    server
        .run
        .err_has("cannot reload scripts; they stay as they were", 1);
    done(&server.ask(&["scripts", "typo", "--run"]));
    let (code, summary) = server.run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(summary["rejected"], 0);
}

#[test]
fn a_script_that_is_due_again_is_left_out_and_a_stop_does_not_wait_for_it() {
    // More rows than can be counted in the time of a test.
    let ten: Vec<String> = (0..10).map(|n| format!("SELECT {n} AS n")).collect();
    let ten = format!("({})", ten.join(" UNION ALL "));
    let all: Vec<String> = (0..12).map(|at| format!("{ten} t{at}")).collect();
    let endless = format!(
        "<Analytics><Script>SELECT sum(t0.n * t11.n) FROM {} WHERE t0.n + t5.n = t11.n + t7.n</Script>\
         <CronExpression>* * * * * ?</CronExpression></Analytics>",
        all.join(" CROSS JOIN ")
    );
    let server = Server::start(&[("endless.xml", &endless)]);
    server
        .run
        .err_has("the run that is due now is left out script=\"endless\"", 1);
    let busy = server.ask(&["scripts", "endless", "--run"]);
    assert!(text(&busy.stderr).contains("is running already"));
    let found = server.script("endless");
    assert!(
        found["running"].is_string() && found["late"].as_u64() > Some(0),
        "{found}"
    );
    let (code, summary) = server.run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

#[test]
fn a_server_does_not_start_with_a_script_that_cannot_be_right() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("shop.siddhi"), SHOP).expect("written");
    for (script, part, code) in [
        ("SELECT 1;\nDROP TABLE x", "x.xml:2:1", 1),
        (
            "<Analytics><Script>SELECT 1</Script><CronExpression>every day</CronExpression></Analytics>",
            "CronExpression 'every day'",
            2,
        ),
    ] {
        fs::write(dir.path().join("x.xml"), script).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command.args([
            "run",
            "shop.siddhi",
            "--store",
            "data",
            "--scripts",
            "x.xml",
        ]);
        let output = command
            .current_dir(dir.path())
            .output()
            .expect("headwater starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
