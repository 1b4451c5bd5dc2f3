//! `headwater bench gateway`: the streaming gateway under the load of the published report, and beside the
//! servers that a user would pick instead.
//!
//! Promises: every client checks that each message came once and in order, and a run that misses one has no
//! figure; CPU is that of the server's own process; servers are measured in turns, one by one; what the
//! generator itself takes of the machine is printed. A server that is not at hand is named.

mod backend;
mod callbacks;
mod case;
mod crowd;
mod frame;
mod peer;
mod report;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use case::{CASES, Case};
use peer::Peer;
pub use report::GatewayReport;
use report::Measured;

use crate::machine;

/// One sentence for the list of scenarios.
pub const ABOUT: &str =
    "the streaming gateway: fan-out, proxy, resume and callbacks, beside nchan, nginx, Bun and wrk";

pub struct GatewayOptions {
    /// The `headwater` binary that is measured.
    pub binary: PathBuf,
    /// Runs of each server in a case.
    pub runs: usize,
    /// Only cases whose name contains this.
    pub only: Option<String>,
    /// A fiftieth of the connections, for a second: that all of it works, and no figure to quote.
    pub is_quick: bool,
    /// Ours alone.
    pub is_alone: bool,
    pub progress: fn(&str),
}

/// What a case is measured with.
struct Bench<'a> {
    options: &'a GatewayOptions,
    peer: Peer,
    program: PathBuf,
    /// Of this run alone.
    dir: &'a std::path::Path,
}

impl Bench<'_> {
    /// So many connections, or the fiftieth of them.
    fn connections(&self, count: usize) -> usize {
        match self.options.is_quick {
            true => (count / 50).max(2),
            false => count,
        }
    }

    /// Seconds of load.
    fn seconds(&self, seconds: u64) -> u64 {
        match self.options.is_quick {
            true => 1,
            false => seconds,
        }
    }
}

/// Measures all cases, or those that were chosen.
///
/// # Errors
/// No case has that name, or a server did not do what was asked of it.
pub fn run(options: &GatewayOptions) -> anyhow::Result<GatewayReport> {
    let only = options.only.as_deref().unwrap_or_default();
    let chosen = CASES
        .iter()
        .copied()
        .filter(|case| case.name.contains(only));
    let chosen: Vec<&'static Case> = chosen.collect();
    ensure!(
        !chosen.is_empty(),
        "no case has '{only}' in its name: there are {}",
        CASES.map(|case| case.name).join(", ")
    );
    let mut report = GatewayReport::new(machine::describe(), options.is_quick);
    for case in chosen {
        let mut found = Measured::new(case);
        let mut peers = Vec::new();
        for peer in case.peers {
            if options.is_alone && *peer != Peer::Headwater {
                continue;
            }
            match peer.program(&options.binary) {
                Ok(program) => peers.push((*peer, program)),
                Err(missing) => found.lacks(*peer, &missing.to_string()),
            }
        }
        for index in 1..=options.runs {
            for (peer, program) in &peers {
                let dir = tempfile::tempdir()?;
                let bench = Bench {
                    options,
                    peer: *peer,
                    program: program.clone(),
                    dir: dir.path(),
                };
                let figures = (case.measure)(&bench)
                    .with_context(|| format!("{}, {}", case.name, peer.name()))?;
                (options.progress)(&format!(
                    "{} {index}, {}: {}",
                    case.name,
                    peer.name(),
                    report::in_words(&figures)
                ));
                found.add(*peer, figures);
            }
        }
        report.add(found);
    }
    Ok(report)
}
