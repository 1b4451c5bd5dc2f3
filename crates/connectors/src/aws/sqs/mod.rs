//! SQS: `@source(type='sqs')` and `@sink(type='sqs')`, the messages of a queue of Amazon's.
//!
//! A handful of calls in JSON over our own connections, signed by the crate `object_store`. Promises: a
//! message is deleted from the queue when what it brought is safe, and made visible again at once where
//! the app stops without it; one that comes again meanwhile is not taken twice; a sent message counts
//! when the queue has it; a server that says nothing for five seconds is lost. Never: a secret in a message or a log, an order
//! that a queue does not promise (one whose name ends in `.fifo` does).

mod queue;
mod sink;
mod source;

use catalog::connectors::sqs::CONNECTORS;

use connect::connector_def::ConnectorDef;

/// `@source(type='sqs')` and `@sink(type='sqs')`.
pub const SQS: ConnectorDef = ConnectorDef {
    source: Some(|setup| Ok(Box::new(source::SqsSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::SqsSink::new(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};

/// Messages of one request (a limit of the protocol).
const BATCH_MAX: usize = 10;
