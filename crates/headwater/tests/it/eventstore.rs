//! Tables in the event store, as users of the binary see them: over restarts and kills, with queries from
//! outside, beside other apps and other programs.

// row: store eventstore | inside the process
// n/a lost: it is inside the process
// n/a slow: it is inside the process
// n/a tls: it works on no network
// n/a login: it works on no network
// n/a error: a table that is not there yet holds up its app, which waits; no event meets it

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use event::Value;
use store::reader::Reader;
use testservers::wheel_or_skip;

use crate::network::{Running, eventually, free_port, post_all, text};

fn headwater(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .output()
        .expect("headwater starts")
}

/// A folder with an app, its input and its store.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            dir: tempfile::tempdir().expect("a folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, content: &str) -> String {
        let content = content.replace("{dir}", &self.dir.path().display().to_string());
        fs::write(self.path(name), content).expect("the folder can be written");
        self.text(name)
    }

    /// A file of input, beside those that were there before.
    fn give(&self, lines: &str) {
        let dir = self.path("in");
        fs::create_dir_all(&dir).expect("a folder");
        let count = fs::read_dir(&dir).expect("a folder").count();
        fs::write(dir.join(format!("part-{count:03}.csv")), lines).expect("written");
    }

    /// Runs an app until its input is read; what it has said.
    fn run(&self, app: &str, more: &[&str]) -> String {
        let store = self.text("data");
        let args = [&["run", app, "--store", &store, "--until-done"], more].concat();
        let output = headwater(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        said
    }

    /// The rows of a table, as a program reads them that has the folder alone.
    fn rows(&self, table: &str) -> Vec<Vec<Value>> {
        let rows = Reader::open(&self.path("data"))
            .expect("a store")
            .rows(table)
            .expect("a table");
        (0..rows.len).map(|row| rows.row(row)).collect()
    }
}

const COPIER: &str = "@app:name('Copier')
@source(type='file', mode='line', dir.uri='file:{dir}/in', tailing='false', action.after.process='keep', @map(type='csv'))
define stream Lines (id string, amount double);
@store(type='eventstore', table.name='shop.Sales', commit.interval='1 sec')
define table Sales (id string, amount double);
from Lines select id, amount insert into Sales;
";

// shows: store eventstore open, order
#[test]
fn a_table_keeps_its_rows_over_a_restart() {
    let place = Place::new();
    let app = place.write("copier.siddhi", COPIER);
    place.give("tea,2.5\nmilk,1.0\n");
    place.run(&app, &[]);
    let row = |id: &str, amount| vec![Value::str(id), Value::Double(amount)];
    assert_eq!(
        place.rows("shop_sales"),
        [row("tea", 2.5), row("milk", 1.0)]
    );
    // What was read is not read again, since the state is in the store's folder.
    place.give("rum,9.0\n");
    let said = place.run(&app, &["-v"]);
    assert!(said.contains("event store is open"), "{said}");
    assert_eq!(
        place.rows("shop_sales"),
        [row("tea", 2.5), row("milk", 1.0), row("rum", 9.0)]
    );
    // All rows are in files, so that other programs see them.
    let files = fs::read_dir(place.path("data/tables/shop_sales")).expect("the table");
    let names = files.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    assert_eq!(names.filter(|name| name.ends_with(".parquet")).count(), 2);
    // The table is another one in the app: that is said, and nothing is written.
    let other = COPIER.replace(
        "id string, amount double);\nfrom",
        "id string, amount float);\nfrom",
    );
    let other = other.replace(
        "select id, amount insert",
        "select id, convert(amount, 'float') as amount insert",
    );
    let app = place.write("copier.siddhi", &other);
    let output = headwater(&[
        "run",
        &app,
        "--store",
        &place.text("data"),
        "--until-done",
        "--drop-state",
    ]);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(3) || output.status.code() == Some(1),
        "{said}"
    );
    assert!(
        said.contains("amount double") && said.contains("table.name"),
        "{said}"
    );
}

#[test]
fn a_table_without_a_directory_is_refused_with_the_way_out() {
    let place = Place::new();
    let app = place.write("copier.siddhi", COPIER);
    let output = headwater(&["run", &app, "--until-done"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--store DIR"), "{said}");
    assert_eq!(headwater(&["check", &app]).status.code(), Some(0));
}

/// A run of a copier that is killed after a while, unless it has ended.
fn killed(args: &[&str], log: &Path, millis: u64) {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(log)
        .expect("a log");
    let child = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("headwater starts");
    let mut child: Child = child;
    let (sender, ended) = std::sync::mpsc::sync_channel::<()>(1);
    // Nobody sends: the moment of the kill is a matter of chance.
    let waited = ended.recv_timeout(std::time::Duration::from_millis(millis));
    assert!(waited.is_err());
    drop(sender);
    child.kill().expect("killed, or ended before");
    child.wait().expect("waited for");
}

// shows: store eventstore resume
#[test]
fn what_is_read_from_a_file_is_in_the_store_once_however_often_it_is_killed() {
    let place = Place::new();
    let keyed = COPIER.replace(
        "from Lines select id, amount insert into Sales;",
        "@store(type='eventstore', commit.interval='100 millisec') @PrimaryKey('id')
         define table Latest (id string, amount double);
         from Lines select id, amount insert into Sales;
         from Lines select str:concat('k', convert(math:floor(amount % 100.0), 'string')) as id, amount
         update or insert into Latest on Latest.id == id;",
    );
    let app = place.write("copier.siddhi", &keyed.replace("1 sec", "100 millisec"));
    const LINES: usize = 60_000;
    let lines: String = (0..LINES).map(|at| format!("id-{at},{at}\n")).collect();
    place.give(&lines);
    let (store, log) = (place.text("data"), place.path("log"));
    let args = [
        "run",
        &app,
        "--store",
        &store,
        "--until-done",
        "--state-interval",
        "20ms",
    ];
    for millis in [150, 300, 420, 550, 700, 900] {
        killed(&args, &log, millis);
    }
    place.run(&app, &["--state-interval", "20ms"]);
    let said = fs::read_to_string(&log).unwrap_or_default();
    let rows = place.rows("shop_sales");
    assert_eq!(rows.len(), LINES, "{said}");
    let is_in_order = |(at, row): (usize, &Vec<Value>)| row[0] == Value::str(&format!("id-{at}"));
    assert!(rows.iter().enumerate().all(is_in_order), "{said}");
    let latest = place.rows("latest");
    assert_eq!(latest.len(), 100, "{said}");
    let mut amounts: Vec<i64> = latest.iter().filter_map(|row| row[1].to_long()).collect();
    amounts.sort_unstable();
    let want: Vec<i64> = (LINES as i64 - 100..LINES as i64).collect();
    assert_eq!(amounts, want, "{said}");
}

const SHOP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Sales (item string, amount double, number int);
@store(type='eventstore') @PrimaryKey('item') define table Stock (item string, number int);
@store(type='eventstore') define table Kept (item string, amount double);
@store(type='eventstore') define aggregation Totals from Sales
select item, sum(amount) as total, count() as n group by item aggregate every sec ... year;
@sink(type='log', prefix='joined') define stream Joined (item string, number int, amount double);
from Sales as s join Stock as t on t.item == s.item select s.item, t.number, s.amount insert into Joined;
from Sales select item, number update or insert into Stock on Stock.item == item;
from Sales select item, amount insert into Kept;
";

#[test]
fn tables_and_aggregations_of_the_store_answer_and_stay() {
    let place = Place::new();
    let (port, http) = (free_port(), free_port());
    let shop = SHOP.replace("{port}", &port.to_string());
    let app = place.write("shop.siddhi", &shop);
    let (store, address) = (place.text("data"), format!("127.0.0.1:{http}"));
    let start = || Running::connected(&[&app, "--store", &store, "--http", &address], 1);
    let url = format!("http://{address}");
    let check = |query: &str, answer: &str| {
        let output = headwater(&["query", "--url", &url, query]);
        let out = text(&output.stdout);
        assert_eq!(out, answer, "{query}: {}", text(&output.stderr));
    };
    let sell = |body: &str| {
        let statuses = post_all(&format!("http://127.0.0.1:{port}/in"), [body.to_owned()]);
        assert_eq!(statuses, [200]);
    };
    let run = start();
    sell(r#"{"item":"tea","amount":2.5,"number":7}"#);
    sell(r#"{"item":"milk","amount":1.0,"number":3}"#);
    sell(r#"{"item":"tea","amount":3.5,"number":6}"#);
    run.out_has("joined", 1);
    let questions = [
        (
            "from Stock select item, number order by item",
            "item  number\n----  ------\nmilk  3\ntea   6\n",
        ),
        (
            "from Kept on amount > 2.0 select item, sum(amount) as total group by item",
            "item  total\n----  -----\ntea   6.0\n",
        ),
        (
            "from Totals within 0L, 9999999999999L per 'year' select item, total, n order by item",
            "item  total  n\n----  -----  -\nmilk  1.0    1\ntea   6.0    2\n",
        ),
    ];
    let ask_all = || {
        questions
            .iter()
            .for_each(|(query, answer)| check(query, answer))
    };
    ask_all();
    assert_eq!(run.stop().0, Some(0));
    // From files, then from the log after a kill.
    let run = start();
    ask_all();
    let output = headwater(&[
        "query",
        "--url",
        &url,
        "select 'rum' as item, 1 as number insert into Stock",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    run.kill();
    let run = start();
    check(
        "from Stock on item == 'rum' select number",
        "number\n------\n1\n",
    );
    check(
        "delete Stock on Stock.item == 'rum'",
        "0 inserted, 0 updated, 1 deleted\n",
    );
    ask_all();
    assert_eq!(run.stop().0, Some(0));
}

// shows: store eventstore reload
#[test]
fn apps_share_a_store_and_are_read_again_one_by_one() {
    let place = Place::new();
    fs::create_dir(place.path("apps")).expect("a folder");
    let ports = [free_port(), free_port()];
    let app = |name: &str, port: u16, more: &str| {
        format!(
            "@app:name('{name}')
            @source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
            define stream In (n int);
            @store(type='eventstore') define table Rows{name} (n int);
            from In select n {more} insert into Rows{name};"
        )
    };
    place.write("apps/a.siddhi", &app("A", ports[0], ""));
    place.write("apps/b.siddhi", &app("B", ports[1], ""));
    let (apps, store) = (place.text("apps"), place.text("data"));
    let run = Running::connected(&[&apps, "--store", &store], 2);
    let send = |port: u16, n: u32| {
        let sent = post_all(
            &format!("http://127.0.0.1:{port}/in"),
            [format!("{{\"n\":{n}}}")],
        );
        assert_eq!(sent, [200]);
    };
    send(ports[0], 1);
    send(ports[1], 2);
    let has = |table: &str, want: &[i64]| {
        eventually(&format!("{table} has {want:?}"), || {
            let Ok(reader) = Reader::open(&place.path("data")) else {
                return false;
            };
            let Ok(rows) = reader.rows(table) else {
                return false;
            };
            let found: Vec<i64> = (0..rows.len)
                .filter_map(|row| rows.row(row)[0].to_long())
                .collect();
            found == want
        });
    };
    has("rowsa", &[1]);
    place.write("apps/b.siddhi", &app("B", ports[1], "+ 10 as n"));
    run.reload();
    run.err_has("apps reloaded", 1);
    send(ports[1], 3);
    send(ports[0], 4);
    has("rowsb", &[2, 13]);
    has("rowsa", &[1, 4]);
    assert_eq!(run.stop().0, Some(0));
}

/// The only file of a table.
fn only_file(place: &Place, table: &str) -> PathBuf {
    let files = fs::read_dir(place.path("data/tables").join(table)).expect("the table");
    let mut files = files.map(|entry| entry.expect("an entry").path());
    let is_file = |path: &PathBuf| path.extension().is_some_and(|e| e == "parquet");
    let file = files.find(is_file).expect("a file");
    assert!(!files.any(|path| is_file(&path)), "there is one");
    file
}

#[test]
fn a_question_about_the_store_does_not_hold_up_its_app() {
    let place = Place::new();
    let (port, http) = (free_port(), free_port());
    let app = place.write(
        "watch.siddhi",
        &"@app:name('Watch')
        @source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
        define stream In (n int);
        @store(type='eventstore', commit.interval='1 hour') define table Kept (n int);
        @sink(type='log', prefix='passed') define stream Passed (n int);
        from In select n insert into Kept;
        from In select n insert into Passed;"
            .replace("{port}", &port.to_string()),
    );
    let (store, address) = (place.text("data"), format!("127.0.0.1:{http}"));
    let start = || Running::connected(&[&app, "--store", &store, "--http", &address], 1);
    let send = |n: u32| {
        let url = format!("http://127.0.0.1:{port}/in");
        assert_eq!(post_all(&url, [format!("{{\"n\":{n}}}")]), [200]);
    };
    let url = format!("http://{address}");
    let ask = || {
        let mut query = Command::new(env!("CARGO_BIN_EXE_headwater"));
        query.args(["query", "--url", &url, "from Kept select sum(n) as s"]);
        query
    };
    let run = start();
    send(1);
    assert_eq!(run.stop().0, Some(0));
    // A file that gives nothing until somebody writes to it: the question waits for as long as we like.
    let (file, aside) = (only_file(&place, "kept"), place.path("aside"));
    fs::rename(&file, &aside).expect("moved");
    let made = Command::new("mkfifo").arg(&file).status();
    assert!(made.expect("mkfifo starts").success());
    let run = start();
    let query = ask().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut query = query.expect("headwater starts");
    let mut pipe = None;
    eventually("the question reads the file", || {
        // Without a reader it cannot be opened in this way.
        let mut options = fs::File::options();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, NONBLOCK);
        pipe = options.write(true).open(&file).ok();
        pipe.is_some()
    });
    for n in 2..5 {
        send(n);
    }
    run.out_has("passed", 3);
    assert_eq!(query.try_wait().expect("looked at"), None, "it still reads");
    drop(pipe);
    let output = query.wait_with_output().expect("ended");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1 rows"), "the file is empty: {said}");
    fs::rename(&aside, &file).expect("moved back");
    let output = ask().output().expect("answered");
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(out, "s\n--\n10\n", "{said}");
    assert_eq!(run.stop().0, Some(0));
}

/// `O_NONBLOCK` of Linux.
const NONBLOCK: i32 = 0o4000;

#[test]
fn rows_in_another_order_and_an_index_change_no_answer() {
    let place = Place::new();
    let ordered = COPIER.replace(
        "commit.interval='1 sec')",
        "commit.interval='1 sec', cluster.by='amount') @Index('id')",
    );
    let app = place.write("copier.siddhi", &ordered);
    place.give("tea,2.5\nmilk,1.0\nrum,9.0\nrice,2.0\n");
    place.run(&app, &[]);
    let row = |id: &str, amount| vec![Value::str(id), Value::Double(amount)];
    let rows = [
        row("tea", 2.5),
        row("milk", 1.0),
        row("rum", 9.0),
        row("rice", 2.0),
    ];
    assert_eq!(place.rows("shop_sales"), rows);
    let log = place.path("data/tables/shop_sales/_delta_log/00000000000000000001.json");
    let log = fs::read_to_string(log).expect("the table's first commit");
    assert!(log.contains("headwater.clusterBy"), "{log}");
    // Another order is for files that come, and no other table.
    let app = place.write("copier.siddhi", COPIER);
    place.give("salt,0.5\n");
    place.run(&app, &[]);
    assert_eq!(place.rows("shop_sales")[4], row("salt", 0.5));
    let wrong = ordered.replace("cluster.by='amount'", "cluster.by='price'");
    let app = place.write("copier.siddhi", &wrong);
    let output = headwater(&["run", &app, "--store", &place.text("data"), "--until-done"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no attribute 'price'"), "{said}");
}

/// Prints the rows of a query about table `t` as delta-rs, Polars and DuckDB find them, a tuple a line.
const READER: &str = "
import sys
from deltalake import DeltaTable, QueryBuilder
reader, path, query = sys.argv[1:]
table = DeltaTable(path)
if reader == 'deltalake':
    found = QueryBuilder().register('t', table).execute(query).read_all()
    rows = zip(*[column.to_pylist() for column in found.columns])
elif reader == 'polars':
    import polars
    rows = polars.SQLContext(t=polars.scan_delta(path)).execute(query).collect().rows()
else:
    import duckdb
    # The extension for Delta cannot be had from PyPI; a table without deletion vectors is its files.
    files = table.file_uris()
    rows = duckdb.sql(query.replace('from t', f'from read_parquet({files!r})')).fetchall()
for row in rows:
    print(row)
";

#[test]
fn other_programs_read_the_tables() {
    let Some(deltalake) = wheel_or_skip("deltalake") else {
        return;
    };
    let others = ["polars", "duckdb"].map(|name| (name, wheel_or_skip(name)));
    let mut readers = vec![("deltalake", vec![deltalake.clone()])];
    for (name, wheel) in others {
        readers.extend(wheel.map(|wheel| (name, vec![deltalake.clone(), wheel])));
    }
    let place = Place::new();
    let app = place.write("copier.siddhi", COPIER);
    // Enough runs for a checkpoint, and for small files to become larger ones.
    let mut sum = 0.0;
    for part in 0..12 {
        let lines: String = (0..500)
            .map(|at| format!("ä{part}-{at},{at}.5\n"))
            .collect();
        sum += (0..500).map(|at| f64::from(at) + 0.5).sum::<f64>();
        place.give(&lines);
        place.run(&app, &[]);
    }
    let script = place.write("reader.py", READER);
    let table = place.text("data/tables/shop_sales");
    for (reader, wheels) in readers {
        let ask = |query: &str| {
            let paths = std::env::join_paths(&wheels).expect("plain paths");
            let output = Command::new("python3")
                .args([&script, reader, &table, query])
                .env("PYTHONPATH", paths)
                .output()
                .expect("python starts");
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stdout)
        };
        let answer = ask(
            "select count(*) as n, count(distinct id) as ids, sum(amount) as total, min(_id) as lowest from t",
        );
        let want = format!("(6000, 6000, {sum:?}, 1)\n");
        assert_eq!(answer, want, "{reader}");
        let answer = ask("select id, amount from t where amount > 499.0 and id like 'ä3-%'");
        assert_eq!(answer, "('ä3-499', 499.5)\n", "{reader}");
    }
}
