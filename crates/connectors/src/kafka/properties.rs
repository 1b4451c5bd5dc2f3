//! `optional.configuration`: properties of Java's client, as librdkafka calls them.
//!
//! Most names are the same. What Java keeps in key stores is read here and handed over as PEM; an
//! unknown name is logged as a warning, and an invalid value is refused. Never: a value in a
//! message, for some are secret.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;
use rustls::pki_types::PrivateKeyDer;

use connect::component::Environment;
use connect::error::Error;
use connect::net::KeyStore;
use connect::option::Settings;

/// Properties with another name there.
const RENAMED: &[(&str, &str)] = &[
    ("fetch.max.wait.ms", "fetch.wait.max.ms"),
    ("max.request.size", "message.max.bytes"),
    ("receive.buffer.bytes", "socket.receive.buffer.bytes"),
    ("send.buffer.bytes", "socket.send.buffer.bytes"),
    ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
    ("ssl.keystore.key", "ssl.key.pem"),
    ("ssl.truststore.certificates", "ssl.ca.pem"),
];

/// What is about the inside of Java's client, and changes nothing that could be seen here; and what the
/// mapper `avro` reads for itself.
const OF_JAVA: &[&str] = &[
    "auto.include.jmx.reporter",
    "auto.register.schemas",
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "default.api.timeout.ms",
    "enable.metrics.push",
    "exclude.internal.topics",
    "key.deserializer",
    "key.serializer",
    "max.block.ms",
    "max.poll.records",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "producer.type",
    "schema.registry.url",
    "specific.avro.reader",
    "ssl.enabled.protocols",
    "ssl.keymanager.algorithm",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.type",
    "value.deserializer",
    "value.serializer",
];

/// Classes of Java's assignors, and the names of their protocols.
const ASSIGNORS: &[(&str, &str)] = &[
    ("CooperativeStickyAssignor", "cooperative-sticky"),
    ("RangeAssignor", "range"),
    ("RoundRobinAssignor", "roundrobin"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Consumer,
    Producer,
}

/// A configuration for librdkafka, and the properties that we see to ourselves.
pub(super) struct Properties {
    pub config: ClientConfig,
    /// As written, for those that [`Properties::own`] was told of.
    own: Vec<(String, String)>,
}

impl Properties {
    /// The defaults, then what the app says. `own`: names that are not for librdkafka.
    pub fn new(
        settings: Settings<'_>,
        side: Side,
        defaults: &[(&str, &str)],
        own: &[&str],
        optional: &str,
    ) -> Result<Properties, Error> {
        let mut properties = Properties {
            config: ClientConfig::new(),
            own: Vec::new(),
        };
        for (name, value) in defaults {
            properties.config.set(*name, *value);
        }
        let mut stores = Stores::default();
        for entry in super::items(optional) {
            let Some((name, value)) = entry.split_once(':') else {
                let name = entry.split_whitespace().next().unwrap_or_default();
                tracing::warn!(
                    entry = name,
                    "ignoring malformed entry of 'optional.configuration': write name:value"
                );
                continue;
            };
            let (name, value) = (name.trim(), value.trim());
            if own.contains(&name) {
                properties.own.push((name.to_owned(), value.to_owned()));
            } else if !stores.take(name, value) {
                properties.set(settings, side, name, value)?;
            }
        }
        stores
            .set(&mut properties.config)
            .map_err(|cause| settings.refused(cause))?;
        Ok(properties)
    }

    /// A property that we see to ourselves.
    pub fn own(&self, name: &str) -> Option<&str> {
        let found = self.own.iter().rev().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    fn set(
        &mut self,
        settings: Settings<'_>,
        side: Side,
        name: &str,
        value: &str,
    ) -> Result<(), Error> {
        if OF_JAVA.contains(&name) {
            return Ok(());
        }
        let Some((native, value)) = translated(side, name, value) else {
            return Err(settings.refused(format!(
                "property '{name}' of option 'optional.configuration' has a value that it cannot \
                 have"
            )));
        };
        // Asked one by one, so that one unknown name does not hide the next.
        let asked = ClientConfig::new()
            .set(native, value.as_str())
            .create_native_config();
        match asked {
            Ok(_) => {
                self.config.set(native, value);
                Ok(())
            }
            Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
                tracing::warn!(
                    property = name,
                    "ignoring unknown property of 'optional.configuration'"
                );
                Ok(())
            }
            Err(_) => Err(settings.refused(format!(
                "property '{name}' of option 'optional.configuration' has a value that it cannot \
                 have, or needs what this build is without"
            ))),
        }
    }
}

/// Name and value of librdkafka; `None` for a value that cannot be.
fn translated<'a>(side: Side, name: &'a str, value: &str) -> Option<(&'a str, String)> {
    let same = |name: &'a str| Some((name, value.to_owned()));
    match name {
        "auto.offset.reset" if value.eq_ignore_ascii_case("none") => Some((name, "error".into())),
        // Of a consumer it is the time for any answer.
        "request.timeout.ms" if side == Side::Consumer => same("socket.timeout.ms"),
        "buffer.memory" => {
            let bytes: u64 = value.parse().ok()?;
            let kilobytes = (bytes / 1024).max(1).to_string();
            Some(("queue.buffering.max.kbytes", kilobytes))
        }
        "ssl.endpoint.identification.algorithm" if value.is_empty() => Some((name, "none".into())),
        "partition.assignment.strategy" => {
            let class = value.rsplit('.').next().unwrap_or(value);
            let known = ASSIGNORS.iter().find(|(java, _)| *java == class);
            Some((name, known.map_or(value, |(_, native)| native).to_owned()))
        }
        _ => match RENAMED.iter().find(|(java, _)| *java == name) {
            Some((_, native)) => same(native),
            None => same(name),
        },
    }
}

/// What Java keeps in files and strings of its own: key stores, and the login of JAAS.
#[derive(Default)]
struct Stores {
    trust: Option<String>,
    trust_password: String,
    key: Option<String>,
    key_store_password: String,
    key_password: Option<String>,
    jaas: Option<String>,
}

impl Stores {
    /// Is it one of these?
    fn take(&mut self, name: &str, value: &str) -> bool {
        let value = value.to_owned();
        match name {
            "ssl.truststore.location" => self.trust = Some(value),
            "ssl.truststore.password" => self.trust_password = value,
            "ssl.keystore.location" => self.key = Some(value),
            "ssl.keystore.password" => self.key_store_password = value,
            "ssl.key.password" => self.key_password = Some(value),
            "sasl.jaas.config" => self.jaas = Some(value),
            _ => return false,
        }
        true
    }

    fn set(self, config: &mut ClientConfig) -> Result<(), String> {
        if let Some(path) = self.trust {
            let mut text = String::new();
            for certificate in &KeyStore::trusted(&path, &self.trust_password)? {
                pem("CERTIFICATE", certificate, &mut text);
            }
            config.set("ssl.ca.pem", text);
        }
        let key_password = self.key_password.as_ref();
        if let Some(path) = self.key {
            let of_key = key_password.unwrap_or(&self.key_store_password);
            let store = KeyStore::read(&path, &self.key_store_password, of_key)?;
            let identity = store
                .identity
                .ok_or_else(|| format!("key store '{path}' has no key"))?;
            let mut key = String::new();
            let label = match &identity.key {
                PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
                PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
                _ => "PRIVATE KEY",
            };
            pem(label, identity.key.secret_der(), &mut key);
            let mut chain = String::new();
            for certificate in &identity.chain {
                pem("CERTIFICATE", certificate, &mut chain);
            }
            config.set("ssl.key.pem", key);
            config.set("ssl.certificate.pem", chain);
        } else if let Some(password) = key_password {
            config.set("ssl.key.password", password);
        }
        if let Some(jaas) = self.jaas {
            for (of_jaas, name) in [("username", "sasl.username"), ("password", "sasl.password")] {
                let value = jaas_value(&jaas, of_jaas)
                    .ok_or_else(|| format!("property 'sasl.jaas.config' has no {of_jaas}=\"…\""))?;
                config.set(name, value);
            }
        }
        Ok(())
    }
}

/// The value of `name="value"` or `name='value'` in a line of JAAS.
fn jaas_value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = line;
    loop {
        let at = rest.find(name)?;
        let is_word = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.');
        let behind = rest[at + name.len()..].trim_start();
        rest = &rest[at + name.len()..];
        let Some(value) = behind.strip_prefix('=').filter(|_| is_word) else {
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next()?;
        return match quote {
            '"' | '\'' => value[1..].split(quote).next(),
            _ => value.split([' ', ';']).next(),
        };
    }
}

fn pem(label: &str, der: &[u8], out: &mut String) {
    const LINE: usize = 64;
    let text = STANDARD.encode(der);
    // Writing to a string cannot fail.
    writeln!(out, "-----BEGIN {label}-----").ok();
    for line in text.as_bytes().chunks(LINE) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    writeln!(out, "-----END {label}-----").ok();
}

/// An option of the app, or else of the deployment file.
pub(super) fn option<'a>(
    settings: Settings<'a>,
    environment: &'a Environment,
    namespace: &str,
    name: &str,
) -> Option<&'a str> {
    settings
        .text(name)
        .or_else(|| environment.setting(namespace, settings.ty(), name))
        .map(str::trim)
        // Published apps write the word where they mean nothing.
        .filter(|text| *text != "null")
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::mapper::testing::mapping;
    use lang::span::Span;
    use plan::Transport;

    fn made(side: Side, text: &str) -> Result<Properties, String> {
        let transport = Transport {
            ty: "kafka".into(),
            options: Vec::new(),
            map: mapping("json", &[]),
            distribution: None,
            span: Span::default(),
        };
        let settings = Settings::of_source(&transport, crate::kafka::CONNECTORS);
        let own = &["enable.auto.commit"];
        Properties::new(settings, side, &[("linger.ms", "1")], own, text).map_err(|e| e.to_string())
    }

    #[test]
    fn java_names_become_those_of_librdkafka() {
        fn check(side: Side, text: &str, name: &str, expect: Option<&str>) {
            let made = made(side, text).expect(text);
            assert_eq!(made.config.get(name), expect, "{text}");
        }
        use Side::{Consumer, Producer};
        check(
            Consumer,
            "auto.offset.reset:latest",
            "auto.offset.reset",
            Some("latest"),
        );
        check(
            Consumer,
            " auto.offset.reset : none ",
            "auto.offset.reset",
            Some("error"),
        );
        check(
            Consumer,
            "fetch.max.wait.ms:7",
            "fetch.wait.max.ms",
            Some("7"),
        );
        check(
            Consumer,
            "request.timeout.ms:900",
            "socket.timeout.ms",
            Some("900"),
        );
        check(
            Producer,
            "request.timeout.ms:900",
            "request.timeout.ms",
            Some("900"),
        );
        check(
            Producer,
            "buffer.memory:33554432",
            "queue.buffering.max.kbytes",
            Some("32768"),
        );
        check(Producer, "linger.ms:20,acks:all", "linger.ms", Some("20"));
        check(Producer, "acks:all", "linger.ms", Some("1"));
        check(
            Consumer,
            "partition.assignment.strategy:org.apache.kafka.clients.consumer.RangeAssignor",
            "partition.assignment.strategy",
            Some("range"),
        );
        check(
            Consumer,
            "key.deserializer:a.b.C,max.poll.records:5",
            "max.poll.records",
            None,
        );
        // Unknown ones have no effect, and do not hide what follows.
        check(Consumer, "no.such:1,client.id:me", "client.id", Some("me"));
        check(Consumer, "no.such:1", "no.such", None);
        check(Consumer, "nonsense,client.id:me", "client.id", Some("me"));
        let login =
            "sasl.jaas.config:org.x.PlainLoginModule required username=\"u\" password='p;=';";
        check(Consumer, login, "sasl.username", Some("u"));
        check(Consumer, login, "sasl.password", Some("p;="));
    }

    #[test]
    fn own_properties_are_kept_back() {
        let made = made(Side::Consumer, "enable.auto.commit:false").expect("it can be");
        assert_eq!(made.own("enable.auto.commit"), Some("false"));
        assert_eq!(made.config.get("enable.auto.commit"), None);
    }

    #[test]
    fn what_cannot_be_is_refused_without_its_value() {
        for text in [
            "session.timeout.ms:planted",
            "auto.offset.reset:planted",
            "buffer.memory:planted",
            "ssl.truststore.location:/no/such/file,ssl.truststore.password:planted",
            "sasl.jaas.config:planted",
        ] {
            let error = made(Side::Consumer, text).err().expect(text);
            assert!(!error.contains("planted"), "{error}");
        }
    }

    #[test]
    fn key_stores_of_java_become_pem() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../connect/src/net/testdata");
        for file in ["server.jks", "server.p12", "server.pem"] {
            let text = format!(
                "ssl.truststore.location:{folder}/{file},ssl.truststore.password:wso2carbon,\
                 ssl.keystore.location:{folder}/{file},ssl.keystore.password:wso2carbon,\
                 ssl.key.password:secret12"
            );
            let made = made(Side::Consumer, &text).expect(file);
            let begins = |name: &str, with: &str| {
                let value = made.config.get(name).expect(name);
                assert!(value.starts_with(with), "{file} {name}");
            };
            begins("ssl.ca.pem", "-----BEGIN CERTIFICATE-----\n");
            begins("ssl.certificate.pem", "-----BEGIN CERTIFICATE-----\n");
            begins("ssl.key.pem", "-----BEGIN PRIVATE KEY-----\n");
        }
    }
}
