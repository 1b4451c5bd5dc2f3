//! RabbitMQ: `@source(type='rabbitmq')` and `@sink(type='rabbitmq')`, by AMQP 0-9-1.
//!
//! The protocol is lapin's, the line below it ours. Promises: the sink keeps each message until the
//! broker confirms it; with `auto.ack='false'` the source acknowledges a message when the app has
//! it safe, and the broker redelivers the others; a full app slows down the broker; a broker that
//! is silent for about four seconds counts as lost. Never: redeclaring an exchange or queue that
//! exists, or connections made by lapin itself.

mod line;
mod nesting;
mod property;
mod session;
mod sink;
mod source;

#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use nesting::Nesting;

use std::time::Duration;

use crate::spec::rabbitmq::CONNECTORS;

use connect::component::Environment;
use connect::connector_def::ConnectorDef;
use connect::error::Error;
use connect::file_uri::percent_decoded;
use connect::net::{ClientTls, ClientTrust};
use connect::option::Settings;
use connect::url::split_port;

/// `@source(type='rabbitmq')` and `@sink(type='rabbitmq')`.
pub const RABBITMQ: ConnectorDef = ConnectorDef {
    source: Some(|setup| Ok(Box::new(source::RabbitSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::RabbitProducer::sink(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};

/// How long a connection may take, and each answer before it serves.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the broker is and who we are to it.
#[derive(Clone)]
struct Broker {
    /// Without the password, for messages.
    label: String,
    address: Address,
    tls: Option<ClientTls>,
    /// Seconds; 0 for none.
    heartbeat: u16,
    /// What we call ourselves.
    name: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Address {
    is_tls: bool,
    host: String,
    port: u16,
    user: String,
    password: String,
    vhost: String,
}

impl Broker {
    /// `kind` is `source` or `sink`, `stream` that of the component.
    fn new(
        settings: Settings<'_>,
        environment: &Environment,
        kind: &str,
        stream: &str,
    ) -> Result<Broker, Error> {
        let is_tls = settings.flag("tls.enabled");
        let uri = settings.text_or_default("uri").trim();
        let address = parse(uri, is_tls).ok_or_else(|| {
            // It may hold a password.
            let shown = uri.rsplit('@').next().unwrap_or_default();
            settings.refused(format!(
                "option 'uri' has '{shown}': write amqp://user:password@host:port/vhost"
            ))
        })?;
        let of = |name| settings.text(name);
        let deployed = |key| environment.setting(kind, "rabbitmq", key);
        let own = of("tls.truststore.path").or_else(|| deployed("tls.truststore.path"));
        let password =
            of("tls.truststore.password").or_else(|| deployed("tls.truststore.password"));
        let tls = if address.is_tls {
            let trust = ClientTrust {
                store: own
                    .map(|path| (path, password))
                    .or_else(|| ClientTrust::deployed(environment, kind, "rabbitmq")),
                ..ClientTrust::default()
            };
            let version = of("tls.version").unwrap_or("SSL");
            Some(ClientTls::trusting(settings, version, trust)?)
        } else {
            None
        };
        Ok(Broker {
            label: format!(
                "'amqp://{}:{}/{}'",
                address.host,
                address.port,
                address.vhost.trim_start_matches('/')
            ),
            address,
            tls,
            heartbeat: settings.number("heartbeat")?,
            name: format!("{}/{stream} ({kind})", environment.app),
        })
    }
}

/// The parts of `amqp://user:password@host:port/vhost`, which may be percent-encoded.
fn parse(uri: &str, wants_tls: bool) -> Option<Address> {
    let (scheme, rest) = uri.split_once("://")?;
    let is_tls = match scheme.to_ascii_lowercase().as_str() {
        "amqp" => wants_tls,
        "amqps" => true,
        _ => return None,
    };
    let (rest, _) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, vhost) = rest.split_once('/').unwrap_or((rest, ""));
    if vhost.contains('/') {
        return None;
    }
    let (login, authority) = match authority.rsplit_once('@') {
        None => (("guest", "guest"), authority),
        Some((login, authority)) => (login.split_once(':').unwrap_or((login, "")), authority),
    };
    let (host, port) = split_port(authority)?;
    let well_known = if is_tls { 5671 } else { 5672 };
    let vhost = percent_decoded(vhost)?;
    let address = Address {
        is_tls,
        host: host.to_owned(),
        port: port.unwrap_or(well_known),
        user: percent_decoded(login.0)?,
        password: percent_decoded(login.1)?,
        vhost: if vhost.is_empty() { "/".into() } else { vhost },
    };
    (!host.is_empty()).then_some(address)
}

/// The kinds of exchanges.
const KINDS: [&str; 4] = ["direct", "fanout", "topic", "headers"];

/// An exchange that is made where it is not there.
fn check_exchange(name: &str, kind: &str) -> Result<(), String> {
    check_short("exchange.name", name)?;
    match KINDS.contains(&kind) {
        true => Ok(()),
        false => Err(format!(
            "option 'exchange.type' is '{kind}': write {}",
            KINDS.join(", ")
        )),
    }
}

/// Names, keys and most properties have a length of one byte.
fn check_short(option: &str, text: &str) -> Result<(), String> {
    match text.len() {
        0..=property::SHORT_BYTES_MAX => Ok(()),
        len => Err(format!(
            "option '{option}' has {len} bytes, AMQP allows {}",
            property::SHORT_BYTES_MAX
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_of_brokers() {
        let found = |uri| {
            parse(uri, false).map(|a| {
                format!(
                    "{} {} {} {}/{} {}",
                    a.is_tls, a.host, a.port, a.user, a.password, a.vhost
                )
            })
        };
        assert_eq!(
            found("amqp://h").as_deref(),
            Some("false h 5672 guest/guest /")
        );
        assert_eq!(
            found("AMQPS://u:p%40@h:1/a%2fb?x=1").as_deref(),
            Some("true h 1 u/p@ a/b")
        );
        assert_eq!(
            found("amqp://u@[::1]/").as_deref(),
            Some("false ::1 5672 u/ /")
        );
        for bad in [
            "",
            "h:5672",
            "http://h",
            "amqp://",
            "amqp://h:x",
            "amqp://h/a/b",
        ] {
            assert_eq!(found(bad), None, "{bad}");
        }
        assert!(parse("amqp://h", true).is_some_and(|a| a.is_tls && a.port == 5671));
    }
}
