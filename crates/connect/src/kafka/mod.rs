//! Kafka: `@source(type='kafka')` and `@sink(type='kafka')`, by librdkafka.
//!
//! Promises: the order of each partition is kept; a source goes on behind the last record that its
//! app has saved, and commits to its group only what is done; a broker that is lost is named within
//! seconds, and come back to; a full app holds the broker off without leaving the group. A sink
//! repeats what the broker has not confirmed, in order and without doubling it, until its time is
//! over, and then gives it to `on.error`.
//!
//! Never: a commit before the effects of a record are where the app's delivery label says, a password
//! in a message, `unsafe`.

mod partitions;
mod properties;
mod record;
mod sequence;
mod sink;
mod source;
mod watch;

use lang::catalog::connectors::kafka::CONNECTORS;
use rdkafka::error::KafkaError;

use crate::component::PayloadKind;
use crate::technology::Technology;

/// `@source(type='kafka')` and `@sink(type='kafka')`.
pub const KAFKA: Technology = Technology {
    takes: &[PayloadKind::Text, PayloadKind::Bytes, PayloadKind::Events],
    source: Some(|setup| Ok(Box::new(source::KafkaSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::KafkaSink::new(setup)?))),
    ..Technology::of_payloads(CONNECTORS)
};

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
