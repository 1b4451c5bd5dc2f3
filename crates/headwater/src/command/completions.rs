//! `headwater completions`.

use clap::CommandFactory as _;

use crate::cli::{Cli, CompletionsArgs};
use crate::output::Output;

pub fn run(args: &CompletionsArgs, output: &Output) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "headwater", &mut script);
    output.print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
