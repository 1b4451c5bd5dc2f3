//! The published grid of WebSocket: a text goes through the gateway to a backend that sends it back reversed.
//!
//! As the report's load: all connections are open with one token, and each second every connection sends its texts
//! back to back; what has not come back when the last second is over is an error.

use std::time::{Duration, Instant};

use super::{Against, Bar, CPU_EACH, Case, Spent, figure, proxied};
use crate::gateway::Bench;
use crate::gateway::backend::Backend;
use crate::gateway::crowd::{Crowd, message};
use crate::gateway::frame;
use crate::gateway::peer::{Peer, websocket_request};
use crate::gateway::report::Figure;

/// Texts a second of each connection, their bytes, and the connections.
const GRID: &[(u64, usize, &[usize])] = &[
    (1, 500, &[100, 400, 1_000]),
    (5, 500, &[100, 400, 600, 800, 1_000]),
    (10, 500, &[100, 300, 400, 600, 1_000]),
];

/// Of the report: seconds for each cell.
const SECONDS: u64 = 30;

const FAILED: &str = "cells with an error";
const SLOWEST: &str = "ms to and fro, mean, slowest cell";

pub(in crate::gateway) static ECHO: Case = Case {
    name: "seed-websocket",
    about: "texts of 500 bytes sent back reversed by a native backend: 1, 5 and 10 a second on up to 1,000 connections, \
            with a token and a plan; nginx checks neither",
    peers: &[Peer::Headwater, Peer::Nginx],
    measure: echo,
    bars: &[
        Bar {
            figure: FAILED,
            against: Against::Itself,
            must: 0.0,
            target: None,
            moonshot: None,
            is_floor: false,
        },
        Bar {
            figure: CPU_EACH,
            against: Against::Peer(Peer::Nginx),
            must: 1.3,
            target: Some(1.15),
            moonshot: Some(0.9),
            is_floor: false,
        },
    ],
};

fn echo(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let backend = Backend::start()?;
    let (site, path, header) = proxied(bench, &backend, "ws")?;
    let spent = Spent::begin(&site)?;
    let (mut failed, mut slowest, mut texts) = (0, 0.0, 0);
    for (rate, bytes, columns) in GRID {
        // In a quick run the last column stands for all.
        let quick = usize::from(bench.options.is_quick) * (columns.len() - 1);
        for connections in &columns[quick..] {
            let connections = bench.connections(*connections);
            let mut crowd = Crowd::new()?;
            crowd.connect(site.address, connections, |_| {
                websocket_request(site.address, path, &header)
            })?;
            let sent = send(&mut crowd, *rate, *bytes, bench.seconds(SECONDS))?;
            if crowd.heard != sent {
                failed += 1;
                (bench.options.progress)(&format!(
                    "{rate}/s on {connections} connections: {} of {sent} came back",
                    crowd.heard
                ));
            }
            texts += sent;
            let mean = crowd.late as f64 / crowd.heard.max(1) as f64 / 1e3;
            slowest = f64::max(slowest, mean);
        }
    }
    let mut figures = vec![
        figure(FAILED, f64::from(failed), 0),
        figure(SLOWEST, slowest, 2),
    ];
    // A text and its echo are two messages.
    figures.extend(spent.figures(&site, texts * 2)?);
    Ok(figures)
}

/// Sends for so many seconds; how many texts.
fn send(crowd: &mut Crowd, rate: u64, bytes: usize, seconds: u64) -> anyhow::Result<u64> {
    let begun = Instant::now();
    for second in 0..seconds {
        for index in 0..crowd.len() {
            let mut frames = Vec::new();
            for text in 0..rate {
                let forward = message(second * rate + text, crowd.now(), bytes);
                let reversed: Vec<u8> = forward.bytes().rev().collect();
                frame::write(&mut frames, &reversed, Some(frame::MASK));
            }
            crowd.send(index, &frames)?;
            // A connection after the other: what comes back meanwhile is read.
            crowd.turn(Instant::now())?;
        }
        crowd.turn(begun + Duration::from_secs(second + 1))?;
    }
    Ok(seconds * rate * crowd.len() as u64)
}
