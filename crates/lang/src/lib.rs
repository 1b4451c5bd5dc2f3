//! SiddhiQL: text in, a checked plan and diagnostics out.
//!
//! Promises: the parser and the checker take any text and give back a tree and all faults at once,
//! each with its place, cause and remedy; exact spans; the formatter keeps every comment.
//!
//! Never: a panic on text, I/O, or knowledge of how a component works. What components exist is
//! told by a catalog of specs that the caller puts together.

pub mod ast;
pub mod catalog;
pub mod check;
pub mod codes;
pub mod cron;
pub mod diagnostic;
pub mod explain;
pub mod format;
mod lexer;
pub mod overrides;
pub mod parser;
pub mod plan;
pub mod render;
mod secret;
pub mod source;
pub mod span;
mod spans;
pub mod spec;
pub mod store;
pub mod substitute;
pub mod suggest;
mod token;

pub use check::{CheckConfig, Checked, check, check_on_demand};
pub use parser::{Parsed, parse, parse_on_demand};
pub use substitute::substitute;
