//! The specs of mappers, topics and strategies of distribution, whatever this build can run.
//!
//! A spec lies beside the code that it describes, but is declared here: a build without a mapper's
//! feature still checks the apps that use it, and names the feature that is missing.
//!
//! Never: code, or a library of a format.

#[path = "mapper/avro/spec.rs"]
pub mod avro;
#[path = "mapper/binary/spec.rs"]
pub mod binary;
#[path = "mapper/csv/spec.rs"]
pub mod csv;
#[path = "distribution/spec.rs"]
pub mod distribution;
pub mod in_memory;
#[path = "mapper/json/spec.rs"]
pub mod json;
#[path = "mapper/keyvalue/spec.rs"]
pub mod keyvalue;
#[path = "mapper/pass_through/spec.rs"]
pub mod pass_through;
#[path = "mapper/protobuf/spec.rs"]
pub mod protobuf;
#[path = "mapper/text/spec.rs"]
pub mod text;
#[path = "mapper/wso2event/spec.rs"]
pub mod wso2event;
#[path = "mapper/xml/spec.rs"]
pub mod xml;

use plan::spec::ConnectorSpec;

/// The specs of each format and of what is inside a server, in the order of the documentation.
pub const SPECS: &[&[ConnectorSpec]] = &[
    in_memory::CONNECTORS,
    pass_through::CONNECTORS,
    json::CONNECTORS,
    xml::CONNECTORS,
    csv::CONNECTORS,
    text::CONNECTORS,
    keyvalue::CONNECTORS,
    avro::CONNECTORS,
    protobuf::CONNECTORS,
    binary::CONNECTORS,
    wso2event::CONNECTORS,
    distribution::CONNECTORS,
];
