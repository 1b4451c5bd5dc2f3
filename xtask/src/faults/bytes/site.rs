//! A server with a source for each kind of message, and the clients that send them there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::super::bench::{Bench, finish, kill};
use super::call::Call;
use super::shapes::{Shape, Way, groups};

const ANSWER_MAX: Duration = Duration::from_secs(240);
const LOOK: Duration = Duration::from_millis(20);

const AVRO: &str = r#"{"type":"record","name":"S","fields":[{"name":"a","type":"string"},{"name":"b","type":{"type":"array","items":"string"}}]}"#;

/// Where the server listens.
struct Ports {
    http: u16,
    https: u16,
    tcp: u16,
    socket: u16,
    grpc: u16,
    own: u16,
}

pub(super) struct Site {
    ports: Ports,
    dir: PathBuf,
    files: usize,
    /// Messages that were sent to the source of each stream.
    sent: BTreeMap<&'static str, u64>,
    child: Option<Child>,
}

impl Drop for Site {
    fn drop(&mut self) {
        // Only where the case has failed is it still there.
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// A file of the workspace.
fn of_workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn app(ports: &Ports, dir: &Path) -> String {
    let Ports {
        http,
        https,
        socket,
        grpc,
        ..
    } = ports;
    let (dir, limit) = (dir.display(), 64 << 20);
    let description = of_workspace("crates/connect/src/mapper/protobuf/tests.proto");
    let description = format!("descriptor.file='{}'", description.display());
    let mut app = String::from("@app:name('Bytes')\n");
    for mapper in ["csv", "json", "xml", "text"] {
        app.push_str(&format!(
            "@source(type='http', receiver.url='http://127.0.0.1:{http}/{mapper}', @map(type='{mapper}'))\n\
             define stream {mapper} (a string, b long);\n"
        ));
    }
    app.push_str(&format!(
        "@source(type='http', receiver.url='https://127.0.0.1:{https}/tls', @map(type='json'))\n\
         define stream tls (a string, b long);\n\
         @source(type='tcp', context='binary', @map(type='binary')) define stream binary (a string);\n\
         @source(type='tcp', context='avro', @map(type='avro', schema.def=\"\"\"{AVRO}\"\"\"))\n\
         define stream avro (a string, b object);\n\
         @source(type='tcp', context='plain', @map(type='protobuf', {description}, class='sample.Plain'))\n\
         define stream plain (text string, count int);\n\
         @source(type='tcp', context='nested', @map(type='protobuf', {description}, class='sample.Nested'))\n\
         define stream nested (list object);\n\
         @source(type='websocket-server', host='127.0.0.1', port='{socket}', @map(type='json'))\n\
         define stream socket (a string, b long);\n\
         @source(type='grpc', receiver.url='grpc://127.0.0.1:{grpc}/org.wso2.grpc.EventService/consume', max.inbound.message.size='{limit}', @map(type='json'))\n\
         define stream event (a string, b long);\n\
         @source(type='grpc', receiver.url='grpc://127.0.0.1:{grpc}/sample.Rows/takeAll', max.inbound.message.size='{limit}', {description}, @map(type='protobuf'))\n\
         define stream call (text string, count int);\n\
         @source(type='file', mode='line', dir.uri='file:{dir}/in', tailing='false', file.polling.interval='20', action.after.process='move', move.after.process='file:{dir}/done', @map(type='csv'))\n\
         define stream line (a string, b long);\n\
         define stream rows (a string, b long);\n"
    ));
    app
}

fn config(ports: &Ports) -> String {
    let keys = of_workspace("crates/connect/src/net/testdata/server.jks");
    format!(
        "siddhi:\n  extensions:\n    - extension:\n        name: tcp\n        namespace: source\n        \
         properties:\n          host: 127.0.0.1\n          port: {}\n    - extension:\n        name: http\n        \
         namespace: source\n        properties:\n          keyStoreLocation: {}\n          keyStorePassword: \
         wso2carbon\n          keyPassword: secret12\n",
        ports.tcp,
        keys.display()
    )
}

impl Site {
    pub fn start(bench: &Bench) -> anyhow::Result<Site> {
        let port = testservers::free_port;
        let ports = Ports {
            http: port()?,
            https: port()?,
            tcp: port()?,
            socket: port()?,
            grpc: port()?,
            own: port()?,
        };
        for folder in ["coming", "in", "done"] {
            fs::create_dir(bench.path(folder))?;
        }
        fs::write(bench.path("bytes.siddhi"), app(&ports, &bench.dir))?;
        fs::write(bench.path("deployment.yaml"), config(&ports))?;
        let child = Command::new(&bench.binary)
            .arg("run")
            .arg(bench.path("bytes.siddhi"))
            .arg("--config")
            .arg(bench.path("deployment.yaml"))
            .args(["--json", "--http", &format!("127.0.0.1:{}", ports.own)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(bench.path("log"))?)
            .spawn()
            .context("cannot start headwater")?;
        let site = Site {
            ports,
            dir: bench.dir.clone(),
            files: 0,
            sent: BTreeMap::new(),
            child: Some(child),
        };
        let Ports {
            http,
            https,
            tcp,
            socket,
            grpc,
            own,
        } = site.ports;
        let end = Instant::now() + Duration::from_secs(20);
        for port in [http, https, tcp, socket, grpc, own] {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                let log = || fs::read_to_string(bench.path("log")).unwrap_or_default();
                ensure!(
                    Instant::now() < end,
                    "nothing listens on port {port}: {}",
                    log()
                );
                std::thread::park_timeout(LOOK);
            }
        }
        Ok(site)
    }

    fn process(&self) -> anyhow::Result<u32> {
        let child = self.child.as_ref();
        Ok(child.context("the server has ended")?.id())
    }

    /// Hundredths of a second that the process has worked.
    pub fn worked(&self) -> anyhow::Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process()?))?;
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let numbers = fields.split(' ').skip(11).take(2);
        Ok(numbers.filter_map(|n| n.parse::<u64>().ok()).sum())
    }

    /// Sends a message so many times, and returns when the server has read all.
    pub fn send(&mut self, shape: &Shape, length: usize, count: usize) -> anyhow::Result<()> {
        *self.sent.entry(shape.stream).or_default() += count as u64;
        let message = shape.message(length);
        match shape.way {
            Way::Http => self.post(self.ports.http, shape.stream, &message, count),
            Way::Https => self.post_by_curl(&message, count),
            Way::Tcp => self.frames(shape.stream, &message, count),
            Way::Socket => self.socket(&message, count),
            Way::Event => {
                let path = "/org.wso2.grpc.eventservice.EventService/consume";
                self.call(path, &event(shape.stream, &message), count)
            }
            Way::Call => self.call("/sample.Rows/takeAll", &message, count),
            Way::Line => self.lines(&message, count),
            Way::Rows => {
                let path = format!("siddhi-apps/Bytes/streams/{}/events", shape.stream);
                self.post(self.ports.own, &path, &message, count)
            }
        }
    }

    /// Stops in order: each source has taken or rejected all that was sent to it.
    pub fn end(mut self) -> anyhow::Result<()> {
        let child = self.child.take().context("the server has ended")?;
        kill(child.id(), "TERM")?;
        let ran = finish(child)?;
        ensure!(ran.code == 0, "exit {}", ran.code);
        let apps = ran.summary["apps"].as_array().into_iter().flatten();
        let sources: Vec<_> = apps
            .flat_map(|app| app["sources"].as_array().into_iter().flatten())
            .collect();
        for (stream, sent) in &self.sent {
            // What is sent by hand has no source; each of its requests was answered.
            let Some(source) = sources.iter().find(|source| source["stream"] == *stream) else {
                ensure!(*stream == "rows", "no source of '{stream}'");
                continue;
            };
            let count = |what: &str| source[what].as_u64().unwrap_or(0);
            let (events, rejected) = (count("events"), count("rejected"));
            ensure!(
                events > 0 && events + rejected >= *sent,
                "'{stream}' has {events} events and {rejected} rejected ones of {sent} messages"
            );
        }
        Ok(())
    }

    fn post(&self, port: u16, path: &str, message: &[u8], count: usize) -> anyhow::Result<()> {
        let mut stream = connect(port)?;
        for _ in 0..count {
            let head = format!(
                "POST /{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n",
                message.len()
            );
            let writer = stream.get_mut();
            writer.write_all(head.as_bytes())?;
            writer.write_all(message)?;
            let (status, length) = head_of(&mut stream)?;
            let mut body = vec![0; length];
            stream.read_exact(&mut body)?;
            let said = String::from_utf8_lossy(&body);
            ensure!(status.contains(" 200 "), "answered with {status}{said}");
        }
        Ok(())
    }

    fn post_by_curl(&self, message: &[u8], count: usize) -> anyhow::Result<()> {
        let path = self.dir.join("message");
        fs::write(&path, message)?;
        let body = format!("@{}", path.display());
        let output = Command::new("curl")
            // No question whether a large body may come: the answer would be waited for.
            .args(["-sk", "-o", "/dev/null", "-H", "Expect:"])
            .args(["-w", "%{http_code}\\n", "--data-binary", &body])
            .arg(format!(
                "https://127.0.0.1:{}/tls?[1-{count}]",
                self.ports.https
            ))
            .output()
            .context("the command 'curl' is needed (package curl)")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let taken = text.lines().filter(|line| *line == "200").count();
        ensure!(taken == count, "{taken} of {count} were answered with 200");
        Ok(())
    }

    /// Frames of one message; the connection ends when they are read.
    fn frames(&self, channel: &str, message: &[u8], count: usize) -> anyhow::Result<()> {
        let mut stream = connect(self.ports.tcp)?;
        let mut rest = Vec::new();
        for part in [&[], channel.as_bytes(), message] {
            rest.extend_from_slice(&(part.len() as u32).to_be_bytes());
            rest.extend_from_slice(part);
        }
        let length = (rest.len() as u32).to_be_bytes();
        let frame = [[2].as_slice(), &length, &rest].concat();
        for _ in 0..count {
            stream.get_mut().write_all(&frame)?;
        }
        stream.get_mut().shutdown(Shutdown::Write)?;
        ensure!(stream.read(&mut [0])? == 0, "the source answers");
        Ok(())
    }

    /// Messages of text; a ping after them is answered when they are read.
    fn socket(&self, message: &[u8], count: usize) -> anyhow::Result<()> {
        let mut stream = connect(self.ports.socket)?;
        stream.get_mut().write_all(
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        )?;
        let (status, _) = head_of(&mut stream)?;
        ensure!(status.contains(" 101 "), "answered with {status}");
        // A length has as few bytes as it needs (RFC 6455, 5.2).
        let mut frame = vec![0x81];
        match (u8::try_from(message.len()), u16::try_from(message.len())) {
            (Ok(len @ ..=125), _) => frame.push(0x80 | len),
            (_, Ok(len)) => {
                frame.push(0xfe);
                frame.extend_from_slice(&len.to_be_bytes());
            }
            _ => {
                frame.push(0xff);
                frame.extend_from_slice(&(message.len() as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(message);
        let ping = b"\x89\x84\0\0\0\0done";
        for _ in 0..count {
            stream.get_mut().write_all(&frame)?;
        }
        stream.get_mut().write_all(ping)?;
        let mut seen: Vec<u8> = Vec::new();
        while !seen.ends_with(b"done") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            seen.push(byte[0]);
        }
        Ok(())
    }

    fn call(&self, path: &str, message: &[u8], count: usize) -> anyhow::Result<()> {
        let mut call = Call::open(connect(self.ports.grpc)?, path)?;
        for _ in 0..count {
            call.send(message)?;
        }
        call.end()
    }

    /// A file of such lines, which is moved when it is read.
    fn lines(&mut self, line: &[u8], count: usize) -> anyhow::Result<()> {
        self.files += 1;
        let name = format!("{}.csv", self.files);
        let [coming, there, done] = ["coming", "in", "done"].map(|dir| self.dir.join(dir));
        let line = [line, b"\n"].concat();
        fs::write(coming.join(&name), line.repeat(count))?;
        fs::rename(coming.join(&name), there.join(&name))?;
        let began = Instant::now();
        while !done.join(&name).exists() {
            ensure!(began.elapsed() < ANSWER_MAX, "the file is not read");
            std::thread::park_timeout(LOOK);
        }
        Ok(())
    }
}

/// An event of Siddhi's own service: its text, and the header that names its stream.
fn event(stream: &str, text: &[u8]) -> Vec<u8> {
    let field =
        |tag: u8, bytes: &[u8]| [&[tag], groups(bytes.len() as u64).as_slice(), bytes].concat();
    let header = [field(0x0a, b"stream.id"), field(0x12, stream.as_bytes())].concat();
    [field(0x0a, text), field(0x12, &header)].concat()
}

fn connect(port: u16) -> anyhow::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    // Head and body are two writes: the second must not wait for the receipt of the first, 40 ms each.
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// The first line of an answer, and the length of its body.
fn head_of(stream: &mut BufReader<TcpStream>) -> anyhow::Result<(String, usize)> {
    let (mut status, mut length) = (String::new(), 0);
    stream.read_line(&mut status)?;
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line)? > 0, "the connection has ended");
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            return Ok((status, length));
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
}
