//! Requests over HTTP/1.1, for connectors that speak it: a pool of connections, one request with its
//! whole answer, headers, and which addresses may be reached.
//!
//! The pool is written here because its rules for sending a request again are exact: never after the
//! first byte of an answer. Never: a redirect followed.

mod answer;
mod client;
mod connection;
mod deadline;
pub mod egress_policy;
mod fetch;
pub mod headers;
mod pipeline;

#[cfg(any(test, feature = "testing"))]
pub use answer::check_answer;
pub use client::{Answer, Client, ClientOptions, Proxy, has_body, within};
pub use connection::{AnswerBody, COPIED_BYTES_MAX, OutgoingRequest};
pub use deadline::Deadline;
pub use egress_policy::{EgressDenied, EgressPolicy, Network};
pub use fetch::Fetch;
pub use headers::{add as add_headers, basic, body, content_type, form, hex, secret};
pub use pipeline::WholeAnswer;
