//! SiddhiQL: text in, a tree and diagnostics out; and back to text.
//!
//! Promises: the parser takes any text and gives back a tree and all faults at once, each with its
//! place, cause and remedy; exact spans; the formatter keeps every comment.
//!
//! Never: a panic on text, I/O, or knowledge of components: names and types are resolved in `check`.

pub mod ast;
pub mod cron;
pub mod diagnostic;
mod fault;
pub mod format;
mod lexer;
pub mod overrides;
pub mod parser;
pub mod quantity;
pub mod source;
pub mod span;
mod spans;
pub mod substitute;
pub mod suggest;
mod token;

pub use parser::{Parsed, parse, parse_on_demand};
pub use substitute::substitute;
