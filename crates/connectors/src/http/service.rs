//! Requests that are held for an answer of the app: what joins the `http-service` source and the
//! `http-service-response` sink of one `source.id`.
//!
//! Ids are known in the whole server, so that the sink may stand in another app than the source
//! (`HTTPSourceRegistry`). A request whose answer comes too late, or whose app stops, is answered 504.

use std::sync::Arc;

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::Services;
use super::request::Answer;
use connect::component::{Sink, SinkSetup};
use connect::error::Error;
use connect::message::Message;
use connect::net::http_client::content_type;
use connect::net::http_client::headers;
use connect::option::{Dynamic, Settings};

/// `@sink(type='http-service-response')`.
pub(super) struct ResponseSink {
    name: String,
    services: Arc<Services>,
    source_id: String,
    message_id: Dynamic,
    status: Dynamic,
    headers: Dynamic,
    content_type: &'static str,
}

impl ResponseSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<ResponseSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::http::SPECS);
        let source_id = settings
            .text("source.id")
            .ok_or_else(|| settings.refused("option 'source.id' is missing"))?;
        Ok(ResponseSink {
            name: format!("sink '{}'", setup.transport.ty),
            services: setup.environment.shared.get::<Services>(),
            source_id: source_id.to_owned(),
            message_id: Dynamic::new(setup, settings, "message.id"),
            status: Dynamic::new(setup, settings, "status.code"),
            headers: Dynamic::new(setup, settings, "headers"),
            content_type: content_type(&setup.transport.map.ty),
        })
    }

    fn failed(&self, cause: impl Into<String>) -> Error {
        Error::failed(format!("answering by {}", self.name), cause.into())
    }

    fn response(&self, message: &Message<'_>) -> Result<Answer, Error> {
        let body = headers::body(message.payload)
            .ok_or_else(|| self.failed("the payload is neither text nor bytes"))?;
        let mut response = Response::new(Full::new(body));
        let status = self.status.of(message).trim();
        *response.status_mut() = status.parse::<StatusCode>().map_err(|_| {
            self.failed(format!(
                "'{status}' is not a status: use a number from 100 to 999"
            ))
        })?;
        let into = response.headers_mut();
        into.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers::add(into, self.headers.of(message)).map_err(|cause| self.failed(cause))?;
        Ok(response)
    }
}

impl Sink for ResponseSink {
    fn connect(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let response = self.response(message)?;
        let id = self.message_id.of(message);
        let service = self
            .services
            .get(&self.source_id)
            .ok_or_else(|| self.failed(format!("there is no source '{}'", self.source_id)))?;
        if service.answer(id, response) {
            return Ok(());
        }
        Err(self.failed(format!(
            "no request with the id '{id}' waits: it was answered before, or too late"
        )))
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
