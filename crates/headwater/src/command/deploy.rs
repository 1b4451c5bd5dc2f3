//! `headwater deploy`, `undeploy` and `apps`: the apps of a running server.

use std::path::PathBuf;

use clap::Args;

use serde_json::{Value as Json, json};
use server::client::{Client, Method, Reply, percent_encoded};
use server::deployment;

use super::reply::{array, cell};
use crate::args::ServerArgs;
use crate::output::Output;

/// Deploy apps to a running server, or change those that run
///
/// All apps of one command take effect together or not at all. They are checked first, as by 'headwater
/// check'; what is added, changed and untouched is shown, and what becomes of saved state. Apps that
/// are not named run on. The server keeps what is deployed: a restart finds it again. It must run with
/// --http, and with --state or a folder of apps.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run --state state/ --http 127.0.0.1:9090     a server without apps\n  \
    headwater deploy orders.siddhi\n  \
    headwater deploy apps/ --dry-run                       look what would happen\n  \
    headwater deploy orders.siddhi --drop-state            an edit that cannot keep its state\n  \
    headwater deploy orders.siddhi --server https://streams.example:9090\n\n\
    Exit codes: 0 deployed; 1 refused, and nothing was changed; 2 usage; 3 could not connect.")]
pub struct DeployArgs {
    /// App files, or folders of them
    #[arg(required = true, value_name = "APP|DIR")]
    pub apps: Vec<PathBuf>,
    /// Show what would happen, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Drop saved state that an edited app cannot take back, instead of refusing it; other apps keep
    /// theirs
    #[arg(long)]
    pub drop_state: bool,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// End apps of a running server
///
/// All apps of one command end together, or none if one of them is unknown or may not be changed. Their files are
/// removed from the folder of deployed apps; saved state stays.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  headwater undeploy Orders\n  headwater undeploy Orders Prices --dry-run"
)]
pub struct UndeployArgs {
    /// Names of the apps
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Show what would happen, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// List the apps of a running server
///
/// With a name: what the sources, sinks and tables of the app have done, and its text.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  headwater apps\n  headwater apps Orders")]
pub struct AppsArgs {
    /// One app
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn deploy(args: &DeployArgs, output: &Output) -> anyhow::Result<u8> {
    let texts = deployment::read_texts(&args.apps)?;
    let apps = texts.iter();
    let apps = apps.map(|app| json!({ "content": app.text, "file": app.file }));
    let body = Json::from(apps.collect::<Vec<Json>>()).to_string();
    let path = format!(
        "/siddhi-apps?dry-run={}&drop-state={}&color={}",
        args.dry_run,
        args.drop_state,
        output.colour && !args.json
    );
    let reply = args.server.client()?.ask(Method::PUT, &path, &body)?;
    show(&reply, args.json, output)
}

pub fn undeploy(args: &UndeployArgs, output: &Output) -> anyhow::Result<u8> {
    let mut path = format!("/siddhi-apps?dry-run={}", args.dry_run);
    for name in &args.names {
        path += &format!("&name={}", percent_encoded(name));
    }
    let reply = args.server.client()?.ask(Method::DELETE, &path, "")?;
    show(&reply, args.json, output)
}

/// What the server has done or refused; the exit code.
fn show(reply: &Reply, as_json: bool, output: &Output) -> anyhow::Result<u8> {
    let is_done = (200..300).contains(&reply.status);
    if as_json {
        let mut json = json!({ "version": 1 });
        if let (Json::Object(to), Json::Object(from)) = (&mut json, reply.json.clone()) {
            to.extend(from);
        }
        output.print_json(&json)?;
        return Ok(u8::from(!is_done));
    }
    let message = reply.json["message"].as_str().unwrap_or("no answer");
    let faults = if is_done { "warnings" } else { "rendered" };
    let faults = reply.json[faults].as_str().unwrap_or_default();
    if !faults.is_empty() {
        output.say(faults.trim_end());
    }
    match is_done {
        true => output.print(&format!("{message}\n{}", report(&reply.json)))?,
        false => output.error(message),
    }
    Ok(u8::from(!is_done))
}

fn report(json: &Json) -> String {
    let mut text = String::new();
    for (key, what) in [
        ("added", "added"),
        ("changed", "changed"),
        ("removed", "removed"),
        ("restarted", "restarted"),
        ("untouched", "untouched"),
    ] {
        let names: Vec<String> = array(&json[key]).iter().map(cell).collect();
        if !names.is_empty() {
            text += &format!("  {what:<12}{}\n", names.join(", "));
        }
    }
    for state in array(&json["state"]) {
        text += &format!("state of {}\n", cell(&state["app"]));
        for (key, what) in [
            ("survives", "survives"),
            ("beginsEmpty", "begins empty"),
            ("dropped", "is dropped"),
        ] {
            for (at, one) in array(&state[key]).iter().enumerate() {
                let what = if at == 0 { what } else { "" };
                text += &format!("  {what:<14}{}\n", cell(one));
            }
        }
    }
    text
}

pub fn apps(args: &AppsArgs, output: &Output) -> anyhow::Result<u8> {
    let client = args.server.client()?;
    let reply = client.ask(Method::GET, "/siddhi-apps?details=true", "")?;
    if reply.status != 200 {
        output.error(reply.json["message"].as_str().unwrap_or("no answer"));
        return Ok(1);
    }
    let Some(name) = &args.name else {
        match args.json {
            true => output.print_json(&json!({ "version": 1, "apps": reply.json }))?,
            false => output.print(&table(array(&reply.json)))?,
        }
        return Ok(0);
    };
    one(&client, name, array(&reply.json), args.json, output)
}

fn one(
    client: &Client,
    name: &str,
    apps: &[Json],
    as_json: bool,
    output: &Output,
) -> anyhow::Result<u8> {
    let path = format!("/siddhi-apps/{}", percent_encoded(name));
    let reply = client.ask(Method::GET, &path, "")?;
    let Some(app) = apps
        .iter()
        .find(|app| app["name"] == name && reply.status == 200)
    else {
        output.error(reply.json["message"].as_str().unwrap_or("no answer"));
        return Ok(1);
    };
    if as_json {
        let mut json = json!({ "version": 1, "content": reply.json["content"] });
        if let (Json::Object(to), Json::Object(from)) = (&mut json, app.clone()) {
            to.extend(from);
        }
        output.print_json(&json)?;
        return Ok(0);
    }
    let mut text = format!(
        "{name}: {}, from {}\n",
        cell(&app["status"]),
        cell(&app["file"])
    );
    if let Some(reason) = app["reason"].as_str() {
        text += &format!("  {reason}\n");
    }
    for (kind, what) in [("sources", "source"), ("sinks", "sink")] {
        for part in array(&app[kind]) {
            let failed = part.get("rejected").or(part.get("failed"));
            text += &format!(
                "  {what:<8}{} ({}): {} events, {} {}\n",
                cell(&part["stream"]),
                cell(&part["type"]),
                cell(&part["events"]),
                failed.map_or_else(|| "0".to_owned(), cell),
                if kind == "sources" {
                    "rejected"
                } else {
                    "failed"
                },
            );
        }
    }
    for part in array(&app["tables"]) {
        text += &format!(
            "  table   {}: {} inserted, {} updated, {} deleted\n",
            cell(&part["name"]),
            cell(&part["inserted"]),
            cell(&part["updated"]),
            cell(&part["deleted"]),
        );
    }
    let content = reply.json["content"].as_str().unwrap_or_default();
    output.print(&format!("{text}\n{}\n", content.trim_end()))?;
    Ok(0)
}

/// One line for each app, under the names of the columns.
fn table(apps: &[Json]) -> String {
    let sum = |app: &Json, kind: &str, what: &str| {
        let numbers = array(&app[kind])
            .iter()
            .filter_map(|part| part[what].as_u64());
        numbers.sum::<u64>()
    };
    let mut rows = vec![["NAME", "STATUS", "IN", "OUT", "REJECTED"].map(str::to_owned)];
    for app in apps {
        let rejected = app["rejected"].as_u64().unwrap_or(0)
            + sum(app, "sources", "rejected")
            + sum(app, "sinks", "failed");
        rows.push([
            cell(&app["name"]),
            cell(&app["status"]),
            sum(app, "sources", "events").to_string(),
            sum(app, "sinks", "events").to_string(),
            rejected.to_string(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in &rows {
        let mut line = format!("{:w$}  {:s$}", row[0], row[1], w = widths[0], s = widths[1]);
        for column in 2..row.len() {
            line += &format!("  {:>w$}", row[column], w = widths[column]);
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_stand_in_columns() {
        let apps = [
            json!({
                "name": "Orders",
                "status": "active",
                "rejected": 1,
                "sources": [{ "events": 10, "rejected": 2 }],
                "sinks": [{ "events": 5, "failed": 0 }, { "events": 5, "failed": 1 }],
            }),
            json!({ "name": "B", "status": "active" }),
        ];
        assert_eq!(
            table(&apps),
            "NAME    STATUS  IN  OUT  REJECTED\n\
             Orders  active  10   10         4\n\
             B       active   0    0         0\n"
        );
    }

    #[test]
    fn a_report_says_what_changes_and_what_becomes_of_state() {
        let json = json!({
            "added": ["A"],
            "changed": ["B", "C"],
            "untouched": [],
            "state": [{ "app": "B", "survives": ["table 'T'", "query 'q'"], "dropped": ["window"] }],
        });
        assert_eq!(
            report(&json),
            "  added       A\n  changed     B, C\nstate of B\n  survives      table 'T'\n                \
             query 'q'\n  is dropped    window\n"
        );
    }
}
