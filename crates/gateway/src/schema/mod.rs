//! JSON Schema as API documents have it (draft 07): a schema is compiled once, and payloads are compared with it.
//!
//! Promises: numbers are compared as the decimals that they are written as; patterns take linear time; the work for
//! one payload is bounded, whatever schema and payload are; a fault says where it is and what was wanted. Never: a
//! value of the payload in a fault; anything fetched. What drafts know and this does not (`contentEncoding`, formats
//! other than those of [`format`]) says nothing about a payload, as the draft allows.
//!
//! The crate `jsonschema` would do, but it brings 19 packages and turns on features of `serde_json` and `ahash` for
//! the whole binary.

mod compile;
mod format;
mod judge;
mod number;

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use compile::Node;
pub(crate) use compile::{Defect, bundle};

/// A schema, and what it was compiled from.
#[derive(Clone)]
pub struct Schema {
    json: Arc<Json>,
    nodes: Arc<[Node]>,
}

impl Schema {
    /// Compiles a schema, whose references are to members of `shared`, which stand at `#/components/schemas/NAME`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(
        json: Json,
        shared: &serde_json::Map<String, Json>,
    ) -> Result<Schema, Defect> {
        let nodes = compile::compile(&json, shared)?;
        Ok(Schema {
            json: Arc::new(json),
            nodes: nodes.into(),
        })
    }

    /// As it was written.
    pub(crate) fn json(&self) -> &Json {
        &self.json
    }

    /// What is wrong with a payload; `None`: nothing.
    pub(crate) fn fault_of(&self, payload: &Json) -> Option<String> {
        judge::fault_of(&self.nodes, payload)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Schema) -> bool {
        self.json == other.json
    }
}

impl Eq for Schema {}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.json.fmt(f)
    }
}

#[cfg(test)]
mod tests;
