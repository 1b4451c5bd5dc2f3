//! Prometheus: `@sink(type='prometheus')` turns events into metrics that are scraped or pushed, and
//! `@source(type='prometheus')` scrapes one metric again and again.
//!
//! Promises: sinks that name the same place and the same metric share it; a value is counted once,
//! whatever becomes of a push; a target that does not answer is said and asked again. Never: a value
//! dropped because the push gateway is away for a moment, a metric of another shape under a name that
//! is taken.

mod metric;
pub(crate) mod scrape;
mod server;
mod sink;
mod source;

use catalog::connectors::prometheus::CONNECTORS;

use connect::component::PayloadKind;
use connect::connector_def::ConnectorDef;

/// `@source(type='prometheus')` and `@sink(type='prometheus')`.
pub const PROMETHEUS: ConnectorDef = ConnectorDef {
    gives: &[PayloadKind::Map],
    takes: &[PayloadKind::Map],
    source: Some(|setup| Ok(Box::new(source::PrometheusSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::PrometheusSink::new(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};
