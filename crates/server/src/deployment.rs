//! From the texts of apps to plans: variables, `--replace`, `--set`, check.
//!
//! Promises: all faults of all apps at once, each at its place in the text as the user wrote it; two
//! apps of one name are not run together. Never: runs or connects anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use check::Catalog;
use check::codes::option as code;
use check::validate::{Deployed, Setting};
use check::{CheckConfig, Producer, check};
use connect::registry::Registry;
use gateway::document::{self, Document};
use gateway::project;
use lang::diagnostic::{Diagnostic, Severity};
use lang::source::LineIndex;
use lang::substitute::{APP_DIR, Substituted};
use lang::{Parsed, overrides, parse, substitute};
use plan::Plan;

use crate::absent;
use crate::apis;
use crate::capp;
use crate::config::Config;
use crate::error::Error;
use crate::secrets::{Opened, Secrets};

/// The text of one app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppText {
    /// As given on the command line, or found in a directory.
    pub file: String,
    pub text: String,
}

/// How apps are changed and judged before they run.
#[derive(Clone)]
pub struct LoadOptions {
    /// The technologies of the binary.
    pub registry: Registry,
    /// What apps may be made of, also where the binary lacks it.
    pub catalog: Catalog,
    /// `[App/]Element.annotation[N].option=value`.
    pub sets: Vec<String>,
    /// `OLD=NEW`.
    pub replaces: Vec<String>,
    /// `None` where the configuration that the apps will run with is not known.
    pub config: Option<Config>,
    /// What is known but does not run yet is an error.
    pub must_run: bool,
    /// An option whose name is misspelt is a warning.
    pub is_lenient: bool,
    /// What `${secret:NAME}` stands for.
    pub secrets: Secrets,
}

impl LoadOptions {
    /// Apps as they are written, for a binary with these technologies.
    pub fn new(registry: Registry, catalog: Catalog) -> LoadOptions {
        LoadOptions {
            registry,
            catalog,
            sets: Vec::new(),
            replaces: Vec::new(),
            config: None,
            must_run: false,
            is_lenient: false,
            secrets: Secrets::default(),
        }
    }
}

/// One app, or the document of an API, judged.
#[derive(Clone, Debug)]
pub struct LoadedApp {
    pub file: String,
    /// The text as it is in the file.
    pub text: String,
    /// `@app:name`, or the name of the file.
    pub name: String,
    /// Places are those in `text`.
    pub diagnostics: Vec<Diagnostic>,
    /// The text with the values of its variables put in.
    pub text_as_run: String,
    /// `--set` with the values of its variables put in.
    pub(crate) sets_as_run: Vec<String>,
    /// `None` if a diagnostic is an error, and of a document.
    pub plan: Option<Plan>,
    /// What the document of an API says, which is the whole text, or within an app.
    pub document: Option<Box<Document>>,
    /// It is an app, whether it can run or not.
    pub is_app: bool,
}

/// An app that may run. Two are equal if they were made from one text, with the same overrides.
#[derive(Clone, Debug)]
pub struct ReadyApp {
    pub plan: Arc<Plan>,
    text: String,
    sets: Vec<String>,
    /// What documents of APIs add to it.
    topics: String,
}

impl ReadyApp {
    pub fn name(&self) -> &str {
        &self.plan.name
    }
}

impl PartialEq for ReadyApp {
    fn eq(&self, other: &ReadyApp) -> bool {
        self.name() == other.name()
            && self.text == other.text
            && self.sets == other.sets
            && self.topics == other.topics
    }
}

impl LoadedApp {
    pub fn has_errors(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|d| d.severity == Severity::Error)
    }
}

/// The files behind the arguments: files as they are, of a directory every `*.siddhi` in the order
/// of the names.
pub fn find_files(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    find(arguments, &|_| false)
}

/// As [`find_files`], and of a directory also the documents of APIs and CApps.
pub fn find_all(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    find(arguments, &is_found_beside_apps)
}

/// The documents of APIs and the CApps in a directory, in the order of their names.
pub fn find_documents(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(Error::file("read folder", directory))? {
        let path = entry.map_err(Error::file("read folder", directory))?.path();
        if is_found_beside_apps(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_found_beside_apps(path: &Path) -> bool {
    is_document_file(path) || project::is_project(path) || capp::is_capp(path)
}

/// Other files may have such names as well.
fn is_document_file(path: &Path) -> bool {
    document::may_be_document(path)
        && path.is_file()
        && std::fs::read_to_string(path).is_ok_and(|text| document::is_document(&text))
}

fn find(arguments: &[PathBuf], also: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for argument in arguments {
        if !argument.is_dir() || project::is_project(argument) && also(argument) {
            files.push(argument.clone());
            continue;
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(argument).map_err(Error::file("read folder", argument))? {
            let path = entry.map_err(Error::file("read folder", argument))?.path();
            let is_app = || path.is_file() && path.extension().is_some_and(|e| e == "siddhi");
            if is_app() || also(&path) {
                found.push(path);
            }
        }
        if found.is_empty() {
            return Err(Error::Usage(format!(
                "folder '{}' has no file that ends in .siddhi",
                argument.display()
            )));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

/// Stands for standard input among the arguments.
const STANDARD_INPUT: &str = "-";

fn read_standard_input() -> Result<AppText, Error> {
    let text =
        std::io::read_to_string(std::io::stdin()).map_err(Error::file("read", "standard input"))?;
    Ok(AppText {
        file: "stdin".to_owned(),
        text,
    })
}

/// Reads the files behind the arguments; `-` is standard input.
pub fn read_texts(arguments: &[PathBuf]) -> Result<Vec<AppText>, Error> {
    read_files(find_files(arguments)?)
}

/// As [`read_texts`], with the documents of APIs and CApps.
pub fn read_all(arguments: &[PathBuf]) -> Result<Vec<AppText>, Error> {
    read_files(find_all(arguments)?)
}

/// Reads files as they are. A CApp that defines no stream has no text.
pub fn read_files(files: Vec<PathBuf>) -> Result<Vec<AppText>, Error> {
    let texts = files.into_iter().map(|path| {
        if path == Path::new(STANDARD_INPUT) {
            return read_standard_input().map(Some);
        }
        if project::is_project(&path) {
            return read_project(&path).map(Some);
        }
        if capp::is_capp(&path) {
            return read_capp(&path);
        }
        read_file(&path).map(Some)
    });
    texts.filter_map(Result::transpose).collect()
}

fn read_file(path: &Path) -> Result<AppText, Error> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::Refused(format!(
            "file '{}' is not UTF-8 (byte {at}): save it in that encoding",
            path.display()
        ))
    })?;
    Ok(AppText {
        file: path.display().to_string(),
        text,
    })
}

/// The app that a CApp of WSO2 DAS becomes. Its batch scripts and purges are no part of an app.
fn read_capp(path: &Path) -> Result<Option<AppText>, Error> {
    let file = path.display().to_string();
    let capp = capp::read(path)?;
    for note in &capp.notes {
        tracing::warn!(capp = file, note, "not as in DAS");
    }
    Ok(capp.app.map(|text| AppText { file, text }))
}

/// The document that a project of API Manager's becomes.
fn read_project(path: &Path) -> Result<AppText, Error> {
    let file = path.display().to_string();
    let imported = project::import(path, &project::Issuer::default());
    let imported = imported.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Error::Refused(format!(
            "project '{file}': {error}{}",
            cause.unwrap_or_default()
        ))
    })?;
    for note in &imported.notes {
        tracing::warn!(project = file, note, "not as in API Manager");
    }
    Ok(AppText {
        file,
        text: imported.document,
    })
}

/// Parses, changes and checks the apps together. Faults in the apps are in their diagnostics; an
/// error is a fault in how the command was used.
pub fn load(texts: &[AppText], options: &LoadOptions) -> Result<Vec<LoadedApp>, Error> {
    let is_document: Vec<bool> = texts.iter().map(apis::is_document).collect();
    if !is_document.contains(&true) {
        let mut loaded = load_apps(texts, options)?;
        apis::judge_together(&mut loaded, options.must_run);
        return Ok(loaded);
    }
    let apps = texts
        .iter()
        .zip(&is_document)
        .filter(|(_, is_document)| !**is_document);
    let apps: Vec<AppText> = apps.map(|(text, _)| text.clone()).collect();
    let mut apps = load_apps(&apps, options)?.into_iter();
    let in_order =
        texts
            .iter()
            .zip(is_document)
            .filter_map(|(text, is_document)| match is_document {
                true => Some(apis::load(text)),
                false => apps.next(),
            });
    let mut loaded: Vec<LoadedApp> = in_order.collect();
    apis::judge_together(&mut loaded, options.must_run);
    Ok(loaded)
}

fn load_apps(texts: &[AppText], options: &LoadOptions) -> Result<Vec<LoadedApp>, Error> {
    let opened = options.secrets.open();
    let variable = |app: &AppText, name: &str| {
        if name == APP_DIR {
            return folder_of(&app.file);
        }
        let properties = options.config.iter().flat_map(|c| &c.properties);
        let property = properties.clone().find(|(key, _)| key == name);
        property
            .map(|(_, value)| value.clone())
            .or_else(|| opened.value(name))
    };
    let mut parsed: Vec<(Substituted<'_>, Vec<Diagnostic>, Parsed)> = texts
        .iter()
        .map(|app| {
            let (text, faults) = substitute(&app.text, &|name| variable(app, name));
            let parsed = parse(&text.text);
            (text, faults, parsed)
        })
        .collect();
    let sets = options.sets.iter().map(|set| valued(set, &opened));
    let sets = sets.collect::<Result<Vec<String>, Error>>();
    let texts_as_run = parsed.iter().map(|(text, ..)| &*text.text);
    let sets_as_run = sets.iter().flatten().map(String::as_str);
    for text in texts_as_run.chain(sets_as_run) {
        opened.hide_secrets_of(text, &options.catalog);
    }
    opened.close()?;
    let sets = sets?;
    apply_overrides(&mut parsed, &sets, options)?;
    let mut apps = Vec::new();
    let mut substituted = Vec::new();
    for (app, (text, faults, parsed)) in texts.iter().zip(parsed) {
        let mut loaded = judge(app, &text, faults, &parsed, options);
        loaded.sets_as_run.clone_from(&sets);
        apps.push(loaded);
        substituted.push(text);
    }
    same_producers(&mut apps, &substituted);
    match sets.iter().find_map(|set| unknown_set(set, &apps)) {
        Some(error) => Err(error),
        None => Ok(apps),
    }
}

/// Where the file of an app is; of standard input, where the server was started. A whole path, so that
/// positions and states that name files stay right wherever the next start is.
fn folder_of(file: &str) -> Option<String> {
    let path = std::path::absolute(file).ok()?;
    path.parent().map(|folder| folder.display().to_string())
}

/// An option that the command line adds and that its component does not have: nobody can have meant
/// that, and no place in the app is to blame.
fn unknown_set(setting: &str, apps: &[LoadedApp]) -> Option<Error> {
    let (path, _) = setting.split_once('=')?;
    let unknown = |d: &&Diagnostic| matches!(d.code, code::UNKNOWN | code::MISSPELT);
    for app in apps {
        for diagnostic in app.diagnostics.iter().filter(unknown) {
            let span = diagnostic.span.start as usize..diagnostic.span.end as usize;
            let written = app.text.get(span).unwrap_or_default();
            let (_, rest) = diagnostic.message.split_once(" has no option '")?;
            let (name, _) = rest.split_once('\'')?;
            let is_set = path.strip_suffix(name).is_some_and(|p| p.ends_with('.'));
            if is_set && written.trim_matches(['\'', '"']) != name {
                let message = diagnostic.message.trim_end_matches(": it is ignored");
                let help = diagnostic.help.as_deref().unwrap_or_default();
                let help = help.split(" (--lenient").next().unwrap_or_default();
                return Some(Error::Usage(format!("--set {path}: {message}; {help}")));
            }
        }
    }
    None
}

/// Apps that cannot run beside each other, because they have one name.
pub fn twins(apps: &[LoadedApp]) -> Vec<String> {
    let mut found = Vec::new();
    for (i, app) in apps.iter().enumerate() {
        let is_twin = |other: &&LoadedApp| other.name == app.name && other.is_app && app.is_app;
        if let Some(twin) = apps[..i].iter().find(is_twin) {
            found.push(format!(
                "two apps have the name '{}': '{}' and '{}'; give one of them another @app:name",
                app.name, twin.file, app.file
            ));
        }
    }
    found
}

/// Sinks of different apps that take their `transactional.id` away from each other; of those of one
/// app its check knows.
fn same_producers(apps: &mut [LoadedApp], texts: &[Substituted<'_>]) {
    let mut found: Vec<(usize, Diagnostic)> = Vec::new();
    let all: Vec<Vec<Producer<'_>>> = apps
        .iter()
        .map(|app| app.plan.iter().flat_map(Producer::all).collect())
        .collect();
    for (app, own) in all.iter().enumerate() {
        for producer in own {
            let before = all[..app].iter().enumerate();
            let mut before = before.flat_map(|(other, of)| of.iter().map(move |p| (other, p)));
            let Some((other, first)) = before.find(|(_, first)| first.is_same(producer)) else {
                continue;
            };
            let LoadedApp { file, text, .. } = &apps[other];
            let at = texts[other].to_original(first.span).start;
            let at = LineIndex::new(text).position(text, at);
            let help = format!(
                "the other is that of stream '{}' at {file}:{}:{}: give each its own id in its \
                 'optional.configuration'",
                first.stream, at.line, at.column
            );
            found.push((app, in_original(&producer.taken(help), &texts[app])));
        }
    }
    for (app, diagnostic) in found {
        let app = &mut apps[app];
        app.plan = None;
        app.diagnostics.push(diagnostic);
        app.diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    }
}

/// `--set` with the values of the variables in it.
fn valued(setting: &str, opened: &Opened<'_>) -> Result<String, Error> {
    let Some((path, value)) = setting.split_once('=') else {
        return Ok(setting.to_owned());
    };
    let (value, faults) = substitute(value, &|name| opened.value(name));
    let Some(fault) = faults.first() else {
        return Ok(format!("{path}={}", value.text));
    };
    let help = fault.help.as_deref().unwrap_or_default();
    Err(Error::Usage(format!(
        "--set {path}: {}; {help}",
        fault.message
    )))
}

fn apply_overrides(
    parsed: &mut [(Substituted<'_>, Vec<Diagnostic>, Parsed)],
    sets: &[String],
    options: &LoadOptions,
) -> Result<(), Error> {
    if sets.is_empty() && options.replaces.is_empty() {
        return Ok(());
    }
    let usage = |error: overrides::Error| Error::Usage(error.to_string());
    let mut apps: Vec<lang::ast::App> = parsed
        .iter_mut()
        .map(|(_, _, p)| std::mem::take(&mut p.app))
        .collect();
    for replace in &options.replaces {
        let (old, new) = replace
            .split_once('=')
            .ok_or_else(|| Error::Usage(format!("'{replace}' has no '='; write OLD=NEW")))?;
        overrides::apply_replace(&mut apps, old, new).map_err(usage)?;
    }
    for setting in sets {
        overrides::apply_set(&mut apps, setting).map_err(usage)?;
    }
    for ((_, _, p), app) in parsed.iter_mut().zip(apps) {
        p.app = app;
    }
    Ok(())
}

fn judge(
    app: &AppText,
    text: &Substituted<'_>,
    mut faults: Vec<Diagnostic>,
    parsed: &Parsed,
    options: &LoadOptions,
) -> LoadedApp {
    let is_error = |d: &&Diagnostic| d.severity == Severity::Error;
    let config = CheckConfig {
        deployed: options.config.as_ref().map(deployed).unwrap_or_default(),
        properties: options
            .config
            .as_ref()
            .map(|c| c.properties.iter().cloned().collect()),
        must_run: options.must_run,
        is_lenient: options.is_lenient,
        script_fault: Some(script::fault),
        syntax_faults: parsed
            .diagnostics
            .iter()
            .filter(is_error)
            .map(|d| d.span)
            .collect(),
    };
    let checked = check(&parsed.app, &options.catalog, &config);
    let found = parsed.diagnostics.iter().chain(&checked.diagnostics);
    faults.extend(found.map(|d| in_original(d, text)));
    faults.sort_by_key(|d| (d.span.start, d.span.end));
    let name =
        overrides::app_name(&parsed.app).map_or_else(|| name_of_file(&app.file), str::to_owned);
    let absent = checked.plan.iter();
    let absent: Vec<Diagnostic> = absent
        .flat_map(|plan| absent::diagnostics(plan, options))
        .collect();
    faults.extend(absent.iter().map(|d| in_original(d, text)));
    faults.sort_by_key(|d| (d.span.start, d.span.end));
    let document = apis::within(&parsed.app, &app.file);
    if let Some(document) = &document {
        faults.extend(document.diagnostics.iter().map(|d| in_original(d, text)));
        faults.sort_by_key(|d| (d.span.start, d.span.end));
    }
    let has_errors = faults.iter().any(|d| d.severity == Severity::Error);
    let plan = checked.plan.filter(|_| !has_errors).map(|mut plan| {
        plan.name.clone_from(&name);
        plan
    });
    LoadedApp {
        file: app.file.clone(),
        text: app.text.clone(),
        name,
        diagnostics: faults,
        text_as_run: text.text.to_string(),
        sets_as_run: Vec::new(),
        plan,
        document,
        is_app: true,
    }
}

/// Faults of values put in for `${NAME}` are shown at the `${NAME}`; those of variables themselves
/// are at their place already.
fn in_original(diagnostic: &Diagnostic, text: &Substituted<'_>) -> Diagnostic {
    let mut moved = diagnostic.clone();
    moved.span = text.to_original(moved.span);
    for (span, _) in &mut moved.related {
        *span = text.to_original(*span);
    }
    if let Some(fix) = &mut moved.fix {
        fix.span = text.to_original(fix.span);
    }
    moved
}

fn deployed(config: &Config) -> Deployed {
    let refs = config.refs.iter().map(|r| {
        let ty = r.ty.iter().map(|ty| ("type".to_owned(), ty.clone()));
        let options = ty.chain(r.properties.iter().cloned()).collect();
        (r.name.clone(), options)
    });
    let settings = config.extensions.iter().flat_map(|extension| {
        extension.properties.iter().map(|(key, value)| Setting {
            namespace: extension.namespace.clone(),
            name: extension.name.clone(),
            key: key.clone(),
            value: value.clone(),
        })
    });
    Deployed {
        refs: refs.collect(),
        settings: settings.collect(),
    }
}

/// The name that an app has by its text or, without `@app:name`, by its file; a document has its file's as a whole.
pub(crate) fn name_of(app: &AppText) -> String {
    if apis::is_document(app) {
        return app.file.clone();
    }
    let parsed = parse(&app.text);
    overrides::app_name(&parsed.app).map_or_else(|| name_of_file(&app.file), str::to_owned)
}

fn name_of_file(file: &str) -> String {
    let stem = Path::new(file).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn refuse_twins(apps: &[LoadedApp]) -> Result<(), Error> {
    match twins(apps).into_iter().next() {
        Some(twins) => Err(Error::Refused(twins)),
        None => Ok(()),
    }
}

/// The apps that may run, with the options of their data sources filled in.
pub fn ready(apps: Vec<LoadedApp>, config: &Config) -> Result<Vec<ReadyApp>, Error> {
    refuse_twins(&apps)?;
    let all = apis::apis(&apps);
    let mut ready = Vec::new();
    for app in apps.into_iter().filter(|app| app.is_app) {
        let mut plan = app
            .plan
            .ok_or_else(|| Error::Refused(format!("app '{}' has errors: see above", app.name)))?;
        if let Some((feature, _)) = plan.not_runnable.first() {
            return Err(Error::Refused(format!(
                "app '{}' cannot run: {feature} does not run yet",
                app.name
            )));
        }
        fill_data_sources(&mut plan, config)?;
        let topics = apis::attach(&mut plan, &all);
        ready.push(ReadyApp {
            topics,
            plan: Arc::new(plan),
            text: app.text_as_run,
            sets: app.sets_as_run,
        });
    }
    Ok(ready)
}

/// `datasource='NAME'` and `jndi.resource='NAME'` stand for what the configuration says; it wins over
/// the store's own options.
fn fill_data_sources(plan: &mut Plan, config: &Config) -> Result<(), Error> {
    for table in &mut plan.tables {
        let Some(store) = &mut table.store else {
            continue;
        };
        let named = store
            .option("datasource")
            .or_else(|| store.option("jndi.resource"));
        let Some(name) = named.map(str::to_owned) else {
            continue;
        };
        let source = config.data_source(&name).ok_or_else(|| {
            Error::Refused(format!(
                "table '{}' uses the data source '{name}', which no configuration defines: pass \
                 the deployment.yaml that defines it with --config",
                table.schema.name
            ))
        })?;
        store
            .options
            .retain(|(key, _)| key != "datasource" && key != "jndi.resource");
        for (key, value) in source.store_options() {
            store.options.retain(|(own, _)| *own != key);
            store.options.push((key, value));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "@app:name('A')\n@source(type='file', file.uri='file:/in/a.csv', \
                       tailing='false', @map(type='csv'))\ndefine stream S (a string);\n\
                       from S select a insert into T;\n";

    fn text(file: &str, text: &str) -> AppText {
        AppText {
            file: file.to_owned(),
            text: text.to_owned(),
        }
    }

    fn load_with(
        apps: &[AppText],
        change: impl FnOnce(&mut LoadOptions),
    ) -> Result<Vec<LoadedApp>, Error> {
        let mut options = LoadOptions::new(Registry::EMPTY, catalog::full());
        change(&mut options);
        load(apps, &options)
    }

    #[test]
    fn options_are_overridden_before_the_check() {
        let apps = load_with(&[text("a.siddhi", APP)], |o| {
            o.sets.push("S.source.file.uri=/tmp/b=c.csv".into());
            o.replaces.push("/in=/out".into());
        })
        .expect("both match");
        let plan = apps[0].plan.as_ref().expect("no error");
        let source = &plan.streams[0].sources[0];
        assert_eq!(source.option("file.uri"), Some("/tmp/b=c.csv"));
    }

    #[test]
    fn an_app_finds_the_files_beside_it() {
        let app = APP.replace("file:/in", "file:${app:dir}/in");
        let apps = load_with(&[text("apps/sub/a.siddhi", &app)], |_| {}).expect("no setting");
        let plan = apps[0].plan.as_ref().expect("no error");
        let folder = std::path::absolute("apps/sub").expect("there is a current folder");
        let uri = format!("file:{}/in/a.csv", folder.display());
        assert_eq!(plan.streams[0].sources[0].option("file.uri"), Some(&*uri));
        let apps = load_with(&[text("a.siddhi", "-- ${app:home}")], |_| {}).expect("no setting");
        let mut helps = apps[0].diagnostics.iter().filter_map(|d| d.help.as_deref());
        assert!(helps.any(|help| help.contains("${app:dir}")));
    }

    #[test]
    fn a_change_that_matches_nothing_is_a_fault_of_usage() {
        let set = load_with(&[text("a.siddhi", APP)], |o| {
            o.sets.push("S.sink.file.uri=x".into());
        });
        assert!(matches!(set, Err(Error::Usage(_))), "{set:?}");
        let replace = load_with(&[text("a.siddhi", APP)], |o| o.replaces.push("x".into()));
        assert!(matches!(replace, Err(Error::Usage(_))), "{replace:?}");
    }

    #[test]
    fn two_apps_of_one_name_are_refused() {
        let twins = load_with(&[text("a.siddhi", APP), text("b.siddhi", APP)], |_| {})
            .expect("each is right by itself");
        let refused = ready(twins, &Config::default());
        let message = refused.expect_err("refused").to_string();
        assert!(
            message.contains("a.siddhi") && message.contains("b.siddhi"),
            "{message}"
        );
    }

    #[test]
    fn sinks_of_two_apps_with_one_transactional_id_are_refused() {
        let sink = |app: &str, id: &str| {
            format!(
                "@app:name('{app}')\n@sink(type='kafka', bootstrap.servers='localhost:9092', \
                 topic='{app}', optional.configuration='transactional.id:{id}', \
                 @map(type='csv'))\ndefine stream {app} (a string);\n"
            )
        };
        let load_both = |id: &str| {
            let apps = [
                text("a.siddhi", &sink("A", "one")),
                text("b.siddhi", &sink("B", id)),
            ];
            load_with(&apps, |_| {}).expect("loads")
        };
        let [a, b] = &load_both("one")[..] else {
            panic!("two apps");
        };
        assert!(a.plan.is_some() && b.plan.is_none());
        let refusal = b.diagnostics.iter().find(|d| d.code == "E0516");
        let help = refusal.and_then(|d| d.help.as_deref()).unwrap_or_default();
        assert!(help.contains("'A' at a.siddhi:2:1"), "{help}");
        assert!(load_both("two").iter().all(|app| !app.has_errors()));
    }

    #[test]
    fn an_app_without_a_name_has_that_of_its_file() {
        let nameless = "define stream S (a string);";
        let apps = load_with(&[text("dir/tiny.siddhi", nameless)], |_| {}).expect("loads");
        assert_eq!(apps[0].name, "tiny");
        assert_eq!(apps[0].plan.as_ref().map(|p| p.name.as_str()), Some("tiny"));
    }

    #[test]
    fn faults_keep_their_place_in_the_text_as_written() {
        let broken = "define stream S (a strin);\nfrom S select b insert into T;";
        let apps = load_with(&[text("a.siddhi", broken)], |_| {}).expect("loads");
        assert!(apps[0].has_errors() && apps[0].plan.is_none());
        assert!(!apps[0].diagnostics.is_empty());
    }
}
