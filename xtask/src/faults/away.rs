//! Peers that go away under an app that writes to them, and come back: what that costs meanwhile, how long clients of
//! the app and a stop wait, when events arrive again, and that nothing is lost which was taken.
//!
//! What the peer has is read by a client of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use testservers::{Order, Running as Server};

use super::bench::{Bench, Scale, kill, worked};
use super::follower::{self, Follower};
use super::stub::Stub;

/// How long the peer is away.
const AWAY: Duration = Duration::from_secs(12);
const AWAY_LONG: Duration = Duration::from_secs(120);
const AWAY_SAMPLE: Duration = Duration::from_secs(5);
/// The share of a core that this may cost. To lose a peer takes some time once, which weighs more in a short while.
const PERCENT_MAX: f64 = 3.0;
const PERCENT_MAX_LONG: f64 = 1.0;
/// The limit of an HTTP client of the app is ten seconds; here is what a machine with other work adds.
const ANSWER_MAX: Duration = Duration::from_secs(11);
/// Until events arrive again, and until a stop has ended.
const BACK_MAX: Duration = Duration::from_secs(5);
const STOP_MAX: Duration = Duration::from_secs(5);
/// Longest wait for what has no limit of its own.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// Clients that post one event after the other, and the pause between two.
const CLIENTS: u64 = 3;
const POST_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a refusal; a refusal says how long it should be.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kafka,
    MariaDb,
    Http,
    Mqtt,
}

impl Kind {
    fn server(self) -> Option<&'static str> {
        match self {
            Kind::Kafka => Some("kafka"),
            Kind::MariaDb => Some("mariadb"),
            Kind::Mqtt => Some("mosquitto"),
            Kind::Http => None,
        }
    }

    fn order(self) -> Order {
        match self {
            // The second is for the record that makes the topic.
            Kind::Kafka => Order::new().with("num.partitions", "2"),
            Kind::MariaDb | Kind::Http | Kind::Mqtt => Order::new(),
        }
    }
}

/// The peer, and who reads what it has.
struct Peer {
    kind: Kind,
    server: Option<Server>,
    stub: Option<Stub>,
    port: u16,
    follower: Option<Follower>,
    /// What it had taken before it was away last, where it does not keep that itself.
    before: Vec<String>,
}

impl Peer {
    /// `None`: this machine lacks the server, which is said.
    fn start(bench: &Bench, kind: Kind) -> anyhow::Result<Option<Peer>> {
        let (server, stub, port) = match kind.server() {
            None => {
                let stub = Stub::taking(testservers::free_port()?)?;
                let port = stub.port;
                (None, Some(stub), port)
            }
            Some(name) => match kind.order().start(name) {
                Ok(server) => {
                    let port = server.port();
                    (Some(server), None, port)
                }
                Err(error @ testservers::Error::Missing { .. }) => {
                    bench.skip(&error.to_string());
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            },
        };
        let mut peer = Peer {
            kind,
            server,
            stub,
            port,
            follower: None,
            before: Vec::new(),
        };
        match kind {
            // From here on the broker keeps what comes for the reader, also while that is away.
            Kind::Mqtt => _ = testservers::run(peer.mqtt_reader().arg("-E"))?,
            Kind::Kafka => {
                follower::make_topic(&format!("127.0.0.1:{}", peer.port), "out", &bench.dir)?
            }
            Kind::MariaDb | Kind::Http => {}
        }
        peer.follow()?;
        Ok(Some(peer))
    }

    /// The output of the app, up to its columns.
    fn text(&self) -> String {
        let endpoint = self
            .server
            .as_ref()
            .map_or_else(String::new, Server::endpoint);
        let port = self.port;
        match self.kind {
            Kind::Kafka => format!(
                "@sink(type='kafka', bootstrap.servers='{endpoint}', topic='out', partition.no='0', on.error='WAIT', \
                 @map(type='csv'))\n\
                 define stream Arrived"
            ),
            Kind::MariaDb => {
                format!("@store(type='rdbms', jdbc.url='{endpoint}')\ndefine table Arrived")
            }
            Kind::Http => format!(
                "@sink(type='http', publisher.url='http://127.0.0.1:{port}/out', on.error='WAIT', @map(type='csv'))\n\
                 define stream Arrived"
            ),
            Kind::Mqtt => format!(
                "@sink(type='mqtt', url='tcp://127.0.0.1:{port}', topic='out', on.error='WAIT', @map(type='csv'))\n\
                 define stream Arrived"
            ),
        }
    }

    fn mqtt_reader(&self) -> Command {
        let mut client = Command::new("mosquitto_sub");
        client.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        client.args(["-i", "reader", "-c", "-q", "1", "-t", "out"]);
        client
    }

    fn follow(&mut self) -> anyhow::Result<()> {
        if self.follower.is_some() {
            return Ok(());
        }
        self.follower = match self.kind {
            Kind::Kafka => {
                let mut client = Command::new("kcat");
                client.args(["-q", "-u", "-b", &format!("127.0.0.1:{}", self.port)]);
                client.args(["-C", "-t", "out", "-p", "0", "-o", "beginning"]);
                Some(Follower::start(&mut client)?)
            }
            Kind::Mqtt => Some(Follower::start(&mut self.mqtt_reader())?),
            Kind::MariaDb | Kind::Http => None,
        };
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(server) = &mut self.server {
            server.stop();
        }
        if let Some(stub) = self.stub.take() {
            self.before.extend(stub.end().lines().map(str::to_owned));
        }
        // That of MQTT connects again by itself within a second, and the broker does not repeat what it has read;
        // that of Kafka takes longer, and reads from the beginning.
        if self.kind == Kind::Kafka {
            self.follower = None;
        }
    }

    /// Until it answers.
    fn come_back(&mut self) -> anyhow::Result<()> {
        match &mut self.server {
            Some(server) => server.restart()?,
            None => self.stub = Some(Stub::taking(self.port)?),
        }
        self.follow()
    }

    /// How often it has each number; it has to be there.
    fn numbers(&self) -> anyhow::Result<BTreeMap<u64, u64>> {
        let now = match (self.kind, &self.follower, &self.stub) {
            (Kind::MariaDb, ..) => {
                let rows = testservers::sql("mariadb", self.port, "select n from Arrived")?;
                rows.lines().map(str::to_owned).collect()
            }
            (_, Some(follower), _) => follower.lines(),
            (_, _, Some(stub)) => stub.lines().lines().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let mut numbers = BTreeMap::new();
        let lines = self.before.iter().chain(&now).map(|line| line.trim());
        for line in lines.filter(|line| !line.is_empty()) {
            let number = line
                .parse()
                .with_context(|| format!("not a number: {line}"))?;
            *numbers.entry(number).or_default() += 1;
        }
        Ok(numbers)
    }
}

/// What a run has said.
#[derive(Clone)]
struct Log {
    path: PathBuf,
    /// How long the file was when the run began.
    before: usize,
}

impl Log {
    fn read(&self) -> String {
        let all = fs::read(&self.path).unwrap_or_default();
        String::from_utf8_lossy(&all[self.before..]).into_owned()
    }
}

/// A run of the app.
struct Run {
    child: Child,
    log: Log,
}

impl Run {
    /// Until it serves; before that, a signal to stop would end it as it is.
    fn start(bench: &Bench) -> anyhow::Result<Run> {
        let path = bench.path("log");
        let before = fs::read(&path).map_or(0, |log| log.len());
        let log = fs::File::options().create(true).append(true).open(&path)?;
        let child = Command::new(&bench.binary)
            .arg("run")
            .arg(bench.path("app.siddhi"))
            .arg("--state")
            .arg(bench.path("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start headwater")?;
        let log = Log { path, before };
        let mut run = Run {
            child,
            log: log.clone(),
        };
        run.wait("it serves", PATIENCE, || {
            Ok(log.read().contains("source is ready"))
        })?;
        Ok(run)
    }

    /// Waits for what must be so within `most`; how long it took.
    fn wait(
        &mut self,
        what: &str,
        most: Duration,
        mut is_so: impl FnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<Duration> {
        let began = Instant::now();
        while !is_so()? {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended by itself, {status}:\n{}", self.log.read());
            }
            ensure!(
                began.elapsed() < most,
                "{what}: not within {:.1} s:\n{}",
                most.as_secs_f64(),
                self.log.read()
            );
            std::thread::park_timeout(LOOK);
        }
        Ok(began.elapsed())
    }

    /// Stops in order; how long it took, and what it said.
    fn stop(mut self) -> anyhow::Result<(Duration, String)> {
        let said = self.log.read().len();
        let began = Instant::now();
        kill(self.child.id(), "TERM")?;
        let status = self.child.wait()?;
        let took = began.elapsed();
        let log = self.log.read();
        ensure!(status.success(), "{status}:\n{log}");
        Ok((took, log[said..].to_owned()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // One that was stopped is gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

enum Answer {
    Taken,
    /// With a time after which to try again.
    Later,
}

/// Clients of the app, and what became of their events.
struct Clients {
    port: u16,
    next: AtomicU64,
    taken: Mutex<BTreeSet<u64>>,
    refused: AtomicU64,
    slowest: Mutex<Duration>,
    amiss: Mutex<Option<String>>,
    is_over: AtomicBool,
}

impl Clients {
    fn new(port: u16) -> Clients {
        Clients {
            port,
            next: AtomicU64::new(0),
            taken: Mutex::default(),
            refused: AtomicU64::new(0),
            slowest: Mutex::default(),
            amiss: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    fn taken(&self) -> BTreeSet<u64> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.clone()
    }

    /// Posts the next event.
    fn post(&self) -> anyhow::Result<Answer> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let body = format!("{{\"event\":{{\"n\":{number}}}}}");
        let began = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "POST /in HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let took = began.elapsed();
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        *slowest = took.max(*slowest);
        ensure!(took < ANSWER_MAX, "a client waited {took:?}");
        if answer.starts_with("HTTP/1.1 200 ") {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.insert(number);
            return Ok(Answer::Taken);
        }
        let says_when = answer.to_ascii_lowercase().contains("\r\nretry-after: ");
        ensure!(
            answer.starts_with("HTTP/1.1 503 ") && says_when,
            "a client got: {answer}"
        );
        self.refused.fetch_add(1, Ordering::Relaxed);
        Ok(Answer::Later)
    }

    /// One after the other until it is over.
    fn work(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            match self.post() {
                Ok(Answer::Taken) => std::thread::park_timeout(POST_PAUSE),
                Ok(Answer::Later) => std::thread::park_timeout(REFUSED_PAUSE),
                Err(error) => {
                    let mut amiss = self.amiss.lock().unwrap_or_else(PoisonError::into_inner);
                    amiss.get_or_insert_with(|| format!("{error:#}"));
                    return;
                }
            }
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let amiss = self.amiss.lock().unwrap_or_else(PoisonError::into_inner);
        match &*amiss {
            Some(amiss) => bail!("{amiss}"),
            None => Ok(()),
        }
    }
}

/// What came of the time in which the peer was away.
struct Watched {
    percent: f64,
    back: Duration,
}

/// The peer goes away while clients post, and comes back.
fn watch(
    bench: &Bench,
    peer: &mut Peer,
    run: &mut Run,
    clients: &Clients,
) -> anyhow::Result<Watched> {
    let (away, percent_max) = match bench.scale {
        Scale::Long => (AWAY_LONG, PERCENT_MAX_LONG),
        Scale::Short => (AWAY, PERCENT_MAX),
        Scale::Sample => (AWAY_SAMPLE, PERCENT_MAX),
    };
    peer.leave();
    // What is posted from here on cannot have arrived before.
    let first = clients.next.load(Ordering::Relaxed);
    let (before, began) = (worked(run.child.id())?, Instant::now());
    while began.elapsed() < away {
        std::thread::park_timeout(away.saturating_sub(began.elapsed()));
    }
    let percent = (worked(run.child.id())? - before) as f64 / began.elapsed().as_secs_f64();
    clients.check()?;
    peer.come_back()?;
    let taken = clients.taken().len();
    let back = run.wait("events arrive again", BACK_MAX, || {
        clients.check()?;
        let newest = peer.numbers()?.into_keys().next_back();
        let arrives = newest.is_some_and(|newest| newest >= first);
        Ok(arrives && clients.taken().len() > taken)
    })?;
    ensure!(
        percent < percent_max,
        "{percent:.2} % of a core:\n{}",
        run.log.read()
    );
    Ok(Watched { percent, back })
}

fn everything_is_there(
    peer: &Peer,
    run: &mut Run,
    clients: &Clients,
) -> anyhow::Result<BTreeMap<u64, u64>> {
    let taken = clients.taken();
    run.wait("all that was taken arrives", PATIENCE, || {
        let numbers = peer.numbers()?;
        Ok(taken.iter().all(|number| numbers.contains_key(number)))
    })?;
    peer.numbers()
}

fn play(bench: &Bench, kind: Kind) -> anyhow::Result<()> {
    let Some(mut peer) = Peer::start(bench, kind)? else {
        return Ok(());
    };
    let clients = Clients::new(testservers::free_port()?);
    let app = format!(
        "@app:name('Away')\n\
         @source(type='http', receiver.url='http://127.0.0.1:{}/in', @map(type='json'))\n\
         define stream In (n long);\n\
         {} (n long);\n\
         from In select n insert into Arrived;\n",
        clients.port,
        peer.text()
    );
    fs::write(bench.path("app.siddhi"), app)?;
    let mut run = Run::start(bench)?;
    run.wait("the first event arrives", PATIENCE, || {
        clients.post()?;
        Ok(!peer.numbers()?.is_empty())
    })?;
    let watched = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| clients.work());
        }
        let watched = watch(bench, &mut peer, &mut run, &clients);
        clients.is_over.store(true, Ordering::Relaxed);
        watched
    })?;
    clients.check()?;
    everything_is_there(&peer, &mut run, &clients)?;
    // It is stopped while an event is on its way to a peer that is away again.
    peer.leave();
    let (stopped, said) = std::thread::scope(|scope| {
        // The stop breaks its connection off.
        scope.spawn(|| clients.post().ok());
        std::thread::park_timeout(Duration::from_secs(1));
        run.stop()
    })?;
    ensure!(stopped < STOP_MAX, "a stop took {stopped:?}:\n{said}");
    ensure!(
        said.contains("next start"),
        "it does not say what it left:\n{said}"
    );
    peer.come_back()?;
    let mut run = Run::start(bench)?;
    let numbers = everything_is_there(&peer, &mut run, &clients)?;
    run.stop()?;
    let doubled = numbers.values().filter(|times| **times > 1).count();
    let figures = format!(
        "{:.2} % of a core, clients waited {:.1} s at most and were refused {} times, {:.1} s until events arrived \
         again, a stop took {:.1} s, taken {}, lost 0, doubled {doubled}",
        watched.percent,
        clients
            .slowest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_secs_f64(),
        clients.refused.load(Ordering::Relaxed),
        watched.back.as_secs_f64(),
        stopped.as_secs_f64(),
        clients.taken().len(),
    );
    println!("        {figures}");
    *bench.figures() = figures;
    Ok(())
}

pub fn kafka(bench: &Bench) -> anyhow::Result<()> {
    play(bench, Kind::Kafka)
}

pub fn mariadb(bench: &Bench) -> anyhow::Result<()> {
    play(bench, Kind::MariaDb)
}

pub fn http(bench: &Bench) -> anyhow::Result<()> {
    play(bench, Kind::Http)
}

pub fn mqtt(bench: &Bench) -> anyhow::Result<()> {
    play(bench, Kind::Mqtt)
}
