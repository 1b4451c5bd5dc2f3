//! Receivers: from where and how events come to a stream, as sources with their mappers.
//!
//! Adapters and their properties are those of carbon-analytics-common 5.2: wso2event, http, kafka, mqtt, websocket and
//! file-tail. What a receiver has that its source could not do the same way is a reason not to take it over.

use connect::xml_tree::Element;

use super::app::Stream;
use super::write::{plain, quoted, shown};

/// Where Carbon listens for HTTP and HTTPS.
const HTTP: &str = "http://0.0.0.0:9763";
const HTTPS: &str = "https://0.0.0.0:9443";

pub(super) struct Receiver {
    pub file: String,
    pub name: String,
    /// `name:version` of its stream.
    pub stream: String,
    from: Element,
    mapping: Element,
}

/// A source as it stands in the app, and what its user has to know.
pub(super) struct Source {
    pub text: String,
    pub notes: Vec<String>,
}

pub(super) fn receiver(file: &str, root: &Element) -> Result<Receiver, String> {
    let to = root.child("to").ok_or("the receiver has no element 'to'")?;
    let name = plain("stream", to.attribute("streamname"))?;
    let version = match to.attribute("version") {
        "" => "1.0.0",
        version => plain("version", version)?,
    };
    Ok(Receiver {
        file: file.to_owned(),
        name: shown(root.attribute("name")),
        stream: format!("{name}:{version}"),
        from: root.child("from").cloned().unwrap_or_default(),
        mapping: root.child("mapping").cloned().unwrap_or_default(),
    })
}

impl Receiver {
    /// The way by which events come to it.
    pub fn adapter(&self) -> String {
        self.from.attribute("eventadaptertype").to_ascii_lowercase()
    }

    /// The source of a stream, its own one.
    ///
    /// # Errors
    /// Why there is none that does the same, and what to do.
    pub fn source(&self, stream: &Stream) -> Result<Source, String> {
        let mut notes = Vec::new();
        let options = match &*self.adapter() {
            "wso2event" => self.wso2event(stream)?,
            "http" => self.http()?,
            "kafka" => self.kafka(&mut notes)?,
            "mqtt" => self.mqtt()?,
            "websocket" => {
                vec![
                    ("type", "websocket".to_owned()),
                    ("url", self.needed("websocket.server.url")?),
                ]
            }
            "file-tail" => self.file_tail(&mut notes)?,
            other => {
                return Err(format!("there is no source here for '{}'", shown(other)));
            }
        };
        let mut text = String::from("@source(");
        for (key, value) in options {
            // The name of a variable is ours, in the one option that has it.
            let value = match value == KAFKA_SERVERS {
                true => format!("'{value}'"),
                false => quoted(&value)?,
            };
            text.push_str(&format!("{key}={value}, "));
        }
        text.push_str(&self.map(stream, &mut notes)?);
        text.push(')');
        Ok(Source { text, notes })
    }

    /// A property; empty where it has none.
    fn property(&self, name: &str) -> &str {
        let mut all = self.from.all("property");
        let found = all.find(|property| property.attribute("name") == name);
        found.map_or("", |property| property.text.trim())
    }

    fn needed(&self, name: &str) -> Result<String, String> {
        match self.property(name) {
            "" => Err(format!("it has no property '{name}'")),
            value => Ok(value.to_owned()),
        }
    }

    fn wso2event(&self, stream: &Stream) -> Result<Vec<(&'static str, String)>, String> {
        let mut id = stream.id();
        if self.is_custom() {
            // What comes is another stream, whose attributes are named anew.
            let from = self.mapping.child("from");
            let from = from.ok_or("its mapping does not say which stream comes")?;
            let name = plain("stream", from.attribute("streamname"))?;
            let version = plain("version", from.attribute("version"))?;
            id = format!("{name}:{version}");
        }
        Ok(vec![
            ("type", "wso2event".to_owned()),
            ("wso2.stream.id", id),
        ])
    }

    fn http(&self) -> Result<Vec<(&'static str, String)>, String> {
        let name = plain("receiver", &self.name)?;
        let base = match self.property("transports") {
            "https" => HTTPS,
            _ => HTTP,
        };
        let has_login = self
            .property("basicAuthEnabled")
            .eq_ignore_ascii_case("true");
        Ok(vec![
            ("type", "http".to_owned()),
            ("receiver.url", format!("{base}/endpoints/{name}")),
            ("basic.auth.enabled", has_login.to_string()),
        ])
    }

    fn kafka(&self, notes: &mut Vec<String>) -> Result<Vec<(&'static str, String)>, String> {
        notes.push(
            "the brokers are those of the variable KAFKA_BOOTSTRAP_SERVERS: DAS knew ZooKeeper alone".to_owned(),
        );
        if !self.property("optional.configuration").is_empty() {
            notes.push("its 'optional.configuration' is left out".to_owned());
        }
        Ok(vec![
            ("type", "kafka".to_owned()),
            ("bootstrap.servers", KAFKA_SERVERS.to_owned()),
            ("topic.list", self.needed("topic")?),
            ("group.id", self.needed("group.id")?),
            ("threading.option", "single.thread".to_owned()),
        ])
    }

    fn mqtt(&self) -> Result<Vec<(&'static str, String)>, String> {
        let mut options = vec![
            ("type", "mqtt".to_owned()),
            ("url", self.needed("url")?),
            ("topic", self.needed("topic")?),
        ];
        for (property, option) in [
            ("clientId", "client.id"),
            ("username", "username"),
            ("password", "password"),
            ("cleanSession", "clean.session"),
            ("qos", "quality.of.service"),
        ] {
            let value = self.property(property);
            if !value.is_empty() {
                options.push((option, value.to_owned()));
            }
        }
        Ok(options)
    }

    fn file_tail(&self, notes: &mut Vec<String>) -> Result<Vec<(&'static str, String)>, String> {
        let path = self.needed("filepath")?;
        if self.property("startFromEnd").eq_ignore_ascii_case("true") {
            notes.push("the file is read from its begin, not from its end".to_owned());
        }
        Ok(vec![
            ("type", "file".to_owned()),
            ("mode", "line".to_owned()),
            ("tailing", "true".to_owned()),
            ("file.uri", format!("file:{path}")),
        ])
    }

    fn is_custom(&self) -> bool {
        self.mapping
            .attribute("custommapping")
            .eq_ignore_ascii_case("enable")
    }

    fn map(&self, stream: &Stream, notes: &mut Vec<String>) -> Result<String, String> {
        let ty = self.mapping.attribute("type").to_ascii_lowercase();
        let is_wso2event = self.adapter() == "wso2event";
        match (&*ty, self.is_custom()) {
            ("wso2event" | "", false) if is_wso2event => Ok("@map(type='wso2event')".to_owned()),
            ("wso2event", true) if is_wso2event => {
                let attributes = self.attributes(stream, notes, |from| {
                    let name = from.attribute("name");
                    Ok(match from.attribute("datatype") {
                        "" | "payload" => name.to_owned(),
                        list => format!("{list}_{name}"),
                    })
                })?;
                Ok(format!("@map(type='wso2event', {attributes})"))
            }
            ("json", false) => {
                let paths = by_lists(stream, |list, name| format!("$.event.{list}.{name}"))?;
                Ok(map_of("json", "", &paths))
            }
            ("json", true) => {
                let paths = self.attributes(stream, notes, |from| {
                    let path = from.attribute("jsonpath");
                    Ok(match path.starts_with('$') {
                        true => path.to_owned(),
                        false => format!("$.{path}"),
                    })
                })?;
                Ok(map_of("json", "", &paths))
            }
            ("xml", false) => {
                let paths = by_lists(stream, |list, name| format!("{list}/{name}"))?;
                Ok(map_of("xml", "enclosing.element='/events', ", &paths))
            }
            (other, is_custom) => Err(format!(
                "its mapping '{}'{} is not taken over",
                shown(other),
                if is_custom { " of its own" } else { "" }
            )),
        }
    }

    /// `@attributes` by the properties of a mapping of its own: each says from where an attribute comes.
    fn attributes(
        &self,
        stream: &Stream,
        notes: &mut Vec<String>,
        path_of: impl Fn(&Element) -> Result<String, String>,
    ) -> Result<String, String> {
        let mut paths = Vec::new();
        for (name, _) in &stream.attributes {
            let named = self.mapping.all("property").find_map(|property| {
                let to = property
                    .child("to")
                    .filter(|to| to.attribute("name") == name)?;
                property.child("from").map(|from| (from, to))
            });
            let (from, to) =
                named.ok_or_else(|| format!("its mapping has no property for '{name}'"))?;
            let default = to.attribute("default");
            if !default.is_empty() {
                notes.push(format!(
                    "'{name}' is null where it is missing: its default '{}' has no place in a source",
                    shown(default)
                ));
            }
            paths.push((name.as_str(), path_of(from)?));
        }
        entries(&paths)
    }
}

/// Stands in the app, for the server to put its value in.
const KAFKA_SERVERS: &str = "${KAFKA_BOOTSTRAP_SERVERS}";

fn map_of(ty: &str, options: &str, attributes: &str) -> String {
    format!("@map(type='{ty}', {options}fail.on.missing.attribute='false', {attributes})")
}

/// `@attributes` of DAS's own form, which has the lists of the definition.
fn by_lists(stream: &Stream, path: impl Fn(&str, &str) -> String) -> Result<String, String> {
    let paths = stream.attributes.iter().map(|(name, _)| {
        let lists = [("meta_", "metaData"), ("correlation_", "correlationData")];
        let mut lists = lists.iter();
        let found = lists.find_map(|(prefix, list)| Some((*list, name.strip_prefix(prefix)?)));
        let (list, own) = found.unwrap_or(("payloadData", name));
        (name.as_str(), path(list, own))
    });
    entries(&paths.collect::<Vec<(&str, String)>>())
}

fn entries(paths: &[(&str, String)]) -> Result<String, String> {
    let entries = paths
        .iter()
        .map(|(name, path)| Ok(format!("{name}={}", quoted(path)?)));
    let entries = entries.collect::<Result<Vec<String>, String>>()?;
    Ok(format!("@attributes({})", entries.join(", ")))
}
