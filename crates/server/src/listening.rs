//! Where sources will listen that do not say where themselves: it can be known, and said, before a port is open.

use connect::component::{Environment, SourceSetup};
use plan::spec::ConnectorKind;

use crate::deployment::{LoadOptions, LoadedApp};
use crate::server::settings;

/// A source whose address follows from the configuration, or from nothing that anybody has written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultAddress {
    pub app: String,
    pub stream: String,
    /// `http`.
    pub ty: String,
    pub address: String,
}

/// All of them, by app in the order of its text.
pub fn default_addresses(apps: &[LoadedApp], options: &LoadOptions) -> Vec<DefaultAddress> {
    let settings = options.config.as_ref().map(settings).unwrap_or_default();
    let mut found = Vec::new();
    for plan in apps.iter().filter_map(|app| app.plan.as_ref()) {
        let environment = Environment {
            settings: settings.clone(),
            ..Environment::new(&plan.name)
        };
        for stream in &plan.streams {
            for transport in &stream.sources {
                let registry = &options.registry;
                let connector = registry.find(ConnectorKind::Source, &transport.ty);
                let setup = SourceSetup {
                    transport,
                    schema: &stream.schema,
                    environment: &environment,
                };
                let address = connector.and_then(|connector| connector.default_address(&setup));
                found.extend(address.map(|address| DefaultAddress {
                    app: plan.name.clone(),
                    stream: stream.display_name(),
                    ty: transport.ty.clone(),
                    address,
                }));
            }
        }
    }
    found
}
