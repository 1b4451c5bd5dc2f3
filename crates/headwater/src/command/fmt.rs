//! `headwater fmt`.

use std::io::Read as _;

use anyhow::Context as _;
use check::render;
use server::deployment::{AppText, find_files, read_texts};

use crate::cli::FmtArgs;
use crate::command::{refuse_archives, replace_file};
use crate::output::Output;

pub fn run(args: &FmtArgs, output: &Output) -> anyhow::Result<u8> {
    if args.apps.iter().any(|p| p.as_os_str() == "-") {
        return standard_input(args, output);
    }
    refuse_archives(&args.apps)?;
    let mut code = 0;
    let files = find_files(&args.apps)?;
    for (path, app) in files.iter().zip(read_texts(&args.apps)?) {
        let Some(formatted) = formatted(&app, output) else {
            code = 1;
            continue;
        };
        if formatted == app.text {
            continue;
        }
        if args.check {
            output.say(&format!("{} would change", app.file));
            code = 1;
        } else {
            replace_file(path, &formatted)?;
            if !output.is_quiet {
                output.say(&format!("formatted {}", app.file));
            }
        }
    }
    Ok(code)
}

/// The text as it should be; `None`, and its faults said, where it cannot be parsed.
fn formatted(app: &AppText, output: &Output) -> Option<String> {
    match lang::format::format(&app.text) {
        Ok(formatted) => Some(formatted),
        Err(faults) => {
            let text = render::render(
                &faults,
                &app.file,
                &app.text,
                &catalog::full(),
                output.colour,
            );
            output.say(text.trim_end());
            None
        }
    }
}

fn standard_input(args: &FmtArgs, output: &Output) -> anyhow::Result<u8> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("cannot read standard input")?;
    let app = AppText {
        file: "standard input".to_owned(),
        text,
    };
    let Some(formatted) = formatted(&app, output) else {
        return Ok(1);
    };
    if args.check {
        return Ok(u8::from(formatted != app.text));
    }
    output.print(&formatted)?;
    Ok(0)
}
