//! Databridge, the protocol by which WSO2's products publish events, as codecs: Thrift messages, bundles of
//! events, definitions of streams.
//!
//! Promises: whatever the bytes are, a function returns, in time and memory that are linear in them; what does
//! not add up is named by event and attribute. Never: a connection, a thread, a clock.

pub mod binary;
pub mod bundle;
pub mod definition;
pub mod reading;
pub mod refused;
pub mod rows;
pub mod stream;
pub mod thrift;

/// By this text the client of WSO2 sends null, among the strings whatever the type of the attribute.
pub const NULL: &[u8] = b"_null";
