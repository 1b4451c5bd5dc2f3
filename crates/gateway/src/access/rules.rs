//! What an API says of tokens and plans, read and judged.

use std::path::Path;

use serde_json::Value as Json;

use crate::plan::Plan;
use crate::token::Issuer;

/// `iss` of the tokens that the server makes itself.
pub const OWN_ISSUER: &str = "urn:headwater:gateway";

/// What is wrong with what an API says of tokens and plans, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleFault {
    /// What is wrong, in words.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// Reads one element of `issuers`; paths in it are below the folder of `file`. The text `own` is the server's own
/// issuer.
///
/// # Errors
/// The first fault.
pub fn issuer(json: &Json, file: &str) -> Result<Issuer, RuleFault> {
    if json.as_str() == Some("own") {
        return Ok(Issuer::own(OWN_ISSUER));
    }
    let dir = Path::new(file).parent().unwrap_or(Path::new(""));
    Issuer::from_json(json, dir).map_err(|fault| RuleFault {
        message: fault.message,
        help: fault.help,
    })
}

pub(super) fn is_empty(json: &Json) -> bool {
    json.as_object().is_none_or(serde_json::Map::is_empty)
}

/// Reads one entry of `plans`.
///
/// # Errors
/// The first fault.
pub fn plan(name: &str, json: &Json) -> Result<Plan, RuleFault> {
    // A plan of API Manager may be offered by its name alone.
    if is_empty(json)
        && let Some(known) = Plan::known(name)
    {
        return Ok(known);
    }
    Plan::from_json(name, json).map_err(|fault| RuleFault {
        message: format!("plan '{name}': {}", fault.message),
        help: fault.help,
    })
}
