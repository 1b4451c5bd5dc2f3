//! `cargo xtask gateway autobahn [CASE…] [--sample] [--binary PATH]`: the Autobahn test suite for WebSocket against a
//! topic of the gateway, through its proxy, and as a server against our client.
//!
//! The suite needs CPython 2.7 and comes from PyPI into an environment of its own below the build folder. Where there is
//! no such Python, that is said, and the command fails unless it was asked for a sample. A case has passed if it is OK
//! or INFORMATIONAL, and so is how it closed: NON-STRICT counts as failed.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use connect::net::websocket::{Ask, Close, Event, Opened, Unread, leave, shake};
use connect::url::Url;
use serde_json::{Value as Json, json};

use crate::cargo;

const VERSION: &str = "25.10.1";

/// The last versions for Python 2.
const PACKAGES: &[&str] = &[
    "pyOpenSSL==19.1.0",
    "cryptography==3.3.2",
    "Twisted==19.10.0",
    "autobahntestsuite==25.10.1",
];

/// Makes environments for Python 2.
const VIRTUALENV: &str = "virtualenv<20.22";

/// What runs in 20 seconds: without the cases that wait, or have long messages, and with one of those that compress.
const SAMPLE: &[&str] = &[
    "1.*", "2.*", "3.*", "4.*", "5.*", "6.1.*", "6.2.*", "6.3.*", "6.22.*", "7.1.*", "7.3.*",
    "7.5.*", "7.7.*", "7.9.*", "10.*", "12.1.1",
];

const START_MAX: Duration = Duration::from_secs(30);

/// Longest message of the suite, and what a server reads for it.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let (mut cases, mut is_sample, mut binary) = (Vec::new(), false, None);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--sample" => is_sample = true,
            "--binary" => {
                binary = Some(PathBuf::from(rest.next().context("--binary needs a path")?))
            }
            case if !case.starts_with('-') => cases.push(case.to_owned()),
            other => bail!("no option '{other}'"),
        }
    }
    let Some(wstest) = installed()? else {
        println!(
            "skipped: Autobahn needs CPython 2.7 (python2.7 in PATH, or by pyenv), and there is none"
        );
        return Ok(is_sample);
    };
    if cases.is_empty() {
        let all = if is_sample { SAMPLE } else { &["*"] };
        cases = all.iter().map(|case| (*case).to_owned()).collect();
    }
    let binary = match binary {
        Some(binary) => binary,
        None => built()?,
    };
    let dir = tempfile::tempdir()?;
    let mut reports = as_client(&wstest, &binary, dir.path(), &cases)?;
    reports.extend(as_server(&wstest, dir.path(), &cases)?);
    let (mut passed, mut failed) = (0, 0);
    for (agent, report) in &reports {
        let wrong = wrong_of(report);
        let count = report.as_object().map_or(0, serde_json::Map::len);
        ensure!(count > 0, "the suite reports no case of '{agent}'");
        println!(
            "{agent:<10} {} of {count} cases passed",
            count - wrong.len()
        );
        for case in &wrong {
            println!("  {case}");
        }
        passed += count - wrong.len();
        failed += wrong.len();
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn built() -> anyhow::Result<PathBuf> {
    let programs = cargo::build(&["build", "--package", "headwater"])?;
    let mut programs = programs.iter();
    let headwater = programs.find(|program| program["target"]["name"] == "headwater");
    let path = headwater.and_then(|program| program["executable"].as_str());
    Ok(path
        .context("cargo says not where it has put 'headwater'")?
        .into())
}

/// Cases of a report that have not passed, with what came of them.
fn wrong_of(report: &Json) -> Vec<String> {
    let cases = report.as_object().into_iter().flatten();
    let wrong = cases.filter_map(|(case, outcome)| {
        let of = |key: &str| outcome[key].as_str().unwrap_or("no word").to_owned();
        let (behaviour, close) = (of("behavior"), of("behaviorClose"));
        let is_right = [&behaviour, &close]
            .iter()
            .all(|word| matches!(word.as_str(), "OK" | "INFORMATIONAL"));
        (!is_right).then(|| format!("{case}: {behaviour}, closed {close}"))
    });
    wrong.collect()
}

/// The program of the suite, installed once; `None`: there is no Python for it.
fn installed() -> anyhow::Result<Option<PathBuf>> {
    let folder = std::path::absolute(cargo::target_folder().join(format!("autobahn-{VERSION}")))?;
    let program = folder.join("suite/bin/wstest");
    if program.is_file() {
        return Ok(Some(program));
    }
    let Some(python) = python2() else {
        return Ok(None);
    };
    println!("installing the Autobahn test suite {VERSION} from PyPI");
    let succeed = |command: &mut Command| -> anyhow::Result<()> {
        let output = command
            .stdin(Stdio::null())
            .output()
            .context("python3 is needed")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "the suite cannot be installed: {said}"
        );
        Ok(())
    };
    let pip = |of: &str| {
        let mut pip = Command::new(folder.join(of).join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        pip
    };
    succeed(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(folder.join("tools")),
    )?;
    succeed(pip("tools").arg(VIRTUALENV))?;
    let mut make = Command::new(folder.join("tools/bin/virtualenv"));
    succeed(
        make.arg("--quiet")
            .arg("--python")
            .arg(&python)
            .arg(folder.join("suite")),
    )?;
    succeed(pip("suite").args(PACKAGES))?;
    ensure!(program.is_file(), "the suite has no program 'wstest'");
    Ok(Some(program))
}

/// Where CPython 2.7 is: one of pyenv answers to its bare name only if it is chosen.
pub fn python2() -> Option<PathBuf> {
    for version in [None, Some("2.7.18")] {
        let mut python = Command::new("python2.7");
        python.args(["-c", "import sys; print(sys.executable)"]);
        if let Some(version) = version {
            python.env("PYENV_VERSION", version);
        }
        let Ok(output) = python.stderr(Stdio::null()).output() else {
            continue;
        };
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !path.is_empty() {
            return Some(path.into());
        }
    }
    None
}

/// Ended when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

fn listens(port: u16) -> anyhow::Result<()> {
    let (begun, place) = (
        Instant::now(),
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    );
    while TcpStream::connect_timeout(&place, Duration::from_secs(1)).is_err() {
        ensure!(begun.elapsed() < START_MAX, "nobody listens at {place}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}

/// Runs the suite until it ends; its reports by agent.
fn as_client(
    wstest: &Path,
    binary: &Path,
    dir: &Path,
    cases: &[String],
) -> anyhow::Result<BTreeMap<String, Json>> {
    let port = free_port()?;
    let document = dir.join("echo.yaml");
    let text = format!(
        "asyncapi: 2.6.0\ninfo: {{ title: Echo, version: '1' }}\n\
         channels: {{ /own: {{ subscribe: {{}}, publish: {{}} }}, /through: {{ subscribe: {{}}, publish: {{}} }} }}\n\
         x-headwater: {{ protocols: [ ws ], compression: true, message-max: 64MB, topics: {{ \
         /through: {{ backend: 'ws://127.0.0.1:{port}/echo/1/own' }} }} }}\n"
    );
    fs::write(&document, text)?;
    let mut server = Command::new(binary);
    server
        .arg("run")
        .arg(&document)
        .arg("--gateway")
        .arg(format!("127.0.0.1:{port}"));
    server
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _server = Ended(server.spawn().context("the server cannot be started")?);
    listens(port)?;
    let reports = dir.join("endpoints");
    let spec = json!({
        "outdir": reports,
        "servers": [
            { "agent": "endpoint", "url": format!("ws://127.0.0.1:{port}/echo/1/own") },
            { "agent": "proxy", "url": format!("ws://127.0.0.1:{port}/echo/1/through") },
        ],
        "cases": cases,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let file = dir.join("endpoints.json");
    fs::write(&file, spec.to_string())?;
    let mut suite = Command::new(wstest);
    suite
        .args(["--mode", "fuzzingclient", "--spec"])
        .arg(&file)
        .current_dir(dir);
    let output = suite.stdin(Stdio::null()).output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    read(&reports)
}

fn read(reports: &Path) -> anyhow::Result<BTreeMap<String, Json>> {
    let index = fs::read(reports.join("index.json")).context("the suite has written no report")?;
    Ok(serde_json::from_slice(&index)?)
}

/// Sends back what the suite sends, case by case.
fn as_server(
    wstest: &Path,
    dir: &Path,
    cases: &[String],
) -> anyhow::Result<BTreeMap<String, Json>> {
    let port = free_port()?;
    let reports = dir.join("clients");
    let spec = json!({
        "url": format!("ws://127.0.0.1:{port}"),
        "outdir": reports,
        "cases": cases,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let file = dir.join("clients.json");
    fs::write(&file, spec.to_string())?;
    let mut suite = Command::new(wstest);
    suite
        .args(["--mode", "fuzzingserver", "--webport", "0", "--spec"])
        .arg(&file);
    suite
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _suite = Ended(suite.current_dir(dir).spawn()?);
    listens(port)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let count = talk(port, "/getCaseCount").await?;
        let count: usize = count.trim().parse().context("the suite names no count")?;
        for case in 1..=count {
            talk(port, &format!("/runCase?case={case}&agent=client")).await?;
        }
        talk(port, "/updateReports?agent=client").await?;
        anyhow::Ok(())
    })?;
    read(&reports)
}

/// Sends back all that comes; the first text of it.
async fn talk(port: u16, path: &str) -> anyhow::Result<String> {
    let url = Url::parse(&format!("http://127.0.0.1:{port}{path}")).context("it is a URL")?;
    let line = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    line.set_nodelay(true)?;
    let headers = Default::default();
    let ask = Ask {
        url: &url,
        headers: &headers,
        message_max: MESSAGE_BYTES_MAX,
        deflate: true,
    };
    let (opened, _) = shake(line, &ask).await.map_err(anyhow::Error::msg)?;
    Ok(echo(opened).await)
}

async fn echo(opened: Opened<tokio::net::TcpStream>) -> String {
    let (mut reader, mut writer) = opened.split();
    let mut first = None;
    let close = loop {
        match reader.next().await {
            Ok(Some(Event::Message { kind, payload })) => {
                let shown = || String::from_utf8_lossy(&payload[..payload.len().min(99)]);
                first.get_or_insert_with(|| shown().into_owned());
                writer.message(kind, &payload);
                if writer.flush().await.is_err() {
                    break None;
                }
            }
            Ok(Some(Event::Ping(_) | Event::Pong(_))) => {}
            Ok(Some(Event::Close(_)) | None) => break None,
            Err(Unread::Fault(fault)) => break Some(Close::new(fault.code(), fault.to_string())),
            Err(Unread::Gone | Unread::Io(_)) => break None,
        }
    };
    let leaving = leave(reader, writer, close.as_ref());
    tokio::time::timeout(Duration::from_secs(5), leaving)
        .await
        .ok();
    first.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_strict_has_not_passed() {
        let report = json!({
            "1.1": { "behavior": "OK", "behaviorClose": "OK" },
            "1.2": { "behavior": "NON-STRICT", "behaviorClose": "OK" },
            "1.3": { "behavior": "INFORMATIONAL", "behaviorClose": "INFORMATIONAL" },
            "1.4": { "behavior": "OK", "behaviorClose": "UNCLEAN" },
            "1.5": {},
        });
        assert_eq!(
            wrong_of(&report),
            [
                "1.2: NON-STRICT, closed OK",
                "1.4: OK, closed UNCLEAN",
                "1.5: no word, closed no word"
            ]
        );
    }
}
