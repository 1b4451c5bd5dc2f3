//! Events of WSO2's products: `@source(type='wso2event')`, the receiver of databridge, which
//! speaks Thrift and the binary protocol, and `@sink(type='wso2event')`, its client.
//!
//! One receiver for the server: its ports, certificate and users are those of `databridge.config` in the
//! deployment file, its streams those of the sources that run. Promises: a bundle is answered when its app
//! has it safe (`ack='durable'`) or has read it (`ack='received'`), and waits where the app is full; one that
//! can never be taken is answered so that its client drops it, and lies in the rejected events; a reload of
//! an app ends no connection. Never: an event taken of somebody who has not logged in, a session kept with
//! an event, a password that nobody has set.

mod binary;
mod connection;
mod deployed;
mod logins;
mod receiver;
mod sink;
mod source;
mod streams;
mod thrift;

use crate::spec::wso2event::CONNECTORS;

use connect::component::PayloadKind;
use connect::connector_def::ConnectorDef;

/// `@source(type='wso2event')` and `@sink(type='wso2event')`.
pub const WSO2EVENT: ConnectorDef = ConnectorDef {
    source: Some(|setup| Ok(Box::new(source::Wso2EventSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::Wso2EventSink::new(setup)?))),
    default_address: Some(source::default_address),
    gives: &[PayloadKind::Bytes],
    takes: &[PayloadKind::Bytes],
    ..ConnectorDef::of_payloads(CONNECTORS)
};
