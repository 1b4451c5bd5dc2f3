//! Redis as a store of tables: one hash for each record, a set for each value of an indexed attribute.
//!
//! The protocol is that of the crate `redis`. Keys and values are those of siddhi-store-redis, so that a
//! table can be taken over. Promises: what is written between two checkpoints becomes visible at once,
//! with the number of the checkpoint, in one `MULTI`; a query sees the writes before it; every condition
//! works, by the primary key and the indexes where it names them. Never: a cluster, a null in a table.

mod connection;
mod table;

use crate::spec::redis::CONNECTORS;

use connect::connector_def::ConnectorDef;

/// `@store(type='redis')`.
pub const REDIS: ConnectorDef = ConnectorDef {
    store: Some(|setup| Ok(Box::new(table::RedisTable::new(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};
