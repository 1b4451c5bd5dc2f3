//! Workloads that anyone can repeat: generated input, the binary itself as the thing measured, a
//! result that is verified before any rate is printed.
//!
//! Promises: each run is a process of its own, so that its CPU time and peak memory are its own; a
//! run that fails its verification has no rate, and what went into a server is verified by the
//! server's own client. The published figure and, where one is at hand, a
//! peer stand beside ours.
//!
//! Never: a figure that no command printed.

pub mod data;
pub mod engine;
pub mod errors;
pub mod gateway;
pub mod machine;
pub mod process;
pub mod profile;
pub mod receiver;
pub mod report;
pub mod run;
pub mod scenario;
pub(crate) mod server;
pub mod site;
pub mod state;
pub mod store;

pub use report::Report;
pub use run::Options;
pub use scenario::{SCENARIOS, Scenario};
