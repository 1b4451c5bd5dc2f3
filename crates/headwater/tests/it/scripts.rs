//! Batch scripts as users of the binary have them, also when they are killed.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use serde_json::{Value as Json, json};

use crate::network::text;

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
    refused(stream, "x.xml:1:32", 1);
    fs::write(dir.join("udf.xml"), "<udf-configuration/>").expect("written");
    let output = run(dir, &["--script", "1.sql", "--functions", "udf.xml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("define function NAME[javascript]"), "{said}");
}
