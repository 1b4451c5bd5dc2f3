//! WebSocket, as client (`websocket`) and as server (`websocket-server`), each as source and sink.
//!
//! Handshakes and frames are those of [`connect::net::websocket`], the connections are served by the threads of
//! [`connect::net`]. Promises: frames keep the order of their connection; the pong for a ping sent
//! after the data confirms what the other side has read, and what is not confirmed when the
//! connection ends is written again on the next one; a full app shows to the other side as a full
//! socket, while our pings show that we are alive; a peer that is silent for about four seconds
//! counts as lost, which is logged, and is reconnected; a stop closes connections in order. The
//! protocol keeps nothing for absent clients, and a server sends only to those that are connected.
//! Never: a frame beyond the limit, a client that is waited for after it fell silent.

mod client;
mod gauge;
mod server;
mod session;

use std::time::Duration;

use crate::attached::{TopicSink, TopicSource, is_attached};
use crate::spec::websocket::CONNECTORS;
use plan::spec::ConnectorSpec;

use connect::component::{Connector, PayloadKind, Sink, SinkSetup, Source, SourceSetup};
use connect::error::Error;
use connect::mapper;
use connect::net::gateway::Protocol;
use connect::option::Settings;

/// All that is WebSocket.
pub const WEBSOCKET: WebSocketConnector = WebSocketConnector;

pub struct WebSocketConnector;

impl Connector for WebSocketConnector {
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
        Ok(match setup.transport.ty.as_str() {
            "websocket-server" if is_attached(setup.transport) => {
                Box::new(TopicSource::new(setup, CONNECTORS, Protocol::WebSocket)?)
            }
            "websocket-server" => Box::new(server::ServerSource::new(setup)?),
            _ => Box::new(client::ClientSource::new(setup)?),
        })
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        Ok(match setup.transport.ty.as_str() {
            "websocket-server" if is_attached(setup.transport) => {
                Box::new(TopicSink::new(setup, CONNECTORS, Protocol::WebSocket)?)
            }
            "websocket-server" => Box::new(server::ServerSink::new(setup)?),
            _ => Box::new(client::ClientSink::new(setup)?),
        })
    }
}

/// Longest wait for a connection, its handshakes included.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sub-protocols in the order in which they are preferred.
fn protocols(settings: Settings<'_>) -> Vec<String> {
    let text = settings.text_or_default("sub.protocol");
    let names = text.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty() && *name != "null")
        .map(str::to_owned)
        .collect()
}

/// `idle.timeout`, in milliseconds; `None` for -1 (`WebSocketSource`).
fn idle(settings: Settings<'_>) -> Result<Option<Duration>, Error> {
    settings.millis("idle.timeout")
}

/// What a mapper makes of the two kinds of frames.
#[derive(Clone, Copy)]
struct Reads {
    text: bool,
    bytes: bool,
}

impl Reads {
    fn new(mapper: &str) -> Reads {
        let takes = mapper::find(mapper).map_or(&[] as &[_], |format| format.takes());
        Reads {
            text: PayloadKind::overlap(&[PayloadKind::Text], takes),
            bytes: PayloadKind::overlap(&[PayloadKind::Bytes], takes),
        }
    }

    /// Is a frame handed over as text? As it came, where the mapper takes that.
    fn as_text(self, is_text: bool) -> bool {
        match is_text {
            true => self.text || !self.bytes,
            false => self.text && !self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing::transport;

    #[test]
    fn options_are_read_as_siddhi_reads_them() {
        let idle_of = |text| {
            let transport = transport("websocket", &[("idle.timeout", text)]);
            idle(Settings::of_source(
                &transport,
                crate::websocket::CONNECTORS,
            ))
            .ok()
        };
        assert_eq!(idle_of("-1"), Some(None));
        assert_eq!(idle_of("1500"), Some(Some(Duration::from_millis(1500))));
        for bad in ["0", "-2", "soon"] {
            assert_eq!(idle_of(bad), None, "{bad}");
        }
        let transport = transport("websocket", &[("sub.protocol", " chat, v2.x ,")]);
        assert_eq!(
            protocols(Settings::of_source(
                &transport,
                crate::websocket::CONNECTORS
            )),
            ["chat", "v2.x"]
        );
    }

    #[test]
    fn frames_come_as_the_mapper_takes_them() {
        let both = ["json", "xml"];
        for mapper in both {
            let reads = Reads::new(mapper);
            assert!(reads.as_text(true) && !reads.as_text(false), "{mapper}");
        }
        let text = Reads::new("text");
        assert!(text.as_text(true) && text.as_text(false));
        let binary = Reads::new("binary");
        assert!(!binary.as_text(true) && !binary.as_text(false));
    }
}
