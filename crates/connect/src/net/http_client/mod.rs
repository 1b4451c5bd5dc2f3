//! Requests over HTTP/1.1, for connectors that speak it: a pool of connections, one request with its
//! whole answer, headers, and which addresses may be reached.
//!
//! The pool is written here because its rules for sending a request again are exact: never after the
//! first byte of an answer. Never: a redirect followed.

mod client;
pub mod egress_policy;
mod fetch;
pub mod headers;

pub use client::{
    Client, ClientOptions, Proxy, RequestBody, Used, broken, has_body, read_body, within,
};
pub use egress_policy::{EgressDenied, EgressPolicy};
pub use fetch::Fetch;
pub use headers::{add as add_headers, basic, body, content_type, form, hex, secret};
