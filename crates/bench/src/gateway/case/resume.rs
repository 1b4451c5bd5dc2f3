//! Clients who come back and want what they have missed.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::{Against, Bar, Case, OPEN, Spent, figure};
use crate::gateway::Bench;
use crate::gateway::crowd::{Crowd, message};
use crate::gateway::peer::{Peer, Site, sse_request};
use crate::gateway::report::Figure;

const CLIENTS: usize = 5_000;
const MISSED: u64 = 1_000;
const EVENT_BYTES: usize = 82;
const PATIENCE: Duration = Duration::from_secs(60);

const SECONDS: &str = "seconds until all have all";

pub(in crate::gateway) static RESUME: Case = Case {
    name: "resume",
    about: "5,000 clients come back by Last-Event-ID, 1,000 events behind",
    peers: &[Peer::Headwater, Peer::Nchan],
    measure: resume,
    bars: &[Bar {
        figure: SECONDS,
        against: Against::Itself,
        must: 6.0,
        target: Some(3.0),
        moonshot: Some(1.0),
        is_floor: false,
    }],
};

fn resume(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let document =
        format!("{OPEN}  topics: {{ /t: {{ history: {{ events: 2000, age: 10min }} }} }}\n");
    let (site, hears, publishes) = match bench.peer {
        Peer::Headwater => {
            let files = [("bench.yaml", document.as_str())];
            let site = Site::headwater(&bench.program, bench.dir, &files)?;
            (site, "/bench/t", "/bench/t")
        }
        _ => (
            Site::nginx(&bench.program, bench.dir, None)?,
            "/sse",
            "/pub",
        ),
    };
    let count = bench.connections(CLIENTS);
    let mut publisher = site.publisher(publishes)?;
    let mut first = Crowd::new()?;
    first.keep_ids();
    first.connect(site.address, count, |_| {
        sse_request(site.address, hears, "")
    })?;
    publisher.post(&message(0, 0, EVENT_BYTES))?;
    publisher.answered()?;
    first.wait_for(count as u64, PATIENCE)?;
    let ids = first.ids();
    ensure!(ids.iter().all(|id| !id.is_empty()), "a client has no id");
    drop(first);
    for number in 1..=MISSED {
        publisher.post(&message(number, 0, EVENT_BYTES))?;
        publisher.answered()?;
    }
    let spent = Spent::begin(&site)?;
    let begun = Instant::now();
    let mut crowd = Crowd::new()?;
    crowd.connect(site.address, count, |index| {
        sse_request(
            site.address,
            hears,
            &format!("Last-Event-ID: {}\r\n", ids[index]),
        )
    })?;
    let messages = MISSED * count as u64;
    crowd.wait_for(messages, PATIENCE)?;
    let seconds = begun.elapsed().as_secs_f64();
    for number in 1..=MISSED {
        ensure!(
            crowd.arrival(number).clients as usize == count,
            "message {number} came {} times",
            crowd.arrival(number).clients
        );
    }
    let mut figures = vec![figure(SECONDS, seconds, 2)];
    figures.extend(spent.figures(&site, messages)?);
    Ok(figures)
}
