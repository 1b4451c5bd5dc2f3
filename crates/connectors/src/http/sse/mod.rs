//! Server-sent events (WHATWG HTML, 9.2): the `sse` source reads the stream of a server, the
//! `sse-server` sink is a stream that clients hold open.
//!
//! Promises: a source resumes after its last event (`Last-Event-ID`), also after a restart with
//! state; the end of a stream is logged and the stream is requested again; a full app shows to the
//! server as a full socket. A sink sends to those who are connected, and waits for one that reads
//! slowly, but not for one that reads nothing; what waits for one client is bounded. Siddhi hands
//! over the chunks as they come off the wire; here an event is its `data`.

mod server;
mod source;

use hyper::header::HeaderName;

pub(super) use server::{Audience, Events, SLOW_MAX, SseServer};
pub(super) use source::SseSource;

/// By this the `sse-server` sink tells how often at least, in seconds, something comes of it. Of other
/// servers nobody knows: one that says nothing for long may just have nothing to say.
const BEAT_HEADER: HeaderName = HeaderName::from_static("headwater-beat");
