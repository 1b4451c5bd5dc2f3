//! The file sink: payloads at the end of files, one handle kept open for each of the last used.
//!
//! Messages are gathered and written by [`Sink::flush`], which the server calls for each chunk that
//! somebody waits for, and at the latest when a buffer is full. A write that fails is taken back as
//! far as it came, so that the next try neither tears nor repeats a message.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::beneath;
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::file_uri::local_path;
use connect::message::Message;

/// Files kept open.
const HANDLES_MAX: usize = 64;

/// Bytes gathered for one file before they are written.
const BUFFER_BYTES: usize = 256 << 10;

pub struct FileSink {
    target: Target,
    append: bool,
    add_line_separator: bool,
    /// The one used last is the last.
    handles: Vec<Handle>,
}

enum Target {
    Static(PathBuf),
    /// Made of each event.
    Dynamic {
        /// Index among the options that depend on the event.
        option: usize,
        /// The directory that stands before what events fill in, if one does.
        root: Option<PathBuf>,
    },
}

struct Handle {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// The next write replaces what the file holds.
    replaces: bool,
}

impl FileSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<FileSink, Error> {
        let refused = |message: String| Error::refused("sink 'file'", message);
        let flag = |name: &str, default: bool| {
            let text = setup.transport.option(name);
            text.map_or(default, |text| text.trim().eq_ignore_ascii_case("true"))
        };
        let target = match setup.dynamic.iter().position(|name| name == "file.uri") {
            Some(option) => Target::Dynamic {
                option,
                root: setup.transport.option("file.uri").and_then(root),
            },
            None => {
                let Some(uri) = setup.transport.option("file.uri") else {
                    return Err(refused("option 'file.uri' is missing".into()));
                };
                let path = local_path(uri)
                    .map_err(|error| refused(format!("option 'file.uri': {error}")))?;
                Target::Static(path)
            }
        };
        Ok(FileSink {
            target,
            append: flag("append", true),
            add_line_separator: flag("add.line.separator", setup.transport.map.ty != "csv"),
            handles: Vec::new(),
        })
    }

    /// The handle for a message, made where there is none; it is the last.
    fn handle(&mut self, message: &Message<'_>) -> Result<&mut Handle, Error> {
        let dynamic;
        let (path, root) = match &self.target {
            Target::Static(path) => (path.as_path(), None),
            Target::Dynamic { option, root } => {
                dynamic = dynamic_path(message.option(*option))?;
                (dynamic.as_path(), root.as_deref())
            }
        };
        match self.handles.iter().rposition(|handle| handle.path == path) {
            Some(at) if at + 1 == self.handles.len() => {}
            Some(at) => {
                let handle = self.handles.remove(at);
                self.handles.push(handle);
            }
            None => {
                let path = path.to_path_buf();
                if self.handles.len() >= HANDLES_MAX {
                    self.handles[0].write_out()?;
                    self.handles.remove(0);
                }
                self.handles.push(Handle::open(path, root)?);
            }
        }
        Ok(self.handles.last_mut().expect("a handle was put there"))
    }
}

/// The directory of a template before what events fill in (`/data/out` of `/data/out/{{id}}.csv`).
fn root(template: &str) -> Option<PathBuf> {
    let literal = &template[..template.find("{{")?];
    let (directory, _) = literal.rsplit_once('/')?;
    let directory = if directory.is_empty() { "/" } else { directory };
    local_path(directory).ok()
}

/// A path made of event data may not leave the directory that the option names.
fn dynamic_path(uri: &str) -> Result<PathBuf, Error> {
    let failed = |cause: String| Error::failed("writing to a file named by an event", cause);
    if Path::new(uri)
        .components()
        .any(|part| part == std::path::Component::ParentDir)
    {
        return Err(failed(format!(
            "path '{uri}' contains '..': correct the attribute it is made from"
        )));
    }
    local_path(uri).map_err(|error| failed(error.to_string()))
}

fn unavailable(path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("file '{}'", path.display()), error)
}

impl Handle {
    /// `root`: no link is followed below it.
    fn open(path: PathBuf, root: Option<&Path>) -> Result<Handle, Error> {
        let open = || -> io::Result<File> {
            if let Some(root) = root {
                return beneath::append(root, &path);
            }
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            File::options().append(true).create(true).open(&path)
        };
        match open() {
            Ok(file) => Ok(Handle {
                path,
                file,
                buffer: Vec::new(),
                replaces: false,
            }),
            // It will be no other way the next time.
            Err(error) if root.is_some() && error.kind() == io::ErrorKind::InvalidInput => Err(
                Error::failed(format!("writing to file '{}'", path.display()), error),
            ),
            Err(error) => Err(unavailable(&path, error)),
        }
    }

    /// Writes what is gathered, all or nothing.
    fn write_out(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() && !self.replaces {
            return Ok(());
        }
        let mut write = || -> io::Result<()> {
            if self.replaces {
                self.file.set_len(0)?;
            }
            let before = self.file.metadata()?.len();
            self.file.write_all(&self.buffer).inspect_err(|_| {
                // What came through of it would be torn; the error of the write says what is wrong.
                self.file.set_len(before).ok();
            })
        };
        write().map_err(|error| unavailable(&self.path, error))?;
        self.buffer.clear();
        self.replaces = false;
        Ok(())
    }

    fn add(&mut self, payload: Payload<'_>, add_line_separator: bool) -> Result<(), Error> {
        match payload {
            Payload::Text(text) => {
                self.buffer.extend_from_slice(text.as_bytes());
                if add_line_separator {
                    self.buffer.push(b'\n');
                }
            }
            Payload::Bytes(bytes) => self.buffer.extend_from_slice(bytes),
            _ => {
                return Err(Error::failed(
                    format!("writing to file '{}'", self.path.display()),
                    "the payload is neither text nor bytes: use another mapper",
                ));
            }
        }
        Ok(())
    }
}

impl Sink for FileSink {
    fn connect(&mut self) -> Result<(), Error> {
        if let Target::Static(path) = &self.target
            && self.handles.is_empty()
        {
            let handle = Handle::open(path.clone(), None)?;
            self.handles.push(handle);
        }
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let (append, add_line_separator) = (self.append, self.add_line_separator);
        let handle = self.handle(message)?;
        if !append {
            handle.buffer.clear();
            handle.replaces = true;
        }
        let before = handle.buffer.len();
        handle.add(message.payload, add_line_separator)?;
        if handle.buffer.len() >= BUFFER_BYTES {
            // The message comes again; those before it stay gathered.
            let written = handle.write_out();
            if written.is_err() {
                handle.buffer.truncate(before);
            }
            return written;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.handles.iter_mut().try_for_each(Handle::write_out)
    }

    fn close(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.handles.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event::Schema;
    use lang::span::Span;
    use plan::{Mapping, Transport};

    use super::*;
    use connect::component::Environment;

    fn sink(options: &[(&str, &str)], map: &str, dynamic: &[String]) -> FileSink {
        let transport = Transport {
            ty: "file".into(),
            options: options
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            map: Mapping {
                ty: map.into(),
                options: Vec::new(),
                attributes: Vec::new(),
                payload: Vec::new(),
                span: Span::default(),
            },
            distribution: None,
            span: Span::default(),
        };
        let schema = Schema {
            name: "S".into(),
            attributes: Vec::new(),
        };
        let environment = Environment::new("A");
        FileSink::new(&SinkSetup {
            transport: &transport,
            schema: &schema,
            dynamic,
            table: None,
            environment: &environment,
            answers: &std::sync::Arc::default(),
        })
        .unwrap()
    }

    fn check(options: &[(&str, &str)], map: &str, texts: &[&str], expect: &str) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/out.txt");
        let uri = format!("file:{}", path.display());
        let mut all = vec![("file.uri", uri.as_str())];
        all.extend(options);
        let mut sink = sink(&all, map, &[]);
        sink.connect().unwrap();
        for text in texts {
            sink.publish(&Message::of(Payload::Text(text))).unwrap();
            sink.flush().unwrap();
        }
        sink.close().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), expect);
    }

    // shows: sink file open
    #[test]
    fn payloads_are_added_or_replace_the_file() {
        check(&[], "json", &["a", "b"], "a\nb\n");
        check(
            &[("add.line.separator", "false")],
            "json",
            &["a", "b"],
            "ab",
        );
        check(&[], "csv", &["a\n", "b\n"], "a\nb\n");
        check(&[("append", "false")], "json", &["long one", "b"], "b\n");
    }

    #[test]
    fn a_path_made_of_the_event_stays_below_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = sink(&[("file.uri", "{{p}}")], "json", &["file.uri".into()]);
        sink.connect().unwrap();
        for i in 0..100 {
            for text in ["1", "2"] {
                let option = [format!("{}/f{i}", directory.path().display())];
                sink.publish(&Message::with_options(Payload::Text(text), &option))
                    .unwrap();
            }
        }
        assert!(sink.handles.len() <= HANDLES_MAX);
        sink.close().unwrap();
        for i in 0..100 {
            let text = fs::read_to_string(directory.path().join(format!("f{i}"))).unwrap();
            assert_eq!(text, "1\n2\n");
        }
        let option = [format!("{}/../f", directory.path().display())];
        let error = sink
            .publish(&Message::with_options(Payload::Text("x"), &option))
            .unwrap_err();
        assert!(!error.is_unavailable());
    }

    #[test]
    fn a_link_below_the_directory_of_the_option_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(directory.path(), root.join("way")).unwrap();
        let template = format!("file:{}/{{{{p}}}}.txt", root.display());
        let mut sink = sink(&[("file.uri", &template)], "json", &["file.uri".into()]);
        sink.connect().unwrap();
        let mut publish = |name: &str| {
            let option = [template.replace("{{p}}", name)];
            sink.publish(&Message::with_options(Payload::Text("x"), &option))
        };
        publish("deep/a").unwrap();
        let error = publish("way/b").unwrap_err();
        assert!(!error.is_unavailable(), "{error}");
        sink.close().unwrap();
        assert_eq!(fs::read_to_string(root.join("deep/a.txt")).unwrap(), "x\n");
        assert!(!directory.path().join("b.txt").exists());
    }

    // shows: sink file lost
    #[test]
    fn what_could_not_be_written_is_written_later_once() {
        let mut sink = sink(&[("file.uri", "/dev/full")], "json", &[]);
        sink.connect().unwrap();
        sink.publish(&Message::of(Payload::Text("a"))).unwrap();
        assert!(sink.flush().unwrap_err().is_unavailable());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        sink.handles[0].file = File::create(&path).unwrap();
        sink.flush().unwrap();
        sink.flush().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "a\n");
    }
}
