//! On-demand queries to a real server: `headwater query`, and Streaming Integrator's REST path.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::network::{Running, curl, free_port, post_all};

const APP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Sales (item string, amount double, number int);
@PrimaryKey('item') define table Stock (item string, number int);
@store(type='rdbms', jdbc.url='jdbc:sqlite:{db}') define table Kept (item string, amount double);
define window Newest (item string, amount double) length(2);
define aggregation Totals from Sales select item, sum(amount) as total, count() as n group by item aggregate every sec ... year;
from Sales select item, number update or insert into Stock on Stock.item == item;
from Sales select item, amount insert into Kept;
from Sales select item, amount insert into Newest;
";

struct Shop {
    run: Running,
    url: String,
    _dir: tempfile::TempDir,
}

fn shop() -> Shop {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, http) = (free_port(), free_port());
    let text = APP
        .replace("{port}", &port.to_string())
        .replace("{db}", &dir.path().join("kept.db").display().to_string());
    let app = write(dir.path(), "shop.siddhi", &text);
    let run = Running::connected(&[&app, "--http", &format!("127.0.0.1:{http}")], 1);
    let sales = [
        r#"{"item":"tea","amount":2.5,"number":7}"#,
        r#"{"item":"milk","amount":1.0,"number":3}"#,
        r#"{"item":"tea","amount":3.5,"number":6}"#,
    ];
    let statuses = post_all(
        &format!("http://127.0.0.1:{port}/in"),
        sales.map(str::to_owned),
    );
    assert_eq!(statuses, [200; 3]);
    Shop {
        run,
        url: format!("http://127.0.0.1:{http}"),
        _dir: dir,
    }
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).expect("the folder can be written");
    path.display().to_string()
}

/// Exit code, standard output and standard error.
fn query(url: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["query", "--url", url])
        .args(more)
        .output()
        .expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn tables_windows_and_aggregations_answer_a_running_server_s_user() {
    let shop = shop();
    let check = |text: &str, answer: &str| {
        let (code, out, err) = query(&shop.url, &[text]);
        assert_eq!((code, out.as_str()), (Some(0), answer), "{text}: {err}");
    };
    check(
        "from Stock select item, number order by item",
        "item  number\n----  ------\nmilk  3\ntea   6\n",
    );
    check(
        "from Kept on amount > 2.0 select item, sum(amount) as total group by item",
        "item  total\n----  -----\ntea   6.0\n",
    );
    check(
        "from Newest select amount order by amount",
        "amount\n------\n1.0\n3.5\n",
    );
    check(
        "from Totals within 0L, 9999999999999L per 'years' select item, total, n order by item",
        "item  total  n\n----  -----  -\nmilk  1.0    1\ntea   6.0    2\n",
    );
    check("from Stock on number > 100", "item  number\n----  ------\n");
    let done = "0 inserted, 1 updated, 0 deleted\n";
    check(
        "update Stock set Stock.number = 9 on Stock.item == 'tea'",
        done,
    );
    check(
        "delete Kept on Kept.item == 'milk'",
        "0 inserted, 0 updated, 1 deleted\n",
    );
    check(
        "select 'soap' as item, 4.0 as amount insert into Kept",
        "1 inserted, 0 updated, 0 deleted\n",
    );
    check(
        "from Kept select item, amount order by amount",
        "item  amount\n----  ------\ntea   2.5\ntea   3.5\nsoap  4.0\n",
    );
    let (code, out, _) = query(&shop.url, &["from Stock on item == 'tea'", "--json"]);
    assert_eq!(code, Some(0));
    for part in [
        r#""version":1"#,
        r#""records":[["tea",9]]"#,
        r#""dataType":"INT""#,
    ] {
        let dense: String = out.split_whitespace().collect();
        assert!(dense.contains(part), "{out}");
    }
    shop.run.stop();
}

#[test]
fn a_query_at_fault_is_shown_with_its_place() {
    let shop = shop();
    let check = |text: &str, parts: &[&str]| {
        let (code, out, err) = query(&shop.url, &[text]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{text}");
        for part in parts {
            assert!(err.contains(part), "{err}");
        }
    };
    check(
        "from Stok select item",
        &["query:1:6", "did you mean 'Stock'"],
    );
    check("from Stock select itm", &["query:1:19", "item"]);
    check("from Stock selekt item", &["query:1:12"]);
    let reversed = "from Totals within 5L, 3L per 'days' select item";
    check(reversed, &["query:1:20", "5 is not before 3"]);
    let (code, _, err) = query("http://127.0.0.1:1", &["from Stock"]);
    assert_eq!(code, Some(3), "{err}");
    assert_eq!(query("ftp://nowhere", &["from Stock"]).0, Some(2));
    let (code, _, err) = query(&shop.url, &["from Stock", "--app", "Other"]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("there is no app 'Other'; running: 'Shop'"),
        "{err}"
    );
    shop.run.stop();
}

#[test]
fn the_rest_path_of_streaming_integrator_is_served() {
    let shop = shop();
    let url = format!("{}/stores/query", shop.url);
    let post = |body: &str| curl(&["-H", "Content-Type: application/json", "-d", body, &url]);
    let ask = r#"{"appName":"Shop","query":"from Stock select item, number order by item;"}"#;
    let answer = r#"{"records":[["milk",3],["tea",6]]}"#;
    assert_eq!(post(ask), ("200".to_owned(), answer.to_owned()));
    let none = r#"{"appName":"Shop","query":"from Stock on number > 50 select item"}"#;
    assert_eq!(post(none).1, r#"{"records":[]}"#);
    for (body, status, part) in [
        (
            r#"{"appName":"Shop","query":" "}"#,
            "400",
            "the query is empty",
        ),
        (r#"{"appName":"Shop"}"#, "400", "the query is empty"),
        ("nonsense", "400", "not JSON"),
        (
            r#"{"appName":"X","query":"from Stock"}"#,
            "404",
            "no app 'X'",
        ),
        (r#"{"appName":"Shop","query":"from Stok"}"#, "400", "Stok"),
    ] {
        let (got, text) = post(body);
        assert_eq!(got, status, "{text}");
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(curl(&[&url]).0, "405");
    let long = format!(r#"{{"query":"{}"}}"#, "x".repeat(2 << 20));
    let file = shop._dir.path().join("long");
    fs::write(&file, long).expect("the folder can be written");
    let (status, _) = curl(&["--json", &format!("@{}", file.display()), &url]);
    assert_eq!(status, "413");
    shop.run.stop();
}
