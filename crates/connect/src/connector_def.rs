//! The shape that most connectors have: a technology said by its parts, as constant data.
//!
//! ```text
//! pub const MQTT: ConnectorDef = ConnectorDef {
//!     source: Some(|setup| Ok(Box::new(MqttSource::new(setup)?))),
//!     sink: Some(|setup| Ok(Box::new(MqttSink::new(setup)?))),
//!     ..ConnectorDef::of_payloads(CONNECTORS)
//! };
//! ```
//!
//! Never: more than one kind of source, sink or store; who has more implements
//! [`Connector`] (`http`, `file`).

use plan::spec::ConnectorSpec;

use crate::component::{
    Connector, PayloadKind, PositionText, Sink, SinkSetup, Source, SourceSetup, Store, StoreSetup,
};
use crate::error::Error;

/// A technology with at most one source, one sink and one store.
pub struct ConnectorDef {
    pub specs: &'static [ConnectorSpec],
    /// What its source hands to the mapper.
    pub gives: &'static [PayloadKind],
    /// What its sink takes from the mapper.
    pub takes: &'static [PayloadKind],
    pub source: Option<fn(&SourceSetup<'_>) -> Result<Box<dyn Source>, Error>>,
    pub sink: Option<fn(&SinkSetup<'_>) -> Result<Box<dyn Sink>, Error>>,
    pub store: Option<fn(&StoreSetup<'_>) -> Result<Box<dyn Store>, Error>>,
    /// As [`Connector::default_address`].
    pub default_address: Option<fn(&SourceSetup<'_>) -> Option<String>>,
    /// As [`Connector::position_text`].
    pub position_text: Option<fn(&[u8]) -> Option<PositionText>>,
}

/// What messages of brokers are.
const TEXT_OR_BYTES: &[PayloadKind] = &[PayloadKind::Text, PayloadKind::Bytes];

impl ConnectorDef {
    /// One without source, sink and store, whose messages are text or bytes.
    pub const fn of_payloads(specs: &'static [ConnectorSpec]) -> ConnectorDef {
        ConnectorDef {
            specs,
            gives: TEXT_OR_BYTES,
            takes: TEXT_OR_BYTES,
            source: None,
            sink: None,
            store: None,
            default_address: None,
            position_text: None,
        }
    }
}

fn absent(kind: &str, name: &str) -> Error {
    let said = format!("there is no {kind} of this type");
    Error::refused(format!("{kind} '{name}'"), said)
}

impl Connector for ConnectorDef {
    fn specs(&self) -> &'static [ConnectorSpec] {
        self.specs
    }

    fn gives(&self) -> &'static [PayloadKind] {
        self.gives
    }

    fn takes(&self) -> &'static [PayloadKind] {
        self.takes
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        let make = self
            .source
            .ok_or_else(|| absent("source", &setup.transport.ty))?;
        make(setup)
    }

    fn default_address(&self, setup: &SourceSetup<'_>) -> Option<String> {
        self.default_address.and_then(|address| address(setup))
    }

    fn position_text(&self, position: &[u8]) -> Option<PositionText> {
        self.position_text.and_then(|text| text(position))
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        let make = self
            .sink
            .ok_or_else(|| absent("sink", &setup.transport.ty))?;
        make(setup)
    }

    fn store(&self, setup: &StoreSetup<'_>) -> Result<Box<dyn Store>, Error> {
        let make = self
            .store
            .ok_or_else(|| absent("store", &setup.table.schema.name))?;
        make(setup)
    }
}
