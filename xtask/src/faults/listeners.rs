//! Clients that begin and do not go on, thousands at once, on each listener: those who do go on are
//! served as before, and memory stays where it was.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::bench::{Bench, Scale, worked};

/// Clients that begin and do not go on; a listener takes 8,192 connections at most.
const SLOW: usize = 1_000;
const SLOW_LONG: usize = 8_192;
/// Clients that are served before the slow ones come, and at least so many while they are there.
const HEALTHY: usize = 200;
/// How often they are watched, and for how long each time. The median of the p99 counts: a moment in which the
/// machine stands still falls into one of these times, what the server does to its clients into all of them.
const WATCHES: usize = 3;
const WATCHED_SLOW: Duration = Duration::from_millis(500);
const WATCHED_SLOW_LONG: Duration = Duration::from_secs(2);
/// A factor of the times of healthy clients of a second server, which nobody attacks and which is asked in
/// turn with the first one: what the machine does meanwhile costs both the same. Times below `SHORT` are
/// not compared: two cores have the attackers as well.
const SLOWER_MAX: u32 = 2;
const SHORT: Duration = Duration::from_millis(25);
/// Clients that one process of `curl` is: its start takes longer than a request.
const OF_ONE_CURL: usize = 10;
/// Longest time of a client that is served at all.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory that slow clients may take.
const KILOBYTES_MAX: u64 = 400 << 10;

/// Where a server listens, in the order of [`LISTENERS`], and `--http`.
struct Site {
    ports: Vec<u16>,
    child: Child,
    log: PathBuf,
}

/// A listener: what is served, and what a client leaves half done.
struct Listener {
    name: &'static str,
    /// Bytes of a client that is served, and how its answer ends.
    healthy: &'static [u8],
    answer: Answer,
    /// Names and bytes of what is begun.
    halves: &'static [(&'static str, &'static [u8])],
}

#[derive(Clone, Copy)]
enum Answer {
    /// These bytes are in it.
    Has(&'static [u8]),
    /// The server ends the connection after the client.
    End,
    /// As [`Answer::Has`], inside of TLS, which `curl` speaks.
    Curl,
}

const HALF_HEAD: (&str, &[u8]) = ("half a head", b"POST /in HTTP/1.1\r\nHost: 127.0.0.1\r\nX-");
const HALF_BODY: (&str, &[u8]) = (
    "half a body",
    b"POST /in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n{",
);
const SILENT: (&str, &[u8]) = ("nothing", b"");

const SOCKET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

/// A preface, settings that change nothing, and a ping.
const CALL: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x08\x06\0\0\0\0\0headwate";

/// A preface, settings, and a call whose message has begun: a literal head of four fields, then five
/// bytes of a message of nine.
const HALF_CALL: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
    \0\0\x56\x01\x04\0\0\0\x01\
    \x83\x86\x44\x30/org.wso2.grpc.eventservice.EventService/consume\x41\x01h\
    \x5f\x10application/grpc\x40\x09stream.id\x01D\
    \0\0\x06\0\0\0\0\0\x01\0\0\0\0\x09{";

/// A frame of the context `C` with one binary event of one long.
const FRAME: &[u8] = b"\x02\0\0\0\x21\0\0\0\0\0\0\0\x01C\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\x01";

const LISTENERS: &[Listener] = &[
    Listener {
        name: "http",
        healthy: b"POST /in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 7\r\n\r\n{\"n\":1}",
        answer: Answer::Has(b" 200 "),
        halves: &[SILENT, HALF_HEAD, HALF_BODY],
    },
    Listener {
        name: "http with TLS",
        healthy: b"",
        answer: Answer::Curl,
        halves: &[
            SILENT,
            (
                "half a handshake",
                b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\0\0\0\0",
            ),
        ],
    },
    Listener {
        name: "websocket-server",
        healthy: SOCKET,
        answer: Answer::Has(b" 101 "),
        halves: &[
            SILENT,
            ("half a handshake", b"GET / HTTP/1.1\r\nHost: h\r\nX-"),
            (
                "half a message",
                b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\
                  \x81\x89\0\0\0\0{",
            ),
        ],
    },
    Listener {
        name: "tcp",
        healthy: FRAME,
        answer: Answer::End,
        halves: &[SILENT, ("half a frame", b"\x02\0\0\0\x21\0\0\0\0")],
    },
    Listener {
        name: "grpc",
        healthy: CALL,
        answer: Answer::Has(b"headwate"),
        halves: &[
            SILENT,
            ("half a preface", b"PRI * HTTP/2"),
            ("half a message", HALF_CALL),
        ],
    },
    Listener {
        name: "sse-server",
        healthy: b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        answer: Answer::Has(b" 200 "),
        halves: &[SILENT, HALF_HEAD],
    },
    Listener {
        name: "websubhub",
        healthy: b"POST /hub HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n",
        answer: Answer::Has(b"HTTP/1.1 "),
        halves: &[
            HALF_HEAD,
            (
                "half a body",
                b"POST /hub HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{",
            ),
        ],
    },
    Listener {
        name: "prometheus",
        healthy: b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        answer: Answer::Has(b" 200 "),
        halves: &[SILENT, HALF_HEAD],
    },
    Listener {
        name: "--http",
        healthy: b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        answer: Answer::Has(b"HTTP/1.1 "),
        halves: &[
            SILENT,
            HALF_HEAD,
            (
                "half a body",
                b"POST /stores/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\
                  Content-Type: application/json\r\n\r\n{",
            ),
        ],
    },
];

fn app(ports: &[u16]) -> String {
    format!(
        "@app:name('Open')\n\
         @source(type='http', receiver.url='http://127.0.0.1:{}/in', @map(type='json'))\n\
         define stream A (n long);\n\
         @source(type='http', receiver.url='https://127.0.0.1:{}/in', @map(type='json'))\n\
         define stream S (n long);\n\
         @source(type='websocket-server', host='127.0.0.1', port='{}', @map(type='json'))\n\
         define stream B (n long);\n\
         @source(type='tcp', context='C', @map(type='binary'))\n\
         define stream C (n long);\n\
         @source(type='grpc', receiver.url='grpc://127.0.0.1:{}/org.wso2.grpc.EventService/consume', @map(type='json'))\n\
         define stream D (n long);\n\
         @sink(type='sse-server', server.url='http://127.0.0.1:{}/events', @map(type='json'))\n\
         define stream E (n long);\n\
         @source(type='websubhub', hub.id='h', table.name='Subs', topic.list='a', receiver.url='http://127.0.0.1:{}/hub', @map(type='keyvalue', implicit.cast.enable='true'))\n\
         define stream F (callback string, topic string, mode string, lease_seconds long, secret string);\n\
         @sink(type='prometheus', server.url='http://127.0.0.1:{}', metric.type='counter', metric.name='total', value.attribute='n', @map(type='keyvalue'))\n\
         define stream G (n long);\n\
         define stream Never (n long);\n\
         from Never select n insert into E;\n\
         from Never select n insert into G;\n",
        ports[0], ports[1], ports[2], ports[4], ports[5], ports[6], ports[7]
    )
}

impl Site {
    /// A server in a folder of its own.
    fn start(bench: &Bench, name: &str, descriptors: Option<u32>) -> anyhow::Result<Site> {
        let dir = bench.path(name);
        fs::create_dir_all(&dir)?;
        let ports: Result<Vec<u16>, _> =
            LISTENERS.iter().map(|_| testservers::free_port()).collect();
        let ports = ports?;
        fs::write(dir.join("open.siddhi"), app(&ports))?;
        let keys = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../crates/connect/src/net/testdata/server.jks");
        let config = format!(
            "siddhi:\n  extensions:\n    - extension:\n        name: tcp\n        namespace: source\n        \
             properties:\n          host: 127.0.0.1\n          port: {}\n    - extension:\n        name: http\n        \
             namespace: source\n        properties:\n          keyStoreLocation: {}\n          keyStorePassword: \
             wso2carbon\n          keyPassword: secret12\n",
            ports[3],
            keys.display()
        );
        fs::write(dir.join("deployment.yaml"), config)?;
        let limit = descriptors.map_or_else(String::new, |count| format!("ulimit -n {count}; "));
        let log = dir.join("log");
        let child = Command::new("sh")
            .args(["-c", &format!("{limit}exec \"$0\" \"$@\"")])
            .arg(&bench.binary)
            .arg("run")
            .arg(dir.join("open.siddhi"))
            .arg("--config")
            .arg(dir.join("deployment.yaml"))
            .args(["--http", &format!("127.0.0.1:{}", ports[ports.len() - 1])])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .context("cannot start headwater")?;
        let site = Site { ports, child, log };
        let end = Instant::now() + PATIENCE;
        for (at, listener) in LISTENERS.iter().enumerate() {
            while site.served(at).is_err() {
                ensure!(
                    Instant::now() < end,
                    "'{}' does not listen:\n{}",
                    listener.name,
                    fs::read_to_string(&site.log)?
                );
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
        Ok(site)
    }

    /// A client that goes on, on a connection of its own; how long it took.
    fn served(&self, at: usize) -> anyhow::Result<Duration> {
        let (listener, port) = (&LISTENERS[at], self.ports[at]);
        if let Answer::Curl = listener.answer {
            let times = curl(port, 1)?;
            return times.first().copied().context("curl got no answer");
        }
        let began = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(listener.healthy)?;
        if let Answer::End = listener.answer {
            stream.shutdown(Shutdown::Write)?;
        }
        let mut answer = Vec::new();
        let mut block = [0; 4096];
        loop {
            let count = stream.read(&mut block)?;
            answer.extend_from_slice(&block[..count]);
            let is_there = match listener.answer {
                Answer::Has(part) => answer.windows(part.len()).any(|window| window == part),
                Answer::End | Answer::Curl => count == 0,
            };
            if is_there {
                return Ok(began.elapsed());
            }
            ensure!(
                count > 0,
                "'{}' ended a connection with {:?}",
                listener.name,
                String::from_utf8_lossy(&answer)
            );
        }
    }

    /// One client after the other, as many as are started at once.
    fn serve_some(&self, at: usize) -> anyhow::Result<Vec<Duration>> {
        match LISTENERS[at].answer {
            Answer::Curl => curl(self.ports[at], OF_ONE_CURL),
            _ => Ok(vec![self.served(at)?]),
        }
    }

    /// Times of so many healthy clients, sorted.
    fn times(&self, at: usize, count: usize) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::new();
        while times.len() < count {
            times.extend(self.serve_some(at)?);
        }
        times.sort();
        Ok(times)
    }

    /// The median of the p99 of healthy clients, and that of a server that nobody attacks.
    fn p99_beside(&self, calm: &Site, at: usize, time: Duration) -> anyhow::Result<[Duration; 2]> {
        let mut p99 = [Vec::new(), Vec::new()];
        for _ in 0..WATCHES {
            let times = self.times_beside(calm, at, time)?;
            for (times, p99) in times.iter().zip(&mut p99) {
                p99.push(percentile(times, 99));
            }
        }
        p99.iter_mut().for_each(|p99| p99.sort());
        Ok(p99.map(|p99| percentile(&p99, 50)))
    }

    /// As [`Site::times`] for so long, in turn with clients of a server that nobody attacks.
    fn times_beside(
        &self,
        calm: &Site,
        at: usize,
        time: Duration,
    ) -> anyhow::Result<[Vec<Duration>; 2]> {
        let mut times = [Vec::new(), Vec::new()];
        let began = Instant::now();
        while began.elapsed() < time || times[0].len() < HEALTHY {
            for (site, times) in [self, calm].into_iter().zip(&mut times) {
                times.extend(site.serve_some(at)?);
            }
        }
        times.iter_mut().for_each(|times| times.sort());
        Ok(times)
    }

    /// A line of `/proc/PID/status`, in kB.
    fn memory(&self, name: &str) -> anyhow::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|number| number.parse().ok())
            .with_context(|| format!("no {name} of the process"))
    }

    /// Hundredths of a second that the process has worked.
    fn worked(&self) -> anyhow::Result<u64> {
        worked(self.child.id())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Requests one after the other, each on a connection of its own.
fn curl(port: u16, count: usize) -> anyhow::Result<Vec<Duration>> {
    let output = Command::new("curl")
        .args(["-sk", "-o", "/dev/null", "-H", "Connection: close"])
        .args(["-w", "%{http_code} %{time_total}\\n", "-d", "{\"n\":1}"])
        .arg(format!("https://127.0.0.1:{port}/in?[1-{count}]"))
        .output()
        .context("the command 'curl' is needed (package curl)")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times = text.lines().map(|line| match line.split_once(' ') {
        Some(("200", seconds)) => Ok(Duration::from_secs_f64(seconds.parse()?)),
        _ => bail!("curl got '{line}'"),
    });
    times.collect()
}

fn begin(port: u16, bytes: &[u8]) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context(
        "a slow client cannot connect: it takes as many descriptors as clients (ulimit -n 20000)",
    )?;
    // One that the server has closed already has done its worst.
    stream.write_all(bytes).ok();
    Ok(stream)
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(index).copied().unwrap_or_default()
}

pub fn slow_clients(bench: &Bench) -> anyhow::Result<()> {
    let (count, time) = match bench.scale {
        Scale::Long => (SLOW_LONG, WATCHED_SLOW_LONG),
        Scale::Short | Scale::Sample => (SLOW, WATCHED_SLOW),
    };
    let site = Site::start(bench, "attacked", None)?;
    let calm = Site::start(bench, "calm", None)?;
    let (mut forms, mut slowest, mut amiss) = (0, [Duration::ZERO; 2], Vec::new());
    for (at, listener) in LISTENERS.iter().enumerate() {
        for (half, bytes) in listener.halves {
            forms += 1;
            site.times(at, HEALTHY / 10)?;
            let before = site.times(at, HEALTHY)?;
            let (during, slow) = attack(&site, at, bytes, count)?;
            let [under, beside] = site.p99_beside(&calm, at, time)?;
            let memory = site.memory("VmRSS:")?;
            let [before, during] = [&before, &during].map(|times| percentile(times, 99));
            println!(
                "        {}, {half}: {} slow; p99 of healthy clients {:.1} ms before, {:.1} ms while they \
                 come, {:.1} ms while they are there ({:.1} ms of a server without); {} MB",
                listener.name,
                slow.len(),
                before.as_secs_f64() * 1e3,
                during.as_secs_f64() * 1e3,
                under.as_secs_f64() * 1e3,
                beside.as_secs_f64() * 1e3,
                memory >> 10
            );
            slowest = slowest.max([under, beside]);
            if under > (beside * SLOWER_MAX).max(SHORT) {
                amiss.push(format!(
                    "{}, {half}: {under:?} instead of {beside:?}",
                    listener.name
                ));
            }
        }
    }
    let peak = site.memory("VmHWM:")?;
    println!("        peak of memory {} MB", peak >> 10);
    *bench.figures() = format!(
        "{count} slow clients of each of {forms} forms on {} listeners; highest p99 of healthy clients {:.1} ms, where \
         a server without had {:.1} ms; peak {} MB",
        LISTENERS.len(),
        slowest[0].as_secs_f64() * 1e3,
        slowest[1].as_secs_f64() * 1e3,
        peak >> 10
    );
    ensure!(peak < KILOBYTES_MAX, "{} MB of memory", peak >> 10);
    ensure!(
        amiss.is_empty(),
        "healthy clients waited: {}",
        amiss.join("; ")
    );
    Ok(())
}

/// Slow clients come, and healthy ones meanwhile: times of these.
fn attack(
    site: &Site,
    at: usize,
    bytes: &[u8],
    count: usize,
) -> anyhow::Result<(Vec<Duration>, Vec<TcpStream>)> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let healthy = scope.spawn(|| -> anyhow::Result<Vec<Duration>> {
            let mut times = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                times.push(site.served(at)?);
            }
            times.sort();
            Ok(times)
        });
        let slow: anyhow::Result<Vec<TcpStream>> =
            (0..count).map(|_| begin(site.ports[at], bytes)).collect();
        is_over.store(true, Ordering::Relaxed);
        let times = healthy.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        Ok((times, slow?))
    })
}

/// Descriptors that a process is let open, and clients that take them.
const DESCRIPTORS: u32 = 128;
const TAKERS: usize = 300;
/// How long it is watched, the share of a core that it may work, and lines that it may log: one a second,
/// and some of who is let in and closed. In a short time that weighs more: a hundred clients who do not answer
/// pings are closed and others let in, by a debug build. A listener that does not rest takes a whole core.
const WATCHED: Duration = Duration::from_secs(5);
const WATCHED_LONG: Duration = Duration::from_secs(20);
const PERCENT_MAX: f64 = 5.0;
const PERCENT_MAX_LONG: f64 = 1.0;
const LINES_MORE: usize = 4;

pub fn no_descriptors(bench: &Bench) -> anyhow::Result<()> {
    let (watched, percent_max) = match bench.scale {
        Scale::Long => (WATCHED_LONG, PERCENT_MAX_LONG),
        Scale::Short | Scale::Sample => (WATCHED, PERCENT_MAX),
    };
    let lines_max = watched.as_secs() as usize + LINES_MORE;
    let mut most = (0.0, 0);
    for (at, listener) in LISTENERS.iter().enumerate() {
        let site = Site::start(bench, listener.name, Some(DESCRIPTORS))?;
        let lines =
            || -> anyhow::Result<usize> { Ok(fs::read_to_string(&site.log)?.lines().count()) };
        // Whoever is let in may be closed after a while: enough of them wait to take that place.
        let bytes = listener.healthy;
        let bytes = &bytes[..bytes.len() / 2];
        let mut takers = Vec::new();
        for _ in 0..TAKERS {
            takers.push(begin(site.ports[at], bytes)?);
        }
        // What it takes to let them in and close them is no part of it.
        let began = Instant::now();
        let is_out = || -> anyhow::Result<bool> {
            Ok(fs::read_to_string(&site.log)?.contains("cannot accept"))
        };
        while !is_out()? {
            ensure!(
                began.elapsed() < PATIENCE,
                "'{}' has descriptors for all",
                listener.name
            );
            std::thread::park_timeout(Duration::from_millis(100));
        }
        let (worked, said, began) = (site.worked()?, lines()?, Instant::now());
        std::thread::park_timeout(watched);
        let percent = (site.worked()? - worked) as f64 / began.elapsed().as_secs_f64();
        let said = lines()? - said;
        most = (f64::max(most.0, percent), most.1.max(said));
        drop(takers);
        let began = Instant::now();
        while site.served(at).is_err() {
            ensure!(
                began.elapsed() < PATIENCE,
                "'{}' serves nobody",
                listener.name
            );
        }
        println!(
            "        {}: {percent:.1} % of a core, {said} lines in {} s; served again after {:.2} s",
            listener.name,
            watched.as_secs(),
            began.elapsed().as_secs_f64()
        );
        ensure!(
            percent < percent_max && said <= lines_max,
            "'{}' does not rest:\n{}",
            listener.name,
            fs::read_to_string(&site.log)?
        );
    }
    *bench.figures() = format!(
        "{DESCRIPTORS} descriptors, {TAKERS} clients, {} listeners: at most {:.1} % of a core and {} lines in {} s",
        LISTENERS.len(),
        most.0,
        most.1,
        watched.as_secs()
    );
    Ok(())
}
