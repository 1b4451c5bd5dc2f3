//! Topics that webhooks publish to.

use std::time::{Instant, SystemTime};

use hyper::header::{ALLOW, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, StatusCode};

use super::answer::{Answer, busy, bytes, empty, refused};
use super::{Peer, Port};
use crate::model::{Preset, Topic};
use crate::topic::TopicState;
use crate::webhook::{Place, Taken};

const REQUEST_ORIGIN: HeaderName = HeaderName::from_static("webhook-request-origin");
const REQUEST_RATE: HeaderName = HeaderName::from_static("webhook-request-rate");
const ALLOWED_ORIGIN: HeaderName = HeaderName::from_static("webhook-allowed-origin");
const ALLOWED_RATE: HeaderName = HeaderName::from_static("webhook-allowed-rate");

/// The answer to who asks whether events may be sent (CloudEvents' HTTP webhooks, 4): they may, as often as is asked
/// for; what a plan has no room for is answered 429. `None`: nobody asks that here.
pub(super) fn handshake<B>(request: &Request<B>, topic: &Topic) -> Option<Answer> {
    let webhook = topic.webhook.as_ref()?;
    let origin = request.headers().get(REQUEST_ORIGIN)?;
    if webhook.from != Preset::CloudEvents {
        return None;
    }
    let mut answer = empty(StatusCode::OK);
    let into = answer.headers_mut();
    into.insert(ALLOWED_ORIGIN, origin.clone());
    let rate = request.headers().get(REQUEST_RATE).cloned();
    into.insert(ALLOWED_RATE, rate.unwrap_or(HeaderValue::from_static("*")));
    into.insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
    Some(answer)
}

/// Judges an event; the place that it has while it is taken, where it has an id. `Err`: the answer to it.
pub(super) fn judge<'s>(
    topic: &Topic,
    state: &'s TopicState,
    (headers, body): (&HeaderMap, &[u8]),
    port: &Port,
    peer: &Peer,
) -> Result<Option<Place<'s>>, Box<Answer>> {
    let Some(webhook) = &topic.webhook else {
        return Ok(None);
    };
    let now = SystemTime::now();
    let now = crate::news::millis(now) / 1000;
    let genuine = webhook.judge(headers, body, now).map_err(|fake| {
        port.gateway.counts.refused.access.add(1);
        let (topic, from, cause) = (state.name.as_str(), webhook.from.name(), fake.cause());
        if let Some(times) = port.gateway.fakes.note() {
            tracing::warn!(topic, peer = %peer.address(), from, cause, times, "event of a webhook refused");
        }
        Box::new(refused(StatusCode::UNAUTHORIZED, cause))
    })?;
    if let Some(reply) = genuine.reply {
        return Err(Box::new(bytes(StatusCode::OK, "text/plain", reply)));
    }
    let Some(id) = genuine.id else {
        return Ok(None);
    };
    match state.seen.begin(&id, Instant::now()) {
        Taken::New(place) => Ok(Some(place)),
        Taken::Before => {
            port.gateway.counts.repeated.add(1);
            Err(Box::new(empty(StatusCode::ACCEPTED)))
        }
        Taken::Meanwhile => Err(Box::new(busy("the same event is being taken just now"))),
    }
}
