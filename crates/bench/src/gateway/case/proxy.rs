//! The published scenario of server-sent events: each client has a connection of its own to the backend behind the
//! gateway, or all hear one stream of an app. Every token is checked and every event counted.
//!
//! It was rebuilt from prose: the report does not say which of the two its backend had.

use std::time::Duration;

use super::{Against, Bar, CPU_EACH, Case, Spent, WITH_TOKEN, figure, paced, proxied, with_token};
use crate::gateway::Bench;
use crate::gateway::backend::Backend;
use crate::gateway::crowd::{Crowd, message};
use crate::gateway::peer::{Peer, Site, sse_request};
use crate::gateway::report::Figure;

const CLIENTS: usize = 5_000;
const EVENT_BYTES: usize = 82;
const PERIOD: Duration = Duration::from_millis(100);
const SECONDS: u64 = 30;
const PATIENCE: Duration = Duration::from_secs(30);

const ERRORS: &str = "errors";

const NO_ERRORS: Bar = Bar {
    figure: ERRORS,
    against: Against::Itself,
    must: 0.0,
    target: None,
    moonshot: None,
    is_floor: false,
};

pub(in crate::gateway) static PROXY: Case = Case {
    name: "seed-sse-proxy",
    about: "5,000 clients with a token, each with a connection to the backend, 10 events of 82 bytes a second for 30 s; \
            nginx checks no token",
    peers: &[Peer::Headwater, Peer::Nginx],
    measure: proxy,
    bars: &[
        NO_ERRORS,
        Bar {
            figure: CPU_EACH,
            against: Against::Peer(Peer::Nginx),
            must: 1.3,
            target: Some(1.1),
            moonshot: Some(0.9),
            is_floor: false,
        },
    ],
};

pub(in crate::gateway) static STREAM: Case = Case {
    name: "seed-sse-stream",
    about: "5,000 clients with a token hear one stream of an app, 10 events of 82 bytes a second for 30 s",
    peers: &[Peer::Headwater],
    measure: stream,
    bars: &[NO_ERRORS],
};

fn proxy(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let backend = Backend::start()?;
    let (site, path, header) = proxied(bench, &backend, "http")?;
    let mut crowd = Crowd::new()?;
    let count = bench.connections(CLIENTS);
    crowd.connect(site.address, count, |_| {
        sse_request(site.address, path, &header)
    })?;
    measured(bench, &site, &mut crowd, |at, number| {
        backend.emit(number, at, EVENT_BYTES);
        Ok(())
    })
}

fn stream(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    const APP: &str = "@app:name('Bench')\n\
        @source(type='websocket-server', api='other', topic='/in', @map(type='json', \
        @attributes(seq='seq', at='at', pad='pad')))\n\
        define stream Ticks (seq string, at string, pad string);\n";
    let document = format!("{WITH_TOKEN}  topics: {{ /t: {{ stream: Bench/Ticks }} }}\n");
    let files = [("bench.siddhi", APP), ("bench.yaml", document.as_str())];
    let site = Site::headwater(&bench.program, bench.dir, &files)?;
    let header = with_token(&site, bench)?;
    let mut crowd = Crowd::new()?;
    let count = bench.connections(CLIENTS);
    crowd.connect(site.address, count, |_| {
        sse_request(site.address, "/bench/t", &header)
    })?;
    let mut publisher = site.publisher("/other/in")?;
    measured(bench, &site, &mut crowd, |at, number| {
        publisher.post(&message(number, at, EVENT_BYTES))?;
        publisher.answered()
    })
}

fn measured(
    bench: &Bench<'_>,
    site: &Site,
    crowd: &mut Crowd,
    mut emit: impl FnMut(u64, u64) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Figure>> {
    let clients = crowd.len() as u64;
    emit(crowd.now(), 0)?;
    crowd.wait_for(clients, PATIENCE)?;
    let count = bench.seconds(SECONDS) * 10;
    let (spent, late) = (Spent::begin(site)?, crowd.late);
    paced(crowd, count, PERIOD, |crowd, index| {
        emit(crowd.now(), index + 1)
    })?;
    // Whatever is late is waited for: a message that never comes fails the run.
    crowd.wait_for((count + 1) * clients, PATIENCE)?;
    let messages = count * clients;
    let mean = (crowd.late - late) as f64 / messages as f64;
    let mut figures = spent.figures(site, messages)?;
    figures.insert(1, figure("ms to a client, mean", mean / 1e3, 1));
    // Each client had each message once and in order, or the run would have failed.
    figures.push(figure(
        ERRORS,
        (crowd.heard - (count + 1) * clients) as f64,
        0,
    ));
    Ok(figures)
}
