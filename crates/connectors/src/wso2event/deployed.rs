//! What the deployment file says of the receiver: `databridge.config`, or properties of extension `wso2event`
//! (namespace `source`) of the same names.

use std::time::Duration;

use connect::component::Environment;
use connect::error::Error;
use connect::net::{ServerTls, SocketOptions};
use connect::option::{self, Settings};

/// How clients speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Thrift,
    Binary,
}

impl Protocol {
    /// What its keys begin with.
    pub const fn key(self) -> &'static str {
        match self {
            Protocol::Thrift => "thrift",
            Protocol::Binary => "binary",
        }
    }
}

/// Where clients of a protocol connect, with TLS or without.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub protocol: Protocol,
    pub is_tls: bool,
    pub host: String,
    pub number: u16,
}

/// All that there may be: protocol, with TLS, key, default.
pub(super) const PORTS: [(Protocol, bool, &str, u16); 4] = [
    (Protocol::Thrift, false, "tcpPort", 7611),
    (Protocol::Thrift, true, "sslPort", 7711),
    (Protocol::Binary, false, "tcpPort", 9611),
    (Protocol::Binary, true, "sslPort", 9711),
];

/// The protocols that are spoken; both where the file names none.
const PROTOCOLS: &str = "dataReceivers";

/// What keys of users begin with; their values are passwords.
const USER: &str = "user.";

/// Minutes after which a session that nobody uses ends.
const SESSION: (&str, u64) = ("clientTimeoutMin", 30);

/// How the receiver of a server is set up.
#[derive(Clone)]
pub(super) struct Deployed {
    /// In the order of [`PORTS`]; `None`: this one is not opened.
    pub ports: [Option<Port>; PORTS.len()],
    pub tls: ServerTls,
    pub users: Vec<(String, String)>,
    pub session: Duration,
    pub socket: SocketOptions,
}

impl Deployed {
    pub fn new(settings: Settings<'_>, environment: &Environment) -> Result<Deployed, Error> {
        let of = |key| environment.setting("source", "wso2event", key);
        let store = of("keyStoreLocation").ok_or_else(|| {
            settings.refused(
                "clients log in over TLS, which needs a key: set 'keyStoreLocation' and 'keyStorePassword' of \
                 'databridge.config' in the file given by --config",
            )
        })?;
        let own = environment.settings.iter();
        let own = own.filter(|s| s.namespace == "source" && s.name == "wso2event");
        let users = own.filter_map(|setting| {
            let name = setting.key.strip_prefix(USER)?;
            Some((name.to_owned(), setting.value.clone()))
        });
        let users: Vec<(String, String)> = users.collect();
        if users.is_empty() {
            return Err(settings.refused(
                "nobody may log in: name a user with a password under 'users' of 'databridge.config' in the file \
                 given by --config",
            ));
        }
        let minutes = match of(SESSION.0) {
            None => SESSION.1,
            Some(text) => option::number(text).ok_or_else(|| wrong(settings, SESSION.0, text))?,
        };
        Ok(Deployed {
            ports: ports(settings, environment)?,
            tls: ServerTls::of_store(settings, (store, of("keyStorePassword")), None)?,
            users,
            session: Duration::from_secs(minutes.saturating_mul(60)),
            socket: SocketOptions::default(),
        })
    }
}

fn ports(
    settings: Settings<'_>,
    environment: &Environment,
) -> Result<[Option<Port>; PORTS.len()], Error> {
    let of = |key: &str| environment.setting("source", "wso2event", key);
    let is_spoken = |protocol: Protocol| {
        of(PROTOCOLS).is_none_or(|named| named.split(',').any(|name| name == protocol.key()))
    };
    let mut ports: [Option<Port>; PORTS.len()] = Default::default();
    for (port, (protocol, is_tls, key, number)) in ports.iter_mut().zip(PORTS) {
        if !is_spoken(protocol) {
            continue;
        }
        let key = format!("{}.{key}", protocol.key());
        let number = match of(&key) {
            None => number,
            Some(text) => option::number(text).ok_or_else(|| wrong(settings, &key, text))?,
        };
        let host = of(&format!("{}.hostName", protocol.key())).unwrap_or("0.0.0.0");
        *port = Some(Port {
            protocol,
            is_tls,
            host: host.to_owned(),
            number,
        });
    }
    Ok(ports)
}

fn wrong(settings: Settings<'_>, key: &str, text: &str) -> Error {
    settings.refused(format!(
        "'{key}' of 'databridge.config' is '{text}': write a number"
    ))
}

/// Where clients send events.
pub(super) fn address(settings: Settings<'_>, environment: &Environment) -> Option<String> {
    let ports = ports(settings, environment).ok()?;
    let Port { host, number, .. } = ports.into_iter().flatten().next()?;
    Some(format!("tcp://{host}:{number}"))
}
