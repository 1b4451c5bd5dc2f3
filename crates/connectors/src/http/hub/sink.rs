//! What is published goes to every subscriber of its topic (WebSub 7).
//!
//! A subscriber that cannot be reached, or that answers with an error of its own, is tried three times;
//! then the payload goes to `on.error` for this subscriber, and for a while each further one after a
//! single try. One that answers 410 has ended its subscription.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use event::{Batch, Type, Value};
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, LINK};
use plan::Table;
use ring::hmac;

use crate::http::job::Endpoint;
use crate::http::sink::HttpSink;
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::message::{Message, Undelivered};
use connect::net::http_client::headers;
use connect::net::websub::{self, Digest};
use connect::option::Dynamic;
use connect::option::Settings;
use connect::url::Url;

const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature");

/// The key of the topic in what the `keyvalue` mapper gives (`WebSubHubSink`).
const TOPIC: &str = "topic";

/// How long a subscriber that has used up its tries gets one each.
const QUIET: Duration = Duration::from_secs(30);

pub(super) struct HubSink {
    http: HttpSink,
    hub_id: String,
    topic: Dynamic,
    /// The address of the hub, where it is known.
    hub_link: Option<String>,
    columns: Columns,
    by_topic: HashMap<String, Vec<Arc<Subscriber>>>,
}

/// One subscription, and how its callback has behaved.
pub(in crate::http) struct Subscriber {
    callback: Arc<Endpoint>,
    /// As the table has it.
    address: String,
    requested: i64,
    /// When the lease ends, in milliseconds since 1970.
    ends: i64,
    key: Option<hmac::Key>,
    is_gone: AtomicBool,
    failed: Mutex<Option<Instant>>,
}

impl Subscriber {
    fn failed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It wants nothing more.
    pub fn end(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Has it used up its tries just now?
    pub fn is_quiet(&self) -> bool {
        self.failed().is_some_and(|at| at.elapsed() < QUIET)
    }

    /// What became of the last payload for it.
    pub fn note(&self, has_arrived: bool) {
        let mut failed = self.failed();
        if has_arrived {
            *failed = None;
        } else if failed.is_none_or(|at| at.elapsed() >= QUIET) {
            *failed = Some(Instant::now());
        }
    }

    fn is_live(&self, now: i64) -> bool {
        now < self.ends && !self.is_gone.load(Ordering::Relaxed)
    }

    fn signature(&self, body: &[u8]) -> Option<HeaderValue> {
        Digest::Sha256.signature(self.key.as_ref()?, body)
    }
}

/// Where in the table what stands.
struct Columns {
    callback: usize,
    topic: usize,
    hub_id: usize,
    requested: usize,
    lease: usize,
    secret: usize,
}

impl Columns {
    fn new(table: &Table, settings: Settings<'_>) -> Result<Columns, Error> {
        let attributes = &table.schema.attributes;
        let find = |name: &str, types: &[Type]| {
            let found = attributes
                .iter()
                .position(|a| a.name == name && types.contains(&a.ty));
            found.ok_or_else(|| {
                let types = types.iter().map(|ty| ty.name()).collect::<Vec<_>>();
                settings.refused(format!(
                    "table '{}' has no attribute '{name}' ({}): a table of subscriptions has \
                     callback, topic, hub_id and secret (string), request_timestamp (long) and \
                     lease_seconds (long or int)",
                    table.schema.name,
                    types.join(" or ")
                ))
            })
        };
        Ok(Columns {
            callback: find("callback", &[Type::String])?,
            topic: find(TOPIC, &[Type::String])?,
            hub_id: find("hub_id", &[Type::String])?,
            requested: find("request_timestamp", &[Type::Long])?,
            lease: find("lease_seconds", &[Type::Long, Type::Int])?,
            secret: find("secret", &[Type::String])?,
        })
    }
}

impl HubSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<HubSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::http::hub::SPECS);
        let table = setup
            .table
            .ok_or_else(|| settings.refused("option 'table.name' is not a table of the app"))?;
        let hub_link = match settings.text("hub.url") {
            None => None,
            Some(text) if Url::parse(text).is_some() => Some(text.trim().to_owned()),
            Some(text) => {
                return Err(settings.refused(format!(
                    "option 'hub.url' is '{text}': write http://host:port/path"
                )));
            }
        };
        Ok(HubSink {
            http: HttpSink::of_hub(setup, super::egress_policy(settings)?)?,
            hub_id: settings.text_or_default("hub.id").to_owned(),
            topic: Dynamic::new(setup, settings, TOPIC),
            hub_link,
            columns: Columns::new(table, settings)?,
            by_topic: HashMap::new(),
        })
    }

    /// The subscription of a row; what is not an address is left out.
    fn subscriber(&self, row: &[Value]) -> Option<(String, Subscriber)> {
        let text = |at: usize| match &row[at] {
            Value::Str(text) => text.to_string(),
            _ => String::new(),
        };
        let number = |at: usize| match row[at] {
            Value::Long(number) => number,
            Value::Int(number) => i64::from(number),
            _ => 0,
        };
        let columns = &self.columns;
        if text(columns.hub_id) != self.hub_id {
            return None;
        }
        let (address, secret) = (text(columns.callback), text(columns.secret));
        let callback = self.http.endpoint_of(Url::parse(&address)?)?;
        let requested = number(columns.requested);
        let lease = number(columns.lease).saturating_mul(1000);
        let key = (!secret.is_empty()).then(|| Digest::Sha256.key(secret.as_bytes()));
        let subscriber = Subscriber {
            callback,
            address,
            requested,
            ends: requested.saturating_add(lease),
            key,
            is_gone: AtomicBool::new(false),
            failed: Mutex::default(),
        };
        Some((text(columns.topic), subscriber))
    }

    /// `Link`, by which the subscriber knows the hub and the topic (WebSub 7).
    fn link(&self, topic: &str) -> Option<HeaderValue> {
        websub::links(self.hub_link.as_deref(), topic)
    }
}

/// The body; the key of the topic is not part of it (`WebSubHubSink.publish`).
fn body(payload: Payload<'_>) -> Option<Bytes> {
    let Payload::Map(entries) = payload else {
        return headers::body(payload);
    };
    let is_topic = |key: &Value| matches!(key, Value::Str(key) if &**key == TOPIC);
    let kept: Vec<(Value, Value)> = entries
        .iter()
        .filter(|(key, _)| !is_topic(key))
        .cloned()
        .collect();
    headers::body(Payload::Map(&kept))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

impl Sink for HubSink {
    fn connect(&mut self) -> Result<(), Error> {
        self.http.leave(false);
        self.http.connect()
    }

    /// Who is known already keeps how its callback has behaved.
    fn update_table(&mut self, rows: &Batch) {
        let mut before = std::mem::take(&mut self.by_topic);
        for row in 0..rows.len {
            let Some((topic, subscriber)) = self.subscriber(&rows.row(row)) else {
                continue;
            };
            let known = before.get_mut(&topic).and_then(|all| {
                let is_it = |s: &Arc<Subscriber>| {
                    s.address == subscriber.address && s.requested == subscriber.requested
                };
                all.iter().position(is_it).map(|at| all.swap_remove(at))
            });
            let subscriber = known.unwrap_or_else(|| Arc::new(subscriber));
            self.by_topic.entry(topic).or_default().push(subscriber);
        }
    }

    /// An error says that nobody was sent anything.
    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let topic = self.topic.of(message);
        let body = body(message.payload).ok_or_else(|| {
            Error::failed(
                "publishing by sink 'websubhub'",
                "the payload is neither text nor bytes",
            )
        })?;
        let (now, link) = (now(), self.link(topic));
        let all = self.by_topic.get(topic).into_iter().flatten();
        let live = all.filter(|subscriber| subscriber.is_live(now));
        for (number, subscriber) in live.enumerate() {
            let add = |into: &mut HeaderMap| {
                if let Some(link) = &link
                    && !into.contains_key(LINK)
                {
                    into.insert(LINK, link.clone());
                }
                if let Some(signature) = subscriber.signature(&body) {
                    into.insert(SIGNATURE, signature);
                }
            };
            let callback = Arc::clone(&subscriber.callback);
            let mut job = self.http.job(message, callback, body.clone())?;
            add(Arc::make_mut(&mut job.headers));
            job.subscriber = Some(Arc::clone(subscriber));
            if let Err(failed) = self.http.begin(job) {
                if number == 0 && failed.error.is_unavailable() && !failed.was_sent {
                    return Err(failed.error);
                }
                self.http.keep(failed);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.http.flush()
    }

    /// The tries of a subscriber that is away take their time.
    fn flush_within(&mut self, patience: Duration) -> Result<bool, Error> {
        self.http.flush_at_most(Some(patience))
    }

    /// What waits for another try has had its last.
    fn close(&mut self) -> Result<(), Error> {
        self.http.leave(true);
        self.http.close()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.http.take_undelivered()
    }

    fn take_refused(&mut self) -> Vec<Undelivered> {
        self.http.take_refused()
    }
}
