//! Plans and runs an app: the pure state machine.
//!
//! Promises: same app, same inputs, same clock: same outputs, byte for byte; batch bounds are never
//! observable, chunk bounds are, exactly as in Siddhi; a snapshot at any step boundary, restored,
//! continues as if nothing had happened.
//!
//! Never: I/O, clocks, threads, randomness, environment. Time arrives as an argument of
//! [`App::step`]; what lies outside (stores, file functions) is asked of a [`Host`].

pub mod aggregator;
mod alarm;
mod app;
pub mod component;
pub mod emission;
mod error;
mod expr;
pub mod function;
mod graph;
mod host;
mod join;
pub mod keyed;
mod output;
mod partition;
mod query;
mod rate;
mod snapshot;
mod spec;
mod table;
pub mod window;

pub use app::{App, Input, Setup, UNSTAMPED};
pub use component::Environment;
pub use error::{Error, RestoreError};
pub use host::{Called, Found, Host, HostError, NoHost, Written};
pub use output::{LogLevel, Output, Outputs, Rejected};

/// The specs of everything that runs here, for the catalog.
pub fn specs() -> impl Iterator<Item = &'static lang::spec::FunctionSpec> {
    window::WINDOWS
        .iter()
        .map(|w| w.spec())
        .chain(aggregator::AGGREGATORS.iter().map(|a| a.spec()))
        .chain(function::functions().map(|f| f.spec()))
}
