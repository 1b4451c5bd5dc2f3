//! Tables in a relational database: the embedded SQLite behind `@store(type='rdbms')`.

pub mod url;

/// The databases that a server has open, so that the tables of an app in one file share a
/// connection and a transaction.
#[derive(Default)]
pub struct Databases {}
