//! `check --connect`: can what the apps name be reached, and is it as they need it?
//!
//! Looks at folders and files, logs in to databases and compares their tables with the definitions,
//! dials what sinks and sources connect to. Makes nothing, moves nothing, sends nothing.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use connect::component::{Difference, Environment, SourceSetup, StoreSetup};
use connect::file_uri::local_path;
use connect::registry::Registry;
use lang::source::LineIndex;
use lang::span::Span;
use plan::spec::{ConnectorKind, FileUse};
use plan::{Plan, Table, Transport};

use crate::deployment::LoadedApp;
use crate::report::chain;

/// Longest wait for an address.
const DIAL_MAX: Duration = Duration::from_secs(3);

/// Something that cannot be reached, or is other than the app needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub app: String,
    /// The file of the app, and where in it: the annotation, with lines and columns from 1.
    pub file: String,
    pub line: u32,
    pub column: u32,
    /// `table 'T'`, `S: source 'kafka'`.
    pub element: String,
    pub message: String,
    /// What to do next.
    pub help: Option<String>,
    pub is_reached: bool,
}

/// All findings, by app in the order of its text.
pub fn findings(apps: &[LoadedApp], registry: &Registry) -> Vec<Finding> {
    let mut found = Vec::new();
    for app in apps {
        let Some(plan) = &app.plan else { continue };
        let mut report = Report {
            app,
            plan,
            environment: Environment::new(&plan.name),
            registry: *registry,
            lines: LineIndex::new(&app.text_as_run),
            found: Vec::new(),
        };
        report.look();
        report
            .found
            .sort_by_key(|finding| (finding.line, finding.column));
        found.append(&mut report.found);
    }
    found
}

struct Report<'a> {
    app: &'a LoadedApp,
    plan: &'a Plan,
    environment: Environment,
    registry: Registry,
    lines: LineIndex,
    found: Vec<Finding>,
}

impl Report<'_> {
    fn look(&mut self) {
        for stream in &self.plan.streams {
            let name = stream.display_name();
            for source in &stream.sources {
                let element = format!("{name}: source '{}'", source.ty);
                let probed = self.source(source, &stream.schema);
                self.note(&element, source.span, probed);
                self.transport(&element, ConnectorKind::Source, source);
            }
            for sink in &stream.sinks {
                let element = format!("{name}: sink '{}'", sink.ty);
                self.transport(&element, ConnectorKind::Sink, sink);
            }
        }
        for table in &self.plan.tables {
            self.table(table);
        }
    }

    fn table(&mut self, table: &Table) {
        let Some(store) = &table.store else { return };
        let element = format!("table '{}'", table.schema.name);
        let url = store.option("jdbc.url");
        if let Some(path) = url.and_then(|url| url.strip_prefix("jdbc:sqlite:"))
            && let Err(cause) = writable_below(Path::new(path))
        {
            self.note_path(&element, store.span, Err(cause));
            return;
        }
        let Some(connector) = self.registry.find(ConnectorKind::Store, &store.ty) else {
            return;
        };
        let setup = StoreSetup {
            table,
            environment: &self.environment,
        };
        let probed = connector.store(&setup).and_then(|mut store| store.probe());
        self.note(&element, store.span, probed);
    }

    /// What a source says that looks itself at what it reads.
    fn source(
        &self,
        source: &Transport,
        schema: &event::Schema,
    ) -> Result<Vec<Difference>, connect::Error> {
        let connector = self.registry.find(ConnectorKind::Source, &source.ty);
        let spec = self.registry.spec(ConnectorKind::Source, &source.ty);
        let (Some(connector), Some(spec)) = (connector, spec) else {
            return Ok(Vec::new());
        };
        let is_written = |option: &&str| source.option(option).is_some();
        if !spec.probes || spec.probe_unless.iter().any(is_written) {
            return Ok(Vec::new());
        }
        let setup = SourceSetup {
            transport: source,
            schema,
            environment: &self.environment,
        };
        connector
            .source(&setup)
            .and_then(|mut source| source.probe())
    }

    /// Looks at the files and addresses that its options name.
    fn transport(&mut self, element: &str, kind: ConnectorKind, transport: &Transport) {
        let Some(spec) = self.registry.spec(kind, &transport.ty) else {
            return;
        };
        let constant = |option: &str| {
            let text = transport.option(option);
            text.filter(|text| !text.contains("{{"))
        };
        let files = spec.files.iter();
        let unusable =
            files.filter_map(|(option, needed)| Some((*option, *needed, constant(option)?)));
        let unusable = unusable.map(|(option, needed, uri)| look_at_file(option, needed, uri));
        if let Some(Err(cause)) = unusable.into_iter().find(Result::is_err) {
            self.push(element, transport.span, cause, None, false);
        }
        for (option, port) in spec.addresses {
            let Some(text) = constant(option) else {
                continue;
            };
            if let Err(cause) = dial_any(text, *port) {
                let message = format!("cannot reach the target of option '{option}': {cause}");
                self.push(element, transport.span, message, None, false);
            }
        }
    }

    fn note_path(&mut self, element: &str, span: Span, looked: Result<(), String>) {
        if let Err(cause) = looked {
            self.push(element, span, cause, None, false);
        }
    }

    fn note(&mut self, element: &str, span: Span, probed: Result<Vec<Difference>, connect::Error>) {
        match probed {
            Ok(differences) => {
                for Difference { message, help } in differences {
                    self.push(element, span, message, Some(help), true);
                }
            }
            Err(error) => self.push(element, span, chain(&error), None, false),
        }
    }

    fn push(
        &mut self,
        element: &str,
        span: Span,
        message: String,
        help: Option<String>,
        is_reached: bool,
    ) {
        let at = self.lines.position(&self.app.text_as_run, span.start);
        self.found.push(Finding {
            app: self.plan.name.clone(),
            file: self.app.file.clone(),
            line: at.line,
            column: at.column,
            element: element.to_owned(),
            message,
            help,
            is_reached,
        });
    }
}

/// One of the addresses between commas answers.
fn dial_any(text: &str, default_port: u16) -> Result<(), String> {
    let mut last = "no address is named".to_owned();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (host, port) = address(part, default_port);
        match dial(&host, port) {
            Ok(()) => return Ok(()),
            Err(error) => last = format!("{host}:{port}: {error}"),
        }
    }
    Err(last)
}

fn dial(host: &str, port: u16) -> std::io::Result<()> {
    let mut last = std::io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, DIAL_MAX) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Host and port of `scheme://user:password@host:port/path`, `host:port` or `[::1]:port`.
fn address(text: &str, default_port: u16) -> (String, u16) {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    let default_port = match scheme {
        "https" => 443,
        "amqps" => 5671,
        "ssl" | "mqtts" => 8883,
        _ => default_port,
    };
    let bracketed = place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port.and_then(|port| port.parse().ok());
    (host.to_owned(), port.unwrap_or(default_port))
}

/// Can the file or directory that an option names be used as it is needed?
fn look_at_file(option: &str, needed: FileUse, uri: &str) -> Result<(), String> {
    let path = local_path(uri).map_err(|e| e.to_string())?;
    let is_there = match needed {
        FileUse::ReadDirectory => path.is_dir(),
        FileUse::ReadFile => std::fs::File::open(&path).is_ok(),
        FileUse::WriteFile => return writable_below(&path),
    };
    match is_there {
        true => Ok(()),
        false => Err(format!(
            "'{}' of option '{option}' cannot be read",
            path.display()
        )),
    }
}

/// The file, or the nearest folder above it that exists, may be written.
fn writable_below(path: &Path) -> Result<(), String> {
    let existing = path.ancestors().find(|p| p.exists());
    let existing = match existing {
        Some(existing) => existing,
        // A bare name: the current directory.
        None => Path::new("."),
    };
    let refused = |cause: String| format!("'{}' cannot be written: {cause}", path.display());
    if existing.is_file() {
        let opened = std::fs::File::options().append(true).open(existing);
        return opened.map(drop).map_err(|e| refused(e.to_string()));
    }
    let permissions = std::fs::metadata(existing).map_err(|e| refused(e.to_string()))?;
    if permissions.permissions().readonly() {
        return Err(refused(format!("'{}' is read-only", existing.display())));
    }
    Ok(())
}

/// Bytes that a file source finds at its start, for the progress bar; 0 where that is not known.
pub(crate) fn bytes_waiting(source: &Transport) -> u64 {
    let is_followed = source.option("tailing").is_none_or(|t| t != "false");
    if source.ty != "file" || is_followed {
        return 0;
    }
    let path = |option: &str| source.option(option).and_then(|uri| local_path(uri).ok());
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    if let Some(file) = path("file.uri") {
        return size(&file);
    }
    let Some(entries) = path("dir.uri").and_then(|dir| std::fs::read_dir(dir).ok()) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.is_file())
        .map(|p| size(&p))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_endpoints() {
        let check = |text: &str, host: &str, port: u16| {
            assert_eq!(address(text, 80), (host.to_owned(), port), "{text}");
        };
        check("http://h:8080/path", "h", 8080);
        check("https://user:p@ss@h/path?x=1", "h", 443);
        check("h", "h", 80);
        check("tcp://[::1]:9/x", "::1", 9);
        assert!(dial_any("", 80).is_err());
    }

    #[test]
    fn a_file_in_a_folder_that_is_there_can_be_written() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(writable_below(&dir.path().join("new/deep/file")), Ok(()));
        assert_eq!(writable_below(Path::new("bare-name")), Ok(()));
    }
}
