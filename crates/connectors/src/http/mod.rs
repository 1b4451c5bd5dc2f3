//! HTTP: sources that listen, sinks that send, and the pairs of both that belong together.
//!
//! Promises: one port serves all sources of a server, each at its path; a request is answered when
//! its source has taken it, with state when what it brought is saved; a full app is felt by clients
//! as slow answers, never as lost requests; a stopped source has freed its port. Never: a redirect
//! followed, a path put right, a request sent twice after its answer began.

mod call;
mod client;
mod dispatch;
mod hub;
mod job;
mod listener;
mod oauth;
mod request;
mod service;
mod simple;
mod sink;
mod source;
mod sse;

use std::sync::Arc;

use crate::spec::{http, http_service};
use plan::spec::ConnectorSpec;

use connect::component::{Connector, PayloadKind, Sink, SinkSetup, Source, SourceSetup};
use connect::error::Error;
use connect::net::gateway::Protocol;
use connect::net::request_reply::{self, Calls, ResponseSource};
use connect::option::Settings;

use crate::attached::{TopicSink, is_attached};

#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use connect::net::events;
pub use hub::HUB;
#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use hub::read_form;
#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use simple::check_requests;

use request::Answer;

/// Services of a server by `source.id`.
type Services = request_reply::Services<Answer>;

type Service = request_reply::Service<Answer>;

/// Calls over HTTP and the sources of their responses.
#[derive(Default)]
struct HttpCalls(Arc<Calls>);

/// All that is HTTP.
pub const HTTP: HttpConnector = HttpConnector;

pub struct HttpConnector;

const SPECS: &[ConnectorSpec] = &[
    http_service::SOURCE,
    http_service::SERVICE,
    http_service::REQUEST_SOURCE,
    http_service::SERVICE_RESPONSE,
    http_service::RESPONSE_SINK,
    http::SINK,
    http::CALL,
    http::REQUEST_SINK,
    http::CALL_RESPONSE,
    http::RESPONSE_SOURCE,
    http::SSE_SOURCE,
    http::SSE_SERVER,
];

impl Connector for HttpConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text]
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes, PayloadKind::Map]
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        Ok(match setup.transport.ty.as_str() {
            "http-call-response" | "http-response" => {
                let calls = &setup.environment.shared.get::<HttpCalls>().0;
                let settings = Settings::of_source(setup.transport, SPECS);
                let status = settings.text_or_default("http.status.code");
                Box::new(ResponseSource::of(settings, calls, status)?)
            }
            "sse" => Box::new(sse::SseSource::new(setup)?),
            _ => Box::new(source::HttpSource::new(setup)?),
        })
    }

    fn default_address(&self, setup: &SourceSetup<'_>) -> Option<String> {
        let listens = !matches!(
            setup.transport.ty.as_str(),
            "http-call-response" | "http-response" | "sse"
        );
        let is_named = setup.transport.option("receiver.url").is_some();
        (listens && !is_named).then(|| source::default_url(setup))
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        Ok(match setup.transport.ty.as_str() {
            "http-service-response" | "http-response" => {
                Box::new(service::ResponseSink::new(setup)?)
            }
            "sse-server" if is_attached(setup.transport) => {
                Box::new(TopicSink::new(setup, SPECS, Protocol::Sse)?)
            }
            "sse-server" => Box::new(sse::SseServer::new(setup)?),
            _ => Box::new(sink::HttpSink::new(setup)?),
        })
    }
}
