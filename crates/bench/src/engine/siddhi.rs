//! The reference as a child process: a small Java program around siddhi-core, built at first use.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail};

use super::events::Events;
use super::{Sample, Scenario};

const POM: &str = include_str!("../../siddhi/pom.xml");
const RUNNER: &str = include_str!("../../siddhi/src/main/java/headwater/bench/Runner.java");

/// Heap of the child: all events of the largest scenario as text, and plenty for the engine.
const HEAP: &str = "-Xmx3g";

pub(super) struct Siddhi {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    version: String,
}

impl Siddhi {
    /// Builds the program where that has not been done, and starts it.
    pub fn start(dir: &Path, progress: fn(&str)) -> anyhow::Result<Siddhi> {
        let home = build(dir, progress)?;
        let classes = home.join("target/bench-siddhi.jar");
        let libraries = home.join("target/lib/*");
        let path = format!("{}:{}", classes.display(), libraries.display());
        let mut child = Command::new("java")
            .args([HEAP, "-Duser.timezone=UTC", "-cp", &path])
            .arg("headwater.bench.Runner")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start 'java'")?;
        let commands = child.stdin.take().context("java has no standard input")?;
        let answers = child.stdout.take().context("java has no standard output")?;
        let mut siddhi = Siddhi {
            child,
            commands,
            answers: BufReader::new(answers),
            version: String::new(),
        };
        let ready = siddhi.answer("ready")?;
        let java = ready.split('\t').nth(1).unwrap_or("").to_owned();
        siddhi.version = format!("siddhi-core {}, {java}", siddhi_version());
        Ok(siddhi)
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn load(&mut self, dir: &Path, scenario: &Scenario, events: &Events) -> anyhow::Result<()> {
        let (app, file) = (dir.join("app.siddhi"), dir.join("events.tsv"));
        std::fs::write(&app, scenario.app)?;
        std::fs::write(&file, events.to_text())?;
        let output = scenario.output;
        self.ask(&format!(
            "load\t{}\t{}\t{output}",
            app.display(),
            file.display()
        ))?;
        self.answer("loaded")?;
        Ok(())
    }

    /// What comes out, a line for each row.
    pub fn rows(&mut self, dir: &Path, chunk: usize) -> anyhow::Result<Vec<String>> {
        let file = dir.join("rows.tsv");
        self.ask(&format!("verify\t{chunk}\t{}", file.display()))?;
        self.answer("rows")?;
        let text = std::fs::read_to_string(file)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    pub fn pass(&mut self, chunk: usize) -> anyhow::Result<Sample> {
        self.ask(&format!("pass\t{chunk}"))?;
        let answer = self.answer("pass")?;
        let figures: Vec<u64> = answer.split(' ').map_while(|f| f.parse().ok()).collect();
        let [thread_ns, process_ns, wall_ns, rows] = figures[..] else {
            bail!("siddhi-core answered '{answer}'");
        };
        Ok(Sample {
            thread_ns,
            process_ns,
            wall_ns,
            rows,
        })
    }

    fn ask(&mut self, command: &str) -> anyhow::Result<()> {
        writeln!(self.commands, "{command}")?;
        self.commands.flush()?;
        Ok(())
    }

    /// The rest of the next line, which must begin with `word`.
    fn answer(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim_end().split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.to_owned()),
            _ => bail!("siddhi-core answered '{}'", line.trim_end()),
        }
    }
}

impl Drop for Siddhi {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The version that the build file names.
fn siddhi_version() -> &'static str {
    let after = POM.split_once("<artifactId>siddhi-core</artifactId>");
    after
        .and_then(|(_, rest)| rest.split_once("<version>")?.1.split_once("</version>"))
        .map_or("", |(version, _)| version)
}

/// The folder with the built program; one that was built from other sources is built again.
fn build(dir: &Path, progress: fn(&str)) -> anyhow::Result<PathBuf> {
    let home = dir.join("siddhi");
    let source = home.join("src/main/java/headwater/bench/Runner.java");
    let pom = home.join("pom.xml");
    let is_same = |path: &Path, text: &str| std::fs::read_to_string(path).is_ok_and(|t| t == text);
    let is_built = home.join("target/bench-siddhi.jar").is_file()
        && is_same(&pom, POM)
        && is_same(&source, RUNNER);
    if is_built {
        return Ok(home);
    }
    progress("building the program around siddhi-core (once)");
    let folder = source.parent().context("the source lies in a folder")?;
    std::fs::create_dir_all(folder)?;
    std::fs::write(&source, RUNNER)?;
    std::fs::write(&pom, POM)?;
    let built = Command::new("mvn")
        .args(["-q", "-B", "package"])
        .current_dir(&home)
        .stdin(Stdio::null())
        .output()
        .context("cannot start 'mvn'")?;
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stdout);
        let first = said.lines().find(|l| l.contains("ERROR")).unwrap_or("");
        bail!("'mvn package' failed: {first}");
    }
    Ok(home)
}
