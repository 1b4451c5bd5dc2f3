//! The technologies: sources, sinks, stores and functions with effects, a folder and a Cargo feature
//! each.
//!
//! A technology is a constant in [`CONNECTORS`], its functions one in [`EFFECTS`]; the binary hands
//! both to the server as its [`REGISTRY`]. Contracts, mappers and the network are in the crate
//! `connect`.
//!
//! Promises: a client library is compiled for its feature alone. Never: a technology that imports
//! another one's folder, but `cdc`, which reads databases by the connections of `rdbms`.

mod api_spec;
#[cfg(any(feature = "http", feature = "websocket"))]
mod attached;
#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "cdc")]
pub mod cdc;
#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub mod decoders;
#[cfg(feature = "email")]
pub mod email;
#[cfg(feature = "file")]
pub mod file;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod log;
#[cfg(feature = "mongodb")]
pub mod mongodb;
#[cfg(feature = "mqtt")]
pub mod mqtt;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(any(feature = "http", feature = "websocket"))]
mod origin;
#[cfg(feature = "prometheus")]
pub mod prometheus;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "rdbms")]
pub mod rdbms;
#[cfg(feature = "redis")]
pub mod redis;
pub mod spec;
#[cfg(feature = "tcp")]
pub mod tcp;
#[cfg(feature = "websocket")]
pub mod websocket;
#[cfg(feature = "wso2event")]
pub mod wso2event;

use connect::component::Connector;
use connect::effect::EffectFunctions;
use connect::registry::Registry;
use plan::spec::{ConnectorSpec, FunctionSpec};

/// The specs of all technologies and their functions, also of those that this build lacks.
pub fn specs() -> impl Iterator<Item = &'static ConnectorSpec> {
    spec::SPECS.iter().copied().flatten()
}

/// What queries may call of the functions of technologies, also of those that this build lacks.
pub fn function_specs() -> impl Iterator<Item = &'static FunctionSpec> {
    spec::FUNCTIONS.iter().copied().flatten()
}

/// All technologies of this build.
pub const CONNECTORS: &[&dyn Connector] = &[
    #[cfg(feature = "cdc")]
    &cdc::CDC,
    #[cfg(feature = "email")]
    &email::EMAIL,
    #[cfg(feature = "file")]
    &file::FILE,
    #[cfg(feature = "file")]
    &file::EVENTS,
    #[cfg(feature = "grpc")]
    &grpc::GRPC,
    #[cfg(feature = "http")]
    &http::HTTP,
    #[cfg(feature = "http")]
    &http::HUB,
    #[cfg(feature = "kafka")]
    &kafka::KAFKA,
    &log::LOG,
    #[cfg(feature = "mongodb")]
    &mongodb::MONGODB,
    #[cfg(feature = "mqtt")]
    &mqtt::MQTT,
    #[cfg(feature = "nats")]
    &nats::NATS,
    #[cfg(feature = "prometheus")]
    &prometheus::PROMETHEUS,
    #[cfg(feature = "rabbitmq")]
    &rabbitmq::RABBITMQ,
    #[cfg(feature = "rdbms")]
    &rdbms::RDBMS,
    #[cfg(feature = "redis")]
    &redis::REDIS,
    #[cfg(feature = "aws")]
    &aws::s3::S3,
    #[cfg(feature = "aws")]
    &aws::sqs::SQS,
    #[cfg(feature = "tcp")]
    &tcp::TCP,
    #[cfg(feature = "websocket")]
    &websocket::WEBSOCKET,
    #[cfg(feature = "wso2event")]
    &wso2event::WSO2EVENT,
];

/// The functions with effects of this build.
pub const EFFECTS: &[&dyn EffectFunctions] = &[
    #[cfg(feature = "file")]
    &file::FUNCTIONS,
    #[cfg(feature = "rdbms")]
    &rdbms::FUNCTIONS,
    #[cfg(feature = "aws")]
    &aws::s3::FUNCTIONS,
];

/// What a binary with this crate hands to the server.
pub const REGISTRY: Registry = Registry {
    connectors: CONNECTORS,
    effects: EFFECTS,
    feature,
};

/// The Cargo feature that brings a component into a build: that of its technology.
pub fn feature(spec: &ConnectorSpec) -> &'static str {
    let kinds = ["io-", "store-", "map-"];
    let technology = kinds.iter().find_map(|kind| spec.origin.strip_prefix(kind));
    match technology.unwrap_or(spec.origin) {
        "s3" | "sqs" => "aws",
        // Each of its databases has a feature; this one needs no server.
        "rdbms" => "sqlite",
        technology => technology,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sink or store that waits for its server holds up what shares its destination.
    #[cfg(feature = "kafka")]
    #[test]
    fn sinks_of_one_topic_on_two_brokers_are_two_destinations() {
        let sink = |options: &[(&str, &str)]| {
            REGISTRY.destination(&connect::net::testing::transport("kafka", options))
        };
        let one = sink(&[("bootstrap.servers", "a:9092"), ("topic", "t")]);
        let other = sink(&[("bootstrap.servers", "b:9092"), ("topic", "t")]);
        assert_ne!(one, other);
        let same = [
            ("topic", "t"),
            ("is.binary.message", "true"),
            ("bootstrap.servers", "a:9092"),
        ];
        assert_eq!(one, sink(&same));
    }

    #[test]
    fn what_a_build_has_and_what_brings_the_rest_is_known() {
        use plan::spec::Status;

        let all = specs().chain(connect::specs());
        for spec in all.filter(|spec| spec.status == Status::Runs) {
            let feature = feature(spec);
            if !REGISTRY.has(spec) {
                let manifest = include_str!("../Cargo.toml");
                let line = format!("\n{feature} = [");
                assert!(
                    manifest.contains(&line),
                    "{}: no feature '{feature}'",
                    spec.name
                );
            }
        }
    }
}
