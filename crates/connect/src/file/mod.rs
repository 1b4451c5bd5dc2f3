//! Local files: source, sink, and the functions with which apps move them about.
//!
//! Promises: a file is read once, and its after-action happens when all it gave has been taken;
//! after a crash both go on from the last checkpoint. Never: remote file systems; their URIs are
//! refused with the way out.

pub mod effects;
pub mod functions;
pub mod lines;
pub mod uri;
