//! The file source: finds files, reads them one after the other, and does what is to be done with
//! them behind it.
//!
//! A file's after-action waits until all it gave has been taken ([`Signal::Acked`] of its last
//! post, which with a state directory means a durable checkpoint). The position of a post names the
//! files that wait for their action and the place in the one being read, so that after a crash at
//! any point the source continues without repeating or omitting anything. A file that the app
//! itself moved away meanwhile (`#file:move`) is found through the journal of file functions and
//! read under its old path.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use event::Value;

use super::action::{Outcome, act};
use super::effects::Effects;
use super::functions::{is_part, walk};
use super::lines::{End, LineReader};
use super::options::{After, Input, Mode, Part, SourceOptions};
use super::position::{Current, Identity, InputFile, Position, identity_hash, path_hash};
use super::reading::Reading;
use connect::component::{Connection, Finished, Sequence, Signal, Source, SourceLink, SourceSetup};
use connect::error::Error;
use connect::rows::{Place, Properties, Rejected};

pub(super) const PROPERTIES: &[&str] = &[
    "file.path",
    "file.name",
    "eof",
    "content.length",
    "sequence.number",
];
const FILE_PATH: usize = 0;
const FILE_NAME: usize = 1;
pub(super) const EOF: usize = 2;
const CONTENT_LENGTH: usize = 3;
pub(super) const SEQUENCE_NUMBER: usize = 4;

pub struct FileSource {
    pub(super) options: SourceOptions,
    effects: Arc<Effects>,
    pub(super) properties: Properties,
    pub(super) position: Position,
    /// Posts whose acknowledgement lets the pending action of the same place go; `None`: restored
    /// from a checkpoint, so it may go at once.
    awaited: Vec<Option<Sequence>>,
    acked: Sequence,
    /// Files that could not be opened, and how they looked then; tried again when they change.
    failed: HashMap<PathBuf, Failed>,
    /// The position has changed since the last post.
    is_dirty: bool,
    bytes: Vec<u8>,
    pub(super) reading: Option<Reading>,
    /// The restored position has been worked off.
    is_resumed: bool,
    /// Files whose action the restored position left pending: they are not read again, wherever
    /// they went.
    restored: Vec<PathBuf>,
    is_connected: bool,
}

#[derive(PartialEq, Eq)]
struct Failed {
    identity: Identity,
    permissions: u32,
}

/// What to do after a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    On,
    Stop,
    End,
}

/// Goes on, or leaves the function with the reason.
macro_rules! go_on {
    ($flow:expr) => {
        match $flow {
            Flow::On => {}
            leave => return Ok(leave),
        }
    };
}
pub(super) use go_on;

impl FileSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<FileSource, Error> {
        Ok(FileSource {
            options: SourceOptions::read(setup.transport)?,
            effects: setup.environment.shared.get::<Effects>(),
            properties: Properties::new(PROPERTIES),
            position: Position::default(),
            awaited: Vec::new(),
            acked: 0,
            failed: HashMap::new(),
            is_dirty: false,
            bytes: Vec::new(),
            reading: None,
            is_resumed: false,
            restored: Vec::new(),
            is_connected: false,
        })
    }

    // ---- waiting and acknowledgement ----

    pub(super) fn pause(
        &mut self,
        link: &mut dyn SourceLink,
        timeout: Duration,
    ) -> Result<Flow, Error> {
        let signal = link.wait(timeout);
        self.take_signal(link, signal)
    }

    fn take_signal(&mut self, link: &mut dyn SourceLink, signal: Signal) -> Result<Flow, Error> {
        match signal {
            Signal::Stop => return Ok(Flow::Stop),
            Signal::End => return Ok(Flow::End),
            Signal::Timeout | Signal::Resume => {}
            Signal::Acked(sequence) => self.acked = self.acked.max(sequence),
            Signal::Pause => loop {
                match link.wait(Duration::from_secs(1)) {
                    Signal::Stop => return Ok(Flow::Stop),
                    Signal::Resume => break,
                    Signal::Acked(sequence) => self.acked = self.acked.max(sequence),
                    _ => {}
                }
            },
        }
        self.settle(link);
        Ok(Flow::On)
    }

    /// Does the after-actions whose files have been taken.
    fn settle(&mut self, link: &mut dyn SourceLink) {
        let mut index = 0;
        while index < self.position.pending.len() {
            let awaited = self.awaited.get(index).copied().flatten();
            if awaited.is_some_and(|sequence| sequence > self.acked) {
                index += 1;
                continue;
            }
            let file = self.position.pending.remove(index);
            if index < self.awaited.len() {
                self.awaited.remove(index);
            }
            self.is_dirty = true;
            self.act(link, &file, awaited.is_none());
        }
    }

    fn act(&mut self, link: &mut dyn SourceLink, file: &InputFile, is_resumed: bool) {
        let is_directory = matches!(self.options.input, Input::Directory(_));
        match act(&self.options.after, file, is_directory, is_resumed) {
            Outcome::Gone { to } => {
                tracing::debug!(path = %file.path.display(), ?to, "file read and removed from its \
                                                                   place");
                if let Some(to) = to {
                    self.effects.note_move(&file.place, &to);
                }
            }
            Outcome::Vanished => {
                tracing::debug!(path = %file.path.display(), "file read; it had already been \
                                                              removed");
            }
            Outcome::Stays { cause, remedy } => {
                let identity = identity_hash(&file.identity);
                self.position.done.insert(path_hash(&file.path), identity);
                let path = file.path.to_string_lossy();
                let cause =
                    format!("file '{path}' has been read, but its after-action failed: {cause}");
                link.reject(Rejected::new(&path, cause, remedy));
            }
        }
    }

    /// The position is not the one last posted any more.
    pub(super) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// Hands over what was mapped, with the position behind it.
    pub(super) fn post(&mut self, link: &mut dyn SourceLink) -> Result<Sequence, Error> {
        self.bytes.clear();
        self.position.write(&mut self.bytes);
        self.is_dirty = false;
        link.post(&self.bytes)
    }

    // ---- finding files ----

    /// New files in the order of their names.
    fn scan(&mut self, root: &Path) -> io::Result<Vec<InputFile>> {
        let mut files = Vec::new();
        for path in walk(root, usize::MAX)?.files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let pattern = self.options.pattern.as_ref();
            if pattern.is_some_and(|pattern| !pattern.is_match(&name))
                || is_part(&path)
                || self.is_moved_here(root, &path)
            {
                continue;
            }
            let Ok(found) = fs::metadata(&path) else {
                continue;
            };
            if found.is_file() && self.is_new(&path, &found) {
                files.push(InputFile {
                    place: path.clone(),
                    path,
                    identity: Identity::of(&found),
                });
            }
        }
        Ok(files)
    }

    /// Is it below the target of our own moves, inside the directory that is read? Then it would be
    /// read again and again.
    fn is_moved_here(&self, root: &Path, path: &Path) -> bool {
        match &self.options.after {
            After::Move { to, .. } => to != root && to.starts_with(root) && path.starts_with(to),
            After::Keep | After::Delete => false,
        }
    }

    fn is_new(&self, path: &Path, found: &fs::Metadata) -> bool {
        let identity = Identity::of(found);
        let waits = |file: &InputFile| file.place == path && file.identity.is_same_file(&identity);
        let is_current = self
            .position
            .current
            .as_ref()
            .is_some_and(|c| waits(&c.file));
        !is_current
            && !self.position.is_done(path, &identity)
            && !self.position.pending.iter().any(waits)
            && self
                .failed
                .get(path)
                .is_none_or(|failed| *failed != Failed::of(found))
    }

    /// Waits until the file has stood unchanged for `file.read.wait.timeout`; `None` if it is gone.
    fn wait_settled(
        &mut self,
        link: &mut dyn SourceLink,
        file: &mut InputFile,
    ) -> Result<(Flow, bool), Error> {
        let settle = self.options.settle;
        let mut seen: Option<(Identity, i64)> = None;
        loop {
            let Ok(found) = fs::metadata(&file.place) else {
                return Ok((Flow::On, false));
            };
            let identity = Identity::of(&found);
            let now = link.now();
            // A time in the future says nothing: then it must stand while we look.
            let stood_since = match found
                .modified()
                .ok()
                .and_then(|m| m.duration_since(UNIX_EPOCH).ok())
            {
                Some(modified) if modified.as_millis() as i64 <= now => modified.as_millis() as i64,
                _ => match seen {
                    Some((before, since)) if before == identity => since,
                    _ => now,
                },
            };
            seen = Some((identity, stood_since));
            let stood = Duration::from_millis((now - stood_since).max(0) as u64);
            if stood >= settle {
                file.identity = identity;
                return Ok((Flow::On, true));
            }
            match self.pause(link, settle - stood)? {
                Flow::On => {}
                leave => return Ok((leave, true)),
            }
        }
    }

    // ---- reading ----

    /// Reads a file from its start, or from where `current` says, and leaves its action pending.
    fn read(&mut self, link: &mut dyn SourceLink, current: Current) -> Result<Flow, Error> {
        let opened = match File::open(&current.file.place) {
            Ok(opened) => opened,
            Err(error) => {
                self.position.current = None;
                return self.cannot_open(link, &current.file, error);
            }
        };
        self.set_properties(&current.file);
        self.position.current = Some(current);
        self.reading = self.start_reading(link, opened)?;
        if self.reading.is_none() {
            // It stays where it is.
            let file = self.current().file.clone();
            self.position
                .done
                .insert(path_hash(&file.path), identity_hash(&file.identity));
            self.position.current = None;
            self.post(link)?;
            return Ok(Flow::On);
        }
        go_on!(self.read_on(link)?);
        self.finish(link)
    }

    fn set_properties(&mut self, file: &InputFile) {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        self.properties
            .set(FILE_PATH, Value::str(&file.path.to_string_lossy()));
        self.properties.set(FILE_NAME, Value::str(&name));
        self.properties.set(EOF, Value::str("false"));
        self.properties
            .set(CONTENT_LENGTH, Value::str(&file.identity.size.to_string()));
        self.properties.set(SEQUENCE_NUMBER, Value::Null);
    }

    fn start_reading(
        &mut self,
        link: &mut dyn SourceLink,
        file: File,
    ) -> Result<Option<Reading>, Error> {
        let current = self.current();
        let path = current.file.path.clone();
        let failed = |error: io::Error| unreadable(&path, error);
        let (offset, line) = (current.offset, current.line);
        let is_binary_name = path.extension().is_some_and(|extension| extension == "bin");
        let reading = match &self.options.mode {
            // Siddhi's file source reads what is named so as a whole.
            Mode::Line if is_binary_name && !self.options.tailing => Reading::whole(file, true),
            Mode::Line => {
                let end = match (self.options.tailing, self.options.part) {
                    (true, _) => End::Follow,
                    (false, Part::AllButTrailer) => End::SkipTrailer,
                    _ => End::Mark,
                };
                let skipped = Reading::check_encoding(&file, offset).map_err(failed)?;
                let Some(start) = skipped else {
                    self.reject_encoding(link);
                    return Ok(None);
                };
                Reading::Lines(LineReader::new(file, start, line, end).map_err(failed)?)
            }
            Mode::TextFull => Reading::whole(file, true),
            Mode::BinaryFull => Reading::whole(file, false),
            Mode::BinaryChunked(bytes) => Reading::pieces(file, offset, *bytes).map_err(failed)?,
            Mode::Records { begin, end } => {
                let (begin, end) = (begin.clone(), end.clone());
                Reading::records(file, offset, begin, end, self.options.tailing).map_err(failed)?
            }
        };
        Ok(Some(reading))
    }

    pub(super) fn current(&mut self) -> &mut Current {
        self.position
            .current
            .as_mut()
            .expect("a file is being read")
    }

    fn reject_encoding(&mut self, link: &mut dyn SourceLink) {
        let path = self.current().file.path.to_string_lossy().into_owned();
        link.reject(Rejected::new(
            &path,
            format!("file '{path}' is UTF-16; none of it was read"),
            "convert it, for instance by iconv -f UTF-16 -t UTF-8",
        ));
    }

    /// The file has been read to its end: its last rows go out, its action waits for them.
    fn finish(&mut self, link: &mut dyn SourceLink) -> Result<Flow, Error> {
        self.reading = None;
        let current = self.position.current.take().expect("a file has been read");
        link.end_of_input();
        let file = current.file;
        self.position.has_read = true;
        match self.options.after {
            After::Keep => {
                self.position.done.insert(path_hash(&file.path), 0);
                self.post(link)?;
            }
            // The app has moved it away itself: nothing is left to do.
            _ if file.place != file.path => {
                self.post(link)?;
            }
            After::Delete | After::Move { .. } => {
                self.awaited.resize(self.position.pending.len(), None);
                self.awaited.push(Some(Sequence::MAX));
                self.position.pending.push(file);
                let sequence = self.post(link)?;
                if let Some(last) = self.awaited.last_mut() {
                    *last = Some(sequence);
                }
            }
        }
        self.pause(link, Duration::ZERO)
    }

    fn cannot_open(
        &mut self,
        link: &mut dyn SourceLink,
        file: &InputFile,
        error: io::Error,
    ) -> Result<Flow, Error> {
        match error.kind() {
            // Gone between the look and now.
            io::ErrorKind::NotFound => Ok(Flow::On),
            io::ErrorKind::PermissionDenied => {
                if let Ok(found) = fs::metadata(&file.place) {
                    self.failed.insert(file.path.clone(), Failed::of(&found));
                }
                let path = file.path.to_string_lossy();
                link.reject(Rejected::new(
                    &path,
                    format!("file '{path}' cannot be opened: {error}"),
                    "let the server's user read it; it is tried again when its permissions change",
                ));
                Ok(Flow::On)
            }
            _ => Err(unreadable(&file.path, error)),
        }
    }

    // ---- going on after a restart ----

    /// Reads the rest of the file that the position names, wherever it is now.
    fn resume(&mut self, link: &mut dyn SourceLink) -> Result<Flow, Error> {
        self.settle(link);
        if let Some(mut current) = self.position.current.take() {
            match self.find_again(&current) {
                Some(place) => {
                    current.file.place = place;
                    go_on!(self.read(link, current)?);
                }
                None => self.report_gone(link, &current),
            }
        }
        if self.is_resumed {
            return Ok(Flow::On);
        }
        self.is_resumed = true;
        // Files that the app moved away after the checkpoint was taken, without their rows in it.
        for (from, to) in self.effects.moves() {
            go_on!(self.read_moved(link, &from, to)?);
        }
        Ok(Flow::On)
    }

    fn find_again(&self, current: &Current) -> Option<PathBuf> {
        let file = &current.file;
        let is_it = |place: &Path, must_be_same: bool| {
            fs::metadata(place).is_ok_and(|found| {
                let identity = Identity::of(&found);
                let is_same = identity.is_same_file(&file.identity);
                found.len() >= current.offset
                    && (is_same || !must_be_same && found.len() == file.identity.size)
            })
        };
        if is_it(&file.place, true) {
            return Some(file.place.clone());
        }
        // Across file systems a moved file is a copy: its size must do.
        self.effects
            .moved_to(&file.place)
            .filter(|place| is_it(place, false))
    }

    fn report_gone(&mut self, link: &mut dyn SourceLink, current: &Current) {
        let path = current.file.path.to_string_lossy();
        let mut rejected = Rejected::new(
            &path,
            format!(
                "file '{path}' is gone or was replaced; it had been read up to byte {} of {}",
                current.offset, current.file.identity.size
            ),
            "bring the rest in as a new file, if it is still needed",
        );
        rejected.place = Place {
            line: Some(current.line),
            byte: Some(current.offset),
        };
        link.reject(rejected);
        self.is_dirty = true;
    }

    fn read_moved(
        &mut self,
        link: &mut dyn SourceLink,
        from: &Path,
        to: PathBuf,
    ) -> Result<Flow, Error> {
        let is_ours = match &self.options.input {
            Input::Directory(root) => from.starts_with(root) && !to.starts_with(root),
            Input::File(path) => from == path,
        };
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let fits = self
            .options
            .pattern
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(&name));
        if !is_ours || !fits || self.options.tailing || from.exists() {
            return Ok(Flow::On);
        }
        let place = self.effects.moved_to(from).unwrap_or(to);
        let Ok(found) = fs::metadata(&place) else {
            return Ok(Flow::On);
        };
        let identity = Identity::of(&found);
        let is_read =
            self.position.is_done(from, &identity) || self.restored.iter().any(|path| path == from);
        if is_read || !found.is_file() {
            return Ok(Flow::On);
        }
        let file = InputFile {
            path: from.to_path_buf(),
            place,
            identity,
        };
        self.read(link, Current::start(file, self.options.header_lines))
    }

    // ---- the three kinds of input ----

    fn run_directory(&mut self, link: &mut dyn SourceLink, root: &Path) -> Result<Flow, Error> {
        loop {
            go_on!(self.wait_for_cron(link)?);
            let files = match self.scan(root) {
                Ok(files) => {
                    self.report_found(link);
                    files
                }
                Err(error) => return Err(missing(root, error)),
            };
            let is_quiet = files.is_empty();
            for mut file in files {
                let (flow, is_there) = self.wait_settled(link, &mut file)?;
                go_on!(flow);
                if is_there {
                    let header = self.options.header_lines;
                    go_on!(self.read(link, Current::start(file, header))?);
                }
            }
            if is_quiet {
                go_on!(self.rest(link, self.options.dir_poll)?);
            }
        }
    }

    fn wait_for_cron(&mut self, link: &mut dyn SourceLink) -> Result<Flow, Error> {
        let zone = jiff::tz::TimeZone::system();
        let Some(due) = self
            .options
            .cron
            .as_ref()
            .map(|cron| cron.next(link.now(), &zone))
        else {
            return Ok(Flow::On);
        };
        loop {
            let left = due.map_or(1000, |due| due - link.now());
            if left <= 0 {
                return Ok(Flow::On);
            }
            go_on!(self.pause(link, Duration::from_millis(left as u64))?);
        }
    }

    /// Nothing new: waits for acknowledgements first, then for new input.
    fn rest(&mut self, link: &mut dyn SourceLink, poll: Duration) -> Result<Flow, Error> {
        self.settle(link);
        if self.is_dirty {
            self.post(link)?;
        }
        if !self.position.pending.is_empty() {
            return self.pause(link, poll);
        }
        let signal = link.idle(poll);
        self.take_signal(link, signal)
    }

    fn report_found(&mut self, link: &mut dyn SourceLink) {
        if !self.is_connected {
            link.report(Connection::Connected);
        }
        self.is_connected = true;
    }

    fn run_file(&mut self, link: &mut dyn SourceLink, path: &Path) -> Result<Flow, Error> {
        loop {
            go_on!(self.wait_for_cron(link)?);
            let found = match fs::metadata(path) {
                Ok(found) if found.is_file() => found,
                Ok(_) => return Err(missing(path, io::Error::other("it is not a file"))),
                // Read before a restart, and moved or deleted as it should be.
                Err(_) if self.position.has_read => break,
                Err(error) => return Err(missing(path, error)),
            };
            self.report_found(link);
            if !self.is_new(path, &found) {
                break;
            }
            let identity = Identity::of(&found);
            let mut file = InputFile {
                path: path.into(),
                place: path.into(),
                identity,
            };
            let (flow, is_there) = self.wait_settled(link, &mut file)?;
            go_on!(flow);
            if is_there {
                go_on!(self.read(link, Current::start(file, self.options.header_lines))?);
                break;
            }
        }
        while !self.position.pending.is_empty() {
            go_on!(self.pause(link, Duration::from_secs(1))?);
        }
        Ok(Flow::End)
    }

    /// Follows one file: the one named, or the first of the directory.
    fn run_tail(&mut self, link: &mut dyn SourceLink) -> Result<Flow, Error> {
        loop {
            let found = match self.options.input.clone() {
                Input::File(path) => match fs::metadata(&path) {
                    Ok(found) if found.is_file() => Ok(Some(InputFile {
                        place: path.clone(),
                        path,
                        identity: Identity::of(&found),
                    })),
                    Ok(_) => Err((path, io::Error::other("it is not a file"))),
                    Err(error) => Err((path, error)),
                },
                Input::Directory(root) => match self.scan(&root) {
                    Ok(files) => Ok(files.into_iter().next()),
                    Err(error) => Err((root, error)),
                },
            };
            match found {
                Ok(Some(file)) => {
                    self.report_found(link);
                    go_on!(self.follow(link, Current::start(file, self.options.header_lines))?);
                }
                Ok(None) => go_on!(self.rest(link, self.options.dir_poll)?),
                Err((path, error)) => return Err(missing(&path, error)),
            }
        }
    }

    /// Follows a file until another stands under its name.
    fn follow(&mut self, link: &mut dyn SourceLink, current: Current) -> Result<Flow, Error> {
        let opened = match File::open(&current.file.place) {
            Ok(opened) => opened,
            Err(error) => return self.cannot_open(link, &current.file, error),
        };
        self.set_properties(&current.file);
        self.position.current = Some(current);
        self.reading = self.start_reading(link, opened)?;
        loop {
            if self.reading.is_none() {
                return self.pause(link, self.options.file_poll);
            }
            go_on!(self.read_on(link)?);
            if self.is_dirty {
                self.post(link)?;
            }
            match self.rotation() {
                Rotation::None => go_on!(self.pause(link, self.options.file_poll)?),
                Rotation::Truncated => {
                    tracing::warn!(path = %self.current().file.path.display(),
                        "file was truncated; reading it from the start");
                    let file = self.current().file.clone();
                    return self.follow_again(link, file);
                }
                Rotation::Replaced => {
                    if let Some(reading) = &mut self.reading {
                        reading.finish();
                    }
                    go_on!(self.read_on(link)?);
                    link.end_of_input();
                    self.reading = None;
                    self.position.current = None;
                    self.post(link)?;
                    return Ok(Flow::On);
                }
            }
        }
    }

    fn follow_again(&mut self, link: &mut dyn SourceLink, file: InputFile) -> Result<Flow, Error> {
        link.end_of_input();
        self.reading = None;
        self.position.current = Some(Current::start(file, self.options.header_lines));
        self.post(link)?;
        self.position.current = None;
        Ok(Flow::On)
    }

    fn rotation(&mut self) -> Rotation {
        let current = self.position.current.as_ref().expect("a file is followed");
        match fs::metadata(&current.file.place) {
            // Gone for now: what stood in it has been read, the new one is awaited.
            Err(_) => Rotation::None,
            Ok(found) if !Identity::of(&found).is_same_file(&current.file.identity) => {
                Rotation::Replaced
            }
            Ok(found) if found.len() < current.offset => Rotation::Truncated,
            Ok(_) => Rotation::None,
        }
    }

    fn resume_tail(&mut self, link: &mut dyn SourceLink) -> Result<Flow, Error> {
        let Some(current) = self.position.current.take() else {
            return Ok(Flow::On);
        };
        match self.find_again(&current) {
            Some(place) => {
                let file = InputFile {
                    place,
                    ..current.file
                };
                self.follow(link, Current { file, ..current })
            }
            None => {
                self.report_gone(link, &current);
                Ok(Flow::On)
            }
        }
    }

    fn run_all(&mut self, link: &mut dyn SourceLink) -> Result<Flow, Error> {
        // Called again after a read error, it goes on from its last post.
        self.reading = None;
        self.is_connected = false;
        if self.options.tailing {
            go_on!(self.resume_tail(link)?);
            return self.run_tail(link);
        }
        go_on!(self.resume(link)?);
        match self.options.input.clone() {
            Input::Directory(root) => self.run_directory(link, &root),
            Input::File(path) => self.run_file(link, &path),
        }
    }
}

enum Rotation {
    None,
    /// The same file, shorter than what was read of it.
    Truncated,
    /// Another file stands under the name.
    Replaced,
}

impl Failed {
    fn of(found: &fs::Metadata) -> Failed {
        use std::os::unix::fs::PermissionsExt;
        Failed {
            identity: Identity::of(found),
            permissions: found.permissions().mode(),
        }
    }
}

/// What is to be read is not there: the source is run again after a while.
fn missing(path: &Path, error: io::Error) -> Error {
    let peer = format!(
        "'{}', which source 'file' is to read; create it, or correct the option or its permissions",
        path.display()
    );
    Error::unavailable(peer, error)
}

/// A read error: the source is run again after a while, and goes on from its last post.
pub(super) fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("file '{}'", path.display()), error)
}

impl Source for FileSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        match self.run_all(link) {
            Ok(Flow::Stop) | Err(Error::Stopped) => Ok(Finished::Stopped),
            Ok(Flow::End | Flow::On) => Ok(Finished::Ended),
            Err(error) => Err(error),
        }
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        self.position = Position::read(position)
            .map_err(|error| Error::failed("restoring the position of source 'file'", error))?;
        self.awaited.clear();
        self.restored = self
            .position
            .pending
            .iter()
            .map(|file| file.path.clone())
            .collect();
        Ok(())
    }

    fn ends(&self) -> bool {
        !self.options.tailing && self.options.cron.is_none()
    }
}
