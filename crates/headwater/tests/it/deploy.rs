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
    assert_eq!(
        files(&dir.path().join("state/deployed")),
        [".headwater.lock", "B.siddhi"]
    );
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
    assert_eq!(
        files(&dir.path().join("state/deployed")),
        [".headwater.lock", "A.siddhi"]
    );
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
    let own = [".drop-state", ".headwater.lock", "first.siddhi"];
    assert_eq!(files(&apps), own);
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
    // As check says it: the file as it was named here, and in colour if that is wanted.
    assert!(err.contains(&format!("{bad}:3:15")), "{err}");
    let (_, _, err) = server.command(&["deploy", &bad, "--color", "always"]);
    assert!(err.contains("\u{1b}["), "{err}");
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
    assert_eq!(server.names(), json!(["A", "B"]), "all or none");
    let (code, out, _) = server.command(&["undeploy", "A", "B", "--dry-run"]);
    assert!(code == Some(0) && out.contains("removed     A, B"), "{out}");
    assert_eq!(server.names(), json!(["A", "B"]));
    let (code, out, err) = server.command(&["undeploy", "A", "B"]);
    assert!(
        code == Some(0) && out.contains("removed     A, B"),
        "{out}{err}"
    );
    assert_eq!(server.names(), json!([]));
    assert_eq!(server.run.stop().0, Some(0));
}

/// A kill at any moment of a deployment leaves the old or the new apps, whole.
#[test]
fn a_kill_during_a_deployment_leaves_the_old_or_the_new_apps() {
    let dir = tempfile::tempdir().expect("a folder");
    let deployed = dir.path().join("state/deployed");
    let there = |name: String| {
        let path = deployed.join(name);
        move || path.exists()
    };
    let server = Server::start(None, dir.path());
    let (status, json) = server.deploy("PUT", &counts("Old", 5), "");
    assert_eq!(status, "201", "{json}");
    server.run.kill();
    for round in 0..6 {
        let server = Server::start(None, dir.path());
        let before = server.names();
        let new = [format!("A{round}"), format!("B{round}")];
        let url = format!("{}/siddhi-apps", server.url);
        let body = json!([{ "content": counts(&new[0], 5) }, { "content": counts(&new[1], 5) }]);
        let asked = std::thread::spawn(move || {
            let kind = "Content-Type: application/json";
            curl(&["-X", "PUT", "-H", kind, "-d", &body.to_string(), &url])
        });
        // From the first trace on the disk to the last word in the log.
        let is_moment: Box<dyn Fn() -> bool> = match round {
            0 => Box::new(there(".commit.json".to_owned())),
            1 => Box::new(|| server.run.err().contains("deploying apps")),
            2 => Box::new(|| server.run.err().matches("starting app").count() > 1),
            3 => Box::new(there(format!("{}.siddhi", new[0]))),
            4 => Box::new(there(format!("{}.siddhi", new[1]))),
            _ => Box::new(|| server.run.err().contains("apps deployed")),
        };
        let is_over = || asked.is_finished();
        while !is_moment() && !is_over() {
            std::thread::yield_now();
        }
        drop(is_moment);
        server.run.kill();
        let (status, _) = asked.join().expect("no panic");
        let server = Server::start(None, dir.path());
        let now = server.names();
        let has = |name: &Json| now.as_array().expect("a list").contains(name);
        let [first, second] = new.map(|name| json!(name));
        assert_eq!(has(&first), has(&second), "{round}, {status}: {now}");
        assert!(
            status != "201" || has(&first),
            "what was answered is there: {now}"
        );
        assert!(before.as_array().expect("a list").iter().all(has), "{now}");
        let left = files(&deployed);
        assert!(!left.contains(&".commit.json".to_owned()), "{left:?}");
        server.run.kill();
    }
}

/// Listens on a port over HTTP, and counts.
fn listens(name: &str, port: u16, window: usize) -> String {
    let source = format!(
        "@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream S"
    );
    counts(name, window).replace("define stream S", &source)
}

#[track_caller]
fn post(port: u16, n: i32) {
    let body = format!("{{\"event\":{{\"n\":{n}}}}}");
    let kind = "Content-Type: application/json";
    let url = format!("http://127.0.0.1:{port}/in");
    let (status, said) = curl(&["-H", kind, "-d", &body, &url]);
    assert_eq!(status, "200", "{said}");
}

#[test]
fn a_port_in_use_fails_the_deployment_and_the_app_before_goes_on_with_its_state() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(None, dir.path());
    let port = free_port();
    let (status, json) = server.deploy("POST", &listens("A", port, 5), "");
    assert_eq!(status, "201", "{json}");
    post(port, 3);
    eventually("the first event", || server.total("A") == json!(3));
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = other.local_addr().expect("it has one").port();
    // The edit also drops what is saved; had it been kept, that would be lost.
    let file = dir.path().join("edit.siddhi");
    fs::write(&file, listens("A", taken, 6)).expect("it can be written");
    let file = file.display().to_string();
    let (code, out, err) = server.command(&["deploy", &file, "--drop-state"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    for part in [
        &format!("source 'A/S[1]' at {file}:2:1: cannot listen on 127.0.0.1:{taken}"),
        "the apps before run on",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    post(port, 4);
    eventually("the second event", || server.total("A") == json!(7));
    assert_eq!(
        server.ask(&[], "/siddhi-apps/A").1["content"],
        json!(listens("A", port, 5))
    );
    assert_eq!(server.run.stop().0, Some(0));
    let server = Server::start(None, dir.path());
    assert_eq!(server.total("A"), json!(7));
    assert_eq!(server.run.stop().0, Some(0));
}

#[test]
fn the_status_says_how_an_app_really_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = other.local_addr().expect("it has one").port();
    let apps = dir.path().join("apps");
    fs::create_dir(&apps).expect("it can be made");
    fs::write(apps.join("a.siddhi"), listens("A", taken, 5)).expect("it can be written");
    fs::write(apps.join("b.siddhi"), counts("B", 5)).expect("it can be written");
    let http = format!("127.0.0.1:{}", free_port());
    let run = Running::start(&[&apps.display().to_string(), "--http", &http]);
    run.err_has("HTTP server is listening", 1);
    run.err_has("cannot connect source", 1);
    let server = Server {
        run,
        url: format!("http://{http}"),
    };
    let (status, json) = server.ask(&[], "/siddhi-apps/A/status");
    assert_eq!(
        (status.as_str(), &json["status"]),
        ("200", &json!("starting"))
    );
    let reason = json["reason"].as_str().expect("a reason");
    assert!(reason.contains("cannot listen on"), "{reason}");
    let active = |wanted| {
        server
            .ask(&[], &format!("/siddhi-apps?isActive={wanted}"))
            .1
    };
    assert_eq!((active(true), active(false)), (json!(["B"]), json!(["A"])));
    let (_, out, _) = server.command(&["apps", "A"]);
    assert!(
        out.starts_with("A: starting") && out.contains("cannot listen"),
        "{out}"
    );
    drop(other);
    eventually("the port is free", || active(true) == json!(["A", "B"]));
    let (status, json) = server.ask(&[], "/siddhi-apps?isActive=true&isActive=false");
    assert!(
        status == "400"
            && json["message"]
                .to_string()
                .contains("'isActive' is given twice"),
        "{json}"
    );
    assert_eq!(server.run.stop().0, Some(0));
}

#[test]
fn what_may_be_dropped_is_durable_with_the_deployment() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(None, dir.path());
    server.deploy("PUT", &counts("A", 5), "");
    server.send("A", 1);
    server.run.stop();
    let saved = dir.path().join("before");
    let copy = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-a").args([from, to]).status();
        assert!(copied.expect("cp runs").success());
    };
    copy(&dir.path().join("state"), &saved);
    let server = Server::start(None, dir.path());
    let (status, json) = server.deploy("PUT", &counts("A", 6), "?drop-state=true");
    assert_eq!(status, "200", "{json}");
    server.run.kill();
    // The disk as a kill leaves it before the first checkpoint of the new text.
    let deployed = dir.path().join("state/deployed");
    let kept = dir.path().join("kept");
    fs::rename(&deployed, &kept).expect("one file system");
    fs::remove_dir_all(dir.path().join("state")).expect("it is there");
    fs::remove_dir_all(saved.join("deployed")).expect("it is there");
    fs::rename(&saved, dir.path().join("state")).expect("one file system");
    fs::rename(&kept, &deployed).expect("one file system");
    let server = Server::start(None, dir.path());
    server.send("A", 4);
    assert_eq!(server.run.stop().0, Some(0));
    // Another text was not allowed to.
    fs::write(deployed.join("A.siddhi"), counts("A", 7)).expect("it can be written");
    let state = dir.path().join("state").display().to_string();
    let run = Running::start(&["--http", "127.0.0.1:0", "--state", &state]);
    run.err_has("would lose state", 1);
}

#[test]
fn what_somebody_else_has_written_is_neither_lost_nor_run_beside() {
    let dir = tempfile::tempdir().expect("a folder");
    let apps = dir.path().join("apps");
    fs::create_dir(&apps).expect("it can be made");
    let first = apps.join("first.siddhi");
    fs::write(&first, counts("A", 5)).expect("it can be written");
    let server = Server::start(Some(&apps), dir.path());
    let edited = counts("A", 5) + "-- edited\n";
    fs::write(&first, &edited).expect("it can be written");
    fs::write(apps.join("other.siddhi"), counts("B", 5)).expect("it can be written");
    for (method, app, path) in [
        ("PUT", counts("A", 5) + "-- mine\n", "/siddhi-apps"),
        ("POST", counts("B", 6), "/siddhi-apps"),
        ("DELETE", String::new(), "/siddhi-apps/A"),
    ] {
        let kind = "Content-Type: text/plain";
        let args = ["-X", method, "-H", kind, "--data-raw", &app];
        let (status, json) = server.ask(&args, path);
        assert!(
            status == "409" && json["message"].to_string().contains("SIGHUP"),
            "{method}: {status} {json}"
        );
    }
    assert_eq!(fs::read_to_string(&first).expect("it is there"), edited);
    server.run.reload();
    server.run.err_has("apps reloaded", 1);
    assert_eq!(server.names(), json!(["A", "B"]));
    let mine = counts("A", 5) + "-- mine\n";
    assert_eq!(server.deploy("PUT", &mine, "").0, "200");
    assert_eq!(fs::read_to_string(&first).expect("it is there"), mine);
    let names: Vec<String> = files(&apps);
    assert_eq!(names, [".headwater.lock", "first.siddhi", "other.siddhi"]);
    assert_eq!(server.run.stop().0, Some(0));
}
