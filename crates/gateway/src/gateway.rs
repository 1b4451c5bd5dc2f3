//! The APIs of a server: what documents and connectors of apps say is put together as one table that requests are
//! looked up in.
//!
//! Promises: a topic that is there before and after a change keeps its readers and what is held for them; the table
//! changes at once. Never: a request that sees half of a change.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use bytes::Bytes;
use connect::arrivals::Arrivals;
use connect::net::gateway::{
    Attachment, Gateway as Attach, News, Protocol, TopicFeed, TopicIngress,
};
use connect::net::{Ingress, Network, ServerTls};
use connect::retry::Burst;
use connect::shared::Shared;
use tokio::sync::watch;

use crate::access::Access;
use crate::backends::Backends;
use crate::connections::Connections;
use crate::counts::Counts;
use crate::hub::{Hub, HubError};
use crate::model::{Address, Api, Binding, Operation, Slow, Topic, Unfit, segments_of};
use crate::ring::End;
use crate::topic::{InletState, TopicState};

/// The version of an API that only connectors name, and without one.
const VERSION: &str = "1.0.0";

/// The APIs of a server.
pub struct Gateway {
    own: Weak<Gateway>,
    pub(crate) network: Arc<Network>,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) backends: Backends,
    pub(crate) counts: Counts,
    pub(crate) access: Arc<Access>,
    pub(crate) hub: Arc<Hub>,
    stopping: watch::Sender<bool>,
    tls: RwLock<Option<ServerTls>>,
    connections: Arc<Connections>,
    /// Where it listens.
    addresses: Mutex<Vec<SocketAddr>>,
    table: RwLock<Arc<Table>>,
    said: Mutex<Said>,
    /// It listens, so that hubs can reach it.
    has_begun: AtomicBool,
    /// Payloads that fit no message of their topic, as far as they are said.
    unfit: Burst,
    /// Events of webhooks that are not genuine.
    pub(crate) fakes: Burst,
}

/// What there is at one moment.
#[derive(Default)]
pub(crate) struct Table {
    /// By the segments of their base paths, the longest first.
    bases: Vec<(Vec<String>, Arc<Served>)>,
    topics: HashMap<Key, Arc<TopicState>>,
}

/// An API with what lives behind its topics.
pub(crate) struct Served {
    pub api: Api,
    pub topics: Vec<(Topic, Arc<TopicState>)>,
}

/// The API's name in small letters, its version, and the topic's address.
type Key = (String, String, String);

/// What documents and connectors say.
#[derive(Default)]
struct Said {
    documents: Vec<Api>,
    attached: Vec<(u64, Attachment, Direction)>,
    count: u64,
    /// Numbers of attachments that have ended: their topics stay until it is settled that they do not come back.
    departed: Vec<u64>,
    /// Topics that are in no table any more, and were not yet told so.
    leaving: Vec<(Key, Arc<TopicState>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Out,
    In,
}

impl Served {
    /// What is wrong with a payload that a client publishes to a topic, counted and said: of all of them a line a
    /// second.
    pub fn fault_of(
        &self,
        topic: usize,
        payload: &[u8],
        gateway: &Gateway,
        peer: SocketAddr,
    ) -> Option<Misfit> {
        let (topic, state) = &self.topics[topic];
        let cause = topic.fault_of(payload)?;
        let is_kept = topic.unfit == Unfit::DeadLetter;
        match is_kept {
            true => gateway.counts.dead_letters.add(1),
            false => gateway.counts.refused.schema.add(1),
        }
        if let Some(times) = gateway.unfit.note() {
            let (topic, what) = (state.name.as_str(), topic.unfit.name());
            tracing::warn!(topic, %peer, cause, what, times, "payload fits no message of its topic");
        }
        Some(Misfit { cause, is_kept })
    }
}

/// A payload that fits no message of its topic.
pub(crate) struct Misfit {
    pub cause: String,
    /// It goes to the rejected events of the app; else who published it is told.
    pub is_kept: bool,
}

/// What a request path means.
pub(crate) struct Found {
    pub served: Arc<Served>,
    pub topic: usize,
    /// Of its parameters.
    pub values: Vec<String>,
}

impl Gateway {
    /// One without APIs, on the threads and within the limits of a server.
    ///
    /// # Errors
    /// The subscriptions of callbacks cannot be read.
    pub fn new(shared: &Shared, access: Arc<Access>) -> Result<Arc<Gateway>, HubError> {
        let hub = Hub::open(&access, &shared.get())?;
        Ok(Arc::new_cyclic(|own| Gateway {
            own: Weak::clone(own),
            network: shared.get(),
            arrivals: shared.get(),
            backends: Backends::default(),
            counts: Counts::default(),
            connections: Arc::new(Connections::new(access.room())),
            access,
            hub,
            stopping: watch::Sender::new(false),
            tls: RwLock::default(),
            addresses: Mutex::default(),
            table: RwLock::default(),
            said: Mutex::default(),
            has_begun: AtomicBool::new(false),
            unfit: Burst::default(),
            fakes: Burst::default(),
        }))
    }

    /// Who may use it, and how much.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// Its WebSub hub.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// What it has counted so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Events about itself that it had to drop, because the app that listens to them was busy.
    pub fn news_dropped(&self) -> u64 {
        self.access.room().dropped()
    }

    /// The streams that are open.
    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Where it listens, in the order in which that began.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.clone()
    }

    pub(crate) fn listens(&self, address: SocketAddr) {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.push(address);
    }

    /// Does it speak TLS?
    pub fn is_tls(&self) -> bool {
        self.tls().is_some()
    }

    /// Speaks TLS with those who connect from now on.
    pub fn set_tls(&self, tls: ServerTls) {
        let tls = tls.speaking_any(&[b"h2", b"http/1.1"]);
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
    }

    pub(crate) fn tls(&self) -> Option<ServerTls> {
        self.tls
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Follows what topics of documents follow, as soon as it listens.
    pub(crate) fn begin_following(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
        self.follow(&self.table());
    }

    fn follow(&self, table: &Table) {
        if !self.has_begun.load(Ordering::Relaxed) {
            return;
        }
        for (_, served) in &table.bases {
            for (topic, state) in &served.topics {
                let path = format!("{}{}", served.api.bases[0], topic.address());
                let Some(following) = state.follow(topic.follow.as_ref(), &path) else {
                    continue;
                };
                match self.network.workers() {
                    Ok(workers) => drop(workers.next().spawn(following.run())),
                    Err(error) => {
                        tracing::error!(cause = %error, "cannot follow topics of other hubs")
                    }
                }
            }
        }
    }

    /// This gateway, for what outlives the call.
    fn shared(&self) -> Arc<Gateway> {
        self.own.upgrade().expect("whoever calls it holds one")
    }

    /// Told when the server stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves these APIs of documents instead of those before, which it gives back. Whoever calls it has judged them.
    pub fn set_documents(&self, apis: Vec<Api>) -> Vec<Api> {
        let mut said = self.said();
        let before = std::mem::replace(&mut said.documents, apis);
        self.rebuild(&mut said);
        before
    }

    /// Is it this that documents say?
    pub fn has_documents(&self, apis: &[Api]) -> bool {
        self.said().documents == apis
    }

    /// Ends the streams of topics that are gone for good: apps that are made anew have had their time to come back.
    pub fn settle(&self) {
        {
            let mut said = self.said();
            let departed = std::mem::take(&mut said.departed);
            if !departed.is_empty() {
                said.attached
                    .retain(|(number, ..)| !departed.contains(number));
                self.rebuild(&mut said);
            }
        }
        let leaving = std::mem::take(&mut self.said().leaving);
        let table = self.table();
        for (key, topic) in leaving {
            if !table.topics.contains_key(&key) {
                topic.end(End::Removed);
            }
        }
    }

    /// Ends all streams: the server stops.
    pub fn stop(&self) {
        self.hub.stop();
        self.access.settle();
        self.stopping.send_replace(true);
        let leaving = std::mem::take(&mut self.said().leaving);
        let table = self.table();
        let topics = table
            .topics
            .values()
            .chain(leaving.iter().map(|(_, topic)| topic));
        topics.for_each(|topic| topic.end(End::Stopping));
    }

    /// The APIs as they are served.
    pub fn apis(&self) -> Vec<Api> {
        let table = self.table();
        let mut apis: Vec<Api> = Vec::new();
        for (_, served) in &table.bases {
            if !apis.iter().any(|api| api.bases == served.api.bases) {
                apis.push(served.api.clone());
            }
        }
        apis
    }

    /// An API with the streams that its connectors belong to, as far as a topic has one stream.
    fn with_streams(&self, api: &Api) -> Api {
        let said = self.said();
        let mut api = api.clone();
        let version = api.version.clone();
        let name = api.name.clone();
        for topic in &mut api.topics {
            if topic.binding != Binding::Attached {
                continue;
            }
            let address = topic.address.text().to_owned();
            let of_it = said.attached.iter().filter(|(_, one, _)| {
                let is_its = one.api.eq_ignore_ascii_case(&name) && one.version == version;
                is_its && Address::parse(&one.topic).is_ok_and(|own| own.text() == address)
            });
            let of_it: Vec<_> = of_it.collect();
            let Some((_, first, _)) = of_it.first() else {
                continue;
            };
            let is_one = of_it.iter().all(|(_, one, _)| one.name == first.name);
            let keys = of_it.iter().map(|(_, one, _)| &one.keys);
            let keys = keys
                .max_by_key(|keys| keys.len())
                .cloned()
                .unwrap_or_default();
            let Some((app, stream)) = first.name.split_once('/') else {
                continue;
            };
            let is_publish_only = topic.subscribe.is_none();
            let keys = match keys.len() == topic.parameters().len() {
                true => keys,
                false if is_publish_only => topic.parameters().to_vec(),
                false => continue,
            };
            if is_one {
                topic.binding = Binding::Stream {
                    app: app.to_owned(),
                    stream: stream.to_owned(),
                    keys,
                };
            }
        }
        api
    }

    /// The API of a name, or of `NAME/VERSION`, as it is served; topics of connectors with their streams.
    ///
    /// # Errors
    /// There is none, or several, in words.
    pub fn api(&self, wanted: &str) -> Result<Api, String> {
        let all = self.apis();
        let is_it = |api: &&Api| {
            let id = format!("{}/{}", api.name, api.version);
            api.is_called(wanted, "") || id.eq_ignore_ascii_case(wanted)
        };
        let mut found = all.iter().filter(is_it);
        let names = || {
            let names = all
                .iter()
                .map(|api| format!("{}/{}", api.name, api.version));
            names.collect::<Vec<String>>().join(", ")
        };
        match (found.next(), found.next()) {
            (Some(api), None) => Ok(self.with_streams(api)),
            (Some(_), Some(_)) => Err(format!(
                "there are several APIs '{wanted}': name one of {}",
                names()
            )),
            _ if all.is_empty() => Err(format!("there is no API '{wanted}', and no other one")),
            _ => Err(format!("there is no API '{wanted}'; there is {}", names())),
        }
    }

    /// Puts the table together anew.
    fn rebuild(&self, said: &mut Said) {
        let apis = merged(said);
        self.access.set_apis(&apis);
        let hubs = apis.iter().filter(|api| api.protocols.websub);
        let hubs = hubs.map(|api| {
            (
                crate::access::id_of(api).to_ascii_lowercase(),
                api.hub.clone(),
            )
        });
        if let Err(cause) = self.hub.set_rules(hubs) {
            tracing::error!(cause, "cannot begin to deliver to callbacks");
        }
        let before = self.table();
        let mut table = Table::default();
        for api in apis {
            let mut topics = Vec::new();
            for topic in &api.topics {
                let key = key_of(&api.name, &api.version, topic.address());
                let known = before.topics.get(&key).cloned().or_else(|| {
                    let mut leaving = said.leaving.iter();
                    leaving
                        .find(|(left, _)| *left == key)
                        .map(|(_, topic)| Arc::clone(topic))
                });
                let state = known.unwrap_or_else(|| {
                    let name = format!("{}/{}{}", api.name, api.version, topic.address());
                    Arc::new(TopicState::new(name))
                });
                state.configure(topic.history, topic.slow);
                state.go_on();
                table.topics.insert(key, Arc::clone(&state));
                topics.push((topic.clone(), state));
            }
            let served = Arc::new(Served { api, topics });
            for base in &served.api.bases {
                if let Some(base) = segments_of(base) {
                    table.bases.push((base, Arc::clone(&served)));
                }
            }
        }
        // Of two APIs at one path the first wins; documents that cannot be served beside each other were refused.
        table
            .bases
            .sort_by_key(|(base, _)| std::cmp::Reverse(base.len()));
        for (key, topic) in &before.topics {
            let is_known = |(left, _): &(Key, Arc<TopicState>)| left == key;
            if !table.topics.contains_key(key) && !said.leaving.iter().any(is_known) {
                said.leaving.push((key.clone(), Arc::clone(topic)));
            }
        }
        said.leaving
            .retain(|(key, _)| !table.topics.contains_key(key));
        self.follow(&table);
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }

    fn attach(&self, attachment: &Attachment, direction: Direction) -> Result<Attached, String> {
        Address::parse(&attachment.topic)
            .map_err(|cause| format!("'{}' is no address of a topic: {cause}", attachment.topic))?;
        let mut said = self.said();
        let mut attachment = attachment.clone();
        if attachment.version.is_empty() {
            let mut documents = said.documents.iter();
            let only = documents.find(|api| api.is_called(&attachment.api, ""));
            attachment.version = only.map_or(VERSION, |api| &api.version).to_owned();
        }
        let is_same = |(_, other, way): &&(u64, Attachment, Direction)| {
            *way == direction
                && other.api.eq_ignore_ascii_case(&attachment.api)
                && other.version == attachment.version
                && other.topic == attachment.topic
                && (direction == Direction::In || other.protocol == attachment.protocol)
        };
        let departed = |number: &u64| said.departed.contains(number);
        let mut taken = said
            .attached
            .iter()
            .filter(|(number, ..)| !departed(number));
        if let Some((_, other, _)) = taken.find(is_same) {
            let what = match direction {
                Direction::Out => "feeds",
                Direction::In => "takes what is published to",
            };
            return Err(format!(
                "'{}' {what} topic '{}' of API '{}' already",
                other.name, attachment.topic, attachment.api
            ));
        }
        let documents = said.documents.iter();
        let documents = documents.filter(|api| api.is_called(&attachment.api, &attachment.version));
        let plans: Vec<&str> = documents
            .flat_map(|api| &api.plans)
            .map(|(name, _)| name.as_str())
            .collect();
        let is_unknown =
            |name: &&String| !plans.contains(&name.as_str()) && !self.access.has_plan(name);
        if let Some(name) = attachment.plans.iter().find(is_unknown) {
            return Err(format!(
                "there is no plan '{name}': a document, or a command, makes one"
            ));
        }
        // The one before that it takes the place of.
        let before = said
            .attached
            .iter()
            .find(is_same)
            .map(|(number, ..)| *number);
        said.attached.retain(|(number, ..)| Some(*number) != before);
        said.departed.retain(|number| Some(*number) != before);
        said.count += 1;
        let number = said.count;
        let key = key_of(&attachment.api, &attachment.version, &attachment.topic);
        said.attached.push((number, attachment.clone(), direction));
        self.rebuild(&mut said);
        let table = self.table();
        let topic = table
            .topics
            .get(&key)
            .cloned()
            .ok_or("the topic has no place")?;
        Ok(Attached {
            number,
            attachment,
            topic,
        })
    }

    fn detach(&self, number: u64) {
        self.said().departed.push(number);
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

struct Attached {
    number: u64,
    attachment: Attachment,
    topic: Arc<TopicState>,
}

fn key_of(api: &str, version: &str, topic: &str) -> Key {
    let topic = format!("/{}", topic.trim().trim_start_matches('/'));
    (api.to_ascii_lowercase(), version.to_owned(), topic)
}

/// What documents say, with what connectors add.
fn merged(said: &Said) -> Vec<Api> {
    let mut apis = said.documents.clone();
    for (_, attachment, direction) in &said.attached {
        let is_it = |api: &Api| api.is_called(&attachment.api, &attachment.version);
        let at = apis.iter().position(is_it).unwrap_or_else(|| {
            apis.push(Api::new(&attachment.api, &attachment.version, ""));
            apis.len() - 1
        });
        add(&mut apis[at], attachment, *direction);
    }
    apis
}

fn add(api: &mut Api, attachment: &Attachment, direction: Direction) {
    // What a document says of its API holds; connectors add to what there is.
    let is_of_document = !api.file.is_empty();
    if !is_of_document {
        let protocols = &mut api.protocols;
        match attachment.protocol {
            Protocol::Sse => (protocols.sse, protocols.http) = (true, true),
            Protocol::WebSocket => protocols.websocket = true,
        }
        protocols.http |= direction == Direction::In;
        api.compression |= attachment.compression;
    }
    let Ok(address) = Address::parse(&attachment.topic) else {
        return;
    };
    let at = api.topics.iter().position(|topic| topic.address == address);
    let is_new = at.is_none();
    let at = at.unwrap_or_else(|| {
        api.topics.push(Topic {
            binding: Binding::Attached,
            ..Topic::new(address)
        });
        api.topics.len() - 1
    });
    let topic = &mut api.topics[at];
    for name in &attachment.plans {
        if api.plans.iter().all(|(own, _)| own != name) {
            api.plans.push((name.clone(), serde_json::Value::Null));
        }
    }
    if let Some(events) = attachment.history_events {
        topic.history.events = events;
    }
    if let Some(slow) = attachment.slow.as_deref().and_then(Slow::parse) {
        topic.slow = slow;
    }
    if is_of_document && !is_new {
        return;
    }
    let operation = match direction {
        Direction::Out => &mut topic.subscribe,
        Direction::In => &mut topic.publish,
    };
    let operation = operation.get_or_insert_with(Operation::default);
    operation.is_secured |= !attachment.scopes.is_empty();
    for scope in &attachment.scopes {
        if !operation.scopes.contains(scope) {
            operation.scopes.push(scope.clone());
        }
    }
}

impl Table {
    /// The topic that a path names; `Err` with the API where its path is right and the topic is not.
    pub fn find(&self, path: &str) -> Result<Found, Option<Arc<Served>>> {
        let Some(path) = segments_of(path) else {
            return Err(None);
        };
        let mut nearest = None;
        for (base, served) in &self.bases {
            let Some(rest) = path.strip_prefix(base.as_slice()) else {
                continue;
            };
            let topics = served.topics.iter().enumerate();
            let matching = topics.filter_map(|(at, (topic, _))| {
                let values = topic.address.matches(rest)?;
                Some((topic.address.rank(), at, values))
            });
            if let Some((_, topic, values)) = matching.max_by_key(|(rank, ..)| *rank) {
                return Ok(Found {
                    served: Arc::clone(served),
                    topic,
                    values,
                });
            }
            nearest.get_or_insert_with(|| Arc::clone(served));
        }
        Err(nearest)
    }
}

impl Attach for Gateway {
    fn feed(&self, attachment: &Attachment) -> Result<Arc<dyn TopicFeed>, String> {
        let attached = self.attach(attachment, Direction::Out)?;
        attached.topic.add_outlet(attached.attachment.protocol);
        let parameters = Address::parse(&attached.attachment.topic)?
            .parameters()
            .to_vec();
        Ok(Arc::new(OutletOfTopic {
            gateway: self.shared(),
            parameters,
            attached,
        }))
    }

    fn ingress(
        &self,
        attachment: &Attachment,
        ingress: &Arc<Ingress>,
        names: &[String],
        is_durable: bool,
    ) -> Result<Box<dyn TopicIngress>, String> {
        let attached = self.attach(attachment, Direction::In)?;
        attached.topic.set_inlet(Some(Arc::new(InletState {
            ingress: Arc::clone(ingress),
            names: names.to_vec(),
            is_durable,
        })));
        Ok(Box::new(InletOfTopic {
            gateway: self.shared(),
            attached,
        }))
    }

    fn news(&self, of: News, ingress: &Arc<Ingress>, names: usize) -> Box<dyn TopicIngress> {
        Box::new(self.access.room().listen(of, ingress, names))
    }
}

struct OutletOfTopic {
    gateway: Arc<Gateway>,
    parameters: Vec<String>,
    attached: Attached,
}

impl OutletOfTopic {
    /// Callbacks get what one of the protocols is fed with.
    fn publish_to_hub(
        &self,
        values: &[String],
        payload: &Bytes,
        is_text: bool,
    ) -> Result<(), String> {
        let attachment = &self.attached.attachment;
        if attachment.protocol == Protocol::WebSocket && self.attached.topic.is_fed_by_sse() {
            return Ok(());
        }
        let api = format!("{}/{}", attachment.api, attachment.version).to_ascii_lowercase();
        let topic = Address::parse(&attachment.topic)?.filled(values);
        let kind = crate::topic::kind_of(payload, is_text);
        let published = self.gateway.hub.publish(&api, &topic, kind, payload);
        published
            .map(drop)
            .map_err(|error| format!("cannot keep an event for callbacks: {error}"))
    }
}

impl TopicFeed for OutletOfTopic {
    fn parameters(&self) -> &[String] {
        &self.parameters
    }

    fn publish(&self, parameters: &[&str], payload: Bytes, is_text: bool) -> Result<(), String> {
        let values: Vec<String> = parameters.iter().map(|value| (*value).to_owned()).collect();
        if let Some(long) = values
            .iter()
            .find(|value| value.len() > crate::model::VALUE_BYTES_MAX)
        {
            return Err(format!(
                "the value of a parameter has {} bytes, more than the {} of an address",
                long.len(),
                crate::model::VALUE_BYTES_MAX
            ));
        }
        let topic = &self.attached.topic;
        self.publish_to_hub(&values, &payload, is_text)?;
        let ring = topic.fed(self.attached.attachment.protocol, &values);
        let ring = ring.map_err(|_| "the topic has too many addresses that are listened to")?;
        self.gateway.counts.published.add(1);
        if ring.try_publish(&payload, is_text, "").is_err() {
            let workers = self.gateway.network.workers().map_err(|e| e.to_string())?;
            let own = Arc::clone(&ring);
            let waited = workers.wait_for(async move { own.publish(&payload, is_text, "").await });
            waited.map_err(|e| e.to_string())?;
        }
        topic.bound(&ring);
        Ok(())
    }
}

impl Drop for OutletOfTopic {
    fn drop(&mut self) {
        self.attached
            .topic
            .remove_outlet(self.attached.attachment.protocol);
        self.gateway.detach(self.attached.number);
    }
}

struct InletOfTopic {
    gateway: Arc<Gateway>,
    attached: Attached,
}

impl TopicIngress for InletOfTopic {
    fn path(&self) -> String {
        let table = self.gateway.table();
        let Attachment {
            api,
            version,
            topic,
            ..
        } = &self.attached.attachment;
        let served = table.bases.iter().map(|(_, served)| served);
        let mut served = served.filter(|served| served.api.is_called(api, version));
        let base = served.next().map(|served| served.api.bases[0].clone());
        format!("{}{topic}", base.unwrap_or_default())
    }
}

impl Drop for InletOfTopic {
    fn drop(&mut self) {
        self.attached.topic.set_inlet(None);
        self.gateway.detach(self.attached.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(topic: &str, protocol: Protocol) -> Attachment {
        Attachment {
            name: "A/S".to_owned(),
            api: "Ticks".to_owned(),
            version: String::new(),
            topic: topic.to_owned(),
            keys: Vec::new(),
            protocol,
            scopes: Vec::new(),
            plans: Vec::new(),
            history_events: None,
            slow: None,
            compression: false,
        }
    }

    fn values(gateway: &Gateway, path: &str) -> Option<Vec<String>> {
        gateway.table().find(path).ok().map(|found| found.values)
    }

    #[test]
    fn a_connector_makes_an_api_of_its_own() {
        let access = Access::open(None, std::time::SystemTime::now()).expect("in memory");
        let gateway = Gateway::new(&Shared::default(), access).expect("nothing is kept");
        let outlet = gateway.feed(&attachment("/symbols/{symbol}", Protocol::Sse));
        let outlet = outlet.expect("nobody has it");
        assert_eq!(outlet.parameters(), ["symbol"]);
        for path in ["/ticks/1.0.0/symbols/A", "/ticks/symbols/A"] {
            assert_eq!(values(&gateway, path), Some(vec!["A".to_owned()]), "{path}");
        }
        let api = &gateway.apis()[0];
        assert!(api.protocols.sse && !api.protocols.websocket);
        let again = gateway.feed(&attachment("/symbols/{symbol}", Protocol::Sse));
        assert!(
            again
                .err()
                .is_some_and(|said| said.contains("'A/S' feeds topic"))
        );
        drop(outlet);
        assert!(
            values(&gateway, "/ticks/symbols/A").is_some(),
            "its app may be made anew"
        );
        gateway.settle();
        assert_eq!(values(&gateway, "/ticks/symbols/A"), None);
    }

    #[test]
    fn readers_stay_while_an_app_is_made_anew() {
        let access = Access::open(None, std::time::SystemTime::now()).expect("in memory");
        let gateway = Gateway::new(&Shared::default(), access).expect("nothing is kept");
        let open = || {
            gateway
                .feed(&attachment("/all", Protocol::Sse))
                .expect("nobody has it")
        };
        let outlet = open();
        let found = gateway
            .table()
            .find("/ticks/all")
            .ok()
            .expect("it is there");
        let state = Arc::clone(&found.served.topics[found.topic].1);
        let ring = state.ring(Protocol::Sse, &[]).expect("there is room");
        let _reader = crate::ring::Reader::new(&ring, &crate::ring::From::Now);
        drop(outlet);
        let outlet = open();
        gateway.settle();
        outlet
            .publish(&[], Bytes::from_static(b"x"), true)
            .expect("there is room");
        assert!(!ring.is_empty() && state.readers() == 1);
        drop(outlet);
        gateway.settle();
        let mut reader = crate::ring::Reader::new(&ring, &crate::ring::From::Now);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let step = reader.poll_step(&mut context, 1, |_| {});
        assert_eq!(
            step,
            std::task::Poll::Ready(crate::ring::Step::End(End::Removed))
        );
    }

    #[test]
    fn what_a_document_says_holds_for_what_attaches_to_it() {
        let access = Access::open(None, std::time::SystemTime::now()).expect("in memory");
        let gateway = Gateway::new(&Shared::default(), access).expect("nothing is kept");
        let text = "asyncapi: 3.0.0\ninfo: { title: ticks, version: 2.0.0 }\nchannels: { a: { address: /all } }\n\
                    operations: { o: { action: send, channel: { $ref: '#/channels/a' } } }\n\
                    x-headwater: { context: /t, protocols: [ sse, ws ] }\n";
        let api = crate::document::read(text, "a.yaml")
            .api
            .expect("it is right");
        gateway.set_documents(vec![api]);
        let _outlet = gateway
            .feed(&attachment("/all", Protocol::Sse))
            .expect("nobody has it");
        assert_eq!(values(&gateway, "/t/2.0.0/all"), Some(Vec::new()));
        let apis = gateway.apis();
        assert_eq!(apis.len(), 1);
        assert!(apis[0].protocols.websocket && apis[0].topics.len() == 1);
    }
}
