//! What is measured: a file for each kind of load.

mod echo;
mod fan_out;
mod idle;
mod proxy;
mod resume;
mod websub;

use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::Bench;
use super::backend::Backend;
use super::crowd::{Crowd, own_cpu_seconds};
use super::peer::{Peer, Site};
use super::report::Figure;

/// Figures that several cases have.
pub(super) const CPU_EACH: &str = "CPU us a message";
pub(super) const MEMORY: &str = "memory, MB";
pub(super) const GENERATOR: &str = "generator, cores";

/// What our figure is held against.
#[derive(Clone, Copy)]
pub(super) enum Against {
    Itself,
    Peer(Peer),
}

/// What a figure must be.
pub(super) struct Bar {
    pub figure: &'static str,
    pub against: Against,
    pub must: f64,
    pub target: Option<f64>,
    pub moonshot: Option<f64>,
    /// More is better.
    pub is_floor: bool,
}

impl Bar {
    pub fn is_kept(&self, value: f64, limit: f64) -> bool {
        match self.is_floor {
            true => value >= limit,
            false => value <= limit,
        }
    }
}

pub(super) struct Case {
    pub name: &'static str,
    pub about: &'static str,
    /// Ours is the first.
    pub peers: &'static [Peer],
    pub measure: fn(&Bench<'_>) -> anyhow::Result<Vec<Figure>>,
    pub bars: &'static [Bar],
}

pub(super) const CASES: [&Case; 9] = [
    &fan_out::SSE,
    &fan_out::WEBSOCKET,
    &fan_out::WINDOW,
    &idle::IDLE,
    &resume::RESUME,
    &proxy::PROXY,
    &proxy::STREAM,
    &echo::ECHO,
    &websub::WEBSUB,
];

/// An API with one topic, `/t`, that anyone may hear and publish to; the rest of `x-headwater` follows.
const OPEN: &str = "asyncapi: 3.0.0
info: { title: Bench, version: 1.0.0 }
channels:
  t: { address: /t }
operations:
  say: { action: receive, channel: { $ref: '#/channels/t' } }
  hear: { action: send, channel: { $ref: '#/channels/t' } }
x-headwater:
  protocols: [ sse, ws, websub ]
";

/// The same for those who have a token, each message within a plan; the rest of `x-headwater` follows.
const WITH_TOKEN: &str = "asyncapi: 3.0.0
info: { title: Bench, version: 1.0.0 }
channels:
  t: { address: /t }
operations:
  say: { action: receive, channel: { $ref: '#/channels/t' }, security: [ { $ref: '#/components/securitySchemes/jwt' } ] }
  hear: { action: send, channel: { $ref: '#/channels/t' }, security: [ { $ref: '#/components/securitySchemes/jwt' } ] }
components: { securitySchemes: { jwt: { type: oauth2, flows: {}, scopes: [ bench ] } } }
x-headwater:
  protocols: [ sse, ws ]
  issuers: [ own ]
  plans: { Large: { events: 10000000000/day, connections: 20000 } }
";

/// A proxy in front of a backend, by its scheme there: the server, the path that is proxied, and the header that a
/// client needs, with the line's end. nginx checks no token.
fn proxied(
    bench: &Bench<'_>,
    backend: &Backend,
    scheme: &str,
) -> anyhow::Result<(Site, &'static str, String)> {
    match bench.peer {
        Peer::Headwater => {
            let document = format!(
                "{WITH_TOKEN}  topics: {{ /t: {{ backend: '{scheme}://{}/' }} }}\n",
                backend.address
            );
            let files = [("bench.yaml", document.as_str())];
            let site = Site::headwater(&bench.program, bench.dir, &files)?;
            let header = with_token(&site, bench)?;
            Ok((site, "/bench/t", header))
        }
        _ => {
            let site = Site::nginx(&bench.program, bench.dir, Some(backend.address))?;
            Ok((site, "/proxy", String::new()))
        }
    }
}

/// The header that shows a token of a new application, with the line's end.
fn with_token(site: &Site, bench: &Bench<'_>) -> anyhow::Result<String> {
    let command = |args: &[&str]| site.command(&bench.options.binary, args);
    command(&["gateway", "apps", "create", "load", "--scope", "bench"])?;
    let token = command(&[
        "gateway", "tokens", "create", "--app", "load", "--scope", "bench",
    ])?;
    let token = token.split_whitespace().last().context("a token")?;
    Ok(format!("Authorization: Bearer {token}\r\n"))
}

/// CPU of a server and of this process over a time.
struct Spent {
    begun: Instant,
    server: f64,
    own: f64,
}

impl Spent {
    fn begin(site: &Site) -> anyhow::Result<Spent> {
        Ok(Spent {
            begun: Instant::now(),
            server: site.process.cpu_seconds()?,
            own: own_cpu_seconds(),
        })
    }

    /// Microseconds of the server for each of so many messages, its memory, and what the load took.
    fn figures(&self, site: &Site, messages: u64) -> anyhow::Result<Vec<Figure>> {
        let wall = self.begun.elapsed().as_secs_f64();
        let server = site.process.cpu_seconds()? - self.server;
        Ok(vec![
            figure(CPU_EACH, server * 1e6 / messages as f64, 2),
            figure(MEMORY, site.process.pss()? as f64 / 1e6, 1),
            figure(GENERATOR, (own_cpu_seconds() - self.own) / wall, 2),
        ])
    }
}

fn figure(name: &'static str, value: f64, digits: usize) -> Figure {
    Figure {
        name,
        value,
        digits,
    }
}

/// Sends what is due in each `period`, and takes what comes until the next is due.
fn paced(
    crowd: &mut Crowd,
    count: u64,
    period: Duration,
    mut send: impl FnMut(&mut Crowd, u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    for index in 0..count {
        send(crowd, index)?;
        crowd.turn(begun + period * (index as u32 + 1))?;
    }
    Ok(())
}

/// The 99th of a hundred, by size.
fn p99(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    let at = (values.len() * 99).div_ceil(100).saturating_sub(1);
    values.get(at).map_or(f64::NAN, |value| *value as f64)
}
