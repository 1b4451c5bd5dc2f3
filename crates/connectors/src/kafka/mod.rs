//! Kafka: `@source(type='kafka')` and `@sink(type='kafka')`, the pair `kafkaMultiDC` ([`multi_dc`])
//! and the pair that replays offsets ([`source`]), by librdkafka; source and sink `kafka` read and write
//! records by a client of our own ([`wire`]) where their options allow.
//!
//! Promises: the order of each partition is kept; a source continues after the last record that its
//! app has saved, and commits to its group only what is done; a lost broker is logged within
//! seconds, and reconnected to; a full app pauses fetching without leaving the group. A sink
//! repeats what the broker has not confirmed, in order and without doubling it, until its time is
//! over, and then gives it to `on.error`.
//!
//! Never: a commit before the effects of a record are where the app's delivery label says, a password
//! in a message, `unsafe`.

mod epochs;
mod multi_dc;
mod oversized;
mod own_sink;
mod partitions;
mod properties;
mod record;
mod sequence;
mod sink;
mod source;
mod watch;
mod wire;

#[cfg(any(test, feature = "testing"))]
pub(crate) use wire::check as check_wire;

use crate::spec::kafka::CONNECTORS;
use plan::spec::ConnectorSpec;
use rdkafka::error::KafkaError;

use self::multi_dc::{MultiDcSink, MultiDcSource};
use self::partitions::Partitions;
use self::sink::KafkaSink;
use self::source::{KafkaSource, ReplayRequest, ReplayResponse};
use connect::component::{
    Connector, PayloadKind, PositionText, Sink, SinkSetup, Source, SourceSetup,
};
use connect::error::Error;

/// `@source(type='kafka')` and `@sink(type='kafka')`, and `kafkaMultiDC` of both.
pub const KAFKA: Kafka = Kafka;

pub struct Kafka;

/// The pair over two data centres.
const MULTI_DC: &str = "kafkaMultiDC";

/// The pair that reads ranges of offsets again.
const REPLAY_REQUEST: &str = "kafka-replay-request";
const REPLAY_RESPONSE: &str = "kafka-replay-response";

impl Connector for Kafka {
    fn specs(&self) -> &'static [ConnectorSpec] {
        CONNECTORS
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes]
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes, PayloadKind::Events]
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        Ok(match setup.transport.ty.as_str() {
            REPLAY_RESPONSE => Box::new(ReplayResponse::new(setup)?),
            ty if is_multi_dc(ty) => Box::new(MultiDcSource::new(setup)?),
            _ => Box::new(KafkaSource::new(setup)?),
        })
    }

    fn position_text(&self, position: &[u8]) -> Option<PositionText> {
        Some(Partitions::restore(position)?.text())
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        Ok(match setup.transport.ty.as_str() {
            REPLAY_REQUEST => Box::new(ReplayRequest::new(setup)?),
            ty if is_multi_dc(ty) => Box::new(MultiDcSink::new(setup)?),
            _ => own_sink::chosen(setup, KafkaSink::new(setup)?)?,
        })
    }
}

fn is_multi_dc(ty: &str) -> bool {
    ty.eq_ignore_ascii_case(MULTI_DC)
}

/// The items of a list as `String.split(",")` gives them, trimmed, without empty ones.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

/// An error in librdkafka's words, without the name of its wrapper.
fn said(error: &KafkaError) -> String {
    error
        .rdkafka_error_code()
        .map_or_else(|| error.to_string(), |code| code.to_string())
}
