//! One publisher and thousands who hear it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::{Against, Bar, CPU_EACH, Case, OPEN, Spent, figure, p99, paced};
use crate::gateway::Bench;
use crate::gateway::crowd::{Crowd, Publisher, message};
use crate::gateway::peer::{Peer, Site, sse_request, websocket_request};
use crate::gateway::report::Figure;

const CLIENTS: usize = 5_000;
const EVENT_BYTES: usize = 82;
const PERIOD: Duration = Duration::from_millis(100);
const SECONDS: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(30);

const LAST: &str = "ms to the last client, p99";
const DELIVERED: &str = "delivered a second";

pub(in crate::gateway) static SSE: Case = Case {
    name: "sse-fan-out",
    about: "5,000 clients hear 10 events of 82 bytes a second by server-sent events",
    peers: &[Peer::Headwater, Peer::Nchan],
    measure: |bench| fan_out(bench, Protocol::Sse),
    bars: &[
        Bar {
            figure: CPU_EACH,
            against: Against::Peer(Peer::Nchan),
            must: 0.8,
            target: Some(0.6),
            moonshot: Some(0.4),
            is_floor: false,
        },
        Bar {
            figure: LAST,
            against: Against::Itself,
            must: 40.0,
            target: Some(25.0),
            moonshot: Some(12.0),
            is_floor: false,
        },
    ],
};

pub(in crate::gateway) static WEBSOCKET: Case = Case {
    name: "websocket-fan-out",
    about: "5,000 clients hear 10 events of 82 bytes a second by WebSocket",
    peers: &[Peer::Headwater, Peer::Bun, Peer::Nchan],
    measure: |bench| fan_out(bench, Protocol::WebSocket),
    bars: &[Bar {
        figure: CPU_EACH,
        against: Against::Peer(Peer::Bun),
        must: 1.25,
        target: Some(1.0),
        moonshot: Some(0.75),
        is_floor: false,
    }],
};

pub(in crate::gateway) static WINDOW: Case = Case {
    name: "window",
    about: "1,000 clients hear by WebSocket as much as they can take, 10 ms of events at a time",
    peers: &[Peer::Headwater, Peer::Bun],
    measure: window,
    bars: &[
        Bar {
            figure: DELIVERED,
            against: Against::Peer(Peer::Bun),
            must: 1.5,
            target: Some(2.5),
            moonshot: None,
            is_floor: true,
        },
        Bar {
            figure: DELIVERED,
            against: Against::Itself,
            must: 0.0,
            target: Some(1e6),
            moonshot: Some(3e6),
            is_floor: true,
        },
    ],
};

#[derive(Clone, Copy)]
enum Protocol {
    Sse,
    WebSocket,
}

/// A server with a topic, all clients of it, and who publishes.
struct FanOut {
    site: Site,
    crowd: Crowd,
    publisher: Publisher,
}

impl FanOut {
    fn start(bench: &Bench<'_>, protocol: Protocol, clients: usize) -> anyhow::Result<FanOut> {
        let site = match bench.peer {
            Peer::Headwater => Site::headwater(&bench.program, bench.dir, &[("bench.yaml", OPEN)])?,
            Peer::Bun => Site::bun(&bench.program, bench.dir)?,
            _ => Site::nginx(&bench.program, bench.dir, None)?,
        };
        let (hears, publishes) = match (bench.peer, protocol) {
            (Peer::Headwater, _) => ("/bench/t", "/bench/t"),
            (_, Protocol::Sse) => ("/sse", "/pub"),
            (_, Protocol::WebSocket) => ("/ws", "/pub"),
        };
        let request: fn(SocketAddr, &str, &str) -> String = match protocol {
            Protocol::Sse => sse_request,
            Protocol::WebSocket => websocket_request,
        };
        let mut crowd = Crowd::new()?;
        crowd.connect(site.address, clients, |_| request(site.address, hears, ""))?;
        // Bun subscribes a client behind its answer.
        crowd.turn(Instant::now() + Duration::from_millis(200))?;
        let publisher = site.publisher(publishes)?;
        Ok(FanOut {
            site,
            crowd,
            publisher,
        })
    }

    /// Publishes the messages of these numbers.
    fn publish(&mut self, numbers: std::ops::Range<u64>) -> anyhow::Result<()> {
        for number in numbers {
            let text = message(number, self.crowd.now(), EVENT_BYTES);
            self.publisher.post(&text)?;
        }
        self.publisher.answered()
    }
}

fn fan_out(bench: &Bench<'_>, protocol: Protocol) -> anyhow::Result<Vec<Figure>> {
    let mut all = FanOut::start(bench, protocol, bench.connections(CLIENTS))?;
    let clients = all.crowd.len() as u64;
    // Buffers have their size after a few.
    const WARM: u64 = 5;
    for number in 0..WARM {
        all.publish(number..number + 1)?;
        all.crowd.wait_for((number + 1) * clients, PATIENCE)?;
    }
    let count = bench.seconds(SECONDS) * 10;
    let spent = Spent::begin(&all.site)?;
    let late = all.crowd.late;
    let mut sent = Vec::new();
    let FanOut {
        crowd, publisher, ..
    } = &mut all;
    paced(crowd, count, PERIOD, |crowd, index| {
        let at = crowd.now();
        sent.push(at);
        publisher.post(&message(WARM + index, at, EVENT_BYTES))?;
        publisher.answered()
    })?;
    crowd.wait_for((WARM + count) * clients, PATIENCE)?;
    let mut figures = spent.figures(&all.site, count * clients)?;
    let last = sent.iter().zip(WARM..).map(|(at, number)| {
        let arrival = all.crowd.arrival(number);
        arrival.last - at
    });
    figures.insert(1, figure(LAST, p99(last.collect()) / 1e3, 1));
    let mean = (all.crowd.late - late) as f64 / (count * clients) as f64;
    figures.insert(2, figure("ms to a client, mean", mean / 1e3, 1));
    let arrived = (WARM..WARM + count).map(|number| u64::from(all.crowd.arrival(number).clients));
    ensure!(
        arrived.sum::<u64>() == count * clients,
        "messages are missing"
    );
    Ok(figures)
}

/// The publisher is as far ahead as this, and no further, of the client that is last.
const AHEAD: u64 = 64;
const AT_ONCE: u64 = 8;

fn window(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let mut all = FanOut::start(bench, Protocol::WebSocket, bench.connections(1_000))?;
    let clients = all.crowd.len() as u64;
    all.publish(0..AT_ONCE)?;
    all.crowd.wait_for(AT_ONCE * clients, PATIENCE)?;
    let spent = Spent::begin(&all.site)?;
    let (begun, mut next) = (Instant::now(), AT_ONCE);
    let end = begun + Duration::from_secs(bench.seconds(SECONDS));
    while Instant::now() < end {
        while next > AHEAD && u64::from(all.crowd.arrival(next - AHEAD).clients) < clients {
            ensure!(
                begun.elapsed() < PATIENCE * 2,
                "clients have stopped to hear"
            );
            all.crowd.turn(Instant::now() + Duration::from_millis(1))?;
        }
        all.publish(next..next + AT_ONCE)?;
        next += AT_ONCE;
        all.crowd.turn(Instant::now())?;
    }
    all.crowd.wait_for(next * clients, PATIENCE)?;
    let messages = (next - AT_ONCE) * clients;
    let seconds = begun.elapsed().as_secs_f64();
    let mut figures = vec![figure(DELIVERED, messages as f64 / seconds, 0)];
    figures.extend(spent.figures(&all.site, messages)?);
    Ok(figures)
}
