//! Saved state in the hands of an operator: listed, verified, copied while the server runs, restored.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::network::{Running, eventually, text};

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
        "  source Copier/Lines[1]: ",
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
    let all = ["apps", "current", "effects.journal", "rejected", "snapshot"];
    assert_eq!(kinds[..5], all, "and undelivered, backup, id");
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
    out(&["state", "restore", &early, &place.path("elsewhere")], 0);
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
    let mut commands = 0;
    for line in blocks.flat_map(str::lines) {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("headwater"), "{line}");
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(words)
            .current_dir(place.dir.path())
            .output()
            .expect("headwater starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        commands += 1;
    }
    assert!(commands >= 8, "{commands} commands");
}
