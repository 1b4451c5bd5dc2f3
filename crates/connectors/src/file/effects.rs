//! The journal of effects: `#file:move` and its family happen once, whatever crashes.
//!
//! Before a call that changes something, its intent is made durable; behind it, its result. When an
//! app is restored to a checkpoint and runs again, the same call (function and arguments, first come
//! first served) gives the recorded result and does nothing. An intent without a result is resolved
//! by looking: a file that is gone from its place and stands at its target has been moved.
//!
//! An entry carries the epoch it belongs to: the one after the last [`EffectJournal::barrier`]. It is
//! dropped when the checkpoint of its epoch is durable. Sources ask the journal where a file that
//! they have to read again has gone ([`Effects::moves`]).
//!
//! Promises: every method may be called from any thread; a torn tail of the journal is cut, nothing
//! else of it is; where other bytes have changed, the start is refused. Never: an effect while the
//! journal cannot be written.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::codec::{Reader, Writer};
use event::record::{self, End, Found, Older, Records};
use event::{Column, ColumnBuilder, Value};

use super::functions::{self, Effect, Function};
use connect::effect::EffectJournal;
use connect::error::Error;

/// Of the file.
const NAME: &str = "effects.journal";

/// First bytes of the journal; the last one is the version.
const MAGIC: &[u8; 8] = b"HWEFFCT\x02";

/// Those of the version before, which is read and written again.
const MAGIC_BEFORE: &[u8; 8] = b"HWEFFCT\x01";

/// What to do where the journal cannot be used.
const REMEDY: &str = "restore a copy; without one, delete it: file functions called since the last \
                      checkpoint are then called again, and do not find files they have already \
                      moved";

/// Longest record that is read back.
const RECORD_BYTES_MAX: usize = 16 << 20;

const INTENT: u8 = 1;
const RESULT: u8 = 2;
const MOVED: u8 = 3;

/// The effects of the apps of one server.
pub struct Effects {
    journal: Mutex<Journal>,
}

struct Journal {
    /// `None` without a state directory: nothing lasts, calls act at once.
    file: Option<JournalFile>,
    /// Epoch that new entries belong to.
    epoch: u64,
    entries: Vec<Entry>,
    next: u64,
}

struct JournalFile {
    path: PathBuf,
    file: File,
    /// Bytes of it.
    len: u64,
    /// Number of the next record.
    next: u32,
    /// It begins as this version writes it.
    is_new: bool,
}

struct Entry {
    number: u64,
    epoch: u64,
    app: String,
    function: String,
    arguments: Vec<Value>,
    result: Option<Result<Vec<Value>, String>>,
    /// Recorded by an earlier run and not asked for in this one.
    is_pending: bool,
    /// A source moved it; not for replay.
    moved: Option<(PathBuf, PathBuf)>,
}

impl Effects {
    /// Without a journal: for servers without a state directory.
    pub fn none() -> Effects {
        Effects {
            journal: Mutex::new(Journal::new(None, Vec::new())),
        }
    }

    /// Opens the journal of a state directory, or begins one. Say which checkpoint the server goes
    /// on from by [`EffectJournal::restored`] before the first call.
    pub fn open(directory: &Path) -> Result<Effects, Error> {
        let path = directory.join(NAME);
        let failed = |error: io::Error| {
            Error::failed(
                format!("opening the journal of effects '{}'", path.display()),
                error,
            )
        };
        fs::create_dir_all(directory).map_err(failed)?;
        let mut file = private(&mut File::options())
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let is_before = bytes.starts_with(MAGIC_BEFORE);
        let read = if bytes.starts_with(MAGIC) || is_before {
            read_entries(&bytes).map_err(|text| failed(io::Error::other(text)))?
        } else if MAGIC.starts_with(&bytes) || MAGIC_BEFORE.starts_with(&bytes) {
            // Nothing, or what a crash has left of a first start.
            file.set_len(0).map_err(failed)?;
            file.seek(io::SeekFrom::Start(0)).map_err(failed)?;
            file.write_all(MAGIC).map_err(failed)?;
            ReadEntries {
                len: MAGIC.len(),
                ..ReadEntries::default()
            }
        } else {
            return Err(failed(io::Error::other(not_a_journal())));
        };
        if read.len < bytes.len() && bytes.len() > MAGIC.len() {
            tracing::warn!(
                journal = %path.display(),
                bytes = bytes.len() - read.len,
                "journal of file functions ends with an incomplete record, as after a crash; \
                 truncating it"
            );
        }
        file.set_len(read.len as u64).map_err(failed)?;
        file.seek(io::SeekFrom::End(0)).map_err(failed)?;
        let journal_file = JournalFile {
            path: path.clone(),
            file,
            len: read.len as u64,
            next: read.next,
            is_new: !is_before,
        };
        let mut journal = Journal::new(Some(journal_file), read.entries);
        if is_before {
            journal.rewrite().map_err(failed)?;
        }
        Ok(Effects {
            journal: Mutex::new(journal),
        })
    }

    /// Reads the journal of a directory without changing it: its path, and how many calls it has.
    pub fn verify(directory: &Path) -> Result<Option<(PathBuf, u64)>, Error> {
        let path = directory.join(NAME);
        let failed = |error: io::Error| {
            Error::failed(
                format!("reading the journal of effects '{}'", path.display()),
                error,
            )
        };
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(failed)?,
        };
        if MAGIC.starts_with(&bytes) || MAGIC_BEFORE.starts_with(&bytes) {
            return Ok(Some((path, 0)));
        }
        if !bytes.starts_with(MAGIC) && !bytes.starts_with(MAGIC_BEFORE) {
            return Err(failed(io::Error::other(not_a_journal())));
        }
        let read = read_entries(&bytes).map_err(|text| failed(io::Error::other(text)))?;
        Ok(Some((path, read.entries.len() as u64)))
    }

    fn lock(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call for one event.
    pub fn call(
        &self,
        app: &str,
        function: &'static Function,
        arguments: &[Value],
    ) -> Result<Vec<Value>, String> {
        self.lock().call(app, function, arguments)
    }

    /// A call for each row of arguments: the columns of its results. An error carries its row.
    pub fn call_rows(
        &self,
        app: &str,
        function: &str,
        arguments: &[Column],
        rows: usize,
    ) -> Result<Vec<Column>, (usize, String)> {
        let Some(function) = functions::find(function) else {
            return Err((0, format!("function '{function}' does not run")));
        };
        let types = function.results.iter();
        let mut columns: Vec<ColumnBuilder> = types
            .map(|ty| ColumnBuilder::with_capacity(*ty, rows))
            .collect();
        let mut values = Vec::with_capacity(arguments.len());
        for row in 0..rows {
            values.clear();
            values.extend(arguments.iter().map(|column| column.value(row)));
            let result = self
                .call(app, function, &values)
                .map_err(|cause| (row, cause))?;
            for (column, value) in columns.iter_mut().zip(&result) {
                column.push(value);
            }
        }
        Ok(columns.into_iter().map(ColumnBuilder::finish).collect())
    }

    /// A source has moved a file as its after-action: whoever must read it again finds it there.
    pub fn note_move(&self, from: &Path, to: &Path) {
        let mut journal = self.lock();
        if journal.file.is_none() {
            return;
        }
        let (number, epoch) = journal.number();
        let record = moved(number, epoch, from, to);
        if let Err(error) = journal.append(&record, false) {
            tracing::warn!(%error, "cannot record a move in the journal of file functions");
        }
        journal
            .entries
            .push(Entry::moved(number, epoch, from.into(), to.into()));
    }

    /// Where a file has gone since the checkpoint the server went on from; `None` if nothing here
    /// moved it.
    pub fn moved_to(&self, path: &Path) -> Option<PathBuf> {
        let moves = self.moves();
        let mut place = None;
        for (from, to) in moves {
            if from == *place.as_deref().unwrap_or(path) {
                place = Some(to);
            }
        }
        place
    }

    /// All moves since that checkpoint, in order: from, to.
    pub fn moves(&self) -> Vec<(PathBuf, PathBuf)> {
        self.lock().entries.iter().filter_map(Entry::ends).collect()
    }
}

impl EffectJournal for Effects {
    fn restored(&self, epoch: u64) -> Result<(), Error> {
        let mut journal = self.lock();
        journal.epoch = epoch + 1;
        journal.cut(epoch)
    }

    fn barrier(&self, epoch: u64) {
        self.lock().epoch = epoch + 1;
    }

    fn checkpoint(&self, epoch: u64) -> Result<(), Error> {
        self.lock().cut(epoch)
    }
}

impl Default for Effects {
    /// Without a journal.
    fn default() -> Effects {
        Effects::none()
    }
}

impl Entry {
    fn moved(number: u64, epoch: u64, from: PathBuf, to: PathBuf) -> Entry {
        Entry {
            number,
            epoch,
            app: String::new(),
            function: String::new(),
            arguments: Vec::new(),
            result: Some(Ok(Vec::new())),
            is_pending: false,
            moved: Some((from, to)),
        }
    }

    /// From where to where a file went, if one did.
    fn ends(&self) -> Option<(PathBuf, PathBuf)> {
        if let Some(moved) = &self.moved {
            return Some(moved.clone());
        }
        let function = functions::find(&self.function)?;
        let (from, to) = function.ends(&self.arguments)?;
        let has_moved = match &self.result {
            Some(Ok(values)) => values.first() == Some(&Value::Bool(true)),
            Some(Err(_)) => false,
            None => !from.exists() && to.exists(),
        };
        has_moved.then_some((from, to))
    }
}

impl Journal {
    fn new(file: Option<JournalFile>, entries: Vec<Entry>) -> Journal {
        Journal {
            file,
            epoch: 1,
            next: entries
                .iter()
                .map(|entry| entry.number + 1)
                .max()
                .unwrap_or(1),
            entries,
        }
    }

    fn number(&mut self) -> (u64, u64) {
        self.next += 1;
        (self.next - 1, self.epoch)
    }

    fn call(
        &mut self,
        app: &str,
        function: &'static Function,
        arguments: &[Value],
    ) -> Result<Vec<Value>, String> {
        if self.file.is_none() {
            return function.call(arguments);
        }
        let recorded = self.entries.iter_mut().position(|entry| {
            entry.is_pending
                && entry.app == app
                && entry.function == function.name
                && entry.arguments == arguments
        });
        if let Some(index) = recorded {
            self.entries[index].is_pending = false;
            return self.replay(index, function, arguments);
        }
        let (number, epoch) = self.number();
        let mut entry = Entry {
            number,
            epoch,
            app: app.to_owned(),
            function: function.name.to_owned(),
            arguments: arguments.to_vec(),
            result: None,
            is_pending: false,
            moved: None,
        };
        let changes = function.effect != Effect::None;
        // A file that is not there is not moved; without an intent nothing has to be resolved.
        let is_moot = function.effect == Effect::Moves
            && function
                .ends(arguments)
                .is_none_or(|(from, _)| !from.exists());
        if changes && !is_moot {
            self.append(&intent(&entry), true).map_err(unwritable)?;
        } else {
            self.append(&intent(&entry), false).map_err(unwritable)?;
        }
        let result = function.call(arguments);
        self.append(&outcome(number, &result), changes && !is_moot)
            .map_err(unwritable)?;
        if changes {
            entry.result = Some(result.clone());
            self.entries.push(entry);
        }
        result
    }

    /// Gives the recorded result, or finds out what became of an intent.
    fn replay(
        &mut self,
        index: usize,
        function: &'static Function,
        arguments: &[Value],
    ) -> Result<Vec<Value>, String> {
        if let Some(result) = &self.entries[index].result {
            return result.clone();
        }
        let is_done = function
            .ends(arguments)
            .is_some_and(|(from, to)| !from.exists() && to.exists());
        let result = if is_done {
            Ok(vec![Value::Bool(true)])
        } else {
            function.call(arguments)
        };
        let number = self.entries[index].number;
        self.append(&outcome(number, &result), true)
            .map_err(unwritable)?;
        self.entries[index].result = Some(result.clone());
        result
    }

    /// Adds a record; the next durable one makes those before it durable too.
    fn append(&mut self, record: &[u8], is_durable: bool) -> io::Result<()> {
        let Some(journal) = &mut self.file else {
            return Ok(());
        };
        let mut framed = Vec::with_capacity(record.len() + record::HEAD_LEN);
        record::put(journal.len, journal.next, record, &mut framed);
        // A try before may have written a part of a record.
        journal.file.seek(io::SeekFrom::Start(journal.len))?;
        journal.file.write_all(&framed)?;
        journal.len += framed.len() as u64;
        journal.next += 1;
        if is_durable {
            journal.file.sync_data()
        } else {
            Ok(())
        }
    }

    /// Drops entries up to an epoch. The file is replaced as a whole, so a crash leaves the old one
    /// or the new one.
    fn cut(&mut self, epoch: u64) -> Result<(), Error> {
        self.entries.retain(|entry| entry.epoch > epoch);
        let path = self.file.as_ref().map(|journal| journal.path.clone());
        self.rewrite().map_err(|error| {
            let path = path.unwrap_or_default();
            let action = format!("cutting the journal of effects '{}'", path.display());
            Error::failed(action, error)
        })
    }

    /// Writes the file anew from the entries.
    fn rewrite(&mut self) -> io::Result<()> {
        let Some(journal) = &mut self.file else {
            return Ok(());
        };
        let mut bytes = MAGIC.to_vec();
        let mut next = 0;
        let mut add = |record: &[u8]| {
            record::put(bytes.len() as u64, next, record, &mut bytes);
            next += 1;
        };
        for entry in &self.entries {
            if let Some((from, to)) = &entry.moved {
                add(&moved(entry.number, entry.epoch, from, to));
                continue;
            }
            add(&intent(entry));
            if let Some(result) = &entry.result {
                add(&outcome(entry.number, result));
            }
        }
        let len = bytes.len() as u64;
        if self.entries.is_empty() && journal.len >= len && journal.is_new {
            journal.file.set_len(len)?;
            journal.file.seek(io::SeekFrom::End(0))?;
        } else {
            let part = journal.path.with_extension("part");
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            let mut file = private(&mut options).open(&part)?;
            file.write_all(&bytes)?;
            file.sync_data()?;
            fs::rename(&part, &journal.path)?;
            journal.file = file;
            journal.is_new = true;
        }
        journal.len = len;
        journal.next = next;
        Ok(())
    }
}

fn not_a_journal() -> String {
    format!(
        "its first bytes are not those of a journal: it is damaged, or another version has written \
         it, which then should finish its run; {REMEDY}"
    )
}

/// Arguments and results may be secret.
fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn unwritable(error: io::Error) -> String {
    format!("cannot write the journal of file functions ({error}): nothing was done")
}

// ---- records ----

/// FNV-1a, by which the version before told a torn record from a whole one.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn intent(entry: &Entry) -> Vec<u8> {
    let mut record = Writer::default();
    record.u8(INTENT);
    record.u64(entry.number);
    record.u64(entry.epoch);
    record.str(&entry.app);
    record.str(&entry.function);
    record.count(entry.arguments.len());
    entry.arguments.iter().for_each(|value| record.value(value));
    record.bytes
}

fn outcome(number: u64, result: &Result<Vec<Value>, String>) -> Vec<u8> {
    let mut record = Writer::default();
    record.u8(RESULT);
    record.u64(number);
    match result {
        Ok(values) => {
            record.bool(true);
            record.count(values.len());
            values.iter().for_each(|value| record.value(value));
        }
        Err(cause) => {
            record.bool(false);
            record.str(cause);
        }
    }
    record.bytes
}

fn moved(number: u64, epoch: u64, from: &Path, to: &Path) -> Vec<u8> {
    let mut record = Writer::default();
    record.u8(MOVED);
    record.u64(number);
    record.u64(epoch);
    record.str(&from.to_string_lossy());
    record.str(&to.to_string_lossy());
    record.bytes
}

/// How the version before framed its records: length, FNV-1a, record.
static OLDER: Older = Older {
    head: 12,
    length: |head| {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        (1..=RECORD_BYTES_MAX).contains(&length).then_some(length)
    },
    fits: |head, record| head[4..12] == hash(record).to_le_bytes(),
    begins: |first| matches!(first, INTENT | RESULT | MOVED),
};

#[derive(Default)]
struct ReadEntries {
    entries: Vec<Entry>,
    /// Bytes of the journal that are whole records.
    len: usize,
    /// Number of the next record.
    next: u32,
}

/// What a journal holds. What is damaged may be what a file function did, so nothing is taken from
/// what is left then; the message has the remedy.
fn read_entries(bytes: &[u8]) -> Result<ReadEntries, String> {
    let older = bytes.starts_with(MAGIC_BEFORE).then_some(&OLDER);
    let mut records = Records::new(&bytes[MAGIC.len()..], MAGIC.len() as u64, older);
    let mut read = ReadEntries::default();
    let damaged = |at: u64, bytes: u64| {
        format!(
            "{bytes} bytes at byte {at} are damaged: they have changed since they were written; {REMEDY}"
        )
    };
    loop {
        read.len = records.position() as usize;
        match records.next().map_err(|error| error.to_string())? {
            None => return Ok(read),
            Some(Found::Record { at, number, record }) => {
                let len = record.len() as u64;
                let is_next = number.is_none_or(|number| number == read.next);
                if !is_next || read_record(record, &mut read.entries).is_err() {
                    return Err(damaged(at, len));
                }
                read.next += 1;
            }
            Some(Found::Damage(damage)) if damage.end == Some(End::Torn) => return Ok(read),
            Some(Found::Damage(damage)) => return Err(damaged(damage.at, damage.bytes)),
        }
    }
}

fn read_record(record: &[u8], entries: &mut Vec<Entry>) -> Result<(), event::codec::Error> {
    let mut reader = Reader::new(record);
    match reader.u8()? {
        INTENT => {
            let (number, epoch) = (reader.u64()?, reader.u64()?);
            let (app, function) = (reader.str()?.to_owned(), reader.str()?.to_owned());
            let count = reader.count()?;
            let arguments = (0..count)
                .map(|_| reader.value())
                .collect::<Result<_, _>>()?;
            entries.push(Entry {
                number,
                epoch,
                app,
                function,
                arguments,
                result: None,
                is_pending: true,
                moved: None,
            });
        }
        RESULT => {
            let number = reader.u64()?;
            let result = if reader.bool()? {
                let count = reader.count()?;
                Ok((0..count)
                    .map(|_| reader.value())
                    .collect::<Result<_, _>>()?)
            } else {
                Err(reader.str()?.to_owned())
            };
            if let Some(entry) = entries.iter_mut().rfind(|entry| entry.number == number) {
                entry.result = Some(result);
            }
        }
        MOVED => {
            let (number, epoch) = (reader.u64()?, reader.u64()?);
            let (from, to) = (reader.str()?.into(), reader.str()?.into());
            entries.push(Entry::moved(number, epoch, from, to));
        }
        mark => return Err(event::codec::Error::Mark { mark, at: 0 }),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Setup {
        directory: tempfile::TempDir,
    }

    impl Setup {
        fn new() -> Setup {
            let setup = Setup {
                directory: tempfile::tempdir().unwrap(),
            };
            fs::write(setup.path("a"), "1").unwrap();
            setup
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        /// The journal as a server opens it that goes on from a checkpoint.
        fn open(&self, epoch: u64) -> Effects {
            let effects = Effects::open(&self.path("state")).unwrap();
            effects.restored(epoch).unwrap();
            effects
        }

        fn arguments(&self, from: &str, to: &str) -> [Value; 2] {
            [from, to].map(|name| Value::str(&self.path(name).to_string_lossy()))
        }

        fn move_file(&self, effects: &Effects, from: &str, to: &str) -> bool {
            let function = functions::find("file:move").unwrap();
            let result = effects
                .call("A", function, &self.arguments(from, to))
                .unwrap();
            result == [Value::Bool(true)]
        }

        fn journal(&self) -> PathBuf {
            self.path("state/effects.journal")
        }
    }

    #[test]
    fn a_call_done_before_a_crash_is_answered_and_not_done_again() {
        let s = Setup::new();
        assert!(s.move_file(&s.open(0), "a", "to"));
        // The same name appears again before the restart: it must not be moved by the repeat.
        fs::write(s.path("a"), "another").unwrap();
        let effects = s.open(0);
        assert!(s.move_file(&effects, "a", "to"));
        assert!(s.path("a").exists());
        // A second call is a new one.
        assert!(s.move_file(&effects, "a", "to"));
        assert!(!s.path("a").exists());
        assert!(!s.move_file(&effects, "a", "to"));
    }

    #[test]
    fn an_intent_without_a_result_is_resolved_by_looking() {
        for is_done in [false, true] {
            let s = Setup::new();
            let effects = s.open(0);
            let before = fs::metadata(s.journal()).unwrap().len();
            assert!(s.move_file(&effects, "a", "to"));
            drop(effects);
            // Keep the intent, cut the result off.
            let bytes = fs::read(s.journal()).unwrap();
            let mut records = Records::new(&bytes[before as usize..], before, None);
            records.next().unwrap().unwrap();
            let file = File::options().write(true).open(s.journal()).unwrap();
            file.set_len(records.position() + 3).unwrap();
            if !is_done {
                fs::rename(s.path("to/a"), s.path("a")).unwrap();
            }
            let effects = s.open(0);
            assert_eq!(effects.moved_to(&s.path("a")).is_some(), is_done);
            assert!(s.move_file(&effects, "a", "to"), "done before: {is_done}");
            assert!(s.path("to/a").exists() && !s.path("a").exists());
        }
    }

    #[test]
    fn a_checkpoint_ends_what_it_covers() {
        let s = Setup::new();
        fs::write(s.path("b"), "2").unwrap();
        let effects = s.open(0);
        assert!(s.move_file(&effects, "a", "to"));
        effects.barrier(1);
        assert!(s.move_file(&effects, "b", "to"));
        effects.checkpoint(1).unwrap();
        assert_eq!(effects.moves(), [(s.path("b"), s.path("to/b"))]);
        drop(effects);
        let effects = s.open(1);
        assert_eq!(effects.moves(), [(s.path("b"), s.path("to/b"))]);
        assert!(
            !s.move_file(&effects, "a", "to"),
            "it is a new call for a file that is gone"
        );
        assert!(s.move_file(&effects, "b", "to"));
        effects.barrier(2);
        effects.checkpoint(2).unwrap();
        assert!(effects.moves().is_empty());
        assert_eq!(fs::metadata(s.journal()).unwrap().len(), MAGIC.len() as u64);
    }

    #[test]
    fn every_cut_of_the_journal_can_be_opened() {
        let s = Setup::new();
        let effects = s.open(0);
        assert!(s.move_file(&effects, "a", "to"));
        effects.note_move(&s.path("to/a"), &s.path("done/a"));
        assert_eq!(effects.moved_to(&s.path("a")), Some(s.path("done/a")));
        drop(effects);
        let bytes = fs::read(s.journal()).unwrap();
        for cut in 0..bytes.len() {
            fs::write(s.journal(), &bytes[..cut]).unwrap();
            match Effects::open(&s.path("state")) {
                Ok(effects) => assert!(effects.moves().len() <= 2),
                Err(error) => assert!(cut < MAGIC.len() && cut > 0, "{cut}: {error}"),
            }
        }
    }

    #[test]
    fn every_flip_of_the_journal_is_found() {
        let s = Setup::new();
        let effects = s.open(0);
        assert!(s.move_file(&effects, "a", "to"));
        effects.note_move(&s.path("to/a"), &s.path("done/a"));
        drop(effects);
        let bytes = fs::read(s.journal()).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(s.journal(), &flipped).unwrap();
            let error = Effects::open(&s.path("state")).err();
            let said = error.map(|error| {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                format!("{error} {}", cause.unwrap_or_default())
            });
            let said = said.unwrap_or_else(|| panic!("the flip of byte {at} is not found"));
            assert!(
                said.contains("damaged") && said.contains("restore a copy"),
                "{at}: {said}"
            );
            assert_eq!(
                fs::read(s.journal()).unwrap(),
                flipped,
                "it is left as it is"
            );
        }
    }

    /// As version 1 wrote them: length, FNV-1a, record.
    #[test]
    fn a_journal_of_the_version_before_is_read_and_written_again() {
        let s = Setup::new();
        fs::create_dir(s.path("state")).unwrap();
        let mut bytes = MAGIC_BEFORE.to_vec();
        for (n, (from, to)) in [("a", "b"), ("b", "c")].into_iter().enumerate() {
            let record = moved(n as u64 + 1, 1, &s.path(from), &s.path(to));
            bytes.extend((record.len() as u32).to_le_bytes());
            bytes.extend(hash(&record).to_le_bytes());
            bytes.extend(record);
        }
        bytes.extend([7, 0]);
        fs::write(s.journal(), &bytes).unwrap();
        for _ in 0..2 {
            let effects = Effects::open(&s.path("state")).unwrap();
            assert_eq!(effects.moved_to(&s.path("a")), Some(s.path("c")));
            assert!(fs::read(s.journal()).unwrap().starts_with(MAGIC));
        }
        bytes[30] ^= 1;
        fs::write(s.journal(), &bytes).unwrap();
        assert!(Effects::open(&s.path("state")).is_err());
    }

    #[test]
    fn without_a_journal_calls_act_at_once() {
        let s = Setup::new();
        let effects = Effects::none();
        let columns = s
            .arguments("a", "to")
            .map(|value| Column::constant(event::Type::String, &value, 2));
        let results = effects.call_rows("A", "file:move", &columns, 2).unwrap();
        let moved: Vec<Value> = (0..2).map(|row| results[0].value(row)).collect();
        assert_eq!(moved, [Value::Bool(true), Value::Bool(false)]);
        assert!(effects.moves().is_empty());
    }
}
