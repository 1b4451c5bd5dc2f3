//! The streaming gateway: managed APIs over server-sent events and WebSocket, in front of backends and of the streams
//! of apps.
//!
//! An API has topics. A topic is bound to a stream of an app, to a backend, or to neither; then what is published is
//! what is heard. Whoever embeds the gateway connects topics and streams: the gateway knows no engine.
//!
//! Promises: an event of a topic is encoded once for all that listen; a reader that comes back with the id it had last
//! gets each retained event after it once and in order, or is told of the gap. Every queue, head, body and wait is
//! bounded. Never: a token or key in a log line, an answer or a metric.

pub mod access;
mod backends;
pub mod connections;
mod counts;
mod descriptors;
pub mod document;
mod follow;
mod gateway;
pub mod hub;
pub mod model;
mod news;
pub mod plan;
pub mod project;
pub mod registry;
mod ring;
mod schema;
mod serve;
pub mod token;
mod topic;
mod webhook;

pub use counts::{Count, Counts};
pub use gateway::Gateway;
pub use serve::Listener;
