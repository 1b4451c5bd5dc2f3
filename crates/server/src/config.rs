//! Streaming Integrator's `deployment.yaml`, read as it is.
//!
//! What Headwater has a meaning for is read: `refs`, extension settings, properties, data sources
//! and state persistence, under `siddhi:` as Streaming Integrator writes them or at the top as the
//! Siddhi runner does. Every other key is listed in [`Config::ignored`], so that nothing is dropped
//! in silence.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_yaml_ng::{Mapping, Value};

use crate::error::Error;
use crate::variable::bare;

/// What a `deployment.yaml` says to Headwater.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Config {
    pub refs: Vec<Ref>,
    pub extensions: Vec<Extension>,
    pub data_sources: Vec<DataSource>,
    pub persistence: Option<Persistence>,
    /// `siddhi: properties`: settings of the whole server (`shardId`, `partitionById`, …).
    pub properties: Vec<(String, String)>,
    /// Keys without a meaning here, with dots between the levels, in the order of the file.
    pub ignored: Vec<String>,
}

impl Config {
    /// All options with the values of their variables, as in an app: `name='value'`.
    pub fn text_of_options(&self) -> String {
        let of_refs = self.refs.iter().flat_map(|r| &r.properties);
        let of_extensions = self.extensions.iter().flat_map(|e| &e.properties);
        let of_sources = self.data_sources.iter().flat_map(|s| &s.configuration);
        let all = of_refs
            .chain(of_extensions)
            .chain(of_sources)
            .chain(&self.properties);
        all.map(|(name, value)| format!("{name}='{value}'\n"))
            .collect()
    }
}

/// A block that `@source(ref='name')`, `@sink` and `@store` merge under their own options.
#[derive(Clone, PartialEq, Debug)]
pub struct Ref {
    pub name: String,
    pub ty: Option<String>,
    pub properties: Vec<(String, String)>,
}

/// Settings of one extension: the *system params* of the connector reference.
#[derive(Clone, PartialEq, Debug)]
pub struct Extension {
    /// `source`, `sink`, `sourceMapper`, `sinkMapper`, `store`, or a function namespace.
    pub namespace: String,
    pub name: String,
    pub properties: Vec<(String, String)>,
}

/// A connection that stores name by `datasource='…'` or `jndi.resource='…'`.
#[derive(Clone, PartialEq, Debug)]
pub struct DataSource {
    pub name: String,
    pub jndi: Option<String>,
    /// The `configuration` block: `jdbcUrl`, `username`, `maxPoolSize`, …
    pub configuration: Vec<(String, String)>,
}

/// `state.persistence`.
#[derive(Clone, PartialEq, Debug)]
pub struct Persistence {
    pub enabled: bool,
    /// Minutes between snapshots.
    pub interval_minutes: Option<u64>,
    /// Directory of the file system store.
    pub location: Option<String>,
}

impl Config {
    /// Reads the text of the file at `path` (named in errors). `variable` answers `${NAME}`, which is
    /// also what `${env:NAME}` and `${sys:NAME}` ask for, and `${file:PATH}` under `file:PATH`.
    pub fn parse(
        path: &str,
        text: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, Error> {
        let bad = |message: String| Error::Config {
            path: path.to_owned(),
            message,
        };
        let root: Value = serde_yaml_ng::from_str(text).map_err(|e| bad(e.to_string()))?;
        let mut reader = ConfigReader {
            config: Config::default(),
            variable,
        };
        match root {
            Value::Null => {}
            Value::Mapping(map) => reader.root(&map).map_err(bad)?,
            _ => return Err(bad("the file is not a mapping of keys".to_owned())),
        }
        Ok(reader.config)
    }

    pub fn data_source(&self, name: &str) -> Option<&DataSource> {
        self.data_sources
            .iter()
            .find(|d| d.name == name || d.jndi.as_deref() == Some(name))
    }

    /// Settings of an extension, in the order of the file.
    pub fn settings(&self, namespace: &str, name: &str) -> Vec<(String, String)> {
        self.extensions
            .iter()
            .filter(|e| e.namespace.eq_ignore_ascii_case(namespace) && e.name == name)
            .flat_map(|e| e.properties.iter().cloned())
            .collect()
    }
}

impl DataSource {
    /// The options of `@store(type='rdbms', …)` that say the same.
    pub fn store_options(&self) -> Vec<(String, String)> {
        const NAMES: [(&str, &str); 4] = [
            ("jdbcUrl", "jdbc.url"),
            ("username", "username"),
            ("password", "password"),
            ("driverClassName", "jdbc.driver.name"),
        ];
        let mut options = Vec::new();
        let mut pool = Vec::new();
        for (key, value) in &self.configuration {
            match NAMES.iter().find(|(yaml, _)| yaml == key) {
                Some((_, option)) => options.push(((*option).to_owned(), value.clone())),
                None => pool.push(format!("{key}:{value}")),
            }
        }
        if !pool.is_empty() {
            options.push(("pool.properties".to_owned(), pool.join(",")));
        }
        options
    }
}

struct ConfigReader<'a> {
    config: Config,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl ConfigReader<'_> {
    fn root(&mut self, map: &Mapping) -> Result<(), String> {
        for (key, value) in map {
            let key = key_text(key);
            match (key.as_str(), value) {
                ("siddhi", Value::Mapping(inner)) => {
                    for (inner_key, value) in inner {
                        let inner_key = key_text(inner_key);
                        self.siddhi("siddhi.", &inner_key, value)?;
                    }
                }
                ("wso2.datasources", Value::Mapping(inner)) => {
                    for (inner_key, value) in inner {
                        let inner_key = key_text(inner_key);
                        if inner_key == "dataSources" {
                            self.data_sources(&format!("{key}.{inner_key}"), value)?;
                        } else {
                            self.config.ignored.push(format!("{key}.{inner_key}"));
                        }
                    }
                }
                ("state.persistence" | "statePersistence", value) => {
                    self.persistence(&key, value)?;
                }
                ("databridge.config", value) => self.databridge(&key, value)?,
                ("data.agent.config", value) => self.data_agents(&key, value)?,
                ("auth.configs", value) => self.users(&key, value)?,
                ("siddhi.properties", value) => self.siddhi("", "properties", value)?,
                _ => self.siddhi("", &key, value)?,
            }
        }
        Ok(())
    }

    /// A key that may stand under `siddhi:` or at the top.
    fn siddhi(&mut self, prefix: &str, key: &str, value: &Value) -> Result<(), String> {
        let path = format!("{prefix}{key}");
        match key {
            "refs" => {
                for item in items(&path, value)? {
                    let body = unwrapped(item, "ref");
                    let at = format!("{path}.ref");
                    let read = Ref {
                        name: self.required(body, &at, "name")?,
                        ty: self.optional(body, "type")?,
                        properties: self.properties(body.get("properties"), &at)?,
                    };
                    self.ignore_others(body, &at, &["name", "type", "properties"]);
                    self.config.refs.push(read);
                }
            }
            "extensions" => {
                for item in items(&path, value)? {
                    let body = unwrapped(item, "extension");
                    let at = format!("{path}.extension");
                    let read = Extension {
                        namespace: self.optional(body, "namespace")?.unwrap_or_default(),
                        name: self.required(body, &at, "name")?,
                        properties: self.properties(body.get("properties"), &at)?,
                    };
                    self.ignore_others(body, &at, &["name", "namespace", "properties"]);
                    self.config.extensions.push(read);
                }
            }
            "properties" => {
                let read = self.properties(Some(value), &path)?;
                self.config.properties.extend(read);
            }
            "dataSources" => self.data_sources(&path, value)?,
            _ => self.config.ignored.push(path),
        }
        Ok(())
    }

    fn data_sources(&mut self, path: &str, value: &Value) -> Result<(), String> {
        for item in items(path, value)? {
            let name = self.required(item, path, "name")?;
            let at = format!("{path}[{name}]");
            let definition = item.get("definition").unwrap_or(&Value::Null);
            let jndi = item.get("jndiConfig").unwrap_or(&Value::Null);
            let read = DataSource {
                jndi: self.optional(jndi, "name")?,
                configuration: self.properties(definition.get("configuration"), &at)?,
                name,
            };
            let known = ["name", "description", "jndiConfig", "definition"];
            self.ignore_others(item, &at, &known);
            self.config.data_sources.push(read);
        }
        Ok(())
    }

    /// The receiver of databridge: its settings are those of source `wso2event`.
    fn databridge(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let mut properties = Vec::new();
        for key in ["keyStoreLocation", "keyStorePassword", "clientTimeoutMin"] {
            let found = self.optional(value, key)?;
            properties.extend(found.map(|text| (key.to_owned(), text)));
        }
        let receivers = value.get("dataReceivers").unwrap_or(&Value::Null);
        let at = format!("{path}.dataReceivers");
        let mut protocols = Vec::new();
        for item in items(&at, receivers)? {
            let body = unwrapped(item, "dataReceiver");
            let protocol = self.required(body, &at, "type")?.to_ascii_lowercase();
            for (key, text) in self.properties(body.get("properties"), &at)? {
                properties.push((format!("{protocol}.{key}"), text));
            }
            protocols.push(protocol);
            self.ignore_others(body, &at, &["type", "properties"]);
        }
        if !protocols.is_empty() {
            properties.push(("dataReceivers".to_owned(), protocols.join(",")));
        }
        let at = format!("{path}.users");
        for item in items(&at, value.get("users").unwrap_or(&Value::Null))? {
            let body = unwrapped(item, "user");
            let name = self.required(body, &at, "username")?;
            properties.push((
                format!("user.{name}"),
                self.required(body, &at, "password")?,
            ));
            self.ignore_others(body, &at, &["username", "password"]);
        }
        let known = [
            "keyStoreLocation",
            "keyStorePassword",
            "clientTimeoutMin",
            "dataReceivers",
            "users",
        ];
        self.ignore_others(value, path, &known);
        self.of_databridge(properties);
        Ok(())
    }

    /// The clients of databridge: their settings are those of sink `wso2event`, by the protocol.
    fn data_agents(&mut self, path: &str, value: &Value) -> Result<(), String> {
        const KEYS: [&str; 4] = [
            "trustStorePath",
            "trustStorePassword",
            "batchSize",
            "socketTimeoutMS",
        ];
        let mut properties = Vec::new();
        let at = format!("{path}.agents");
        for item in items(&at, value.get("agents").unwrap_or(&Value::Null))? {
            let body = unwrapped(item, "agentConfiguration");
            let protocol = self.required(body, &at, "name")?.to_ascii_lowercase();
            for key in KEYS {
                let found = self.optional(body, key)?;
                properties.extend(found.map(|text| (format!("{protocol}.{key}"), text)));
            }
            let known = [&["name"][..], &KEYS].concat();
            self.ignore_others(body, &at, &known);
        }
        self.ignore_others(value, path, &["agents"]);
        if !properties.is_empty() {
            self.config.extensions.push(Extension {
                namespace: "sink".to_owned(),
                name: "wso2event".to_owned(),
                properties,
            });
        }
        Ok(())
    }

    fn of_databridge(&mut self, properties: Vec<(String, String)>) {
        if !properties.is_empty() {
            self.config.extensions.push(Extension {
                namespace: "source".to_owned(),
                name: "wso2event".to_owned(),
                properties,
            });
        }
    }

    /// The users of Streaming Integrator, who may log in to databridge; their passwords are in Base64.
    fn users(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let manager = value.get("userManager");
        let store = manager.and_then(|manager| manager.get("userStore"));
        let users = store.and_then(|store| store.get("users"));
        let at = format!("{path}.userManager.userStore.users");
        let mut properties = Vec::new();
        for item in items(&at, users.unwrap_or(&Value::Null))? {
            let body = unwrapped(item, "user");
            let name = self.required(body, &at, "username")?;
            let encoded = self.required(body, &at, "password")?;
            let decoded = BASE64_STANDARD.decode(encoded.trim()).ok();
            let password = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            let password = password.ok_or_else(|| {
                format!("the password of user '{name}' in '{at}' is not in Base64")
            })?;
            properties.push((format!("user.{name}"), password));
        }
        if properties.is_empty() {
            self.config.ignored.push(path.to_owned());
        }
        self.of_databridge(properties);
        Ok(())
    }

    fn persistence(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let enabled = match value.get("enabled") {
            None => false,
            Some(Value::Bool(b)) => *b,
            Some(other) => self.scalar(other)?.eq_ignore_ascii_case("true"),
        };
        let interval_minutes = match self.optional(value, "intervalInMin")? {
            None => None,
            Some(text) => Some(text.trim().parse().map_err(|_| {
                format!("key '{path}.intervalInMin' is '{text}', not a number of minutes")
            })?),
        };
        let config = value.get("config").unwrap_or(&Value::Null);
        let read = Persistence {
            enabled,
            interval_minutes,
            location: self.optional(config, "location")?,
        };
        self.ignore_others(value, path, &["enabled", "intervalInMin", "config"]);
        self.ignore_others(config, &format!("{path}.config"), &["location"]);
        self.config.persistence = Some(read);
        Ok(())
    }

    fn ignore_others(&mut self, value: &Value, path: &str, known: &[&str]) {
        if let Value::Mapping(map) = value {
            for (key, _) in map {
                let key = key_text(key);
                if !known.contains(&key.as_str()) {
                    self.config.ignored.push(format!("{path}.{key}"));
                }
            }
        }
    }

    fn required(&self, value: &Value, path: &str, key: &str) -> Result<String, String> {
        self.optional(value, key)?
            .ok_or_else(|| format!("an entry of '{path}' has no '{key}'"))
    }

    fn optional(&self, value: &Value, key: &str) -> Result<Option<String>, String> {
        match value.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => self.scalar(value).map(Some),
        }
    }

    /// Nested mappings become keys with dots.
    fn properties(
        &self,
        value: Option<&Value>,
        path: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let mut flat = Vec::new();
        match value {
            None | Some(Value::Null) => {}
            Some(Value::Mapping(map)) => self.flatten(map, "", &mut flat)?,
            Some(_) => return Err(format!("key '{path}' must be a mapping")),
        }
        Ok(flat)
    }

    /// Depth is bounded by the YAML reader's own limit.
    fn flatten(
        &self,
        map: &Mapping,
        prefix: &str,
        into: &mut Vec<(String, String)>,
    ) -> Result<(), String> {
        for (key, value) in map {
            let key = format!("{prefix}{}", key_text(key));
            match value {
                Value::Mapping(inner) => self.flatten(inner, &format!("{key}."), into)?,
                value => into.push((key, self.scalar(value)?)),
            }
        }
        Ok(())
    }

    fn scalar(&self, value: &Value) -> Result<String, String> {
        match value {
            Value::Null => Ok(String::new()),
            Value::Bool(b) => Ok(b.to_string()),
            Value::Number(n) => Ok(n.to_string()),
            Value::String(text) => substitute(text, self.variable),
            Value::Sequence(items) => {
                let texts: Result<Vec<_>, _> = items.iter().map(|i| self.scalar(i)).collect();
                Ok(texts?.join(","))
            }
            Value::Mapping(_) => Err("found a mapping instead of a value".to_owned()),
            Value::Tagged(tagged) => self.scalar(&tagged.value),
        }
    }
}

/// `${env:NAME}`, `${env:NAME:-default}`, `${sys:NAME}`, `${NAME}`, `${file:PATH}` and `${secret:NAME}` by their values. What has no value is a
/// fault: the text with the placeholder in it would be taken for a path or a password.
fn substitute(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else {
            break;
        };
        let name = &rest[start + 2..start + length];
        let (name, default) = match name.split_once(":-").filter(|_| name.starts_with("env:")) {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        let bare = bare(name);
        let found = variable(bare).filter(|value| default.is_none() || !value.is_empty());
        let found = found.or_else(|| default.map(str::to_owned));
        let value = found.ok_or_else(|| lacks(name, bare))?;
        out.push_str(&rest[..start]);
        out.push_str(&value);
        rest = &rest[start + length + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn lacks(name: &str, bare: &str) -> String {
    let why = match name.split_once(':') {
        Some(("file", path)) => format!("the file '{path}' cannot be read"),
        Some(("secret", secret)) => format!(
            "the key store has no secret '{secret}': set it with 'headwater secrets set {secret}', and name the \
             store with --secrets FILE or --state DIR"
        ),
        _ => format!("set the environment variable '{bare}'"),
    };
    format!("'${{{name}}}' has no value: {why}")
}

fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        _ => "?".to_owned(),
    }
}

fn items<'a>(path: &str, value: &'a Value) -> Result<&'a [Value], String> {
    match value {
        Value::Null => Ok(&[]),
        Value::Sequence(items) => Ok(items),
        _ => Err(format!("key '{path}' must be a list")),
    }
}

/// `- ref: {…}` and plain `- {…}` alike.
fn unwrapped<'a>(item: &'a Value, key: &str) -> &'a Value {
    item.get(key).unwrap_or(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r"
wso2.carbon:
  id: wso2-si
siddhi:
  properties:
    shardId: wso2-si
  refs:
    - ref:
        name: 'orders'
        type: 'kafka'
        properties:
          bootstrap.servers: 'broker:9092'
          batch: { max: 10 }
  extensions:
    - extension:
        name: 'rdbms'
        namespace: 'store'
        properties:
          mysql.batchSize: 500
state.persistence:
  enabled: true
  intervalInMin: 2
  revisionsToKeep: 3
  config:
    location: state-files
wso2.datasources:
  dataSources:
    - name: SHOP_DB
      jndiConfig: { name: jdbc/shop }
      definition:
        type: RDBMS
        configuration:
          jdbcUrl: 'jdbc:sqlite:${env:HOME_DIR}/shop.db'
          username: shop
          password: '${PASS}'
          driverClassName: org.sqlite.JDBC
          maxPoolSize: 10
auth.configs:
  enabled: false
";

    fn variable(name: &str) -> Option<String> {
        match name {
            "HOME_DIR" => Some("/data".to_owned()),
            "PASS" => Some("secret".to_owned()),
            _ => None,
        }
    }

    fn parse(text: &str) -> Result<Config, Error> {
        Config::parse("deployment.yaml", text, &variable)
    }

    #[test]
    fn a_whole_file_is_read_and_the_rest_is_named() {
        let config = parse(FULL).expect("the file is well formed");
        assert_eq!(
            config.refs[0].properties,
            [
                ("bootstrap.servers".to_owned(), "broker:9092".to_owned()),
                ("batch.max".to_owned(), "10".to_owned())
            ]
        );
        assert_eq!(
            config.settings("store", "rdbms"),
            [("mysql.batchSize".to_owned(), "500".to_owned())]
        );
        let shop = config.data_source("jdbc/shop").expect("named by JNDI too");
        let options = shop.store_options();
        assert_eq!(options[0].1, "jdbc:sqlite:/data/shop.db");
        assert_eq!(options[2].1, "secret");
        assert_eq!(options[4].1, "maxPoolSize:10");
        let persistence = config.persistence.expect("it is in the file");
        assert_eq!(persistence.interval_minutes, Some(2));
        assert_eq!(persistence.location.as_deref(), Some("state-files"));
        assert_eq!(
            config.ignored,
            [
                "wso2.carbon",
                "state.persistence.revisionsToKeep",
                "auth.configs"
            ]
        );
    }

    #[test]
    fn databridge_is_read_with_its_users() {
        let text = "
databridge.config:
  workerThreads: 10
  keyStoreLocation: key.jks
  clientTimeoutMin: 5
  dataReceivers:
    - dataReceiver:
        type: Thrift
        properties: { tcpPort: '7612', sslPort: 7712 }
  users:
    - user: { username: sensor, password: '${PASS}' }
auth.configs:
  type: local
  userManager:
    userStore:
      users:
        - user: { username: admin, password: YWRtaW4=, roles: 1 }
";
        let config = parse(text).expect("it is well formed");
        let expect = [
            ("keyStoreLocation", "key.jks"),
            ("clientTimeoutMin", "5"),
            ("thrift.tcpPort", "7612"),
            ("thrift.sslPort", "7712"),
            ("dataReceivers", "thrift"),
            ("user.sensor", "secret"),
            ("user.admin", "admin"),
        ];
        let expect = expect.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(config.settings("source", "wso2event"), expect);
        assert_eq!(config.ignored, ["databridge.config.workerThreads"]);
        let faulty = parse(&text.replace("YWRtaW4=", "admin!")).expect_err("it is no Base64");
        assert!(faulty.to_string().contains("user 'admin'"), "{faulty}");
    }

    #[test]
    fn agents_of_databridge_are_read_by_their_protocol() {
        let text = "
data.agent.config:
  agents:
    - agentConfiguration:
        name: Thrift
        dataEndpointClass: org.wso2.carbon.databridge.agent.endpoint.thrift.ThriftDataEndpoint
        trustStorePath: trusted.jks
        trustStorePassword: '${PASS}'
        batchSize: 100
    - agentConfiguration: { name: Binary, socketTimeoutMS: 5000 }
";
        let config = parse(text).expect("it is well formed");
        let expect = [
            ("thrift.trustStorePath", "trusted.jks"),
            ("thrift.trustStorePassword", "secret"),
            ("thrift.batchSize", "100"),
            ("binary.socketTimeoutMS", "5000"),
        ];
        let expect = expect.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(config.settings("sink", "wso2event"), expect);
        assert_eq!(
            config.ignored,
            ["data.agent.config.agents.dataEndpointClass"]
        );
    }

    #[test]
    fn the_runner_writes_the_same_keys_at_the_top() {
        let text = "refs:\n  - ref: {name: a, type: file}\nstatePersistence: {enabled: 'true'}\n";
        let config = parse(text).expect("well formed");
        assert_eq!(config.refs[0].ty.as_deref(), Some("file"));
        assert!(config.persistence.is_some_and(|p| p.enabled));
        assert_eq!(parse("").expect("empty is fine"), Config::default());
    }

    #[test]
    fn faults_name_the_key() {
        for (text, part) in [
            ("siddhi: {refs: 7}", "'siddhi.refs'"),
            ("refs: [{ref: {type: file}}]", "no 'name'"),
            ("properties: {a: '${NOPE}'}", "'NOPE'"),
            (
                "state.persistence: {intervalInMin: soon}",
                "not a number of minutes",
            ),
            ("a: [", "deployment.yaml"),
        ] {
            let message = parse(text).expect_err(text).to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
