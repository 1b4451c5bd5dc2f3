//! `bench http`: one JSON event a request over 64 connections that are kept open.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::{Command, Done, Load, Scenario, Verified, app};
use crate::site::Site;

pub(super) struct Http;

const CONNECTIONS: u64 = 64;

/// Threads that send; each has its share of the connections.
const THREADS: u64 = 2;

/// How long the app may take until it listens.
const START_MAX: Duration = Duration::from_secs(30);

/// Of the shape of the published app.
const APP: &str = "@App:name('HttpSource')
@source(type='http', worker.count='20', receiver.url='http://127.0.0.1:8081/service', @map(type='json'))
define stream SweetProductionStream (name string, amount double);
@sink(type='log')
define stream HttpSourceThroughputStream(count long);
from SweetProductionStream#window.timeBatch(5 sec) select count(*)/5 as count insert into HttpSourceThroughputStream;
";

const ANSWER: &[u8] = b"HTTP/1.1 200";

impl Scenario for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn about(&self) -> &'static str {
        "one JSON event of 60 bytes a request, 64 connections kept open, load from the same machine"
    }

    fn events(&self) -> u64 {
        1_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            30_000.0,
            "requests/s",
            "HttpSource with 20 workers, JMeter on another host",
        ))
    }

    fn prepare(&self, _: &Site, _: u64) -> anyhow::Result<()> {
        Ok(())
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        let (path, name) = app(site, "HttpSource.siddhi", APP)?;
        let free = free_address(site)?;
        let set = format!("SweetProductionStream.source.receiver.url=http://{free}/service");
        Ok(Command {
            args: vec![path.display().to_string(), "--set".into(), set],
            app: name,
        })
    }

    fn load(&self) -> Option<&dyn Load> {
        Some(self)
    }

    fn verify(&self, _: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        let source = &done.summary["apps"][0]["sources"][0];
        let of = |key: &str| source[key].as_u64().unwrap_or_default();
        verified.equal("events", events, of("events"));
        verified.equal("rejected", 0, of("rejected"));
        Ok(verified)
    }
}

impl Load for Http {
    fn send(&self, site: &Site, events: u64) -> anyhow::Result<f64> {
        let connections = connect(site)?;
        let started = Instant::now();
        post_all(&connections, events)?;
        Ok(started.elapsed().as_secs_f64())
    }
}

/// A free address of this machine, kept for [`connect`].
pub(super) fn free_address(site: &Site) -> anyhow::Result<SocketAddr> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, testservers::free_port()?));
    std::fs::write(site.path("address"), free.to_string())?;
    Ok(free)
}

/// All connections of the load, once the app listens.
pub(super) fn connect(site: &Site) -> anyhow::Result<Vec<TcpStream>> {
    let address = std::fs::read_to_string(site.path("address"))?;
    let deadline = Instant::now() + START_MAX;
    let first = loop {
        match TcpStream::connect(&address) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => {
                return Err(error).context("the app does not listen");
            }
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut all = vec![first];
    for _ in 1..CONNECTIONS {
        all.push(TcpStream::connect(&address)?);
    }
    for stream in &all {
        stream.set_nodelay(true)?;
    }
    Ok(all)
}

/// Posts so many events and reads an answer to each.
pub(super) fn post_all(connections: &[TcpStream], events: u64) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let share = connections.len() / THREADS as usize;
        let mut threads = Vec::new();
        for (thread, mine) in (0..THREADS).zip(connections.chunks(share)) {
            let count = events / THREADS + u64::from(thread < events % THREADS);
            threads.push(scope.spawn(move || post(mine, count)));
        }
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| bail!("a thread of the load broke"))
        })
    })
}

/// One request on each connection, then their answers, again and again.
fn post(connections: &[TcpStream], count: u64) -> anyhow::Result<()> {
    let body = r#"{"name":"chocolate-cake-0123456789","amount":1234567890.25}"#;
    let request = format!(
        "POST /service HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = [0; 1024];
    let mut left = count;
    while left > 0 {
        let now = left.min(connections.len() as u64);
        let busy = &connections[..now as usize];
        for mut stream in busy {
            stream.write_all(request.as_bytes())?;
        }
        for mut stream in busy {
            let mut len = 0;
            while !answer[..len].ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut answer[len..])?;
                if read == 0 {
                    bail!("a connection was closed without an answer");
                }
                len += read;
            }
            if !answer.starts_with(ANSWER) {
                bail!("answered '{}'", String::from_utf8_lossy(&answer[..len]));
            }
        }
        left -= now;
    }
    Ok(())
}
