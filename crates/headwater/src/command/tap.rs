//! `headwater tap`: events as they pass a place of a running app.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use clap::Args;
use serde_json::Value as Json;
use server::client::{StopReading, percent_encoded};
use server::clock::timestamp;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use super::reply::{array, cell, print_reply};
use crate::args::{ServerArgs, parse_rate};
use crate::output::Output;

/// Rows per second by default: as many as somebody can see pass, and more for another program.
const TERMINAL_RATE: f64 = 100.0;
const PIPE_RATE: f64 = 1000.0;

/// Characters of a cell; of a longer one the beginning is shown.
const CELL_MAX: usize = 40;

/// Look at events as they pass a place of a running app
///
/// A place is a stream or named window (NAME), what a query emits (query:NAME), what the mapper of a
/// source has decoded (source:STREAM, source:STREAM[2]) or what a sink is given before its mapper
/// (sink:STREAM). At most --rate events per second are shown, the others are counted; the app is never
/// held up. The server must run with --http. Ctrl-C ends it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater run app.siddhi --http 127.0.0.1:9090\n  \
    headwater tap Shop/Sales\n  \
    headwater tap Shop/Sales --where 'amount > 10 and item == \"tea\"' --limit 5\n  \
    headwater tap Shop/query:totals --json | jq .data\n  \
    headwater tap 'Shop/source:Sales[1]' --rate 5\n\n\
    Exit codes: 0 the limit is reached, or Ctrl-C; 1 there is no such place, the condition does not fit, or \
    the app ended; 2 usage; 3 could not connect.")]
pub struct TapArgs {
    /// The app and the place in it
    #[arg(value_name = "APP/PLACE", value_parser = parse_place)]
    pub place: (String, String),
    /// Show only events for which this SiddhiQL condition is true
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// End after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Events per second that are shown, up to 10000; by default 100 on a terminal and 1000 elsewhere
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    pub rate: Option<f64>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON object per event
    #[arg(long)]
    pub json: bool,
}

fn parse_place(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((app, place)) if !app.is_empty() && !place.is_empty() => {
            Ok((app.to_owned(), place.to_owned()))
        }
        _ => {
            Err("write APP/STREAM, APP/query:NAME, APP/source:STREAM or APP/sink:STREAM".to_owned())
        }
    }
}

pub fn run(args: &TapArgs, output: &Output) -> anyhow::Result<u8> {
    let stop = StopReading::default();
    end_on_interrupt(stop.clone())?;
    let rate = args.rate.unwrap_or(match io::stdout().is_terminal() {
        true => TERMINAL_RATE,
        false => PIPE_RATE,
    });
    let (rate, limit) = (rate.to_string(), args.limit.map(|limit| limit.to_string()));
    let (app, on) = &args.place;
    let mut fields = vec![("on", on.as_str()), ("rate", rate.as_str())];
    fields.extend(args.condition.as_deref().map(|text| ("where", text)));
    fields.extend(limit.as_deref().map(|limit| ("limit", limit)));
    let mut reading = Reading::new(args, output);
    let client = args.server.client()?;
    let refusal = client.lines(&path_of(app, &fields), &stop, &mut |line| {
        reading.take(line)
    })?;
    if let Some(reply) = refusal {
        return print_reply(reply, args.json, |_| String::new(), output);
    }
    reading.finish()
}

fn path_of(app: &str, fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", percent_encoded(value)))
        .collect();
    let app = percent_encoded(app);
    format!("/siddhi-apps/{app}/tap?{}", fields.join("&"))
}

/// Ctrl-C ends the look in order.
pub(super) fn end_on_interrupt(stop: StopReading) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT]).context("cannot watch for signals")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(|_| stop.stop()))
        .context("cannot start a thread")?;
    Ok(())
}

/// What has come so far.
struct Reading<'a> {
    output: &'a Output,
    as_json: bool,
    limit: Option<u64>,
    table: Table,
    shown: u64,
    counts: Json,
    /// Why the server has ended it.
    cause: Option<String>,
    failed: Option<io::Error>,
}

impl Reading<'_> {
    fn new<'a>(args: &TapArgs, output: &'a Output) -> Reading<'a> {
        Reading {
            output,
            as_json: args.json,
            limit: args.limit,
            table: Table::default(),
            shown: 0,
            counts: Json::Null,
            cause: None,
            failed: None,
        }
    }

    /// Takes one line of the server; false: nothing more is wanted.
    fn take(&mut self, line: &str) -> bool {
        let Ok(json) = serde_json::from_str::<Json>(line) else {
            self.cause = Some("the server sent a line that is not JSON".to_owned());
            return false;
        };
        let text = match json["type"].as_str() {
            Some("tap") => {
                self.table = Table::new(&json);
                return true;
            }
            Some("counts") => {
                self.counts = json;
                return true;
            }
            Some("end") => {
                self.cause = json["cause"].as_str().map(str::to_owned);
                return false;
            }
            _ if self.as_json => format!("{line}\n"),
            _ => self.table.row(&json),
        };
        self.shown += 1;
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => true,
            // Who read it has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => false,
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }

    /// Says what was not shown; the exit code.
    fn finish(self) -> anyhow::Result<u8> {
        if let Some(error) = self.failed {
            return Err(error).context("cannot write to standard output");
        }
        if !self.output.is_quiet {
            self.output.say(&said(self.shown, &self.counts));
        }
        let is_done = self.limit.is_some_and(|limit| self.shown >= limit);
        match self.cause {
            Some(cause) if !is_done => {
                self.output.error(&format!("the tap has ended: {cause}"));
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}

/// `5 events shown; 120 passed, 3 of them not looked at because …`.
fn said(shown: u64, counts: &Json) -> String {
    let count = |name: &str| counts[name].as_u64().unwrap_or(0);
    let mut text = match shown {
        1 => "1 event shown".to_owned(),
        shown => format!("{shown} events shown"),
    };
    let seen = count("seen").max(shown);
    text.push_str(&format!(" of {seen} that passed"));
    let over = count("matched").saturating_sub(shown);
    if over > 0 {
        text.push_str(&format!("; {over} more fit, but are over the rate"));
    }
    let unexamined = count("unexamined");
    if unexamined > 0 {
        text.push_str(&format!(
            "; {unexamined} were not looked at, being over the rate"
        ));
    }
    let failed = count("failed");
    if failed > 0 {
        text.push_str(&format!("; the condition failed on {failed}"));
    }
    text
}

/// Rows below each other, in columns that widen as they must.
#[derive(Default)]
struct Table {
    names: Vec<String>,
    widths: Vec<usize>,
    has_head: bool,
}

impl Table {
    /// The columns by what the server says first.
    fn new(tap: &Json) -> Table {
        let attributes = array(&tap["attributes"]).iter();
        let attributes = attributes.map(|a| cell(&a["name"]));
        let names: Vec<String> = ["time".to_owned(), "kind".to_owned()]
            .into_iter()
            .chain(attributes)
            .collect();
        let widths = names.iter().map(|name| name.chars().count()).collect();
        Table {
            names,
            widths,
            has_head: false,
        }
    }

    /// A row, with the names above the first.
    fn row(&mut self, event: &Json) -> String {
        let time = event["timestamp"]
            .as_i64()
            .map_or_else(String::new, timestamp);
        let data = self.names.iter().skip(2).map(|name| &event["data"][name]);
        let data = data.map(|value| shortened(cell(value)));
        let cells: Vec<String> = [time, cell(&event["kind"])]
            .into_iter()
            .chain(data)
            .collect();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_head, true) {
            text = self.line(&self.names);
        }
        text + &self.line(&cells)
    }

    fn line(&self, cells: &[String]) -> String {
        let padded = cells.iter().zip(&self.widths);
        let padded: Vec<String> = padded.map(|(cell, &w)| format!("{cell:w$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(CELL_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_stand_in_columns_below_their_names() {
        let attributes = [("item", "string"), ("n", "int")];
        let attributes = attributes.map(|(name, ty)| json!({ "name": name, "type": ty }));
        let mut table = Table::new(&json!({ "attributes": attributes }));
        let mut row = |item: &str, n: i64| {
            table.row(&json!({
                "type": "event", "timestamp": 0, "kind": "current", "data": { "item": item, "n": n },
            }))
        };
        assert_eq!(
            row("tea\u{1b}", 1),
            "time                      kind     item  n\n\
             1970-01-01T00:00:00.000Z  current  tea   1\n"
        );
        assert_eq!(
            row("a long name", 23),
            "1970-01-01T00:00:00.000Z  current  a long name  23\n"
        );
        let long = row(&"x".repeat(500), 1);
        assert!(
            long.contains(&format!("{}…  1", "x".repeat(CELL_MAX))),
            "{long}"
        );
    }

    #[test]
    fn what_is_not_shown_is_said() {
        assert_eq!(said(1, &Json::Null), "1 event shown of 1 that passed");
        let counts = json!({ "seen": 120, "matched": 8, "unexamined": 3, "failed": 2 });
        assert_eq!(
            said(5, &counts),
            "5 events shown of 120 that passed; 3 more fit, but are over the rate; 3 were not looked at, \
             being over the rate; the condition failed on 2"
        );
    }

    #[test]
    fn a_place_is_an_app_and_what_is_in_it() {
        let place = parse_place("Shop/query:a/b").expect("a place");
        assert_eq!(place, ("Shop".to_owned(), "query:a/b".to_owned()));
        for text in ["Shop", "/Sales", "Shop/"] {
            assert!(parse_place(text).is_err(), "{text}");
        }
    }
}
