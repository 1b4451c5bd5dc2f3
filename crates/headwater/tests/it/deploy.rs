//! Apps deployed to a running server: Streaming Integrator's REST, and `headwater deploy`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::network::{Running, curl, eventually, free_port, piped, text};

/// Counts what is sent to it; the table is what is to survive.
fn counts(name: &str, window: usize) -> String {
    format!(
        "@app:name('{name}')
define stream S (n int);
define table Seen (total long);
from S#window.length({window}) select sum(n) as total update or insert into Seen set Seen.total = total on true;
"
    )
}

const BAD: &str = "@app:name('Bad')\ndefine stream S (n int);\nfrom S select m insert into Out;\n";

struct Server {
    run: Running,
    url: String,
}

impl Server {
    fn start(apps: Option<&Path>, dir: &Path) -> Server {
        let http = format!("127.0.0.1:{}", free_port());
        let state = dir.join("state").display().to_string();
        let mut args = vec![
            "--http",
            &http,
            "--state",
            &state,
            "--state-interval",
            "200ms",
        ];
        let apps = apps.map(|apps| apps.display().to_string());
        args.extend(apps.as_deref());
        let run = Running::start(&args);
        let url = format!("http://{http}");
        eventually("readiness", || curl(&[&format!("{url}/ready")]).0 == "200");
        Server { run, url }
    }

    #[track_caller]
    fn ask(&self, args: &[&str], path: &str) -> (String, Json) {
        let (status, body) = curl(&[args, &[&format!("{}{path}", self.url)]].concat());
        let json = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status} {body}"));
        (status, json)
    }

    #[track_caller]
    fn deploy(&self, method: &str, app: &str, query: &str) -> (String, Json) {
        let kind = "Content-Type: text/plain";
        let args = ["-X", method, "-H", kind, "--data-raw", app];
        self.ask(&args, &format!("/siddhi-apps{query}"))
    }

    fn names(&self) -> Json {
        self.ask(&[], "/siddhi-apps").1
    }

    /// Exit code, standard output and standard error of a command.
    fn command(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        let output = piped(command.args(args).args(["--server", &self.url]), b"");
        let code = output.status.code();
        (code, text(&output.stdout), text(&output.stderr))
    }

    #[track_caller]
    fn send(&self, app: &str, n: i32) {
        let (code, _, err) = self.command(&["send", &format!("{app}/S"), &n.to_string()]);
        assert_eq!(code, Some(0), "{err}");
    }

    #[track_caller]
    fn total(&self, app: &str) -> Json {
        let body = json!({ "appName": app, "query": "from Seen select total" }).to_string();
        let args = ["-H", "Content-Type: application/json", "-d", &body];
        let (status, json) = self.ask(&args, "/stores/query");
        assert_eq!(status, "200", "{json}");
        json["records"][0][0].clone()
    }
}

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a folder");
    let name = |path: PathBuf| path.file_name().expect("a name").display().to_string();
    let mut names: Vec<String> = entries.map(|e| name(e.expect("an entry").path())).collect();
    names.sort();
    names
}

#[test]
fn apps_are_deployed_by_the_requests_of_streaming_integrator() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(None, dir.path());
    assert_eq!(server.names(), json!([]));
    let (status, json) = server.deploy("POST", &counts("A", 5), "");
    assert_eq!(
        (status.as_str(), &json["type"]),
        ("201", &json!("success")),
        "{json}"
    );
    assert_eq!(json["added"], json!(["A"]), "{json}");
    let (status, json) = server.deploy("POST", &counts("A", 5), "");
    assert_eq!(
        (status.as_str(), &json["type"]),
        ("409", &json!("conflict")),
        "{json}"
    );
    let (status, json) = server.deploy("PUT", &counts("A", 5), "");
    assert_eq!(
        (status.as_str(), &json["changed"]),
        ("200", &json!([])),
        "{json}"
    );
    let (status, json) = server.deploy("PUT", &counts("B", 5), "");
    assert_eq!(
        (status.as_str(), &json["added"]),
        ("201", &json!(["B"])),
        "{json}"
    );
    assert_eq!(server.names(), json!(["A", "B"]));
    assert_eq!(
        server.ask(&[], "/siddhi-apps?isActive=true").1,
        json!(["A", "B"])
    );
    assert_eq!(
        server.ask(&[], "/siddhi-apps/A").1["content"],
        json!(counts("A", 5))
    );
    assert_eq!(
        server.ask(&[], "/siddhi-apps/A/status").1,
        json!({ "status": "active" })
    );
    assert_eq!(server.ask(&[], "/health").1, json!({ "status": "healthy" }));
    for (method, path) in [
        ("GET", "/siddhi-apps/X"),
        ("GET", "/siddhi-apps/X/status"),
        ("DELETE", "/siddhi-apps/X"),
    ] {
        let (status, json) = server.ask(&["-X", method], path);
        assert_eq!(status, "404", "{json}");
        assert!(json["message"].to_string().contains("no app 'X'"), "{json}");
    }
    let (status, json) = server.ask(&["-X", "DELETE"], "/siddhi-apps/A");
    assert_eq!(
        (status.as_str(), &json["removed"]),
        ("200", &json!(["A"])),
        "{json}"
    );
    assert_eq!(server.names(), json!(["B"]));
    assert_eq!(files(&dir.path().join("state/deployed")), ["B.siddhi"]);
    // They are there again after a restart, and after a crash.
    assert_eq!(server.run.stop().0, Some(0));
    let server = Server::start(None, dir.path());
    assert_eq!(server.names(), json!(["B"]));
    server.deploy("PUT", &counts("C", 5), "");
    server.run.kill();
    let server = Server::start(None, dir.path());
    assert_eq!(server.names(), json!(["B", "C"]));
    assert_eq!(server.run.stop().0, Some(0));
}

#[test]
fn an_app_with_errors_is_shown_its_place_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(None, dir.path());
    let (status, json) = server.deploy("POST", BAD, "");
    assert_eq!(status, "400", "{json}");
    let found = &json["diagnostics"][0];
    assert_eq!(
        (&found["code"], &found["line"], &found["column"]),
        (&json!("E0203"), &json!(3), &json!(15))
    );
    assert!(
        json["rendered"].to_string().contains("no such attribute"),
        "{json}"
    );
    let (status, json) = server.deploy("POST", "define stream S (n int);", "");
    assert!(
        status == "400" && json["message"].to_string().contains("@app:name"),
        "{json}"
    );
    // Two apps, one of them bad: neither runs.
    let both = json!([{ "content": counts("A", 5) }, { "content": BAD }]).to_string();
    let args = [
        "-X",
        "PUT",
        "-H",
        "Content-Type: application/json",
        "-d",
        &both,
    ];
    assert_eq!(server.ask(&args, "/siddhi-apps").0, "400");
    assert_eq!(server.names(), json!([]));
    let (status, json) = server.deploy("PUT", &counts("A", 5), "?dry-run=true");
    assert_eq!(
        (status.as_str(), &json["added"]),
        ("200", &json!(["A"])),
        "{json}"
    );
    assert_eq!(server.names(), json!([]));
    // A page of another site cannot send a text without asking first.
    for header in ["Origin: http://localhost", "Sec-Fetch-Site: none"] {
        let args = [
            "-X",
            "POST",
            "-H",
            "Content-Type: text/plain",
            "-H",
            header,
            "-d",
            "x",
        ];
        let (status, json) = server.ask(&args, "/siddhi-apps");
        assert!(
            status == "415" || status == "403",
            "{header}: {status} {json}"
        );
    }
    assert_eq!(server.run.stop().0, Some(0));
}

#[test]
fn an_app_that_cannot_start_leaves_those_before_running() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(None, dir.path());
    server.deploy("POST", &counts("A", 5), "");
    server.send("A", 3);
    let away = "@app:name('Away')
define stream S (n int);
@store(type='rdbms', jdbc.url='jdbc:postgresql://127.0.0.1:1/x', username='u', password='p')
define table T (n int);
from S insert into T;
";
    let (status, json) = server.deploy("POST", away, "");
    assert_eq!(status, "500", "{json}");
    assert!(
        json["message"].to_string().contains("cannot connect"),
        "{json}"
    );
    assert_eq!(server.names(), json!(["A"]));
    assert_eq!(server.total("A"), json!(3));
    assert_eq!(files(&dir.path().join("state/deployed")), ["A.siddhi"]);
    assert_eq!(server.run.stop().0, Some(0));
}

#[test]
fn an_edit_that_loses_state_is_refused_unless_it_may_and_others_keep_theirs() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(None, dir.path());
    server.deploy("PUT", &counts("A", 5), "");
    server.deploy("PUT", &counts("B", 5), "");
    server.send("A", 1);
    server.send("B", 7);
    let (status, json) = server.deploy("PUT", &counts("A", 6), "");
    assert_eq!(
        (status.as_str(), &json["type"]),
        ("409", &json!("conflict")),
        "{json}"
    );
    assert!(
        json["message"].to_string().contains("--drop-state"),
        "{json}"
    );
    server.send("A", 1);
    assert_eq!(server.total("A"), json!(2));
    let (status, json) = server.deploy("PUT", &counts("A", 6), "?drop-state=true");
    assert_eq!(
        (status.as_str(), &json["changed"]),
        ("200", &json!(["A"])),
        "{json}"
    );
    assert_eq!(json["untouched"], json!(["B"]), "{json}");
    server.send("A", 4);
    server.send("B", 1);
    assert_eq!((server.total("A"), server.total("B")), (json!(4), json!(8)));
    assert_eq!(server.run.stop().0, Some(0));
    // What was dropped does not come back.
    let server = Server::start(None, dir.path());
    server.send("A", 1);
    assert_eq!((server.total("A"), server.total("B")), (json!(5), json!(8)));
    assert_eq!(server.run.stop().0, Some(0));
}

#[test]
fn a_folder_of_apps_is_the_folder_of_deployed_apps() {
    let dir = tempfile::tempdir().expect("a folder");
    let apps = dir.path().join("apps");
    fs::create_dir(&apps).expect("it can be made");
    fs::write(apps.join("first.siddhi"), counts("A", 5)).expect("it can be written");
    let server = Server::start(Some(&apps), dir.path());
    let (status, json) = server.deploy(
        "PUT",
        &counts("A", 5).replace("total", "sum"),
        "?drop-state=true",
    );
    assert_eq!(status, "200", "{json}");
    assert_eq!(files(&apps), ["first.siddhi"]);
    let text = fs::read_to_string(apps.join("first.siddhi")).expect("it is there");
    assert!(text.contains("sum long"), "{text}");
    // A reload finds what was deployed, and nothing to do.
    server.run.reload();
    server.run.err_has("apps reloaded: nothing has changed", 1);
    assert_eq!(server.run.stop().0, Some(0));
    // An app of a file that the command line names is not changed from outside.
    let server = Server::start(Some(&apps.join("first.siddhi")), dir.path());
    let (status, json) = server.ask(&["-X", "DELETE"], "/siddhi-apps/A");
    assert!(
        status == "409" && json["message"].to_string().contains("SIGHUP"),
        "{json}"
    );
    assert_eq!(server.run.stop().0, Some(0));
}

#[test]
fn the_commands_deploy_list_and_undeploy() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(None, dir.path());
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    };
    let (a, b, bad) = (
        file("a.siddhi", &counts("A", 5)),
        file("b.siddhi", &counts("B", 5)),
        file("bad.siddhi", BAD),
    );
    let (code, out, err) = server.command(&["deploy", &a, &bad]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(
        err.contains("E0203") && err.contains("app 'Bad' has errors"),
        "{err}"
    );
    let (code, out, _) = server.command(&["deploy", &a, &b, "--dry-run"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("added       A, B"), "{out}");
    let (code, out, err) = server.command(&["deploy", &a, &b]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("Siddhi App A, B are deployed\n"), "{out}");
    server.send("A", 3);
    let (code, out, _) = server.command(&["apps"]);
    assert_eq!(code, Some(0));
    assert!(
        out.lines().count() == 3 && out.contains("A     active"),
        "{out}"
    );
    let (code, out, _) = server.command(&["apps", "A"]);
    assert!(
        code == Some(0) && out.contains("table   Seen: 1 inserted"),
        "{out}"
    );
    let (code, out, _) = server.command(&["apps", "--json"]);
    let json: Json = serde_json::from_str(&out).expect("one document");
    assert_eq!((code, &json["apps"][1]["name"]), (Some(0), &json!("B")));
    let (code, _, err) = server.command(&["undeploy", "A", "X"]);
    assert!(code == Some(1) && err.contains("no app 'X'"), "{err}");
    assert_eq!(server.names(), json!(["B"]));
    assert_eq!(server.run.stop().0, Some(0));
}

/// A kill at any moment of a deployment leaves the old or the new apps, whole.
#[test]
fn a_kill_during_a_deployment_leaves_the_old_or_the_new_apps() {
    let dir = tempfile::tempdir().expect("a folder");
    let list = |first: &str, second: &str| {
        json!([{ "content": counts(first, 5) }, { "content": counts(second, 5) }]).to_string()
    };
    let mut before = json!([]);
    for round in 0..6_u64 {
        let server = Server::start(None, dir.path());
        let names = server.names();
        let new = [format!("A{round}"), format!("B{round}")];
        let url = format!("{}/siddhi-apps", server.url);
        let body = list(&new[0], &new[1]);
        let asked = std::thread::spawn(move || {
            curl(&[
                "-X",
                "PUT",
                "-H",
                "Content-Type: application/json",
                "-d",
                &body,
                &url,
            ])
        });
        // Moments from before the request arrives to after its answer.
        let pid = server.run.pid();
        let micros = (round * 20_000).to_string();
        let killer = format!("sleep $(echo {micros} | awk '{{print $1/1e6}}'); kill -9 {pid}");
        Command::new("sh")
            .args(["-c", &killer])
            .status()
            .expect("sh runs");
        let (status, _) = asked.join().expect("no panic");
        drop(server);
        let server = Server::start(None, dir.path());
        let now = server.names();
        let has = |name: &String| now.as_array().expect("a list").contains(&json!(name));
        assert_eq!(has(&new[0]), has(&new[1]), "{status}: {now}");
        assert!(
            status != "201" || has(&new[0]),
            "what was answered is there: {now}"
        );
        assert_eq!(names, before, "nothing of before is lost");
        before = now;
        server.run.kill();
    }
}
