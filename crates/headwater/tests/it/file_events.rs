//! The source `fileeventlistener` on a real folder.

use std::fs;

use crate::network::Running;

// row: source fileeventlistener | file system
// n/a slow: there is no other side
// n/a bad: it reads no payload
// n/a tls: it works on no network
// n/a login: it works on no network
// n/a error: `on.error` belongs to sinks

const APP: &str = "@app:name('Watch')
@source(type='fileeventlistener', dir.uri='file:{dir}/in', monitoring.interval='20'{more})
define stream Events (path string, name string, status string);
@sink(type='log', prefix='said', @map(type='text', @payload('<{{status}} {{name}} {{path}}>')))
define stream Said (path string, name string, status string);
from Events select * insert into Said;
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        fs::create_dir(folder.path("in")).expect("the folder can be written");
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn app(&self, more: &str) -> String {
        let text = APP
            .replace("{dir}", &self.0.path().display().to_string())
            .replace("{more}", more);
        let path = self.path("watch.siddhi");
        fs::write(&path, text).expect("the folder can be written");
        path
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder can be written");
    }

    fn said(&self, status: &str, name: &str) -> String {
        let base = name.rsplit('/').next().unwrap_or_default();
        format!("<{status} {base} {}>", self.path(name))
    }
}

// shows: source fileeventlistener open, order
#[test]
fn what_becomes_of_files_is_told() {
    let folder = Folder::new();
    folder.write("in/there", "1");
    let run = Running::connected(&[&folder.app("")], 1);
    run.out_has(&folder.said("created", "in/there"), 1);
    folder.write("in/new", "1");
    run.out_has(&folder.said("created", "in/new"), 1);
    folder.write("in/new", "1 and more");
    run.out_has(&folder.said("modifyingCompleted", "in/new"), 1);
    fs::create_dir(folder.path("in/sub")).expect("a folder");
    folder.write("in/sub/deep", "1");
    run.out_has(&folder.said("created", "in/sub/deep"), 1);
    fs::remove_dir_all(folder.path("in/sub")).expect("it is there");
    for name in ["in/sub/deep", "in/sub"] {
        run.out_has(&folder.said("removed", name), 1);
    }
    // One that goes on changing says so.
    let mut length = 0;
    crate::network::eventually("a change that goes on", || {
        length += 1;
        folder.write("in/there", &"x".repeat(length));
        run.out().contains(&folder.said("modifying", "in/there"))
    });
    run.out_has(&folder.said("modifyingCompleted", "in/there"), 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

// shows: source fileeventlistener resume, reload
#[test]
fn what_happened_while_the_app_was_down_is_told_as_well() {
    let folder = Folder::new();
    for name in ["in/a", "in/b", "in/c"] {
        folder.write(name, "1");
    }
    let state = folder.path("state");
    let app = folder.app(", file.name.list='a, b, later'");
    let args = [app.as_str(), "--state", &state];
    let run = Running::connected(&args, 1);
    run.out_has("<created", 2);
    assert!(!run.out().contains("/in/c>"), "{}", run.out());
    run.stop();
    fs::remove_file(folder.path("in/a")).expect("it is there");
    folder.write("in/b", "1 and more");
    folder.write("in/later", "1");
    let run = Running::connected(&args, 1);
    for (status, name) in [
        ("removed", "in/a"),
        ("created", "in/later"),
        ("modifyingCompleted", "in/b"),
    ] {
        run.out_has(&folder.said(status, name), 1);
    }
    run.reload();
    folder.write("in/b", "again");
    run.out_has(&folder.said("modifyingCompleted", "in/b"), 2);
    assert_eq!(run.out().matches("<created").count(), 1, "{}", run.out());
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}

// shows: source fileeventlistener lost
#[test]
fn a_directory_that_is_not_there_is_waited_for() {
    let folder = Folder::new();
    let app = folder.app("");
    fs::remove_dir(folder.path("in")).expect("it is there");
    let run = Running::start(&[&app]);
    run.err_has("No such file", 1);
    fs::create_dir(folder.path("in")).expect("a folder");
    run.err_has("source is ready", 1);
    folder.write("in/new", "1");
    run.out_has(&folder.said("created", "in/new"), 1);
    fs::remove_dir_all(folder.path("in")).expect("it is there");
    run.err_has("No such file", 2);
    run.stop();
}
