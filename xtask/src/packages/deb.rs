//! The Debian package: what lintian and systemd say of it, and what it does to a clean system.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::Outcome;
use super::root::{Root, Service, curl, eventually, is_installed, missing};
use super::unit::{Unit, variables};
use crate::dist::{Release, container, deb, output};

pub const UNIT: &str = "/lib/systemd/system/headwater.service";

const UNIT_SOURCE: &str = "packaging/systemd/headwater.service";
const ENVIRONMENT_SOURCE: &str = "packaging/etc/headwater.env";

/// The highest exposure that `systemd-analyze security` may find, of 100: below 20 it says OK.
const EXPOSURE_MAX: &str = "20";

/// Time in which a service reports that it is alive.
const ALIVE: Duration = Duration::from_secs(60);

pub const APP: &str = "@app:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:{port}/orders', @map(type='json'))
define stream Orders (id string, amount double);
@primaryKey('id')
define table Totals (id string, amount double, orders long);
from Orders select id, sum(amount) as amount, count() as orders group by id
update or insert into Totals set Totals.amount = amount, Totals.orders = orders on Totals.id == id;
";

/// What can be judged of the inputs of the packages, in a second: the unit, the scripts, and that the
/// program takes the words that it is started with.
pub fn unit(release: &Release) -> anyhow::Result<Outcome> {
    let text = fs::read_to_string(UNIT_SOURCE).context(UNIT_SOURCE)?;
    let unit = Unit::parse(&text);
    let environment = fs::read_to_string(ENVIRONMENT_SOURCE).context(ENVIRONMENT_SOURCE)?;
    takes(release, &unit.command(&variables(&environment))?[1..])?;
    takes(release, &container::words()?[1..])?;
    let grace = unit.seconds("TimeoutStopSec")?;
    ensure!(
        grace > Duration::from_secs(5),
        "it is killed before --grace is over"
    );
    for script in ["postinst", "prerm", "postrm"] {
        output(
            Command::new("sh")
                .arg("-n")
                .arg(format!("packaging/debian/{script}")),
        )?;
    }
    if !is_installed("systemd-analyze") {
        return Ok(Outcome::Skipped(
            "'systemd-analyze' is not installed to judge the unit".into(),
        ));
    }
    // The program lies elsewhere here; nothing but the unit itself is looked at.
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("headwater.service");
    let program = std::path::absolute(&release.binary.path)?
        .display()
        .to_string();
    fs::write(&file, text.replace("/usr/bin/headwater", &program))?;
    let mut verify = Command::new("systemd-analyze");
    verify
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&file);
    let said = verify.output()?;
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(
        said.status.success() && errors.trim().is_empty(),
        "systemd-analyze verify: {errors}"
    );
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=yes", "--no-pager"]);
    security
        .arg(format!("--threshold={EXPOSURE_MAX}"))
        .arg(&file);
    println!(
        "{}",
        output(&mut security)?.lines().last().unwrap_or_default()
    );
    Ok(Outcome::Passed)
}

/// The program knows each of these options: with a word for help at the end, it answers with its help.
pub fn takes(release: &Release, words: &[String]) -> anyhow::Result<()> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.push("--help");
    release.binary.run(&words).map(drop)
}

/// The package, as lintian judges it.
pub fn lint(release: &Release) -> anyhow::Result<Outcome> {
    if !is_installed("lintian") {
        return Ok(Outcome::Skipped("'lintian' is not installed".into()));
    }
    let package = deb::make(release)?;
    let mut lintian = Command::new("lintian");
    lintian.args([
        "--allow-root",
        "--fail-on",
        "error,warning",
        "--show-overrides",
    ]);
    // Words in other people's libraries are not ours to correct.
    let mut tags = vec!["spelling-error-in-binary"];
    if !release.is_published {
        // What is wrong with a program that is not published is not wrong with the package.
        tags.extend([
            "unstripped-binary-or-object",
            "hardening-no-fortify-functions",
        ]);
    }
    lintian
        .args(["--suppress-tags", &tags.join(",")])
        .arg(&package);
    let said = lintian.output()?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    println!("{}", text.trim_end());
    ensure!(said.status.success(), "lintian finds errors or warnings");
    Ok(Outcome::Passed)
}

/// A package in a clean system, its life long.
pub fn installed(release: &Release) -> anyhow::Result<Outcome> {
    if let Some(why) = missing() {
        return Ok(Outcome::Skipped(why));
    }
    let root = Root::clean(&needed(release))?;
    root.install(&deb::make(release)?)?;
    check_installed(&root)?;
    let unit = Unit::parse(&root.read(UNIT)?);
    let address = listen_at_a_free_port(&root)?;
    let port = testservers::free_port()?;
    root.write(
        "/etc/headwater/apps/shop.siddhi",
        &APP.replace("{port}", &port.to_string()),
    )?;

    let mut service = Service::start(&root, &unit)?;
    service.hear("WATCHDOG=1", ALIVE)?;
    let (status, body) = curl(&[&format!("http://{address}/ready")])?;
    ensure!(status == 200, "/ready answers {status}: {body}");
    order(port)?;
    totals(&address, None, 1)?;
    service.stop()?;

    // The state and what the administrator has changed outlive the old version.
    let settings = root.read("/etc/headwater/headwater.env")?;
    root.install(&deb::make_version(
        release,
        &format!("{}+upgraded", release.version),
    )?)?;
    ensure!(
        root.read("/etc/headwater/headwater.env")? == settings,
        "settings were overwritten"
    );
    let service = Service::start(&root, &unit)?;
    totals(&address, None, 1)?;
    order(port)?;
    totals(&address, None, 2)?;
    service.stop()?;

    root.run(&["dpkg", "--remove", "headwater"])?;
    ensure!(
        !root.path("/usr/bin/headwater").exists(),
        "the program is still there"
    );
    ensure!(
        root.path("/var/lib/headwater/state").is_dir(),
        "the state went with the program"
    );
    ensure!(
        root.read("/etc/headwater/headwater.env")? == settings,
        "the settings went"
    );
    root.run(&["dpkg", "--purge", "headwater"])?;
    for gone in ["/var/lib/headwater", "/etc/headwater", UNIT] {
        ensure!(
            !root.path(gone).exists(),
            "{gone} is still there after a purge"
        );
    }
    let user = root.run(&["getent", "passwd", "headwater"]);
    ensure!(user.is_err(), "the user is still there after a purge");
    Ok(Outcome::Passed)
}

/// Packages that a program needs which is not published.
pub fn needed(release: &Release) -> Vec<&'static str> {
    match release.binary.foreign().is_empty() {
        true => Vec::new(),
        false => vec!["libssl3", "zlib1g"],
    }
}

fn check_installed(root: &Root) -> anyhow::Result<()> {
    let version = root.run(&["headwater", "version"])?;
    ensure!(version.starts_with("headwater "), "{version}");
    let expected = [
        ("/var/lib/headwater", "headwater:headwater 700"),
        ("/etc/headwater/apps", "headwater:headwater 755"),
        ("/etc/headwater/headwater.env", "root:root 640"),
    ];
    for (path, owner) in expected {
        let found = root.owner(path)?;
        ensure!(found == owner, "{path} is of {found}, not {owner}");
    }
    Ok(())
}

/// As an administrator would set it; where it listens.
pub fn listen_at_a_free_port(root: &Root) -> anyhow::Result<String> {
    const FILE: &str = "/etc/headwater/headwater.env";
    let address = format!("127.0.0.1:{}", testservers::free_port()?);
    let text = root.read(FILE)?;
    let changed = text.replace("127.0.0.1:9090", &address);
    ensure!(changed != text, "{FILE} names no address");
    root.write(FILE, &changed)?;
    Ok(address)
}

pub fn order(port: u16) -> anyhow::Result<()> {
    let url = format!("http://127.0.0.1:{port}/orders");
    let event = r#"{"event":{"id":"tea","amount":2.5}}"#;
    let (status, body) = curl(&["--data", event, &url])?;
    ensure!(status == 200, "the event is answered by {status}: {body}");
    Ok(())
}

/// The header of a token; without one, none.
pub fn login(token: Option<&str>) -> String {
    token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {token}")
    })
}

/// The table has the sum of so many orders; a server with users wants a token.
pub fn totals(address: &str, token: Option<&str>, orders: u32) -> anyhow::Result<()> {
    let url = format!("http://{address}/stores/query");
    let question = r#"{"appName":"Shop","query":"from Totals select id, amount, orders"}"#;
    let expected = format!(r#"["tea",{:.1},{orders}]"#, 2.5 * f64::from(orders));
    let mut last = String::new();
    let mut ask = || {
        let (login, json) = (login(token), "Content-Type: application/json");
        let (status, body) = curl(&[
            "--header", &login, "--header", json, "--data", question, &url,
        ])?;
        last = format!("{status} {body}");
        Ok(status == 200 && body.replace(' ', "").contains(&expected))
    };
    let asked = eventually(&format!("the table has {expected}"), &mut ask);
    asked.with_context(|| last)
}
