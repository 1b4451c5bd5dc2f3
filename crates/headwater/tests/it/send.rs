//! Events by hand to a real server: `headwater send`, and Streaming Integrator's event simulator.

use std::fs;
use std::process::Command;

use crate::network::{Running, curl, eventually, free_port, piped, published, text};
use serde_json::Value as Json;

/// Without a source, as most published apps.
const SHOP: &str = "@app:name('Shop')
define stream Sales (item string, amount double, number int);
define stream Big (item string, amount double);
@PrimaryKey('n') define table Kept (n long, item string, amount double, at long);
define table Sums (total double);
from Sales[amount > 10.0] select item, amount insert into Big;
from Big select count() as n, item, amount, eventTimestamp() as at insert into Kept;
from Sales#window.lengthBatch(4) select sum(amount) as total insert into Sums;
";

const HTTP_SOURCE: &str = "@App:name('HttpSource')
@source(type='http', receiver.url='http://172.31.2.99:8081/service', @map(type='json'))
define stream SweetProductionStream (name string, amount double);
@sink(type='log') define stream HttpSourceThroughputStream(count long);
from SweetProductionStream#window.timeBatch(5 sec) select count(*)/5 as count insert into HttpSourceThroughputStream;
";

struct Shop {
    run: Running,
    url: String,
    dir: tempfile::TempDir,
}

fn start(app: &str, dir: tempfile::TempDir, more: &[&str]) -> Shop {
    let http = format!("127.0.0.1:{}", free_port());
    let run = Running::start(&[&[app, "--http", &http], more].concat());
    let url = format!("http://{http}");
    eventually("readiness", || curl(&[&format!("{url}/ready")]).0 == "200");
    Shop { run, url, dir }
}

fn shop(more: &[&str]) -> Shop {
    let dir = tempfile::tempdir().expect("a folder");
    let app = dir.path().join("shop.siddhi");
    fs::write(&app, SHOP).expect("the folder can be written");
    start(&app.display().to_string(), dir, more)
}

impl Shop {
    /// Exit code, standard output and standard error.
    fn send_from(&self, input: &str, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        let command = command.arg("send").args(args).args(["--url", &self.url]);
        let output = piped(command, input.as_bytes());
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    #[track_caller]
    fn sends(&self, args: &[&str], said: &str) {
        let (code, out, err) = self.send_from("", args);
        assert_eq!(code, Some(0), "{args:?}: {err}");
        assert!(out.starts_with(said), "{out}");
    }

    #[track_caller]
    fn refuses(&self, args: &[&str], code: i32, parts: &[&str]) {
        let (got, out, err) = self.send_from("", args);
        assert_eq!((got, out.as_str()), (Some(code), ""), "{args:?}: {err}");
        for part in parts {
            assert!(err.contains(part), "{part}: {err}");
        }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("the folder can be written");
        path.display().to_string()
    }

    fn post(&self, path: &str, body: &str) -> (String, Json) {
        let (status, text) = curl(&["--json", body, &format!("{}{path}", self.url)]);
        (status, serde_json::from_str(&text).expect("JSON"))
    }

    /// What a query finds.
    #[track_caller]
    fn finds(&self, query: &str, records: &str) {
        let body = serde_json::json!({ "query": query }).to_string();
        let (status, found) = self.post("/stores/query", &body);
        assert_eq!(
            (status.as_str(), found["records"].to_string().as_str()),
            ("200", records)
        );
    }
}

#[test]
fn rows_come_from_arguments_files_pipes_and_chance() {
    let shop = shop(&[]);
    shop.sends(
        &["Shop/Sales", "tea", "12.5", "-3"],
        "1 row sent to Shop/Sales\n",
    );
    shop.sends(
        &[
            "Shop/Sales",
            r#"{"number":1,"amount":11,"item":"milk"}"#,
            "--timestamp",
            "5",
        ],
        "1 row",
    );
    shop.finds(
        "from Kept on n == 2 select item, amount, at",
        r#"[["milk",11.0,5]]"#,
    );
    // Also a stream that a query fills takes events.
    shop.sends(
        &[
            "Shop/Big",
            r#"["jam",1.5]"#,
            "--timestamp",
            "7",
            "--timestamp-step",
            "2",
            "--repeat",
            "2",
        ],
        "2 rows",
    );
    shop.finds(
        "from Kept on at < 10 select item, at order by n",
        r#"[["milk",5],["jam",7],["jam",9]]"#,
    );
    shop.finds("from Sums select total", "[]");

    let named = shop.write(
        "named.csv",
        "when,number,item,amount\n100,1,\"a,\"\"b\"\"\",20\n101,,c,30\n",
    );
    shop.sends(
        &["Shop/Sales", "--file", &named, "--timestamp-column", "when"],
        "2 rows sent",
    );
    shop.finds(
        "from Kept on at >= 100 and at < 200 select item, amount, at order by n",
        r#"[["a,\"b\"",20.0,100],["c",30.0,101]]"#,
    );
    shop.finds("from Sums select total", "[[73.5]]");

    let (code, out, err) = shop.send_from(
        "[\"d\",40,1]\n\n{\"item\":\"e\",\"amount\":50,\"number\":1,\"at\":301}\n",
        &[
            "Shop/Sales",
            "--file",
            "-",
            "--skip",
            "1",
            "--timestamp-column",
            "at",
        ],
    );
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("1 row sent"), "{out}");
    shop.finds(
        "from Kept on at == 301 select item, amount",
        r#"[["e",50.0]]"#,
    );

    let random = [
        "Shop/Big",
        "--random",
        "3000",
        "--pattern",
        "amount=1..6",
        "--pattern",
        "item=x|y",
    ];
    shop.sends(&random, "3,000 rows sent to Shop/Big in ");
    shop.finds(
        "from Kept on item == 'x' or item == 'y' select count() as n",
        "[[3000]]",
    );
    let before = std::time::Instant::now();
    let (code, out, _) = shop.send_from(
        "",
        &[
            "Shop/Big", "z", "1", "--repeat", "6", "--rate", "10", "--json",
        ],
    );
    assert_eq!(code, Some(0));
    assert!(
        before.elapsed().as_millis() >= 500,
        "six rows at ten a second"
    );
    let json: Json = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&json["sent"], &json["version"]), (&6.into(), &1.into()));
    assert_eq!(shop.run.stop().0, Some(0), "nothing was rejected");
}

#[test]
fn what_does_not_fit_is_shown_with_its_place() {
    let shop = shop(&[]);
    let sales = shop.write("sales.csv", "a,20,1\nb,30,2\nc,x,3\nd,40,4\n");
    let place =
        format!("{sales}:3, attribute 'amount': \"x\" is no double; expected: a number, or null");
    shop.refuses(
        &["Shop/Sales", "--file", &sales],
        1,
        &[
            &place,
            "the 2 rows before it were sent; go on behind with --skip 2",
        ],
    );
    shop.finds("from Kept select item order by n", r#"[["a"],["b"]]"#);
    let (code, out, err) = shop.send_from(
        "",
        &[
            "Shop/Sales",
            "--file",
            &sales,
            "--skip",
            "2",
            "--keep-going",
        ],
    );
    assert_eq!(code, Some(4), "{err}");
    assert!(
        out.starts_with("1 row sent") && err.contains(&place),
        "{out}{err}"
    );
    shop.finds("from Kept select item order by n", r#"[["a"],["b"],["d"]]"#);

    let lines = shop.write("sales.ndjson", "[\"a\",20,1]\nnonsense\n");
    shop.refuses(
        &["Shop/Sales", "--file", &lines],
        1,
        &["sales.ndjson:2: it is no JSON", "--format csv"],
    );
    shop.refuses(
        &["Shop/Sales", "a"],
        1,
        &[
            "the row has 1 value",
            "item string, amount double, number int",
        ],
    );
    shop.refuses(
        &["Shop/Salez", "a"],
        1,
        &["no stream 'Salez'", "it has Sales, Big"],
    );
    shop.refuses(
        &["Shap/Sales", "a"],
        1,
        &["there is no app 'Shap'; running: 'Shop'"],
    );
    shop.refuses(&["Sales", "a"], 2, &["write APP/STREAM"]);
    shop.refuses(&["Shop/Sales"], 2, &["VALUES, --file FILE or --random N"]);
    shop.refuses(
        &["Shop/Sales", "--random", "1", "--pattern", "amont=1..2"],
        2,
        &["no attribute 'amont'"],
    );
    shop.refuses(
        &["Shop/Sales", "--file", "none.csv"],
        1,
        &["cannot open file 'none.csv'"],
    );
    let away = ["send", "Shop/Sales", "a", "--url", "http://127.0.0.1:1"];
    let away = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(away)
        .output();
    assert_eq!(away.expect("the binary starts").status.code(), Some(3));
    shop.run.stop();
}

#[test]
fn many_events_go_in_one_request() {
    let shop = shop(&[]);
    let path = "/siddhi-apps/Shop/streams/Big/events";
    let sent = |body: &str| {
        let (status, json) = shop.post(path, body);
        (status, json["sent"].as_u64())
    };
    let ok = |rows| ("200".to_owned(), Some(rows));
    assert_eq!(sent(r#"[["a",1],{"item":"b","amount":2}]"#), ok(2));
    assert_eq!(
        sent("[\"c\",3]\n{\"timestamp\":9,\"data\":[\"d\",4]}\n"),
        ok(2)
    );
    assert_eq!(sent("[]"), ok(0));
    let (status, json) = shop.post(path, r#"[["e",5],["f",6],["g","x"],["h",8]]"#);
    assert_eq!(status, "400");
    for (name, value) in [
        ("row", Json::from(3)),
        ("column", "amount".into()),
        ("cause", "\"x\" is no double".into()),
        ("expected", "a number, or null".into()),
        ("sent", 2.into()),
    ] {
        assert_eq!(json[name], value, "{json}");
    }
    let message = json["message"].as_str().expect("a text");
    assert!(
        message.ends_with("the 2 rows before it are in"),
        "{message}"
    );
    assert_eq!(shop.post(path, "[\"i\",9]\n[\"j\"").0, "400");
    let all: Vec<String> = "abcdefi".chars().map(|c| format!("[\"{c}\"]")).collect();
    shop.finds(
        "from Kept select item order by n",
        &format!("[{}]", all.join(",")),
    );

    assert_eq!(
        shop.post("/siddhi-apps/Shop/streams/None/events", "[]").0,
        "404"
    );
    assert_eq!(
        shop.post("/siddhi-apps/None/streams/Big/events", "[]").0,
        "404"
    );
    let long = shop.write("long", &format!("[\"{}\",1]", "x".repeat(5 << 20)));
    assert_eq!(
        curl(&[
            "--json",
            &format!("@{long}"),
            &format!("{}{path}", shop.url)
        ])
        .0,
        "413"
    );
    // A page of another site cannot send this without asking first.
    let plain = [
        "-H",
        "Content-Type: text/plain",
        "-d",
        "[]",
        &format!("{}{path}", shop.url),
    ];
    assert_eq!(curl(&plain).0, "415");
    let (status, streams) = curl(&[&format!("{}/siddhi-apps/Shop/streams", shop.url)]);
    assert_eq!(status, "200");
    let streams: Json = serde_json::from_str(&streams).expect("JSON");
    assert_eq!(streams["streams"][1]["name"], "Big");
    assert_eq!(streams["streams"][1]["attributes"][1]["dataType"], "DOUBLE");
    shop.run.stop();
}

#[test]
fn single_events_are_simulated_as_streaming_integrator_does() {
    let shop = shop(&[]);
    let single = |body: &str| shop.post("/simulation/single", body);
    let done = r#"{"status":"OK","message":"Single Event simulation started successfully"}"#;
    for body in [
        r#"{"streamName":"Big","siddhiAppName":"Shop","timestamp":1488615136958,"data":["a",1.5]}"#,
        r#"{"streamName":"Big","siddhiAppName":"Shop","timestamp":null,"data":["b","2"]}"#,
        r#"{"streamName":"Big","siddhiAppName":"Shop","data":[null,3]}"#,
    ] {
        let (status, json) = single(body);
        assert_eq!((status.as_str(), json.to_string().as_str()), ("200", done));
    }
    shop.finds(
        "from Kept select item, amount order by n",
        r#"[["a",1.5],["b",2.0],[null,3.0]]"#,
    );
    shop.finds("from Kept on n == 1 select at", "[[1488615136958]]");
    for (body, status, part) in [
        (
            r#"{"siddhiAppName":"Shop","data":[]}"#,
            "400",
            "'streamName' is missing",
        ),
        (
            r#"{"streamName":"Big","data":[]}"#,
            "400",
            "'siddhiAppName' is missing",
        ),
        (
            r#"{"streamName":"No","siddhiAppName":"Shop","data":[]}"#,
            "404",
            "no stream 'No'",
        ),
        (
            r#"{"streamName":"Big","siddhiAppName":"No","data":[]}"#,
            "404",
            "no app 'No'",
        ),
        (
            r#"{"streamName":"Big","siddhiAppName":"Shop","data":["a"]}"#,
            "400",
            "the row has 1 value",
        ),
        (
            r#"{"streamName":"Big","siddhiAppName":"Shop","data":["a","x"]}"#,
            "400",
            "attribute 'amount'",
        ),
        (
            r#"{"streamName":"Big","siddhiAppName":"Shop","timestamp":-1,"data":["a",1]}"#,
            "400",
            "no timestamp",
        ),
        ("nonsense", "400", "not JSON"),
    ] {
        let (got, json) = single(body);
        assert_eq!(got, status, "{json}");
        assert!(
            json["message"].as_str().is_some_and(|m| m.contains(part)),
            "{json}"
        );
    }
    assert_eq!(curl(&[&format!("{}/simulation/single", shop.url)]).0, "405");
    shop.run.stop();
}

#[test]
fn what_was_sent_survives_a_kill() {
    let dir = tempfile::tempdir().expect("a folder");
    let state = dir.path().join("state").display().to_string();
    let shop = shop(&["--state", &state, "--state-interval", "1h"]);
    shop.sends(
        &[
            "Shop/Sales",
            "--random",
            "2500",
            "--pattern",
            "amount=11..12",
        ],
        "2,500 rows",
    );
    // Killed, not stopped.
    drop(shop);
    let shop = self::shop(&["--state", &state]);
    shop.finds("from Kept select count() as n", "[[2500]]");
    shop.run.stop();
}

#[test]
fn a_stream_of_a_published_app_takes_events() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = published(dir.path(), "HttpSource.siddhi", HTTP_SOURCE);
    let replace = format!("172.31.2.99:8081=127.0.0.1:{}", free_port());
    let shop = start(&app.display().to_string(), dir, &["--replace", &replace]);
    shop.sends(&["HttpSource/HttpSourceThroughputStream", "4242"], "1 row");
    shop.run.out_has("4242", 1);
    shop.sends(
        &[
            "HttpSource/SweetProductionStream",
            "--random",
            "10",
            "--rate",
            "100",
        ],
        "10 rows",
    );
    shop.run.stop();
}

impl Shop {
    /// Status and message of the event simulator.
    fn feed(&self, method: &str, path: &str, body: Option<&Json>) -> (String, String) {
        let url = format!("{}/simulation/feed{path}", self.url);
        let body = body.map(Json::to_string);
        let mut args = vec!["-X", method, url.as_str()];
        if let Some(body) = &body {
            args.extend(["--json", body.as_str()]);
        }
        let (status, text) = curl(&args);
        let json: Json = serde_json::from_str(&text).expect("JSON");
        let message = json["message"].as_str().expect("a text");
        (status, message.to_owned())
    }

    #[track_caller]
    fn feeds(&self, method: &str, path: &str, status: &str, part: &str) {
        let (got, message) = self.feed(method, path, None);
        assert_eq!(got, status, "{method} {path}: {message}");
        assert!(message.contains(part), "{message}");
    }

    fn feed_is(&self, state: &str) -> bool {
        self.feed("GET", "/F/status", None).1 == state
    }
}

#[test]
fn feeds_send_files_and_chance_by_their_timestamps() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("big.csv");
    fs::write(&file, "30,c,3\n10,\"a,b\",1\nshort\n20,b,x\n90,late,9\n")
        .expect("it can be written");
    let folder = dir.path().display().to_string();
    let shop = shop(&["--simulation-files", &folder]);
    let source = |more: Json| {
        let mut source = serde_json::json!({ "streamName": "Big", "siddhiAppName": "Shop" });
        let source_fields = source.as_object_mut().expect("an object");
        source_fields.extend(more.as_object().expect("an object").clone());
        source
    };
    let csv = source(serde_json::json!({
        "simulationType": "CSV_SIMULATION", "fileName": "big.csv", "delimiter": ",",
        "timestampAttribute": "0", "isOrdered": false,
    }));
    let random = source(serde_json::json!({
        "simulationType": "RANDOM_DATA_SIMULATION", "timestampInterval": "10",
        "attributeConfiguration": [
            { "type": "CUSTOM_DATA_BASED", "list": ["r"] },
            { "type": "PRIMITIVE_BASED", "min": "2", "max": "2", "precision": "1" },
        ],
    }));
    let feed = serde_json::json!({
        "properties": {
            "simulationName": "F", "startTimestamp": "5", "endTimestamp": "40", "timeInterval": "0",
        },
        "sources": [csv, random],
    });
    let (status, message) = shop.feed("POST", "", Some(&feed));
    assert_eq!(status, "201", "{message}");
    assert_eq!(
        message,
        "Successfully uploaded simulation configuration 'F'"
    );
    assert_eq!(shop.feed("POST", "", Some(&feed)).0, "409");
    shop.feeds("GET", "/F/status", "200", "STOP");
    shop.feeds("GET", "", "200", "\"activeSimulations\":[{");
    shop.feeds("POST", "/F?action=pause", "403", "stopped");
    shop.feeds(
        "POST",
        "/F/?action=run",
        "200",
        "Successfully started simulation 'F'.",
    );
    eventually("the end of the feed", || shop.feed_is("STOP"));
    let all = r#"[["r",2.0,5],["a,b",1.0,10],["r",2.0,15],["r",2.0,25],["c",3.0,30],["r",2.0,35]]"#;
    shop.finds("from Kept select item, amount, at order by n", all);

    // Without a bound it goes on until it is stopped.
    let mut endless = feed;
    endless["sources"] = serde_json::json!([endless["sources"][1]]);
    endless["properties"] = serde_json::json!({ "simulationName": "F", "timeInterval": 5 });
    assert_eq!(shop.feed("PUT", "/F", Some(&endless)).0, "200");
    shop.feeds("POST", "/F?action=run", "200", "started");
    shop.feeds("POST", "/F?action=run", "409", "in progress");
    shop.feeds("POST", "/F?action=pause", "200", "paused");
    assert!(shop.feed_is("PAUSE"));
    shop.feeds("POST", "/F?action=pause", "409", "already paused");
    shop.feeds("POST", "/F?action=resume", "200", "resumed");
    eventually("more events", || {
        let (_, found) = shop.post(
            "/stores/query",
            r#"{"query":"from Kept select count() as n"}"#,
        );
        found["records"][0][0].as_u64() > Some(12)
    });
    shop.feeds("POST", "/F?action=stop", "200", "stopped");
    shop.feeds("POST", "/F?action=stop", "409", "already stopped");
    shop.feeds("POST", "/F?action=dance", "400", "Invalid action 'dance'");
    shop.feeds("DELETE", "/F", "200", "Successfully deleted");
    shop.feeds("DELETE", "/F", "404", "No event simulation configuration");

    endless["sources"][0]["siddhiAppName"] = "Gone".into();
    assert_eq!(shop.feed("POST", "", Some(&endless)).0, "201");
    shop.feeds(
        "GET",
        "",
        "200",
        "\"exceptionReason\":\"there is no app 'Gone'",
    );
    shop.feeds("POST", "/F?action=run", "400", "there is no app 'Gone'");
    endless["sources"] = serde_json::json!([]);
    let (status, message) = shop.feed("PUT", "/F", Some(&endless));
    assert_eq!(status, "400", "{message}");
    shop.run.stop();
}

/// Out of order; one row without a timestamp, one without an amount.
const SOLD: &str = "create table FeedSold (name varchar(20), price double, moment bigint);
insert into FeedSold values ('c', 30.5, 30), ('a', 10.5, 10), ('n', null, 20), ('x', 1.5, null), ('late', 90.5, 90);";

/// Feeds the rows of `SOLD` from the database at this URL.
fn feeds_rows_of(url: &str) {
    let shop = shop(&[]);
    let mut feed = serde_json::json!({
        "properties": { "simulationName": "F", "endTimestamp": "40", "timeInterval": "0" },
        "sources": [{
            "simulationType": "DATABASE_SIMULATION", "streamName": "Big", "siddhiAppName": "Shop",
            "driver": "com.mysql.jdbc.Driver", "dataSourceLocation": url,
            "username": "headwater", "password": "headwater", "tableName": "FeedSold",
            "columnNamesList": "name,price", "timestampAttribute": "moment",
        }],
    });
    let (status, message) = shop.feed("POST", "", Some(&feed));
    assert_eq!(status, "201", "{message}");
    for path in ["", "/F"] {
        let (_, shown) = shop.feed("GET", path, None);
        let is_hidden =
            !shown.contains("password=headwater") && shown.contains(r#""password":"…""#);
        assert!(is_hidden, "{shown}");
    }
    shop.feeds("POST", "/F?action=run", "200", "started");
    eventually("the end of the feed", || shop.feed_is("STOP"));
    let all = r#"[["a",10.5,10],["n",null,20],["c",30.5,30]]"#;
    shop.finds("from Kept select item, amount, at order by n", all);

    // Without a column of timestamps they are made, and the rows come as the database has them.
    feed["properties"] = serde_json::json!({
        "simulationName": "F", "startTimestamp": "100", "noOfEvents": "2", "timeInterval": "0",
    });
    feed["sources"][0]["timestampAttribute"] = Json::Null;
    feed["sources"][0]["timestampInterval"] = "10".into();
    assert_eq!(shop.feed("PUT", "/F", Some(&feed)).0, "200");
    shop.feeds("POST", "/F?action=run", "200", "started");
    eventually("the end of the feed", || shop.feed_is("STOP"));
    let all = r#"[["c",30.5,100],["a",10.5,110]]"#;
    shop.finds(
        "from Kept on at >= 100L select item, amount, at order by n",
        all,
    );

    // The columns are called as the attributes where nothing is said of them.
    feed["sources"][0]["columnNamesList"] = Json::Null;
    assert_eq!(shop.feed("PUT", "/F", Some(&feed)).0, "200");
    shop.feeds(
        "POST",
        "/F?action=run",
        "400",
        "reading table 'FeedSold' failed",
    );
    assert!(shop.feed_is("STOP"));
    feed["sources"][0]["columnNamesList"] = "name".into();
    assert_eq!(shop.feed("PUT", "/F", Some(&feed)).0, "200");
    shop.feeds("POST", "/F?action=run", "400", "'columnNamesList' has 1");
    feed["sources"][0]["dataSourceLocation"] = "jdbc:nosuch:x".into();
    feed["sources"][0]["columnNamesList"] = "name,price".into();
    assert_eq!(shop.feed("PUT", "/F", Some(&feed)).0, "200");
    shop.feeds("POST", "/F?action=run", "400", "unknown kind 'nosuch'");
    shop.run.stop();
}

#[test]
fn feeds_send_the_rows_of_a_file_of_sqlite() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("sold.db");
    let database = rusqlite::Connection::open(&file).expect("opens");
    database.execute_batch(SOLD).expect("it takes it");
    feeds_rows_of(&format!("jdbc:sqlite:{}", file.display()));
}

#[test]
fn feeds_send_the_rows_of_mariadb() {
    let Some(server) = testservers::shared("mariadb") else {
        return;
    };
    testservers::sql("mariadb", server.port(), SOLD).expect("the server takes it");
    feeds_rows_of(&server.endpoint());
}
