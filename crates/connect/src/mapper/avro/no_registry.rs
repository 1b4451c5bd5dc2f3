//! In place of the client of a schema registry, in a build without the feature `registry`: an app that
//! names one is refused.

use super::shape::Shapes;
use crate::error::Error;
use crate::mapper::Options;

/// The number of a schema in its registry.
pub(super) type SchemaId = u32;

/// There is none.
pub(super) enum Registry {}

impl Registry {
    pub fn new(
        options: &Options<'_>,
        _urls: &str,
        _login: Option<String>,
    ) -> Result<Registry, Error> {
        Err(options.refused(
            "this build of headwater cannot ask a schema registry: build with '--features registry' \
             or install the full binary, or write the schema into the app by 'schema.def'",
        ))
    }

    pub fn refused(&self, _cause: String) -> Error {
        match *self {}
    }

    pub fn schema(&mut self, _id: SchemaId) -> Result<Result<Shapes, String>, Error> {
        match *self {}
    }

    pub fn id_of(
        &mut self,
        _subject: &str,
        _schema: &str,
        _registers: bool,
    ) -> Result<SchemaId, Error> {
        match *self {}
    }
}
