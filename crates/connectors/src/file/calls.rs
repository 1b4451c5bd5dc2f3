//! The functions of files as the server calls them: through the journal of effects, and put off until
//! the next checkpoint if they take a file away.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connect::component::Environment;
use connect::effect::{Call, Called, EffectCalls, EffectFunctions, EffectJournal, PendingEffect};
use connect::error::Error;
use connect::shared::Shared;
use event::{ColumnBuilder, Value};

use super::effects::Effects;
use super::functions::{self, Effect, Function};
use super::roots::Roots;

pub struct FileFunctions;

impl EffectFunctions for FileFunctions {
    fn has(&self, name: &str) -> bool {
        functions::find(name).is_some()
    }

    fn acts(&self, name: &str) -> bool {
        functions::find(name).is_some_and(|function| function.effect != Effect::None)
    }

    fn begin(&self) -> Box<dyn EffectCalls> {
        Box::new(Calls { roots: None })
    }

    fn journal(
        &self,
        directory: Option<&Path>,
        shared: &Shared,
    ) -> Result<Option<Arc<dyn EffectJournal>>, Error> {
        let effects = match directory {
            None => Effects::none(),
            Some(directory) => Effects::open(directory)?,
        };
        let effects = Arc::new(effects);
        shared.insert(Arc::clone(&effects));
        Ok(Some(effects))
    }

    fn verify_journal(&self, directory: &Path) -> Result<Option<(PathBuf, u64)>, Error> {
        Effects::verify(directory)
    }

    fn act(&self, effect: &PendingEffect, shared: &Shared) -> Result<(), String> {
        let Some(function) = functions::find(&effect.function) else {
            return Ok(());
        };
        let effects = shared.get::<Effects>();
        effects
            .call(&effect.app, function, &effect.arguments)
            .map(drop)
    }
}

struct Calls {
    /// Read from the deployment file by the first call.
    roots: Option<Roots>,
}

impl Calls {
    /// Where the calls of an app may act. An app that may act anywhere is told of once.
    fn roots(&mut self, environment: &Environment, function: &Function) -> &Roots {
        self.roots.get_or_insert_with(|| {
            let roots = Roots::of(environment);
            if roots.is_anywhere() && function.effect != Effect::None {
                tracing::warn!(
                    app = environment.app,
                    function = function.name,
                    "file functions may touch every file that this process may, also by paths that \
                     events name; to confine them, set 'roots' of extension 'file:functions' in the \
                     deployment file"
                );
            }
            roots
        })
    }
}

impl EffectCalls for Calls {
    fn call(&mut self, call: &mut Call<'_>) -> Result<Called, (usize, String)> {
        let Some(function) = functions::find(call.function) else {
            return Err((0, format!("function '{}' does not run", call.function)));
        };
        let effects = call.environment.shared.get::<Effects>();
        let mut columns: Vec<ColumnBuilder> = function
            .results
            .iter()
            .map(|ty| ColumnBuilder::with_capacity(*ty, call.rows))
            .collect();
        let roots = self.roots(call.environment, function);
        for row in 0..call.rows {
            let values: Vec<Value> = call.arguments.iter().map(|c| c.value(row)).collect();
            let mut paths = function.paths(&values).into_iter();
            paths
                .try_for_each(|path| roots.check(&path))
                .map_err(|message| (row, message))?;
            let pending = call.pending.as_deref_mut();
            let results = match defer(call.environment, pending, function, &values) {
                Some(results) => results,
                None => effects
                    .call(&call.environment.app, function, &values)
                    .map_err(|message| (row, message))?,
            };
            for (column, value) in columns.iter_mut().zip(&results) {
                column.push(value);
            }
        }
        Ok(Called {
            columns: columns.into_iter().map(ColumnBuilder::finish).collect(),
            origins: None,
        })
    }
}

/// Keeps a call that takes a file away for after the checkpoint; `None` if it does not, or if there is
/// no state.
fn defer(
    environment: &Environment,
    pending: Option<&mut Vec<PendingEffect>>,
    function: &Function,
    arguments: &[Value],
) -> Option<Vec<Value>> {
    let pending = pending?;
    let is_deferred = function.effect == Effect::Moves || function.name == "file:delete";
    if !is_deferred {
        return None;
    }
    let is_there = |from: &Path| {
        from.exists()
            && !pending.iter().any(|p| {
                functions::find(&p.function)
                    .and_then(|f| f.ends(&p.arguments))
                    .is_some_and(|(gone, _)| gone == from)
            })
    };
    let result = match function.ends(arguments) {
        Some((from, _)) => vec![Value::Bool(is_there(&from))],
        // Arguments of no use: the call itself says why.
        None if function.effect == Effect::Moves => return None,
        None => Vec::new(),
    };
    pending.push(PendingEffect {
        app: environment.app.clone(),
        function: function.name.to_owned(),
        arguments: arguments.to_vec(),
    });
    Some(result)
}

#[cfg(test)]
mod tests {
    use connect::component::Setting;
    use event::{Column, Type};

    use super::*;

    #[test]
    fn a_call_outside_the_roots_does_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("in")).unwrap();
        for name in ["in/a", "b"] {
            std::fs::write(at(name), "x").unwrap();
        }
        let mut environment = Environment::new("A");
        environment.settings = Arc::from([Setting {
            namespace: "file".into(),
            name: "functions".into(),
            key: "roots".into(),
            value: at("in").display().to_string(),
        }]);
        let mut calls = FUNCTIONS.begin();
        let mut call = |function: &str, paths: &[&str]| {
            let column = |path: &&str| {
                let mut column = ColumnBuilder::new(Type::String);
                column.push(&Value::str(&at(path).display().to_string()));
                column.finish()
            };
            let arguments: Vec<Column> = paths.iter().map(column).collect();
            calls
                .call(&mut Call {
                    environment: &environment,
                    function,
                    arguments: &arguments,
                    rows: 1,
                    pending: None,
                })
                .map(drop)
        };
        let (row, why) = call("file:delete", &["b"]).unwrap_err();
        assert!(row == 0 && why.contains("'roots'"), "{why}");
        for (function, paths) in [
            ("file:move", ["in/a", "."]),
            ("file:move", ["b", "in"]),
            ("file:rename", ["in/a", "c"]),
            ("file:copy", ["in/a", "in/../d"]),
        ] {
            assert!(call(function, &paths).is_err(), "{function} {paths:?}");
        }
        assert!(at("b").exists() && at("in/a").exists() && !at("c").exists());
        call("file:delete", &["in/a"]).unwrap();
        assert!(!at("in/a").exists());
    }

    const FUNCTIONS: FileFunctions = FileFunctions;
}
