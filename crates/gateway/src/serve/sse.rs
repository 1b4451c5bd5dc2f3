//! A client hears a topic by server-sent events.

use hyper::body::Incoming;
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use connect::net::gateway::Protocol;

use super::answer::{Answer, busy, empty, refused};
use super::stream::{Body, Events};
use super::{Peer, Port, access, backend, shared};
use crate::gateway::Found;
use crate::model::{Binding, Upstream};
use crate::ring::{From, Reader};

pub(super) const LAST_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Longest id that is looked at.
const ID_BYTES_MAX: usize = 1024;

pub(super) async fn answer(
    mut request: Request<Incoming>,
    found: Found,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let (topic, state) = &found.served.topics[found.topic];
    let counts = &port.gateway.counts.refused;
    let Some(operation) = &topic.subscribe else {
        counts.method.add(1);
        return refused(StatusCode::METHOD_NOT_ALLOWED, "nobody may hear this topic");
    };
    let is_stream = *request.method() == Method::GET && takes_events(request.headers());
    let stream = is_stream.then_some(Protocol::Sse);
    let admitted = access::admit(&mut request, operation, &found, stream, port, peer).await;
    let gate = match admitted {
        Ok(admission) => access::Gate::new(admission),
        Err(refusal) => return *refusal,
    };
    if !takes_events(request.headers()) {
        counts.method.add(1);
        let why = "this topic is a stream of events: send 'Accept: text/event-stream'";
        return refused(StatusCode::NOT_ACCEPTABLE, why);
    }
    if *request.method() == Method::HEAD {
        let mut answer = empty(StatusCode::OK);
        head(answer.headers_mut());
        return answer;
    }
    let from = from(&request);
    let every = found.served.api.heartbeat;
    if let Binding::Backend { url, upstream, .. } = &topic.binding {
        let url = backend::filled(url, topic.parameters(), &found.values);
        match upstream {
            Upstream::Each => {
                let url = backend::asked(url, request.uri().query());
                return backend::events(&request, (&url, &from), gate, &found, port, peer).await;
            }
            Upstream::Shared => shared::ensure(&port.gateway, state, &found.values, url),
        }
    }
    let Ok(ring) = state.ring(Protocol::Sse, &found.values) else {
        counts.busy.add(1);
        return busy("too many addresses of this topic are listened to");
    };
    let reader = Reader::new(&ring, &from);
    let events = Events::new(&port.gateway, reader, gate, peer, every, &state.name);
    let mut answer = Response::new(Body::Events(Box::new(events)));
    head(answer.headers_mut());
    answer
}

pub(super) fn head(into: &mut HeaderMap) {
    into.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    into.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let name = HeaderName::from_static("x-accel-buffering");
    into.insert(name, HeaderValue::from_static("no"));
}

/// May the answer be a stream of events?
fn takes_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().peekable();
    if accepted.peek().is_none() {
        return true;
    }
    let kinds = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut kinds = kinds.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kinds.any(|kind| {
        ["text/event-stream", "text/*", "*/*"]
            .iter()
            .any(|own| kind.eq_ignore_ascii_case(own))
    })
}

/// Where the client goes on: what the header says wins over what the query says, which is for browsers, whose first
/// request cannot have the header.
fn from(request: &Request<Incoming>) -> From {
    let header = request.headers().get(LAST_ID);
    let header = header.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    let id = header.or_else(|| parameter(request.uri().query()?, "last-event-id"));
    match id.filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX) {
        Some(id) => From::After(id),
        None => From::Now,
    }
}

/// The first value of a parameter, decoded.
pub(super) fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_it = connect::url::decode(key).eq_ignore_ascii_case(name);
        is_it.then(|| connect::url::decode(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_for_who_takes_one() {
        let takes = |accept: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in accept {
                headers.append(ACCEPT, value.parse().expect("it is a header"));
            }
            takes_events(&headers)
        };
        assert!(takes(&[]) && takes(&["*/*"]) && takes(&["text/event-stream"]));
        assert!(takes(&["application/json", "TEXT/event-stream;q=0.5"]) && takes(&["a/b, text/*"]));
        assert!(!takes(&["application/json"]) && !takes(&["text/html"]));
    }

    // rules: E15
    #[test]
    fn the_query_may_name_the_last_event() {
        assert_eq!(
            parameter("a=1&Last-Event-ID=x%2D1", "last-event-id").as_deref(),
            Some("x-1")
        );
        assert_eq!(parameter("a=1", "last-event-id"), None);
    }
}
