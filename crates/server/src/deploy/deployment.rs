//! The apps of a server as they were read, and how an order changes them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use lang::ast::Element;
use lang::diagnostic::{Diagnostic, Severity};
use lang::overrides::app_name;
use lang::source::LineIndex;
use serde_json::{Value as Json, json};

use super::folder::{COMMIT, Commit, DeploymentFolder, FileChange, crc_of};
use super::{AppChange, DeployedApp, Deployer, Order, Reason, Refusal, Report, StateChange};
use crate::deployment::{self, AppText, LoadOptions, LoadedApp};
use crate::error::Error;
use crate::preview::Preview;
use crate::report::chain;
use crate::server::Server;

/// A file of the folder that was written, with its text; without one it was removed.
pub type Written = (PathBuf, Option<String>);

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
#[derive(Default)]
struct Target {
    texts: Vec<AppText>,
    files: Vec<FileChange>,
    /// Names of apps that are put, and whether each is new.
    put: Vec<(String, bool)>,
    removed: Vec<String>,
    /// Files of apps, with the names by which whoever sent them knows them.
    given: Vec<(String, String)>,
    /// Files of the folder that are not as they were read.
    edited: Vec<AppText>,
    /// Faults are shown in colour.
    is_coloured: bool,
}

impl Target {
    /// How the file of an app is called in what is said.
    fn given<'a>(&'a self, file: &'a str) -> &'a str {
        let known = self.given.iter().find(|(path, _)| path == file);
        known.map_or_else(|| file_name(file), |(_, given)| given)
    }

    /// What is to be done to the folder.
    fn commit(&self, order: &Order) -> Commit {
        let put = self.put.iter().map(|(name, _)| name.clone());
        let texts = self.files.iter().filter_map(|file| file.text.as_deref());
        let drops = put.clone().zip(texts.map(crc_of));
        Commit {
            files: self.files.clone(),
            apps: put.chain(self.removed.iter().cloned()).collect(),
            drops: drops.filter(|_| order.drops_state).collect(),
        }
    }

    /// Refuses to write over what somebody has changed since the server read it.
    fn must_be_as_read(&self, name: &str, file: Option<&str>) -> Result<(), Refusal> {
        let is_it =
            |app: &&AppText| file == Some(app.file.as_str()) || deployment::name_of(app) == name;
        match self.edited.iter().find(is_it) {
            None => Ok(()),
            Some(edited) => Err(Refusal::new(
                Reason::Edited,
                format!(
                    "'{}' is not as the server has read it: have it read its folder again (SIGHUP), or move the \
                     file away; nothing was changed",
                    edited.file
                ),
            )),
        }
    }
}

fn no_folder() -> Refusal {
    Refusal::new(
        Reason::NoFolder,
        "this server has no folder to keep apps in: start it with --state DIR, or with a folder of apps \
         (headwater run DIR)",
    )
}

fn cannot_keep(error: Error) -> Refusal {
    Refusal::new(
        Reason::CannotKeep,
        format!("{}; nothing was changed", chain(&error)),
    )
}

/// The apps have not started: the folder stays as it was.
fn abandon(folder: &DeploymentFolder, target: &Target, error: &Error) -> Refusal {
    let mut message = match error {
        Error::NotStarted(parts) => {
            let parts = parts.iter().map(|(part, cause)| match target.place(part) {
                Some(place) => format!("{part} at {place}: {cause}"),
                None => format!("{part}: {cause}"),
            });
            let parts: Vec<String> = parts.collect();
            format!("cannot start {}; the apps before run on", parts.join("; "))
        }
        error => chain(error),
    };
    if let Err(error) = folder.abandon() {
        message += &format!(
            "; and the next start would try it again: {}; remove '{}'",
            chain(&error),
            folder.path().join(COMMIT).display()
        );
    }
    Refusal::new(Reason::CannotStart, message)
}

impl Target {
    /// Where `source 'App/Stream[1]'` is written: file, line and column.
    fn place(&self, part: &str) -> Option<String> {
        let (kind, rest) = part.split_once(" '")?;
        let (app, key) = rest.strip_suffix("]'")?.split_once('/')?;
        let (stream, number) = key.rsplit_once('[')?;
        let number: usize = number.parse().ok()?;
        let app = self
            .texts
            .iter()
            .find(|own| deployment::name_of(own) == app)?;
        let parsed = lang::parse(&app.text);
        let annotations = parsed.app.elements.iter().filter_map(|e| match e {
            Element::Stream(def) if def.name.name.text == stream => Some(&def.annotations),
            _ => None,
        });
        let mut all = annotations.flatten().filter(|a| a.is(kind));
        let start = all.nth(number.checked_sub(1)?)?.span.start;
        let at = LineIndex::new(&app.text).position(&app.text, start);
        let file = self.given(&app.file);
        Some(format!("{file}:{}:{}", at.line, at.column))
    }
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

    pub fn folder(&mut self) -> Option<&mut DeploymentFolder> {
        self.folder.as_mut()
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

    /// Carries an order out. After a refusal everything runs as before. Gives also the files of the folder
    /// that it has changed.
    pub fn carry_out(
        &mut self,
        server: &mut Server,
        order: &Order,
    ) -> (Result<Report, Refusal>, Vec<Written>) {
        let mut files = Vec::new();
        let mut result = self.try_carry_out(server, order, &mut files);
        let hide = |text: &mut String| *text = self.options.secrets.hidden.hide(text).into_owned();
        match &mut result {
            Ok(report) => hide(&mut report.warnings),
            Err(refusal) => {
                hide(&mut refusal.message);
                hide(&mut refusal.rendered);
                for diagnostic in &mut refusal.diagnostics {
                    for key in ["message", "label", "help"] {
                        if let Json::String(text) = &mut diagnostic[key] {
                            hide(text);
                        }
                    }
                }
            }
        }
        if let Err(refusal) = &result {
            tracing::warn!(cause = refusal.message, "deployment refused");
        }
        (result, files)
    }

    fn try_carry_out(
        &mut self,
        server: &mut Server,
        order: &Order,
        changed: &mut Vec<Written>,
    ) -> Result<Report, Refusal> {
        let target = self.target(order)?;
        let loaded = self.load(&target)?;
        let warnings = self.rendered(&loaded, &target);
        let config = self.options.config.clone().unwrap_or_default();
        let state = self.state_changes(&loaded, &target);
        let ready = deployment::ready(loaded, &config)
            .map_err(|error| Refusal::new(Reason::Invalid, chain(&error)))?;
        let mut reload = server
            .plan_reload(ready, config)
            .map_err(|error| Refusal::new(Reason::CannotStart, chain(&error)))?;
        let report = Report {
            change: reload.change.clone(),
            put: target.put.clone(),
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
        let commit = target.commit(order);
        reload.may_drop = self.may_drop(&target, &commit)?;
        reload.must_start = true;
        // Whatever happens from here on, the next start has the apps of the commit, until it is abandoned.
        let folder = self.folder.as_mut().ok_or_else(no_folder)?;
        folder.begin(&commit).map_err(cannot_keep)?;
        if !report.change.is_empty() {
            tracing::info!(change = %report.change, "deploying apps");
            if let Err(error) = server.reload(reload) {
                return Err(abandon(folder, &target, &error));
            }
        }
        let files = commit.files.iter();
        changed.extend(files.map(|c| (folder.path().join(&c.file), c.text.clone())));
        folder.finish(commit);
        self.set(target.texts, self.options.clone());
        tracing::info!(change = %report.change, "apps deployed");
        Ok(report)
    }

    /// Apps whose state may be dropped: those of the commit, and those that were allowed to before and stay.
    fn may_drop(&self, target: &Target, commit: &Commit) -> Result<BTreeSet<String>, Refusal> {
        let folder = self.folder.as_ref().ok_or_else(no_folder)?;
        let mut allowed = folder.may_drop(&target.texts).map_err(cannot_keep)?;
        allowed.retain(|app| !commit.apps.contains(app));
        allowed.extend(commit.drops.keys().cloned());
        Ok(allowed)
    }

    /// The apps with the changes of an order.
    fn target(&mut self, order: &Order) -> Result<Target, Refusal> {
        let folder = self.folder.as_mut().ok_or_else(no_folder)?;
        let mut target = Target {
            texts: self.texts.clone(),
            edited: folder.edited(&self.texts).map_err(cannot_keep)?,
            ..Target::default()
        };
        for change in &order.changes {
            match change {
                AppChange::Put { text, file } => {
                    put(&mut target, folder, text, file.as_deref(), order.is_new)?;
                }
                AppChange::Remove(name) => remove(&mut target, folder, name)?,
            }
        }
        target.is_coloured = order.is_coloured;
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
                .map(move |d| to_json(d, app, target.given(&app.file), &lines))
                .collect::<Vec<Json>>()
        });
        Err(Refusal {
            diagnostics: diagnostics.collect(),
            rendered: faulty.iter().map(|app| self.render(app, target)).collect(),
            ..Refusal::new(Reason::Invalid, message)
        })
    }

    fn render(&self, app: &LoadedApp, target: &Target) -> String {
        let file = target.given(&app.file);
        let (all, catalog) = (&app.diagnostics, &self.options.catalog);
        check::render::render(all, file, &app.text, catalog, target.is_coloured)
    }

    /// Warnings of the apps that are put.
    fn rendered(&self, loaded: &[LoadedApp], target: &Target) -> String {
        let is_put = |app: &&LoadedApp| {
            !app.diagnostics.is_empty() && target.put.iter().any(|(name, _)| *name == app.name)
        };
        loaded
            .iter()
            .filter(is_put)
            .map(|app| self.render(app, target))
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
    given: Option<&str>,
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
    target.must_be_as_read(&name, before.map(|_| file.as_str()))?;
    if let Some(given) = given {
        target.given.push((file.clone(), given.to_owned()));
    }
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
    target.must_be_as_read(name, Some(&file))?;
    target.removed.push(name.to_owned());
    target.texts.remove(at);
    target.files.push(FileChange {
        file: file_name(&file).to_owned(),
        text: None,
    });
    Ok(())
}

/// The file of an app, if it is one that may be changed.
fn fixed(folder: &DeploymentFolder, app: &AppText, name: &str) -> Result<String, Refusal> {
    let is_link = std::fs::symlink_metadata(&app.file).is_ok_and(|file| file.is_symlink());
    if folder.holds(&app.file) && !is_link {
        return Ok(app.file.clone());
    }
    if is_link {
        let message = format!(
            "app '{name}' was started from '{}', which is a symbolic link: change what it leads to, and reload \
             it with SIGHUP",
            app.file
        );
        return Err(Refusal::new(Reason::Fixed, message));
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

fn to_json(diagnostic: &Diagnostic, app: &LoadedApp, file: &str, lines: &LineIndex) -> Json {
    let start = lines.position(&app.text, diagnostic.span.start);
    let end = lines.position(&app.text, diagnostic.span.end);
    json!({
        "app": app.name,
        "file": file,
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
