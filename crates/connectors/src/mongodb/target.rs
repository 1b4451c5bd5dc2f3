//! Where a table's collection is: the URI of the store, its options, and what the deployment file says.

use std::fmt;
use std::time::Duration;

use mongodb::options::ConnectionString;

use connect::component::Environment;
use connect::scalar;

/// What the deployment file may say for the extension, and what a URI calls it.
const SETTINGS: &[(&str, &str)] = &[
    ("applicationName", "appName"),
    ("requiredReplicaSetName", "replicaSet"),
    ("sslEnabled", "tls"),
    ("connectTimeout", "connectTimeoutMS"),
    ("connectionsPerHost", "maxPoolSize"),
    ("minConnectionsPerHost", "minPoolSize"),
    ("maxConnectionIdleTime", "maxIdleTimeMS"),
    ("socketTimeout", "socketTimeoutMS"),
    ("writeConcern", "w"),
    ("readConcern", "readConcernLevel"),
    ("readPreference", "readPreference"),
    ("localThreshold", "localThresholdMS"),
    ("serverSelectionTimeout", "serverSelectionTimeoutMS"),
    ("heartbeatFrequency", "heartbeatFrequencyMS"),
];

/// What the Java driver has and this one does by itself.
const WITHOUT_EFFECT: &[&str] = &[
    "encryptionProtocol",
    "maxWaitTime",
    "maxConnectionLifeTime",
    "minHeartbeatFrequency",
];

/// Siddhi's password of stores where none is given.
const PASSWORD: &str = "wso2carbon";

/// Certificates of whom to trust, and what to show of oneself.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Stores {
    /// Path and password; else what the system trusts.
    pub trust: Option<(String, String)>,
    pub key: Option<(String, String)>,
}

/// Servers and a database on them. Its `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    /// With the settings of the deployment file.
    uri: String,
    pub database: String,
    /// Servers and database, for messages.
    pub peer: String,
    /// The longest wait for an answer; by default as long as the server lives.
    pub silence: Option<Duration>,
    /// `None`: in clear text.
    pub tls: Option<Stores>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.peer)
    }
}

impl Target {
    /// The error is for the author of the app and shows no secret.
    pub fn new(
        option: impl Fn(&str) -> Option<String>,
        environment: &Environment,
    ) -> Result<Target, String> {
        let uri = option("mongodb.uri").unwrap_or_default().trim().to_owned();
        if uri.starts_with("mongodb+srv://") {
            return Err(
                "option 'mongodb.uri' asks a name server for the servers ('mongodb+srv'): name them, \
                 mongodb://host1,host2/database?replicaSet=name&tls=true"
                    .to_owned(),
            );
        }
        let uri = with_settings(uri, environment)?;
        let parsed = parse(&uri)?;
        let Some(database) = parsed.default_database.clone() else {
            return Err(
                "option 'mongodb.uri' has no database: write mongodb://host:port/database"
                    .to_owned(),
            );
        };
        let is_true = |name| option(name).is_some_and(|text| scalar::parse_bool(text.trim()));
        let is_asked = is_true("secure.connection")
            || matches!(parsed.tls, Some(mongodb::options::Tls::Enabled(_)));
        let store = |name: &str| {
            let deployed = match name {
                "trust.store" => "trustStore",
                _ => "keyStore",
            };
            let setting = |key: &str| environment.setting("store", "mongodb", key);
            let path = option(name).or_else(|| setting(deployed).map(str::to_owned))?;
            let password = option(&format!("{name}.password"))
                .or_else(|| setting(&format!("{deployed}Password")).map(str::to_owned));
            Some((path, password.unwrap_or_else(|| PASSWORD.to_owned())))
        };
        let stores = Stores {
            trust: store("trust.store"),
            key: store("key.store"),
        };
        if !is_asked && stores != Stores::default() {
            tracing::warn!(
                "ignoring key stores of store 'mongodb': TLS is off (set secure.connection='true')"
            );
        }
        Ok(Target {
            peer: peer(&uri),
            silence: silence(&parsed),
            uri,
            database,
            tls: is_asked.then_some(stores),
        })
    }

    pub fn connection(&self) -> Result<ConnectionString, String> {
        let mut parsed = parse(&self.uri)?;
        // The driver refuses the option, which is kept here.
        forget_silence(&mut parsed);
        Ok(parsed)
    }
}

#[allow(
    deprecated,
    reason = "the driver reads the option and leaves it to others"
)]
fn silence(parsed: &ConnectionString) -> Option<Duration> {
    parsed.socket_timeout.filter(|limit| !limit.is_zero())
}

#[allow(
    deprecated,
    reason = "the driver reads the option and leaves it to others"
)]
fn forget_silence(parsed: &mut ConnectionString) {
    parsed.socket_timeout = None;
}

/// `mongodb://hosts/database`: what stands in front of a login's `@` and behind `?` is left out.
fn peer(uri: &str) -> String {
    let place = uri.split('?').next().unwrap_or_default();
    let place = place.strip_prefix("mongodb://").unwrap_or(place);
    let place = place.rsplit('@').next().unwrap_or_default();
    format!("'mongodb://{place}'")
}

fn parse(uri: &str) -> Result<ConnectionString, String> {
    // What the driver says may quote a part of a login, also where the URI only looks like having none.
    ConnectionString::parse(uri).map_err(|_| {
        "option 'mongodb.uri' cannot be read: write \
         mongodb://user:password@host:port/database?options, user and password with %40 for '@'"
            .to_owned()
    })
}

/// The URI with what the deployment file says and it does not say itself.
fn with_settings(mut uri: String, environment: &Environment) -> Result<String, String> {
    let setting = |key: &str| environment.setting("store", "mongodb", key);
    for key in WITHOUT_EFFECT.iter().filter(|key| setting(key).is_some()) {
        tracing::warn!(key, "ignoring unsupported property of extension 'mongodb'");
    }
    for (key, option) in SETTINGS {
        let Some(value) = setting(key).map(str::trim) else {
            continue;
        };
        let (_, options) = uri.split_once('?').unwrap_or((&uri, ""));
        let has = |name: &str| {
            let mut names = options.split('&').map(|pair| pair.split('=').next());
            names.any(|own| own.is_some_and(|own| own.eq_ignore_ascii_case(name)))
        };
        if has(option) || *option == "tls" && has("ssl") {
            continue;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if !value.chars().all(plain) {
            return Err(format!(
                "property '{key}' of extension 'mongodb' is '{value}': write letters and digits"
            ));
        }
        let pair = match (*key, value.to_ascii_lowercase().as_str()) {
            // Java's names for what is so anyway, for a journal, and for a number of servers.
            ("writeConcern", "acknowledged") | ("readConcern", "default") => continue,
            ("socketTimeout" | "maxConnectionIdleTime", "0") => continue,
            ("writeConcern", "journaled") => "journal=true".to_owned(),
            ("writeConcern", w @ ("w1" | "w2" | "w3")) => format!("w={}", &w[1..]),
            _ => format!("{option}={value}"),
        };
        uri.push(if uri.contains('?') { '&' } else { '?' });
        uri.push_str(&pair);
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    use connect::component::Setting;

    fn target(uri: &str, settings: &[(&str, &str)]) -> Result<Target, String> {
        let mut environment = Environment::new("App");
        let settings = settings.iter().map(|(key, value)| Setting {
            namespace: "store".into(),
            name: "mongodb".into(),
            key: (*key).into(),
            value: (*value).into(),
        });
        environment.settings = settings.collect();
        let option = |name: &str| (name == "mongodb.uri").then(|| uri.to_owned());
        Target::new(option, &environment)
    }

    #[test]
    fn uris_name_servers_and_a_database() {
        let target = target(
            "mongodb://anna:s%40cret@h1:1,h2/shop?tls=true&socketTimeoutMS=2000",
            &[],
        );
        let target = target.unwrap();
        assert_eq!(target.peer, "'mongodb://h1:1,h2/shop'");
        assert_eq!(target.database, "shop");
        assert_eq!(target.silence, Some(Duration::from_secs(2)));
        assert!(target.tls.is_some() && target.connection().is_ok());
        assert!(!format!("{target:?}").contains("cret"));
    }

    #[test]
    fn what_is_wrong_with_a_uri_is_said_without_secrets() {
        for (uri, expect) in [
            ("h/d", "cannot be read"),
            ("mongodb://h:1", "has no database"),
            ("mongodb://h:x/d", "cannot be read"),
            ("mongodb+srv://anna:s3cret@h/d", "mongodb+srv"),
            ("mongodb://anna:s3cret@x@h/d", "cannot be read"),
            ("mongodb://anna:s3cret/d", "cannot be read"),
            ("mongodb://h/d?w=s3cret&readPreference=x", "cannot be read"),
        ] {
            let said = target(uri, &[]).map(|target| target.peer);
            match said {
                Err(said) => {
                    assert!(said.contains(expect), "{uri}: {said}");
                    assert!(!said.contains("s3cret"), "{said}");
                }
                Ok(peer) => panic!("{uri}: {peer}"),
            }
        }
    }

    #[test]
    fn the_deployment_file_fills_in_what_the_uri_does_not_say() {
        let settings = [
            ("applicationName", "mine"),
            ("connectionsPerHost", "7"),
            ("writeConcern", "W2"),
            ("socketTimeout", "0"),
            ("sslEnabled", "true"),
            ("maxWaitTime", "5"),
        ];
        let target = target("mongodb://h/d?maxPoolSize=3", &settings).unwrap();
        let parsed = target.connection().unwrap();
        assert_eq!(parsed.app_name.as_deref(), Some("mine"));
        assert_eq!(parsed.max_pool_size, Some(3));
        assert!(parsed.write_concern.is_some() && target.tls.is_some());
        assert_eq!(target.silence, None);
        let bad = super::tests::target("mongodb://h/d", &[("applicationName", "a&b")]);
        assert!(bad.is_err_and(|said| said.contains("letters and digits")));
    }
}
