//! The functions of files as the server calls them: through the journal of effects, and put off until
//! the next checkpoint if they take a file away.

use std::path::Path;
use std::sync::Arc;

use connect::component::Environment;
use connect::effect::{Call, Called, EffectCalls, EffectFunctions, EffectJournal, PendingEffect};
use connect::error::Error;
use connect::shared::Shared;
use event::{ColumnBuilder, Value};

use super::effects::Effects;
use super::functions::{self, Effect, Function};

pub struct FileFunctions;

impl EffectFunctions for FileFunctions {
    fn has(&self, name: &str) -> bool {
        functions::find(name).is_some()
    }

    fn acts(&self, name: &str) -> bool {
        functions::find(name).is_some_and(|function| function.effect != Effect::None)
    }

    fn begin(&self) -> Box<dyn EffectCalls> {
        Box::new(Calls)
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

struct Calls;

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
        for row in 0..call.rows {
            let values: Vec<Value> = call.arguments.iter().map(|c| c.value(row)).collect();
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
