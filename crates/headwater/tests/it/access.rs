//! Who may do what at `--http`: users, tokens, roles, TLS and the audit log, with a real server.
//!
//! The table of paths and roles in docs/security.md is what the server is held to, case by case.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::network::{Running, curl, eventually, free_port, piped, text};

const APP: &str = "@app:name('Shop')
define stream Sales (item string, number int);
@PrimaryKey('item') define table Stock (item string, number int);
from Sales select item, number update or insert into Stock on Stock.item == item;
";

const ROLES: [&str; 4] = ["read", "operate", "deploy", "admin"];

/// A state directory with an app beside it, and a user for each role.
struct Place {
    dir: tempfile::TempDir,
    /// A token of each role, in their order.
    tokens: Vec<String>,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("shop.siddhi"), APP).expect("it can be written");
        let mut place = Place {
            dir,
            tokens: Vec::new(),
        };
        for role in ROLES {
            done(&place.users(&["add", role, "--role", role]));
            let made = done(&place.users(&["token", role]));
            place.tokens.push(made.trim().to_owned());
        }
        place
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn users(&self, args: &[&str]) -> Output {
        let state = self.path("state");
        headwater(&[&["users"][..], args, &["--state", &state]].concat())
    }

    fn start(&self, address: &str, more: &[&str]) -> Running {
        let (app, state) = (self.path("shop.siddhi"), self.path("state"));
        let all = [&[&*app, "--state", &state, "--http", address][..], more].concat();
        let running = Running::start(&all);
        running.err_has("HTTP server is listening", 1);
        running
    }

    fn token(&self, role: &str) -> &str {
        let at = ROLES.iter().position(|known| *known == role);
        &self.tokens[at.expect("a role")]
    }

    fn audit(&self) -> Vec<Json> {
        let text = fs::read_to_string(self.path("state/audit.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).expect("each line is an object"))
            .collect()
    }
}

fn headwater(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .env_remove("HEADWATER_TOKEN")
        .output()
        .expect("the binary starts")
}

/// Standard output of a command that went well.
#[track_caller]
fn done(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    text(&output.stdout)
}

/// Standard error of a command that did not.
#[track_caller]
fn failed(output: &Output, code: i32) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// Verb, path and role as docs/security.md has them.
fn documented() -> BTreeSet<[String; 3]> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = fs::read_to_string(page).expect("it is there");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let (verb, path) = cells.next()?.strip_suffix('`')?.split_once(' ')?;
        let role = cells.next()?.trim_end_matches(" |");
        path.starts_with('/')
            .then(|| [verb, path, role].map(str::to_owned))
    });
    rows.collect()
}

fn request(url: &str, verb: &str, token: Option<&str>) -> (String, Json) {
    let bearer = token.map(|token| format!("Authorization: Bearer {token}"));
    let mut args = vec!["-X", verb, url];
    if let Some(bearer) = &bearer {
        args.extend(["-H", bearer]);
    }
    let (status, body) = curl(&args);
    (status, serde_json::from_str(&body).unwrap_or_default())
}

#[test]
fn each_path_is_denied_and_allowed_by_role_as_the_page_says() {
    let place = Place::new();
    let http = format!("127.0.0.1:{}", free_port());
    let running = place.start(&http, &[]);
    running.err_has("everybody logs in", 1);
    let openapi = format!("http://{http}/openapi.json");
    let (_, document) = request(&openapi, "GET", Some(place.token("read")));
    let mut described = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (verb, operation) in operations.as_object().expect("operations") {
            let role = operation["x-role"].as_str().expect("a role");
            described.insert([&verb.to_uppercase(), path, role].map(str::to_owned));
        }
    }
    assert_eq!(described, documented(), "docs/security.md is out of date");
    for [verb, path, role] in &described {
        // Names that nobody has: what is allowed finds nothing, and changes nothing.
        let path = path.replace(['{', '}'], "");
        let url = format!("http://{http}{path}");
        let case = format!("{verb} {path}");
        let needed = ROLES.iter().position(|known| known == role);
        for (at, own) in ROLES.iter().enumerate() {
            let (status, body) = request(&url, verb, Some(place.token(own)));
            if needed.is_some_and(|needed| at < needed) {
                assert_eq!(status, "403", "{case} as {own}");
                let message = format!("this needs the role {role}; yours is {own}");
                assert_eq!(body["message"], message, "{case}");
                // Clients of WSO2 DAS know a refusal by its word.
                if path.starts_with("/analytics/") {
                    assert_eq!(body["status"], "unauthorized", "{case}");
                }
            } else {
                assert!(
                    !["401", "403", "429", "000"].contains(&&*status),
                    "{case} as {own}: {status}"
                );
            }
        }
        let (status, _) = request(&url, verb, None);
        match needed {
            Some(_) => assert_eq!(status, "401", "{case} as nobody"),
            None => assert_ne!(status, "401", "{case} as nobody"),
        }
    }
    // What is not there is told to users alone.
    for (path, verb, status) in [("/nothing", "GET", "404"), ("/metrics", "DELETE", "405")] {
        let url = format!("http://{http}{path}");
        assert_eq!(
            request(&url, verb, None).0,
            if status == "404" { "401" } else { status }
        );
        assert_eq!(request(&url, verb, Some(place.token("read"))).0, status);
    }
    assert_eq!(running.stop().0, Some(0));
}

#[test]
fn nobody_has_a_password_from_the_start_and_guessing_takes_time() {
    let place = Place::new();
    let long = b"correct horse battery\n";
    let path = place.path("state");
    let mut add = Command::new(env!("CARGO_BIN_EXE_headwater"));
    add.args([
        "users",
        "add",
        "anna",
        "--role",
        "operate",
        "--password-stdin",
        "--state",
        &path,
    ]);
    done(&piped(&mut add, long));
    let http = format!("127.0.0.1:{}", free_port());
    let running = place.start(&http, &[]);
    let url = format!("http://{http}/siddhi-apps/statistics");
    let login = |pair: &str| curl(&["-u", pair, &url]).0;
    assert_eq!(login("anna:correct horse battery"), "200");
    for pair in [
        "admin:admin",
        "admin:",
        "read:",
        "admin:changeit",
        "anna:wrong",
    ] {
        assert_eq!(login(pair), "401", "{pair}");
    }
    let headers = text(
        &Command::new("curl")
            .args(["-s", "-i", "-u", "anna:wrong again", &url])
            .output()
            .expect("curl is installed")
            .stdout,
    );
    assert!(headers.starts_with("HTTP/1.1 429 "), "{headers}");
    assert!(headers.contains("retry-after: "), "{headers}");
    assert_eq!(
        request(&url, "GET", Some(place.token("read"))).0,
        "200",
        "a right token is let in"
    );
    // The header comes before the body, which is not waited for.
    let mut stream = TcpStream::connect(&http).expect("it listens");
    let head =
        "POST /stores/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    write!(stream, "{head}Content-Length: 1000\r\n\r\n").expect("it reads");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("it answers");
    assert_eq!(&answer, b"HTTP/1.1 401");
    // Nothing that lets anybody in is in a file or in the log.
    let mut kept = running.err();
    for entry in fs::read_dir(place.path("state")).expect("it is there") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            kept += &text(&fs::read(path).expect("it can be read"));
        }
    }
    for secret in place
        .tokens
        .iter()
        .map(|t| &**t)
        .chain(["correct horse", "wrong again"])
    {
        assert!(
            !kept.contains(secret),
            "{secret} is in a file or in the log"
        );
    }
    let denied = place
        .audit()
        .into_iter()
        .filter(|line| line["outcome"] == "refused");
    let denied: Vec<Json> = denied.collect();
    assert_eq!(denied.len(), 5, "{denied:?}");
    assert_eq!(denied[4]["user"], "anna");
    assert_eq!(denied[4]["detail"], "login refused");
    assert_eq!(running.stop().0, Some(0));
}

#[test]
fn changes_are_in_the_audit_log_and_a_removed_user_is_out_at_once() {
    let place = Place::new();
    let http = format!("127.0.0.1:{}", free_port());
    let running = place.start(&http, &[]);
    let ask = |role: &str, args: &[&str]| {
        let token = place.token(role);
        headwater(&[args, &["--url", &http, "--token", token]].concat())
    };
    done(&ask("operate", &["send", "Shop/Sales", "tea", "3"]));
    let found = done(&ask("read", &["query", "from Stock select item, number"]));
    assert!(found.contains("tea"), "{found}");
    let delete = "delete Stock on Stock.item == 'tea'";
    let said = failed(&ask("read", &["query", delete]), 1);
    assert!(
        said.contains("this needs the role operate; yours is read"),
        "{said}"
    );
    done(&ask("operate", &["query", delete]));
    done(&ask(
        "operate",
        &["statistics", "Shop", "--level", "detail"],
    ));
    let said = failed(&headwater(&["statistics", "--url", &http]), 1);
    assert!(
        said.contains("needs a login: set HEADWATER_TOKEN"),
        "{said}"
    );
    let lines = place.audit();
    let has = |user: &str, what: &str, detail: &str, outcome: &str| {
        let is_it = |line: &&Json| {
            line["user"] == user
                && line["what"].as_str().is_some_and(|it| it.contains(what))
                && line["detail"].as_str().unwrap_or_default().contains(detail)
                && line["outcome"] == outcome
        };
        assert_eq!(
            lines.iter().filter(is_it).count(),
            1,
            "{user} {what}: {lines:#?}"
        );
    };
    has(
        "operate",
        "/siddhi-apps/Shop/streams/Sales/events",
        "1 rows sent",
        "done",
    );
    has("read", "/stores/query", delete, "refused");
    has("operate", "/stores/query", delete, "done");
    has(
        "operate",
        "PUT /siddhi-apps/Shop/statistics",
        "level DETAIL",
        "done",
    );
    let added = lines
        .iter()
        .find(|line| line["what"] == "user 'operate' added with role operate");
    assert_eq!(added.expect("it is noted")["from"], "command line");
    // Pages of other sites are refused whatever they show.
    let bearer = format!("Authorization: Bearer {}", place.token("admin"));
    let url = format!("http://{http}/siddhi-apps/statistics");
    for foreign in ["Host: evil.example", "Origin: https://evil.example"] {
        assert_eq!(
            curl(&["-H", &bearer, "-H", foreign, &url]).0,
            "403",
            "{foreign}"
        );
    }
    assert_eq!(curl(&["-H", &bearer, &url]).0, "200");
    done(&place.users(&["remove", "admin"]));
    assert_eq!(curl(&["-H", &bearer, &url]).0, "401", "without a restart");
    let list = done(&place.users(&["list", "--json"]));
    let list: Json = serde_json::from_str(&list).expect("a document");
    let id = list["users"][0]["tokens"][0]["id"].as_str().expect("an id");
    done(&place.users(&["revoke", "read", id]));
    let said = failed(&ask("read", &["query", "from Stock select item"]), 1);
    assert!(said.contains("does not accept the token"), "{said}");
    assert_eq!(running.stop().0, Some(0));
}

fn certificate(place: &Place, name: &str) -> [String; 2] {
    certificate_in(place.dir.path(), name)
}

/// A key and a certificate for localhost, signed by itself.
pub(crate) fn certificate_in(dir: &Path, name: &str) -> [String; 2] {
    let [certificate, key] = [format!("{name}.pem"), format!("{name}.key")]
        .map(|name| dir.join(name).display().to_string());
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args(["-subj", &format!("/CN={name}"), "-days", "2"])
        .args([
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .args(["-keyout", &key, "-out", &certificate])
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", text(&made.stderr));
    [certificate, key]
}

#[test]
fn beyond_loopback_it_needs_users_and_tls_and_a_renewed_certificate_counts_after_sighup() {
    let place = Place::new();
    let [pem, key] = certificate(&place, "first");
    let (app, state) = (place.path("shop.siddhi"), place.path("state"));
    let port = free_port();
    let address = format!("0.0.0.0:{port}");
    let run = |more: &[&str]| headwater(&[&["run", &app, "--http", &address], more].concat());
    let tls = ["--http-cert", &*pem, "--http-key", &*key];
    for (more, lacks) in [
        (&[][..], "nobody has to log in, and there is no TLS"),
        (&["--state", &state], "there is no TLS"),
        (&tls, "nobody has to log in."),
    ] {
        let said = failed(&run(more), 2);
        for part in [
            lacks,
            "127.0.0.1",
            "headwater users add",
            "--http-cert",
            "--insecure",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    let said = failed(
        &run(&["--state", &state, "--http-cert", &app, "--http-key", &key]),
        2,
    );
    assert!(said.contains("shop.siddhi"), "{said}");
    let running = place.start(&address, &tls);
    let url = format!("https://localhost:{port}");
    let query = |trusted: &str| {
        let token = place.token("read");
        let args = [
            "query",
            "from Stock select item",
            "--url",
            &url,
            "--token",
            token,
        ];
        headwater(&[&args[..], &["--cacert", trusted]].concat())
    };
    done(&query(&pem));
    let [other_pem, other_key] = certificate(&place, "second");
    let said = failed(&query(&other_pem), 3);
    assert!(said.contains("certificate"), "{said}");
    // In the clear there is no answer.
    assert_eq!(curl(&[&format!("http://localhost:{port}/health")]).0, "000");
    fs::copy(&other_pem, &pem).expect("it can be written");
    fs::copy(&other_key, &key).expect("it can be written");
    running.reload();
    eventually("the new certificate", || query(&other_pem).status.success());
    // A file that is none changes nothing.
    fs::write(&pem, "nonsense").expect("it can be written");
    running.reload();
    running.err_has("cannot reload the certificate", 1);
    done(&query(&other_pem));
    assert_eq!(running.stop().0, Some(0));
}

#[test]
fn who_may_only_read_sees_neither_secrets_of_apps_nor_what_is_in_events() {
    let place = Place::new();
    let app = "@app:name('Shop')
@sink(type='http', publisher.url='http://anna:urlpass@127.0.0.1:1/x', basic.auth.username='anna', basic.auth.password='optpass', on.error='STORE', @map(type='json'))
define stream Sales (item string, number int);
";
    fs::write(place.path("shop.siddhi"), app).expect("it can be written");
    let http = format!("127.0.0.1:{}", free_port());
    let running = place.start(&http, &["--insecure"]);
    let url = format!("http://{http}");
    let ask = |role: &str, args: &[&str], path: &str| {
        let login = format!("Authorization: Bearer {}", place.token(role));
        let whole = format!("{url}{path}");
        let all = [&["-H", &*login], args, &[&*whole]].concat();
        let (status, body) = curl(&all);
        let json: Json = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status} {body}"));
        (status, json)
    };
    for (role, is_whole) in [("read", false), ("operate", false), ("deploy", true)] {
        let content = ask(role, &[], "/siddhi-apps/Shop").1["content"].to_string();
        for secret in ["urlpass", "optpass"] {
            assert_eq!(content.contains(secret), is_whole, "{role}: {content}");
        }
        assert!(content.contains("127.0.0.1:1/x"), "{content}");
    }
    let event = r#"{"item":"private","number":1}"#;
    let kind = "Content-Type: application/json";
    let path = "/siddhi-apps/Shop/streams/Sales/events";
    let (status, json) = ask("operate", &["-H", kind, "-d", event], path);
    assert_eq!(status, "200", "{json}");
    let mut number = Json::Null;
    eventually("the event is rejected", || {
        number = ask("read", &[], "/errors?payload=true").1["events"][0]["number"].clone();
        number.is_u64()
    });
    for path in [
        "/errors?payload=true",
        &format!("/errors/{number}"),
        "/error-handler/erroneous-events",
        &format!("/error-handler/erroneous-events/{number}"),
    ] {
        for (role, is_shown) in [("read", false), ("operate", true)] {
            let (status, json) = ask(role, &[], path);
            assert_eq!(status, "200", "{json}");
            assert_eq!(
                json.to_string().contains("private"),
                is_shown,
                "{role} {path}: {json}"
            );
        }
    }
    let (_, json) = ask("read", &[], &format!("/errors/{number}"));
    assert!(
        json["payload_withheld"].to_string().contains("operate"),
        "{json}"
    );
    for (args, path, says) in [
        (&[][..], "/errors?limit=1001", "'limit' is '1001'"),
        (
            &[][..],
            "/error-handler/erroneous-events?limit=x",
            "'limit' is 'x'",
        ),
        (
            &["-H", kind, "-d", r#"[{"id":1},{"id":0}]"#][..],
            "/error-handler",
            "[1].id is 0",
        ),
        (
            &["-H", kind, "-d", r#"{"number":0}"#][..],
            "/errors/purge",
            "'0' is no number",
        ),
    ] {
        let (status, json) = ask("operate", args, path);
        assert!(
            status == "400" && json["message"].to_string().contains(says),
            "{path}: {status} {json}"
        );
    }
    running.stop();
}
