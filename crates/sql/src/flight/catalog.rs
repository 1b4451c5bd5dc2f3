//! What there is, as Flight SQL lists it: one catalog with one schema, and the tables of the store.

use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables, SqlInfo,
};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;

use super::without_dictionaries;

/// As statements may name them.
const CATALOG: &str = "store";
const SCHEMA: &str = "public";

/// The type of all tables.
const TABLE: &str = "TABLE";

/// What the server says of itself.
pub(super) fn about() -> Result<SqlInfoData, FlightError> {
    let mut about = SqlInfoDataBuilder::new();
    about.append(SqlInfo::FlightSqlServerName, "Headwater");
    about.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    about.append(SqlInfo::FlightSqlServerReadOnly, true);
    about.append(SqlInfo::FlightSqlServerSql, true);
    about.append(SqlInfo::FlightSqlServerSubstrait, false);
    // `SqlSupportedTransaction`: none.
    about.append(SqlInfo::FlightSqlServerTransaction, 0i32);
    about.append(SqlInfo::FlightSqlServerCancel, false);
    about.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    about.build()
}

pub(super) fn catalogs(query: CommandGetCatalogs) -> Result<RecordBatch, FlightError> {
    let mut catalogs = query.into_builder();
    catalogs.append(CATALOG);
    catalogs.build()
}

pub(super) fn schemas(query: CommandGetDbSchemas) -> Result<RecordBatch, FlightError> {
    let mut schemas = query.into_builder();
    schemas.append(CATALOG, SCHEMA);
    schemas.build()
}

pub(super) fn tables(
    query: CommandGetTables,
    all: &[(String, SchemaRef)],
) -> Result<RecordBatch, FlightError> {
    let mut tables = query.into_builder();
    for (name, schema) in all {
        tables.append(CATALOG, SCHEMA, name, TABLE, &without_dictionaries(schema))?;
    }
    tables.build()
}

pub(super) fn table_types(query: CommandGetTableTypes) -> Result<RecordBatch, FlightError> {
    let mut types = query.into_builder();
    types.append(TABLE);
    types.build()
}
