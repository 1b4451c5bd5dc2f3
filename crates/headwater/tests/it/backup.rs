//! Saved state in the hands of an operator: listed, verified, copied while the server runs, restored.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::network::{Running, curl, eventually, free_port, text};

fn headwater(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .output()
        .expect("headwater starts")
}

/// Standard output of a command that ends with this code.
fn out(args: &[&str], code: i32) -> String {
    let output = headwater(args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    out
}

/// Standard error of a command that ends with this code.
fn err(args: &[&str], code: i32) -> String {
    let output = headwater(args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    err
}

fn json(args: &[&str]) -> Json {
    serde_json::from_str(&out(args, 0)).expect("one JSON document")
}

/// Follows a file into SQLite, and counts in a table in memory.
struct Place {
    dir: tempfile::TempDir,
    app: String,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a folder");
        let app = dir.path().join("copier.siddhi");
        let source = format!(
            "@app:name('Copier')\n\
             @source(type='file', mode='line', file.uri='file:{0}/in.csv', tailing='true', @map(type='csv'))\n\
             define stream Lines (id int, name string);\n\
             @store(type='rdbms', jdbc.url='jdbc:sqlite:{0}/out.db')\n\
             define table Rows (id int, name string);\n\
             @PrimaryKey('name') define table Names (name string, n long);\n\
             from Lines select id, name insert into Rows;\n\
             @info(name='counts') from Lines select name, count() as n group by name \
             update or insert into Names set Names.n = n on Names.name == name;\n",
            dir.path().display()
        );
        fs::write(&app, source).expect("writes");
        let place = Place {
            app: app.display().to_string(),
            dir,
        };
        place.append("");
        place
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn append(&self, lines: &str) {
        let mut file = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("in.csv"))
            .expect("opens");
        file.write_all(lines.as_bytes()).expect("there is room");
    }

    fn append_numbers(&self, numbers: std::ops::Range<u32>) {
        let lines: String = numbers.map(|n| format!("{n},name{}\n", n % 3)).collect();
        self.append(&lines);
    }

    fn start(&self, state: &str) -> Running {
        let state = self.path(state);
        let args = [&self.app, "--state", &state, "--state-interval", "100ms"];
        let running = Running::start(&args);
        running.err_has(" ready in ", 1);
        running
    }

    /// Rows of the database, and how many different numbers they have.
    fn rows(&self) -> (u32, u32) {
        let database = rusqlite::Connection::open(self.path("out.db")).expect("opens");
        let query = "select count(*), count(distinct id) from Rows";
        let counts = database.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)));
        counts.unwrap_or_default()
    }

    /// The bytes of a copy of the database, as its own tools make one.
    fn database(&self, name: &str) -> Vec<u8> {
        let database = rusqlite::Connection::open(self.path("out.db")).expect("opens");
        let copied = database.execute("vacuum into ?1", [self.path(name)]);
        copied.expect("copies");
        fs::read(self.path(name)).expect("reads")
    }

    fn has_rows(&self, rows: u32) {
        eventually("the rows are committed", || self.rows().0 >= rows);
    }
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("reads");
    let at = bytes.len() / 2;
    match bytes.get_mut(at) {
        Some(byte) => *byte ^= 1,
        None => bytes.push(1),
    }
    fs::write(path, bytes).expect("writes");
}

/// Files of a directory, with those below.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("reads") {
        let path = entry.expect("reads").path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}

#[test]
fn what_is_saved_is_listed_and_damage_is_found_in_each_kind_of_file() {
    let place = Place::new();
    let (state, copy) = (place.path("state"), place.path("copy"));
    err(&["state", "list", &state], 1);
    place.append_numbers(0..30);
    place.append("31\n");
    let running = place.start("state");
    place.has_rows(30);
    assert_eq!(running.stop().0, Some(4));

    let list = json(&["state", "list", &state, "--json"]);
    assert_eq!(list["version"], 1);
    let group = &list["groups"][0];
    assert_eq!(group["apps"], serde_json::json!(["Copier"]));
    assert_eq!(group["rejected"]["events"], 1);
    assert_eq!(group["damage"], serde_json::json!([]));
    assert!(group["current"].as_u64().expect("an epoch") > 0);
    let elements = group["content"]["apps"][0]["elements"].as_array();
    let mut names = elements.expect("elements").iter();
    let names = names.find(|element| element["element"] == "table 'Names'");
    assert_eq!(names.expect("it is saved")["rows"], 3);
    let said = out(&["state", "list", &state], 0);
    for part in [
        "app Copier\n",
        ", current: full, ",
        "  source Copier/Lines[1]: file ",
        "  table 'Names' (rows): 3 rows, ",
        "  query 'counts' (aggregate count()): ",
        "  rejected: 1 event, ",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }

    out(&["state", "verify", &state], 0);
    out(&["state", "copy", &state, &copy], 0);
    let again = err(&["state", "copy", &state, &copy], 1);
    assert!(again.contains("exists already"), "{again}");
    let mut kinds = Vec::new();
    for path in files(Path::new(&copy)) {
        let whole = fs::read(&path).expect("reads");
        flip(&path);
        let said = err(&["state", "verify", &copy], 1);
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(
            said.contains(&*name) && said.contains("= help: "),
            "{name}: {said}"
        );
        let refused = err(&["state", "restore", &copy, &place.path("elsewhere")], 1);
        assert!(refused.contains("nothing was restored"), "{refused}");
        fs::write(&path, whole).expect("writes");
        kinds.push(name.split('-').next().unwrap_or_default().to_owned());
    }
    kinds.dedup();
    let all = [
        "apps",
        "current",
        "effects.journal",
        "number",
        "rejected",
        "snapshot",
    ];
    assert_eq!(kinds[..6], all, "and undelivered, backup, id");
    // Without a list of files each proves itself.
    let snapshot = files(Path::new(&state)).into_iter();
    let mut snapshot = snapshot.filter(|path| path.to_string_lossy().contains("snapshot-"));
    flip(&snapshot.next_back().expect("a snapshot"));
    let said = err(&["state", "verify", &state], 1);
    assert!(
        said.contains("the checksum of its state is wrong"),
        "{said}"
    );
    let list = err(&["state", "list", &state], 1);
    assert!(list.contains("is damaged"), "{list}");
    let refused = err(&["state", "copy", &state, &place.path("other")], 1);
    assert!(
        refused.contains("a backup of it would be of no use"),
        "{refused}"
    );
}

#[test]
fn a_copy_of_a_running_server_goes_on_elsewhere_exactly_once() {
    let place = Place::new();
    let running = place.start("state");
    let (state, early, late) = (place.path("state"), place.path("early"), place.path("late"));
    // While it writes: whichever checkpoint it is, the copy is one.
    for (number, begin) in (0..20).map(|n| (n, n * 50)) {
        place.append_numbers(begin..begin + 50);
        if number == 10 {
            place.has_rows(100);
            out(&["state", "copy", &state, &early], 0);
        }
    }
    place.has_rows(1_000);
    out(&["state", "copy", &state, &late], 0);
    // The database of the same checkpoint: nothing has come since.
    let copied = place.database("copy.db");
    place.append_numbers(1_000..1_500);
    place.has_rows(1_500);
    let in_use = err(&["state", "restore", &late, &state, "--replace"], 1);
    assert!(in_use.contains("another server is using it"), "{in_use}");
    let kept = place.database("kept.db");
    running.kill();
    for copy in [&early, &late] {
        out(&["state", "verify", copy], 0);
    }

    // Both are restored: no row is lost, none is there twice.
    let restore_database = |bytes: &[u8]| {
        for journal in ["out.db-wal", "out.db-shm"] {
            fs::remove_file(place.path(journal)).ok();
        }
        fs::write(place.path("out.db"), bytes).expect("writes");
    };
    restore_database(&copied);
    assert_eq!(place.rows(), (1_000, 1_000));
    let said = err(&["state", "restore", &late, &state], 1);
    assert!(said.contains("--replace"), "{said}");
    let said = out(&["state", "restore", &late, &state, "--replace"], 0);
    assert!(said.contains("what was there is in "), "{said}");
    let running = place.start("state");
    place.has_rows(1_500);
    running.stop();
    assert_eq!(place.rows(), (1_500, 1_500));

    // The database goes on, the state goes back: nothing is lost, and what comes again is said.
    restore_database(&kept);
    let said = err(&["state", "restore", &early, &place.path("elsewhere")], 0);
    assert!(said.contains("has no users"), "{said}");
    let running = place.start("elsewhere");
    running.err_has("no snapshot fits the stores", 1);
    eventually("it has read to the end", || place.rows().0 > 1_500);
    running.stop();
    let (rows, different) = place.rows();
    assert!(rows > 1_500 && different == 1_500, "{rows} {different}");

    // Beside a server that goes on it is another one, and the database knows.
    restore_database(&copied);
    out(
        &["state", "restore", &late, &place.path("beside"), "--new-id"],
        0,
    );
    let beside = place.path("beside");
    let refused = err(&["run", &place.app, "--state", &beside], 1);
    assert!(
        refused.contains("written under another state directory"),
        "{refused}"
    );
}

/// Every command of docs/backup.md, in its order.
#[test]
fn the_commands_of_the_page_run() {
    let place = Place::new();
    place.append_numbers(0..10);
    let running = place.start("state");
    place.has_rows(10);
    assert_eq!(running.stop().0, Some(0));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backup.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap_or_default());
    let binary = Path::new(env!("CARGO_BIN_EXE_headwater")).parent();
    let own = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{own}", binary.expect("a folder").display());
    let mut commands = 0;
    for line in blocks.flat_map(str::lines) {
        assert!(line.starts_with("headwater "), "{line}");
        let output = Command::new("sh")
            .args(["-ec", line])
            .env("PATH", &path)
            .current_dir(place.dir.path())
            .output()
            .expect("headwater starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        commands += 1;
    }
    assert!(commands >= 8, "{commands} commands");
}

/// Two apps that each follow a file and count its lines in a table.
struct Counters {
    dir: tempfile::TempDir,
    url: String,
}

impl Counters {
    fn new() -> Counters {
        let dir = tempfile::tempdir().expect("a folder");
        let apps = dir.path().join("apps");
        fs::create_dir(&apps).expect("a folder");
        for name in ["A", "B"] {
            let source = format!(
                "@app:name('{name}')\n\
                 @source(type='file', mode='line', file.uri='file:{0}/{name}.txt', tailing='true', @map(type='csv'))\n\
                 define stream Lines (line string);\n\
                 @PrimaryKey('k') define table T (k string, n long);\n\
                 @info(name='counts') from Lines select 'lines' as k, count() as n \
                 update or insert into T set T.n = n on T.k == k;\n",
                dir.path().display()
            );
            fs::write(apps.join(format!("{name}.siddhi")), source).expect("writes");
            fs::write(dir.path().join(format!("{name}.txt")), "").expect("writes");
        }
        let url = format!("http://127.0.0.1:{}", free_port());
        Counters { dir, url }
    }

    fn start(&self) -> Running {
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        let (apps, state) = (path("apps"), path("state"));
        let address = self.url.trim_start_matches("http://");
        // A checkpoint by itself comes much later than this test ends.
        let every = ["--state-interval", "600s"];
        let args = [&[&*apps, "--state", &state, "--http", address], &every[..]].concat();
        let running = Running::start(&args);
        running.err_has(" ready in ", 1);
        running
    }

    fn append(&self, app: &str, lines: u32) {
        let path = self.dir.path().join(format!("{app}.txt"));
        let mut file = fs::File::options().append(true).open(path).expect("opens");
        file.write_all("x\n".repeat(lines as usize).as_bytes())
            .expect("there is room");
    }

    fn rows(&self, app: &str) -> Vec<Json> {
        let query = "from T select k, n";
        let found = json(&["query", query, "--app", app, "--url", &self.url, "--json"]);
        found["records"].as_array().expect("records").clone()
    }

    fn has_lines(&self, app: &str, lines: u32) {
        eventually("the lines are counted", || {
            let is_it = |row: &Json| row[0] == "lines" && row[1] == lines;
            self.rows(app).iter().any(is_it)
        });
    }

    fn has_mark(&self, app: &str) -> bool {
        self.rows(app).iter().any(|row| row[0] == "mark")
    }

    fn mark(&self, app: &str) {
        let query = "select 'mark' as k, 1L as n insert into T";
        out(&["query", query, "--app", app, "--url", &self.url], 0);
    }

    /// Status and body of a request.
    fn request(&self, method: &str, path: &str) -> (String, Json) {
        let (status, body) = curl(&["-X", method, &format!("{}{path}", self.url)]);
        (status, serde_json::from_str(&body).unwrap_or_default())
    }
}

#[test]
fn one_app_goes_back_to_a_revision_while_the_other_counts_on() {
    let place = Counters::new();
    let running = place.start();
    ["A", "B"].iter().for_each(|app| place.append(app, 10));
    ["A", "B"].iter().for_each(|app| place.has_lines(app, 10));
    let (status, made) = place.request("POST", "/siddhi-apps/A/backup");
    assert_eq!(status, "201", "{made}");
    let revision = made["revision"].as_str().expect("a name").to_owned();
    let (time, app) = revision
        .split_once('_')
        .expect("as Streaming Integrator has it");
    assert!(time.parse::<u64>().is_ok() && app == "A", "{revision}");
    ["A", "B"].iter().for_each(|app| place.mark(app));
    ["A", "B"].iter().for_each(|app| place.append(app, 5));
    ["A", "B"].iter().for_each(|app| place.has_lines(app, 15));

    for (path, expect) in [
        ("/siddhi-apps/A/restore?version=1_A", "404"),
        ("/siddhi-apps/A/restore?version=../A", "404"),
        ("/siddhi-apps/None/restore", "404"),
        ("/siddhi-apps/B/restore", "404"),
    ] {
        let (status, said) = place.request("POST", path);
        assert_eq!(status, expect, "{path}: {said}");
    }
    let path = format!("/siddhi-apps/A/restore?version={revision}");
    let (status, said) = place.request("POST", &path);
    assert_eq!(status, "200", "{said}");
    assert_eq!(said["type"], "success");
    assert!(!place.has_mark("A") && place.has_mark("B"));
    // It reads the five lines again, and counts on from ten.
    place.has_lines("A", 15);
    place.append("B", 1);
    place.has_lines("B", 16);
    // Nothing was saved at the start, and B has not begun again.
    let begun = "continuing from saved state";
    assert_eq!(running.err().matches(begun).count(), 1, "{}", running.err());
    assert_eq!(running.err().matches("app restored").count(), 1);
    running.kill();

    // What was restored is durable, and what came since is read again.
    let running = place.start();
    place.has_lines("A", 15);
    place.has_lines("B", 16);
    assert!(!place.has_mark("A") && place.has_mark("B"));
    let (_, list) = place.request("GET", "/siddhi-apps/A/revisions");
    assert_eq!(list["revisions"][0]["revision"], revision.as_str());
    // No more than ten are kept.
    for _ in 0..11 {
        assert_eq!(place.request("POST", "/siddhi-apps/A/backup").0, "201");
    }
    let (_, list) = place.request("GET", "/siddhi-apps/A/revisions");
    let list = list["revisions"].as_array().expect("revisions");
    assert_eq!(list.len(), 10);
    assert!(list.iter().all(|one| one["revision"] != revision.as_str()));

    // An edited app that would lose of the revision is not restored, and goes on.
    let app = place.dir.path().join("apps/A.siddhi");
    let source = fs::read_to_string(&app).expect("reads");
    fs::write(&app, source.replace("count()", "sum(1L)")).expect("writes");
    running.stop();
    let state = place.dir.path().join("state").display().to_string();
    let apps = place.dir.path().join("apps").display().to_string();
    let address = place.url.trim_start_matches("http://").to_owned();
    let args = [
        &*apps,
        "--state",
        &state,
        "--http",
        &address,
        "--drop-state",
    ];
    let running = Running::start(&args);
    running.err_has(" ready in ", 1);
    let (status, said) = place.request("POST", "/siddhi-apps/A/restore");
    assert_eq!(status, "409", "{said}");
    let message = said["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("would lose of it: query 'counts'"),
        "{message}"
    );
    place.append("A", 1);
    eventually("it goes on", || !place.rows("A").is_empty());
    running.stop();
}

#[test]
fn a_backup_is_made_through_the_server_and_comes_as_an_archive() {
    let place = Counters::new();
    let running = place.start();
    place.append("A", 3);
    place.has_lines("A", 3);
    let path = |name: &str| place.dir.path().join(name).display().to_string();
    let listed = json(&["state", "list", "--url", &place.url, "--json"]);
    assert_eq!(listed["groups"].as_array().expect("groups").len(), 2);
    let made = json(&["state", "copy", "--url", &place.url, "monday", "--json"]);
    assert_eq!(made["name"], "monday");
    // Nothing was saved before: the checkpoint was made for it.
    let backup = path("state/backups/monday");
    let rows = json(&["state", "show", &backup, "A", "T", "--json"]);
    assert_eq!(rows["rows"], serde_json::json!([["lines", 3]]));
    let again = err(&["state", "copy", "--url", &place.url, "monday"], 1);
    assert!(again.contains("choose another name"), "{again}");
    let bad = err(&["state", "copy", "--url", &place.url, "../monday"], 2);
    assert!(bad.contains("no name for a backup"), "{bad}");
    let archive = path("a.tar");
    out(
        &[
            "state", "copy", "--url", &place.url, "tuesday", "-o", &archive,
        ],
        0,
    );
    running.kill();
    let untarred = Command::new("tar")
        .args(["-xf", &archive, "-C", &path("")])
        .status();
    assert!(untarred.expect("tar runs").success());
    out(&["state", "verify", &path("tuesday")], 0);
    let listed = out(&["state", "list", &path("state")], 0);
    assert!(listed.contains("\nbackups\n  monday  "), "{listed}");
    assert!(!listed.contains("tuesday"), "{listed}");
    err(&["state", "list", "--url", &place.url], 3);
}

#[test]
fn saved_state_is_shown_and_compared() {
    let place = Place::new();
    place.append_numbers(0..30);
    let running = place.start("state");
    place.has_rows(30);
    running.stop();
    let (state, copy) = (place.path("state"), place.path("copy"));
    out(&["state", "copy", &state, &copy], 0);
    place.append("31,name9\n32,name1\n");
    let running = place.start("state");
    place.has_rows(32);
    running.stop();

    let shown = json(&["state", "show", &state, "--json"]);
    let app = &shown["apps"][0];
    let position = &app["sources"][0]["position"];
    let length = fs::metadata(place.path("in.csv"))
        .expect("it is there")
        .len();
    assert_eq!(position["byte"], length.to_string(), "{position}");
    assert!(
        position["file"]
            .as_str()
            .is_some_and(|file| file.ends_with("in.csv"))
    );
    let rows = json(&["state", "show", &copy, "Copier", "Names", "--json"]);
    assert_eq!(rows["total"], 3);
    assert_eq!(
        rows["attributes"][1],
        serde_json::json!({"name": "n", "dataType": "LONG"})
    );
    assert_eq!(rows["rows"][0], serde_json::json!(["name0", 10]));
    let text = out(
        &["state", "show", &copy, "Copier", "Names", "--limit", "1"],
        0,
    );
    assert_eq!(text, "name   n\n-----  --\nname0  10\n");
    // What needs the app says so; with it, any query is answered.
    let said = err(&["state", "show", &copy, "Copier", "counts"], 1);
    assert!(said.contains("is not shown"), "{said}");
    let query = "from Names on n > 9 select name order by name desc limit 1";
    let asked = json(&[
        "state", "show", &copy, "--app", &place.app, "--query", query, "--json",
    ]);
    assert_eq!(asked["rows"], serde_json::json!([["name2"]]));
    let wrong = [
        "state",
        "show",
        &copy,
        "--app",
        &place.app,
        "--query",
        "delete Names on Names.n > 0",
    ];
    assert!(err(&wrong, 2).contains("only read"));
    assert!(err(&["state", "show", &copy, "Other"], 1).contains("of these there is: Copier"));

    let differs = json(&["state", "diff", &copy, &state, "--json"]);
    let app = &differs["apps"][0];
    let names = app["elements"].as_array().expect("elements").iter();
    let mut names = names.filter(|e| e["element"] == "table 'Names'");
    let rows = &names.next().expect("it has changed")["rows"];
    assert_eq!(
        (&rows["added"], &rows["changed"], &rows["removed"]),
        (&1.into(), &1.into(), &0.into())
    );
    assert_eq!(rows["added_rows"], serde_json::json!([["name9", 1]]));
    let text = out(&["state", "diff", &copy, &state], 0);
    for part in [
        "    + name9, 1\n",
        "    ~ name1, 10 -> name1, 11\n",
        "    after:  file ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let same = out(&["state", "diff", &copy, &copy], 0);
    assert!(same.ends_with(": the same\n"), "{same}");
    let edited = place.path("edited.siddhi");
    let source = fs::read_to_string(&place.app).expect("reads");
    fs::write(&edited, source.replace("count() as n", "sum(1L) as n")).expect("writes");
    let said = out(&["state", "diff", &copy, &edited], 1);
    assert!(
        said.contains("is dropped") && said.contains("query 'counts'"),
        "{said}"
    );
}
