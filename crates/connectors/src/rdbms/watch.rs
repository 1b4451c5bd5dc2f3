//! Reports a server that has accepted a statement and no longer answers anyone.
//!
//! A statement may take any time, and the machine of a stopped server still keeps its connections
//! alive. So during a long statement another connection is opened: if the server does not even
//! complete that login within a moment, it is reported as gone until it answers again. Waiting
//! writes keep waiting, and nothing is lost.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::server::Server;
use super::url::Target;
use connect::error::{Error, chain};

/// How often is looked whether a statement is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// How long a statement is waited for before the server is asked.
const PATIENCE: Duration = Duration::from_millis(1250);

/// Longest wait for that other connection. The three together are less than four seconds: a lost server
/// is to be known within five, and the app may take its time to have a statement.
const ANSWER: Duration = Duration::from_millis(1750);

/// Longest pause between two questions: servers count the connections that were given up.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Since when a statement is waited for.
type Begun = Arc<Mutex<Option<Instant>>>;

/// The watch of one database; it ends with it.
pub struct Watch {
    begun: Begun,
    /// Dropped, it ends the thread.
    _end: SyncSender<()>,
}

impl Watch {
    /// `name` is how the database is called in what is said.
    pub fn start(server: &Server, name: &str) -> Result<Watch, Error> {
        let begun = Begun::default();
        let (end, ended) = sync_channel(1);
        let mut server = server.clone();
        server.silence = Some(ANSWER);
        server.connect_timeout = server.connect_timeout.min(ANSWER);
        let target = Target::Server(Box::new(server));
        let mut watcher = Watcher {
            begun: Arc::clone(&begun),
            name: name.to_owned(),
            missing: None,
            asks_again: Instant::now(),
        };
        std::thread::Builder::new()
            .name("database watch".to_owned())
            .spawn(move || {
                while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    watcher.look(|| super::link(&target).map(drop));
                }
            })
            .map_err(|cause| Error::unavailable(format!("database '{name}'"), cause))?;
        Ok(Watch { begun, _end: end })
    }

    /// Something is waited for until the guard is dropped; one in another counts as that one.
    pub fn waiting(&self) -> Waiting {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let is_outer = begun.is_none();
        begun.get_or_insert_with(Instant::now);
        Waiting {
            begun: is_outer.then(|| Arc::clone(&self.begun)),
        }
    }
}

pub struct Waiting {
    begun: Option<Begun>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(begun) = &self.begun {
            *begun.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

struct Watcher {
    begun: Begun,
    name: String,
    /// Since when the server is said to be gone, and the pause before it is asked again.
    missing: Option<(Instant, Duration)>,
    asks_again: Instant,
}

impl Watcher {
    fn waited(&self) -> Option<Duration> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.map(|begun| begun.elapsed())
    }

    fn look(&mut self, ask: impl FnOnce() -> Result<(), Error>) {
        let Some(waited) = self.waited() else {
            self.answers();
            return;
        };
        if waited < PATIENCE || Instant::now() < self.asks_again {
            return;
        }
        let error = match ask() {
            Ok(()) => {
                self.answers();
                return;
            }
            Err(error) => error,
        };
        // It may have answered meanwhile.
        let Some(waited) = self.waited() else { return };
        tracing::error!(
            database = self.name,
            waited_ms = waited.as_millis() as u64,
            cause = chain(&error),
            "database is not responding to a statement; waiting for it"
        );
        let (since, pause) = self.missing.unwrap_or((Instant::now(), LOOK));
        let pause = (pause * 2).min(PAUSE_MAX);
        self.missing = Some((since, pause));
        self.asks_again = Instant::now() + pause;
    }

    /// The server is there.
    fn answers(&mut self) {
        self.asks_again = Instant::now();
        if let Some((since, _)) = self.missing.take() {
            let gone_ms = since.elapsed().as_millis() as u64;
            tracing::warn!(
                database = self.name,
                gone_ms,
                "database is responding again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watcher(waited: Option<Duration>) -> Watcher {
        let begun = waited.map(|waited| Instant::now().checked_sub(waited).expect("a clock"));
        Watcher {
            begun: Arc::new(Mutex::new(begun)),
            name: "d".into(),
            missing: None,
            asks_again: Instant::now(),
        }
    }

    #[test]
    fn a_server_is_asked_when_a_statement_is_waited_for() {
        let gone = || Err(Error::unavailable("database 'd'", "no answer"));
        for (waited, is_asked) in [
            (None, false),
            (Some(Duration::from_millis(500)), false),
            (Some(PATIENCE), true),
        ] {
            let mut watcher = watcher(waited);
            let mut asked = false;
            watcher.look(|| {
                asked = true;
                gone()
            });
            assert_eq!((asked, watcher.missing.is_some()), (is_asked, is_asked));
            // Not again before a pause.
            watcher.look(|| panic!("asked again"));
        }
        let mut slow = watcher(Some(PATIENCE));
        slow.look(|| Ok(()));
        assert_eq!(slow.missing, None, "it is only slow");
    }

    #[test]
    fn a_wait_within_a_wait_counts_once() {
        let watch = Watch {
            begun: Begun::default(),
            _end: sync_channel(1).0,
        };
        let is_waiting = || watch.begun.lock().expect("one thread").is_some();
        let outer = watch.waiting();
        drop(watch.waiting());
        assert!(is_waiting());
        drop(outer);
        assert!(!is_waiting());
    }
}
