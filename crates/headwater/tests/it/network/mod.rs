//! What the tests of network connectors share: processes of our own binary, `curl`, and servers that
//! do exactly what a test tells them.

mod gate;
pub mod gateway;
mod reader;
pub mod script;
mod switch;
mod throttle;

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

pub use {gate::Gate, reader::Reader, switch::Switch, throttle::Throttle};

/// Longest wait for anything: a broker that has just begun may take its time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Longest time until a peer that goes away, or stands still, is said to be lost.
pub const NOTICED: Duration = Duration::from_secs(5);

/// Longest time for a run to come to its end.
const RUN_MAX: Duration = Duration::from_secs(300);

/// Between two looks at what cannot be waited for.
const LOOK: Duration = Duration::from_millis(10);

/// A port on which nobody listens, and which no other test is given.
pub fn free_port() -> u16 {
    testservers::free_port().expect("a free port")
}

/// The published app of that name, where the reference material is there, else `own`.
pub fn published(dir: &Path, name: &str, own: &str) -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("HEADWATER_SHARED").map_or(default, PathBuf::from);
    let path = shared.join("apps").join(name);
    if path.is_file() {
        return path;
    }
    let path = dir.join(name);
    fs::write(&path, own).expect("the folder can be written");
    path
}

/// What a process writes: a text that grows until the process ends, and that others wait for.
#[derive(Clone, Default)]
struct Said(Arc<(Mutex<Transcript>, Condvar)>);

#[derive(Default)]
struct Transcript {
    text: String,
    /// Nothing follows: the process has ended.
    is_whole: bool,
}

impl Said {
    fn follow(&self, from: impl std::io::Read + Send + 'static) {
        let said = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let mut transcript = said.lock();
                transcript.text.push_str(&line);
                transcript.text.push('\n');
                said.0.1.notify_all();
            }
            said.lock().is_whole = true;
            said.0.1.notify_all();
        });
    }

    fn lock(&self) -> MutexGuard<'_, Transcript> {
        self.0.0.lock().expect("no panic")
    }

    fn get(&self) -> String {
        self.lock().text.clone()
    }

    /// Fails at once where the process ends without it.
    #[track_caller]
    fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let (transcript, waited) = self
            .0
            .1
            .wait_timeout_while(self.lock(), PATIENCE, |transcript| {
                !is_there(&transcript.text) && !transcript.is_whole
            })
            .expect("no panic");
        let text = &transcript.text;
        assert!(!waited.timed_out(), "{what} never came: {text}");
        assert!(is_there(text), "the process ended without {what}: {text}");
    }
}

/// A run of our binary.
pub struct Running {
    child: Child,
    out: Said,
    err: Said,
}

impl Running {
    pub fn start(args: &[&str]) -> Running {
        // On a busy machine a stop may take its time; a test that times it says so.
        let grace: &[&str] = match args.contains(&"--grace") {
            true => &[],
            false => &["--grace", "4min"],
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .arg("run")
            .args(args)
            .arg("--json")
            .args(grace)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("TZ", "")
            .env("HEADWATER_LOG", "info")
            .spawn()
            .expect("the binary starts");
        let (out, err) = (Said::default(), Said::default());
        out.follow(child.stdout.take().expect("piped"));
        err.follow(child.stderr.take().expect("piped"));
        Running { child, out, err }
    }

    /// Starts, and waits until so many sources are connected.
    pub fn connected(args: &[&str], sources: usize) -> Running {
        let running = Running::start(args);
        running.err_has("source is ready", sources);
        running
    }

    #[track_caller]
    pub fn out_has(&self, text: &str, times: usize) {
        self.out
            .wait_for(text, |said| said.matches(text).count() >= times);
    }

    #[track_caller]
    pub fn err_has(&self, text: &str, times: usize) {
        self.err
            .wait_for(text, |said| said.matches(text).count() >= times);
    }

    pub fn out(&self) -> String {
        self.out.get()
    }

    pub fn err(&self) -> String {
        self.err.get()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    }

    /// Has it read its apps again.
    pub fn reload(&self) {
        self.signal("-HUP");
    }

    /// It stays there and does nothing, until [`Running::thaw`].
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("a child can be waited for");
    }

    /// Has it stop in order.
    pub fn stops(&self) {
        self.signal("-TERM");
    }

    /// Stops in order; as [`Running::end`].
    #[track_caller]
    pub fn stop(self) -> (Option<i32>, Json) {
        self.stops();
        self.end()
    }

    /// Waits for the end of it; a run that never ends is a failure, with what it said. Outcome and
    /// summary: the outcome is the exit code, but 4 also where a server that was stopped has rejected
    /// events, of which its exit code says nothing.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, Json) {
        let mut status = None;
        let ended = looked_for(RUN_MAX, || {
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        assert!(ended, "the run never ended: {}{}", self.err(), self.out());
        let status = status.expect("it has ended");
        self.out
            .wait_for("the summary", |s| s.contains("\"type\":\"summary\""));
        let text = self.out.get();
        let last = text.lines().last().unwrap_or_default();
        // Shown where the test fails.
        eprintln!("{}\n{last}", self.err());
        let summary: Json = serde_json::from_str(last).expect("the last line is the summary");
        let has_rejected = summary["rejected"].as_u64().is_some_and(|count| count > 0);
        let outcome = match status.code() {
            Some(0) if has_rejected => Some(4),
            code => code,
        };
        (outcome, summary)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; one that did not has waited for it.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A number of a summary: `sources` or `sinks`, the stream, `events` and so on.
#[track_caller]
pub fn number(summary: &Json, kind: &str, stream: &str, what: &str) -> u64 {
    let apps = summary["apps"].as_array().into_iter().flatten();
    let elements = apps.flat_map(|app| app[kind].as_array().into_iter().flatten());
    let found = elements
        .filter(|e| e["stream"] == stream)
        .filter_map(|e| e[what].as_u64())
        .max();
    found.unwrap_or_else(|| panic!("{kind} {stream} {what}: {summary}"))
}

/// Status and body, as `curl` got them.
pub fn curl(args: &[&str]) -> (String, String) {
    let output = Command::new("curl")
        .args(["-s", "--max-time", "120", "-w", "\n%{http_code}"])
        .args(args)
        .output()
        .expect("curl is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    (status.to_owned(), body.to_owned())
}

/// Posts bodies one after the other over one connection; their statuses.
pub fn post_all(url: &str, bodies: impl IntoIterator<Item = String>) -> Vec<u16> {
    let authority = url.strip_prefix("http://").expect("an http URL");
    let (authority, path) = authority.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(authority).expect("it listens");
    let mut answers = BufReader::new(stream.try_clone().expect("another handle"));
    let mut statuses = Vec::new();
    for body in bodies {
        let request = format!(
            "POST /{path} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let (head, _) = read_message(&mut answers).expect("it answers");
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
        statuses.push(status.expect("a status"));
    }
    statuses
}

/// Head and body of an HTTP message; `None` at the end of the connection.
fn read_message(from: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let mut body = Vec::new();
    if header("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            from.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let start = body.len();
            body.resize(start + size, 0);
            from.read_exact(&mut body[start..]).ok()?;
            from.read_line(&mut String::new()).ok()?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(len) = header("content-length") {
        body.resize(len.parse().ok()?, 0);
        from.read_exact(&mut body).ok()?;
    }
    Some((head, body))
}

/// What a stub got.
#[derive(Clone, Debug)]
pub struct Got {
    pub head: String,
    pub body: String,
}

impl Got {
    pub fn has(&self, header: &str) -> bool {
        let line = |l: &str| l.eq_ignore_ascii_case(header);
        self.head.lines().any(line)
    }
}

type Answering = dyn Fn(&Got) -> String + Send + Sync;

/// An HTTP server that records what it gets and answers as told; where the answer is empty, it ends the
/// connection. Gone when dropped.
pub struct Stub {
    pub port: u16,
    got: Arc<(Mutex<Vec<Got>>, Condvar)>,
    is_stopped: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
}

/// An answer with a body.
pub fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

impl Stub {
    pub fn start(port: u16, answer: impl Fn(&Got) -> String + Send + Sync + 'static) -> Stub {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let got: Arc<(Mutex<Vec<Got>>, Condvar)> = Arc::default();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let answer: Arc<Answering> = Arc::new(answer);
        let thread = std::thread::spawn({
            let (got, is_stopped) = (Arc::clone(&got), Arc::clone(&is_stopped));
            let streams = Arc::clone(&streams);
            move || {
                for stream in listener.incoming() {
                    if is_stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let stream = stream.expect("a connection");
                    let handle = stream.try_clone().expect("another handle");
                    streams.lock().expect("no panic").push(handle);
                    let (got, answer) = (Arc::clone(&got), Arc::clone(&answer));
                    std::thread::spawn(move || serve(stream, &got, &*answer));
                }
            }
        });
        Stub {
            port,
            got,
            is_stopped,
            streams,
            thread: Some(thread),
        }
    }

    /// Connections that clients have opened so far.
    pub fn connections(&self) -> usize {
        self.streams.lock().expect("no panic").len()
    }

    pub fn got(&self) -> Vec<Got> {
        self.got.0.lock().expect("no panic").clone()
    }

    /// Waits until it has got so many requests.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<Got> {
        let got = self.got.0.lock().expect("no panic");
        let (got, waited) = self
            .got
            .1
            .wait_timeout_while(got, PATIENCE, |got| got.len() < count)
            .expect("no panic");
        assert!(
            !waited.timed_out(),
            "{} of {count} requests came",
            got.len()
        );
        got.clone()
    }
}

fn serve(stream: TcpStream, got: &(Mutex<Vec<Got>>, Condvar), answer: &Answering) {
    let mut write = stream.try_clone().expect("another handle");
    let mut read = BufReader::new(stream);
    while let Some((head, body)) = read_message(&mut read) {
        let one = Got {
            head,
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        let text = answer(&one);
        if text.is_empty() {
            // Others hold handles of it.
            write.shutdown(Shutdown::Both).ok();
            return;
        }
        got.0.lock().expect("no panic").push(one);
        got.1.notify_all();
        // The client may have gone.
        if write.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        for stream in self.streams.lock().expect("no panic").drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Waits until `is_so`, by looking again and again.
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(looked_for(PATIENCE, is_so), "{what} never came about");
}

/// Waits for a new epoch of this group to be current, then until a snapshot is durable and not current:
/// its transactions are committed just now, or were. Ends as well when all is done.
#[track_caller]
pub fn durable_and_not_current(group: &Path, is_done: impl Fn() -> bool) {
    const LOOKS: usize = 1000;
    let [_, before] = epochs(group);
    eventually("a snapshot that is durable and not current", || {
        let is_now = (0..LOOKS).any(|_| {
            let [newest, current] = epochs(group);
            current > before && newest > current
        });
        is_now || is_done()
    });
}

/// Number of the newest snapshot of a group, and what is marked current.
pub fn epochs(group: &Path) -> [u64; 2] {
    let files = fs::read_dir(group).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let numbers = names.filter_map(|name| name.strip_prefix("snapshot-")?.parse().ok());
    let newest = numbers.max().unwrap_or(0);
    let current = fs::read_to_string(group.join("current")).unwrap_or_default();
    let current = current.lines().next().unwrap_or_default();
    [newest, current.parse().unwrap_or(0)]
}

/// Looks again and again for so long; false: it never was so.
fn looked_for(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !is_so() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::park_timeout(LOOK);
    }
    true
}

/// What a command says that is given `input`; one that reads nothing may have gone.
pub fn piped(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    // Beside what it says: a pipe that is full holds up both.
    let writer = std::thread::spawn(move || stdin.write_all(&input).ok());
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    output
}

/// What was said, as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
