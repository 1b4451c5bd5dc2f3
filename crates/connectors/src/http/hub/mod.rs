//! A WebSub hub: the `websubhub` source takes subscriptions, the sink hands out what is published.
//!
//! Both keep to the recommendation of the W3C (<https://www.w3.org/TR/websub/>) where Siddhi does not:
//! a subscription counts once its callback has confirmed it, a payload is signed with the secret of
//! the subscriber, and a subscription ends with its lease. Promises: nothing goes to a callback that
//! has not confirmed, nor to an address within our own networks that the operator has not named; a
//! confirmed subscription is saved at once; a callback that is away costs the others nothing but the
//! tries that are its due, and does not hold up a stop. Never: content fetched from a publisher; a
//! redirect followed.

mod intent;
mod sink;

use crate::spec::http_service;
use plan::spec::ConnectorSpec;

use super::source::HttpSource;
use connect::component::{Connector, PayloadKind, Sink, SinkSetup, Source, SourceSetup};
use connect::error::Error;
use connect::net::http_client::EgressPolicy;
use connect::option::Settings;

#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use intent::read_form;
pub(super) use intent::{Desk, answer};
pub(super) use sink::Subscriber;

/// Where callbacks may be.
fn egress_policy(settings: Settings<'_>) -> Result<EgressPolicy, Error> {
    const OPTION: &str = "callback.networks";
    EgressPolicy::parse(settings.text(OPTION).unwrap_or_default()).map_err(|bad| {
        settings.refused(format!(
            "option '{OPTION}' has '{bad}', which is not a network: write 10.0.0.0/8 or 127.0.0.1"
        ))
    })
}

pub const HUB: HubConnector = HubConnector;

pub struct HubConnector;

const SPECS: &[ConnectorSpec] = &[http_service::WEBSUB_SOURCE, http_service::WEBSUB_SINK];

impl Connector for HubConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Map]
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes, PayloadKind::Map]
    }

    fn source(&self, setup: &SourceSetup<'_>) -> Result<Box<dyn Source>, Error> {
        Ok(Box::new(HttpSource::new(setup)?))
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        Ok(Box::new(sink::HubSink::new(setup)?))
    }
}
