//! Rows without a timestamp, and how they get one.

use event::{Batch, Clock, Times};

/// Event timestamp of a row that has none: it takes the application clock at which its step begins
/// (Siddhi's `Event` uses the same mark).
pub const UNSTAMPED: i64 = -1;

/// Event timestamp of a row that was sent by hand without one: it takes the wall clock, which in
/// playback is another (Siddhi's `InputHandler.send(Object[])`).
pub const UNSTAMPED_SENT: i64 = -2;

/// Has every row a timestamp?
#[inline(always)]
pub(crate) fn is_stamped(batch: &Batch) -> bool {
    let is_mark = |t: i64| t == UNSTAMPED || t == UNSTAMPED_SENT;
    match &batch.times {
        Times::Same(t) => !is_mark(*t),
        times if !times.has_negative(0..batch.len) => true,
        times => times.runs(0..batch.len).all(|(_, t)| !is_mark(t)),
    }
}

/// Rows without a timestamp take a clock; the batch takes that of the app.
#[inline(always)]
pub(crate) fn stamped(mut batch: Batch, clock: i64, wall: i64) -> Batch {
    batch.clock = Clock::Same(clock);
    if !is_stamped(&batch) {
        stamp(&mut batch, clock, wall);
    }
    batch
}

/// The same where a row has none.
#[cold]
fn stamp(batch: &mut Batch, clock: i64, wall: i64) {
    let stamp = |time: i64| match time {
        UNSTAMPED => clock,
        UNSTAMPED_SENT => wall,
        time => time,
    };
    batch.times = match &batch.times {
        Times::Same(t) => Times::Same(stamp(*t)),
        times => Times::per_row((0..batch.len).map(|row| stamp(times.at(row))).collect()),
    };
}
