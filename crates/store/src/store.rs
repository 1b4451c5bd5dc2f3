//! A store that is open for writing: its log, its tables, and the thread that writes rows to files.
//!
//! One process writes to a folder; a lock sees to that. The thread wakes when a table has rows that
//! are old or many enough, and when somebody waits for room.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::change::{Noted, abort_frame};
use crate::definition::Definition;
use crate::error::Error;
use crate::load::{Loaded, TABLES, Tables, create, load, replay_into};
use crate::log::Log;
use crate::paths::private;
use crate::table::Table;
use crate::upkeep::{self, Vacuumed};

/// Held by the process that writes.
const LOCK: &str = "lock";

/// How often the tables are looked at: for commits of other programs, and for rows that have got old.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often files that nobody reads any more are removed.
const VACUUM_EVERY: Duration = Duration::from_secs(10 * 60);

/// Between two tries to write rows to files, after the first failure and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long a writer waits for room before it says that there is none.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// How long a batch waits for an app that has not committed what it has written, and how often it looks.
const QUIET_WAIT: Duration = Duration::from_secs(30);
const QUIET_LOOK: Duration = Duration::from_millis(20);

/// The stores that a server has open, by folder.
#[derive(Default)]
pub(crate) struct Stores {
    open: Mutex<HashMap<PathBuf, Weak<EventStore>>>,
}

impl Stores {
    /// # Errors
    /// The folder cannot be used, is damaged, or another process writes to it.
    pub fn open(&self, dir: &Path) -> Result<Arc<EventStore>, Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = open.get(dir).and_then(Weak::upgrade) {
            return Ok(store);
        }
        let store = Arc::new(EventStore::open(dir)?);
        open.retain(|_, store| store.strong_count() > 0);
        open.insert(dir.to_owned(), Arc::downgrade(&store));
        Ok(store)
    }
}

/// An open store; the last who drops it waits until all rows are in files.
pub struct EventStore {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
}

/// What the thread works on, too.
pub(crate) struct Shared {
    dir: PathBuf,
    id: String,
    pub log: Log,
    tables: Mutex<Tables>,
    /// Transactions of the groups of apps, by the name of the group.
    sessions: Mutex<HashMap<String, Weak<Mutex<Session>>>>,
    orders: Mutex<Orders>,
    /// Held while rows in memory are made again from the log: no file of it goes, and no half of a
    /// transaction is written to files.
    rebuild: Mutex<()>,
    /// Held while the marks of incremental scripts are changed.
    pub marks: Mutex<()>,
    /// The thread is to look, or has done something.
    wake: Condvar,
    done: Condvar,
    _lock: File,
}

#[derive(Default)]
struct Orders {
    is_stopping: bool,
    is_woken: bool,
    /// Why rows could not be written to files the last time.
    trouble: Option<String>,
}

impl EventStore {
    /// The store that the apps of a server have open in a folder, or will have.
    ///
    /// # Errors
    /// As [`EventStore::open`].
    pub fn of_server(
        shared: &connect::shared::Shared,
        dir: &Path,
    ) -> Result<Arc<EventStore>, Error> {
        shared.get::<Stores>().open(dir)
    }

    /// Opens or creates the store in a folder.
    ///
    /// # Errors
    /// The folder cannot be used, is damaged, or another process writes to it.
    pub fn open(dir: &Path) -> Result<EventStore, Error> {
        let begun = Instant::now();
        create(dir)?;
        let lock = lock(dir)?;
        let Loaded {
            id,
            tables,
            replayed,
            ..
        } = load(dir, None)?;
        let log = Log::open(&dir.join(crate::load::LOG), replayed)?;
        let rows: usize = tables
            .values()
            .map(|table| table.view().live.live_count())
            .sum();
        tracing::info!(
            directory = %dir.display(),
            tables = tables.len(),
            rows_of_log = rows,
            millis = begun.elapsed().as_millis() as u64,
            "event store is open"
        );
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            id,
            log,
            tables: Mutex::new(tables),
            sessions: Mutex::default(),
            orders: Mutex::default(),
            rebuild: Mutex::default(),
            marks: Mutex::default(),
            wake: Condvar::new(),
            done: Condvar::new(),
            _lock: lock,
        });
        let works = Arc::clone(&shared);
        let flusher = std::thread::Builder::new()
            .name("event-store".to_owned())
            .spawn(move || works.run())
            .map_err(Error::file("start a thread for", dir))?;
        Ok(EventStore {
            shared,
            flusher: Some(flusher),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for EventStore {
    fn drop(&mut self) {
        self.shared.lock_orders().is_stopping = true;
        self.shared.wake.notify_all();
        if let Some(flusher) = self.flusher.take()
            && flusher.join().is_err()
        {
            tracing::error!(
                "the thread of the event store stopped by an internal error; its log has all rows"
            );
        }
    }
}

fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let lock = private(&mut options).open(&path);
    let lock = lock.map_err(Error::file("open", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::File {
            action: "write to",
            path: dir.to_owned(),
            cause: std::io::Error::other(
                "another process writes to this event store: stop it, or use another directory",
            ),
        }),
        Err(TryLockError::Error(cause)) => Err(Error::file("lock", &path)(cause)),
    }
}

impl Shared {
    fn lock_orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn tables(&self) -> Tables {
        self.tables
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The table of a definition, which is made where it is missing.
    ///
    /// # Errors
    /// It is there with other columns, or cannot be made.
    pub fn table(&self, definition: &Definition) -> Result<Arc<Table>, Error> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(&definition.name) {
            return match definition.difference(&table.definition) {
                None => Ok(Arc::clone(table)),
                Some(difference) => Err(Error::Refused(format!(
                    "table '{}' of the event store is another one: {difference}. Name another table by option \
                     'table.name', or define it as it is",
                    definition.name
                ))),
            };
        }
        let dir = self.dir.join(TABLES).join(&definition.name);
        let table = Arc::new(Table::create(&dir, definition)?);
        if let Some(difference) = definition.difference(&table.definition) {
            return Err(Error::Refused(format!(
                "table '{}': {difference}",
                definition.name
            )));
        }
        tables.insert(definition.name.clone(), Arc::clone(&table));
        Ok(table)
    }

    /// The transaction that the tables of a group of apps share.
    pub fn session(&self, name: &str) -> Arc<Mutex<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(name).and_then(Weak::upgrade) {
            return session;
        }
        sessions.retain(|_, session| session.strong_count() > 0);
        let session = Arc::new(Mutex::new(Session::default()));
        sessions.insert(name.to_owned(), Arc::downgrade(&session));
        session
    }

    /// Waits a moment where a table has more rows in memory than it may.
    ///
    /// # Errors
    /// There is no room yet.
    pub fn wait_for_room(&self, table: &Table) -> Result<(), Error> {
        if !table.lock().is_full() {
            return Ok(());
        }
        let until = Instant::now() + ROOM_WAIT;
        self.wake();
        let mut orders = self.lock_orders();
        loop {
            if !table.lock().is_full() {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let cause = orders.trouble.clone();
                let cause = cause.unwrap_or_else(|| "files are being written".to_owned());
                return Err(Error::File {
                    action: "write rows of the log to files of",
                    path: table.dir.clone(),
                    cause: std::io::Error::other(cause),
                });
            }
            let waited = self.done.wait_timeout(orders, left);
            orders = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Puts the rows of a table aside for its files; true where none is left in memory. Waits a moment for an
    /// app that has written rows and not yet committed them.
    ///
    /// # Errors
    /// It has not committed them for too long.
    pub fn quiet(&self, table: &Table, since: Instant) -> Result<bool, Error> {
        let whole = self.rebuild.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = table.lock();
        let is_quiet = state.view.live.is_empty() || state.freeze(&table.definition);
        drop(state);
        drop(whole);
        if is_quiet {
            return Ok(true);
        }
        if since.elapsed() > QUIET_WAIT {
            return Err(Error::Conflict(table.definition.name.clone()));
        }
        let orders = self.lock_orders();
        let waited = self.done.wait_timeout(orders, QUIET_LOOK);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        Ok(false)
    }

    /// Has the thread look at the tables.
    pub fn wake(&self) {
        self.lock_orders().is_woken = true;
        self.wake.notify_all();
    }

    // ---- the thread ----

    fn run(&self) {
        let mut vacuumed = Instant::now();
        let mut retained: HashMap<String, Instant> = HashMap::new();
        let mut pause = PAUSE_MIN;
        loop {
            let is_last = self.wait(pause);
            let tables = self.tables();
            let mut trouble = None;
            for table in tables.values() {
                if let Err(error) = self.work(table, is_last) {
                    let said = connect::error::chain(&error);
                    tracing::error!(
                        table = table.definition.name,
                        cause = said,
                        "cannot write rows of the event store to files; they stay in the log and in memory, and \
                         it is tried again"
                    );
                    trouble = Some(said);
                }
                if !is_last {
                    retain(table, &mut retained);
                }
            }
            self.trim_log(&tables);
            if vacuumed.elapsed() >= VACUUM_EVERY {
                vacuumed = Instant::now();
                vacuum(&tables);
            }
            pause = match trouble.is_some() {
                true => (pause * 2).min(PAUSE_MAX),
                false => PAUSE_MIN,
            };
            let mut orders = self.lock_orders();
            orders.trouble = trouble;
            drop(orders);
            self.done.notify_all();
            if is_last {
                return;
            }
        }
    }

    /// Waits until there is something to do; true at the end.
    fn wait(&self, pause: Duration) -> bool {
        let next = self
            .tables()
            .into_values()
            .filter_map(|table| table.lock().due_in())
            .min();
        let mut orders = self.lock_orders();
        let until = Instant::now()
            + match orders.trouble {
                Some(_) => pause,
                None => next
                    .unwrap_or(LOOK_EVERY)
                    .clamp(Duration::from_millis(10), LOOK_EVERY),
            };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // After a failure a writer that waits does not make the next try come sooner.
            let is_woken = orders.is_woken && orders.trouble.is_none();
            if orders.is_stopping || is_woken || left.is_zero() {
                orders.is_woken = false;
                return orders.is_stopping;
            }
            let waited = self.wake.wait_timeout(orders, left);
            orders = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn work(&self, table: &Table, is_last: bool) -> Result<(), Error> {
        // A layer that could not be written before goes first.
        table.flush(&self.id)?;
        let whole = self.rebuild.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = table.lock();
        if is_last || state.is_due() {
            state.freeze(&table.definition);
        }
        drop(state);
        drop(whole);
        if !table.flush(&self.id)? {
            table.refresh()?;
        }
        while table.compact()? {}
        Ok(())
    }

    fn trim_log(&self, tables: &Tables) {
        let _whole = self.rebuild.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked before the tables are: what a transaction begins meanwhile lies behind it.
        let end = self.log.end();
        let needed = tables
            .values()
            .filter_map(|table| table.lock().first_needed())
            .min();
        if let Err(error) = self.log.remove_before(Some(needed.unwrap_or(end).min(end))) {
            tracing::warn!(%error, "cannot remove a file of the log that is no longer needed");
        }
    }
}

/// Old rows of a table go, where it has a retention and was not looked at just now.
fn retain(table: &Arc<Table>, looked: &mut HashMap<String, Instant>) {
    let name = &table.definition.name;
    let Some(every) = table.lock().retention.map(upkeep::look_every) else {
        looked.remove(name);
        return;
    };
    if looked.get(name).is_some_and(|at| at.elapsed() < every) {
        return;
    }
    looked.insert(name.clone(), Instant::now());
    if let Err(error) = upkeep::retain(table) {
        tracing::error!(
            table = name,
            cause = connect::error::chain(&error),
            "cannot take rows out that are older than the retention of their table; it is tried again"
        );
    }
}

fn vacuum(tables: &Tables) {
    for table in tables.values() {
        match table.vacuum(upkeep::GRACE, false) {
            Ok(Vacuumed { files: 0, .. }) => {}
            Ok(Vacuumed { files, bytes, .. }) => tracing::info!(
                table = table.definition.name,
                files,
                bytes,
                "removed files that nobody reads any more"
            ),
            Err(error) => tracing::warn!(
                table = table.definition.name,
                %error,
                "cannot remove files of the event store that are no longer needed"
            ),
        }
    }
}

/// What the tables of a group of apps write between two commits.
#[derive(Default)]
pub(crate) struct Session {
    /// Each epoch is noted for all of them.
    pub apps: BTreeSet<String>,
    /// A transaction covers all calls until the commit.
    pub in_epoch: bool,
    /// Its number, from its first change on.
    transaction: Option<u64>,
    /// Tables that it has changed.
    touched: BTreeMap<String, Arc<Table>>,
    /// A commit that is in the log and not known to last: its epoch and number, and the place behind it.
    pending: Option<(u64, u64, u64)>,
    committed: Option<u64>,
    /// What is in memory is not what the log has: all since the last commit has to be done again.
    pub is_lost: bool,
}

impl Session {
    /// # Errors
    /// What was written since the last commit is gone.
    pub fn check(&self) -> Result<(), Error> {
        match self.is_lost {
            false => Ok(()),
            true => Err(Error::File {
                action: "go on with",
                path: PathBuf::from("log"),
                cause: std::io::Error::other(
                    "a write to the log failed, and all writes since the last commit are undone and have to be \
                     done again",
                ),
            }),
        }
    }

    /// The number of the transaction, which begins with the first change.
    pub fn transaction(&mut self, log: &Log) -> u64 {
        *self.transaction.get_or_insert_with(|| log.take_sequence())
    }

    pub fn touch(&mut self, table: &Arc<Table>) {
        let name = &table.definition.name;
        if !self.touched.contains_key(name) {
            self.touched.insert(name.clone(), Arc::clone(table));
        }
    }

    /// Makes the writes last with the number of the epoch. Epoch 0 is not noted.
    ///
    /// # Errors
    /// It is not known to last; the same call finishes it.
    pub fn commit(&mut self, store: &Shared, epoch: u64, key: &[u8]) -> Result<(), Error> {
        self.check()?;
        let is_done =
            epoch > 0 && self.committed == Some(epoch) || epoch == 0 && self.transaction.is_none();
        if is_done && self.pending.is_none() {
            return Ok(());
        }
        let (_, sequence, end) = match self.pending {
            Some(pending) => pending,
            None => {
                let apps = self.apps.iter().filter(|_| epoch > 0);
                let noted = apps.map(|app| Noted {
                    app: app.clone(),
                    epoch,
                    key: key.to_vec(),
                });
                let noted: Vec<Noted> = noted.collect();
                let transaction = self.transaction(&store.log);
                let (sequence, end) = store.log.commit(transaction, noted)?;
                *self.pending.insert((epoch, sequence, end))
            }
        };
        store.log.sync(end)?;
        self.pending = None;
        self.transaction = None;
        if epoch > 0 {
            self.committed = Some(epoch);
        }
        let mut is_due = false;
        for table in std::mem::take(&mut self.touched).into_values() {
            let mut state = table.lock();
            state.committed(sequence);
            is_due |= state.is_due() && state.freeze(&table.definition);
        }
        if is_due {
            store.wake();
        }
        Ok(())
    }

    /// Gives up what was written since the last commit.
    ///
    /// # Errors
    /// The log cannot be read or written; the rows in memory are not used before that works.
    pub fn abort(&mut self, store: &Shared) -> Result<(), Error> {
        (self.in_epoch, self.committed, self.pending) = (false, None, None);
        if let Some(transaction) = self.transaction {
            self.is_lost = true;
            store.log.append(&abort_frame(transaction))?;
            store.log.write()?;
            self.transaction = None;
        }
        if self.is_lost {
            let _whole = store.rebuild.lock().unwrap_or_else(PoisonError::into_inner);
            let tables: Tables = self.touched.clone();
            for table in tables.values() {
                table.lock().forget(&table.definition);
            }
            replay_into(&store.dir, &store.id, &tables)?;
            self.touched.clear();
            self.is_lost = false;
        }
        Ok(())
    }
}
