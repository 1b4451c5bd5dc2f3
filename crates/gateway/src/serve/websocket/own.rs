//! A client of a topic that is ours: it hears what comes, and publishes.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::SystemTime;

use connect::net::gateway::Protocol;
use connect::net::websocket::{self, Close, Code, Event, Reader as FromClient, Writer};
use connect::net::{Body as Payload, Delivery};
use event::Value;
use hyper::Request;
use hyper::body::Incoming;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::super::access::reason;
use super::super::{Peer, publish};
use super::{ClientLine, EXPIRED, FAREWELL, Socket, THROTTLED, close_of};
use crate::access::Admission;
use crate::gateway::{Found, Gateway, Served};
use crate::model::Binding;
use crate::plan::Denied;
use crate::ring::{End, From, Reader, Ring, SLOW_MAX, Step};
use crate::topic::TopicState;

/// Bytes of events that are written at once.
const BATCH_BYTES: usize = 16 << 10;

/// What a client does with its topic.
pub(super) struct Client {
    served: Arc<Served>,
    /// Of its topic in the API.
    number: usize,
    topic: Arc<TopicState>,
    values: Vec<String>,
    can_hear: bool,
    publishes: Publishes,
    every: std::time::Duration,
    peer: std::net::SocketAddr,
    admission: Admission,
    /// Those that a further token needs as well.
    scopes: Vec<String>,
}

/// Where what it publishes goes.
enum Publishes {
    Nowhere,
    /// To those who hear the topic.
    Ring,
    /// To the source of an app, with these properties.
    Stream(Vec<Value>),
}

impl Client {
    pub fn new(
        request: &Request<Incoming>,
        found: Found,
        (admission, scopes): (Admission, Vec<String>),
        peer: &Peer,
    ) -> Client {
        let (topic, state) = &found.served.topics[found.topic];
        let is_own = topic.binding == Binding::Own && !state.has_outlets();
        let publishes = match (&topic.publish, state.inlet()) {
            (None, _) => Publishes::Nowhere,
            // What webhooks bring is signed, and comes by POST.
            (Some(_), _) if topic.webhook.is_some() => Publishes::Nowhere,
            (Some(_), Some(inlet)) => Publishes::Stream(publish::properties(
                &inlet,
                request.headers(),
                &found,
                &admission,
                peer,
            )),
            (Some(_), None) if is_own => Publishes::Ring,
            // Its source comes, or comes again.
            (Some(_), None) => Publishes::Stream(Vec::new()),
        };
        Client {
            topic: Arc::clone(state),
            number: found.topic,
            served: Arc::clone(&found.served),
            can_hear: topic.subscribe.is_some(),
            publishes,
            every: found.served.api.heartbeat,
            peer: peer.address(),
            values: found.values,
            admission,
            scopes,
        }
    }

    pub async fn run(self, gateway: Arc<Gateway>, socket: Socket) {
        let Ok(ring) = self.topic.ring(Protocol::WebSocket, &self.values) else {
            return;
        };
        let (mut from_client, mut to_client) = socket.split();
        // It hears what it publishes itself, from its first message on.
        let reader = Reader::new(&ring, &From::Now);
        let close = {
            let hearing = hear(&gateway, &self, reader, &mut to_client);
            let reading = read(&gateway, &self, &ring, &mut from_client);
            tokio::select! {
                biased;
                close = hearing => close,
                close = reading => close,
                ended = self.admission.ended() => Some(Close::new(EXPIRED, reason(ended))),
            }
        };
        // Nobody may be held up by one who does not close.
        let leaving = websocket::leave(from_client, to_client, close.as_ref());
        timeout(FAREWELL, leaving).await.ok();
    }
}

/// Sends what comes; how the connection is to be closed when that ends, `None`: the client has gone.
async fn hear(
    gateway: &Gateway,
    client: &Client,
    mut reader: Reader,
    to_client: &mut Writer<ClientLine>,
) -> Option<Close> {
    // Its first tick is not waited for: what the client publishes at once is heard at once.
    let mut beat = interval_at(Instant::now() + client.every, client.every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut messages = Vec::new();
    loop {
        let mut has_gap = false;
        let stepping = poll_fn(|context| {
            reader.poll_step(context, BATCH_BYTES, |entry| {
                has_gap |= entry.is_gap;
                if client.can_hear && !entry.is_gap {
                    messages.push(Arc::clone(&entry.message));
                }
            })
        });
        let step = tokio::select! {
            step = stepping => Some(step),
            _ = beat.tick() => None,
        };
        // The ring was locked before, and a plan may have to be noted on disk.
        let (mut count, mut denied) = (0, None);
        for message in messages.drain(..) {
            let taken = client
                .admission
                .take(message.payload().len(), SystemTime::now());
            denied = taken.err();
            if denied.is_some() {
                break;
            }
            to_client.shared([&*message]);
            count += 1;
        }
        match step {
            Some(Step::Events) => {}
            Some(Step::End(End::Slow)) => return Some(missed(gateway, client, None)),
            Some(Step::End(end)) => return Some(Close::new(Code::AWAY, end.reason())),
            Some(Step::Gap { missed: count, .. }) => {
                gateway.counts.gaps.add(1);
                return Some(missed(gateway, client, count));
            }
            None => to_client.ping(b""),
        }
        match flushed(to_client).await {
            Some(Ok(())) => gateway.counts.delivered.add(count),
            Some(Err(_)) => return None,
            // It hears so if it reads again in time.
            None => return Some(missed(gateway, client, None)),
        }
        if let Some(denied) = denied {
            return Some(too_much(gateway, &denied));
        }
        if has_gap && client.can_hear {
            gateway.counts.gaps.add(1);
            let why = "the backend was away: events may be missing";
            return Some(Close::new(Code::AGAIN, why));
        }
    }
}

/// How a client is closed that was too slow: among payloads nothing can say that some are missing.
fn missed(gateway: &Gateway, client: &Client, count: Option<u64>) -> Close {
    gateway.counts.slow.add(1);
    let (topic, peer) = (client.topic.name.as_str(), client.peer);
    tracing::warn!(topic, %peer, missed = count, "disconnecting client: it reads too slowly");
    let reason = match count {
        Some(count) => format!("slow: {count} events were missed"),
        None => "slow: events were missed".to_owned(),
    };
    Close::new(Code::AGAIN, reason)
}

/// Waits until the client has taken what is queued; `None`: it has taken too little for too long.
async fn flushed(to_client: &mut Writer<ClientLine>) -> Option<io::Result<()>> {
    let mut limit = None;
    poll_fn(|context| {
        if let Poll::Ready(flushed) = to_client.poll_flush(context) {
            return Poll::Ready(Some(flushed));
        }
        // Most clients take all at once, and need no timer.
        let limit = limit.get_or_insert_with(|| Box::pin(sleep(SLOW_MAX)));
        limit.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// How a client is closed whose plan has no room.
pub(super) fn too_much(gateway: &Gateway, denied: &Denied) -> Close {
    gateway.counts.refused.throttled.add(1);
    let seconds = denied.retry_after(SystemTime::now());
    let why = format!("{}; it begins anew in {seconds} s", denied.limit);
    Close::new(THROTTLED, why)
}

/// A message that is no event but a further token: `{"authorization":"Bearer TOKEN"}` and nothing else.
fn renewal(payload: &[u8]) -> Option<&str> {
    let rest = payload
        .trim_ascii()
        .strip_prefix(b"{\"authorization\":\"Bearer ")?;
    let token = std::str::from_utf8(rest.strip_suffix(b"\"}")?).ok()?;
    // Nothing of what a token is made of has to be escaped.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    token.bytes().all(is_plain).then_some(token)
}

/// Takes what the client publishes; how the connection is to be closed when that ends.
async fn read(
    gateway: &Gateway,
    client: &Client,
    ring: &Ring,
    from_client: &mut FromClient<ClientLine>,
) -> Option<Close> {
    loop {
        let (payload, is_text) = match from_client.next().await {
            Ok(Some(Event::Message { kind, payload })) => (payload, kind.is_text()),
            Ok(Some(Event::Close(_)) | None) => {
                tokio::task::yield_now().await;
                return None;
            }
            Ok(Some(Event::Ping(_) | Event::Pong(_))) => continue,
            Err(unread) => {
                // The client hears what it published before: that is looked at first.
                tokio::task::yield_now().await;
                let close = close_of(&unread);
                let is_fault = close.is_some();
                gateway.counts.refused.payload.add(u64::from(is_fault));
                return close;
            }
        };
        if let Some(token) = renewal(&payload) {
            let now = SystemTime::now();
            if let Err(refusal) = client.admission.renew(token, &client.scopes, now).await {
                gateway.counts.refused.access.add(1);
                return Some(Close::new(EXPIRED, refusal.cause.name()));
            }
            continue;
        }
        let is_taken = !matches!(client.publishes, Publishes::Nowhere);
        let taken = client.admission.take(payload.len(), SystemTime::now());
        if let (true, Err(denied)) = (is_taken, taken) {
            return Some(too_much(gateway, &denied));
        }
        let mut dead = None;
        let judged = || {
            let served = &client.served;
            served.fault_of(client.number, &payload, gateway, client.peer)
        };
        if let Some(misfit) = is_taken.then(judged).flatten() {
            if !misfit.is_kept {
                return Some(Close::new(Code::INVALID, misfit.cause));
            }
            dead = Some(misfit.cause);
        }
        match &client.publishes {
            Publishes::Nowhere => {
                gateway.counts.refused.method.add(1);
                let why = "nobody may publish to this topic";
                return Some(Close::new(Code::POLICY, why));
            }
            Publishes::Ring => {
                ring.publish(&payload, is_text, "").await;
                client.topic.bound(ring);
            }
            Publishes::Stream(properties) => {
                if hand_over(client, (payload, dead), properties)
                    .await
                    .is_none()
                {
                    gateway.counts.refused.busy.add(1);
                    let reason = "the app behind this topic is not running";
                    return Some(Close::new(Code::AGAIN, reason));
                }
            }
        }
        gateway.counts.published.add(1);
    }
}

/// Brings a message to the source, which may be made anew meanwhile; `None` where it does not come.
async fn hand_over(
    client: &Client,
    (payload, dead): (bytes::Bytes, Option<String>),
    properties: &[Value],
) -> Option<()> {
    let until = tokio::time::Instant::now() + SLOW_MAX;
    loop {
        let inlet = client.topic.inlet_until(until).await?;
        let mut properties = properties.to_vec();
        properties.resize(inlet.names.len(), Value::Null);
        let delivery = Delivery::of(Payload::Utf8(payload.clone()), properties);
        let delivery = match &dead {
            Some(cause) => delivery.dead(cause.clone()),
            None => delivery,
        };
        // It may be closed while it is full: then another one comes.
        if inlet.ingress.push(delivery).await.is_ok() {
            return Some(());
        }
    }
}
