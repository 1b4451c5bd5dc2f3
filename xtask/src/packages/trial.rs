//! What an operator goes through with the installed package: a user with a token, an app that is deployed over
//! HTTP, a broker that dies under load, an upgrade with its state, a backup, and a restore on another folder.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;
use testservers::{Order, Running};

use super::Outcome;
use super::deb::{APP, UNIT, listen_at_a_free_port, login, needed, order, totals};
use super::root::{Root, Service, curl, eventually, is_installed, missing};
use super::unit::Unit;
use crate::dist::{Release, deb, output};

/// Where the backup is restored to.
const ELSEWHERE: &str = "/var/lib/headwater/elsewhere";
const STATE: &str = "/var/lib/headwater/state";
const BACKUP: &str = "/var/lib/headwater/backup";

/// Longest time until a report follows from what was done.
const REPORTED: Duration = Duration::from_secs(60);

const TOPIC: &str = "orders";

const PIPE: &str = "@app:name('Pipe')
@source(type='http', receiver.url='http://127.0.0.1:{port}/numbers', @map(type='json'))
@sink(type='kafka', bootstrap.servers='{broker}', topic='orders', on.error='WAIT', @map(type='json'))
define stream Numbers (number long);
";

pub fn run(release: &Release) -> anyhow::Result<Outcome> {
    if let Some(why) = missing() {
        return Ok(Outcome::Skipped(why));
    }
    if !is_installed("kcat") {
        return Ok(Outcome::Skipped("'kcat' is not installed".into()));
    }
    let Some(mut broker) = Order::new().start_or_skip("kafka") else {
        return Ok(Outcome::Skipped("no Kafka".into()));
    };
    let root = Root::clean(&needed(release))?;
    root.install(&deb::make(release)?)?;
    let unit = Unit::parse(&root.read(UNIT)?);
    let address = listen_at_a_free_port(&root)?;
    let (shop, pipe) = (testservers::free_port()?, testservers::free_port()?);
    root.write(
        "/etc/headwater/apps/shop.siddhi",
        &APP.replace("{port}", &shop.to_string()),
    )?;
    let user = unit.get("User")?;
    let users = |words: &[&str]| {
        let words = [&["headwater", "users"], words, &["anna", "--state", STATE]].concat();
        root.run_as(user, &words)
    };
    users(&["add", "--role", "deploy"])?;
    let token = users(&["token"])?;
    let token = Some(token.trim());
    let mut service = Service::start(&root, &unit)?;
    order(shop)?;

    say("a second app is deployed over HTTP, with a token");
    let text = PIPE
        .replace("{port}", &pipe.to_string())
        .replace("{broker}", &broker.endpoint());
    deployed(&address, token, &text)?;
    order(shop)?;
    totals(&address, token, 2)?;

    say("the broker is killed under load, and comes back");
    numbers(pipe, 1..=100)?;
    broker.kill();
    service.hear(
        "STATUS=2 apps run; away: sink 'Numbers' (kafka) of app 'Pipe'",
        REPORTED,
    )?;
    // Nobody is told that these have arrived.
    let answer = post(pipe, 101..=200)?;
    ensure!(
        answer == 503,
        "events for a dead broker are answered with {answer}"
    );
    broker.restart().context("the broker does not come back")?;
    service.hear("STATUS=2 apps run", REPORTED)?;
    // As a client does that is told to come again.
    let began = Instant::now();
    let taken = eventually("what was refused is taken", || {
        Ok(post(pipe, 101..=200)? == 200)
    });
    taken.with_context(|| service.log())?;
    println!(
        "trial: taken {:.1} s after the broker was back",
        began.elapsed().as_secs_f64()
    );
    all_are_there(&broker, 200)?;

    say("the package is upgraded; the state goes on");
    let next = format!("{}+upgraded", release.version);
    root.install(&deb::make_version(release, &next)?)?;
    service.stop()?;
    let mut service = Service::start(&root, &unit)?;
    totals(&address, token, 2)?;
    service.hear("WATCHDOG=1", REPORTED)?;

    say("a backup of the running server, and a restore on another folder");
    root.run_as(user, &["headwater", "state", "copy", STATE, BACKUP])?;
    root.run_as(user, &["headwater", "state", "verify", BACKUP])?;
    order(shop)?;
    totals(&address, token, 3)?;
    service.stop()?;
    root.run_as(user, &["headwater", "state", "restore", BACKUP, ELSEWHERE])?;
    let moved = Unit::parse(&root.read(UNIT)?.replace(STATE, ELSEWHERE));
    let service = Service::start(&root, &moved)?;
    totals(&address, token, 2)?;
    order(shop)?;
    totals(&address, token, 3)?;
    service.stop()?;
    Ok(Outcome::Passed)
}

/// Deploys the second app, which nobody may without a login.
fn deployed(address: &str, token: Option<&str>, text: &str) -> anyhow::Result<()> {
    let url = format!("http://{address}/siddhi-apps");
    let post = |token| {
        let (login, kind) = (login(token), "Content-Type: application/siddhi");
        curl(&[
            "--header",
            &login,
            "--header",
            kind,
            // An app begins with an @, which is a file to others.
            "--data-raw",
            text,
            &url,
        ])
    };
    let (status, body) = post(None)?;
    ensure!(status == 401, "without a login: {status} {body}");
    let (status, body) = post(token)?;
    ensure!(status == 201, "the app is answered with {status} {body}");
    let (login, url) = (login(token), format!("{url}/Pipe/status"));
    eventually("the app is active", || {
        let (status, body) = curl(&["--header", &login, &url])?;
        Ok(status == 200 && body.replace(' ', "").contains(r#""status":"active""#))
    })
}

fn say(what: &str) {
    println!("trial: {what}");
}

/// Sends numbers in one request; its status.
fn post(port: u16, numbers: std::ops::RangeInclusive<u32>) -> anyhow::Result<u16> {
    let events: Vec<String> = numbers
        .map(|number| format!(r#"{{"event":{{"number":{number}}}}}"#))
        .collect();
    let url = format!("http://127.0.0.1:{port}/numbers");
    let (status, _) = curl(&["--data", &format!("[{}]", events.join(",")), &url])?;
    Ok(status)
}

fn numbers(port: u16, numbers: std::ops::RangeInclusive<u32>) -> anyhow::Result<()> {
    let status = post(port, numbers.clone())?;
    ensure!(status == 200, "{numbers:?} are answered with {status}");
    Ok(())
}

/// Each number is in the topic; those whose sender was told to send them again may be there twice.
fn all_are_there(broker: &Running, last: u32) -> anyhow::Result<()> {
    let mut kcat = Command::new("kcat");
    kcat.args(["-q", "-C", "-e", "-t", TOPIC, "-b", &broker.endpoint()]);
    let read = output(&mut kcat)?;
    let mut times = vec![0u32; last as usize + 1];
    for line in read.lines() {
        // Events that went together are a list.
        let json: Json = serde_json::from_str(line)?;
        let events = match json {
            Json::Array(events) => events,
            event => vec![event],
        };
        for event in events {
            let number = event["event"]["number"]
                .as_u64()
                .context("an event without a number")?;
            let time = times.get_mut(number as usize);
            *time.with_context(|| format!("nobody sent {number}"))? += 1;
        }
    }
    let lost: Vec<usize> = (1..=last as usize)
        .filter(|&number| times[number] == 0)
        .collect();
    ensure!(lost.is_empty(), "lost: {lost:?}");
    let doubled: Vec<usize> = (1..=100).filter(|&number| times[number] > 1).collect();
    ensure!(
        doubled.is_empty(),
        "there twice, though their sender had an answer: {doubled:?}"
    );
    let all: u32 = times.iter().sum();
    println!("trial: {all} events in the topic, none of {last} is lost");
    Ok(())
}
