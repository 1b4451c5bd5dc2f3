//! `headwater errors purge`.

use std::io::{self, IsTerminal, Write};

use serde_json::{Value as Json, json};
use server::Error;
use server::client::Method;

use super::args::PurgeArgs;
use super::origin::{Origin, ask};
use super::replay::selection;
use crate::output::Output;
use crate::progress::thousands;

pub fn run(args: &PurgeArgs, output: &Output) -> anyhow::Result<u8> {
    let mut filter = args.filter.clone();
    if args.older_than.is_some() {
        filter.until.clone_from(&args.older_than);
    }
    let body = selection(&args.numbers, &filter, args.all, "purge")?;
    if !args.yes {
        let count = match args.numbers.len() {
            0 => {
                let groups = Origin::Server(args.server.client()?).groups(&filter)?;
                groups["total"].as_u64().unwrap_or(0)
            }
            numbers => numbers as u64,
        };
        if !is_confirmed(count)? {
            output.say("nothing was removed");
            return Ok(1);
        }
    }
    let mut purged = ask(&args.server.client()?, Method::POST, "/purge", &body)?;
    if args.json {
        purged["version"] = json!(1);
        output.print_json(&purged)?;
    } else {
        let count = |name: &str| purged[name].as_u64().unwrap_or(0);
        output.print(&format!(
            "{} rejected events removed\n",
            thousands(count("purged"))
        ))?;
        for (left, why) in [
            (
                count("not_saved_yet"),
                "the state has not been saved since they came: try again",
            ),
            (
                count("of_older_version"),
                "a version before wrote them in a form that cannot be removed; they go with their age",
            ),
        ] {
            if left > 0 {
                output.say(&format!("{} are still there: {why}", thousands(left)));
            }
        }
    }
    let is_whole = |json: &Json| json["not_saved_yet"] == 0 && json["of_older_version"] == 0;
    Ok(if is_whole(&purged) { 0 } else { 4 })
}

fn is_confirmed(count: u64) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let message = "purging asks first: answer with --yes where there is no terminal";
        return Err(Error::Usage(message.to_owned()).into());
    }
    let mut out = io::stderr().lock();
    write!(
        out,
        "remove {} rejected events for good? [y/N] ",
        thousands(count)
    )?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    let answer = answer.trim();
    Ok(answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes"))
}
