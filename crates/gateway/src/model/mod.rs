//! What the gateway serves, as data: APIs with their topics. Both doors (documents and connectors of apps) give this
//! model, and nothing behind it knows by which an API came.

mod address;
mod message;

use std::time::Duration;

use connect::net::http_client::Network;
use connect::url::Url;
use serde_json::{Map, Value as Json};

pub use crate::follow::Follow;
use crate::hub::Rules;
pub use crate::webhook::{Preset, Webhook};

pub(crate) use address::{Address, VALUE_BYTES_MAX, encode_segment, segments_of};
pub use message::{Content, Message, Unfit};

/// A managed API.
#[derive(Clone, PartialEq, Debug)]
pub struct Api {
    pub name: String,
    pub version: String,
    /// Paths below which its topics are; the first is the one it is known by. Without a slash at the end.
    pub bases: Vec<String>,
    pub protocols: Protocols,
    pub topics: Vec<Topic>,
    /// Whose tokens count, as the document has them.
    pub issuers: Vec<Json>,
    /// Names of plans with their limits, as the document has them and in its order.
    pub plans: Vec<(String, Json)>,
    /// Schemas that those of messages refer to, by their names.
    pub schemas: Map<String, Json>,
    /// How it serves as a WebSub hub.
    pub hub: Rules,
    /// Whose pages may use it.
    pub origins: Origins,
    /// Proxies in front of the gateway, whose word on who a client is counts.
    pub proxies: Vec<Network>,
    /// How often a stream without events shows that it is there.
    pub heartbeat: Duration,
    /// Messages of WebSocket are compressed for clients and backends that can (permessage-deflate).
    pub compression: bool,
    /// Longest payload that clients may publish, in bytes.
    pub message_max: usize,
    /// Whether clients may use it.
    pub status: Lifecycle,
    /// Where it was read, for messages.
    pub file: String,
}

/// Where an API is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Lifecycle {
    #[default]
    Published,
    /// It is known, and not served yet.
    Created,
    /// It is served, for a trial.
    Prototyped,
    /// It is served, and says that it will not be for ever.
    Deprecated,
    /// It is not served for now.
    Blocked,
    /// It is served no more.
    Retired,
}

impl Lifecycle {
    pub const NAMES: [&'static str; 6] = [
        "published",
        "created",
        "prototyped",
        "deprecated",
        "blocked",
        "retired",
    ];

    pub fn parse(text: &str) -> Option<Lifecycle> {
        Some(match text {
            "published" => Lifecycle::Published,
            "created" => Lifecycle::Created,
            "prototyped" => Lifecycle::Prototyped,
            "deprecated" => Lifecycle::Deprecated,
            "blocked" => Lifecycle::Blocked,
            "retired" => Lifecycle::Retired,
            _ => return None,
        })
    }

    /// As documents write it.
    pub fn name(self) -> &'static str {
        Lifecycle::NAMES[self as usize]
    }
}

/// Over what clients speak to an API.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Protocols {
    pub sse: bool,
    pub websocket: bool,
    pub http: bool,
    /// The API is a hub, whose rules are in [`Api::hub`].
    pub websub: bool,
}

/// One address, or many that differ in their parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Topic {
    pub(crate) address: Address,
    pub subscribe: Option<Operation>,
    pub publish: Option<Operation>,
    pub binding: Binding,
    pub history: History,
    pub slow: Slow,
    /// What becomes of payloads that fit none of their messages.
    pub unfit: Unfit,
    /// Who posts has to have signed.
    pub webhook: Option<Webhook>,
    /// What a topic of another hub publishes is published here.
    pub follow: Option<Follow>,
}

impl Topic {
    /// One that nobody may use yet, and that leads nowhere.
    pub(crate) fn new(address: Address) -> Topic {
        Topic {
            address,
            subscribe: None,
            publish: None,
            binding: Binding::Own,
            history: History::default(),
            slow: Slow::default(),
            unfit: Unfit::default(),
            webhook: None,
            follow: None,
        }
    }

    /// What is wrong with a payload that a client publishes, where that matters; `None`: nothing.
    pub(crate) fn fault_of(&self, payload: &[u8]) -> Option<String> {
        let operation = self
            .publish
            .as_ref()
            .filter(|_| self.unfit != Unfit::Pass)?;
        // Mappers take events in an envelope, and several at once.
        let is_wrapped = matches!(self.binding, Binding::Stream { .. } | Binding::Attached);
        message::fault_of(&operation.messages, payload, is_wrapped)
    }

    /// Its address as it is written.
    pub fn address(&self) -> &str {
        self.address.text()
    }

    /// Names of the parameters in its address.
    pub fn parameters(&self) -> &[String] {
        self.address.parameters()
    }
}

/// What clients may do.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Operation {
    /// A client has to show who it is.
    pub is_secured: bool,
    /// That it must have, all of them.
    pub scopes: Vec<String>,
    /// What is sent is one of these; empty: that is not said.
    pub messages: Vec<Message>,
}

/// Where events of a topic come from, and where what is published goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Binding {
    /// What is published is what is heard.
    Own,
    /// A stream of an app.
    Stream {
        app: String,
        stream: String,
        /// Attributes that give the parameters of the address, in their order.
        keys: Vec<String>,
    },
    /// A server behind the gateway.
    Backend {
        /// May hold `{parameter}` in path and query.
        url: Url,
        is_websocket: bool,
        upstream: Upstream,
    },
    /// Connectors of apps say it themselves by `api=`.
    Attached,
}

/// How subscribers share the stream of a backend.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Upstream {
    /// One connection for each subscriber.
    #[default]
    Each,
    /// One for all subscribers of an address, whose events are kept for those who come back.
    Shared,
}

/// What is kept of each address for those who come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct History {
    pub events: usize,
    pub age: Option<Duration>,
}

/// Events that are kept where nothing is said.
pub const HISTORY_EVENTS: usize = 1000;

/// And the most that can be asked for.
pub const HISTORY_EVENTS_MAX: usize = 1_000_000;

impl Default for History {
    fn default() -> History {
        History {
            events: HISTORY_EVENTS,
            age: None,
        }
    }
}

/// What becomes of a reader that has fallen behind all that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Slow {
    /// It goes on with the oldest event that is kept, behind a gap that it is told of.
    #[default]
    DropOldest,
    /// It goes on with the newest.
    Latest,
    /// It is disconnected, and may come back.
    Disconnect,
    /// It is waited for.
    Wait,
}

impl Slow {
    pub const NAMES: [&'static str; 4] = ["drop-oldest", "latest", "disconnect", "wait"];

    /// As documents and options write it.
    pub fn name(self) -> &'static str {
        Slow::NAMES[self as usize]
    }

    pub fn parse(text: &str) -> Option<Slow> {
        Some(match text {
            "drop-oldest" => Slow::DropOldest,
            "latest" => Slow::Latest,
            "disconnect" => Slow::Disconnect,
            "wait" => Slow::Wait,
            _ => return None,
        })
    }
}

/// Whose web pages may use an API.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Origins(pub Vec<String>);

impl Origins {
    /// May pages of any origin?
    pub fn is_any(&self) -> bool {
        self.0.iter().any(|origin| origin == "*")
    }

    /// May a page of `origin` use an API that it calls `host`? Without a word those of the same host may.
    pub fn allow(&self, origin: &str, host: Option<&str>) -> bool {
        if self.0.is_empty() {
            let own = origin.split_once("://").map(|(_, own)| own);
            return own.is_some_and(|own| host.is_some_and(|host| own.eq_ignore_ascii_case(host)));
        }
        let is = |allowed: &String| allowed == "*" || origin.eq_ignore_ascii_case(allowed);
        self.0.iter().any(is)
    }
}

/// How often a stream shows that it is there, where nothing is said.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// Longest published payload, where nothing is said.
pub const MESSAGE_MAX: usize = 1 << 20;

impl Api {
    /// An API without topics, at the paths that it has without a word.
    pub fn new(name: &str, version: &str, file: &str) -> Api {
        Api {
            name: name.to_owned(),
            version: version.to_owned(),
            bases: bases_of(&context_of(name), version),
            protocols: Protocols::default(),
            topics: Vec::new(),
            issuers: Vec::new(),
            plans: Vec::new(),
            schemas: Map::new(),
            hub: Rules::default(),
            origins: Origins::default(),
            proxies: Vec::new(),
            heartbeat: HEARTBEAT,
            compression: false,
            message_max: MESSAGE_MAX,
            status: Lifecycle::default(),
            file: file.to_owned(),
        }
    }

    /// Is it this one? Names are compared without case, as people write them in apps and in documents.
    pub fn is_called(&self, name: &str, version: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) && (version.is_empty() || self.version == version)
    }
}

/// The context that an API has by its name: `/stock-ticks` of `Stock Ticks`.
pub(crate) fn context_of(name: &str) -> String {
    let mut context = String::from("/");
    for c in name.trim().chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '~' | '-') => {
                context.push(c.to_ascii_lowercase());
            }
            _ if context.ends_with('-') => {}
            _ => context.push('-'),
        }
    }
    context
}

/// `{context}/{version}`, and the context alone.
pub(crate) fn bases_of(context: &str, version: &str) -> Vec<String> {
    let context = context.trim_end_matches('/');
    vec![
        format!("{context}/{}", encode_segment(version)),
        context.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_has_a_context_by_its_name() {
        assert_eq!(context_of("StockTicks"), "/stockticks");
        assert_eq!(context_of(" Stock  Ticks/2 "), "/stock-ticks-2");
        assert_eq!(bases_of("/t/", "1.0.0"), ["/t/1.0.0", "/t"]);
        assert_eq!(bases_of("/", "1"), ["/1", ""]);
    }

    #[test]
    fn pages_are_judged_by_their_origin() {
        let own = Origins::default();
        assert!(own.allow("http://a.example:80", Some("A.example:80")));
        assert!(!own.allow("http://b.example", Some("a.example")));
        assert!(!own.allow("null", Some("a.example")));
        let named = Origins(vec!["https://b.example".to_owned()]);
        assert!(named.allow("https://B.example", Some("a.example")));
        assert!(!named.allow("https://a.example", Some("a.example")));
        assert!(Origins(vec!["*".to_owned()]).allow("null", None));
    }
}
