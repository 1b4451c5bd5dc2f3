//! `#file:…` and `file:…`: what an app does to files, one call at a time.
//!
//! Arguments arrive as values, paths as URIs or plain paths; results are the attributes that a stream
//! function adds, or the value of a scalar one. Behaviour follows Siddhi's `io-file` extension:
//! `#file:move` answers false where a move fails, the others fail the event.
//!
//! Never here: the journal that keeps an effect from happening twice (see [`super::effects`]).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use event::value::Shared;
use event::{Object, Type, Value};
use regex::Regex;

use super::archive;
use connect::file_uri::local_path;

/// Depth of directories that is walked; links to directories are not followed.
pub const DEPTH_MAX: usize = 128;

/// Files that one search or size lists.
const FILES_MAX: usize = 1_000_000;

/// What a call changes, and so what must be known about it after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Only looks.
    None,
    /// Doing it again is harmless: it looks at what is there.
    Repeatable,
    /// Takes the file from where it was.
    Moves,
}

pub struct Function {
    pub name: &'static str,
    pub effect: Effect,
    /// Types of the attributes added, or of the one value of a scalar function.
    pub results: &'static [Type],
    work: fn(&Arguments<'_>) -> Result<Vec<Value>, String>,
}

pub const FUNCTIONS: &[Function] = &[
    entry("file:move", Effect::Moves, &[Type::Bool], move_path),
    entry("file:copy", Effect::Repeatable, &[Type::Bool], copy_path),
    entry("file:rename", Effect::Moves, &[Type::Bool], rename),
    entry("file:create", Effect::Repeatable, &[], create),
    entry("file:delete", Effect::Repeatable, &[], delete),
    entry("file:archive", Effect::Repeatable, &[], archive::archive),
    entry(
        "file:unarchive",
        Effect::Repeatable,
        &[],
        archive::unarchive,
    ),
    entry("file:search", Effect::None, &[Type::Object], search),
    entry(
        "file:searchInArchive",
        Effect::None,
        &[Type::Object],
        archive::search,
    ),
    entry("file:isExist", Effect::None, &[Type::Bool], is_exist),
    entry("file:isFile", Effect::None, &[Type::Bool], is_file),
    entry(
        "file:isDirectory",
        Effect::None,
        &[Type::Bool],
        is_directory,
    ),
    entry("file:size", Effect::None, &[Type::Long], size),
    entry(
        "file:lastModifiedTime",
        Effect::None,
        &[Type::String],
        last_modified,
    ),
];

const fn entry(
    name: &'static str,
    effect: Effect,
    results: &'static [Type],
    work: fn(&Arguments<'_>) -> Result<Vec<Value>, String>,
) -> Function {
    Function {
        name,
        effect,
        results,
        work,
    }
}

/// The function of a full name (`file:move`).
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

impl Function {
    /// Does the work for one event.
    pub fn call(&self, values: &[Value]) -> Result<Vec<Value>, String> {
        (self.work)(&Arguments {
            function: self.name,
            values,
        })
    }

    /// The paths that a call names, as far as its arguments are of use.
    pub fn paths(&self, values: &[Value]) -> Vec<PathBuf> {
        let arguments = Arguments {
            function: self.name,
            values,
        };
        let count = match self.name {
            "file:move" | "file:copy" | "file:archive" | "file:unarchive" => 2,
            _ => 1,
        };
        let named = (0..count).filter_map(|index| arguments.path(index).ok());
        let target = self.ends(values).map(|(_, to)| to);
        named.chain(target).collect()
    }

    /// Where a call that takes a file away puts it: from, to. `None` where its arguments are of no use.
    pub fn ends(&self, values: &[Value]) -> Option<(PathBuf, PathBuf)> {
        let arguments = Arguments {
            function: self.name,
            values,
        };
        match self.name {
            "file:move" => {
                let from = arguments.path(0).ok()?;
                let to = arguments.path(1).ok()?.join(from.file_name()?);
                Some((from, to))
            }
            "file:rename" => {
                let from = arguments.path(0).ok()?;
                let to = renamed(&from, arguments.text(1).ok()?).ok()?;
                Some((from, to))
            }
            _ => None,
        }
    }
}

/// The arguments of one call, by position.
pub(super) struct Arguments<'a> {
    function: &'static str,
    values: &'a [Value],
}

impl Arguments<'_> {
    pub(super) fn text(&self, index: usize) -> Result<&str, String> {
        match self.values.get(index) {
            Some(Value::Str(text)) => Ok(text),
            Some(Value::Null) | None => Err(format!(
                "function '{}' got null as argument {}: filter such events before it",
                self.function,
                index + 1
            )),
            Some(other) => Err(format!(
                "function '{}' got '{}' as argument {}, which is not text",
                self.function,
                event::text::to_text(other),
                index + 1
            )),
        }
    }

    pub(super) fn path(&self, index: usize) -> Result<PathBuf, String> {
        local_path(self.text(index)?).map_err(|error| error.to_string())
    }

    pub(super) fn optional_text(&self, index: usize) -> &str {
        self.values.get(index).and_then(Value::as_str).unwrap_or("")
    }

    pub(super) fn flag(&self, index: usize) -> bool {
        self.values
            .get(index)
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }

    /// Settings of remote file systems have no use here, and are not ignored.
    pub(super) fn no_options(&self, index: usize) -> Result<(), String> {
        match self.optional_text(index) {
            "" => Ok(()),
            _ => Err(format!(
                "function '{}' got file.system.options, which only remote file systems have: \
                 leave them out",
                self.function
            )),
        }
    }

    /// `include.by.regexp`: a match at the start of the file's name.
    pub(super) fn pattern(&self, index: usize) -> Result<Option<Regex>, String> {
        let pattern = self.optional_text(index);
        if pattern.is_empty() {
            return Ok(None);
        }
        Regex::new(&format!("^(?:{pattern})"))
            .map(Some)
            .map_err(|error| {
                format!(
                    "function '{}': pattern '{pattern}' cannot be used: {error}",
                    self.function
                )
            })
    }
}

pub(super) fn includes(pattern: Option<&Regex>, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    pattern.is_none_or(|pattern| pattern.is_match(&name))
}

/// `action 'path' failed: cause`, for people.
pub(super) fn describe(action: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {action} '{}': {error}", path.display())
}

// ---- moving and copying ----

/// Siddhi's `FileMoveExtension`: a missing source or an error of the file system is `false`.
fn move_path(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(4)?;
    let (from, to) = (arguments.path(0)?, arguments.path(1)?);
    let pattern = arguments.pattern(2)?;
    let moved = transfer(
        &from,
        &to,
        pattern.as_ref(),
        arguments.flag(3),
        &mut rename_or_copy,
    );
    Ok(vec![Value::Bool(match moved {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(path = %from.display(), %error, "file:move failed");
            false
        }
    })])
}

fn copy_path(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(4)?;
    let (from, to) = (arguments.path(0)?, arguments.path(1)?);
    let pattern = arguments.pattern(2)?;
    transfer(
        &from,
        &to,
        pattern.as_ref(),
        arguments.flag(3),
        &mut copy_file,
    )
    .map(|found| vec![Value::Bool(found)])
    .map_err(|error| describe("copy", &from, &error))
}

/// A file goes to `to/name`; of a directory every file that the pattern includes goes below
/// `to/name`, or below `to` without the root. False when there is nothing at `from`.
fn transfer(
    from: &Path,
    to: &Path,
    pattern: Option<&Regex>,
    exclude_root: bool,
    put: &mut dyn FnMut(&Path, &Path) -> io::Result<()>,
) -> io::Result<bool> {
    let Ok(found) = fs::symlink_metadata(from) else {
        return Ok(false);
    };
    let name = from.file_name().unwrap_or_default();
    if !found.is_dir() {
        if includes(pattern, from) {
            fs::create_dir_all(to)?;
            put(from, &to.join(name))?;
        }
        return Ok(true);
    }
    let root = if exclude_root {
        to.to_path_buf()
    } else {
        to.join(name)
    };
    fs::create_dir_all(&root)?;
    let below = walk(from, usize::MAX)?;
    for file in below.files.iter().filter(|file| includes(pattern, file)) {
        let target = root.join(file.strip_prefix(from).unwrap_or(file));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        put(file, &target)?;
    }
    // Directories that a move has emptied go, the deepest first; after a copy none is empty but
    // those that were.
    for directory in below.directories.iter().rev() {
        let target = root.join(directory.strip_prefix(from).unwrap_or(directory));
        if pattern.is_none() {
            fs::create_dir_all(target)?;
        }
    }
    if below.files.iter().all(|file| !file.exists()) {
        for directory in below.directories.iter().rev() {
            ignore_not_empty(fs::remove_dir(directory))?;
        }
        ignore_not_empty(fs::remove_dir(from))?;
    }
    Ok(true)
}

fn ignore_not_empty(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        result => result,
    }
}

/// Moves a file; across file systems by a copy that appears under its name only when it is whole.
pub fn rename_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy_file(from, to)?;
            fs::remove_file(from)
        }
        result => result,
    }
}

/// Names of copies that are not whole yet; no source reads them.
const PART_PREFIX: &str = ".";
const PART_SUFFIX: &str = ".part";

/// Under which name a file is made before it is whole.
pub(super) fn part_of(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!("{PART_PREFIX}{name}{PART_SUFFIX}"))
}

/// Is this the name of a copy that is being made?
pub fn is_part(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(PART_PREFIX) && name.ends_with(PART_SUFFIX)
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let part = part_of(to);
    let copied = fs::copy(from, &part)
        .and_then(|_| fs::File::open(&part)?.sync_all())
        .and_then(|()| fs::rename(&part, to));
    if copied.is_err() {
        // The first error says what went wrong; a part that cannot be removed either is left.
        fs::remove_file(&part).ok();
    }
    copied
}

fn rename(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(2)?;
    let from = arguments.path(0)?;
    let to = renamed(&from, arguments.text(1)?)?;
    if !from.exists() {
        return Ok(vec![Value::Bool(false)]);
    }
    match rename_or_copy(&from, &to) {
        Ok(()) => Ok(vec![Value::Bool(true)]),
        Err(error) => {
            tracing::warn!(path = %from.display(), %error, "file:rename failed");
            Ok(vec![Value::Bool(false)])
        }
    }
}

/// A bare name stays in its directory; a path or URI is taken as it is.
fn renamed(from: &Path, to: &str) -> Result<PathBuf, String> {
    if to.contains('/') || to.starts_with("file:") {
        return local_path(to).map_err(|error| error.to_string());
    }
    Ok(from.with_file_name(to))
}

// ---- making and removing ----

fn create(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(2)?;
    let path = arguments.path(0)?;
    let made = if arguments.flag(1) {
        fs::create_dir_all(&path)
    } else {
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| {
                fs::File::options()
                    .append(true)
                    .create(true)
                    .open(&path)
                    .map(drop)
            })
    };
    made.map(|()| Vec::new())
        .map_err(|error| describe("create", &path, &error))
}

fn delete(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(1)?;
    let path = arguments.path(0)?;
    let removed = match fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
        Ok(_) => fs::remove_file(&path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(describe("delete", &path, &error))
        }
        _ => Ok(Vec::new()),
    }
}

// ---- looking ----

/// What lies below a directory, each list in the order of names; a directory stands before what it
/// holds.
#[derive(Default, Debug)]
pub(super) struct Below {
    pub(super) files: Vec<PathBuf>,
    pub(super) directories: Vec<PathBuf>,
}

/// Walks a directory down to `depth` levels. Links to directories are not followed, so there is no
/// endless walk.
pub(super) fn walk(root: &Path, depth: usize) -> io::Result<Below> {
    let mut below = Below::default();
    let mut open = vec![(root.to_path_buf(), 0)];
    while let Some((directory, level)) = open.pop() {
        if level > 0 {
            below.directories.push(directory.clone());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            entries.push((entry.path(), entry.file_type()?.is_dir()));
        }
        entries.sort_unstable();
        if below.files.len() + entries.len() > FILES_MAX {
            return Err(io::Error::other(format!("more than {FILES_MAX} files")));
        }
        for (path, is_directory) in entries.into_iter().rev() {
            if !is_directory {
                below.files.push(path);
            } else if level < depth.min(DEPTH_MAX) {
                open.push((path, level + 1));
            }
        }
    }
    below.files.sort_unstable();
    below.directories.sort_unstable();
    Ok(below)
}

fn search(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(3)?;
    let root = arguments.path(0)?;
    let pattern = arguments.pattern(1)?;
    let depth = if arguments.flag(2) { 0 } else { usize::MAX };
    let below = walk(&root, depth).map_err(|error| describe("search", &root, &error))?;
    let names = below
        .files
        .iter()
        .filter(|file| includes(pattern.as_ref(), file))
        .map(|file| Value::str(&file.to_string_lossy()));
    Ok(vec![list(names)])
}

pub(super) fn list(values: impl Iterator<Item = Value>) -> Value {
    Value::Object(Object::List(Shared::new(values.collect())))
}

fn is_exist(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(1)?;
    Ok(vec![Value::Bool(arguments.path(0)?.exists())])
}

fn is_file(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(1)?;
    Ok(vec![Value::Bool(arguments.path(0)?.is_file())])
}

fn is_directory(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(1)?;
    Ok(vec![Value::Bool(arguments.path(0)?.is_dir())])
}

fn size(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(1)?;
    let path = arguments.path(0)?;
    bytes_of(&path)
        .map(|bytes| vec![Value::Long(bytes as i64)])
        .map_err(|error| describe("read the size of", &path, &error))
}

fn bytes_of(path: &Path) -> io::Result<u64> {
    let found = fs::metadata(path)?;
    if !found.is_dir() {
        return Ok(found.len());
    }
    let mut bytes = 0;
    for file in walk(path, usize::MAX)?.files {
        bytes += fs::symlink_metadata(file)?.len();
    }
    Ok(bytes)
}

/// Format of `file:lastModifiedTime` where none is given, as `SimpleDateFormat` reads it.
const TIME_FORMAT: &str = "MM/dd/yyyy HH:mm:ss";

fn last_modified(arguments: &Arguments<'_>) -> Result<Vec<Value>, String> {
    arguments.no_options(2)?;
    let path = arguments.path(0)?;
    let found = fs::metadata(&path).map_err(|error| describe("read the time of", &path, &error))?;
    let format = match arguments.optional_text(1) {
        "" => TIME_FORMAT,
        format => format,
    };
    let time = jiff::Timestamp::new(found.mtime(), found.mtime_nsec() as i32)
        .map_err(|error| format!("time of '{}' cannot be read: {error}", path.display()))?
        .to_zoned(jiff::tz::TimeZone::system());
    let pattern = strftime(format)?;
    Ok(vec![Value::str(&time.strftime(&pattern).to_string())])
}

/// The letters of `SimpleDateFormat` as those of `strftime`.
fn strftime(format: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut letters = format.chars().peekable();
    let mut is_quoted = false;
    while let Some(letter) = letters.next() {
        if letter == '\'' {
            if letters.next_if_eq(&'\'').is_some() {
                out.push('\'');
            } else {
                is_quoted = !is_quoted;
            }
            continue;
        }
        if is_quoted || !letter.is_ascii_alphabetic() {
            out.push_str(if letter == '%' { "%%" } else { "" });
            if letter != '%' {
                out.push(letter);
            }
            continue;
        }
        let mut count = 1;
        while letters.next_if_eq(&letter).is_some() {
            count += 1;
        }
        out.push_str(match (letter, count) {
            ('y', 2) => "%y",
            ('y', _) => "%Y",
            ('M', 4..) => "%B",
            ('M', 3) => "%b",
            ('M', 2) => "%m",
            ('M', _) => "%-m",
            ('d', 1) => "%-d",
            ('d', _) => "%d",
            ('H', 1) => "%-H",
            ('H', _) => "%H",
            ('h', 1) => "%-I",
            ('h', _) => "%I",
            ('m', 1) => "%-M",
            ('m', _) => "%M",
            ('s', 1) => "%-S",
            ('s', _) => "%S",
            ('S', _) => "%3f",
            ('a', _) => "%p",
            ('E', 4..) => "%A",
            ('E', _) => "%a",
            ('D', _) => "%j",
            ('z', _) => "%Z",
            ('Z', _) => "%z",
            ('X', _) => "%:z",
            _ => {
                return Err(format!(
                    "date format '{format}' has letter '{letter}', which is not known: \
                     use y M d H h m s S a E D z Z X"
                ));
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Setup {
        directory: tempfile::TempDir,
    }

    impl Setup {
        /// `in/a.csv`, `in/b.txt` and `in/sub/c.csv`.
        fn new() -> Setup {
            let setup = Setup {
                directory: tempfile::tempdir().unwrap(),
            };
            fs::create_dir_all(setup.path("in/sub")).unwrap();
            for (name, text) in [
                ("in/a.csv", "1"),
                ("in/b.txt", "22"),
                ("in/sub/c.csv", "333"),
            ] {
                fs::write(setup.path(name), text).unwrap();
            }
            setup
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn uri(&self, name: &str) -> Value {
            Value::str(&format!("file:{}", self.path(name).display()))
        }

        /// What lies below, without directories.
        fn files(&self) -> Vec<String> {
            let below = walk(self.directory.path(), usize::MAX).unwrap();
            let relative = |path: &PathBuf| {
                path.strip_prefix(self.directory.path())
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            };
            below.files.iter().map(relative).collect()
        }
    }

    fn call(name: &str, arguments: &[Value]) -> Result<Vec<Value>, String> {
        find(name).unwrap().call(arguments)
    }

    fn yes() -> Result<Vec<Value>, String> {
        Ok(vec![Value::Bool(true)])
    }

    #[test]
    fn files_and_directories_move() {
        let s = Setup::new();
        assert_eq!(
            call("file:move", &[s.uri("in/a.csv"), s.uri("out/deep")]),
            yes()
        );
        assert_eq!(s.files(), ["in/b.txt", "in/sub/c.csv", "out/deep/a.csv"]);
        let gone = call("file:move", &[s.uri("in/a.csv"), s.uri("out")]);
        assert_eq!(gone, Ok(vec![Value::Bool(false)]));
        // An existing target is replaced, as the original does.
        fs::write(s.path("in/a.csv"), "new").unwrap();
        assert_eq!(
            call("file:move", &[s.uri("in/a.csv"), s.uri("out/deep")]),
            yes()
        );
        assert_eq!(fs::read_to_string(s.path("out/deep/a.csv")).unwrap(), "new");
        assert_eq!(call("file:move", &[s.uri("in"), s.uri("all")]), yes());
        assert_eq!(
            s.files(),
            ["all/in/b.txt", "all/in/sub/c.csv", "out/deep/a.csv"]
        );
        assert!(!s.path("in").exists());
        let root = [
            s.uri("all/in"),
            s.uri("flat"),
            Value::str(""),
            Value::Bool(true),
        ];
        assert_eq!(call("file:move", &root), yes());
        assert_eq!(
            s.files(),
            ["flat/b.txt", "flat/sub/c.csv", "out/deep/a.csv"]
        );
    }

    #[test]
    fn only_names_that_begin_with_a_match_move() {
        let s = Setup::new();
        assert_eq!(
            call(
                "file:copy",
                &[s.uri("in"), s.uri("out"), Value::str("[ab]")]
            ),
            yes()
        );
        let arguments = [s.uri("in"), s.uri("out"), Value::str("c.*")];
        assert_eq!(call("file:move", &arguments), yes());
        assert_eq!(
            s.files(),
            [
                "in/a.csv",
                "in/b.txt",
                "out/in/a.csv",
                "out/in/b.txt",
                "out/in/sub/c.csv"
            ]
        );
        let bad = call("file:move", &[s.uri("in"), s.uri("out"), Value::str("(")]);
        assert!(bad.unwrap_err().contains("pattern"));
    }

    #[test]
    fn making_renaming_and_removing() {
        let s = Setup::new();
        assert_eq!(call("file:create", &[s.uri("new/x.csv")]), Ok(Vec::new()));
        assert_eq!(
            call("file:create", &[s.uri("new/dir"), Value::Bool(true)]),
            Ok(Vec::new())
        );
        assert!(s.path("new/dir").is_dir());
        assert_eq!(
            call("file:rename", &[s.uri("new/x.csv"), Value::str("y.csv")]),
            yes()
        );
        assert!(s.path("new/y.csv").is_file());
        for name in ["new", "in/a.csv", "in/a.csv"] {
            assert_eq!(
                call("file:delete", &[s.uri(name)]),
                Ok(Vec::new()),
                "{name}"
            );
        }
        assert_eq!(s.files(), ["in/b.txt", "in/sub/c.csv"]);
    }

    #[test]
    fn looking_at_files() {
        let s = Setup::new();
        let one = |name: &str, path: &str| call(name, &[s.uri(path)]).unwrap().remove(0);
        assert_eq!(one("file:isExist", "in/a.csv"), Value::Bool(true));
        assert_eq!(one("file:isExist", "in/x.csv"), Value::Bool(false));
        assert_eq!(one("file:isFile", "in"), Value::Bool(false));
        assert_eq!(one("file:isDirectory", "in"), Value::Bool(true));
        assert_eq!(one("file:size", "in/b.txt"), Value::Long(2));
        assert_eq!(one("file:size", "in"), Value::Long(6));
        let found = call("file:search", &[s.uri("in"), Value::str(".*csv")]).unwrap();
        let names = event::text::to_text(&found[0]);
        assert!(
            names.contains("a.csv") && names.contains("sub/c.csv"),
            "{names}"
        );
        let flat = [s.uri("in"), Value::str(".*csv"), Value::Bool(true)];
        let names = event::text::to_text(&call("file:search", &flat).unwrap()[0]);
        assert!(!names.contains("c.csv"), "{names}");
        let time = call(
            "file:lastModifiedTime",
            &[s.uri("in/a.csv"), Value::str("yyyy-'x'-MM")],
        );
        let time = event::text::to_text(&time.unwrap()[0]);
        assert!(time.len() == 9 && &time[4..7] == "-x-", "{time}");
        let bad = call(
            "file:lastModifiedTime",
            &[s.uri("in/a.csv"), Value::str("QQ")],
        );
        assert!(bad.unwrap_err().contains("'Q'"));
    }

    #[test]
    fn arguments_that_cannot_be_used() {
        let null = call("file:isExist", &[Value::Null]);
        assert!(null.unwrap_err().contains("null"));
        let remote = call("file:isExist", &[Value::str("sftp://h/x")]);
        assert!(remote.unwrap_err().contains("does not run here"));
        let options = call(
            "file:isExist",
            &[Value::str("/x"), Value::str("PASSIVE_MODE:true")],
        );
        assert!(options.unwrap_err().contains("leave them out"));
    }
}
