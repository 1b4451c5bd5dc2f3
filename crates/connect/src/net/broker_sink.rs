//! A sink whose broker confirms each message: what the technologies have in common.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use super::{InFlight, Network};
use crate::component::{Payload, Sink, SinkSetup};
use crate::error::{Cause, Error, OpenError};
use crate::message::{Message, Sent, Undelivered};

/// How one technology opens a session with its broker and sends what is in flight.
pub trait Producer: Send + Sync + 'static {
    type Session: Send + 'static;

    /// The broker in messages, without secrets.
    fn label(&self) -> &str;

    fn in_flight(&self) -> &InFlight;

    /// Refuses a message that the broker could never take, with the reason.
    fn check(&self, message: &Message<'_>, payload: &[u8]) -> Result<(), String>;

    fn open(&self) -> impl Future<Output = Result<Self::Session, OpenError>> + Send;

    /// Sends what is in flight and takes confirmations, until the session or the sink ends; reports
    /// the end by [`InFlight::ended`].
    fn serve(&self, session: Self::Session) -> impl Future<Output = ()> + Send;
}

/// Checks messages on the thread of the sink; a worker of the network sends them.
pub struct BrokerSink<P> {
    network: Arc<Network>,
    producer: Arc<P>,
    /// When the sink connected last.
    connected: Option<Instant>,
}

impl<P: Producer> BrokerSink<P> {
    pub fn new(setup: &SinkSetup<'_>, producer: P) -> BrokerSink<P> {
        BrokerSink {
            network: setup.environment.network(),
            producer: Arc::new(producer),
            connected: None,
        }
    }

    fn failed(&self, cause: impl Into<Cause>) -> Error {
        Error::failed(format!("sending to {}", self.producer.label()), cause)
    }
}

impl<P: Producer> Sink for BrokerSink<P> {
    fn connect(&mut self) -> Result<(), Error> {
        let (opening, serving) = (Arc::clone(&self.producer), Arc::clone(&self.producer));
        let open = async move { opening.open().await };
        let serve = |session| {
            serving.in_flight().open();
            async move { serving.serve(session).await }
        };
        let in_flight = self.producer.in_flight();
        in_flight.connect(&self.network, &mut self.connected, open, serve)
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let payload = match message.payload {
            Payload::Text(text) => text.as_bytes(),
            Payload::Bytes(bytes) => bytes,
            _ => return Err(self.failed("the payload is neither text nor bytes")),
        };
        let checked = self.producer.check(message, payload);
        checked.map_err(|cause| self.failed(cause))?;
        self.producer.in_flight().push(Sent::new(message))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.producer.in_flight().flush()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.producer.in_flight().close()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.producer.in_flight().take_undelivered()
    }
}
