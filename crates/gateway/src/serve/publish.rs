//! A client publishes to a topic by a POST, which is answered when what it brought is safe.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use connect::arrivals::Account;
use connect::net::{Body as Payload, Clock, Delivery, Late, Pace};
use event::Value;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde_json::Value as Json;
use tokio::time::Instant;

use super::answer::{Answer, busy, empty, refused};
use super::{Peer, Port, access, backend, webhook};
use crate::access::{Admission, Turned};
use crate::gateway::{Found, Misfit};
use crate::model::{Binding, Operation, Webhook};
use crate::topic::InletState;

/// Longest wait for the source of an app that is made anew.
const REMADE_MAX: Duration = Duration::from_secs(5);

/// A client is told to come again when what it has sent could not be taken or saved for so long.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Longest wait for bytes of the budget.
const ROOM_MAX: Duration = Duration::from_secs(30);

pub(super) async fn answer(
    mut request: Request<Incoming>,
    found: Found,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let (topic, _) = &found.served.topics[found.topic];
    let counts = &port.gateway.counts;
    let Some(operation) = &topic.publish else {
        counts.refused.method.add(1);
        return refused(
            StatusCode::METHOD_NOT_ALLOWED,
            "nobody may publish to this topic",
        );
    };
    // The signature of a webhook is who it is.
    let is_signed = topic.webhook.as_ref().is_some_and(Webhook::has_secret);
    let open = Operation::default();
    let operation = if is_signed { &open } else { operation };
    let admitted = access::admit(&mut request, operation, &found, None, port, peer).await;
    let admission = match admitted {
        Ok(admission) => admission,
        Err(refusal) => return *refusal,
    };
    let (head, body) = request.into_parts();
    let max = admission.message_max(found.served.api.message_max);
    let (body, account) = match read(body, &head.headers, max, port).await {
        Ok(read) => read,
        Err(unread) => {
            counts.refused.payload.add(1);
            return unread.answer(max);
        }
    };
    let (topic, state) = &found.served.topics[found.topic];
    let place = match webhook::judge(topic, state, (&head.headers, &body), port, peer) {
        Ok(place) => place,
        Err(answer) => return *answer,
    };
    let mut told = HeaderMap::new();
    let now = SystemTime::now();
    if let Err(turned) = admission.take_one(body.len(), &mut told, now) {
        counts.refused.throttled.add(1);
        let (topic, _) = &found.served.topics[found.topic];
        let (api, peer) = (&found.served.api.name, peer.address().ip());
        let access = &port.gateway.access;
        access.note_refused(api, topic.address(), peer, &turned);
        if let Turned::Throttled(denied) = &turned {
            let who = admission.principal();
            let (api, topic) = (&found.served.api, topic.address());
            access.tell_throttled(api, topic, peer, (who.as_deref(), denied));
        }
        return access::answer(&turned, now);
    }
    let mut answer = handed(&head, (body, account), &admission, &found, port, peer).await;
    answer.headers_mut().extend(told);
    if let Some(place) = place.filter(|_| answer.status().is_success()) {
        place.keep();
    }
    answer
}

/// Brings a message that was let through to where its topic leads.
pub(super) async fn handed(
    head: &Parts,
    (body, account): (Bytes, Account),
    admission: &Admission,
    found: &Found,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let (topic, state) = &found.served.topics[found.topic];
    let counts = &port.gateway.counts;
    let served = &found.served;
    let misfit = served.fault_of(found.topic, &body, &port.gateway, peer.address());
    if let Some(Misfit { cause, .. }) = misfit.as_ref().filter(|misfit| !misfit.is_kept) {
        return refused(StatusCode::BAD_REQUEST, &format!("rejected: {cause}"));
    }
    if let Binding::Backend { url, .. } = &topic.binding {
        let url = backend::filled(url, topic.parameters(), &found.values);
        let url = backend::asked(url, head.uri.query());
        return backend::forward(head, body, &url, port, peer).await;
    }
    let is_own = topic.binding == Binding::Own && !state.has_outlets();
    let inlet = match state.inlet() {
        Some(inlet) if !inlet.ingress.is_closed() => Some(inlet),
        None if is_own => None,
        _ => state.inlet_until(Instant::now() + REMADE_MAX).await,
    };
    if let Some(inlet) = inlet {
        let properties = properties(&inlet, &head.headers, found, admission, peer);
        let delivery = Delivery::of(Payload::Utf8(body), properties).holding(account);
        let delivery = match misfit {
            Some(misfit) => delivery.dead(misfit.cause),
            None => delivery,
        };
        return hand_over(&inlet, delivery, port).await;
    }
    if !is_own {
        counts.refused.busy.add(1);
        return busy("the app behind this topic takes nothing now");
    }
    let Ok(ring) = state.ring(connect::net::gateway::Protocol::Sse, &found.values) else {
        counts.refused.busy.add(1);
        return busy("too many addresses of this topic are listened to");
    };
    let is_text = std::str::from_utf8(&body).is_ok();
    if found.served.api.protocols.websub {
        let given = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        // What curl says of every body.
        let given = given.filter(|kind| *kind != "application/x-www-form-urlencoded");
        let kind = given.unwrap_or_else(|| crate::topic::kind_of(&body, is_text));
        let api = crate::access::id_of(&found.served.api).to_ascii_lowercase();
        let filled = topic.address.filled(&found.values);
        if let Err(error) = port.gateway.hub.publish(&api, &filled, kind, &body) {
            tracing::error!(cause = %error, "cannot keep an event for callbacks");
            return busy("the event cannot be kept now");
        }
    }
    ring.publish(&body, is_text, "").await;
    state.bound(&ring);
    counts.published.add(1);
    empty(StatusCode::ACCEPTED)
}

/// Brings a message to its source, and waits until it is mapped and, where the source saves, saved.
async fn hand_over(inlet: &InletState, delivery: Delivery, port: &Port) -> Answer {
    let counts = &port.gateway.counts;
    let (delivery, verdict) = delivery.with_verdict();
    let (delivery, saved) = match inlet.is_durable {
        true => {
            let (delivery, saved) = delivery.with_receipt();
            (delivery, Some(saved))
        }
        false => (delivery, None),
    };
    let taken = async {
        inlet.ingress.push(delivery).await.ok()?;
        let refusal = verdict.await.ok()?;
        if refusal.is_none()
            && let Some(saved) = saved
        {
            saved.await.ok()?;
        }
        Some(refusal)
    };
    match tokio::time::timeout(ANSWER_MAX, taken).await {
        Ok(Some(None)) => {
            counts.published.add(1);
            empty(StatusCode::ACCEPTED)
        }
        Ok(Some(Some(cause))) => {
            counts.refused.payload.add(1);
            refused(StatusCode::BAD_REQUEST, &format!("rejected: {cause}"))
        }
        Ok(None) => {
            counts.refused.busy.add(1);
            busy("the app behind this topic is not running")
        }
        Err(_) => {
            counts.refused.busy.add(1);
            busy("the app behind this topic is busy: what it writes to takes nothing now")
        }
    }
}

/// What a source asks for beside the payload, by `trp:NAME`.
pub(super) fn properties(
    inlet: &InletState,
    headers: &HeaderMap,
    found: &Found,
    admission: &Admission,
    peer: &Peer,
) -> Vec<Value> {
    let (topic, _) = &found.served.topics[found.topic];
    let principal = admission.principal();
    let value = |name: &String| {
        if let Some(parameter) = name.strip_prefix("topic.") {
            let at = topic.parameters().iter().position(|own| own == parameter);
            return at.map_or(Value::Null, |at| Value::str(&found.values[at]));
        }
        if let Some(claim) = name.strip_prefix("jwt.") {
            let claim = principal
                .as_ref()
                .and_then(|principal| principal.claims.get(claim));
            return claim.map_or(Value::Null, value_of_claim);
        }
        match name.as_str() {
            "application" => {
                let application = principal
                    .as_ref()
                    .and_then(|one| one.application.as_deref());
                application.map_or(Value::Null, Value::str)
            }
            "remote.address" => Value::str(&peer.address().ip().to_string()),
            _ => match headers.get(name) {
                Some(value) => Value::str(&String::from_utf8_lossy(value.as_bytes())),
                None => Value::Null,
            },
        }
    };
    inlet.names.iter().map(value).collect()
}

/// Texts as they are, what is not a text as JSON.
fn value_of_claim(claim: &Json) -> Value {
    match claim {
        Json::Null => Value::Null,
        Json::String(text) => Value::str(text),
        other => Value::str(&other.to_string()),
    }
}

/// Why a body was not read.
pub(super) enum Unread {
    TooLong,
    Broken,
    Late(Late),
    Crowded,
}

impl Unread {
    pub fn answer(&self, max: usize) -> Answer {
        match self {
            Unread::TooLong => {
                let why = format!("a message of this API has {max} bytes at most");
                refused(StatusCode::PAYLOAD_TOO_LARGE, &why)
            }
            Unread::Broken => refused(StatusCode::BAD_REQUEST, "the body is not complete"),
            Unread::Late(late) => {
                let why = format!("the body came too slowly: {late}");
                refused(StatusCode::REQUEST_TIMEOUT, &why)
            }
            Unread::Crowded => busy("other requests take all memory for bodies"),
        }
    }
}

/// Reads a body in its time and within the budget of the server.
pub(super) async fn read(
    mut body: Incoming,
    headers: &HeaderMap,
    max: usize,
    port: &Port,
) -> Result<(Bytes, Account), Unread> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > max) {
        return Err(Unread::TooLong);
    }
    let mut account = Arc::clone(&port.gateway.arrivals).open();
    let mut clock = Clock::start(Pace::default());
    let mut whole = Vec::new();
    while !body.is_end_stream() {
        let frame = clock
            .wait(&port.crowd, body.frame())
            .await
            .map_err(Unread::Late)?;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else {
            continue;
        };
        let len = whole.len() + data.len();
        if len > max || !account.fits(len) {
            return Err(Unread::TooLong);
        }
        let held = tokio::time::timeout(ROOM_MAX, account.hold(len));
        clock.stopped(held).await.map_err(|_| Unread::Crowded)?;
        whole.extend_from_slice(&data);
    }
    Ok((whole.into(), account))
}
