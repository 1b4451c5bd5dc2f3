//! Whether the executors of a server still move: what a watchdog wants to know.
//!
//! Promises: an executor that has nothing to do is woken and answers; one that waits for a sink, a
//! store or a function outside counts as alive, however long that takes, since to start the server
//! again would not bring the peer back (`/ready` says what is away). One that does neither for a time
//! is named. Never: blocks whoever looks.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::executor::{ExecutorInput, InputQueue};
use crate::health::Health;

/// The executors of a server, for those who look at them again and again.
#[derive(Clone, Default)]
pub struct Liveness(Arc<Mutex<Vec<Watched>>>);

struct Watched {
    health: Weak<Health>,
    input_queue: Weak<InputQueue>,
    /// Its beats and the time when it was asked to move.
    asked: Option<(u64, Instant)>,
}

impl Liveness {
    pub(crate) fn watch(&self, health: &Arc<Health>, input_queue: &Arc<InputQueue>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Watched {
            health: Arc::downgrade(health),
            input_queue: Arc::downgrade(input_queue),
            asked: None,
        });
    }

    /// The apps whose executor has not moved for at least this long since a look asked it to, by the
    /// names of their groups.
    pub fn stuck(&self, at_least: Duration) -> Vec<String> {
        let mut stuck = Vec::new();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain_mut(|watched| {
            let (Some(health), Some(input_queue)) =
                (watched.health.upgrade(), watched.input_queue.upgrade())
            else {
                return false;
            };
            if health.pulse.has_ended() {
                return false;
            }
            let beats = health.pulse.beats();
            if let Some((at, when)) = watched.asked
                && at == beats
            {
                // What it was asked still waits in its queue.
                if !health.pulse.is_waiting() && when.elapsed() >= at_least {
                    stuck.push(health.name().to_owned());
                }
                return true;
            }
            watched.asked = Some((beats, Instant::now()));
            input_queue.push_always(ExecutorInput::Wake).is_ok()
        });
        stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::ActivityTracker;
    use crate::executor::INPUT_MAX;
    use crate::queue::Queue;

    /// A server with one executor, which the test plays.
    fn server() -> (Liveness, Arc<Health>, Arc<InputQueue>) {
        let activity = Arc::new(ActivityTracker::default());
        let health = Arc::new(Health::new(&["A".to_owned()], &activity, false));
        let input_queue = Arc::new(Queue::new(INPUT_MAX));
        let liveness = Liveness::default();
        liveness.watch(&health, &input_queue);
        (liveness, health, input_queue)
    }

    fn stuck(liveness: &Liveness) -> Vec<String> {
        liveness.stuck(Duration::ZERO)
    }

    #[test]
    fn an_executor_that_takes_what_it_is_asked_is_alive() {
        let (liveness, health, input_queue) = server();
        for _ in 0..3 {
            assert!(stuck(&liveness).is_empty());
            assert!(matches!(input_queue.take_now(), Some(ExecutorInput::Wake)));
            health.pulse.beat();
        }
    }

    #[test]
    fn one_that_does_not_move_is_named_and_asked_once() {
        let (liveness, health, input_queue) = server();
        assert!(stuck(&liveness).is_empty(), "it was never asked");
        assert_eq!(stuck(&liveness), ["A"]);
        assert_eq!(stuck(&liveness), ["A"]);
        assert!(liveness.stuck(Duration::from_secs(3600)).is_empty());
        let mut asked = 0;
        input_queue.each(|_| asked += 1);
        assert_eq!(asked, 1);
        health.pulse.beat();
        assert!(stuck(&liveness).is_empty());
    }

    #[test]
    fn one_that_waits_for_a_peer_is_alive_until_it_goes_on() {
        let (liveness, health, _input_queue) = server();
        health.pulse.waiting(|| {
            for _ in 0..3 {
                assert!(stuck(&liveness).is_empty());
            }
        });
        assert!(stuck(&liveness).is_empty(), "it moved when the wait ended");
        assert_eq!(stuck(&liveness), ["A"]);
    }

    #[test]
    fn one_that_has_ended_is_not_watched_any_more() {
        let (liveness, health, _input_queue) = server();
        assert!(stuck(&liveness).is_empty());
        health.pulse.end();
        assert!(stuck(&liveness).is_empty());
        let (liveness, health, _input_queue) = server();
        drop(health);
        assert!(stuck(&liveness).is_empty() && stuck(&liveness).is_empty());
    }
}
