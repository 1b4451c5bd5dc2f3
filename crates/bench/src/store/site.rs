//! A server with an event store, and what is asked of it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::Value as Json;

use super::client::log_in;
use super::events::{Kind, Totals};
use super::http::Connection;
use crate::process::Process;

/// How long a server may take to listen, with a log to read before.
const START_MAX: Duration = Duration::from_secs(300);

/// How long what was acknowledged may take to be seen by SQL.
const SEEN_MAX: Duration = Duration::from_secs(120);

/// Who publishes and asks.
pub(super) const USER: &str = "bench";
pub(super) const PASSWORD: &str = "what-a-bench-knows";

/// That of the key store.
const KEY_PASSWORD: &str = "wso2carbon";

/// What a server keeps, and how.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    pub kind: Kind,
    /// Further options of the table, each with a comma before it.
    pub table: &'a str,
    /// Further arguments of `headwater run`.
    pub args: &'a [&'a str],
    /// Does everybody log in at `--http`?
    pub has_users: bool,
}

impl Setup<'_> {
    pub fn of(kind: Kind) -> Setup<'static> {
        Setup {
            kind,
            table: "",
            args: &[],
            has_users: false,
        }
    }
}

/// The folder of a server, which outlives it.
pub(super) struct Place {
    pub dir: PathBuf,
    binary: PathBuf,
    http: SocketAddr,
    /// Of Thrift: events, and events with TLS, where clients log in.
    thrift: [u16; 2],
    /// Of a user of `--http`; empty where nobody logs in.
    token: String,
}

pub(super) struct Site<'a> {
    pub place: &'a Place,
    pub process: Process,
    pub session: String,
}

impl Place {
    /// A place with an app, a key and a configuration.
    ///
    /// # Errors
    /// No port, or no `openssl` for the key.
    pub fn new(binary: &Path, dir: PathBuf, setup: Setup<'_>) -> anyhow::Result<Place> {
        let port = testservers::free_port;
        let mut place = Place {
            dir,
            binary: binary.to_owned(),
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, port()?)),
            thrift: [port()?, port()?],
            token: String::new(),
        };
        let kind = setup.kind;
        let app = format!(
            "@app:name('Bench')\n@source(type='wso2event', wso2.stream.id='{}', @map(type='wso2event'))\n\
             define stream Events ({attributes});\n@store(type='eventstore', table.name='{}'{})\n\
             define table Kept ({attributes});\nfrom Events select * insert into Kept;\n",
            kind.stream(),
            kind.table(),
            setup.table,
            attributes = kind.attributes(),
        );
        fs::write(place.dir.join("bench.siddhi"), app)?;
        place.make_key()?;
        let config = format!(
            "databridge.config:\n  keyStoreLocation: {}\n  keyStorePassword: {KEY_PASSWORD}\n  users:\n    - user:\n        \
             username: {USER}\n        password: {PASSWORD}\n  dataReceivers:\n    - dataReceiver:\n        type: Thrift\n        \
             properties:\n          hostName: 127.0.0.1\n          tcpPort: '{}'\n          sslPort: '{}'\n",
            place.dir.join("key.p12").display(),
            place.thrift[0],
            place.thrift[1]
        );
        fs::write(place.dir.join("deployment.yaml"), config)?;
        if setup.has_users {
            // A token: what is measured is the search, not how long a password takes to be compared.
            let users = place.dir.join("users.json");
            let mut add = Command::new(binary);
            add.args(["users", "add", USER, "--role", "read", "--users"]);
            testservers::run(add.arg(&users))?;
            let mut token = Command::new(binary);
            token.args(["users", "token", USER, "--users"]);
            place.token = testservers::run(token.arg(&users))?.trim().to_owned();
        }
        Ok(place)
    }

    /// A key with a certificate of its own, in the form that WSO2's products have.
    fn make_key(&self) -> anyhow::Result<()> {
        let [key, certificate, store] =
            ["key.pem", "cert.pem", "key.p12"].map(|n| self.dir.join(n));
        let mut request = Command::new("openssl");
        request.args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ]);
        request
            .args(["-subj", "/CN=localhost", "-keyout"])
            .arg(&key);
        testservers::run(request.arg("-out").arg(&certificate))?;
        let mut export = Command::new("openssl");
        export.args([
            "pkcs12",
            "-export",
            "-passout",
            &format!("pass:{KEY_PASSWORD}"),
            "-inkey",
        ]);
        export.arg(&key).arg("-in").arg(&certificate);
        testservers::run(export.arg("-out").arg(&store))?;
        Ok(())
    }

    pub fn store(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The folder of the table.
    pub fn table(&self, kind: Kind) -> PathBuf {
        self.store().join("tables").join(kind.table())
    }

    /// Starts the server, and waits until it answers.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(&self, setup: Setup<'_>) -> anyhow::Result<Site<'_>> {
        let said = self.dir.join("said.txt");
        let mut command = Command::new(&self.binary);
        command
            .args([
                "run",
                "bench.siddhi",
                "--store",
                "data",
                "--config",
                "deployment.yaml",
            ])
            .args(["--http", &self.http.to_string()])
            .args(setup.args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said)?);
        if setup.has_users {
            command.args(["--users", "users.json"]);
        }
        let process = Process::start(&mut command)?;
        let deadline = Instant::now() + START_MAX;
        let thrift = SocketAddr::from((Ipv4Addr::LOCALHOST, self.thrift[1]));
        for address in [self.http, thrift] {
            while TcpStream::connect(address).is_err() {
                ensure!(
                    Instant::now() < deadline && process.cpu_seconds().is_ok(),
                    "the server does not listen: {}",
                    fs::read_to_string(&said).unwrap_or_default()
                );
                std::thread::park_timeout(Duration::from_millis(2));
            }
        }
        Ok(Site {
            place: self,
            process,
            session: log_in(self.thrift[1], USER, PASSWORD)?,
        })
    }
}

impl Site<'_> {
    /// Where bundles go.
    pub fn port(&self) -> u16 {
        self.place.thrift[0]
    }

    /// A connection that asks, of a user where there are some.
    ///
    /// # Errors
    /// The server does not listen.
    pub fn ask(&self) -> anyhow::Result<Connection> {
        let headers = match self.place.token.as_str() {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        Connection::open(self.place.http, &headers)
    }

    /// The rows of a statement.
    ///
    /// # Errors
    /// It is wrong, or the server is.
    pub fn sql(&self, sql: &str) -> anyhow::Result<Vec<Json>> {
        rows(self.ask()?.post("/sql", sql)?)
    }

    /// Waits until SQL sees these events, and no other.
    ///
    /// # Errors
    /// It sees others, or not all of them in time.
    pub fn holds(&self, kind: Kind, want: Totals) -> anyhow::Result<()> {
        let [one, other] = kind.sums();
        let sql = format!("select count(*), {one}, {other} from {}", kind.table());
        let deadline = Instant::now() + SEEN_MAX;
        loop {
            let rows = self.sql(&sql)?;
            let number = |at: usize| rows[0][at].as_i64().unwrap_or(0);
            let found = Totals {
                count: number(0).unsigned_abs(),
                sums: [number(1), number(2)],
            };
            if found == want {
                return Ok(());
            }
            ensure!(
                found.count < want.count && Instant::now() < deadline,
                "the store has {found:?}, and was sent {want:?}"
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

/// The rows of an answer of `/sql`.
///
/// # Errors
/// It has none.
pub(super) fn rows(answer: &[u8]) -> anyhow::Result<Vec<Json>> {
    let mut answer: Json = serde_json::from_slice(answer)?;
    match answer["records"].take() {
        Json::Array(rows) => Ok(rows),
        _ => anyhow::bail!("no rows in the answer: {answer}"),
    }
}

/// Bytes of the files of a folder, at any depth, whose names end so.
///
/// # Errors
/// It cannot be read.
pub(super) fn bytes_of(folder: &Path, end: &str) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for file in files(folder, end)? {
        bytes += file.metadata()?.len();
    }
    Ok(bytes)
}

/// The files of a folder, at any depth, whose names end so.
///
/// # Errors
/// It cannot be read.
pub(super) fn files(folder: &Path, end: &str) -> anyhow::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(end) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
