//! gRPC: one-way events (`grpc`), calls with their responses (`grpc-call`, `grpc-call-response`) and
//! services (`grpc-service`, `grpc-service-response`).
//!
//! Messages are framed by tonic and carried by hyper's HTTP/2 on the threads of [`connect::net`]; nothing
//! is generated. Siddhi's own service `org.wso2.grpc.eventservice.EventService` carries a text with
//! headers, and its listeners share a port by the header `stream.id`; methods of any other service carry
//! the bytes of the mapper `protobuf`. Promises: an event is answered when its source has taken it, with
//! state when what it brought is saved; a one-way sink sends in order and knows each event's status; a
//! full app is felt as late answers. Never: a call that is sent twice after it was answered, a message
//! beyond the limit.

mod body;
mod channel;
mod ports;
mod service;
mod sink;
mod source;
mod wire;

use std::sync::Arc;

use crate::spec::grpc::CONNECTORS;
use plan::spec::ConnectorSpec;

use connect::component::{Connector, PayloadKind, Sink, SinkSetup, Source, SourceSetup};
use connect::error::Error;
use connect::net::request_reply::{Calls, ResponseSource};
use connect::option::Settings;

/// Calls of gRPC and the sources of their responses.
#[derive(Default)]
struct GrpcCalls(Arc<Calls>);

/// All that is gRPC.
pub const GRPC: GrpcConnector = GrpcConnector;

pub struct GrpcConnector;

const PAYLOADS: &[PayloadKind] = &[PayloadKind::Text, PayloadKind::Bytes];

/// By what all responses are asked for: those that the protocol calls failed come to nobody.
const ANSWERED: u16 = 200;

impl Connector for GrpcConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        CONNECTORS
    }

    fn gives(&self) -> &'static [PayloadKind] {
        PAYLOADS
    }

    fn takes(&self) -> &'static [PayloadKind] {
        PAYLOADS
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        Ok(match setup.transport.ty.as_str() {
            "grpc-call-response" => {
                let calls = &setup.environment.shared.get::<GrpcCalls>().0;
                let settings = Settings::of_source(setup.transport, CONNECTORS);
                Box::new(ResponseSource::of(settings, calls, "200")?)
            }
            _ => Box::new(source::GrpcSource::new(setup)?),
        })
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        Ok(match setup.transport.ty.as_str() {
            "grpc-service-response" => Box::new(service::ResponseSink::new(setup)?),
            _ => Box::new(sink::GrpcSink::new(setup)?),
        })
    }
}
