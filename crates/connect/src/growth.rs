//! How the time of a decoder grows with its input, for tests: bytes from outside must not be able to buy
//! more than their share of time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Lengths of the two inputs that are compared.
pub const LENGTHS: [usize; 2] = [16 << 10, 256 << 10];

/// Linear work has 1, work that looks at all bytes for each of them 2.
pub const EXPONENT_MAX: f64 = 1.5;

/// Each input is tried so often, and the fastest counts: others share the caches.
const TRIES: usize = 5;

/// What this thread has worked: on a busy machine the time that passes says nothing.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// The exponent by which the time of `work` grows from the shorter input to the longer one.
pub fn exponent(inputs: [&[u8]; 2], work: &mut dyn FnMut(&[u8])) -> f64 {
    let mut fastest = |input: &[u8]| -> f64 {
        let times = (0..TRIES).map(|_| {
            let before = worked();
            work(input);
            worked().saturating_sub(before)
        });
        times.min().unwrap_or(Duration::MAX).as_secs_f64().max(1e-6)
    };
    let [short, long] = inputs;
    let factor = long.len() as f64 / short.len().max(1) as f64;
    (fastest(long) / fastest(short)).ln() / factor.ln()
}

/// `head`, then `part` again and again, then `tail`, about so many bytes.
pub fn repeated(head: &[u8], part: &[u8], tail: &[u8], bytes: usize) -> Vec<u8> {
    let mut input = head.to_vec();
    while input.len() < bytes {
        input.extend_from_slice(part);
    }
    input.extend_from_slice(tail);
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_not_linear_is_told_from_work_that_is() {
        let inputs = LENGTHS.map(|bytes| repeated(b"", b"ab,", b"", bytes / 16));
        let inputs = [&inputs[0][..], &inputs[1][..]];
        let commas = |input: &[u8]| input.iter().filter(|byte| **byte == b',').count();
        let mut found = 0;
        let linear = exponent(inputs, &mut |input| found += commas(input));
        assert!(linear < EXPONENT_MAX, "{linear}");
        let square = exponent(inputs, &mut |input| {
            found += (0..input.len())
                .map(|at| commas(&input[at..]))
                .sum::<usize>();
        });
        assert!(square > EXPONENT_MAX && found > 0, "{square}");
    }
}
