//! The data of the 97 sources, sinks, mappers, stores and their functions: one file a technology.
//!
//! Promises: every option of the component by its exact name, with type, default and the honest
//! status. What a component does is in `connect`; here stands only what can be said about it.
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

use crate::spec::{ConnectorSpec, OptionSpec, OptionType};

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

const fn text(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Text, doc)
}

const fn bool(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Bool, doc).default(default)
}

const fn int(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Int, doc).default(default)
}

const fn long(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Long, doc).default(default)
}

const fn millis(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Millis, doc).default(default)
}

const fn pairs(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::Pairs, doc)
}

const fn list(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionType::List, doc)
}

const fn choice(
    name: &'static str,
    values: &'static [&'static str],
    default: &'static str,
    doc: &'static str,
) -> OptionSpec {
    OptionSpec::new(name, OptionType::OneOf(values), doc).default(default)
}

/// How many options the parts hold together.
const fn total(parts: &[&[OptionSpec]]) -> usize {
    let mut sum = 0;
    let mut i = 0;
    while i < parts.len() {
        sum += parts[i].len();
        i += 1;
    }
    sum
}

/// The parts one after the other; `N` is their [`total`].
const fn join<const N: usize>(parts: &[&[OptionSpec]]) -> [OptionSpec; N] {
    let mut all = [OptionSpec::new("", OptionType::Text, ""); N];
    let (mut i, mut at) = (0, 0);
    while i < parts.len() {
        let mut j = 0;
        while j < parts[i].len() {
            all[at] = parts[i][j];
            at += 1;
            j += 1;
        }
        i += 1;
    }
    all
}

/// One constant list of options from several (`http-service` has those of `http`, and more).
macro_rules! options {
    ($($part:expr),+ $(,)?) => {{
        const PARTS: &[&[$crate::spec::OptionSpec]] = &[$($part),+];
        const ALL: [$crate::spec::OptionSpec; super::total(PARTS)] = super::join(PARTS);
        &ALL
    }};
}
use options;
