//! Two newcomers. One brings published apps that have no source: they run as they are, by events sent by hand and by a feed,
//! are watched, and one of them is mended while its rejected event waits. The other makes a pipeline from a template.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use crate::network::{Got, Running, Stub, curl, eventually, free_port, ok, text};

const APPS: &[&str] = &[
    "SimpleFilter",
    "LengthWindow",
    "TimeBatchWindowSum",
    "Store-rdbms",
    "PublishHttpInJsonFormat",
];

/// Puts the published apps into a folder; false where the reference material is not there.
fn published(into: &Path) -> bool {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("HEADWATER_SHARED").map_or(default, Into::into);
    let Ok(lines) = fs::read_to_string(shared.join("realapps/apps.jsonl")) else {
        return false;
    };
    let all: Vec<Json> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("an app a line"))
        .collect();
    for app in APPS {
        let file = format!("{app}.siddhi");
        let found = all.iter().find(|one| one["name"] == file.as_str());
        let found = found.expect("it is among them")["text"].as_str();
        fs::write(into.join(&file), found.expect("a text")).expect("the folder can be written");
    }
    true
}

struct Site {
    run: Running,
    url: String,
}

impl Site {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command
            .args(args)
            .args(["--url", &self.url])
            .stdin(Stdio::null());
        command
    }

    /// What a command prints; it has to succeed.
    #[track_caller]
    fn said(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("the binary starts");
        assert!(
            output.status.success(),
            "{args:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }
}

/// The receiver has moved.
fn receiver(got: &Got) -> String {
    match got.head.starts_with("POST /orders ") {
        true => ok(""),
        false => "HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\nno /abc\n".to_owned(),
    }
}

#[test]
fn five_published_apps_without_sources_run_are_watched_and_mended() {
    let dir = tempfile::tempdir().expect("a folder");
    let apps = dir.path().join("apps");
    fs::create_dir(&apps).expect("it can be made");
    if !published(&apps) {
        eprintln!("skipped: the published apps are not there (no folder ../shared)");
        return;
    }
    let stub = Stub::start(free_port(), receiver);
    let (state, http) = (
        dir.path().join("state"),
        format!("127.0.0.1:{}", free_port()),
    );
    let database = dir.path().join("production.db").display().to_string();
    let store = format!("Store-rdbms/SweetProductionTable.store.jdbc.url=jdbc:sqlite:{database}");
    let moved = format!("http://localhost:8080=http://127.0.0.1:{}", stub.port);
    let (folder, state) = (apps.display().to_string(), state.display().to_string());
    let site = Site {
        run: Running::start(&[
            &folder,
            "--set",
            &store,
            "--replace",
            &moved,
            "--state",
            &state,
            "--http",
            &http,
        ]),
        url: format!("http://{http}"),
    };
    eventually("readiness", || {
        curl(&[&format!("{}/ready", site.url)]).0 == "200"
    });

    // Rows by hand, of which the filter lets one through.
    site.said(&["send", "SimpleFilter/TempStream", "1", "45.5"]);
    site.said(&["send", "SimpleFilter/TempStream", "2", "20.0"]);
    site.run.out_has("[1, 45.5]", 1);
    assert!(!site.run.out().contains("[2, 20.0]"), "{}", site.run.out());
    for stream in ["insert", "search"] {
        let name = format!("Store-rdbms/{stream}SweetProductionStream");
        let amount: &[&str] = if stream == "insert" { &["12.5"] } else { &[] };
        site.said(&[&["send", &name, "toffee"], amount].concat());
    }
    site.run.out_has("[toffee, 12.5]", 1);

    // Seen as they pass.
    let mut tap = site
        .command(&[
            "tap",
            "LengthWindow/OutputStream",
            "--where",
            "price < 10f",
            "--limit",
            "1",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    eventually("an event is seen", || {
        site.said(&["send", "LengthWindow/StockEventStream", "WSO2", "7.5"]);
        tap.try_wait().expect("a child").is_some()
    });
    let seen = text(&tap.wait_with_output().expect("a child").stdout);
    assert!(seen.contains("WSO2") && seen.contains("7.5"), "{seen}");

    // A feed for the window of ten seconds.
    let feed = json!({
        "properties": { "simulationName": "Trades", "noOfEvents": "20", "timeInterval": "0" },
        "sources": [{
            "simulationType": "RANDOM_DATA_SIMULATION", "siddhiAppName": "TimeBatchWindowSum",
            "streamName": "TradesStream", "attributeConfiguration": [
                { "type": "CUSTOM_DATA_BASED", "list": ["WSO2"] },
                { "type": "PRIMITIVE_BASED", "min": "1", "max": "9", "precision": "1" },
                { "type": "PRIMITIVE_BASED", "min": "5", "max": "5" },
            ],
        }],
    });
    let url = format!("{}/simulation/feed", site.url);
    assert_eq!(curl(&["--json", &feed.to_string(), &url]).0, "201");
    let run = curl(&["-X", "POST", &format!("{url}/Trades?action=run")]);
    assert_eq!(run.0, "200", "{}", run.1);
    // The window may end while the feed is sent.
    eventually("all items are summed", || {
        let out = site.run.out();
        let sums = out.split("data=[WSO2, ").skip(1);
        let sums = sums.filter_map(|rest| rest.split(']').next()?.parse::<u32>().ok());
        sums.sum::<u32>() == 100
    });
    let top = site.said(&["top", "--once"]);
    for app in APPS {
        assert!(top.contains(app), "{top}");
    }

    // The receiver refuses an event; the app is mended, and the event is replayed.
    let publish = "PublishHttpInJsonFormat";
    site.said(&[
        "send",
        &format!("{publish}/SweetProductionStream"),
        "fudge",
        "3.5",
    ]);
    eventually("it is rejected", || {
        site.said(&["errors", "list"]).contains("1 rejected event")
    });
    let listed = site.said(&["errors", "list"]);
    assert!(
        listed.contains(publish) && listed.contains("404"),
        "{listed}"
    );
    let app = apps.join(format!("{publish}.siddhi"));
    let before = fs::read_to_string(&app).expect("it is there");
    let mended = before.replace("localhost:8080/abc", "localhost:8080/orders");
    fs::write(&app, mended).expect("the folder can be written");
    site.run.reload();
    site.run.err_has("apps reloaded", 1);
    site.said(&["errors", "replay", "--app", publish]);
    let left = site.said(&["errors", "list"]);
    assert!(left.contains("no rejected events"), "{left}");
    let arrived = |got: &Got| got.head.starts_with("POST /orders ") && got.body.contains("fudge");
    eventually("it arrives", || stub.got().iter().any(arrived));
    site.run.stop();
}

/// What a newcomer adds to a template: sums of five sales, to a topic.
const FIVES: &str = "
@sink(type='kafka', bootstrap.servers='{broker}', topic='trial-fives', @map(type='json'))
define stream Fives (product string, amount double);
";
const SUMS: &str = "
from Clean#window.lengthBatch(5)
select product, sum(amount) as amount
group by product
insert into Fives;
";

#[test]
fn a_template_becomes_a_pipeline_to_kafka_and_postgresql() {
    let (kafka, postgres) = (
        testservers::shared("kafka"),
        testservers::shared("postgres"),
    );
    let (Some(kafka), Some(postgres)) = (kafka, postgres) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let headwater = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        let output = command.args(args).current_dir(dir.path()).output();
        let output = output.expect("the binary starts");
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
        said
    };
    headwater(&["new", "file-etl", "pipe"]);
    let file = dir.path().join("pipe/etl.siddhi");
    let template = fs::read_to_string(&file).expect("it was made");
    let in_sqlite = "jdbc.url='jdbc:sqlite:${app:dir}/sales.db'";
    let (definitions, queries) = template
        .split_once("@info")
        .expect("its first query has a name");
    let fives = FIVES.replace("{broker}", &kafka.endpoint());
    let mut app = format!("{definitions}{fives}@info{queries}{SUMS}");
    for table in ["trial_sales", "trial_totals"] {
        let in_postgres = format!("jdbc.url='{}', table.name='{table}'", postgres.endpoint());
        app = app.replacen(in_sqlite, &in_postgres, 1);
    }
    fs::write(&file, app).expect("it can be written");
    headwater(&["check", "pipe", "--connect"]);
    headwater(&["test", "pipe"]);
    headwater(&["run", "pipe", "--until-done"]);
    let ask = |sql: &str| testservers::sql("postgres", postgres.port(), sql).expect("it is there");
    assert_eq!(ask("select count(*) from trial_sales").trim(), "5");
    let totals = ask("select product, sales, amount from trial_totals order by product");
    assert_eq!(totals.lines().next(), Some("cocoa\t1\t10.3"), "{totals}");
    let mut read = Command::new("kcat");
    read.args([
        "-q",
        "-b",
        &kafka.endpoint(),
        "-C",
        "-e",
        "-t",
        "trial-fives",
    ]);
    let fives = testservers::run(&mut read).expect("the topic is there");
    for product in ["tea", "coffee", "cocoa"] {
        assert!(fives.contains(product), "{fives}");
    }
}
