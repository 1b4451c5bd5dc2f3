//! What a byte costs in messages of 1 kB and of 64 MB: never more in a large one, on each listener and by
//! each mapper, whatever the bytes are.

mod call;
mod shapes;
mod site;

use anyhow::{Context as _, ensure};

use super::bench::{Bench, Scale};
use shapes::{SHAPES, Shape};
use site::Site;

/// Lengths of messages, where one may be as long as that; in all as many bytes are sent of each.
const LENGTHS: [usize; 3] = [1 << 10, 64 << 10, 2 << 20];
const LENGTHS_LONG: [usize; 3] = [1 << 10, 1 << 20, 64 << 20];

/// A byte of a large message costs at most so many times that of a smaller one.
const FACTOR_MAX: f64 = 3.0;

/// Processor time is counted in hundredths of a second: less than so many tell nothing. Nor does less than
/// this a byte, in nanoseconds, for which a byte of a large message is moved through memory once or twice.
const TICKS_MIN: f64 = 5.0;
const MOVED_NANOS: f64 = 1.5;

const TICK_NANOS: f64 = 1e7;

pub fn each_size(bench: &Bench) -> anyhow::Result<()> {
    let lengths = match bench.scale {
        Scale::Long => LENGTHS_LONG,
        Scale::Short | Scale::Sample => LENGTHS,
    };
    let mut site = Site::start(bench)?;
    let (mut worst, mut amiss) = (0.0, Vec::new());
    for shape in SHAPES {
        let factor = factor(&mut site, shape, lengths)?;
        worst = f64::max(worst, factor);
        if factor > FACTOR_MAX {
            amiss.push(format!("{}: {factor:.1} times", shape.title()));
        }
    }
    site.end()?;
    *bench.figures() = format!(
        "{} kinds of messages of {} B to {} B: a byte of a longer one costs at most {worst:.1} times that of a \
         shorter one",
        SHAPES.len(),
        lengths[0],
        lengths[2]
    );
    ensure!(
        amiss.is_empty(),
        "large messages are dearer: {}",
        amiss.join("; ")
    );
    Ok(())
}

/// Prints what a byte costs at each length; how many times more than in a shorter message.
fn factor(site: &mut Site, shape: &Shape, lengths: [usize; 3]) -> anyhow::Result<f64> {
    let all = lengths[2];
    let lengths = lengths.map(|length| length.min(shape.bytes_max()));
    // Some sources take what they have read a moment later: the process is asked when it rests.
    let mut ticks = [0; 3];
    for (length, ticks) in lengths.iter().zip(&mut ticks) {
        let before = site.worked()?;
        let sent = site.send(shape, *length, all / length);
        sent.with_context(|| format!("{}, messages of {length} B", shape.title()))?;
        *ticks = rested(site)? - before;
    }
    let costs = ticks.map(|ticks| ticks as f64 * TICK_NANOS / all as f64);
    println!(
        "        {}: {:.1}, {:.1}, {:.1} ns a byte in messages of {} B, {} B, {} B",
        shape.title(),
        costs[0],
        costs[1],
        costs[2],
        lengths[0],
        lengths[1],
        lengths[2]
    );
    let least = MOVED_NANOS.max(TICKS_MIN * TICK_NANOS / all as f64);
    let [small, middle, large] = costs.map(|cost| cost.max(least));
    Ok((large / middle).max(large / small).max(middle / small))
}

/// What the process has worked when it works no more.
fn rested(site: &Site) -> anyhow::Result<u64> {
    let mut last = site.worked()?;
    let mut quiet = 0;
    while quiet < 5 {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        let now = site.worked()?;
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(last)
}
