//! What the tests of connectors to brokers share: a folder with rows to send, apps made of templates,
//! and what came back.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::network::Running;

/// Apps that exchange rows by a server.
pub struct Apps {
    dir: TempDir,
    port: u16,
    pub rows: String,
}

impl Apps {
    /// `in.csv` holds so many rows (n long, text string).
    pub fn new(port: u16, rows: u64) -> Apps {
        let dir = tempfile::tempdir().expect("a folder");
        let mut text = String::new();
        for n in 0..rows {
            writeln!(text, "{n},row {n} é").expect("it grows");
        }
        fs::write(dir.path().join("in.csv"), &text).expect("the folder can be written");
        Apps {
            dir,
            port,
            rows: text,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Writes an app: `{dir}`, `{port}` and `{options}` are filled in.
    pub fn write(&self, name: &str, app: &str, options: &str) -> String {
        let app = app
            .replace("{dir}", &self.dir.path().display().to_string())
            .replace("{port}", &self.port.to_string())
            .replace("{options}", options)
            .replace(", ,", ",");
        let path = self.path(&format!("{name}.siddhi"));
        fs::write(&path, app).expect("the folder can be written");
        path
    }

    /// A deployment file with properties of extensions: namespace, name, properties.
    pub fn deployment(&self, extensions: &[(&str, &str, Vec<(&str, &str)>)]) -> String {
        let mut text = "siddhi:\n  extensions:\n".to_owned();
        for (namespace, name, properties) in extensions {
            writeln!(
                text,
                "    - extension:\n        name: {name}\n        namespace: {namespace}\n        properties:"
            )
            .expect("it grows");
            for (key, value) in properties {
                writeln!(text, "          {key}: '{value}'").expect("it grows");
            }
        }
        let path = self.path("deployment.yaml");
        fs::write(&path, text).expect("the folder can be written");
        path
    }

    /// Leaves the first so many rows in `in.csv`; [`Apps::add_rest`] brings the others.
    pub fn hold_back(&self, first: usize) {
        let rows: String = self.rows.split_inclusive('\n').take(first).collect();
        fs::write(self.path("in.csv"), rows).expect("the folder can be written");
    }

    /// Adds the rows behind the first so many, for who follows the file.
    pub fn add_rest(&self, first: usize) {
        let rows: String = self.rows.split_inclusive('\n').skip(first).collect();
        let mut file = fs::File::options()
            .append(true)
            .open(self.path("in.csv"))
            .expect("it is there");
        file.write_all(rows.as_bytes()).expect("there is room");
    }

    pub fn last_row(&self) -> &str {
        self.rows.lines().last().expect("there are rows")
    }

    pub fn received(&self) -> String {
        let text = fs::read_to_string(self.path("out.csv")).unwrap_or_default();
        // A row that is being written is not there yet.
        let end = text.rfind('\n').map_or(0, |at| at + 1);
        text[..end].to_owned()
    }

    #[track_caller]
    pub fn check(&self) {
        let found = self.received();
        let counts = (self.rows.lines().count(), found.lines().count());
        let differs = self.rows.lines().zip(found.lines()).find(|(a, b)| a != b);
        assert!(
            self.rows == found,
            "{counts:?} rows sent and received, first {differs:?}"
        );
    }

    /// Each row has come, the first of each in order.
    #[track_caller]
    pub fn check_at_least_once(&self) {
        let found = self.received();
        let mut seen = HashSet::new();
        let first: Vec<&str> = found.lines().filter(|line| seen.insert(*line)).collect();
        let expect: Vec<&str> = self.rows.lines().collect();
        let differs = expect.iter().zip(&first).find(|(a, b)| a != b);
        assert!(
            expect == first,
            "{} of {} rows, first {differs:?}",
            first.len(),
            expect.len()
        );
    }
}

/// A key store of the tests.
pub fn key_file(name: &str) -> String {
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../connect/src/net/testdata");
    let path = keys.join(name).canonicalize().expect("it is there");
    path.display().to_string()
}

/// What `headwater errors` says of a state folder.
pub fn errors(state: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["errors", "list", state, "--each", "--json"])
        .output()
        .expect("the binary starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Bytes of a run that reads one row: most of them are pages of the program, which is large as tests
/// build it.
pub fn resting_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let apps = Apps::new(0, 1);
        let app = apps.write(
            "rest",
            "@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', @map(type='csv'))
define stream In (n long, text string);
",
            "",
        );
        let (code, summary) = Running::start(&[&app, "--until-done"]).end();
        assert_eq!(code, Some(0), "{summary}");
        summary["peak_rss_bytes"].as_u64().expect("a number")
    })
}
