//! `headwater state list`.

use serde_json::Value as Json;
use server::upkeep::survey::{READ_MAX, survey};

use super::copy::refusal;
use super::show::position_words;
use super::{count, size, time_and_age};
use crate::cli::state::ListArgs;
use crate::command::reply::{array, cell};
use crate::output::Output;

pub fn run(args: &ListArgs, output: &Output) -> anyhow::Result<u8> {
    let found = match &args.dir {
        Some(dir) => survey(dir, &crate::registry::REGISTRY)?.to_json(),
        None => {
            let reply = args.server.client()?.state()?;
            if reply.status != 200 {
                return Err(refusal(&reply).into());
            }
            reply.json
        }
    };
    match args.json {
        true => output.print_json(&found)?,
        false => output.print(&text(&found))?,
    }
    let mut is_damaged = false;
    for group in array(&found["groups"]) {
        let damage = damage(group);
        is_damaged |= !damage.is_empty();
        if !damage.is_empty() && !args.json {
            output.error(&format!(
                "group '{}' is damaged{damage}\n    = help: headwater state verify says what a start \
                 does, and what to do",
                cell(&group["group"])
            ));
        }
    }
    Ok(u8::from(is_damaged))
}

/// A line for each damaged file; empty where there is none.
fn damage(group: &Json) -> String {
    let mut text = String::new();
    for damage in array(&group["damage"]) {
        let (file, cause) = (plain(&damage["file"]), plain(&damage["cause"]));
        text += &format!("\n   --> {file}: {cause}");
    }
    for log in ["rejected", "undelivered"] {
        let events = number(&group[log]["damaged"]);
        if events > 0 {
            let events = count(events, "event");
            text += &format!("\n   --> {log}: {events} at least cannot be read");
        }
    }
    text
}

/// A text without quotes.
fn plain(json: &Json) -> String {
    match json {
        Json::Null => "none".to_owned(),
        other => cell(other),
    }
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or(0)
}

fn time(json: &Json) -> String {
    json.as_i64()
        .map_or_else(|| "at no known time".to_owned(), time_and_age)
}

fn text(found: &Json) -> String {
    let id = plain(&found["id"]);
    let backup = &found["backup"];
    let mut text = match backup.is_null() {
        true => format!("state directory, identity {id}\n"),
        false => format!(
            "backup of {}, made by Headwater {}, identity {id}\n",
            time(&backup["time"]),
            plain(&backup["headwater"])
        ),
    };
    for group in array(&found["groups"]) {
        text += "\n";
        text += &group_text(group);
    }
    let backups = array(&found["backups"]);
    if !backups.is_empty() {
        text += "\nbackups\n";
    }
    for backup in backups {
        let said = match backup["damaged"] == true {
            true => "its list of files is damaged".to_owned(),
            false => format!(
                "{}, {}",
                size(number(&backup["bytes"])),
                time(&backup["time"])
            ),
        };
        text += &format!("  {}  {said}\n", plain(&backup["name"]));
    }
    text
}

fn group_text(group: &Json) -> String {
    let name = plain(&group["group"]);
    let apps: Vec<String> = array(&group["apps"]).iter().map(plain).collect();
    let mut text = match apps.as_slice() {
        [app] if *app == name => format!("app {app}\n"),
        apps => format!("group {name} (apps {})\n", apps.join(", ")),
    };
    let snapshots = array(&group["snapshots"]);
    if snapshots.is_empty() {
        text += "  nothing was saved yet\n";
    }
    snapshots.iter().for_each(|s| text += &snapshot_text(s));
    let content = &group["content"];
    match content.is_null() {
        false => text += &content_text(content),
        true if snapshots.is_empty() => {}
        true => {
            text += &format!(
                "  what is in it is not listed (more than {})\n",
                size(READ_MAX)
            )
        }
    }
    for log in ["rejected", "undelivered"] {
        let events = count(number(&group[log]["events"]), "event");
        let bytes = size(number(&group[log]["bytes"]));
        text += &format!("  {log}: {events}, {bytes}\n");
    }
    text
}

fn snapshot_text(snapshot: &Json) -> String {
    let kind = match snapshot["full"] == true {
        true => "full".to_owned(),
        false => format!("changes since epoch {}", number(&snapshot["changes_since"])),
    };
    let current = match snapshot["current"] == true {
        true => ", current",
        false => "",
    };
    format!(
        "  epoch {}{current}: {kind}, {}, {}\n",
        number(&snapshot["epoch"]),
        size(number(&snapshot["bytes"])),
        time(&snapshot["time"])
    )
}

fn content_text(content: &Json) -> String {
    let mut text = String::new();
    for source in array(&content["sources"]) {
        let (app, key) = (plain(&source["app"]), plain(&source["source"]));
        let position = position_words(&source["position"]);
        text += &format!("  source {app}/{key}: {position}\n");
    }
    let apps = array(&content["apps"]).iter();
    for element in apps.flat_map(|app| array(&app["elements"])) {
        let keeps: Vec<String> = array(&element["keeps"]).iter().map(plain).collect();
        let rows = element["rows"].as_u64();
        let rows = rows.map_or_else(String::new, |rows| count(rows, "row") + ", ");
        text += &format!(
            "  {} ({}): {rows}{}\n",
            plain(&element["element"]),
            keeps.join(", "),
            size(number(&element["bytes"]))
        );
    }
    let calls = number(&content["pending_calls"]);
    if calls > 0 {
        let calls = count(calls, "call");
        text += &format!("  {calls} of file functions wait for the next start\n");
    }
    text
}
