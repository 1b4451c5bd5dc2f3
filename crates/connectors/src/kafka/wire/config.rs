//! What the options of a source mean to the own client.

use std::fs;
use std::time::Duration;

use rdkafka::config::ClientConfig;

use super::batch::Rules;
use super::message::Bounds;
use super::sasl::{Login, Mechanism};
use connect::net::{ClientTls, PemTrust};
use connect::option::number;

/// The port of a broker, where none is written.
const PORT: u16 = 9092;

/// Where partitions begin of which nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reset {
    Earliest,
    Latest,
    /// It is an error.
    Refuse,
}

/// A client's configuration, in which passwords are not shown.
pub(in crate::kafka) struct Config {
    pub(super) brokers: Vec<(String, u16)>,
    pub(super) client: String,
    pub(super) tls: Option<ClientTls>,
    pub(super) login: Option<Login>,
    pub(super) bounds: Bounds,
    pub(super) rules: Rules,
    pub(super) reset: Reset,
    /// Longest response.
    pub(super) response_bytes_max: usize,
    /// Time for a connection, and for a sign of life while an answer is waited for.
    pub(super) connect: Duration,
    pub(super) answer: Duration,
    /// First and longest pause before a broker is asked again.
    pub(super) pauses: (Duration, Duration),
    /// How old the leaders that are known may get.
    pub(super) metadata_age: Duration,
}

impl Config {
    /// From properties as librdkafka names them, with its defaults.
    ///
    /// # Errors
    /// What cannot be used, without its value.
    pub fn new(config: &ClientConfig) -> Result<Config, String> {
        let text = |name: &str| {
            config
                .get(name)
                .map(str::trim)
                .filter(|text| !text.is_empty())
        };
        let whole = |name: &str, usual: i32| text(name).and_then(number).unwrap_or(usual).max(0);
        let first = |names: &[&str]| names.iter().find_map(|name| text(name));
        let millis = |name, usual| Duration::from_millis(whole(name, usual) as u64);
        let protocol = first(&["security.protocol"])
            .unwrap_or("plaintext")
            .to_ascii_lowercase();
        let login = match protocol.starts_with("sasl_") {
            true => Some(login(first(&["sasl.mechanism", "sasl.mechanisms"]), text)?),
            false => None,
        };
        let tls = match protocol.ends_with("ssl") {
            true => Some(tls(text)?),
            false => None,
        };
        let is_committed = text("isolation.level") != Some("read_uncommitted");
        let partition_bytes = ["max.partition.fetch.bytes", "fetch.message.max.bytes"];
        let response_bytes_max = whole("receive.message.max.bytes", 100_000_000) as usize;
        let (pause, pause_max) = (
            millis("reconnect.backoff.ms", 100),
            millis("reconnect.backoff.max.ms", 4000),
        );
        let brokers = text("bootstrap.servers").unwrap_or_default();
        let brokers: Vec<(String, u16)> = brokers.split(',').filter_map(address).collect();
        if brokers.is_empty() {
            return Err("option 'bootstrap.servers' has no host:port".to_owned());
        }
        Ok(Config {
            brokers,
            client: text("client.id").unwrap_or("headwater").to_owned(),
            tls,
            login,
            bounds: Bounds {
                wait_millis: whole("fetch.wait.max.ms", 500),
                bytes_min: whole("fetch.min.bytes", 1),
                bytes_max: whole("fetch.max.bytes", 16 << 20),
                partition_bytes_max: first(&partition_bytes).and_then(number).unwrap_or(1 << 20),
                is_committed,
            },
            rules: Rules {
                is_committed,
                checks_sums: text("check.crcs") != Some("false"),
                bytes_max: response_bytes_max,
            },
            reset: match text("auto.offset.reset").unwrap_or_default() {
                "latest" | "largest" | "end" => Reset::Latest,
                "error" => Reset::Refuse,
                _ => Reset::Earliest,
            },
            response_bytes_max,
            connect: millis("socket.connection.setup.timeout.ms", 30_000),
            answer: millis("socket.timeout.ms", 60_000),
            pauses: (pause.max(Duration::from_millis(10)), pause_max.max(pause)),
            metadata_age: millis("metadata.max.age.ms", 300_000).max(Duration::from_secs(1)),
        })
    }
}

/// `host:port`, `[::1]:port`, `PROTOCOL://host:port`.
fn address(text: &str) -> Option<(String, u16)> {
    let text = text.trim();
    let text = text.split_once("://").map_or(text, |(_, place)| place);
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (text, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

fn login<'a>(
    mechanism: Option<&str>,
    text: impl Fn(&str) -> Option<&'a str>,
) -> Result<Login, String> {
    let name = mechanism.unwrap_or("GSSAPI");
    let mechanism = Mechanism::named(name);
    Ok(Login {
        mechanism: mechanism.ok_or("property 'sasl.mechanism' is for rdkafka alone")?,
        user: text("sasl.username").unwrap_or_default().to_owned(),
        password: text("sasl.password").unwrap_or_default().to_owned(),
    })
}

fn tls<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Result<ClientTls, String> {
    let pem = |inline: &str, file: &str| match (text(inline), text(file)) {
        (Some(pem), _) => Ok(Some(pem.to_owned())),
        (None, Some(path)) => fs::read_to_string(path)
            .map(Some)
            .map_err(|error| format!("file '{path}' of property '{file}' cannot be read: {error}")),
        (None, None) => Ok(None),
    };
    let roots = pem("ssl.ca.pem", "ssl.ca.location")?;
    let chain = pem("ssl.certificate.pem", "ssl.certificate.location")?;
    let key = pem("ssl.key.pem", "ssl.key.location")?;
    ClientTls::of_pem(PemTrust {
        roots: roots.as_deref(),
        identity: chain.as_deref().zip(key.as_deref()),
        accepts_any_name: text("ssl.endpoint.identification.algorithm") == Some("none"),
        accepts_any_server: text("enable.ssl.certificate.verification") == Some("false"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let check = |text, expect: Option<(&str, u16)>| {
            let found = address(text);
            let found = found.as_ref().map(|(host, port)| (host.as_str(), *port));
            assert_eq!(found, expect, "{text}");
        };
        check(" a.b:1 ", Some(("a.b", 1)));
        check("a", Some(("a", 9092)));
        check("SASL_SSL://a:7", Some(("a", 7)));
        check("[::1]:7", Some(("::1", 7)));
        check("[::1]", Some(("::1", 9092)));
        check("a:x", None);
        check("", None);
    }

    #[test]
    fn properties_are_those_of_librdkafka() {
        let made = |properties: &[(&str, &str)]| {
            let mut config = ClientConfig::new();
            config.set("bootstrap.servers", "one:1,two");
            for (name, value) in properties {
                config.set(*name, *value);
            }
            Config::new(&config)
        };
        let usual = made(&[]).expect("it can be");
        assert_eq!(
            usual.brokers,
            [("one".to_owned(), 1), ("two".to_owned(), 9092)]
        );
        assert!(usual.login.is_none() && usual.tls.is_none() && usual.rules.is_committed);
        let config = made(&[
            ("isolation.level", "read_uncommitted"),
            ("auto.offset.reset", "error"),
            ("fetch.message.max.bytes", "7"),
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "SCRAM-SHA-512"),
        ]);
        let config = config.expect("it can be");
        assert!(!config.bounds.is_committed && config.reset == Reset::Refuse);
        assert_eq!(config.bounds.partition_bytes_max, 7);
        assert_eq!(
            config.login.map(|login| login.mechanism),
            Some(Mechanism::Sha512)
        );
        assert!(
            made(&[
                ("security.protocol", "sasl_ssl"),
                ("sasl.mechanism", "GSSAPI")
            ])
            .is_err()
        );
    }
}
