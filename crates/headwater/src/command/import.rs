//! `headwater import`: a CApp of WSO2 DAS as files, without a server.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use server::capp::{self, Capp};

use crate::output::Output;

/// Turn a CApp of WSO2 DAS into files: an app, batch scripts, purges
///
/// Its streams, receivers and event stores become an app, its batch scripts and purges stay as they are; what is not taken
/// over is listed. `headwater run x.car` runs a CApp as it is.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater import shop.car                       print the app\n  \
    headwater import shop.car --output shop\n  \
    headwater run shop --store data --scripts shop/scripts --purge shop/purges/purge.xml\n\n\
    Exit codes: 0 imported; 1 refused; 2 usage.")]
pub struct ImportArgs {
    /// The .car file
    #[arg(value_name = "FILE")]
    pub capp: PathBuf,
    /// Write the files into this folder: NAME.siddhi, scripts/*.xml, purges/*.xml; files that are there stay
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &ImportArgs, output: &Output) -> anyhow::Result<u8> {
    let capp = capp::read(&args.capp)?;
    let files = match &args.output {
        Some(folder) => write(folder, &capp)?,
        None => Vec::new(),
    };
    if args.json {
        let names = |files: &[(String, String)]| -> Vec<String> {
            files.iter().map(|(name, _)| name.clone()).collect()
        };
        output.print_json(&json!({
            "version": 1,
            "name": capp.name,
            "app": capp.app.as_ref().filter(|_| files.is_empty()),
            "scripts": names(&capp.scripts),
            "purges": names(&capp.purges),
            "files": files,
            "notes": capp.notes,
        }))?;
        return Ok(0);
    }
    match (&args.output, &capp.app) {
        (Some(_), _) => output.print(
            &files
                .iter()
                .map(|file| format!("{file}\n"))
                .collect::<String>(),
        )?,
        (None, Some(app)) => output.print(app)?,
        (None, None) => {}
    }
    for note in &capp.notes {
        output.say(&format!("note: {note}"));
    }
    Ok(0)
}

/// Writes the parts into a folder, and gives the names of the files.
fn write(folder: &Path, capp: &Capp) -> anyhow::Result<Vec<String>> {
    let app = capp.app.iter();
    let app = app.map(|app| (PathBuf::from(format!("{}.siddhi", capp.name)), app));
    let scripts = capp
        .scripts
        .iter()
        .map(|(file, text)| (below("scripts", file), text));
    let purges = capp
        .purges
        .iter()
        .map(|(file, text)| (below("purges", file), text));
    let mut written = Vec::new();
    for (name, text) in app.chain(scripts).chain(purges) {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make folder '{}'", parent.display()))?;
        // Two artifacts may have files of one name: the second is refused rather than the first lost.
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let done = file.and_then(|mut file| file.write_all(text.as_bytes()));
        done.with_context(|| format!("cannot write '{}'", path.display()))?;
        written.push(path.display().to_string());
    }
    Ok(written)
}

/// A file of an artifact by its own name, which leads nowhere else: the names of a CApp have been judged.
fn below(folder: &str, file: &str) -> PathBuf {
    let name = file.rsplit('/').next().unwrap_or(file);
    Path::new(folder).join(name)
}
