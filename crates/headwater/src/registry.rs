//! The technologies of this binary: those of the crate `connectors`, and the event store.

use ::connectors::{EFFECTS, feature};
use connect::component::Connector;
use connect::registry::Registry;
use plan::spec::ConnectorSpec;

/// What the binary hands to the server and asks for positions and features.
pub const REGISTRY: Registry = Registry {
    connectors: CONNECTORS,
    effects: EFFECTS,
    feature: feature_of,
};

#[cfg(not(feature = "history"))]
const CONNECTORS: &[&dyn Connector] = ::connectors::CONNECTORS;

#[cfg(feature = "history")]
const CONNECTORS: &[&dyn Connector] = &joined(::connectors::CONNECTORS);

/// All connectors, and the event store behind them.
#[cfg(feature = "history")]
const fn joined(
    others: &'static [&'static dyn Connector],
) -> [&'static dyn Connector; ::connectors::CONNECTORS.len() + 1] {
    let mut all: [&'static dyn Connector; ::connectors::CONNECTORS.len() + 1] =
        [&store::EVENT_STORE; ::connectors::CONNECTORS.len() + 1];
    let mut at = 0;
    while at < others.len() {
        all[at] = others[at];
        at += 1;
    }
    all
}

/// The Cargo feature of the binary that brings a component into a build.
fn feature_of(spec: &ConnectorSpec) -> &'static str {
    match spec.origin {
        "store-eventstore" => "history",
        _ => feature(spec),
    }
}
