//! `headwater man`: manual pages, made from the same text as `--help`.

use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::output::Output;

pub fn run(args: &ManArgs, output: &Output) -> anyhow::Result<u8> {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = &args.dir else {
        output.print(&String::from_utf8_lossy(&page(&command)?))?;
        return Ok(0);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create '{}'", dir.display()))?;
    write(dir, &command)?;
    Ok(0)
}

fn page(command: &clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

/// The page of a command, then those of the commands below it: `headwater-errors-list.1`.
fn write(dir: &Path, command: &clap::Command) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?)
        .with_context(|| format!("cannot write '{}'", path.display()))?;
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write(dir, below)?;
    }
    Ok(())
}
