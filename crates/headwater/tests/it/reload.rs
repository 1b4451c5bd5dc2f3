//! Apps are read again while the server runs (SIGHUP, `--watch`): nothing is lost and nothing comes
//! twice, what did not change does not notice, and what cannot run changes nothing.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::network::{Running, curl, eventually, free_port, number, post_all};

/// Reads a growing file, and says for every line how many there were.
const COUNTS: &str = "@app:name('Counts')
@source(type='file', mode='line', file.uri='file:{dir}/in.txt', tailing='true', @map(type='text', fail.on.missing.attribute='false', regex.A='(.+)', @attributes(line='A')))
define stream Lines (line string);
@sink(type='log', prefix='{prefix}') define stream Out (line string, n long);
from Lines select line, count() as n insert into Out;
";

/// Says every third of what is posted.
const THIRDS: &str = "@app:name('Thirds')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n int);
@sink(type='log', prefix='third') define stream Third (total long);
from In#window.lengthBatch(3) select sum(n) as total insert into Third;
";

struct Place {
    dir: tempfile::TempDir,
    port: u16,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            dir: tempfile::tempdir().expect("a folder"),
            port: free_port(),
        };
        fs::create_dir(place.apps()).expect("a folder");
        place.append("");
        place
    }

    fn apps(&self) -> PathBuf {
        self.dir.path().join("apps")
    }

    fn write(&self, name: &str, text: &str) {
        let text = text
            .replace("{dir}", &self.dir.path().display().to_string())
            .replace("{port}", &self.port.to_string());
        // Put in place whole, as a deployment does.
        let draft = self.dir.path().join("draft");
        fs::write(&draft, text).expect("the folder can be written");
        fs::rename(&draft, self.apps().join(name)).expect("one file system");
    }

    fn counts(&self, prefix: &str) {
        self.write("counts.siddhi", &COUNTS.replace("{prefix}", prefix));
    }

    fn append(&self, lines: &str) {
        let mut file = fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("in.txt"))
            .expect("the folder can be written");
        file.write_all(lines.as_bytes()).expect("there is room");
    }

    fn post(&self, n: u32) {
        let url = format!("http://127.0.0.1:{}/in", self.port);
        assert_eq!(post_all(&url, [format!(r#"{{"n":{n}}}"#)]), [200]);
    }

    fn start(&self, more: &[&str]) -> Running {
        let apps = self.apps().display().to_string();
        let args: Vec<&str> = std::iter::once(apps.as_str())
            .chain(more.iter().copied())
            .collect();
        Running::start(&args)
    }
}

fn counted(running: &Running, prefix: &str, line: &str, n: u32) {
    running.out_has(&format!("{prefix} : "), 1);
    running.out_has(&format!("data=[{line}, {n}]"), 1);
}

fn goes_on(more: &[&str]) {
    let place = Place::new();
    place.counts("first");
    place.write("thirds.siddhi", THIRDS);
    let running = place.start(more);
    running.err_has("source is ready", 2);
    place.post(1);
    place.append("a\nb\n");
    counted(&running, "first", "b", 2);

    place.counts("second");
    place.write(
        "new.siddhi",
        "@app:name('New') define stream S (a int); from S select a insert into T;",
    );
    running.reload();
    running.err_has("apps reloaded", 1);
    running.err_has("added: New; changed: Counts; untouched: Thirds", 1);
    place.append("c\n");
    counted(&running, "second", "c", 3);
    assert!(
        !running.out().contains("second : Event{timestamp=0"),
        "{}",
        running.out()
    );
    place.post(2);
    place.post(3);
    running.out_has("data=[6]", 1);

    fs::remove_file(place.apps().join("thirds.siddhi")).expect("it is there");
    running.reload();
    running.err_has("removed: Thirds", 1);
    eventually("the port is free", || {
        std::net::TcpListener::bind(("127.0.0.1", place.port)).is_ok()
    });
    place.append("d\n");
    counted(&running, "second", "d", 4);
    let (code, summary) = running.stop();
    assert_eq!(code, Some(0));
    // Counted over both lives of the app, and with the app that is gone.
    assert_eq!(number(&summary, "sources", "Lines", "events"), 4);
    assert_eq!(number(&summary, "sinks", "Out", "events"), 4);
    assert_eq!(number(&summary, "sources", "In", "events"), 3);
}

/// Takes connections and never says a word.
const SILENT: &str = "@app:name('Silent')
@source(type='mqtt', url='tcp://127.0.0.1:{port}', topic='t', connection.timeout='1', @map(type='csv'))
define stream In (line string);
@sink(type='log') define stream Out (line string);
from In select line insert into Out;
";

#[test]
fn a_reload_is_reported_after_each_source_is_connected_or_has_said_why_not() {
    let place = Place::new();
    place.counts("first");
    let run = place.start(&[]);
    run.err_has("source is ready", 1);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("an address").port();
    place.write(
        "silent.siddhi",
        &SILENT.replace("{port}", &port.to_string()),
    );
    run.reload();
    run.err_has("apps reloaded change", 1);
    let said = run.err();
    let [why, reported] =
        ["cannot connect source", "apps reloaded change"].map(|text| said.find(text));
    assert!(why.is_some() && why < reported, "{said}");
    run.stop();
}

// shows: sink log reload
#[test]
fn what_changed_goes_on_where_it_was_and_the_rest_does_not_notice() {
    goes_on(&[]);
}

#[test]
fn with_a_state_directory_it_is_the_same() {
    let state = tempfile::tempdir().expect("a folder");
    goes_on(&["--state", &state.path().display().to_string()]);
}

#[test]
fn an_app_that_cannot_run_changes_nothing() {
    let place = Place::new();
    place.counts("first");
    place.write("thirds.siddhi", THIRDS);
    let running = place.start(&[]);
    running.err_has("source is ready", 2);
    place.append("a\n");
    place.post(1);
    counted(&running, "first", "a", 1);
    let refused = |text: &str, why: &str, times: usize| {
        place.counts("never");
        place.write("thirds.siddhi", text);
        running.reload();
        running.err_has(
            "cannot reload apps; the running ones continue unchanged",
            times,
        );
        running.err_has(why, 1);
    };
    // It does not parse; it is at fault; its store cannot be opened, which is only seen on the way.
    refused("define stream", "E0", 1);
    refused(&THIRDS.replace("In#window", "Inn#window"), "Inn", 2);
    let store = "@store(type='rdbms', jdbc.url='jdbc:sqlite:{dir}/in.txt/all.db') define table T (total long);";
    refused(
        &THIRDS.replace(
            "from In#",
            &format!("{store} from Third insert into T; from In#"),
        ),
        "restoring the previous apps",
        3,
    );
    running.err_has("source is ready app=\"Thirds", 2);
    place.append("b\n");
    counted(&running, "first", "b", 2);
    place.post(2);
    place.post(3);
    running.out_has("data=[6]", 1);
    assert!(!running.out().contains("never"), "{}", running.out());
    running.stop();
}

#[test]
fn an_edit_that_would_lose_state_is_refused_unless_it_may() {
    for (more, n) in [(&[][..], 2), (&["--drop-state"][..], 1)] {
        let place = Place::new();
        let app = |window: &str| {
            let query = format!("from Lines#window.{window} select line, count() as n");
            let text = COUNTS.replace("{prefix}", "p");
            place.write(
                "counts.siddhi",
                &text.replace("from Lines select line, count() as n", &query),
            );
        };
        app("length(9)");
        let running = place.start(more);
        place.append("a\n");
        counted(&running, "p", "a", 1);
        app("length(8)");
        running.reload();
        running.err_has("window length(9)", 1);
        if more.is_empty() {
            running.err_has("would lose state", 1);
            running.err_has("the running ones continue", 1);
        } else {
            running.err_has("apps reloaded", 1);
        }
        place.append("b\n");
        counted(&running, "p", "b", n);
        running.stop();
    }
}

#[test]
fn files_that_change_are_noticed() {
    let place = Place::new();
    place.counts("first");
    let running = place.start(&["--watch"]);
    place.append("a\n");
    counted(&running, "first", "a", 1);
    place.counts("other");
    running.err_has("changed: Counts", 2);
    place.append("b\n");
    counted(&running, "other", "b", 2);
    running.stop();
}

#[test]
fn who_asks_is_answered_by_the_app_that_runs_now() {
    let place = Place::new();
    let http = free_port();
    let app = "@app:name('Asked') @source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
        define stream In (n int); define table T (n int);{more} from In insert into T;";
    place.write("asked.siddhi", &app.replace("{more}", ""));
    let running = place.start(&["--http", &format!("127.0.0.1:{http}")]);
    running.err_has("source is ready", 1);
    place.post(4);
    let ask = |query: &str| {
        let body = format!(r#"{{"appName":"Asked","query":"{query}"}}"#);
        curl(&[
            "--json",
            &body,
            &format!("http://127.0.0.1:{http}/stores/query"),
        ])
        .1
    };
    assert_eq!(ask("from T select n"), r#"{"records":[[4]]}"#);
    let app = app.replace("{more}", " define table U (n int);");
    place.write("asked.siddhi", &format!("{app} from In insert into U;"));
    running.reload();
    running.err_has("apps reloaded", 1);
    running.err_has("source is ready", 2);
    place.post(5);
    assert_eq!(ask("from T select n"), r#"{"records":[[4],[5]]}"#);
    assert_eq!(ask("from U select n"), r#"{"records":[[5]]}"#);
    running.stop();
}

/// Threads and open files of a process.
fn held(pid: u32) -> (usize, usize) {
    let count = |what: &str| {
        let path = Path::new("/proc").join(pid.to_string()).join(what);
        fs::read_dir(path).map_or(0, Iterator::count)
    };
    (count("task"), count("fd"))
}

// shows: source file reload
#[test]
fn a_hundred_reloads_lose_nothing_and_leave_nothing_behind() {
    const TIMES: u32 = 100;
    let place = Place::new();
    place.counts("p0");
    place.write("thirds.siddhi", THIRDS);
    let running = place.start(&[]);
    running.err_has("source is ready", 2);
    place.append("l0\n");
    counted(&running, "p0", "l0", 1);
    let before = held(running.pid());
    for i in 1..=TIMES {
        place.counts(&format!("p{i}"));
        place.write(
            "thirds.siddhi",
            &THIRDS.replace("'third'", &format!("'third{i}'")),
        );
        running.reload();
        place.append(&format!("l{i}\n"));
        running.err_has("apps reloaded", i as usize);
    }
    running.out_has(&format!("data=[l{TIMES}, {}]", TIMES + 1), 1);
    eventually("no more threads and files than before", || {
        let (threads, files) = held(running.pid());
        threads <= before.0 && files <= before.1
    });
    let (code, summary) = running.stop();
    assert_eq!(code, Some(0));
    let lines = u64::from(TIMES) + 1;
    assert_eq!(number(&summary, "sources", "Lines", "events"), lines);
    assert_eq!(number(&summary, "sinks", "Out", "events"), lines);
}

/// Two apps on one topic.
const TOPIC_WRITER: &str = "@app:name('TopicWriter')
@source(type='file', mode='line', file.uri='file:{dir}/in.txt', tailing='true', @map(type='text', fail.on.missing.attribute='false', regex.A='(.+)', @attributes(line='A')))
define stream Lines (line string);
@sink(type='inMemory', topic='{topic}', @map(type='text', @payload('{{line}}')))
define stream Out (line string);
from Lines select line insert into Out;
";
const TOPIC_READER: &str = "@app:name('TopicReader') -- {note}
@source(type='inMemory', topic='{topic}', @map(type='json'))
define stream In (n long);
@sink(type='log', prefix='topic') define stream Seen (n long);
from In select n insert into Seen;
";

fn event(n: u32) -> String {
    format!("{{\"event\":{{\"n\":{n}}}}}\n")
}

// shows: sink inMemory reload
#[test]
fn a_topic_goes_on_when_one_of_its_apps_is_edited() {
    let place = Place::new();
    let write = |note: u32| {
        let topic = |text: &str| text.replace("{topic}", "edited");
        place.write("writer.siddhi", &topic(TOPIC_WRITER));
        let reader = topic(TOPIC_READER).replace("{note}", &format!("edit {note}"));
        place.write("reader.siddhi", &reader);
    };
    write(0);
    let run = Running::connected(&[&place.apps().display().to_string()], 1);
    for n in 0..5 {
        place.append(&event(n));
        write(n + 1);
        run.reload();
        run.err_has("apps reloaded change", n as usize + 1);
    }
    for n in 0..5 {
        run.out_has(&format!("data=[{n}]"), 1);
    }
    let said = run.out();
    assert_eq!(said.matches("topic : Event").count(), 5, "{said}");
    assert_eq!(run.stop().0, Some(0));
}

// shows: sink inMemory bad
#[test]
fn what_a_reader_of_a_topic_cannot_read_is_rejected_and_its_neighbours_are_taken() {
    let place = Place::new();
    let topic = |text: &str| text.replace("{topic}", "bad");
    place.write("writer.siddhi", &topic(TOPIC_WRITER));
    place.write("reader.siddhi", &topic(TOPIC_READER));
    place.append(&format!("{}no JSON\n{}", event(1), event(2)));
    let run = Running::connected(&[&place.apps().display().to_string()], 1);
    for n in [1, 2] {
        run.out_has(&format!("data=[{n}]"), 1);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(
        number(&summary, "sources", "In", "rejected"),
        1,
        "{summary}"
    );
}
