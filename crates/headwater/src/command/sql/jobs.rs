//! Jobs of a server: statements that it answers in the background.

use std::io::{Read as _, Write as _};

use anyhow::Context as _;
use serde_json::Value as Json;
use server::Error;
use server::client::{Client, Method, Reply, percent_encoded};
use server::statements::statements;

use super::super::query::answer_text;
use super::super::reply::{array, cell, columns, print_reply};
use super::{TEXT_MAX, kind, read};
use crate::cli::sql::{SqlArgs, SqlOutput};
use crate::output::Output;

/// The job is begun.
const ACCEPTED: u16 = 202;

/// Seconds for which the server is asked to wait for the end of a job before it answers.
const WAIT: u32 = 20;

/// Does what the arguments say of jobs, if they do; the exit code.
pub(super) fn run(args: &SqlArgs, output: &Output) -> anyhow::Result<Option<u8>> {
    let as_json = args.output() == SqlOutput::Json;
    if args.jobs {
        let reply = args.server.client()?.ask(Method::GET, "/sql/jobs", "")?;
        let text = |json: &Json| table(array(&json["jobs"]));
        return print_reply(reply, as_json, text, output).map(Some);
    }
    if let Some(id) = &args.cancel {
        let path = format!("/sql/jobs/{}", percent_encoded(id));
        let reply = args.server.client()?.ask(Method::DELETE, &path, "")?;
        let text = |json: &Json| format!("{}\n", cell(&json["message"]));
        return print_reply(reply, as_json, text, output).map(Some);
    }
    if let Some(id) = &args.result {
        return result(&args.server.client()?, id, as_json, output).map(Some);
    }
    match args.background {
        true => begin(args, as_json, output).map(Some),
        false => Ok(None),
    }
}

fn begin(args: &SqlArgs, as_json: bool, output: &Output) -> anyhow::Result<u8> {
    let sql = match (args.sql.as_deref(), &args.file) {
        (Some("-"), _) | (None, None) => {
            let mut text = String::new();
            let mut input = std::io::stdin().take(TEXT_MAX + 1);
            input
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            text
        }
        (Some(text), _) => text.to_owned(),
        (None, Some(file)) => read(file)?,
    };
    if statements(&sql).len() != 1 {
        let message = "a job is one statement: begin one for each";
        return Err(Error::Usage(message.to_owned()).into());
    }
    let mut reply = args.server.client()?.sql_job(&sql, kind(args.output()))?;
    if reply.status == ACCEPTED {
        reply.status = 200;
    }
    let text = |json: &Json| format!("{}\n", cell(&json["id"]));
    print_reply(reply, as_json, text, output)
}

/// Waits for a job, and prints its result.
fn result(client: &Client, id: &str, as_json: bool, output: &Output) -> anyhow::Result<u8> {
    let path = format!("/sql/jobs/{}?wait={WAIT}", percent_encoded(id));
    let job = loop {
        let reply = client.ask(Method::GET, &path, "")?;
        let state = reply.json["state"].as_str();
        if reply.status != 200 {
            return print_reply(reply, as_json, answer_text, output);
        }
        if !matches!(state, Some("waiting" | "running")) {
            break reply.json;
        }
    };
    let is_json = job["type"] == "application/json";
    let mut whole = Vec::new();
    let mut out = output.lines();
    let mut written = Ok(());
    let refused = client.sql_result(id, &mut |block| {
        if is_json {
            whole.extend_from_slice(block);
            return true;
        }
        written = out.write_all(block);
        written.is_ok()
    })?;
    if let Some(refused) = refused {
        return print_reply(refused, as_json, answer_text, output);
    }
    if is_json {
        let json: Json = serde_json::from_slice(&whole).context("the answer is not JSON")?;
        return print_reply(Reply { status: 200, json }, as_json, answer_text, output);
    }
    match written.and_then(|()| out.flush()) {
        // A reader that has gone (`| head`) is no fault.
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => Err(cause.into()),
        _ => Ok(0),
    }
}

/// One line for each job, under the names of the columns.
fn table(jobs: &[Json]) -> String {
    let names = [
        "JOB",
        "STATE",
        "USER",
        "TOOK",
        "READ",
        "ROWS",
        "BYTES",
        "STATEMENT",
    ];
    let mut rows = vec![names.map(str::to_owned)];
    for job in jobs {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let share = job["progress"].as_f64();
        let statement = cell(&job["statement"]);
        rows.push([
            cell(&job["id"]),
            cell(&job["state"]),
            or_dash(job["user"].as_str().map(|_| cell(&job["user"]))),
            format!("{} ms", cell(&job["millis"])),
            or_dash(share.map(|share| format!("{:.0} %", share * 100.0))),
            cell(&job["rows"]),
            cell(&job["bytes"]),
            statement.chars().take(60).collect(),
        ]);
    }
    columns(&rows)
}
