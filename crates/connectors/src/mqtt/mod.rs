//! MQTT 3.1.1: `@source(type='mqtt')` and `@sink(type='mqtt')`.
//!
//! The packets are those of rumqttc; the sessions are ours, because an acknowledgement must wait for
//! the app and what was not acknowledged must outlive the connection. Promises: with quality of
//! service 1 and 2 a message is acknowledged when the app has it safe, and kept by the sink until the
//! broker has it; a full app is felt by the broker; a broker that is silent for some four seconds is
//! lost. Never: a message of quality 2 twice within the life of a session and of this process.

mod session;
mod sink;
mod source;

use std::time::Duration;

use crate::spec::mqtt::CONNECTORS;
use rumqttc::QoS;

use connect::component::Environment;
use connect::connector_def::ConnectorDef;
use connect::error::Error;
use connect::ids::Ids;
use connect::net::{ClientTls, ClientTrust};
use connect::option::Settings;
use connect::url::split_port;

/// `@source(type='mqtt')` and `@sink(type='mqtt')`.
pub const MQTT: ConnectorDef = ConnectorDef {
    source: Some(|setup| Ok(Box::new(source::MqttSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::MqttProducer::sink(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};

/// Where the broker is and who we are to it.
#[derive(Clone)]
struct Broker {
    url: String,
    host: String,
    port: u16,
    tls: Option<ClientTls>,
    client: String,
    login: Option<(String, String)>,
    is_clean: bool,
    /// Seconds; 0 for none.
    keep_alive: u16,
    timeout: Duration,
}

impl Broker {
    /// `kind` is `source` or `sink`, `stream` that of the component.
    fn new(
        settings: Settings<'_>,
        environment: &Environment,
        kind: &str,
        stream: &str,
    ) -> Result<Broker, Error> {
        let url = settings.text_or_default("url").trim();
        let (is_tls, host, port) = parse(url).ok_or_else(|| {
            settings.refused(format!(
                "option 'url' is '{url}': write tcp://host:port or ssl://host:port"
            ))
        })?;
        let tls = if is_tls {
            let trust = ClientTrust {
                store: ClientTrust::deployed(environment, kind, "mqtt"),
                ..ClientTrust::default()
            };
            Some(ClientTls::trusting(settings, "TLS", trust)?)
        } else {
            None
        };
        let is_clean = settings.flag("clean.session");
        let client = settings.text("client.id").map(str::to_owned);
        let client = client.unwrap_or_else(|| match is_clean {
            true => format!("headwater-{}", Ids::default().next()),
            // The session must be found again after a restart.
            false => format!("headwater/{}/{stream}/{kind}", environment.app),
        });
        let username = settings.text("username").filter(|name| !name.is_empty());
        let password = settings.text_or_default("password");
        let seconds = settings.number::<u64>("connection.timeout")?;
        Ok(Broker {
            url: format!("'{url}'"),
            host: host.to_owned(),
            port,
            tls,
            client,
            login: username.map(|name| (name.to_owned(), password.to_owned())),
            is_clean,
            keep_alive: settings.number("keep.alive")?,
            // 0 is as long as the system waits, which is minutes.
            timeout: Duration::from_secs(if seconds == 0 { 3600 } else { seconds }),
        })
    }
}

/// Is it TLS, and where is it?
fn parse(url: &str) -> Option<(bool, &str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_tls = match scheme.to_ascii_lowercase().as_str() {
        "tcp" | "mqtt" => false,
        "ssl" | "tls" | "mqtts" => true,
        _ => return None,
    };
    let (host, port) = split_port(rest.trim_end_matches('/'))?;
    let well_known = if is_tls { 8883 } else { 1883 };
    (!host.is_empty()).then(|| (is_tls, host, port.unwrap_or(well_known)))
}

fn quality(text: &str) -> Option<QoS> {
    match text.trim() {
        "0" => Some(QoS::AtMostOnce),
        "1" => Some(QoS::AtLeastOnce),
        "2" => Some(QoS::ExactlyOnce),
        _ => None,
    }
}

fn bad_quality(text: &str) -> String {
    format!("option 'quality.of.service' is '{text}': write 0, 1 or 2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_brokers() {
        let found = |url| parse(url).map(|(tls, host, port)| format!("{tls} {host} {port}"));
        assert_eq!(found("tcp://h").as_deref(), Some("false h 1883"));
        assert_eq!(found("SSL://h:1").as_deref(), Some("true h 1"));
        assert_eq!(found("mqtts://[::1]/").as_deref(), Some("true ::1 8883"));
        for bad in ["", "h:1883", "ws://h", "tcp://", "tcp://h:x"] {
            assert_eq!(found(bad), None, "{bad}");
        }
    }
}
