//! `headwater errors list`.

use std::io::{self, Write};

use serde_json::{Value as Json, json};
use server::clock::utc_text;

use super::args::ListArgs;
use super::origin::Origin;
use crate::command::reply::{array, cell};
use crate::output::Output;

/// Events that are shown one by one, unless --limit says otherwise.
const EACH_SHOWN: usize = 50;

pub fn run(args: &ListArgs, output: &Output) -> anyhow::Result<u8> {
    let origin = Origin::new(&args.dir, &args.server, output)?;
    if !args.each {
        return groups(args, &origin, output);
    }
    match args.limit {
        None if args.json => all(args, &origin, output),
        Some(0) => all(args, &origin, output),
        limit => newest(args, &origin, limit.unwrap_or(EACH_SHOWN), output),
    }
}

fn groups(args: &ListArgs, origin: &Origin<'_>, output: &Output) -> anyhow::Result<u8> {
    let mut found = origin.groups(&args.filter)?;
    let count = array(&found["groups"]).len();
    let limit = args.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    if let Json::Array(groups) = &mut found["groups"] {
        groups.truncate(limit);
    }
    if args.json {
        output.print_json(&versioned(found.clone()))?;
    } else {
        let mut text = groups_text(array(&found["groups"]));
        let total = found["total"].as_u64().unwrap_or(0);
        text += &match (total, count) {
            (0, _) => "no rejected events\n".to_owned(),
            (1, _) => "1 rejected event\n".to_owned(),
            (total, 1) => format!("{total} rejected events of one cause\n"),
            (total, count) => format!("{total} rejected events of {count} causes\n"),
        };
        if count > limit {
            text += &format!("{} causes are not shown\n", count - limit);
        }
        output.print(&text)?;
    }
    say_missing(array(&found["missing"]), output);
    Ok(0)
}

fn versioned(found: Json) -> Json {
    let mut json = json!({ "version": 1 });
    if let (Json::Object(to), Json::Object(from)) = (&mut json, found) {
        to.extend(from);
    }
    json
}

/// Counts and places in columns; below each group its cause and what to do about it.
fn groups_text(groups: &[Json]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let head = [
        "COUNT", "APP", "STREAM", "STAGE", "FIRST", "LAST", "EXAMPLE",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for group in groups {
        let time = |name: &str| utc_text(group[name].as_i64().unwrap_or(0) / 1000 * 1000);
        let stream = match (group["origin"].as_str(), group["stage"].as_str()) {
            // A source or a sink says which stream it is of.
            (Some(origin), Some("source" | "sink" | "sink-mapper")) if !origin.is_empty() => {
                format!("{origin} {}", cell(&group["type"]))
            }
            _ => cell(&group["stream"]),
        };
        let example = match &group["example"] {
            Json::Null => "-".to_owned(),
            number => number.to_string(),
        };
        rows.push([
            cell(&group["count"]),
            cell(&group["app"]),
            stream,
            cell(&group["stage"]),
            time("first"),
            time("last"),
            example,
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|c| width(c).unwrap_or(0)).collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &w))| match column {
            0 => format!("{cell:>w$}"),
            _ => format!("{cell:w$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text += &format!("{}\n", line.trim_end());
        let Some(group) = at.checked_sub(1).and_then(|at| groups.get(at)) else {
            continue;
        };
        let indent = " ".repeat(widths[0] + 2);
        text += &format!("{indent}{}\n", cell(&group["cause"]));
        if group["remedy"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
        {
            text += &format!("{indent}= help: {}\n", cell(&group["remedy"]));
        }
    }
    text
}

fn event_line(event: &Json) -> String {
    let time = utc_text(event["time"].as_i64().unwrap_or(0));
    let mut notes = String::new();
    if event["attempts"].as_u64().unwrap_or(0) > 0 {
        notes += &format!(" (replayed {} times)", event["attempts"]);
    }
    if event["edited"] == true {
        notes += " (edited)";
    }
    format!(
        "{:>6}  {time}  {}/{}  {}  {}: {}{notes}",
        event["number"].to_string(),
        cell(&event["app"]),
        cell(&event["stream"]),
        cell(&event["stage"]),
        cell(&event["place"]),
        cell(&event["cause"]),
    )
}

fn newest(
    args: &ListArgs,
    origin: &Origin<'_>,
    limit: usize,
    output: &Output,
) -> anyhow::Result<u8> {
    let found = origin.newest(&args.filter, limit)?;
    if args.json {
        output.print_json(&versioned(found.clone()))?;
    } else {
        let events = array(&found["events"]);
        let lines = events.iter().map(|event| event_line(event) + "\n");
        output.print(&lines.collect::<String>())?;
        let total = found["total"].as_u64().unwrap_or(0);
        let hidden = total.saturating_sub(events.len() as u64);
        if hidden > 0 {
            output.say(&format!(
                "{hidden} older ones are not shown: --limit 0 shows all {total}"
            ));
        }
    }
    say_missing(array(&found["missing"]), output);
    Ok(0)
}

/// All of them, the oldest first, one in memory at a time.
fn all(args: &ListArgs, origin: &Origin<'_>, output: &Output) -> anyhow::Result<u8> {
    let mut out = output.lines();
    let mut separator = "";
    if args.json && !is_there(write!(out, "{{\"version\":1,\"events\":["))? {
        return Ok(0);
    }
    let missing = origin.each(&args.filter, &mut |event| {
        let written = match args.json {
            true => write!(out, "{}{event}", std::mem::replace(&mut separator, ",")),
            false => writeln!(out, "{}", event_line(&event)),
        };
        is_there(written)
    })?;
    if args.json {
        let missing = Json::Array(missing.clone());
        is_there(writeln!(out, "],\"missing\":{missing}}}"))?;
    }
    is_there(out.flush())?;
    drop(out);
    say_missing(&missing, output);
    Ok(0)
}

/// A reader that has gone (`| head`) is no fault.
pub fn is_there(written: io::Result<()>) -> anyhow::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

/// What is not there any more.
pub fn say_missing(missing: &[Json], output: &Output) {
    for one in missing {
        output.say(&missing_text(one));
    }
}

fn missing_text(missing: &Json) -> String {
    let file = missing["file"].as_str().unwrap_or_default();
    let count = match missing["exact"] == true {
        true => missing["events"].to_string(),
        false => format!("at least {}", missing["events"]),
    };
    let bytes = &missing["bytes"];
    match missing["why"].as_str() {
        Some("damaged") => format!(
            "warning: '{file}' is damaged: {count} rejected events ({bytes} bytes) have changed or \
             are missing\n    = help: restore a copy while the server is stopped; the next start \
             sets the damaged bytes aside and keeps all other events"
        ),
        Some("set aside") => format!(
            "warning: '{file}' was damaged: {count} rejected events ({bytes} bytes) are lost; what \
             remains of them is in '{file}.damaged-1' and following"
        ),
        _ => format!(
            "note: {count} older rejected events ({bytes} bytes) of '{file}' were dropped: they were \
             too old, or the store was full (--errors-age, --errors-max)"
        ),
    }
}
