//! SQL over the event store as users of the binary have it: the command over a folder and over a server, and
//! `POST /sql`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value as Json, json};

use crate::network::{Running, curl, eventually, free_port, piped, post_all, text};

pub(crate) fn headwater(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .env_remove("HEADWATER_URL")
        .env_remove("HEADWATER_TOKEN")
        .output()
        .expect("headwater starts")
}

/// Standard output of a command that went well.
#[track_caller]
pub(crate) fn done(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    text(&output.stdout)
}

/// Standard error of a command that did not.
#[track_caller]
pub(crate) fn failed(output: &Output, code: i32) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The readings of the example, in a store.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let dir = tempfile::tempdir().expect("a folder");
        let place = Place { dir };
        let app = examples().join("smart-home").display().to_string();
        let store = place.path("data");
        done(&headwater(&[
            "run",
            &app,
            "--store",
            &store,
            "--until-done",
        ]));
        place
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn sql(&self, args: &[&str]) -> Output {
        let store = self.path("data");
        headwater(&[&["sql", "--store", &store], args].concat())
    }
}

/// The mean of each city, computed from the file itself, the highest first.
fn means() -> Vec<(String, f64)> {
    let readings =
        fs::read_to_string(examples().join("smart-home/readings.csv")).expect("it is there");
    let mut cities: Vec<(String, f64, f64)> = Vec::new();
    for line in readings.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        // The column is a float.
        let reading = f64::from(cells[4].parse::<f32>().expect("a number"));
        match cities.iter_mut().find(|(city, ..)| city == cells[1]) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + reading, *count + 1.0),
            None => cities.push((cells[1].to_owned(), reading, 1.0)),
        }
    }
    let mut means: Vec<_> = cities
        .into_iter()
        .map(|(city, sum, count)| (city, sum / count))
        .collect();
    means.sort_by(|a, b| b.1.total_cmp(&a.1));
    means
}

const MEANS: &str =
    "select metro_area, avg(power_reading) from smart_home group by 1 order by 2 desc";

#[test]
fn the_readings_of_the_example_are_asked_without_a_server() {
    let place = Place::new();
    let json: Json = serde_json::from_str(&done(&place.sql(&[MEANS, "--json"]))).expect("JSON");
    assert_eq!(
        (&json["version"], &json["details"][1]["dataType"]),
        (&json!(1), &json!("DOUBLE"))
    );
    let records = json["records"].as_array().expect("rows");
    let want = means();
    assert!(want.len() > 2);
    assert_eq!(records.len(), want.len());
    for (record, (city, mean)) in records.iter().zip(want) {
        assert_eq!(record[0], city);
        let found = record[1].as_f64().expect("a number");
        // The order of the sum is free.
        assert!(
            (found - mean).abs() < 1e-9 * mean,
            "{city}: {found}, not {mean}"
        );
    }
    let table = done(&place.sql(&["select count(*) as readings from smart_home"]));
    assert_eq!(table, "readings\n--------\n1200\n");
    assert_eq!(
        done(&place.sql(&["show tables"])),
        "name\n----------\nsmart_home\n"
    );
}

#[test]
fn statements_come_from_arguments_files_and_standard_input_in_each_format() {
    let place = Place::new();
    let two = "select 1 as a, 'x;y' as b;\n-- the second\nselect null as a, '' as b;";
    let csv = "a,b\n1,x;y\na,b\n,\"\"\n";
    assert_eq!(done(&place.sql(&[two, "--format", "csv"])), csv);
    let file = place.path("two.sql");
    fs::write(&file, two).expect("written");
    assert_eq!(done(&place.sql(&["--file", &file, "--format", "csv"])), csv);
    let store = place.path("data");
    for more in [&["-"][..], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command
            .args(["sql", "--store", &store, "--format", "csv"])
            .args(more);
        assert_eq!(done(&piped(&mut command, two.as_bytes())), csv);
    }
    assert_eq!(
        done(&place.sql(&[two, "--format", "ndjson"])),
        "{\"a\":1,\"b\":\"x;y\"}\n{\"a\":null,\"b\":\"\"}\n"
    );
    let documents = done(&place.sql(&[two, "--json"]));
    let records: Vec<Json> = documents
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).expect("JSON")["records"].clone())
        .collect();
    assert_eq!(records, [json!([[1, "x;y"]]), json!([[null, ""]])]);
    let parquet = place.sql(&["select * from smart_home", "--format", "parquet"]);
    assert!(parquet.stdout.starts_with(b"PAR1") && parquet.stdout.ends_with(b"PAR1"));
    let arrow = place.sql(&["select 1", "--format", "arrow"]);
    assert!(arrow.stdout.starts_with(&[0xff; 4]), "{:?}", arrow.stdout);
    let said = failed(&place.sql(&[two, "--format", "parquet"]), 2);
    assert!(said.contains("one statement"), "{said}");
}

#[test]
fn an_error_is_shown_at_its_place_also_in_a_file() {
    let place = Place::new();
    let file = place.path("report.sql");
    fs::write(
        &file,
        "select 1;\n\nselect metro_aera\nfrom smart_home;\nselect 2",
    )
    .expect("written");
    let output = place.sql(&["--file", &file, "--format", "csv"]);
    let said = failed(&output, 1);
    let want = format!(
        "error: there is no column 'metro_aera'\n  --> {file}:3:8\n   |\n 3 | select metro_aera\n   |        ^^^^^^^^^^ here\n   \
         = help: did you mean 'metro_area'?\n"
    );
    assert!(said.starts_with(&want), "{said}\n{want}");
    assert_eq!(
        text(&output.stdout),
        "Int64(1)\n1\n",
        "what came before is answered"
    );
    let output = place.sql(&["select * from smarthome", "--json"]);
    failed(&output, 1);
    let json: Json = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(json["diagnostics"][0]["help"], "did you mean 'smart_home'?");
    assert_eq!(json["diagnostics"][0]["start"], 14);
    let said = failed(&place.sql(&["delete from smart_home"]), 1);
    assert!(said.contains("only statements that read"), "{said}");
    let said = failed(
        &place.sql(&["select * from smart_home", "--max-rows", "10"]),
        1,
    );
    assert!(said.contains("more than 10 rows"), "{said}");
    let said = failed(&place.sql(&[" ; -- nothing"]), 2);
    assert!(said.contains("no statement"), "{said}");
    let said = failed(
        &headwater(&["sql", "--store", &place.path(""), "select 1"]),
        2,
    );
    assert!(said.contains("not a folder of an event store"), "{said}");
}

const SALES: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Sales (item string, amount double);
@store(type='eventstore') define table Kept (item string, amount double);
@store(type='eventstore') @PrimaryKey('item') define table Latest (item string, amount double);
from Sales select item, amount insert into Kept;
from Sales select item, amount update or insert into Latest on Latest.item == item;
";

/// Asks `POST /sql`; status and body.
fn post(url: &str, sql: &str, headers: &[&str]) -> (String, String) {
    let url = format!("{url}/sql");
    let mut args = vec!["-X", "POST", "--data-binary", sql, &url];
    for header in headers {
        args.extend(["-H", header]);
    }
    if !headers
        .iter()
        .any(|header| header.starts_with("Content-Type"))
    {
        args.extend(["-H", "Content-Type: application/sql"]);
    }
    curl(&args)
}

#[test]
fn a_server_answers_and_its_folder_can_be_read_beside_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, http) = (free_port(), free_port());
    let app = dir.path().join("shop.siddhi");
    fs::write(&app, SALES.replace("{port}", &port.to_string())).expect("written");
    let (app, store) = (
        app.display().to_string(),
        dir.path().join("data").display().to_string(),
    );
    let (address, url) = (
        format!("127.0.0.1:{http}"),
        format!("http://127.0.0.1:{http}"),
    );
    let args = [
        &*app,
        "--store",
        &store,
        "--http",
        &address,
        "--sql-max-rows",
        "100",
        "--state-interval",
        "50ms",
    ];
    let run = Running::connected(&args, 1);
    let sell = |item: &str, amount: f64| {
        let body = json!({ "item": item, "amount": amount }).to_string();
        assert_eq!(
            post_all(&format!("http://127.0.0.1:{port}/in"), [body]),
            [200]
        );
    };
    sell("tea", 2.5);
    sell("milk", 1.0);
    sell("tea", 4.0);
    // A row is seen once the checkpoint that holds it is committed.
    let count = || post(&url, "select count(*) from kept", &["Accept: text/csv"]).1;
    eventually("all rows are committed", || count() == "count(*)\n3\n");
    let statement = "select item, amount from latest order by item";
    let (status, body) = post(&url, statement, &[]);
    let json: Json = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (&*status, &json["records"]),
        ("200", &json!([["milk", 1.0], ["tea", 4.0]]))
    );
    for (accept, part) in [
        (
            "application/x-ndjson",
            "{\"item\":\"milk\",\"amount\":1.0}\n{",
        ),
        ("text/csv", "item,amount\nmilk,1.0\ntea,4.0\n"),
        ("application/vnd.apache.parquet", "PAR1"),
        ("application/vnd.apache.arrow.stream", "amount"),
    ] {
        let (status, body) = post(&url, statement, &[&format!("Accept: {accept}")]);
        assert_eq!(status, "200", "{body}");
        assert!(body.contains(part), "{accept}: {body}");
    }
    // The command asks the server, or reads its folder while it writes.
    let table = "item  amount\n----  ------\nmilk  1.0\ntea   4.0\n";
    assert_eq!(done(&headwater(&["sql", "--url", &url, statement])), table);
    assert_eq!(
        done(&headwater(&["sql", "--store", &store, statement])),
        table
    );
    // What is wrong is said as the command says it.
    let wrong = "select item\nfrom keptt";
    let (status, body) = post(&url, wrong, &[]);
    let json: Json = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&*status, &json["code"]), ("400", &json!(400)));
    assert_eq!(json["message"], "there is no table 'keptt'");
    assert_eq!(json["diagnostics"][0]["start"], 17);
    let said = failed(&headwater(&["sql", "--url", &url, wrong]), 1);
    assert!(
        said.contains(" --> statement:2:6") && said.contains("did you mean 'kept'?"),
        "{said}"
    );
    for (sql, headers, status, part) in [
        (
            "select * from generate_series(1, 101)",
            &[][..],
            "422",
            "more than 100 rows",
        ),
        ("drop table kept", &[], "400", "only statements that read"),
        ("select 1; select 2", &[], "400", "more than one statement"),
        ("select 1", &["Accept: text/html"], "406", "text/csv"),
        (
            "select 1",
            &["Content-Type: application/json"],
            "415",
            "application/sql",
        ),
        (
            "select 1",
            &["Content-Type: text/plain", "Origin: http://evil.example"],
            "403",
            "",
        ),
        ("select 1", &["Host: evil.example"], "403", ""),
        ("select 1", &["Content-Type: text/plain"], "200", "records"),
    ] {
        let (found, body) = post(&url, sql, headers);
        assert_eq!(found, status, "{sql} {headers:?}: {body}");
        assert!(body.contains(part), "{sql} {headers:?}: {body}");
    }
    assert_eq!(run.stop().0, Some(0));
    assert_eq!(
        done(&headwater(&["sql", "--store", &store, statement])),
        table
    );
}

#[test]
fn a_server_without_a_store_says_how_to_have_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = dir.path().join("app.siddhi");
    fs::write(
        &app,
        "define stream S (n int); from S select n insert into T;",
    )
    .expect("written");
    let address = format!("127.0.0.1:{}", free_port());
    let run = Running::start(&[&app.display().to_string(), "--http", &address]);
    run.err_has("HTTP server is listening", 1);
    let (status, body) = post(&format!("http://{address}"), "select 1", &[]);
    assert_eq!(status, "501", "{body}");
    assert!(body.contains("--store DIR"), "{body}");
    let said = failed(&headwater(&["sql", "--url", &address, "select 1"]), 1);
    assert!(said.contains("--store DIR"), "{said}");
    assert_eq!(run.stop().0, Some(0));
    failed(&headwater(&["sql", "--url", &address, "select 1"]), 3);
}
