//! MongoDB as a store of tables.

use super::text;
use crate::spec::{ConnectorKind, ConnectorSpec};

pub const STORE: ConnectorSpec = ConnectorSpec {
    options: &[
        text(
            "mongodb.uri",
            "The servers and the database, `mongodb://host:port/db`.",
        )
        .required(),
        text(
            "collection.name",
            "Name of the collection; that of the table by default.",
        ),
        text("secure.connection", "`true` uses TLS.").default("false"),
        text("trust.store", "Key store of the certificates to trust."),
        text("trust.store.password", "Password of the trust store.").default("wso2carbon"),
        text("key.store", "Key store with the client certificate."),
        text("key.store.password", "Password of the key store.").default("wso2carbon"),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Store,
        "mongodb",
        "store-mongodb",
        "Keeps a table in a MongoDB collection.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[STORE];
