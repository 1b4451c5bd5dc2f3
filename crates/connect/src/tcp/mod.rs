//! Siddhi's own frames over TCP: `@source(type='tcp')` and `@sink(type='tcp')`.
//!
//! The wire has no answers. Promises: order is kept within a connection; a slow source is felt by the
//! sender as a full socket; a source that stops says so by closing its half and reads what is on its
//! way, so that our sink loses nothing when its peer is restarted; a frame that was not written whole
//! is written again. What a peer had taken when it was killed is lost with it, as in any protocol
//! without answers. Never: a frame beyond the limit, a stream that went on after a wrong byte.

mod frame;
mod sink;
mod source;

use lang::catalog::connectors::tcp::CONNECTORS;
use lang::spec::ConnectorSpec;

use crate::component::{Connector, PayloadKind, Sink, SinkSetup, Source, SourceSetup};
use crate::error::Error;

pub(crate) use source::TcpListeners;

/// `@source(type='tcp')` and `@sink(type='tcp')`.
pub const TCP: TcpConnector = TcpConnector;

pub struct TcpConnector;

impl Connector for TcpConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        CONNECTORS
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes]
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes]
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        Ok(Box::new(source::TcpSource::new(setup)?))
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        Ok(Box::new(sink::TcpSink::new(setup)?))
    }
}
