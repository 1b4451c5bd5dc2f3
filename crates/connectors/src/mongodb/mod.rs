//! MongoDB as a store of tables: a document for each row, in a collection for each table.
//!
//! The protocol is that of the official crate `mongodb`. Documents are those of
//! siddhi-store-mongodb, so that a collection can be taken over; fields that a table does not have
//! stay as they are. Promises: writes arrive as they are done and in their order, and a query sees
//! those before it; a document that the server refuses is returned alone, and the others are
//! written; every condition means what it means in memory, as a filter of the server as far as that
//! has words for it.
//!
//! A standalone server has no transactions: writes after the last checkpoint survive a crash and
//! are then repeated. A row with a primary key is not duplicated by that; one without is.
//!
//! Never: `mongodb+srv`, which asks a name server; a value in a condition that is read as code.

mod filter;
mod row;
mod server;
mod table;
mod target;

use crate::spec::mongodb::CONNECTORS;

use connect::connector_def::ConnectorDef;

/// `@store(type='mongodb')`.
pub const MONGODB: ConnectorDef = ConnectorDef {
    store: Some(|setup| Ok(Box::new(table::MongoTable::new(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};
