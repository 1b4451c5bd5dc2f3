//! `headwater top`: what the apps of a running server do, refreshed each second.

mod terminal;
mod view;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use serde_json::Value as Json;
use server::client::Client;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::reply::{cell, print_reply};
use crate::args::ServerArgs;
use crate::output::Output;
use terminal::{Key, Terminal};
use view::View;

/// Between two looks at the server.
const REFRESH: Duration = Duration::from_secs(1);

/// Columns of a table that is printed once, where no terminal says how wide it is.
const WIDTH: usize = 140;

/// Watch the apps of a running server in a terminal
///
/// Apps with their sources, sinks, tables and queries: events per second, rejected events, what waits, how
/// busy each is, and what is away. BUSY is, of an app, the share of the time that it works; of a source, that
/// for which the app held it back; of a sink, how full its queue is. Queries are measured with headwater
/// statistics --level basic. The server must run with --http.
#[derive(Args, Debug)]
#[command(
    after_help = "Keys: q quit, p pause, s sort (by name, rate, errors, memory), up and down select an app, \
    Enter shows it alone or all.\n\n\
    Examples:\n  \
    headwater top\n  \
    headwater top --once                       one table, without a terminal\n  \
    headwater top --json                       one document, that of headwater status\n\n\
    Exit codes: 0 done; 1 refused; 2 usage; 3 could not connect."
)]
pub struct TopArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one table and end; so it does where standard output is no terminal
    #[arg(long)]
    pub once: bool,
    /// Print one JSON document and end
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &TopArgs, output: &Output) -> anyhow::Result<u8> {
    let client = args.server.client()?;
    let reply = client.status()?;
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if reply.status != 200 || args.json || args.once || !is_terminal {
        let table = |json: &Json| {
            let mut view = View::default();
            view.take(json.clone());
            view.table(WIDTH)
        };
        return print_reply(reply, args.json, table, output);
    }
    let mut view = View::default();
    view.take(reply.json);
    watch(&client, &args.server.url, view)
}

/// Shows the view until somebody quits.
fn watch(client: &Client, url: &str, mut view: View) -> anyhow::Result<u8> {
    let is_ended = ended_by_signal()?;
    let mut terminal = Terminal::open().context("cannot take over the terminal")?;
    let mut next = Instant::now() + REFRESH;
    loop {
        let (width, height) = terminal.size();
        terminal.draw(&view.screen(url, width, height))?;
        // It comes back when a key was pressed, and several times a second otherwise.
        let key = terminal.key()?;
        if is_ended.load(Ordering::Relaxed) {
            return Ok(0);
        }
        match key {
            Some(Key::Quit) => return Ok(0),
            Some(Key::Pause) => view.is_paused = !view.is_paused,
            Some(Key::Sort) => view.sort_next(),
            Some(Key::Up) => view.select(-1),
            Some(Key::Down) => view.select(1),
            Some(Key::Enter) => view.is_alone = !view.is_alone,
            None => {}
        }
        if view.is_paused || Instant::now() < next {
            continue;
        }
        next = Instant::now() + REFRESH;
        match client.status() {
            Ok(reply) if reply.status == 200 => view.take(reply.json),
            Ok(reply) => view.fault = Some(cell(&reply.json["message"])),
            Err(error) => view.fault = Some(format!("no server: {error}")),
        }
    }
}

/// Set by SIGTERM, SIGINT and SIGHUP, so that the terminal is given back.
fn ended_by_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let is_ended = Arc::new(AtomicBool::new(false));
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot watch for signals")?;
    let set = Arc::clone(&is_ended);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                set.store(true, Ordering::Relaxed);
            }
        })
        .context("cannot start a thread")?;
    Ok(is_ended)
}
