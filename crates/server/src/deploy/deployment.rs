//! The apps of a server as they were read, and how an order changes them.

use std::path::PathBuf;

use lang::diagnostic::{Diagnostic, Severity};
use lang::overrides::app_name;
use lang::source::LineIndex;
use serde_json::{Value as Json, json};

use super::folder::{DeploymentFolder, FileChange};
use super::{AppChange, DeployedApp, Deployer, Order, Reason, Refusal, Report, StateChange};
use crate::deployment::{self, AppText, LoadOptions, LoadedApp};
use crate::error::Error;
use crate::preview::Preview;
use crate::reload::Change;
use crate::report::chain;
use crate::server::Server;

/// What runs, and how it is changed.
pub struct Deployment {
    texts: Vec<AppText>,
    options: LoadOptions,
    folder: Option<DeploymentFolder>,
    /// The state directory.
    state: Option<PathBuf>,
    deployer: Deployer,
}

/// The apps as they are to be.
struct Target {
    texts: Vec<AppText>,
    files: Vec<FileChange>,
    /// Names of apps that are put, and whether each is new.
    put: Vec<(String, bool)>,
}

impl Deployment {
    /// `folder`: where deployed apps are kept, if they may be; `state`: the state directory.
    pub fn new(
        folder: Option<DeploymentFolder>,
        state: Option<PathBuf>,
        deployer: Deployer,
        options: LoadOptions,
    ) -> Deployment {
        Deployment {
            texts: Vec::new(),
            options,
            folder,
            state,
            deployer,
        }
    }

    pub fn folder(&self) -> Option<&DeploymentFolder> {
        self.folder.as_ref()
    }

    /// These run now, read with these options.
    pub fn set(&mut self, texts: Vec<AppText>, options: LoadOptions) {
        self.texts = texts;
        self.options = options;
        let apps = self.texts.iter().map(|app| DeployedApp {
            name: deployment::name_of(app),
            file: app.file.clone(),
            text: app.text.clone(),
        });
        self.deployer.set_apps(apps.collect());
    }

    /// Carries an order out. After a refusal everything runs as before.
    pub fn carry_out(&mut self, server: &mut Server, order: &Order) -> Result<Report, Refusal> {
        let target = self.target(order)?;
        let loaded = self.load(&target)?;
        let warnings = self.rendered(&loaded, &target);
        let config = self.options.config.clone().unwrap_or_default();
        let state = self.state_changes(&loaded, &target);
        let ready = deployment::ready(loaded, &config)
            .map_err(|error| Refusal::new(Reason::Invalid, chain(&error)))?;
        let cannot = |error: Error| Refusal::new(Reason::CannotStart, chain(&error));
        let mut reload = server.plan_reload(ready, config).map_err(cannot)?;
        reload.drops_state = order.drops_state;
        let report = Report {
            change: reload.change.clone(),
            put: target.put,
            state,
            warnings,
        };
        let lost = report.state.iter().find(|(_, s)| !s.dropped.is_empty());
        if let Some((app, lost)) = lost
            && !order.drops_state
        {
            let message = format!(
                "app '{app}' would lose state: {}; nothing was changed. Deploy it with drop-state \
                 (--drop-state) to begin without it",
                lost.dropped.join("; ")
            );
            return Err(Refusal::new(Reason::LosesState, message));
        }
        if order.is_dry_run {
            return Ok(report);
        }
        if !report.change.is_empty() {
            tracing::info!(change = %report.change, "deploying apps");
            server.reload(reload).map_err(cannot)?;
        }
        self.keep(server, &target.files, &report.change)?;
        self.set(target.texts, self.options.clone());
        tracing::info!(change = %report.change, "apps deployed");
        Ok(report)
    }

    /// Makes the order last. If that fails, the apps before run again.
    fn keep(
        &self,
        server: &mut Server,
        files: &[FileChange],
        change: &Change,
    ) -> Result<(), Refusal> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let Err(error) = folder.commit(files) else {
            return Ok(());
        };
        let mut message = format!("{}: nothing was changed", chain(&error));
        let config = self.options.config.clone().unwrap_or_default();
        let before = deployment::load(&self.texts, &self.options)
            .and_then(|apps| deployment::ready(apps, &config))
            .and_then(|apps| server.plan_reload(apps, config))
            .and_then(|reload| server.reload(reload));
        if let Err(again) = before {
            message = format!(
                "{}; and the apps before cannot be started again: {}",
                chain(&error),
                chain(&again)
            );
        }
        tracing::error!(cause = message, %change, "cannot keep deployed apps");
        Err(Refusal::new(Reason::CannotKeep, message))
    }

    /// The apps with the changes of an order.
    fn target(&self, order: &Order) -> Result<Target, Refusal> {
        let Some(folder) = &self.folder else {
            return Err(Refusal::new(
                Reason::NoFolder,
                "this server has no folder to keep apps in: start it with --state DIR, or with a folder \
                 of apps (headwater run DIR)",
            ));
        };
        let mut target = Target {
            texts: self.texts.clone(),
            files: Vec::new(),
            put: Vec::new(),
        };
        for change in &order.changes {
            match change {
                AppChange::Put(text) => put(&mut target, folder, text, order.is_new)?,
                AppChange::Remove(name) => remove(&mut target, folder, name)?,
            }
        }
        Ok(target)
    }

    /// Checks all apps together; those that are put must be right.
    fn load(&self, target: &Target) -> Result<Vec<LoadedApp>, Refusal> {
        let invalid = |error: Error| Refusal::new(Reason::Invalid, chain(&error));
        let loaded = deployment::load(&target.texts, &self.options).map_err(invalid)?;
        let faulty: Vec<&LoadedApp> = loaded.iter().filter(|app| app.has_errors()).collect();
        if faulty.is_empty() {
            return Ok(loaded);
        }
        let names: Vec<String> = faulty.iter().map(|a| format!("'{}'", a.name)).collect();
        let message = match names.as_slice() {
            [name] => format!("app {name} has errors; nothing was changed"),
            names => format!("apps {} have errors; nothing was changed", names.join(", ")),
        };
        let diagnostics = faulty.iter().flat_map(|app| {
            let lines = LineIndex::new(&app.text);
            app.diagnostics
                .iter()
                .map(move |d| to_json(d, app, &lines))
                .collect::<Vec<Json>>()
        });
        Err(Refusal {
            diagnostics: diagnostics.collect(),
            rendered: faulty.iter().map(|app| self.render(app)).collect(),
            ..Refusal::new(Reason::Invalid, message)
        })
    }

    fn render(&self, app: &LoadedApp) -> String {
        let file = file_name(&app.file);
        let (all, catalog) = (&app.diagnostics, &self.options.catalog);
        check::render::render(all, file, &app.text, catalog, false)
    }

    /// Warnings of the apps that are put.
    fn rendered(&self, loaded: &[LoadedApp], target: &Target) -> String {
        let is_put = |app: &&LoadedApp| {
            !app.diagnostics.is_empty() && target.put.iter().any(|(name, _)| *name == app.name)
        };
        loaded
            .iter()
            .filter(is_put)
            .map(|app| self.render(app))
            .collect()
    }

    /// What becomes of what is saved of the apps that are put. Without a state directory it is handed
    /// over in memory, and the reload itself refuses to lose any.
    fn state_changes(&self, loaded: &[LoadedApp], target: &Target) -> Vec<(String, StateChange)> {
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let put = loaded
            .iter()
            .filter(|app| target.put.iter().any(|(name, _)| *name == app.name));
        put.filter_map(|app| {
            // What cannot be read now is said by the start of the app.
            let preview = Preview::of(app.plan.as_ref()?, state).ok()??;
            let change = StateChange {
                survives: preview.survives,
                begins_empty: preview.begins_empty,
                dropped: preview.dropped,
            };
            Some((app.name.clone(), change))
        })
        .collect()
    }
}

fn put(
    target: &mut Target,
    folder: &DeploymentFolder,
    text: &str,
    is_new: bool,
) -> Result<(), Refusal> {
    let parsed = lang::parse(text);
    let Some(name) = app_name(&parsed.app).map(str::to_owned) else {
        return Err(Refusal::new(
            Reason::Invalid,
            "the app has no name: write @app:name('NAME') as its first line",
        ));
    };
    if target.put.iter().any(|(other, _)| *other == name) {
        let message = format!("app '{name}' is in the request twice");
        return Err(Refusal::new(Reason::Invalid, message));
    }
    let before = target
        .texts
        .iter()
        .position(|app| deployment::name_of(app) == name);
    if before.is_some() && is_new {
        let message = format!("there is an app '{name}' already: change it with PUT");
        return Err(Refusal::new(Reason::Exists, message));
    }
    let file = match before {
        Some(at) => fixed(folder, &target.texts[at], &name)?,
        None => folder.file_for(&name),
    };
    target.put.push((name, before.is_none()));
    target.files.push(FileChange {
        file: file_name(&file).to_owned(),
        text: Some(text.to_owned()),
    });
    let app = AppText {
        file,
        text: text.to_owned(),
    };
    match before {
        Some(at) => target.texts[at] = app,
        None => target.texts.push(app),
    }
    Ok(())
}

fn remove(target: &mut Target, folder: &DeploymentFolder, name: &str) -> Result<(), Refusal> {
    let at = target
        .texts
        .iter()
        .position(|app| deployment::name_of(app) == name);
    let Some(at) = at else {
        let message = format!("there is no app '{name}'");
        return Err(Refusal::new(Reason::Unknown, message));
    };
    let file = fixed(folder, &target.texts[at], name)?;
    target.texts.remove(at);
    target.files.push(FileChange {
        file: file_name(&file).to_owned(),
        text: None,
    });
    Ok(())
}

/// The file of an app, if it is one that may be changed.
fn fixed(folder: &DeploymentFolder, app: &AppText, name: &str) -> Result<String, Refusal> {
    if folder.holds(&app.file) {
        return Ok(app.file.clone());
    }
    Err(Refusal::new(
        Reason::Fixed,
        format!(
            "app '{name}' was started from '{}', which does not lie in the folder of deployed apps \
             '{}': change that file and reload it with SIGHUP",
            app.file,
            folder.path().display()
        ),
    ))
}

fn file_name(file: &str) -> &str {
    let name = std::path::Path::new(file).file_name();
    name.and_then(|name| name.to_str()).unwrap_or(file)
}

fn to_json(diagnostic: &Diagnostic, app: &LoadedApp, lines: &LineIndex) -> Json {
    let start = lines.position(&app.text, diagnostic.span.start);
    let end = lines.position(&app.text, diagnostic.span.end);
    json!({
        "app": app.name,
        "code": diagnostic.code,
        "severity": diagnostic.severity.name(),
        "is_error": diagnostic.severity == Severity::Error,
        "message": diagnostic.message,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
        "label": diagnostic.label,
        "help": diagnostic.help,
    })
}
