//! `headwater check`, and the diagnostics that `run` shows.

mod fix;
mod report;

use std::path::PathBuf;

use check::render;
use lang::diagnostic::{Diagnostic, Severity};
use lang::source::LineIndex;
use serde_json::{Value, json};
use server::Error;
use server::capp::{self, Capp};
use server::deployment::{self, LoadedApp};
use server::listening::{DefaultAddress, default_addresses};
use server::probe::Finding;

use crate::cli::sql::ScriptArgs;
use crate::cli::{CheckArgs, ReportFormat};
use crate::command::load_options;
use crate::output::Output;
use crate::sql::ScriptFiles;
use crate::upkeep::PurgeFiles;

pub fn run(args: &CheckArgs, output: &Output) -> anyhow::Result<u8> {
    fix::refuse_changes(args)?;
    let secrets = args.change.secrets.secrets(None, output);
    let options = load_options(&args.change, secrets, args.runnable)?;
    let mut texts = deployment::read_all(&args.apps)?;
    let fixed = match args.fix {
        true => fix::apply(&mut texts, args, &options, output)?,
        false => Vec::new(),
    };
    let apps = deployment::load(&texts, &options)?;
    judge_batches(&args.apps, output)?;
    let twins = deployment::twins(&apps);
    let has_errors = !twins.is_empty() || apps.iter().any(LoadedApp::has_errors);
    let findings = if args.connect && !has_errors {
        server::probe::findings(&apps, &crate::registry::REGISTRY)
    } else {
        Vec::new()
    };
    let listening = match has_errors {
        true => Vec::new(),
        false => default_addresses(&apps, &options),
    };
    let found = report::Found {
        apps: &apps,
        twins: &twins,
        findings: &findings,
    };
    match args.format() {
        ReportFormat::Json => {
            let apps: Vec<Value> = apps.iter().map(app_json).collect();
            let listening: Vec<Value> = listening.iter().map(listening_json).collect();
            let mut document =
                json!({"version": 1, "apps": apps, "errors": twins, "listening": listening});
            if args.connect {
                document["findings"] = findings.iter().map(finding_json).collect();
            }
            if args.fix {
                document["fixes"] = fixed.iter().map(fix::FixedApp::to_json).collect();
            }
            output.print_json(&document)?;
        }
        ReportFormat::Sarif => output.print_json(&report::sarif(&found))?,
        ReportFormat::Github => output.print(&report::github(&found))?,
        ReportFormat::Text => {
            say(&found, has_errors, output);
            if !output.is_quiet {
                listening
                    .iter()
                    .for_each(|source| say_listening(source, output));
            }
        }
    }
    let is_other = findings.iter().any(|finding| finding.is_reached);
    let is_unreached = findings.iter().any(|finding| !finding.is_reached);
    Ok(match (has_errors || is_other, is_unreached) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    })
}

/// The CApps among the arguments.
///
/// # Errors
/// One cannot be read or is wrong.
pub(super) fn capps(arguments: &[PathBuf]) -> Result<Vec<Capp>, Error> {
    let paths = capp::find(arguments)?;
    paths.iter().map(|path| capp::read(path)).collect()
}

/// Batch scripts and purges of CApps. Without an event store, only what they are written in can be wrong.
fn judge_batches(arguments: &[PathBuf], output: &Output) -> anyhow::Result<()> {
    let capps = capps(arguments)?;
    ScriptFiles::read(&ScriptArgs::default(), &capps, output.colour)?;
    PurgeFiles::read(&[], &capps)?;
    Ok(())
}

/// For people, on standard error.
fn say(found: &report::Found, has_errors: bool, output: &Output) {
    show(found.apps, output);
    for finding in found.findings {
        output.error(&in_words(finding));
    }
    for twins in found.twins {
        output.error(twins);
    }
    // One app with errors has said so.
    let is_known = has_errors && found.apps.len() == 1;
    if found.findings.is_empty() && !output.is_quiet && !is_known {
        output.say(&totals(found.apps, has_errors));
    }
}

/// Nobody has written where this one listens.
fn say_listening(source: &DefaultAddress, output: &Output) {
    let DefaultAddress {
        app,
        stream,
        ty,
        address,
    } = source;
    output.say(&format!(
        "note: {app}/{stream}: source '{ty}' does not say where it listens: it will be {address}"
    ));
}

fn listening_json(source: &DefaultAddress) -> Value {
    json!({
        "app": source.app,
        "stream": source.stream,
        "type": source.ty,
        "address": source.address,
    })
}

/// The last line of judgement: how it stands with all of them.
fn totals(apps: &[LoadedApp], has_errors: bool) -> String {
    /// As many apps are named.
    const NAMED: usize = 5;
    let warnings = apps.iter().flat_map(|app| &app.diagnostics);
    let warnings = warnings.filter(|d| d.severity == Severity::Warning).count();
    let warnings = match warnings {
        0 => String::new(),
        1 => "; 1 warning".to_owned(),
        count => format!("; {count} warnings"),
    };
    let faulty = apps.iter().filter(|app| app.has_errors()).count();
    match (has_errors, apps.len()) {
        (false, count) if count <= NAMED => {
            let names: Vec<&str> = apps.iter().map(|a| a.name.as_str()).collect();
            format!("no errors: {}{warnings}", names.join(", "))
        }
        (false, count) => format!("no errors in {count} apps{warnings}"),
        (true, count) if faulty == 0 => {
            format!("{count} apps without errors of their own, but with names used twice{warnings}")
        }
        (true, count) => format!("{faulty} of {count} apps have errors{warnings}"),
    }
}

fn in_words(finding: &Finding) -> String {
    let Finding {
        file,
        line,
        column,
        app,
        element,
        message,
        ..
    } = finding;
    let help = finding.help.iter().map(|help| format!("\n  help: {help}"));
    let help: String = help.collect();
    format!("{file}:{line}:{column}: {app}/{element}: {message}{help}")
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "app": finding.app,
        "element": finding.element,
        "reached": finding.is_reached,
        "message": finding.message,
        "help": finding.help,
    })
}

/// Shows the diagnostics of all apps on standard error; true if one is an error.
pub fn show(apps: &[LoadedApp], output: &Output) -> bool {
    for app in apps {
        let shown: Vec<Diagnostic> = app
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error || !output.is_quiet)
            .cloned()
            .collect();
        if !shown.is_empty() {
            let text = render::render(
                &shown,
                &app.file,
                &app.text,
                &catalog::full(),
                output.colour,
            );
            output.say(text.trim_end());
            output.say("");
        }
    }
    apps.iter().any(LoadedApp::has_errors)
}

fn app_json(app: &LoadedApp) -> Value {
    let lines = LineIndex::new(&app.text);
    let diagnostics: Vec<Value> = app
        .diagnostics
        .iter()
        .map(|d| diagnostic_json(d, &app.file, &app.text, &lines))
        .collect();
    let is_runnable = match &app.plan {
        Some(plan) => plan.not_runnable.is_empty(),
        None => !app.is_app && !app.has_errors(),
    };
    json!({
        "file": app.file,
        "name": app.name,
        "accepted": !app.has_errors(),
        "runnable": is_runnable,
        "diagnostics": diagnostics,
    })
}

/// A finding in a text, with its places as lines and columns from 1.
pub(super) fn diagnostic_json(
    diagnostic: &Diagnostic,
    file: &str,
    text: &str,
    lines: &LineIndex,
) -> Value {
    let start = lines.position(text, diagnostic.span.start);
    let end = lines.position(text, diagnostic.span.end);
    let fix = diagnostic.fix.as_ref().map(|fix| {
        let start = lines.position(text, fix.span.start);
        let end = lines.position(text, fix.span.end);
        json!({
            "line": start.line,
            "column": start.column,
            "end_line": end.line,
            "end_column": end.column,
            "replacement": fix.replacement,
        })
    });
    let related: Vec<Value> = diagnostic
        .related
        .iter()
        .map(|(span, label)| {
            let at = lines.position(text, span.start);
            json!({"line": at.line, "column": at.column, "label": label})
        })
        .collect();
    json!({
        "code": diagnostic.code,
        "severity": diagnostic.severity.name(),
        "kind": diagnostic.kind.name(),
        "message": diagnostic.message,
        "file": file,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
        "label": diagnostic.label,
        "related": related,
        "help": diagnostic.help,
        "fix": fix,
    })
}
