//! What a connector of an app attaches to instead of a port of its own: a topic of a streaming API.
//!
//! The gateway is made by whoever runs the server, and put where connectors find what they share. Never: how a
//! topic is served; that is the gateway's.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use event::Type;

use super::Ingress;
use crate::component::Environment;

/// Over what clients hear a topic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protocol {
    /// Server-sent events.
    Sse,
    WebSocket,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Sse => "sse",
            Protocol::WebSocket => "websocket",
        }
    }
}

/// The topic that a connector names, with what it says of its API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// `App/Stream`, for messages.
    pub name: String,
    pub api: String,
    /// Empty: the one version that there is, else `1.0.0`.
    pub version: String,
    /// As it is written, `/symbols/{symbol}`.
    pub topic: String,
    /// Attributes that give the parameters of the address, in their order; empty where that is not known.
    pub keys: Vec<String>,
    pub protocol: Protocol,
    /// That a client must have; it has to show who it is where there are any.
    pub scopes: Vec<String>,
    /// On which the API is offered.
    pub plans: Vec<String>,
    /// Events that are kept for each address of the topic; `None`: as many as without a word.
    pub history_events: Option<usize>,
    /// `drop-oldest`, `latest`, `disconnect` or `wait`.
    pub slow: Option<String>,
    /// Messages of WebSocket are compressed for clients that can.
    pub compression: bool,
}

/// What a gateway tells apps about itself: a stream of this name hears it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// A stream of a client has begun or ended.
    Connections,
    /// An attempt to deliver an event to a callback.
    Deliveries,
    /// Somebody is at a topic, or is not any more.
    Presence,
    /// A plan had no room.
    Throttled,
}

impl News {
    pub const ALL: [News; 4] = [
        News::Connections,
        News::Deliveries,
        News::Presence,
        News::Throttled,
    ];

    /// The stream that hears it.
    pub fn stream(self) -> &'static str {
        match self {
            News::Connections => "gw_connections",
            News::Deliveries => "gw_deliveries",
            News::Presence => "gw_presence",
            News::Throttled => "gw_throttled",
        }
    }

    pub fn of_stream(name: &str) -> Option<News> {
        News::ALL.into_iter().find(|news| news.stream() == name)
    }

    /// What each of its events has. Times are milliseconds since 1970.
    pub fn attributes(self) -> &'static [(&'static str, Type)] {
        const LONG: Type = Type::Long;
        const TEXT: Type = Type::String;
        match self {
            News::Connections => &[
                ("time", LONG),
                ("change", TEXT),
                ("connection", LONG),
                ("api", TEXT),
                ("topic", TEXT),
                ("protocol", TEXT),
                ("peer", TEXT),
                ("application", TEXT),
                ("user", TEXT),
                ("lasted", LONG),
            ],
            News::Deliveries => &[
                ("time", LONG),
                ("subscription", TEXT),
                ("api", TEXT),
                ("topic", TEXT),
                ("callback", TEXT),
                ("application", TEXT),
                ("number", LONG),
                ("attempt", Type::Int),
                ("outcome", TEXT),
                ("status", Type::Int),
                ("cause", TEXT),
            ],
            News::Presence => &[
                ("time", LONG),
                ("change", TEXT),
                ("api", TEXT),
                ("topic", TEXT),
                ("application", TEXT),
                ("user", TEXT),
                ("present", LONG),
            ],
            News::Throttled => &[
                ("time", LONG),
                ("api", TEXT),
                ("topic", TEXT),
                ("application", TEXT),
                ("user", TEXT),
                ("peer", TEXT),
                ("quota", TEXT),
                ("reset", LONG),
            ],
        }
    }
}

/// The topics of a server.
pub trait Gateway: Send + Sync {
    /// A way for events of an app to those who hear a topic. The error is for the person who wrote the app.
    fn feed(&self, attachment: &Attachment) -> Result<Arc<dyn TopicFeed>, String>;

    /// A way for what clients publish to a source, until dropped. `names` are the transport properties that each
    /// message comes with. `is_durable`: who publishes is answered when what he gave is saved.
    fn ingress(
        &self,
        attachment: &Attachment,
        ingress: &Arc<Ingress>,
        names: &[String],
        is_durable: bool,
    ) -> Result<Box<dyn TopicIngress>, String>;

    /// Tells a source what the gateway does, each event as a JSON object, until dropped. What finds no room there is
    /// dropped and counted.
    fn news(&self, of: News, ingress: &Arc<Ingress>, names: usize) -> Box<dyn TopicIngress>;
}

/// Takes events of an app to those who hear a topic.
pub trait TopicFeed: Send + Sync {
    /// Names of the parameters of the topic's address, in their order.
    fn parameters(&self) -> &[String];

    /// Sends an event to all who hear the topic at these parameters, and keeps it for those who come back. Waits
    /// where the topic waits for slow readers, for each no longer than it may take to read something.
    fn publish(&self, parameters: &[&str], payload: Bytes, is_text: bool) -> Result<(), String>;
}

/// Brings what clients publish to a source, until dropped.
pub trait TopicIngress: Send + Sync {
    /// Where clients publish, as a path.
    fn path(&self) -> String;
}

/// The gateway of a server, where there is one.
#[derive(Default)]
pub struct GatewaySlot(OnceLock<Arc<dyn Gateway>>);

impl GatewaySlot {
    /// Puts the gateway there; the first one stays.
    pub fn set(&self, gateway: Arc<dyn Gateway>) {
        self.0.get_or_init(|| gateway);
    }

    pub fn get(&self) -> Option<Arc<dyn Gateway>> {
        self.0.get().cloned()
    }
}

impl Environment {
    /// The gateway that connectors with `api=` attach to.
    pub fn gateway(&self) -> Option<Arc<dyn Gateway>> {
        self.shared.get::<GatewaySlot>().get()
    }
}
