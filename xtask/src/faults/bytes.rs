//! What a byte costs in messages of 1 kB and of 64 MB: never more in a large one, on each listener and by
//! each mapper, whatever the bytes are.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::bench::{Bench, Scale};

/// Lengths of messages; in all as many bytes are sent of each.
const LENGTHS: [usize; 3] = [1 << 10, 64 << 10, 2 << 20];
const LENGTHS_LONG: [usize; 3] = [1 << 10, 1 << 20, (64 << 20) - 1024];

/// A byte of a large message costs at most so many times that of a smaller one.
const FACTOR_MAX: f64 = 3.0;

/// Processor time is counted in hundredths of a second: less than so many tell nothing.
const TICKS_MIN: u64 = 5;

const ANSWER_MAX: Duration = Duration::from_secs(240);

/// A kind of message: head, part that comes again and again, tail.
struct Shape {
    mapper: &'static str,
    name: &'static str,
    head: &'static str,
    part: &'static str,
    tail: &'static str,
}

const fn shape(
    mapper: &'static str,
    name: &'static str,
    [head, part, tail]: [&'static str; 3],
) -> Shape {
    Shape {
        mapper,
        name,
        head,
        part,
        tail,
    }
}

const SHAPES: &[Shape] = &[
    shape("csv", "commas", ["", ",", "\n"]),
    shape("csv", "quoted fields", ["", "\"a\",", "\n"]),
    shape("csv", "rows", ["", "a,1\n", ""]),
    shape(
        "json",
        "a long text",
        ["{\"event\":{\"a\":\"", "x", "\",\"b\":1}}"],
    ),
    shape(
        "json",
        "many events",
        [
            "[",
            "{\"event\":{\"a\":\"x\",\"b\":1}},",
            "{\"event\":{\"a\":\"x\",\"b\":1}}]",
        ],
    ),
    shape(
        "json",
        "many keys",
        ["{\"event\":{", "\"k\":1,", "\"a\":\"x\",\"b\":1}}"],
    ),
    shape("json", "depth", ["", "[", ""]),
    shape(
        "xml",
        "many events",
        ["<events>", "<event><a>x</a><b>1</b></event>", "</events>"],
    ),
    shape("xml", "attributes", ["<events ", "a='1' ", "/>"]),
    shape("xml", "depth", ["", "<a>", ""]),
    shape("text", "a long text", ["a:\"", "x", "\",\nb:1"]),
    shape("text", "lines", ["", "a\n", ""]),
];

impl Shape {
    fn message(&self, bytes: usize) -> String {
        let count = bytes.saturating_sub(self.head.len() + self.tail.len()) / self.part.len();
        [self.head, &self.part.repeat(count), self.tail].concat()
    }
}

struct Site {
    http: u16,
    tcp: u16,
    socket: u16,
    child: Child,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Site {
    fn start(bench: &Bench) -> anyhow::Result<Site> {
        let port = testservers::free_port;
        let (http, tcp, socket) = (port()?, port()?, port()?);
        let mut app = String::from("@app:name('Bytes')\n");
        for mapper in ["csv", "json", "xml", "text"] {
            app.push_str(&format!(
                "@source(type='http', receiver.url='http://127.0.0.1:{http}/{mapper}', @map(type='{mapper}'))\n\
                 define stream In_{mapper} (a string, b long);\n"
            ));
        }
        app.push_str(&format!(
            "@source(type='tcp', context='C', @map(type='binary')) define stream In_tcp (a string);\n\
             @source(type='websocket-server', host='127.0.0.1', port='{socket}', @map(type='json'))\n\
             define stream In_socket (a string);\n"
        ));
        fs::write(bench.path("bytes.siddhi"), app)?;
        fs::write(
            bench.path("deployment.yaml"),
            format!(
                "siddhi:\n  extensions:\n    - extension:\n        name: tcp\n        namespace: source\n        \
                 properties:\n          host: 127.0.0.1\n          port: {tcp}\n"
            ),
        )?;
        let child = Command::new(&bench.binary)
            .arg("run")
            .arg(bench.path("bytes.siddhi"))
            .arg("--config")
            .arg(bench.path("deployment.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(bench.path("log"))?)
            .spawn()
            .context("cannot start headwater")?;
        let site = Site {
            http,
            tcp,
            socket,
            child,
        };
        let end = Instant::now() + Duration::from_secs(20);
        for port in [http, tcp, socket] {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                ensure!(Instant::now() < end, "nothing listens on port {port}");
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
        Ok(site)
    }

    /// Hundredths of a second that the process has worked.
    fn worked(&self) -> anyhow::Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let numbers = fields.split(' ').skip(11).take(2);
        Ok(numbers.filter_map(|n| n.parse::<u64>().ok()).sum())
    }

    fn post(&self, path: &str, message: &str, count: usize) -> anyhow::Result<()> {
        let mut stream = connect(self.http)?;
        for _ in 0..count {
            let head = format!(
                "POST /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n",
                message.len()
            );
            let writer = stream.get_mut();
            writer.write_all(head.as_bytes())?;
            writer.write_all(message.as_bytes())?;
            let (status, length) = head_of(&mut stream)?;
            ensure!(status.contains(" 200 "), "answered with {status}");
            stream.read_exact(&mut vec![0; length])?;
        }
        Ok(())
    }

    /// Frames of one event; the connection ends when they are read.
    fn frames(&self, length: usize, count: usize) -> anyhow::Result<()> {
        let mut stream = connect(self.tcp)?;
        let text = vec![b'x'; length];
        let mut data = [1_u32.to_be_bytes().as_slice(), &[0; 8]].concat();
        data.extend_from_slice(&(length as u32).to_be_bytes());
        data.extend_from_slice(&text);
        let mut frame = vec![2];
        frame.extend_from_slice(&(4 + 5 + 4 + data.len() as u32).to_be_bytes());
        frame.extend_from_slice(b"\0\0\0\0\0\0\0\x01C");
        frame.extend_from_slice(&(data.len() as u32).to_be_bytes());
        frame.extend_from_slice(&data);
        for _ in 0..count {
            stream.get_mut().write_all(&frame)?;
        }
        stream.get_mut().shutdown(std::net::Shutdown::Write)?;
        ensure!(stream.read(&mut [0])? == 0, "the source answers");
        Ok(())
    }

    /// Messages of one event; a ping after them is answered when they are read.
    fn messages(&self, length: usize, count: usize) -> anyhow::Result<()> {
        let mut stream = connect(self.socket)?;
        stream.get_mut().write_all(
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        )?;
        let (status, _) = head_of(&mut stream)?;
        ensure!(status.contains(" 101 "), "answered with {status}");
        let text = "x".repeat(length);
        let message = format!("{{\"event\":{{\"a\":\"{text}\"}}}}");
        let mut frame = vec![0x81, 0xff];
        frame.extend_from_slice(&(message.len() as u64).to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(message.as_bytes());
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

pub fn each_size(bench: &Bench) -> anyhow::Result<()> {
    let lengths = match bench.scale {
        Scale::Long => LENGTHS_LONG,
        Scale::Short | Scale::Sample => LENGTHS,
    };
    let all = lengths[2];
    let site = Site::start(bench)?;
    let mut amiss = Vec::new();
    for shape in SHAPES {
        let name = format!("http, {}, {}", shape.mapper, shape.name);
        let send = |length: usize| {
            let message = shape.message(length);
            site.post(shape.mapper, &message, all / length)
        };
        amiss.extend(compared(&site, &name, lengths, &send)?);
    }
    let frames = |length: usize| site.frames(length, all / length);
    amiss.extend(compared(&site, "tcp, binary", lengths, &frames)?);
    let messages = |length: usize| site.messages(length, all / length);
    amiss.extend(compared(
        &site,
        "websocket-server, json",
        lengths,
        &messages,
    )?);
    ensure!(
        amiss.is_empty(),
        "large messages are dearer: {}",
        amiss.join("; ")
    );
    Ok(())
}

/// Prints what a byte costs at each length; the words where it costs too much.
fn compared(
    site: &Site,
    name: &str,
    lengths: [usize; 3],
    send: &dyn Fn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Option<String>> {
    // The tcp source takes what it has read a moment later: the process is asked when it rests.
    let mut ticks = [0; 3];
    for (length, ticks) in lengths.iter().zip(&mut ticks) {
        let before = site.worked()?;
        send(*length).with_context(|| format!("{name}, messages of {length} bytes"))?;
        *ticks = rested(site)? - before;
    }
    let bytes = lengths[2] as f64;
    let costs = ticks.map(|ticks| ticks as f64 * 1e7 / bytes);
    println!(
        "        {name}: {:.1}, {:.1}, {:.1} ns a byte in messages of {} B, {} B, {} B",
        costs[0], costs[1], costs[2], lengths[0], lengths[1], lengths[2]
    );
    let [small, middle, large] = ticks.map(|ticks| ticks.max(TICKS_MIN) as f64);
    let factor = (large / middle).max(large / small).max(middle / small);
    Ok((factor > FACTOR_MAX).then(|| format!("{name}: {factor:.1} times")))
}

/// What the process has worked when it works no more.
fn rested(site: &Site) -> anyhow::Result<u64> {
    let mut last = site.worked()?;
    let mut quiet = 0;
    while quiet < 5 {
        std::thread::park_timeout(Duration::from_millis(20));
        let now = site.worked()?;
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(last)
}
