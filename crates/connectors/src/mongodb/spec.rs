//! MongoDB as a store of tables.

use plan::spec::{ConnectorKind, ConnectorSpec, Status, text};

const DOCUMENTS: &str = "headwater::mongodb::rows_lie_as_siddhi_has_them_and_every_condition_works";
const TLS: &str = "headwater::mongodb::tls_asks_for_a_certificate_that_is_trusted";

pub const STORE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    details_indexes: true,
    selects: true,
    example: "@store(type='mongodb', mongodb.uri='mongodb://localhost:27017/shop')
@PrimaryKey('symbol') @Index('price:-1', '{\"sparse\": true}')
define table Stocks (symbol string, price int);",
    options: &[
        text(
            "mongodb.uri",
            "The servers and the database, `mongodb://user:password@host:port/db?options`; the options \
             are those of MongoDB's drivers. `mongodb+srv` is refused.",
        )
        .required()
        .test(DOCUMENTS),
        text(
            "collection.name",
            "Name of the collection; that of the table by default.",
        )
        .test(DOCUMENTS),
        text("secure.connection", "`true` uses TLS.")
            .default("false")
            .test(TLS),
        text(
            "trust.store",
            "Key store of the certificates to trust; those of the system by default.",
        )
        .test(TLS),
        text("trust.store.password", "Password of the trust store.")
            .default("wso2carbon")
            .test(TLS),
        text("key.store", "Key store with the client certificate.").test(TLS),
        text("key.store.password", "Password of the key store.")
            .default("wso2carbon")
            .test(TLS),
    ],
    identity: &["mongodb.uri"],
    ..ConnectorSpec::new(
        ConnectorKind::Store,
        "mongodb",
        "store-mongodb",
        "Keeps a table in a MongoDB collection: one document for each row. Writes are done \
         immediately: those after the last checkpoint are repeated after a crash.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[STORE];
