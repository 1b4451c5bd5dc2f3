//! Plans and runs an app: the pure state machine.
//!
//! Promises: same app, same inputs, same clock: same outputs, byte for byte; batch bounds are never
//! observable, chunk bounds are, exactly as in Siddhi; a snapshot at any step boundary, restored,
//! continues as if nothing had happened.
//!
//! Never: I/O, clocks, threads, randomness, environment. Time arrives as an argument of
//! `App::step`; what lies outside (stores, file functions) is asked of a `Host`.

pub mod aggregator;
pub mod component;
pub mod emission;
pub mod function;
pub mod window;
