//! The source `fileeventlistener`: says what becomes of the files and folders below a directory.
//!
//! It looks at them again and again (`FileAlterationObserver`). At first everything that lies in
//! the directory itself is new; then, at any depth, what comes is `created`, what goes is
//! `removed`, and what changes is watched for a second: `modifying` while it continues changing,
//! `modifyingCompleted` when it does not. What happened while the app was down is found by the
//! saved position. Links to folders are not followed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::spec::file::LISTENER;
use event::codec::{Error as CodecError, Reader, Writer};
use event::{Batch, Chunks, Column, ColumnBuilder, Times, Type, Value};
use plan::spec::ConnectorSpec;

use connect::component::{
    Connection, Connector, Finished, Payload, PayloadKind, Signal, Source, SourceLink, SourceSetup,
};
use connect::error::Error;
use connect::file_uri::local_path;
use connect::option::Settings;
use connect::rows::Properties;

pub const EVENTS: FileEventConnector = FileEventConnector;

pub struct FileEventConnector;

impl Connector for FileEventConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        &[LISTENER]
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Events]
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        Ok(Box::new(FileEvents::new(setup)?))
    }
}

/// How long a change is watched before it counts as complete (`FileAlterationImpl`).
const SETTLE: Duration = Duration::from_secs(1);

/// How often a source that is paused looks around.
const PAUSED: Duration = Duration::from_secs(1);

struct FileEvents {
    root: PathBuf,
    interval: Duration,
    /// Of what something is said; empty: of everything.
    files: Vec<PathBuf>,
    watch: Watch,
}

/// What is known of the directory.
#[derive(Default)]
struct Watch {
    known: BTreeMap<PathBuf, Entry>,
    /// It was looked at, now or before the app was saved.
    has_begun: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    form: Form,
    /// Since when a change is watched, and how it looked then.
    changing: Option<(Instant, Form)>,
}

/// How a file or folder looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Form {
    is_folder: bool,
    bytes: u64,
    /// Nanoseconds since 1970 (before it: 0).
    modified: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Created,
    Modifying,
    Modified,
    Removed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Created => "created",
            Status::Modifying => "modifying",
            Status::Modified => "modifyingCompleted",
            Status::Removed => "removed",
        }
    }
}

type Found = BTreeMap<PathBuf, Form>;

impl Form {
    fn of(metadata: &fs::Metadata) -> Form {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        Form {
            is_folder: metadata.is_dir(),
            bytes: metadata.len(),
            modified: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

impl FileEvents {
    fn new(setup: &SourceSetup<'_>) -> Result<FileEvents, Error> {
        let settings = Settings::of_source(setup.transport, &[LISTENER]);
        let attributes = &setup.schema.attributes;
        if attributes.len() != 3 || attributes.iter().any(|a| a.ty != Type::String) {
            return Err(settings.refused(
                "its events are path, name and status: the stream needs three attributes of type \
                 string",
            ));
        }
        let root = local_path(settings.text_or_default("dir.uri"))
            .map_err(|error| settings.refused(format!("option 'dir.uri': {error}")))?;
        let interval: u64 = settings.number("monitoring.interval")?;
        let names = settings.text_or_default("file.name.list");
        let names = names.split(',').map(str::trim).filter(|n| !n.is_empty());
        Ok(FileEvents {
            interval: Duration::from_millis(interval.max(1)),
            files: names.map(|name| root.join(name)).collect(),
            root,
            watch: Watch::default(),
        })
    }

    fn is_wanted(&self, path: &Path) -> bool {
        self.files.is_empty() || self.files.iter().any(|file| file == path)
    }

    fn unavailable(&self, error: io::Error) -> Error {
        Error::unavailable(format!("directory '{}'", self.root.display()), error)
    }

    /// One look; what it shows is posted.
    fn look(&mut self, link: &mut dyn SourceLink) -> Result<(), Error> {
        let found = scan(&self.root).map_err(|error| self.unavailable(error))?;
        let (begun, events) = (self.watch.has_begun, self.watch.take(&found, &self.root));
        let wanted = events.iter().filter(|(path, _)| self.is_wanted(path));
        let rows: Vec<_> = wanted.map(|(path, status)| (path, *status)).collect();
        if !rows.is_empty() {
            link.map(Payload::Events(&batch(&rows)), &Properties::none());
        }
        if !events.is_empty() || !begun {
            link.post(&self.watch.save())?;
        }
        Ok(())
    }
}

/// Rows that are a chunk each: path, name, status.
fn batch(rows: &[(&PathBuf, Status)]) -> Batch {
    let mut columns = [(); 3].map(|()| ColumnBuilder::new(Type::String));
    for (path, status) in rows {
        let name = path.file_name().unwrap_or_default();
        let texts = [
            path.to_string_lossy(),
            name.to_string_lossy(),
            status.name().into(),
        ];
        for (column, text) in columns.iter_mut().zip(&texts) {
            column.push(&Value::str(text));
        }
    }
    let columns: Vec<Column> = columns.map(ColumnBuilder::finish).into();
    Batch::new(columns, rows.len(), Times::Same(-1), Chunks::EachRow, -1)
}

/// All below a directory. What goes while it is looked at is not there.
fn scan(root: &Path) -> io::Result<Found> {
    let mut found = Found::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if folder == root => return Err(error),
            Err(_) => continue,
        };
        for entry in entries {
            let Ok(entry) = entry else { continue };
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            found.insert(entry.path(), Form::of(&metadata));
        }
    }
    Ok(found)
}

impl Watch {
    /// Takes note of what was found; what is new of it. Folders come before what is in them, and go
    /// after it.
    fn take(&mut self, found: &Found, root: &Path) -> Vec<(PathBuf, Status)> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let mut events = Vec::new();
        for path in self.known.keys().rev() {
            if !found.contains_key(path) {
                events.push((path.clone(), Status::Removed));
            }
        }
        self.known.retain(|path, _| found.contains_key(path));
        for (path, form) in found {
            let Some(entry) = self.known.get_mut(path) else {
                let entry = Entry {
                    form: *form,
                    changing: None,
                };
                self.known.insert(path.clone(), entry);
                // What lies deeper was there before.
                if !is_first || path.parent() == Some(root) {
                    events.push((path.clone(), Status::Created));
                }
                continue;
            };
            if let Some(status) = entry.see(*form) {
                events.push((path.clone(), status));
            }
        }
        events
    }

    /// The position: what is known, and what a change began with.
    fn save(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.count(self.known.len());
        for (path, entry) in &self.known {
            writer.blob(path.as_os_str().as_bytes());
            writer.bool(entry.form.is_folder);
            writer.u64(entry.form.bytes);
            writer.u64(entry.form.modified);
        }
        writer.bytes
    }

    fn read(position: &[u8]) -> Result<Watch, CodecError> {
        let mut reader = Reader::new(position);
        let mut known = BTreeMap::new();
        for _ in 0..reader.count()? {
            let path = PathBuf::from(OsStr::from_bytes(reader.blob()?));
            let form = Form {
                is_folder: reader.bool()?,
                bytes: reader.u64()?,
                modified: reader.u64()?,
            };
            let entry = Entry {
                form,
                changing: None,
            };
            known.insert(path, entry);
        }
        Ok(Watch {
            known,
            has_begun: true,
        })
    }
}

impl Entry {
    /// A change is told when it has been watched: whether it goes on, or is complete.
    fn see(&mut self, form: Form) -> Option<Status> {
        let Some((since, then)) = self.changing else {
            if form != self.form {
                self.changing = Some((Instant::now(), form));
            }
            return None;
        };
        if since.elapsed() < SETTLE {
            return None;
        }
        if form == then {
            self.form = form;
            self.changing = None;
            return Some(Status::Modified);
        }
        self.changing = Some((Instant::now(), form));
        Some(Status::Modifying)
    }
}

/// Waits; false: the source is to stop.
fn goes_on(link: &mut dyn SourceLink, pause: Duration) -> bool {
    let mut signal = link.wait(pause);
    let mut is_paused = false;
    loop {
        match signal {
            Signal::Stop => return false,
            Signal::Pause => is_paused = true,
            Signal::Resume => return true,
            _ if !is_paused => return true,
            _ => {}
        }
        signal = link.wait(PAUSED);
    }
}

impl Source for FileEvents {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        self.look(link)?;
        link.report(Connection::Connected);
        while goes_on(link, self.interval) {
            self.look(link)?;
        }
        Ok(Finished::Stopped)
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        self.watch = Watch::read(position).map_err(|error| {
            Error::failed("restoring source 'fileeventlistener'", error.to_string())
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Form = Form {
        is_folder: false,
        bytes: 1,
        modified: 1,
    };

    fn found(paths: &[&str]) -> Found {
        paths.iter().map(|path| (path.into(), FILE)).collect()
    }

    /// Looks in turn; path and status of what each shows.
    fn check(watch: &mut Watch, looks: &[(&[&str], &[(&str, &str)])]) {
        for (paths, expect) in looks {
            let events = watch.take(&found(paths), Path::new("/d"));
            let events: Vec<(String, &str)> = events
                .iter()
                .map(|(path, status)| (path.display().to_string(), status.name()))
                .collect();
            let events: Vec<(&str, &str)> = events.iter().map(|(p, s)| (p.as_str(), *s)).collect();
            assert_eq!(events, *expect, "{paths:?}");
        }
    }

    #[test]
    fn what_comes_and_goes_is_told_once() {
        let (created, removed) = ("created", "removed");
        check(
            &mut Watch::default(),
            &[
                (
                    &["/d/a", "/d/b", "/d/b/old"],
                    &[("/d/a", created), ("/d/b", created)],
                ),
                (&["/d/a", "/d/b", "/d/b/old"], &[]),
                (
                    &["/d/a", "/d/b", "/d/b/old", "/d/c", "/d/c/new"],
                    &[("/d/c", created), ("/d/c/new", created)],
                ),
                (
                    &["/d/a"],
                    &[
                        ("/d/c/new", removed),
                        ("/d/c", removed),
                        ("/d/b/old", removed),
                        ("/d/b", removed),
                    ],
                ),
            ],
        );
    }

    #[test]
    fn a_saved_watch_tells_only_what_happened_meanwhile() {
        let mut watch = Watch::default();
        watch.take(&found(&["/d/a", "/d/b"]), Path::new("/d"));
        let mut restored = Watch::read(&watch.save()).unwrap();
        assert_eq!(restored.known, watch.known);
        let expect: &[(&str, &str)] = &[("/d/b", "removed"), ("/d/c", "created")];
        check(&mut restored, &[(&["/d/a", "/d/c"], expect)]);
        assert!(Watch::read(&[9]).is_err());
    }

    #[test]
    fn a_change_is_told_when_it_has_been_watched() {
        let later = |modified| Form { modified, ..FILE };
        let mut entry = Entry {
            form: FILE,
            changing: None,
        };
        let mut watched = |form: Form, seconds: u64| {
            if let Some((since, _)) = &mut entry.changing {
                *since = Instant::now()
                    .checked_sub(Duration::from_secs(seconds))
                    .unwrap();
            }
            entry.see(form)
        };
        assert_eq!(watched(FILE, 0), None);
        assert_eq!(watched(later(2), 0), None);
        assert_eq!(watched(later(3), 0), None);
        assert_eq!(watched(later(3), 2), Some(Status::Modifying));
        assert_eq!(watched(later(3), 2), Some(Status::Modified));
        assert_eq!(watched(later(3), 2), None);
    }
}
