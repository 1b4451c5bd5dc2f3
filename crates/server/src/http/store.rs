//! Keeping house in the event store, at `/store`. What does it is handed in by the binary: the server knows no store.
//!
//! One piece of work is done at a time. It goes on when nobody waits for it any more, can be asked for, and ends
//! early when it is stopped or the server ends.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

use crate::clock;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreWork {
    Purge,
    Vacuum,
    Reindex,
    Verify,
}

impl StoreWork {
    pub fn name(self) -> &'static str {
        match self {
            StoreWork::Purge => "purge",
            StoreWork::Vacuum => "vacuum",
            StoreWork::Reindex => "reindex",
            StoreWork::Verify => "verify",
        }
    }
}

/// Why something was not done.
#[derive(Clone, Debug)]
pub enum StoreRefusal {
    /// What was asked for makes no sense, or means nothing that is there.
    Wrong(String),
    /// The store cannot do it.
    Failed(String),
}

/// Whoever has asked for work.
#[derive(Clone, Default, Debug)]
pub struct StoreWatch {
    stop: Arc<AtomicBool>,
    at: Arc<Mutex<At>>,
}

/// How far work is.
#[derive(Clone, Default, Debug)]
struct At {
    file: String,
    files: u64,
    bytes: u64,
}

impl StoreWatch {
    /// Is it to end?
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The file that it is at, and how many files and bytes there were with it.
    pub fn at(&self) -> (String, u64, u64) {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        (at.file.clone(), at.files, at.bytes)
    }

    /// A file of so many bytes is begun.
    pub fn note(&self, file: &Path, bytes: u64) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.file = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        at.files += 1;
        at.bytes += bytes;
    }
}

/// Keeps house.
pub trait StoreKeeper: Send + Sync {
    /// `{"tables":[…]}`.
    ///
    /// # Errors
    /// The store cannot be read.
    fn tables(&self) -> Result<Json, StoreRefusal>;

    /// `{"versions":[…]}` of a table.
    ///
    /// # Errors
    /// There is no such table, or it cannot be read.
    fn versions(&self, table: &str) -> Result<Json, StoreRefusal>;

    /// Does some work on the thread that calls; what came of it.
    ///
    /// # Errors
    /// It was not done, or not all of it.
    fn work(&self, work: StoreWork, order: &Json, watch: &StoreWatch)
    -> Result<Json, StoreRefusal>;
}

/// The event store of a server, if it has one.
#[derive(Clone)]
pub struct StoreUpkeep {
    keeper: Result<Arc<dyn StoreKeeper>, &'static str>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    running: Option<Running>,
    last: Option<Json>,
}

struct Running {
    work: StoreWork,
    started: i64,
    watch: StoreWatch,
}

/// Work is being done already.
pub(super) struct Busy(pub StoreWork);

impl StoreUpkeep {
    pub fn new(keeper: Arc<dyn StoreKeeper>) -> StoreUpkeep {
        StoreUpkeep {
            keeper: Ok(keeper),
            state: Arc::default(),
        }
    }

    /// `why` says what to do to have it.
    pub fn absent(why: &'static str) -> StoreUpkeep {
        StoreUpkeep {
            keeper: Err(why),
            state: Arc::default(),
        }
    }

    pub(super) fn keeper(&self) -> Result<Arc<dyn StoreKeeper>, &'static str> {
        self.keeper.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins work on a thread of its own; its number, and at its end what [`StoreUpkeep::show`] gives as the last.
    pub(super) fn begin(
        &self,
        keeper: Arc<dyn StoreKeeper>,
        work: StoreWork,
        order: Json,
    ) -> Result<(u64, oneshot::Receiver<Json>), Busy> {
        let mut state = self.lock();
        if let Some(running) = &state.running {
            return Err(Busy(running.work));
        }
        state.last_id += 1;
        let (id, watch) = (state.last_id, StoreWatch::default());
        let started = clock::wall_millis();
        state.running = Some(Running {
            work,
            started,
            watch: watch.clone(),
        });
        drop(state);
        let (sender, ended) = oneshot::channel();
        let upkeep = self.clone();
        // It ends by itself, and a server that stops waits for what runs there.
        drop(tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let done = keeper.work(work, &order, &watch);
            let mut json = json!({
                "id": id,
                "work": work.name(),
                "started": clock::utc_text(started),
                "millis": begun.elapsed().as_millis() as u64,
            });
            match done {
                Ok(result) => json["result"] = result,
                Err(refusal) => {
                    let (status, message) = match refusal {
                        StoreRefusal::Wrong(message) => (422, message),
                        StoreRefusal::Failed(message) => {
                            tracing::error!(
                                work = work.name(),
                                cause = message,
                                "work on the event store has failed"
                            );
                            (500, message)
                        }
                    };
                    json["error"] = json!({ "code": status, "message": message });
                }
            }
            let mut state = upkeep.lock();
            state.running = None;
            state.last = Some(json.clone());
            drop(state);
            // Who does not wait any more finds it as the last.
            sender.send(json).ok();
        }));
        Ok((id, ended))
    }

    /// What is being done, and what was done last.
    pub(super) fn show(&self) -> Json {
        let state = self.lock();
        let running = state.running.as_ref().map(|running| {
            let (file, files, bytes) = running.watch.at();
            json!({
                "id": state.last_id,
                "work": running.work.name(),
                "started": clock::utc_text(running.started),
                "file": file,
                "files": files,
                "bytes": bytes,
                "stopping": running.watch.is_stopped(),
            })
        });
        json!({ "running": running, "last": state.last })
    }

    /// Has what is being done end; false where nothing is.
    pub fn stop(&self) -> bool {
        let state = self.lock();
        let running = state.running.as_ref();
        running
            .inspect(|running| running.watch.stop.store(true, Ordering::Release))
            .is_some()
    }
}
