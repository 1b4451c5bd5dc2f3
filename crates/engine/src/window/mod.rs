//! Windows: which rows are current, which expire, and when.
//!
//! A window takes CURRENT rows chunk by chunk and emits an ordered program of CURRENT and EXPIRED
//! rows, RESET marks and chunk ends. It never reads a clock and never evaluates an expression.
//!
//! A new window is one file here and one line in [`WINDOWS`].

use crate::component::Window;

/// Sorted by name.
pub const WINDOWS: &[&dyn Window] = &[];
