//! The hub of an API: POST at its base path, by the letter of the recommendation.

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LINK};
use hyper::{Method, Request, StatusCode};

use super::answer::{Answer, bytes, refused};
use super::{Peer, Port, access, publish};
use crate::gateway::{Found, Served};
use crate::hub::Asking;
use crate::model::Operation;
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
    let wanted = websub::parameters(form)
        .into_iter()
        .find(|(name, _)| name == "hub.topic");
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
            let mut shown = Request::new(());
            *shown.headers_mut() = headers;
            let uri = query.and_then(|query| format!("/?{query}").parse().ok());
            *shown.uri_mut() = uri.unwrap_or_default();
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
        tracing::warn!(api, peer = %peer.address, why, "request to the hub refused");
        match told.status {
            StatusCode::TOO_MANY_REQUESTS => counts.throttled.add(1),
            _ => counts.payload.add(1),
        }
    }
    bytes(told.status, "text/plain", told.reason)
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
    let scheme = if peer.is_tls { "https" } else { "http" };
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
