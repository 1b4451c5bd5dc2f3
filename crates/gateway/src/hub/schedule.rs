//! What becomes of a subscription after an attempt: a pure rule, with the time as an argument.

use std::time::Duration;

/// The first pause, which doubles with each attempt up to the longest.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(30 * 60);

/// Attempts of an event that a callback refuses although it is there: the event is at fault, not the callback.
const REFUSALS_MAX: u32 = 5;

/// The longest pause that a callback may ask for.
const ASKED_MAX: Duration = Duration::from_secs(24 * 3600);

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// 2xx.
    Taken,
    /// 410: it wants nothing more.
    Gone,
    /// It cannot be reached, or has a fault of its own; it may have asked for a pause.
    Away(Option<Duration>),
    /// It answers, and refuses this event.
    Refused,
}

impl Outcome {
    /// Of an HTTP status. A redirect is a failure: who wants it elsewhere subscribes there.
    pub fn of_status(status: u16, pause: Option<Duration>) -> Outcome {
        match status {
            200..300 => Outcome::Taken,
            410 => Outcome::Gone,
            408 | 425 | 429 => Outcome::Away(pause),
            300..500 => Outcome::Refused,
            _ => Outcome::Away(pause),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Taken => "delivered",
            Outcome::Gone => "gone",
            Outcome::Away(_) => "away",
            Outcome::Refused => "refused",
        }
    }
}

/// How the event at the cursor has fared. Times are milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Tries {
    pub count: u32,
    /// When the first one failed.
    pub since: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The next event.
    Next,
    /// The event is given up; the next one.
    Dead,
    /// The same event, then.
    Again(i64),
    /// The subscription ends.
    End,
}

impl Tries {
    /// `jitter` makes a pause of one that differs from those of others.
    pub fn after(
        &mut self,
        outcome: Outcome,
        now: i64,
        over: Duration,
        jitter: impl FnOnce(Duration) -> Duration,
    ) -> Step {
        let asked = match outcome {
            Outcome::Taken => {
                *self = Tries::default();
                return Step::Next;
            }
            Outcome::Gone => return Step::End,
            Outcome::Away(asked) => asked,
            Outcome::Refused => None,
        };
        self.count += 1;
        let since = *self.since.get_or_insert(now);
        let has_lasted = Duration::from_millis(u64::try_from(now - since).unwrap_or_default());
        let is_refused = outcome == Outcome::Refused && self.count >= REFUSALS_MAX;
        if is_refused || has_lasted >= over {
            *self = Tries::default();
            return Step::Dead;
        }
        let doubled = PAUSE.saturating_mul(1 << (self.count - 1).min(16));
        let own = jitter(doubled.min(PAUSE_MAX));
        let pause = asked.map_or(own, |asked| asked.min(ASKED_MAX).max(own));
        Step::Again(now.saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600 * 1000;

    /// Fails until it is given up; when, in milliseconds, and after how many attempts.
    fn give_up(outcome: Outcome, over: Duration) -> (i64, u32) {
        let (mut tries, mut now, mut count) = (Tries::default(), 0, 0);
        loop {
            count += 1;
            match tries.after(outcome, now, over, |pause| pause) {
                Step::Again(at) => {
                    assert!(at > now);
                    now = at;
                }
                step => {
                    assert_eq!((step, tries), (Step::Dead, Tries::default()));
                    return (now, count);
                }
            }
        }
    }

    // rules: W18
    #[test]
    fn a_callback_that_is_away_is_tried_over_days() {
        let over = Duration::from_secs(3 * 24 * 3600);
        let (lasted, count) = give_up(Outcome::Away(None), over);
        assert!((3 * DAY..3 * DAY + 1_800_000).contains(&lasted), "{lasted}");
        assert!((140..170).contains(&count), "{count}");
        assert_eq!(give_up(Outcome::Refused, over), (75_000, 5));
    }

    #[test]
    fn pauses_double_and_those_asked_for_are_kept() {
        let mut tries = Tries::default();
        let over = Duration::from_secs(1_000_000);
        let mut after = |outcome| match tries.after(outcome, 0, over, |pause| pause) {
            Step::Again(at) => at / 1000,
            step => panic!("{step:?}"),
        };
        let away = Outcome::Away(None);
        assert_eq!(
            [after(away), after(away), after(away), after(away)],
            [5, 10, 20, 40]
        );
        assert_eq!(after(Outcome::Away(Some(Duration::from_secs(600)))), 600);
        assert_eq!(after(Outcome::Away(Some(Duration::from_secs(1)))), 160);
        assert_eq!(
            after(Outcome::Away(Some(Duration::from_secs(10_000_000)))),
            24 * 3600
        );
    }

    // rules: W17
    #[test]
    fn an_answer_is_judged_by_its_status() {
        for (status, outcome) in [
            (200, Outcome::Taken),
            (204, Outcome::Taken),
            (301, Outcome::Refused),
            (404, Outcome::Refused),
            (410, Outcome::Gone),
            (429, Outcome::Away(None)),
            (500, Outcome::Away(None)),
            (503, Outcome::Away(None)),
            (100, Outcome::Away(None)),
        ] {
            assert_eq!(Outcome::of_status(status, None), outcome, "{status}");
        }
        let mut tries = Tries {
            count: 3,
            since: Some(0),
        };
        assert_eq!(
            tries.after(Outcome::Taken, 9, Duration::ZERO, |pause| pause),
            Step::Next
        );
        assert_eq!(tries, Tries::default());
        assert_eq!(
            tries.after(Outcome::Gone, 9, Duration::ZERO, |pause| pause),
            Step::End
        );
    }
}
