//! When the other side of a connection was last heard, for protocols with questions of their own.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Observer;

/// A server that was silent for so long is asked for a sign of life.
pub const QUIET: Duration = Duration::from_secs(1);

/// One that is silent for so long is lost. With a look that leaves a second of the five within which a
/// lost server is named, for whoever is kept waiting by a busy machine.
const SILENT: Duration = Duration::from_millis(3500);

const LOOK: Duration = Duration::from_millis(250);

/// What passes between two looks is silence for so long at most: who comes later than that stood still
/// itself, asked nothing meanwhile, and has not read yet what came.
const LISTENED_MAX: Duration = QUIET;

pub struct Liveness {
    heard: Mutex<Heard>,
}

struct Heard {
    at: Instant,
    /// Nothing is read, because the app is full.
    is_deaf: bool,
}

impl Default for Liveness {
    fn default() -> Liveness {
        Liveness {
            heard: Mutex::new(Heard {
                at: Instant::now(),
                is_deaf: false,
            }),
        }
    }
}

/// Each byte that comes, or is taken from us, is a sign: a long message may take longer than silence is
/// borne, and nothing else can come between its parts. What only waits in the system is none.
impl Observer for Liveness {
    fn read(&self, bytes: usize) {
        if bytes > 0 {
            self.heard();
        }
    }

    fn moved(&self) {
        // Who does not listen goes on not listening.
        self.lock().at = Instant::now();
    }
}

impl Liveness {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, is_deaf: bool) {
        *self.lock() = Heard {
            at: Instant::now(),
            is_deaf,
        };
    }

    pub fn heard(&self) {
        self.set(false);
    }

    /// Until the next [`Liveness::heard`] silence means nothing.
    pub fn deaf(&self) {
        self.set(true);
    }

    /// Asks by `ask` for a sign of life after each `quiet` of silence; returns when the server is lost.
    pub async fn watch(&self, quiet: Duration, mut ask: impl FnMut()) -> String {
        let mut asked = Instant::now();
        let (mut looked, mut listening) = (Instant::now(), Listening::default());
        loop {
            tokio::time::sleep(LOOK).await;
            let passed = looked.elapsed();
            looked += passed;
            let (heard, is_deaf) = {
                let heard = self.lock();
                (heard.at.elapsed(), heard.is_deaf)
            };
            let silence = listening.look(passed, heard);
            if silence > SILENT && !is_deaf {
                return format!("no sign of life for {} ms", silence.as_millis());
            }
            // Also while nothing is read: the server counts what it hears of us.
            if silence >= quiet && asked.elapsed() >= quiet {
                asked = Instant::now();
                ask();
            }
        }
    }
}

/// How long a server has been silent to one who listened.
#[derive(Default)]
struct Listening {
    silence: Duration,
}

impl Listening {
    /// A look so long after the one before, and so long after the last sign of life.
    fn look(&mut self, passed: Duration, heard: Duration) -> Duration {
        self.silence = heard.min(self.silence + passed.min(LISTENED_MAX));
        self.silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_silent_while_we_stand_still() {
        let mut listening = Listening::default();
        let mut heard = Duration::ZERO;
        let mut look = |passed: Duration, is_heard: bool| {
            heard = if is_heard { LOOK / 2 } else { heard + passed };
            listening.look(passed, heard)
        };
        assert_eq!(look(LOOK, true), LOOK / 2);
        // A minute in which nobody listened; then it is asked, and has its time to answer.
        let after = look(Duration::from_secs(60), false);
        assert_eq!(after, LOOK / 2 + LISTENED_MAX);
        let mut looks = 0;
        while look(LOOK, false) <= SILENT {
            looks += 1;
        }
        let left = SILENT - after;
        assert_eq!(looks, left.as_millis() / LOOK.as_millis());
        assert_eq!(look(LOOK, true), LOOK / 2, "it has answered");
    }
}
