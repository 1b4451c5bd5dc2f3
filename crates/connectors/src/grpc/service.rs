//! Requests that are held for an answer of the app: the `grpc-service-response` sink.

use std::sync::Arc;

use bytes::Bytes;

use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::message::Message;
use connect::net::request_reply::Services;
use connect::option::Dynamic;
use connect::option::Settings;

/// What an app answers: a text for Siddhi's own service, bytes for any other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Text(String),
    Bytes(Bytes),
}

/// `@sink(type='grpc-service-response')`.
pub(super) struct ResponseSink {
    services: Arc<Services<Reply>>,
    source_id: String,
    message_id: Dynamic,
}

impl ResponseSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<ResponseSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::grpc::CONNECTORS);
        let source_id = settings
            .text("source.id")
            .ok_or_else(|| settings.refused("option 'source.id' is missing"))?;
        Ok(ResponseSink {
            services: setup.environment.shared.get::<Services<Reply>>(),
            source_id: source_id.to_owned(),
            message_id: Dynamic::new(setup, settings, "message.id"),
        })
    }
}

impl Sink for ResponseSink {
    fn connect(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let failed = |cause: String| {
            Err(Error::failed(
                "answering by sink 'grpc-service-response'",
                cause,
            ))
        };
        let reply = match message.payload {
            Payload::Text(text) => Reply::Text(text.to_owned()),
            Payload::Bytes(bytes) => Reply::Bytes(Bytes::copy_from_slice(bytes)),
            _ => return failed("the payload is neither text nor bytes".to_owned()),
        };
        let id = self.message_id.of(message);
        let Some(service) = self.services.get(&self.source_id) else {
            return failed(format!("there is no source '{}'", self.source_id));
        };
        match service.answer(id, reply) {
            true => Ok(()),
            false => failed(format!(
                "no request with the id '{id}' waits: it was answered before, or too late"
            )),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
