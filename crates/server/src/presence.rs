//! Whether the other side of a source, sink or store is there: since when it is not, why, and when it is
//! tried again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::wall_millis;

/// Bytes of a cause that are kept.
const CAUSE_MAX: usize = 1024;

/// Where the other side stands, for who looks from outside.
#[derive(Debug, Default)]
pub struct Presence {
    /// Asked at every look at the metrics, and set with what follows.
    is_lost: AtomicBool,
    away: Mutex<Option<Away>>,
}

/// The other side is away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Away {
    /// Since when, milliseconds since 1970.
    pub since: i64,
    /// Of the last try.
    pub cause: String,
    /// When it is tried again, milliseconds since 1970; `None`: not known, or never.
    pub next_try: Option<i64>,
}

impl Presence {
    /// It cannot be reached, or has failed. `cause`: empty where there is nothing to say that was not
    /// said before. `pause`: until it is tried again.
    pub fn lost(&self, cause: &str, pause: Option<Duration>) {
        let now = wall_millis();
        let pause = pause.map(|pause| i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        let before = away.take();
        let since = before.as_ref().map_or(now, |before| before.since);
        let cause = match (cause, before) {
            ("", Some(before)) => before.cause,
            (cause, _) => cause[..cause.floor_char_boundary(CAUSE_MAX)].to_owned(),
        };
        *away = Some(Away {
            since,
            cause,
            next_try: pause.map(|pause| now.saturating_add(pause)),
        });
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// It is there.
    pub fn back(&self) {
        if self.is_lost.swap(false, Ordering::Relaxed) {
            *self.away.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    pub fn away(&self) -> Option<Away> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.clone().filter(|_| self.is_lost())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loss_says_since_when_and_the_last_why() {
        let presence = Presence::default();
        assert_eq!(presence.away(), None);
        presence.lost("refused", Some(Duration::from_secs(5)));
        let first = presence.away().expect("away");
        assert_eq!(first.cause, "refused");
        assert_eq!(first.next_try, Some(first.since + 5000));
        presence.lost("", None);
        let next = presence.away().expect("away");
        assert_eq!((next.since, next.cause.as_str()), (first.since, "refused"));
        assert_eq!(next.next_try, None);
        presence.lost(&"ä".repeat(2000), None);
        assert!(presence.away().expect("away").cause.len() <= CAUSE_MAX);
        presence.back();
        assert!(!presence.is_lost() && presence.away().is_none());
    }
}
