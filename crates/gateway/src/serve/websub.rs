//! The hub of an API: POST at its base path, by the letter of the recommendation.

use std::time::SystemTime;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LINK, LOCATION};
use hyper::{Method, Request, StatusCode};

use super::answer::{Answer, busy, bytes, refused};
use super::{Peer, Port, access, backend, fetch, publish};
use crate::access::Turned;
use crate::gateway::{Found, Served};
use crate::hub::Asking;
use crate::model::{Binding, Operation};
use crate::topic::ADDRESSES_MAX;
use connect::net::websub;
use connect::url::Url;

/// Longest form of a subscriber.
const FORM_BYTES_MAX: usize = 64 << 10;

/// Is the path the one of an API's hub?
pub(super) fn is_hub(served: &Served, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    served.api.protocols.websub && served.api.bases.iter().any(|base| base == path)
}

/// A request to subscribe, or to end that.
pub(super) async fn answer(
    mut request: Request<Incoming>,
    served: &std::sync::Arc<Served>,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let counts = &port.gateway.counts.refused;
    if *request.method() != Method::POST {
        counts.method.add(1);
        let why =
            "this is the hub of an API: POST a form with hub.mode, hub.topic and hub.callback";
        return refused(StatusCode::METHOD_NOT_ALLOWED, why);
    }
    if let Some(moved) = &served.api.hub.moved
        && let Ok(place) = HeaderValue::from_str(moved)
    {
        let mut answer = bytes(
            StatusCode::PERMANENT_REDIRECT,
            "text/plain",
            format!("the hub of this API is {moved} now\n"),
        );
        answer.headers_mut().insert(LOCATION, place);
        return answer;
    }
    let kind = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind
        .and_then(|kind| kind.split(';').next())
        .unwrap_or_default()
        .trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        counts.payload.add(1);
        let why = "the parameters are sent as a form (application/x-www-form-urlencoded)\n";
        return bytes(StatusCode::UNSUPPORTED_MEDIA_TYPE, "text/plain", why);
    }
    let hub = own_url(request.headers(), peer, &served.api.bases[0]);
    let headers = request.headers().clone();
    let query = request.uri().query().map(str::to_owned);
    let body = std::mem::take(request.headers_mut());
    let (_, incoming) = request.into_parts();
    let form = match publish::read(incoming, &body, FORM_BYTES_MAX, port).await {
        Ok((form, _)) => form,
        Err(unread) => {
            counts.payload.add(1);
            return unread.answer(FORM_BYTES_MAX);
        }
    };
    let Ok(form) = std::str::from_utf8(&form) else {
        counts.payload.add(1);
        return bytes(
            StatusCode::BAD_REQUEST,
            "text/plain",
            "the form is not UTF-8\n",
        );
    };
    let parameters = websub::parameters(form);
    let is_ping = |(name, value): &(String, String)| name == "hub.mode" && value == "publish";
    if parameters.iter().any(is_ping) {
        return changed(&parameters, (headers, query), served, port, peer).await;
    }
    let wanted = parameters.into_iter().find(|(name, _)| name == "hub.topic");
    let found = wanted.and_then(|(_, topic)| topic_of(served, port, &topic));
    // Who subscribes hears the topic; without a topic the form is refused below, whoever sends it.
    let operation = match &found {
        Some(found) => served.topics[found.topic].0.subscribe.clone(),
        None => Some(Operation::default()),
    };
    let Some(operation) = operation else {
        counts.method.add(1);
        return bytes(
            StatusCode::FORBIDDEN,
            "text/plain",
            "nobody may hear this topic\n",
        );
    };
    let application = match &found {
        None => None,
        Some(found) => {
            let mut shown = shown(headers, query);
            match access::admit(&mut shown, &operation, found, None, port, peer).await {
                Ok(admission) => admission
                    .principal()
                    .and_then(|one| one.application.clone()),
                Err(refusal) => return *refusal,
            }
        }
    };
    let api = crate::access::id_of(&served.api).to_ascii_lowercase();
    let topic = |text: &str| {
        let found = topic_of(served, port, text)?;
        Some(served.topics[found.topic].0.address.filled(&found.values))
    };
    let asking = Asking {
        api: &api,
        form,
        topic: &topic,
        hub,
        application,
    };
    let told = port.gateway.hub.ask(&asking).await;
    if !told.status.is_success() {
        let why = told.reason.trim_end();
        tracing::warn!(api, peer = %peer.address(), why, "request to the hub refused");
        match told.status {
            StatusCode::TOO_MANY_REQUESTS => counts.throttled.add(1),
            _ => counts.payload.add(1),
        }
    }
    bytes(told.status, "text/plain", told.reason)
}

/// What of a request shows who has sent it.
fn shown(headers: HeaderMap, query: Option<String>) -> Request<()> {
    let mut shown = Request::new(());
    *shown.headers_mut() = headers;
    let uri = query.and_then(|query| format!("/?{query}").parse().ok());
    *shown.uri_mut() = uri.unwrap_or_default();
    shown
}

/// A publisher says that topics have changed (`hub.mode=publish`): what their backends have now is fetched, and goes to
/// who has subscribed where it is new.
async fn changed(
    parameters: &[(String, String)],
    (headers, query): (HeaderMap, Option<String>),
    served: &std::sync::Arc<Served>,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let counts = &port.gateway.counts.refused;
    let plain = |status, why: &str| bytes(status, "text/plain", format!("{why}\n"));
    let is_topic = |(name, _): &&(String, String)| matches!(name.as_str(), "hub.topic" | "hub.url");
    let mut wanted = parameters.iter().filter(is_topic);
    let (Some((_, wanted)), None) = (wanted.next(), wanted.next()) else {
        counts.payload.add(1);
        return plain(StatusCode::BAD_REQUEST, "one 'hub.topic' is needed");
    };
    let Some(found) = topic_of(served, port, wanted) else {
        counts.unknown.add(1);
        return plain(
            StatusCode::NOT_FOUND,
            "'hub.topic' is not a topic of this hub",
        );
    };
    let (topic, state) = &served.topics[found.topic];
    let Some(operation) = &topic.publish else {
        counts.method.add(1);
        return plain(StatusCode::FORBIDDEN, "nobody may publish to this topic");
    };
    let mut shown = shown(headers, query);
    let admitted = access::admit(&mut shown, operation, &found, None, port, peer).await;
    let admission = match admitted {
        Ok(admission) => admission,
        Err(refusal) => return *refusal,
    };
    let url = match &topic.binding {
        Binding::Backend {
            url,
            is_websocket: false,
            ..
        } => backend::filled(url, topic.parameters(), &found.values),
        _ => {
            counts.method.add(1);
            let why = "this topic has no backend to fetch from: POST its content to the topic";
            return plain(StatusCode::BAD_REQUEST, why);
        }
    };
    let mut known = state.fetched.lock().await;
    let values: Box<[String]> = found.values.clone().into();
    let max = admission.message_max(served.api.message_max);
    let content = match fetch::content(&port.gateway, &url, known.get(&values), max).await {
        Ok(Some(content)) => content,
        Ok(None) => return plain(StatusCode::ACCEPTED, "it has not changed"),
        Err(error) => {
            counts.backend.add(1);
            tracing::warn!(topic = state.name, cause = %error, "cannot fetch a topic from its backend");
            let why = "the backend of this topic does not give its content";
            return plain(StatusCode::BAD_GATEWAY, why);
        }
    };
    let now = SystemTime::now();
    if let Err(denied) = admission.take(content.body.len(), now) {
        counts.throttled.add(1);
        let (access, who) = (&port.gateway.access, admission.principal());
        let (api, peer) = (&served.api, peer.address().ip());
        access.tell_throttled(api, topic.address(), peer, (who.as_deref(), &denied));
        return access::answer(&Turned::Throttled(denied), now);
    }
    let api = crate::access::id_of(&served.api).to_ascii_lowercase();
    let filled = topic.address.filled(&found.values);
    let kept = port
        .gateway
        .hub
        .publish(&api, &filled, &content.kind, &content.body);
    if let Err(error) = kept {
        tracing::error!(cause = %error, "cannot keep an event for callbacks");
        return busy("the event cannot be kept now");
    }
    if known.len() >= ADDRESSES_MAX {
        // Who is forgotten may be delivered once more.
        known.clear();
    }
    known.insert(values, content.fetched);
    port.gateway.counts.published.add(1);
    bytes(StatusCode::ACCEPTED, "text/plain", "")
}

/// The topic that a subscriber means: its address below the API, or its URL.
fn topic_of(served: &std::sync::Arc<Served>, port: &Port, text: &str) -> Option<Found> {
    let path = match Url::parse(text) {
        Some(url) => url.path,
        None => format!("{}/{}", served.api.bases[0], text.trim_start_matches('/')),
    };
    let found = port.gateway.table().find(&path).ok()?;
    std::sync::Arc::ptr_eq(&found.served, served).then_some(found)
}

fn own_url(headers: &HeaderMap, peer: &Peer, path: &str) -> String {
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let scheme = if peer.is_tls() { "https" } else { "http" };
    format!("{scheme}://{host}{path}")
}

/// `Link` with the hub and the topic, by which a subscriber finds both (WebSub 4).
pub(super) fn links(
    headers: &HeaderMap,
    found: &Found,
    path: &str,
    peer: &Peer,
) -> Option<(hyper::header::HeaderName, HeaderValue)> {
    if !found.served.api.protocols.websub {
        return None;
    }
    let hub = own_url(headers, peer, &found.served.api.bases[0]);
    let topic = own_url(headers, peer, path);
    Some((LINK, websub::links(Some(&hub), &topic)?))
}
