//! `headwater scripts`: the batch scripts of a running server.

use serde_json::{Value as Json, json};
use server::client::{Method, percent_encoded};

use super::reply::{array, cell, columns, print_reply};
use crate::cli::sql::ScriptsArgs;
use crate::output::Output;

/// It has begun, and goes on.
const RUNNING: u16 = 202;

pub fn run(args: &ScriptsArgs, output: &Output) -> anyhow::Result<u8> {
    let client = args.server.client()?;
    let Some(name) = &args.name else {
        let mut reply = client.ask(Method::GET, "/scripts", "")?;
        if reply.status == 200 {
            reply.json = json!({ "scripts": reply.json });
        }
        return print_reply(
            reply,
            args.json,
            |json| table(array(&json["scripts"])),
            output,
        );
    };
    let path = format!("/scripts/{}", percent_encoded(name));
    if args.run {
        let mut reply = client.ask(Method::POST, &format!("{path}/run"), "")?;
        if reply.status == RUNNING {
            reply.status = 200;
        }
        return print_reply(reply, args.json, run_text, output);
    }
    let reply = client.ask(Method::GET, &path, "")?;
    print_reply(reply, args.json, script_text, output)
}

/// One line for each script, under the names of the columns.
fn table(scripts: &[Json]) -> String {
    let mut rows =
        vec![["NAME", "CRON", "NEXT", "LAST", "TOOK", "FAILED", "LATE"].map(str::to_owned)];
    for script in scripts {
        let last = &script["last"];
        let outcome = match (&script["running"], last.is_null(), last.get("error")) {
            (Json::String(_), ..) => "running",
            (_, true, _) => "-",
            (.., None) => "ok",
            (.., Some(_)) => "failed",
        };
        let or_dash = |json: &Json| match json.is_null() {
            true => "-".to_owned(),
            false => cell(json),
        };
        rows.push([
            cell(&script["name"]),
            or_dash(&script["cron"]),
            or_dash(&script["next"]),
            outcome.to_owned(),
            last["millis"]
                .as_u64()
                .map_or_else(|| "-".to_owned(), |millis| format!("{millis} ms")),
            cell(&script["failed"]),
            cell(&script["late"]),
        ]);
    }
    columns(&rows)
}

fn script_text(script: &Json) -> String {
    let mut text = table(std::slice::from_ref(script));
    let last = &script["last"];
    if !last.is_null() {
        text += &format!(
            "\nlast run, at {}:\n{}",
            cell(&last["started"]),
            run_text(last)
        );
    }
    text
}

/// What the statements of a run came to.
fn run_text(run: &Json) -> String {
    let mut text = String::new();
    if let Some(message) = run["message"].as_str() {
        text += &format!("{message}\n");
    }
    for outcome in array(&run["outcomes"]) {
        text += &match outcome.get("details") {
            Some(_) => super::query::answer_text(outcome),
            None => line(outcome),
        };
    }
    if let Some(error) = run.get("error") {
        let error = error["rendered"].as_str().or(error["message"].as_str());
        text += &format!("{}\n", error.unwrap_or("it has failed"));
    }
    text
}

/// What rows have become.
fn line(outcome: &Json) -> String {
    let rows = cell(&outcome["rows"]);
    if outcome["purged"] == true {
        return format!("{}: {rows} rows purged\n", cell(&outcome["table"]));
    }
    match outcome["stream"].as_str() {
        Some(stream) => format!("{stream}: {rows} rows sent\n"),
        None => {
            let how = match outcome["overwritten"] == true {
                true => "written, in place of those before",
                false => "inserted",
            };
            format!("{}: {rows} rows {how}\n", cell(&outcome["table"]))
        }
    }
}
