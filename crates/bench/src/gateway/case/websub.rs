//! The published scenario of WebSub: an event of 8 kB to ten thousand callbacks, each with a secret of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::{Against, Bar, Case, OPEN, Spent, figure};
use crate::gateway::Bench;
use crate::gateway::callbacks::{Callbacks, secret};
use crate::gateway::crowd::message;
use crate::gateway::peer::{Peer, Site};
use crate::gateway::report::Figure;

const CALLBACKS: usize = 10_000;
const ORIGINS: usize = 200;
const EVENT_BYTES: usize = 8_000;

/// Subscriptions that wait to be verified, at most: half of what a hub verifies at once.
const IN_VERIFICATION: usize = 128;

/// Events that are measured, after one that has made the connections.
const EVENTS: u32 = 5;

const PATIENCE: Duration = Duration::from_secs(120);

const SECONDS: &str = "seconds for 10,000 callbacks";
const GROWN: &str = "memory grown, MB";

pub(in crate::gateway) static WEBSUB: Case = Case {
    name: "seed-websub",
    about: "an event of 8 kB to 10,000 callbacks at 200 origins, each signed with a secret of its own, connections warm; \
            wrk posts the same bytes unsigned over 256 connections",
    peers: &[Peer::Headwater, Peer::Wrk],
    measure: websub,
    bars: &[
        Bar {
            figure: SECONDS,
            against: Against::Peer(Peer::Wrk),
            must: 4.0,
            target: Some(2.0),
            moonshot: None,
            is_floor: false,
        },
        Bar {
            figure: GROWN,
            against: Against::Itself,
            must: 64.0,
            target: None,
            moonshot: None,
            is_floor: false,
        },
    ],
};

fn websub(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.connections(CALLBACKS);
    let callbacks = Callbacks::start(count)?;
    match bench.peer {
        Peer::Wrk => wrk(bench, &callbacks),
        _ => hub(bench, &callbacks, count),
    }
}

fn hub(bench: &Bench<'_>, callbacks: &Callbacks, count: usize) -> anyhow::Result<Vec<Figure>> {
    let document = format!("{OPEN}  websub: {{ callback-networks: [ '127.0.0.0/8' ] }}\n");
    let files = [("bench.yaml", document.as_str())];
    let site = Site::headwater(&bench.program, bench.dir, &files)?;
    subscribe(&site, callbacks, count)?;
    let mut publisher = site.publisher("/bench/t")?;
    let mut publish = |event: u32| -> anyhow::Result<f64> {
        let begun = Instant::now();
        publisher.post(&message(event.into(), 0, EVENT_BYTES))?;
        publisher.answered()?;
        callbacks.wait_delivered(u64::from(event) * count as u64, PATIENCE)?;
        Ok(begun.elapsed().as_secs_f64())
    };
    publish(1)?;
    let (spent, before) = (Spent::begin(&site)?, site.process.pss()?);
    let mut seconds = 0.0;
    for event in 2..EVENTS + 2 {
        seconds += publish(event)?;
    }
    callbacks.verify(EVENTS + 1)?;
    let messages = u64::from(EVENTS) * count as u64;
    let grown = site.process.pss()?.saturating_sub(before) as f64 / 1e6;
    let each = seconds / messages as f64 * CALLBACKS as f64;
    let mut figures = vec![figure(SECONDS, each, 3), figure(GROWN, grown, 1)];
    figures.extend(spent.figures(&site, messages)?);
    Ok(figures)
}

fn subscribe(site: &Site, callbacks: &Callbacks, count: usize) -> anyhow::Result<()> {
    let mut line = TcpStream::connect(site.address)?;
    line.set_nodelay(true)?;
    line.set_read_timeout(Some(PATIENCE))?;
    let mut answer = [0; 4096];
    for number in 0..count {
        let form = format!(
            "hub.mode=subscribe&hub.topic=/t&hub.callback={}&hub.secret={}",
            callbacks.url(number, ORIGINS),
            secret(number)
        );
        // In one piece: several would wait for each other's acknowledgement.
        let request = format!(
            "POST /bench HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{form}",
            site.address,
            form.len()
        );
        line.write_all(request.as_bytes())?;
        let read = line.read(&mut answer)?;
        ensure!(
            answer[..read].starts_with(b"HTTP/1.1 202"),
            "a subscription was answered: {}",
            String::from_utf8_lossy(&answer[..read])
        );
        // The hub refuses more than it verifies at once.
        if number % IN_VERIFICATION == 0 {
            callbacks.wait_confirmed(number as u64 + 1, PATIENCE)?;
        }
    }
    callbacks.wait_confirmed(count as u64, PATIENCE)?;
    // The last answers are on their way to the hub.
    std::thread::park_timeout(Duration::from_millis(500));
    Ok(())
}

fn wrk(bench: &Bench<'_>, callbacks: &Callbacks) -> anyhow::Result<Vec<Figure>> {
    let script = bench.dir.join("post.lua");
    let body = message(0, 0, EVENT_BYTES);
    std::fs::write(
        &script,
        format!(
            "wrk.method = 'POST'\nwrk.body = '{body}'\nwrk.headers['Content-Type'] = 'application/json'\n"
        ),
    )?;
    let seconds = bench.seconds(5);
    let output = Command::new(&bench.program)
        .args(["--threads", "1", "--connections", "256", "--duration"])
        .arg(format!("{seconds}s"))
        .arg("--script")
        .arg(&script)
        .arg(format!("http://127.0.0.1:{}/raw", callbacks.port))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "wrk fails: {said}");
    let rate = said
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    let rate: f64 = rate.context("wrk says no rate")?.trim().parse()?;
    Ok(vec![figure(SECONDS, CALLBACKS as f64 / rate, 3)])
}
