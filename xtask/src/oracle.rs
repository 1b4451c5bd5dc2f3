//! The oracle: Siddhi itself under a virtual clock, built once from the reference material into a
//! cache, and asked in batches because starting a JVM takes longer than hundreds of cases.
//!
//! Never: a part of what is built or shipped; without Java, Maven or the reference material the
//! checks that need it say so and are left out.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value as Json;

use crate::partner::{Partner, Silence};

/// Memory of the JVM.
const HEAP: &str = "-Xmx1g";

pub struct Oracle {
    jar: PathBuf,
    /// Milliseconds for one case.
    timeout: u64,
}

/// The folder of reference material: `--shared DIR`, `HEADWATER_SHARED`, or beside the checkout.
pub fn shared(option: Option<&str>) -> PathBuf {
    match option {
        Some(folder) => folder.into(),
        None => std::env::var_os("HEADWATER_SHARED").map_or("../shared".into(), PathBuf::from),
    }
}

impl Oracle {
    /// Finds the oracle, building it if need be.
    ///
    /// # Errors
    /// Words that say what is missing or why the build failed.
    pub fn find(shared: &Path) -> anyhow::Result<Oracle> {
        let source = shared.join("oracle");
        if !source.join("pom.xml").is_file() {
            bail!(
                "no folder '{}': the oracle's source is not there",
                source.display()
            );
        }
        for tool in ["java", "mvn"] {
            if !answers(tool) {
                bail!(
                    "'{tool}' is not installed: on Debian, apt-get install default-jdk-headless maven"
                );
            }
        }
        let place = cache_folder(&source)?;
        let jar = place.join("target/oracle.jar");
        if !jar.is_file() {
            eprintln!("building the oracle in {}", place.display());
            copy_folder(&source, &place)?;
            let built = Command::new("mvn")
                .args(["-q", "-B", "package"])
                .current_dir(&place)
                .stdin(Stdio::null())
                .output()?;
            if !built.status.success() {
                bail!(
                    "the oracle cannot be built: {}",
                    String::from_utf8_lossy(&built.stdout)
                        .lines()
                        .take(8)
                        .collect::<Vec<_>>()
                        .join("; ")
                );
            }
        }
        Ok(Oracle {
            jar,
            timeout: 20_000,
        })
    }

    pub fn with_timeout(mut self, millis: u64) -> Oracle {
        self.timeout = millis;
        self
    }

    /// Results by the ids of the cases.
    pub fn ask<'a>(
        &self,
        cases: impl Iterator<Item = &'a Json>,
    ) -> anyhow::Result<HashMap<String, Json>> {
        let folder = tempfile::tempdir()?;
        let (asked, answered) = (
            folder.path().join("cases.jsonl"),
            folder.path().join("results.jsonl"),
        );
        let mut file = std::io::BufWriter::new(fs::File::create(&asked)?);
        for case in cases {
            writeln!(file, "{case}")?;
        }
        file.flush()?;
        let run = Command::new("java")
            .args([HEAP, "-Duser.timezone=UTC", "-XX:+UseSerialGC", "-jar"])
            .arg(&self.jar)
            .arg("batch")
            .args([&asked, &answered])
            .args(["--timeout", &self.timeout.to_string()])
            .stdin(Stdio::null())
            .output()?;
        let text = fs::read_to_string(&answered).with_context(|| {
            format!(
                "the oracle wrote nothing: {}",
                String::from_utf8_lossy(&run.stderr)
            )
        })?;
        let mut results = HashMap::new();
        for line in text.lines() {
            let result: Json = serde_json::from_str(line)?;
            let id = result["id"].as_str().unwrap_or_default().to_owned();
            results.insert(id, result);
        }
        Ok(results)
    }

    /// Starts a JVM that answers one case after the other.
    ///
    /// # Errors
    /// If Java cannot be started.
    pub fn talk(&self) -> anyhow::Result<Talk> {
        let mut command = Command::new("java");
        command
            // Every case is another app: what the second compiler gains is never used.
            .args([HEAP, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
            .args(["-XX:+ExitOnOutOfMemoryError", "-Duser.timezone=UTC", "-jar"])
            .arg(&self.jar)
            .args(["batch", "/dev/stdin", "/dev/stdout"])
            .args(["--timeout", &self.timeout.to_string()]);
        Ok(Talk {
            jvm: Partner::start(&mut command)?,
            within: Duration::from_millis(self.timeout) + SLACK,
            asked: 0,
        })
    }

    /// The folder of this state of the oracle, for what is worth keeping.
    pub fn folder(&self) -> &Path {
        self.jar
            .ancestors()
            .nth(2)
            .expect("the jar is two folders down")
    }
}

/// A JVM that has been started and is warm.
pub struct Talk {
    jvm: Partner,
    within: Duration,
    asked: usize,
}

/// Cases after which a JVM is given up: what Siddhi leaves behind adds up.
const ASKED_MAX: usize = 1500;

/// For a case that the JVM itself gives up in time, on a machine that is busy.
const SLACK: Duration = Duration::from_secs(30);

impl Talk {
    /// # Errors
    /// If there is no answer; then the JVM is to be given up.
    pub fn ask(&mut self, case: &Json) -> Result<Json, Silence> {
        self.asked += 1;
        let answer = self.jvm.ask(&case.to_string(), self.within)?;
        serde_json::from_str(&answer).map_err(|error| Silence::Ended(error.to_string()))
    }

    /// Whether it can be asked further: a case that did not come to an end goes on running in it.
    pub fn is_fresh(&self, last: &Json) -> bool {
        self.asked < ASKED_MAX && last["status"] != "timeout"
    }
}

fn answers(tool: &str) -> bool {
    let asked = Command::new(tool)
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// A folder of its own for each state of the source.
fn cache_folder(source: &Path) -> anyhow::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for file in files(source)? {
        file.strip_prefix(source)?.hash(&mut hasher);
        fs::read(&file)?.hash(&mut hasher);
    }
    Ok(testservers::cache()?.join(format!("oracle-{:016x}", hasher.finish())))
}

/// The files of the source, in the order of their names; what Maven makes is left out.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            match path.is_dir() {
                true if path.ends_with("target") => {}
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    Ok(found)
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    for file in files(from)? {
        let target = to.join(file.strip_prefix(from)?);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        // Read and written anew: the source may be read-only, the copy must not be.
        fs::write(&target, fs::read(&file)?)?;
    }
    Ok(())
}
