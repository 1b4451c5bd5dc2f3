//! Sessions over real connections, with an engine that answers what a statement says.

use std::io::{Read as _, Write as _};
use std::net::TcpStream as Stream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use lang::diagnostic::{Diagnostic, Kind, Severity as OfDiagnostic};
use lang::span::Span;

use super::*;
use crate::access::Role;
use crate::access::users::Users;

/// `rows N` gives so many rows in two parts, `wait` never ends, anything else is wrong at its second word.
#[derive(Default)]
struct Engine {
    open: Arc<AtomicUsize>,
}

struct Answer {
    parts: Vec<Part>,
    is_endless: bool,
    refusal: Option<SqlRefusal>,
    open: Arc<AtomicUsize>,
}

fn column() -> Vec<Column> {
    vec![Column {
        name: "n".to_owned(),
        oid: 25,
        size: -1,
    }]
}

fn wrong(sql: &str) -> SqlRefusal {
    let at = sql.find(' ').map_or(0, |at| at + 1) as u32;
    SqlRefusal::Statement(Box::new(Diagnostic {
        code: "",
        severity: OfDiagnostic::Error,
        kind: Kind::Syntax,
        message: "there is no table 'x'".to_owned(),
        span: Span::new(at, at + 1),
        label: String::new(),
        related: Vec::new(),
        help: Some("did you mean 'y'?".to_owned()),
        fix: None,
    }))
}

impl RowsEngine for Engine {
    fn describe(&self, sql: String, types: Vec<u32>, _: Asker) -> Describing {
        Box::pin(async move {
            match sql.starts_with("rows") {
                true => Ok(Description {
                    parameters: types,
                    columns: column(),
                }),
                false => Err(wrong(&sql)),
            }
        })
    }

    fn rows(&self, question: Question) -> Box<dyn Rows> {
        self.open.fetch_add(1, Ordering::SeqCst);
        let count = question.sql.strip_prefix("rows ");
        let count: Option<usize> = count.and_then(|count| count.trim().parse().ok());
        let rows = |from: usize, to: usize| {
            let mut out = Out::default();
            (from..to).for_each(|at| out.row(&[&at.to_string()]));
            Part::Rows {
                bytes: out.0.into(),
                count: (to - from) as u64,
            }
        };
        let parts = count.map(|count| {
            let half = count / 2;
            // The last comes first.
            vec![rows(half, count), rows(0, half), Part::Columns(column())]
        });
        let is_endless = question.sql.starts_with("wait");
        Box::new(Answer {
            refusal: (parts.is_none() && !is_endless).then(|| wrong(&question.sql)),
            parts: parts.unwrap_or_default(),
            is_endless,
            open: Arc::clone(&self.open),
        })
    }
}

impl Rows for Answer {
    fn poll_part(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Part, SqlRefusal>>> {
        match (self.parts.pop(), self.refusal.take()) {
            (Some(part), _) => Poll::Ready(Some(Ok(part))),
            (None, Some(refusal)) => Poll::Ready(Some(Err(refusal))),
            (None, None) if self.is_endless => Poll::Pending,
            (None, None) => Poll::Ready(None),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Place {
    postgres: Postgres,
    open: Arc<AtomicUsize>,
}

fn options(users: Option<std::path::PathBuf>) -> HttpOptions {
    HttpOptions {
        address: "127.0.0.1:0".parse().expect("an address"),
        hosts: Vec::new(),
        is_insecure: false,
        tls: None,
        users,
        has_open_metrics: false,
        audit: None,
    }
}

impl Place {
    fn new(users: Option<std::path::PathBuf>) -> Place {
        let engine = Engine::default();
        let open = Arc::clone(&engine.open);
        let options = options(users.clone());
        let services = Services {
            engine: Arc::new(engine),
            turns: Arc::new(Semaphore::new(4)),
            hidden: Hidden::default(),
        };
        let door = Door::new(users, None).expect("sound users");
        let postgres = serve(&options, door, services).expect("a free port");
        Place { postgres, open }
    }

    fn connect(&self) -> Stream {
        let stream = Stream::connect(self.postgres.address()).expect("it listens");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("it can be set");
        stream
    }

    /// A session that has begun, and its key.
    fn session(&self) -> (Client, [u8; 8]) {
        let mut client = Client(self.connect());
        client.begin("anna");
        let begun = client.until(b'Z');
        let key = begun.iter().find(|(kind, _)| *kind == b'K');
        let key = key.expect("a key").1[..].try_into().expect("eight");
        (client, key)
    }

    fn eventually_open(&self, count: usize) {
        let begun = Instant::now();
        while self.open.load(Ordering::SeqCst) != count {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "never {count} are open"
            );
            std::thread::yield_now();
        }
    }
}

struct Client(Stream);

type Message = (u8, Vec<u8>);

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("it reads");
    }

    fn begin(&mut self, user: &str) {
        let parameters = [
            &196_608_u32.to_be_bytes()[..],
            b"user\0",
            user.as_bytes(),
            b"\0\0",
        ]
        .concat();
        let len = (parameters.len() as u32 + 4).to_be_bytes();
        self.send(&[&len[..], &parameters].concat());
    }

    fn ask(&mut self, kind: u8, body: &[u8]) {
        let mut out = Out::default();
        out.message(kind, |to| to.extend_from_slice(body));
        self.send(&out.0);
    }

    fn query(&mut self, sql: &str) -> Vec<Message> {
        self.ask(b'Q', &[sql.as_bytes(), b"\0"].concat());
        self.until(b'Z')
    }

    /// Messages up to one of a kind, or to the end.
    fn until(&mut self, last: u8) -> Vec<Message> {
        let mut all = Vec::new();
        let mut head = [0; 5];
        while self.0.read_exact(&mut head).is_ok() {
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; len as usize - 4];
            self.0.read_exact(&mut body).expect("whole messages");
            all.push((head[0], body));
            if head[0] == last {
                break;
            }
        }
        all
    }
}

fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// Fields of an error by their letters.
fn field(messages: &[Message], name: u8) -> String {
    let error = messages
        .iter()
        .find(|(kind, _)| matches!(kind, b'E' | b'N'));
    let fields = error.expect("an error").1.split(|byte| *byte == 0);
    let mut found = fields.filter(|field| field.first() == Some(&name));
    let found = found
        .next()
        .map(|field| String::from_utf8_lossy(&field[1..]).into_owned());
    found.unwrap_or_default()
}

#[test]
fn statements_are_answered_one_after_the_other_up_to_one_that_is_wrong() {
    let place = Place::new(None);
    let (mut client, _) = place.session();
    let answer = client.query("rows 4; rows 1");
    assert_eq!(kinds(&answer), "TDDDDCTDCZ");
    assert_eq!(answer[5].1, b"SELECT 4\0");
    assert_eq!(kinds(&client.query(" ; -- nothing")), "IZ");
    let answer = client.query("rows 1;\nsélect x; rows 1");
    assert_eq!(kinds(&answer), "TDCEZ");
    // Counted in characters of the whole text.
    assert_eq!(
        [b'C', b'P', b'H'].map(|name| field(&answer, name)),
        ["42P01", "16", "did you mean 'y'?"]
    );
    assert_eq!(
        kinds(&client.query("rows 1")),
        "TDCZ",
        "the session goes on"
    );
}

#[test]
fn a_failed_transaction_passes_statements_over_until_it_ends() {
    let place = Place::new(None);
    let (mut client, _) = place.session();
    let status = |messages: &[Message]| messages.last().expect("ready").1[0];
    assert_eq!(status(&client.query("begin")), b'T');
    assert_eq!(status(&client.query("wrong")), b'E');
    let answer = client.query("rows 1");
    assert_eq!(
        (field(&answer, b'C').as_str(), status(&answer)),
        ("25P02", b'E')
    );
    let answer = client.query("commit");
    assert_eq!(
        (&answer[0].1[..], status(&answer)),
        (&b"ROLLBACK\0"[..], b'I')
    );
    assert_eq!(kinds(&client.query("rows 1")), "TDCZ");
    let answer = client.query(
        "set application_name to 'x'; show application_name; set timezone to 'Europe/Berlin'",
    );
    assert_eq!(kinds(&answer), "CTDCNCSZ");
}

#[test]
fn prepared_statements_are_bound_and_give_rows_in_parts() {
    let place = Place::new(None);
    let (mut client, _) = place.session();
    client.query("begin");
    client.ask(b'P', b"s\0rows 5\0\0\0");
    client.ask(b'B', b"p\0s\0\0\0\0\0\0\0");
    client.ask(b'D', b"Pp\0");
    for _ in 0..3 {
        client.ask(b'E', b"p\0\0\0\0\x02");
    }
    client.ask(b'S', b"");
    assert_eq!(kinds(&client.until(b'Z')), "12TDDsDDsDCZ");
    // What follows an error is passed over up to the next sync.
    client.ask(b'B', b"p\0none\0\0\0\0\0\0\0");
    client.ask(b'E', b"p\0\0\0\0\0");
    client.ask(b'S', b"");
    let answer = client.until(b'Z');
    assert_eq!(
        (kinds(&answer).as_str(), field(&answer, b'C').as_str()),
        ("EZ", "26000")
    );
    client.query("rollback");
    client.ask(b'P', b"\0rows 1\0\0\0");
    client.ask(b'B', b"\0\0\0\0\0\x01\0\0\0\x01x\0\0");
    client.ask(b'S', b"");
    let answer = client.until(b'Z');
    assert_eq!(
        (kinds(&answer).as_str(), field(&answer, b'C').as_str()),
        ("1EZ", "08P01")
    );
}

#[test]
fn a_statement_ends_when_it_is_cancelled_and_when_its_client_goes_away() {
    let place = Place::new(None);
    let (mut client, key) = place.session();
    client.ask(b'Q', b"wait\0");
    place.eventually_open(1);
    // Whoever does not know the key ends nothing.
    for key in [[0; 8], key] {
        let mut other = place.connect();
        let cancel = [
            &16_u32.to_be_bytes()[..],
            &80_877_102_u32.to_be_bytes(),
            &key,
        ]
        .concat();
        other.write_all(&cancel).expect("it reads");
        assert_eq!(other.read(&mut [0; 1]).unwrap_or(0), 0, "no answer");
    }
    assert_eq!(field(&client.until(b'Z'), b'C'), "57014");
    place.eventually_open(0);
    assert_eq!(kinds(&client.query("rows 1")), "TDCZ");
    client.ask(b'Q', b"wait\0");
    place.eventually_open(1);
    drop(client);
    place.eventually_open(0);
}

#[test]
fn what_is_no_message_ends_the_connection_with_the_reason() {
    let place = Place::new(None);
    for (bytes, says) in [
        (
            &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            "no message of PostgreSQL",
        ),
        (&[0xff; 64], "no message of PostgreSQL"),
        (&[0, 0, 0, 8, 0, 2, 0, 0], "version 2.0"),
        (&[0, 0, 0, 9, 0, 3, 0, 0, 0], "no user"),
    ] {
        let mut client = Client(place.connect());
        client.send(bytes);
        let answer = client.until(b'E');
        assert!(
            field(&answer, b'M').contains(says),
            "{says}: {}",
            field(&answer, b'M')
        );
    }
    let (mut client, _) = place.session();
    client.send(&[b'Q', 0x7f, 0xff, 0xff, 0xff]);
    let answer = client.until(b'Z');
    assert_eq!(field(&answer, b'C'), "08P01", "{}", field(&answer, b'M'));
    // Others are served meanwhile, also beside those who say nothing.
    let silent: Vec<Stream> = (0..20).map(|_| place.connect()).collect();
    place.session();
    drop(silent);
}

#[test]
fn whoever_has_no_login_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("users");
    let token = Users::change(&path, |users| {
        let anna = users.add("anna", Role::Read)?;
        anna.set_password("correct horse battery")?;
        anna.add_token(Role::Read, 0, None)
    });
    let token = token.expect("she is added").secret;
    let place = Place::new(Some(path));
    let log_in = |password: &str| {
        let mut client = Client(place.connect());
        client.begin("anna");
        assert_eq!(client.until(b'R')[0].1, 3_u32.to_be_bytes());
        client.ask(b'p', &[password.as_bytes(), b"\0"].concat());
        client.until(b'Z')
    };
    for right in ["correct horse battery", &token] {
        assert_eq!(log_in(right).last().expect("ready").0, b'Z');
    }
    assert_eq!(field(&log_in("wrong"), b'C'), "28P01");
    let mut client = Client(place.connect());
    client.begin("anna");
    client.until(b'R');
    client.ask(b'Q', b"rows 1\0");
    assert_eq!(kinds(&client.until(b'Z')), "E", "no rows without a login");
}

#[test]
fn beyond_loopback_it_needs_users_and_tls() {
    let options = HttpOptions {
        address: "0.0.0.0:0".parse().expect("an address"),
        ..options(None)
    };
    let refused = check(&options).expect_err("refused").to_string();
    for part in ["--sql-postgres", "no TLS", "--insecure"] {
        assert!(refused.contains(part), "{refused}");
    }
}
