//! What an operator does with saved state: look at it, verify, copy and restore it.
//!
//! Works on directories, whether a server writes them or not. Promises: nothing that is looked at changes;
//! a copy is there whole or not at all; what is replaced is put aside. Never: a decision on what a start
//! continues from (`state::epoch`).

pub mod backup;
pub mod contents;
pub mod restore;
pub mod survey;
pub mod verify;
