//! Executors, deployment, state, configuration and metrics: runs checked apps as threads around the
//! engine and the connectors.
//!
//! Promises: every queue is bounded in rows and bytes, and a full one stops the sources; with a
//! state directory a restart continues from a consistent checkpoint of sources, apps and stores;
//! whatever is unreachable or rejected is logged, counted and kept; no thread ever polls by
//! sleeping. Never: reads or writes of the terminal (the binary's), knowledge of a single
//! technology (that is `connect`), or of what a query does (`engine`).

mod absent;
pub mod access;
mod activity;
pub mod apis;
pub mod ask;
mod backoff;
pub mod backups;
mod build;
pub mod capp;
pub mod cells;
mod checkpoint;
pub mod client;
pub mod clock;
pub mod config;
pub mod deploy;
pub mod deployment;
mod edit;
mod error;
mod executor;
mod families;
pub mod feed;
pub mod flight;
mod group;
mod health;
pub mod http;
mod inject;
pub mod lines;
pub mod listening;
pub mod liveness;
pub mod metrics;
pub mod otlp;
pub mod postgres;
mod presence;
pub mod preview;
pub mod probe;
pub mod process;
mod pulse;
mod queue;
pub mod random;
mod recent;
mod recovery;
pub mod rejected;
mod reload;
mod replay;
pub mod report;
mod rows;
mod running;
pub mod scripts;
pub mod secrets;
mod server;
mod sink;
mod source;
pub mod state;
pub mod statements;
pub mod statistics;
mod status;
mod store;
pub mod summary;
pub mod tap;
pub mod tls;
pub mod upkeep;
pub mod variable;

pub use error::Error;
pub use reload::{Change, Reload};
pub use server::{End, RunOptions, Server, Status, StopHandle};
pub use summary::Summary;
