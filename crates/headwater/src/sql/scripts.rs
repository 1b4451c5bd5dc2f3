//! Batch scripts that a server runs: from files to what runs them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::sql::{Engine, Limits, Run, Script, StreamWriter, Streams, UserFunction};
use anyhow::Context as _;
use connect::shared::Shared;
use event::{Column, Type};
use lang::cron::Cron;
use serde_json::{Value as Json, json};
use server::Error;
use server::capp::Capp;
use server::scripts::{
    BatchScript, OpenStreams, ScriptDefinition, ScriptOutcome, Stop, Streams as ServerStreams,
};
use store::EventStore;

use super::script::{functions, ran, text};
use super::with::refused;
use super::{Ran, script_files};
use crate::cli::sql::{ScriptArgs, SqlLimitArgs};

/// Scripts as they were read, looked at as far as that can be done without a store.
pub struct ScriptFiles {
    scripts: Vec<(PathBuf, Script, Option<(String, Cron)>)>,
    functions: Vec<UserFunction>,
}

impl ScriptFiles {
    /// Reads the scripts that are named, those of folders, and those of CApps.
    ///
    /// # Errors
    /// A file cannot be read, or a script cannot be right: [`Error::Refused`] with its place.
    pub fn read(args: &ScriptArgs, capps: &[Capp], colour: bool) -> anyhow::Result<ScriptFiles> {
        let mut scripts = Vec::new();
        let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
        let named = script_files(&args.scripts)?.into_iter();
        let named = named.map(|file| Ok((text(&file)?, file)));
        let of_capps = capps.iter().flat_map(|capp| &capp.scripts);
        let of_capps = of_capps.map(|(file, text)| Ok((text.clone(), PathBuf::from(file))));
        let files = named
            .chain(of_capps)
            .collect::<anyhow::Result<Vec<(String, PathBuf)>>>()?;
        for (content, file) in files {
            let shown = file.display().to_string();
            let usage = |message: String| Error::Usage(format!("{shown}: {message}"));
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let script = Script::read(&stem, &content).map_err(usage)?;
            if let Err(failed) = script.check() {
                let reply = refused(&failed.error, &shown, &failed.text, colour);
                return Err(Error::Refused(said(&reply.json)).into());
            }
            let cron = script.cron.as_ref().map(|text| {
                let cron = Cron::parse(text);
                let cron = cron.map_err(|cause| usage(format!("CronExpression '{text}': {cause}")));
                cron.map(|cron| (text.clone(), cron))
            });
            let cron = cron.transpose()?;
            if let Some(other) = names.insert(script.name.clone(), file.clone()) {
                let other = other.display();
                return Err(usage(format!("script '{}' is also in {other}", script.name)).into());
            }
            scripts.push((file, script, cron));
        }
        let functions = args.functions.as_deref().map(functions).transpose()?;
        Ok(ScriptFiles {
            scripts,
            functions: functions.unwrap_or_default(),
        })
    }

    pub fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// Scripts that a server with this store runs.
    ///
    /// # Errors
    /// The store cannot be opened, or there are no threads.
    pub fn definitions(
        self,
        dir: &Path,
        shared: &Shared,
        zone: &str,
        args: (&SqlLimitArgs, &ScriptArgs),
    ) -> anyhow::Result<Vec<ScriptDefinition>> {
        if self.scripts.is_empty() {
            return Ok(Vec::new());
        }
        let store = EventStore::of_server(shared, dir).context("cannot open the event store")?;
        let limits = Limits {
            memory: usize::try_from(args.0.sql_memory_limit).unwrap_or(usize::MAX),
            time: args.1.script_timeout,
            ..Limits::default()
        };
        let engine = Arc::new(Engine::new(limits)?);
        let scripts = self.scripts.into_iter();
        let definitions = scripts.map(|(file, script, cron)| ScriptDefinition {
            name: script.name.clone(),
            cron,
            script: Arc::new(OfServer {
                file: file.display().to_string(),
                text: script.text,
                store: Arc::clone(&store),
                engine: Arc::clone(&engine),
                functions: self.functions.clone(),
                zone: zone.to_owned(),
            }),
        });
        Ok(definitions.collect())
    }
}

fn said(json: &Json) -> String {
    let rendered = json["rendered"].as_str();
    let text = rendered.or(json["message"].as_str()).unwrap_or_default();
    text.strip_prefix("error: ").unwrap_or(text).to_owned()
}

struct OfServer {
    /// As errors name it.
    file: String,
    text: String,
    store: Arc<EventStore>,
    engine: Arc<Engine>,
    functions: Vec<UserFunction>,
    zone: String,
}

impl BatchScript for OfServer {
    fn run(
        &self,
        streams: &ServerStreams,
        stop: &Stop,
        each: &mut dyn FnMut(ScriptOutcome),
    ) -> Result<(), Json> {
        let mut outcomes = self.engine.run(Run {
            store: Arc::clone(&self.store),
            text: self.text.clone(),
            functions: self.functions.clone(),
            streams: Some(Arc::new(OfApps(streams.clone()))),
            stop: Some(stop.clone()),
            zone: self.zone.clone(),
        });
        let mut stop = stop.clone();
        while let Some(outcome) = self.engine.next_outcome(&mut outcomes, &mut stop) {
            let outcome = outcome
                .map_err(|failed| refused(&failed.error, &self.file, &failed.text, false).json)?;
            let ran = ran(outcome);
            each(ScriptOutcome {
                rows: match &ran {
                    Ran::Rows { .. } => 0,
                    Ran::Written { rows, .. } | Ran::Sent { rows, .. } => *rows,
                },
                json: ran.json(),
            });
        }
        match *stop.borrow() {
            true => Err(json!({ "message": "the server was stopped" })),
            false => Ok(()),
        }
    }
}

struct OfApps(ServerStreams);

impl Streams for OfApps {
    fn open(
        &self,
        stream: &str,
        attributes: &[(&str, Type)],
    ) -> Result<Box<dyn StreamWriter>, String> {
        Ok(Box::new(Opened(self.0.open(stream, attributes)?)))
    }
}

struct Opened(OpenStreams);

impl StreamWriter for Opened {
    fn send(&mut self, columns: &[Column], rows: usize) -> Result<(), String> {
        self.0.send(columns, rows)
    }
}
