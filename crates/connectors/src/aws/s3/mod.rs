//! S3: `@sink(type='s3')`, each payload an object of a bucket, and functions that store, copy and remove
//! objects.
//!
//! The protocol and where credentials come from are those of the crate `object_store`, the
//! connections are Headwater's. Promises: an object has a name that no object before it had, also
//! after a restart; it counts as stored when the server says so, and what was not stored is sent
//! again under the same name. Never: requests repeated by the library, changes to objects of other
//! names.

mod bucket;
pub mod functions;
mod sink;

use crate::spec::s3::CONNECTORS;

use connect::connector_def::ConnectorDef;

/// `#s3:uploadFile` and its like.
pub const FUNCTIONS: functions::S3Functions = functions::S3Functions;

/// `@sink(type='s3')`.
pub const S3: ConnectorDef = ConnectorDef {
    sink: Some(|setup| Ok(Box::new(sink::S3Sink::new(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};
