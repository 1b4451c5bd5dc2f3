//! `headwater errors replay`.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value as Json, json};
use server::Error;
use server::client::Method;

use super::args::{FilterArgs, ReplayArgs};
use super::origin::{ask, get};
use crate::command::reply::{array, cell};
use crate::output::Output;
use crate::progress::thousands;

/// How long the server may wait for news, in milliseconds.
const LOOK: &str = "300";

/// Between two lines about a replay where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(10);

pub fn run(args: &ReplayArgs, output: &Output) -> anyhow::Result<u8> {
    let client = args.server.client()?;
    if args.cancel {
        let state = ask(&client, Method::DELETE, "/replay", &Json::Null)?;
        return ended(args, state, output);
    }
    let mut body = selection(&args.numbers, &args.filter, args.all, "replay")?;
    body["rate"] = json!(args.rate);
    body["dry_run"] = json!(args.dry_run);
    let begun = ask(&client, Method::POST, "/replay", &body)?;
    let mut progress = Shown::new(output);
    let mut state = begun.clone();
    while state["state"] == "running" {
        progress.show(&state);
        state = get(&client, &format!("/replay?wait={LOOK}"))?;
        if state["id"] != begun["id"] {
            progress.end();
            anyhow::bail!("the server has begun another replay meanwhile, or was restarted");
        }
    }
    progress.end();
    ended(args, state, output)
}

/// The events that are meant, as the server takes them.
pub fn selection(
    numbers: &[String],
    filter: &FilterArgs,
    all: bool,
    what: &str,
) -> anyhow::Result<Json> {
    let mut body = json!({ "all": all });
    for number in numbers {
        if number.parse::<u64>().is_err() {
            return Err(Error::Usage(no_number(number, what)).into());
        }
    }
    let pairs = filter.pairs();
    if numbers.is_empty() && pairs.is_empty() && !all {
        let message = format!(
            "say which events to {what}: numbers, filters such as --app and --cause, or --all"
        );
        return Err(Error::Usage(message).into());
    }
    if !numbers.is_empty() {
        body["number"] = json!(numbers);
    }
    for (name, value) in pairs {
        body[name] = json!(value);
    }
    Ok(body)
}

fn no_number(text: &str, what: &str) -> String {
    match Path::new(text).is_dir() {
        true => format!(
            "only a running server can {what} events: start it with --state {text} and --http, then \
             run 'headwater errors {what}' with --url"
        ),
        false => {
            format!("'{text}' is no number of an event: 'headwater errors list --each' has them")
        }
    }
}

fn count(state: &Json, name: &str) -> u64 {
    state[name].as_u64().unwrap_or(0)
}

/// What became of it, and the exit code.
fn ended(args: &ReplayArgs, mut state: Json, output: &Output) -> anyhow::Result<u8> {
    let skipped = array(&state["skipped"]).to_vec();
    let code = match state["state"].as_str() {
        Some("failed") => 1,
        _ if count(&state, "failed_again") > 0 || !skipped.is_empty() => 4,
        _ => 0,
    };
    if args.json {
        state["version"] = json!(1);
        output.print_json(&state)?;
        return Ok(code);
    }
    output.print(&ended_text(&state))?;
    for one in &skipped {
        output.say(&format!(
            "{} not replayed: {} (one is number {})",
            thousands(count(one, "count")),
            cell(&one["cause"]),
            one["example"]
        ));
    }
    if let Some(message) = state["message"].as_str() {
        output.error(message);
    }
    Ok(code)
}

fn ended_text(state: &Json) -> String {
    let (total, again) = (count(state, "total"), count(state, "failed_again"));
    let number = match state["dry_run"] == true {
        true => count(state, "sent"),
        false => count(state, "replayed"),
    };
    let (would, fails) = match state["dry_run"] == true {
        true => (" would be", "would fail again in their mapper"),
        false => ("", "failed again"),
    };
    let cancelled = match state["state"] == "cancelled" {
        true => ", then cancelled",
        false => "",
    };
    let again = match again {
        0 => String::new(),
        again => format!(", of which {} {fails}", thousands(again)),
    };
    format!(
        "{} of {} rejected events{would} replayed{again}{cancelled}\n",
        thousands(number),
        thousands(total)
    )
}

/// What a person sees while it is at work.
struct Shown<'a> {
    output: &'a Output,
    bar: Option<ProgressBar>,
    begun: Instant,
    said: Instant,
}

impl<'a> Shown<'a> {
    fn new(output: &'a Output) -> Shown<'a> {
        let is_drawn = io::stderr().is_terminal() && !output.is_quiet;
        let bar = is_drawn.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}");
            bar.set_style(style.expect("the template is constant"));
            bar
        });
        output.console.set_bar(bar.clone());
        Shown {
            output,
            bar,
            begun: Instant::now(),
            said: Instant::now(),
        }
    }

    fn show(&mut self, state: &Json) {
        let (total, replayed) = (count(state, "total"), count(state, "replayed"));
        let rate = replayed as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
        let text = format!(
            "{} of {} rejected events replayed, {}/s, {} failed again",
            thousands(replayed),
            thousands(total),
            thousands(rate as u64),
            thousands(count(state, "failed_again"))
        );
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(replayed);
            bar.set_message(text);
        } else if self.said.elapsed() >= SAY_EVERY && !self.output.is_quiet {
            self.said = Instant::now();
            self.output.say(&text);
        }
    }

    /// Takes the bar away.
    fn end(&self) {
        self.output.console.set_bar(None);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
