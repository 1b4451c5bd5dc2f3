//! NATS: `@source(type='nats')` and `@sink(type='nats')`, core and JetStream.
//!
//! Siddhi's connector speaks core NATS, and NATS Streaming if a cluster is given. That server is
//! discontinued, so `streaming.cluster.id` means JetStream: a subject's messages are kept in a
//! stream (created if there is none), and a source reads them in order from its place. The protocol
//! is ours, because a client that buffers drops what a full app cannot take, and confirms nothing.
//!
//! Promises: a sink keeps each message until the server has it (a pong after it, or the
//! acknowledgement of the stream, which detects duplicates); with a stream a source continues after
//! the last message that is safe, in order, and a full app requests no more; a server that is
//! silent for about four seconds counts as lost. Core NATS keeps nothing: what is sent while a
//! source is away is gone, and a source that stays full is disconnected by the server, which is
//! logged.

mod jetstream;
pub(crate) mod protocol;
mod session;
mod sink;
mod source;

use std::time::Duration;

use crate::spec::nats::CONNECTORS;

use connect::component::Environment;
use connect::connector_def::ConnectorDef;
use connect::error::Error;
use connect::ids::Ids;
use connect::net::{ClientTls, ClientTrust, QUIET};
use connect::option::Settings;
use connect::url::split_port;

/// `@source(type='nats')` and `@sink(type='nats')`.
pub const NATS: ConnectorDef = ConnectorDef {
    source: Some(|setup| Ok(Box::new(source::NatsSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::NatsProducer::sink(setup)?))),
    ..ConnectorDef::of_payloads(CONNECTORS)
};

/// How long a connection, and then each answer of JetStream, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an acknowledgement may take where `ack.wait` does not say.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// Where the servers are and who we are to them.
#[derive(Clone)]
struct Server {
    /// All addresses, for messages.
    label: String,
    addresses: Vec<Address>,
    tls: Option<ClientTls>,
    login: Login,
    /// What we call ourselves.
    client: String,
    timeout: Duration,
    /// A server that is silent for so long is asked for a sign of life.
    quiet: Duration,
    is_streaming: bool,
    ack_wait: Duration,
}

#[derive(Clone)]
struct Address {
    host: String,
    port: u16,
    login: Login,
}

#[derive(Clone)]
enum Login {
    Nobody,
    User(String, String),
    Token(String),
}

impl Server {
    /// `kind` is `source` or `sink`, `stream` that of the component.
    fn new(
        settings: Settings<'_>,
        environment: &Environment,
        kind: &str,
        stream: &str,
    ) -> Result<Server, Error> {
        let urls = settings
            .text("server.urls")
            .or_else(|| settings.text("bootstrap.servers"))
            .unwrap_or("nats://localhost:4222");
        let (mut addresses, mut is_tls) = (Vec::new(), false);
        for url in urls.split(',').map(str::trim) {
            let (address, wants_tls) = parse(url).ok_or_else(|| {
                // It may hold a password.
                let shown = url.rsplit('@').next().unwrap_or_default();
                settings.refused(format!(
                    "option 'server.urls' has '{shown}': write nats://host:port"
                ))
            })?;
            addresses.push(address);
            is_tls |= wants_tls;
        }
        let labels = addresses.iter().map(|a| format!("{}:{}", a.host, a.port));
        let own = Properties::new(settings)?;
        let auth = settings.text_or_default("auth.type").trim();
        let of = |name| settings.text(name).unwrap_or_default().to_owned();
        let login = match auth.to_ascii_lowercase().as_str() {
            "user" => Login::User(of("username"), of("password")),
            "token" => Login::Token(of("token")),
            _ => Login::Nobody,
        };
        is_tls |= auth.eq_ignore_ascii_case("tls") || settings.text("truststore.file").is_some();
        let tls = match is_tls {
            true => Some(client_tls(settings, environment, kind)?),
            false => None,
        };
        let seconds: u64 = settings.number("ack.wait")?;
        let client = settings.text("client.id").map(str::to_owned);
        let random = || format!("{}_{stream}_{}", environment.app, Ids::default().next());
        Ok(Server {
            label: format!("'nats://{}'", labels.collect::<Vec<_>>().join(",")),
            addresses,
            tls,
            login,
            client: client.or(own.name).unwrap_or_else(random),
            timeout: own.timeout.unwrap_or(PATIENCE),
            quiet: own.ping_interval.map_or(QUIET, |ping| ping.min(QUIET)),
            is_streaming: settings.text("streaming.cluster.id").is_some()
                || settings.text("cluster.id").is_some(),
            ack_wait: match seconds {
                0 => ACK_WAIT,
                seconds => Duration::from_secs(seconds),
            },
        })
    }
}

fn client_tls(
    settings: Settings<'_>,
    environment: &Environment,
    kind: &str,
) -> Result<ClientTls, Error> {
    let of = |name| settings.text(name);
    let own = of("truststore.file").map(|path| (path, of("truststore.password")));
    let identity = settings.flag("client.verify").then(|| {
        let path = of("keystore.file").ok_or_else(|| {
            settings.refused("option 'client.verify' needs the certificate of 'keystore.file'")
        })?;
        let password = of("keystore.password");
        Ok::<_, Error>((path, password, password))
    });
    let trust = ClientTrust {
        store: own.or_else(|| ClientTrust::deployed(environment, kind, "nats")),
        identity: identity.transpose()?,
        ..ClientTrust::default()
    };
    ClientTls::trusting(settings, "TLS", trust)
}

/// The address, and whether the URL asks for TLS.
fn parse(url: &str) -> Option<(Address, bool)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_tls = match scheme.to_ascii_lowercase().as_str() {
        "nats" => false,
        "tls" => true,
        _ => return None,
    };
    let rest = rest.trim_end_matches('/');
    let (login, authority) = match rest.rsplit_once('@') {
        None => (Login::Nobody, rest),
        Some((login, authority)) => match login.split_once(':') {
            None => (Login::Token(login.to_owned()), authority),
            Some((user, password)) => {
                (Login::User(user.to_owned(), password.to_owned()), authority)
            }
        },
    };
    let (host, port) = split_port(authority)?;
    let address = Address {
        host: host.to_owned(),
        port: port.unwrap_or(4222),
        login,
    };
    (!host.is_empty()).then_some((address, is_tls))
}

/// What of `optional.configuration` (properties of the Java client) has a meaning here.
#[derive(Default)]
struct Properties {
    timeout: Option<Duration>,
    ping_interval: Option<Duration>,
    name: Option<String>,
}

impl Properties {
    fn new(settings: Settings<'_>) -> Result<Properties, Error> {
        const OPTION: &str = "optional.configuration";
        let mut own = Properties::default();
        let text = settings.text(OPTION).unwrap_or_default();
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            let (key, value) = entry.split_once(':').ok_or_else(|| {
                settings.refused(format!(
                    "option '{OPTION}' has the entry '{entry}': write key:value,key:value"
                ))
            })?;
            let (key, value) = (key.trim(), value.trim());
            let millis = || {
                let millis: Option<u64> = connect::option::number(value);
                millis.map(Duration::from_millis).ok_or_else(|| {
                    settings.refused(format!(
                        "'{key}' of option '{OPTION}' is '{value}': write milliseconds"
                    ))
                })
            };
            match key.strip_prefix("io.nats.client.").unwrap_or(key) {
                "timeout" => own.timeout = Some(millis()?),
                "pinginterval" => own.ping_interval = Some(millis()?),
                "name" => own.name = Some(value.to_owned()),
                _ => tracing::warn!(key, "ignoring unsupported key of '{OPTION}'"),
            }
        }
        Ok(own)
    }
}

/// Can messages be sent there? Then there are no wildcards and no empty parts.
fn check_subject(subject: &str) -> Result<(), String> {
    let is_good = |part: &str| {
        !part.is_empty() && part != "*" && part != ">" && !part.contains(char::is_whitespace)
    };
    match subject.split('.').all(is_good) && !subject.contains('\0') {
        true => Ok(()),
        false => Err(format!(
            "'{subject}' is not a subject to send to: its parts, between dots, must not be empty, \
             wildcards or contain white space"
        )),
    }
}

/// Can it be subscribed to?
fn check_pattern(subject: &str) -> Result<(), String> {
    let parts: Vec<&str> = subject.split('.').collect();
    let is_good = |(at, part): (usize, &&str)| {
        !part.is_empty()
            && !part.contains(char::is_whitespace)
            && (*part != ">" || at + 1 == parts.len())
    };
    match parts.iter().enumerate().all(is_good) {
        true => Ok(()),
        false => Err(format!(
            "'{subject}' is not a subject: its parts, between dots, must not be empty or contain \
             white space, and '>' must be last"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_servers() {
        let found = |url| {
            parse(url).map(|(a, tls)| {
                let login = match a.login {
                    Login::Nobody => String::new(),
                    Login::User(user, password) => format!(" {user}/{password}"),
                    Login::Token(token) => format!(" {token}"),
                };
                format!("{tls} {} {}{login}", a.host, a.port)
            })
        };
        assert_eq!(found("nats://h").as_deref(), Some("false h 4222"));
        assert_eq!(found("TLS://h:1/").as_deref(), Some("true h 1"));
        assert_eq!(found("nats://u:p@h:1").as_deref(), Some("false h 1 u/p"));
        assert_eq!(found("nats://t@[::1]:1").as_deref(), Some("false ::1 1 t"));
        for bad in ["", "h:4222", "http://h", "nats://", "nats://h:x"] {
            assert_eq!(found(bad), None, "{bad}");
        }
    }

    #[test]
    fn subjects() {
        for good in ["a", "a.b", "$JS.x", "é"] {
            assert!(
                check_subject(good).is_ok() && check_pattern(good).is_ok(),
                "{good}"
            );
        }
        for pattern in ["*", ">", "a.*.c", "a.>"] {
            assert!(check_subject(pattern).is_err(), "{pattern}");
            assert!(check_pattern(pattern).is_ok(), "{pattern}");
        }
        for bad in ["", ".", "a..b", "a b", "a.\r\nPUB x", ">.a"] {
            assert!(check_subject(bad).is_err(), "{bad}");
            assert!(check_pattern(bad).is_err(), "{bad}");
        }
    }
}
