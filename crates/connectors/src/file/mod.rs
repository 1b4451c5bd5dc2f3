//! Local files: source, sink, and the functions with which apps move them about.
//!
//! Promises: a file is read once, and its after-action happens when all it gave has been taken;
//! after a crash both go on from the last checkpoint. Never: remote file systems; their URIs are
//! refused with the way out.

mod action;
mod archive;
mod beneath;
mod calls;
pub mod effects;
mod events;
pub mod functions;
pub mod lines;
mod options;
pub mod position;
mod reading;
mod records;
mod roots;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use crate::spec::file::{SINK, SOURCE};
use plan::spec::ConnectorSpec;

use connect::component::{
    Connector, PayloadKind, PositionText, Sink, SinkSetup, Source, SourceSetup,
};
use connect::error::Error;

pub use events::EVENTS;

/// `#file:move` and its family.
pub const FUNCTIONS: calls::FileFunctions = calls::FileFunctions;

/// `@source(type='file')` and `@sink(type='file')`.
pub const FILE: FileConnector = FileConnector;

pub struct FileConnector;

impl Connector for FileConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        &[SOURCE, SINK]
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes]
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        Ok(Box::new(source::FileSource::new(setup)?))
    }

    fn position_text(&self, position: &[u8]) -> Option<PositionText> {
        Some(position::Position::read(position).ok()?.text())
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes]
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        Ok(Box::new(sink::FileSink::new(setup)?))
    }
}
