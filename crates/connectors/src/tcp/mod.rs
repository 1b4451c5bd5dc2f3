//! Siddhi's own frames over TCP: `@source(type='tcp')` and `@sink(type='tcp')`.
//!
//! The wire has no answers. Promises: order is kept within a connection; a slow source shows to the
//! sender as a full socket; a reload of the app (with the deployment as it was) ends no connection,
//! its senders wait; a source that stops signals it by closing its half and reads what is on its
//! way, also of connections that were not accepted yet, for as long as something comes (a minute at
//! most, and no longer than five seconds of silence), so that our sink loses nothing when its peer
//! is restarted; a frame that was not written whole is written again; a sink that closes waits up
//! to ten seconds for the peer to have read everything, and says so where it has not. What remains,
//! as in any protocol without answers: what the system of a peer had taken when it was killed is
//! lost with it, and so is what a sender writes over a connection that it opens in the very moment
//! in which the port is closed. Never: a frame beyond the limit, a stream that went on after a
//! wrong byte.

pub(crate) mod frame;
mod sink;
mod source;

use crate::spec::tcp::CONNECTORS;

use connect::connector_def::ConnectorDef;

/// `@source(type='tcp')` and `@sink(type='tcp')`.
pub const TCP: ConnectorDef = ConnectorDef {
    source: Some(|setup| Ok(Box::new(source::TcpSource::new(setup)?))),
    default_address: Some(source::default_address),
    sink: Some(|setup| Ok(Box::new(sink::TcpSink::new(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};
