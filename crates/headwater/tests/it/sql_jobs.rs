//! Statements that a server answers in the background: over HTTP, and by the command.

use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use crate::network::{Running, curl, eventually, free_port};
use crate::sql::{Place, done, failed, headwater};

/// A server over the readings of the example.
struct Served {
    place: Place,
    url: String,
    run: Running,
}

impl Served {
    fn new(more: &[&str]) -> Served {
        let place = Place::new();
        let address = format!("127.0.0.1:{}", free_port());
        let store = place.path("data");
        let args = [&["--store", &*store, "--http", &address][..], more].concat();
        let run = Running::start(&args);
        run.err_has("HTTP server is listening", 1);
        Served {
            place,
            url: format!("http://{address}"),
            run,
        }
    }

    fn begin(&self, query: &str, sql: &str, accept: &str) -> Json {
        let url = format!("{}/sql?async=true{query}", self.url);
        let accept = format!("Accept: {accept}");
        let kind = "Content-Type: application/sql";
        let (status, body) = curl(&["-d", sql, "-H", kind, "-H", &accept, &url]);
        assert_eq!(status, "202", "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn get(&self, path: &str) -> (String, String) {
        curl(&[&format!("{}{path}", self.url)])
    }

    /// A job when it has ended.
    fn ended(&self, job: &Json) -> Json {
        let id = job["id"].as_str().expect("a name");
        loop {
            let (status, body) = self.get(&format!("/sql/jobs/{id}?wait=20"));
            assert_eq!(status, "200", "{body}");
            let job: Json = serde_json::from_str(&body).expect("JSON");
            if !["waiting", "running"].contains(&job["state"].as_str().expect("a state")) {
                return job;
            }
        }
    }
}

/// It takes as long as it may.
const ENDLESS: &str = "select count(*) from generate_series(1, 100000000) a, generate_series(1, 100000000) b where a.value = b.value + 1";

#[test]
fn a_job_is_begun_looked_at_read_page_by_page_and_forgotten() {
    let served = Served::new(&[]);
    let job = served.begin(
        "&pageRows=500",
        "select house_id from smart_home",
        "text/csv",
    );
    let ended = served.ended(&job);
    assert_eq!(ended["state"], "done", "{ended}");
    assert_eq!(
        [&ended["rows"], &ended["pages"], &ended["progress"]],
        [&json!(1200), &json!(3), &json!(1.0)]
    );
    assert_eq!(
        (&ended["rowsRead"], &ended["rowsToRead"]),
        (&json!(1200), &json!(1200))
    );
    let id = ended["id"].as_str().expect("a name");
    let mut rows = 0;
    for page in 0..3 {
        let (status, body) = served.get(&format!("/sql/jobs/{id}/result?page={page}"));
        assert_eq!(status, "200");
        assert!(body.starts_with("house_id\n"), "{body}");
        rows += body.lines().count() - 1;
    }
    assert_eq!(rows, 1200);
    let (status, body) = served.get(&format!("/sql/jobs/{id}/result?page=3"));
    assert_eq!(status, "404");
    assert!(body.contains("the result has 3"), "{body}");
    let head = format!("{}/sql/jobs/{id}/result?page=1", served.url);
    let (_, answer) = curl(&["-i", &head]);
    assert!(
        answer.contains(&format!("</sql/jobs/{id}/result?page=2>; rel=\"next\"")),
        "{answer}"
    );
    let (_, list) = served.get("/sql/jobs");
    let list: Json = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["jobs"].as_array().map(Vec::len), Some(1));
    let path = format!("{}/sql/jobs/{id}", served.url);
    assert_eq!(curl(&["-X", "DELETE", &path]).0, "200");
    let (status, body) = curl(&[&path]);
    assert_eq!(status, "404");
    assert!(body.contains("none outlives the server"), "{body}");
    let (status, body) = curl(&[
        "-d",
        "select 1",
        "-H",
        "Content-Type: application/sql",
        &format!("{}/sql?pageRows=5", served.url),
    ]);
    assert_eq!(status, "400", "{body}");
    assert_eq!(served.run.stop().0, Some(0));
}

#[test]
fn a_job_that_fails_or_is_cancelled_says_so() {
    let served = Served::new(&["--sql-jobs-size", "1000"]);
    let failing = served.begin("", "select\nnothing from smart_home", "text/csv");
    let failing = served.ended(&failing);
    assert_eq!(
        (
            &failing["state"],
            &failing["error"]["diagnostics"][0]["start"]
        ),
        (&json!("failed"), &json!(7))
    );
    let id = failing["id"].as_str().expect("a name");
    let (status, body) = served.get(&format!("/sql/jobs/{id}/result"));
    assert_eq!(status, "400");
    assert!(body.contains("there is no column 'nothing'"), "{body}");
    let large = served.begin("", "select * from smart_home", "text/csv");
    let large = served.ended(&large);
    let said = large["error"]["message"].as_str().expect("a reason");
    assert!(
        said.contains("1000 bytes") && said.contains("--sql-jobs-size"),
        "{said}"
    );
    let endless = served.begin("", ENDLESS, "text/csv");
    let id = endless["id"].as_str().expect("a name");
    let path = format!("/sql/jobs/{id}");
    eventually("it runs", || served.get(&path).1.contains("\"running\""));
    assert_eq!(served.get(&format!("{path}/result")).0, "409");
    assert_eq!(
        curl(&["-X", "DELETE", &format!("{}{path}", served.url)]).0,
        "200"
    );
    assert_eq!(served.ended(&endless)["state"], "cancelled");
    assert_eq!(served.get(&format!("{path}/result")).0, "410");
    // A stop waits for no job.
    served.begin("", ENDLESS, "text/csv");
    assert_eq!(served.run.stop().0, Some(0));
}

#[test]
fn the_command_begins_lists_reads_and_cancels_jobs() {
    let served = Served::new(&[]);
    let sql = |args: &[&str]| headwater(&[&["sql", "--url", &served.url], args].concat());
    let count = "select count(*) as n from smart_home";
    let id = done(&sql(&["--background", count]));
    assert_eq!(done(&sql(&["--result", id.trim()])), "n\n----\n1200\n");
    let id = done(&sql(&["--background", count, "--format", "csv"]));
    assert_eq!(done(&sql(&["--result", id.trim()])), "n\n1200\n");
    let endless = done(&sql(&["--background", ENDLESS]));
    let list = done(&sql(&["--jobs"]));
    assert_eq!(list.lines().count(), 4, "{list}");
    assert!(list.contains("100 %") && list.contains(count), "{list}");
    assert_eq!(done(&sql(&["--cancel", endless.trim()])), "it ends\n");
    let said = failed(&sql(&["--result", endless.trim()]), 1);
    assert!(said.contains("was cancelled"), "{said}");
    let said = failed(&sql(&["--background", "select 1; select 2"]), 2);
    assert!(said.contains("one statement"), "{said}");
    let said = failed(&sql(&["--result", "none"]), 1);
    assert!(said.contains("no job 'none'"), "{said}");
    let store = served.place.path("data");
    failed(&headwater(&["sql", "--store", &store, "--jobs"]), 2);
    assert_eq!(served.run.stop().0, Some(0));
}

#[test]
fn a_statement_whose_client_goes_away_gives_its_turn_back() {
    let served = Served::new(&["--sql-timeout", "10min"]);
    let url = format!("{}/sql", served.url);
    // As many as are answered at a time.
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut command = Command::new("curl");
            command.args([
                "-s",
                "-d",
                ENDLESS,
                "-H",
                "Content-Type: application/sql",
                &url,
            ]);
            command
                .stdout(Stdio::null())
                .spawn()
                .expect("curl is installed")
        })
        .collect();
    let one = |time: &str| {
        let args = [
            "-d",
            "select 1",
            "-H",
            "Content-Type: application/sql",
            "--max-time",
            time,
            &url,
        ];
        curl(&args).0
    };
    eventually("all turns are taken", || one("0.3") == "000");
    for mut client in clients {
        client.kill().expect("it runs");
        client.wait().expect("it ends");
    }
    assert_eq!(one("60"), "200");
    assert_eq!(served.run.stop().0, Some(0));
}
