//! The thread that keeps the indexes of a store up to date.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, TryLockError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use store::indexing::Indexing;
use store::reader::Reader;

use crate::error::Error;
use crate::index::{Fields, TableIndex, folder, remove};
use crate::search::Shared;

/// How often the tables are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Between two tries after a failure, at most.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Who has the index of a store to himself holds it.
const LOCK: &str = ".lock";

pub(crate) struct Keeper {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Orders {
    inner: Mutex<Inner>,
    wake: Condvar,
}

#[derive(Default)]
struct Inner {
    is_stopping: bool,
    is_woken: bool,
    /// Tables whose index is to be made again.
    again: BTreeSet<String>,
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    /// # Errors
    /// There is no thread.
    pub fn start(shared: &Arc<Shared>) -> std::io::Result<Keeper> {
        let orders = Arc::new(Orders::default());
        let mut work = Work {
            shared: Arc::clone(shared),
            orders: Arc::clone(&orders),
            files: None,
            indexes: HashMap::new(),
            lock: None,
            said: None,
        };
        let thread = std::thread::Builder::new()
            .name("search-index".to_owned())
            .spawn(move || work.run())?;
        Ok(Keeper {
            orders,
            thread: Some(thread),
        })
    }

    pub fn wake(&self) {
        self.orders.lock().is_woken = true;
        self.orders.wake.notify_all();
    }

    /// Is the index of a table to be made from nothing, and still there?
    pub fn is_asked(&self, table: &str) -> bool {
        self.orders.lock().again.contains(table)
    }

    /// Has the index of a table made from nothing.
    pub fn make_again(&self, table: &str) {
        self.orders.lock().again.insert(table.to_owned());
        self.wake();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders.lock().is_stopping = true;
        self.orders.wake.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the thread of the search index stopped by an internal error; searches read the tables"
            );
        }
    }
}

struct Work {
    shared: Arc<Shared>,
    orders: Arc<Orders>,
    /// The tables' files as they were read last.
    files: Option<Reader>,
    indexes: HashMap<String, Kept>,
    lock: Option<File>,
    /// The trouble that was reported last.
    said: Option<String>,
}

/// The index of one table.
struct Kept {
    index: TableIndex,
    /// Version of the files that it has.
    version: Option<u64>,
}

impl Work {
    fn run(&mut self) {
        let mut pause = LOOK_EVERY;
        while self.wait(pause) {
            match self.look() {
                Ok(()) => {
                    pause = LOOK_EVERY;
                    self.said = None;
                }
                Err(error) => {
                    pause = (pause * 2).min(PAUSE_MAX);
                    let said = error.to_string();
                    if self.said.as_ref() != Some(&said) {
                        tracing::error!(
                            cause = said,
                            "the search index cannot be kept up to date; searches read what it lacks from the tables"
                        );
                    }
                    self.said = Some(said);
                }
            }
        }
    }

    /// Waits until there may be something to do; false at the end.
    fn wait(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut inner = self.orders.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if inner.is_stopping || inner.is_woken || left.is_zero() {
                inner.is_woken = false;
                return !inner.is_stopping;
            }
            let waited = self.orders.wake.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn look(&mut self) -> Result<(), Error> {
        let dir = self.shared.dir.clone();
        // It is made with the first table.
        if !dir.join("store.json").exists() {
            return Ok(());
        }
        if self.lock.is_none() {
            self.lock = Some(lock(&dir.join("index"))?);
        }
        let files = Reader::files(&dir, self.files.as_ref())?;
        let again = self.orders.lock().again.clone();
        for name in &again {
            self.drop_index(name)?;
        }
        // Whoever waits for a new index does not take the old one for it.
        self.orders
            .lock()
            .again
            .retain(|name| !again.contains(name));
        let mut failed = None;
        let names: Vec<String> = files.tables().map(str::to_owned).collect();
        for name in &names {
            if let Err(error) = self.keep(&files, name) {
                failed = Some(error);
            }
        }
        self.files = Some(files);
        failed.map_or(Ok(()), Err)
    }

    fn drop_index(&mut self, name: &str) -> Result<(), Error> {
        self.shared.published().remove(name);
        self.indexes.remove(name);
        remove(&folder(&self.shared.dir, name))
    }

    /// Brings the index of a table to its newest version.
    fn keep(&mut self, files: &Reader, name: &str) -> Result<(), Error> {
        let dir = folder(&self.shared.dir, name);
        let Some(scan) = files.scan(name) else {
            return Ok(());
        };
        let indexing = Indexing::read(&self.shared.dir, name)?;
        let Some(fields) = Fields::new(scan.definition(), &indexing) else {
            if self.indexes.contains_key(name) || dir.exists() {
                self.drop_index(name)?;
            }
            return Ok(());
        };
        let is_other = self
            .indexes
            .get(name)
            .is_some_and(|kept| !kept.index.is_for(&fields));
        if is_other {
            self.drop_index(name)?;
        }
        if !self.indexes.contains_key(name) {
            let fields = Arc::new(fields);
            let index = match TableIndex::open(&dir, &fields, &scan) {
                Ok(Some(index)) => index,
                Ok(None) => TableIndex::create(&dir, &fields)?,
                Err(error) => {
                    tracing::warn!(table = name, %error, "the search index is made again");
                    TableIndex::create(&dir, &fields)?
                }
            };
            self.shared.publish(name, index.published());
            self.indexes.insert(
                name.to_owned(),
                Kept {
                    index,
                    version: None,
                },
            );
        }
        let orders = Arc::clone(&self.orders);
        let goes_on = move || {
            let inner = orders.lock();
            !inner.is_stopping && inner.again.is_empty()
        };
        loop {
            let Some(kept) = self.indexes.get_mut(name) else {
                return Ok(());
            };
            if kept.version == Some(scan.version()) {
                return Ok(());
            }
            if kept.index.covers(&scan) {
                kept.version = Some(scan.version());
                return Ok(());
            }
            match kept.index.update(&dir, &scan, &goes_on) {
                Ok(is_end) => {
                    kept.version = is_end.then(|| scan.version());
                    self.shared.publish(name, kept.index.published());
                    if is_end || !goes_on() {
                        return Ok(());
                    }
                }
                Err(error) => {
                    // What is on disk is looked at again, and made again where it is damaged.
                    self.shared.published().remove(name);
                    self.indexes.remove(name);
                    return Err(error);
                }
            }
        }
    }
}

fn lock(dir: &std::path::Path) -> Result<File, Error> {
    let failed =
        |cause: std::io::Error| Error::Index(format!("cannot lock '{}': {cause}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(dir.join(LOCK)).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Index(format!(
            "another process keeps '{}'",
            dir.display()
        ))),
        Err(TryLockError::Error(cause)) => Err(failed(cause)),
    }
}
