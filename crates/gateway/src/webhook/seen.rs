//! The ids of events that were taken, so that none is taken twice.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Ids of one topic that are known.
const IDS_MAX: usize = 10_000;

/// How long an id is known: senders try again over hours.
const KNOWN: Duration = Duration::from_secs(24 * 3600);

/// Of one topic.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Ids>);

#[derive(Default)]
struct Ids {
    by_id: HashMap<String, State>,
    /// Those that were taken, the oldest first.
    order: VecDeque<(Instant, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is being taken just now.
    Begun,
    Taken,
}

/// What is known of an id.
pub(crate) enum Taken<'s> {
    /// Nothing: it is to be taken now.
    New(Place<'s>),
    Before,
    /// Another request brings it just now.
    Meanwhile,
}

/// An event that is being taken. Dropped, it was not.
pub(crate) struct Place<'s> {
    seen: &'s Seen,
    id: Option<String>,
    now: Instant,
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, id: &str, now: Instant) -> Taken<'_> {
        let mut ids = self.lock();
        while let Some((at, _)) = ids.order.front() {
            if ids.order.len() <= IDS_MAX && now.duration_since(*at) < KNOWN {
                break;
            }
            if let Some((_, id)) = ids.order.pop_front() {
                ids.by_id.remove(&id);
            }
        }
        match ids.by_id.get(id) {
            Some(State::Taken) => return Taken::Before,
            Some(State::Begun) => return Taken::Meanwhile,
            None => {}
        }
        ids.by_id.insert(id.to_owned(), State::Begun);
        Taken::New(Place {
            seen: self,
            id: Some(id.to_owned()),
            now,
        })
    }
}

impl Place<'_> {
    /// The event is taken.
    pub fn keep(mut self) {
        let Some(id) = self.id.take() else { return };
        let mut ids = self.seen.lock();
        ids.by_id.insert(id.clone(), State::Taken);
        ids.order.push_back((self.now, id));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.seen.lock().by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(seen: &Seen, id: &str, now: Instant) -> bool {
        match seen.begin(id, now) {
            Taken::New(place) => {
                place.keep();
                true
            }
            Taken::Before | Taken::Meanwhile => false,
        }
    }

    #[test]
    fn an_event_is_taken_once_and_again_only_if_it_was_not() {
        let (seen, now) = (Seen::default(), Instant::now());
        let place = seen.begin("a", now);
        assert!(matches!(seen.begin("a", now), Taken::Meanwhile));
        drop(place);
        assert!(take(&seen, "a", now) && !take(&seen, "a", now) && take(&seen, "b", now));
        for number in 0..IDS_MAX {
            assert!(take(&seen, &number.to_string(), now));
        }
        assert!(seen.lock().by_id.len() <= IDS_MAX + 1);
        assert!(take(&seen, "5", now + KNOWN), "a day later it is forgotten");
        assert_eq!(seen.lock().by_id.len(), 1);
    }
}
