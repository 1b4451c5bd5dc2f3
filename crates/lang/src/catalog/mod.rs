//! What components exist, as data: connectors with their options, functions with their arguments.
//!
//! Promises: everything of SiddhiQL 5.1 and of the connectors is here by its exact name, whether it
//! runs or is only known, so that every app can be judged and nothing is taken for a misspelling.
//!
//! Never: code of a component. Which functions run is told by the engine's specs, which replace the
//! known ones of the same name.

pub mod connectors;
