//! SQS: `@source(type='sqs')` and `@sink(type='sqs')`, Amazon SQS queues.
//!
//! A few JSON calls over our own connections, signed by the crate `object_store`. Promises: a
//! message is deleted from the queue when its events are safe, and made visible again at once if
//! the app stops before that; one that is redelivered meanwhile is not processed twice; a message
//! counts as sent when the queue has accepted it; a server that is silent for five seconds counts
//! as lost. Never: a secret in a message or a log, an order that a queue does not promise (one
//! whose name ends in `.fifo` does).

mod queue;
mod sink;
mod source;

use crate::spec::sqs::CONNECTORS;

use connect::connector_def::ConnectorDef;

/// `@source(type='sqs')` and `@sink(type='sqs')`.
pub const SQS: ConnectorDef = ConnectorDef {
    source: Some(|setup| Ok(Box::new(source::SqsSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::SqsSink::new(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};

/// Messages of one request (a limit of the protocol).
const BATCH_MAX: usize = 10;
