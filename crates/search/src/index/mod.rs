//! The index of a table: words and values of the columns that are searched, by file of the table.
//!
//! A document is a row of a file. Files of a table never change, and their names are never used again; so the index
//! says which files it has, and whoever asks leaves out those that his version of the table does not name. Rows that
//! were deleted or replaced are in no file of a newer version, or are hidden by rows in memory, whose marks are
//! compared. What the index lacks is read from the table.
//!
//! Promises: it can be removed at any time; one that is damaged or was made for other columns is made again; it is
//! written by one process.

mod fields;
mod phrase;
mod query;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use event::Value;
use serde_json::{Map, Value as Json, json};
use store::scan::TableScan;
use tantivy::directory::MmapDirectory;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::query::{Bm25StatisticsProvider, EnableScoring, Query};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{
    DocAddress, DocId, Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Score,
    Searcher, TantivyDocument, Term,
};

pub(crate) use fields::Fields;
pub(crate) use query::build;

use crate::error::Error;

/// Bytes of documents that are indexed before they are written.
const WRITER_BYTES: usize = 48 << 20;

/// Bytes of rows that are read at once, where the index keeps them.
const BLOCK: usize = 4096;

/// Documents between two commits, about.
const COMMIT_DOCUMENTS: u64 = 500_000;

/// Documents between two looks at whether it goes on.
const LOOK_EVERY: u32 = 4096;

/// How often it is looked whether to wait on for merges.
const LOOK_AT_MERGE: Duration = Duration::from_millis(100);

/// Part of the documents of a segment that are gone, from which on it is written again.
const GONE_MAX: f32 = 0.3;

/// The index of one table, open.
pub(crate) struct TableIndex {
    fields: Arc<Fields>,
    index: Index,
    reader: IndexReader,
    covered: Covered,
}

/// Files that the index has, with the numbers that they have there.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Covered {
    files: BTreeMap<String, u32>,
    next: u32,
}

/// A version of an index, which stays as it is.
#[derive(Clone)]
pub(crate) struct Published {
    pub fields: Arc<Fields>,
    searcher: Searcher,
    covered: Arc<Covered>,
}

/// A row that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    /// Place of its file among those of the table's version.
    pub file: u32,
    /// Its place in the file.
    pub row: u32,
    pub id: u64,
    pub score: Score,
    /// A row in memory may take its place.
    pub is_suspect: bool,
    /// Where it is in the index.
    pub address: DocAddress,
}

/// Which documents count at a version of the table.
pub(crate) struct Visible {
    /// Places of files in the version of the table, by their numbers in the index.
    files: Vec<Option<u32>>,
    marks: HashSet<u64>,
}

impl Covered {
    /// What a commit of the index says, behind its checksum: the columns and the files.
    fn parse(text: &str) -> Option<(String, Covered)> {
        let (crc, text) = text.split_once(' ')?;
        if crc.parse() != Ok(crc32fast::hash(text.as_bytes())) {
            return None;
        }
        let json: Json = serde_json::from_str(text).ok()?;
        let files = json["files"].as_object()?.iter();
        let files = files.map(|(name, at)| Some((name.clone(), u32::try_from(at.as_u64()?).ok()?)));
        let covered = Covered {
            files: files.collect::<Option<_>>()?,
            next: u32::try_from(json["next"].as_u64()?).ok()?,
        };
        Some((json["columns"].as_str()?.to_owned(), covered))
    }

    fn text(&self, fields: &Fields) -> String {
        let files = self.files.iter();
        let files = files.map(|(name, at)| (name.clone(), Json::from(*at)));
        let files = Json::Object(files.collect::<Map<_, _>>());
        let text =
            json!({"columns": fields.columns, "files": files, "next": self.next}).to_string();
        format!("{} {text}", crc32fast::hash(text.as_bytes()))
    }
}

impl TableIndex {
    /// The index in a folder, if there is one for these columns. It is read through once, and what it has of the files
    /// of a version of the table is counted.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub fn open(
        dir: &Path,
        fields: &Arc<Fields>,
        scan: &TableScan,
    ) -> Result<Option<TableIndex>, Error> {
        if !dir.join("meta.json").exists() {
            return Ok(None);
        }
        let index = Index::open_in_dir(dir).map_err(Error::index("open", dir))?;
        let metas = index.load_metas().map_err(Error::index("open", dir))?;
        let covered = metas.payload.as_deref().map(Covered::parse);
        let covered = match covered {
            // Made, and nothing committed.
            None => return Ok(None),
            Some(None) => return Err(Error::Index(format!("'{}' is damaged", dir.display()))),
            Some(Some((columns, _))) if columns != fields.columns => return Ok(None),
            Some(Some((_, covered))) => covered,
        };
        if index.schema() != fields.schema {
            return Ok(None);
        }
        let damaged = index
            .validate_checksum()
            .map_err(Error::index("check", dir))?;
        if let Some(file) = damaged.iter().next() {
            return Err(Error::Index(format!(
                "'{}' is damaged",
                dir.join(file).display()
            )));
        }
        let index = TableIndex::of(dir, index, fields, covered)?;
        let searcher = index.reader.searcher();
        for (name, rows) in scan.file_names() {
            let Some(at) = index.covered.files.get(name) else {
                continue;
            };
            let term = Term::from_field_u64(fields.file, u64::from(*at));
            let found = searcher
                .doc_freq(&term)
                .map_err(Error::index("check", dir))?;
            // Another program may not have said how many there are.
            if rows > 0 && found != rows {
                return Err(Error::Index(format!(
                    "'{}' has {found} rows of '{name}', which has {rows}",
                    dir.display()
                )));
            }
        }
        // Another process keeps it: its files are of one version only if that has not gone on meanwhile.
        let now = index
            .index
            .load_metas()
            .map_err(Error::index("open", dir))?;
        if now.opstamp != metas.opstamp {
            return Err(Error::Index(format!(
                "'{}' has changed while it was opened",
                dir.display()
            )));
        }
        Ok(Some(index))
    }

    /// An empty index in a folder; what was there is removed.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create(dir: &Path, fields: &Arc<Fields>) -> Result<TableIndex, Error> {
        remove(dir)?;
        create_private(dir)
            .map_err(|cause| Error::Index(format!("cannot create '{}': {cause}", dir.display())))?;
        let directory = MmapDirectory::open(dir);
        let directory = directory.map_err(|cause| Error::index("create", dir)(cause.into()))?;
        let settings = IndexSettings {
            docstore_blocksize: BLOCK,
            ..IndexSettings::default()
        };
        let index = Index::create(directory, fields.schema.clone(), settings);
        let index = index.map_err(Error::index("create", dir))?;
        TableIndex::of(dir, index, fields, Covered::default())
    }

    fn of(
        dir: &Path,
        mut index: Index,
        fields: &Arc<Fields>,
        covered: Covered,
    ) -> Result<TableIndex, Error> {
        let tokenizers = TokenizerManager::default();
        fields::register(&tokenizers);
        index.set_tokenizers(tokenizers);
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual);
        Ok(TableIndex {
            fields: Arc::clone(fields),
            reader: reader.try_into().map_err(Error::index("open", dir))?,
            index,
            covered,
        })
    }

    pub fn published(&self) -> Published {
        Published {
            fields: Arc::clone(&self.fields),
            searcher: self.reader.searcher(),
            covered: Arc::new(self.covered.clone()),
        }
    }

    /// Was it made for these columns?
    pub fn is_for(&self, fields: &Fields) -> bool {
        self.fields.columns == fields.columns
    }

    /// Does it have the files of a version and no others?
    pub fn covers(&self, scan: &TableScan) -> bool {
        let mut own = self.covered.files.keys();
        let same = scan
            .file_names()
            .all(|(name, _)| own.next().is_some_and(|own| own == name));
        same && own.next().is_none()
    }

    /// Has every document that it counts a row of a file of a version?
    #[cfg(test)]
    pub fn has_only(&self, scan: &TableScan) -> bool {
        let named: HashSet<&str> = scan.file_names().map(|(name, _)| name).collect();
        let searcher = self.reader.searcher();
        let mut segments = searcher.segment_readers().iter();
        self.covered
            .files
            .keys()
            .all(|name| named.contains(name.as_str()))
            && segments.all(|segment| segment.num_deleted_docs() == 0)
    }

    /// Takes in files of a version that it lacks and gives up those that are gone; whether it has looked at all.
    /// `goes_on` is asked now and then. A file that cannot be read is left out, and searches report it.
    ///
    /// # Errors
    /// The index cannot be written; it is as it was at its last commit.
    pub fn update(
        &mut self,
        dir: &Path,
        scan: &TableScan,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let failed = |cause| Error::index("write", dir)(cause);
        // One thread for documents and one for merges: the apps have the rest.
        let options = IndexWriterOptions::builder()
            .num_worker_threads(1)
            .memory_budget_per_thread(WRITER_BYTES)
            .num_merge_threads(1)
            .build();
        let writer: IndexWriter = self.index.writer_with_options(options).map_err(failed)?;
        let mut policy = LogMergePolicy::default();
        policy.set_del_docs_ratio_before_merge(GONE_MAX);
        writer.set_merge_policy(Box::new(policy));
        let mut writer = writer;
        let mut covered = self.covered.clone();
        let named: HashSet<&str> = scan.file_names().map(|(name, _)| name).collect();
        covered.files.retain(|name, at| {
            let stays = named.contains(name.as_str());
            if !stays {
                writer.delete_term(Term::from_field_u64(self.fields.file, u64::from(*at)));
            }
            stays
        });
        let missing = scan
            .file_names()
            .filter(|(name, _)| !covered.files.contains_key(*name));
        let missing: Vec<(String, u64)> = missing
            .map(|(name, rows)| (name.to_owned(), rows))
            .collect();
        let (mut documents, mut looked_at) = (0, 0);
        let all = missing.len();
        for (name, rows) in missing {
            if documents >= COMMIT_DOCUMENTS || !goes_on() {
                break;
            }
            looked_at += 1;
            let at = covered.next;
            covered.next += 1;
            match self.add_file(&writer, scan, &name, at, goes_on) {
                Ok(true) => {
                    covered.files.insert(name, at);
                }
                Ok(false) => {
                    looked_at -= 1;
                    writer.delete_term(Term::from_field_u64(self.fields.file, u64::from(at)));
                    break;
                }
                Err(error @ Error::Index(_)) => return Err(error),
                Err(error) => {
                    tracing::error!(file = name, %error, "a file of the event store is not indexed");
                    writer.delete_term(Term::from_field_u64(self.fields.file, u64::from(at)));
                }
            }
            documents += rows;
        }
        let mut commit = writer.prepare_commit().map_err(failed)?;
        commit.set_payload(&covered.text(&self.fields));
        commit.commit().map_err(failed)?;
        merged(writer, goes_on)?;
        self.reader.reload().map_err(failed)?;
        self.covered = covered;
        Ok(looked_at == all)
    }

    fn add_file(
        &self,
        writer: &IndexWriter,
        scan: &TableScan,
        name: &str,
        at: u32,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let mut failed = None;
        let is_whole = scan.visit_whole_file(name, &mut |rows, row, place| {
            if place.is_multiple_of(LOOK_EVERY) && !goes_on() {
                return Ok(false);
            }
            let mark = scan.mark(rows, row);
            let document = self.fields.document(rows, row, (at, place), mark);
            match writer.add_document(document) {
                Ok(_) => Ok(true),
                Err(error) => {
                    failed = Some(error);
                    Ok(false)
                }
            }
        })?;
        match failed {
            Some(error) => Err(Error::Index(format!("cannot add to the index: {error}"))),
            None => Ok(is_whole),
        }
    }
}

/// Waits until segments are merged, or until it does not go on: then a thread is left behind that ends with its merge,
/// which nothing depends on.
fn merged(writer: IndexWriter, goes_on: &dyn Fn() -> bool) -> Result<(), Error> {
    let failed =
        |cause: &dyn std::fmt::Display| Error::Index(format!("cannot merge segments: {cause}"));
    let (done, ended) = sync_channel(1);
    std::thread::Builder::new()
        .name("search-merge".to_owned())
        .spawn(move || {
            // Nobody waits any more if it does not arrive.
            done.send(writer.wait_merging_threads()).ok();
        })
        .map_err(|cause| failed(&cause))?;
    while goes_on() {
        match ended.recv_timeout(LOOK_AT_MERGE) {
            Ok(merged) => return merged.map_err(|cause| failed(&cause)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(failed(&"internal error")),
        }
    }
    Ok(())
}

/// Removes an index.
pub(crate) fn remove(dir: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(dir) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(Error::Index(format!(
            "cannot remove '{}': {cause}",
            dir.display()
        ))),
        _ => Ok(()),
    }
}

/// A folder that its owner alone can enter: files of the index are made by its library.
fn create_private(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Where the index of a table is.
pub(crate) fn folder(store: &Path, table: &str) -> PathBuf {
    store.join("index").join(table)
}

impl Published {
    /// The number of a file, if the index has it.
    pub fn file(&self, name: &str) -> Option<u32> {
        self.covered.files.get(name).copied()
    }

    /// What counts at a version of the table.
    pub fn visible(&self, scan: &TableScan) -> Visible {
        let mut files = vec![None; self.covered.next as usize];
        for (place, (name, _)) in (0..).zip(scan.file_names()) {
            if let Some(at) = self.file(name) {
                files[at as usize] = Some(place);
            }
        }
        Visible {
            files,
            marks: scan.hidden_marks(),
        }
    }

    /// The time and the values of a row, where the index keeps rows.
    ///
    /// # Errors
    /// The index is damaged.
    pub fn kept(&self, address: DocAddress) -> Result<(i64, Vec<Value>), Error> {
        let document: TantivyDocument = self
            .searcher
            .doc(address)
            .map_err(|cause| Error::Index(format!("cannot read a row: {cause}")))?;
        let kept = self.fields.kept(&document);
        kept.ok_or_else(|| Error::Index("a row in it cannot be read".to_owned()))
    }

    pub fn statistics(&self) -> &dyn Bm25StatisticsProvider {
        &self.searcher
    }

    /// Gives away the rows that a query means, part by part: `end` stands between two parts, and its `false` ends it.
    ///
    /// # Errors
    /// The index is damaged, or what `end` gives.
    pub fn visit(
        &self,
        query: &dyn Query,
        statistics: Option<&dyn Bm25StatisticsProvider>,
        visible: &Visible,
        each: &mut dyn FnMut(Match),
        end: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        let failed = |cause: tantivy::TantivyError| Error::Index(format!("cannot search: {cause}"));
        let scoring = match statistics {
            Some(statistics_provider) => EnableScoring::Enabled {
                searcher: &self.searcher,
                statistics_provider,
            },
            None => EnableScoring::disabled_from_searcher(&self.searcher),
        };
        let weight = query.weight(scoring).map_err(failed)?;
        for (ordinal, segment) in (0..).zip(self.searcher.segment_readers()) {
            let fast = segment.fast_fields();
            let place = fast.u64(fields::PLACE).map_err(failed)?;
            let id = fast.u64(fields::ID).map_err(failed)?;
            let mark = match self.fields.is_keyed {
                true => Some(fast.u64(fields::MARK).map_err(failed)?),
                false => None,
            };
            let alive = segment.alive_bitset();
            let mut take = |doc: DocId, score: Score| {
                if alive.is_some_and(|alive| alive.is_deleted(doc)) {
                    return;
                }
                let place = place.values.get_val(doc);
                let (number, row) = ((place >> 32) as usize, place as u32);
                let Some(file) = visible.files.get(number).copied().flatten() else {
                    return;
                };
                let id = id.values.get_val(doc);
                let is_suspect = !visible.marks.is_empty() && {
                    let mark = mark.as_ref().map_or(id, |mark| mark.values.get_val(doc));
                    visible.marks.contains(&mark)
                };
                each(Match {
                    file,
                    row,
                    id,
                    score,
                    is_suspect,
                    address: DocAddress::new(ordinal, doc),
                });
            };
            match statistics {
                Some(_) => weight.for_each(segment, &mut take),
                None => weight.for_each_no_score(segment, &mut |docs| {
                    docs.iter().for_each(|doc| take(*doc, 0.0));
                }),
            }
            .map_err(failed)?;
            if !end() {
                return Ok(());
            }
        }
        Ok(())
    }
}
