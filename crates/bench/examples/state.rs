//! `headwater bench state` without the rest of the binary, for a quick look while the engine is
//! being changed: `cargo run --release -p headwater-bench --example state -- [KEYS [CASE]]`.

use std::io::Write as _;
use std::process::Command;

use anyhow::Context as _;
use headwater_bench::state::{self, StateOptions};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let keys = std::env::args().nth(1).and_then(|k| k.parse().ok());
    let keys = keys.unwrap_or(state::KEYS);
    let only = std::env::args().nth(2);
    let command = |case: &str| {
        let mut command =
            Command::new(std::env::current_exe().context("cannot find this program")?);
        command.args([&keys.to_string(), case]);
        Ok(command)
    };
    let report = state::run(&StateOptions {
        keys,
        only: only.as_deref(),
        command: &command,
        progress: |line| eprintln!("{line}"),
    })?;
    eprint!("{}", report.in_words());
    writeln!(std::io::stdout(), "{:#}", report.to_json("of this tree"))?;
    Ok(())
}
