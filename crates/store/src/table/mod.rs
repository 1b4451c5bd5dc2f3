//! A table: its files, and above them the rows that no file holds yet.
//!
//! ```text
//! live layer      what is written now
//! frozen layer    what is being written to files, or nothing
//! files           a version of the Delta log
//! ```
//!
//! Each hides the rows below that it deletes or replaces, so that one look from top to bottom is a
//! consistent version: no row is missing and none comes twice, whatever the flusher does meanwhile.

mod batch;
mod flush;
mod merge;
mod purge;
mod search;
mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::change::Change;
use crate::definition::Definition;
use crate::delta::{DeltaLog, Snapshot, TableLog, Vacuumed, Version};
use crate::error::Error;
use crate::file::Files;
use crate::layer::Layer;
use crate::layout::Layout;

pub(crate) use batch::Batch;
pub use batch::Mode;
pub use purge::Purged;
pub(crate) use purge::slack;
pub(crate) use search::{Found, key_of};
pub(crate) use write::{Writer, fit, joined};

/// Bytes of rows in memory from which on they are written to files, however new they are.
const FLUSH_BYTES: usize = 32 << 20;

/// Bytes of rows in memory at which writers wait until files hold those before them.
const LIVE_MAX: usize = 64 << 20;

/// How old rows get before they are written to files, unless the app says something else.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// One table of a store.
pub(crate) struct Table {
    pub definition: Arc<Definition>,
    pub(crate) dir: PathBuf,
    delta: DeltaLog,
    pub(crate) files: Arc<Files>,
    state: Mutex<State>,
    /// Held by who makes the next version of the files.
    files_alone: Mutex<()>,
}

/// A version of a table: it stays as it is, whatever is written meanwhile.
#[derive(Clone)]
pub(crate) struct View {
    pub snapshot: Arc<Snapshot>,
    pub frozen: Option<Arc<Frozen>>,
    pub live: Arc<Layer>,
}

/// What changes.
pub(crate) struct State {
    pub view: View,
    /// The last commit whose rows are in the live layer or below.
    pub sequence: u64,
    /// There are changes that no commit covers yet.
    pub is_dirty: bool,
    /// When the first commit of the live layer was.
    since: Option<Instant>,
    pub interval: Duration,
    /// How old its rows may get.
    pub retention: Option<Duration>,
    pub layout: Arc<Layout>,
    /// The group of apps that writes it, and how many of their tables do.
    open_by: Option<(String, usize)>,
}

/// Rows that are being written to files.
pub(crate) struct Frozen {
    pub layer: Arc<Layer>,
    /// The last commit whose rows it has.
    pub sequence: u64,
}

impl Table {
    /// A table that is there. What is known from `before` of its log and its files is not read again.
    pub fn open(dir: &Path, before: Option<&Table>) -> Result<Table, Error> {
        let delta = DeltaLog::new(dir);
        let Some(before) = before else {
            let snapshot = delta.snapshot()?;
            return Ok(Table::of(dir, delta, snapshot));
        };
        let known = Arc::clone(&before.lock().view.snapshot);
        let newer = delta.newer(&known)?;
        let snapshot = match delta.is_newest(newer.version) {
            true => newer,
            false => delta.snapshot()?,
        };
        let mut table = Table::of(dir, delta, snapshot);
        if table.definition == before.definition {
            table.files = Arc::clone(&before.files);
        }
        Ok(table)
    }

    /// The same table with the same rows, to which more can be added.
    pub fn copied(&self) -> Table {
        let mut table = Table::of(
            &self.dir,
            DeltaLog::new(&self.dir),
            Arc::clone(&self.lock().view.snapshot),
        );
        table.files = Arc::clone(&self.files);
        let (view, sequence) = {
            let state = self.lock();
            (state.view.clone(), state.sequence)
        };
        let mut state = table.lock();
        state.view = view;
        state.sequence = sequence;
        drop(state);
        table
    }

    /// Puts rows above its files, which the next flush writes to files.
    pub fn take_layer(&self, layer: &Arc<Layer>) {
        if !layer.is_empty() {
            self.lock().view.frozen = Some(Arc::new(Frozen {
                layer: Arc::clone(layer),
                sequence: 0,
            }));
        }
    }

    /// Is this the newest version of the files?
    pub fn is_newest(&self) -> bool {
        let version = self.lock().view.snapshot.version;
        self.delta.is_newest(version)
    }

    /// Makes an empty table.
    pub fn create(dir: &Path, definition: &Definition) -> Result<Table, Error> {
        crate::paths::create_dir(dir)?;
        let delta = DeltaLog::new(dir);
        let snapshot = delta.create(definition)?;
        Ok(Table::of(dir, delta, snapshot))
    }

    fn of(dir: &Path, delta: DeltaLog, snapshot: Arc<Snapshot>) -> Table {
        let definition = Arc::clone(&snapshot.definition);
        Table {
            files: Arc::new(Files::new(dir, &definition)),
            dir: dir.to_owned(),
            delta,
            state: Mutex::new(State {
                view: View {
                    snapshot,
                    frozen: None,
                    live: Arc::new(Layer::new(&definition)),
                },
                sequence: 0,
                is_dirty: false,
                since: None,
                interval: INTERVAL,
                retention: None,
                layout: Arc::default(),
                open_by: None,
            }),
            files_alone: Mutex::default(),
            definition,
        }
    }

    /// A table as it was at a version, without the rows of the log.
    pub fn at(dir: &Path, version: u64) -> Result<Table, Error> {
        let delta = DeltaLog::new(dir);
        let snapshot = delta.snapshot_at(version)?;
        Ok(Table::of(dir, delta, snapshot))
    }

    /// What its log says of its versions, oldest first.
    pub fn versions(&self) -> Result<Vec<Version>, Error> {
        self.delta.versions()
    }

    /// Removes files that the table no longer names, or counts them.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub fn vacuum(&self, grace: Duration, is_dry: bool) -> Result<Vacuumed, Error> {
        let snapshot = Arc::clone(&self.lock().view.snapshot);
        self.delta.vacuum(&snapshot, grace, is_dry)
    }

    fn files_alone(&self) -> MutexGuard<'_, ()> {
        let alone = self.files_alone.lock();
        alone.unwrap_or_else(PoisonError::into_inner)
    }

    /// The greatest number of a row in its files.
    pub fn last_row(&self) -> u64 {
        let snapshot = Arc::clone(&self.lock().view.snapshot);
        let ids = snapshot.files.values().filter_map(|add| add.stats.ids());
        ids.map(|(_, last)| last).max().unwrap_or(0)
    }

    /// The rows as they are now.
    pub fn view(&self) -> View {
        self.lock().view.clone()
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to which commit of a store its files hold the rows.
    pub fn flushed(&self, store: &str) -> u64 {
        let txn = self.lock().view.snapshot.txn(store);
        txn.and_then(|version| u64::try_from(version).ok())
            .unwrap_or(0)
    }

    /// Up to which commit its files hold the rows, or will when what is being written is.
    pub fn covered(&self, store: &str) -> u64 {
        let state = self.lock();
        let frozen = state.view.frozen.as_ref().map(|frozen| frozen.sequence);
        drop(state);
        frozen.unwrap_or(0).max(self.flushed(store))
    }

    /// The newest version of the files, which another program may have made.
    pub fn refresh(&self) -> Result<(), Error> {
        let known = Arc::clone(&self.lock().view.snapshot);
        let newest = self.delta.newer(&known)?;
        if newest.version > known.version {
            self.fits(&newest)?;
            let mut state = self.lock();
            if state.view.snapshot.version < newest.version {
                state.view.snapshot = newest;
            }
        }
        Ok(())
    }

    fn fits(&self, snapshot: &Snapshot) -> Result<(), Error> {
        match snapshot.definition.difference(&self.definition) {
            None => Ok(()),
            Some(difference) => Err(Error::foreign(
                &self.dir,
                format!("another program has changed the columns of the table: {difference}"),
            )),
        }
    }
}

impl State {
    /// `place` is that of the change in the log. Where somebody looks at the live layer, he keeps it as it is
    /// and the table goes on with a copy.
    pub fn apply(&mut self, change: &Change, place: u64) {
        Arc::make_mut(&mut self.view.live).apply(change, place);
    }

    /// A commit covers what is there.
    pub fn committed(&mut self, sequence: u64) {
        self.is_dirty = false;
        self.sequence = sequence;
        self.since.get_or_insert_with(Instant::now);
    }

    /// One more table of a group of apps is this one; false where another group has it.
    pub fn enter(&mut self, group: &str) -> bool {
        let (by, count) = self.open_by.get_or_insert_with(|| (group.to_owned(), 0));
        let is_ours = by == group;
        *count += usize::from(is_ours);
        is_ours
    }

    pub fn leave(&mut self) {
        if let Some((_, count)) = &mut self.open_by {
            *count -= 1;
            if *count == 0 {
                self.retention = None;
            }
        }
        self.open_by.take_if(|(_, count)| *count == 0);
    }

    /// Drops the rows that are neither in files nor on their way there.
    pub fn forget(&mut self, definition: &Arc<Definition>) {
        self.view.live = Arc::new(Layer::new(definition));
        self.is_dirty = false;
        self.since = None;
    }

    /// Are there rows that are to be written to files now?
    pub fn is_due(&self) -> bool {
        let is_old = self
            .since
            .is_some_and(|since| since.elapsed() >= self.interval);
        let live = &self.view.live;
        !live.is_empty() && (is_old || live.bytes() >= FLUSH_BYTES)
    }

    /// When there will be, if nothing else comes.
    pub fn due_in(&self) -> Option<Duration> {
        let since = self
            .since
            .filter(|_| !self.view.live.is_empty() && !self.is_dirty)?;
        Some(self.interval.saturating_sub(since.elapsed()))
    }

    /// Must writers wait?
    pub fn is_full(&self) -> bool {
        self.view.frozen.is_some() && self.view.live.bytes() >= LIVE_MAX
    }

    /// Puts the rows aside for the flusher; false where they cannot be.
    pub fn freeze(&mut self, definition: &Arc<Definition>) -> bool {
        let view = &mut self.view;
        if view.frozen.is_some() || self.is_dirty || view.live.is_empty() {
            return false;
        }
        view.frozen = Some(Arc::new(Frozen {
            layer: std::mem::replace(&mut view.live, Arc::new(Layer::new(definition))),
            sequence: self.sequence,
        }));
        self.since = None;
        true
    }

    /// Place in the log of the first change that no file holds.
    pub fn first_needed(&self) -> Option<u64> {
        let frozen = self.view.frozen.as_ref();
        let frozen = frozen.and_then(|frozen| frozen.layer.first());
        frozen.or(self.view.live.first())
    }
}
