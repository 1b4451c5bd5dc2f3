//! The data of the 97 sources, sinks, mappers, stores and their functions: one file a technology.
//!
//! Promises: every option of the component by its exact name, with type, default and the honest
//! status. What a component does is in `connect`; here is only what can be told about it.
//!
//! A component that is only known accepts its options (`Honoured` means: `check` accepts it, and
//! nothing more) and is refused by `run`.

pub mod avro;
pub mod binary;
pub mod cdc;
pub mod csv;
pub mod distribution;
pub mod email;
pub mod file;
pub mod file_functions;
pub mod grpc;
pub mod http;
pub mod http_service;
pub mod in_memory;
pub mod json;
pub mod kafka;
pub mod keyvalue;
pub mod log;
pub mod mongodb;
pub mod mqtt;
pub mod nats;
pub mod pass_through;
pub mod prometheus;
pub mod protobuf;
pub mod rabbitmq;
pub mod rdbms;
pub mod redis;
pub mod s3;
pub mod sqs;
pub mod tcp;
pub mod text;
pub mod websocket;
pub mod xml;

use plan::spec::ConnectorSpec;

/// All components, by technology.
pub const CONNECTORS: &[&[ConnectorSpec]] = &[
    in_memory::CONNECTORS,
    log::CONNECTORS,
    pass_through::CONNECTORS,
    kafka::CONNECTORS,
    http::CONNECTORS,
    http_service::CONNECTORS,
    file::CONNECTORS,
    file_functions::CONNECTORS,
    cdc::CONNECTORS,
    json::CONNECTORS,
    xml::CONNECTORS,
    csv::CONNECTORS,
    text::CONNECTORS,
    keyvalue::CONNECTORS,
    avro::CONNECTORS,
    protobuf::CONNECTORS,
    binary::CONNECTORS,
    rdbms::CONNECTORS,
    redis::CONNECTORS,
    mongodb::CONNECTORS,
    nats::CONNECTORS,
    mqtt::CONNECTORS,
    rabbitmq::CONNECTORS,
    websocket::CONNECTORS,
    grpc::CONNECTORS,
    tcp::CONNECTORS,
    prometheus::CONNECTORS,
    s3::CONNECTORS,
    email::CONNECTORS,
    sqs::CONNECTORS,
    distribution::CONNECTORS,
];

/// Every component of [`CONNECTORS`], in its order.
pub fn all() -> impl Iterator<Item = &'static ConnectorSpec> {
    CONNECTORS.iter().copied().flatten()
}
