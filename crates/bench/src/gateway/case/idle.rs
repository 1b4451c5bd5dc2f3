//! Clients who hear nothing.

use super::{Against, Bar, Case, OPEN, figure};
use crate::gateway::Bench;
use crate::gateway::crowd::Crowd;
use crate::gateway::peer::{Peer, Site, sse_request, websocket_request};
use crate::gateway::report::Figure;

const CLIENTS: usize = 15_000;

const EACH: &str = "kB a connection";

pub(in crate::gateway) static IDLE: Case = Case {
    name: "idle",
    about: "memory of 15,000 connections on which nothing comes; Bun by WebSocket, the others by server-sent events",
    peers: &[Peer::Headwater, Peer::Nchan, Peer::Bun],
    measure: idle,
    bars: &[Bar {
        figure: EACH,
        against: Against::Itself,
        must: 3.0,
        target: Some(1.5),
        moonshot: Some(0.5),
        is_floor: false,
    }],
};

fn idle(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let (site, path) = match bench.peer {
        Peer::Headwater => {
            let site = Site::headwater(&bench.program, bench.dir, &[("bench.yaml", OPEN)])?;
            (site, "/bench/t")
        }
        Peer::Bun => (Site::bun(&bench.program, bench.dir)?, "/ws"),
        _ => (Site::nginx(&bench.program, bench.dir, None)?, "/sse"),
    };
    let request = match bench.peer {
        Peer::Bun => websocket_request(site.address, path, ""),
        _ => sse_request(site.address, path, ""),
    };
    let mut crowd = Crowd::new()?;
    // What the first connections bring about is there once.
    crowd.connect(site.address, 100, |_| request.clone())?;
    let (before, cpu) = (site.process.pss()?, site.process.cpu_seconds()?);
    let count = bench.connections(CLIENTS);
    crowd.connect(site.address, count, |_| request.clone())?;
    let grown = site.process.pss()?.saturating_sub(before);
    let cpu = site.process.cpu_seconds()? - cpu;
    Ok(vec![
        figure(EACH, grown as f64 / 1024.0 / count as f64, 2),
        figure("CPU us to connect", cpu * 1e6 / count as f64, 1),
    ])
}
