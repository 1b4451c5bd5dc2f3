//! The specs of all technologies, whatever this build can run.
//!
//! A spec lies beside the code that it describes, but is declared here: a build without a
//! technology's feature still checks the apps that use it, and names the feature that is missing.
//!
//! Never: a client library, or code but for what `explain` tells of options.

#[path = "cdc/spec.rs"]
pub mod cdc;
#[path = "email/spec.rs"]
pub mod email;
#[path = "file/spec.rs"]
pub mod file;
#[path = "file/function_specs.rs"]
pub mod file_functions;
#[path = "grpc/spec.rs"]
pub mod grpc;
#[path = "http/spec.rs"]
pub mod http;
#[path = "http/service_spec.rs"]
pub mod http_service;
#[path = "kafka/spec.rs"]
pub mod kafka;
#[path = "kafka/choice.rs"]
pub mod kafka_choice;
#[path = "log/spec.rs"]
pub mod log;
#[path = "mongodb/spec.rs"]
pub mod mongodb;
#[path = "mqtt/spec.rs"]
pub mod mqtt;
#[path = "nats/spec.rs"]
pub mod nats;
#[path = "prometheus/spec.rs"]
pub mod prometheus;
#[path = "rabbitmq/spec.rs"]
pub mod rabbitmq;
#[path = "rdbms/spec.rs"]
pub mod rdbms;
#[path = "redis/spec.rs"]
pub mod redis;
#[path = "aws/s3/spec.rs"]
pub mod s3;
#[path = "aws/sqs/spec.rs"]
pub mod sqs;
#[path = "tcp/spec.rs"]
pub mod tcp;
#[path = "websocket/spec.rs"]
pub mod websocket;
#[path = "wso2event/spec.rs"]
pub mod wso2event;

use plan::spec::{ConnectorSpec, FunctionSpec};

/// The specs of each technology, in the order of the documentation.
pub const SPECS: &[&[ConnectorSpec]] = &[
    log::CONNECTORS,
    kafka::CONNECTORS,
    http::CONNECTORS,
    http_service::CONNECTORS,
    file::CONNECTORS,
    file_functions::CONNECTORS,
    cdc::CONNECTORS,
    rdbms::CONNECTORS,
    redis::CONNECTORS,
    mongodb::CONNECTORS,
    nats::CONNECTORS,
    mqtt::CONNECTORS,
    rabbitmq::CONNECTORS,
    websocket::CONNECTORS,
    grpc::CONNECTORS,
    tcp::CONNECTORS,
    wso2event::CONNECTORS,
    prometheus::CONNECTORS,
    s3::CONNECTORS,
    email::CONNECTORS,
    sqs::CONNECTORS,
];

/// The functions of technologies, which queries call.
pub const FUNCTIONS: &[&[FunctionSpec]] = &[
    log::FUNCTIONS,
    file_functions::FUNCTIONS,
    rdbms::FUNCTIONS,
    s3::FUNCTIONS,
];
