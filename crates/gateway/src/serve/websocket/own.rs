//! A client of a topic that is ours: it hears what comes, and publishes.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use connect::net::gateway::Protocol;
use connect::net::{Body as Payload, Delivery};
use event::Value;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::Request;
use hyper::body::Incoming;
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message as Frame, Utf8Bytes};

use super::super::access::reason;
use super::super::{Peer, publish};
use super::{EXPIRED, Socket, THROTTLED, close, close_of};
use crate::access::Admission;
use crate::gateway::{Found, Gateway};
use crate::model::Binding;
use crate::plan::Denied;
use crate::ring::{End, From, Reader, Ring, SLOW_MAX, Step};
use crate::topic::TopicState;

/// Bytes of events that are written at once.
const BATCH_BYTES: usize = 16 << 10;

/// Longest wait for the other side's part of a closing handshake.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a client does with its topic.
pub(super) struct Client {
    topic: Arc<TopicState>,
    values: Vec<String>,
    can_hear: bool,
    publishes: Publishes,
    every: Duration,
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
            can_hear: topic.subscribe.is_some(),
            publishes,
            every: found.served.api.heartbeat,
            peer: peer.address,
            values: found.values,
            admission,
            scopes,
        }
    }

    pub async fn run(self, gateway: Arc<Gateway>, socket: Socket) {
        let Ok(ring) = self.topic.ring(Protocol::WebSocket, &self.values) else {
            return;
        };
        let (mut sink, mut stream) = socket.split();
        let end = {
            let hearing = hear(&gateway, &self, &ring, &mut sink);
            let reading = read(&gateway, &self, &ring, &mut stream);
            tokio::select! {
                end = hearing => end,
                end = reading => end,
                ended = self.admission.ended() => Some(close(EXPIRED, reason(ended))),
            }
        };
        let Some(frame) = end else {
            return;
        };
        let farewell = async {
            sink.send(Frame::Close(Some(frame))).await.ok()?;
            // Its answer, or its end.
            while let Some(Ok(_)) = stream.next().await {}
            Some(())
        };
        tokio::time::timeout(FAREWELL, farewell).await.ok();
    }
}

/// Sends what comes; how the connection is to be closed when that ends, `None`: the client has gone.
async fn hear(
    gateway: &Gateway,
    client: &Client,
    ring: &Arc<Ring>,
    sink: &mut SplitSink<Socket, Frame>,
) -> Option<CloseFrame> {
    let mut reader = Reader::new(ring, &From::Now);
    let mut beat = interval(client.every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.tick().await;
    let mut frames = Vec::new();
    loop {
        let (mut has_gap, mut denied) = (false, None);
        let mut entries = Vec::new();
        let stepping = poll_fn(|context| {
            reader.poll_step(context, BATCH_BYTES, |entry| {
                has_gap |= entry.is_gap;
                if client.can_hear && !entry.is_gap {
                    entries.push((entry.payload.clone(), entry.is_text));
                }
            })
        });
        let step = tokio::select! {
            step = stepping => Some(step),
            _ = beat.tick() => None,
        };
        // The ring was locked before, and a plan may have to be noted on disk.
        for (payload, is_text) in entries {
            denied = client
                .admission
                .take(payload.len(), SystemTime::now())
                .err();
            if denied.is_some() {
                break;
            }
            frames.push(frame(&payload, is_text));
        }
        match step {
            Some(Step::Events) => {}
            Some(Step::End(End::Slow)) => {
                gateway.counts.slow.add(1);
                return Some(close(CloseCode::Again, "slow: events were missed"));
            }
            Some(Step::End(end)) => return Some(close(CloseCode::Away, end.reason())),
            Some(Step::Gap { missed, .. }) => {
                gateway.counts.gaps.add(1);
                if !ring.is_latest() {
                    // Among payloads nothing can say so.
                    let missed = missed.unwrap_or_default();
                    let reason = format!("slow: {missed} events were missed");
                    return Some(close(CloseCode::Again, &reason));
                }
            }
            None => frames.push(Frame::Ping(Bytes::new())),
        }
        let count = frames.iter().filter(|frame| !frame.is_ping()).count();
        let sending = async {
            for frame in frames.drain(..) {
                sink.feed(frame).await?;
            }
            sink.flush().await
        };
        match tokio::time::timeout(SLOW_MAX, sending).await {
            Ok(Ok(())) => gateway.counts.delivered.add(count as u64),
            Ok(Err(_)) => return None,
            Err(_) => {
                gateway.counts.slow.add(1);
                let (topic, peer) = (client.topic.name.as_str(), client.peer);
                tracing::warn!(topic, %peer, "disconnecting client: it reads too slowly");
                return None;
            }
        }
        if let Some(denied) = denied {
            return Some(too_much(gateway, &denied));
        }
        if has_gap && client.can_hear {
            return Some(close(
                CloseCode::Again,
                "the backend was away: events may be missing",
            ));
        }
    }
}

/// How a client is closed whose plan has no room.
pub(super) fn too_much(gateway: &Gateway, denied: &Denied) -> CloseFrame {
    gateway.counts.refused.throttled.add(1);
    let seconds = denied.retry_after(SystemTime::now());
    close(
        THROTTLED,
        &format!("{}; it begins anew in {seconds} s", denied.limit),
    )
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

fn frame(payload: &bytes::Bytes, is_text: bool) -> Frame {
    match is_text.then(|| Utf8Bytes::try_from(payload.clone())) {
        Some(Ok(text)) => Frame::Text(text),
        _ => Frame::Binary(payload.clone()),
    }
}

/// Takes what the client publishes; how the connection is to be closed when that ends.
async fn read(
    gateway: &Gateway,
    client: &Client,
    ring: &Ring,
    stream: &mut SplitStream<Socket>,
) -> Option<CloseFrame> {
    while let Some(read) = stream.next().await {
        let payload: bytes::Bytes = match read {
            Ok(Frame::Text(text)) => text.into(),
            Ok(Frame::Binary(bytes)) => bytes,
            Ok(Frame::Close(_)) => return None,
            Ok(_) => continue,
            Err(error) => {
                let close = close_of(&error);
                gateway
                    .counts
                    .refused
                    .payload
                    .add(u64::from(close.is_some()));
                return close;
            }
        };
        if let Some(token) = renewal(&payload) {
            let now = SystemTime::now();
            if let Err(refusal) = client.admission.renew(token, &client.scopes, now).await {
                gateway.counts.refused.access.add(1);
                return Some(close(EXPIRED, refusal.cause.name()));
            }
            continue;
        }
        let is_taken = !matches!(client.publishes, Publishes::Nowhere);
        let taken = client.admission.take(payload.len(), SystemTime::now());
        if let (true, Err(denied)) = (is_taken, taken) {
            return Some(too_much(gateway, &denied));
        }
        match &client.publishes {
            Publishes::Nowhere => {
                gateway.counts.refused.method.add(1);
                return Some(close(CloseCode::Policy, "nobody may publish to this topic"));
            }
            Publishes::Ring => {
                let is_text = std::str::from_utf8(&payload).is_ok();
                ring.publish(&payload, is_text, "").await;
                client.topic.bound(ring);
            }
            Publishes::Stream(properties) => {
                if hand_over(client, payload, properties).await.is_none() {
                    gateway.counts.refused.busy.add(1);
                    let reason = "the app behind this topic is not running";
                    return Some(close(CloseCode::Again, reason));
                }
            }
        }
        gateway.counts.published.add(1);
    }
    None
}

/// Brings a message to the source, which may be made anew meanwhile; `None` where it does not come.
async fn hand_over(client: &Client, payload: bytes::Bytes, properties: &[Value]) -> Option<()> {
    let until = tokio::time::Instant::now() + SLOW_MAX;
    loop {
        let inlet = client.topic.inlet_until(until).await?;
        let mut properties = properties.to_vec();
        properties.resize(inlet.names.len(), Value::Null);
        let delivery = Delivery::of(Payload::Utf8(payload.clone()), properties);
        // It may be closed while it is full: then another one comes.
        if inlet.ingress.push(delivery).await.is_ok() {
            return Some(());
        }
    }
}
