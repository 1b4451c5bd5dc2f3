//! Prometheus: `@sink(type='prometheus')` turns events into metrics that are scraped or pushed, and
//! `@source(type='prometheus')` scrapes one metric at intervals.
//!
//! Promises: sinks with the same address and the same metric share it; a value is counted once,
//! even if a push fails; a target that does not answer is logged and scraped again. Never: a value
//! dropped because the push gateway is away for a moment, a metric of another shape under a name
//! that is taken.

mod metric;
pub(crate) mod scrape;
mod server;
mod sink;
mod source;

use crate::spec::prometheus::CONNECTORS;

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
