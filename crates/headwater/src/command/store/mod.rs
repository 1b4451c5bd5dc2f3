//! `headwater store`: keeping house in an event store, in its folder or through a server.

mod text;

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};
use server::client::{Client, Method, Reply, percent_encoded};
use server::http::store::{StoreKeeper as _, StoreRefusal, StoreWatch, StoreWork};

use super::reply::print_reply;
use crate::cli::store::{CopyArgs, PurgeArgs, StoreAction, StoreArgs, WhereArgs};
use crate::output::Output;
use crate::upkeep::{Place, check_folder, copy};

/// Between two looks at work that goes on.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// It has begun, and goes on.
const RUNNING: u16 = 202;

pub fn run(args: &StoreArgs, output: &Output) -> anyhow::Result<u8> {
    match &args.action {
        StoreAction::Tables(args) => {
            let reply = match &args.at.store {
                Some(dir) => reply(Place::of_folder(dir)?.tables()),
                None => args
                    .at
                    .server
                    .client()?
                    .ask(Method::GET, "/store/tables", "")?,
            };
            print_reply(reply, args.at.json, text::tables, output)
        }
        StoreAction::Versions(args) => {
            let path = format!("/store/tables/{}/versions", percent_encoded(&args.table));
            let reply = match &args.at.store {
                Some(dir) => reply(Place::of_folder(dir)?.versions(&args.table)),
                None => args.at.server.client()?.ask(Method::GET, &path, "")?,
            };
            print_reply(reply, args.at.json, text::versions, output)
        }
        StoreAction::Purge(args) => {
            let reply = work(&args.at, StoreWork::Purge, &purge_order(args), output)?;
            print_reply(reply, args.at.json, text::purged, output)
        }
        StoreAction::Vacuum(args) => {
            let order = json!({
                "tables": args.tables,
                "grace": args.grace,
                "force": args.force,
                "dryRun": args.dry_run,
            });
            let reply = work(&args.at, StoreWork::Vacuum, &order, output)?;
            print_reply(reply, args.at.json, text::vacuumed, output)
        }
        StoreAction::Reindex(args) => {
            let order = json!({ "tables": args.tables });
            let reply = work(&args.at, StoreWork::Reindex, &order, output)?;
            print_reply(reply, args.at.json, text::indexed, output)
        }
        StoreAction::Verify(args) => {
            let reply = work(&args.at, StoreWork::Verify, &json!({}), output)?;
            let is_damaged = reply.json["damage"]
                .as_array()
                .is_some_and(|d| !d.is_empty());
            let code = print_reply(reply, args.at.json, text::verified, output)?;
            Ok(if is_damaged { 1 } else { code })
        }
        StoreAction::Copy(args) => copied(args, output),
    }
}

fn purge_order(args: &PurgeArgs) -> Json {
    let mut order = json!({ "tables": args.tables, "dryRun": args.dry_run });
    if let Some(before) = &args.before {
        order["before"] = before.as_str().into();
    }
    if let Some(older) = &args.older_than {
        order["olderThan"] = older.as_str().into();
    }
    order
}

fn copied(args: &CopyArgs, output: &Output) -> anyhow::Result<u8> {
    check_folder(&args.store)?;
    let done = watched("copying", output, |watch| copy(args, watch));
    print_reply(reply(done), args.json, text::copied, output)
}

/// What a server would have answered.
fn reply(done: Result<Json, StoreRefusal>) -> Reply {
    match done {
        Ok(json) => Reply { status: 200, json },
        Err(StoreRefusal::Wrong(message)) => Reply {
            status: 422,
            json: json!({ "message": message }),
        },
        Err(StoreRefusal::Failed(message)) => Reply {
            status: 500,
            json: json!({ "message": message }),
        },
    }
}

/// Does work here, or has a server do it, and waits for its end.
fn work(at: &WhereArgs, work: StoreWork, order: &Json, output: &Output) -> anyhow::Result<Reply> {
    if let Some(dir) = &at.store {
        let place = Place::of_folder(dir)?;
        let done = watched(work.name(), output, |watch| place.work(work, order, watch));
        return Ok(reply(done));
    }
    let client = at.server.client()?;
    let path = format!("/store/{}", work.name());
    let begun = client.ask(Method::POST, &path, &order.to_string())?;
    let mut end = match begun.status {
        RUNNING => wait(&client, &begun.json["id"], output)?,
        _ => begun,
    };
    if end.status == 200 {
        end.json = end.json["result"].take();
    }
    Ok(end)
}

/// Waits for the end of work that a server does.
fn wait(client: &Client, id: &Json, output: &Output) -> anyhow::Result<Reply> {
    loop {
        // Nobody wakes it: it only waits for the next look.
        thread::park_timeout(LOOK_EVERY);
        let shown = client.ask(Method::GET, "/store/work", "")?;
        if shown.status != 200 {
            return Ok(shown);
        }
        let (running, last) = (&shown.json["running"], &shown.json["last"]);
        if running["id"] == *id {
            let count = |name: &str| running[name].as_u64().unwrap_or_default();
            let file = running["file"].as_str().unwrap_or_default();
            say(
                output,
                running["work"].as_str().unwrap_or_default(),
                (file, count("files"), count("bytes")),
            );
            continue;
        }
        if last["id"] != *id {
            let message = "the server no longer knows what came of it: it was restarted, or other work was done since";
            return Ok(Reply {
                status: 404,
                json: json!({ "message": message }),
            });
        }
        return Ok(match last.get("error") {
            None => Reply {
                status: 200,
                json: last.clone(),
            },
            Some(error) => Reply {
                status: 422,
                json: error.clone(),
            },
        });
    }
}

/// Does work on a thread of its own, and says on a terminal how far it is.
fn watched(
    what: &str,
    output: &Output,
    work: impl FnOnce(&StoreWatch) -> Result<Json, StoreRefusal> + Send,
) -> Result<Json, StoreRefusal> {
    let watch = StoreWatch::default();
    thread::scope(|scope| {
        let (sender, ended) = mpsc::sync_channel(1);
        let watch = &watch;
        scope.spawn(move || {
            // Nobody listens only where that thread has panicked.
            sender.send(work(watch)).ok();
        });
        loop {
            match ended.recv_timeout(LOOK_EVERY) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => {
                    let (file, files, bytes) = watch.at();
                    say(output, what, (&file, files, bytes));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let message =
                        "internal error: the work has ended without a result; please report it";
                    return Err(StoreRefusal::Failed(message.to_owned()));
                }
            }
        }
    })
}

fn say(output: &Output, what: &str, (file, files, bytes): (&str, u64, u64)) {
    if files > 0 && !output.is_quiet && std::io::stderr().is_terminal() {
        output.say(&format!(
            "{what}: {file}, file {files}, {} so far",
            text::size(bytes)
        ));
    }
}
