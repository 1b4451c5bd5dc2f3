//! The search over one store.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use jiff::tz::TimeZone;
use store::definition::Definition;
use store::indexing::Indexing;
use store::reader::Reader;
use store::rows::Rows;
use store::scan::TableScan;

use crate::error::Error;
use crate::index::{Fields, Published, TableIndex, folder};
use crate::keeper::Keeper;
use crate::view::{Limits, View};

/// How often whoever waits for an index is asked whether he still does.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// For what ends by itself.
const NO_HURRY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a search may use, and how it reads times.
#[derive(Clone, Debug)]
pub struct Options {
    /// For one search.
    pub time: Duration,
    /// Rows of one answer, those that are passed over included.
    pub rows: usize,
    /// Of times that name none.
    pub zone: TimeZone,
    /// Makes the indexes and keeps them up to date; else those that are there are read.
    pub keeps_index: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            time: Duration::from_secs(60),
            rows: 100_000,
            zone: TimeZone::UTC,
            keeps_index: false,
        }
    }
}

/// Searches the tables of a store.
pub struct Search {
    shared: Arc<Shared>,
    /// Ends with it.
    keeper: Option<Keeper>,
}

/// What the thread that keeps the indexes works with, too.
pub(crate) struct Shared {
    pub dir: PathBuf,
    pub options: Options,
    /// The store as it was read last.
    cached: Mutex<Option<Cached>>,
    /// Counts searches and readings of the store, so that it is known which was first.
    clock: AtomicU64,
    published: Mutex<HashMap<String, Published>>,
    /// An index has been published.
    indexed: Condvar,
    /// What is known of the columns of tables.
    columns: Mutex<HashMap<String, Columns>>,
}

/// What was said of a table's columns, and what the index has of them.
#[derive(Clone)]
struct Columns {
    stamp: Option<(SystemTime, u64)>,
    definition: Arc<Definition>,
    indexing: Arc<Indexing>,
    fields: Option<Arc<Fields>>,
}

struct Cached {
    reader: Arc<Reader>,
    begun: u64,
}

impl Search {
    /// The search over the store in a folder, which may be made later.
    ///
    /// # Errors
    /// There is no thread for the index.
    pub fn new(dir: &Path, options: Options) -> std::io::Result<Search> {
        let keeps_index = options.keeps_index;
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            options,
            cached: Mutex::default(),
            clock: AtomicU64::new(0),
            published: Mutex::default(),
            indexed: Condvar::new(),
            columns: Mutex::default(),
        });
        let keeper = keeps_index.then(|| Keeper::start(&shared)).transpose()?;
        Ok(Search { shared, keeper })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// The store as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn reader(&self) -> Result<Arc<Reader>, Error> {
        self.shared.reader()
    }

    /// A table as it is now.
    ///
    /// # Errors
    /// There is none of that name; it cannot be read.
    pub(crate) fn view(&self, table: &str) -> Result<View, Error> {
        let reader = self.reader()?;
        let name = name_of(table);
        let scan = reader.scan(&name);
        let scan = scan.ok_or_else(|| Error::NoTable(table.to_owned()))?;
        self.view_of(&name, scan)
    }

    /// A table at a version that somebody else has read.
    ///
    /// # Errors
    /// What is known of its columns cannot be read.
    pub(crate) fn view_of(&self, name: &str, scan: TableScan) -> Result<View, Error> {
        let columns = self.shared.columns(name, scan.definition())?;
        let index = columns
            .fields
            .and_then(|fields| self.index(name, &scan, &fields));
        let time = self.shared.options.time;
        Ok(View {
            scan,
            indexing: columns.indexing,
            index,
            limits: Limits {
                until: Instant::now() + time.min(NO_HURRY),
                time,
            },
        })
    }

    fn index(&self, name: &str, scan: &TableScan, fields: &Arc<Fields>) -> Option<Published> {
        let known = self.shared.published().get(name).cloned();
        if let Some(known) = known.filter(|known| known.fields.columns == fields.columns) {
            return Some(known);
        }
        if self.keeper.is_some() {
            return None;
        }
        // Nobody here keeps it: what another process keeps is read once, and again where that has gone on.
        match TableIndex::open(&folder(&self.shared.dir, name), fields, scan) {
            Ok(index) => {
                let published = index?.published();
                self.shared.publish(name, published.clone());
                Some(published)
            }
            Err(error) => {
                tracing::warn!(table = name, %error, "the search index is not used; the table is read");
                None
            }
        }
    }

    /// Is a query right for a table?
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn check(&self, table: &str, scan: &TableScan, query: &str) -> Result<(), Error> {
        let view = self.view_of(table, scan.clone())?;
        view.plan(query, &self.options().zone).map(drop)
    }

    /// Goes through the rows of a table that a query means, at the version that somebody else has read, in no order
    /// and without a limit of time: `each` ends it. Columns that are not asked for are null. Each row has its score.
    ///
    /// # Errors
    /// What is wrong with the query; the table cannot be read.
    pub fn each_row(
        &self,
        table: &str,
        scan: &TableScan,
        query: &str,
        columns: &[usize],
        is_ranked: bool,
        each: &mut dyn FnMut(&Rows<'_>, usize, f32) -> bool,
    ) -> Result<(), Error> {
        let mut view = self.view_of(table, scan.clone())?;
        view.limits.until = Instant::now() + NO_HURRY;
        let plan = view.plan(query, &self.options().zone)?;
        let told = std::cell::Cell::new(false);
        let mut of = |view: &View| {
            view.each(&plan, columns, is_ranked, &mut |rows, row, score| {
                told.set(true);
                Ok(each(rows, row, score))
            })
        };
        match of(&view) {
            // Nothing was given away yet: the table is read instead.
            Err(Error::Index(cause)) if !told.get() && view.index.is_some() => {
                self.is_damaged(table, &cause);
                view.index = None;
                of(&view)
            }
            done => done,
        }
    }

    fn is_damaged(&self, table: &str, cause: &str) {
        tracing::error!(
            table,
            cause,
            "the search index is damaged; it is made again, and the table is read meanwhile"
        );
        self.make_again(table);
    }

    /// Does something with a table by its index, and without it where that turns out to be damaged.
    ///
    /// # Errors
    /// Those of `what`.
    pub(crate) fn with<T>(
        &self,
        view: &mut View,
        name: &str,
        what: &mut dyn FnMut(&View) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match what(view) {
            Err(Error::Index(cause)) if view.index.is_some() => {
                self.is_damaged(name, &cause);
                view.index = None;
                what(view)
            }
            done => done,
        }
    }

    /// Has the index of a table made again; searches read the table meanwhile.
    pub(crate) fn make_again(&self, table: &str) {
        let name = name_of(table);
        self.shared.published().remove(&name);
        if let Some(keeper) = &self.keeper {
            keeper.make_again(&name);
        }
    }

    /// Makes the index of a table again and waits until it has all files of the table; how many rows these have.
    /// `None`: `goes_on` said that nobody waits. Searches read the table meanwhile.
    ///
    /// # Errors
    /// There is no such table, none of its columns is searched, or this search keeps no index.
    pub fn reindex(&self, table: &str, goes_on: &dyn Fn() -> bool) -> Result<Option<u64>, Error> {
        let view = self.view(table)?;
        if view.indexing.is_empty() {
            return Err(Error::Request(format!(
                "no column of table '{table}' is searched: set its schema first"
            )));
        }
        let Some(keeper) = &self.keeper else {
            return Err(Error::Index("another process keeps the index".into()));
        };
        let name = name_of(table);
        self.make_again(table);
        while goes_on() {
            // Files come and go meanwhile.
            let scan = self.view(table)?.scan;
            let published = self.shared.published();
            let index = published.get(&name).filter(|_| !keeper.is_asked(&name));
            let has_all = |index: &Published| {
                scan.file_names()
                    .all(|(file, _)| index.file(file).is_some())
            };
            if index.is_some_and(has_all) {
                return Ok(Some(scan.file_names().map(|(_, rows)| rows).sum()));
            }
            let waited = self.shared.indexed.wait_timeout(published, LOOK_EVERY);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        Ok(None)
    }

    /// Tables with columns that are searched.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn searched_tables(&self) -> Result<Vec<String>, Error> {
        let reader = self.reader()?;
        let mut tables = Vec::new();
        for table in reader.tables() {
            if !self.view(table)?.indexing.is_empty() {
                tables.push(table.to_owned());
            }
        }
        Ok(tables)
    }

    /// Has the index looked at soon, since the columns that are searched have changed.
    pub(crate) fn wake(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.wake();
        }
    }
}

impl Shared {
    pub fn published(&self) -> MutexGuard<'_, HashMap<String, Published>> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn publish(&self, table: &str, published: Published) {
        self.published().insert(table.to_owned(), published);
        self.indexed.notify_all();
    }

    fn columns(&self, name: &str, definition: &Arc<Definition>) -> Result<Columns, Error> {
        // Looked at first: what is said meanwhile is read with the next search.
        let stamp = Indexing::stamp(&self.dir, name);
        let lock = || self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(name).cloned();
        if let Some(known) =
            known.filter(|known| known.stamp == stamp && known.definition == *definition)
        {
            return Ok(known);
        }
        let indexing = Arc::new(Indexing::read(&self.dir, name)?);
        let columns = Columns {
            stamp,
            definition: Arc::clone(definition),
            fields: Fields::new(definition, &indexing).map(Arc::new),
            indexing,
        };
        lock().insert(name.to_owned(), columns.clone());
        Ok(columns)
    }

    fn reader(&self) -> Result<Arc<Reader>, Error> {
        let asked = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &*cached
            // Somebody has read it since this was asked, or nothing was written.
            && (cached.begun > asked || cached.reader.is_current(&self.dir))
        {
            return Ok(Arc::clone(&cached.reader));
        }
        let begun = self.clock.fetch_add(1, Ordering::SeqCst);
        let reader = match &*cached {
            Some(cached) => Reader::open_after(&self.dir, &cached.reader)?,
            None => Reader::open(&self.dir)?,
        };
        let reader = Arc::new(reader);
        *cached = Some(Cached {
            reader: Arc::clone(&reader),
            begun,
        });
        Ok(reader)
    }
}

/// The name of a table in the store.
pub(crate) fn name_of(table: &str) -> String {
    table.trim().replace('.', "_").to_ascii_lowercase()
}
