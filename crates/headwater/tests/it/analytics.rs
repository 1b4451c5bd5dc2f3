//! `/analytics` as clients of WSO2 DAS have it, and the function `search` of SQL.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value as Json, json};

use crate::network::{Running, curl, eventually, free_port, post_all, text};

fn headwater(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .env_remove("HEADWATER_URL")
        .env_remove("HEADWATER_TOKEN")
        .output()
        .expect("headwater starts")
}

const APP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream Sales (item string, place string, amount double);
@store(type='eventstore', commit.interval='{interval}', store.rows='{rows}', schema='item -i, place -f, amount -i -sp')
define table Kept (item string, place string, amount double);
from Sales select item, place, amount insert into Kept;
";

/// A server with a store, into which events are posted.
struct Shop {
    dir: tempfile::TempDir,
    port: u16,
    url: String,
    server: Running,
}

impl Shop {
    fn new(interval: &str, rows: bool) -> Shop {
        let dir = tempfile::tempdir().expect("a folder");
        let (port, http) = (free_port(), free_port());
        let app = APP
            .replace("{port}", &port.to_string())
            .replace("{interval}", interval)
            .replace("{rows}", &rows.to_string());
        fs::write(dir.path().join("shop.siddhi"), app).expect("written");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let address = format!("127.0.0.1:{http}");
        let (app, store) = (path("shop.siddhi"), path("data"));
        let args = [
            &*app,
            "--store",
            &store,
            "--http",
            &address,
            "--state-interval",
            "50ms",
        ];
        let server = Running::connected(&args, 1);
        Shop {
            dir,
            port,
            url: format!("http://{address}"),
            server,
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn sell(&self, item: &str, place: &str, amount: f64) {
        let body = json!({"item": item, "place": place, "amount": amount}).to_string();
        let url = format!("http://127.0.0.1:{}/in", self.port);
        assert_eq!(post_all(&url, [body]), [200]);
    }

    /// Status and body.
    fn ask(&self, verb: &str, path: &str, body: Option<&Json>) -> (String, Json) {
        let url = format!("{}/analytics{path}", self.url);
        let body = body.map(Json::to_string);
        let mut args = vec!["-X", verb, &url];
        if let Some(body) = &body {
            args.extend([
                "-H",
                "Content-Type: application/json",
                "--data-binary",
                body,
            ]);
        }
        let (status, text) = curl(&args);
        (
            status,
            serde_json::from_str(&text).unwrap_or(Json::String(text)),
        )
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Json) -> Json {
        let (status, json) = self.ask("POST", path, Some(body));
        assert_eq!(status, "200", "{json}");
        json
    }

    fn count(&self, query: &str) -> Json {
        self.post(
            "/search_count",
            &json!({"tableName": "KEPT", "query": query}),
        )
    }
}

#[test]
fn rows_of_an_app_are_searched_before_they_are_in_files() {
    let shop = Shop::new("1 hour", false);
    shop.sell("Green tea", "Ulm,Mitte", 2.5);
    shop.sell("Milk", "Ulm,Ost", 1.0);
    shop.sell("Black tea, strong", "Berlin", 4.0);
    // A row is seen once the checkpoint that holds it is committed.
    eventually("all rows are committed", || {
        shop.ask("GET", "/tables/kept/recordcount", None) == ("200".to_owned(), json!(3))
    });
    assert_eq!(shop.ask("GET", "/tables", None).1, json!(["KEPT"]));
    let tea = json!({"tableName": "kept", "query": "item:tea AND amount:[2 TO *]", "start": 0, "count": 10,
        "sortBy": [{"field": "amount", "sortType": "DESC"}]});
    let found = shop.post("/search", &tea);
    let items: Vec<&Json> = found
        .as_array()
        .expect("records")
        .iter()
        .map(|r| &r["values"]["item"])
        .collect();
    assert_eq!(items, ["Black tea, strong", "Green tea"]);
    assert_eq!(shop.count("item:mlik~"), json!(1));
    let facets = shop.post(
        "/facets",
        &json!({"tableName": "kept", "fieldName": "place", "scoreFunction": "amount"}),
    );
    assert_eq!(facets["categories"], json!({"Berlin": 4.0, "Ulm": 3.5}));
    let (status, refused) = shop.ask(
        "POST",
        "/search",
        Some(&json!({"tableName": "kept", "query": "item:"})),
    );
    assert_eq!((&*status, &refused["status"]), ("400", &json!("failed")));
    assert_eq!(
        refused["message"],
        "Invalid query, the end stands where a term is expected (at character 6)"
    );
    let (status, refused) = shop.ask("GET", "/tables/none/recordcount", None);
    assert_eq!(
        (&*status, &refused["message"]),
        ("404", &json!("Table : none does not exist."))
    );
    // Never from a cache.
    let (_, head) = curl(&["-D", "-", &format!("{}/analytics/tables", shop.url)]);
    let head = head.to_lowercase();
    for line in [
        "cache-control: no-cache",
        "pragma: no-cache",
        "expires: 0",
        "content-type: application/json",
    ] {
        assert!(head.contains(line), "{head}");
    }
    // The same from SQL, by the server and from its folder.
    let sql = "select item, amount from search('kept', 'item:tea -item:black')";
    let table = "item       amount\n---------  ------\nGreen tea  2.5\n";
    for more in [["--url", &shop.url], ["--store", &shop.path("data")]] {
        let output = headwater(&["sql", more[0], more[1], sql]);
        assert_eq!(text(&output.stdout), table, "{}", text(&output.stderr));
    }
    let scores = "select item, _score > 0 as fits from search('kept', 'item:tea') order by _score desc, _id limit 1";
    let output = headwater(&["sql", "--url", &shop.url, scores, "--format", "csv"]);
    assert_eq!(
        text(&output.stdout),
        "item,fits\nGreen tea,true\n",
        "{}",
        text(&output.stderr)
    );
    for (sql, says) in [
        (
            "select * from search('kept', 'itm:tea')",
            "did you mean 'item'?",
        ),
        (
            "select * from search('kpt', 'item:tea')",
            "did you mean 'kept'?",
        ),
        ("select * from search('kept')", "takes two texts"),
    ] {
        let output = headwater(&["sql", "--url", &shop.url, sql]);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(1) && said.contains(says),
            "{said}"
        );
    }
    assert_eq!(shop.server.stop().0, Some(0));
}

#[test]
fn an_index_follows_the_files_of_a_table() {
    let shop = Shop::new("100 millisec", true);
    let index = Path::new(&shop.path("data")).join("index/kept/meta.json");
    let mut sold = 0;
    eventually("an index of the files", || {
        shop.sell("Green tea", "Ulm", 1.0);
        sold += 1;
        let has_files = fs::read_to_string(&index).is_ok_and(|meta| meta.contains("parquet"));
        // Whatever the index has by now.
        eventually("what was sold is found", || {
            shop.count("item:green") == json!(sold)
        });
        has_files && sold >= 10
    });
    let (status, said) = shop.ask("DELETE", "/tables/kept/indexData", None);
    assert_eq!((&*status, &said["status"]), ("200", &json!("success")));
    assert_eq!(shop.count("item:green"), json!(sold));
    assert_eq!(shop.server.stop().0, Some(0));
}

#[test]
fn every_path_of_the_document_is_answered() {
    let shop = Shop::new("1 hour", false);
    let (_, document) = curl(&[&format!("{}/openapi.json", shop.url)]);
    let document: Json = serde_json::from_str(&document).expect("JSON");
    let paths = document["paths"].as_object().expect("paths").iter();
    let mut answered = 0;
    for (path, operations) in paths.filter(|(path, _)| path.starts_with("/analytics/")) {
        for verb in operations.as_object().expect("operations").keys() {
            let path = path
                .replace("{table}", "kept")
                .replace("{store}", "EVENT_STORE");
            let path = path
                .replace(['{', '}'], "")
                .replace("/from", "/0")
                .replace("/to", "/1");
            let path = path.replace("/start", "/0").replace("/count", "/1");
            let body = if path.ends_with("multi_aggregates") {
                json!([])
            } else {
                json!({})
            };
            let body = Some(body).filter(|_| verb == "post");
            let path = path.strip_prefix("/analytics").expect("it begins so");
            let path = format!("{path}?table=kept");
            let (status, answer) = shop.ask(&verb.to_uppercase(), &path, body.as_ref());
            assert!(
                ["200", "400"].contains(&&*status),
                "{verb} {path}: {status} {answer}"
            );
            answered += 1;
        }
    }
    assert!(answered >= 26, "{answered}");
    assert_eq!(shop.server.stop().0, Some(0));
}

#[test]
fn a_server_without_a_store_says_what_to_do() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = dir.path().join("a.siddhi");
    fs::write(&app, "@app:name('A') define stream S (n int);\n@source(type='inMemory', topic='t', @map(type='passThrough')) define stream T (n int);\nfrom T select n insert into S;").expect("written");
    let address = format!("127.0.0.1:{}", free_port());
    let server = Running::start(&[&app.display().to_string(), "--http", &address]);
    server.err_has("HTTP server is listening", 1);
    let (status, body) = curl(&[&format!("http://{address}/analytics/tables")]);
    assert_eq!(
        (&*status, &*body),
        (
            "501",
            r#"{"status":"failed","message":"the server has no event store: run it with --store DIR"}"#
        )
    );
    assert_eq!(server.stop().0, Some(0));
}
