//! `headwater check --fix`: fixes of diagnostics, applied to the files.

use std::path::Path;

use anyhow::Context as _;
use check::fix::{self, Applied, Fixed};
use check::{Catalog, render};
use serde_json::{Value as Json, json};
use server::Error;
use server::deployment::{self, AppText, LoadOptions};

use crate::cli::{CheckArgs, ReportFormat};
use crate::command::{refuse_archives, replace_file};
use crate::output::Output;

/// What was changed in one app.
pub struct FixedApp {
    pub file: String,
    pub applied: Vec<Applied>,
    /// The text, where there is no file that has it.
    text: Option<String>,
}

/// A fix is for the text as it is written.
pub fn refuse_changes(args: &CheckArgs) -> Result<(), Error> {
    if args.fix {
        refuse_archives(&args.apps)?;
    }
    match args.fix && !(args.change.sets.is_empty() && args.change.replaces.is_empty()) {
        true => Err(Error::Usage(
            "--fix changes the apps as they are written: leave out --set and --replace".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Fixes what can be fixed, in `texts` and, without `--dry-run`, in their files. The fixed text of
/// standard input goes to standard output.
pub fn apply(
    texts: &mut [AppText],
    args: &CheckArgs,
    options: &LoadOptions,
    output: &Output,
) -> anyhow::Result<Vec<FixedApp>> {
    let paths = deployment::find_all(&args.apps)?;
    let mut fixed_apps = Vec::new();
    for (path, app) in paths.iter().zip(texts) {
        let is_stdin = path == Path::new("-");
        let fixed = fixed(app, options)?;
        if let Some(fixed) = &fixed {
            output.say(&in_words(app, fixed, args.dry_run, &options.catalog));
            if !is_stdin && !args.dry_run {
                write(path, app, &fixed.text)?;
            }
            app.text.clone_from(&fixed.text);
        }
        if is_stdin && args.format() == ReportFormat::Text {
            output.print(&app.text)?;
        }
        if let Some(fixed) = fixed {
            fixed_apps.push(FixedApp {
                file: app.file.clone(),
                applied: fixed.applied,
                text: (is_stdin || args.dry_run).then_some(fixed.text),
            });
        }
    }
    Ok(fixed_apps)
}

fn fixed(app: &AppText, options: &LoadOptions) -> anyhow::Result<Option<Fixed>> {
    // Of what is wrong with the options of the command there is more than a text can tell.
    deployment::load(std::slice::from_ref(app), options)?;
    let judge = |text: &str| {
        let app = AppText {
            file: app.file.clone(),
            text: text.to_owned(),
        };
        let apps = deployment::load(&[app], options).unwrap_or_default();
        apps.into_iter().flat_map(|app| app.diagnostics).collect()
    };
    Ok(fix::apply(&app.text, &judge))
}

/// Somebody may have written the file since it was read: then it stays as it is.
fn write(path: &Path, app: &AppText, text: &str) -> anyhow::Result<()> {
    let now = std::fs::read(path).with_context(|| format!("cannot read '{}'", app.file))?;
    if now != app.text.as_bytes() {
        anyhow::bail!(
            "'{}' was changed by another program meanwhile: it is left as it is; try again",
            app.file
        );
    }
    replace_file(path, text)
}

fn in_words(app: &AppText, fixed: &Fixed, is_dry: bool, catalog: &Catalog) -> String {
    let count = fixed.applied.len();
    let mut codes: Vec<&str> = fixed.applied.iter().map(|a| a.code).collect();
    codes.dedup();
    let mut text = format!(
        "{} {}: {count} {} ({})",
        if is_dry { "would fix" } else { "fixed" },
        app.file,
        if count == 1 { "error" } else { "errors" },
        codes.join(", ")
    );
    for change in fix::changes(&app.text, &fixed.text) {
        let old = (change.lines.0..).zip(&change.before).map(|l| ('-', l));
        let new = (change.lines.1..).zip(&change.after).map(|l| ('+', l));
        for (sign, (number, line)) in old.chain(new) {
            text.push_str(&format!(
                "\n{number:>5} {sign} {}",
                render::line(line, catalog)
            ));
        }
    }
    text
}

impl FixedApp {
    pub fn to_json(&self) -> Json {
        let applied = self.applied.iter().map(|applied| {
            json!({
                "code": applied.code,
                "message": applied.message,
                "line": applied.at.line,
                "column": applied.at.column,
                "replaced": applied.replaced,
                "replacement": applied.replacement,
            })
        });
        json!({
            "file": self.file,
            "fixed": applied.collect::<Vec<Json>>(),
            "text": self.text,
        })
    }
}
