//! Quantiles of a stream with a bounded error, over the last ten minutes: targeted quantiles of
//! Cormode, Korn, Muthukrishnan and Srivastava ("Effective Computation of Biased Quantiles over Data
//! Streams", 2005), in five windows of which the oldest answers, as the Java client of Prometheus does.

use std::time::{Duration, Instant};

/// How long a value counts.
const AGE: Duration = Duration::from_secs(600);

const WINDOWS: u32 = 5;

/// Values that are gathered before they are put in their places.
const BUFFER: usize = 500;

/// Five samples, each begun two minutes after the one before.
pub(super) struct Windows {
    samples: Vec<Sample>,
    /// The oldest.
    current: usize,
    rotated: Instant,
}

impl Windows {
    pub fn new(now: Instant) -> Windows {
        Windows {
            samples: (0..WINDOWS).map(|_| Sample::default()).collect(),
            current: 0,
            rotated: now,
        }
    }

    fn rotate(&mut self, now: Instant) {
        let each = AGE / WINDOWS;
        for _ in 0..WINDOWS {
            if now.duration_since(self.rotated) < each {
                return;
            }
            self.samples[self.current] = Sample::default();
            self.current = (self.current + 1) % self.samples.len();
            self.rotated += each;
        }
        // Longer ago than all of them.
        self.rotated = now;
    }

    pub fn add(&mut self, value: f64, quantiles: &[f64], error: f64, now: Instant) {
        self.rotate(now);
        for sample in &mut self.samples {
            sample.buffer.push(value);
            if sample.buffer.len() >= BUFFER {
                sample.settle(quantiles, error);
            }
        }
    }

    /// NaN where nothing was added.
    pub fn get(&mut self, quantile: f64, quantiles: &[f64], error: f64, now: Instant) -> f64 {
        self.rotate(now);
        let sample = &mut self.samples[self.current];
        sample.settle(quantiles, error);
        sample.get(quantile, quantiles, error)
    }
}

/// A value that stands for several: its lowest rank is `width` above that of the one before, its
/// highest `slack` more.
#[derive(Clone, Copy)]
struct Item {
    value: f64,
    width: u64,
    slack: u64,
}

#[derive(Default)]
struct Sample {
    items: Vec<Item>,
    count: u64,
    buffer: Vec<f64>,
}

/// How far ranks may be off at a rank.
fn allowed(rank: f64, count: f64, quantiles: &[f64], error: f64) -> f64 {
    let at = |quantile: &f64| {
        let (above, below) = (1.0 - quantile, *quantile);
        match rank < quantile * count {
            true if above > 0.0 => 2.0 * error * (count - rank) / above,
            false if below > 0.0 => 2.0 * error * rank / below,
            // The ends are kept as they are, whatever lies between.
            _ => f64::INFINITY,
        }
    };
    quantiles.iter().map(at).fold(count + 1.0, f64::min)
}

impl Sample {
    /// Puts the gathered values in their places, and joins neighbours where the error allows it.
    fn settle(&mut self, quantiles: &[f64], error: f64) {
        if self.buffer.is_empty() {
            return;
        }
        self.buffer.sort_unstable_by(f64::total_cmp);
        let old = std::mem::take(&mut self.items);
        let mut old = old.into_iter().peekable();
        let mut items: Vec<Item> = Vec::new();
        let mut rank = 0;
        for value in self.buffer.drain(..) {
            while let Some(item) = old.next_if(|item| item.value <= value) {
                rank += item.width;
                items.push(item);
            }
            self.count += 1;
            let is_end = items.is_empty() || old.peek().is_none();
            let allowed = allowed(rank as f64, self.count as f64, quantiles, error);
            items.push(Item {
                value,
                width: 1,
                slack: if is_end {
                    0
                } else {
                    (allowed as u64).saturating_sub(1)
                },
            });
            rank += 1;
        }
        items.extend(old);
        self.items = items;
        self.compress(quantiles, error);
    }

    fn compress(&mut self, quantiles: &[f64], error: f64) {
        let mut kept: Vec<Item> = Vec::with_capacity(self.items.len());
        // Of those before the last that is kept.
        let mut rank = 0;
        let last = self.items.len().saturating_sub(1);
        for (at, item) in self.items.drain(..).enumerate() {
            let len = kept.len();
            if let Some(before) = kept.last_mut() {
                let joined = before.width + item.width;
                // The error is smallest at the quantiles, which may lie at either end of the join.
                let at_rank = |rank: u64| allowed(rank as f64, self.count as f64, quantiles, error);
                let allowed = at_rank(rank).min(at_rank(rank + joined));
                // The first and the last stay: they are the ends.
                let is_between = len > 1 && at < last;
                if is_between && (joined + item.slack) as f64 <= allowed {
                    *before = Item {
                        width: joined,
                        ..item
                    };
                    continue;
                }
                rank += before.width;
            }
            kept.push(item);
        }
        self.items = kept;
    }

    fn get(&self, quantile: f64, quantiles: &[f64], error: f64) -> f64 {
        let (Some(first), Some(last)) = (self.items.first(), self.items.last()) else {
            return f64::NAN;
        };
        if quantile <= 0.0 {
            return first.value;
        }
        if quantile >= 1.0 {
            return last.value;
        }
        let count = self.count as f64;
        let wanted = (quantile * count).ceil();
        let limit = wanted + (allowed(wanted, count, quantiles, error) / 2.0).floor();
        let (mut rank, mut before) = (0, first.value);
        for item in &self.items {
            if (rank + item.width + item.slack) as f64 > limit {
                return before;
            }
            rank += item.width;
            before = item.value;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: impl Iterator<Item = f64>, error: f64) {
        let quantiles = [0.0, 0.5, 0.9, 0.99, 1.0];
        let now = Instant::now();
        let mut windows = Windows::new(now);
        let mut all = Vec::new();
        for value in values {
            all.push(value);
            windows.add(value, &quantiles, error, now);
        }
        all.sort_unstable_by(f64::total_cmp);
        for quantile in quantiles {
            let found = windows.get(quantile, &quantiles, error, now);
            let low = all.partition_point(|v| *v < found) as f64;
            let high = all.partition_point(|v| *v <= found) as f64;
            let count = all.len() as f64;
            // The error grows beside a quantile, by twice the error a rank.
            let off = error * count * (1.0 + 4.0 * error) + 1.0;
            let wanted = quantile * count;
            assert!(
                low <= wanted + off && high >= wanted - off,
                "{quantile}: {found} has the ranks {low} to {high} of {count}"
            );
        }
        let kept = windows.samples[0].items.len();
        assert!(
            kept < all.len() / 2 || all.len() < 1000,
            "{kept} of {}",
            all.len()
        );
    }

    #[test]
    fn quantiles_are_as_near_as_they_should_be() {
        check((1..=3).map(f64::from), 0.001);
        check((0..20_000).map(f64::from), 0.01);
        check((0..20_000).rev().map(f64::from), 0.01);
        check((0..20_000_u64).map(|n| (n * 7919 % 20_011) as f64), 0.01);
        check((0..20_000).map(|n| f64::from(n % 10)), 0.01);
    }

    #[test]
    fn old_values_are_forgotten() {
        let start = Instant::now();
        let mut windows = Windows::new(start);
        let later = |minutes: u64| start + Duration::from_secs(minutes * 60);
        windows.add(1.0, &[0.5], 0.01, start);
        windows.add(9.0, &[0.5], 0.01, later(5));
        assert_eq!(windows.get(0.5, &[0.5], 0.01, later(6)), 1.0);
        assert_eq!(windows.get(0.5, &[0.5], 0.01, later(11)), 9.0);
        assert!(windows.get(0.5, &[0.5], 0.01, later(40)).is_nan());
    }
}
