//! Tests of apps with virtual time: the readable text format, recorded cases, and the modes in
//! which each of them runs.
//!
//! Promises: no real time passes, no thread runs, and every mode gives the same output, because
//! batch bounds, lockstep and a snapshot at any step must not be observable.
//!
//! Never: sources or sinks that reach outside. Streams are fed by the test; in-memory topics and
//! their mappers are the only transports.

pub mod case;
pub mod compare;
pub mod compile;
pub mod drive;
pub mod event_store;
pub mod golden;
pub mod mode;
pub mod outcome;
pub mod run;
pub mod script;
pub mod stores;
pub mod topics;
