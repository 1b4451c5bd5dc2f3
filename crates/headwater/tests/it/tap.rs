//! Events of a real server as they pass: `headwater tap`, and its answer over HTTP.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::network::{Running, curl, eventually, free_port};
use serde_json::Value as Json;

const SHOP: &str = "@app:name('Shop')
define stream Sales (item string, amount double);
@source(type='inMemory', topic='again', @map(type='json'))
define stream Again (item string, amount double);
@sink(type='inMemory', topic='again', @map(type='json'))
@sink(type='log')
define stream Big (item string, amount double);
define window Last (item string, amount double) length(1) output all events;
define table Kept (item string, amount double);
@info(name='big') from Sales[amount > 10.0] select item, amount insert into Big;
from Sales insert into Last;
from Again select item, amount insert into Kept;
partition with (item of Sales) begin
  from Sales select item, amount insert into #Mine;
  from #Mine select item, sum(amount) as total insert into Totals;
end;
";

struct Shop {
    run: Running,
    url: String,
    port: u16,
    dir: tempfile::TempDir,
}

fn start() -> Shop {
    let dir = tempfile::tempdir().expect("a folder");
    let app = dir.path().join("shop.siddhi");
    fs::write(&app, SHOP).expect("the folder can be written");
    let port = free_port();
    let http = format!("127.0.0.1:{port}");
    let run = Running::start(&[&app.display().to_string(), "--http", &http]);
    let url = format!("http://{http}");
    eventually("readiness", || curl(&[&format!("{url}/ready")]).0 == "200");
    Shop {
        run,
        url,
        port,
        dir,
    }
}

/// An answer that is read line by line while events pass.
struct Reader {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Reader {
    /// The next line of a type.
    fn next(&mut self, ty: &str) -> Json {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("it is text");
            assert!(read > 0, "it ended before a line of type '{ty}'");
            let json: Json = serde_json::from_str(&line).expect("each line is JSON");
            if json["type"] == ty {
                return json;
            }
        }
    }

    /// The next event: kind and values.
    fn event(&mut self) -> String {
        let event = self.next("event");
        assert!(event["timestamp"].as_i64().is_some_and(|time| time > 0));
        let values = event["data"].as_object().expect("an object").values();
        let values: Vec<String> = values.map(Json::to_string).collect();
        format!(
            "{} {}",
            event["kind"].as_str().unwrap_or(""),
            values.join(" ")
        )
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Shop {
    fn address(&self, query: &str) -> String {
        format!("{}/siddhi-apps/Shop/tap?{query}", self.url)
    }

    /// A tap that is open.
    fn reads(&self, query: &str) -> Reader {
        let mut child = Command::new("curl")
            .args(["-sN", &self.address(query)])
            .stdout(Stdio::piped())
            .spawn()
            .expect("curl is installed");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut reader = Reader { child, lines };
        assert_eq!(reader.next("tap")["app"], "Shop");
        reader
    }

    /// The tap of the command, and what it has written until it ends.
    fn taps(&self, args: &[&str]) -> std::thread::JoinHandle<(Option<i32>, String, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command.arg("tap").args(args).args(["--url", &self.url]);
        std::thread::spawn(move || {
            let output = command.output().expect("the binary starts");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (
                output.status.code(),
                text(&output.stdout),
                text(&output.stderr),
            )
        })
    }

    #[track_caller]
    fn send(&self, rows: &str) {
        let url = format!("{}/siddhi-apps/Shop/streams/Sales/events", self.url);
        let (status, body) = curl(&["--json", rows, &url]);
        assert_eq!(status, "200", "{body}");
    }

    #[track_caller]
    fn refuses(&self, query: &str, status: &str, part: &str) {
        let (got, body) = curl(&[&self.address(query)]);
        assert_eq!(got, status, "{query}: {body}");
        assert!(body.contains(part), "{part} in {body}");
    }
}

#[test]
fn streams_queries_windows_sources_and_sinks_are_seen_while_they_run() {
    let shop = start();
    let mut all: Vec<Reader> = [
        "on=Sales",
        "on=Sales&where=amount+%3E+10+and+item+%3D%3D+%22tea%22",
        "on=query:big",
        "on=sink:Big%5B2%5D",
        "on=source:Again",
        "on=Last",
        "on=%23Mine",
    ]
    .map(|query| shop.reads(query))
    .into();
    shop.send(r#"[["milk",1.5],["tea",12.5],["jam",20]]"#);
    let expected: [&[&str]; 7] = [
        &[
            r#"current "milk" 1.5"#,
            r#"current "tea" 12.5"#,
            r#"current "jam" 20.0"#,
        ],
        &[r#"current "tea" 12.5"#],
        &[r#"current "tea" 12.5"#, r#"current "jam" 20.0"#],
        &[r#"current "tea" 12.5"#, r#"current "jam" 20.0"#],
        &[r#"current "tea" 12.5"#, r#"current "jam" 20.0"#],
        &[
            r#"current "milk" 1.5"#,
            r#"current "tea" 12.5"#,
            r#"expired "milk" 1.5"#,
        ],
        &[
            r#"current "milk" 1.5"#,
            r#"current "tea" 12.5"#,
            r#"current "jam" 20.0"#,
        ],
    ];
    for (reader, expected) in all.iter_mut().zip(expected) {
        let mut got: Vec<String> = expected.iter().map(|_| reader.event()).collect();
        let mut expected = expected.to_vec();
        // In which order a window lets go and takes is not shown here.
        got.sort();
        expected.sort();
        assert_eq!(got, expected);
    }
    drop(all);
    shop.run.stop();
}

#[test]
fn the_command_shows_rows_in_columns_and_ends_at_its_limit() {
    let shop = start();
    let place = ["Shop/Sales", "--where", "item == 'tea'", "--limit", "2"];
    let table = shop.taps(&place);
    let lines = shop.taps(&[&place[..], &["--json"]].concat());
    eventually("both have seen enough", || {
        shop.send(r#"[["milk",1.5],["tea",2.5]]"#);
        table.is_finished() && lines.is_finished()
    });
    let (code, out, err) = table.join().expect("no panic");
    assert_eq!(code, Some(0), "{err}");
    let rows: Vec<&str> = out.lines().collect();
    assert_eq!(rows.len(), 3, "{out}");
    assert!(rows[0].starts_with("time "), "{out}");
    assert!(rows[0].ends_with("kind     item  amount"), "{out}");
    assert!(rows[1].ends_with("Z  current  tea   2.5"), "{out}");
    assert!(err.contains("2 events shown of "), "{err}");
    let (code, out, err) = lines.join().expect("no panic");
    assert_eq!(code, Some(0), "{err}");
    for line in out.lines() {
        let json: Json = serde_json::from_str(line).expect("JSON");
        assert_eq!(
            json["data"],
            serde_json::json!({"item": "tea", "amount": 2.5})
        );
    }
    assert_eq!(out.lines().count(), 2);
    for (args, code, parts) in [
        (
            vec!["Shop/Sales", "--where", "amont > 1"],
            1,
            vec![
                "error[E0203]",
                "no attribute 'amont'",
                "did you mean 'amount'?",
            ],
        ),
        (
            vec!["Shop/Sales", "--where", "amount >"],
            1,
            vec!["error[E0"],
        ),
        (
            vec!["Shop/Sale"],
            1,
            vec!["app 'Shop' has no stream 'Sale'; did you mean 'Sales'?"],
        ),
        (vec!["Shop"], 2, vec!["write APP/STREAM"]),
        (vec!["Nope/S"], 1, vec!["there is no app 'Nope'"]),
    ] {
        let (got, out, err) = shop.taps(&args).join().expect("no panic");
        assert_eq!((got, out.as_str()), (Some(code), ""), "{args:?}: {err}");
        for part in parts {
            assert!(err.contains(part), "{part}: {err}");
        }
    }
    shop.run.stop();
}

#[test]
fn what_cannot_be_looked_at_is_refused_with_what_there_is() {
    let shop = start();
    for (query, status, part) in [
        ("", "400", "parameter 'on' is missing"),
        ("on=Sales&rate=0", "400", "'rate' is '0'"),
        ("on=Kept", "404", "'Kept' is a table of app 'Shop'"),
        (
            "on=sink:Big",
            "404",
            "stream 'Big' has 2 sinks: write sink:Big[1] or sink:Big[2]",
        ),
        ("on=sink:Big%5B3%5D", "404", "stream 'Big' has 2 sinks"),
        ("on=source:Sales", "404", "there is Again"),
        ("on=query:bib", "404", "did you mean 'big'?"),
        (
            "on=Sales&where=sum(amount)+%3E+1",
            "400",
            "aggregator 'sum' is not allowed",
        ),
        (
            "on=Sales&where=(Kept.item+%3D%3D+item)+in+Kept",
            "400",
            "'in' is not allowed",
        ),
    ] {
        shop.refuses(query, status, part);
    }
    // As many as a server has at once; a client that goes makes room.
    let mut open: Vec<Reader> = (0..16).map(|_| shop.reads("on=Sales")).collect();
    shop.refuses("on=Sales", "429", "16 taps are open");
    open.pop();
    eventually("room for another", || {
        let limited = shop.address("on=Sales&limit=1");
        let mut child = Command::new("curl")
            .args([
                "-sN",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "--max-time",
                "1",
                &limited,
            ])
            .stdout(Stdio::piped())
            .spawn()
            .expect("curl is installed");
        let mut status = String::new();
        let out = child.stdout.as_mut().expect("piped");
        out.read_to_string(&mut status).expect("it is text");
        child.wait().expect("it ends");
        status == "200"
    });
    drop(open);
    shop.run.stop();
}

#[test]
fn a_client_that_reads_nothing_holds_nobody_up_and_more_than_the_rate_is_counted() {
    let shop = start();
    // It asks, and never reads: neither its answer nor the rows.
    let mut silent = TcpStream::connect(("127.0.0.1", shop.port)).expect("it listens");
    let ask = "GET /siddhi-apps/Shop/tap?on=Sales&rate=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    silent.write_all(ask.as_bytes()).expect("it is sent");
    let mut reader = shop.reads("on=Sales&rate=5");
    let long = "x".repeat(1000);
    let rows: Vec<String> = (0..2000).map(|n| format!(r#"["{long}",{n}]"#)).collect();
    let file = shop.dir.path().join("rows");
    fs::write(&file, rows.join("\n")).expect("the folder can be written");
    let rows = format!("@{}", file.display());
    for _ in 0..10 {
        shop.send(&rows);
    }
    // The app has taken all of them.
    let mut shown = 0;
    let counts = loop {
        let mut line = String::new();
        reader.lines.read_line(&mut line).expect("it is text");
        let json: Json = serde_json::from_str(&line).expect("each line is JSON");
        shown += u64::from(json["type"] == "event");
        if json["type"] == "counts" && json["seen"] == 20_000 {
            break json;
        }
    };
    assert_eq!(counts["shown"], shown);
    assert!((1..1000).contains(&shown), "{shown}");
    let hidden = counts["matched"].as_u64().unwrap_or(0) - shown;
    let unexamined = counts["unexamined"].as_u64().unwrap_or(0);
    assert_eq!(shown + hidden + unexamined, 20_000, "{counts}");
    shop.run.stop();
}

#[test]
fn a_tap_whose_client_reads_nothing_is_closed_in_seconds() {
    long_test!();
    let shop = start();
    let mut silent = TcpStream::connect(("127.0.0.1", shop.port)).expect("it listens");
    let ask = "GET /siddhi-apps/Shop/tap?on=Sales&rate=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    silent.write_all(ask.as_bytes()).expect("it is sent");
    eventually("the tap is open", || shop.run.err().contains("tap opened"));
    let long = "x".repeat(1000);
    let rows: Vec<String> = (0..2000).map(|n| format!(r#"["{long}",{n}]"#)).collect();
    let file = shop.dir.path().join("rows");
    fs::write(&file, rows.join("\n")).expect("the folder can be written");
    let rows = format!("@{}", file.display());
    eventually("the tap is closed", || {
        shop.send(&rows);
        shop.run
            .err()
            .contains("closing a tap: its client reads nothing")
    });
    shop.run.stop();
}

#[test]
fn a_tap_ends_with_its_app_and_says_so() {
    let shop = start();
    let mut reader = shop.reads("on=Sales");
    let other = SHOP.replace("amount > 10.0", "amount > 11.0");
    fs::write(shop.dir.path().join("shop.siddhi"), other).expect("the folder can be written");
    shop.run.reload();
    let end = reader.next("end");
    assert_eq!(end["cause"], "app 'Shop' was stopped or reloaded");
    // The tap ends before the app is there again.
    shop.run.err_has("apps reloaded", 1);
    let reader = shop.taps(&["Shop/Sales"]);
    eventually("the tap is open", || {
        shop.run.err().matches("tap opened").count() >= 2
    });
    shop.run.stop();
    let (code, _, err) = reader.join().expect("no panic");
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("the tap has ended: app 'Shop' was stopped"),
        "{err}"
    );
}
