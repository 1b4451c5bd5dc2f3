//! The `grpc` source, and the `grpc-service` source whose requests wait for an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ports::{Key, Lease, Limits, Ports, Route};
use super::service::Reply;
use connect::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use connect::error::Error;
use connect::mapper::protobuf::target::Target;
use connect::net::request_reply::{Service, Services};
use connect::net::{Network, Receiver, ServerTls, tell_if_open};
use connect::option::Settings;
use connect::option::property_names;
use connect::retry::Burst;

/// An app that stops is given so long to answer the requests that it has; shorter than a listener waits
/// for its connections to end.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

pub(super) struct GrpcSource {
    network: Arc<Network>,
    receiver: Receiver,
    lease: Lease,
    service: Option<Registered>,
    /// How long connections may take to end.
    grace: Duration,
    /// Name and address, where nobody has to say who he is.
    open: Option<(String, String, u16)>,
}

/// A service that is known under its id until dropped.
struct Registered {
    services: Arc<Services<Reply>>,
    id: String,
    service: Arc<Service<Reply>>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.services.remove(&self.id);
    }
}

impl GrpcSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<GrpcSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::grpc::CONNECTORS);
        let environment = setup.environment;
        let text = settings.text_or_default("receiver.url");
        let target = Target::parse(text)
            .map_err(|cause| settings.refused(format!("option 'receiver.url': {cause}")))?;
        check_mapper(settings, &target, &setup.transport.map.ty)?;
        let service = match setup.transport.ty.as_str() {
            "grpc-service" => Some(register(setup, settings)?),
            _ => None,
        };
        let receiver = Receiver::new(property_names(setup.transport));
        let route = Route {
            name: format!("{}/{}", environment.app, setup.schema.name),
            ingress: Arc::clone(&receiver.ingress),
            names: receiver.names.clone(),
            is_durable: environment.state.is_some(),
            service: service.as_ref().map(|s| Arc::clone(&s.service)),
        };
        let key = match target.own_service() {
            None => Key::Events {
                is_answered: service.is_some(),
                stream: setup.schema.name.clone(),
            },
            Some(_) => Key::Own(target.path("")),
        };
        let threads: u32 = settings.number("threadpool.size")?;
        let waiting: u32 = settings.number("threadpool.buffer.size")?;
        let limits = Limits {
            message_bytes: settings.number("max.inbound.message.size")?,
            metadata_bytes: settings.number("max.inbound.metadata.size")?,
            calls: threads.saturating_add(waiting).max(1),
            arrivals: environment.shared.get(),
            late: Burst::default(),
            silent: Burst::default(),
        };
        let is_open = settings.text("truststore.file").is_none();
        let open = is_open.then(|| (route.name.clone(), target.host.clone(), target.port));
        let lease = environment
            .shared
            .get::<Ports>()
            .reserve(
                (&target.host, target.port),
                (key, Arc::new(route)),
                limits,
                tls(settings)?,
            )
            .map_err(|message| settings.refused(message))?;
        let grace = settings.number("server.shutdown.waiting.time")?;
        Ok(GrpcSource {
            network: environment.network(),
            receiver,
            lease,
            service,
            open,
            grace: Duration::from_secs(grace),
        })
    }
}

/// Siddhi's own service carries text, any other the messages of its description.
pub(super) fn check_mapper(
    settings: Settings<'_>,
    target: &Target,
    mapper: &str,
) -> Result<(), Error> {
    match (target.own_service(), mapper == "protobuf") {
        (Some((service, _)), false) => Err(settings.refused(format!(
            "service '{service}' is none of Siddhi: its messages need the mapper 'protobuf'"
        ))),
        (None, true) => Err(settings
            .refused("Siddhi's own service carries text: use the mapper 'json', 'xml' or 'text'")),
        _ => Ok(()),
    }
}

fn register(setup: &SourceSetup<'_>, settings: Settings<'_>) -> Result<Registered, Error> {
    let id = settings
        .text("source.id")
        .ok_or_else(|| settings.refused("option 'source.id' is missing"))?;
    let services = setup.environment.shared.get::<Services<Reply>>();
    let timeout = settings.millis("service.timeout")?;
    let service = services.register(id, timeout).ok_or_else(|| {
        settings.refused(format!(
            "another source has the id '{id}'; give each service its own 'source.id'"
        ))
    })?;
    Ok(Registered {
        services,
        id: id.to_owned(),
        service,
    })
}

/// With a key store, TLS; with a trust store or `mutual.auth.enabled`, for clients that it trusts.
fn tls(settings: Settings<'_>) -> Result<Option<ServerTls>, Error> {
    let of = |name| settings.text(name);
    let is_mutual = settings.flag("mutual.auth.enabled");
    let Some(path) = of("keystore.file") else {
        return match settings.flag("enable.ssl") || is_mutual {
            true => Err(settings.refused(
                "options 'enable.ssl' and 'mutual.auth.enabled' need the certificate of \
                 'keystore.file'",
            )),
            false => Ok(None),
        };
    };
    let trust = of("truststore.file").map(|path| (path, of("truststore.password")));
    if is_mutual && trust.is_none() {
        return Err(settings.refused(
            "option 'mutual.auth.enabled' needs the certificates to trust of 'truststore.file'",
        ));
    }
    let tls = ServerTls::of_store(settings, (path, of("keystore.password")), trust)?;
    Ok(Some(tls.speaking(b"h2")))
}

impl Source for GrpcSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let workers = self.network.workers();
        let workers = workers.map_err(|e| Error::unavailable("the network", e))?;
        self.receiver.ingress.open();
        let mut stay = self.lease.open(workers)?;
        if let Some((name, host, port)) = &self.open {
            tell_if_open(
                name,
                (host, *port),
                "name an address in 'receiver.url', or ask for certificates with 'mutual.auth.enabled'",
            );
        }
        link.report(Connection::Connected);
        let mut stopped = None;
        let service = self.service.as_ref().map(|registered| &registered.service);
        let result = self.receiver.run_until(link, || {
            // What the app has not answered by now will have no answer, and its client is to hear that.
            let stopped = *stopped.get_or_insert_with(Instant::now);
            if let Some(service) = service.filter(|_| stopped.elapsed() >= ANSWER_GRACE) {
                service.give_up();
            }
            stay.is_drained()
        });
        if let Some(service) = service {
            service.give_up();
        }
        if !stay.end(self.grace) {
            tracing::warn!("source stopped while calls were still unanswered");
        }
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    #[test]
    fn what_cannot_be_is_refused_when_the_app_is_made() {
        let made = |ty: &str, options: &[(&str, &str)]| {
            testing::source(ty, options, |setup| GrpcSource::new(setup).err())
                .map_or_else(String::new, |error| error.to_string())
        };
        let url = (
            "receiver.url",
            "grpc://h:1/org.wso2.grpc.EventService/consume",
        );
        assert_eq!(made("grpc", &[url]), "");
        let own = ("receiver.url", "grpc://h:1/a.Rows/take");
        for (ty, options, cause) in [
            (
                "grpc",
                vec![("receiver.url", "http://h:1/a/b")],
                "does not begin with",
            ),
            ("grpc", vec![own], "mapper 'protobuf'"),
            ("grpc", vec![url, ("enable.ssl", "true")], "'keystore.file'"),
            (
                "grpc",
                vec![url, ("threadpool.size", "x")],
                "write a number",
            ),
            ("grpc-service", vec![url], "'source.id' is missing"),
        ] {
            let message = made(ty, &options);
            assert!(message.contains(cause), "{message}");
        }
    }
}
