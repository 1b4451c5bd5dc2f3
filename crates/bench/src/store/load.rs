//! Events into a server, over several connections.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use super::client::Publisher;
use super::events::{Kind, Totals};
use super::site::Site;

/// Connections, each with a bundle on its way.
pub(super) const CONNECTIONS: u64 = 32;

/// What was sent and acknowledged.
pub(super) struct Loaded {
    pub totals: Totals,
    pub seconds: f64,
    /// Of the first fifth of the events, and of the last.
    pub fifths: [f64; 2],
    /// Of the server, to the last answer.
    pub cpu: f64,
}

impl Loaded {
    pub fn rate(&self) -> f64 {
        self.totals.count as f64 / self.seconds
    }

    pub fn in_words(&self) -> String {
        format!(
            "{} events in {:.1} s, {:.0} a second",
            self.totals.count,
            self.seconds,
            self.rate()
        )
    }
}

/// Publishes the events of these numbers, whose times are those of so many, each bundle acknowledged before the next of
/// its connection.
///
/// # Errors
/// A bundle was not taken.
pub(super) fn load(
    site: &Site<'_>,
    kind: Kind,
    numbers: Range<u64>,
    all: u64,
) -> anyhow::Result<Loaded> {
    let (events, bundle) = (numbers.end - numbers.start, kind.bundle());
    let next = AtomicU64::new(numbers.start);
    // Nanoseconds at which the first fifth of the events was acknowledged, and the fourth.
    let marks = [AtomicU64::new(0), AtomicU64::new(0)];
    let acknowledged = AtomicU64::new(0);
    let begun = Instant::now();
    let (totals, cpu) = connections(site, |publisher| {
        let first = next.fetch_add(bundle, Ordering::Relaxed);
        if first >= numbers.end {
            return Ok(None);
        }
        let last = (first + bundle).min(numbers.end);
        let totals = publisher.publish(kind, first..last, all)?;
        let before = acknowledged.fetch_add(last - first, Ordering::Relaxed);
        for (mark, part) in marks.iter().zip([events / 5, events - events / 5]) {
            if (before..before + last - first).contains(&part) {
                mark.store(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            }
        }
        Ok(Some(totals))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let [first, fourth] = marks.map(|mark| mark.into_inner() as f64 / 1e9);
    Ok(Loaded {
        totals,
        seconds,
        fifths: [first, seconds - fourth],
        cpu,
    })
}

/// Publishes from this number on until it is told to stop, so many events a second at most.
///
/// # Errors
/// A bundle was not taken.
pub(super) fn load_until(
    site: &Site<'_>,
    kind: Kind,
    begin: u64,
    rate_max: Option<f64>,
    stop: &AtomicBool,
) -> anyhow::Result<Loaded> {
    let (next, bundle) = (AtomicU64::new(begin), kind.bundle());
    let begun = Instant::now();
    let (totals, cpu) = connections(site, |publisher| {
        let first = next.fetch_add(bundle, Ordering::Relaxed);
        let due = rate_max.map(|rate| Duration::from_secs_f64((first - begin) as f64 / rate));
        while let Some(early) = due.and_then(|due| due.checked_sub(begun.elapsed()))
            && !early.is_zero()
            && !stop.load(Ordering::Relaxed)
        {
            std::thread::park_timeout(early.min(Duration::from_millis(50)));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        publisher
            .publish(kind, first..first + bundle, begin.max(1))
            .map(Some)
    })?;
    Ok(Loaded {
        totals,
        seconds: begun.elapsed().as_secs_f64(),
        fifths: [0.0; 2],
        cpu,
    })
}

/// Has each connection publish until there is no more; what was acknowledged, and the CPU seconds of the server.
fn connections(
    site: &Site<'_>,
    publish: impl Fn(&mut Publisher) -> anyhow::Result<Option<Totals>> + Sync,
) -> anyhow::Result<(Totals, f64)> {
    let cpu = site.process.cpu_seconds()?;
    let one = || -> anyhow::Result<Totals> {
        let mut publisher = Publisher::connect(site.port(), &site.session)?;
        let mut totals = Totals::default();
        while let Some(more) = publish(&mut publisher)? {
            totals.add(more);
        }
        Ok(totals)
    };
    let totals = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(one)).collect();
        let mut totals = Totals::default();
        for worker in workers {
            totals.add(
                worker
                    .join()
                    .map_err(|_| anyhow!("a connection panicked"))??,
            );
        }
        anyhow::Ok(totals)
    })
    .context("events are published")?;
    Ok((totals, site.process.cpu_seconds()? - cpu))
}
