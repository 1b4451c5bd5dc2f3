//! The `wso2event` source.

use std::sync::Arc;
use std::time::Duration;

use super::deployed::{self, Deployed};
use super::receiver::Databridge;
use super::streams::Taker;
use connect::arrivals::Arrivals;
use connect::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use connect::error::Error;
use connect::mapper::wso2event;
use connect::net::{Network, Receiver};
use connect::option::Settings;

pub(super) struct Wso2EventSource {
    network: Arc<Network>,
    databridge: Arc<Databridge>,
    arrivals: Arc<Arrivals>,
    deployed: Deployed,
    app: String,
    /// The stream of databridge.
    id: String,
    address: Option<String>,
    receiver: Receiver,
}

impl Wso2EventSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<Wso2EventSource, Error> {
        let (transport, environment) = (setup.transport, setup.environment);
        let settings = Settings::of_source(transport, super::CONNECTORS);
        if transport.map.ty != "wso2event" {
            return Err(settings.refused(format!(
                "mapper '{}' does not read events of databridge: write @map(type='wso2event')",
                transport.map.ty
            )));
        }
        let deployed = Deployed::new(settings, environment)?;
        let layout = wso2event::layout(&transport.options, &transport.map, setup.schema);
        let layout = layout.map_err(|cause| settings.refused(cause))?;
        let receiver = Receiver::new(Vec::new());
        let is_received = settings
            .text_or_default("ack")
            .eq_ignore_ascii_case("received");
        let taker = Taker {
            app: environment.app.clone(),
            stream: setup.schema.name.to_string(),
            ingress: Arc::clone(&receiver.ingress),
            is_durable: environment.state.is_some() && !is_received,
        };
        let id = layout.id.clone();
        let databridge = environment.shared.get_renewable::<Databridge>();
        let added = databridge.add(layout, taker);
        added.map_err(|cause| settings.refused(cause))?;
        Ok(Wso2EventSource {
            network: environment.network(),
            databridge,
            arrivals: environment.shared.get(),
            deployed,
            app: environment.app.clone(),
            address: deployed::address(settings, environment).map(|at| format!("{at}/{id}")),
            id,
            receiver,
        })
    }
}

impl Drop for Wso2EventSource {
    fn drop(&mut self) {
        let is_last = self.databridge.remove(&self.id, &self.receiver.ingress);
        // Without workers nothing listens.
        if is_last && let Ok(workers) = self.network.workers() {
            self.databridge.await_no_more(workers);
        }
    }
}

/// The deployment file alone says where it listens.
pub(super) fn default_address(setup: &SourceSetup<'_>) -> Option<String> {
    let settings = Settings::of_source(setup.transport, super::CONNECTORS);
    let layout =
        wso2event::layout(&setup.transport.options, &setup.transport.map, setup.schema).ok()?;
    Some(format!(
        "{}/{}",
        deployed::address(settings, setup.environment)?,
        layout.id
    ))
}

impl Source for Wso2EventSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let workers = self.network.workers();
        let workers = workers.map_err(|e| Error::unavailable("the network", e))?;
        self.receiver.ingress.open();
        let mut stays = self
            .databridge
            .open(workers, &self.deployed, &self.arrivals)?;
        self.databridge.look_again();
        if let Some(address) = &self.address {
            link.set_address(address);
        }
        link.report(Connection::Connected);
        let result = self.receiver.run_until(link, || {
            // What comes from now on waits for the one that takes the place of this one.
            if self.databridge.is_renewed(&self.app) {
                return true;
            }
            // Each of them is told to leave.
            stays
                .iter_mut()
                .fold(true, |all, stay| stay.is_drained() & all)
        });
        for stay in stays {
            // Connections had their time before; however they ended, the port is free.
            stay.end(Duration::ZERO);
        }
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}
