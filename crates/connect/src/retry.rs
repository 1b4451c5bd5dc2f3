//! When to try again, and which of many equal reports are worth a line.
//!
//! There is one schedule for all who wait for a peer that is away: sources, sinks, stores, and connectors that
//! send one message again. What is logged as the pause is the pause.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pauses of [`RetrySchedule::waiting`] before the jitter, in milliseconds. Who only starts again
/// is found at once, and who comes back after long within five seconds, the connecting included.
const WAITING_MS: [u64; 7] = [100, 200, 400, 800, 1_600, 3_200, 4_000];

/// A pause is shorter than its step by at most one part in this many, so that those who lost the same
/// destination at once do not come back at once.
const JITTER_PART: u32 = 5;

/// Pauses between tries that grow to a bound, with jitter.
#[derive(Clone, Copy, Debug)]
pub struct RetrySchedule {
    steps_ms: &'static [u64],
    tries: usize,
}

impl RetrySchedule {
    /// The longest pause.
    pub const MAX: Duration = Duration::from_millis(WAITING_MS[WAITING_MS.len() - 1]);

    /// For what is away: 0.1 s, then twice as long each time, 4 s at most.
    pub const fn waiting() -> RetrySchedule {
        RetrySchedule {
            steps_ms: &WAITING_MS,
            tries: 0,
        }
    }

    /// The pause before the next try.
    pub fn next_pause(&mut self) -> Duration {
        let last = self.steps_ms.len() - 1;
        let step = self.steps_ms[self.tries.min(last)];
        self.tries = self.tries.saturating_add(1);
        jittered(Duration::from_millis(step))
    }

    /// What was tried has worked: the next pause is the first again.
    pub fn succeeded(&mut self) {
        self.tries = 0;
    }
}

/// A pause between four fifths of this one and all of it.
pub fn jittered(pause: Duration) -> Duration {
    // Each state hashes with keys of its own, which is all the chance that is needed.
    let chance = RandomState::new().hash_one(0) as u32;
    let share = f64::from(chance) / f64::from(u32::MAX);
    pause.saturating_sub((pause / JITTER_PART).mul_f64(share))
}

/// A pause as it is logged: seconds, rounded to hundredths.
pub fn seconds(pause: Duration) -> f64 {
    (pause.as_secs_f64() * 100.0).round() / 100.0
}

/// When something that lasts is said again: at once, then after 10 s, then after twice as long each
/// time, 5 min at most. A cause that has not been said yet is said at once, which moves the next
/// reminder on as well.
#[derive(Clone, Debug, Default)]
pub struct Reminder {
    last: Option<(Instant, Duration)>,
    /// Hashes of the causes that were said.
    causes: Vec<u64>,
}

impl Reminder {
    const FIRST: Duration = Duration::from_secs(10);
    const MAX: Duration = Duration::from_secs(300);
    /// A text that has a number of its own each time is not a new cause each time.
    const MAX_CAUSES: usize = 8;

    /// Is it to be said now that this is the cause? Then it counts as said.
    pub fn is_due(&mut self, cause: &str) -> bool {
        self.is_due_at(Instant::now(), cause)
    }

    fn is_due_at(&mut self, now: Instant, cause: &str) -> bool {
        let is_new = self.is_new(cause);
        let pause = match self.last {
            None => Reminder::FIRST,
            Some((at, pause)) if now.saturating_duration_since(at) >= pause => {
                (pause * 2).min(Reminder::MAX)
            }
            Some((_, pause)) if is_new => pause,
            Some(_) => return false,
        };
        self.last = Some((now, pause));
        true
    }

    fn is_new(&mut self, cause: &str) -> bool {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(cause);
        let is_new = self.causes.len() < Reminder::MAX_CAUSES && !self.causes.contains(&hash);
        if is_new {
            self.causes.push(hash);
        }
        is_new
    }
}

/// Which of many equal reports are worth a line: the first few, then 10, 100, 1,000, …
#[derive(Clone, Copy, Debug, Default)]
pub struct LogThrottle {
    count: u64,
}

impl LogThrottle {
    const FIRST: u64 = 5;

    /// Counts one report; `Some(count)` if it is to be written.
    pub fn admit(&mut self) -> Option<u64> {
        self.count += 1;
        let is_power = self.count >= 10 && {
            let mut n = self.count;
            while n.is_multiple_of(10) {
                n /= 10;
            }
            n == 1
        };
        (self.count <= Self::FIRST || is_power).then_some(self.count)
    }
}

/// Something that may happen often: counted always, logged once a second.
#[derive(Default)]
pub struct Burst {
    all: AtomicU64,
    unsaid: Mutex<Unsaid>,
}

#[derive(Default)]
struct Unsaid {
    count: u64,
    said: Option<Instant>,
}

impl Burst {
    /// Least time between two lines.
    const PAUSE: Duration = Duration::from_secs(1);

    /// It happened once more. Where it is time for a line: how often since the last one.
    pub fn note(&self) -> Option<u64> {
        self.all.fetch_add(1, Ordering::Relaxed);
        let mut unsaid = self.unsaid.lock().unwrap_or_else(PoisonError::into_inner);
        unsaid.count += 1;
        if unsaid.said.is_some_and(|at| at.elapsed() < Burst::PAUSE) {
            return None;
        }
        unsaid.said = Some(Instant::now());
        Some(std::mem::take(&mut unsaid.count))
    }

    /// How often it happened.
    pub fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_start_again() {
        let mut schedule = RetrySchedule::waiting();
        for step in WAITING_MS.iter().chain([&4_000, &4_000]) {
            let pause = schedule.next_pause().as_millis() as u64;
            assert!(
                (step - step / 5..=*step).contains(&pause),
                "{step}: {pause}"
            );
        }
        schedule.succeeded();
        assert!(schedule.next_pause() <= Duration::from_millis(100));
    }

    #[test]
    fn two_who_wait_do_not_come_back_at_once() {
        let pause = Duration::from_secs(1000);
        let all: Vec<Duration> = (0..8).map(|_| jittered(pause)).collect();
        assert!(all.iter().any(|one| *one != all[0]), "{all:?}");
    }

    #[test]
    fn a_pause_is_logged_in_few_digits() {
        assert_eq!(seconds(Duration::from_millis(100)).to_string(), "0.1");
        assert_eq!(
            seconds(Duration::from_micros(4_567_890)).to_string(),
            "4.57"
        );
    }

    #[test]
    fn what_lasts_is_said_again_at_growing_intervals() {
        let (begin, mut reminder) = (Instant::now(), Reminder::default());
        let second = |n| begin + Duration::from_secs(n);
        let said: Vec<u64> = (0..1300)
            .filter(|n| reminder.is_due_at(second(*n), "connection refused"))
            .collect();
        assert_eq!(said, [0, 10, 30, 70, 150, 310, 610, 910, 1210]);
    }

    #[test]
    fn another_cause_is_said_at_once() {
        let (begin, mut reminder) = (Instant::now(), Reminder::default());
        let mut is_due = |n, cause: &str| reminder.is_due_at(begin + Duration::from_secs(n), cause);
        assert!(is_due(0, "connection refused"));
        assert!(!is_due(4, "connection refused"));
        assert!(is_due(8, "wrong password"));
        // Both are known now.
        assert!(!is_due(12, "connection refused"));
        assert!(is_due(18, "wrong password"));
        let said = (19..38).filter(|n| is_due(*n, &format!("no answer in {n} s")));
        assert_eq!(said.count(), Reminder::MAX_CAUSES - 2);
    }

    #[test]
    fn few_of_many_reports_are_written() {
        let mut throttle = LogThrottle::default();
        let written: Vec<u64> = (0..2000).filter_map(|_| throttle.admit()).collect();
        assert_eq!(written, [1, 2, 3, 4, 5, 10, 100, 1000]);
    }

    #[test]
    fn a_burst_is_one_line_and_every_count() {
        let burst = Burst::default();
        assert_eq!(burst.note(), Some(1));
        burst.unsaid.lock().unwrap().said = Some(Instant::now() + Burst::PAUSE);
        assert_eq!((burst.note(), burst.note()), (None, None));
        assert_eq!(burst.all(), 3);
        burst.unsaid.lock().unwrap().said = Some(Instant::now() - Burst::PAUSE);
        assert_eq!(burst.note(), Some(3));
    }
}
