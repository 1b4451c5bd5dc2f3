//! What lives behind a topic while documents and apps come and go: its rings, and where what is published goes.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use connect::net::Ingress;
use connect::net::gateway::Protocol;
use hyper::header::HeaderValue;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::follow::Following;
use crate::model::{Follow, History, Slow};
use crate::ring::{End, Ring};
use crate::webhook::Seen;

/// Addresses of one topic that are held.
pub(crate) const ADDRESSES_MAX: usize = 10_000;

/// Bytes of all addresses of a topic.
const TOPIC_BYTES_MAX: usize = 64 << 20;

/// No more addresses can be held: each has readers.
#[derive(Debug)]
pub(crate) struct Crowded;

pub(crate) struct TopicState {
    /// `API/version/topic`, for messages.
    pub name: String,
    inner: Mutex<Inner>,
    bytes: Arc<AtomicUsize>,
    /// Told when a source takes what is published.
    inlet_came: Notify,
    /// By the parameters of its addresses; locked while one of them is fetched, so that they come in their order.
    pub fetched: tokio::sync::Mutex<HashMap<Box<[String]>, Fetched>>,
    /// Ids of events that webhooks have brought.
    pub seen: Seen,
    /// What it follows.
    following: Mutex<Option<Arc<Following>>>,
}

#[derive(Default)]
struct Inner {
    history: History,
    slow: Slow,
    /// Sinks that feed one protocol of the topic.
    outlets: [usize; 2],
    /// Rings by the feed that they are of, and the parameters of their address.
    rings: HashMap<(usize, Box<[String]>), Arc<Ring>>,
    inlet: Option<Arc<InletState>>,
    /// Parameters of addresses whose backend is listened to.
    upstreams: HashSet<Box<[String]>>,
    end: Option<End>,
}

/// What a backend had when it was last fetched from.
#[derive(Clone)]
pub(crate) struct Fetched {
    pub tag: Option<HeaderValue>,
    pub modified: Option<HeaderValue>,
    pub digest: Vec<u8>,
}

/// Where what is published goes.
pub(crate) struct InletState {
    pub ingress: Arc<Ingress>,
    /// Transport properties that come with each message.
    pub names: Vec<String>,
    /// The publisher waits until what it gave is saved.
    pub is_durable: bool,
}

fn feed_of(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Sse => 0,
        Protocol::WebSocket => 1,
    }
}

/// The content type of a payload, as far as it shows.
pub(crate) fn kind_of(payload: &[u8], is_text: bool) -> &'static str {
    match payload.trim_ascii_start().first() {
        Some(b'{' | b'[') if is_text => "application/json",
        Some(b'<') if is_text => "application/xml",
        _ if is_text => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

impl TopicState {
    /// What it follows, if anything.
    pub fn following(&self) -> Option<Arc<Following>> {
        let following = self.following.lock();
        following.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has it follow this from now on; `Some`: that is to be run.
    pub fn follow(&self, follow: Option<&Follow>, path: &str) -> Option<Arc<Following>> {
        let following = self.following.lock();
        let mut following = following.unwrap_or_else(PoisonError::into_inner);
        if following.as_ref().map(|one| &one.follow) == follow {
            return None;
        }
        if let Some(before) = following.take() {
            before.stop();
        }
        *following = follow.map(|follow| Following::new(follow.clone(), path, &self.name));
        following.clone()
    }

    /// Does a sink feed those who hear by SSE?
    pub fn is_fed_by_sse(&self) -> bool {
        self.lock().outlets[feed_of(Protocol::Sse)] > 0
    }

    pub fn new(name: String) -> TopicState {
        TopicState {
            name,
            inner: Mutex::default(),
            bytes: Arc::default(),
            inlet_came: Notify::new(),
            fetched: tokio::sync::Mutex::default(),
            seen: Seen::default(),
            following: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How its rings are made from now on; those that there are stay as they are while they are read.
    pub fn configure(&self, history: History, slow: Slow) {
        let mut inner = self.lock();
        if (inner.history, inner.slow) != (history, slow) {
            (inner.history, inner.slow) = (history, slow);
            inner
                .rings
                .retain(|_, ring| ring.readers() > 0 || !ring.is_empty());
        }
    }

    /// The ring of an address, as those who hear it by this protocol read it.
    pub fn ring(&self, protocol: Protocol, values: &[String]) -> Result<Arc<Ring>, Crowded> {
        let mut inner = self.lock();
        let own = feed_of(protocol);
        // One sink without another for this protocol feeds both.
        let feed = match inner.outlets[own] > 0 || inner.outlets[1 - own] == 0 && own == 0 {
            true => own,
            false => usize::from(inner.outlets[1] > 0),
        };
        self.ring_of(&mut inner, feed, values)
    }

    /// The ring of an address, as a sink for this protocol feeds it.
    pub fn fed(&self, protocol: Protocol, values: &[String]) -> Result<Arc<Ring>, Crowded> {
        let mut inner = self.lock();
        self.ring_of(&mut inner, feed_of(protocol), values)
    }

    fn ring_of(
        &self,
        inner: &mut Inner,
        feed: usize,
        values: &[String],
    ) -> Result<Arc<Ring>, Crowded> {
        let key = (feed, Box::from(values));
        if let Some(ring) = inner.rings.get(&key) {
            return Ok(Arc::clone(ring));
        }
        if inner.rings.len() >= ADDRESSES_MAX {
            forget_oldest(inner);
            if inner.rings.len() >= ADDRESSES_MAX {
                return Err(Crowded);
            }
        }
        let ring = Arc::new(Ring::new(
            inner.history,
            inner.slow,
            Arc::clone(&self.bytes),
        ));
        if let Some(end) = inner.end {
            ring.end(end);
        }
        inner.rings.insert(key, Arc::clone(&ring));
        Ok(ring)
    }

    /// Keeps the bytes of all addresses within their bound, after something was published to one of them.
    pub fn bound(&self, published: &Ring) {
        if self.bytes.load(Ordering::Relaxed) <= TOPIC_BYTES_MAX {
            return;
        }
        published.shrink();
        if self.bytes.load(Ordering::Relaxed) > TOPIC_BYTES_MAX {
            forget_oldest(&mut self.lock());
        }
    }

    pub fn add_outlet(&self, protocol: Protocol) {
        self.lock().outlets[feed_of(protocol)] += 1;
    }

    pub fn remove_outlet(&self, protocol: Protocol) {
        let mut inner = self.lock();
        let count = &mut inner.outlets[feed_of(protocol)];
        *count = count.saturating_sub(1);
    }

    pub fn has_outlets(&self) -> bool {
        self.lock().outlets.iter().any(|count| *count > 0)
    }

    pub fn set_inlet(&self, inlet: Option<Arc<InletState>>) {
        self.lock().inlet = inlet;
        self.inlet_came.notify_waiters();
    }

    pub fn inlet(&self) -> Option<Arc<InletState>> {
        self.lock().inlet.clone()
    }

    /// Where what is published goes, as soon as somebody takes it: its app may be made anew just now. `None`: nobody
    /// does in time.
    pub async fn inlet_until(&self, until: Instant) -> Option<Arc<InletState>> {
        loop {
            let mut came = std::pin::pin!(self.inlet_came.notified());
            came.as_mut().enable();
            if let Some(inlet) = self.inlet().filter(|inlet| !inlet.ingress.is_closed()) {
                return Some(inlet);
            }
            timeout_at(until, came).await.ok()?;
        }
    }

    /// Notes that the backend of an address is listened to, until the place is dropped; `None` where it is already.
    pub fn begin_upstream(self: &Arc<TopicState>, values: &[String]) -> Option<UpstreamPlace> {
        let values: Box<[String]> = values.into();
        let is_new = self.lock().upstreams.insert(values.clone());
        is_new.then(|| UpstreamPlace {
            topic: Arc::clone(self),
            values,
        })
    }

    /// Ends all of its streams.
    pub fn end(&self, end: End) {
        self.follow(None, "");
        let mut inner = self.lock();
        inner.end = Some(end);
        inner.rings.values().for_each(|ring| ring.end(end));
    }

    /// It is there again.
    pub fn go_on(&self) {
        let mut inner = self.lock();
        if inner.end.take().is_some() {
            inner.rings.values().for_each(|ring| ring.go_on());
        }
    }

    /// How many read it.
    #[cfg(test)]
    pub fn readers(&self) -> usize {
        self.lock().rings.values().map(|ring| ring.readers()).sum()
    }
}

/// An address whose backend is listened to.
pub(crate) struct UpstreamPlace {
    topic: Arc<TopicState>,
    values: Box<[String]>,
}

impl Drop for UpstreamPlace {
    fn drop(&mut self) {
        self.topic.lock().upstreams.remove(&self.values);
    }
}

/// Forgets a tenth of the addresses, those that were used the longest ago; none that somebody reads.
fn forget_oldest(inner: &mut Inner) {
    // One that a backend fills is needed as long as it is listened to.
    let rings = inner
        .rings
        .iter()
        .filter(|((_, values), _)| !inner.upstreams.contains(values));
    let idle = rings.filter_map(|(key, ring)| Some((ring.idle_since()?, key.clone())));
    let mut idle: Vec<_> = idle.collect();
    idle.sort_by_key(|(since, _)| *since);
    let count = (idle.len() / 10).max(1);
    for (_, key) in idle.into_iter().take(count) {
        inner.rings.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn values(text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }

    fn is_same(a: &Arc<Ring>, b: &Arc<Ring>) -> bool {
        Arc::ptr_eq(a, b)
    }

    #[test]
    fn one_sink_feeds_both_protocols_and_two_their_own() {
        let topic = TopicState::new("t".to_owned());
        let of = |protocol| topic.ring(protocol, &values("a")).expect("there is room");
        let fed = |protocol| topic.fed(protocol, &values("a")).expect("there is room");
        topic.add_outlet(Protocol::Sse);
        assert!(is_same(&of(Protocol::WebSocket), &fed(Protocol::Sse)));
        topic.add_outlet(Protocol::WebSocket);
        assert!(is_same(&of(Protocol::WebSocket), &fed(Protocol::WebSocket)));
        assert!(is_same(&of(Protocol::Sse), &fed(Protocol::Sse)));
        topic.remove_outlet(Protocol::Sse);
        assert!(is_same(&of(Protocol::Sse), &fed(Protocol::WebSocket)));
    }

    #[test]
    fn without_sinks_both_protocols_hear_the_same() {
        let topic = TopicState::new("t".to_owned());
        let a = topic
            .ring(Protocol::Sse, &values("a"))
            .expect("there is room");
        let b = topic
            .ring(Protocol::WebSocket, &values("a"))
            .expect("there is room");
        assert!(is_same(&a, &b));
    }

    #[test]
    fn addresses_are_bounded_and_those_that_are_read_stay() {
        let topic = TopicState::new("t".to_owned());
        let read = topic
            .ring(Protocol::Sse, &values("read"))
            .expect("there is room");
        let _reader = crate::ring::Reader::new(&read, &crate::ring::From::Now);
        for number in 0..ADDRESSES_MAX + 10 {
            topic
                .ring(Protocol::Sse, &values(&number.to_string()))
                .expect("there is room");
        }
        assert!(topic.lock().rings.len() <= ADDRESSES_MAX);
        let again = topic
            .ring(Protocol::Sse, &values("read"))
            .expect("there is room");
        assert!(is_same(&read, &again));
    }

    #[test]
    fn bytes_of_all_addresses_are_bounded() {
        let topic = TopicState::new("t".to_owned());
        let long = Bytes::from(vec![b'x'; 1 << 20]);
        for number in 0..100 {
            let ring = topic.ring(Protocol::Sse, &values(&number.to_string()));
            let ring = ring.expect("there is room");
            ring.try_publish(&long, true, "")
                .expect("nobody is waited for");
            topic.bound(&ring);
        }
        assert!(topic.bytes.load(Ordering::Relaxed) <= TOPIC_BYTES_MAX + (4 << 20));
    }
}
