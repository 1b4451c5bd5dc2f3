//! Sources, sinks, mappers and stores: between the outside and the batches of an app.
//!
//! Data comes in through a [`component::Source`], becomes rows in a [`component::SourceMapper`]
//! ([`inlet::Inlet`] joins the two), and leaves through a [`component::SinkMapper`] and a
//! [`component::Sink`] ([`outlet::Outlet`]). Tables kept outside are [`component::Store`]s.
//!
//! Promises: bad input is rejected with its place, cause and remedy, its neighbours go on; sizes,
//! depths and queues are bounded. Never: threads (they belong to `server`; those that serve
//! connections are in [`net`] alone), sleeps, knowledge of queries, `unsafe`.

pub mod cache;
pub mod cdc;
pub mod component;
pub mod decoders;
pub mod distribution;
pub mod email;
pub mod error;
pub mod file;
pub mod grpc;
pub mod http;
pub mod inlet;
pub mod kafka;
pub mod log;
pub mod mapper;
pub mod memory;
pub mod message;
pub mod mongodb;
pub mod mqtt;
pub mod nats;
pub mod net;
pub mod outlet;
pub mod prometheus;
pub mod rabbitmq;
pub mod rdbms;
pub mod redis;
pub mod rows;
pub mod s3;
pub mod sqs;
pub mod tcp;
pub mod technology;
pub mod template;
pub mod terms;
pub mod websocket;

pub use component::Connector;
pub use error::Error;

use plan::spec::{ConnectorKind, Status};

/// All technologies that run.
pub const CONNECTORS: &[&dyn Connector] = &[
    &cdc::CDC,
    &email::EMAIL,
    &file::FILE,
    &file::EVENTS,
    &grpc::GRPC,
    &http::HTTP,
    &http::HUB,
    &kafka::KAFKA,
    &log::LOG,
    &mongodb::MONGODB,
    &mqtt::MQTT,
    &nats::NATS,
    &prometheus::PROMETHEUS,
    &rabbitmq::RABBITMQ,
    &rdbms::RDBMS,
    &redis::REDIS,
    &s3::S3,
    &sqs::SQS,
    &tcp::TCP,
    &websocket::WEBSOCKET,
];

/// The technology that makes a component that runs, as in `@source(type='…')`.
pub fn find(kind: ConnectorKind, name: &str) -> Option<&'static dyn Connector> {
    CONNECTORS.iter().copied().find(|connector| {
        connector.specs().iter().any(|spec| {
            spec.kind == kind
                && spec.status == Status::Runs
                && (spec.name == name || spec.aliases.contains(&name))
        })
    })
}
