//! The contracts of sources, sinks, mappers and stores, and the kit that they are made with.
//!
//! Data comes in through a [`component::Source`], becomes rows in a [`component::SourceMapper`]
//! ([`decoder::RowDecoder`] joins the two), and leaves through a [`component::SinkMapper`] and a
//! [`component::Sink`] ([`encoder::RowEncoder`]). Tables kept outside are [`component::Store`]s. The
//! technologies themselves are in the crate `connectors`, the formats in [`mapper`].
//!
//! Promises: bad input is rejected with its place, cause and remedy, and the input around it is
//! processed; sizes, depths and queues are bounded; without the feature `net` nothing here needs a
//! network or a client library. Never: threads (they belong to `server`; those that serve
//! connections are in `net` alone), sleeps, knowledge of queries or of a single technology,
//! `unsafe`.

pub mod answer;
pub mod arrivals;
pub mod cache;
pub mod component;
pub mod condition;
pub mod connector_def;
pub mod distribution;
pub mod effect;
pub mod error;
pub mod event_text;
pub mod file_uri;
pub mod folder;
#[cfg(any(test, feature = "testing"))]
pub mod growth;
pub mod ids;
pub mod mapper;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod message;
#[cfg(feature = "net")]
pub mod net;
pub mod object;
pub mod option;
pub mod registry;
pub mod retry;
pub mod row_decoder;
pub mod row_encoder;
pub mod rows;
pub mod scalar;
pub mod shared;
pub mod spec;
pub mod template;
pub mod url;
pub mod xml_tree;

pub use component::Connector;
pub use error::Error;
pub use registry::Registry;

use plan::spec::ConnectorSpec;

/// The specs of all mappers, of topics and of strategies of distribution, also of what this build
/// lacks.
pub fn specs() -> impl Iterator<Item = &'static ConnectorSpec> {
    spec::SPECS.iter().copied().flatten()
}
