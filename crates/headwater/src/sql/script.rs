//! Batch scripts over the folder of a store, with the functions of their users.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use ::sql::{Call, Engine, Outcome, Run, Script, UserFunction};
use anyhow::Context as _;
use check::render::render;
use engine::ScriptEngine as _;
use event::{Type, Value};
use lang::ast::Element;
use lang::diagnostic::Severity;
use plan::ScriptFunction;
use server::Error;
use server::client::Reply;
use store::EventStore;

use super::Ran;
use super::with::{limits, refused};
use crate::cli::sql::SqlArgs;

/// Bytes of a file.
const TEXT_MAX: u64 = 1 << 20;

/// Runs a script, and gives what its statements come to; the reason where one fails.
///
/// # Errors
/// The files cannot be read, the store cannot be opened, or what `each` gives.
pub fn run_script(
    args: &SqlArgs,
    file: &Path,
    dir: &Path,
    colour: bool,
    each: &mut dyn FnMut(Ran) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Reply>> {
    let name = file.display().to_string();
    let script = Script::read(&name, &text(file)?);
    let script = script.map_err(|message| Error::Usage(format!("{name}: {message}")))?;
    let functions = match &args.functions {
        Some(file) => functions(file)?,
        None => Vec::new(),
    };
    let store = EventStore::open(dir).context("cannot open the event store")?;
    // Its threads run the script as long as it is there.
    let engine = Engine::new(limits(args))?;
    let mut outcomes = engine.run(Run {
        store: Arc::new(store),
        text: script.text,
        functions,
        streams: None,
        stop: None,
        zone: crate::command::run::zone(None)?,
    });
    while let Some(outcome) = outcomes.blocking_recv() {
        match outcome {
            Ok(outcome) => each(ran(outcome))?,
            Err(failed) => return Ok(Some(refused(&failed.error, &name, &failed.text, colour))),
        }
    }
    Ok(None)
}

pub(super) fn ran(outcome: Outcome) -> Ran {
    match outcome {
        Outcome::Rows { answer, is_cut } => Ran::Rows { answer, is_cut },
        Outcome::Written {
            table,
            rows,
            is_overwrite,
            took,
        } => Ran::Written {
            table,
            rows,
            is_overwrite,
            took,
        },
        Outcome::Sent { stream, rows, took } => Ran::Sent { stream, rows, took },
    }
}

pub(super) fn text(file: &Path) -> anyhow::Result<String> {
    let failed = |cause: &dyn std::fmt::Display| {
        Error::Usage(format!("cannot read '{}': {cause}", file.display()))
    };
    let bytes = std::fs::metadata(file)
        .map_err(|cause| failed(&cause))?
        .len();
    if bytes > TEXT_MAX {
        return Err(failed(&format!("it has more than {} MB", TEXT_MAX >> 20)).into());
    }
    Ok(std::fs::read_to_string(file).map_err(|cause| failed(&cause))?)
}

/// The functions that a file defines: `define function f[javascript] return string { … };`.
pub(super) fn functions(file: &Path) -> anyhow::Result<Vec<UserFunction>> {
    let (name, text) = (file.display().to_string(), text(file)?);
    let wrong = |message: String| Error::Usage(format!("{name}: {message}"));
    if text.trim_start().starts_with('<') {
        return Err(wrong(
            "functions in Java cannot be called: write each as 'define function NAME[javascript] return TYPE { … };', \
             and name that file with --functions"
                .to_owned(),
        )
        .into());
    }
    let parsed = lang::parse(&text);
    let mut faults = parsed
        .diagnostics
        .iter()
        .filter(|fault| fault.severity == Severity::Error);
    if let Some(fault) = faults.next() {
        let shown = render(
            std::slice::from_ref(fault),
            &name,
            &text,
            &catalog::full(),
            false,
        );
        return Err(wrong(format!("it is not right\n{}", shown.trim_end())).into());
    }
    let mut functions = Vec::new();
    for element in &parsed.app.elements {
        let Element::Function(def) = element else {
            return Err(wrong("a file of functions has 'define function' alone".to_owned()).into());
        };
        let language = def.language.text.to_lowercase();
        if language != "javascript" || def.returns == Type::Object {
            return Err(wrong(format!(
                "function '{}' is not JavaScript that returns a text, number or bool",
                def.name.text
            ))
            .into());
        }
        let function = ScriptFunction {
            name: def.name.text.clone(),
            language,
            returns: def.returns,
            body: def.body.text.clone(),
            span: def.name.span,
        };
        let compiled = script::JavaScript.compile(&function);
        let compiled = compiled
            .map_err(|message| wrong(format!("function '{}': {message}", function.name)))?;
        functions.push(UserFunction {
            name: function.name,
            returns: function.returns,
            call: Arc::new(Mutex::new(OfScript {
                script: compiled,
                seed: 0,
            })),
        });
    }
    Ok(functions)
}

struct OfScript {
    script: Box<dyn engine::Script>,
    seed: u64,
}

impl Call for OfScript {
    fn call(&mut self, arguments: &[Value]) -> Result<Value, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_millis() as i64);
        self.script.call(arguments, now, &mut self.seed)
    }
}
