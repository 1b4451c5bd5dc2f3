//! What a check must know beside the app.

use std::collections::BTreeMap;

use lang::span::Span;

use crate::validate::Deployed;

/// What the checker must know beside the app.
#[derive(Clone, Default, Debug)]
pub struct CheckConfig {
    /// What the deployment file gives: blocks for `ref='name'`, settings of extensions.
    pub deployed: Deployed,
    /// Properties of the configuration, such as `shardId`; `None` where the configuration that the
    /// app will run with is not known, so that what it lacks is a warning only.
    pub properties: Option<BTreeMap<String, String>>,
    /// What is known but does not run yet is an error instead of a warning.
    pub must_run: bool,
    /// An option whose name is misspelt is a warning, as in Siddhi, instead of an error.
    pub is_lenient: bool,
    /// What is wrong with the body of a script function; without it bodies are not looked at.
    pub script_fault: Option<fn(&str) -> Option<ScriptFault>>,
    /// Where the parser found faults: names that may have been lost there are not reported again.
    pub syntax_faults: Vec<Span>,
}

/// A fault in the body of a script function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptFault {
    /// Line of the body, from 0.
    pub line: u32,
    pub message: String,
}
